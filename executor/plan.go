package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor/cpu"
)

// A Plan computes the outputs of a fusion for one kind of inputs. It does not
// change, but for what [Plan.Inspection] adds.
type Plan struct {
	Steps       []Step         // of a plan of the CPU
	Device      *DeviceProgram // instead of steps: of a CUDA device, or simulated
	Outputs     []OutputDescription
	NeedsRandom bool  // a run draws from the random generator, which moves on
	Work        int64 // estimate of a run: operations on elements

	e      *Executor
	inputs []Input // of this kind, without data
	views  bool    // as of [Options]

	once   sync.Once // for looked
	looked *Inspection
}

// A Step is a part of a plan.
type Step interface {
	run(c *Call) error
}

// A Call is one run of a plan.
type Call struct {
	Inputs  []Input
	Outputs []unsafe.Pointer
	Random  core.RandomState
	Stop    *atomic.Bool
	// Counters, if not nil, receives the work of a kernel that is simulated.
	Counters *sim.Counters
}

func (e *Executor) newPlan(inputs []Input, o Options) (*Plan, error) {
	b, err := check(e.f, inputs)
	if err != nil {
		return nil, err
	}
	place, err := e.place(inputs, o)
	if err != nil {
		return nil, err
	}
	switch {
	case place.Type == CUDA && o.Simulate:
		return nil, core.InvalidArgumentf("execute(): the simulator computes on the CPU, and the run is on %v", place)
	case place.Type == CUDA:
		return e.planInSteps(b, inputs, o, place.Index)
	case e.byHand != nil, o.Simulate:
		return e.planInSteps(b, inputs, o, onHost)
	}
	shape, err := e.shape(b, inputs, o, place)
	if err != nil {
		return nil, err
	}
	draws, err := drawn(e.f, b, simulated)
	if err != nil {
		return nil, err
	}
	p := &Plan{Outputs: shape.outputs, NeedsRandom: draws > 0, e: e, inputs: described(inputs), views: o.Views}
	s, err := p.cpuStep(shape)
	if err != nil || len(s.outputs) == 0 && len(p.Outputs) > 0 {
		return p, err
	}
	if s.program, err = s.build(true); err != nil {
		return nil, err
	}
	p.Steps = []Step{s}
	p.Work, err = workOf(s.f, s.b)
	return p, err
}

// cpuStep returns the step that computes all outputs but views of inputs.
func (p *Plan) cpuStep(of *shape) (s *cpuStep, err error) {
	s = &cpuStep{f: of.f, b: of.b, key: p.e.key, written: p.e.written}
	for _, x := range p.inputs {
		s.inputs = append(s.inputs, cpu.Layout{DType: x.DType, Sizes: x.Sizes, Strides: x.Strides})
	}
	var computed []core.Output
	for k := range p.Outputs {
		if o := &p.Outputs[k]; !o.ofInput(len(p.inputs)) {
			s.computes, s.outputs, computed = append(s.computes, k), append(s.outputs, *o), append(computed, of.f.Outputs()[k])
		}
	}
	if len(computed) < len(p.Outputs) {
		s.f = of.f.WithOutputs(computed)
		s.b, err = s.f.Bind(valuesOf(p.inputs))
	}
	return s, err
}

// Run computes the outputs of a plan of the CPU. inputs are of the kind that the plan was made for;
// outputs[k] is the memory of output k, of the sizes and strides of its
// description, and is not read for outputs that have none of their own. Outputs
// share no memory with each other or with inputs. stop, if not nil, is polled.
//
// Errors: cpu.ErrInterrupted, after which the outputs are undefined;
// InvalidArgument if a scalar has no value, such as a division by zero; [Bug].
func (p *Plan) Run(inputs []Input, outputs []unsafe.Pointer, random core.RandomState, stop *atomic.Bool) error {
	return p.Do(&Call{Inputs: inputs, Outputs: outputs, Random: random, Stop: stop})
}

// Do is Run with the arguments in c.
func (p *Plan) Do(c *Call) error {
	return p.e.guard(c.Inputs, func() error {
		if p.Device != nil && !p.onHost() {
			return &Bug{What: fmt.Sprintf("a plan of cuda:%d is run on the CPU", p.Device.Device)}
		}
		if p.Device != nil {
			return p.simulate(c)
		}
		for _, s := range p.Steps {
			if err := s.run(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// A cpuStep computes the whole fusion on the CPU.
type cpuStep struct {
	f        *core.Fusion
	b        *core.Binding
	key      []bool
	inputs   []cpu.Layout
	computes []int               // outputs of the plan
	outputs  []OutputDescription // of those
	written  []int               // inputs that receive outputs
	program  *cpu.Program

	once    sync.Once
	careful *cpu.Program // for inputs that share memory with one that is written
	err     error
}

func (s *cpuStep) build(apart bool) (*cpu.Program, error) {
	return cpu.Build(s.f, s.b, s.inputs, layouts(s.outputs), cpu.Options{
		Fixed: func(i int) bool { return s.key[i] }, Apart: apart})
}

func (s *cpuStep) run(c *Call) error {
	p := s.program
	if sharesMemory(s.written, c.Inputs) {
		s.once.Do(func() { s.careful, s.err = s.build(false) })
		if s.err != nil {
			return s.err
		}
		p = s.careful
	}
	a := cpu.Arguments{Inputs: make([]unsafe.Pointer, len(c.Inputs)), Scalars: make([]scalar.Value, len(c.Inputs)),
		Outputs: c.Outputs, Random: c.Random, Stop: c.Stop}
	if len(s.computes) < len(c.Outputs) {
		a.Outputs = nil
		for _, k := range s.computes {
			a.Outputs = append(a.Outputs, c.Outputs[k])
		}
	}
	for i := range c.Inputs {
		x := &c.Inputs[i]
		if x.Tensor {
			a.Inputs[i] = x.Data
		} else {
			a.Scalars[i] = core.ConvertScalar(s.f.Val(s.f.Inputs()[i]).DType, x.Scalar)
		}
	}
	return p.Run(a)
}
