// Package fusionfuzz decodes bytes into fusions and inputs for them, for fuzz
// tests.
//
// Its central function is [Decode]: any bytes give a legal frozen fusion whose
// operations come from the op table, so a new row is tried without a change
// here. Calls that the definition refuses are left out; what is refused only
// when the sizes are known is left in, so that binding the inputs may fail.
//
// Numbers in the inputs are mostly small multiples of 1/8, which sums in any
// order give exactly, beside a few that are special.
//
// [Memory] holds a tensor in memory as strides say, and [Case.Check] compares
// outputs with those of the evaluator. The package runs nothing itself.
package fusionfuzz

import (
	"math"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An Input is a value for one input of a fusion. Element i of a tensor in
// row-major order is Array.At(i).
type Input struct {
	Array   *core.Array // nil: a scalar
	Strides []int64
	Offset  int64
	Storage int64
	Scalar  scalar.Value
}

// A Case is a fusion and inputs for it.
type Case struct {
	Fusion *core.Fusion
	Inputs []Input
	Wild   bool // they have special values: what depends on the order of a sum may differ at will
}

const (
	maxElements = 5000 // of an input
	maxResult   = 40000
	maxOps      = 24
)

var sizes = []int64{1, 2, 3, 5, 32, 33, 0, 4}

var dtypes = []dtype.Type{
	dtype.Float, dtype.Float, dtype.Float, dtype.Float, dtype.Double, dtype.Half, dtype.BFloat16, dtype.Int, dtype.Int32, dtype.Bool,
	dtype.UInt64, dtype.Float8E4M3FN, dtype.Float8E5M2, dtype.ComplexFloat, dtype.ComplexDouble, dtype.Index, dtype.Float8E8M0FNU,
}

// A reader gives out the bytes of a case, then zeros.
type reader struct {
	data []byte
	hash uint64
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// below returns a number from 0 to n-1.
func (r *reader) below(n int) int { return int(r.byte()) % n }

// chance is true for one byte value in n.
func (r *reader) chance(n int) bool { return r.below(n) == n-1 }

// random returns a number of a sequence that depends on all bytes.
func (r *reader) random() uint64 {
	r.hash += 0x9e3779b97f4a7c15
	z := r.hash
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

type decoder struct {
	reader
	f       *core.Fusion
	inputs  []Input
	tensors []core.ValID
	scalars []core.ValID
	wild    bool
}

// Decode returns the case of data.
func Decode(data []byte) *Case {
	d := &decoder{reader: reader{data: data}, f: core.NewFusion()}
	for _, b := range data {
		d.hash = d.hash*1099511628211 + uint64(b) + 1
	}
	d.defineInputs()
	for n := 1 + d.below(maxOps); n > 0; n-- {
		d.call()
	}
	d.addOutputs()
	d.addOrdered()
	d.f.Freeze()
	return &Case{d.f, d.inputs, d.wild}
}

func (d *decoder) defineInputs() {
	var shape []int64
	for range d.below(5) {
		n := sizes[d.below(len(sizes))]
		if core.NumElements(shape)*max(n, 1) <= maxElements {
			shape = append(shape, n)
		}
	}
	for range 1 + d.below(3) {
		d.defineTensor(d.like(shape))
	}
	for range d.below(3) {
		t := []dtype.Type{dtype.Int, dtype.Double, dtype.Index, dtype.Float}[d.below(4)]
		v, err := d.f.DefineScalar(t)
		if err != nil {
			panic(err)
		}
		d.scalars = append(d.scalars, v)
		value := scalar.Value{Type: t, I: int64(d.below(7)) - 1}
		if t.IsFloat() {
			value = scalar.Value{Type: t, Re: float64(d.below(33)-16) / 8}
		}
		d.inputs = append(d.inputs, Input{Scalar: value})
	}
}

// like returns a shape that often goes with shape in an operation.
func (d *decoder) like(shape []int64) []int64 {
	s := slices.Clone(shape)
	switch d.below(6) {
	case 0:
		if len(s) > 0 {
			s[d.below(len(s))] = 1
		}
	case 1:
		if len(s) > 0 {
			s = s[d.below(len(s)):]
		}
	case 2:
		slices.Reverse(s)
	}
	return s
}

// defineTensor adds an input of the given sizes: constant or symbolic, dense,
// permuted, with gaps, expanded or at an offset.
func (d *decoder) defineTensor(shape []int64) {
	t := dtypes[d.below(len(dtypes))]
	n := len(shape)
	order := make([]int, n) // outermost in memory first
	for i := range order {
		order[i] = i
	}
	if d.chance(3) {
		slices.Reverse(order)
	}
	if n > 1 && d.chance(3) {
		order[0], order[1] = order[1], order[0]
	}
	strides, step := make([]int64, n), int64(1)
	gaps, expands := d.chance(4), d.chance(4)
	for k := n - 1; k >= 0; k-- {
		dim := order[k]
		if gaps && d.chance(2) {
			step += int64(d.below(3))
		}
		if expands && d.chance(2) {
			continue
		}
		strides[dim] = step
		step *= max(shape[dim], 1)
	}
	description := core.TensorDescription{Shape: slices.Clone(shape), DType: t}
	contiguity, strideOrder, err := core.DescribeStrides(shape, strides)
	if err != nil {
		panic(err)
	}
	description.Contiguity, description.StrideOrder = contiguity, strideOrder
	symbolic, loose := d.chance(2), d.chance(4)
	for i, s := range shape {
		if symbolic && s != 1 && d.below(4) != 0 {
			description.Shape[i] = -1
		}
	}
	for i := range contiguity {
		if loose && contiguity[i] == core.Yes {
			contiguity[i] = core.No
		}
	}
	v, err := d.f.DefineTensor(description)
	if err != nil {
		return
	}
	d.tensors = append(d.tensors, v)
	in := Input{Array: core.NewArray(t, shape), Strides: strides}
	if d.chance(4) {
		in.Offset = int64(d.below(5))
	}
	d.fill(&in)
	d.inputs = append(d.inputs, in)
}

// fill sets the elements of in: those that share memory are equal.
func (d *decoder) fill(in *Input) {
	memory := map[int64]scalar.Value{}
	i := int64(0)
	wild := d.chance(8)
	d.wild = d.wild || wild
	core.EachIndex(in.Array.Shape, func(index []int64) {
		at := int64(0)
		for k, x := range index {
			at += x * in.Strides[k]
		}
		v, ok := memory[at]
		if !ok {
			v = d.value(in.Array.Type, wild)
			memory[at] = v
		}
		in.Array.Set(i, v)
		i++
	})
}

// value returns an element of type t.
func (d *decoder) value(t dtype.Type, wild bool) scalar.Value {
	r := d.random()
	small := func(r uint64) float64 { return float64(int64(r%65)-32) / 8 }
	if wild && t.IsFloat() && r%7 == 0 {
		return core.ConvertScalar(t, scalar.Value{Type: dtype.Double, Re: []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e30, 1e-40}[r/7%6]})
	}
	switch {
	case t.IsFloat():
		return core.ConvertScalar(t, scalar.Value{Type: dtype.Double, Re: small(r)})
	case t.IsComplex():
		return core.ConvertScalar(t, scalar.Value{Type: dtype.ComplexDouble, Re: small(r), Im: small(r >> 32)})
	case wild && r%7 == 0:
		return core.ConvertScalar(t, scalar.Value{Type: dtype.Int, I: []int64{math.MinInt64, math.MaxInt64, 1 << 31, -1}[r/7%4]})
	}
	return core.ConvertScalar(t, scalar.Value{Type: dtype.Int, I: int64(r%10) - 2})
}

// addOutputs makes outputs of the last values and of a few others, some of them
// in the memory of inputs.
func (d *decoder) addOutputs() {
	n := len(d.tensors)
	last := d.tensors[n-1]
	_ = d.f.AddOutput(last, core.NoVal)
	for range d.below(4) {
		alias := core.NoVal
		if d.chance(3) {
			alias = d.writable(d.below(len(d.inputs)))
		}
		_ = d.f.AddOutput(d.tensors[d.below(n)], alias) // refused: no output
	}
}

// writable returns input i if it is a tensor that can receive an output, else NoVal.
func (d *decoder) writable(i int) core.ValID {
	if in := &d.inputs[i]; in.Array != nil && !in.repeats() {
		return d.f.Inputs()[i]
	}
	return core.NoVal
}

// addOrdered adds to one case in three an output with an order of its strides, which some
// of these write into an input, and some read. It reads no bytes: what these make is there
// without it as well.
func (d *decoder) addOrdered() {
	pick := func(n int) int { return int(d.random() % uint64(n)) }
	n := len(d.tensors)
	v := d.tensors[n-1-pick(min(n, 4))]
	rank := d.f.Rank(v)
	if pick(3) != 0 || rank < 2 {
		return
	}
	order := make([]core.Given, rank)
	for i := range order {
		order[i] = integer(int64(i))
	}
	for i := range order {
		j := i + pick(rank-i)
		order[i], order[j] = order[j], order[i]
	}
	ordered, err := d.f.Call(core.StrideOrderOp, []core.Given{value(v), list(order...)}, nil)
	if err != nil {
		return
	}
	if pick(2) == 0 {
		if read, err := d.f.Call(core.Lookup("add"), []core.Given{value(ordered[0]), integer(1)}, nil); err == nil {
			_ = d.f.AddOutput(read[0], core.NoVal)
		}
	}
	for i := range d.inputs {
		if into := d.writable(i); into != core.NoVal && pick(2) == 0 && d.f.AddOutput(ordered[0], into) == nil {
			return
		}
	}
	_ = d.f.AddOutput(ordered[0], core.NoVal)
}

// Memory returns the memory of in, a tensor, with its elements.
func (in *Input) Memory() *Memory {
	m := NewMemory(in.Array.Type, in.Array.Shape, in.Strides, in.Offset)
	m.Write(in.Array)
	return m
}

// Arguments returns inputs as [core.Fusion.Eval] and [core.Fusion.Bind] take them.
func Arguments(inputs []Input) (arrays []*core.Array, scalars []scalar.Value, values []core.InputValue) {
	for _, in := range inputs {
		v := core.InputValue{Scalar: in.Scalar}
		if in.Array != nil {
			v = core.InputValue{Tensor: true, DType: in.Array.Type, Sizes: in.Array.Shape}
		}
		arrays, scalars, values = append(arrays, in.Array), append(scalars, in.Scalar), append(values, v)
	}
	return arrays, scalars, values
}

// repeats reports whether elements of in share memory.
func (in *Input) repeats() bool {
	for d, n := range in.Array.Shape {
		if n > 1 && in.Strides[d] == 0 {
			return true
		}
	}
	return false
}

// Inputs returns dense inputs for f: tensors of the given sizes, one for each,
// and scalars, in order. Values depend on seed; those of integer tensors are
// from -2 to 7.
func Inputs(f *core.Fusion, seed uint64, sizes ...[]int64) []Input {
	d := &decoder{reader: reader{hash: seed}}
	var all []Input
	for _, v := range f.Inputs() {
		x := f.Val(v)
		if !x.Tensor {
			all = append(all, Input{Scalar: d.value(x.DType, false)})
			continue
		}
		shape := sizes[0]
		sizes = sizes[1:]
		in := Input{Array: core.NewArray(x.DType, shape), Strides: DenseStrides(f, v, shape)}
		d.fill(&in)
		all = append(all, in)
	}
	return all
}

// DenseStrides returns the strides of input v with the given sizes, in the order
// of memory that f says. An expanded dimension has stride 0.
func DenseStrides(f *core.Fusion, v core.ValID, shape []int64) []int64 {
	domain, strides, step := &f.Val(v).Domain, make([]int64, len(shape)), int64(1)
	axes := domain.Allocation()
	for k := len(axes) - 1; k >= 0; k-- {
		dim := slices.Index(domain.Logical, axes[k])
		if domain.Contig[k] == core.NotApplicable && shape[dim] != 1 {
			continue // expanded
		}
		strides[dim] = step
		step *= max(shape[dim], 1)
	}
	return strides
}
