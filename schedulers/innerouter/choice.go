package innerouter

import (
	"nvfuser_go/core"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
)

// What is known of rows with columns in registers of an H100.
const (
	warp          = 32
	shortRow      = 2048 // elements up to which blocks are small, and have several rows
	smallBlock    = 128  // threads
	largeBlock    = 512
	atOnce        = 2        // blocks of a processor
	rowSets       = 4        // that a block goes through, at least: what it leaves is large
	registers     = 64 << 10 // of a processor
	baseRegisters = 40       // that a thread has beside what it holds and folds
	mostRegisters = 128
	mostSteps     = 8
	accessBytes   = 16 // that one instruction moves, at most
)

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	if a.err != nil {
		return nil, a.err
	}
	var all []Params
	for _, blocks := range []int64{atOnce, 1} {
		for _, price := range prices {
			if p, ok := a.fit(price, blocks, device); ok && len(all) == 0 {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		f := a.g.Fusion
		return nil, &scheduler.Refusals{List: []core.Refusal{scheduler.Refuse(f, name, "accumulators", a.reference,
			"the rows that are reduced to %s have %d elements, for each of which a thread keeps %d registers and folds %d more: a block has not so many", f.Name(a.reference), a.rows.Length,
			a.held[holding{persistence.Tight, true}], a.columns)}}
	}
	single := all[0]
	single.Steps, single.Vector = single.Steps*single.Vector, 1
	if single != all[0] { // needs nothing to be known of sizes
		all = append(all, single)
	}
	return a.attempts.First(all, all[len(all)-1])
}

// fit returns the parameters with the fewest threads a row of which so many blocks fit a
// processor.
func (a *analysis) fit(price persistence.Price, blocks int64, device scheduler.Device) (Params, bool) {
	length := max(a.rows.Length, 1)
	p := Params{Vector: min(a.rows.Cheapest(a.rows.Kept, 1).Elements, length), Price: price}
	for p.Vector > 1 && p.Vector*2 > length {
		p.Vector /= 2
	}
	threads := int64(smallBlock)
	if length > shortRow {
		threads = largeBlock
	}
	threads = min(threads, int64(device.Threads))
	if threads == smallBlock {
		blocks *= 2
	}
	each := a.columns + max(a.held[holding{price, p.Vector > 1}], 1)
	most := min(mostRegisters, registers/(threads*blocks))
	for p.Warps = 1; p.Warps*warp <= threads; p.Warps *= 2 {
		p.Steps = ceilDiv(ceilDiv(length, p.Vector), warp*p.Warps)
		if p.Steps > mostSteps || baseRegisters+p.Steps*p.Vector*each > most {
			continue
		}
		p.Rows = threads / (p.Warps * warp)
		p.Blocks = blocks * int64(device.Processors)
		sets := ceilDiv(max(a.rows.Count, 1), p.Rows)
		for p.Blocks > 1 && p.Blocks*rowSets > sets { // few rows
			p.Blocks = ceilDiv(p.Blocks, 2)
		}
		return p, true
	}
	return p, false
}

func ceilDiv(n, d int64) int64 { return (n + d - 1) / d }
