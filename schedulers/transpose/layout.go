package transpose

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// A layout says which tensors are near and far, and along which places of the space each
// group runs.
type layout struct {
	// near and far have the places of the space in an order of their own, and tensors: far
	// those that are exchanged, near all others. The places of near are those outside of
	// tiles, those of a far run, those of a near run; far has the latter two swapped.
	near, far *space.Space
	// rows has the places and tensors of near with those outside of the near run as near tensors go on along them: rows
	// of these are counted so.
	rows *space.Space

	farAt, nearAt int  // the first places of the far run and of the near run, in near
	between       int  // the first of those outside that near tensors go on along before they do along the far run
	place         int  // of the reference of the space among the outputs; negative: it is none
	isNearRow     bool // memory of near tensors goes on along the far run where a near run ends
}

// A group is the tensors that lie along one place in memory.
type group struct {
	inner   int
	bytes   int64 // of all of them
	written int64 // of outputs
	moved   int64 // bytes, if an element is read or written for each point
	largest *space.Tensor
	run     []int // places that it goes through, from the outermost
}

// leastShare is the part of the bytes that the smaller group has, at least.
const leastShare = 0.1

// leastPiece is what a run has, at least, if its tensor goes on along places that others
// do not go on along.
const leastPiece = 64

// leastRows is how many elements a run has at least where the near one is short: a block has so many and all of their near runs.
const leastRows = mostThreads / 2 * mostCell

// newLayout returns the layout of f with the space p.
//
// Errors: a [scheduler.Refusals], if it has not two groups.
func newLayout(f *core.Fusion, p *space.Space) (*layout, error) {
	refuse := func(rule string, v core.ValID, format string, args ...any) (*layout, error) {
		return nil, scheduler.Refused(f, name, rule, v, format, args...)
	}
	groups, total := groupsOf(p)
	if len(groups) < 2 {
		return refuse("one group", core.NoVal, "no two tensors with all dimensions have different ones innermost in memory")
	}
	near, far := &groups[0], &groups[1]
	if float64(far.moved) < leastShare*float64(total) {
		return refuse("small group", far.largest.Val, "%s and what lies in memory as it does are less than a tenth of all bytes", f.Name(far.largest.Val))
	}
	near.run, far.run = []int{near.inner}, []int{far.inner}
	near.grow(p, far, 0)
	far.grow(p, near, 0)
	l := &layout{place: slices.IndexFunc(f.Outputs(), func(o core.Output) bool { return o.Val == p.Reference })}
	switch {
	case !near.isRow(p, far) && far.isRow(p, near):
		near, far = far, near
	}
	if l.isNearRow = near.isRow(p, far); l.isNearRow {
		far.grow(p, near, leastRows)
	}
	isFar := func(t *space.Tensor) bool {
		isLong := min(near.size(p), far.size(p))*t.Bytes >= leastPiece // else a cache has it
		return matters(p, t) && p.Inner(t) == far.inner && (isFull(p, t) || isLong && along(p, t, near.run) && along(p, t, far.run))
	}
	between := near.until(p, far)
	var outside []int
	for k := range p.Extents {
		if !slices.Contains(near.run, k) && !slices.Contains(far.run, k) && !slices.Contains(between, k) {
			outside = append(outside, k)
		}
	}
	l.between = len(outside)
	outside = append(outside, between...)
	l.near = p.Arranged(slices.Concat(outside, far.run, near.run), func(t *space.Tensor) bool { return !isFar(t) })
	l.far = p.Arranged(slices.Concat(outside, near.run, far.run), isFar)
	l.farAt, l.nearAt = len(outside), len(outside)+len(far.run)
	l.rows = l.near.Ordered(space.Range{End: l.between}, space.Range{Begin: l.farAt, End: l.nearAt}, space.Range{Begin: l.between, End: l.farAt}, space.Range{Begin: l.nearAt, End: len(p.Extents)})
	for i := range l.far.Tensors {
		for k := range l.near.Tensors {
			if far := &l.far.Tensors[i]; far.SharesResize(&l.near.Tensors[k]) {
				return refuse("joined", far.Val, "%s is joined with %s, which lies in memory otherwise", f.Name(far.Val), f.Name(l.near.Tensors[k].Val))
			}
		}
	}
	if len(l.far.Tensors) == 0 {
		return refuse("one group", far.largest.Val, "%s has not all dimensions along which others lie in memory", f.Name(far.largest.Val))
	}
	return l, nil
}

// matters reports whether the order in which t is read matters: it has elements along several
// dimensions, if not one for each point.
func matters(p *space.Space, t *space.Tensor) bool {
	places := 0
	for k, n := range p.Extents {
		if n > 1 && p.RunsAlong(t, k, k+1) {
			places++
		}
	}
	return isFull(p, t) || !t.IsOutput && places > 1
}

// isFull reports whether t has an element of its own for each point of p, but for those that it is padded with or
// that others are joined at.
func isFull(p *space.Space, t *space.Tensor) bool {
	n := len(p.Extents)
	return p.RunsAlong(t, 0, n) && t.Elements() == p.Size(0, n)
}

// along reports whether t has elements of its own along all of some places.
func along(p *space.Space, t *space.Tensor, places []int) bool {
	return !slices.ContainsFunc(places, func(k int) bool { return !p.RunsAlong(t, k, k+1) })
}

// groupsOf returns the groups of the tensors of p of which the order matters, those of most bytes
// first and of equal ones what has more of outputs, and the bytes that are moved.
func groupsOf(p *space.Space) (groups []group, total int64) {
	points := p.Size(0, len(p.Extents))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if !matters(p, t) || p.Inner(t) < 0 {
			continue
		}
		bytes, inner := t.Elements()*t.Bytes, p.Inner(t)
		total += points * t.Bytes
		at := slices.IndexFunc(groups, func(g group) bool { return g.inner == inner })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{inner: inner, largest: t})
		}
		g := &groups[at]
		g.moved += points * t.Bytes
		if t.IsOutput {
			g.written += bytes
		}
		if g.bytes += bytes; t.Bytes > g.largest.Bytes {
			g.largest = t
		}
	}
	slices.SortStableFunc(groups, func(g, h group) int {
		return cmp.Or(cmp.Compare(h.bytes, g.bytes), cmp.Compare(h.written, g.written))
	})
	return groups, total
}

// grow lets the run of g go on along places that all full tensors go on along, or as far as
// it has few bytes or less than so many elements, but not along those of other.
func (g *group) grow(p *space.Space, other *group, least int64) {
	for {
		k := p.Outside(g.largest, g.run[0])
		if k >= 0 && g.size(p) < least && slices.Contains(other.run, k) {
			k = p.Outside(g.largest, k) // past it, as it is all in a tile
		}
		if k < 0 || slices.Contains(other.run, k) || slices.Contains(g.run, k) {
			return
		}
		if g.size(p) >= least && g.size(p)*g.largest.Bytes >= leastPiece && slices.ContainsFunc(p.Tensors, func(t space.Tensor) bool { return matters(p, &t) && !t.GoesOn(k, g.run[0]) }) {
			return
		}
		g.run = slices.Insert(g.run, 0, k)
	}
}

// size returns the elements of a run.
func (g *group) size(p *space.Space) int64 {
	n := int64(1)
	for _, k := range g.run {
		n *= p.Extents[k]
	}
	return n
}

// until returns the places that g goes on along before it does along the run of other, from the
// outermost; none if it does not.
func (g *group) until(p *space.Space, other *group) []int {
	var places []int
	for k := p.Outside(g.largest, g.run[0]); k >= 0 && !slices.Contains(places, k); k = p.Outside(g.largest, k) {
		if slices.Contains(other.run, k) {
			return places
		}
		places = slices.Insert(places, 0, k)
	}
	return nil
}

// isRow reports whether a run of g is short, and g goes on along that of other where it ends.
func (g *group) isRow(p *space.Space, other *group) bool {
	return len(g.run) == 1 && g.size(p) <= mostWhole && p.Outside(g.largest, g.run[0]) == other.inner
}
