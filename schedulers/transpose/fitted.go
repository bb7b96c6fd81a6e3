package transpose

// A fittedTile is a window with the threads of a block along both runs, and the blocks of a processor.
type fittedTile struct{ near, far, lanes, rows, resident int64 }

// fittedTiles are the windows of one tensor by the bytes of its elements, beside those that are chosen where runs are long.
var fittedTiles = map[int64][]fittedTile{
	1: {{128, 64, 8, 32, 5}, {64, 128, 4, 64, 5}, {128, 128, 8, 32, 3}},
	2: {{96, 64, 6, 32, 5}, {128, 64, 8, 32, 5}, {144, 64, 6, 32, 5}, {64, 128, 8, 32, 5}, {96, 96, 6, 32, 5}, {64, 160, 8, 32, 4}, {128, 128, 8, 32, 3}},
}

const (
	fittedWaves = 6    // of blocks of them, at least: of fewer the last one matters more
	fittedGain  = 0.92 // of what w costs, at most: costs are no closer
)

// fitted returns w, or those of the tiles that cost least for the lengths of both runs, of which the last ones are parts: a run
// of 129 elements that begin anywhere is one tile of 144, and three of 64.
//
// Of an H200, in us with the cache dirty, beside a copy: images of 129 channels 154 by tiles of 64 by 64 and 140 by 144 by 64 (107), of
// 65 110 and by 128 by 128 91 (58), read from NHWC 139 and by 64 by 160 111 (106), of 77 93 and by 96 by 96 67 (67); 512 x 257 x 513 by 021
// 93 and 85 (72), 512 x 513 x 257 92 and 82 (72); heads of 1023 x 64 39 by 64 by 64 and 128 by 64, 64 x 1023 46 and by 64 by 128 40 (38). The
// costs were fitted to what 19 shapes took by each of the tiles: the one of least cost took 2 % longer than the fastest on average.
func (p *planner) fitted(w Params, blocks func(*Params) int64) Params {
	best, least := w, fittedGain*float64(blocks(&w))*p.cost(&w)
	for _, x := range fittedTiles[p.size] {
		tile := w
		tile.Near, tile.Far, tile.Lanes, tile.Resident, tile.Threads = x.near, x.far, x.lanes, x.resident, x.lanes*x.rows
		p.align(&tile)
		p.swizzle(&tile)
		n := blocks(&tile)
		if cost := float64(n) * p.cost(&tile); n >= fittedWaves*x.resident*int64(p.device.Processors) && cost < least {
			best, least = tile, cost
		}
	}
	return best
}

// What a thread costs, and a vector that it loads, in elements that it takes from shared memory in one cycle of banks, and
// what another cycle does. A block that begins within sectors costs more: images of 129 channels in bytes took 200 us by 64 by 128, and 150 by
// 128 by 128.
const (
	threadCost = 20
	vectorCost = 12
	cycleCost  = 0.75
	tornCost   = 1.25
)

// cost returns what a block of w costs.
func (p *planner) cost(w *Params) float64 {
	vectors := (w.Near + w.Align) * (w.Far*p.size/accessBytes + 1)
	element := 1 + cycleCost*(float64(p.cycles(w, w.Swizzle))/float64(w.Vector)-1)
	cost := threadCost*float64(w.Threads) + vectorCost*float64(vectors) + element*float64(w.Near*w.Far)
	if w.Align > 0 && w.Align < p.sector() {
		cost *= tornCost
	}
	return cost
}
