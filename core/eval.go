package core

import (
	"fmt"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An Array is a dense row-major tensor of the evaluator. Integers and bools are
// in I (UInt64 as its bits), floats in F, complex numbers in C.
type Array struct {
	Type  dtype.Type
	Shape []int64
	I     []int64
	F     []float64
	C     []complex128
}

// NewArray returns an array of zeros: of Float8E8M0FNU, which has none, of what
// 0 rounds to.
func NewArray(t dtype.Type, shape []int64) *Array {
	a := &Array{Type: t, Shape: shape}
	switch n := NumElements(shape); {
	case t.IsFloat():
		a.F = make([]float64, n)
		if t == dtype.Float8E8M0FNU {
			for i := range a.F {
				a.F[i] = dtype.Round(t, 0)
			}
		}
	case t.IsComplex():
		a.C = make([]complex128, n)
	default:
		a.I = make([]int64, n)
	}
	return a
}

// NumElements returns the product of sizes.
func NumElements(shape []int64) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return n
}

// Len returns the number of elements.
func (a *Array) Len() int { return len(a.I) + len(a.F) + len(a.C) }

// At returns element i in row-major order.
func (a *Array) At(i int64) scalar.Value {
	v := scalar.Value{Type: a.Type}
	switch {
	case a.F != nil:
		v.Re = a.F[i]
	case a.C != nil:
		v.Re, v.Im = real(a.C[i]), imag(a.C[i])
	default:
		v.I = a.I[i]
	}
	return v
}

// Set stores v, a value of a's type, as element i.
func (a *Array) Set(i int64, v scalar.Value) {
	switch {
	case a.F != nil:
		a.F[i] = v.Re
	case a.C != nil:
		a.C[i] = complex(v.Re, v.Im)
	default:
		a.I[i] = v.I
	}
}

// Offset returns the row-major position of index in shape.
func Offset(shape, index []int64) int64 {
	o := int64(0)
	for d, n := range shape {
		o = o*n + index[d]
	}
	return o
}

// EachIndex calls yield with every index of shape in row-major order. The slice
// is reused.
func EachIndex(shape []int64, yield func(index []int64)) {
	n := NumElements(shape)
	index := make([]int64, len(shape))
	for range n {
		yield(index)
		for d := len(shape) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// A RandomState is the seed and offset of the random ops that name none. The
// n-th such op of a run (Expr.Stream) uses Offset + 4n.
type RandomState struct{ Seed, Offset uint64 }

// An Evaluation is what a row's Eval function reads its arguments from and
// writes its results to.
type Evaluation struct {
	*Binding
	Expr   *Expr
	Random RandomState
	arrays []*Array // by ValID
}

// In returns the tensor argument i.
func (c *Evaluation) In(i int) *Array { return c.arrays[c.Expr.Args[i].Tensor] }

// Has reports whether argument i was given.
func (c *Evaluation) Has(i int) bool { return c.Expr.Args[i].Kind != NoArg }

// Ins returns the arrays of the tensor list argument i.
func (c *Evaluation) Ins(i int) []*Array {
	out := make([]*Array, len(c.Expr.Args[i].Tensors))
	for k, v := range c.Expr.Args[i].Tensors {
		out[k] = c.arrays[v]
	}
	return out
}

// ScalarAt returns the value of scalar argument i converted to t.
func (c *Evaluation) ScalarAt(i int, t dtype.Type) (scalar.Value, error) {
	v, err := c.Value(c.Expr.Args[i].Scalar)
	return ConvertScalar(t, v), err
}

// Indices returns the values of the scalar list argument i.
func (c *Evaluation) Indices(i int) ([]int64, error) {
	out := make([]int64, len(c.Expr.Args[i].Scalars))
	for k, s := range c.Expr.Args[i].Scalars {
		n, err := c.Int(s)
		if err != nil {
			return nil, err
		}
		out[k] = n
	}
	return out, nil
}

// maxElements bounds an array of the evaluator: 16 GiB.
const maxElements = 1 << 31

// Out makes the array of result k, of zeros. It is an InvalidArgument if that
// has more than 2^31 elements.
func (c *Evaluation) Out(k int) (*Array, error) {
	v := c.Expr.Out[k]
	shape, err := c.Shape(v)
	if err != nil {
		return nil, err
	}
	if NumElements(shape) > maxElements {
		return nil, c.located(c.Expr, invalidArgument("%s(): the result has shape %v, and at most 2^31 elements can be evaluated", c.Expr.Op.Name, shape))
	}
	a := NewArray(c.f.vals[v].DType, shape)
	c.arrays[v] = a
	return a, nil
}

// Eval computes the outputs of f, aliased ones included, in order. It is the
// definition of what a fusion means: a kernel, a schedule or a pass is wrong if
// it disagrees with Eval beyond the tolerance of the output type. It computes
// in float64, int64 or complex128 and rounds each result once to its dtype.
// Inputs are read before any output is written, so the arrays are never shared.
//
// inputs[i] is the array of input i, nil for a scalar; scalars[i] its value.
func (f *Fusion) Eval(inputs []*Array, scalars []scalar.Value, random RandomState) ([]*Array, error) {
	all, err := f.EvalAll(inputs, scalars, random)
	if err != nil {
		return nil, err
	}
	out := make([]*Array, len(f.outputs))
	for i, o := range f.outputs {
		out[i] = all[o.Val]
	}
	return out, nil
}

// EvalAll is [Fusion.Eval] of all tensors, by [ValID].
func (f *Fusion) EvalAll(inputs []*Array, scalars []scalar.Value, random RandomState) ([]*Array, error) {
	values := make([]InputValue, len(inputs))
	for i, a := range inputs {
		if a != nil {
			values[i] = InputValue{Tensor: true, DType: a.Type, Sizes: a.Shape}
		} else {
			values[i] = InputValue{Scalar: scalars[i]}
		}
	}
	b, err := f.Bind(values)
	if err != nil {
		return nil, err
	}
	c := &Evaluation{Binding: b, Random: random, arrays: make([]*Array, len(f.vals))}
	for i, v := range f.inputs {
		c.arrays[v] = inputs[i]
	}
	for _, id := range f.Order() {
		c.Expr = &f.exprs[id]
		if err := c.run(); err != nil {
			return nil, err
		}
	}
	return c.arrays, nil
}

func (c *Evaluation) run() error {
	if c.Expr.Op.Class == Elementwise {
		return c.elementwise()
	}
	if c.Expr.Op.Eval == nil {
		return fmt.Errorf("op %s has no meaning", c.Expr.Op.Name)
	}
	return c.Expr.Op.Eval(c)
}

// elementwise applies the row's meaning to each element; a broadcast operand is
// read at index 0 of its broadcast dimensions.
func (c *Evaluation) elementwise() error {
	e := c.Expr
	t, err := c.f.promote(e.Op, e.Args)
	if err != nil {
		return err
	}
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	var read []func(index []int64) scalar.Value
	for i, a := range e.Args {
		switch a.Kind {
		case TensorArg:
			x := c.arrays[a.Tensor]
			read = append(read, func(index []int64) scalar.Value { return x.At(broadcastOffset(x.Shape, index)) })
		case ScalarArg:
			v, err := c.ScalarAt(i, e.Op.operandCompute(i, t))
			if err != nil {
				return err
			}
			read = append(read, func([]int64) scalar.Value { return v })
		}
	}
	args, i := make([]scalar.Value, len(read)), int64(0)
	EachIndex(out.Shape, func(index []int64) {
		for k := range read {
			args[k] = read[k](index)
		}
		v, e := EvalScalar(e.Op, out.Type, args)
		if e != nil {
			err = e
			return
		}
		out.Set(i, v)
		i++
	})
	return err
}

// broadcastOffset is Offset with size 1 read at index 0.
func broadcastOffset(shape, index []int64) int64 {
	o := int64(0)
	for d, n := range shape {
		o *= n
		if n > 1 {
			o += index[d]
		}
	}
	return o
}
