package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// PythonLiteral prints v as Python source that gives the same value: True, 3,
// 0.500000, float("nan"), (1+2j). Floats have six significant digits, as
// nvFuser prints them, or more where six do not give the value back.
func PythonLiteral(v scalar.Value) string {
	switch v.Type.Class() {
	case dtype.ClassBool:
		if v.I != 0 {
			return "True"
		}
		return "False"
	case dtype.ClassUInt:
		return strconv.FormatUint(uint64(v.I), 10)
	case dtype.ClassInt:
		return strconv.FormatInt(v.I, 10)
	case dtype.ClassComplex:
		return fmt.Sprintf("complex(%s, %s)", pythonFloat(v.Re), pythonFloat(v.Im))
	}
	return pythonFloat(v.Re)
}

func pythonFloat(x float64) string {
	switch {
	case math.IsNaN(x):
		return `float("nan")`
	case math.IsInf(x, 1):
		return `float("inf")`
	case math.IsInf(x, -1):
		return `float("-inf")`
	}
	s := sixDigits(x)
	if y, err := strconv.ParseFloat(s, 64); err == nil && y == x {
		return s
	}
	s = strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// sixDigits is C's %#.6g.
func sixDigits(x float64) string {
	exponent := 0
	if x != 0 {
		e := strconv.FormatFloat(x, 'e', 5, 64)
		exponent, _ = strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	}
	if exponent < -4 || exponent >= 6 {
		return strconv.FormatFloat(x, 'e', 5, 64)
	}
	s := strconv.FormatFloat(x, 'f', 5-exponent, 64)
	if !strings.Contains(s, ".") {
		s += "."
	}
	return s
}

// Python returns the source of a function called name that defines f once more:
// executed, it gives a fusion of the same text. Statements are in the order of
// [Fusion.Order], each after the scalars that it is the first to use; arguments
// that equal their default are left out.
//
// A tensor is called tvN and an input scalar cN by Val.Number. An extent of an
// input has a number reserved with the input; other scalars follow.
func (f *Fusion) Python(name string) string {
	p := &pythonPrinter{f: f, order: newTextPrinter(f), names: map[scalar.ID]string{}, next: f.numScalars}
	fmt.Fprintf(&p.b, "def %s(fd : FusionDefinition) -> None :\n", name)
	for _, v := range f.inputs {
		p.input(v)
	}
	for _, id := range f.Order() {
		p.expr(&f.exprs[id])
	}
	for _, o := range f.outputs {
		if o.Alias == NoVal {
			p.statement("fd.add_output(%s)", f.Name(o.Val))
		} else {
			p.statement("fd.add_output(%s, %s)", f.Name(o.Val), f.Name(o.Alias))
		}
	}
	if p.statements == 0 {
		p.statement("pass")
	}
	return p.b.String()
}

type pythonPrinter struct {
	f          *Fusion
	b          strings.Builder
	order      *textPrinter // for the order of operands
	names      map[scalar.ID]string
	next       int // number of the next scalar that has none
	statements int
}

func (p *pythonPrinter) statement(format string, args ...any) {
	p.statements++
	p.b.WriteString("    ")
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

// joined prints xs as a Python list.
func joined[T any](xs []T, show func(T) string) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = show(x)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func pythonInt(n int64) string { return strconv.FormatInt(n, 10) }

func pythonBool(n int64) string {
	if n != 0 {
		return "True"
	}
	return "False"
}

func (t Tri) python() string { return [...]string{"None", "False", "True"}[t] }

func (p *pythonPrinter) input(v ValID) {
	f, x := p.f, &p.f.vals[v]
	if !x.Tensor {
		p.names[x.Scalar] = f.Name(v)
		p.statement("%s = fd.define_scalar(None, dtype=DataType.%v)", f.Name(v), x.DType)
		return
	}
	d := f.Describe(v)
	order := ""
	if d.StrideOrder != nil {
		order = ", stride_order=" + joined(d.StrideOrder, pythonInt)
	}
	p.statement("%s = fd.define_tensor(shape=%s, contiguity=%s, dtype=DataType.%v, is_cpu=%s%s)", f.Name(v),
		joined(d.Shape, pythonInt), joined(d.Contiguity, Tri.python), d.DType, pythonBool(BoolOf(d.CPU).Int), order)
}

// define prints the definition of scalar s and returns its name.
func (p *pythonPrinter) define(s scalar.ID, format string, args ...any) string {
	var number int
	if v, ok := p.f.scalarVals[s]; ok && !p.f.isConst(s) {
		number = p.f.vals[v].Number
	} else if extent, ok := p.f.extentNumber(s); ok {
		number = extent
	} else {
		number = p.next
		p.next++
	}
	name := fmt.Sprintf("c%d", number)
	p.names[s] = name
	p.statement(name+" = "+format, args...)
	return name
}

// scalar returns the Python expression for s and prints what it needs before.
// A bare int is an Index where the reader takes it for one.
func (p *pythonPrinter) scalar(s scalar.ID, intIsIndex bool) string {
	if !p.f.inline(s) {
		done := func(s scalar.ID) bool { return p.names[s] != "" }
		p.f.eachScalar(s, p.order.operands, done, p.compound)
	}
	return p.leaf(s, intIsIndex)
}

// leaf is scalar for an s that is named or has no operands.
func (p *pythonPrinter) leaf(s scalar.ID, intIsIndex bool) string {
	t := p.f.scalars
	if c, ok := t.ConstValue(s); ok {
		switch {
		case c.Type == dtype.Bool, c.Type == dtype.Int, c.Type == dtype.Double, c.Type == dtype.ComplexDouble,
			c.Type == dtype.Index && intIsIndex:
			return PythonLiteral(c)
		}
	}
	if name := p.names[s]; name != "" {
		return name
	}
	if c, ok := t.ConstValue(s); ok {
		return p.define(s, "fd.define_scalar(%s, dtype=DataType.%v)", PythonLiteral(c), c.Type)
	}
	if tag := t.Tag(s); tag.Dim >= 0 {
		return p.define(s, "fd.ops.size(%s, dim=%d)", p.f.Name(ValID(tag.Val)), tag.Dim)
	}
	return p.define(s, "fd.ops.cast(%s, dtype=DataType.Index)", p.names[t.Declared(s)])
}

// algebraRows are the ops that make the nodes of the scalar algebra. FloorDiv
// comes from div, which truncates, where the operands are known not to be
// negative; see floorDiv.
var algebraRows = map[scalar.Op]string{
	scalar.Add: "add", scalar.Mul: "mul", scalar.FloorDiv: "div", scalar.Mod: "remainder",
	scalar.TruncDiv: "div", scalar.Rem: "fmod", scalar.Min: "minimum", scalar.Max: "maximum",
	scalar.Lt: "lt", scalar.Le: "le", scalar.Eq: "eq", scalar.Select: "where",
}

// compound prints the definition of s, whose operands are named.
func (p *pythonPrinter) compound(s scalar.ID) {
	t := p.f.scalars
	op, want := t.Op(s), t.Type(s)
	args := p.order.operands(s)
	if op >= scalar.FirstOpaque {
		p.opaque(s, table[op-scalar.FirstOpaque], args)
		return
	}
	texts := make([]string, len(args))
	isIndex := false // the type of the operation as printed, where the operands are literals and names
	beyond := op != scalar.Select && p.f.isConst(args[0]) && p.f.isConst(args[len(args)-1])
	for i, a := range args {
		texts[i] = p.leaf(a, !beyond) // as Ints, constants that do not add up to an Index would wrap
		isIndex = isIndex || t.Type(a) == dtype.Index && (beyond || !p.f.isConst(a))
	}
	if op == scalar.FloorDiv && want != dtype.UInt64 && (t.Facts(args[0]).Lo < 0 || t.Facts(args[1]).Lo < 0) {
		texts[0] = p.multiple(texts[0], texts[1])
	}
	row := algebraRows[op]
	for op != scalar.Select && len(texts) > 2 { // sums and products of more than two
		partial := fmt.Sprintf("c%d", p.next)
		p.next++
		p.statement("%s = fd.ops.%s(%s, %s)", partial, row, texts[0], texts[1])
		texts = append([]string{partial}, texts[2:]...)
	}
	call := fmt.Sprintf("fd.ops.%s(%s)", row, strings.Join(texts, ", "))
	if want == dtype.Index && !isIndex {
		call = p.viewed(call)
	}
	p.define(s, "%s", call)
}

// viewed prints call, which makes an Int, and returns the cast of it to Index.
func (p *pythonPrinter) viewed(call string) string {
	name := fmt.Sprintf("c%d", p.next)
	p.next++
	p.statement("%s = %s", name, call)
	return fmt.Sprintf("fd.ops.cast(%s, dtype=DataType.Index)", name)
}

// multiple prints x - remainder(x, d), which div divides without a rest, and
// returns its name.
func (p *pythonPrinter) multiple(x, d string) string {
	rest, name := fmt.Sprintf("c%d", p.next), fmt.Sprintf("c%d", p.next+1)
	p.next += 2
	p.statement("%s = fd.ops.remainder(%s, %s)", rest, x, d)
	p.statement("%s = fd.ops.sub(%s, %s)", name, x, rest)
	return name
}

// opaque prints the definition of s, a call of an op row.
func (p *pythonPrinter) opaque(s scalar.ID, row *OpInfo, args []scalar.ID) {
	t := p.f.scalars
	want := t.Type(s)
	texts, given := make([]string, len(args)), make([]Arg, len(args))
	for i, a := range args {
		texts[i], given[i] = p.leaf(a, false), ScalarOf(a)
	}
	call := fmt.Sprintf("fd.ops.%s(%s)", row.Name, strings.Join(texts, ", "))
	if row == CastOp {
		call = fmt.Sprintf("fd.ops.cast(%s, dtype=DataType.%v)", texts[0], want)
		if t.Type(args[0]) == want { // an Index as an Int, seen as an Index
			call = p.viewed(fmt.Sprintf("fd.ops.cast(%s, dtype=DataType.Int)", texts[0]))
		}
	} else if natural, err := p.f.promote(row, given); err == nil && want == dtype.Index && row.Promote.resultType(natural) == dtype.Int {
		call = p.viewed(call)
	}
	p.define(s, "%s", call)
}

func (p *pythonPrinter) expr(e *Expr) {
	results := make([]string, len(e.Out))
	for k, v := range e.Out {
		results[k] = p.f.Name(v)
	}
	var args []string
	positional := true // so far
	for i, param := range e.Op.Params() {
		a := e.Args[i]
		if a.Kind == NoArg || isDefault(param, a, p.f.scalars) {
			positional = false
			continue
		}
		text := p.arg(param, a)
		if positional = positional && e.Op.positional(param); !positional {
			text = param.Name + "=" + text
		}
		args = append(args, text)
	}
	p.statement("%s = fd.ops.%s(%s)", strings.Join(results, ", "), e.Op.Name, strings.Join(args, ", "))
}

// positional reports whether an argument is printed without its name: operands
// are, and what a random op must be given.
func (i *OpInfo) positional(p Param) bool {
	switch p.Kind {
	case Operand, TensorIn, TensorsIn:
		return !p.Optional
	}
	return i.Class == Random && !p.Optional && !p.KeyOnly
}

// isDefault reports whether a is what leaving out the argument would give.
func isDefault(p Param, a Arg, t *scalar.Table) bool {
	if !p.Optional || p.Default.Kind == GivenNone {
		return false
	}
	n := p.Default.Num
	switch a.Kind {
	case ScalarArg:
		if p.Kind == Extent {
			n.Type = dtype.Index
		}
		return p.Default.Kind == GivenNumber && a.Scalar == t.Value(n)
	case IntArg, BoolArg, DTypeArg:
		return a.Int == n.I
	}
	return false
}

func (p *pythonPrinter) arg(param Param, a Arg) string {
	index := param.Kind == Extent || param.Kind == Shape
	switch a.Kind {
	case TensorArg:
		return p.f.Name(a.Tensor)
	case ScalarArg:
		return p.scalar(a.Scalar, index)
	case IntArg:
		return pythonInt(a.Int)
	case BoolArg:
		return pythonBool(a.Int)
	case DTypeArg:
		return "DataType." + a.DType().String()
	case TensorsArg:
		return joined(a.Tensors, p.f.Name)
	case ScalarsArg:
		return joined(a.Scalars, func(s scalar.ID) string { return p.scalar(s, index) })
	case IntsArg:
		return joined(a.Ints, pythonInt)
	}
	return joined(a.Ints, pythonBool)
}
