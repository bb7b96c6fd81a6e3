package sim

import "maps"

// What orders two accesses, happens-before, comes from tokens alone and never
// from the order in which the simulator takes its steps:
//
//   - two accesses of one thread are in program order;
//   - a block barrier orders all accesses of its block before it before those
//     after it; a warp barrier does so for its warp, one of groups
//     for the threads with the same index along z. A shuffle orders nothing;
//   - a grid barrier does so for all blocks;
//   - between blocks, a fence after a thread's accesses, then its atomic on a
//     word, then another thread's atomic on that word, then a fence: what the
//     first fence saw comes before what follows the second. That is the release
//     and acquire pattern of relaxed atomics in the memory model of PTX.
//
// A fence of smaller scope orders nothing here: within a block only barriers
// do. The atomics on a word agree on an order; a plain write of the thread that
// was the last of them comes after all, which is how a counter is reset.
//
// Barriers concern whole blocks and warps, so a vector of clocks per warp
// would hold one number: time between barriers is the epoch of a block, and
// within it the phase of its groups and the turn of a warp.

// A span is a stretch of time of a warp: no barrier or fence is in it.
type span struct {
	block, epoch, phase, warp, turn int32
}

// startSpan begins a new span of a warp, in the same turn.
func (b *block) startSpan(warp int32) {
	b.m.spans = append(b.m.spans, span{b.number, b.epoch, b.phase, warp, b.turn[warp]})
	b.span[warp] = uint32(len(b.m.spans) - 1)
}

func (b *block) startTurn(warp int32) {
	b.startSpan(warp)
	b.turnStart[warp] = b.span[warp]
}

// ordered reports whether an access of a thread in a span is ordered before
// what a thread of this block does now. Nothing is ordered before all.
func (b *block) ordered(at uint32, thread uint16, lane int32) bool {
	if thread == noThread {
		return true
	}
	old := &b.m.spans[at]
	if old.block == b.number {
		return int32(thread) == lane || old.epoch != b.epoch || old.warp == lane>>5 && old.turn != b.turn[old.warp] ||
			old.phase != b.phase && b.group(old.warp) == b.group(lane>>5)
	}
	return b.knows(lane, old.block) > old.epoch || b.knowsThread(lane, blockThread{old.block, thread}) >= at ||
		b.knowsThread(lane, blockThread{old.block, allOf(old.warp)}) >= at
}

// A clock is a set of accesses of several blocks that come before something.
type clock struct {
	epochs  map[int32]int32        // of a block: all accesses in epochs below
	threads map[blockThread]uint32 // of a thread: all its accesses in spans up to this
}

type blockThread struct {
	block  int32
	thread uint16 // or all of a warp
}

// allOf stands for all threads of a warp.
func allOf(warp int32) uint16 { return 1<<15 | uint16(warp) }

// join returns the union of two clocks, which do not change. nil is empty.
func join(a, b *clock) *clock {
	if a == nil || a == b {
		return b
	} else if b == nil {
		return a
	}
	c := &clock{maps.Clone(a.epochs), maps.Clone(a.threads)}
	c.add(b)
	return c
}

// add adds what is in b to c, which nobody else has yet.
func (c *clock) add(b *clock) {
	for k, e := range b.epochs {
		c.epochs[k] = max(c.epochs[k], e)
	}
	for k, s := range b.threads {
		c.threads[k] = max(c.threads[k], s)
	}
}

// A publication is the state of a thread in the exchange with other blocks.
type publication struct {
	known    *clock // comes before what the thread does now, beside block.known
	released *clock // came before its last fence
	pending  *clock // comes before what follows its next fence
}

func (b *block) publication(lane int32) *publication {
	if b.publications == nil {
		b.publications = map[int32]*publication{}
	}
	p := b.publications[lane]
	if p == nil {
		p = &publication{}
		b.publications[lane] = p
	}
	return p
}

// knows returns the epoch of another block below which all accesses are ordered
// before what a thread does now.
func (b *block) knows(lane, other int32) int32 {
	var e int32
	if b.known != nil {
		e = b.known.epochs[other]
	}
	if p := b.publications[lane]; p != nil && p.known != nil {
		e = max(e, p.known.epochs[other])
	}
	return e
}

func (b *block) knowsThread(lane int32, k blockThread) uint32 {
	var s uint32
	if b.known != nil {
		s = b.known.threads[k]
	}
	if p := b.publications[lane]; p != nil && p.known != nil {
		s = max(s, p.known.threads[k])
	}
	return s
}

// fence is executed by a thread, for the scope of the grid.
func (b *block) fence(lane int32) {
	p := b.publication(lane)
	p.known = join(p.known, p.pending)
	own := &clock{map[int32]int32{b.number: b.epoch}, map[blockThread]uint32{
		{b.number, uint16(lane)}:     b.span[lane>>5],
		{b.number, allOf(lane >> 5)}: b.turnStart[lane>>5] - 1, // before the last barrier of the warp
	}}
	p.released = join(join(b.known, p.known), own)
}

// exchange is an atomic operation of a thread on a word of memory.
func (b *block) exchange(lane int32, m *memory, address int64) {
	p, w := b.publication(lane), word{m, address}
	p.pending = join(p.pending, b.m.published[w])
	b.m.published[w] = join(b.m.published[w], p.released)
}

type word struct {
	m       *memory
	address int64
}

// syncBlock ends an epoch of the block.
func (b *block) syncBlock() {
	b.shareKnown(-1)
	b.epoch++
	for w := range b.span {
		b.startTurn(int32(w))
	}
}

// syncGroups ends a phase of the block.
func (b *block) syncGroups() {
	b.phase++
	for w := range b.span {
		b.startTurn(int32(w))
	}
}

// group returns the index along z of the threads of a warp, where groups wait apart.
func (b *block) group(warp int32) int64 { return int64(warp) * 32 / (b.m.dim[0] * b.m.dim[1]) }

// inGroup reports whether warps, as bits, are all of the group of one of them.
func (b *block) inGroup(warps uint32, warp int32) bool {
	for w := range int32(b.m.warps) {
		if warps>>w&1 > 0 && b.group(w) != b.group(warp) {
			return false
		}
	}
	return true
}

// syncWarp ends a turn of a warp.
func (b *block) syncWarp(warp int32) {
	b.shareKnown(warp)
	b.turn[warp]++
	b.startTurn(warp)
}

// shareKnown tells all threads of a warp, or of the block if warp is -1, what
// one of them knows.
func (b *block) shareKnown(warp int32) {
	if b.publications == nil {
		return
	}
	var all *clock
	for l := range int32(b.m.threads) {
		if p := b.publications[l]; p != nil && (warp < 0 || l>>5 == warp) {
			all = join(all, p.known)
		}
	}
	switch {
	case all == nil:
	case warp < 0:
		b.known = join(b.known, all)
	default:
		for l := warp * 32; l < min(warp*32+32, int32(b.m.threads)); l++ {
			b.publication(l).known = all
		}
	}
}
