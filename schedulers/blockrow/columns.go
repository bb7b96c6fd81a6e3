package blockrow

import (
	"slices"

	"nvfuser_go/schedulers/scheduler"
)

const (
	columnElements  = 8   // of a thread along a column, where it may have more threads
	columnLanes     = 4   // threads next to each other, before one has several columns
	columnBytes     = 8   // of an access, at most
	pieceBytes      = 128 // that threads next to each other move together
	leastPieceBytes = 32  // the same where there is room for more, but there are few blocks
	columnThreads   = 512 // of a block; twice as many where that makes pieces wider
	columnWords     = 32  // registers for elements of a thread

	// mostLive are registers for elements of a thread and what else is live when threads of a
	// column wait for each other, fewLive those in blocks of more than columnThreads. With 192 of
	// them there are spills of 600 bytes.
	mostLive = 96
	fewLive  = 40
)

// chooseColumns returns the choices for count columns of length elements, or why there is none.
func (a *analysis) chooseColumns(length, count int64, device scheduler.Device) ([]Params, error) {
	var all []Params
	for _, e := range []int64{a.space.Cheapest(a.inner, 1).Elements, 1} {
		if p, ok := a.fitColumns(e, length, count, device); ok && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return a.first(all, length)
}

// fitColumns returns the choice for count columns of length elements of which a thread has no more
// than vector, and whether there is one: pieces of memory as wide as a block has room for, and
// blocks for all processors.
func (a *analysis) fitColumns(vector, length, count int64, device scheduler.Device) (best Params, isFit bool) {
	bytes := a.narrowest()
	blocks := func(p Params) int64 { return scheduler.CeilDiv(count, p.Rows*p.Vector) }
	for columns := pieceBytes / bytes; columns > 0; columns /= 2 {
		p := Params{Columns: true, Vector: max(min(vector, columnBytes/bytes, columns/columnLanes), 1)}
		p.Rows = columns / p.Vector
		if a.share(&p, length, device) && (!isFit || columns*bytes >= leastPieceBytes && blocks(best) < int64(device.Processors)) {
			best, isFit = p, true
		}
	}
	for isFit && best.Rows*best.Threads < block && blocks(best) >= 2*int64(device.Processors) {
		best.Rows *= 2
	}
	return best, isFit
}

// share completes p, which has threads next to each other, by those along a column of length
// elements, and reports whether they hold it.
func (a *analysis) share(p *Params, length int64, device scheduler.Device) bool {
	for p.Threads = 1; p.Rows*p.Threads < columnThreads && scheduler.CeilDiv(length, p.Threads) > columnElements; {
		p.Threads *= 2
	}
	live := int64(mostLive)
	if !a.holds(p, length, live) {
		p.Threads *= 2
		live = fewLive
	}
	return p.Rows*p.Threads <= int64(device.Threads) && a.holds(p, length, live)
}

// holds completes p, which has threads, and reports whether they have registers for columns of length
// elements, no more than live with what else is live.
func (a *analysis) holds(p *Params, length, live int64) bool {
	p.Steps = buckets.Of(scheduler.CeilDiv(length, p.Threads))
	each := p.Steps * p.Vector
	return p.capacity() >= length && each*a.facts.words <= columnWords && each*a.facts.live <= live
}

// narrowest returns the bytes of an element of the narrowest tensor that has all.
func (a *analysis) narrowest() int64 {
	bytes := int64(8)
	for k := range a.space.Tensors {
		if t := &a.space.Tensors[k]; a.space.IsFull(t) {
			bytes = min(bytes, t.Bytes)
		}
	}
	return bytes
}
