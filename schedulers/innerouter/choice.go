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

	mostStages    = 3
	reservedBytes = 1 << 10 // of shared memory, of each block
	fewBytes      = 1 << 10 // that folds of rows take
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
		return nil, &scheduler.Refusals{List: []core.Refusal{scheduler.Refuse(f, name, "accumulators", a.reference,
			"the rows that are reduced to %s have %d elements, for each of which a thread keeps %d registers and folds %d more: a block has not so many", f.Name(a.reference), a.rows.Length,
			a.held[holding{persistence.Tight, true, false, false}].registers, a.columns)}}
	}
	return a.attempts.First(all, all[len(all)-1])
}

// inRegisters returns the parameters of rows that are held in registers.
func (a *analysis) inRegisters(device scheduler.Device) (Params, bool) {
	for _, blocks := range []int64{atOnce, 1} {
		for _, price := range prices {
			if p, ok := a.fit(Params{Price: price}, blocks, device); ok {
				return p, true
			}
		}
	}
	return Params{}, false
}

// staged returns the parameters of rows that are copied to shared memory ahead: blocks have
// several rows one after the other, and asynchronous copies move what is next to each other.
func (a *analysis) staged(device scheduler.Device) (Params, bool) {
	for _, blocks := range []int64{atOnce, 1} {
		for _, isResident := range []bool{true, false} {
			for stages := int64(mostStages); stages >= 2; stages-- {
				if p, ok := a.fit(Params{Price: persistence.Tight, Stages: stages, IsResident: isResident}, blocks, device); ok {
					return p, true
				}
			}
		}
	}
	return Params{}, false
}

// canStage reports whether the rows of p can be copied asynchronously, and whether shared
// memory has room for them.
func (a *analysis) canStage(p Params, device scheduler.Device) bool {
	f := a.g.Fusion
	if p.Blocks*p.Rows*p.Stages > a.rows.Count || len(a.rowInputs) == 0 {
		return false
	}
	for k, w := range a.rows.Pitch(p.Vector).Widths {
		t := &a.rows.Tensors[k]
		if t.IsOutput || !slices.Contains(a.rowInputs, f.Inputs()[t.Place]) {
			continue
		}
		if n := w * t.Bytes; n != 4 && n != 8 && n != 16 {
			return false
		}
	}
	for _, o := range f.Outputs() {
		if o.Alias != core.NoVal { // elements would be read before those of rows before them are written
			return false
		}
	}
	blocks := ceilDiv(p.Blocks, int64(device.Processors))
	rows, threads := p.capacity()*p.Rows, warp*p.Warps*p.Rows
	folded := threads * ceilDiv(p.capacity(), warp*p.Blocks) // columns that a block folds at the end
	if p.Rows > 1 {
		folded = max(folded, rows)
	}
	bytes := max(rows*p.Stages*a.bytes, 4*folded*a.columns) + fewBytes // one is done with when the other begins
	return blocks*(bytes+reservedBytes) <= int64(device.Shared)+reservedBytes
}

// fit completes p with the fewest threads a row with which so many blocks fit a processor.
func (a *analysis) fit(p Params, blocks int64, device scheduler.Device) (Params, bool) {
	length := max(a.rows.Length, 1)
	p.Vector = min(a.rows.Cheapest(a.rows.Kept, 1).Elements, length)
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
	most := min(mostRegisters, registers/(threads*blocks))
	for p.Warps = 1; p.Warps*warp <= threads; p.Warps *= 2 {
		p.Steps = ceilDiv(ceilDiv(length, p.Vector), warp*p.Warps)
		if p.Steps > mostSteps || a.registersOf(p) > most {
			continue
		}
		p.Rows = threads / (p.Warps * warp)
		p.Blocks = blocks * int64(device.Processors)
		sets := ceilDiv(max(a.rows.Count, 1), p.Rows)
		for p.Blocks > 1 && p.Blocks*rowSets > sets { // few rows
			p.Blocks = ceilDiv(p.Blocks, 2)
		}
		if p.Stages == 0 || a.canStage(p, device) {
			return p, true
		}
	}
	return p, false
}

// registersOf estimates the registers of a thread. What rows are computed with is in
// registers for few elements at a time where they lie in shared memory.
func (a *analysis) registersOf(p Params) int64 {
	e, h := p.Steps*p.Vector, a.held[holding{p.Price, p.Vector > 1, p.Stages > 0, p.IsResident}]
	if p.Stages > 0 {
		return baseRegisters + e*a.columns + ceilDiv(e*h.bytes, 4)
	}
	return baseRegisters + e*(a.columns+max(h.registers, 1))
}

func ceilDiv(n, d int64) int64 { return (n + d - 1) / d }
