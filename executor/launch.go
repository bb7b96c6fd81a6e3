package executor

import (
	"math"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/model"
	"nvfuser_go/segmenter"
)

// onHost is the device of programs that are simulated, in memory of the host.
const onHost = -1

// planInSteps returns the plan that computes the fusion by kernels and calls of torch,
// on a CUDA device, or simulated.
func (e *Executor) planInSteps(b *core.Binding, inputs []Input, o Options, device int) (*Plan, error) {
	a, err := e.begin(b, inputs, o, device)
	if err != nil {
		return nil, err
	}
	k := a.keeping(inputs)
	if k.restore() {
		return a.p, nil
	}
	if err := a.assemble(); err != nil {
		return nil, err
	}
	a.p.finish(a.made.itself)
	k.keep()
	return a.p, nil
}

// begin returns the assembly of a plan for inputs, which are what the device takes; b is the
// binding of the definition.
func (e *Executor) begin(b *core.Binding, inputs []Input, o Options, device int) (*assembly, error) {
	place := Device{}
	if device != onHost {
		place = Device{CUDA, device}
	}
	s, err := e.shape(b, inputs, o, place)
	if err != nil {
		return nil, err
	}
	properties, times := simulated, model.H100
	if device != onHost {
		if properties, err = e.machine.properties(device); err != nil {
			return nil, err
		}
		if times, err = e.machine.modelOf(device, properties); err != nil {
			return nil, err
		}
		if err := checkWritten(e.f, inputs, s.outputs, place); err != nil {
			return nil, err
		}
		if err := checkAligned(e.f, inputs); err != nil {
			return nil, err
		}
	}
	draws, err := drawn(e.f, b, properties)
	if err != nil {
		return nil, err
	}
	p := &Plan{Outputs: s.outputs, Device: &DeviceProgram{Device: device, Draws: draws}, NeedsRandom: draws > 0, Work: math.MaxInt64, e: e, inputs: described(inputs), views: o.Views}
	a := &assembly{p: p, variant: s.variant, b: s.b, properties: properties, model: times, options: o, inputs: p.inputs, aligned: alignments(inputs), overlaps: e.overlaps(inputs, o)}
	a.made = &made{of: a.blank()}
	return a, nil
}

// blank returns an assembly as a was when it began.
func (a *assembly) blank() *assembly {
	return &assembly{variant: a.variant, properties: a.properties, model: a.model, options: a.options, inputs: a.inputs, aligned: a.aligned, overlaps: a.overlaps,
		p: &Plan{Outputs: a.p.Outputs, NeedsRandom: a.p.NeedsRandom, Device: &DeviceProgram{Device: a.p.Device.Device, Draws: a.p.Device.Draws}, e: a.p.e, inputs: a.p.inputs}}
}

// again returns an assembly as a was when it began, which makes kernels and does not
// load them.
func (a *assembly) again() (other *assembly, err error) {
	other = a.blank()
	other.dry, other.made = true, &made{of: other.blank()}
	other.b, err = a.variant.f.Bind(valuesOf(a.inputs))
	return other, err
}

// A made is what a program was made from, as far as that went.
type made struct {
	of       *assembly          // as it was when that began: the plan outlives the assembly
	f        *core.Fusion       // that was cut
	program  *segmenter.Program // nil: one kernel by hand
	parts    []part             // in the order in which they run
	launched []*compiled        // by launch
	calls    []madeCall         // by call of the program
	words    wordSources
	fresh    []map[int]bool // by launch and offset of a patch: nothing wrote before to what it is the address of
}

func (m *made) itself() (*made, error) { return m, nil }

// finish makes known what a run of the program needs.
func (p *Plan) finish(from func() (*made, error)) {
	d := p.Device
	d.made, d.Scalars, d.outputs = from, len(d.words.list), p.Outputs
	d.counts = p.Counts()
	d.PeakBytes = p.peakBytes()
}

// onHost reports whether the plan is simulated.
func (p *Plan) onHost() bool { return p.Device.Device == onHost }

// checkWritten refuses outputs of a run on a device that are written to memory of the host.
func checkWritten(f *core.Fusion, inputs []Input, outputs []OutputDescription, place Device) error {
	for _, o := range outputs {
		if o.Alias >= 0 && inputs[o.Alias].Device.Type == CPU {
			return core.InvalidArgumentf("execute(): input %d (%s) receives an output and is on cpu, but the run is on %v", o.Alias, f.Name(f.Inputs()[o.Alias]), place)
		}
	}
	return nil
}

// checkAligned refuses tensors of the device whose elements lie where the device
// cannot read them: at no multiple of their size.
func checkAligned(f *core.Fusion, inputs []Input) error {
	for i := range inputs {
		x := &inputs[i]
		if !x.Tensor || x.Device.Type == CPU || core.NumElements(x.Sizes) == 0 {
			continue
		}
		if size := x.DType.Size(); uintptr(x.Data)%uintptr(size) != 0 {
			return core.InvalidArgumentf("execute(): input %d (%s) is at address %#x; on a CUDA device elements of %v lie at multiples of %d bytes",
				i, f.Name(f.Inputs()[i]), uintptr(x.Data), x.DType, size)
		}
	}
	return nil
}
