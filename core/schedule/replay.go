package schedule

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A replayer gives a tensor the loop domain of a neighbour.
type replayer struct {
	s        *Scheduled
	src, dst core.ValID
	image    map[core.AxisID]core.AxisID // axis of src -> axis of dst
	live     []core.AxisID               // of dst: made and not consumed, in order
	own      []core.TransformID          // of dst, on the way to its logical axes
	history  []core.TransformID          // of dst, all

	isReshaped bool // what loops do to an axis dst does otherwise, to have its logical axes
}

// replayAlong returns loop axes for h.to that follow the first n of those of
// h.from, and how many those are; the others of h.to come after them, as they
// are. Errors say which transform has no counterpart.
func (s *Scheduled) replayAlong(h hop, n int) ([]core.AxisID, int, error) {
	if h.edge == nil {
		loop, err := s.replaySibling(h.from, h.to)
		return loop, n, err
	}
	d := &s.f.Val(h.to).Domain
	start := func() *replayer {
		r := &replayer{s: s, src: h.from, dst: h.to, image: map[core.AxisID]core.AxisID{}}
		r.live = slices.Clone(d.Logical)
		if h.down {
			r.live = slices.Clone(d.Root)
		}
		for _, p := range h.edge.pairs {
			if h.down {
				r.image[p.producer] = p.consumer
			} else {
				r.image[p.consumer] = p.producer
			}
		}
		r.own = s.f.TransformsTo(d.Logical)
		r.history = s.history(h.to)
		return r
	}
	r := start()
	loop, first, err := r.replay(n)
	if r.isReshaped && h.down && s.f.Expr(h.edge.expr).Op == core.ReshapeOp {
		if again := start(); again.undo() {
			return again.replay(n)
		}
	}
	return loop, first, err
}

// undo has the axes of before a reshape be made again from its logical axes, so that loops which do something else to them
// can be followed: a norm of images that is written in windows has loops over rows of images. It reports whether it can.
func (r *replayer) undo() bool {
	s, before := r.s, map[core.AxisID]core.AxisID{}
	axisOf := func(a core.AxisID) core.AxisID {
		if b, ok := before[a]; ok {
			return b
		}
		return a
	}
	r.live = slices.Clone(s.f.Val(r.dst).Domain.Logical)
	for _, id := range slices.Backward(r.own) {
		t := *s.f.Transform(id)
		u, ok := s.inverse(id)
		if !ok {
			return false
		}
		in := [2]core.AxisID{axisOf(t.Out[0]), core.NoAxis}
		if t.Kind == core.Split {
			in[1] = axisOf(t.Out[1])
		}
		v := core.NoTransform
		for _, other := range r.history {
			if x := s.f.Transform(other); x.In == in && sameKind(&u, x) {
				v = other
			}
		}
		switch {
		case v != core.NoTransform:
		case u.Kind == core.Split:
			v = s.splitAxis(in[0], &u)
		default:
			v = s.mergeAxes(in[0], in[1])
		}
		if s.undone == nil {
			s.undone = map[core.TransformID]core.TransformID{}
		}
		s.undone[v] = id
		for k, a := range (&t).Inputs() {
			before[a] = s.f.Transform(v).Out[k]
		}
		at := slices.Index(r.live, in[0])
		r.live = slices.Replace(r.live, at, at+1, s.f.Transform(v).Results()...)
		r.live = slices.DeleteFunc(r.live, func(a core.AxisID) bool { return a == in[1] })
	}
	for a, b := range r.image {
		r.image[a] = axisOf(b)
	}
	r.own = nil
	return true
}

// inverse returns the transform that makes of the results of id, a merge or a split that divides, its inputs; false: there
// is none.
func (s *Scheduled) inverse(id core.TransformID) (core.Transform, bool) {
	t := s.f.Transform(id)
	u := core.Transform{Kind: core.Merge, Factor: scalar.None, Left: scalar.None, Right: scalar.None}
	if slices.ContainsFunc(slices.Concat(t.Inputs(), t.Results()), s.isBroadcast) {
		return u, false
	}
	switch t.Kind {
	case core.Split:
		return u, s.f.Scalars().Mul(s.extent(t.Out[0]), s.extent(t.Out[1])) == s.extent(t.In[0])
	case core.Merge:
		u.Kind, u.Inner, u.Factor = core.Split, true, s.extent(t.In[1])
		return u, s.f.Scalars().CeilDiv(s.extent(t.Out[0]), u.Factor) == s.extent(t.In[0])
	}
	return u, false
}

func (r *replayer) replay(n int) ([]core.AxisID, int, error) {
	s, head := r.s, r.s.Loop(r.src)[:n]
	mapped := map[core.AxisID]bool{}
	for a := range r.image {
		mapped[a] = true
	}
	for _, id := range s.f.TransformsTo(head) {
		t := s.f.Transform(id)
		if slices.ContainsFunc(t.Results(), func(a core.AxisID) bool { return mapped[a] }) {
			continue // above the axes that correspond
		}
		if err := r.transform(*t); err != nil {
			return nil, 0, err
		}
	}
	return r.loop(head)
}

// transform replays t, or lets its result stand for the one input that has an
// image if the other is a broadcast without.
func (r *replayer) transform(t core.Transform) error {
	s := r.s
	in, there := [2]core.AxisID{core.NoAxis, core.NoAxis}, 0
	for k, a := range (&t).Inputs() {
		if b, ok := r.image[a]; ok {
			in[k] = b
			there++
		}
	}
	switch {
	case there == 0:
		return nil
	case t.Kind == core.ResizeAxis:
		return s.refuse("replay", r.dst, "an axis of %s is resized, which %s has no part in", s.name(r.src), s.name(r.dst))
	case there == len((&t).Inputs()):
		return r.apply(t, in)
	}
	for k, a := range (&t).Inputs() {
		if in[k] != core.NoAxis {
			r.image[t.Out[0]] = in[k]
		} else if !s.isBroadcast(a) {
			return s.refuse("replay", r.dst, "%s merges an axis that %s has with one that it lacks", s.name(r.src), s.name(r.dst))
		}
	}
	return nil
}

// apply makes the transform t of in, unless dst has it.
func (r *replayer) apply(t core.Transform, in [2]core.AxisID) error {
	s := r.s
	for _, a := range in {
		if a != core.NoAxis && !slices.Contains(r.live, a) {
			return s.refuse("replay", r.dst, "an axis of %s would be transformed twice to follow %s", s.name(r.dst), s.name(r.src))
		}
	}
	id, err := r.equal(&t, in)
	if err != nil {
		return err
	}
	if id == core.NoTransform {
		switch t.Kind {
		case core.Split:
			id = s.splitAxis(in[0], &t)
		case core.Shift:
			id = shiftAxis(s.f, in[0], &t, s.kind(in[0]))
		default:
			if err := s.checkMerge("merge", r.dst, in[0], in[1]); err != nil {
				return s.refuse("replay", r.dst, "%v", err)
			}
			id = s.mergeAxes(in[0], in[1])
		}
	}
	u := *s.f.Transform(id)
	at := slices.Index(r.live, in[0])
	r.live = slices.Replace(r.live, at, at+1, (&u).Results()...)
	if in[1] != core.NoAxis {
		r.live = slices.DeleteFunc(r.live, func(a core.AxisID) bool { return a == in[1] })
	}
	for k, a := range (&t).Results() {
		r.image[a] = u.Out[k]
	}
	return nil
}

// equal returns the transform of dst that does to in what t does. Another one
// on the way to the logical axes is an error: in would be consumed twice.
func (r *replayer) equal(t *core.Transform, in [2]core.AxisID) (core.TransformID, error) {
	for _, id := range r.history {
		if u := r.s.f.Transform(id); u.In == in && sameKind(t, u) {
			return id, nil
		}
	}
	for _, id := range r.own {
		for _, a := range r.s.f.Transform(id).Inputs() {
			if a == in[0] || a == in[1] {
				r.isReshaped = true
				return 0, r.s.refuse("replay", r.dst, "%s has another transform of an axis that %s transforms", r.s.name(r.dst), r.s.name(r.src))
			}
		}
	}
	return core.NoTransform, nil
}

// loop returns the images of head and then what is left of dst, with the
// transforms that dst has of that.
func (r *replayer) loop(head []core.AxisID) ([]core.AxisID, int, error) {
	var first []core.AxisID
	for _, a := range head {
		if b, ok := r.image[a]; ok && slices.Contains(r.live, b) && !slices.Contains(first, b) {
			first = append(first, b)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(r.live), func(a core.AxisID) bool { return slices.Contains(first, a) })
	for _, id := range r.history {
		t := r.s.f.Transform(id)
		if !containsAll(rest, t.Inputs()) {
			continue
		}
		at := slices.Index(rest, t.In[0])
		rest = slices.Replace(rest, at, at+1, t.Results()...)
		rest = slices.DeleteFunc(rest, func(a core.AxisID) bool { return a == t.In[1] })
	}
	// What was reordered stays so.
	old := r.s.Loop(r.dst)
	slices.SortStableFunc(rest, func(a, b core.AxisID) int { return slices.Index(old, a) - slices.Index(old, b) })
	loop := slices.Concat(first, rest)
	for _, id := range r.own {
		if slices.ContainsFunc(r.s.f.Transform(id).Inputs(), func(a core.AxisID) bool { return slices.Contains(loop, a) }) {
			return nil, 0, r.s.refuse("replay", r.dst, "the loops of %s would end above its logical axes", r.s.name(r.dst))
		}
	}
	return loop, len(first), nil
}

// replaySibling copies the transforms of from index by index.
func (s *Scheduled) replaySibling(from, to core.ValID) ([]core.AxisID, error) {
	d := &s.f.Val(to).Domain
	source := s.f.Val(from).Domain.Root
	if len(source) != len(d.Root) {
		return nil, s.refuse("replay", to, "%s and %s have different axes", s.name(from), s.name(to))
	}
	image := map[core.AxisID]core.AxisID{}
	for k, a := range source {
		image[a] = d.Root[k]
	}
	for k, a := range s.f.Val(from).Domain.Logical {
		image[a] = d.Logical[k]
	}
	history := s.history(to)
	for _, id := range s.history(from) {
		t := *s.f.Transform(id)
		if _, ok := image[t.Out[0]]; ok {
			continue
		}
		in := [2]core.AxisID{core.NoAxis, core.NoAxis}
		for k, a := range (&t).Inputs() {
			in[k] = image[a]
		}
		at := slices.IndexFunc(history, func(id core.TransformID) bool {
			u := s.f.Transform(id)
			return u.In == in && sameKind(&t, u)
		})
		var u core.TransformID
		switch {
		case at >= 0:
			u = history[at]
		case t.Kind == core.Split:
			u = s.splitAxis(in[0], &t)
		case t.Kind == core.Shift:
			u = shiftAxis(s.f, in[0], &t, s.kind(in[0]))
		default:
			u = s.mergeAxes(in[0], in[1])
		}
		for k, a := range (&t).Results() {
			image[a] = s.f.Transform(u).Out[k]
		}
	}
	var loop []core.AxisID
	for _, a := range s.Loop(from) {
		loop = append(loop, image[a])
	}
	return loop, nil
}
