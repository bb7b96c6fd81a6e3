package cuda

import (
	"fmt"
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

// stream returns the arguments that tell which number is drawn: seed, offset,
// the call of the generator, and which of the numbers that it gives.
func (p *printer) stream(v *kir.Value) string {
	call, which := p.draw(v)
	if v.Stream < 0 {
		return fmt.Sprintf("%s, %s, %s, %s", p.value(v.Seed).code, p.value(v.Offset).code, call, which)
	}
	seed, offset := "", ""
	for i, a := range p.k.Arguments {
		switch a.Kind {
		case kir.RandomSeed:
			seed = p.randomState(i)
		case kir.RandomOffset:
			offset = p.randomState(i)
		}
	}
	if seed == "" || offset == "" {
		p.unsupported("random numbers without arguments for the seed and the offset of the run")
	}
	if v.Stream > 0 {
		offset += fmt.Sprintf(" + %d", 4*v.Stream)
	}
	return fmt.Sprintf("%s, %s, %s, %s", seed, offset, call, which)
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

// randomState returns what argument i, the seed or the offset, tells.
func (p *printer) randomState(i int) string {
	if p.o.RandomInMemory {
		if p.o.Drawn > 0 && p.k.Arguments[i].Kind == kir.RandomOffset {
			return fmt.Sprintf("(__ldg(p.%s) + %d)", p.arguments[i], p.o.Drawn)
		}
		return "__ldg(p." + p.arguments[i] + ")"
	}
	return "p." + p.arguments[i]
}

func (p *printer) isNumber(id kir.ValueID, x float64) bool {
	v := &p.k.Values[id]
	return v.Kind == kir.Constant && v.Const.Re == x
}
