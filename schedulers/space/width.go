package space

import "slices"

// vectorBytes are those that one instruction moves, at most.
const vectorBytes = 16

// liveBytes are those of a thread's step, at most.
const liveBytes = 512

// warpBytes is what lanes of a warp move together for each byte of a lane.
const warpBytes = 32

// requestBytes is what issuing one access of a thread costs, in bytes of memory
// traffic for each element.
const requestBytes = 0.15

// divisionBytes is the same of a division by a size, which is a multiplication.
const divisionBytes = 0.04

// What bounds a kernel that reads slices of one tensor, which memory does not: in bytes for each element. Requests of a warp with the
// instructions that go with each, lines that they look up in the first cache, and pieces of a sector that are stored, whose
// times overlap. In us on an H200 (second cache dirty) of 134 MB of bfloat16, in one dimension and in two in steps of 8, 4 and 2: averages of four
// columns of 16384 x 4096 157, 229, 102, 110, blurs of 3 x 3 of 64 x 1024 x 1024 463, 192, 147, 185, differences of neighbours 91, 278, 100, 92. Of
// float32 averages take 90, 161, 105, 72, blurs 106, 209, 113, 104, differences 74, 206, 99, 71.
const (
	issuedBytes = 1.8
	lookedBytes = 0.58
	piecesShare = 0.8
)

// A reach is where the elements of a thread's step lie for one tensor.
type reach struct {
	run      int64 // consecutive elements of the space that are consecutive in memory
	constant int64 // consecutive elements of the space that are one element
	isWhole  bool  // the run has all that the loops have
	step     int64 // divides the strides of what is outside the run

	apart     int64 // elements of memory from one to the next of apartRun, if they are not next to each other
	apartRun  int64
	apartStep int64 // step for those
}

// reach returns that of t in loops over the places from from on.
func (p *Space) reach(t *Tensor, from int) reach { return p.reachOf(t, from, len(t.along)) }

// reachOf is reach of loops over the places before end alone.
func (p *Space) reachOf(t *Tensor, from, end int) reach {
	r := reach{run: 1, constant: 1}
	if t.isOpaque {
		return r
	}
	inside, isWhole := true, true
	for k := end - 1; k >= 0; k-- {
		inside = inside && k >= from
		for i := len(t.along[k]) - 1; i >= 0; i-- {
			x := t.along[k][i]
			switch {
			case x.extent == 1:
			case r.apart == 0 && inside && r.constant == 1 && x.stride > 0:
				r.apart, r.apartRun = x.stride, x.extent
			default:
				r.apartStep = gcd(r.apartStep, x.stride)
			}
			switch {
			case x.extent == 1:
			case inside && x.stride == 0 && r.run == 1:
				r.constant *= x.extent
			case inside && r.constant == 1 && x.isDense && x.stride == r.run:
				r.run *= x.extent
			default:
				inside, isWhole = false, isWhole && k < from
				r.step = gcd(r.step, x.stride)
			}
		}
	}
	r.isWhole = isWhole && r.constant == 1 && !t.isPart
	r.step = gcd(r.step, t.shift)
	return r
}

// width returns how many elements of t an access may have, at most: a power of
// two that divides the address and all steps in memory, so that every access is
// aligned, and the run, so that it is of consecutive elements. A run that is all
// there is may end within an access, the last one, which is then made element by
// element; not what is looked up.
func (t *Tensor) width(r reach) int64 {
	w := int64(1)
	for 2*w*t.Bytes <= min(vectorBytes, t.Aligned) && (r.isWhole && !t.isTable || r.run%(2*w) == 0) && r.step%(2*w) == 0 {
		w *= 2
	}
	return w
}

// wordBytes are those of the words that an unaligned access reads, one by one.
const wordBytes = 4

// access returns how many elements of t an access of a step of e elements has, and how many
// requests those of the step are. Elements of an input that are smaller than a word are read in
// words from any address, where that takes fewer.
func (p *Space) access(t *Tensor, r reach, e int64) (w, requests int64) {
	whole := func(w int64) int64 {
		for w = min(w, e); p.piece > 0 && p.piece%w != 0; {
			w /= 2
		}
		return w
	}
	w = whole(t.width(r))
	requests = e / w
	if g, n := p.gathers(t, r, e); g > w {
		return g, n
	}
	if !p.Unaligned || t.IsOutput || t.isTable || t.isPart || t.isOpaque || t.Bytes >= wordBytes {
		return w, requests
	}
	r.step = 0
	any := *t
	any.Aligned = vectorBytes
	if u := whole(any.width(r)); u*t.Bytes >= wordBytes {
		if words := e / u * (u*t.Bytes/wordBytes + 1); words < requests {
			return u, words
		}
	}
	return w, requests
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// A Pitch is how a nest moves the tensors of a space: in steps of elements, and
// each in accesses of its own width.
type Pitch struct {
	Elements int64
	Widths   []int64 // by tensor: elements of an access
	Cost     float64 // bytes for each element of the space
	Fixed    float64 // share of the requests that does not depend on the left side of a break

	from, end int     // the break, and where the places begin that each step has whole
	steps     []int64 // by tensor: elements of a step, fewer of what is constant along those places
}

// PitchOf returns the pitch of loops over the places from from on, what is left of
// which is in loops around them, for steps of e elements. rows is how many of
// those share what they have in common.
func (p *Space) PitchOf(from int, e, rows int64) Pitch {
	return p.pitchOf(from, len(p.Extents), e, rows)
}

// WholePitch returns the pitch of loops of one dimension in steps of e elements, of which each has the places from end on
// whole: what is constant along those is read once for them.
func (p *Space) WholePitch(end int, e int64) Pitch { return p.pitchOf(0, end, e, 1) }

func (p *Space) pitchOf(from, end int, e, rows int64) Pitch {
	h := Pitch{Elements: e, from: from, end: end}
	each := p.Size(end, len(p.Extents))
	total, invariant, gathered := 0.0, 0.0, 0.0
	var shared sharedCost
	points := float64(max(p.Size(0, len(p.Extents)), 1))
	for k := range p.Tensors {
		t := &p.Tensors[k]
		e, until := e, len(p.Extents)
		if end < until && t.IsConstant(end, until) {
			e, until = e/each, end
		}
		r := p.reachOf(t, from, until)
		w, n := p.access(t, r, e)
		h.Widths, h.steps = append(h.Widths, w), append(h.steps, e)
		if w > 1 && r.run == 1 && r.constant == 1 {
			gathered += float64(n * max(min(warpBytes*e*r.apart*t.Bytes/lineBytes, warpBytes), 1))
		}
		requests, divisions := float64(n), 0.0
		isOutside := from > 0 && t.IsConstant(from, len(t.along)) // the step
		if isOutside {
			requests = 1
		}
		if t.isOpaque || !t.isLinear(0, from, false) || !t.isLinear(from, until, false) {
			divisions = requests
		}
		if from > 0 && t.IsConstant(0, from) {
			requests, divisions = requests/float64(rows), divisions/float64(rows)
			invariant += requests
		}
		total += requests
		covered := w * t.Bytes // bytes next to each other that a request covers
		if w == e || !t.IsOutput || isOutside {
			covered = warpBytes * e * t.Bytes
		}
		share := float64(t.Elements()) / points
		h.Cost += share*float64(t.Bytes)/efficiency(covered, w == e) + (requestBytes*requests+divisionBytes*divisions)/float64(h.Elements)
		if p.isSlicedAs(t, k) {
			shared.isNeeded = true
		} else {
			shared.memory += share * float64(t.Bytes) / efficiency(warpBytes*e*t.Bytes, w == e)
		}
		shared.extra += requestBytes*requests + divisionBytes*divisions
		shared.requests += requests
		if r.run > 1 && !isOutside {
			shared.lines += requests * float64(max(warpBytes*e*t.Bytes/lineBytes, 1))
		} else {
			shared.lines += requests
		}
		if t.IsOutput && !isOutside {
			shared.pieces += share * float64(t.Bytes*e/w)
		}
	}
	if shared.isNeeded {
		h.Cost = shared.bytes(float64(e))
	}
	h.Cost = max(h.Cost, gatheredBytes*gathered/float64(e))
	if total > 0 {
		h.Fixed = invariant / total
	}
	return h
}

// A sharedCost is what a step costs where several inputs are likely slices of one tensor, of which memory is read once.
type sharedCost struct {
	isNeeded               bool
	memory, pieces         float64 // bytes for each element: of each sector once, and each time that some of it is stored
	requests, lines, extra float64 // of a step
}

// bytes returns the cost for each element of steps of e: what takes longest, and a little for the rest.
func (c *sharedCost) bytes(e float64) float64 {
	return max(c.memory, issuedBytes*c.requests/e, lookedBytes*c.lines/e, piecesShare*c.pieces) + c.extra/e
}

// isSlicedAs reports whether one of the first n tensors is likely part of the tensor that t is part of: they are inputs of equal strides, with
// gaps. What they share is read from memory once.
func (p *Space) isSlicedAs(t *Tensor, n int) bool {
	return t.isSlice() && slices.ContainsFunc(p.Tensors[:n], func(x Tensor) bool {
		return x.isSlice() && x.Bytes == t.Bytes && slices.EqualFunc(x.along, t.along, slices.Equal[[]piece])
	})
}

// isSlice reports whether t is an input in memory with gaps, along the order of the space.
func (t *Tensor) isSlice() bool {
	if t.IsOutput || t.isOpaque || t.isTable || t.isPart {
		return false
	}
	dense := int64(1)
	for _, pieces := range slices.Backward(t.along) {
		for _, x := range slices.Backward(pieces) {
			if x.extent == 1 || x.stride == 0 {
				continue
			}
			if x.stride != dense {
				return dense > 1
			}
			dense *= x.extent
		}
	}
	return false
}

// AlignedPitch returns the pitch of loops over the places from from on in steps of e elements that
// begin where memory is aligned, in another place of each row ([schedule.Scheduled.AlignRows]):
// tensors that lie in memory as the space does, without a gap, have accesses as wide as their
// addresses allow, and others as wide ones as divide the rows, which steps are shifted by then.
// Its costs are not known.
func (p *Space) AlignedPitch(from int, e int64) Pitch {
	h := Pitch{Elements: e, from: from}
	for k := range p.Tensors {
		t, w := &p.Tensors[k], int64(1)
		if p.IsPiece(t) {
			for 2*w <= e && 2*w*t.Bytes <= min(vectorBytes, t.Aligned) {
				w *= 2
			}
		} else {
			for most := t.width(p.reach(t, from)); 2*w <= min(e, most) && p.Size(from, len(p.Extents))%(2*w) == 0; {
				w *= 2
			}
		}
		h.Widths = append(h.Widths, w)
	}
	return h
}

// Bytes that memory moves at a time, and those that the second cache has together.
const (
	SectorBytes = 32
	lineBytes   = 128
)

// Sector returns how many elements whole sectors of memory have, of all tensors that have an element
// for each point, if those begin with one and lie in memory as the space does, but rows along the places from
// from on do not begin with one, and accesses of e elements are narrow; else 0.
func (p *Space) Sector(from int, e int64) int64 {
	for k := range p.Tensors {
		if t := &p.Tensors[k]; p.IsFull(t) && e*t.Bytes < vectorBytes {
			return p.beside(from, SectorBytes)
		}
	}
	return 0
}

// Line is [Space.Sector] of lines, and of accesses of any width.
func (p *Space) Line(from int) int64 { return p.beside(from, lineBytes) }

// beside returns how many elements so many bytes have, of all tensors that have an element for each point, if those lie in
// memory as the space does, but rows along the places from from on do not begin at a multiple of that; else 0.
func (p *Space) beside(from int, bytes int64) int64 {
	n := int64(1)
	for k := range p.Tensors {
		if t := &p.Tensors[k]; p.IsFull(t) {
			if t.Aligned < vectorBytes || !p.IsPiece(t) {
				return 0
			}
			n = max(n, bytes/t.Bytes)
		}
	}
	if p.Size(from, len(p.Extents))%n == 0 || p.Size(0, from) == 1 {
		return 0
	}
	return n
}

// narrowBytes are those of an element below which accesses of single elements move little.
const narrowBytes = 4

// Aligns reports whether steps of so many elements along the places from from on can begin
// where memory is aligned, for all tensors that have an element for each point, of which
// some are narrow. Of elements of 4 bytes nothing is gained: a softmax of 65536 x 1023
// float32 takes 132.6 / 130.1 us on an H200, 134.6 / 132.5 in single elements, and what
// loads earlier, so that narrow ones gain, 142.6 / 136.9.
func (p *Space) Aligns(from int, e int64) bool {
	isNarrow := false
	for k, w := range p.AlignedPitch(from, e).Widths {
		if t := &p.Tensors[k]; p.IsFull(t) {
			if w < e {
				return false
			}
			isNarrow = isNarrow || t.Bytes < narrowBytes
		}
	}
	return isNarrow && p.Size(0, from) > 1
}

// Cheapest returns the pitch of least cost of loops with a break at from, the one
// of fewer elements if there are two.
func (p *Space) Cheapest(from int, rows int64) Pitch {
	best := p.PitchOf(from, 1, rows)
	for e := int64(2); e <= vectorBytes && e*p.live() <= liveBytes; e *= 2 {
		if h := p.PitchOf(from, e, rows); h.Cost < best.Cost {
			best = h
		}
	}
	return best
}

// Step returns how many elements a step of a reduction over the places from from on has:
// what [Space.Widest] says, or fewer where outputs with one element for each point are
// stored better so.
func (p *Space) Step(from int) int64 {
	e, points := p.Widest(from), p.Size(0, len(p.Extents))
	if slices.ContainsFunc(p.Tensors, func(t Tensor) bool { return t.IsOutput && t.isLarge(points) }) {
		e = min(e, p.Cheapest(from, 1).Elements)
	}
	return e
}

// Widest returns how many elements the widest access has of the inputs that have one
// element for each point, in loops over the places from from on: reads that are
// narrower take several accesses, which costs no bandwidth.
func (p *Space) Widest(from int) int64 {
	e, points := int64(1), p.Size(0, len(p.Extents))
	for k, w := range p.PitchOf(from, vectorBytes, 1).Widths {
		if t := &p.Tensors[k]; !t.IsOutput && t.isLarge(points) {
			e = max(e, w)
		}
	}
	for e > 1 && e*p.live() > liveBytes {
		e /= 2
	}
	return e
}

// isLarge reports whether t has elements for most of so many points.
func (t *Tensor) isLarge(points int64) bool { return t.Elements()*16 >= points }

// live returns the bytes that a thread holds for each element at a time: inputs
// as they are in memory, and a few results.
func (p *Space) live() int64 {
	n := int64(3 * 4)
	for _, t := range p.Tensors {
		if !t.IsOutput {
			n += t.Bytes
		}
	}
	return n
}

// Traffic returns the bytes that a thread reads and moves in one step of e
// elements, of tensors that have one for each point.
func (p *Space) Traffic(e int64) (read, moved int64) {
	points := p.Size(0, len(p.Extents))
	for k := range p.Tensors {
		t := &p.Tensors[k]
		if !t.isLarge(points) {
			continue
		}
		moved += e * t.Bytes
		if !t.IsOutput {
			read += e * t.Bytes
		}
	}
	return read, moved
}

// IsConstant reports whether t has one element for all points at the places from
// to before end.
func (t *Tensor) IsConstant(from, end int) bool {
	for k := from; k < end; k++ {
		if t.Step(k) != 0 {
			return false
		}
	}
	return !t.isOpaque
}

// IsCommon reports whether t is an input that all points along the places before from have in common, and
// those from there on have not.
func (p *Space) IsCommon(t *Tensor, from int) bool {
	return !t.IsOutput && t.IsConstant(0, from) && !t.IsConstant(from, len(p.Order))
}

// isLinear reports whether t goes along the places from to before end in equal
// steps, so that their merged index need not be taken apart: for these sizes, or always, for all
// inputs that the definition takes.
func (t *Tensor) isLinear(from, end int, always bool) bool {
	step := int64(-1)
	for k := end - 1; k >= from; k-- {
		for i := len(t.along[k]) - 1; i >= 0; i-- {
			x := t.along[k][i]
			switch {
			case x.extent == 1:
				continue
			case step >= 0 && (x.stride != step || always && !x.isDense):
				return false
			}
			step = x.stride * x.extent
		}
	}
	return true
}

// efficiency is what part of the memory's speed is left where a request covers
// pieces of so many bytes.
func efficiency(bytes int64, isWhole bool) float64 {
	g := 1.0
	switch {
	case bytes < 16:
		g = 0.08
	case bytes < 32:
		g = 0.19
	case bytes < 64:
		g = 0.72
	case bytes < 128:
		g = 0.90
	case bytes < 256:
		g = 0.99
	}
	if !isWhole { // the rest of a line comes from the first cache
		g *= 0.99
	}
	return g
}
