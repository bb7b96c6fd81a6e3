package pointwise

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// vectorBytes are those that one instruction moves, at most.
const vectorBytes = 16

// width returns how many elements of each input and output a vector has, at most.
func width(f *core.Fusion) int64 {
	size := 1
	widen := func(v core.ValID) {
		if x := f.Val(v); x.Tensor && !x.Domain.CPU {
			size = max(size, x.DType.Size())
		}
	}
	for _, v := range f.Inputs() {
		widen(v)
	}
	for _, o := range f.Outputs() {
		widen(o.Val)
	}
	return int64(vectorBytes / size)
}

// hasVectors reports whether s moves anything in vectors.
func hasVectors(s *schedule.Scheduled) bool {
	return slices.ContainsFunc(s.Tensors(), func(v core.ValID) bool {
		return slices.ContainsFunc(s.Loop(v), func(a core.AxisID) bool { return s.Parallel(a) == schedule.Vectorize })
	})
}

// vectorize lets the innermost loop be a vector of the copies from inputs and to
// outputs that lie in memory as their loops run, and have the innermost axis of
// reference: of a column the loops of the rows repeat each element.
func vectorize(s *schedule.Scheduled, reference core.ValID) error {
	f := s.Fusion()
	m, err := schedule.Map(s)
	if err != nil {
		return err
	}
	whole := innermost(s, reference)
	if len(whole) == 0 {
		return nil
	}
	last := m.Exact(whole[len(whole)-1])
	for _, v := range s.Tensors() {
		if f.Val(v).Def == core.NoExpr || f.Expr(f.Val(v).Def).Op != core.SetOp {
			continue
		}
		from := f.TensorArgs(f.Expr(f.Val(v).Def))[0]
		outside := v
		switch {
		case f.Val(from).Input && s.Memory(v) == schedule.Local:
			outside = from
		case s.Memory(v) == schedule.Global && s.Memory(from) == schedule.Local:
		default:
			continue
		}
		if order := innermost(s, v); runsThrough(s, v, outside, order) && m.Exact(order[len(order)-1]) == last {
			if err := s.Parallelize(v, -1, schedule.Vectorize); err != nil {
				return err
			}
		}
	}
	return nil
}

// innermost returns the axes that the axis which the innermost loop of v was split
// from is merged from, outermost first; none if it was not split.
func innermost(s *schedule.Scheduled, v core.ValID) []core.AxisID {
	f, loop := s.Fusion(), s.Loop(v)
	if len(loop) == 0 {
		return nil
	}
	split := f.Axis(loop[len(loop)-1]).Def
	if split == core.NoTransform || f.Transform(split).Kind != core.Split {
		return nil
	}
	return merged(f, f.Transform(split).In[0], nil)
}

// runsThrough reports whether order is all axes of v, in the order in which they
// lie in memory without gaps in outside, which is v or what v is a copy of.
func runsThrough(s *schedule.Scheduled, v, outside core.ValID, order []core.AxisID) bool {
	f := s.Fusion()
	alloc, _ := s.Allocation(outside)
	contig := s.Contiguity(outside)
	axes, mine := f.Axes(outside), f.Axes(v)
	if len(order) == 0 || len(order) != len(alloc) {
		return false
	}
	for k, a := range alloc {
		if contig[k] != core.Yes || order[k] != mine[slices.Index(axes, a)] {
			return false
		}
	}
	return true
}

// merged appends the axes that a is merged from, outermost first.
func merged(f *core.Fusion, a core.AxisID, axes []core.AxisID) []core.AxisID {
	t := f.Axis(a).Def
	if t == core.NoTransform || f.Transform(t).Kind != core.Merge {
		return append(axes, a)
	}
	in := f.Transform(t).In
	return merged(f, in[1], merged(f, in[0], axes))
}
