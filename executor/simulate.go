package executor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/executor/cpu"
)

// A simulateStep computes all outputs: those of a task by a kernel that is
// simulated, for a device of compute capability 9.0, the others by copies.
type simulateStep struct {
	*compiled // nil: there is nothing to compute
	outputs   []OutputDescription
	written   []int // inputs that receive outputs
	copies    []outputCopy
}

// An outputCopy is an output that holds the elements of an input, as they were
// before the run, or of another output. The other is -1.
type outputCopy struct{ input, output, to int }

// simulation returns a plan that simulates the fusion by the given one of the
// schedules that there are for it, counted around. The outputs lie in memory as
// on the CPU.
func (e *Executor) simulation(b *core.Binding, inputs []Input, candidate int) (*Plan, error) {
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	t, err := newTask(e.f, inputs, alignments(inputs), b, outputs, Device{})
	if err != nil {
		return nil, err
	}
	var c *compiled
	if t != nil {
		if c, err = t.compile(outputs, candidate); err != nil {
			return nil, err
		}
	}
	return e.simulated(inputs, outputs, c), nil
}

// simulated returns the plan that computes outputs by c, and by copies of inputs
// and other outputs. How long it runs is for the loops of the schedule to say, so
// its work is without bound.
func (e *Executor) simulated(inputs []Input, outputs []OutputDescription, c *compiled) *Plan {
	step := &simulateStep{outputs: outputs, written: e.written}
	if slices.ContainsFunc(outputs, func(o OutputDescription) bool { return core.NumElements(o.Sizes) > 0 }) {
		step.compiled = c
	}
	first := map[core.ValID]int{}
	for k, o := range e.f.Outputs() {
		from, isInput := slices.Index(e.f.Inputs(), o.Val), e.f.Val(o.Val).Input
		earlier, isRepeated := first[o.Val]
		switch {
		case outputs[k].SameAs >= 0 || isInput && from == outputs[k].Alias:
		case isInput:
			step.copies = append(step.copies, outputCopy{from, -1, k})
		case isRepeated:
			step.copies = append(step.copies, outputCopy{-1, earlier, k})
		default:
			first[o.Val] = k
		}
	}
	isRandom := c != nil && slices.ContainsFunc(c.kernel.Arguments, func(a kir.Argument) bool { return a.Kind == kir.RandomSeed })
	p := &Plan{Steps: []Step{step}, Outputs: outputs, NeedsRandom: isRandom,
		Work: math.MaxInt64, e: e, inputs: described(inputs)}
	p.once.Do(func() {
		if p.kernel = c; c == nil {
			p.failed = noKernel()
		}
	})
	return p
}

func (s *simulateStep) run(call *Call) error {
	r := &simulation{step: s, call: call}
	saved := make([]strided, len(s.copies))
	for i, c := range s.copies {
		if c.input >= 0 {
			saved[i] = r.input(c.input).clone()
		}
	}
	if s.compiled != nil {
		if err := r.compute(); err != nil {
			return err
		}
	}
	for i, c := range s.copies {
		if c.output >= 0 {
			saved[i] = r.output(c.output).clone()
		}
	}
	for i, c := range s.copies {
		r.output(c.to).copyFrom(saved[i])
	}
	return nil
}

// A simulation is one run of a step.
type simulation struct {
	step *simulateStep
	call *Call
	host *host

	inputs  map[int]*sim.Memory
	outputs []kir.BufferID // that the kernel must fill
	own     []ownMemory
}

// An ownMemory holds an output that is copied to where it belongs after the
// kernel: to an input, or to memory that has elements where the kernel knows of
// repetitions.
type ownMemory struct {
	to     int
	memory strided
}

// compute runs the kernel.
func (r *simulation) compute() error {
	s := r.step
	s.lock.Lock()
	defer s.lock.Unlock()
	arguments, err := r.arguments()
	if err != nil {
		return err
	}
	report, err := sim.Run(s.kernel, arguments, sim.Options{Outputs: r.outputs, Stop: r.stop})
	if errors.Is(err, sim.ErrStopped) {
		return cpu.ErrInterrupted
	}
	if err == nil {
		err = report.Err()
		if r.call.Counters != nil {
			*r.call.Counters = report.Counters
		}
	}
	if refused := (*core.Unsupported)(nil); errors.As(err, &refused) {
		return err
	}
	if err != nil {
		return &Bug{What: fmt.Sprintf("the simulator reports %v\nin\n%v", err, s.kernel)}
	}
	for _, m := range r.own {
		r.output(m.to).copyFrom(m.memory)
	}
	return nil
}

func (r *simulation) stop() bool { return r.call.Stop != nil && r.call.Stop.Load() }

// arguments returns those of the kernel.
func (r *simulation) arguments() ([]sim.Argument, error) {
	h, err := r.step.host(r.call.Inputs, r.call.Random)
	if err != nil {
		return nil, err
	}
	r.host, r.inputs = h, map[int]*sim.Memory{}
	all := h.kernel.Arguments
	arguments := make([]sim.Argument, len(all))
	for i, a := range all {
		if a.Kind != kir.Pointer {
			arguments[i].Number, err = h.number(a)
		} else {
			arguments[i].Memory, err = r.memory(a)
		}
		if err != nil {
			return nil, err
		}
	}
	return arguments, nil
}

// memory returns what a pointer argument points to.
func (r *simulation) memory(a kir.Argument) (*sim.Memory, error) {
	h, v := r.host, a.Host.Tensor
	buffer := &h.kernel.Buffers[a.Buffer]
	n, err := h.Eval(buffer.Size)
	if err != nil {
		return nil, err
	}
	bytes := max(n, 0) * int64(buffer.DType.Size())
	if i := h.input(v); i >= 0 {
		return r.inputMemory(i, bytes), nil
	}
	for k, o := range h.s.Fusion().Outputs() {
		if o.Val != v {
			continue
		}
		at := h.task.outputs[k]
		d := &r.step.outputs[at]
		if core.NumElements(d.Sizes) == 0 { // one that is expanded to none has some in the kernel, which does not write them
			return &sim.Memory{Undefined: true}, nil
		}
		r.outputs = append(r.outputs, a.Buffer)
		switch {
		case o.Alias != core.NoVal:
			return r.inputMemory(d.Alias, bytes), nil
		case d.Alias >= 0 || !slices.Equal(d.Strides, r.writtenStrides(k)):
			m := make([]byte, bytes)
			r.own = append(r.own, ownMemory{at, strided{unsafe.Pointer(unsafe.SliceData(m)), d.Sizes, r.writtenStrides(k), d.DType.Size()}})
			return &sim.Memory{Data: m, Undefined: true}, nil
		}
		return &sim.Memory{Data: unsafe.Slice((*byte)(r.call.Outputs[at]), bytes), Undefined: true}, nil
	}
	return &sim.Memory{Data: make([]byte, bytes), Undefined: !buffer.Zeroed}, nil
}

// writtenStrides returns those of output k of the task as the kernel writes it,
// which is not to the memory of an input.
func (r *simulation) writtenStrides(k int) []int64 {
	d := &r.step.outputs[r.step.task.outputs[k]]
	return denseStrides(r.step.f, r.step.f.Outputs()[k].Val, d.Sizes, d.order())
}

// inputMemory returns that of input i: a copy if the kernel writes to memory of
// another input that it shares.
func (r *simulation) inputMemory(i int, bytes int64) *sim.Memory {
	if m := r.inputs[i]; m != nil {
		return m
	}
	x, m := &r.call.Inputs[i], &sim.Memory{}
	if core.NumElements(x.Sizes) == 0 { // one that is expanded to none has some in the kernel
		m.Data = make([]byte, bytes)
	} else {
		from, to := x.extent()
		m.Data = unsafe.Slice((*byte)(x.Data), to-from)
		if !slices.Contains(r.step.written, i) && sharesMemory(r.step.written, r.call.Inputs, i) {
			m.Data = slices.Clone(m.Data)
		}
	}
	r.inputs[i] = m
	return m
}
