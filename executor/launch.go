package executor

import (
	"fmt"
	"math"
	"slices"

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
	p := &Plan{Outputs: outputs, Device: &DeviceProgram{Device: device}, Work: math.MaxInt64, e: e, inputs: described(inputs)}
	for k, o := range e.f.Outputs() {
		if e.f.Val(o.Val).Input || slices.ContainsFunc(e.f.Outputs()[:k], func(before core.Output) bool { return before.Val == o.Val }) && outputs[k].SameAs < 0 {
			return nil, &core.Unsupported{What: "execute(): outputs that are copied are not computed on a CUDA device yet"}
		}
	}
	t, err := newTask(e.f, inputs, b, outputs)
	if err != nil {
		return nil, err
	}
	var c *compiled
	if t != nil {
		t.device = target(properties)
		if c, err = t.compile(outputs, o.Candidate); err != nil {
			return nil, err
		}
		l := launcher{p: p, properties: properties}
		if err := l.add(c, inputs); err != nil {
			return nil, err
		}
	}
	p.Device.Scalars = len(p.Device.words.list)
	p.once.Do(func() {
		if p.kernel = c; c == nil {
			p.failed = noKernel()
		}
	})
	return p, nil
}

// A launcher adds launches to the program of a plan.
type launcher struct {
	p          *Plan
	properties cudadrv.Properties
}

// A memory is where a tensor lies: a value that a call brings.
type memory struct {
	kind  cudadrv.ValueKind
	index int
}

// add adds the launch of a kernel.
func (l *launcher) add(c *compiled, inputs []Input) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	h, err := c.host(&Call{Inputs: inputs})
	if err != nil {
		return err
	}
	block := cudadrv.LaunchBlock{Cooperative: c.kernel.Launch.Cooperative}
	if err := l.size(h, &block); err != nil {
		return err
	}
	if err := l.arguments(h, &block); err != nil {
		return err
	}
	if block.Function, err = l.function(c.kernel, &block); err != nil {
		return err
	}
	if err := block.Check(); err != nil {
		return &Bug{What: fmt.Sprintf("%v\nin\n%v", err, c.kernel)}
	}
	d := l.p.Device
	d.Launches = append(d.Launches, block)
	return nil
}

// size sets how many threads run, and their shared memory.
//
// Errors: Unsupported if the device has less.
func (l *launcher) size(h *host, block *cudadrv.LaunchBlock) error {
	grid, threads, shared, err := h.integers.Launched()
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
		block.Grid[d], block.Block[d], block.Cluster[d] = uint32(grid[d]), uint32(threads[d]), uint32(k.Launch.Cluster[d])
	}
	block.Shared = uint32(shared)
	return nil
}

// function compiles and loads the kernel of a launch.
func (l *launcher) function(k *kir.Kernel, block *cudadrv.LaunchBlock) (cudadrv.Function, error) {
	source, err := cuda.Print(k, cuda.Options{Arch: l.properties.Major*10 + l.properties.Minor})
	if err != nil {
		return cudadrv.Function{}, &core.Unsupported{What: "execute(): this kernel cannot be written for the device",
			Refusals: []core.Refusal{{By: "cuda", Rule: "text", Sentence: err.Error()}}}
	}
	threads := int64(block.Block[0]) * int64(block.Block[1]) * int64(block.Block[2])
	return l.p.e.machine.function(l.p.Device.Device, source.Text, source.Kernels[0].Name, threads, int64(block.Shared))
}

// arguments makes the parameter structure: what the kind of inputs decides is in
// it, and a patch is for each part that calls differ in.
//
// Errors: Unsupported if it is too large.
func (l *launcher) arguments(h *host, block *cudadrv.LaunchBlock) error {
	layout := cuda.Layout(h.kernel)
	if layout.Size > cudadrv.MaxArguments {
		return tooLarge(fmt.Sprintf("the kernel has %d bytes of parameters, and a launch takes %d", layout.Size, cudadrv.MaxArguments))
	}
	block.Arguments = make([]byte, layout.Size)
	for i := range h.kernel.Arguments {
		a, field := &h.kernel.Arguments[i], layout.Fields[i]
		patch := cudadrv.Patch{Offset: field.Offset, Size: field.Size}
		switch a.Kind {
		case kir.Pointer:
			m, err := l.memory(h, a)
			if err != nil {
				return err
			}
			patch.Value, patch.Index = m.kind, m.index
		case kir.RandomSeed:
			patch.Value = cudadrv.RandomSeed
		case kir.RandomOffset:
			patch.Value = cudadrv.RandomOffset
		default:
			if l.differs(h.compiled, a) {
				block.Patches = append(block.Patches, l.words(h.compiled, a, field)...)
				continue
			}
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

// differs reports whether a number differs between calls with inputs of one kind.
func (l *launcher) differs(c *compiled, a *kir.Argument) bool {
	if a.Kind != kir.ValueScalar {
		return false
	}
	return a.Host.Tensor != core.NoVal || dependsOn(c.s.Fusion(), a.Host.Scalar, func(i int) bool { return !l.p.e.key[i] })
}

// dependsOn reports whether s depends on the value of an input scalar of f that is
// one of those.
func dependsOn(f *core.Fusion, s scalar.ID, those func(i int) bool) bool {
	t := f.Scalars()
	seen := map[scalar.ID]bool{}
	var depends func(s scalar.ID) bool
	depends = func(s scalar.ID) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		if t.Op(s) == scalar.Symbol {
			tag := t.Tag(s)
			return tag.Dim < 0 && those(slices.Index(f.Inputs(), core.ValID(tag.Val)))
		}
		return slices.ContainsFunc(t.Args(s), depends)
	}
	return depends(s)
}

// words returns the patches of a scalar that calls bring.
func (l *launcher) words(c *compiled, a *kir.Argument, field cuda.Field) []cudadrv.Patch {
	var patches []cudadrv.Patch
	for at := 0; at < field.Size; at += 8 {
		index := l.p.Device.words.add(hostWord{c, a.DType, a.Host, at})
		patches = append(patches, cudadrv.Patch{Offset: field.Offset + at, Size: min(field.Size, 8), Value: cudadrv.ScalarWord, Index: index})
	}
	return patches
}

// memory returns what a pointer points to.
func (l *launcher) memory(h *host, a *kir.Argument) (memory, error) {
	v := a.Host.Tensor
	if i := h.input(v); i >= 0 {
		return memory{cudadrv.InputPointer, i}, nil
	}
	for k, o := range h.s.Fusion().Outputs() {
		if o.Val == v {
			at := h.task.outputs[k]
			d := &l.p.Outputs[at]
			if d.Alias >= 0 || !slices.Equal(d.Strides, denseStrides(h.f, o.Val, d.Sizes, d.order())) {
				return memory{}, &core.Unsupported{What: "execute(): outputs that are copied are not computed on a CUDA device yet"}
			}
			return memory{cudadrv.OutputPointer, at}, nil
		}
	}
	buffer := &h.kernel.Buffers[a.Buffer]
	n, err := h.integers.Eval(buffer.Size)
	if err != nil {
		return memory{}, err
	}
	return l.workspace(max(n, 0)*int64(buffer.DType.Size()), buffer.Zeroed), nil
}

// workspace adds a workspace.
func (l *launcher) workspace(bytes int64, zeroed bool) memory {
	d := l.p.Device
	d.Workspaces = append(d.Workspaces, Workspace{bytes, zeroed})
	return memory{cudadrv.WorkspacePointer, len(d.Workspaces) - 1}
}
