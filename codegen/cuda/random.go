package cuda

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// precision is the number of random bits of a uniform number: see package
// philox.
var precision = map[dtype.Type]int{dtype.Float: 24, dtype.Half: 11, dtype.BFloat16: 8, dtype.Double: 53}

// random returns a random element as it lies in memory. With the parameters 0
// and 1, the arithmetic on them changes nothing.
func (p *printer) random(v *kir.Value) text {
	if v.Op == core.UniformBitsOp {
		return p.bits(v)
	}
	bits, ok := precision[v.DType]
	if !ok {
		p.unsupported("random numbers of %v", v.DType)
		return atom("0")
	}
	source := p.stream(v)
	standard := p.isNumber(v.Args[0], 0) && p.isNumber(v.Args[1], 1)
	var x text
	if v.Op == core.UniformOp {
		if x = p.unit(v.DType, bits, source); !standard {
			return p.between(v, x)
		}
		return p.toStored(v.DType, x)
	}
	if v.DType == dtype.Double {
		p.need("normal.double")
		x = atom("normalDouble(%s)", source)
	} else {
		p.need("normal")
		x = atom("normal(%s)", source)
	}
	if standard {
		return p.toStored(v.DType, x)
	}
	if v.DType.IsReducedFloat() {
		x = p.rounded(v.DType, x)
	}
	p.need("scaled")
	x = atom("scaled(%s, %s, %s)", p.value(v.Args[0]).code, x.code, p.value(v.Args[1]).code)
	if v.DType.IsReducedFloat() {
		return p.toStored(v.DType, p.roundable(v.DType, dtype.Double, x))
	}
	return p.convert(v.DType, dtype.Double, x)
}

// bits returns the lowest bits of a word, which a power of two bounds.
func (p *printer) bits(v *kir.Value) text {
	end := p.k.Values[v.Args[1]]
	count := math.Log2(end.Const.Re)
	if end.Kind != kir.Constant || !p.isNumber(v.Args[0], 0) || count != math.Trunc(count) || count < 0 || count > 31 {
		p.unsupported("random bits that are not those below a power of two")
		return atom("0")
	}
	p.need("uniformBits")
	return atom("uniformBits<%d>(%s)", int(count), p.stream(v))
}

// unit returns a uniform number of [0, 1).
func (p *printer) unit(t dtype.Type, bits int, source string) text {
	if t == dtype.Double {
		p.need("uniform.double")
		return atom("uniformDouble(%s)", source)
	}
	p.need("uniform")
	return atom("uniform<%d>(%s)", bits, source)
}

// between returns the uniform number x brought to the interval of v.
func (p *printer) between(v *kir.Value, x text) text {
	function, section := "uniformBetween", "uniformBetween.float"
	if v.DType.IsReducedFloat() {
		name := cppTypes[v.DType].stored
		function, section = function+name, "uniformBetween."+name
	}
	p.need(section)
	return atom("%s(%s, %s, %s)", function, p.value(v.Args[0]).code, p.value(v.Args[1]).code, x.code)
}

// stream returns the arguments that tell which number is drawn: the keys of the seed,
// the offset, the call of the generator, and which of the numbers that it gives.
func (p *printer) stream(v *kir.Value) string {
	call, which := p.draw(v)
	if v.Stream < 0 {
		return fmt.Sprintf("%s, %s, %s, %s", p.keys(p.value(v.Seed).code), p.value(v.Offset).code, call, which)
	}
	keys, offset := "", ""
	for i, a := range p.k.Arguments {
		switch a.Kind {
		case kir.RandomSeed:
			if keys = "p." + p.arguments[i]; p.o.RandomInMemory {
				keys = p.keys("__ldg(" + keys + ".seed)")
			}
		case kir.RandomOffset:
			offset = p.offset("p." + p.arguments[i])
		}
	}
	if keys == "" || offset == "" {
		p.unsupported("random numbers without arguments for the seed and the offset of the run")
	}
	if v.Stream > 0 {
		offset += fmt.Sprintf(" + %d", 4*v.Stream)
	}
	return fmt.Sprintf("%s, %s, %s, %s", keys, offset, call, which)
}

// keys returns those of a seed that is no argument.
func (p *printer) keys(seed string) string {
	p.need("philoxKeys")
	return "philoxKeys(" + seed + ")"
}

// draw returns the index of v divided by how many numbers a call of the generator
// gives, and the remainder. Terms that are multiples are divided apart, so that in
// an unrolled loop the calls of neighbours are seen to be one.
func (p *printer) draw(v *kir.Value) (call, which string) {
	each, shift := int64(4), "2"
	if v.DType == dtype.Double {
		each, shift = 2, "1"
	}
	t := p.k.Scalars
	terms := []scalar.ID{v.Index}
	if _, isNamed := p.hoisted[v.Index]; !isNamed && t.Op(v.Index) == scalar.Add {
		terms = t.Args(v.Index)
	}
	var multiples, rest []scalar.ID
	for _, x := range terms {
		if f := t.Facts(x); f.Lo >= 0 && f.Divisor%each == 0 {
			multiples = append(multiples, x)
		} else {
			rest = append(rest, x)
		}
	}
	if len(multiples) == 0 || slices.ContainsFunc(rest, func(x scalar.ID) bool { return t.Facts(x).Lo < 0 }) {
		multiples, rest = nil, terms
	}
	var calls []string
	which = "0"
	for _, part := range [][]scalar.ID{multiples, rest} {
		if len(part) > 0 {
			calls = append(calls, fmt.Sprintf("(%s >> %s)", p.sum(part).within(levelAtom), shift))
		}
	}
	if len(rest) > 0 {
		which = fmt.Sprintf("%s & %d", p.sum(rest).within(levelAtom), each-1)
	}
	call = strings.Join(calls, " + ")
	if t.Facts(v.Index).Lo >= 0 && !p.wide(v.Index) { // the upper half is seen to be 0, and half of two rounds to be one for all threads
		call = "(unsigned)(" + call + ")"
	}
	return call, which
}

// offset returns the offset of the run, which an argument has or is the address of.
func (p *printer) offset(argument string) string {
	switch {
	case !p.o.RandomInMemory:
		return argument
	case p.o.Drawn > 0:
		return fmt.Sprintf("(__ldg(%s) + %d)", argument, p.o.Drawn)
	}
	return "__ldg(" + argument + ")"
}

func (p *printer) isNumber(id kir.ValueID, x float64) bool {
	v := &p.k.Values[id]
	return v.Kind == kir.Constant && v.Const.Re == x
}
