package pointwise

import (
	"slices"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// What is known of streams of memory on an H100.
const (
	largeBlock  = 256      // threads of a block
	smallBlock  = 128      // the same of a small segment
	largePoints = 4 << 20  // from which a segment is not small
	fewPoints   = 1 << 18  // up to which loops of one dimension do as well as two
	blockBytes  = 4 << 10  // that a block moves at least, where there are more
	flightBytes = 16 << 10 // that threads of a processor have asked for at a time, at least
	fullFlight  = 24 << 10 // what is aimed at where it is less
	residents   = 2048     // threads of a processor
	mostUnroll  = 4
)

// What is looked up element by element waits for its position and then for itself: a thread has
// several under way, and a block has so many that those of a row meet what others of it have
// read in the first cache. On an H200 (dirty / clean, us) 4096 rows of as many float32 take
// 71 / 66, with blocks of 256 threads and 8 steps 78 / 73, with two a thread 96 / 93, a copy 68 / 65.
const (
	lookupBlock = 512 // threads of a block
	lookups     = 8   // of a thread
)

// leastGain is the share of the cost that loops of two dimensions must save, and blocks that go along
// rows first: up to that others are as fast or faster.
const leastGain = 0.01

// manyShifts is from how many inputs on that are read at other rows, likely those of one tensor, blocks of several rows read
// them from the first cache: a causal convolution of four of 8 x 4096 x 2048 bfloat16 takes 84.4 / 82.3 us on an H200 so and
// 99.2 / 95.2 with a row a block, a copy 66.8 / 63.3.
const manyShifts = 3

// rowsOfStep is how many rows a thread has, unless sharing matters more.
const rowsOfStep = 2

// storedBytes are those that a thread stores at least, where it has room for more steps.
const storedBytes = 16

// heavyWork is how many additions for each byte that is moved bound a kernel as much as
// memory does: its threads do better with two steps, and without taking indices apart.
const heavyWork = 5

// narrowest is the row, in steps, from which a nest of two dimensions has it to
// itself; shorter ones share a warp.
const narrowest = 32

// A planner chooses parameters for a space.
type planner struct {
	*space.Space
	work   float64 // for each element, in additions
	points int64   // of all that the kernel computes
	device scheduler.Device
	cache  int64 // bytes of the second cache
	wholes []int // places from which on a step may have all
}

// choose returns the parameters for p, the best first: those of the cheapest pitch
// in one dimension and in two, and of fewer elements a step where there are few.
func (p planner) choose() []Params {
	flat := p.Cheapest(0, 1)
	all := []Params{p.flat(flat)}
	if whole, q := p.cheapestWhole(flat); q.Whole > 0 {
		flat, all = whole, slices.Insert(all, 0, q)
	}
	broken := p.cheapestBroken(flat)
	isLarge := broken.Groups > 0 || p.Size(0, len(p.Extents)) > fewPoints
	if broken.Break > 0 && isLarge {
		all = slices.Insert(all, 0, broken)
	}
	if small := p.spread(flat); small.Elements < flat.Elements && broken.Groups == 0 {
		all = slices.Insert(all, 0, p.flat(small))
	}
	if broken.Break > 0 && !isLarge {
		all = append(all, broken)
	}
	if single := p.flat(space.Pitch{Elements: 1}); !slices.Contains(all, single) { // needs nothing to be known of sizes
		all = append(all, single)
	}
	return all
}

// beside returns the parameters for tensors that have nothing in common, in loops of one dimension, the best first.
func beside(each []planner) []Params {
	best := flatBeside(each, func(p planner) space.Pitch { return p.spread(p.Cheapest(0, 1)) })
	if single := flatBeside(each, func(planner) space.Pitch { return space.Pitch{Elements: 1} }); single != best {
		return []Params{best, single} // which needs nothing to be known of sizes
	}
	return []Params{best}
}

// flatBeside returns the parameters of loops of one dimension for each, with the pitch that of returns.
func flatBeside(each []planner, of func(planner) space.Pitch) Params {
	var q Params
	for k, p := range each {
		x := p.flat(of(p))
		if k == 0 {
			q = x
			continue
		}
		q.Threads = max(q.Threads, x.Threads)
		q.Others[k-1] = Steps{x.Unroll, x.Vector}
	}
	return q
}

// cheapestBroken returns the parameters of the nest of two dimensions that costs least, if that is
// less than what flat costs; else none.
func (p planner) cheapestBroken(flat space.Pitch) (broken Params) {
	again := p.Reread(p.cache)
	best := (flat.Cost + again) * (1 - leastGain)
	switch {
	case p.isHeavy():
		best = flat.Cost + again
	case p.Shifts() >= manyShifts:
		best = (flat.Cost + again) * (1 + leastGain)
	}
	consider := func(q Params, again float64) {
		in := p.ordered(q)
		h := in.Cheapest(q.Break, rowsOfStep)
		if cost := h.Cost*in.waste(q.Break, h.Elements) + again; cost < best {
			best, broken = cost, in.broken(q.Break, h)
			broken.Before = q.Before
		}
	}
	for _, k := range p.Breaks() {
		consider(Params{Break: k}, again)
	}
	for _, r := range p.Repeats() {
		q := Params{Break: r.End - r.Begin, Before: r.Begin}
		in := p.ordered(q)
		h := in.Cheapest(q.Break, mostUnroll)
		n, isEnough := in.throughRows(q.Break, h)
		less, gain := q.across(p.Space).Reread(p.cache), 0.0
		if isEnough {
			gain = p.gainThrough(r)
		}
		if again-less+gain <= flat.Cost*leastGain || n.Unroll == 0 {
			continue
		}
		if cost := h.Cost + less - gain; cost < best {
			best, broken = cost, n
			broken.Before = q.Before
		}
	}
	return broken
}

// cheapestWhole returns the pitch and parameters of the nest whose steps have some of the innermost axes whole that costs least,
// if that is less than what flat costs; else none.
func (p planner) cheapestWhole(flat space.Pitch) (best space.Pitch, q Params) {
	best = flat
	for _, k := range p.wholes {
		for e := 2 * p.Size(k, len(p.Order)); e <= mostWhole; e *= 2 {
			if h := p.WholePitch(k, e); h.Cost < best.Cost*(1-leastGain) {
				best, q = h, p.flat(h)
				q.Whole = len(p.Order) - k
			}
		}
	}
	return best, q
}

// mostWhole is how many elements steps have at most that have some of the innermost axes whole.
const mostWhole = 16

// ordered returns p with its places in the order of q.
func (p planner) ordered(q Params) planner {
	p.Space, p.wholes = q.arrange(p.Space), nil
	return p
}

// isHeavy reports whether instructions bound the segment.
func (p planner) isHeavy() bool {
	_, moved := p.Traffic(1)
	return p.work >= heavyWork*float64(moved)
}

// spread returns h with fewer elements a step as long as that brings work to
// processors without and accesses do not get narrow.
func (p planner) spread(h space.Pitch) space.Pitch {
	widest := int64(1)
	for _, t := range p.Tensors {
		widest = max(widest, t.Bytes)
	}
	for h.Elements > 1 && h.Elements*widest > 4 && p.points/h.Elements < int64(p.device.Processors*smallBlock) {
		h.Elements /= 2
	}
	return h
}

// flat returns the parameters of a nest of one dimension.
func (p planner) flat(h space.Pitch) Params {
	e := h.Elements
	q := Params{Threads: smallBlock, Unroll: 1, Vector: e}
	if p.points < largePoints {
		return q
	}
	q.Threads = largeBlock
	if p.Scatters(h) {
		q.Threads, q.Unroll = lookupBlock, min(max(lookups/e, 1), mostUnroll)
		return q
	}
	read, moved := p.Traffic(e)
	switch flight := residents * read; {
	case read == 0:
		q.Unroll = mostUnroll
	case flight < flightBytes:
		for q.Unroll < mostUnroll && q.Unroll*flight < fullFlight {
			q.Unroll *= 2
		}
	}
	for q.Unroll < mostUnroll && q.Unroll*q.Threads*moved < blockBytes {
		q.Unroll *= 2
	}
	if stored := moved - read; stored > 0 && stored < storedBytes || p.isHeavy() {
		q.Unroll = max(q.Unroll, 2)
	}
	return q
}

// broken returns the parameters of a nest of two dimensions with a break at k.
func (p planner) broken(k int, h space.Pitch) Params {
	q := Params{Threads: p.columns(k, h.Elements), Unroll: rowsOfStep, Vector: h.Elements, Break: k}
	if h.Fixed > 0.5 {
		q.Unroll = mostUnroll
	}
	block := int64(largeBlock)
	if p.Size(0, len(p.Extents)) < largePoints {
		block = smallBlock
	}
	q.Rows = max(block/q.Threads, 1)
	for rows := p.Size(0, k); q.Rows > 1 && q.Rows*q.Unroll > rows; {
		q.Rows /= 2
	}
	return q
}

// columns returns how many threads lie along the places from k on: for short rows
// a power of two that is enough, so that rows of similar lengths share a kernel,
// else what leaves the fewest without work.
func (p planner) columns(k int, e int64) int64 {
	steps := scheduler.CeilDiv(p.Size(k, len(p.Extents)), e)
	if steps <= narrowest {
		n := int64(1)
		for n < steps {
			n *= 2
		}
		return n
	}
	best, idle := int64(0), int64(0)
	for _, n := range []int64{128, 256, 64, 96, 160, 192, 224} {
		if i := scheduler.CeilDiv(steps, n)*n - steps; best == 0 || i < idle {
			best, idle = n, i
		}
	}
	return best
}

// waste returns how many times the threads with work there are threads in a nest
// with a break at k, counted as far as they cost: idle ones wait for no memory.
func (p planner) waste(k int, e int64) float64 {
	steps := scheduler.CeilDiv(p.Size(k, len(p.Extents)), e)
	n := p.columns(k, e)
	return 1 + 0.1*(float64(scheduler.CeilDiv(steps, n)*n)/float64(max(steps, 1))-1)
}
