package lower

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// parsed returns a schedule of the fusion of text, unscheduled.
func parsed(t testing.TB, text string) *schedule.Scheduled {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return schedule.New(f)
}

// tv returns the tensor that is called tvN.
func tv(s *schedule.Scheduled, n int) core.ValID {
	f := s.Fusion()
	for v := range f.NumVals() {
		if x := f.Val(core.ValID(v)); x.Tensor && x.Number == n {
			return core.ValID(v)
		}
	}
	panic("no such tensor")
}

// A run is one kernel and what the host gives it.
type run struct {
	fusion *core.Fusion // the mathematics, unscheduled
	inputs []fusionfuzz.Input
	random core.RandomState
}

// lowered returns the kernel of s, verified after each pass.
func lowered(s *schedule.Scheduled, o Options) (*kir.Kernel, error) {
	return lowerWith(s, o, func(p Pass, k *kir.Kernel) error {
		if !p.Complete {
			return nil
		}
		return k.Verify()
	})
}

func (r *run) arrays() ([]*core.Array, []scalar.Value, []core.InputValue) {
	arrays, scalars, values := make([]*core.Array, len(r.inputs)), make([]scalar.Value, len(r.inputs)), make([]core.InputValue, len(r.inputs))
	for i, in := range r.inputs {
		arrays[i], scalars[i] = in.Array, in.Scalar
		if values[i].Scalar = in.Scalar; in.Array != nil {
			values[i] = core.InputValue{Tensor: true, DType: in.Array.Type, Sizes: in.Array.Shape}
		}
	}
	return arrays, scalars, values
}

// simulate runs k, the kernel of s, and returns the outputs.
func (r *run) simulate(s *schedule.Scheduled, k *kir.Kernel, order sim.Order) ([]*core.Array, error) {
	f := s.Fusion()
	_, _, values := r.arrays()
	bind, err := f.Bind(values)
	if err != nil {
		return nil, err
	}
	h := &host{run: r, s: s, k: k, bind: bind, memory: map[core.ValID]*fusionfuzz.Memory{}, integers: map[uint32]int64{}, given: map[core.ValID]*sim.Memory{}}
	arguments, outputs, err := h.arguments()
	if err != nil {
		return nil, err
	}
	report, err := sim.Run(k, arguments, sim.Options{Order: order, Seed: 1, Outputs: outputs})
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return nil, err
	}
	var out []*core.Array
	for _, o := range f.Outputs() {
		out = append(out, h.memory[o.Val].Read())
	}
	return out, nil
}

type host struct {
	*run
	s        *schedule.Scheduled
	k        *kir.Kernel
	bind     *core.Binding
	memory   map[core.ValID]*fusionfuzz.Memory
	integers map[uint32]int64
	given    map[core.ValID]*sim.Memory
}

func (h *host) arguments() ([]sim.Argument, []kir.BufferID, error) {
	arguments := make([]sim.Argument, len(h.k.Arguments))
	var outputs []kir.BufferID
	for i, a := range h.k.Arguments {
		var err error
		switch a.Kind {
		case kir.IndexScalar:
			var n int64
			n, err = h.integer(a.Host)
			arguments[i].Number = scalar.Value{Type: dtype.Index, I: n}
			h.integers[uint32(a.Symbol)] = n
		case kir.ValueScalar:
			arguments[i].Number, err = h.number(a)
		case kir.RandomSeed:
			arguments[i].Number = scalar.Value{Type: dtype.Int, I: int64(h.random.Seed)}
		case kir.RandomOffset:
			arguments[i].Number = scalar.Value{Type: dtype.Int, I: int64(h.random.Offset)}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for i, a := range h.k.Arguments {
		if a.Kind != kir.Pointer {
			continue
		}
		m, isOutput, err := h.pointer(a)
		if err != nil {
			return nil, nil, err
		}
		arguments[i].Memory = m
		if isOutput {
			outputs = append(outputs, a.Buffer)
		}
	}
	return arguments, outputs, nil
}

func (h *host) input(v core.ValID) *fusionfuzz.Input {
	for i, x := range h.s.Fusion().Inputs() {
		if x == v {
			return &h.inputs[i]
		}
	}
	return nil
}

func (h *host) integer(v kir.HostValue) (int64, error) {
	if v.Stride < 0 {
		return h.bind.Int(v.Scalar)
	}
	f := h.s.Fusion()
	alloc, _ := h.s.Allocation(v.Tensor)
	for d, a := range f.Val(v.Tensor).Domain.Logical {
		if a == alloc[v.Stride] {
			return h.input(v.Tensor).Strides[d], nil
		}
	}
	return 0, fmt.Errorf("no such stride")
}

func (h *host) number(a kir.Argument) (scalar.Value, error) {
	if a.Host.Tensor != core.NoVal {
		return core.ConvertScalar(a.DType, h.input(a.Host.Tensor).Array.At(0)), nil
	}
	v, err := h.bind.Value(a.Host.Scalar)
	return core.ConvertScalar(a.DType, v), err
}

func (h *host) pointer(a kir.Argument) (*sim.Memory, bool, error) {
	f, v := h.s.Fusion(), a.Host.Tensor
	if v == core.NoVal {
		b := &h.k.Buffers[a.Buffer]
		n, err := h.size(b.Size)
		return &sim.Memory{Data: make([]byte, n*int64(b.DType.Size())), Undefined: !b.Zeroed}, false, err
	}
	if in := h.input(v); in != nil {
		if m := h.given[v]; m != nil {
			return m, false, nil
		}
		m := fusionfuzz.NewMemory(in.Array.Type, in.Array.Shape, in.Strides, 0)
		m.Write(in.Array)
		h.memory[v] = m
		h.given[v] = &sim.Memory{Data: m.Bytes()}
		return h.given[v], false, nil
	}
	for _, o := range f.Outputs() {
		if o.Val == v && o.Alias != core.NoVal {
			return h.overwritten(v, o.Alias)
		}
	}
	sizes, err := h.bind.Shape(v)
	if err != nil {
		return nil, false, err
	}
	alloc, _ := h.s.Allocation(v)
	strides, step := make([]int64, len(sizes)), int64(1)
	for k := len(alloc) - 1; k >= 0; k-- {
		for d, x := range f.Axes(v) {
			if x == alloc[k] && f.Axis(x).Kind != core.Broadcast {
				strides[d] = step
				step *= max(sizes[d], 1)
			}
		}
	}
	h.memory[v] = fusionfuzz.NewMemory(f.Val(v).DType, sizes, strides, 0)
	isOutput := false // with elements
	for _, o := range f.Outputs() {
		isOutput = isOutput || o.Val == v && core.NumElements(sizes) > 0
	}
	return &sim.Memory{Data: h.memory[v].Bytes(), Undefined: true}, isOutput, nil
}

// overwritten returns the memory of input in, which output v gets.
func (h *host) overwritten(v, in core.ValID) (*sim.Memory, bool, error) {
	m, _, err := h.pointer(kir.Argument{Host: kir.HostValue{Tensor: in}})
	h.memory[v] = h.memory[in]
	return m, false, err
}

func (h *host) size(id scalar.ID) (int64, error) {
	t := h.k.Scalars
	v, err := t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
		return scalar.Value{Type: t.Type(s), I: h.integers[t.Tag(s).Val]}, nil
	}, core.EvalOpaque, nil)
	return v.I, err
}

// checkWith lowers s and compares a simulated run with core.Eval.
func checkWith(s *schedule.Scheduled, f *core.Fusion, inputs []fusionfuzz.Input, o Options) (*kir.Kernel, error) {
	r := &run{fusion: f, inputs: inputs, random: core.RandomState{Seed: 1234, Offset: 8}}
	k, err := lowered(s, o)
	if err != nil {
		return nil, err
	}
	arrays, scalars, _ := r.arrays()
	want, err := f.Eval(arrays, scalars, r.random)
	if err != nil {
		return k, err
	}
	for _, order := range []sim.Order{sim.Forward, sim.Reverse} {
		got, err := r.simulate(s, k, order)
		if err != nil {
			return k, fmt.Errorf("simulation: %w", err)
		}
		for i := range want {
			if text := fusionfuzz.Difference(want[i], got[i], 1e-5); text != "" {
				return k, fmt.Errorf("output %d: %s", i, text)
			}
		}
	}
	return k, nil
}
