package scalar

import (
	"fmt"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
)

// String returns id in infix notation, for diagnostics. A symbol is i and its
// value id, followed by .d and the axis if it is an extent.
func (t *Table) String(id ID) string {
	return t.Format(id, func(s ID) string {
		tag := t.Tag(s)
		if tag.Dim >= 0 {
			return fmt.Sprintf("i%d.d%d", tag.Val, tag.Dim)
		}
		return fmt.Sprintf("i%d", tag.Val)
	}, func(op Op) string { return "op" + strconv.Itoa(int(op)) })
}

// Format is String with name called for each symbol, as it was declared, and
// opaque for each operation that this package does not know. Parts of an
// expression that is too deep or too long to read are written "...".
//
// "/" is FloorDiv and "%" is Mod; every other division is written by name.
func (t *Table) Format(id ID, name func(symbol ID) string, opaque func(Op) string) string {
	p := printer{t: t, name: name, opaque: opaque}
	p.print(id, 0)
	return p.text.String()
}

const (
	maxTextDepth = 32
	maxText      = 2000 // bytes, about
)

// Binding strengths of the infix operators.
const (
	strengthCompare = iota + 1
	strengthAdd
	strengthMul
	strengthUnary
)

type printer struct {
	t      *Table
	name   func(ID) string
	opaque func(Op) string
	text   strings.Builder
	depth  int
}

var functionNames = map[Op]string{
	TruncDiv: "truncDiv", Rem: "rem", Min: "min", Max: "max", Xor: "xor", Select: "select",
}

// print writes id, in parentheses if its operator binds less than strength.
func (p *printer) print(id ID, strength int) {
	if p.depth >= maxTextDepth || p.text.Len() > maxText {
		p.text.WriteString("...")
		return
	}
	p.depth++
	defer func() { p.depth-- }()
	t := p.t
	switch op := t.Op(id); op {
	case Const:
		v, _ := t.ConstValue(id)
		p.text.WriteString(v.String())
	case Symbol:
		p.text.WriteString(p.name(t.Declared(id)))
	case Add:
		if t.beyond(id) {
			p.group(strength, strengthAdd, func() { p.infix(" + ", strengthAdd, t.Args(id)) })
			return
		}
		p.group(strength, strengthAdd, func() { p.sum(id) })
	case Mul:
		p.group(strength, strengthMul, func() { p.infix("*", strengthMul, t.Args(id)) })
	case FloorDiv:
		if n, d, ok := t.asCeilDiv(id); ok {
			p.call("ceilDiv", []ID{n, d})
			return
		}
		p.group(strength, strengthMul, func() { p.infix(" / ", strengthMul, t.Args(id)) })
	case Mod:
		p.group(strength, strengthMul, func() { p.infix(" % ", strengthMul, t.Args(id)) })
	case Lt:
		p.group(strength, strengthCompare, func() { p.infix(" < ", strengthCompare, t.Args(id)) })
	case Le:
		p.group(strength, strengthCompare, func() { p.infix(" <= ", strengthCompare, t.Args(id)) })
	case Eq:
		p.group(strength, strengthCompare, func() { p.infix(" == ", strengthCompare, t.Args(id)) })
	default:
		function, ok := functionNames[op]
		if !ok {
			function = p.opaque(op)
		}
		p.call(function, t.Args(id))
	}
}

func (p *printer) group(outer, inner int, body func()) {
	if inner < outer {
		p.text.WriteByte('(')
		defer p.text.WriteByte(')')
	}
	body()
}

// infix writes args around operator. Operands other than the first must bind
// tighter, as subtraction and division are not associative.
func (p *printer) infix(operator string, strength int, args []ID) {
	for i, a := range args {
		if i > 0 {
			p.text.WriteString(operator)
			p.print(a, strength+1)
			continue
		}
		p.print(a, strength)
	}
}

// sum writes a sum, with negative terms subtracted.
func (p *printer) sum(id ID) {
	s := p.t.sumOf(id)
	for i, x := range s.terms {
		p.sign(i, x.coef < 0)
		magnitude := uint64(x.coef)
		if x.coef < 0 {
			magnitude = -magnitude
		}
		p.print(x.product, strengthMul)
		if magnitude != 1 {
			p.text.WriteString("*" + strconv.FormatUint(magnitude, 10))
		}
	}
	if s.constant != 0 {
		p.sign(len(s.terms), s.constant < 0)
		magnitude := uint64(s.constant)
		if s.constant < 0 {
			magnitude = -magnitude
		}
		p.text.WriteString(strconv.FormatUint(magnitude, 10))
	}
}

func (p *printer) sign(i int, negative bool) {
	switch {
	case i == 0 && negative:
		p.text.WriteString("-")
	case i > 0 && negative:
		p.text.WriteString(" - ")
	case i > 0:
		p.text.WriteString(" + ")
	}
}

func (p *printer) call(function string, args []ID) {
	p.text.WriteString(function + "(")
	for i, a := range args {
		if i > 0 {
			p.text.WriteString(", ")
		}
		p.print(a, 0)
	}
	p.text.WriteString(")")
}

// asCeilDiv returns n and d if id is (n + d-1) / d, d a constant, and n an
// expression that the table holds.
func (t *Table) asCeilDiv(id ID) (ID, ID, bool) {
	args := t.Args(id)
	d, ok := t.ConstInt(args[1])
	if !ok || d < 2 || t.Op(args[0]) != Add {
		return None, None, false
	}
	terms := t.Args(args[0])
	if n, ok := t.ConstInt(terms[len(terms)-1]); !ok || n != d-1 || len(terms) != 2 {
		return None, None, false
	}
	return terms[0], args[1], true
}

// String returns v for diagnostics.
func (v Value) String() string {
	switch v.Type.Class() {
	case dtype.ClassBool:
		if v.I != 0 {
			return "true"
		}
		return "false"
	case dtype.ClassUInt:
		return strconv.FormatUint(uint64(v.I), 10)
	case dtype.ClassFloat:
		return strconv.FormatFloat(v.Re, 'g', -1, 64)
	case dtype.ClassComplex:
		return fmt.Sprintf("(%g%+gj)", v.Re, v.Im)
	}
	return strconv.FormatInt(v.I, 10)
}
