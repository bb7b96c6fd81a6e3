package executor

import (
	"cmp"
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

// A callForm is what a call computes: the operation with what each of its parameters is.
type callForm struct {
	row, called *core.OpInfo  // what torch computes, and what the user called
	where       core.Location // the user's line
	values      []callValue   // by parameter of row
}

// A callValue is what a parameter is: nothing, a type, an element or a list of elements.
type callValue struct {
	isList   bool
	dtype    dtype.Type // a type, where there is no element; else of the tensor that the element becomes; Null: none
	elements []callElement
}

// A callElement is an argument of the call, or a value that is the same in all calls.
type callElement struct {
	argument int // -1: value
	value    scalar.Value
}

// callOf returns the call that the one expression of f is, and its arguments in order.
// known returns the value of a scalar that is the same in all calls.
//
// Errors: Unsupported if torch does not compute it.
func callOf(f *core.Fusion, known func(s scalar.ID) (scalar.Value, bool)) (callForm, []callOperand, error) {
	return callOfExpr(f, f.Expr(f.Order()[0]), known)
}

func callOfExpr(f *core.Fusion, e *core.Expr, known func(s scalar.ID) (scalar.Value, bool)) (callForm, []callOperand, error) {
	c := caller{f: f, known: known}
	form := callForm{row: e.Op, called: e.Called, where: e.Where}
	if !torchComputes(e.Op) {
		return form, nil, c.refuse(e, "torch has no counterpart of "+e.Op.Name+"()")
	}
	common := c.operandType(e)
	for i, p := range e.Op.Params() {
		v := c.value(&e.Args[i])
		if p.Kind == core.Operand && e.Args[i].Kind == core.ScalarArg {
			if v.dtype = f.Scalars().Type(e.Args[i].Scalar); i >= e.Op.Promote.Skip && common != dtype.Null {
				v.dtype = common
			}
		}
		form.values = append(form.values, v)
	}
	for _, v := range slices.Concat(f.TensorArgs(e), e.Out) {
		switch t := f.Val(v).DType; {
		case t.Torch() == "":
			return form, nil, c.refuse(e, fmt.Sprintf("torch has no dtype for %v", t))
		case t == dtype.UInt64 && e.Op.Class == core.Elementwise && e.Op != core.CastOp && e.Op != core.SetOp:
			return form, nil, c.refuse(e, "torch does not compute on UInt64")
		}
	}
	return form, c.operands, nil
}

// torchComputes reports whether there is an expression of torch for a row.
func torchComputes(row *core.OpInfo) bool {
	return (row.TorchCall != "" || row.Torch != "") && row.Class != core.Random
}

// spec returns what a call is with a number of arguments, without results.
func (c *callForm) spec(arguments int) CallSpec {
	spec := CallSpec{Called: c.called.Name, Where: c.where.String(), Expression: cmp.Or(c.row.TorchCall, c.row.Torch), Arguments: arguments, Parameters: [][2]string{},
		Own: c.row.Class == core.Contraction || c.row.Class == core.Attention}
	for i, p := range c.row.Params() {
		spec.Parameters = append(spec.Parameters, [2]string{p.Name, c.values[i].String()})
	}
	return spec
}

// String returns the value as Python.
func (v callValue) String() string {
	switch {
	case v.isList:
		return "[" + joined(v.elements) + "]"
	case len(v.elements) == 0 && v.dtype != dtype.Null:
		return "torch." + v.dtype.Torch()
	case len(v.elements) == 0:
		return "None"
	case v.dtype != dtype.Null:
		return fmt.Sprintf("rows.number(%s, torch.%s, device)", joined(v.elements), v.dtype.Torch())
	}
	return joined(v.elements)
}

func joined(elements []callElement) string {
	texts := make([]string, len(elements))
	for i, e := range elements {
		if texts[i] = fmt.Sprintf("_%d", e.argument); e.argument < 0 {
			texts[i] = core.PythonLiteral(e.value)
		}
	}
	return strings.Join(texts, ", ")
}

// A caller turns arguments of an expression into values of a call.
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

func (c *caller) value(a *core.Arg) (v callValue) {
	switch a.Kind {
	case core.TensorArg:
		v.elements = []callElement{c.operand(callOperand{tensor: a.Tensor})}
	case core.ScalarArg:
		v.elements = []callElement{c.number(a.Scalar)}
	case core.IntArg:
		v.elements = constants(dtype.Int, a.Int)
	case core.BoolArg:
		v.elements = constants(dtype.Bool, a.Int)
	case core.DTypeArg:
		if t := a.DType(); t.Torch() != "" {
			v.dtype = t
		}
	case core.TensorsArg:
		v.isList = true
		for _, x := range a.Tensors {
			v.elements = append(v.elements, c.operand(callOperand{tensor: x}))
		}
	case core.ScalarsArg:
		v.isList = true
		for _, x := range a.Scalars {
			v.elements = append(v.elements, c.number(x))
		}
	case core.IntsArg:
		v.isList, v.elements = true, constants(dtype.Int, a.Ints...)
	case core.BoolsArg:
		v.isList, v.elements = true, constants(dtype.Bool, a.Ints...)
	}
	return v
}

func constants(t dtype.Type, values ...int64) (elements []callElement) {
	for _, n := range values {
		elements = append(elements, callElement{-1, scalar.Value{Type: t, I: n}})
	}
	return elements
}

// operand adds an argument of the call.
func (c *caller) operand(o callOperand) callElement {
	i := slices.Index(c.operands, o)
	if i < 0 {
		i = len(c.operands)
		c.operands = append(c.operands, o)
	}
	return callElement{argument: i}
}

// number returns a value, or the argument that brings it.
func (c *caller) number(s scalar.ID) callElement {
	if v, ok := c.known(s); ok {
		return callElement{-1, v}
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
