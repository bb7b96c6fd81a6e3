package executor_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
	"nvfuser_go/internal/fusionfuzz"
)

// memory holds the elements of one tensor, and a margin that must not change.
type memory struct {
	bytes   []byte
	layout  executor.OutputDescription
	offset  int64
	guarded []byte // a copy made before the run
}

const margin = 64

func newMemory(d executor.OutputDescription, offset, elements int64) *memory {
	m := &memory{bytes: make([]byte, elements*int64(d.DType.Size())+2*margin), layout: d, offset: offset}
	for i := range m.bytes {
		m.bytes[i] = 0xa5
	}
	return m
}

func (m *memory) data() unsafe.Pointer {
	return unsafe.Pointer(&m.bytes[margin+m.offset*int64(m.layout.DType.Size())])
}

// element returns the bytes of the element at index.
func (m *memory) element(index []int64) []byte {
	at := m.offset
	for d, x := range index {
		at += x * m.layout.Strides[d]
	}
	size := int64(m.layout.DType.Size())
	return m.bytes[margin+at*size : margin+(at+1)*size]
}

func (m *memory) write(a *core.Array) {
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
}

func (m *memory) read() *core.Array {
	a := core.NewArray(m.layout.DType, m.layout.Sizes)
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

func spanOf(d executor.OutputDescription) int64 {
	n := int64(1)
	for i, s := range d.Sizes {
		if s == 0 {
			return 0
		}
		n += (s - 1) * d.Strides[i]
	}
	return n
}

// prepared is a case in memory.
type prepared struct {
	c       *fusionfuzz.Case
	inputs  []executor.Input
	memory  []*memory
	arrays  []*core.Array
	scalars []scalar.Value
}

func prepare(c *fusionfuzz.Case) *prepared {
	p := &prepared{c: c}
	for _, in := range c.Inputs {
		p.arrays, p.scalars = append(p.arrays, in.Array), append(p.scalars, in.Scalar)
		if in.Array == nil {
			p.inputs, p.memory = append(p.inputs, executor.Input{Scalar: in.Scalar}), append(p.memory, nil)
			continue
		}
		m := newMemory(executor.OutputDescription{DType: in.Array.Type, Sizes: in.Array.Shape, Strides: in.Strides}, in.Offset, in.Storage)
		m.write(in.Array)
		p.memory = append(p.memory, m)
		p.inputs = append(p.inputs, executor.Input{Tensor: true, DType: in.Array.Type, Data: m.data(), Sizes: in.Array.Shape, Strides: in.Strides})
	}
	return p
}

// run plans and runs the case and returns the outputs.
func (p *prepared) run(e *executor.Executor, random core.RandomState) ([]*core.Array, error) {
	plan, err := e.Plan(p.inputs)
	if err != nil {
		return nil, err
	}
	outputs := make([]*memory, len(plan.Outputs))
	pointers := make([]unsafe.Pointer, len(plan.Outputs))
	for k, d := range plan.Outputs {
		switch {
		case d.Alias >= 0:
			outputs[k] = p.memory[d.Alias]
		case d.SameAs >= 0:
			outputs[k] = outputs[d.SameAs]
		default:
			outputs[k] = newMemory(d, 0, spanOf(d))
			pointers[k] = outputs[k].data()
		}
	}
	if err := plan.Run(p.inputs, pointers, random, nil); err != nil {
		return nil, err
	}
	arrays := make([]*core.Array, len(outputs))
	for k, m := range outputs {
		arrays[k] = m.read()
	}
	return arrays, nil
}

func executorOf(t testing.TB, f *core.Fusion) *executor.Executor {
	t.Helper()
	e, err := executor.NewCache(4).Executor(f)
	require.NoError(t, err)
	return e
}

// difference describes the first element in which two arrays differ, or is "".
// Floats may differ by tolerance relative to the largest magnitude.
func difference(want, got *core.Array, tolerance float64) string {
	if fmt.Sprint(want.Type, want.Shape) != fmt.Sprint(got.Type, got.Shape) {
		return fmt.Sprintf("want %v %v, got %v %v", want.Type, want.Shape, got.Type, got.Shape)
	}
	scale := 0.0
	if tolerance > 0 {
		for i := range int64(want.Len()) {
			v := want.At(i)
			if x := math.Hypot(v.Re, v.Im); !math.IsInf(x, 0) && x > scale {
				scale = x
			}
		}
	}
	for i := range int64(want.Len()) {
		a, b := want.At(i), got.At(i)
		if a.I != b.I || !same(a.Re, b.Re, tolerance*scale) || !same(a.Im, b.Im, tolerance*scale) {
			return fmt.Sprintf("element %d of %v %v: want %v, got %v", i, want.Type, want.Shape, a, b)
		}
	}
	return ""
}

func same(a, b, tolerance float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return math.Float64bits(a) == math.Float64bits(b) || math.Abs(a-b) <= tolerance && tolerance > 0
}

// An accuracy says how far a value may be from that of the evaluator.
type accuracy uint8

const (
	exact       accuracy = iota
	approximate          // sums of it may have been added in another order
	unspecified          // it may be anything: a decision on approximate values
)

// accuracies returns the accuracy of every value of f.
func accuracies(f *core.Fusion) map[core.ValID]accuracy {
	acc := map[core.ValID]accuracy{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		a := exact
		for _, v := range f.TensorArgs(e) {
			a = max(a, acc[v])
		}
		for _, v := range e.Out {
			acc[v] = a
			t := f.Val(v).DType
			switch e.Op.Class {
			case core.Reduction, core.Scan, core.Contraction, core.Attention:
				if t.IsFloat() || t.IsComplex() {
					acc[v] = max(a, approximate)
				}
			}
			if a == approximate && !t.IsFloat() && !t.IsComplex() || e.Op.Class == core.Sort && a == approximate {
				acc[v] = unspecified
			}
		}
	}
	return acc
}

// checkCase runs c and compares the outputs with the evaluator's.
func checkCase(t testing.TB, c *fusionfuzz.Case) {
	t.Helper()
	random := core.RandomState{Seed: 7, Offset: 16}
	p := prepare(c)
	want, wantErr := c.Fusion.Eval(p.arrays, p.scalars, random)
	got, err := p.run(executorOf(t, c.Fusion), random)
	if wantErr != nil {
		require.Error(t, err, "%s\n%v", c.Fusion, wantErr)
		return
	}
	var bug *executor.Bug
	if errors.As(err, &bug) {
		t.Fatalf("%v\n%s\n%s", bug, bug.Stack, bug.Reproducer)
	}
	require.NoError(t, err, "%s", c.Fusion)
	acc := accuracies(c.Fusion)
	for k, o := range c.Fusion.Outputs() {
		tolerance := 0.0
		switch acc[o.Val] {
		case approximate:
			tolerance = 1e-4
		case unspecified:
			continue
		}
		if d := difference(want[k], got[k], tolerance); d != "" {
			t.Fatalf("output %d: %s\n%s", k, d, c.Fusion)
		}
	}
}

func FuzzExecutor(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 100)
		for k := range seed {
			seed[k] = byte((i*131 + k*k*17 + k*(i+3)) >> 1)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkCase(t, fusionfuzz.Decode(data)) })
}
