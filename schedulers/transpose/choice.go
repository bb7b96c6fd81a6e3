package transpose

import (
	"slices"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

const (
	pieceBytes  = 256 // of a tile along memory
	leastBytes  = 64  // the same where there is little
	leastTile   = 16  // elements of a tile along either run, at least
	accessBytes = 16
	mostCell    = 8
	mostThreads = 256
	fewThreads  = 64
	heldBytes   = 320     // that a thread has loaded at a time, at most
	leastHeld   = 4       // elements that it has, at least
	fewest      = 1 << 10 // elements that a processor has for tiles to be worth it: what fewer cost is the launch
	mostWhole   = 16      // elements of a run that a thread has all of
)

// nearFrom returns the place from which the loops of the near group follow its memory.
func (l *layout) nearFrom(q Params) int {
	if q.Whole {
		return l.farAt
	}
	return l.nearAt
}

// nearPitch returns how tensors of the near group are moved.
func (l *layout) nearPitch(q Params) space.Pitch {
	if q.Align > 0 {
		return l.rows.AlignedPitch(l.nearFrom(q), q.Vector)
	}
	return l.near.PitchOf(l.nearFrom(q), q.Vector, 1)
}

// access returns the elements of an access to tensors of the far group, up to most: as
// many as all of them allow.
func (l *layout) access(most int64) int64 {
	return slices.Min(l.far.PitchOf(len(l.far.Order)-(l.nearAt-l.farAt), most, 1).Widths)
}

// A planner chooses parameters for a layout.
type planner struct {
	*layout
	device           scheduler.Device
	nearRun, farRun  int64 // elements
	size, far, loads int64 // bytes of the widest far element, of an element of all far tensors, and of all that are loaded
}

func newPlanner(l *layout, device scheduler.Device) *planner {
	p := &planner{layout: l, device: device, size: 1}
	p.nearRun, p.farRun = l.near.Size(l.nearAt, len(l.near.Extents)), l.near.Size(l.farAt, l.nearAt)
	points := l.near.Size(0, len(l.near.Extents))
	for _, t := range l.far.Tensors {
		p.size, p.far = max(p.size, t.Bytes), p.far+t.Bytes
		p.loads += max(t.Bytes, registerBytes/max(l.access(mostCell), 1))
	}
	for k := range l.near.Tensors {
		if t := &l.near.Tensors[k]; !t.IsOutput && t.Elements()*2 > points {
			p.loads += max(t.Bytes, registerBytes/l.near.PitchOf(l.nearFrom(Params{Whole: l.isNearRow}), mostCell, 1).Widths[k])
		}
	}
	return p
}

// choose returns the parameters, the best first.
func (l *layout) choose(device scheduler.Device) []Params {
	p := newPlanner(l, device)
	q := Params{Cell: min(mostCell, accessBytes/p.size), Whole: l.isNearRow}
	q.Access = l.access(q.Cell)
	if q.Whole {
		p.whole(&q)
	} else {
		p.tile(&q)
	}
	q.Vector = min(l.near.Cheapest(l.nearFrom(q), 1).Elements, q.Near*q.Far/q.Threads)
	for !q.Whole && q.Vector > q.Near || q.Near*q.Far%(q.Threads*q.Vector) != 0 {
		q.Vector /= 2
	}
	single := q
	single.Vector, single.Access, single.Cell = 1, 1, 1
	all := []Params{q, single}
	if w := p.window(q); w.Window {
		all = slices.Insert(all, 0, w)
	}
	return slices.Compact(all)
}

// sector returns the elements of the least that memory of near tensors is written by; what is written of less is read first.
func (l *layout) sector() int64 {
	size := int64(1)
	for _, t := range l.near.Tensors {
		size = max(size, t.Bytes)
	}
	return space.SectorBytes / size
}

const mostWidth = 16 // of rows that are aligned, in elements

// window returns parameters with windows where rows on one side at least begin anywhere, or where
// rows that are written begin within sectors and windows are large, and windows can be the tiles of
// all far tensors; else q.
//
// Of what 268 MB with odd sizes took of an H200, in us with the cache dirty and clean, beside a
// copy: in 2 bytes 94.0 / 91.5 by accesses of single elements, 80.6 / 77.5 by windows (70.7 /
// 66.7); in 4 bytes 151.8 / 150.4 and 144.7 / 141.0 (133.7 / 129.2); x + y^T in 2 bytes 124.5 /
// 120.8 and 111.5 / 107.0 (101.5 / 97.6). What that is by: where the pieces that blocks write
// begin within a sector, it is read before each is written. By hand, one tensor in 2 bytes took
// 81.6 / 79.4 with windows of 64 by 64 and 75.2 / 71.4 with those of 128 by 128, one in 4 bytes
// 142.1 / 138.4 and 140.0 / 136.4 with 128 rows; x + y^T took 117.0 and, with 128 by 128, 129.1.
// Of rows that begin within sectors, 8200 x 8200 in 2 bytes took 74.3 / 71.7 without windows and 71.2 / 69.0 by
// them, 8196 x 8196 in 4 150.1 / 147.9 and 135.3 / 132.1, but 4104 x 4104 in 2, by small ones, 22.5 / 20.5 for
// 21.1 / 19.5, and x + y^T 104.8 / 100.4 for 103.2 / 98.7.
func (p *planner) window(q Params) Params {
	w := Params{Near: windowTile, Far: windowTile, Threads: mostThreads, Vector: min(accessBytes/p.size, p.sector()), Access: 1, Cell: 1, Window: true, Resident: windowBlocks}
	if p.isMuch() && p.size == registerBytes {
		w.Resident = muchBlocks
	}
	w.Lanes = w.Near / w.Vector
	w.Last = p.reads() >= readOften*p.device.Cache
	isNarrow, tears := p.alignRows(q, &w)
	outside := p.near.Size(0, p.farAt)
	blocks := func(w *Params) int64 {
		return outside * scheduler.CeilDiv(p.nearRun+max(w.Align, 1)-1, w.Near) * scheduler.CeilDiv(p.farRun, w.Far)
	}
	if !isNarrow && !tears || p.isNearRow || min(p.nearRun, p.farRun) < p.leastRun(&w) || blocks(&w) < int64(2*p.device.Processors) {
		return q
	}
	places := len(p.near.Extents)
	if slices.ContainsFunc(p.layout.far.Tensors, func(t space.Tensor) bool {
		nearEnd := p.farAt + places - p.nearAt // the near run is outside of the far one
		isDense := t.IsDense(p.farAt, nearEnd) && t.IsDense(nearEnd, places)
		return t.IsOutput || t.IsResized() || t.Aligned < accessBytes || !isDense || !p.layout.far.IsFull(&t)
	}) {
		return q
	}
	large := p.larger(w, blocks)
	p.swizzle(&large)
	switch {
	case isNarrow && !p.isMuch() && w.Vector*p.size == accessBytes && fittedTiles[p.size] != nil: // near elements are no wider
		return p.fitted(large, blocks)
	case isNarrow || large.Far > w.Far:
		return large
	}
	return q
}

// leastRun returns how many elements either run has at least for windows w. Accesses of single elements of 4 bytes load lines of memory
// too: 256 matrices of 64 x 1023 take 39.5 us of an H200 so, and by windows 40.7, but of 1023 x 64, whose rows are written from anywhere, 46.7
// and 37.9.
func (p *planner) leastRun(w *Params) int64 {
	if p.size >= registerBytes && w.Align == 0 {
		return 2 * windowTile
	}
	return windowTile
}

// alignRows has w begin steps where memory is aligned, if near rows are narrow or begin within sectors.
// It reports whether accesses of rows on either side are narrow, and else whether those that are
// written, of one tensor alone, begin within sectors.
func (p *planner) alignRows(q Params, w *Params) (isNarrow, tears bool) {
	isNarrow = q.Access < min(mostCell, accessBytes/p.size)
	isAlone := len(p.layout.far.Tensors) == 1
	wide, aligned := p.near.PitchOf(p.nearAt, w.Vector, 1), p.rows.AlignedPitch(p.nearAt, w.Vector)
	for k := range p.rows.Tensors {
		t := &p.rows.Tensors[k]
		if !p.rows.IsFull(t) {
			continue
		}
		widest := min(mostCell, accessBytes/t.Bytes)
		if isAlone = isAlone && t.IsOutput; wide.Widths[k] < widest {
			if isNarrow = true; aligned.Widths[k] > wide.Widths[k] {
				w.Align = p.sector()
			}
		} else if p.nearRun*t.Bytes%space.SectorBytes != 0 && t.IsDense(0, len(p.rows.Extents)) && aligned.Widths[k] == widest {
			tears = true
		}
	}
	if tears = tears && isAlone; tears {
		w.Align = p.sector()
	}
	p.align(w)
	return isNarrow, tears && !isNarrow
}

// align has steps of w, if they begin where memory is aligned, begin with sectors, or in them where rows of the tile are short: the window
// has as many more elements. 4099 x 4101 bytes took 21.0 / 19.4 us of an H200 by 64 at multiples of 16, and at multiples of 32 22.3 / 20.5; 16387 x 16391 by
// 128 162 / 159 and 159 / 156.
func (p *planner) align(w *Params) {
	if w.Align > 0 {
		w.Align = min(p.sector(), w.Near/4)
	}
}

// larger returns w with larger windows if these can be, and blocks, which counts those of parameters,
// has enough of them; else w.
//
// By 8 lanes, in parts, 2 bytes took 76.3 / 72.7 us of an H200 as above where all of a run at once, by
// 16 lanes, took 76.8 / 74.3, and 4 bytes 141.1 / 137.6 and 141.9 / 138.3 (copies 67.2 / 64.0 and
// 129.0 / 125.7). Blocks of 512 threads took 78.0 / 75.8: they have 40 registers, and stores of what was
// loaded first come before the last loads. Asynchronous copies took 80.1 / 76.6.
func (p *planner) larger(w Params, blocks func(*Params) int64) Params {
	large := w
	if large.Far = 2 * windowTile; p.size < registerBytes {
		large.Near = 2 * windowTile
	}
	large.Resident, large.Lanes = largeBlocks, min(mostLanes, large.Near/large.Vector)
	p.align(&large)
	bytes := large.Resident * (large.Near + mostWidth) * (large.Far + mostWidth) * p.far
	points := func(w *Params) float64 { return float64(blocks(w) * w.Near * w.Far) }
	switch {
	case p.size > registerBytes || p.isMuch() || bytes > int64(p.device.Shared):
		return w
	case blocks(&large) < mostWaves*large.Resident*int64(p.device.Processors) || points(&large) > mostIdle*points(&w):
		return w
	}
	return large
}

// readOften is how many second caches a segment reads at least for its windows to be given up last: what
// windows share with those around them is there then when these are loaded.
//
// 8197 x 8195 in 2 bytes, 2.2 caches of an H200, took 72.8 / 70.1 us so, with the cache dirty and clean, and 71.2
// in calls back to back on six tensors in turn; else 74.0 / 70.1 and 73.2 (copies 69.0 / 66.0 and 68.2). 16 matrices of
// 2049 x 2047 took 70.1 / 68.1 and 67.9, else 71.7 / 67.8 and 70.7. From 1.1 caches nothing is gained in all three.
const readOften = 2

// reads returns the bytes of all inputs.
func (p *planner) reads() int64 {
	n := int64(0)
	for _, t := range slices.Concat(p.near.Tensors, p.layout.far.Tensors) {
		if !t.IsOutput {
			n += t.Elements() * t.Bytes
		}
	}
	return n
}

const (
	windowTile   = 64   // elements of a window either way, that a block stores
	windowBlocks = 5    // of a processor
	muchBlocks   = 4    // the same with two tensors in 4 bytes, where 5 spill registers: x + y^T of 8197 x 8195 took 201.7 us, and 199.0
	largeBlocks  = 3    // the same where windows are larger
	mostLanes    = 8    // threads along the near run of these: their accesses of 16 bytes are a line of memory
	mostWaves    = 4    // of blocks, from which on it does not matter how many are in the last one
	mostIdle     = 1.25 // of the points of smaller windows, with those beyond the ends, that larger ones may have
)

// registerBytes are those of a register, which has what one narrow access loads.
const registerBytes = 4

// fits reports whether two blocks of a processor have room for the tiles.
func (p *planner) fits(q *Params) bool { return q.Near*q.Far*p.far <= int64(p.device.Shared)/2 }

// whole chooses the tile where near runs are short. Far runs that tiles do not divide and that are not much longer are in equal
// ones, up to twice as large.
func (p *planner) whole(q *Params) {
	q.Near, q.Threads = p.nearRun, mostThreads/2
	for q.Far = q.Threads * q.Cell; q.Threads > fewThreads && (q.Far/2 >= p.farRun || !p.fits(q)); {
		q.Threads, q.Far = q.Threads/2, q.Far/2
	}
	if tiles := scheduler.CeilDiv(p.farRun, 2*q.Far); p.farRun%q.Far != 0 && tiles <= 2 {
		even := *q
		even.Threads = max(scheduler.CeilDiv(scheduler.CeilDiv(p.farRun, tiles), q.Cell), fewThreads)
		if even.Far = even.Threads * q.Cell; p.fits(&even) {
			*q = even
		}
	}
}

// tile chooses the tile where runs are long: of as many bytes along memory as are moved well,
// but so that threads can hold what they load, and that all processors have some.
func (p *planner) tile(q *Params) {
	held, blocked := int64(leastHeld), int64(mostThreads)
	for held < q.Cell*q.Cell && 2*held*p.loads <= heldBytes {
		held *= 2
	}
	q.Near, q.Far = p.side(p.nearRun, 1), p.side(p.farRun, 1)
	if q.Access < q.Cell && p.size <= registerBytes {
		// Of 268 MB with odd sizes 4 bytes took 250 us by tiles of 64 by 64, 221 by those of 128, and
		// x + y^T in 2 bytes 203 by tiles of 128 by 128, 159 by those of 64.
		q.Near, q.Far = p.side(p.nearRun, p.size/2), p.side(p.farRun, p.size/2)
		if held = mostCell * mostCell; p.isMuch() {
			blocked = fewThreads
		}
		// One tensor in 2 bytes took 138 us unswitched, 116 with a test for each element.
		q.Unswitch = p.isMuch() || p.size == registerBytes
	}
	blocks := func() int64 {
		return p.near.Size(0, p.farAt) * scheduler.CeilDiv(p.nearRun, q.Near) * scheduler.CeilDiv(p.farRun, q.Far)
	}
	least := max(leastBytes/p.size, leastTile)
	for max(q.Near, q.Far) > least && (q.Near*q.Far > blocked*held || !p.fits(q) || blocks() < int64(2*p.device.Processors)) {
		if q.Far >= q.Near {
			q.Far /= 2
		} else {
			q.Near /= 2
		}
	}
	for q.Cell > 1 && q.Near*q.Far < fewThreads*q.Cell*q.Cell {
		q.Cell /= 2
	}
	held = min(held, max(q.Near*q.Far/fewThreads, 1))
	q.Access = min(q.Access, max(held/q.Cell, 1), q.Cell)
	q.Threads = min(mostThreads, q.Near*q.Far/held)
}

// isMuch reports whether what a thread loads is more than a register for each element.
func (p *planner) isMuch() bool { return p.loads > registerBytes }

// side returns the elements of a tile along a run of n elements, of so many pieces.
func (p *planner) side(n, pieces int64) int64 {
	e := max(min(pieceBytes/p.size, mostCell*leastTile), 2*leastTile) * max(pieces, 1)
	for e > leastBytes/p.size && e > leastTile && n <= e/2 {
		e /= 2
	}
	return e
}
