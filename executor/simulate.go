package executor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor/cpu"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// A simulateStep computes the whole fusion by a kernel that is simulated, for a
// device of compute capability 9.0.
type simulateStep struct {
	s      *schedule.Scheduled
	kernel *kir.Kernel
	empty  bool // no output has elements

	lock sync.Mutex // evaluating sizes adds to the tables of s and kernel
}

// slowdown is about how many times longer than on the CPU a simulated operation
// takes: it checks every access.
const slowdown = 64

// scheduled returns the schedule of the first scheduler that takes the fusion.
//
// Errors: Unsupported with what each scheduler says.
func (e *Executor) scheduled(b *core.Binding) (*schedule.Scheduled, error) {
	chosen, refusals := schedulers.Choose(e.f, b, scheduler.Hopper)
	if chosen == nil {
		return nil, &core.Unsupported{What: "execute(): no scheduler takes this fusion", Refusals: refusals}
	}
	return chosen.Apply(e.f, chosen.Candidates(e.f, b, scheduler.Hopper)[0])
}

// PlanScheduled returns a plan that computes the fusion by s, a schedule of it,
// in the simulator. It is not kept.
//
// Errors: as of [Executor.PlanWith], and of [lower.Lower].
func (e *Executor) PlanScheduled(inputs []Input, s *schedule.Scheduled) (p *Plan, err error) {
	err = e.guard(inputs, func() error {
		b, err := check(e.f, inputs)
		if err != nil {
			return err
		}
		p, err = e.simulate(b, inputs, s.Clone())
		return err
	})
	return p, err
}

// simulate returns a plan that simulates s. The outputs lie in memory as on the
// CPU.
func (e *Executor) simulate(b *core.Binding, inputs []Input, s *schedule.Scheduled) (*Plan, error) {
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	if err := layOut(s, e.f, outputs); err != nil {
		return nil, err
	}
	// The plan is of these sizes, so lowering may rely on none of them being 0
	// where it is not.
	promise := func(h kir.HostValue) scalar.Facts {
		if h.Scalar != scalar.None && int(h.Scalar) < e.f.Scalars().Len() {
			if n, err := b.Int(h.Scalar); err == nil && n > 0 {
				return scalar.Range(1, math.MaxInt64)
			}
		}
		return scalar.Unknown()
	}
	k, err := lower.Lower(s, lower.Options{Promise: promise})
	if err != nil {
		return nil, err
	}
	if err := k.Verify(); err != nil {
		return nil, &Bug{What: fmt.Sprintf("%v\nin\n%v", err, k)}
	}
	work, err := workOf(e.f, b)
	if err != nil {
		return nil, err
	}
	step := &simulateStep{s: s, kernel: k, empty: true}
	for _, o := range outputs {
		step.empty = step.empty && core.NumElements(o.Sizes) == 0
	}
	isRandom := slices.ContainsFunc(k.Arguments, func(a kir.Argument) bool { return a.Kind == kir.RandomSeed })
	return &Plan{Steps: []Step{step}, Outputs: outputs, NeedsRandom: isRandom,
		Work: min(work, math.MaxInt64/slowdown) * slowdown, e: e}, nil
}

// layOut gives the outputs of s, a schedule of f, the order of dimensions in
// memory that outputs describe.
func layOut(s *schedule.Scheduled, f *core.Fusion, outputs []OutputDescription) error {
	orders := memoryOrders(f)
	for k, o := range s.Fusion().Outputs() {
		order := orders[f.Outputs()[k].Val]
		if order == nil || outputs[k].SameAs >= 0 || declaredOrder(s.Fusion(), o.Val) != nil {
			continue
		}
		axes := s.Fusion().Axes(o.Val)
		alloc := make([]core.AxisID, len(order))
		for i, d := range order {
			alloc[i] = axes[d]
		}
		for _, a := range s.Fusion().Val(o.Val).Domain.Logical {
			if !slices.Contains(alloc, a) { // reduced
				alloc = append(alloc, a)
			}
		}
		if err := s.SetAllocation(o.Val, alloc, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulateStep) run(c *Call) error {
	if s.empty {
		return nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	arguments, outputs, err := s.arguments(c)
	if err != nil {
		return err
	}
	report, err := sim.Run(s.kernel, arguments, sim.Options{Outputs: outputs, Stop: func() bool { return c.Stop != nil && c.Stop.Load() }})
	if errors.Is(err, sim.ErrStopped) {
		return cpu.ErrInterrupted
	}
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return &Bug{What: fmt.Sprintf("the simulator reports\n%v\nin\n%v", err, s.kernel)}
	}
	return nil
}

// arguments returns those of the kernel, and the buffers of outputs.
func (s *simulateStep) arguments(c *Call) ([]sim.Argument, []kir.BufferID, error) {
	f := s.s.Fusion()
	values := make([]core.InputValue, len(c.Inputs))
	for i := range c.Inputs {
		x := &c.Inputs[i]
		values[i] = core.InputValue{Tensor: x.Tensor, DType: x.DType, Sizes: slices.Clone(x.Sizes), Scalar: x.Scalar}
	}
	b, err := f.Bind(values)
	if err != nil {
		return nil, nil, err
	}
	h := &host{step: s, call: c, b: b, integers: map[uint32]int64{}}
	arguments := make([]sim.Argument, len(s.kernel.Arguments))
	for i, a := range s.kernel.Arguments {
		if a.Kind == kir.Pointer {
			continue
		}
		if arguments[i].Number, err = h.number(a); err != nil {
			return nil, nil, err
		}
		if a.Kind == kir.IndexScalar {
			h.integers[uint32(a.Symbol)] = arguments[i].Number.I
		}
	}
	for i, a := range s.kernel.Arguments { // the sizes of workspaces depend on the integers
		if a.Kind != kir.Pointer {
			continue
		}
		if arguments[i].Memory, err = h.memory(a); err != nil {
			return nil, nil, err
		}
	}
	return arguments, h.outputs, nil
}

// A host evaluates the arguments of one launch.
type host struct {
	step     *simulateStep
	call     *Call
	b        *core.Binding
	integers map[uint32]int64 // by symbol
	outputs  []kir.BufferID
}

func (h *host) input(v core.ValID) *Input {
	if i := slices.Index(h.step.s.Fusion().Inputs(), v); i >= 0 {
		return &h.call.Inputs[i]
	}
	return nil
}

func (h *host) number(a kir.Argument) (scalar.Value, error) {
	integer := func(n int64) scalar.Value { return scalar.Value{Type: dtype.Int, I: n} }
	switch a.Kind {
	case kir.RandomSeed:
		return integer(int64(h.call.Random.Seed)), nil
	case kir.RandomOffset:
		return integer(int64(h.call.Random.Offset)), nil
	case kir.IndexScalar:
		n, err := h.integer(a.Host)
		return scalar.Value{Type: dtype.Index, I: n}, err
	}
	if a.Host.Tensor != core.NoVal {
		x := h.input(a.Host.Tensor)
		return core.ConvertScalar(a.DType, element(x.DType, unsafe.Slice((*byte)(x.Data), x.DType.Size()))), nil
	}
	v, err := h.b.Value(a.Host.Scalar)
	if err != nil {
		return v, h.step.s.Fusion().ScalarError(err)
	}
	return core.ConvertScalar(a.DType, v), nil
}

func (h *host) integer(v kir.HostValue) (int64, error) {
	if v.Stride < 0 {
		return h.b.Int(v.Scalar)
	}
	alloc, _ := h.step.s.Allocation(v.Tensor)
	x := h.input(v.Tensor)
	if core.NumElements(x.Sizes) == 0 {
		return 0, nil
	}
	d := slices.Index(h.step.s.Fusion().Val(v.Tensor).Domain.Logical, alloc[v.Stride])
	return x.Strides[d], nil
}

func (h *host) memory(a kir.Argument) (*sim.Memory, error) {
	k, v := h.step.kernel, a.Host.Tensor
	buffer := &k.Buffers[a.Buffer]
	n, err := h.size(buffer.Size)
	if err != nil {
		return nil, err
	}
	bytes := max(n, 0) * int64(buffer.DType.Size())
	if x := h.input(v); x != nil {
		if core.NumElements(x.Sizes) == 0 { // one that is expanded to none has some in the kernel
			return &sim.Memory{Data: make([]byte, bytes)}, nil
		}
		from, to := x.extent()
		return &sim.Memory{Data: unsafe.Slice((*byte)(x.Data), to-from)}, nil
	}
	for i, o := range h.step.s.Fusion().Outputs() {
		if o.Val == v {
			h.outputs = append(h.outputs, a.Buffer)
			if sizes, err := h.b.Shape(v); err != nil || core.NumElements(sizes) == 0 {
				return &sim.Memory{Data: make([]byte, bytes), Undefined: true}, err
			}
			return &sim.Memory{Data: unsafe.Slice((*byte)(h.call.Outputs[i]), bytes), Undefined: true}, nil
		}
	}
	return &sim.Memory{Data: make([]byte, bytes), Undefined: !buffer.Zeroed}, nil
}

// size evaluates an expression of the kernel's arguments.
func (h *host) size(id scalar.ID) (int64, error) {
	t := h.step.kernel.Scalars
	v, err := t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
		return scalar.Value{Type: t.Type(s), I: h.integers[t.Tag(s).Val]}, nil
	}, core.EvalOpaque, nil)
	return v.I, err
}

// element reads one of type t.
func element(t dtype.Type, b []byte) scalar.Value {
	v := scalar.Value{Type: t}
	switch {
	case t.IsFloat():
		v.Re = dtype.LoadFloat(t, b)
	case t.IsComplex():
		x := dtype.LoadComplex(t, b)
		v.Re, v.Im = real(x), imag(x)
	default:
		v.I = dtype.LoadInt(t, b)
	}
	return v
}
