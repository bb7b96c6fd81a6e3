package schedule

import (
	"errors"
	"slices"

	"nvfuser_go/core"
)

// TransformLike gives tensors, or all if the list is nil, the loop domain of
// reference, along the maximum spanning tree. Where a tensor cannot follow,
// neither can what lies behind it: those keep their loops, and the refusals say
// why.
func (s *Scheduled) TransformLike(reference core.ValID, tensors []core.ValID) ([]core.Refusal, error) {
	if err := s.checkTensor("transform_like", reference); err != nil {
		return nil, err
	}
	chosen := func(h hop) bool { return tensors == nil || slices.Contains(tensors, h.to) }
	return s.follow(s.spread(reference, chosen), len(s.Loop(reference)), reference), nil
}

// TransformBackward gives the producers of from as far as the tensors of to the
// first position loops of from; position may be negative, -1 being all.
func (s *Scheduled) TransformBackward(from core.ValID, position int, to []core.ValID) ([]core.Refusal, error) {
	const call = "bounded_transform_backward"
	if err := s.checkTensor(call, from); err != nil {
		return nil, err
	}
	n := len(s.Loop(from))
	at := position
	if at < 0 {
		at += n + 1
	}
	if at < 0 || at > n {
		return nil, core.InvalidArgumentf("%s(): position %d is out of range for %s, which has %d axes", call, position, s.name(from), n)
	}
	between := s.between(to, from)
	for _, v := range to {
		if !between[v] {
			return nil, core.InvalidArgumentf("%s(): %s is not computed from %s", call, s.name(from), s.name(v))
		}
	}
	chosen := func(h hop) bool { return !h.down && between[h.to] }
	return s.follow(s.spread(from, chosen), at, from), nil
}

// between returns the tensors on the ways from first to last, both included.
func (s *Scheduled) between(first []core.ValID, last core.ValID) map[core.ValID]bool {
	below, found := map[core.ValID]bool{}, map[core.ValID]bool{}
	for _, v := range first {
		below[v] = true
	}
	for _, v := range s.Tensors() {
		for _, e := range s.producers(v) {
			below[v] = below[v] || below[e.producer]
		}
	}
	needed := map[core.ValID]bool{last: true}
	all := s.Tensors()
	for i := len(all) - 1; i >= 0; i-- {
		v := all[i]
		for _, e := range s.consumers(v) {
			needed[v] = needed[v] || needed[e.consumer]
		}
		found[v] = needed[v] && below[v]
	}
	return found
}

// follow replays along path. n is how many loops of the first tensor are
// followed; tensors behind it follow those that they get.
func (s *Scheduled) follow(path []hop, n int, reference core.ValID) []core.Refusal {
	var refusals []core.Refusal
	failed := map[core.ValID]bool{}
	leading := map[core.ValID]int{reference: n}
	for _, h := range path {
		if failed[h.from] {
			failed[h.to] = true
			continue
		}
		loop, first, err := s.replayAlong(h, leading[h.from])
		if err == nil && s.tensors[h.to].position > 0 && !slices.Equal(loop, s.Loop(h.to)) {
			err = s.refuse("replay", h.to, "%s is inlined already; transform before inlining", s.name(h.to))
		}
		if err != nil {
			failed[h.to] = true
			var r *Refused
			if errors.As(err, &r) {
				refusals = append(refusals, r.Refusal)
			}
			continue
		}
		leading[h.to] = len(loop)
		if n < len(s.Loop(reference)) {
			leading[h.to] = first
		}
		if !slices.Equal(loop, s.Loop(h.to)) {
			s.setLoop(h.to, loop)
			s.moved(h.to)
		}
	}
	return refusals
}

// ParallelizeLike gives the loop axes of tensors, nil for all, the parallel types
// of the corresponding ones among the first position loops of reference; those
// that are parallel already keep theirs. types, if not empty, limits which are
// copied; position may be negative, -1 being all. On an error nothing is changed.
func (s *Scheduled) ParallelizeLike(reference core.ValID, position int, tensors []core.ValID, types []Parallel) error {
	if err := s.checkTensor("parallelize_like", reference); err != nil {
		return err
	}
	n := len(s.Loop(reference))
	at := position
	if at < 0 {
		at += n + 1
	}
	if at < 0 || at > n {
		return core.InvalidArgumentf("parallelize_like(): position %d is out of range for %s, which has %d axes", position, s.name(reference), n)
	}
	like := map[core.AxisID]core.AxisID{} // loop axis -> that of reference
	for _, a := range s.Loop(reference)[:at] {
		like[a] = a
	}
	saved := slices.Clone(s.parallel)
	for _, h := range s.spread(reference, nil) {
		for k, b := range s.Loop(h.to) {
			if a := s.counterpart(h, k, b, like); isAxis(a) {
				like[b] = like[a]
			}
		}
		if tensors == nil || slices.Contains(tensors, h.to) {
			if err := s.copyParallel(h.to, like, types); err != nil {
				s.parallel = saved
				return err
			}
		}
	}
	if err := s.checkLoopTypes("parallelize_like"); err != nil {
		s.parallel = saved
		return err
	}
	return nil
}

// counterpart returns the loop axis of h.from, of those that have a counterpart
// in the reference, that corresponds to loop axis k, b, of h.to.
func (s *Scheduled) counterpart(h hop, k int, b core.AxisID, like map[core.AxisID]core.AxisID) core.AxisID {
	for i, a := range s.Loop(h.from) {
		if _, ok := like[a]; !ok {
			continue
		}
		if h.edge == nil && i == k || h.edge != nil && s.relationOf(h.edge).maps(a, b) {
			return a
		}
	}
	return core.NoAxis
}

func (s *Scheduled) copyParallel(v core.ValID, like map[core.AxisID]core.AxisID, types []Parallel) error {
	for k, b := range s.Loop(v) {
		a, ok := like[b]
		p := s.Parallel(a)
		if !ok || p == Serial || s.Parallel(b) != Serial || len(types) > 0 && !slices.Contains(types, p) {
			continue
		}
		if err := s.parallelize(v, k, b, p); err != nil {
			return err
		}
	}
	return nil
}
