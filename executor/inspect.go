package executor

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// An Inspection shows a fusion on its way to kernels: of the CUDA device that it
// runs on, else of compute capability 9.0, also where it is not run by them. It may
// be used by many goroutines.
type Inspection struct {
	f      *core.Fusion
	e      *Executor // nil: of no executor
	inputs []Input   // without data
	known  bool      // the inputs are
	made   *made     // nil: without inputs there is nothing
	plan   *Plan     // whose program it shows; nil: that failed
	failed error     // why made lacks what it lacks

	shown atomic.Bool
	once  sync.Once
	look  func() error // completes it at the first call that needs that; nil: it is complete
}

// InspectDefinition returns what there is to see of f, which is frozen, without
// inputs.
func InspectDefinition(f *core.Fusion) *Inspection { return &Inspection{f: f} }

// InspectSchedule returns what there is to see of s as it is now, without inputs.
// Tensors are taken to begin at multiples of 16 bytes, as those of torch do.
func InspectSchedule(s *schedule.Scheduled, o lower.Options) *Inspection {
	if o.Alignment == nil {
		o.Alignment = func(core.ValID) int { return 16 }
	}
	c := &compiled{lowered: &lowered{s: s.Clone()}, options: o}
	x := &Inspection{f: c.s.Fusion(), made: &made{parts: []part{{c: c}}}}
	if x.failed = checkSchedule(c.s); x.failed == nil {
		x.failed = c.lower()
	}
	return x
}

// Inspection returns what there is to see of the fusion with inputs of the plan's
// kind. Kernels are made when one is shown, unless the plan runs them: then for
// inputs that begin at multiples of 16 bytes, as a plan of the CPU does not tell.
func (p *Plan) Inspection() *Inspection {
	p.once.Do(func() {
		x := &Inspection{f: p.e.f, e: p.e, known: true, inputs: p.inputs}
		x.look = func() (err error) {
			if p.Device == nil {
				return x.assemble(p.inputs, Options{Views: p.views}, onHost)
			}
			x.plan = p
			x.made, err = p.Device.made()
			return err
		}
		p.looked = x
	})
	return p.looked
}

// Inspect returns what there is to see of the fusion with inputs: of the plan for them, or
// if that cannot be made of what there is of it, with kernels that are not compiled.
//
// Errors: InvalidArgument and InvalidType, as of [Executor.PlanWith].
func (e *Executor) Inspect(inputs []Input, o Options) (*Inspection, error) {
	p, err := e.PlanWith(inputs, o)
	if err == nil {
		return p.Inspection(), nil
	}
	if errors.As(err, new(*core.InvalidArgument)) || errors.As(err, new(*core.InvalidType)) {
		return nil, err
	}
	x := &Inspection{f: e.f, e: e, known: true, inputs: described(inputs)}
	x.look = func() error {
		place, other := e.place(inputs, o)
		device := onHost
		if place.Type == CUDA {
			device = place.Index
		}
		if other == nil {
			_ = x.assemble(inputs, o, device) // it lacks what it lacks for err
		}
		return err
	}
	return x, nil
}

// assemble makes a program that is not loaded, as far as that goes.
func (x *Inspection) assemble(inputs []Input, o Options, device int) error {
	b, err := x.f.Bind(valuesOf(inputs))
	if err != nil {
		return err
	}
	a, err := x.e.begin(b, inputs, o, device)
	if err != nil {
		return err
	}
	a.dry, x.made = true, a.made
	if err := a.assemble(); err != nil {
		return err
	}
	a.p.finish(a.made.itself)
	x.plan = a.p
	return nil
}

// complete makes what is to be seen.
func (x *Inspection) complete() {
	x.once.Do(func() {
		if x.look != nil {
			x.failed = x.e.guard(x.inputs, x.look)
		}
	})
}

// FirstShown reports whether this is the first call of it for the plan; always for what
// is no plan.
func (x *Inspection) FirstShown() bool { return !x.shown.Swap(true) }

// Show returns a stage of the fusion as text: one of [Stages], which may take
// arguments. Texts depend on the fusion and the kind of inputs alone.
//
// Errors: InvalidArgument for a stage or an argument that there is not, and for a
// stage that needs inputs where there are none; Unsupported with the refusals if
// no scheduler takes the fusion, or its schedule cannot be lowered; [Bug].
func (x *Inspection) Show(stage string, arguments ...string) (string, error) {
	at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == stage })
	if at < 0 {
		var names []string
		for _, s := range stages {
			names = append(names, s.Name)
		}
		return "", core.InvalidArgumentf("there is no stage %q; the stages are %s", stage, strings.Join(names, ", "))
	}
	s := &stages[at]
	others := slices.DeleteFunc(slices.Clone(arguments), func(a string) bool { return s.OfParts() && strings.HasPrefix(a, segmentArgument) })
	if len(others) > 0 && s.Takes == "" {
		return "", core.InvalidArgumentf("%s takes %s, got %s", stage, cmp.Or(s.Arguments(), "no arguments"), strings.Join(others, ", "))
	}
	if x.e == nil {
		return x.show(s, arguments)
	}
	var text string
	err := x.e.guard(x.inputs, func() (err error) {
		text, err = x.show(s, arguments)
		return err
	})
	return text, err
}

// show shows s, if x has what it needs.
func (x *Inspection) show(s *Stage, arguments []string) (string, error) {
	ofRun := s.part == nil || s.needs == aLaunch
	if s.needs != aDefinition && !x.known && (ofRun || x.made == nil) {
		return "", core.InvalidArgumentf("%s is shown for inputs, and none are given", s.Name)
	}
	if s.needs <= theInputs {
		return s.whole(x, arguments)
	}
	x.complete()
	if s.part != nil {
		return x.showParts(s, arguments)
	}
	switch m := x.made; {
	case s.needs == aPlan && x.plan != nil, m != nil && (s.needs == aConcrete && m.f != nil || s.needs == aProgram && m.program != nil):
		return s.whole(x, arguments)
	case x.failed != nil:
		return "", x.failed
	}
	return "scheduled by hand\n", nil
}
