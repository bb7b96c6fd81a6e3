package schedule

import (
	"cmp"
	"container/heap"
	"slices"

	"nvfuser_go/core"
)

// A hop leads from a tensor to a neighbour: along an edge, down if to is its
// consumer, or to a sibling if edge is nil.
type hop struct {
	from, to core.ValID
	edge     *edge
	down     bool
}

// A surviving is what is left, at some tensor, of one logical axis of the
// reference: the logical axes that it corresponds to or is spread over.
type surviving struct {
	axes     []core.AxisID
	complete bool // nothing was lost on the way
}

// spread returns the maximum spanning tree of the tensors around reference, in
// the order in which it grows: the weight of an edge is how many of reference's
// axes survive it, then how many completely. The way matters: with s = sum(x, j),
// y = x + broadcast(s) and reference y, s is reached through x, which has j, and
// not through the broadcast, which has lost it. Where chosen is given it limits
// the tensors; siblings of one selected are always reached. Inputs have no
// loops and are left out.
func (s *Scheduled) spread(reference core.ValID, chosen func(hop) bool) []hop {
	var path []hop
	done := map[core.ValID]bool{reference: true}
	var info []surviving
	for _, a := range s.f.Val(reference).Domain.Logical {
		info = append(info, surviving{[]core.AxisID{a}, true})
	}
	q := &hopQueue{}
	q.pushAll(s.hops(reference, info), done, chosen)
	for len(q.items) > 0 {
		h := heap.Pop(q).(queuedHop)
		if done[h.to] {
			continue
		}
		done[h.to] = true
		path = append(path, h.hop)
		q.pushAll(s.hops(h.to, h.info), done, chosen)
	}
	return path
}

type queuedHop struct {
	hop
	info             []surviving
	there, unchanged int // axes that survive, and that do completely
	number           int
}

// A hopQueue gives the heaviest hop first, of equal ones the first that was
// pushed.
type hopQueue struct {
	items  []queuedHop
	pushed int
}

func (q *hopQueue) pushAll(hops []queuedHop, done map[core.ValID]bool, chosen func(hop) bool) {
	for _, h := range hops {
		if done[h.to] || h.edge != nil && chosen != nil && !chosen(h.hop) {
			continue
		}
		for _, x := range h.info {
			if len(x.axes) > 0 {
				h.there++
				if x.complete {
					h.unchanged++
				}
			}
		}
		h.number = q.pushed
		q.pushed++
		heap.Push(q, h)
	}
}

func (q *hopQueue) Len() int { return len(q.items) }

func (q *hopQueue) Less(i, j int) bool {
	a, b := &q.items[i], &q.items[j]
	return cmp.Or(cmp.Compare(b.there, a.there), cmp.Compare(b.unchanged, a.unchanged), cmp.Compare(a.number, b.number)) < 0
}

func (q *hopQueue) Swap(i, j int) { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *hopQueue) Push(x any)    { q.items = append(q.items, x.(queuedHop)) }

func (q *hopQueue) Pop() any {
	last := q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	return last
}

// hops returns the neighbours of v and what survives there of info, which is on
// the logical axes of v.
func (s *Scheduled) hops(v core.ValID, info []surviving) []queuedHop {
	var out []queuedHop
	for _, e := range s.producers(v) {
		if s.isInput(e.producer) {
			continue
		}
		at := s.throughHistory(v, info, false)
		out = append(out, queuedHop{hop: hop{v, e.producer, e, false}, info: across(at, e.pairs, false)})
	}
	for _, e := range s.consumers(v) {
		at := across(info, e.pairs, true)
		out = append(out, queuedHop{hop: hop{v, e.consumer, e, true}, info: s.throughHistory(e.consumer, at, true)})
	}
	for _, w := range s.siblings(v) {
		if w != v && s.analysis().number[w] >= 0 {
			out = append(out, queuedHop{hop: hop{v, w, nil, false}, info: s.toSibling(v, w, info)})
		}
	}
	return out
}

// across maps info over pairs, down from producer to consumer or up.
func across(info []surviving, pairs []axisPair, down bool) []surviving {
	to := make(map[core.AxisID]core.AxisID, len(pairs))
	for _, p := range pairs {
		if down {
			to[p.producer] = p.consumer
		} else {
			to[p.consumer] = p.producer
		}
	}
	out := make([]surviving, len(info))
	for i, x := range info {
		out[i].complete = x.complete
		for _, a := range x.axes {
			if b, ok := to[a]; ok {
				out[i].axes = append(out[i].axes, b)
			} else {
				out[i].complete = false
			}
		}
	}
	return out
}

// throughHistory takes info from the root axes of v to its logical axes (down)
// or back: an axis becomes all those that a transform makes of it.
func (s *Scheduled) throughHistory(v core.ValID, info []surviving, down bool) []surviving {
	d := &s.f.Val(v).Domain
	target, steps := d.Root, s.f.TransformsTo(d.Logical)
	if down {
		target = d.Logical
	} else {
		slices.Reverse(steps)
	}
	out := make([]surviving, len(info))
	for i, x := range info {
		reached := slices.Clone(x.axes)
		for _, id := range steps {
			t := s.f.Transform(id)
			from, to := t.Results(), t.Inputs()
			if down {
				from, to = to, from
			}
			if slices.ContainsFunc(from, func(a core.AxisID) bool { return slices.Contains(reached, a) }) {
				reached = append(reached, to...)
			}
		}
		out[i].complete = x.complete
		for _, a := range target {
			if slices.Contains(reached, a) {
				out[i].axes = append(out[i].axes, a)
			}
		}
	}
	return out
}

func (s *Scheduled) toSibling(v, w core.ValID, info []surviving) []surviving {
	from, to := s.f.Val(v).Domain.Logical, s.f.Val(w).Domain.Logical
	out := make([]surviving, len(info))
	for i, x := range info {
		out[i].complete = x.complete
		for _, a := range x.axes {
			if k := slices.Index(from, a); k < len(to) {
				out[i].axes = append(out[i].axes, to[k])
			}
		}
	}
	return out
}
