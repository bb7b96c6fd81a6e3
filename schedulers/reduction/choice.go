package reduction

import (
	"math/bits"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// What is known of reductions on an H100.
const (
	innerBlock   = 128  // threads of a block at least, of an inner reduction
	fewRowsBlock = 512  // the same where several blocks share a row
	largeBlock   = 1024 // of a reduction to one number, and of a row at most
	heavyBlock   = 512  // threads of a row at most whose elements take much to compute: see heavyThreads
	smallBlock   = 256  // the same where each processor has heavyRows of them
	heavyRows    = 16
	joinedRows   = 2        // of a processor, at least, for heavyBlock where rows have something in common
	outerBlock   = 512      // threads of a block of an outer reduction
	fewestLanes  = 8        // of a row
	narrowRow    = 8        // vectors of kept columns that lie in a part of a line or two
	innerFlight  = 64       // bytes that a thread has asked for at a time, at most
	stateFlight  = 128      // the same where states take much to compute, which others do meanwhile
	outerFlight  = 128      // the same of an outer reduction
	blockFlight  = 32 << 10 // bytes that a processor has asked for at a time, at least
	mostUnroll   = 8
	singleUnroll = 9  // the same of single elements of short rows
	shortBytes   = 40 // of a row that a thread has, at most
	mostEach     = 8  // short rows of a thread at a time
	warp         = 32
	// Results of a thread that share what it loads, elements of each at a time, and in all: see innerShared.
	sharedEach, sharedElements, sharedReduced = 8, 8, 1024

	widestVector = 16 // elements
	// Steps that begin where memory is aligned have tests at both ends of a row, which take
	// some 70 instructions of a warp and are written out for each step under way.
	alignedRow     = 256 // elements of a row, at least
	alignedVectors = 8   // of a thread
	alignedUnroll  = 4   // at a time, and one more, at most
	// What rows have in common is loaded one by one then, once for several rows that begin in the same place.
	commonRows    = 4  // of a thread
	commonVectors = 8  // of a thread along a row, at least
	narrowVectors = 2  // times as many elements, and more, as a step has that begins with the row
	mostResident  = 32 // blocks of a processor
	// residentThreads are those of a processor, at least, where blocks are not larger. Not
	// told so, ptxas keeps registers to 32 and has loads of a step wait for each other.
	residentThreads = 512
	// heavyThreads of a processor have 64 registers each. Of blocks of 1024 there is one with
	// more than 32, and with those a cross entropy loads one vector at a time.
	heavyThreads = 1024
	// A thread takes so many vectors of a row, so that merging the parts of threads costs
	// little beside adding the elements up; more where merging costs more, as long as there
	// are as many threads of a processor for all rows.
	rowVectors, stateVectors = 4, 16
	rowElements              = 16 // the same of elements, where vectors have few
	fewestThreads            = 384
	// stateBlock is how many threads a row has at most whose state a thread adds many
	// elements to at once: 82 registers in a var_mean of bfloat16.
	stateBlock = 256
)

// A layout is the space of a segment, whose dimensions are kept or reduced.
type layout struct {
	*space.Space
	isReduced     []bool // by place
	columns       int    // from which place on all are of the kind of the innermost
	isMerged      bool   // what lies along x is all of its kind, without vectors
	kept, reduced int64  // elements; 0 if there are none
	states        int    // that are kept for a result, of all reductions
	isHeavy       bool   // some reduction keeps several for a result, and computes much for an element
	isExact       bool   // parts of results are what the types of the results hold
}

func newLayout(f *core.Fusion, p *space.Space) layout {
	l := layout{Space: p, kept: 1, reduced: 1, isExact: true}
	axes := f.Val(p.Reference).Domain.Logical
	for k, d := range p.Order {
		is := f.Axis(axes[d]).Kind == core.Reduce
		l.isReduced = append(l.isReduced, is)
		if is {
			l.reduced *= p.Extents[k]
		} else {
			l.kept *= p.Extents[k]
		}
	}
	for l.columns = len(p.Order) - 1; l.columns > 0 && l.isReduced[l.columns-1] == l.isReduced[len(p.Order)-1]; {
		l.columns--
	}
	for _, v := range scheduler.Reductions(f) {
		op := f.Expr(f.Val(v).Def).Op
		selects := op == core.MaxOp || op == core.MinOp
		l.states += len(f.Expr(f.Val(v).Def).Out)
		l.isHeavy = l.isHeavy || len(f.Expr(f.Val(v).Def).Out) > 1
		l.isExact = l.isExact && (selects || !f.Val(v).DType.IsReducedFloat())
	}
	return l
}

// isInner reports whether the innermost dimension is reduced.
func (l *layout) isInner() bool { return l.isReduced[len(l.isReduced)-1] }

// along returns how many elements lie along x, of one that lies in the other loops.
func (l *layout) along() int64 {
	switch {
	case !l.isMerged:
		return l.Size(l.columns, len(l.Order))
	case l.isInner():
		return l.reduced
	}
	return l.kept
}

// simplest are parameters that serve every segment.
func (l *layout) simplest() Params {
	if l.isInner() {
		return Params{Inner: true, Lanes: 128, Rows: 1}
	}
	return Params{Lanes: 32, Rows: 8}
}

// pitch returns how p moves the tensors. Vectors are along the columns.
func (l *layout) pitch(p Params) space.Pitch {
	if l.isMerged || p.Inner != l.isInner() {
		return l.PitchOf(len(l.Order), 1, 1)
	}
	if p.Aligned {
		return l.AlignedPitch(l.columns, p.Vector)
	}
	return l.PitchOf(l.columns, p.Width(), 1)
}

// choose returns the parameters, the best first.
func (l *layout) choose(device scheduler.Device) []Params {
	if l.kept == 0 || l.reduced == 0 {
		return []Params{l.simplest()}
	}
	e := int64(1)
	if !l.isMerged {
		e = l.Step(l.columns)
	}
	read, _ := l.Traffic(e)
	var p Params
	var all []Params
	if l.isInner() {
		p = l.inner(e, max(read, 1), max(rowVectors, rowElements/e), device)
		if q, ok := l.innerShared(device); ok {
			all = append(all, q)
		}
		if w := l.aligned(e); w > 0 {
			all = append(all, l.innerAligned(w, max(read*w/e, 1), device))
		}
	} else {
		p = l.outer(e, max(read, 1), device)
	}
	all = append(all, p)
	add := func(q Params) {
		if !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	if e > 1 && p.Blocks > 1 && (p.Inner || p.Lanes == 1) {
		add(l.singly(device))
	}
	if p.Staged { // what is needed beside the elements and beside the results cannot follow both
		p.Staged, p.Blocks = false, 1
		add(p)
	}
	p.Blocks = 1
	add(p)
	add(l.simplest())
	return all
}

// singly returns the parameters for single elements. Vectors are refused down a column of a
// tensor that may have more of them, and where a thread has whole rows and leaves them to
// others; one block would have all of a sum that many are to share then.
func (l *layout) singly(device scheduler.Device) Params {
	read, _ := l.Traffic(1)
	if l.isInner() {
		return l.inner(1, max(read, 1), max(rowVectors, rowElements), device)
	}
	return l.outer(1, max(read, 1), device)
}

// aligned returns how many elements the steps of rows have that begin where memory is aligned;
// 0: they begin with the rows, of e elements each, as little is gained.
func (l *layout) aligned(e int64) int64 {
	isRows := l.isInner() && !l.isMerged && l.along() == l.reduced && l.reduced >= alignedRow
	for w := int64(widestVector); isRows && w > e*narrowVectors; w /= 2 {
		if l.Aligns(l.columns, w) {
			return w
		}
	}
	return 0
}

// inner returns the parameters for vectors of e elements of the reduced columns, for
// which a thread reads so many bytes. least is how many vectors a thread takes of a row, if there are
// threads enough then.
func (l *layout) inner(e, read, least int64, device scheduler.Device) Params {
	along := l.along()
	vectors := scheduler.CeilDiv(along, e) * (l.reduced / along)
	p := Params{Inner: true, Vector: e, Rows: 1, Blocks: 1}
	processors, large := int64(device.Processors), int64(largeBlock)
	switch {
	case l.states > 2:
		large = stateBlock
	case l.isHeavy && l.kept >= heavyRows*processors:
		large = smallBlock
	case l.isHeavy:
		large = heavyBlock
	case l.common() > 0 && l.kept >= heavyRows*processors:
		large = smallBlock
	case l.common() > 0 && l.kept >= joinedRows*processors:
		large = heavyBlock
	}
	if l.kept == 1 {
		p.Unroll = min(floor2(innerFlight/2/read), mostUnroll)
		p.Lanes = min(max(ceil2(vectors), warp), large)
		p.Unroll = clamp(floor2(vectors/p.Lanes), 1, max(p.Unroll, 1))
		for steps := p.Lanes * p.Unroll; p.Lanes > fewRowsBlock && vectors <= processors/2*steps; steps /= 2 { // smaller blocks end sooner
			p.Lanes /= 2
		}
		p.Blocks = share(2*processors, scheduler.CeilDiv(vectors, p.Lanes*p.Unroll))
		return p
	}
	flight := int64(innerFlight)
	if l.states > 2 {
		flight = stateFlight
	}
	most := clamp(floor2(flight/read), 1, mostUnroll)
	p.Lanes = clamp(floor2(vectors/least), min(fewestLanes, ceil2(vectors)), large)
	if l.states > 2 {
		most := p.Lanes
		p.Lanes = clamp(floor2(vectors/stateVectors), min(fewestLanes, most), most)
		for p.Lanes < most && l.kept*p.Lanes < processors*fewestThreads {
			p.Lanes *= 2
		}
	}
	switch {
	case vectors <= 2:
		p.Lanes = 1
	case p.Lanes == innerBlock && e > 1 && l.states == 1: // half as much for twice the threads is 0.4 % faster
		p.Lanes = 2 * innerBlock
	}
	p.Rows = max(innerBlock/p.Lanes, 1)
	for p.Rows > 1 && scheduler.CeilDiv(l.kept, p.Rows) < processors && p.Lanes < vectors { // little to do: rows are done sooner
		p.Rows, p.Lanes = p.Rows/2, 2*p.Lanes
	}
	p.Unroll = clamp(floor2(vectors/p.Lanes), 1, most)
	p.Each = 1
	if !l.isHeavy && device.HasMany(l.kept/innerBlock) {
		l.hasten(&p, vectors, read, most)
	}
	for p.Lanes <= warp && vectors <= p.Lanes*p.Unroll && 2*p.Each*p.Unroll*read <= flight && p.Each < mostEach && device.HasMany(l.kept/(2*p.Each*p.Rows)) {
		p.Each *= 2
	}
	p.Rows = scheduler.Row{Threads: p.Lanes, Bytes: read * vectors * p.Each}.Enlarge(p.Rows, l.kept/p.Each, min(large, heavyBlock), device)
	if p.Rows == 1 && l.kept < processors {
		q := p
		q.Lanes = min(fewRowsBlock, large)
		q.Unroll = clamp(floor2(vectors/q.Lanes), 1, most)
		if q.Blocks = share(2*processors/l.kept, scheduler.CeilDiv(vectors, q.Lanes*q.Unroll)); q.Blocks > 1 {
			return q
		}
	}
	return p
}

// hasten lets threads load all of a short row at once, of which they take vectors of so many bytes, most at a time, and
// fewer threads if these are single elements or few bytes in all. In us on an H200 (second cache dirty and clean), in
// powers of two of steps by 8 threads, and a copy of as many bytes: sums of bfloat16 of 80 columns 41.2 / 34.4, 53.5 / 48.5,
// 38.9 / 36.3, of 96 41.0 / 34.8, 53.6 / 47.0, 40.3 / 37.1, of 100 41.1 / 34.1, 47.1 / 41.7, 39.9 / 36.1, of 3 53.3 / 47.3,
// 108.3 / 105.2, 49.3 / 45.9, of 33 51.4 / 44.8, 73.4 / 70.3, 40.4 / 38.0.
func (l *layout) hasten(p *Params, vectors, read, most int64) {
	steps := func(lanes int64) int64 { return scheduler.CeilDiv(vectors, lanes) }
	if p.Vector == 1 && p.Rows > 1 {
		most = singleUnroll
		for p.Lanes > 1 && p.Lanes <= fewestLanes && steps(p.Lanes/2) <= most {
			p.Lanes, p.Rows = p.Lanes/2, 2*p.Rows
		}
	} else if p.Rows > 1 && vectors*read <= shortBytes {
		p.Lanes, p.Rows = 1, innerBlock
	}
	if n := steps(p.Lanes); p.Lanes <= fewestLanes && n <= most {
		p.Unroll = n
	}
}

// common returns how many bytes for each element of a row the inputs have that all rows have in common.
func (l *layout) common() (bytes int64) {
	for k := range l.Tensors {
		if l.IsCommon(&l.Tensors[k], l.columns) {
			bytes += l.Tensors[k].Bytes
		}
	}
	return bytes
}

// isNarrow reports whether what rows have in common is loaded in narrower accesses than those of steps of e elements that
// begin where memory is aligned.
func (l *layout) isNarrow(e int64) bool {
	for k, w := range l.AlignedPitch(l.columns, e).Widths {
		if w < e && l.IsCommon(&l.Tensors[k], l.columns) {
			return true
		}
	}
	return false
}

// innerAligned returns the parameters for steps of e elements that begin where memory is aligned,
// for which a thread reads so many bytes. A row may have one vector more than its elements, so as
// many steps are under way at a time as leave none idle.
func (l *layout) innerAligned(e, read int64, device scheduler.Device) Params {
	p := l.inner(e, read, alignedVectors, device)
	p.Aligned = true
	vectors := scheduler.CeilDiv(l.reduced+e-1, e)
	if q := p; l.states == 1 && l.isNarrow(e) && l.inCommon(&q, vectors, device) {
		return q
	}
	steps := scheduler.CeilDiv(vectors, p.Lanes*p.Blocks)
	p.Unroll = scheduler.CeilDiv(steps, scheduler.CeilDiv(steps, clamp(p.Unroll, 1, alignedUnroll)+1))
	return p
}

// inCommon lets threads of p have several rows whose vectors, so many of each, begin in the same place, and reports whether there
// are rows enough: what rows have in common is loaded in narrow accesses, once for those of a thread.
func (l *layout) inCommon(p *Params, vectors int64, device scheduler.Device) bool {
	p.Blocks, p.Each, p.Rows = 1, commonRows, p.Vector
	p.Lanes = clamp(floor2(vectors/commonVectors), min(fewestLanes, ceil2(vectors)), warp)
	least := int64(device.Processors) * fewestThreads
	if l.kept*p.Lanes/commonRows < least {
		p.Lanes *= 2
	}
	p.Unroll = clamp(floor2(vectors/(2*commonVectors*p.Lanes)), 1, 2)
	return l.kept*p.Lanes/commonRows >= least && p.Lanes*p.Rows <= heavyBlock
}

// innerShared returns the parameters for threads that have several results along axes where inputs have the same
// elements for all, which are loaded once for those of a thread, if no input has elements for most of what is reduced: distances
// of all pairs of rows, say. A thread has all of each result.
func (l *layout) innerShared(device scheduler.Device) (p Params, ok bool) {
	if read, _ := l.Traffic(1); read > 0 || l.isMerged || l.along() != l.reduced || l.states > 1 {
		return p, false
	}
	for _, r := range l.Repeats() {
		if r.End < l.columns { // the others lie along threads
			p.Shared = r
		}
	}
	beside := l.Size(p.Shared.End, l.columns)
	if !p.shares() || beside < warp/2 || l.reduced > sharedReduced {
		return p, false
	}
	p.Inner, p.Vector, p.Lanes, p.Rows, p.Unroll, p.Blocks = true, l.sharedVector(), 1, clamp(ceil2(beside), warp, innerBlock), 1, 1
	tiles := l.Size(0, p.Shared.Begin) * scheduler.CeilDiv(beside, p.Rows) // of one result of each thread
	for p.Each = sharedEach; p.Each > 1; p.Each /= 2 {
		if n := tiles * scheduler.CeilDiv(l.Size(p.Shared.Begin, p.Shared.End), p.Each); n >= int64(device.Processors) {
			p.Tiles = max(innerBlock/p.Rows, 1)
			return p, true
		}
	}
	return p, false
}

// sharedVector returns the elements of a step where a thread has all of several results: single ones but where some
// input is loaded in vectors.
func (l *layout) sharedVector() int64 {
	e := int64(1)
	for e < sharedElements && l.reduced%(2*e) == 0 {
		e *= 2
	}
	if slices.Max(l.PitchOf(l.columns, e, 1).Widths) == 1 {
		return 1
	}
	return e
}

// share returns how many blocks share work of so many steps of a block. Few are a power
// of two, so that rows of similar lengths share a kernel.
func share(most, steps int64) int64 {
	if steps >= most {
		return max(most, 1)
	}
	return max(floor2(steps), 1)
}

// outer returns the parameters for vectors of e elements of the kept columns, for which
// a thread reads so many bytes.
func (l *layout) outer(e, read int64, device scheduler.Device) Params {
	along := l.along()
	vectors, outside := scheduler.CeilDiv(along, e), l.kept/along
	p := Params{Vector: e, Lanes: lanes(vectors), Blocks: 1}
	flight, block := int64(outerFlight), int64(outerBlock)
	switch {
	case l.states > 2: // which take the registers
		flight /= 2
	case e > 1 && l.states == 1 && vectors <= narrowRow && l.reduced >= int64(device.Processors)*largeBlock: // few blocks share all rows: larger ones are 1.5 % faster
		flight, block = flight/2, largeBlock
	}
	p.Unroll = min(clamp(floor2(flight/read), 1, mostUnroll), ceil2(l.reduced))
	p.Rows = min(floor2(block/p.Lanes), ceil2(scheduler.CeilDiv(l.reduced, p.Unroll)))
	for p.Lanes*p.Rows < innerBlock && p.Lanes*2 <= vectors && p.Lanes%warp == 0 { // few rows: more columns
		p.Lanes *= 2
	}
	processors := int64(device.Processors)
	tiles := scheduler.CeilDiv(vectors, p.Lanes) * outside
	p.Staged = l.isExact && e > 1 && p.Rows >= e
	// In us on an H200, with a tile a block and with several, and a copy: means of 2 x 2 pixels of 64 x 112 x 56 x 256 bfloat16
	// 123.9 and 65.3, 64.8; sums of 4 x 64 633 and 87.1, 82.2; of 3 x 128 318 and 69.0, 66.8.
	if p.Rows == 1 && tiles > processors {
		p.Tiles = scheduler.Row{Threads: p.Lanes, Bytes: read * p.Lanes * l.reduced}.OfBlock(tiles, innerBlock, outerBlock, device)
	}
	if (p.Staged || e == 1 && p.Rows > 1) && 10*tiles < 9*processors { // else there is a loop of elements around
		p.Blocks = l.splits(p, tiles, read, processors)
	}
	return p
}

// lanes returns how many threads lie along rows of so many vectors: all of a short one,
// so that lanes of neighbouring rows read neighbouring elements, else as many as
// leave few without work.
func lanes(vectors int64) int64 {
	if vectors <= warp {
		return vectors
	}
	best, least := int64(0), 0.0
	for i, n := range []int64{warp, warp / 2, warp / 4} {
		if cost := float64(scheduler.CeilDiv(vectors, n)*n) * (1 + 0.015*float64(i)); best == 0 || cost < least {
			best, least = n, cost
		}
	}
	return best
}

// splits returns how many blocks share the rows of a tile of columns: as many as there
// are processors for, or twice that where a block has asked for too little or would
// leave processors without work.
func (l *layout) splits(p Params, tiles, read, processors int64) int64 {
	most := max(l.reduced/(p.Rows*p.Unroll), 1)
	once, twice := max(processors/tiles, 1), max(2*processors/tiles, 1)
	if p.Lanes*p.Rows*p.Unroll*read < blockFlight || 20*twice*tiles > 21*2*once*tiles {
		once = twice
	}
	return min(once, most)
}

func clamp(n, low, high int64) int64 { return max(min(n, high), low) }

// floor2 returns the largest power of two that is at most n, or 0.
func floor2(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// ceil2 returns the smallest power of two that is at least n.
func ceil2(n int64) int64 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len64(uint64(n-1))
}
