package executor

import (
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A callOperand is an argument of a call: a tensor of the fusion, or a number.
type callOperand struct {
	tensor core.ValID // NoVal: a number
	number scalar.ID
	dtype  dtype.Type // of the number: Bool, Int, UInt64, Double or ComplexDouble
}

// callOf returns the call that the one expression of f is, without Results, and its
// arguments in order. known returns the value of a scalar that is the same in all
// calls.
//
// Errors: Unsupported if torch does not compute it.
func callOf(f *core.Fusion, known func(s scalar.ID) (scalar.Value, bool)) (CallSpec, []callOperand, error) {
	return callOfExpr(f, f.Expr(f.Order()[0]), known)
}

func callOfExpr(f *core.Fusion, e *core.Expr, known func(s scalar.ID) (scalar.Value, bool)) (CallSpec, []callOperand, error) {
	c := caller{f: f, known: known}
	spec := CallSpec{Called: e.Called.Name, Where: e.Where.String(), Expression: e.Op.TorchCall}
	if spec.Expression == "" {
		spec.Expression = e.Op.Torch
	}
	if spec.Expression == "" || e.Op.Class == core.Random {
		return spec, nil, c.refuse(e, "torch has no counterpart of "+e.Op.Name+"()")
	}
	spec.Parameters = [][2]string{}
	common := c.operandType(e)
	for i, p := range e.Op.Params() {
		text := c.argument(&e.Args[i])
		if p.Kind == core.Operand && e.Args[i].Kind == core.ScalarArg {
			t := f.Scalars().Type(e.Args[i].Scalar)
			if i >= e.Op.Promote.Skip && common != dtype.Null {
				t = common
			}
			text = fmt.Sprintf("rows.number(%s, torch.%s, device)", text, t.Torch())
		}
		spec.Parameters = append(spec.Parameters, [2]string{p.Name, text})
	}
	for _, v := range slices.Concat(f.TensorArgs(e), e.Out) {
		switch t := f.Val(v).DType; {
		case t.Torch() == "":
			return spec, nil, c.refuse(e, fmt.Sprintf("torch has no dtype for %v", t))
		case t == dtype.UInt64 && e.Op.Class == core.Elementwise && e.Op != core.CastOp && e.Op != core.SetOp:
			return spec, nil, c.refuse(e, "torch does not compute on UInt64")
		}
	}
	spec.Arguments = len(c.operands)
	return spec, c.operands, nil
}

// A caller turns arguments of an expression into text of Python.
type caller struct {
	f        *core.Fusion
	known    func(s scalar.ID) (scalar.Value, bool)
	operands []callOperand
}

func (c *caller) refuse(e *core.Expr, sentence string) error {
	return &core.Unsupported{What: "torch does not compute " + e.Called.Name + "()",
		Refusals: []core.Refusal{{By: "torch", Rule: "expression", Tensor: c.f.Name(e.Out[0]), Sentence: sentence}}}
}

// operandType returns the type of the tensors among the operands that are promoted.
func (c *caller) operandType(e *core.Expr) dtype.Type {
	for i, p := range e.Op.Params() {
		if p.Kind == core.Operand && i >= e.Op.Promote.Skip && e.Args[i].Kind == core.TensorArg {
			return c.f.Val(e.Args[i].Tensor).DType
		}
	}
	return dtype.Null
}

func (c *caller) argument(a *core.Arg) string {
	switch a.Kind {
	case core.TensorArg:
		return c.operand(callOperand{tensor: a.Tensor})
	case core.ScalarArg:
		return c.number(a.Scalar)
	case core.IntArg:
		return fmt.Sprint(a.Int)
	case core.BoolArg:
		return boolText(a.Int)
	case core.DTypeArg:
		if t := a.DType(); t.Torch() != "" {
			return "torch." + t.Torch()
		}
	case core.TensorsArg:
		return pythonList(a.Tensors, func(v core.ValID) string { return c.operand(callOperand{tensor: v}) })
	case core.ScalarsArg:
		return pythonList(a.Scalars, c.number)
	case core.IntsArg:
		return pythonList(a.Ints, func(n int64) string { return fmt.Sprint(n) })
	case core.BoolsArg:
		return pythonList(a.Ints, boolText)
	}
	return "None"
}

// operand adds an argument of the call, and returns its name.
func (c *caller) operand(o callOperand) string {
	i := slices.Index(c.operands, o)
	if i < 0 {
		i = len(c.operands)
		c.operands = append(c.operands, o)
	}
	return fmt.Sprintf("_%d", i)
}

// number returns the value of a number, or the name of the argument that it is.
func (c *caller) number(s scalar.ID) string {
	if v, ok := c.known(s); ok {
		return core.PythonLiteral(v)
	}
	return c.operand(callOperand{tensor: core.NoVal, number: s, dtype: widest(c.f.Scalars().Type(s))})
}

// widest returns the type of a word that holds numbers of t.
func widest(t dtype.Type) dtype.Type {
	switch t.Class() {
	case dtype.ClassBool:
		return dtype.Bool
	case dtype.ClassInt:
		return dtype.Int
	case dtype.ClassUInt:
		return dtype.UInt64
	case dtype.ClassComplex:
		return dtype.ComplexDouble
	}
	return dtype.Double
}

func pythonList[T any](xs []T, show func(T) string) string {
	texts := make([]string, len(xs))
	for i, x := range xs {
		texts[i] = show(x)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func boolText(n int64) string {
	if n != 0 {
		return "True"
	}
	return "False"
}
