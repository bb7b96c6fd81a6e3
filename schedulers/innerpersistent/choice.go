package innerpersistent

import (
	"slices"

	"nvfuser_go/schedulers/outerpersistent"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// What is known of rows in registers of an H100.
const (
	fewElements   = 32       // of a thread, of whatever it holds
	mostElements  = 64       // that it may have where a warp has a row, or an exchange computes little
	alignedVector = 2        // elements of a step that begins where memory is aligned
	leastSectors  = 32       // of a row, at least, whose steps begin with one
	sectorSteps   = 18       // of a thread then, at most, of pairs that nothing exponential is computed of, or of single elements of 4 bytes
	sectorThreads = 256      // from which on it may have so many of the latter
	wideSteps     = 8        // of a thread, if each is one element of 4 bytes or more: a warp covers a line with it
	leastSteps    = 16       // of a thread that it may have, if each is one element
	mostSteps     = 32       // the same, if they load few bytes
	stepBytes     = 64       // that a thread loads for its row, where it has more than the least
	mostRows      = 8        // of a block, of which a multiple may be known
	leastVectors  = 4        // of each of 8 threads of a row, at least, where there are twice as many
	leastSingles  = 8        // the same of single elements of 4 bytes and more
	leastPairs    = 5        // the same of pairs that begin where memory is aligned
	leastNarrow   = 3        // the same of these of each of fewer threads
	warp          = 32       // threads up to which a row needs no barrier
	shortRow      = 2048     // elements up to which a warp has a row
	block         = 128      // threads of a block, at least
	smallRows     = 128      // the same of rows that are less than a warp's
	warpRows      = 64       // the same of rows of a warp, in vectors
	aloneBytes    = 128      // that a thread holds, from which on a warp is a block
	aloneRows     = 128      // of a processor, at least, where it is
	spreadThreads = 512      // of a processor, at most, that few rows get
	spreadSteps   = 2        // of a thread of them, at least
	largeBlock    = 512      // threads up to which a row has more of them rather than more elements for each
	joinedBlocks  = 3        // of a processor, at least, where they have half the threads
	smallBlocks   = 32       // the same where these are less than those of a block of a cluster
	apartThreads  = 256      // of a block whose loads wait for what is reduced before, at least
	pairRegisters = 80       // of a thread that has two rows, at most
	alignedPairs  = 64       // threads of a row, at most, of which each has two that begin where memory is aligned
	pairedThreads = 8        // of a row, at least, of which each has two
	pairedSteps   = 3        // of each, at most, where a warp has several rows
	pairThreads   = 64       // of a block, at least, where a thread has two rows
	pairRows      = 32       // blocks of a processor, at least, where a thread has two rows
	registers     = 64 << 10 // of a processor
	baseRegisters = 32       // that a thread has beside what it holds
	mostRegisters = 128

	soonRegisters     = 160 // of a thread that loads before a row is reduced what it needs after, at most
	repeatedRegisters = 24  // of those, at most, for what some rows have in common, where blocks have whole rows

	// warpResident blocks of a processor let a warp with a row of single elements have 72
	// registers. Not told so, ptxas takes 48, and a softmax of 65536 x 1023 bfloat16 90.5 us
	// rather than 89.6.
	warpResident = 6

	clusterThreads = 256       // of a block of a cluster, at least
	clusterBytes   = 32 << 10  // that a block of it holds in registers, where it may have more blocks
	sharedBytes    = 64 << 10  // the same in shared memory: three blocks a processor, so that some load while others compute
	largeBytes     = 104 << 10 // the same before a cluster is larger than portable: two blocks a processor. The backward of a batch norm with 98 KB took 121 us so, and 143 in twice as many blocks
	thirdBytes     = 74 << 10  // the same for three blocks a processor at most
	smallPart      = 48 << 10  // the same of rows that are tested for their end, for which small blocks are enough where a step has several loads
	widePart       = 52 << 10  // the same of elements of 4 bytes
	sharedElements = 64        // of a thread's part of a row there, of all inputs: half or twice as many cost a tenth and more
	sharedThreads  = 512       // of a block then, at most
	sharedLoads    = 3         // of a step that large blocks have at most, where several are of what rows have in common
	landedSteps    = 8         // of a thread then, at most, where the first phase begins with those that have landed
	stepsAhead     = 2         // steps whose loads of what rows have in common are under way then
	idleSteps      = 7         // of so many one may be idle for two rows a thread
	accessBytes    = 16        // of a load at most
	onePassThreads = 1024      // of all blocks of a cluster: their warps have a mean and a variance for each lane of one
	wholeThreads   = 4096      // the same, if the numbers of elements are known
	exchangeBytes  = 6 << 10   // of shared memory that threads may need to exchange what they reduce
)

// buckets are the numbers of steps of a thread that kernels are made for: rows of similar
// lengths share one, in which an eighth of the steps may be idle. Tests of what is beyond
// the end of a row are in the steps that may be idle, and in the last one.
var buckets = scheduler.Buckets{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 48, 56, 64}

// bucketsOf returns those buckets whose steps are so many at a time: 0, 1, 2 or 4.
func bucketsOf(ahead int64) scheduler.Buckets {
	return slices.DeleteFunc(slices.Clone(buckets), func(steps int64) bool { return ahead > 1 && steps%ahead != 0 })
}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	all, err := a.rank(device, true)
	if err != nil {
		return nil, err
	}
	if a.isAcross(all[0]) && outerpersistent.Turns(a.g) {
		return nil, scheduler.Refused(a.g.Fusion, name, "turned", a.facts.reference,
			"some tensors lie in memory along the rows that are reduced to %s and others across them, which threads with columns move in vectors all", a.g.Fusion.Name(a.facts.reference))
	}
	if a.facts.isMoments && !a.areShort(all[0], device) {
		return nil, scheduler.Refused(a.g.Fusion, name, "persistence", a.facts.reference,
			"no element is needed after its row is reduced, but for a variance, and %d rows of %d elements are not held faster for that than read once", a.rows.Count, a.rows.Length)
	}
	if all[0].Cluster > int64(device.Portable) { // the device may have no room for it
		device.Cluster = device.Portable
		if portable, err := a.rank(device, true); err == nil {
			all = append(all[:1], portable...)
		}
	}
	if all[0].Piece > 0 {
		if others, err := a.rank(device, false); err == nil {
			all = append(all[:1], others...)
		}
	}
	if p := all[0]; p.Aligned == 0 && p.Piece == 0 && len(a.across()) > 0 {
		p.Across = true
		all = slices.Insert(all, 0, p)
	}
	return a.attempts.First(all, all[len(all)-1])
}

// isAcross reports whether some tensor with an element for each point is moved element by element, where others are not.
func (a *analysis) isAcross(p Params) bool {
	isSingle, isWide := false, false
	for k, w := range a.rows.Pitch(max(p.Vector, 2)).Widths {
		if a.rows.IsFull(&a.rows.Tensors[k]) {
			isSingle, isWide = isSingle || w == 1, isWide || w > 1
		}
	}
	return isSingle && isWide
}

// rank returns the parameters to try, the best first, or why there are none; with rows as pieces, if those may be.
func (a *analysis) rank(device scheduler.Device, pieces bool) ([]Params, error) {
	var all []Params
	for _, price := range persistence.Prices {
		if p, ok := a.fit(price, device, pieces); ok {
			a.spread(&p, device)
			a.pair(&p, device)
			a.gather(&p, device)
			if all = append(all, p); a.isRoomy(p) {
				break
			}
		}
	}
	if len(all) == 0 {
		f, h := a.g.Fusion, a.facts.held[holding{persistence.Tight, true, false}]
		return nil, scheduler.Refused(f, name, "row too wide", a.facts.reference,
			"the rows that are reduced to %s have %d elements, of each of which %d bytes are held: the registers of a block, or of a cluster if there are, have no room for so many", f.Name(a.facts.reference), a.rows.Length, h.bytes)
	}
	slices.Reverse(all) // the last one is the first that leaves registers free
	a.join(&all[0], device)
	single := all[0]
	single.Vector, single.Steps, single.Shared, single.Piece, single.Ahead = 1, 0, false, 0, 0
	single.Early, single.Aligned = single.Early && single.Aligned == 0, 0
	if single.Steps = scheduler.CeilDiv(a.rows.Length, single.Threads*single.Cluster); single.Steps > mostElements {
		single.Threads = min(int64(device.Threads), single.Threads*scheduler.CeilDiv(single.Steps, mostElements))
		single.Steps = scheduler.CeilDiv(a.rows.Length, single.Threads*single.Cluster)
	}
	single.Steps, single.Rows, single.Each = buckets.Of(max(single.Steps, 1)), 1, 1
	if single != all[0] && single.capacity() >= a.rows.Length { // needs nothing to be known of sizes
		all = append(all, single)
	}
	for k := range all {
		all[k].Whole = a.isWhole(all[k])
		all[k].Resident = a.resident(all[k])
		all[k].Once = a.isOnce(all[k])
		all[k].Soon = a.isSoon(all[k])
	}
	return all, nil
}

// isWhole reports whether rows have as many elements as all steps of p: nothing is tested for
// the end of a row then. A test costs more than its instructions, as loads under a condition
// are kept behind others. Where a thread has many elements in registers, that leaves room: all
// loads of weights at once spill in a layer norm of 2048 elements.
func (a *analysis) isWhole(p Params) bool {
	most := int64(fewElements)
	if a.facts.isMoments {
		most = filledElements
	}
	return p.Aligned == 0 && p.Piece == 0 && (p.Shared || p.Steps*p.Vector <= most) && a.rows.Piece == a.rows.Length && p.capacity() == a.rows.Length
}

// isSoon reports whether what rows read after they are reduced, and do not all have in common, is loaded before: nobody waits for it
// then. In us on an H200 (second cache dirty and clean), loaded last and first, and a copy: layer norms of bfloat16 and of another
// tensor that is added, of 1024 columns 62.6 / 57.9, 57.4 / 54.3, 61.6 / 56.9, of 2048 70.4 / 64.7, 58.8 / 53.7, 61.3 / 57.4, of 8192 68.5 / 62.5,
// 58.3 / 53.9, 59.6 / 54.8, of 16384 70.8 / 65.2, 58.9 / 54.3, 59.4 / 55.4, of 8192 float32 65.6 / 60.4, 57.2 / 53.6, 59.0 / 54.8; an RMS norm of
// 8192 with a gate 66.4 / 62.1, 60.3 / 56.8, 59.3 / 54.9; a softmax of 2048 with a mask 59.9 / 55.5, 51.5 / 47.5, 50.6 / 46.3.
// Layer norms that images modulate, of 64 x 1024 x 1152 100.5 / 96.1, 78.7 / 75.2, 77.2 / 73.8, of 2048 columns 90.1 / 86.1, 78.2 / 76.0, of 3072 89.9 /
// 85.6, 84.4 / 79.9, of 8192 94.5 / 90.6, 86.8 / 83.5, but of 4096, whose 128 threads have 32 elements each, 86.9 / 82.9, 98.4 / 93.3, and
// rotary embeddings of normalised heads of 64, which less than a warp has, 100.2 / 97.3, 106.7 / 102.9.
func (a *analysis) isSoon(p Params) bool {
	if a.facts.soon == 0 || p.Shared || p.Piece > 0 || p.Cluster > 1 || p.Aligned > 0 || p.Each > 1 || p.Vector == 1 {
		return false
	}
	e := p.Steps * p.Vector
	more := e * a.facts.soon / 4
	if a.facts.isRepeated && (p.Threads < warp || p.Whole && p.Threads > warp && more > repeatedRegisters) {
		return false
	}
	return baseRegisters+e*a.facts.held[p.holding()].bytes/4+more <= min(soonRegisters, registers/max(p.Threads*p.Rows, block))
}

// fit returns the parameters with the fewest threads a row that have room for the rows.
func (a *analysis) fit(price persistence.Price, device scheduler.Device, pieces bool) (Params, bool) {
	length := max(a.rows.Length, 1)
	p := Params{Vector: min(a.step(), length), Price: price, Cluster: 1, Each: 1}
	for p.Vector > 1 && (p.Vector < length && p.Vector*2 > length || a.rows.Piece < length && a.rows.Piece%p.Vector != 0) {
		p.Vector /= 2
	}
	if pieces && a.inPiece(&p, device) {
		return p, true
	}
	if a.inThread(&p, device) {
		p.Rows = a.rowsOf(p, device)
		return p, true
	}
	if q := p; a.inPairs(&q) && a.inBlock(&q, device) || a.inSectors(&q) && a.inBlock(&q, device) && a.isResident(q) {
		q.Rows = a.rowsOf(q, device)
		return q, true
	}
	if a.inBlock(&p, device) {
		if q, ok := a.fitShared(p, 1, device); ok && device.Cluster > 1 && p.Threads > sharedThreads && a.rows.Count >= int64(device.Processors) {
			return q, true
		}
		a.fill(&p, device)
		p.Rows = a.rowsOf(p, device)
		return p, true
	}
	if p, ok := a.fitShared(p, 2, device); ok {
		return p, true
	}
	if q := p; a.inPairs(&q) && a.inCluster(&q, device) {
		return q, true
	}
	return p, a.inCluster(&p, device)
}

// step returns how many elements a step has: as many as an access of an input has, if there is nothing to
// store beside results of rows.
func (a *analysis) step() int64 {
	e := a.rows.Cheapest(a.rows.Kept, 1).Elements
	if a.facts.isMoments {
		e = min(e, a.rows.Widest(a.rows.Kept))
	}
	return e
}

// inCluster gives the rows of p blocks of a cluster, and reports whether their registers have
// room for them.
func (a *analysis) inCluster(p *Params, device scheduler.Device) bool {
	length, h := max(a.rows.Length, 1), a.facts.held[p.holding()]
	vectors := scheduler.CeilDiv(length+p.before(), p.Vector)
	for p.Cluster = 2; 2*p.Cluster <= int64(min(device.Cluster, device.Portable)) && length*h.bytes > p.Cluster*clusterBytes; {
		p.Cluster *= 2
	}
	for ; p.Cluster <= int64(device.Cluster); p.Cluster *= 2 {
		if p.Threads, p.Rows = clusterThreads, 1; a.widen(p, h, vectors, device) {
			return true
		}
	}
	return false
}

// inPairs lets p, which has steps of single elements, have steps of pairs that begin where memory is
// aligned, and reports whether rows can have such.
func (a *analysis) inPairs(p *Params) bool {
	if p.Vector > 1 || a.rows.KeptDimensions == 0 || a.rows.Piece != a.rows.Length || !a.rows.Aligns(a.rows.Kept, alignedVector) {
		return false
	}
	p.Vector, p.Aligned = alignedVector, alignedVector
	return true
}

// inSectors lets steps of p begin with the sectors of memory where rows do not, and reports whether
// that is faster: no sector is read or written by two warps then, but some elements of the first
// step are idle. A softmax of narrow elements gains nothing where a warp has a row, 65536 x 1022
// bfloat16 67.7 / 64.7 us on an H200 and 69.2 / 65.8 so, nor with accesses of 8 bytes.
func (a *analysis) inSectors(p *Params) bool {
	if p.Aligned > 1 || a.rows.KeptDimensions == 0 || a.rows.Piece != a.rows.Length {
		return false
	}
	if a.facts.isOnline && a.isNarrow() && (p.Vector > alignedVector || a.rows.Length <= shortRow) {
		return false
	}
	p.Aligned = a.rows.Sector(a.rows.Kept, p.Vector)
	return p.Aligned > 0 && a.rows.Length >= leastSectors*p.Aligned
}

// isResident reports whether several blocks of p, whose steps begin with sectors, are on a processor, and so
// whether rows are rather in registers than in shared memory: a softmax of 4096 x 16386 bfloat16 takes
// 74.2 / 72.2 us on an H200 with 9 steps of 1024 threads, 92.6 / 90.0 from shared memory.
func (a *analysis) isResident(p Params) bool {
	return p.Threads <= sharedThreads || a.isNarrow() && p.Steps <= sectorSteps/2
}

// isNarrow reports whether some elements have less than 4 bytes.
func (a *analysis) isNarrow() bool {
	return slices.ContainsFunc(a.rows.Tensors, func(t space.Tensor) bool { return t.Bytes < 4 })
}

// inBlock gives the rows of p threads of a block, and reports whether they have room for them.
func (a *analysis) inBlock(p *Params, device scheduler.Device) bool {
	vectors := scheduler.CeilDiv(max(a.rows.Length, 1)+p.before(), p.Vector)
	p.Threads = 1
	for p.Threads < min(warp, vectors) && a.shareSteps(*p)*p.Threads <= vectors {
		p.Threads *= 2
	}
	for most := a.soleSteps(p); p.Threads > 1 && vectors <= p.Threads/2*most; {
		p.Threads /= 2
	}
	return a.widen(p, a.facts.held[p.holding()], vectors, device)
}

// shareSteps returns how many steps each of p's threads of a row has at least, where there are twice as many. In us on an H200
// (second cache dirty and clean), with more threads, and a copy of as many bytes: a softmax of 520192 x 129 bfloat16 87.4 / 86.3,
// 124.2 / 124.2, 71.3 / 66.7, a layer norm 95.7 / 94.0, 137.8 / 137.3, 70.0 / 66.3, of 4473924 x 15 143.8 / 142.9, 169.6 / 169.5,
// 70.6 / 67.5, of 1016800 x 33 float32 78.6 / 79.6, 96.1 / 94.4, 66.1 / 63.3.
func (a *analysis) shareSteps(p Params) int64 {
	isSingle := p.Vector == 1 && !a.isNarrow()
	isPair := p.Aligned > 0 && !p.isInSectors()
	switch {
	case p.Threads < 8 && (isSingle || isPair):
		return leastNarrow
	case p.Threads < 8:
		return 0
	case isSingle:
		return leastSingles
	case isPair:
		return leastPairs
	}
	return leastVectors
}

// fitShared returns the parameters with which blocks, of a cluster or at least one, have
// room for rows in shared memory, which threads fill by asynchronous copies of 4 bytes at
// least.
func (a *analysis) fitShared(p Params, least int64, device scheduler.Device) (Params, bool) {
	p.Shared, p.Rows, p.Price = true, 1, persistence.Tight
	h, pitch := a.facts.held[p.holding()], a.rows.Pitch(p.Vector)
	for k, t := range a.rows.Tensors {
		if !t.IsOutput && !t.IsResized() && slices.Contains(h.again, t.Place) && t.Bytes*pitch.Widths[k] < 4 {
			return p, false
		}
	}
	bytes := a.bytesAgain(p)
	row := bytes * a.rows.Length
	for p.Cluster = least; 2*p.Cluster <= int64(device.Cluster) && row > p.Cluster*sharedBytes && (p.Cluster < int64(device.Portable) || row > p.Cluster*largeBytes); {
		p.Cluster *= 2
	}
	for p.Threads = clusterThreads; 2*p.Threads <= min(sharedThreads, int64(device.Threads)) && int64(len(h.again))*a.rows.Length > p.Cluster*p.Threads*sharedElements; {
		p.Threads *= 2
	}
	common := scheduler.CeilDiv(a.facts.shared*p.Vector, accessBytes) // loads of a step
	if p.Ahead = 0; common > 0 {
		p.Ahead = stepsAhead
	}
	p.Steps = a.sharedSteps(p)
	switch {
	case common+int64(len(h.again)) > sharedLoads && common > 1 || a.isWide(p):
		p.Threads = clusterThreads
		p.Steps = a.sharedSteps(p)
	case common > 1 && !a.isWhole(p):
		p = a.tested(p, row, device)
	}
	isRoomy := func(p Params) bool {
		return bytes*p.Steps*p.Threads*p.Vector*p.Each <= int64(device.Shared)-exchangeBytes
	}
	p = a.pairShared(p, device)
	if q := p; a.inLines(&q) && isRoomy(q) {
		p = q
	}
	return p, bytes > 0 && p.Cluster <= int64(device.Cluster) && isRoomy(p) && p.capacity() >= a.rows.Length && a.registersOf(p) <= min(mostRegisters, registers/p.Threads)
}

// tested returns the parameters for rows of so many bytes that are tested for their end, of which steps have several loads of
// what rows have in common: one step at a time, which blocks take in turn. Small blocks are enough for small parts of a row. Where
// that leaves no step out, or elements are wide, two steps at a time take no longer if rows begin with lines.
func (a *analysis) tested(p Params, row int64, device scheduler.Device) Params {
	small := p
	small.Threads = clusterThreads
	small.Steps = a.sharedSteps(small)
	isSmall := a.rows.Count >= int64(device.Processors) && (row <= p.Cluster*smallPart || row <= p.Cluster*widePart && !a.isNarrow())
	q := small
	if q.Ahead = 0; !isSmall {
		q.Threads = min(sharedThreads, int64(device.Threads))
	}
	q.Steps = a.sharedSteps(q)
	isInLines := a.rows.KeptDimensions > 0 && a.rows.Line(a.rows.Kept) > 0
	if !isInLines && (isSmall && q.Steps == small.Steps || !isSmall && !a.isNarrow()) {
		return small
	}
	return q
}

// inLines lets steps of p, whose rows are in shared memory, begin with the lines of the second cache where rows do not, and
// reports whether they can: no line is read or written by two warps then.
func (a *analysis) inLines(p *Params) bool {
	if p.Each > 1 || a.rows.KeptDimensions == 0 || a.rows.Piece != a.rows.Length {
		return false
	}
	p.Aligned = a.rows.Line(a.rows.Kept)
	p.Steps = a.sharedSteps(*p)
	return p.Aligned > 0
}

// sharedSteps returns the steps of the threads of p.
func (a *analysis) sharedSteps(p Params) int64 {
	n := scheduler.CeilDiv(scheduler.CeilDiv(max(a.rows.Length, 1)+p.before(), p.Vector), p.Threads*p.Cluster)
	if n <= buckets[len(buckets)-1] {
		n = bucketsOf(p.Ahead).Of(n)
	}
	return n
}

// isWide reports whether some input that rows have in common takes several loads for a step of p.
func (a *analysis) isWide(p Params) bool { return a.facts.widest*p.Vector > accessBytes }

// pairShared gives threads two rows of shared memory at a time, in twice the blocks of a cluster, so that blocks
// have as much of them as of one: where loads of what rows have in common are several for a step, half as many are
// left, and few more steps are idle. In us on an H200, with two rows and with one, of layer norms of bfloat16 with
// weights of float32: 8192 x 32768 268.2 / 265.1 and 284.9 / 281.9, 4096 x 65536 276.8 / 273.4 and 294.4 / 292.1,
// 4096 x 65528 315.4 / 313.1 and 352.5 / 351.4, 3000 x 40000, with a fifth of the steps idle, 152.8 / 148.9 and 141.3 /
// 138.5; an RMS norm of 4096 x 65536 257.9 / 255.1 and 271.6 / 268.0. With weights of bfloat16 it is slower: 4096 x 65536
// 274.3 / 270.9 and 268.8 / 265.5, 4471 x 60032 294.8 / 292.7 and 278.6 / 275.9; of float32 they take as long.
func (a *analysis) pairShared(p Params, device scheduler.Device) Params {
	q := p
	q.Threads, q.Cluster, q.Each = clusterThreads, 2*p.Cluster, 2
	q.Steps = a.sharedSteps(q)
	isFaster := a.isWide(p) && idleSteps*(q.capacity()-p.capacity()) <= p.capacity()
	if !isFaster || a.rows.KeptDimensions == 0 || q.Cluster > int64(min(device.Cluster, device.Portable)) || a.rows.Count < int64(device.Processors) {
		return p
	}
	return q
}

// bytesAgain is what an element of a row has of the inputs that are in shared memory with p.
func (a *analysis) bytesAgain(p Params) (bytes int64) {
	for _, t := range a.rows.Tensors {
		if !t.IsOutput && !t.IsResized() && slices.Contains(a.facts.held[p.holding()].again, t.Place) {
			bytes += t.Bytes
		}
	}
	return bytes
}

// resident returns how many blocks of a processor the registers of p are to leave room for; 0:
// any number. Where a step has several loads beside its row, a compiler takes what would fit two
// blocks of 512 threads for more of them, or has them wait for each other: a layer norm of 2048 x
// 131072 bfloat16 takes 292 us on an H200 so, 280 with room for the three that shared memory has.
// Of 256 threads it takes fewer registers than there are, to the same effect: a layer norm of 2048 x 32768
// float32 takes 174.3 / 168.4 with 37 of them, 131.1 / 128.3 with 80. Where two inputs are in shared memory
// more are of no use: a layer norm of a sum of 2048 x 65536 bfloat16 takes 212.2 / 207.7 with 40, 219.7 /
// 216.5 with 80. Where rows are tested for their end there is room for as many large blocks as shared memory has: a layer norm
// of 4471 x 60032 bfloat16 takes 278.6 / 275.9 so, 288.2 / 285.8 with room for two, an RMS norm of 4067 x 33000 135.6 / 133.0,
// 144.1 / 141.0 if nothing is said; small ones take as few as they need, one of 6710 x 40000 273.4 / 270.5, 277.0 /
// 273.8 with room for four and 303.2 / 300.6 for five. Steps that begin with lines take more where means and variances are reduced
// together as they land, or of elements of 4 bytes: with room for two and for three blocks one of 4800 x 28008 takes 141.2 / 138.8 and 149.3 /
// 146.7, of 1118 x 60008 float32 148.6 / 145.8 and 163.6 / 161.2, but of 1118 x 120008
// bfloat16 162.3 / 160.7 and 153.1 / 149.2, of 4096 x 65528 295.6 / 293.9 and 290.6 / 290.7.
// Of moments alone it has the loads of some rows of a thread wait for others, if it is not told.
func (a *analysis) resident(p Params) int64 {
	if a.facts.isMoments && p.Each > 1 && p.Aligned == 0 {
		return gatheredThreads / (p.Rows * p.Threads)
	}
	isTested, isSmall := !p.Whole && p.Each == 1, p.Threads < sharedThreads
	isOne := len(a.facts.held[p.holding()].again) == 1
	switch {
	case !p.Shared || a.facts.shared == 0 || isSmall && !isOne:
		return 0
	case isTested && (isSmall || !isOne) || !isTested && a.facts.shared*p.Vector <= accessBytes:
		return 0
	}
	takesMore := p.Aligned > 0 && (p.isOnePass() && p.Steps <= landedSteps || !a.isNarrow())
	if !takesMore && a.bytesAgain(p)*p.Steps*p.Threads*p.Vector*p.Each <= thirdBytes {
		return 3
	}
	return 2
}

// widen gives a row twice the threads in a block until they have room for it.
func (a *analysis) widen(p *Params, h held, vectors int64, device scheduler.Device) bool {
	length := max(a.rows.Length, 1)
	for ; p.Threads <= int64(device.Threads); p.Threads *= 2 {
		p.Steps = buckets.Of(scheduler.CeilDiv(vectors, p.Threads*p.Cluster))
		most := int64(fewElements)
		if p.Threads == warp && length <= shortRow {
			most = mostElements
		}
		if p.isInSectors() {
			most = max(most, sectorSteps*alignedVector)
		}
		most = min(most, a.mostSteps(*p)*p.Vector)
		e := p.Steps * p.Vector
		if p.Vector > 1 || p.Threads >= warp || a.isNarrow() { // else a row is short, and has few elements anyway
			most /= max(h.registers, 1)
		}
		if most = max(most, p.Vector); e > most || p.capacity() < length {
			continue
		}
		if a.registersOf(*p) <= min(mostRegisters, registers/max(p.Threads, block)) {
			a.halve(p)
			return true
		}
	}
	return false
}

// mostSteps returns how many steps a thread has at most. Of softmax in bfloat16, of 1,023
// columns, a warp a row is faster (96.4 us, two warps 97.2); of what loads more for each
// element two warps are: a layer norm 103 and 114; and of single elements of 4 bytes four:
// softmax in float32 185 us, with two 187, with one 193. Where steps begin with sectors they have one
// more, and long rows of such elements and those of norms rather twice the steps than the threads.
func (a *analysis) mostSteps(p Params) int64 {
	switch isNarrow := a.isNarrow(); {
	case p.isInSectors() && isNarrow && !a.facts.isOnline:
		return sectorSteps * alignedVector / p.Vector
	case p.isInSectors() && !isNarrow && p.Threads >= sectorThreads:
		return sectorSteps
	case p.Threads < largeBlock && !isNarrow:
		return max(wideSteps+min(p.before(), 1), a.soleSteps(&p))
	case p.Aligned > 1:
		return leastSteps
	}
	read, _ := a.rows.Traffic(1)
	return min(max(stepBytes/max(read+a.facts.shared, 1), leastSteps), mostSteps)
}

// halve gives a row of a block twice the threads with half the elements each, where none
// is idle: that leaves registers for loads. Not where steps begin where memory is aligned,
// unless an exchange computes much: of a layer norm of 8192 x 8191 bfloat16 an element takes
// 24.6 instructions with 512 threads and 19.6 with 256, and it is instructions that bound.
func (a *analysis) halve(p *Params) {
	isWhole := p.Aligned > 0 || p.capacity() == a.rows.Length
	if !isWhole || p.Cluster > 1 || p.Threads <= warp || p.Aligned > 1 && !a.facts.isOnline || p.isInSectors() && !a.isNarrow() {
		return
	}
	for p.Threads < largeBlock && 2*p.Steps*p.Vector > fewElements && p.Steps%2 == 0 {
		p.Threads, p.Steps = 2*p.Threads, p.Steps/2
	}
}

// join gives rows that are read in vectors half the threads, with more elements each, as long as these have registers,
// where an exchange computes little: more blocks are on a processor then, of which some load while others exchange,
// and fewer steps are idle. In us on an H200 (second cache dirty / clean), of layer norms of as many rows of bfloat16 as
// have 134 MB, with half the elements for a thread at most and so: of 4608 columns 78.3 / 74.1 and 67.9 / 65.1, 6656
// 105.0 / 100.0 and 67.9 / 63.0, 8192 72.5 / 69.6 and 66.8 / 63.2, 10240 86.1 / 82.4 and 67.5 / 64.8, 12288 79.6 / 78.1 and
// 68.7 / 64.4, of 16384 float32 73.4 / 71.2 and 67.7 / 64.5, with weights of float32 of 8192 91.9 / 88.0 and 69.2 / 65.7; a
// softmax backward of 8192 77.8 / 74.2 and 66.5 / 63.7. RMS norms take as long. A softmax of 12288 takes 66.9 / 63.3, and 73.7 /
// 69.4 so; a layer norm of 2048 x 4096 13.3 / 11.5 with 256 threads, and 14.2 / 11.9 with 128.
func (a *analysis) join(p *Params, device scheduler.Device) {
	if a.facts.isOnline || a.facts.isMoments || p.Cluster > 1 || p.Shared || p.Piece > 0 || p.Aligned > 0 || p.Each > 1 || !a.isInVectors(*p) || a.rows.Count < joinedBlocks*int64(device.Processors) {
		return
	}
	held := max(a.facts.held[p.holding()].registers, 1)
	for p.Threads > clusterThreads || p.Threads > block && a.rows.Count >= smallBlocks*int64(device.Processors) {
		steps := buckets.Of(scheduler.CeilDiv(scheduler.CeilDiv(a.rows.Length, p.Vector), p.Threads/2))
		if steps*p.Vector*held > mostElements {
			break
		}
		p.Threads, p.Steps = p.Threads/2, steps
	}
	p.Rows = a.rowsOf(*p, device)
	p.Apart = p.Threads >= apartThreads && p.Steps*p.Vector == mostElements && p.capacity() == a.rows.Length && a.isNarrow()
}

// isInVectors reports whether some input has steps of p in accesses as wide as there are.
func (a *analysis) isInVectors(p Params) bool {
	return slices.ContainsFunc(a.rows.Tensors, func(t space.Tensor) bool { return !t.IsOutput && t.Bytes*p.Vector == accessBytes })
}

// registersOf estimates the registers of a thread.
func (a *analysis) registersOf(p Params) int64 {
	held := a.facts.held[p.holding()].registers
	if !p.Shared {
		held = max(held, 1)
	}
	return baseRegisters + p.Steps*p.Vector*held
}

// isRoomy reports whether what p holds costs no threads that would hide the time that
// memory takes.
func (a *analysis) isRoomy(p Params) bool { return a.registersOf(p) <= 80 }

// spread gives few rows more threads, with less to do for each, and loads early what is
// needed last: no other rows of a processor hide what a thread waits for. Where an exchange
// computes much, as that of sums of exponentials, more of them take as long as they save.
func (a *analysis) spread(p *Params, device scheduler.Device) {
	most := int64(device.Processors) * spreadThreads
	if p.Cluster > 1 || a.rows.Count*p.Threads > most {
		return
	}
	vectors := scheduler.CeilDiv(max(a.rows.Length, 1)+p.before(), p.Vector)
	for !a.facts.isOnline && p.Steps > spreadSteps && p.Threads < int64(device.Threads) && 2*a.rows.Count*p.Threads <= most {
		p.Threads *= 2
		p.Steps = buckets.Of(scheduler.CeilDiv(vectors, p.Threads))
	}
	p.Rows = a.rowsOf(*p, device)
	more := scheduler.CeilDiv(p.Steps*p.Vector*a.facts.shared, 4)
	p.Early = more > 0 && a.registersOf(*p)+more <= registers/max(p.Threads, block)
}

// pair gives a thread two rows at a time where what rows have in common is loaded one by
// one, before they are reduced and once for both, if there are registers and rows enough. A
// layer norm of 65,536 rows of 1,023 bfloat16 takes 98.7 us so, 101.9 with two rows or one
// and 100.6 with one where that is loaded early. Of vectors of two or more one row is faster,
// but of those that begin where memory is aligned, as what rows have in common is loaded one
// by one there too, and as long as few threads have a row: of 16384 x 4095 two rows of 256
// threads take 118 us on an H200, where single elements take 91. The rows of a thread have one
// phase then, that of every second row, and a block as many as another: of 2 columns a layer norm takes 10841 us
// in blocks of 4 threads.
func (a *analysis) pair(p *Params, device scheduler.Device) {
	e, most := p.Steps*p.Vector, int64(pairRegisters)
	if p.Aligned > 1 {
		most = mostRegisters
	}
	more := e*max(a.facts.held[p.holding()].registers, 1) + scheduler.CeilDiv(e*a.facts.shared, 4)
	if !a.isPaired(*p) || a.registersOf(*p)+more > most || a.rows.Count < pairRows*int64(device.Processors)*p.Rows {
		return
	}
	if p.Each, p.Early = 2, true; p.Aligned > 1 {
		_, moved := a.rows.Traffic(1)
		row := scheduler.Row{Threads: p.Threads, Bytes: moved * a.rows.Length * p.Each}
		p.Rows = row.Enlarge(max(pairThreads/p.Threads, p.Vector), a.rows.Count/p.Each, largeBlock, device)
	}
}

// isPaired reports whether what rows of p have in common is loaded one by one, and so that it takes longer than what a thread
// with two rows is idle. In us on an H200 (second cache dirty and clean), with one row and with two: of single elements of 4
// bytes a layer norm of 1016800 x 33 78.6 / 79.6 and 83.9 / 81.9, its backward of 508400 x 33 62.3 / 56.9 and 85.2 / 79.9, of
// two inputs; of pairs of bfloat16 a layer norm of 1032444 x 65 with 8 threads 101.6 / 101.2, with 16 139.2 / 139.1 and
// 127.6 / 126.9, of 2164802 x 31 with 8 132.8 / 131.2 and 121.5 / 120.8.
func (a *analysis) isPaired(p Params) bool {
	if p.Cluster > 1 || p.Shared || a.facts.shared == 0 || !a.isNarrow() || a.rowInputs() > 1 {
		return false
	}
	if p.Threads < pairedThreads || p.Threads < warp && p.Steps > pairedSteps {
		return false
	}
	return !p.isInSectors() && (p.Vector == 1 || p.Aligned > 0 && p.Threads <= alignedPairs)
}

// isAlone reports whether a warp with a row is a block of its own: where warps hold so much that registers
// have room for no more of them than a processor has for blocks, 32, and none waits for another to make room then.
// In us on an H200, with one and with two rows: of 32768 x 2048 bfloat16 an RMS norm 67.3 / 64.4 and 69.7 / 65.5, a
// layer norm 68.6 / 65.4 and 69.6 / 65.5, a softmax 68.7 / 65.7 and 69.6 / 66.0, of x 2046 72.7 / 68.7 and
// 73.5 / 69.7; of 32768 x 1024 float32 67.9 / 64.8 and 69.0 / 65.4. Of those that hold less there are fewer then: a
// softmax of 43690 x 1536 bfloat16 takes 68.3 / 65.0 and 67.4 / 63.8. So are there of few rows: an RMS norm of 4096 x
// 2048 takes 13.2 / 11.6 and 12.6 / 11.1.
func (a *analysis) isAlone(p Params, device scheduler.Device) bool {
	held := p.Steps * p.Vector * a.facts.held[p.holding()].bytes
	return p.Threads == warp && p.Vector > 1 && held >= aloneBytes && a.rows.Count >= aloneRows*int64(device.Processors)
}

// rowsOf returns the rows of a block.
func (a *analysis) rowsOf(p Params, device scheduler.Device) int64 {
	threads := int64(block)
	switch {
	case p.Threads < warp:
		threads = smallRows
	case a.isAlone(p, device):
		threads = warp
	case p.Threads == warp && p.Vector > 1:
		threads = warpRows
	}
	bytes := a.rows.Bytes() / max(a.rows.Count, 1)
	return scheduler.Row{Threads: p.Threads, Bytes: bytes * p.Each}.OfBlock(a.rows.Count/p.Each, threads, largeBlock, device)
}
