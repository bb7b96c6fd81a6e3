package space

import "slices"

// Inner returns the place along which neighbours of t are nearest to each other in memory,
// or -1 if t has no place with several elements.
func (p *Space) Inner(t *Tensor) int {
	inner := -1
	for k, n := range p.Extents {
		if step := t.Step(k); n > 1 && step > 0 && (inner < 0 || step < t.Step(inner)) {
			inner = k
		}
	}
	return inner
}

// Outside returns the place along which memory of t goes on where it ends along place k, or
// -1 if there is none.
func (p *Space) Outside(t *Tensor, k int) int {
	for j, n := range p.Extents {
		if j != k && n > 1 && t.Step(j) > 0 && t.GoesOn(j, k) {
			return j
		}
	}
	return -1
}

// GoesOn reports whether t comes to the next element along place j where it ends along
// place k, or has one element for all of both.
func (t *Tensor) GoesOn(j, k int) bool {
	pair := Tensor{along: [][]piece{t.along[j], t.along[k]}}
	return pair.isLinear(0, 2, false)
}

// IsDense reports whether t lies in memory along the places from from to before end, in their order,
// in equal steps without a gap, for all inputs that the definition takes.
func (t *Tensor) IsDense(from, end int) bool {
	return !t.isOpaque && !t.isPart && t.isLinear(from, end, true)
}

// IsFull reports whether t has an element of its own for each point of p.
func (p *Space) IsFull(t *Tensor) bool {
	return p.IsAlong(t, 0, len(p.Extents)) && t.Elements() == p.Size(0, len(p.Extents))
}

// IsPiece reports whether t has an element of its own for each point of p, in the order of p without a gap.
func (p *Space) IsPiece(t *Tensor) bool {
	return p.IsFull(t) && p.reach(t, 0).run == p.Size(0, len(p.Extents))
}

// IsAlong reports whether t has elements of its own for all that p has at the places from
// to before end.
func (p *Space) IsAlong(t *Tensor, from, end int) bool { return p.RunsAlong(t, from, end) && !t.isPart }

// RunsAlong reports whether t has elements of its own for what p has at the places from to before
// end: for all, or, if it is padded or joined, for a part.
func (p *Space) RunsAlong(t *Tensor, from, end int) bool {
	for k := from; k < end; k++ {
		if p.Extents[k] > 1 && t.Step(k) == 0 {
			return false
		}
	}
	return !t.isOpaque
}

// Arranged returns p with its places in another order, of which from tells what it has at
// each place, and of the tensors those alone that has says.
func (p *Space) Arranged(from []int, has func(*Tensor) bool) *Space {
	q := &Space{Reference: p.Reference, Extents: p.Extents, Unaligned: p.Unaligned, among: p.among, places: p.places, piece: p.piece}
	for _, k := range from {
		q.Order = append(q.Order, p.Order[k])
	}
	for i := range p.Tensors {
		if has(&p.Tensors[i]) {
			q.Tensors = append(q.Tensors, p.Tensors[i])
		}
	}
	q.reorder(from)
	return q
}

// A Range is of places from Begin to before End.
type Range struct{ Begin, End int }

// Ordered returns p with the places of ranges, which have each of its places once, one range after another.
func (p *Space) Ordered(ranges ...Range) *Space {
	var from []int
	for _, r := range ranges {
		for k := r.Begin; k < r.End; k++ {
			from = append(from, k)
		}
	}
	return p.Arranged(from, func(*Tensor) bool { return true })
}

// AsDefined returns p with its places in the order of the dimensions of the reference.
func (p *Space) AsDefined() *Space {
	back := make([]int, len(p.Order))
	for k, d := range p.Order {
		back[d] = k
	}
	return p.Arranged(back, func(*Tensor) bool { return true })
}

// AsRead returns p with its places in the order of most bytes of inputs in memory.
func (p *Space) AsRead() *Space { return p.as(func(t *Tensor) bool { return !t.IsOutput }) }

// AsWritten returns p with its places in the order of most bytes of outputs in memory.
func (p *Space) AsWritten() *Space { return p.as(func(t *Tensor) bool { return t.IsOutput }) }

// as returns p with its places in the order of most bytes of some tensors in memory.
func (p *Space) as(counts func(*Tensor) bool) *Space {
	q := p.AsDefined()
	some := *q
	some.Order, some.Tensors = nil, slices.DeleteFunc(slices.Clone(q.Tensors), func(t Tensor) bool { return !counts(&t) })
	some.sort()
	return q.Arranged(some.Order, func(*Tensor) bool { return true })
}

// Narrowest returns the bytes of an element of the tensor with the smallest, of those that have one for each point.
func (p *Space) Narrowest() int64 {
	n := int64(vectorBytes)
	for k := range p.Tensors {
		if t := &p.Tensors[k]; p.IsFull(t) {
			n = min(n, t.Bytes)
		}
	}
	return n
}
