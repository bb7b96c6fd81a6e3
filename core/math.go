package core

import (
	"fmt"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// The form for reading, which is nvFuser's print_math. It shows axes:
//
//	T4_l_float[iS7{i0}, bS8{1 ex i1}]
//
// is tensor 4, local to the fusion (g: an input or output), with axis 7 of
// extent i0 and axis 8, a broadcast shown with the extent i1. The letter is i for
// iteration, also where the sizes may make it a broadcast, b for broadcast, r for
// reduction. S says that no schedule is attached. It is never parsed.

// cNames are the element types as the form for reading spells them.
var cNames = map[dtype.Type]string{
	dtype.Int32: "int", dtype.Int: "int64_t", dtype.UInt64: "uint64_t", dtype.Index: "nvfuser_index_t",
	dtype.Half: "__half", dtype.BFloat16: "__bfloat", dtype.Float: "float", dtype.Double: "double",
	dtype.Float8E4M3FN: "__e4m3", dtype.Float8E5M2: "__e5m2", dtype.Float8E8M0FNU: "__e8m0",
	dtype.Float4E2M1FN: "__e2m1", dtype.Float4E2M1FNx2: "__e2m1x2",
	dtype.ComplexFloat: "std::complex<float>", dtype.ComplexDouble: "std::complex<double>",
}

func cName(t dtype.Type) string {
	if name, ok := cNames[t]; ok {
		return name
	}
	return t.Text()
}

// Math returns the inputs, the outputs and the expressions of f for reading. With
// fromOutputsOnly the expressions are those that the outputs need, in the order
// of [Fusion.Order], else all of them as they were defined.
func (f *Fusion) Math(fromOutputsOnly bool) string {
	p := newMathPrinter(f)
	p.b.WriteString("Inputs:\n")
	for _, v := range f.inputs {
		p.b.WriteString("  " + p.val(v) + "\n")
	}
	p.b.WriteString("Outputs:\n")
	for _, o := range f.outputs {
		p.b.WriteString("  " + p.val(o.Val) + "\n")
	}
	p.b.WriteString("\n%kernel_math {\n")
	if fromOutputsOnly {
		for _, id := range f.Order() {
			p.expr(&f.exprs[id])
		}
	} else {
		for i := range f.exprs {
			p.expr(&f.exprs[i])
		}
	}
	p.b.WriteString("} // %kernel_math \n\n")
	return p.b.String()
}

// ValString returns v for reading: a tensor with its axes, the name of a scalar,
// or a constant.
func (f *Fusion) ValString(v ValID) string { return newMathPrinter(f).val(v) }

// ExprString returns the expression id for reading.
func (f *Fusion) ExprString(id ExprID) string {
	p := newMathPrinter(f)
	p.expr(&f.exprs[id])
	return p.b.String()
}

// AxisString returns the axis a for reading.
func (f *Fusion) AxisString(a AxisID) string { return newMathPrinter(f).axis(a) }

// AxesString returns axes for reading.
func (f *Fusion) AxesString(axes []AxisID) string { return newMathPrinter(f).axes(axes) }

// extentText returns an extent for an error text.
func (f *Fusion) extentText(s scalar.ID) string { return newMathPrinter(f).plain(s) }

type mathPrinter struct {
	f        *Fusion
	b        strings.Builder
	isOutput map[ValID]bool
}

func newMathPrinter(f *Fusion) *mathPrinter {
	p := &mathPrinter{f: f, isOutput: make(map[ValID]bool, len(f.outputs))}
	for _, o := range f.outputs {
		p.isOutput[o.Val] = true
	}
	return p
}

func (p *mathPrinter) val(v ValID) string {
	x := &p.f.vals[v]
	if !x.Tensor {
		return p.scalar(x.Scalar)
	}
	memory := "l"
	if x.Input || p.isOutput[v] {
		memory = "g"
	}
	return fmt.Sprintf("T%d_%s_%s%s", x.Number, memory, cName(x.DType), p.axes(x.Domain.Logical))
}

func (p *mathPrinter) axes(axes []AxisID) string { return joined(axes, p.axis) }

func (p *mathPrinter) axis(a AxisID) string {
	x := &p.f.axes[a]
	extent := p.plain(x.Extent)
	if x.Expanded != scalar.None {
		extent += " ex " + p.plain(x.Expanded)
	}
	return fmt.Sprintf("%cS%d{%s}", "ibri"[x.Kind], a, extent)
}

// plain prints an extent; constants have no type.
func (p *mathPrinter) plain(s scalar.ID) string {
	return p.f.scalars.Format(s, p.symbol, scalarOpName)
}

// scalar prints an operand; constants have their type.
func (p *mathPrinter) scalar(s scalar.ID) string {
	if c, ok := p.f.scalars.ConstValue(s); ok {
		return fmt.Sprintf("%s(%v)", cName(c.Type), c)
	}
	return p.plain(s)
}

// symbol names an extent iN, and an input scalar by the first letter of its type
// (integers i, double d, float f, bool b, complex z).
func (p *mathPrinter) symbol(s scalar.ID) string {
	if n, ok := p.f.extentNumber(s); ok {
		return fmt.Sprintf("i%d", n)
	}
	letter := "i"
	switch t := p.f.scalars.Type(s); {
	case t.IsBool():
		letter = "b"
	case t == dtype.Double:
		letter = "d"
	case t.IsFloat():
		letter = "f"
	case t.IsComplex():
		letter = "z"
	}
	return fmt.Sprintf("%s%d", letter, p.f.vals[p.f.scalars.Tag(s).Val].Number)
}

func (p *mathPrinter) expr(e *Expr) {
	results := make([]string, len(e.Out))
	for k, v := range e.Out {
		results[k] = p.val(v)
	}
	p.b.WriteString(strings.Join(results, ",\n"))
	var operands, named []string
	for i, param := range e.Op.Params() {
		switch a := e.Args[i]; a.Kind {
		case TensorArg:
			operands = append(operands, p.val(a.Tensor))
		case TensorsArg:
			operands = append(operands, joined(a.Tensors, p.val))
		case ScalarArg:
			if param.Kind == Operand {
				operands = append(operands, p.scalar(a.Scalar))
			} else {
				named = append(named, param.shown()+p.scalar(a.Scalar))
			}
		case IntArg:
			named = append(named, param.shown()+pythonInt(a.Int))
		case BoolArg:
			named = append(named, param.shown()+mathBool(a.Int))
		case DTypeArg:
			named = append(named, param.shown()+cName(a.DType()))
		case IntsArg:
			named = append(named, param.shown()+braced(joined(a.Ints, pythonInt)))
		case BoolsArg:
			named = append(named, param.shown()+braced(joined(a.Ints, mathBool)))
		} // the sizes of a ScalarsArg are those of the result's axes
	}
	p.b.WriteString(e.Op.applied(operands, named))
}

// applied prints what follows the results of an expression.
func (i *OpInfo) applied(operands, named []string) string {
	if i.Class == Elementwise && len(named) == 0 {
		if operator := i.infix(); operator != "" && len(operands) == 2 {
			return fmt.Sprintf("\n   = %s\n   %s %s;\n", operands[0], operator, operands[1])
		}
		return fmt.Sprintf("\n   = %s(%s);\n", i.Name, strings.Join(operands, ",\n   "))
	}
	separator := "\n   "
	if len(named) == 0 {
		separator = " "
	}
	return fmt.Sprintf("%s= %s( %s )\n", separator, i.Name, strings.Join(append(operands, named...), ", "))
}

// infix returns the operator of an op whose CUDA spelling is "$0 operator $1",
// else "".
func (i *OpInfo) infix() string {
	for _, spelling := range []string{i.CUDA.F32, i.CUDA.Int, i.CUDA.Bool} {
		rest, ok := strings.CutPrefix(spelling, "$0 ")
		operator, ok2 := strings.CutSuffix(rest, " $1")
		if ok && ok2 && !strings.Contains(operator, " ") {
			return operator
		}
	}
	return ""
}

// shown is the name of a parameter before its value; that of the flags of
// broadcast is flags in nvFuser.
func (p *Param) shown() string {
	if p.Kind == Flags {
		return "flags = "
	}
	return p.Name + " = "
}

func braced(list string) string { return "{" + strings.Trim(list, "[]") + "}" }

func mathBool(n int64) string {
	if n != 0 {
		return "true"
	}
	return "false"
}
