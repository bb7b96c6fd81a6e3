package executor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
)

// planOnDevice returns the plan that computes the fusion on a CUDA device.
func (e *Executor) planOnDevice(b *core.Binding, inputs []Input, o Options, device int) (*Plan, error) {
	properties, err := e.machine.properties(device)
	if err != nil {
		return nil, err
	}
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	if err := checkWritten(e.f, inputs, outputs, Device{CUDA, device}); err != nil {
		return nil, err
	}
	if err := checkAligned(e.f, inputs); err != nil {
		return nil, err
	}
	p := &Plan{Outputs: outputs, Device: &DeviceProgram{Device: device}, Work: math.MaxInt64, e: e, inputs: described(inputs)}
	l := &launcher{p: p, properties: properties, options: o, aligned: alignments(inputs), shared: sharesMemory(e.written, inputs, -1)}
	k := l.keeping(inputs)
	if k.restore() {
		return p, nil
	}
	if err := l.program(b); err != nil {
		return nil, err
	}
	if err := l.load(func(i int) error { return l.compileAndLoad(i) }); err != nil {
		return nil, err
	}
	p.Device.words = l.made.words.compile(p.inputs)
	l.finish(func() (*made, error) { return l.made, nil })
	k.keep()
	return p, nil
}

// A made is what the launches of a program were made from.
type made struct {
	kernels  []*compiled // of the fusion, or its parts
	launched []*compiled // by launch
	words    wordSources
}

// finish makes known what the launches need.
func (l *launcher) finish(from func() (*made, error)) {
	p := l.p
	p.Device.made, p.Device.Phases = from, []Phase{p.onePhase()}
	p.Device.Scalars = len(p.Device.words.list)
	for i := range p.Device.Launches {
		for _, patch := range p.Device.Launches[i].Patches {
			p.NeedsRandom = p.NeedsRandom || patch.Value == cudadrv.RandomSeed
		}
	}
	if p.NeedsRandom {
		p.Device.Draws = 4 * uint64(p.e.f.NumRandom())
	}
}

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

// A launcher makes the program of a plan.
type launcher struct {
	p          *Plan
	properties cudadrv.Properties
	options    Options
	aligned    []int // addresses of inputs, in bytes
	shared     bool  // an input that receives an output shares memory with another

	made   *made
	values []*located // by output, where its elements are after the kernel; nil: where they belong
}

// compiled returns the kernels that the plan needs: one, if that can be, else one
// for each part of the fusion.
func (l *launcher) compiled(b *core.Binding) ([]*compiled, error) {
	if l.p.e.byHand != nil {
		return l.compiledByHand(b)
	}
	t, err := newTask(l.p.e.f, l.p.inputs, l.aligned, b, l.p.Outputs, Device{CUDA, l.p.Device.Device})
	if t == nil || err != nil {
		return nil, err
	}
	t.device = target(l.properties)
	if l.shared {
		t = t.withoutAliases()
	}
	c, err := l.compile(t)
	if errors.As(err, new(*core.Unsupported)) {
		if groups := t.groups(); len(groups) > 1 {
			return l.compileHalves(t, groups)
		}
	}
	return []*compiled{c}, err
}

// compile returns the kernel of t.
//
// Errors: Unsupported if a scheduler or the lowering refuses, or the kernel has
// too many arguments.
func (l *launcher) compile(t *task) (*compiled, error) {
	c, err := t.compile(l.p.Outputs, l.options.Candidate)
	if err != nil {
		return nil, err
	}
	return c, checkParameters(c)
}

// checkParameters refuses kernels with more arguments than a launch takes.
func checkParameters(c *compiled) error {
	if n := cuda.Layout(c.kernel).Size; n > cudadrv.MaxArguments {
		return tooLarge(fmt.Sprintf("the kernel has %d bytes of parameters, and a launch takes %d", n, cudadrv.MaxArguments))
	}
	return nil
}

// compileHalves returns kernels for groups of outputs that one kernel does not
// compute: as few as halving finds.
func (l *launcher) compileHalves(t *task, groups [][]int) ([]*compiled, error) {
	var all []*compiled
	for _, half := range [][][]int{groups[:len(groups)/2], groups[len(groups)/2:]} {
		part := t.part(half)
		named := part.f
		part.f = named.Renumbered() // so that parts that are alike have equal kernels
		c, err := l.compile(part)
		if errors.As(err, new(*core.Unsupported)) && len(half) > 1 {
			more, err := l.compileHalves(t, half)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		if err != nil { // which names tensors as the user does
			part.f = named
			if c, err = l.compile(part); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// compiledByHand returns the kernel of the schedule made by hand. It cannot be
// made to write elsewhere than to inputs which it says receive outputs.
func (l *launcher) compiledByHand(b *core.Binding) ([]*compiled, error) {
	e, inputs, outputs := l.p.e, l.p.inputs, l.p.Outputs
	for i, v := range e.f.Inputs() {
		if x := &inputs[i]; x.Tensor && len(x.Sizes) == 0 && e.f.Val(v).Domain.CPU != (x.Device.Type == CPU) {
			return nil, core.InvalidArgumentf("execute(): input %d (%s) is on %v, and the schedule was made for a definition with is_cpu=%v", i, e.f.Name(v), x.Device, e.f.Val(v).Domain.CPU)
		}
	}
	if l.shared {
		return nil, core.InvalidArgumentf("execute(): an input that receives an output shares memory with another input, and the kernel of a schedule made by hand cannot save it before")
	}
	c, err := e.compileByHand(b, inputs, l.aligned, outputs, limits(l.properties))
	if err == nil {
		err = checkParameters(c)
	}
	hasElements := func(o OutputDescription) bool { return core.NumElements(o.Sizes) > 0 }
	if err != nil || !slices.ContainsFunc(outputs, hasElements) {
		return nil, err
	}
	return []*compiled{c}, nil
}

// program makes the launches of the plan: copies of what the kernels may write to,
// the kernels, and copies to memory that they do not write to themselves.
func (l *launcher) program(b *core.Binding) (err error) {
	l.made, l.values = &made{}, make([]*located, len(l.p.Outputs))
	if l.made.kernels, err = l.compiled(b); err != nil {
		return err
	}
	if err := l.copyInputs(); err != nil {
		return err
	}
	for _, c := range l.made.kernels {
		l.place(c)
		in := func(i int) memory { return memory{cudadrv.InputPointer, i} }
		out := func(k int) memory { return l.values[c.task.outputs[k]].memory }
		if err := l.add(c, l.p.inputs, in, out); err != nil {
			return err
		}
	}
	first := map[core.ValID]int{}
	for k, o := range l.p.e.f.Outputs() {
		if earlier, ok := first[o.Val]; ok && l.p.Outputs[k].SameAs < 0 && l.values[earlier] != nil {
			l.values[k] = l.values[earlier]
		} else if !ok {
			first[o.Val] = k
		}
	}
	for k, from := range l.values {
		if to := l.output(k); from != nil && from.memory != to.memory {
			if err := l.copy(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyInputs copies the inputs that are outputs: to where they belong, or to a
// workspace if that is the memory of another input.
func (l *launcher) copyInputs() error {
	f := l.p.e.f
	for k, o := range f.Outputs() {
		i, d := slices.Index(f.Inputs(), o.Val), &l.p.Outputs[k]
		if i < 0 || i == d.Alias || d.SameAs >= 0 || core.NumElements(d.Sizes) == 0 {
			continue
		}
		to := l.output(k)
		if d.Alias >= 0 {
			to = l.workspaceFor(d, compact(d))
			l.values[k] = to
		}
		if err := l.copy(l.input(i), to); err != nil {
			return err
		}
	}
	return nil
}

// place sets where the kernel writes the outputs of its task: where they belong,
// or to a workspace if that is the memory of an input which it does not know of,
// or has elements where it knows of repetitions.
func (l *launcher) place(c *compiled) {
	seen := map[core.ValID]bool{}
	for k, o := range c.s.Fusion().Outputs() {
		at := c.task.outputs[k]
		d := &l.p.Outputs[at]
		if seen[o.Val] || c.s.Fusion().Val(o.Val).Input {
			continue // a schedule made by hand leaves them to us
		}
		seen[o.Val] = true
		written := denseStrides(c.s.Fusion(), o.Val, d.Sizes, d.order())
		switch {
		case o.Alias != core.NoVal || core.NumElements(d.Sizes) == 0 || d.Alias < 0 && slices.Equal(d.Strides, written):
			l.values[at] = l.output(at)
		default:
			l.values[at] = l.workspaceFor(d, written)
		}
	}
}

// add adds the launch of a kernel for inputs of its fusion; input i of that is at
// in(i), and what is output k alone at out(k).
func (l *launcher) add(c *compiled, inputs []Input, in, out func(int) memory) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	h, err := c.host(inputs, core.RandomState{})
	if err != nil {
		return err
	}
	block := cudadrv.LaunchBlock{Cooperative: c.kernel.Launch.Cooperative}
	if err := l.size(h, &block); err != nil {
		return err
	}
	if err := l.arguments(h, &block, in, out); err != nil {
		return err
	}
	if err := block.Check(); err != nil {
		return &Bug{What: fmt.Sprintf("%v\nin\n%v", err, c.kernel)}
	}
	c.arch = l.properties.Major*10 + l.properties.Minor
	l.p.Device.Launches, l.made.launched = append(l.p.Device.Launches, block), append(l.made.launched, c)
	return nil
}

// size sets how many threads run, and their shared memory.
//
// Errors: Unsupported if the device has less.
func (l *launcher) size(h *host, block *cudadrv.LaunchBlock) error {
	grid, threads, shared, err := h.Launched()
	if err != nil {
		return err
	}
	k, most := h.kernel, limits(l.properties)
	if err := most.Check(grid, threads, k.Launch.Cluster, shared); err != nil {
		return tooLarge(err.Error())
	}
	if err := k.CheckLimits(most); err != nil {
		return tooLarge(err.Error())
	}
	for d := range 3 {
		block.Grid[d], block.Block[d] = uint32(grid[d]), uint32(threads[d])
	}
	if c := k.Launch.Cluster; max(c[0], c[1], c[2]) > 1 {
		block.Cluster = [3]uint32{uint32(max(c[0], 1)), uint32(max(c[1], 1)), uint32(max(c[2], 1))}
	}
	block.Shared = uint32(shared)
	return nil
}

// load loads the kernels of all launches by one, at one time.
func (l *launcher) load(one func(i int) error) error {
	launches := l.p.Device.Launches
	l.p.Device.functions = make([]functionKey, len(launches))
	if len(launches) == 1 {
		return one(0)
	}
	failed := make([]error, len(launches))
	var all sync.WaitGroup
	for i := range launches {
		all.Go(func() { failed[i] = l.p.e.guard(l.p.inputs, func() error { return one(i) }) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// compileAndLoad does that for the kernel of launch i.
func (l *launcher) compileAndLoad(i int) (err error) {
	c, d := l.made.launched[i], l.p.Device
	block := &d.Launches[i]
	source, err := cuda.Print(c.kernel, cuda.Options{Arch: c.arch, RandomInMemory: l.options.RandomInMemory})
	if err != nil {
		return &core.Unsupported{What: "execute(): this kernel cannot be written for the device",
			Refusals: []core.Refusal{{By: "cuda", Rule: "text", Sentence: err.Error()}}}
	}
	block.Function, d.functions[i], err = l.p.e.machine.function(d.Device, source.Text, source.Kernels[0].Name, block.Threads(), int64(block.Shared))
	c.function = &block.Function
	return err
}

// arguments makes the parameter structure: what the kind of inputs decides is in
// it, and a patch is for each part that calls differ in.
func (l *launcher) arguments(h *host, block *cudadrv.LaunchBlock, in, out func(int) memory) error {
	layout := cuda.Layout(h.kernel)
	block.Arguments = make([]byte, layout.Size)
	for i := range h.kernel.Arguments {
		a, field := &h.kernel.Arguments[i], layout.Fields[i]
		patch := cudadrv.Patch{Offset: field.Offset, Size: field.Size}
		switch {
		case a.Kind == kir.Pointer:
			m, err := l.memory(h, a, in, out)
			if err != nil {
				return err
			}
			patch.Value, patch.Index = m.kind, m.index
		case a.Kind == kir.RandomSeed:
			patch.Value = cudadrv.RandomSeed
		case a.Kind == kir.RandomOffset:
			patch.Value = cudadrv.RandomOffset
		case a.Kind == kir.ValueScalar && l.differs(h.compiled, a.Host):
			block.Patches = append(block.Patches, l.words(h, a, field, in)...)
			continue
		default:
			v, err := h.number(*a)
			if err != nil {
				return err
			}
			bytes := elementOf(v)
			copy(block.Arguments[field.Offset:field.Offset+field.Size], bytes[:])
			continue
		}
		block.Patches = append(block.Patches, patch)
	}
	return nil
}

// differs reports whether a number differs between calls with inputs of one kind:
// it is in memory of the host, or depends on an input that the kind does not tell.
func (l *launcher) differs(c *compiled, v kir.HostValue) bool {
	if v.Tensor != core.NoVal {
		return true
	}
	f, differs := c.s.Fusion(), false
	f.Scalars().Symbols(v.Scalar, func(s scalar.ID) {
		tag := f.Scalars().Tag(s)
		differs = differs || tag.Dim < 0 && !l.p.e.key[slices.Index(f.Inputs(), core.ValID(tag.Val))]
	})
	return differs
}

// words returns the patches of a number that calls bring.
func (l *launcher) words(h *host, a *kir.Argument, field cuda.Field, in func(int) memory) []cudadrv.Patch {
	word := wordSource{hostWord{input: -1, to: a.DType}, h.s.Fusion(), a.Host.Scalar}
	if a.Host.Tensor != core.NoVal {
		word = wordSource{hostWord: hostWord{input: in(h.input(a.Host.Tensor)).index, to: a.DType}}
	}
	var patches []cudadrv.Patch
	for ; word.at < field.Size; word.at += 8 {
		patches = append(patches, cudadrv.Patch{Offset: field.Offset + word.at, Size: min(field.Size, 8),
			Value: cudadrv.ScalarWord, Index: l.made.words.add(word)})
	}
	return patches
}

// memory returns what a pointer points to.
func (l *launcher) memory(h *host, a *kir.Argument, in, out func(int) memory) (memory, error) {
	v := a.Host.Tensor
	if i := h.input(v); i >= 0 {
		return in(i), nil
	}
	for k, o := range h.s.Fusion().Outputs() {
		switch {
		case o.Val != v:
		case o.Alias != core.NoVal:
			return in(h.input(o.Alias)), nil
		default:
			return out(k), nil // the first of those that are the same
		}
	}
	buffer := &h.kernel.Buffers[a.Buffer]
	n, err := h.Eval(buffer.Size)
	return l.workspace(max(n, 0)*int64(buffer.DType.Size()), buffer.Zeroed), err
}

// workspace adds a workspace.
func (l *launcher) workspace(bytes int64, zeroed bool) memory {
	d := l.p.Device
	d.Workspaces = append(d.Workspaces, Workspace{Bytes: bytes, Zeroed: zeroed})
	return memory{cudadrv.WorkspacePointer, len(d.Workspaces) - 1}
}
