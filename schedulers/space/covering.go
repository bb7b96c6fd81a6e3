package space

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// A covering is the space of an output that has the axes of all tensors of a segment.
type covering struct {
	space   *Space
	err     error
	missing core.ValID // what the output with most axes has not the axes of
	widest  core.ValID
}

// Covering returns the space of an output of g from which all axes of g can be reached.
// It is found once for a segment, and is not to be changed.
//
// Errors: a [scheduler.Refusals] of the scheduler called by, if there is no such output;
// those of [New].
func Covering(g *scheduler.Segment, by string) (*Space, error) {
	return scheduler.Remember(g, covering{}, func() *covering { return cover(g) }).result(g, by)
}

func (c *covering) result(g *scheduler.Segment, by string) (*Space, error) {
	return c.space, c.refusal(g.Fusion, by)
}

func (c *covering) refusal(f *core.Fusion, by string) error {
	if c.missing != core.NoVal {
		return scheduler.Refused(f, by, "reference", c.missing,
			"%s has dimensions that output %s has not, and no other output has those of all tensors", f.Name(c.missing), f.Name(c.widest))
	}
	return c.err
}

// cover covers all tensors.
func cover(g *scheduler.Segment) *covering {
	outputs := widest(g.Fusion)
	c := &covering{missing: core.NoVal, widest: outputs[0]}
	for i, v := range outputs {
		u, err := g.Uncovered(v)
		if err == nil && u == core.NoVal {
			c.missing = core.NoVal
			c.space, err = New(g, v)
		}
		if err != nil || u == core.NoVal {
			c.missing, c.err = core.NoVal, err
			return c
		}
		if i == 0 {
			c.missing = u
		}
	}
	return c
}

// widest returns the outputs, those with most axes that are not broadcast first.
func widest(f *core.Fusion) []core.ValID {
	axes := func(v core.ValID) (n int) {
		for _, a := range f.Axes(v) {
			if f.Axis(a).Kind != core.Broadcast {
				n++
			}
		}
		return n
	}
	var outputs []core.ValID
	for _, o := range f.Outputs() {
		outputs = append(outputs, o.Val)
	}
	slices.SortStableFunc(outputs, func(v, w core.ValID) int { return axes(w) - axes(v) })
	return outputs
}

// Finer returns the space of a tensor that g computes, of which dimensions that p has as one are several, if p, the space of
// an output that [Covering] returns, has tensors that go through one dimension in pieces: what is reshaped at last has those.
// It returns nil if there is none.
func Finer(g *scheduler.Segment, p *Space) (*Space, error) {
	if !slices.ContainsFunc(p.Tensors, func(t Tensor) bool { return t.isTorn() }) {
		return nil, nil
	}
	f := g.Fusion
	long := func(v core.ValID) (n int) {
		for _, a := range f.Axes(v) {
			if size, err := g.Shapes.Int(f.Axis(a).Extent); err == nil && size > 1 && f.Axis(a).Kind == core.Iter {
				n++
			}
		}
		return n
	}
	best := core.NoVal
	most := long(p.Reference)
	for _, id := range f.Order() {
		e := f.Expr(id)
		if e.Op != core.ReshapeOp {
			continue
		}
		for _, v := range []core.ValID{e.Args[0].Tensor, e.Out[0]} {
			if n := long(v); n > most && !f.Val(v).Input {
				if u, err := g.Uncovered(v); err != nil {
					return nil, err
				} else if u == core.NoVal {
					best, most = v, n
				}
			}
		}
	}
	if best == core.NoVal {
		return nil, nil
	}
	return New(g, best)
}

// isTorn reports whether t goes through a dimension in steps that are not equal.
func (t *Tensor) isTorn() bool {
	for k := range t.along {
		if !t.isOpaque && !t.isLinear(k, k+1, false) {
			return true
		}
	}
	return false
}
