package executor

import (
	"slices"
	"strings"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// An Inspection shows a fusion on its way to a kernel: of the CUDA device that it
// runs on, else of compute capability 9.0, also where it is not run by one. Of
// several kernels it shows the first. It may be used by many goroutines.
type Inspection struct {
	f      *core.Fusion
	e      *Executor // nil: of no executor
	known  bool      // the inputs are
	inputs []Input   // without data
	c      *compiled // nil: without inputs there is no schedule
	failed error     // why c lacks what it lacks
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
	c := &compiled{s: s.Clone(), options: o}
	x := &Inspection{f: c.s.Fusion(), c: c}
	if x.failed = checkSchedule(c.s); x.failed == nil {
		x.failed = c.lower()
	}
	return x
}

// Inspection returns what there is to see of the fusion with inputs of the plan's
// kind. The kernel is made at the first call, unless the plan runs one: then for
// inputs that begin at multiples of 16 bytes, as a plan of the CPU does not tell.
func (p *Plan) Inspection() *Inspection {
	p.once.Do(func() {
		p.failed = p.e.guard(p.inputs, func() (err error) {
			if p.Device != nil {
				p.kernel, err = p.Device.first()
				return err
			}
			b, err := p.e.f.Bind(valuesOf(p.inputs))
			if err != nil {
				return err
			}
			simulated, err := p.e.planInSteps(b, p.inputs, Options{}, onHost)
			if err == nil {
				p.kernel, err = simulated.Device.first()
			}
			return err
		})
	})
	return &Inspection{f: p.e.f, e: p.e, known: true, inputs: p.inputs, c: p.kernel, failed: p.failed}
}

// noKernel is the error of looking at the kernel of a plan that needs none.
func noKernel() error {
	return &core.Unsupported{What: "there is no kernel to show", Refusals: []core.Refusal{{By: "executor", Rule: "kernel",
		Sentence: "each output is an input or has no elements"}}}
}

// FirstShown reports whether this is the first call of it for the plan.
func (p *Plan) FirstShown() bool { return !p.shown.Swap(true) }

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
	if len(arguments) > 0 && s.Takes == "" {
		return "", core.InvalidArgumentf("%s takes no arguments, got %s", stage, strings.Join(arguments, ", "))
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
	isMissing := false
	switch s.needs {
	case theInputs, aLaunch:
		if !x.known {
			return "", core.InvalidArgumentf("%s is about inputs, and none are given", s.Name)
		}
		isMissing = s.needs == aLaunch && (x.c == nil || x.c.kernel == nil)
	case aChoice:
		isMissing = x.c == nil
	case aSchedule:
		isMissing = x.c == nil || x.c.s == nil
	case aKernel:
		isMissing = x.c == nil || x.c.kernel == nil
	}
	switch {
	case isMissing && x.failed == nil:
		return "", core.InvalidArgumentf("%s is made for inputs, and none are given", s.Name)
	case isMissing:
		return "", x.failed
	case x.c != nil:
		x.c.lock.Lock()
		defer x.c.lock.Unlock()
	}
	return s.show(x, arguments)
}
