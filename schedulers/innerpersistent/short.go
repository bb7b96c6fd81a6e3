package innerpersistent

import (
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// What is known of short rows on an H200: those that a thread or some threads of a warp have.
const (
	filledThreads  = 8  // of a row, at most, of which some may have nothing to do
	filledSteps    = 5  // of a thread, at most, that has them so that no thread is idle
	filledElements = 40 // the same where rows are reduced alone

	mostSingles   = 5  // elements of a row, at most, that a thread loads one by one and stores
	onlineSingles = 3  // the same of 4 bytes that exponentials are computed of
	soleSingles   = 15 // the same where rows are reduced alone

	mostGathered    = 4    // rows of a thread at a time
	gatheredBytes   = 64   // that it loads for them, at most, where rows are reduced alone
	gatheredThreads = 1024 // of a processor then, at least
	leastPassed     = 128  // bytes of a step of all threads of a row whose loads take no place in the first cache then, at least: a line
	mostPassed      = 512  // the same of the row, at most

	shortThreads = 256 // of a row that is reduced to a mean and a variance alone, at most
	soleThreads  = 8   // the same of single elements
	pairSteps    = 8   // of a thread with pairs that begin where memory is aligned, at least, if it is not alone
)

// inThread gives a thread the rows of p, if there are many of a few single elements each. In us on an H200 (second cache
// dirty and clean), and in pairs that begin where memory is aligned, and a copy of as many bytes: of 22369621 rows of 3
// bfloat16 a softmax 110.2 / 110.1, 212.4 / 210.9, 71.0 / 66.9, a layer norm 110.1 / 110.4, 198.1 / 197.8, 66.2 / 64.1; of
// 13421772 rows of 5 118.0 / 119.7, 268.4 / 266.8, 70.8 / 67.1 and 118.8 / 118.3, 243.0 / 243.1. What threads have of more
// elements lies too far apart: of 7 170.4 / 171.2 with two threads of pairs, 233.8 / 231.0 with one.
func (a *analysis) inThread(p *Params, device scheduler.Device) bool {
	most := int64(mostSingles)
	switch {
	case a.facts.isMoments:
		most = soleSingles
	case a.facts.isOnline && !a.isNarrow(): // of 5 float32 165.5 / 165.3 so, 118.0 / 117.0 with two threads
		most = onlineSingles
	}
	if a.isFew(1, device) || p.Vector > 1 || a.rows.Length < 2 || a.rows.Length > most || a.rows.Piece != a.rows.Length {
		return false
	}
	p.Threads, p.Steps = 1, a.rows.Length
	return true
}

// fill gives short rows of p, of which there are many, fewer threads, if on average a quarter of them have nothing to do
// in a step, and fewer then. In us on an H200, and with more threads, and a copy of as many bytes: of rows of 48 bfloat16 a
// softmax takes 129.0 / 125.5 with two threads, 147.6 / 145.4 with eight, 134.0 / 129.5, a layer norm 128.7 / 125.4 and
// 145.0 / 141.3; a variance and mean of 24 columns 76.0 / 68.8 with one thread, 87.4 / 82.8 with four, 75.8 / 72.6, of 40
// 78.9 / 72.9, 100.4 / 96.8, 74.3 / 70.4, of 96 74.5 / 69.5, 76.8 / 72.5, 71.2 / 67.7. What one thread stores of a row are
// parts of sectors, and what few do where rows do not begin with a sector: a softmax of 24 columns takes 185.1 / 185.1 with
// one and 146.7 / 143.9, an RMS norm of 40 96.1 / 92.7 with two and 78.2 / 75.4. Where two inputs have a row, a softmax's
// backward of 48 takes 53.0 / 48.7 with two and 49.5 / 45.9.
func (a *analysis) fill(p *Params, device scheduler.Device) {
	if a.isFew(p.Threads, device) || p.Aligned > 0 || a.rows.Piece != a.rows.Length || a.rows.Length%p.Vector != 0 || a.rowInputs() > 1 || p.Threads > filledThreads {
		return
	}
	vectors, all := a.rows.Length/p.Vector, p.Threads*p.Steps
	if 4*(all-vectors) < all {
		return
	}
	most, bytes := int64(fewElements), int64(4)
	if a.facts.isMoments {
		most = filledElements
	}
	if a.isNarrow() {
		bytes = 2
	}
	isStored := !a.facts.isMoments
	if isStored && a.rows.Length*bytes%space.SectorBytes != 0 {
		return
	}
	for threads := p.Threads / 2; threads > 0 && !(isStored && threads*p.Vector*bytes < space.SectorBytes); threads /= 2 {
		steps := scheduler.CeilDiv(vectors, threads)
		if steps <= filledSteps && steps*p.Vector <= most && threads*steps < p.Threads*p.Steps {
			p.Threads, p.Steps = threads, steps
		}
	}
}

// isFew reports whether rows of so many threads each are few, of which [analysis.spread] gives each more.
func (a *analysis) isFew(threads int64, device scheduler.Device) bool {
	return a.rows.Count*threads < int64(device.Processors)*spreadThreads
}

// rowInputs returns how many inputs have an element for each of a row, of each row.
func (a *analysis) rowInputs() (n int) {
	for k := range a.rows.Tensors {
		t := &a.rows.Tensors[k]
		if !t.IsOutput && !t.IsConstant(0, a.rows.Kept) && !t.IsConstant(a.rows.Kept, len(a.rows.Order)) {
			n++
		}
	}
	return n
}

// soleSteps returns up to how many steps a thread of a row of p has rather than there are more threads: narrow accesses
// take few bytes an instruction, so where a row is reduced alone few threads exchange. A var_mean of 1052688 x 255
// bfloat16 takes 139.5 / 133.1 us on an H200 with 8 threads a row, 143.5 / 137.2 with 16, 220.2 / 217.1 with 32, of 1016800 x
// 33 float32 47.8 / 43.6 with 4, 50.9 / 44.5 with 2, 79.8 / 80.3 with 8.
func (a *analysis) soleSteps(p *Params) int64 {
	switch {
	case !a.facts.isMoments || p.isInSectors():
	case p.Vector == 1:
		return wideSteps + 1
	case p.Aligned > 0:
		return leastSteps
	}
	return 0
}

// gather gives a thread several rows next to each other where a warp or less has a row, if nothing is stored beside what
// they are reduced to: the steps of their exchanges and their loads do not wait for each other, and their results are
// stored at once. In us on an H200 (second cache dirty and clean), of 4194304 rows of 64 bfloat16: with one row a thread
// 170.8 / 165.2, with four 139.6 / 133.3, stored at once 138.4 / 132.1, with all loads first and past the first cache
// 138.0 / 126.6; with the moments of parts merged 182.4 / 178.4, a copy 137.7 / 133.6. So it does where a row is an access of few
// bytes: a softmax of 33554432 rows of 2 bfloat16 takes 82.3 / 82.5 with four, 124.2 / 120.5 with one, a copy 67.6 / 63.3. And two
// where a quarter of the threads have nothing to do: of 40 columns an RMS norm takes 68.3 / 67.2 with two and 78.2 / 75.4 with one, a copy 70.3 / 66.2.
func (a *analysis) gather(p *Params, device scheduler.Device) {
	if p.Cluster > 1 || p.Shared || p.Piece > 0 || p.Aligned > 1 || p.Threads > warp {
		return
	}
	if a.gatherAlike(p, device) {
		return
	}
	read, _ := a.rows.Traffic(p.Steps * p.Vector)
	most, bytes := int64(mostGathered), int64(gatheredBytes)
	all := p.Threads * p.Vector
	switch isIdle := 4*(all-a.rows.Length) >= all; {
	case a.facts.isMoments:
	case p.Steps > 1 || p.Each > 1:
		return
	case p.Threads == 1:
		bytes = accessBytes
	case !isIdle || !a.isNarrow() || a.rowInputs() > 1:
		return
	default:
		most, bytes = 2, 2*accessBytes
	}
	for 2*p.Each <= most && 2*p.Each*read <= bytes && device.HasMany(a.rows.Count/(2*p.Each*p.Rows)) {
		p.Each *= 2
		p.Rows = a.rowsOf(*p, device)
	}
	if a.facts.isMoments && p.Each > 1 {
		row := scheduler.Row{Threads: p.Threads, Bytes: read * p.Threads * p.Each}
		p.Rows = row.Enlarge(p.Rows, a.rows.Count/p.Each, 2*block, device)
	}
}

// gatherAlike gives a thread an access of each of several rows next to each other, if those have inputs in common that not all rows have,
// and reports whether it does: those are loaded and converted once. In us on an H200 (second cache dirty and clean), of rotary
// embeddings of normalised heads, of which those of a token have sines and cosines in common: of 64 with one row a thread 102.5 / 97.2, with two
// 87.3 / 82.5, with four 77.5 / 73.9, a copy 67.9 / 65.4; of 128 with two accesses of each row 93.6 / 89.4, of one row 84.6 / 82.2,
// of two 80.0 / 76.6, of four 74.1 / 71.0, a copy 68.8 / 63.9.
func (a *analysis) gatherAlike(p *Params, device scheduler.Device) bool {
	alike := a.alike()
	if q := *p; alike > 1 && !a.facts.isMoments && q.Each == 1 && a.isInVectors(q) {
		for q.Steps%2 == 0 && q.Threads < warp {
			q.Threads, q.Steps = 2*q.Threads, q.Steps/2
		}
		held := 2 * q.Vector * max(a.facts.held[q.holding()].registers, 1) // of a row
		for q.Steps == 1 && q.capacity() == a.rows.Length && 2*q.Each <= mostGathered && baseRegisters+2*q.Each*held <= mostRegisters && alike%(2*q.Each) == 0 && device.HasMany(a.rows.Count/(2*q.Each*q.Rows)) {
			q.Each *= 2
			q.Rows = a.rowsOf(q, device)
		}
		if q.Each > 1 {
			*p = q
		}
	}
	return p.Each > 1
}

// alike returns how many rows next to each other have an input in common that not all rows have; 1: none.
func (a *analysis) alike() int64 {
	last := a.rows.Kept - 1
	for k := range a.rows.Tensors {
		t := &a.rows.Tensors[k]
		if last >= 0 && !t.IsOutput && !t.IsTable() && t.IsConstant(last, a.rows.Kept) && !t.IsConstant(0, a.rows.Kept) && !t.IsConstant(a.rows.Kept, len(a.rows.Order)) {
			return a.rows.Size(last, a.rows.Kept)
		}
	}
	return 1
}

// areShort reports whether rows of which means and variances alone are needed are reduced faster by p, in two passes,
// than in one. Threads that have some of few rows each are faster in one, and two threads with a vector each: a
// var_mean of 16 columns takes 159.7 / 152.5 us so and 181.0 / 175.3 in two passes. Of single elements that many threads have, and
// of few pairs of a thread that begin where memory is aligned, it is not known.
func (a *analysis) areShort(p Params, device scheduler.Device) bool {
	isSingle := p.Vector == 1 && p.Threads > soleThreads || p.Aligned > 0 && p.Steps < pairSteps && p.Threads > 1
	isTwo := p.Threads == 2 && p.Steps == 1
	return p.Cluster == 1 && !p.Shared && !isSingle && !a.isFew(p.Threads, device) && !isTwo && p.Threads <= shortThreads
}

// isOnce reports whether loads of rows that are reduced to means and variances alone are to take no place in the first
// cache: see [scheduler.PassFirstCache]. Of steps of less than a line, or in narrow accesses, two share a sector: 8388608 rows
// of 32 bfloat16 take 144.4 / 137.6 us in it and 156.4 / 155.7 past it, 2684354 rows of 100 146.4 / 139.9 and 153.1 / 137.7.
func (a *analysis) isOnce(p Params) bool {
	read, _ := a.rows.Traffic(1)
	row := read * a.rows.Length
	isLine := read*p.Vector >= accessBytes && read*p.Vector*p.Threads >= leastPassed
	return a.facts.isMoments && p.Aligned == 0 && isLine && row <= mostPassed
}
