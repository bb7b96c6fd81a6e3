package fusionfuzz

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A Memory holds the elements of one tensor between two margins that nobody may
// write.
type Memory struct {
	DType          dtype.Type
	Sizes, Strides []int64 // strides in elements
	offset         int64
	bytes, before  []byte
}

const (
	margin = 64 // bytes
	unset  = 0xa5
)

// NewMemory returns memory for a tensor of which element 0 is at offset, as
// large as its strides make it, at a multiple of 64 bytes as devices allocate it.
// Every byte is set to a pattern.
func NewMemory(t dtype.Type, sizes, strides []int64, offset int64) *Memory {
	m := &Memory{DType: t, Sizes: sizes, Strides: strides, offset: offset}
	elements := offset
	if core.NumElements(sizes) > 0 {
		elements++
		for d, n := range sizes {
			elements += (n - 1) * strides[d]
		}
	}
	n := int(elements)*t.Size() + 2*margin
	memory := bytes.Repeat([]byte{unset}, n+margin)
	for uintptr(unsafe.Pointer(&memory[0]))%margin != 0 {
		memory = memory[1:]
	}
	m.bytes = memory[:n:n]
	return m
}

// Data returns the address of the element of index 0.
func (m *Memory) Data() unsafe.Pointer {
	return unsafe.Pointer(&m.bytes[margin+m.offset*int64(m.DType.Size())])
}

// Seen returns another tensor in the same memory, of which element 0 is at offset from
// that of m.
func (m *Memory) Seen(sizes, strides []int64, offset int64) *Memory {
	return &Memory{DType: m.DType, Sizes: sizes, Strides: strides, offset: m.offset + offset, bytes: m.bytes, before: m.before}
}

// element returns the bytes of the element at index.
func (m *Memory) element(index []int64) []byte {
	at := m.offset
	for d, x := range index {
		at += x * m.Strides[d]
	}
	size := int64(m.DType.Size())
	return m.bytes[margin+at*size : margin+(at+1)*size]
}

// Write stores a, and remembers all bytes for [Memory.Changed].
func (m *Memory) Write(a *core.Array) {
	i := int64(0)
	core.EachIndex(a.Shape, func(index []int64) {
		switch p, v := m.element(index), a.At(i); {
		case a.Type.IsFloat():
			dtype.StoreFloat(a.Type, p, v.Re)
		case a.Type.IsComplex():
			dtype.StoreComplex(a.Type, p, complex(v.Re, v.Im))
		default:
			dtype.StoreInt(a.Type, p, v.I)
		}
		i++
	})
	m.before = bytes.Clone(m.bytes)
}

// Read returns the elements.
func (m *Memory) Read() *core.Array {
	a := core.NewArray(m.DType, m.Sizes)
	i := int64(0)
	core.EachIndex(a.Shape, func(index []int64) {
		v := scalar.Value{Type: a.Type}
		switch p := m.element(index); {
		case a.Type.IsFloat():
			v.Re = dtype.LoadFloat(a.Type, p)
		case a.Type.IsComplex():
			c := dtype.LoadComplex(a.Type, p)
			v.Re, v.Im = real(c), imag(c)
		default:
			v.I = dtype.LoadInt(a.Type, p)
		}
		a.Set(i, v)
		i++
	})
	return a
}

// Bytes returns all bytes between the margins.
func (m *Memory) Bytes() []byte { return m.bytes[margin : len(m.bytes)-margin] }

// Changed reports whether any byte differs from what Write left.
func (m *Memory) Changed() bool { return !bytes.Equal(m.bytes, m.before) }

// ChangedBeside reports whether any byte that is in no element differs from what Write left.
func (m *Memory) ChangedBeside() bool {
	now := bytes.Clone(m.bytes)
	core.EachIndex(m.Sizes, func(index []int64) {
		p := m.element(index)
		at := cap(m.bytes) - cap(p)
		copy(now[at:at+len(p)], m.before[at:])
	})
	return !bytes.Equal(now, m.before)
}

// Overrun reports whether a margin was written.
func (m *Memory) Overrun() bool {
	for i := range margin {
		if m.bytes[i] != unset || m.bytes[len(m.bytes)-1-i] != unset {
			return true
		}
	}
	return false
}

// Difference describes the first element in which got differs from want, or is
// "". NaNs are equal. With a tolerance, parts may differ by it relative to the
// largest finite magnitude of want, at least 1e-6, or be next to each other in a type of 2 bytes or less, and zeros of
// different signs are equal.
func Difference(want, got *core.Array, tolerance float64) string {
	if fmt.Sprint(want.Type, want.Shape) != fmt.Sprint(got.Type, got.Shape) {
		return fmt.Sprintf("want %v %v, got %v %v", want.Type, want.Shape, got.Type, got.Shape)
	}
	scale := 1e-6 // the rounding errors of what cancels to nothing remain
	for i := range int64(want.Len()) {
		v := want.At(i)
		if x := math.Hypot(v.Re, v.Im); !math.IsInf(x, 0) && x > scale {
			scale = x
		}
	}
	for i := range int64(want.Len()) {
		a, b := want.At(i), got.At(i)
		isClose := same(a.Re, b.Re, tolerance*scale) || tolerance > 0 && areNeighbours(want.Type, a.Re, b.Re)
		if a.I != b.I || !isClose || !same(a.Im, b.Im, tolerance*scale) {
			return fmt.Sprintf("element %d of %v %v: want %v, got %v", i, want.Type, want.Shape, a, b)
		}
	}
	return ""
}

// areNeighbours reports whether no number of a narrow type is between a and b, which are of it: then one of them is what
// their mean is rounded to.
func areNeighbours(t dtype.Type, a, b float64) bool {
	if !t.IsFloat() || t.Size() > 2 || math.IsInf(a, 0) || math.IsInf(b, 0) {
		return false
	}
	mean := core.ConvertScalar(t, scalar.Value{Type: dtype.Double, Re: a/2 + b/2}).Re
	return mean == a || mean == b
}

func same(a, b, tolerance float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return math.Float64bits(a) == math.Float64bits(b) || tolerance > 0 && math.Abs(a-b) <= tolerance
}

// An Accuracy says how far a value may be from that of the evaluator.
type Accuracy uint8

const (
	Exact       Accuracy = iota
	Approximate          // sums of it may have been added in another order
	Unspecified          // it may be anything: a decision on approximate values
)

// Accuracies returns the accuracy of every value of the case.
func (c *Case) Accuracies() map[core.ValID]Accuracy {
	f := c.Fusion
	all := map[core.ValID]Accuracy{}
	merged := map[core.ValID]bool{} // computed from means and squares, which kernels round whenever they merge two
	products := &products{c: c}
	for _, id := range f.Order() {
		e := f.Expr(id)
		from, ofMerged := Exact, e.Op == core.WelfordOp || e.Op == core.WelfordMergeOp
		for _, v := range f.TensorArgs(e) {
			from, ofMerged = max(from, all[v]), ofMerged || merged[v]
		}
		for _, v := range e.Out {
			t := f.Val(v).DType
			real := t.IsFloat() || t.IsComplex()
			a := from
			switch e.Op.Class {
			case core.Reduction, core.Scan, core.Contraction, core.Attention:
				if real {
					a = max(a, Approximate)
				}
			}
			if from == Approximate && (!real || e.Op.Class == core.Sort || amplifies(f, e, merged)) || a == Approximate && c.Wild || real && products.mayLeaveRange(e) {
				a = Unspecified
			}
			all[v], merged[v] = a, ofMerged
		}
	}
	return all
}

// amplifies reports whether e may make any difference of a small one. Of types
// up to Float it does not count, but where they are merged: their sums are rounded
// from float64, and so are the same in nearly every order.
func amplifies(f *core.Fusion, e *core.Expr, merged map[core.ValID]bool) bool {
	if e.Op.Class != core.Elementwise {
		return false
	}
	switch e.Op {
	case core.AddOp, core.SubOp, core.MulOp, core.DivOp, core.TrueDivOp, core.NegOp, core.AbsOp, core.CastOp, core.SetOp,
		core.WhereOp, core.MaximumOp, core.MinimumOp:
		return false
	}
	for _, v := range f.TensorArgs(e) {
		if t := f.Val(v).DType; t == dtype.Double || t.IsComplex() || merged[v] {
			return true
		}
	}
	return false
}

// Check compares the outputs of a run with those of the evaluator, and returns
// what is wrong with the first that differs, or "".
func (c *Case) Check(want, got []*core.Array) string {
	accuracies := c.Accuracies()
	for k, o := range c.Fusion.Outputs() {
		tolerance := 0.0
		switch accuracies[o.Val] {
		case Approximate:
			tolerance = 1e-4
		case Unspecified:
			continue
		}
		if d := Difference(want[k], got[k], tolerance); d != "" {
			return fmt.Sprintf("output %d: %s\n%s", k, d, c.Fusion)
		}
	}
	return ""
}
