package cuda

import (
	"slices"

	"nvfuser_go/codegen/kir"
)

// Functions that look up tables at what they make of an operand, or loop until they have
// made something of it.
//
// Threads beyond the end of a tensor compute as well: what they have is stored nowhere. But
// where nothing was loaded a register is undefined in C++, which is worse than any number:
// each use of it may see another one. So sin of a double once read its table of the digits
// of 2/pi at index 0xfc00001f and ended the process with an illegal address, one time in
// six on an H200. Kernels with such functions have zeros in registers before they load.
var needDefined = []string{
	"sin", "sinf", "cos", "cosf", "tan", "tanf", // the slow path for large arguments
	"fmod", "fmodf", "floorMod", "nextafter", "nextafterf",
	"pow", "powf", "intPow", "gcd",
	"lgamma", "lgammaf",
}

// needsDefined says whether a kernel calls such a function. All of complex numbers are
// built on them.
func (p *printer) needsDefined() bool {
	for i := range p.k.Values {
		v := &p.k.Values[i]
		if v.Kind != kir.Operation {
			continue
		}
		t := p.template(v)
		if t == nil {
			continue
		}
		for _, a := range v.Args {
			if p.k.Values[a].DType.IsComplex() && len(t.calls) > 0 {
				return true
			}
		}
		if slices.ContainsFunc(t.calls, func(f string) bool { return slices.Contains(needDefined, f) }) {
			return true
		}
	}
	return false
}
