package executor

import (
	"fmt"
	"strings"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
)

// A DeviceProgram is what a plan does on a CUDA device, as data: its caller
// allocates outputs and workspaces, asks [Plan.Evaluate] for scalars, and
// launches, without Go if it likes.
//
// A call brings the values that the patches of launches name: the addresses of
// inputs by position (0 for what is no tensor of the device), of outputs by
// position in Plan.Outputs, of workspaces, seed and offset of the random
// generator, or their addresses where [Options] say so, and scalars.
type DeviceProgram struct {
	Device     int // -1: it is simulated, in memory of the host
	Phases     []Phase
	Launches   []cudadrv.LaunchBlock // in order, on one stream
	Calls      []TorchCall
	Workspaces []Workspace
	Scalars    int    // 64-bit words that Evaluate fills; 0: calls differ in addresses alone
	PeakBytes  int64  // that a run has allocated at most at a time, with outputs and without what torch takes within a call for itself
	Draws      uint64 // by which a run moves the offset of the random generator, as torch would: a multiple of 4

	counts    cudadrv.ValueCounts // of the plan
	outputs   []OutputDescription // of the plan
	words     hostWords
	functions []functionKey         // by launch
	made      func() (*made, error) // of a plan that was kept: made at the first call
}

// Counts returns how many values a call brings.
func (p *Plan) Counts() cudadrv.ValueCounts {
	n := cudadrv.ValueCounts{Inputs: len(p.inputs), Outputs: len(p.Outputs)}
	if d := p.Device; d != nil {
		n.Workspaces, n.Scalars = len(d.Workspaces), d.Scalars
	}
	return n
}

// String shows the program: a line for each workspace, and for each launch and call one
// and one for each argument, of a launch with its place in the parameter structure.
func (d *DeviceProgram) String() string {
	var b strings.Builder
	place := "simulated"
	if d.Device != onHost {
		place = fmt.Sprintf("on cuda:%d", d.Device)
	}
	b.WriteString(place)
	if d.Draws > 0 {
		fmt.Fprintf(&b, ", the offset moves by %d", d.Draws)
	}
	fmt.Fprintf(&b, ", at most %d bytes besides the inputs\n", d.PeakBytes)
	for k := range d.outputs {
		if v := d.outputs[k].View; v != nil {
			fmt.Fprintf(&b, "output %d: a view of %s, sizes %v, strides %v, from element %d on\n", k, d.named([]Slot{v.Of}), v.Sizes, v.Strides, v.Offset)
		}
	}
	for i := range d.Workspaces {
		w := &d.Workspaces[i]
		fmt.Fprintf(&b, "workspace %d: %d bytes", i, w.Bytes)
		if w.Zeroed {
			b.WriteString(" of zeros")
		}
		if w.Result {
			b.WriteString(" that a call returns")
		}
		b.WriteString("\n")
	}
	m, err := d.made()
	if err != nil {
		fmt.Fprintf(&b, "its kernels could not be made again: %v\n", err)
		m = nil
	}
	launch := 0
	for i := range d.Phases {
		p := &d.Phases[i]
		if len(d.Phases) > 1 {
			fmt.Fprintf(&b, "phase %d: allocates %s; releases %s\n", i, d.named(p.Allocate), d.named(p.Release))
		}
		for range p.Launches {
			d.showLaunch(&b, launch, m)
			launch++
		}
		if p.Call >= 0 {
			d.showCall(&b, p.Call)
		}
	}
	return b.String()
}

func (d *DeviceProgram) showLaunch(b *strings.Builder, i int, m *made) {
	l, name := &d.Launches[i], d.Launches[i].Function.Name
	fmt.Fprintf(b, "launch %d", i)
	if m != nil {
		name = m.launched[i].kernel.Name
		b.WriteString(m.purpose(i))
	}
	fmt.Fprintf(b, ": %s, grid %v, block %v", name, l.Grid, l.Block)
	if l.Shared > 0 {
		fmt.Fprintf(b, ", %d bytes of shared memory", l.Shared)
	}
	if l.Early {
		b.WriteString(", starts before the one before it ends")
	}
	b.WriteString("\n")
	if m == nil {
		return
	}
	k := m.launched[i].kernel
	for j, at := range cuda.Layout(k).Fields {
		a := &k.Arguments[j]
		fmt.Fprintf(b, "  %d: %s = %s\n", at.Offset, a.Name, d.value(l, k, a, at))
	}
}

func (d *DeviceProgram) showCall(b *strings.Builder, i int) {
	c := &d.Calls[i]
	fmt.Fprintf(b, "call %d: %s\n", i, c.Name)
	for k, a := range c.Arguments {
		switch {
		case a.Slot < 0:
			fmt.Fprintf(b, "  %d: scalar %d as %s\n", k, a.Word, a.DType.Text())
		case a.Whole:
			fmt.Fprintf(b, "  %d: %s\n", k, d.named([]Slot{a.Slot}))
		default:
			fmt.Fprintf(b, "  %d: %s as %s, sizes %v, strides %v, from element %d on\n", k, d.named([]Slot{a.Slot}), a.DType.Text(), a.Sizes, a.Strides, a.Offset)
		}
	}
	for k, r := range c.Results {
		fmt.Fprintf(b, "  result %d: %s, %s, sizes %v, strides %v\n", k, d.named([]Slot{r.Slot}), r.DType.Text(), r.Sizes, r.Strides)
	}
}

// named lists slots.
func (d *DeviceProgram) named(slots []Slot) string {
	if len(slots) == 0 {
		return "nothing"
	}
	var names []string
	for _, s := range slots {
		output := int(s) - d.counts.Inputs
		switch workspace := output - d.counts.Outputs; {
		case s < 0:
			names = append(names, "nowhere")
		case output < 0:
			names = append(names, fmt.Sprintf("%v %d", cudadrv.InputPointer, s))
		case workspace < 0:
			names = append(names, fmt.Sprintf("%v %d", cudadrv.OutputPointer, output))
		default:
			names = append(names, fmt.Sprintf("%v %d", cudadrv.WorkspacePointer, workspace))
		}
	}
	return strings.Join(names, ", ")
}

// value shows the value of an argument, or what calls bring.
func (d *DeviceProgram) value(l *cudadrv.LaunchBlock, k *kir.Kernel, a *kir.Argument, at cuda.Field) string {
	for _, p := range l.Patches {
		switch {
		case p.Offset != at.Offset:
		case (p.Value == cudadrv.RandomSeed || p.Value == cudadrv.RandomOffset) && p.Add == 0:
			return p.Value.String()
		case p.Add > 0:
			return fmt.Sprintf("%v %d + %d", p.Value, p.Index, p.Add)
		default:
			return fmt.Sprintf("%v %d", p.Value, p.Index)
		}
	}
	bytes := l.Arguments[at.Offset : at.Offset+at.Size]
	switch a.Kind {
	case kir.IndexScalar:
		return fmt.Sprint(element(k.Index, bytes).I)
	case kir.ValueScalar:
		return core.PythonLiteral(element(a.DType, bytes)) + " as " + a.DType.Text()
	}
	return fmt.Sprintf("%#x", bytes)
}
