package cpu

import (
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A tensor is an operand or result of an opaque node, in memory.
type tensor struct {
	dtype          dtype.Type
	sizes, strides []int64
	buffer         int
	offset         int64
}

// An opaqueStep is a node that reads and writes whole tensors.
type opaqueStep struct {
	in, out []tensor
	run     func(r *run) error
}

// tensorOf returns value v, which is placed.
func (b *builder) tensorOf(v int) tensor {
	x := &b.values[v]
	return tensor{x.dtype, x.sizes, x.place.strides, x.place.buffer, x.place.offset}
}

// lowerOpaque makes the step of n.
func (b *builder) lowerOpaque(n *node) (*opaqueStep, error) {
	s := &opaqueStep{}
	for _, v := range n.in {
		s.in = append(s.in, b.tensorOf(v))
	}
	for _, v := range n.out {
		s.out = append(s.out, b.tensorOf(v))
	}
	s.run = b.reference(n, s)
	return s, nil
}

// at returns a pointer to the first element of t.
func (t *tensor) at(r *run) unsafe.Pointer {
	return unsafe.Add(r.memory[t.buffer], t.offset*int64(t.dtype.Size()))
}

// reference runs the row's own definition.
func (b *builder) reference(n *node, s *opaqueStep) func(r *run) error {
	var lock sync.Mutex
	binding, e := b.b, n.expr
	return func(r *run) error {
		lock.Lock()
		defer lock.Unlock()
		in := map[core.ValID]*core.Array{}
		for k, v := range n.in {
			in[core.ValID(v)] = s.in[k].array(r)
		}
		out, err := binding.EvalExpr(e, core.RandomState{}, in)
		if err != nil {
			return err
		}
		for k := range s.out {
			s.out[k].fill(r, out[k])
		}
		return nil
	}
}

// array returns a copy of t.
func (t *tensor) array(r *run) *core.Array {
	a := core.NewArray(t.dtype, t.sizes)
	if a.Len() == 0 {
		return a
	}
	size := int64(t.dtype.Size())
	i := int64(0)
	core.EachIndex(t.sizes, func(index []int64) {
		o := t.offset
		for d, x := range index {
			o += x * t.strides[d]
		}
		p := elements[byte](unsafe.Add(r.memory[t.buffer], o*size), int(size))
		switch {
		case t.dtype.IsFloat():
			a.F[i] = dtype.LoadFloat(t.dtype, p)
		case t.dtype.IsComplex():
			a.C[i] = dtype.LoadComplex(t.dtype, p)
		default:
			a.I[i] = dtype.LoadInt(t.dtype, p)
		}
		i++
	})
	return a
}

// fill stores a as t.
func (t *tensor) fill(r *run, a *core.Array) {
	size := int64(t.dtype.Size())
	i := int64(0)
	core.EachIndex(t.sizes, func(index []int64) {
		o := t.offset
		for d, x := range index {
			o += x * t.strides[d]
		}
		p := elements[byte](unsafe.Add(r.memory[t.buffer], o*size), int(size))
		switch {
		case t.dtype.IsFloat():
			dtype.StoreFloat(t.dtype, p, a.F[i])
		case t.dtype.IsComplex():
			dtype.StoreComplex(t.dtype, p, a.C[i])
		default:
			dtype.StoreInt(t.dtype, p, a.I[i])
		}
		i++
	})
}
