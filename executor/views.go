package executor

import (
	"fmt"
	"slices"
	"sync"

	"nvfuser_go/core"
	"nvfuser_go/passes"
	"nvfuser_go/segmenter"
)

// A View is what an output is that lies in the memory of another tensor.
type View struct {
	Of             Slot // an input, or an output that has memory, maybe of the output itself
	Sizes, Strides []int64
	Offset         int64 // of the first element, in elements from the first one of that
}

// A variant is a definition in which other tensors stand for the outputs that are
// views: those in whose memory they lie.
type variant struct {
	f *core.Fusion

	once   sync.Once
	passed *core.Fusion // by the passes
	failed error        // of those
}

// maxVariants bounds those of an executor: which reshapes are views depends on strides.
const maxVariants = 16

// variantOf returns the definition with other tensors as outputs, where bases says so.
func (e *Executor) variantOf(bases map[int]core.ValID) *variant {
	key := fmt.Sprint(bases) // sorted
	e.lock.Lock()
	defer e.lock.Unlock()
	if v := e.variants[key]; v != nil {
		return v
	}
	if len(e.variants) >= maxVariants || e.variants == nil {
		e.variants = map[string]*variant{}
	}
	v := &variant{f: e.f}
	if len(bases) > 0 {
		outputs := slices.Clone(e.f.Outputs())
		for k, base := range bases {
			outputs[k].Val = base
		}
		v.f = e.f.WithOutputs(outputs)
	}
	e.variants[key] = v
	return v
}

// rewritten returns the fusion as the passes leave it.
func (v *variant) rewritten() (*core.Fusion, error) {
	v.once.Do(func() {
		if v.passed, _, v.failed = passes.Run(v.f, false); v.failed != nil {
			v.failed = &Bug{What: v.failed}
		}
	})
	return v.passed, v.failed
}

// A shape is what is computed for inputs of one kind: the outputs, and the definition
// without what views of them stand for.
type shape struct {
	*variant
	b       *core.Binding // of the variant
	outputs []OutputDescription
}

// shape decides which outputs are views, for a run in a place.
func (e *Executor) shape(b *core.Binding, inputs []Input, o Options, place Device) (*shape, error) {
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	if !o.Views || len(e.views) == 0 || len(e.written) > 0 && sharesMemory(e.written, inputs) {
		return &shape{e.variantOf(nil), b, outputs}, nil
	}
	x := &viewer{f: e.f, b: b, inputs: inputs, place: place, outputs: outputs, seen: map[core.ValID]*seen{}, bases: map[core.ValID]core.ValID{}}
	for _, v := range e.views {
		x.bases[e.f.Outputs()[v.Output].Val] = v.Base
	}
	own := map[int]core.ValID{}
	for _, v := range e.views {
		s, err := x.view(e.f.Outputs()[v.Output].Val)
		if err != nil {
			return nil, err
		}
		if s != nil {
			own[v.Output] = s.root
		}
	}
	s := &shape{variant: e.variantOf(own), b: b, outputs: outputs}
	if len(own) == 0 {
		return s, nil
	}
	if s.b, err = s.f.Bind(valuesOf(inputs)); err != nil {
		return nil, err
	}
	if s.outputs, err = describeOutputs(s.f, s.b, inputs); err != nil {
		return nil, err
	}
	return s, x.describe(s, own)
}

// A seen is a tensor in the memory of another one.
type seen struct {
	root           core.ValID // an input, or what is computed
	sizes, strides []int64
	offset         int64
}

// A viewer finds out how outputs lie in the memory of others.
type viewer struct {
	f       *core.Fusion
	b       *core.Binding
	inputs  []Input
	place   Device
	outputs []OutputDescription       // without views
	bases   map[core.ValID]core.ValID // of those outputs that may be views
	seen    map[core.ValID]*seen      // outputs, nil: it is no view
	orders  map[core.ValID][]int      // of tensors that no caller sees
}

// view returns how the output v lies in the memory of another tensor; nil: it does not.
func (x *viewer) view(v core.ValID) (s *seen, err error) {
	if s, ok := x.seen[v]; ok {
		return s, nil
	}
	defer func() { x.seen[v] = s }()
	at, err := x.base(x.bases[v])
	if at == nil || err != nil {
		return nil, err
	}
	return x.follow(at, v)
}

// base returns how a tensor lies that others are views of.
func (x *viewer) base(v core.ValID) (*seen, error) {
	if i := slices.Index(x.f.Inputs(), v); i >= 0 {
		if in := &x.inputs[i]; in.Device == x.place { // its lists are the caller's
			return &seen{root: v, sizes: slices.Clone(in.Sizes), strides: slices.Clone(in.Strides)}, nil
		}
		return nil, nil
	}
	if _, ok := x.bases[v]; ok {
		if s, err := x.view(v); s != nil || err != nil {
			return s, err
		}
	}
	for k, o := range x.f.Outputs() {
		if o.Val == v && o.Alias == core.NoVal {
			return &seen{root: v, sizes: x.outputs[k].Sizes, strides: x.outputs[k].Strides}, nil
		}
	}
	sizes, err := x.b.Shape(v)
	if err != nil {
		return nil, err
	}
	return &seen{root: v, sizes: sizes, strides: x.unseenStrides(v, sizes)}, nil
}

// unseenStrides returns the strides of a tensor of which callers see views alone: in the
// order that suits those who compute it.
func (x *viewer) unseenStrides(v core.ValID, sizes []int64) []int64 {
	if x.orders == nil {
		x.orders = passes.MemoryOrders(x.f)
	}
	return denseStrides(x.f, v, sizes, x.orders[v])
}

// follow returns how v lies, which views make of the tensor at s.
func (x *viewer) follow(at *seen, v core.ValID) (*seen, error) {
	var chain []*core.Expr // the last one first
	for u := v; u != x.bases[v]; {
		e := x.f.Expr(x.f.Val(u).Def)
		chain, u = append(chain, e), e.Args[0].Tensor
	}
	for _, e := range slices.Backward(chain) {
		to, err := x.b.Shape(e.Out[0])
		if err != nil {
			return nil, err
		}
		next := &seen{root: at.root, sizes: slices.Clone(to)}
		if core.NumElements(at.sizes) == 0 || core.NumElements(to) == 0 {
			next.strides = denseStrides(x.f, e.Out[0], to, nil)
			at = next
			continue
		}
		strides, first, ok, err := segmenter.Lies(e, x.b, at.sizes, at.strides, to)
		if !ok || err != nil {
			return nil, err
		}
		next.strides, next.offset = strides, at.offset+first
		at = next
	}
	return at, nil
}

// describe says of the outputs that are views, which have the roots, what they are.
func (x *viewer) describe(s *shape, roots map[int]core.ValID) error {
	n := len(x.inputs)
	for k := range s.outputs {
		root, ok := roots[k]
		if !ok {
			continue
		}
		d, v := &s.outputs[k], x.seen[x.f.Outputs()[k].Val]
		lies, err := x.base(root)
		if err != nil {
			return err
		}
		d.Strides = slices.Clone(lies.strides)
		d.View = &View{Of: Slot(n + k), Sizes: v.sizes, Strides: v.strides, Offset: v.offset}
		switch i := slices.Index(x.f.Inputs(), root); {
		case i >= 0:
			d.View.Of = Slot(i)
		case d.SameAs >= 0:
			d.View.Of = Slot(n + d.SameAs)
		}
	}
	return nil
}

// ofInput reports whether the output lies in the memory of an input that it is a view of.
func (o *OutputDescription) ofInput(inputs int) bool { return o.View != nil && int(o.View.Of) < inputs }

// isOwn reports whether the output has memory of its own: its caller allocates it, or it is
// the result of a call of torch.
func (o *OutputDescription) isOwn(inputs int) bool {
	return !o.Hidden && o.SameAs < 0 && !o.ofInput(inputs)
}
