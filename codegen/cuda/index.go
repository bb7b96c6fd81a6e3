package cuda

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// index returns an index expression or a condition.
func (p *printer) index(id scalar.ID) text {
	if name, ok := p.hoisted[id]; ok {
		return text{code: name, level: levelAtom, simple: true}
	}
	t := p.k.Scalars
	args := t.Args(id)
	switch op := t.Op(id); op {
	case scalar.Const:
		v, _ := t.ConstValue(id)
		if v.Type.IsBool() {
			return text{code: literal(v), level: levelAtom, simple: true}
		}
		return indexNumber(v.I)
	case scalar.Symbol:
		return p.symbol(kir.SymbolID(t.Tag(id).Val))
	case scalar.Add:
		return p.sum(args)
	case scalar.Mul:
		return p.infix("*", args)
	case scalar.FloorDiv, scalar.Mod:
		return p.division(op, args)
	case scalar.TruncDiv:
		return p.infix("/", args)
	case scalar.Rem:
		return p.infix("%", args)
	case scalar.Xor:
		return p.infix("^", args)
	case scalar.Min:
		return p.extremum("min", args)
	case scalar.Max:
		return p.extremum("max", args)
	case scalar.Lt:
		return p.infix("<", args)
	case scalar.Le:
		return p.infix("<=", args)
	case scalar.Eq:
		return p.infix("==", args)
	case scalar.Select:
		return p.choice(args)
	default:
		p.unsupported("an index expression with an operation that is not one of the integers: %s", p.k.Expr(id))
		return atom("0")
	}
}

// indexNumber returns a constant, which C++ takes for an int where it fits.
func indexNumber(n int64) text {
	t := text{code: strconv.FormatInt(n, 10), level: levelAtom, simple: true}
	if int64(int32(n)) != n || n == math.MinInt32 {
		t.code = integerLiteral(n, dtype.Int)
	}
	if t.code[0] == '-' {
		t.level = levelUnary
	}
	return t
}

func (p *printer) infix(operator string, args []scalar.ID) text {
	r := p.index(args[0])
	for _, a := range args[1:] {
		r = binary(operator, r, p.index(a))
	}
	return r
}

// sum writes terms with a negative coefficient as differences, behind one that
// has none if there is one, and in place of several terms the name of their sum.
func (p *printer) sum(args []scalar.ID) text {
	if part, ok := p.named(args); ok {
		rest := []scalar.ID{part}
		for _, a := range args {
			if !slices.Contains(p.k.Scalars.Args(part), a) {
				rest = append(rest, a)
			}
		}
		args = rest
	}
	first := 0
	for i, a := range args {
		if _, negative := p.negated(a); !negative {
			first = i
			break
		}
	}
	r := p.index(args[first])
	for i, a := range args {
		if i == first {
			continue
		}
		if positive, negative := p.negated(a); negative {
			r = binary("-", r, positive)
			continue
		}
		r = binary("+", r, p.index(a))
	}
	return r
}

// named returns the sum of most of the terms that has a name here.
func (p *printer) named(terms []scalar.ID) (sum scalar.ID, ok bool) {
	most := 1
	for _, a := range terms {
		for _, s := range p.sums[a] {
			of := p.k.Scalars.Args(s)
			if len(of) > most && !slices.ContainsFunc(of, func(x scalar.ID) bool { return !slices.Contains(terms, x) }) {
				sum, ok, most = s, true, len(of)
			}
		}
	}
	return sum, ok
}

// fromBase divides the terms of an index of 32 bits in global memory into those that
// are the same in loops and those that are added there. Between two additions of
// integers and one of addresses a compiler cannot choose: it would add the constants
// of loops that are written out to integers, in an instruction each, where
// instructions that access memory add them for nothing.
func (p *printer) fromBase(a *kir.Access) (base, offset []scalar.ID) {
	t := p.k.Scalars
	if p.k.Buffers[a.Buffer].Space != kir.Global || t.Op(a.Index) != scalar.Add || p.wide(a.Index) {
		return nil, nil
	}
	part, isNamed := p.named(t.Args(a.Index))
	isNamed = isNamed && part != a.Index
	varies := false
	for _, x := range t.Args(a.Index) {
		inLoop, isUnrolled := false, true
		t.Symbols(x, func(s scalar.ID) {
			inLoop = inLoop || p.k.Symbols[t.Tag(s).Val].Kind == kir.LoopIndex
			isUnrolled = isUnrolled && p.unrolled[kir.SymbolID(t.Tag(s).Val)]
		})
		switch {
		case isNamed && slices.Contains(t.Args(part), x) && !(isUnrolled && p.isMultiple(x)), !isNamed && !inLoop && t.Op(x) != scalar.Const:
			base = append(base, x)
		case !p.isMultiple(x):
			return nil, nil
		default:
			offset, varies = append(offset, x), varies || inLoop
		}
	}
	if len(base) == 0 || !varies {
		return nil, nil
	}
	return base, offset
}

// isMultiple reports whether x is a constant or one of the index of a loop.
func (p *printer) isMultiple(x scalar.ID) bool {
	t := p.k.Scalars
	if t.Op(x) == scalar.Mul {
		args := t.Args(x)
		return len(args) == 2 && p.isMultiple(args[0]) && p.isMultiple(args[1])
	}
	return t.Op(x) == scalar.Const || t.Op(x) == scalar.Symbol && p.k.Symbols[t.Tag(x).Val].Kind == kir.LoopIndex
}

// giveName gives an expression a name until [printer.forget].
func (p *printer) giveName(id scalar.ID, name string) {
	p.inScope = append(p.inScope, id)
	p.hoisted[id] = name
	if p.k.Scalars.Op(id) == scalar.Add {
		first := p.k.Scalars.Args(id)[0]
		p.sums[first] = append(p.sums[first], id)
	}
}

// forget ends the names that were given after the first n.
func (p *printer) forget(n int) {
	for _, id := range p.inScope[n:] {
		delete(p.hoisted, id)
		if p.k.Scalars.Op(id) == scalar.Add {
			first := p.k.Scalars.Args(id)[0]
			p.sums[first] = p.sums[first][:len(p.sums[first])-1]
		}
	}
	p.inScope = p.inScope[:n]
}

// negated returns -id if id is a constant or a multiple with a negative factor.
func (p *printer) negated(id scalar.ID) (text, bool) {
	t := p.k.Scalars
	if _, ok := p.hoisted[id]; ok {
		return text{}, false
	}
	if n, ok := t.ConstInt(id); ok {
		return indexNumber(-n), n < 0 && n != math.MinInt64
	}
	if t.Op(id) != scalar.Mul {
		return text{}, false
	}
	args := t.Args(id)
	n, ok := t.ConstInt(args[len(args)-1])
	if !ok || n >= 0 || n == math.MinInt64 {
		return text{}, false
	}
	r := p.infix("*", args[:len(args)-1])
	if n != -1 {
		r = binary("*", r, indexNumber(-n))
	}
	return r, true
}

// division writes a division rounded down. C++ rounds to zero, which is the
// same where neither operand is negative.
func (p *printer) division(op scalar.Op, args []scalar.ID) text {
	t := p.k.Scalars
	if name, ok := p.dividers[args[1]]; ok && t.Facts(args[0]).Lo >= 0 && !p.wide(args...) {
		x := p.index(args[0]).code
		if op == scalar.FloorDiv {
			p.need("fastDiv")
			return atom("fastDiv(%s, %s)", x, name)
		}
		p.need("fastMod")
		divisor := p.index(args[1]).code
		if large, small := p.apart(args[0], t.Facts(args[1]).Lo); len(small) > 0 {
			p.need("wrapped")
			return atom("wrapped(fastMod(%s, %s, %s) + %s, %s)", p.sum(large).code, name, divisor, p.sum(small).within(operatorLevels["+"]+1), divisor)
		}
		return atom("fastMod(%s, %s, %s)", x, name, divisor)
	}
	if t.Facts(args[0]).Lo >= 0 && t.Facts(args[1]).Lo >= 0 {
		if op == scalar.FloorDiv {
			return p.infix("/", args)
		}
		return p.infix("%", args)
	}
	if n, isConst := t.ConstInt(args[1]); isConst && bits.OnesCount64(uint64(n)) == 1 && n > 0 { // bits round down below 0 too
		x := p.index(args[0])
		if op == scalar.FloorDiv {
			return text{code: fmt.Sprintf("%s >> %d", x.within(levelMul), bits.TrailingZeros64(uint64(n))), level: levelShift}
		}
		return text{code: fmt.Sprintf("%s & %d", x.within(levelMul), n-1), level: levelBitAnd}
	}
	if op == scalar.FloorDiv {
		p.need("floorDiv")
		return p.call("floorDiv", args)
	}
	p.need("integer.floorMod")
	return p.call("floorMod", args)
}

// apart divides the terms of a sum into small ones, that come to less than limit
// together, and the others, unless some may be negative or there is one kind alone.
// Neighbours in an unrolled loop then share the remainder of the large terms.
func (p *printer) apart(id scalar.ID, limit int64) (large, small []scalar.ID) {
	t := p.k.Scalars
	if t.Op(id) != scalar.Add {
		return nil, nil
	}
	sum := int64(0)
	for _, x := range t.Args(id) {
		switch f := t.Facts(x); {
		case f.Lo < 0:
			return nil, nil
		case f.Hi < limit-sum:
			sum += f.Hi
			small = append(small, x)
		default:
			large = append(large, x)
		}
	}
	if len(large) == 0 {
		return nil, nil
	}
	return large, small
}

// call writes a function of index expressions, which wants them of one type.
func (p *printer) call(function string, args []scalar.ID) text {
	wide := p.wide(args...)
	return atom("%s(%s, %s)", function, p.argument(args[0], wide), p.argument(args[1], wide))
}

func (p *printer) extremum(function string, args []scalar.ID) text {
	wide := p.wide(args...)
	code := p.argument(args[0], wide)
	for _, a := range args[1:] {
		code = function + "(" + code + ", " + p.argument(a, wide) + ")"
	}
	return atom("%s", code)
}

func (p *printer) argument(id scalar.ID, wide bool) string {
	if n, ok := p.k.Scalars.ConstInt(id); ok {
		if wide {
			return integerLiteral(n, dtype.Int)
		}
		return integerLiteral(n, dtype.Int32)
	}
	x := p.index(id)
	if wide && !p.wide(id) {
		x = cast("long long", x)
	}
	return x.code
}

// wide reports whether C++ computes one of the expressions in 64 bits. In a
// kernel with 32-bit indices, those are the ones that read an element of 64 bits:
// it may be any number.
func (p *printer) wide(ids ...scalar.ID) bool {
	t := p.k.Scalars
	for _, id := range ids {
		if t.Type(id).IsBool() {
			continue
		}
		wide, known := p.wideExprs[id]
		if !known {
			if n, ok := t.ConstInt(id); ok {
				wide = int64(int32(n)) != n
			} else if t.Op(id) == scalar.Symbol {
				wide = p.k.Index != dtype.Int32 || p.wideSymbols[t.Tag(id).Val]
			} else {
				wide = p.wide(t.Args(id)...)
			}
			p.wideExprs[id] = wide
		}
		if wide {
			return true
		}
	}
	return false
}

// numberType is the C++ type of index expressions, and of a variable that is
// compared with them.
func (p *printer) numberType(ids ...scalar.ID) string {
	if p.wide(ids...) {
		return "long long"
	}
	return "int"
}

// choice writes a Select, of Bools as a logical operator where it is one.
func (p *printer) choice(args []scalar.ID) text {
	t := p.k.Scalars
	is := func(id scalar.ID, value int64) bool {
		n, ok := t.ConstInt(id)
		return ok && n == value
	}
	if t.Type(args[1]).IsBool() {
		switch c := p.index(args[0]); {
		case is(args[1], 0) && is(args[2], 1):
			return text{code: "!" + c.within(levelUnary), level: levelUnary}
		case is(args[2], 0):
			return p.chain("&&", c, args[1])
		case is(args[1], 1):
			return p.chain("||", c, args[2])
		}
	}
	return text{
		code:  p.index(args[0]).within(levelTernary+1) + " ? " + p.index(args[1]).within(levelTernary+1) + " : " + p.index(args[2]).within(levelTernary),
		level: levelTernary,
	}
}

// chain writes a && (b && c) without parentheses, and || likewise. In other
// mixtures of the two, the operands have them for the reader.
func (p *printer) chain(operator string, a text, second scalar.ID) text {
	b, level := p.index(second), operatorLevels[operator]
	clear := func(x text) string {
		if x.level != level && (x.level == levelAnd || x.level == levelOr) {
			return "(" + x.code + ")"
		}
		return x.within(level)
	}
	return text{code: clear(a) + " " + operator + " " + clear(b), level: level}
}
