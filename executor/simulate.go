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
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor/cpu"
)

// A simulateStep computes the whole fusion by a kernel that is simulated, for a
// device of compute capability 9.0.
type simulateStep struct {
	*compiled
	empty bool // no output has elements
}

// slowdown is about how many times longer than on the CPU a simulated operation
// takes: it checks every access.
const slowdown = 64

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

// simulate returns a plan that simulates s, or if that is nil, the schedule of
// the first scheduler that takes the fusion. The outputs lie in memory as on the
// CPU.
func (e *Executor) simulate(b *core.Binding, inputs []Input, s *schedule.Scheduled) (*Plan, error) {
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	c, err := e.compile(b, outputs, s)
	if err != nil {
		return nil, err
	}
	work, err := workOf(e.f, b)
	if err != nil {
		return nil, err
	}
	step := &simulateStep{compiled: c, empty: true}
	for _, o := range outputs {
		step.empty = step.empty && core.NumElements(o.Sizes) == 0
	}
	isRandom := slices.ContainsFunc(c.kernel.Arguments, func(a kir.Argument) bool { return a.Kind == kir.RandomSeed })
	p := &Plan{Steps: []Step{step}, Outputs: outputs, NeedsRandom: isRandom,
		Work: min(work, math.MaxInt64/slowdown) * slowdown, e: e, inputs: described(inputs)}
	p.once.Do(func() { p.kernel = c })
	return p, nil
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
		if c.Counters != nil {
			*c.Counters = report.Counters
		}
	}
	if err != nil {
		return &Bug{What: fmt.Sprintf("the simulator reports\n%v\nin\n%v", err, s.kernel)}
	}
	return nil
}

// arguments returns those of the kernel, and the buffers of outputs.
func (s *simulateStep) arguments(c *Call) ([]sim.Argument, []kir.BufferID, error) {
	h, err := s.host(c)
	if err != nil {
		return nil, nil, err
	}
	arguments := make([]sim.Argument, len(s.kernel.Arguments))
	for i, a := range s.kernel.Arguments {
		if a.Kind == kir.Pointer {
			continue
		}
		if arguments[i].Number, err = h.number(a); err != nil {
			return nil, nil, err
		}
	}
	for i, a := range s.kernel.Arguments {
		if a.Kind != kir.Pointer {
			continue
		}
		if arguments[i].Memory, err = h.memory(a); err != nil {
			return nil, nil, err
		}
	}
	return arguments, h.outputs, nil
}

func (h *host) memory(a kir.Argument) (*sim.Memory, error) {
	k, v := h.kernel, a.Host.Tensor
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
	for i, o := range h.s.Fusion().Outputs() {
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
