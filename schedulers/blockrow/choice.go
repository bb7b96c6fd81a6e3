package blockrow

import (
	"slices"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

const (
	warp        = 32
	fewElements = 8   // of a thread along a row, where it may have more threads
	fewVectors  = 2   // the same: a cumsum of 65536 x 2048 bfloat16 takes 132.5 / 130.3 so on an H200, with one vector 133.9 / 131.7, with four 133.3 / 130.8
	mostWords   = 64  // registers for elements of a thread
	mostSteps   = 32  // of a thread: with 40 of one element each, and arithmetic around, it spills
	mostThreads = 512 // of a row: with more of them there are fewer registers for each
	block       = 128 // threads of a block, at least
	smallRows   = 256 // the same of rows that are less than a warp's
	alignedPair = 2   // elements of a step of rows that begin anywhere

	// alignedElements of a thread of those are as many as a warp has of 1,024. On an H200 a
	// cumsum of 65536 x 1023 bfloat16 takes 69.5 / 67.1 so, 71.4 / 69.4 with 16 and
	// 77.3 / 75.1 with 8, and a copy 68.3 / 65.2.
	alignedElements = 32

	// fewAligned are the same where rows have inputs in common, whose loads are as many again, or are few. In us on an H200, so and with 32:
	// a cumsum of products of 131200 x 1023 bfloat16 with a row 149.0 / 146.3 and 166.3 / 164.1, of 65568 x 2047 147.6 /
	// 145.7 and 145.3 / 142.5; of 4096 x 1023 without 9.2 / 8.5 and 9.8 / 9.6.
	fewAligned = 16

	// pairElements are the same of pairs of elements of 2 bytes that begin with the row. In us on an H200, so and with 8 of 512 threads:
	// a cumsum of 16388 x 8190 bfloat16 143.9 / 142.4 and 165.5 / 162.9, of 32752 x 4098 163.5 / 160.9 and 193.9 / 190.8, and of
	// products with a row 176.1 / 174.0 and 204.4 / 201.4.
	pairElements = 32
	pairBytes    = 4
	sortElements = 8        // of a thread that sorts
	mostRecords  = 64 << 10 // bytes of the records of a row, which are twice in shared memory
)

// buckets are the numbers of steps of a thread that kernels are made for: rows of similar
// lengths share one.
var buckets = scheduler.Buckets{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	length, count := int64(1), int64(1)
	for k, d := range a.space.Order {
		if d == a.facts.dim {
			length = a.space.Extents[k]
		} else {
			count *= a.space.Extents[k]
		}
	}
	switch {
	case a.facts.record > 0:
		return a.chooseSort(length, count, device)
	case a.inner > 0:
		return a.chooseColumns(length, count, device)
	}
	vector := a.space.Cheapest(len(a.space.Order)-1, 1).Elements
	for vector > 1 && vector > length {
		vector /= 2
	}
	var all []Params
	try := func(p Params) {
		if a.fit(&p, length, count, device) {
			all = append(all, p)
		}
	}
	if vector == 1 && a.space.Aligns(len(a.space.Order)-1, alignedPair) {
		try(Params{Vector: alignedPair, Aligned: true})
	}
	for _, e := range slices.Compact([]int64{vector, 1}) {
		try(Params{Vector: e})
	}
	return a.first(all, length)
}

// first returns those of all that can be applied to rows of length elements, or why none can.
func (a *analysis) first(all []Params, length int64) ([]Params, error) {
	if len(all) == 0 {
		f := a.g.Fusion
		return nil, scheduler.Refused(f, name, "row too long", a.facts.reference,
			"the rows of %s have %d elements, for which the registers of a block have no room", f.Name(a.facts.reference), length)
	}
	return a.attempts.First(all, all[len(all)-1])
}

// fit completes p for count rows of length elements, and reports whether they fit.
func (a *analysis) fit(p *Params, length, count int64, device scheduler.Device) bool {
	e := p.Vector
	vectors := max(scheduler.CeilDiv(length+p.before(), e), 1)
	p.Threads = 1
	for p.Threads < min(warp, vectors) {
		p.Threads *= 2
	}
	most := min(mostThreads, int64(device.Threads))
	few := max(fewElements, fewVectors*e)
	switch read, _ := a.space.Traffic(1); {
	case p.Aligned && length <= fewAligned*block && (a.isCommon() || !device.HasMany(count*warp/block)):
		few = fewAligned
	case p.Aligned:
		few = alignedElements
	case e == alignedPair && read*e <= pairBytes:
		few = pairElements
	}
	for p.Threads < most && p.Threads >= warp && scheduler.CeilDiv(vectors, p.Threads)*e > few {
		p.Threads *= 2
	}
	steps := scheduler.CeilDiv(vectors, p.Threads)
	if steps*e*a.facts.words > mostWords || steps > mostSteps {
		return false
	}
	p.Steps = buckets.Of(steps)
	_, moved := a.space.Traffic(1)
	p.Rows = a.rowsOf(*p, count, moved*length, device)
	return p.capacity() >= length
}

// isCommon reports whether rows have inputs in common.
func (a *analysis) isCommon() bool {
	return slices.ContainsFunc(a.space.Tensors, func(t space.Tensor) bool { return a.space.IsCommon(&t, len(a.space.Order)-1) })
}

// chooseSort returns the choice for count rows of length elements that are sorted, or why
// there is none.
func (a *analysis) chooseSort(length, count int64, device scheduler.Device) ([]Params, error) {
	capacity := int64(1)
	for capacity < length {
		capacity *= 2
	}
	p := Params{Vector: min(capacity, sortElements), Steps: 1}
	p.Threads = capacity / p.Vector
	// Two arrays of records are exchanged, and elements take no more than one.
	if p.Threads > int64(device.Threads) || capacity*a.facts.record > mostRecords || 3*capacity*a.facts.record > int64(device.Shared) {
		f := a.g.Fusion
		return nil, scheduler.Refused(f, name, "row too long", a.facts.reference,
			"the rows of %s have %d elements, and a block sorts %d at most", f.Name(a.facts.reference), length, min(mostRecords/a.facts.record, sortElements*int64(device.Threads)))
	}
	p.Rows = a.rowsOf(p, count, sortedBytes, device)
	return a.attempts.First([]Params{p}, p)
}

// sortedBytes of a row that is sorted are taken to be so many that its block need not move more: it takes longer than
// a block to begin.
const sortedBytes = 1 << 20

// rowsOf returns the rows of a block, of which each moves so many bytes.
func (a *analysis) rowsOf(p Params, count, bytes int64, device scheduler.Device) int64 {
	if len(a.space.Order) == 1 {
		return 1
	}
	threads := int64(block)
	if p.Threads < warp {
		threads = smallRows
	}
	return scheduler.Row{Threads: p.Threads, Bytes: bytes}.OfBlock(count, threads, mostThreads, device)
}
