package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// InlineMost inlines tensors, or all if the list is nil, as far as their axes
// and each other allow, in best-effort mode. Those that are inlined already are
// inlined anew. uninlinable axes stop the tensors that have them.
func (s *Scheduled) InlineMost(tensors []core.ValID, uninlinable []core.AxisID) error {
	return s.inlineMost(tensors, uninlinable, true)
}

// InlineWithin is [Scheduled.InlineMost] for tensors, into loops that are written out too: of each of their iterations an element
// is computed and used before the next one is.
func (s *Scheduled) InlineWithin(tensors []core.ValID) error {
	return s.inlineMost(tensors, nil, false)
}

func (s *Scheduled) inlineMost(tensors []core.ValID, uninlinable []core.AxisID, bestEffort bool) error {
	order := s.consumersFirst(tensors)
	want := make([]int, len(order))
	for i, v := range order {
		s.setPosition(v, 0)
		want[i] = s.MaxPosition(v, bestEffort).Position
		for k, a := range s.Loop(v)[:want[i]] {
			if slices.Contains(uninlinable, a) {
				want[i] = k
				break
			}
		}
	}
	s.inlineRange(order, want)
	return nil
}

// consumersFirst returns those of tensors, nil for all, that are computed and
// read, each after its consumers and once for siblings.
func (s *Scheduled) consumersFirst(tensors []core.ValID) []core.ValID {
	var order []core.ValID
	all := s.Tensors()
	for i := len(all) - 1; i >= 0; i-- {
		v := all[i]
		if s.isInput(v) || tensors != nil && !slices.Contains(tensors, v) {
			continue
		}
		if !slices.ContainsFunc(s.siblings(v), func(w core.ValID) bool { return slices.Contains(order, w) }) {
			order = append(order, v)
		}
	}
	return order
}

func (s *Scheduled) setPosition(v core.ValID, position int) {
	for _, w := range s.siblings(v) {
		s.tensors[w].position = position
	}
}

// inlineRange sets the positions want, or smaller ones where they are not legal
// together. Tensors are halved until the culprits are found: a check costs time
// in proportion to the fusion, and few tensors need more than one.
func (s *Scheduled) inlineRange(order []core.ValID, want []int) {
	for i, v := range order {
		s.setPosition(v, want[i])
	}
	if len(order) == 0 || s.positionsLegal() {
		return
	}
	if len(order) == 1 {
		for n := want[0]; n > 0; n-- {
			s.setPosition(order[0], n-1)
			if s.positionsLegal() {
				return
			}
		}
		return
	}
	for _, v := range order {
		s.setPosition(v, 0)
	}
	half := len(order) / 2
	s.inlineRange(order[:half], want[:half])
	s.inlineRange(order[half:], want[half:])
}

func (s *Scheduled) positionsLegal() bool { return s.checkInlining() == nil }

// checkInlining returns why the present positions together have no loops, or why
// their loops would have two parallel types.
func (s *Scheduled) checkInlining() error {
	n, _, err := s.checkPositions()
	if err == nil {
		_, err = s.loopTypes(n.loops)
	}
	return err
}

// InlineAt computes v inside the first position of its loops together with its
// consumers; negative positions count from the end, -1 being all loops. If that
// is too far it is an error that names the axis and the rule, or, with
// bestEffort, as far as possible.
func (s *Scheduled) InlineAt(v core.ValID, position int, bestEffort bool) error {
	if err := s.checkTensor("inline_at", v); err != nil {
		return err
	}
	n := len(s.Loop(v))
	at := position
	if at < 0 {
		at += n + 1
	}
	if at < 0 || at > n {
		return core.InvalidArgumentf("inline_at(): position %d is out of range for %s, which has %d axes", position, s.name(v), n)
	}
	before := s.tensors[v].position
	limit := s.MaxPosition(v, bestEffort)
	if at > limit.Position {
		if !bestEffort {
			return core.InvalidArgumentf("inline_at(): position %d is too far for %s: %s", at, s.name(v), limit.Sentence)
		}
		at = limit.Position
	}
	s.setPosition(v, at)
	err := s.checkInlining()
	for bestEffort && err != nil && at > 0 {
		at--
		s.setPosition(v, at)
		err = s.checkInlining()
	}
	if err != nil {
		s.setPosition(v, before)
		return core.InvalidArgumentf("inline_at(): position %d is not possible for %s: %v", position, s.name(v), err)
	}
	return nil
}

// InlineAllAt inlines tensors, or all if the list is nil, at the positions that
// correspond to position of reference, which counts as in [Scheduled.InlineAt].
// On an error nothing is changed.
func (s *Scheduled) InlineAllAt(reference core.ValID, position int, bestEffort bool, tensors []core.ValID) error {
	n := len(s.Loop(reference))
	at := position
	if at < 0 {
		at += n + 1
	}
	if at < 0 || at > n {
		return core.InvalidArgumentf("inline_at(): position %d is out of range for %s, which has %d axes", position, s.name(reference), n)
	}
	positions := map[core.ValID]int{reference: at}
	for _, h := range s.spread(reference, nil) {
		if !h.edge.isResize(s) {
			positions[h.to] = s.positionAcross(h, positions[h.from])
		}
	}
	saved := slices.Clone(s.tensors)
	for _, v := range s.consumersFirst(tensors) {
		if positions[v] == 0 || len(s.consumers(v)) == 0 {
			continue
		}
		if err := s.InlineAt(v, positions[v], bestEffort); err != nil {
			s.tensors = saved
			return err
		}
	}
	return nil
}

// positionAcross returns the position of h.to that corresponds to one of h.from:
// right of the counterpart of the last axis left of it that has one.
func (s *Scheduled) positionAcross(h hop, position int) int {
	if h.edge == nil { // siblings
		return position
	}
	r := s.relationOf(h.edge)
	for k := position; k > 0; k-- {
		for j, b := range s.Loop(h.to) {
			if r.maps(s.Loop(h.from)[k-1], b) {
				return j + 1
			}
		}
	}
	return 0
}

// isResize reports whether the op of e changes extents by a resize.
func (e *edge) isResize(s *Scheduled) bool {
	return e != nil && s.f.Expr(e.expr).Op.Class == core.Resize
}
