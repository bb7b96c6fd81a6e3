package innerouter

import (
	"slices"

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

	mostRegisters  = 128
	spareRegisters = 8 // that an estimate leaves free, before what could be computed again is held
	mostSteps      = 8
	accessBytes    = 16 // that one instruction moves, at most

	mostStages  = 4
	bytesOfRow  = 48 << 10 // that are copied ahead, where blocks have one row at a time: more are slower, by 2 or 3 %
	bytesOfRows = 32 << 10 // the same of several
	fewElements = 16       // of a row that a thread has, where threads are enough
	fewColumns  = 8        // that a thread folds together of what all blocks have left
	fewBytes    = 1 << 10  // of shared memory that folds of rows take
)

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	var all []Params
	if p, ok := a.staged(device); ok {
		all = append(all, p)
	}
	if p, ok := a.inRegisters(device); ok {
		single := p
		single.Steps, single.Vector = p.Steps*p.Vector, 1
		if all = append(all, p); single != p { // needs nothing to be known of sizes
			all = append(all, single)
		}
	}
	if len(all) == 0 {
		f := a.g.Fusion
		return nil, scheduler.Refused(f, name, "accumulators", a.reference,
			"the rows that are reduced to %s have %d elements, for each of which a thread keeps %d registers and folds %d more: a block has not so many", f.Name(a.reference), a.rows.Length,
			a.held[holding{persistence.Tight, true, false, false}].registers, a.columns)
	}
	for k := range all {
		all[k].Whole = all[k].capacity() == a.rows.Length
	}
	return a.attempts.First(all, all[len(all)-1])
}

// inRegisters returns the parameters of rows that are held in registers.
func (a *analysis) inRegisters(device scheduler.Device) (Params, bool) {
	for _, blocks := range []int64{atOnce, 1} {
		for _, price := range persistence.Prices {
			if p, ok := a.fit(Params{Price: price}, blocks, device); ok {
				return p, true
			}
		}
	}
	return Params{}, false
}

// staged returns the parameters of rows that are copied to shared memory ahead. One block
// of a processor has its rows one set after the other: copies are under way all the time,
// and what it leaves at the end is little. With few elements of a row a thread spends its
// time on exchanging sums.
func (a *analysis) staged(device scheduler.Device) (Params, bool) {
	if !a.canStage() {
		return Params{}, false
	}
	threads, blocks := min(int64(largeBlock), int64(device.Threads)), int64(device.Processors)
	most := min(mostRegisters, registers/threads)
	for _, isResident := range []bool{true, false} {
		p := Params{Vector: a.vector(), Price: persistence.Tight, Stages: mostStages, IsResident: isResident}
		for p.Warps = 1; p.Warps*warp <= threads; p.Warps *= 2 {
			p.Steps, p.Rows = a.steps(p), threads/(p.Warps*warp)
			if p.Steps > mostSteps || a.registersOf(p) > most {
				continue
			}
			isFew := p.Rows*rowSets*blocks > a.rows.Count
			if p.Steps > 1 && p.Rows > 1 && (isFew || p.Steps*p.Vector > fewElements) {
				continue
			}
			for p.Rows > 1 && p.Rows*rowSets*blocks > a.rows.Count {
				p.Rows /= 2
			}
			p.Blocks = a.blocks(p, blocks)
			ahead := int64(bytesOfRow)
			if p.Rows > 1 {
				p.Blocks, ahead = a.even(p, p.Blocks), bytesOfRows
			}
			for p.Stages = min(1+scheduler.CeilDiv(ahead, p.capacity()*p.Rows*a.bytes), mostStages); p.Stages >= 2; p.Stages-- {
				if p.Blocks*p.Rows*p.Stages <= a.rows.Count && a.sharedBytes(p) <= int64(device.Shared) {
					a.afford(&p, most)
					return p, true
				}
			}
		}
	}
	return Params{}, false
}

// afford lets threads hold what they have registers for, of at most so many: others do not
// come of fewer.
func (a *analysis) afford(p *Params, most int64) {
	for _, price := range persistence.Prices {
		q := *p
		if q.Price = price; a.registersOf(q) <= most-spareRegisters {
			*p = q
			return
		}
	}
}

// canStage reports whether rows can be copied asynchronously.
func (a *analysis) canStage() bool {
	f := a.g.Fusion
	for k, w := range a.rows.Pitch(a.vector()).Widths {
		t := &a.rows.Tensors[k]
		if t.IsOutput || t.IsResized() || !slices.Contains(a.rowInputs, f.Inputs()[t.Place]) {
			continue
		}
		if n := w * t.Bytes; n != 4 && n != 8 && n != 16 {
			return false
		}
	}
	// What is written in the place of an input would be read before.
	return len(a.rowInputs) > 0 && !slices.ContainsFunc(f.Outputs(), func(o core.Output) bool { return o.Alias != core.NoVal })
}

// sharedBytes is the shared memory of a block with p.
func (a *analysis) sharedBytes(p Params) int64 {
	elements, threads := p.capacity()*p.Rows, warp*p.Warps*p.Rows
	folded := threads * min(scheduler.CeilDiv(p.capacity(), warp*p.Blocks), fewColumns) // of columns that the block folds at the end
	if p.Rows > 1 {
		folded = max(folded, elements)
	}
	return max(elements*p.Stages*a.bytes, 4*folded*a.columns) + fewBytes // one is done with when the other begins
}

// blocks returns how many blocks are dealt the rows, at most most: a block has several sets
// of rows, and there are few different numbers of blocks.
func (a *analysis) blocks(p Params, most int64) int64 {
	sets := scheduler.CeilDiv(max(a.rows.Count, 1), p.Rows)
	if most*rowSets <= sets {
		return most
	}
	n := int64(1)
	for 2*n*rowSets <= sets {
		n *= 2
	}
	if 3*n/2*rowSets <= sets {
		n = 3 * n / 2
	}
	return min(n, most)
}

// even returns fewer blocks than n where they have equal numbers of sets of rows, no more than
// the most of n have, and are nearly as many: the memory is busy with fewer too, and the last
// set of some would come after all others.
func (a *analysis) even(p Params, n int64) int64 {
	power := int64(1)
	for 2*power <= n {
		power *= 2
	}
	sets := scheduler.CeilDiv(a.rows.Count, p.Rows)
	if 16*power >= 15*n && sets%power == 0 && sets/power == scheduler.CeilDiv(sets, n) {
		return power
	}
	return n
}

// vector returns how many elements a step has.
func (a *analysis) vector() int64 {
	length := max(a.rows.Length, 1)
	n := min(a.rows.Cheapest(a.rows.Kept, 1).Elements, length)
	for n > 1 && n*2 > length {
		n /= 2
	}
	return n
}

// steps returns how many steps a thread has along its row.
func (a *analysis) steps(p Params) int64 {
	return scheduler.CeilDiv(scheduler.CeilDiv(max(a.rows.Length, 1), p.Vector), warp*p.Warps)
}

// fit completes p with the fewest threads a row with which so many blocks fit a processor.
func (a *analysis) fit(p Params, blocks int64, device scheduler.Device) (Params, bool) {
	p.Vector = a.vector()
	threads := int64(smallBlock)
	if a.rows.Length > shortRow {
		threads = largeBlock
	}
	threads = min(threads, int64(device.Threads))
	if threads == smallBlock {
		blocks *= 2
	}
	most := min(mostRegisters, registers/(threads*blocks))
	for p.Warps = 1; p.Warps*warp <= threads; p.Warps *= 2 {
		if p.Steps = a.steps(p); p.Steps > mostSteps || a.registersOf(p) > most {
			continue
		}
		p.Rows = threads / (p.Warps * warp)
		p.Blocks = a.blocks(p, blocks*int64(device.Processors))
		return p, true
	}
	return p, false
}

// registersOf estimates the registers of a thread. What rows are computed with is in
// registers for few elements at a time where they lie in shared memory.
func (a *analysis) registersOf(p Params) int64 {
	e, h := p.Steps*p.Vector, a.held[holding{p.Price, p.Vector > 1, p.Stages > 0, p.IsResident}]
	if p.Stages > 0 {
		return baseRegisters + e*a.columns + scheduler.CeilDiv(e*h.bytes, 4)
	}
	return baseRegisters + e*(a.columns+max(h.registers, 1))
}
