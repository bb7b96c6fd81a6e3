package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// A relation says which axes of the producer of an edge correspond to which of
// its consumer, looking through broadcasts: an axis of one side that is a
// broadcast and has no counterpart is invisible, and a merge with it stands for
// its partner. It holds for one edge. The union over edges would mean nothing:
// i ~ i*b on one edge and b ~ j on another would give i ~ i*j.
type relation struct {
	axes      map[core.AxisID]int // local numbers of the axes of both sides
	parent    []int
	unmatched []core.AxisID // broadcasts without counterpart, and what is made of them alone
}

// relationOf returns the relation of e, which it keeps until a loop domain
// changes.
func (s *Scheduled) relationOf(e *edge) *relation {
	if e.relation == nil {
		e.relation = s.newRelation(e)
	}
	return e.relation
}

func (s *Scheduled) newRelation(e *edge) *relation {
	r := &relation{axes: map[core.AxisID]int{}}
	for _, a := range s.axesOf(e.producer) {
		r.add(a)
	}
	for _, a := range s.axesOf(e.consumer) {
		r.add(a)
	}
	p, c := s.f.Val(e.producer).Domain.Logical, s.f.Val(e.consumer).Domain.Root
	matched := map[core.AxisID]bool{}
	for _, pair := range e.pairs {
		matched[pair.producer], matched[pair.consumer] = true, true
		if !pair.whole {
			r.unite(pair.producer, pair.consumer)
		}
	}
	for _, a := range slices.Concat(p, c) {
		if s.isBroadcast(a) && !matched[a] {
			r.unmatched = append(r.unmatched, a)
		}
	}
	ofProducer, ofConsumer := s.below(e.producer, p), s.below(e.consumer, c)
	s.forward(r, ofProducer)
	s.forward(r, ofConsumer)
	for _, id := range ofConsumer { // before what is made of them
		if of, ok := s.undone[id]; ok {
			for k, a := range s.f.Transform(of).Inputs() {
				r.unite(a, s.f.Transform(id).Out[k])
			}
		}
	}
	for s.matchTransforms(r, ofProducer, ofConsumer) {
	}
	return r
}

// forward looks through the transforms of unmatched axes. The invisible input of
// a merge joins the others too, so that the axes on the way to shared loops all
// come into one loop class.
func (s *Scheduled) forward(r *relation, transforms []core.TransformID) {
	for _, id := range transforms {
		t := s.f.Transform(id)
		invisible := 0
		for _, a := range t.Inputs() {
			if r.isUnmatched(a) {
				invisible++
			}
		}
		switch {
		case invisible == 0:
		case invisible == len(t.Inputs()):
			r.unmatched = append(r.unmatched, t.Results()...)
		default:
			for _, a := range t.Inputs() {
				r.unite(a, t.Out[0])
			}
		}
	}
}

// matchTransforms unites the results of equal transforms of corresponding axes
// and reports whether that changed anything.
func (s *Scheduled) matchTransforms(r *relation, ofProducer, ofConsumer []core.TransformID) bool {
	changed := false
	for _, x := range ofProducer {
		t := s.f.Transform(x)
		if !slices.ContainsFunc(t.Inputs(), func(a core.AxisID) bool { return !r.isUnmatched(a) }) {
			continue
		}
		for _, y := range ofConsumer {
			u := s.f.Transform(y)
			if !sameKind(t, u) || !r.maps(t.In[0], u.In[0]) || t.In[1] != core.NoAxis && !r.maps(t.In[1], u.In[1]) {
				continue
			}
			for k, a := range t.Results() {
				changed = r.unite(a, u.Out[k]) || changed
			}
		}
	}
	return changed
}

// sameKind reports whether t and u do the same to their inputs.
func sameKind(t, u *core.Transform) bool {
	return t.Kind == u.Kind && t.Factor == u.Factor && t.Inner == u.Inner && t.Whole == u.Whole && t.Left == u.Left && t.Right == u.Right
}

func (r *relation) add(a core.AxisID) {
	if _, ok := r.axes[a]; !ok {
		r.axes[a] = len(r.parent)
		r.parent = append(r.parent, len(r.parent))
	}
}

func (r *relation) find(a core.AxisID) int {
	i := r.axes[a]
	for r.parent[i] != i {
		i = r.parent[i]
	}
	return i
}

func (r *relation) unite(a, b core.AxisID) bool {
	i, j := r.find(a), r.find(b)
	r.parent[max(i, j)] = min(i, j)
	return i != j
}

func (r *relation) maps(a, b core.AxisID) bool {
	_, hasA := r.axes[a]
	_, hasB := r.axes[b]
	return hasA && hasB && r.find(a) == r.find(b)
}

func (r *relation) isUnmatched(a core.AxisID) bool { return slices.Contains(r.unmatched, a) }
