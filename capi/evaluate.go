package main

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An executor runs a frozen copy of a fusion by core.Eval.
type executor struct {
	fusion  *core.Fusion
	written []bool // by input: an output is written into its memory
}

// An input is a tensor or a number that a run is given.
type input struct {
	tensor         bool
	dtype          dtype.Type
	sizes, strides []int64
	data           unsafe.Pointer
	scalar         scalar.Value
}

type output struct {
	dtype          dtype.Type
	sizes, strides []int64
}

// A plan is what a run of inputs of one description needs.
type plan struct {
	x         *executor
	outputs   []output
	numInputs int
	needsSeed bool
	work      int64
}

func newExecutor(f *core.Fusion) (*executor, error) {
	f = f.Clone()
	f.Freeze()
	x := &executor{fusion: f, written: make([]bool, len(f.Inputs()))}
	for _, o := range f.Outputs() {
		if o.Alias != core.NoVal {
			x.written[slices.Index(f.Inputs(), o.Alias)] = true
		}
	}
	return x, nil
}

func (p *plan) text() string { return p.x.fusion.String() }

func values(inputs []input) []core.InputValue {
	out := make([]core.InputValue, len(inputs))
	for i, in := range inputs {
		out[i] = core.InputValue{Tensor: in.tensor, DType: in.dtype, Sizes: in.sizes, Scalar: in.scalar}
	}
	return out
}

func (x *executor) plan(inputs []input) (*plan, error) {
	b, err := x.fusion.Bind(values(inputs))
	if err != nil {
		return nil, err
	}
	p := &plan{x: x, numInputs: len(inputs)}
	for _, o := range x.fusion.Outputs() {
		if o.Alias != core.NoVal {
			continue
		}
		sizes, err := b.Shape(o.Val)
		if err != nil {
			return nil, err
		}
		p.outputs = append(p.outputs, output{x.fusion.Val(o.Val).DType, sizes, dense(sizes)})
	}
	for _, id := range x.fusion.Order() {
		e := x.fusion.Expr(id)
		p.needsSeed = p.needsSeed || e.Op.Class == core.Random
		for _, v := range e.Out {
			sizes, err := b.Shape(v)
			if err != nil {
				return nil, err
			}
			p.work += core.NumElements(sizes)
		}
	}
	return p, nil
}

func dense(sizes []int64) []int64 {
	strides, next := make([]int64, len(sizes)), int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d] = next
		next *= max(sizes[d], 1)
	}
	return strides
}

func (p *plan) run(inputs []input, outputs []unsafe.Pointer, seed uint64, stop *atomic.Bool) error {
	arrays, scalars := make([]*core.Array, len(inputs)), make([]scalar.Value, len(inputs))
	for i := range inputs {
		if scalars[i] = inputs[i].scalar; inputs[i].tensor {
			arrays[i] = load(&inputs[i])
		}
	}
	results, err := p.x.fusion.Eval(arrays, scalars, core.RandomState{Seed: seed})
	if err != nil {
		return err
	}
	if stop != nil && stop.Load() {
		return fmt.Errorf("the run was interrupted")
	}
	k := 0
	for i, o := range p.x.fusion.Outputs() {
		if o.Alias != core.NoVal {
			in := &inputs[slices.Index(p.x.fusion.Inputs(), o.Alias)]
			store(results[i], in.strides, in.data)
			continue
		}
		store(results[i], p.outputs[k].strides, outputs[k])
		k++
	}
	return nil
}

func element(data unsafe.Pointer, t dtype.Type, strides, index []int64) []byte {
	at := int64(0)
	for d := range index {
		at += strides[d] * index[d]
	}
	return unsafe.Slice((*byte)(unsafe.Add(data, at*int64(t.Size()))), t.Size())
}

func load(in *input) *core.Array {
	a, i := core.NewArray(in.dtype, in.sizes), 0
	core.EachIndex(in.sizes, func(index []int64) {
		bytes := element(in.data, in.dtype, in.strides, index)
		switch {
		case in.dtype.IsFloat():
			a.F[i] = dtype.LoadFloat(in.dtype, bytes)
		case in.dtype.IsComplex():
			a.C[i] = dtype.LoadComplex(in.dtype, bytes)
		default:
			a.I[i] = dtype.LoadInt(in.dtype, bytes)
		}
		i++
	})
	return a
}

func store(a *core.Array, strides []int64, data unsafe.Pointer) {
	i := 0
	core.EachIndex(a.Shape, func(index []int64) {
		bytes := element(data, a.Type, strides, index)
		switch {
		case a.Type.IsFloat():
			dtype.StoreFloat(a.Type, bytes, a.F[i])
		case a.Type.IsComplex():
			dtype.StoreComplex(a.Type, bytes, a.C[i])
		default:
			dtype.StoreInt(a.Type, bytes, a.I[i])
		}
		i++
	})
}
