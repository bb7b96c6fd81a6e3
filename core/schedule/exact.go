package schedule

import (
	"fmt"

	"nvfuser_go/core"
)

// A Refused is an error that says which rule a schedule, or a fusion, breaks.
type Refused struct{ core.Refusal }

func (r *Refused) Error() string { return r.Sentence }

func (s *Scheduled) refuse(rule string, v core.ValID, format string, args ...any) error {
	return &Refused{core.Refusal{By: "schedule", Rule: rule, Tensor: s.name(v), Sentence: fmt.Sprintf(format, args...)}}
}

// exactClasses returns the partition of the axes of s by equal extent and equal
// index. A broadcast is never with an axis that is none.
//
// If two axes of one tensor came together, as in x + permute(x) with x square,
// loops could not tell them apart (see also checkIndependence); nor may the
// input of a resize to extent 1 and what that broadcast meets. The uses of an input need nothing in common,
// for an input has no loops: they are then left apart, and only an intermediate
// tensor that is used in two such ways is refused.
func (s *Scheduled) exactClasses(f *core.Fusion) (exact *classes, throughInputs bool, err error) {
	for _, throughInputs = range []bool{true, false} {
		exact = s.buildExact(f, throughInputs)
		if err = s.checkSelfMapping(exact); err == nil {
			err = s.checkIndependence(exact)
		}
		if err == nil {
			break
		}
	}
	return exact, throughInputs, err
}

func (s *Scheduled) buildExact(f *core.Fusion, throughInputs bool) *classes {
	exact := newClasses(f, s.reshapes(), nil)
	for _, id := range s.transforms() {
		exact.add(id)
	}
	s.joinExact(exact, throughInputs)
	return exact
}

// joinExact unites what corresponds along edges and between the results of one
// expression.
func (s *Scheduled) joinExact(c *classes, throughInputs bool) {
	for _, e := range s.analysis().edges {
		if !throughInputs && s.isInput(e.producer) {
			continue
		}
		for _, p := range e.pairs {
			if s.isBroadcast(p.producer) == s.isBroadcast(p.consumer) {
				c.join(p.producer, p.consumer)
			}
		}
	}
	for _, id := range s.analysis().order {
		out := s.f.Expr(id).Out
		first := s.f.Val(out[0]).Domain.Root
		for _, v := range out[1:] {
			for k, a := range s.f.Val(v).Domain.Root {
				if k < len(first) && s.isBroadcast(a) == s.isBroadcast(first[k]) && s.extent(a) == s.extent(first[k]) {
					c.join(first[k], a)
				}
			}
		}
	}
}

// transforms returns those of all tensors, ascending.
func (s *Scheduled) transforms() []core.TransformID {
	used := make([]bool, s.f.NumTransforms())
	for _, v := range s.Tensors() {
		for _, id := range s.history(v) {
			used[id] = true
		}
	}
	var list []core.TransformID
	for id, u := range used {
		if u {
			list = append(list, core.TransformID(id))
		}
	}
	return list
}

// reshapes returns the transforms of operations, and those of loops that undo such.
func (s *Scheduled) reshapes() map[core.TransformID]bool {
	of := map[core.TransformID]bool{}
	for _, v := range s.Tensors() {
		for _, id := range s.f.TransformsTo(s.f.Val(v).Domain.Logical) {
			of[id] = true
		}
	}
	for id := range s.undone {
		of[id] = true
	}
	return of
}

func (s *Scheduled) checkSelfMapping(exact *classes) error {
	meets := s.meetings(exact)
	for _, v := range s.Tensors() {
		for _, id := range s.history(v) {
			t := s.f.Transform(id)
			if t.Kind == core.ResizeAxis && !s.unchanged(t) && meets[[2]core.AxisID{exact.find(t.Out[0]), exact.find(t.In[0])}] {
				return s.refuse("self-mapping", v, "%s is one element of an axis and meets that axis, so that one loop would need two indices: compute it in a kernel of its own, or twice", s.name(v))
			}
		}
		for _, domain := range [][]core.AxisID{s.f.Val(v).Domain.Root, s.f.Val(v).Domain.Logical, s.Loop(v)} {
			seen := map[core.AxisID]bool{}
			for _, a := range domain {
				if seen[exact.find(a)] {
					return s.refuse("self-mapping", v, "two axes of %s always have the same index as far as the operations say, as in x + permute(x, [1, 0]), so that loops cannot tell them apart: compute it in a kernel of its own, or twice", s.name(v))
				}
				seen[exact.find(a)] = true
			}
		}
	}
	return nil
}

// meetings returns the pairs of exact classes of a broadcast and of a real axis
// that it meets in some consumer.
func (s *Scheduled) meetings(exact *classes) map[[2]core.AxisID]bool {
	meets := map[[2]core.AxisID]bool{}
	for _, e := range s.analysis().edges {
		for _, p := range e.pairs {
			if s.isBroadcast(p.producer) && !s.isBroadcast(p.consumer) {
				meets[[2]core.AxisID{exact.find(p.producer), exact.find(p.consumer)}] = true
			}
		}
	}
	return meets
}

// unchanged reports whether resize t adds and removes nothing.
func (s *Scheduled) unchanged(t *core.Transform) bool {
	zero := s.f.Scalars().Int(0)
	return t.Left == zero && t.Right == zero
}

// almostExact returns the partition that index expressions are found in: exact,
// and axes that differ by something of extent 1. The transforms of replays take
// part, so it is built last. A split is not looked through if its output of
// extent 1 is split again: the points without an element that the later split
// makes would be on no path. By congruence that output may come together with
// others of extent 1, whose splits then must not be looked through either.
func (s *Scheduled) almostExact(f *core.Fusion, exact *classes, transforms []core.TransformID, throughInputs bool) *classes {
	again := splitAgain(f, exact, transforms)
	for {
		leadingTo(again, f, exact, transforms)
		almost := newClasses(f, exact.reshapes, newApartness(s, f, exact))
		s.joinExact(almost, throughInputs)
		for _, id := range transforms {
			almost.add(id)
		}
		for _, id := range transforms {
			joinThroughOnes(f, almost, exact, f.Transform(id), again)
		}
		if !spreadAgain(f, almost, exact, again) {
			return almost
		}
	}
}

// spreadAgain marks the exact classes of extent 1 that are almost-exact equal to
// a marked one, and reports whether there was one to mark.
func spreadAgain(f *core.Fusion, almost, exact *classes, again map[core.AxisID]bool) bool {
	marked := map[core.AxisID]bool{}
	for a := range f.NumAxes() {
		if again[exact.find(core.AxisID(a))] {
			marked[almost.find(core.AxisID(a))] = true
		}
	}
	changed := false
	for i := range f.NumAxes() {
		a := core.AxisID(i)
		if f.Axis(a).Extent == f.Scalars().Int(1) && marked[almost.find(a)] && !again[exact.find(a)] {
			again[exact.find(a)], changed = true, true
		}
	}
	return changed
}

// splitAgain marks the exact classes that are split by more than 1.
func splitAgain(f *core.Fusion, exact *classes, transforms []core.TransformID) map[core.AxisID]bool {
	one := f.Scalars().Int(1)
	again := map[core.AxisID]bool{}
	for _, id := range transforms {
		if t := f.Transform(id); t.Kind == core.Split && t.Factor != one && f.Axis(t.In[0]).Kind != core.Broadcast {
			again[exact.find(t.In[0])] = true
		}
	}
	return again
}

// leadingTo marks the exact classes of extent 1 from which a marked one is made.
func leadingTo(again map[core.AxisID]bool, f *core.Fusion, exact *classes, transforms []core.TransformID) {
	one := f.Scalars().Int(1)
	for changed := true; changed; {
		changed = false
		for i := len(transforms) - 1; i >= 0; i-- {
			t := f.Transform(transforms[i])
			if !again[exact.find(t.Out[0])] && (t.Out[1] == core.NoAxis || !again[exact.find(t.Out[1])]) {
				continue
			}
			for _, a := range t.Inputs() {
				if r := exact.find(a); f.Axis(a).Extent == one && !again[r] {
					again[r], changed = true, true
				}
			}
		}
	}
}

// joinThroughOnes unites the ends of t that differ by an extent of 1.
func joinThroughOnes(f *core.Fusion, almost, exact *classes, t *core.Transform, again map[core.AxisID]bool) {
	one, zero := f.Scalars().Int(1), f.Scalars().Int(0)
	isOne := func(a core.AxisID) bool { return f.Axis(a).Extent == one }
	switch t.Kind {
	case core.Merge:
		a, b := t.In[0], t.In[1]
		switch {
		// Of two of extent 1 it is the one that is no broadcast.
		case isOne(b) && !(isOne(a) && f.Axis(a).Kind == core.Broadcast && f.Axis(b).Kind != core.Broadcast):
			almost.join(t.Out[0], a)
		case isOne(a):
			almost.join(t.Out[0], b)
		}
	case core.Split:
		for _, o := range t.Results() {
			if isOne(o) && again[exact.find(o)] {
				return
			}
		}
		byFactor, rest := t.Out[1], t.Out[0]
		if !t.Inner {
			byFactor, rest = rest, byFactor
		}
		switch {
		case t.Factor == one && !t.Whole:
			almost.join(t.In[0], rest)
		case t.Factor == f.Axis(t.In[0]).Extent:
			almost.join(t.In[0], byFactor)
		}
	case core.ResizeAxis:
		if t.Left == zero && t.Right == zero {
			almost.join(t.In[0], t.Out[0])
		}
	case core.Shift:
		if f.Axis(t.In[0]).Kind == core.Broadcast {
			almost.join(t.In[0], t.Out[0])
		}
	}
}
