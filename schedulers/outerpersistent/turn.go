package outerpersistent

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// A turning is a tensor with an element for each point that lies in memory along the columns, where others lie across them.
type turning struct {
	tensor int   // of the space
	width  int64 // elements of an access along a column
}

// Of turned tensors. In us on an H200, with a dirty and a clean second cache, of a layer norm of the channels of images that are
// written with the channels last, 64 x 384 x 56 x 56 bfloat16, with 4 threads along the columns 92.5 / 88.6, with 8, of which
// a processor has one block, 122.9 / 119.0, with 8 of 4 columns each 102.6 / 100.4; by single elements 179.6 / 178.6, a copy 80.8 /
// 77.7; of 768 channels of 28 x 28 66.0 / 61.3, 75.2 / 71.8, 75.4 / 70.7, 190.1 / 190.3 and 45.2 / 42.1; of 384 channels of float32
// 213.9 / 210.8, with 8 216.6 / 213.9, 435.0 / 433.6 and 153.3 / 149.8.
const (
	leastTurned = 8  // bytes of an access along a column, at least
	besideBytes = 64 // of a block along the columns, of tensors that are not turned
)

// Turns reports whether this scheduler takes g and moves tensors that lie along columns in vectors, as well as those that lie
// across them.
func Turns(g *scheduler.Segment) bool {
	a := analyse(g)
	return a.err == nil && a.turned.Turn > 0
}

// findTurned finds out whether some tensors lie along columns and others across them, and blocks have room for
// whole columns, of which each thread has elements that follow each other. Those that are across may then be fewer
// than the others.
func (a *analysis) findTurned() {
	for _, p := range []*space.Space{a.space, a.space.AsRead(), a.space.AsWritten()} {
		b := *a
		if b.space = p; !b.measureColumns() {
			continue
		}
		if b.turnings = b.findTurnings(); len(b.turnings) == 0 {
			continue
		}
		for _, price := range persistence.Prices {
			if q, ok := b.fitTurned(price); ok {
				*a = b
				a.turned = q
				return
			}
		}
	}
}

// findTurnings returns the tensors to be turned, if others have vectors along the columns.
func (a *analysis) findTurnings() (turned []turning) {
	across, from := a.across()
	isBeside := false
	for k := range a.space.Tensors {
		t := &a.space.Tensors[k]
		if !a.space.IsFull(t) || t.IsResized() {
			continue
		}
		most := accessBytes / max(min(t.Bytes, accessBytes), 1)
		beside, along := a.space.PitchOf(a.inner, most, 1).Widths[k], across.PitchOf(from, most, 1).Widths[k]
		isBeside = isBeside || beside*t.Bytes >= leastTurned
		if beside == 1 && along > 1 && along*t.Bytes >= leastTurned {
			turned = append(turned, turning{k, along})
		}
	}
	if !isBeside {
		return nil
	}
	return turned
}

// across returns the space with what is reduced innermost, if it is next to the columns, and the place from which on it is.
func (a *analysis) across() (*space.Space, int) {
	from, end := a.inner, len(a.space.Order)
	for from > 0 && a.isReduced(a.space.Order[from-1]) {
		from--
	}
	return a.space.Ordered(space.Range{Begin: 0, End: from}, space.Range{Begin: a.inner, End: end}, space.Range{Begin: from, End: a.inner}), from + end - a.inner
}

// turn returns how many elements that follow each other along a column a thread has at least.
func (a *analysis) turn() int64 {
	n := int64(1)
	for _, t := range a.turnings {
		n = max(n, t.width)
	}
	return n
}

// fitTurned returns parameters with which a block has whole columns and a thread elements that follow each other along them.
func (a *analysis) fitTurned(price persistence.Price) (Params, bool) {
	order := make([]int, len(a.space.Order))
	for k := range order {
		order[k] = k
	}
	rest := a.space.Arranged(order, func(t *space.Tensor) bool {
		return !slices.ContainsFunc(a.turnings, func(x turning) bool { return &a.space.Tensors[x.tensor] == t })
	})
	narrowest := a.space.Narrowest()
	p := Params{Vector: min(rest.Cheapest(a.inner, 1).Elements, accessBytes/narrowest), Blocks: 1, Price: price, Turn: a.turn()}
	p.Lanes = max(besideBytes/(p.Vector*narrowest), 1)
	if a.columns < p.Vector*p.Lanes {
		return p, false
	}
	for p.Steps = p.Turn; p.Steps <= 2*p.Turn; p.Steps *= 2 {
		p.Rows = scheduler.CeilDiv(a.length, p.Steps)
		if p.Rows > 1 && p.Lanes*p.Rows <= largeBlock && a.holds(p) {
			return p, true
		}
	}
	return p, false
}

// turnOutputs lets what is written along columns be copied from registers in between.
func (b *builder) turnOutputs() error {
	f := b.s.Fusion()
	if b.Turn == 0 {
		return nil
	}
	for _, x := range b.a.turnings {
		t := &b.a.space.Tensors[x.tensor]
		if !t.IsOutput {
			continue
		}
		v := f.Outputs()[t.Place].Val
		between, err := b.s.CacheAfter(f.TensorArgs(f.Expr(f.Val(v).Def))[0], []core.ValID{v})
		if err != nil {
			return err
		}
		b.turned = append(b.turned, turnedCopy{v, between, x.width})
	}
	return nil
}

// turnInputs lets what is read along columns be copied to registers before it is read there along them. Tensors have their
// loops by then.
func (b *builder) turnInputs() error {
	if b.Turn == 0 {
		return nil
	}
	for _, x := range b.a.turnings {
		t := &b.a.space.Tensors[x.tensor]
		if t.IsOutput {
			continue
		}
		u := b.s.Fusion().Inputs()[t.Place]
		if len(b.loads[u]) == 0 {
			continue
		}
		v, err := b.s.CacheAfter(u, b.loads[u])
		if err != nil {
			return err
		}
		refusals, err := b.s.TransformLike(b.loads[u][0], []core.ValID{v})
		if err := scheduler.Follow(name, refusals, err); err != nil {
			return err
		}
		b.turned = append(b.turned, turnedCopy{v, core.NoVal, x.width})
	}
	return nil
}

// A turnedCopy is a copy between memory and registers in vectors along columns.
type turnedCopy struct {
	moved, between core.ValID // between: what has the elements of one vector of moved, an output
	width          int64
}

// turnLoops has the steps of a thread be the innermost loop of copies to and from memory along columns.
func (b *builder) turnLoops() error {
	for _, x := range b.turned {
		if err := b.along(x.moved, b.steps()[1], x.width, schedule.Vectorize); err != nil {
			return err
		}
		if x.between == core.NoVal {
			continue
		}
		if err := b.along(x.between, b.steps()[1], x.width, schedule.Unroll); err != nil {
			return err
		}
	}
	return b.widenCommon()
}

// along has the loop at a place, of the steps of a thread, be the innermost one of v, in accesses of so many elements.
func (b *builder) along(v core.ValID, place int, width int64, kind schedule.Parallel) error {
	n := scheduler.Nest{Schedule: b.s, Tensor: v}
	n.Reorder(map[int]int{place: len(b.s.Loop(v)) - 1})
	if width < b.Steps {
		n.Split(-1, width, schedule.Serial)
		n.Parallelize(-2, schedule.Unroll)
	}
	n.Parallelize(-1, kind)
	return n.Err
}

// widenCommon has what all columns have in common, as the weights of a norm, be loaded in vectors along the steps of a thread.
func (b *builder) widenCommon() error {
	if b.Turn == 0 {
		return nil
	}
	f := b.s.Fusion()
	across, from := b.a.across()
	for _, v := range b.s.Tensors() {
		u, ok := scheduler.CopiedInput(f, v)
		rows := slices.IndexFunc(b.s.Loop(v), func(a core.AxisID) bool { return b.s.Parallel(a) == schedule.TIDy })
		if !ok || rows < 1 {
			continue
		}
		for k := range across.Tensors {
			t := &across.Tensors[k]
			if t.IsOutput || t.IsResized() || f.Inputs()[t.Place] != u || !across.IsCommon(t, from) {
				continue
			}
			if w := across.PitchOf(from, min(b.Turn, accessBytes/max(min(t.Bytes, accessBytes), 1)), 1).Widths[k]; w > 1 {
				if err := b.along(v, rows-1, w, schedule.Vectorize); err != nil {
					return err
				}
			}
			break
		}
	}
	return nil
}
