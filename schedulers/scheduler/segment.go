package scheduler

import (
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A Segment is what schedulers are asked about: a frozen fusion, for tensors of
// certain sizes that lie in memory in a certain way. It is used by one goroutine.
type Segment struct {
	Fusion  *core.Fusion
	Shapes  *core.Binding // its sizes and scalars
	Inputs  []Placement   // by input; of no meaning for scalars and tensors on the host
	Outputs []Placement   // by output
	Known   *Known        // of the fusion; nil: nobody remembers
	Cache   int64         // bytes of the second cache of the device; 0: of no matter

	mapping *schedule.Mapping
	memory  map[any]any
}

// Mapping returns that of the axes of the fusion, without a schedule.
//
// Errors: those of [schedule.Map].
func (g *Segment) Mapping() (*schedule.Mapping, error) {
	var err error
	if g.mapping == nil {
		g.mapping, err = schedule.Map(schedule.New(g.Fusion))
	}
	return g.mapping, err
}

// Remember returns what made returns for key, which is made once: what a scheduler
// finds out when it is asked whether it takes a segment serves when it does.
func Remember[T any](g *Segment, key any, made func() T) T {
	if x, ok := g.memory[key]; ok {
		return x.(T)
	}
	if g.memory == nil {
		g.memory = map[any]any{}
	}
	x := made()
	g.memory[key] = x
	return x
}

// A Placement says where the elements of a tensor are.
type Placement struct {
	Strides []int64 // in elements, by dimension; of no meaning along dimensions of size 1
	Aligned schedule.Alignment
}

// Like reports whether schedulers say the same of g as of other: it is the same fusion,
// with tensors at the same places.
func (g *Segment) Like(other *Segment) bool {
	like := func(v core.ValID, a, b Placement) bool {
		if a.Aligned != b.Aligned || len(a.Strides) != len(b.Strides) {
			return false
		}
		sizes, err := g.Shapes.Shape(v)
		for d := range a.Strides {
			if err != nil || sizes[d] != 1 && a.Strides[d] != b.Strides[d] {
				return false
			}
		}
		return true
	}
	if other == nil || g.Fusion != other.Fusion || g.Cache != other.Cache || len(g.Inputs) != len(other.Inputs) || len(g.Outputs) != len(other.Outputs) {
		return false
	}
	for i, v := range g.Fusion.Inputs() {
		if x := g.Fusion.Val(v); x.Tensor && !x.Domain.CPU && !like(v, g.Inputs[i], other.Inputs[i]) {
			return false
		}
	}
	for k, o := range g.Fusion.Outputs() {
		if !like(o.Val, g.Outputs[k], other.Outputs[k]) {
			return false
		}
	}
	return true
}

// WellAligned is what allocators give, in bytes: the widest access.
const WellAligned = schedule.WellAligned

// Dense returns the segment of f for tensors without gaps, in the order that their
// allocation domains say, at addresses of the widest alignment.
//
// Errors: InvalidArgument for sizes that overflow.
func Dense(f *core.Fusion, shapes *core.Binding) (*Segment, error) {
	g := &Segment{Fusion: f, Shapes: shapes}
	for _, v := range f.Inputs() {
		if !f.Val(v).Tensor {
			g.Inputs = append(g.Inputs, Placement{})
			continue
		}
		p, err := dense(f, shapes, v)
		if err != nil {
			return nil, err
		}
		g.Inputs = append(g.Inputs, p)
	}
	for _, o := range f.Outputs() {
		p, err := dense(f, shapes, o.Val)
		if err != nil {
			return nil, err
		}
		g.Outputs = append(g.Outputs, p)
	}
	return g, nil
}

func dense(f *core.Fusion, shapes *core.Binding, v core.ValID) (Placement, error) {
	return Ordered(f, shapes, v, f.DeclaredOrder(v))
}

// Ordered returns the placement of v without gaps, at an address of the widest alignment,
// with its dimensions from the outermost in memory to the innermost as order has them; nil:
// in their own order.
//
// Errors: InvalidArgument for sizes that overflow.
func Ordered(f *core.Fusion, shapes *core.Binding, v core.ValID, order []int) (Placement, error) {
	sizes, err := shapes.Shape(v)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{Strides: make([]int64, len(sizes)), Aligned: WellAligned}
	step := int64(1)
	for k := len(sizes) - 1; k >= 0; k-- {
		d := k
		if order != nil {
			d = order[k]
		}
		if f.Axis(f.Axes(v)[d]).Kind != core.Broadcast {
			p.Strides[d] = step
			step *= max(sizes[d], 1)
		}
	}
	return p, nil
}
