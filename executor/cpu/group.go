package cpu

import (
	"math/bits"
	"slices"

	"nvfuser_go/core"
)

// A group is nodes that run together over tiles of one iteration space, or one
// opaque node. Groups with a higher index run earlier.
type group struct {
	sizes  []int64 // of the axes, none of them 1
	inner  uint64  // axes that a tile holds whole, because its nodes fold them
	folded []int   // the same axes, in the order of the dimensions folded

	// In a chunked group a tile holds a part of the inner axes: what it folds
	// is known when all tiles are done, so no node of the group reads it.
	chunked bool
	// In a sequential group the parts of the inner axes are visited in order by
	// one worker, because a scan carries a value from one to the next.
	sequential bool

	members []int // nodes; last first while grouping
	opaque  bool
}

// partition assigns every node to a group.
//
// It visits the nodes from the last to the first, so that the readers of a
// value are in groups before the value is. A value joins the group of the
// reader that runs earliest if every reader there sees it under the same axes;
// otherwise it is computed by a group that runs before, and stored. The index
// of a node's group is thus at least that of its readers, which keeps the
// groups free of cycles. The work is linear in the nodes.
func (b *builder) partition() {
	for i := len(b.nodes) - 1; i >= 0; i-- {
		n := &b.nodes[i]
		switch n.kind {
		case opaque:
			b.groups = append(b.groups, &group{members: []int{i}, opaque: true})
			for _, v := range n.in {
				b.readMemory(v, len(b.groups)-1)
			}
		case reduce:
			b.placeFold(i, b.joinReduction)
		case scan:
			b.placeFold(i, b.joinScan)
		default:
			b.placePointwise(i)
		}
	}
	for _, g := range b.groups {
		slices.Reverse(g.members)
	}
}

// readMemory notes that group g reads value v from memory.
func (b *builder) readMemory(v, g int) {
	if owner := b.values[v].place.owner; owner >= 0 {
		o := &b.values[owner]
		o.raise(g + 1)
	}
}

// raise makes g the least group that may compute x.
func (x *value) raise(g int) {
	if g > x.lowest {
		x.lowest, x.mapping = g, nil
	}
}

// read notes that a node of group g reads value v under mapping.
func (b *builder) read(v, g int, mapping []int) {
	x := &b.values[v]
	if x.memory {
		b.readMemory(v, g)
		return
	}
	for d, n := range x.span {
		if n == 1 {
			mapping[d] = -1
		}
	}
	switch {
	case g < x.lowest:
		return
	case b.groups[g].hasEmptyAxis() && core.NumElements(x.span) > 0:
		// No tile would compute it.
		x.raise(g + 1)
		return
	}
	x.raise(g)
	if x.mapping == nil {
		x.mapping = mapping
	} else if !slices.Equal(x.mapping, mapping) {
		x.raise(g + 1)
	}
}

func (g *group) hasEmptyAxis() bool { return slices.Contains(g.sizes, 0) }

func (g *group) full() bool {
	return len(g.members) >= limits.members || g.inner != 0 && len(g.members) >= limits.foldingMembers
}

// newGroup starts a group that iterates over span and returns its index and the
// mapping of the dimensions.
func (b *builder) newGroup(span []int64) (int, []int) {
	g := &group{}
	mapping := make([]int, len(span))
	for d, n := range span {
		mapping[d] = -1
		if n != 1 {
			mapping[d] = len(g.sizes)
			g.sizes = append(g.sizes, n)
		}
	}
	b.groups = append(b.groups, g)
	return len(b.groups) - 1, mapping
}

// match returns the mapping of span to the axes of g if g iterates over
// exactly span.
func (g *group) match(span []int64) []int {
	mapping, next := make([]int, len(span)), 0
	for d, n := range span {
		mapping[d] = -1
		if n == 1 {
			continue
		}
		if next == len(g.sizes) || g.sizes[next] != n {
			return nil
		}
		mapping[d] = next
		next++
	}
	if next != len(g.sizes) {
		return nil
	}
	return mapping
}

// placePointwise places node i, whose elements each come from one element of
// each operand.
func (b *builder) placePointwise(i int) {
	n := &b.nodes[i]
	x := &b.values[n.out[0]]
	at, mapping := x.lowest, x.mapping
	if mapping == nil || b.groups[at].full() {
		at, mapping = b.root(x.lowest, x.span, func(g *group) bool { return true })
	}
	b.put(i, at, mapping)
	for _, v := range n.in {
		m := make([]int, len(b.values[v].span))
		for d := range m {
			m[d] = -1
		}
		if n.kind == remap {
			for d, k := range n.axisMap {
				if k >= 0 {
					m[k] = mapping[d]
				}
			}
		} else {
			copy(m, mapping)
		}
		b.read(v, at, m)
		n.reads = append(n.reads, m)
	}
}

// root returns a group for a node over span that no tile reads: one of the
// latest from lowest on that iterates over span and is accepted, or a new one.
func (b *builder) root(lowest int, span []int64, accept func(*group) bool) (int, []int) {
	for at := max(lowest, len(b.groups)-limits.rootCandidates); at < len(b.groups); at++ {
		g := b.groups[at]
		if g.opaque || g.full() {
			continue
		}
		if m := g.match(span); m != nil && accept(g) {
			return at, m
		}
	}
	return b.newGroup(span)
}

// put makes node i a member of group at, where its results have mapping.
func (b *builder) put(i, at int, mapping []int) {
	b.groups[at].members = append(b.groups[at].members, i)
	for _, v := range b.nodes[i].out {
		b.values[v].group, b.values[v].mapping = at, mapping
	}
}

// A joining returns the mapping of the operand of fold i if it can be computed
// in group at, whose readers see its result under mapping.
type joining func(i, at int, mapping []int) []int

// placeFold places node i, a reduction or scan.
func (b *builder) placeFold(i int, join joining) {
	n := &b.nodes[i]
	lowest, mapping := 0, []int(nil)
	for _, v := range n.out { // the readers that come first decide
		if x := &b.values[v]; x.lowest > lowest || mapping == nil && x.lowest == lowest {
			lowest, mapping = x.lowest, x.mapping
		}
	}
	for _, v := range n.out {
		if x := &b.values[v]; x.lowest == lowest && x.mapping != nil && !slices.Equal(x.mapping, mapping) {
			lowest, mapping = lowest+1, nil
			break
		}
	}
	if mapping != nil && !b.groups[lowest].full() {
		if m := join(i, lowest, mapping); m != nil {
			b.put(i, lowest, mapping)
			b.read(n.in[0], lowest, m)
			n.reads = [][]int{m}
			return
		}
	}
	if mapping != nil {
		lowest++
	}
	b.placeFoldRoot(i, lowest)
}

// placeFoldRoot places fold i into a group from lowest on that iterates over
// its operand, or a new one.
func (b *builder) placeFoldRoot(i, lowest int) {
	n := &b.nodes[i]
	u := &b.values[n.in[0]]
	space := slices.Clone(u.span) // a fold visits every position of what it folds
	total := int64(1)
	for _, d := range n.dims {
		space[d] = u.sizes[d]
		total *= u.sizes[d]
	}
	folded := func(m []int) []int {
		var axes []int
		for _, d := range n.dims {
			if m[d] >= 0 {
				axes = append(axes, m[d])
			}
		}
		return axes
	}
	chunked := total > limits.whole || n.kind == reduce && (total == 0 || total > limits.squareTile && !foldsLast(u.sizes, n.dims))
	at, m := b.root(lowest, space, func(g *group) bool {
		axes := folded(g.match(space))
		return len(axes) == 0 || g.accepts(axes, chunked) && (n.kind == reduce || !chunked || g.sequential || g.inner == 0)
	})
	if axes := folded(m); len(axes) > 0 {
		g := b.groups[at]
		g.setInner(axes)
		g.chunked = chunked
		g.sequential = g.sequential || chunked && n.kind == scan
	}
	result := slices.Clone(m)
	if n.kind == reduce {
		result = result[:0]
		for d, a := range m {
			if !slices.Contains(n.dims, int64(d)) {
				result = append(result, a)
			}
		}
	}
	b.put(i, at, result)
	b.read(n.in[0], at, m)
	n.reads = [][]int{m}
}

// foldsLast reports whether dims has the last of the dimensions of sizes that
// has more than one element. A fold that does not is read across: small parts of
// many rows go through a tile faster than few columns of all rows (twice, for
// the columns of 4096 by 4096).
func foldsLast(sizes, dims []int64) bool {
	for d := len(sizes) - 1; d >= 0; d-- {
		if sizes[d] != 1 {
			return slices.Contains(dims, int64(d))
		}
	}
	return true
}

// accepts reports whether the inner axes of g are, or can become, axes.
func (g *group) accepts(axes []int, chunked bool) bool {
	if g.inner != 0 {
		return g.chunked == chunked && slices.Equal(g.folded, axes)
	}
	return len(g.members) < limits.foldingMembers
}

func (g *group) setInner(axes []int) {
	g.folded = axes
	for _, a := range axes {
		g.inner |= 1 << a
	}
}

// joinReduction joins reduction i to the group of its readers. The dimensions
// that it folds become the inner axes: those that the group folds already, or
// axes of their sizes that the result does not have, or new ones if the group
// iterates over the result alone.
func (b *builder) joinReduction(i, at int, mapping []int) []int {
	n, g := &b.nodes[i], b.groups[at]
	u := &b.values[n.in[0]]
	var want []int64 // sizes to fold
	total := int64(1)
	for _, d := range n.dims {
		total *= u.sizes[d]
		if u.sizes[d] != 1 {
			want = append(want, u.sizes[d])
		}
	}
	if g.chunked || total > limits.whole || total == 0 { // a tile of a chunked group has a part of what is folded
		return nil
	}
	axes := g.axesFor(want, mapping)
	if axes == nil && len(want) > 0 {
		return nil
	}
	m := make([]int, len(u.sizes))
	k, next := 0, 0
	for d := range m {
		m[d] = -1
		if !slices.Contains(n.dims, int64(d)) {
			m[d] = mapping[k]
			k++
		} else if u.sizes[d] != 1 {
			m[d] = axes[next]
			next++
		}
	}
	return m
}

// axesFor returns the axes of the given sizes for a fold whose result has
// mapping, and makes them the inner axes, or nil.
func (g *group) axesFor(want []int64, mapping []int) []int {
	var kept uint64
	for _, a := range mapping {
		if a >= 0 {
			kept |= 1 << a
		}
	}
	if len(want) == 0 {
		return nil
	}
	if g.inner != 0 {
		if kept&g.inner != 0 || len(want) != len(g.folded) {
			return nil
		}
		for k, a := range g.folded {
			if g.sizes[a] != want[k] {
				return nil
			}
		}
		return g.folded
	}
	if len(g.members) >= limits.foldingMembers {
		return nil
	}
	var axes []int
	for a, n := range g.sizes {
		if len(axes) < len(want) && kept>>a&1 == 0 && n == want[len(axes)] {
			axes = append(axes, a)
		}
	}
	if len(axes) < len(want) {
		if bits.OnesCount64(kept) != len(g.sizes) || len(g.sizes)+len(want) > 64 {
			return nil
		}
		axes = nil
		for _, n := range want {
			axes = append(axes, len(g.sizes))
			g.sizes = append(g.sizes, n)
		}
	}
	g.setInner(axes)
	return axes
}

// joinScan joins scan i to the group of its readers if the dimension that it
// runs along is, or can become, the only inner axis.
func (b *builder) joinScan(i, at int, mapping []int) []int {
	n, g := &b.nodes[i], b.groups[at]
	a := mapping[n.dims[0]]
	m := slices.Clone(mapping)
	switch {
	case a < 0:
		return m
	case g.sizes[a] > limits.whole || !g.accepts([]int{a}, false):
		return nil
	case g.inner == 0:
		g.setInner([]int{a})
	}
	return m
}
