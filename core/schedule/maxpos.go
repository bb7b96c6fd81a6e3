package schedule

import (
	"fmt"
	"math/bits"
	"slices"

	"nvfuser_go/core"
)

// A Limit says how far a tensor can be inlined and what stops it there.
type Limit struct {
	Position int
	Rule     string // a word, such as "reduction"; "" if all axes are inlined
	Sentence string
}

// MaxPosition returns how many of the leftmost loops of v it can share with all
// its consumers, as far as v and they tell; the positions of other tensors may
// allow less. In best-effort mode unrolled loops are not shared, so that the
// loads in them overlap.
func (s *Scheduled) MaxPosition(v core.ValID, bestEffort bool) Limit {
	limit := s.ownLimit(v, bestEffort)
	for _, w := range s.siblings(v) {
		if w != v {
			limit = limit.atMost(s.ownLimit(w, bestEffort))
		}
		for _, e := range s.consumers(w) {
			limit = limit.atMost(s.limitToward(e, bestEffort))
		}
	}
	if limit.Position > 0 && !slices.ContainsFunc(s.siblings(v), func(w core.ValID) bool { return len(s.consumers(w)) > 0 }) {
		return Limit{0, "no consumer", s.name(v) + " is read by nothing that it could be computed in"}
	}
	return limit
}

func (l Limit) atMost(m Limit) Limit {
	if m.Position < l.Position {
		return m
	}
	return l
}

// ownLimit is what the axes of v themselves allow.
func (s *Scheduled) ownLimit(v core.ValID, bestEffort bool) Limit {
	if s.isInput(v) {
		return Limit{0, "input", s.name(v) + " is an input of the fusion and is not computed"}
	}
	unmappable := s.unmappable()
	for k, a := range s.Loop(v) {
		p := s.Parallel(a)
		switch {
		case s.kind(a) == core.Reduce:
			return Limit{k, "reduction", s.axisText(v, k) + " is reduced: its result is complete only after the loop"}
		case p.IsWhole():
			return Limit{k, "parallel type", fmt.Sprintf("%s is %v: no other statement can be among its iterations", s.axisText(v, k), p)}
		case bestEffort && p == Unroll:
			return Limit{k, "unroll", s.axisText(v, k) + " is unrolled, and its iterations are kept together"}
		case s.stemsFrom(a, unmappable):
			return Limit{k, "persistent", s.axisText(v, k) + " is needed completely by a consumer before another consumer can read its first element"}
		}
	}
	return Limit{Position: len(s.Loop(v))}
}

// limitToward is what consumer e.consumer allows its producer. The axes must
// correspond from the left without gaps; a broadcast axis that only the consumer
// has is passed over.
func (s *Scheduled) limitToward(e *edge, bestEffort bool) Limit {
	r, p, c := s.relationOf(e), s.Loop(e.producer), s.Loop(e.consumer)
	j := 0
	for k, a := range p {
		if s.kind(a) == core.Reduce {
			return Limit{k, "reduction", s.axisText(e.producer, k) + " is reduced: its result is complete only after the loop"}
		}
		for j < len(c) && r.isUnmatched(c[j]) && !r.maps(a, c[j]) {
			j++
		}
		if j == len(c) {
			return Limit{k, "no counterpart", fmt.Sprintf("%s has no counterpart in its consumer %s", s.axisText(e.producer, k), s.name(e.consumer))}
		}
		if !r.maps(a, c[j]) {
			return Limit{k, "no counterpart", fmt.Sprintf("%s does not correspond to %s, its consumer: they are made by different transforms or are not at the same place", s.axisText(e.producer, k), s.axisText(e.consumer, j))}
		}
		if q := s.Parallel(c[j]); q.IsWhole() || bestEffort && q == Unroll {
			return Limit{k, "parallel type", fmt.Sprintf("%s, which reads %s, is %v: its iterations are kept together", s.axisText(e.consumer, j), s.name(e.producer), q)}
		}
		j++
	}
	return Limit{Position: len(p)}
}

// stemsFrom reports whether a is one of axes or made from one.
func (s *Scheduled) stemsFrom(a core.AxisID, axes map[core.AxisID]bool) bool {
	if axes[a] {
		return true
	}
	d := s.f.Axis(a).Def
	return d != core.NoTransform && slices.ContainsFunc(s.f.Transform(d).Inputs(), func(in core.AxisID) bool { return s.stemsFrom(in, axes) })
}

// unmappable returns the axes along which a tensor must be kept completely: a
// loop may not hold both a reduction, or another op that needs the whole axis,
// and what depends on its result. Classes of corresponding axes are built edge
// by edge, consumers first; a union that would break the rule is refused, and
// its producer's axis is unmappable.
func (s *Scheduled) unmappable() map[core.AxisID]bool {
	g := s.analysis()
	if g.unmappable == nil {
		g.unmappable = s.findUnmappable(g)
	}
	return g.unmappable
}

// An axisGroup is what is known of a class: the tensors that have an axis in it
// and those that reduce one.
type axisGroup struct{ tensors, reducing bitset }

func (s *Scheduled) findUnmappable(g *graph) map[core.AxisID]bool {
	after := make([]bitset, len(g.tensors)) // descendants
	for i := len(g.tensors) - 1; i >= 0; i-- {
		after[i] = newBitset(len(g.tensors))
		for _, e := range g.out[g.tensors[i]] {
			n := g.number[e.consumer]
			after[i].set(n)
			after[i].or(after[n])
		}
	}
	var sets disjoint
	sets.grow(s.f.NumAxes())
	groups := map[core.AxisID]axisGroup{}
	for i, v := range g.tensors {
		d := &s.f.Val(v).Domain
		for _, a := range slices.Concat(d.Root, d.Logical) {
			x := axisGroup{newBitset(len(g.tensors)), newBitset(len(g.tensors))}
			x.tensors.set(i)
			if s.kind(a) == core.Reduce {
				x.reducing.set(i)
			}
			groups[a] = x
		}
	}
	bad := map[core.AxisID]bool{}
	for i := len(g.tensors) - 1; i >= 0; i-- {
		for _, e := range g.in[g.tensors[i]] {
			for _, p := range e.pairs {
				switch a, b := sets.find(p.producer), sets.find(p.consumer); {
				case p.whole:
					bad[p.consumer] = true
				case a != b && conflicts(groups[a], groups[b], after):
					bad[p.producer] = true
				case a != b:
					kept, gone := sets.unite(a, b)
					groups[kept].tensors.or(groups[gone].tensors)
					groups[kept].reducing.or(groups[gone].reducing)
					delete(groups, gone)
				}
			}
		}
	}
	return bad
}

// conflicts reports whether some tensor that reduces an axis of either group has
// a descendant in either.
func conflicts(a, b axisGroup, after []bitset) bool {
	for _, x := range []axisGroup{a, b} {
		for i := range x.reducing.each {
			if after[i].intersects(a.tensors) || after[i].intersects(b.tensors) {
				return true
			}
		}
	}
	return false
}

type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bitset) or(c bitset) {
	for i := range b {
		b[i] |= c[i]
	}
}

func (b bitset) intersects(c bitset) bool {
	for i := range b {
		if b[i]&c[i] != 0 {
			return true
		}
	}
	return false
}

// each yields the members, ascending.
func (b bitset) each(yield func(int) bool) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			if !yield(i*64 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}
