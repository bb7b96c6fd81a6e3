package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// A loopGraph says which axes share a generated loop: those of producers left of
// their compute positions, with what leads to them, and the corresponding ones
// of their consumers. Nothing else shares a loop, so there is no congruence.
type loopGraph struct{ disjoint }

func (s *Scheduled) loopGraph() *loopGraph {
	l := &loopGraph{}
	l.grow(s.f.NumAxes())
	for _, e := range s.analysis().edges {
		if s.isInput(e.producer) || s.tensors[e.producer].position == 0 {
			continue
		}
		r := s.relationOf(e)
		undone := s.undoneAxes(e.consumer)
		consumer := slices.DeleteFunc(s.axesOf(e.consumer), func(a core.AxisID) bool { return slices.Contains(undone, a) })
		for _, a := range s.sharedAxes(e.producer) {
			for _, b := range consumer {
				if r.maps(a, b) {
					l.unite(a, b)
				}
			}
		}
	}
	for _, id := range s.analysis().order {
		out := s.f.Expr(id).Out
		for _, v := range out[1:] {
			first, loop := s.Loop(out[0]), s.Loop(v)
			for k := range min(len(first), len(loop)) {
				l.unite(first[k], loop[k])
			}
		}
	}
	return l
}

// undoneAxes returns the axes of v that its reshape takes and that its loops have made again: no loop runs over them.
func (s *Scheduled) undoneAxes(v core.ValID) []core.AxisID {
	if len(s.undone) == 0 {
		return nil
	}
	var axes []core.AxisID
	for _, id := range s.history(v) {
		if of, ok := s.undone[id]; ok {
			axes = append(axes, s.f.Transform(of).Inputs()...)
		}
	}
	return axes
}

// sharedAxes returns the loop axes of v left of its position and the axes
// between them and its logical domain, ascending.
func (s *Scheduled) sharedAxes(v core.ValID) []core.AxisID {
	logical := s.f.Val(v).Domain.Logical
	axes := slices.Clone(s.Loop(v)[:s.tensors[v].position])
	for i := 0; i < len(axes); i++ {
		d := s.f.Axis(axes[i]).Def
		if d == core.NoTransform || slices.Contains(logical, axes[i]) {
			continue
		}
		for _, a := range s.f.Transform(d).Inputs() {
			if !slices.Contains(axes, a) {
				axes = append(axes, a)
			}
		}
	}
	slices.Sort(axes)
	return axes
}

// twoInOneLoop returns a tensor and two of its loop axes that share a class.
func (s *Scheduled) twoInOneLoop(l *loopGraph) (v core.ValID, first, second int, found bool) {
	for _, v := range s.Tensors() {
		if s.isInput(v) {
			continue
		}
		seen := map[core.AxisID]int{}
		for k, a := range s.Loop(v) {
			if i, ok := seen[l.find(a)]; ok {
				return v, i, k, true
			}
			seen[l.find(a)] = k
		}
	}
	return core.NoVal, 0, 0, false
}
