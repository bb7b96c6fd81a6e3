package core

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// The text form, by example:
//
//	%0 = tensor f32 [-1, 4] contiguity=[yes, yes]
//	%1 = tensor bf16 [1, 4] contiguity=[none, yes] stride_order=[0, 1]
//	$0 = scalar f64
//	%2 = cast %1 dtype=f32
//	$1 = i.add %0.0, 1 : index
//	%3 = add %0, %2
//	%4 = mul %3, 0.5:f64
//	%5 = sum %4 dims=[1] keepdim=false dtype=f32
//	output %5
//	output %4 alias %0
//
// Tensors are %n and scalars $n, numbered in order of appearance: the inputs,
// then the expressions that the outputs need in the order of [Fusion.Order],
// each after the scalars that it is the first to use. %n.d is the extent of
// dimension d of input %n; index($n) is an i64 input where an index is wanted.
// A bare integer is of dtype index; other literals name their dtype. Operands come first, then the other arguments by name.
// Unused expressions are not printed, so they do not count in comparisons.

// scalarNames are the operations of the scalar algebra in the text form.
var scalarNames = map[scalar.Op]string{
	scalar.Add: "i.add", scalar.Mul: "i.mul", scalar.FloorDiv: "i.floordiv", scalar.Mod: "i.mod",
	scalar.TruncDiv: "i.truncdiv", scalar.Rem: "i.rem", scalar.Min: "i.min", scalar.Max: "i.max",
	scalar.Lt: "i.lt", scalar.Le: "i.le", scalar.Eq: "i.eq", scalar.Select: "i.select",
}

// String returns the text form of f; see the comment above.
func (f *Fusion) String() string { return f.printed().b.String() }

// ParsedNames returns the names, as [Fusion.Name] gives them, that the tensors of
// the text form have in a fusion that is parsed from it.
func (f *Fusion) ParsedNames() map[ValID]string {
	names := map[ValID]string{}
	for v, n := range f.printed().tensors {
		if n >= 0 {
			names[ValID(v)] = fmt.Sprintf("tv%d", n)
		}
	}
	return names
}

func (f *Fusion) printed() *textPrinter {
	p := newTextPrinter(f)
	for _, v := range f.inputs {
		p.input(v)
	}
	for _, id := range f.Order() {
		p.expr(&f.exprs[id])
	}
	for _, o := range f.outputs {
		p.text("output ")
		p.tensor(o.Val)
		if o.Alias != NoVal {
			p.text(" alias ")
			p.tensor(o.Alias)
		}
		p.text("\n")
	}
	return p
}

type textPrinter struct {
	f       *Fusion
	b       strings.Builder
	tensors []int // number of a tensor by ValID, -1: not named yet
	named   int
	scalars map[scalar.ID]int
	hashes  map[scalar.ID]uint64
}

func newTextPrinter(f *Fusion) *textPrinter {
	p := &textPrinter{f: f, tensors: make([]int, len(f.vals)), scalars: map[scalar.ID]int{}, hashes: map[scalar.ID]uint64{}}
	for i := range p.tensors {
		p.tensors[i] = -1
	}
	return p
}

func (p *textPrinter) text(s string)  { p.b.WriteString(s) }
func (p *textPrinter) number(n int64) { p.b.WriteString(strconv.FormatInt(n, 10)) }
func (p *textPrinter) tensor(v ValID) {
	if p.tensors[v] < 0 {
		p.tensors[v] = p.named
		p.named++
	}
	p.text("%")
	p.number(int64(p.tensors[v]))
}

func (p *textPrinter) input(v ValID) {
	x := &p.f.vals[v]
	if !x.Tensor {
		p.scalars[x.Scalar] = len(p.scalars)
		p.text("$")
		p.number(int64(p.scalars[x.Scalar]))
		p.text(" = scalar " + x.DType.Text() + "\n")
		return
	}
	p.tensor(v)
	d := p.f.Describe(v)
	p.text(" = tensor " + x.DType.Text() + " ")
	list(p, d.Shape, p.number)
	p.text(" contiguity=")
	list(p, d.Contiguity, func(t Tri) { p.text([...]string{"none", "no", "yes"}[t]) })
	if d.StrideOrder != nil {
		p.text(" stride_order=")
		list(p, d.StrideOrder, p.number)
	}
	if d.CPU {
		p.text(" cpu")
	}
	p.text("\n")
}

func list[T any](p *textPrinter, xs []T, print func(T)) {
	p.text("[")
	for i, x := range xs {
		if i > 0 {
			p.text(", ")
		}
		print(x)
	}
	p.text("]")
}

func (p *textPrinter) expr(e *Expr) {
	for i := range e.Args {
		p.defineScalars(e.Args[i])
	}
	for k, v := range e.Out {
		if k > 0 {
			p.text(", ")
		}
		p.tensor(v)
	}
	p.text(" = " + e.Op.Name)
	isOperand := func(k ParamKind) bool { return k == Operand || k == TensorIn || k == TensorsIn }
	separator := " "
	for i, param := range e.Op.Params() { // operands come first, wherever their parameters are
		if isOperand(param.Kind) {
			p.text(separator)
			separator = ", "
			p.arg(e.Args[i])
		}
	}
	for i, param := range e.Op.Params() {
		if !isOperand(param.Kind) && e.Args[i].Kind != NoArg {
			p.text(" " + param.Name + "=")
			p.arg(e.Args[i])
		}
	}
	p.text("\n")
}

func (p *textPrinter) arg(a Arg) {
	switch a.Kind {
	case NoArg:
		p.text("none")
	case TensorArg:
		p.tensor(a.Tensor)
	case ScalarArg:
		p.scalar(a.Scalar)
	case IntArg:
		p.number(a.Int)
	case BoolArg:
		p.text(strconv.FormatBool(a.Int != 0))
	case DTypeArg:
		p.text(a.DType().Text())
	case TensorsArg:
		list(p, a.Tensors, p.tensor)
	case ScalarsArg:
		list(p, a.Scalars, p.scalar)
	case IntsArg:
		list(p, a.Ints, p.number)
	case BoolsArg:
		list(p, a.Ints, func(n int64) { p.text(strconv.FormatBool(n != 0)) })
	}
}

func (p *textPrinter) defineScalars(a Arg) {
	switch a.Kind {
	case ScalarArg:
		p.defineScalar(a.Scalar)
	case ScalarsArg:
		for _, s := range a.Scalars {
			p.defineScalar(s)
		}
	}
}

// inline reports whether s is printed where it is used.
func (f *Fusion) inline(s scalar.ID) bool {
	return f.scalars.Op(s) == scalar.Const || f.scalars.Op(s) == scalar.Symbol
}

// eachScalar calls yield for s and the scalars that it is made of and that are
// not inline or done already, operands first, in the order that operands gives
// them. It keeps its own stack.
func (f *Fusion) eachScalar(s scalar.ID, operands func(scalar.ID) []scalar.ID, done func(scalar.ID) bool, yield func(scalar.ID)) {
	if f.inline(s) || done(s) {
		return
	}
	type frame struct {
		id   scalar.ID
		args []scalar.ID
	}
	stack := []frame{{s, operands(s)}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.args) == 0 {
			if !done(top.id) {
				yield(top.id)
			}
			stack = stack[:len(stack)-1]
			continue
		}
		a := top.args[0]
		top.args = top.args[1:]
		if !f.inline(a) && !done(a) {
			stack = append(stack, frame{a, operands(a)})
		}
	}
}

// operands returns the operands of s in an order that does not depend on ids:
// the algebra sorts those of commutative operations by id, which is history.
func (p *textPrinter) operands(s scalar.ID) []scalar.ID {
	args := p.f.scalars.Args(s)
	switch p.f.scalars.Op(s) {
	case scalar.Add, scalar.Mul, scalar.Min, scalar.Max, scalar.Eq:
		args = slices.Clone(args)
		slices.SortStableFunc(args, func(a, b scalar.ID) int { return cmp.Compare(p.hash(a), p.hash(b)) })
	}
	return args
}

// hash is of the structure of s: equal for equal expressions of two fusions.
func (p *textPrinter) hash(s scalar.ID) uint64 {
	done := func(s scalar.ID) bool { _, ok := p.hashes[s]; return ok }
	one := func(s scalar.ID) {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d ", scalarOpName(p.f.scalars.Op(s)), p.f.scalars.Type(s))
		if c, ok := p.f.scalars.ConstValue(s); ok {
			fmt.Fprint(h, literal(c))
		} else if p.f.scalars.Op(s) == scalar.Symbol {
			tag := p.f.scalars.Tag(s)
			fmt.Fprint(h, slices.Index(p.f.inputs, ValID(tag.Val)), tag.Dim)
		}
		var parts []uint64
		for _, a := range p.f.scalars.Args(s) {
			parts = append(parts, p.hashes[a])
		}
		switch p.f.scalars.Op(s) {
		case scalar.Add, scalar.Mul, scalar.Min, scalar.Max, scalar.Eq:
			slices.Sort(parts)
		}
		fmt.Fprint(h, parts)
		p.hashes[s] = h.Sum64()
	}
	p.f.eachScalar(s, func(s scalar.ID) []scalar.ID {
		for _, a := range p.f.scalars.Args(s) {
			if p.f.inline(a) && !done(a) {
				one(a)
			}
		}
		return p.f.scalars.Args(s)
	}, done, one)
	if !done(s) { // inline itself
		one(s)
	}
	return p.hashes[s]
}

func (p *textPrinter) defineScalar(s scalar.ID) {
	done := func(s scalar.ID) bool { _, ok := p.scalars[s]; return ok }
	p.f.eachScalar(s, p.operands, done, func(s scalar.ID) {
		n := len(p.scalars)
		p.text("$")
		p.number(int64(n))
		p.text(" = " + scalarOpName(p.f.scalars.Op(s)) + " ")
		for i, a := range p.operands(s) {
			if i > 0 {
				p.text(", ")
			}
			p.scalar(a)
		}
		p.text(" : " + p.f.scalars.Type(s).Text() + "\n")
		p.scalars[s] = n
	})
}

func scalarOpName(op scalar.Op) string {
	if op >= scalar.FirstOpaque {
		return table[op-scalar.FirstOpaque].Name
	}
	return scalarNames[op] // of a constant and a symbol: empty
}

func (p *textPrinter) scalar(s scalar.ID) {
	if c, ok := p.f.scalars.ConstValue(s); ok {
		p.text(literal(c))
		return
	}
	if p.f.scalars.Op(s) == scalar.Symbol {
		if tag := p.f.scalars.Tag(s); tag.Dim >= 0 {
			p.tensor(ValID(tag.Val))
			p.text(".")
			p.number(int64(tag.Dim))
			return
		}
		if d := p.f.scalars.Declared(s); d != s {
			p.text("index($")
			p.number(int64(p.scalars[d]))
			p.text(")")
			return
		}
	}
	p.text("$")
	p.number(int64(p.scalars[s]))
}

// literal prints a constant so that it parses back to the same bits (any NaN is
// printed as nan).
func literal(v scalar.Value) string {
	switch v.Type.Class() {
	case dtype.ClassBool:
		return strconv.FormatBool(v.I != 0)
	case dtype.ClassUInt:
		return strconv.FormatUint(uint64(v.I), 10) + ":" + v.Type.Text()
	case dtype.ClassInt:
		if v.Type == dtype.Index {
			return strconv.FormatInt(v.I, 10)
		}
		return strconv.FormatInt(v.I, 10) + ":" + v.Type.Text()
	case dtype.ClassComplex:
		return "(" + floatText(v.Re) + "," + floatText(v.Im) + "):" + v.Type.Text()
	}
	return floatText(v.Re) + ":" + v.Type.Text()
}

func floatText(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// Describe returns what define_tensor would be given for input v.
func (f *Fusion) Describe(v ValID) TensorDescription {
	x := &f.vals[v]
	d := TensorDescription{DType: x.DType, CPU: x.Domain.CPU, Contiguity: x.Domain.Contig}
	for _, a := range x.Domain.Logical {
		n := int64(-1)
		if c, ok := f.scalars.ConstInt(f.Size(a)); ok {
			n = c
		}
		d.Shape = append(d.Shape, n)
	}
	if x.Domain.Alloc != nil {
		d.StrideOrder = make([]int64, len(d.Shape))
		for k, a := range x.Domain.Alloc {
			for dim, b := range x.Domain.Logical {
				if a == b {
					d.StrideOrder[dim] = int64(len(d.Shape) - 1 - k)
				}
			}
		}
	}
	return d
}
