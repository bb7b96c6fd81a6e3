package executor

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/segmenter"
)

// emit makes launches and calls of the pieces, in order, with copies of what they do not
// read or write in place.
func (a *assembly) emit() error {
	d := a.p.Device
	a.uses = make([][]int, len(d.Workspaces))
	a.noteViews()
	if err := a.copyInputs(); err != nil {
		return err
	}
	for i, x := range a.pieces {
		var err error
		switch x.Kind {
		case segmenter.Kernel:
			err = a.addKernel(x)
		case segmenter.TorchCall:
			err = a.addCall(x)
		}
		if err != nil {
			return err
		}
		a.made.parts = append(a.made.parts, a.partOf(i, x))
	}
	if err := a.copyOutputs(); err != nil {
		return err
	}
	a.arrange()
	d.words = a.made.words.compile()
	return nil
}

// noteViews has outputs that are views of other tensors shown.
func (a *assembly) noteViews() {
	for k, o := range a.f.Outputs() {
		if a.p.Outputs[k].View != nil {
			a.made.parts = append(a.made.parts, part{segment: -1, about: fmt.Sprintf("output %d in the memory of %s", k, a.f.Name(o.Val))})
		}
	}
}

// copyInputs copies the inputs that are outputs: to where they belong, or to a
// workspace if that is the memory of another input.
func (a *assembly) copyInputs() error {
	for k, o := range a.f.Outputs() {
		i, d := slices.Index(a.f.Inputs(), o.Val), &a.p.Outputs[k]
		if i < 0 || i == d.Alias || d.SameAs >= 0 || d.ofInput(len(a.inputs)) || core.NumElements(d.Sizes) == 0 {
			continue
		}
		to := a.output(k)
		if d.Alias >= 0 {
			to = a.tensor(d.DType, d.Sizes, compact(d), false)
			a.late = append(a.late, lateCopy{to, k})
		}
		about := fmt.Sprintf("output %d from %s", k, a.f.Name(o.Val))
		if d.Alias >= 0 {
			about = fmt.Sprintf("what output %d becomes, from %s", k, a.f.Name(o.Val))
		}
		if err := a.copy(a.input(i), to, about); err != nil {
			return err
		}
	}
	return nil
}

// A lateCopy is an output that gets its elements when all else is done.
type lateCopy struct {
	from *located
	to   int
}

// copyOutputs copies what lies elsewhere to the outputs.
func (a *assembly) copyOutputs() error {
	for k, o := range a.f.Outputs() {
		d, from := &a.p.Outputs[k], a.at[o.Val]
		if a.f.Val(o.Val).Input || d.SameAs >= 0 || core.NumElements(d.Sizes) == 0 {
			continue
		}
		if to := a.output(k); to.memory != from.memory {
			a.late = append(a.late, lateCopy{from, k})
		}
	}
	for _, c := range a.late {
		about := fmt.Sprintf("output %d from %s", c.to, a.f.Name(a.f.Outputs()[c.to].Val))
		if err := a.copy(c.from, a.output(c.to), about); err != nil {
			return err
		}
	}
	return nil
}

// addKernel adds the launch of a kernel.
func (a *assembly) addKernel(x *piece) error {
	in := func(i int) memory { return a.at[x.Inputs[i].Val].memory }
	out := func(k int) memory { return a.at[x.Writes[k]].memory }
	return a.add(x, x.task, x.c, in, out)
}

// add adds the launch of a kernel c for inputs of t; input i of that is at in(i), and what
// is output k alone at out(k). x is the piece that it computes, nil for a copy.
func (a *assembly) add(x *piece, t *task, c *compiled, in, out func(int) memory) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	h, err := c.host(t, core.RandomState{})
	if err != nil {
		return err
	}
	block := c.launch
	block.Early = t.follows && !block.Cooperative
	if err := a.arguments(x, h, &block, in, out); err != nil {
		return err
	}
	if err := block.Check(); err != nil {
		return &Bug{What: fmt.Sprintf("%v\nin\n%v", err, c.kernel)}
	}
	d := a.p.Device
	for _, patch := range block.Patches {
		a.use(patch.Value, patch.Index)
	}
	d.Launches, d.functions, a.made.launched = append(d.Launches, block), append(d.functions, c.key), append(a.made.launched, c)
	a.steps = append(a.steps, step{})
	return nil
}

// use notes that the next step uses a value of a call.
func (a *assembly) use(kind cudadrv.ValueKind, index int) {
	if kind != cudadrv.WorkspacePointer {
		return
	}
	for len(a.uses) < len(a.p.Device.Workspaces) {
		a.uses = append(a.uses, nil)
	}
	a.uses[index] = append(a.uses[index], len(a.steps))
}

// arguments makes the parameter structure: what the kind of inputs decides is in
// it, and a patch is for each part that calls differ in.
func (a *assembly) arguments(x *piece, h *host, block *cudadrv.LaunchBlock, in, out func(int) memory) error {
	layout := cuda.Layout(h.kernel)
	block.Arguments, block.Patches = make([]byte, layout.Size), nil
	for i := range h.kernel.Arguments {
		g, field := &h.kernel.Arguments[i], layout.Fields[i]
		patch := cudadrv.Patch{Offset: field.Offset, Size: field.Size}
		switch {
		case g.Kind == kir.Pointer:
			m, err := a.memory(h, g, in, out)
			if err != nil {
				return err
			}
			patch.Value, patch.Index, patch.Add = m.kind, m.index, uint64(m.add)
		case g.Kind == kir.RandomSeed:
			block.Patches = append(block.Patches, a.seed(field)...)
			continue
		case g.Kind == kir.RandomOffset:
			patch.Value = cudadrv.RandomOffset
			if !a.options.RandomInMemory {
				patch.Add = offsetOf(x.Draw)
			}
		case g.Kind == kir.ValueScalar && a.isWord(x, h.compiled, g.Host):
			block.Patches = append(block.Patches, a.words(x, h, g, field, in)...)
			continue
		default:
			v, err := h.number(*g)
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

// seed returns the patches of the keys of a seed, or of its address.
func (a *assembly) seed(field cuda.Field) []cudadrv.Patch {
	patches := []cudadrv.Patch{{Offset: field.Offset, Size: 8, Value: cudadrv.RandomSeed}}
	if a.options.RandomInMemory {
		return patches
	}
	added := philox.Keys(0)
	for i := 2; i < len(added); i += 2 { // to the upper half, then to the lower one without what it carries
		at := field.Offset + 4*i
		patches = append(patches, cudadrv.Patch{Offset: at, Size: 8, Value: cudadrv.RandomSeed, Add: uint64(added[i+1]) << 32},
			cudadrv.Patch{Offset: at, Size: 4, Value: cudadrv.RandomSeed, Add: uint64(added[i])})
	}
	return patches
}

// isWord reports whether a number of a piece differs between calls with inputs of one
// kind: it is in memory of the host, or depends on an input that the kind does not tell.
func (a *assembly) isWord(x *piece, c *compiled, v kir.HostValue) bool {
	if v.Tensor != core.NoVal {
		return true
	}
	if x == nil {
		return false
	}
	return a.numberDiffers(x, c.s.Fusion(), v.Scalar)
}

// numberDiffers reports whether a scalar of f, the fusion of a piece, differs between
// calls with inputs of the kind of the plan.
func (a *assembly) numberDiffers(x *piece, f *core.Fusion, s scalar.ID) (differs bool) {
	f.Scalars().Symbols(s, func(s scalar.ID) {
		tag := f.Scalars().Tag(s)
		differs = differs || tag.Dim < 0 && a.differs(x, slices.Index(f.Inputs(), core.ValID(tag.Val)))
	})
	return differs
}

// words returns the patches of a number that calls bring.
func (a *assembly) words(x *piece, h *host, g *kir.Argument, field cuda.Field, in func(int) memory) []cudadrv.Patch {
	word := wordSource{hostWord: hostWord{input: -1, to: g.DType}, value: g.Host.Scalar}
	if g.Host.Tensor != core.NoVal {
		word.value, word.input = 0, in(h.input(g.Host.Tensor)).index
	} else {
		word.of = a.sourcesOf(x, h.s.Fusion())
	}
	var patches []cudadrv.Patch
	for ; word.at < field.Size; word.at += 8 {
		patches = append(patches, cudadrv.Patch{Offset: field.Offset + word.at, Size: min(field.Size, 8),
			Value: cudadrv.ScalarWord, Index: a.made.words.add(word)})
	}
	return patches
}

// sourcesOf returns where the inputs of a piece, whose scalars f has, come from.
func (a *assembly) sourcesOf(x *piece, f *core.Fusion) *numberSource {
	if x.words == nil {
		x.words = &numberSource{f: f.WithOutputs(f.Outputs())} // looking at a fusion adds to its scalars, and others look at that one
		for i := range x.task.inputs {
			from, value := a.source(x, i)
			x.words.from, x.words.inputs = append(x.words.from, from), append(x.words.inputs, value)
		}
	}
	return x.words
}

// memory returns what a pointer points to.
func (a *assembly) memory(h *host, g *kir.Argument, in, out func(int) memory) (memory, error) {
	v := g.Host.Tensor
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
	buffer := &h.kernel.Buffers[g.Buffer]
	n, err := h.Eval(buffer.Size)
	return a.workspace(Workspace{Bytes: max(n, 0) * int64(buffer.DType.Size()), Zeroed: buffer.Zeroed, Semaphore: h.kernel.IsSemaphore(g.Buffer)}), err
}
