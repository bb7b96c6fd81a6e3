package executor

import (
	"fmt"
	"slices"
	"sync/atomic"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/passes"
	"nvfuser_go/schedulers/model"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/segmenter"
)

// An assembly makes the program of a plan: it has the fusion cut, says where each
// tensor lies, has the kernels compiled, and puts launches, calls and copies in order.
type assembly struct {
	p          *Plan
	properties cudadrv.Properties
	model      model.Machine // of the device
	options    Options
	inputs     []Input              // of the kind that the plan is for: scalars have values, tensors of the device no data
	aligned    []schedule.Alignment // of inputs
	overlaps   bool                 // one that receives an output shares memory with another

	variant *variant             // of the definition
	f       *core.Fusion         // that after the passes, concrete
	b       *core.Binding        // of f; before there is one, of the variant
	orders  map[core.ValID][]int // of dimensions in memory, by tensor of f; missing: their own
	refused map[string][]core.Refusal
	apart   map[core.ValID]bool // outputs that no kernel writes to the memory of an input

	program *segmenter.Program
	pieces  []*piece
	at      map[core.ValID]*located
	made    *made
	dry     bool              // kernels are made and not loaded
	log     func(line string) // nil: nobody wants to know why the fusion is cut
	unkept  atomic.Bool       // the device had a say in how the fusion is cut
	late    []lateCopy
	steps   []step
	uses    [][]int // by workspace: the steps that read or write it
}

// A piece is a segment and what becomes of it.
type piece struct {
	*segmenter.Segment
	task  *task     // of a kernel
	c     *compiled // of a kernel
	words *numberSource
}

// A step is a launch or a call, the next one of the program's.
type step struct{ isCall bool }

// assemble makes the program of p for inputs.
//
// Errors: Unsupported with what each scheduler says, or the lowering of each
// candidate, for what neither a kernel nor torch computes; [Bug].
func (a *assembly) assemble() (err error) {
	defer func() { a.look(err) }()
	e := a.p.e
	if e.byHand != nil {
		return a.assembleByHand()
	}
	if err := a.prepare(); err != nil {
		return err
	}
	for round := 0; ; round++ {
		if err := a.cut(); err != nil {
			return err
		}
		again, err := a.compile(round)
		if err != nil {
			return err
		}
		if !again {
			return a.emit()
		}
		if a.log != nil {
			a.log("cut again, as a kernel cannot be made")
		}
	}
}

// prepare makes the concrete fusion that is cut. Where sizes become constants that decide what resizes and
// reshapes do, the passes run on the definition with those: what may have been a broadcast is known not to be
// one, and sizes that must be equal are.
func (a *assembly) prepare() error {
	f, err := a.variant.rewritten()
	if err != nil {
		return err
	}
	onHost := func(i int) bool { return a.inputs[i].Device.Type == CPU && !a.p.onHost() }
	f = f.WithHostTensors(onHost)
	bound := a.b // the definition
	if err = a.concretize(f); err != nil {
		return err
	}
	if a.f != f && passes.KnowSizes(a.variant.f) {
		a.b = bound
		if err = a.concretize(a.variant.f.WithHostTensors(onHost)); err != nil {
			return err
		}
		if f, _, err = passes.Run(a.f, false); err != nil {
			return &Bug{What: err}
		}
		if err = a.concretize(f); err != nil {
			return err
		}
	}
	a.refused, a.apart = map[string][]core.Refusal{}, map[core.ValID]bool{}
	if a.overlaps {
		for _, o := range a.f.Outputs() {
			a.apart[o.Val] = true
		}
	}
	a.order()
	return nil
}

// concretize makes f, with the sizes that decide what broadcasts, the fusion that is cut.
func (a *assembly) concretize(f *core.Fusion) (err error) {
	if f != a.variant.f {
		if a.b, err = f.Bind(valuesOf(a.inputs)); err != nil {
			return err
		}
	}
	if a.f, _, err = f.Concretize(a.b); err != nil || a.f == f {
		return err
	}
	a.b, err = a.f.Bind(valuesOf(a.inputs))
	return err
}

// order decides how tensors that are computed lie in memory: outputs as they are
// described.
func (a *assembly) order() {
	a.orders = passes.MemoryOrders(a.f)
	for k, o := range slices.Backward(a.f.Outputs()) {
		if a.p.Outputs[k].ofInput(len(a.inputs)) {
			continue
		}
		if a.orders[o.Val] = a.p.Outputs[k].order(); slices.IsSorted(a.orders[o.Val]) {
			delete(a.orders, o.Val)
		}
	}
}

// cut cuts the fusion into pieces and says where their results lie.
func (a *assembly) cut() (err error) {
	o := segmenter.Options{
		Order:   func(v core.ValID) []int { return a.orders[v] },
		Refused: func(key string) []core.Refusal { return a.refused[key] },
		Log:     a.log,
		Known:   a.knownOf,
	}
	for i := range a.inputs {
		o.Inputs = append(o.Inputs, scheduler.Placement{Strides: a.inputs[i].Strides, Aligned: a.aligned[i]})
	}
	if a.program, err = segmenter.Cut(a.f, a.b, a.target(), o); err != nil {
		return err
	}
	if err := a.locate(); err != nil {
		return err
	}
	a.pieces = nil
	for _, s := range a.program.Segments {
		x := &piece{Segment: s}
		if s.Kind == segmenter.Kernel {
			if x.task, err = a.taskOf(s); err != nil {
				return err
			}
		}
		a.pieces = append(a.pieces, x)
	}
	return nil
}

// locate says where each tensor lies that is read or written.
func (a *assembly) locate() error {
	d := a.p.Device
	d.Workspaces, a.at = nil, map[core.ValID]*located{}
	for i, v := range a.f.Inputs() {
		if a.inputs[i].Tensor {
			a.at[v] = a.input(i)
		}
	}
	outputs := map[core.ValID][]int{}
	for k, o := range a.f.Outputs() {
		outputs[o.Val] = append(outputs[o.Val], k)
	}
	for _, v := range a.program.Empty {
		if err := a.placeDense(v, outputs[v], false); err != nil {
			return err
		}
	}
	read := map[core.ValID]bool{}
	for _, s := range a.program.Segments {
		for _, v := range s.Reads() {
			read[v] = true
		}
	}
	homes := a.homes(outputs)
	for _, s := range a.program.Segments {
		for k, v := range s.Writes {
			var err error
			alias := s.Fusion.Outputs()[k].Alias
			switch {
			case s.Kind == segmenter.View:
				a.at[v], err = a.view(s, outputs[v])
			case alias != core.NoVal && !read[v] && !a.apart[v]:
				a.at[v] = a.at[s.Inputs[slices.Index(s.Fusion.Inputs(), alias)].Val]
			case homes[v] > 0:
				err = a.placeAt(v, homes[v]-1)
			default:
				err = a.placeDense(v, outputs[v], s.Kind == segmenter.TorchCall)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// homes returns, by tensor that an output is a view of all elements of, the output that it is
// stored as, and 1.
func (a *assembly) homes(outputs map[core.ValID][]int) map[core.ValID]int {
	homes := map[core.ValID]int{}
	for _, s := range slices.Backward(a.program.Segments) {
		if s.Kind != segmenter.View {
			continue
		}
		v := s.Writes[0]
		home := homes[v]
		for _, k := range outputs[v] {
			if home = k + 1; a.p.Outputs[k].Alias < 0 {
				break
			}
		}
		if home > 0 {
			homes[s.Inputs[0].Val] = home
		}
	}
	return homes
}

// placeAt has v lie where output k belongs.
func (a *assembly) placeAt(v core.ValID, k int) error {
	sizes, err := a.b.Shape(v)
	if err != nil {
		return err
	}
	at := *a.output(k)
	at.dtype, at.sizes, at.strides = a.f.Val(v).DType, sizes, denseStrides(a.f, v, sizes, a.orders[v])
	at.whole = false // the tensor that is made for the output has other dimensions
	a.at[v] = &at
	return nil
}

// placeDense has v lie where one of the outputs belongs that it is, if it lies there in
// this way, else in a workspace.
func (a *assembly) placeDense(v core.ValID, outputs []int, isResult bool) error {
	sizes, err := a.b.Shape(v)
	if err != nil {
		return err
	}
	strides := denseStrides(a.f, v, sizes, a.orders[v])
	for _, k := range outputs {
		if d := &a.p.Outputs[k]; d.Alias < 0 && slices.Equal(d.Strides, strides) {
			a.at[v] = a.output(k)
			return nil
		}
	}
	a.at[v] = a.tensor(a.f.Val(v).DType, slices.Clone(sizes), strides, isResult)
	return nil
}

// tensor adds a workspace for a tensor, which a call of torch makes if isResult is set.
func (a *assembly) tensor(t dtype.Type, sizes, strides []int64, isResult bool) *located {
	bytes := (&OutputDescription{DType: t, Sizes: sizes, Strides: strides}).NumBytes()
	m := a.workspace(Workspace{Bytes: bytes, Result: isResult, Tensor: true, DType: t, Sizes: sizes, Strides: strides})
	return &located{m, t, sizes, strides, wellAligned, false, true}
}

// view returns where the result of a view lies: in its operand, which may lie where one of
// the outputs belongs that the result is.
func (a *assembly) view(s *segmenter.Segment, outputs []int) (*located, error) {
	sizes, err := a.b.Shape(s.Writes[0])
	if err != nil {
		return nil, err
	}
	inputs, _, err := a.inputsOf(s)
	if err != nil {
		return nil, err
	}
	scalars, err := s.Fusion.Bind(valuesOf(inputs))
	if err != nil {
		return nil, err
	}
	x := *a.at[s.Inputs[0].Val]
	strides, first, err := s.Lies(scalars, x.sizes, x.strides, sizes)
	if err != nil {
		return nil, err
	}
	x.add += first * int64(x.dtype.Size())
	x.whole, x.sizes, x.strides = false, sizes, strides
	x.aligned = x.aligned.Plus(first * int64(x.dtype.Size()))
	for _, k := range outputs {
		if to := a.output(k); to.memory == x.memory && !sameStrides(sizes, strides, to.strides) {
			return nil, &Bug{What: fmt.Sprintf("output %d lies as %v says, and is stored as %v", k, to.strides, strides)}
		}
	}
	return &x, nil
}

// sameStrides reports whether a tensor lies in the same way with either strides.
func sameStrides(sizes, x, y []int64) bool {
	for d, n := range sizes {
		if n != 1 && x[d] != y[d] {
			return false
		}
	}
	return true
}

// inputsOf returns the inputs of s, and what is known of their addresses.
func (a *assembly) inputsOf(s *segmenter.Segment) (inputs []Input, aligned []schedule.Alignment, err error) {
	for _, in := range s.Inputs {
		x, at := Input{}, schedule.Alignment(wellAligned)
		if in.Val == core.NoVal {
			if x.Scalar, err = a.b.Value(in.Scalar); err != nil {
				return nil, nil, err
			}
		} else {
			l := a.at[in.Val]
			x, at = Input{Tensor: true, DType: l.dtype, Sizes: l.sizes, Strides: l.strides}, l.aligned
			if !l.onHost && !a.p.onHost() {
				x.Device = Device{CUDA, a.p.Device.Device}
			}
		}
		inputs, aligned = append(inputs, x), append(aligned, at)
	}
	return inputs, aligned, nil
}

// taskOf returns what a kernel of s is compiled for.
func (a *assembly) taskOf(s *segmenter.Segment) (*task, error) {
	t := &task{f: s.Fusion, device: a.target(), exact: a.options.Exact, asked: s.Asked, scheduler: s.Scheduler, refusals: s.Refusals}
	var err error
	if t.inputs, t.aligned, err = a.inputsOf(s); err != nil {
		return nil, err
	}
	for k, v := range s.Writes {
		l, alias := a.at[v], -1
		if o := s.Fusion.Outputs()[k]; o.Alias != core.NoVal && l.kind == cudadrv.InputPointer {
			alias = slices.Index(s.Fusion.Inputs(), o.Alias)
		}
		t.outputs = append(t.outputs, OutputDescription{DType: l.dtype, Sizes: l.sizes, Strides: l.strides, Alias: alias, Hidden: alias >= 0, SameAs: -1})
	}
	if slices.ContainsFunc(s.Fusion.Outputs(), func(o core.Output) bool { return o.Alias != core.NoVal }) {
		var list []core.Output
		for k, o := range s.Fusion.Outputs() {
			if t.outputs[k].Alias < 0 {
				o.Alias = core.NoVal
			}
			list = append(list, o)
		}
		t.f = s.Fusion.WithOutputs(list)
	}
	if t.asked != nil && t.asked.Fusion == t.f {
		t.b = t.asked.Shapes
		return t, nil
	}
	t.b, err = t.f.Bind(valuesOf(t.inputs))
	return t, err
}

// input returns input i.
func (a *assembly) input(i int) *located {
	x := &a.inputs[i]
	return &located{memory{kind: cudadrv.InputPointer, index: i}, x.DType, x.Sizes, x.Strides, a.aligned[i], x.Device.Type == CPU && !a.p.onHost(), true}
}

// output returns where output k belongs.
func (a *assembly) output(k int) *located {
	d := &a.p.Outputs[k]
	switch {
	case d.Alias >= 0:
		return a.input(d.Alias)
	case d.SameAs >= 0:
		return a.output(d.SameAs)
	}
	return &located{memory{kind: cudadrv.OutputPointer, index: k}, d.DType, d.Sizes, d.Strides, wellAligned, false, true}
}

// workspace adds a workspace.
func (a *assembly) workspace(w Workspace) memory {
	d := a.p.Device
	d.Workspaces = append(d.Workspaces, w)
	return memory{kind: cudadrv.WorkspacePointer, index: len(d.Workspaces) - 1}
}

// A memory is a value that a call brings: an address, or the number that is in a
// tensor of the host.
type memory struct {
	kind  cudadrv.ValueKind
	index int
	add   int64 // bytes
}

// A located is a tensor and where its elements are.
type located struct {
	memory
	dtype          dtype.Type
	sizes, strides []int64
	aligned        schedule.Alignment
	onHost         bool // it has no dimensions, and is passed by value
	whole          bool // its memory was made for it, or given as it
}

// wellAligned is what allocators give, in bytes.
const wellAligned = 16
