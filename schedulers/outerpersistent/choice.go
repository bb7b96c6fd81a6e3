package outerpersistent

import (
	"slices"

	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
)

// What is known of columns in registers of an H100.
const (
	pieceLanes    = 8        // threads along columns: with vectors of 16 bytes they move 128
	wideColumn    = 96       // elements up to which a block has wideLanes, if there are enough
	wideLanes     = 16       // threads along columns then
	wideElements  = 64       // of each of them, at most
	wideBlock     = 256      // threads of a block then, at most
	shortColumn   = 32       // elements up to which a thread has whole columns
	shortLanes    = 128      // threads along columns then
	largeBlock    = 512      // threads of a block, at most
	smallBlock    = 128      // the same at least
	registers     = 64 << 10 // of a processor
	baseRegisters = 40       // that a thread has beside what it holds
	mostRegisters = 128
	aloneSteps    = 8 // of a block's thread, up to which others need not share the columns
	fewSteps      = 2 // of a thread, at least, where they do
	reloadSteps   = 4 // that are loaded side by side, where columns are loaded again

	fewParts  = 8  // of blocks, that a thread folds
	evenShare = 20 // of a column, that tiles of a block may leave to do for some blocks and not for others

	roundBytes  = 16 << 20 // that are loaded while blocks wait for each other, and fold, in a round
	cachedBytes = 26 << 20 // that the second cache keeps for the next phase if it is asked to
	warp        = 32
	accessBytes = 16      // of an instruction, at most
	asyncBytes  = 4       // of an asynchronous copy, at least
	wordBytes   = 4       // that a thread of a warp moves at least, for whole lines
	barrierRoom = 1 << 10 // of shared memory, for what a kernel has beside what is kept
)

// buckets are the numbers of steps of a thread that kernels are made for.
var buckets = scheduler.Buckets{1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	p := Params{Vector: min(a.space.Cheapest(a.inner, 1).Elements, a.columns), Blocks: 1, Rows: 1}
	for p.Vector > 1 && p.Vector*2 > a.columns {
		p.Vector /= 2
	}
	var all []Params
	if a.turned.Turn > 0 && a.turned.Lanes*a.turned.Rows <= int64(device.Threads) {
		all = append(all, a.turned)
	}
	for _, fit := range []func(Params, scheduler.Device) (Params, bool){a.short, a.inBlock, a.inBlocks} {
		for _, price := range persistence.Prices {
			p.Price = price
			if q, ok := fit(p, device); ok && len(all) == 0 {
				all = append(all, q)
			}
		}
	}
	if q, ok := a.inRounds(p, device); ok && len(all) == 0 {
		all = append(all, q)
	}
	all = append(all, a.again(p, device))
	single := all[len(all)-1]
	if single.Vector, single.Blocks, single.Near, single.Once, single.Kept, single.Warm = 1, 1, false, false, 0, 0; !slices.Contains(all, single) {
		all = append(all, single)
	}
	return a.attempts.First(all, all[len(all)-1])
}

// tiles returns how many blocks have columns of their own.
func (a *analysis) tiles(p Params) int64 {
	return max(a.outside, 1) * scheduler.CeilDiv(max(a.columns, 1), p.Vector*p.Lanes)
}

// lanes returns the threads along columns that move pieces of memory large enough.
func (a *analysis) lanes(p Params) int64 {
	lanes := int64(1)
	for lanes < pieceLanes && lanes*p.Vector < a.columns {
		lanes *= 2
	}
	return lanes
}

// holds reports whether the threads of p have registers for their steps.
func (a *analysis) holds(p Params) bool {
	most := min(mostRegisters, registers/max(p.Lanes*p.Rows, smallBlock))
	return p.capacity() >= a.length && baseRegisters+p.Steps*p.Vector*max(a.held[p.holding()], 1) <= most
}

// short returns parameters with which each thread has whole columns: as many side by side as it has registers for, if a
// warp moves whole lines. Beside threads that share columns of 8 side by side, in us on an H200, softmax of columns of
// bfloat16: of 19 71.2 / 66.8 and 185.3 / 183.7, of 24 74.0 / 69.7 and 151.0 / 149.0, of 32 81.6 / 76.5 and 118.8 / 116.8,
// of 40, which spill, 192 and 111; of float32 of 32 142.3 / 137.0 and 149.5 / 146.9, of 48 149.2 / 143.4 and 140.2 / 136.8. A copy
// takes 68 / 64 and 129 / 126.
func (a *analysis) short(p Params, device scheduler.Device) (Params, bool) {
	p.Lanes = min(shortLanes, int64(device.Threads))
	for p.Lanes > 32 && a.tiles(p) < int64(device.Processors) {
		p.Lanes /= 2
	}
	p.Steps = buckets.Of(max(a.length, 1))
	for p.Vector > 1 && !a.holds(p) && p.Vector*a.space.Narrowest() > wordBytes {
		p.Vector /= 2
	}
	return p, a.length <= shortColumn && a.holds(p)
}

// inBlock returns parameters with which a block has whole columns: the fewest threads that
// can, or the most where there are too few blocks for all processors.
func (a *analysis) inBlock(p Params, device scheduler.Device) (best Params, ok bool) {
	if q, ok := a.inWideBlock(p, device); ok {
		return q, true
	}
	p.Lanes = a.lanes(p)
	for threads := int64(smallBlock); threads <= min(largeBlock, int64(device.Threads)); threads *= 2 {
		p.Rows = threads / p.Lanes
		p.Steps = buckets.Of(scheduler.CeilDiv(max(a.length, 1), p.Rows))
		isEnough := 3*a.tiles(p) >= 2*int64(device.Processors)
		if a.holds(p) && (!ok || !isEnough && best.Steps > 1) {
			best, ok = p, true
		}
	}
	return best, ok && (3*a.tiles(best) >= 2*int64(device.Processors) || best.Steps <= aloneSteps)
}

// inWideBlock returns parameters with which few threads share a column that is short. In us on an H200, with a dirty and a clean
// second cache, and with 8 threads along columns: softmax of columns of bfloat16, of 40 94.6 / 92.1 and 112.3 / 110.1, of 64 85.2 /
// 82.6 and 89.6 / 86.9, of 96 76.2 / 73.8 and 85.0 / 82.4, a copy 68.5 / 65.9; layer norm of 40 78.4 / 75.6 and 94.6 / 92.2, of 64 73.3 /
// 70.1 and 77.3 / 73.7, of 96 74.0 / 72.0 and 76.3 / 72.9; of float32 softmax of 40 149.8 / 146.2 and 170.0 / 167.7, of 80 135.4 /
// 132.0 and 150.1 / 147.5. Of 128 layer norm takes more, 82.3 / 79.9 and 77.2 / 74.2.
func (a *analysis) inWideBlock(p Params, device scheduler.Device) (Params, bool) {
	p.Lanes = wideLanes
	if a.length > wideColumn || p.Lanes*p.Vector > a.columns || a.tiles(p) < int64(device.Processors) {
		return p, false
	}
	for threads := int64(smallBlock); threads <= min(wideBlock, int64(device.Threads)); threads *= 2 {
		p.Rows = threads / p.Lanes
		p.Steps = buckets.Of(scheduler.CeilDiv(max(a.length, 1), p.Rows))
		if p.Steps*p.Vector <= wideElements && a.holds(p) {
			return p, true
		}
	}
	return p, false
}

// inBlocks returns parameters with which several blocks have whole columns.
func (a *analysis) inBlocks(p Params, device scheduler.Device) (Params, bool) {
	p.Lanes = a.lanes(p)
	p.Rows = min(largeBlock, int64(device.Threads)) / p.Lanes
	p.Blocks = min(int64(device.Processors)/a.tiles(p), a.length/(p.Rows*fewSteps))
	if p.Blocks < 2 {
		return p, false
	}
	p.Steps = buckets.Of(scheduler.CeilDiv(a.length, p.Rows*p.Blocks))
	return p, a.holds(p)
}

// again returns parameters with which columns are loaded again.
func (a *analysis) again(p Params, device scheduler.Device) Params {
	p.Price, p.Reload = persistence.Tight, true
	p.Lanes = a.lanes(p)
	p.Rows = min(largeBlock, int64(device.Threads)) / p.Lanes
	for p.Steps = reloadSteps; p.Steps > 1 && p.Steps*p.Vector*max(a.held[p.holding()], 1) > 64; {
		p.Steps /= 2
	}
	for p.Rows > 1 && p.Rows/2*p.Steps >= a.length {
		p.Rows /= 2
	}
	p.Blocks = max(min(int64(device.Processors)/a.tiles(p), a.length/(p.Rows*p.Steps)), 1)
	return a.keep(p, device)
}

// inRounds returns parameters with which all blocks together have a tile of columns after the other in shared memory,
// where what they do not load again then takes longer than to wait for each other in each round: where they would load
// 12 of 24 iterations of 4 tiles again, a batch norm of 64 x 256 x 56 x 56 bfloat16, channels last.
func (a *analysis) inRounds(p Params, device scheduler.Device) (Params, bool) {
	p = a.again(p, device)
	if p.Kept < 2 || p.Once || len(a.reloads) > 1 {
		return p, false
	}
	rounds, missed := a.tiles(p), a.iterations(p)-p.Kept-p.Warm
	missed *= p.iteration() * a.reloaded * a.tiles(p) * p.Blocks
	p.Blocks, p.Warm = int64(device.Processors), 0
	p.Near, p.Rounds = true, true
	p.Once = a.iterations(p) <= p.Kept
	p.Kept = a.iterations(p)
	return p, p.Once && p.Kept > 1 && missed > (rounds-1)*roundBytes
}

// iterations returns how many there are along a column.
func (a *analysis) iterations(p Params) int64 {
	return scheduler.CeilDiv(max(a.length, 1), p.capacity())
}

// keep lets the last iterations stay in shared memory, as many as it has room for beside
// the exchange of the threads, and those before in the second cache.
func (a *analysis) keep(p Params, device scheduler.Device) Params {
	threads := p.Lanes * p.Rows
	if a.reloaded == 0 {
		return p
	}
	pitch := a.pitch(p.Vector)
	for k := range a.space.Tensors {
		t := &a.space.Tensors[k]
		if !t.IsOutput && !t.IsResized() && slices.Contains(a.reloads, t.Place) && (pitch.Widths[k] == 1 || t.Bytes*pitch.Widths[k] < asyncBytes) {
			return p
		}
	}
	scratch := threads * p.Vector * a.states * min(p.Lanes, int64(device.Warp)) / int64(device.Warp)
	room := int64(device.Shared) - barrierRoom - scratch - scratch/16 // rows of it are apart
	if a.tiles(p)*p.Blocks > int64(device.Processors) {               // two blocks of a processor
		room -= int64(device.Shared) / 2
	}
	iteration := p.iteration() * a.reloaded // bytes
	p.Kept = max(room/iteration, 0)
	n := a.iterations(p)
	for p.Kept > 1 && p.Kept/2 >= n {
		p.Kept /= 2
	}
	if blocks := min(a.tiles(p)*p.Blocks, int64(device.Processors)); p.Kept < n {
		p.Warm = cachedBytes / (iteration * blocks)
	}
	p.Once = p.Kept >= n
	isEven := n*p.capacity()-a.length <= a.length/evenShare
	p.Near = p.Blocks > 1 && p.Steps > 1 && (!p.Once || isEven)
	return p
}
