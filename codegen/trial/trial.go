// Package trial launches kernels of schedules on inputs that tests make, and
// says what they ought to compute.
//
// Its central type is [Trial]. [Trial.Launch] stands for the host: it makes the
// memory of inputs, outputs and workspaces and evaluates every argument of the
// kernel. A launch is then given to a simulator ([Trial.Simulate]) or to any
// other thing that runs kernels, and its memory read back.
//
// Invariants: inputs lie in memory as their strides say, from element 0 on; an
// output has no gaps, in the order of its allocation domain, and holds a pattern
// before it is written; an output that overwrites an input has the same memory.
//
// It is for tests. It does not lower schedules, and knows no way to run a kernel
// but the simulator.
package trial

import (
	"slices"

	"nvfuser_go/codegen/arguments"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A Trial is a kernel, the schedule that it was lowered from, and inputs.
type Trial struct {
	Scheduled *schedule.Scheduled
	Kernel    *kir.Kernel
	Inputs    []fusionfuzz.Input
	Random    core.RandomState
}

// Values returns the inputs as [core.Fusion.Bind] takes them.
func Values(inputs []fusionfuzz.Input) []core.InputValue {
	_, _, values := fusionfuzz.Arguments(inputs)
	return values
}

// Want evaluates f, the fusion without a schedule, on inputs.
//
// Errors: those of [core.Fusion.Eval].
func Want(f *core.Fusion, inputs []fusionfuzz.Input, random core.RandomState) ([]*core.Array, error) {
	arrays, scalars, _ := fusionfuzz.Arguments(inputs)
	return f.Eval(arrays, scalars, random)
}

// Simulate launches the kernel in the simulator, and returns the outputs and
// the report. The outputs among the arguments are added to o.
//
// Errors: those of [Trial.Launch] and [sim.Run]; not what the report finds.
func (t *Trial) Simulate(o sim.Options) ([]*core.Array, *sim.Report, error) {
	l, err := t.Launch()
	if err != nil {
		return nil, nil, err
	}
	o.Outputs = l.Outputs
	report, err := sim.Run(t.Kernel, l.Arguments, o)
	if err != nil {
		return nil, nil, err
	}
	return l.Results(), report, nil
}

// A Launch is the arguments of a kernel and the memory that they point to.
type Launch struct {
	Arguments []sim.Argument // one for each of the kernel's
	Outputs   []kir.BufferID // with elements; none that overwrites an input

	t       *Trial
	bind    *core.Binding
	memory  map[core.ValID]*fusionfuzz.Memory
	pointed map[*fusionfuzz.Memory]*sim.Memory
	values  *arguments.Values
}

// Launch makes memory and evaluates the arguments for one launch.
//
// Errors: those of [core.Fusion.Bind], and of scalars that have no value.
func (t *Trial) Launch() (*Launch, error) {
	bind, err := t.Scheduled.Fusion().Bind(Values(t.Inputs))
	if err != nil {
		return nil, err
	}
	l := &Launch{Arguments: make([]sim.Argument, len(t.Kernel.Arguments)), t: t, bind: bind,
		memory: map[core.ValID]*fusionfuzz.Memory{}, pointed: map[*fusionfuzz.Memory]*sim.Memory{}}
	if l.values, err = arguments.New(t.Scheduled, t.Kernel, bind, inputs(t.Inputs)); err != nil {
		return nil, err
	}
	for i, a := range t.Kernel.Arguments {
		if a.Kind != kir.Pointer {
			if l.Arguments[i].Number, err = l.values.Number(&a, t.Random); err != nil {
				return nil, err
			}
		}
	}
	for i, a := range t.Kernel.Arguments { // sizes of workspaces depend on the integers
		if a.Kind == kir.Pointer {
			if l.Arguments[i].Memory, err = l.pointer(a); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// Results reads the outputs of the fusion from memory.
func (l *Launch) Results() []*core.Array {
	var out []*core.Array
	for _, o := range l.t.Scheduled.Fusion().Outputs() {
		out = append(out, l.memory[o.Val].Read())
	}
	return out
}

// input returns the input that v is, or nil.
func (l *Launch) input(v core.ValID) *fusionfuzz.Input {
	if i := slices.Index(l.t.Scheduled.Fusion().Inputs(), v); i >= 0 {
		return &l.t.Inputs[i]
	}
	return nil
}

func (l *Launch) pointer(a kir.Argument) (*sim.Memory, error) {
	f, v := l.t.Scheduled.Fusion(), a.Host.Tensor
	isOutput := slices.ContainsFunc(f.Outputs(), func(o core.Output) bool { return o.Val == v })
	if v == core.NoVal || !f.Val(v).Input && !isOutput { // nobody but the kernel sees it
		b := &l.t.Kernel.Buffers[a.Buffer]
		n, err := l.values.Eval(b.Size)
		return &sim.Memory{Data: make([]byte, max(n, 0)*int64(b.DType.Size())), Undefined: !b.Zeroed}, err
	}
	if in := l.input(v); in != nil {
		return l.inputMemory(v, in), nil
	}
	for _, o := range f.Outputs() {
		if o.Val == v && o.Alias != core.NoVal {
			m := l.inputMemory(o.Alias, l.input(o.Alias))
			l.memory[v] = l.memory[o.Alias]
			return m, nil
		}
	}
	sizes, err := l.bind.Shape(v)
	if err != nil {
		return nil, err
	}
	l.memory[v] = fusionfuzz.NewMemory(f.Val(v).DType, sizes, l.dense(v, sizes), 0)
	if core.NumElements(sizes) > 0 {
		l.Outputs = append(l.Outputs, a.Buffer)
	}
	return &sim.Memory{Data: l.memory[v].Bytes(), Undefined: true}, nil
}

// inputMemory returns the memory of input v, which is made once.
func (l *Launch) inputMemory(v core.ValID, in *fusionfuzz.Input) *sim.Memory {
	m := l.memory[v]
	if m == nil {
		m = fusionfuzz.NewMemory(in.Array.Type, in.Array.Shape, in.Strides, 0)
		m.Write(in.Array)
		l.memory[v], l.pointed[m] = m, &sim.Memory{Data: m.Bytes()}
	}
	return l.pointed[m]
}

// dense returns the strides of v, of the given sizes, without gaps.
func (l *Launch) dense(v core.ValID, sizes []int64) []int64 {
	f := l.t.Scheduled.Fusion()
	alloc, _ := l.t.Scheduled.Allocation(v)
	strides, step := make([]int64, len(sizes)), int64(1)
	for k := len(alloc) - 1; k >= 0; k-- {
		for d, x := range f.Axes(v) {
			if x == alloc[k] && f.Axis(x).Kind != core.Broadcast {
				strides[d] = step
				step *= max(sizes[d], 1)
			}
		}
	}
	return strides
}

// inputs is what numbers of kernels depend on.
type inputs []fusionfuzz.Input

// Stride returns that of a dimension.
func (in inputs) Stride(i, d int) int64 { return in[i].Strides[d] }

// Element returns that of a tensor without dimensions.
func (in inputs) Element(i int) scalar.Value { return in[i].Array.At(0) }

// Integers returns a function that gives the integer arguments of kernels of s
// their values on the given inputs, as lowering may be told them. It reports false for
// what the inputs do not decide.
//
// Errors: those of [core.Fusion.Bind].
func Integers(s *schedule.Scheduled, given []fusionfuzz.Input) (func(kir.HostValue) (int64, bool), error) {
	bind, err := s.Fusion().Bind(Values(given))
	if err != nil {
		return nil, err
	}
	return func(v kir.HostValue) (int64, bool) {
		n, err := arguments.Integer(s, bind, inputs(given), v)
		return n, err == nil
	}, nil
}
