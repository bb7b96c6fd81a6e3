package segmenter

import (
	"container/heap"
	"slices"

	"nvfuser_go/core"
)

// maxSearch bounds the segments that are looked at to find that one may write in place.
const maxSearch = 1024

// An arrangement is parts and the order between them.
type arrangement struct {
	*cutter
	parts   []verified
	of      []int32   // by node: its part
	next    [][]int32 // by part: those that run after it
	inPlace map[core.ValID]core.ValID
}

// arrange puts parts in an order to run and makes segments of them.
func (c *cutter) arrange(parts []verified) error {
	a := &arrangement{cutter: c, parts: parts, of: make([]int32, len(c.g.nodes)), next: make([][]int32, len(parts)), inPlace: map[core.ValID]core.ValID{}}
	for i := range parts {
		for _, n := range parts[i].nodes {
			a.of[n] = int32(i)
		}
	}
	readers := map[core.ValID][]int32{} // of inputs that are written to
	for _, o := range c.program.Fusion.Outputs() {
		if o.Alias != core.NoVal {
			readers[o.Alias] = nil
		}
	}
	for i := range parts {
		for _, n := range parts[i].nodes {
			for _, v := range c.g.nodes[n].reads {
				if at := c.g.values[v].node; at != none && a.of[at] != int32(i) {
					a.next[a.of[at]] = append(a.next[a.of[at]], int32(i))
				}
				base := a.g.memoryOf(v)
				if list, ok := readers[base]; ok {
					readers[base] = append(list, int32(i))
				}
			}
		}
	}
	a.aliases(readers)
	for _, i := range a.postponed(a.order()) {
		if err := a.emit(i); err != nil {
			return err
		}
	}
	a.findEmpty()
	return nil
}

// aliases decides which outputs are written in place: those of which the segment can
// run after all that read what was there.
func (a *arrangement) aliases(readers map[core.ValID][]int32) {
	p := a.program
	for _, o := range p.Fusion.Outputs() {
		out := Output{Output: o}
		_, twice := a.inPlace[o.Val]
		if at := a.g.values[o.Val].node; o.Alias != core.NoVal && at != none && !twice && a.parts[a.of[at]].scheduler != "" {
			writer := a.of[at]
			out.InPlace = !a.reaches(writer, readers[o.Alias]) && !a.seesOtherwise(writer, o.Alias)
			if out.InPlace {
				a.inPlace[o.Val] = o.Alias
				for _, r := range readers[o.Alias] {
					if r != writer {
						a.next[r] = append(a.next[r], writer)
					}
				}
			}
		}
		p.Outputs = append(p.Outputs, out)
	}
}

// seesOtherwise reports whether part i reads a view of v: lowering does not know that what is
// written to v changes that.
func (a *arrangement) seesOtherwise(i int32, v core.ValID) bool {
	return slices.ContainsFunc(a.parts[i].nodes, func(n int32) bool {
		return slices.ContainsFunc(a.g.nodes[n].reads, func(u core.ValID) bool { return u != v && a.g.memoryOf(u) == v })
	})
}

// reaches reports whether one of parts, other than from, runs after from, or so many
// parts do that they are not looked at.
func (a *arrangement) reaches(from int32, parts []int32) bool {
	if !slices.ContainsFunc(parts, func(i int32) bool { return i != from }) {
		return false
	}
	sought := map[int32]bool{}
	for _, i := range parts {
		sought[i] = true
	}
	seen, stack := map[int32]bool{from: true}, []int32{from}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, k := range a.next[i] {
			if a.program.Work.Visits++; seen[k] {
				continue
			}
			if seen[k] = true; len(seen) > maxSearch || sought[k] {
				return true
			}
			stack = append(stack, k)
		}
	}
	return false
}

// order returns the parts, each after those that must run before; of those that may be
// next the one that the outputs need first, which keeps few tensors in memory.
func (a *arrangement) order() []int32 {
	before := make([]int, len(a.parts))
	for i := range a.next {
		slices.Sort(a.next[i])
		a.next[i] = slices.Compact(a.next[i])
		for _, k := range a.next[i] {
			before[k]++
		}
	}
	ready := &firstNodes{a: a}
	for i := range a.parts {
		if before[i] == 0 {
			heap.Push(ready, int32(i))
		}
	}
	var order []int32
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int32)
		order = append(order, i)
		for _, k := range a.next[i] {
			if before[k]--; before[k] == 0 {
				heap.Push(ready, k)
			}
		}
	}
	if len(order) != len(a.parts) {
		panic("segmenter: the segments have a cycle")
	}
	return order
}

// postponed returns the parts of order with those that take more memory than they read from
// others right before what needs their results: what is there between is less for each. Views,
// which take none, are postponed too.
func (a *arrangement) postponed(order []int32) []int32 {
	needs := make([][]int32, len(a.parts)) // by part: those that run before it, in order
	for _, i := range order {
		for _, k := range a.next[i] {
			needs[k] = append(needs[k], i)
		}
	}
	done, after := make([]bool, len(a.parts)), make([]int32, 0, len(order))
	var run func(i int32)
	run = func(i int32) {
		done[i] = true
		for _, k := range needs[i] {
			if !done[k] {
				run(k)
			}
		}
		after = append(after, i)
	}
	for _, i := range order {
		if !done[i] && (len(a.next[i]) == 0 || !a.mayWait(i)) {
			run(i)
		}
	}
	return after
}

// mayWait reports whether part i takes more memory than what it reads of other parts.
func (a *arrangement) mayWait(i int32) bool {
	taken := 0.0
	for _, n := range a.parts[i].nodes {
		x := &a.g.nodes[n]
		if x.kind == View {
			return true
		}
		for _, v := range a.g.f.Expr(x.expr).Out {
			u := &a.g.values[v]
			if _, isInPlace := a.inPlace[v]; !isInPlace && (u.output || u.readers > u.inside) {
				taken += u.bytes
			}
		}
		for _, v := range x.reads {
			base := a.g.memoryOf(v)
			if at := a.g.values[base].node; at != none && a.of[at] != i {
				taken -= a.g.values[base].bytes
			}
		}
	}
	return taken > 0
}

// firstNodes is a heap of parts by their first node.
type firstNodes struct {
	a    *arrangement
	list []int32
}

func (h *firstNodes) Len() int { return len(h.list) }
func (h *firstNodes) Less(i, k int) bool {
	return h.a.parts[h.list[i]].nodes[0] < h.a.parts[h.list[k]].nodes[0]
}
func (h *firstNodes) Swap(i, k int) { h.list[i], h.list[k] = h.list[k], h.list[i] }
func (h *firstNodes) Push(x any)    { h.list = append(h.list, x.(int32)) }
func (h *firstNodes) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// emit appends the segment of part i.
func (a *arrangement) emit(i int32) error {
	v := a.parts[i]
	x, asked, err := v.part, v.asked, error(nil)
	isInPlace := a.writesInPlace(v.nodes)
	if x == nil || isInPlace {
		asked = nil
		if x, err = a.g.extract(v.nodes, a.inPlace); err != nil {
			return err
		}
		a.program.Work.Extracted += len(x.exprs)
	}
	n := &a.g.nodes[v.nodes[0]]
	if n.kind == Kernel && asked == nil {
		if asked, err = a.judge.segment(a.g, x); err != nil { // which makes it concrete
			return err
		}
	}
	question := x.key()
	if isInPlace {
		if question, err = a.question(v.nodes); err != nil {
			return err
		}
	}
	a.program.Segments = append(a.program.Segments, &Segment{Kind: n.kind, Scheduler: v.scheduler, Fusion: x.fusion, Inputs: x.inputs,
		Writes: x.writes, Exprs: x.exprs, Draw: x.draw, Refusals: v.refusals, Key: x.key(), Question: question, Asked: asked})
	return nil
}

// writesInPlace reports whether one of nodes computes an output in the memory of an input.
func (a *arrangement) writesInPlace(nodes []int32) bool {
	return slices.ContainsFunc(nodes, func(i int32) bool {
		return slices.ContainsFunc(a.g.f.Expr(a.g.nodes[i].expr).Out, func(v core.ValID) bool {
			_, ok := a.inPlace[v]
			return ok
		})
	})
}

// question returns the key that nodes have without aliases.
func (a *arrangement) question(nodes []int32) (string, error) {
	x, err := a.g.extract(nodes, nil)
	if err != nil {
		return "", err
	}
	a.program.Work.Extracted += len(x.exprs)
	_, err = a.judge.segment(a.g, x)
	return x.key(), err
}

// findEmpty lists the tensors without elements that are read.
func (a *arrangement) findEmpty() {
	p := a.program
	seen := map[core.ValID]bool{}
	add := func(v core.ValID) {
		if v != core.NoVal && a.g.values[v].empty && !seen[v] {
			seen[v] = true
			p.Empty = append(p.Empty, v)
		}
	}
	for _, s := range p.Segments {
		for _, in := range s.Inputs {
			add(in.Val)
		}
	}
	for _, o := range p.Outputs {
		add(o.Val)
	}
}
