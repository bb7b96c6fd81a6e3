package innerpersistent

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// What is known on an H200 of rows that get to and from memory as pieces.
const (
	mostPiece     = 128      // elements of a row, at most
	severalBytes  = 512      // of a row of several inputs, at most
	leastSeveral  = 6        // elements of one, at least
	mostOdd       = 72       // the same, at most, if they are single ones
	mostOddNarrow = 42       // the same of several inputs with some of less than 4 bytes
	pieceElements = 40       // of a thread in accesses of several, at most
	pieceSingles  = 64       // registers of one with single elements, some of less than 4 bytes, at most
	pieceWide     = 32       // such elements of 4 bytes and more; of several inputs also in pairs
	pieceThreads  = 8        // of a row, at most
	pieceEach     = 8        // rows of a thread, at most
	eachElements  = 32       // of all of them, at most
	pieceBlock    = 64       // threads of a block, at least
	pieceBytes    = 48 << 10 // of shared memory of a block, at most
	leastCopying  = 0.5      // share of its threads that copy its piece, at least
	mostCopying   = 0.75     // the same where several have a row in accesses of 8 bytes or more, which do well without
)

// inPiece lets rows of p, if there are many short ones, get to and from memory as the one piece that those of a block are there, by way
// of shared memory: threads copy it asynchronously in whole accesses side by side, each takes a row from there or a part of one, whatever
// that has, and what it computes goes back the same way. In us of 134 MB on an H200 (second cache dirty and clean), with accesses of
// each thread to its own rows, and so, a copy taking 68 / 65 to 72 / 68: of bfloat16 an RMS norm of 2 columns 85.8 / 86.3 and 68.0 / 65.6, of 7
// 173.2 / 172.9 and 70.8 / 68.7, of 12 90.9 / 90.0 and 68.3 / 65.1, of 15 142.7 / 141.9 and 72.5 / 70.9, of 31 115.7 / 115.6 and 70.5 / 66.7; a
// layer norm of 33 137.5 / 136.9 and 74.7 / 72.2, of 72 97.4 / 95.3 and 71.9 / 69.2; a softmax of 20 float32 145.3 / 145.1 and 67.2 / 64.2.
// By hand an RMS norm of 20 takes 68.1 / 65.5 so, and 75.2 / 72.4 if the piece gets to shared memory by way of registers.
//
// Rows that are whole accesses, a power of two of them, have one for each of so many threads without this, and begin in few banks of shared
// memory: a layer norm's backward of 32 bfloat16 takes 54.4 / 49.7, and 66.3 / 62.3 as pieces. Of one input rows of whole sectors gain nothing
// either; of several, which leave threads little of each, they do, of 96 columns 66.4 / 61.3 and 53.1 / 48.5, but not the shortest, of 3 columns 89.5 /
// 84.2 and 105.3 / 101.0. What a thread has of more single elements takes too many registers or instructions: of 63 columns 76.2 / 74.9
// and 84.6 / 81.3.
func (a *analysis) inPiece(p *Params, device scheduler.Device) bool {
	n, isSeveral := a.rows.Length, a.rowInputs() > 1
	if a.facts.isMoments || a.isFew(1, device) || n < 2 || a.rows.Piece != n || a.rows.KeptDimensions == 0 {
		return false
	}
	bytes, isApart := a.ofPiece()
	if len(bytes) == 0 {
		return false
	}
	widest := slices.Max(bytes)
	if isSeveral && (n < leastSeveral || n*widest > severalBytes) || !isSeveral && (n > mostPiece || !isApart) {
		return false
	}
	if accesses := n * widest / accessBytes; n*widest%accessBytes == 0 && accesses&(accesses-1) == 0 {
		return false
	}
	q := *p
	q.Piece = n
	if !a.sharePiece(&q, widest, isSeveral) || !a.blockPiece(&q, bytes, isSeveral, device) {
		return false
	}
	*p = q
	return true
}

// sharePiece gives each row of p, of elements of so many bytes at most, threads, and reports whether it can: not if a quarter of them would
// have nothing to do in a step.
func (a *analysis) sharePiece(p *Params, widest int64, isSeveral bool) bool {
	n := p.Piece
	for p.Vector = 1; 2*p.Vector*widest <= accessBytes && n%(2*p.Vector) == 0; {
		p.Vector *= 2
	}
	most := int64(pieceElements)
	switch isNarrow := a.isNarrow(); {
	case p.Vector > 1 && isSeveral && !isNarrow && p.Vector*widest < accessBytes:
		most = pieceWide
	case p.Vector > 1:
	case n > mostOdd || isSeveral && isNarrow && n > mostOddNarrow:
		return false
	case isNarrow:
		most = pieceSingles / max(a.facts.held[p.holding()].registers, 1)
	default:
		most = pieceWide
	}
	for p.Threads = 1; p.Threads < pieceThreads && scheduler.CeilDiv(n, p.Threads) > most; {
		p.Threads *= 2
	}
	if isSeveral && p.Threads > 2 && p.Vector*widest < accessBytes {
		return false
	}
	vectors := n / p.Vector
	p.Steps = scheduler.CeilDiv(vectors, p.Threads)
	all := p.Steps * p.Threads
	return p.Steps*p.Vector <= most && 4*(all-vectors) < all
}

// blockPiece gives blocks of p, whose tensors have elements of so many bytes each, rows, and threads several of the shortest: they share
// what rows have in common and what each access is tested for. An RMS norm of 15 columns takes 73.6 / 71.5 with two, 80.1 / 76.1
// with one, of 7 71.9 / 69.2 with four, 77.6 / 74.9 with two; of several inputs those are too many registers: a layer norm's backward of 12 takes
// 65.1 / 61.2 with one, 81.5 / 76.9 with two.
func (a *analysis) blockPiece(p *Params, bytes []int64, isSeveral bool, device scheduler.Device) bool {
	for !isSeveral && p.Threads == 1 && 2*p.Each <= pieceEach && 2*p.Each*p.Piece <= eachElements && device.HasMany(a.rows.Count/(2*p.Each*pieceBlock)) {
		p.Each *= 2
	}
	if !isSeveral && p.Each == 1 && p.Piece*slices.Max(bytes) < accessBytes { // rows are too few for that, and too short without
		return false
	}
	moved := int64(0)
	for _, b := range bytes {
		moved += b * p.Piece * p.Each
	}
	p.Rows = scheduler.Row{Threads: p.Threads, Bytes: moved}.OfBlock(a.rows.Count/p.Each, pieceBlock, largeBlock, device)
	least := leastCopying
	if p.Threads > 1 && 2*p.Vector*slices.Max(bytes) >= accessBytes {
		least = mostCopying
	}
	isShared := func(b int64) bool { return p.copying(accessBytes/b) >= least }
	for ; p.Rows*p.Threads <= largeBlock && p.Rows*moved <= pieceBytes; p.Rows *= 2 {
		if !slices.ContainsFunc(bytes, func(b int64) bool { return !isShared(b) }) {
			return true
		}
	}
	return false
}

// ofPiece returns the bytes of an element of each input and output that has one for each of a row, and whether rows of some do not begin
// with a sector of memory. None: rows are no pieces of some of them, or some other input is neither common to rows nor to the elements of
// one.
func (a *analysis) ofPiece() (bytes []int64, isApart bool) {
	for k := range a.rows.Tensors {
		t := &a.rows.Tensors[k]
		switch isFull := a.rows.IsFull(t); {
		case t.IsResized() || t.IsTable() || isFull && (!a.rows.IsPiece(t) || t.Aligned < accessBytes || t.Bytes > accessBytes/2):
			return nil, false
		case isFull:
			bytes = append(bytes, t.Bytes)
			isApart = isApart || a.rows.Length*t.Bytes%space.SectorBytes != 0
		case !t.IsConstant(0, a.rows.Kept) && !t.IsConstant(a.rows.Kept, len(a.rows.Order)):
			return nil, false
		}
	}
	return bytes, isApart
}

// A piece is the copies by which the rows of a block get to or from memory as the one piece that they are there.
type piece struct {
	tile  core.ValID   // in shared memory
	far   []core.ValID // the copies that all threads of a block make of it side by side
	near  []core.ValID // those between the tile and registers of threads that have a row
	bytes int64        // of an element
}

// pieces makes the copies of all inputs and outputs of s that have an element for each of a row.
func (a *analysis) pieces(s *schedule.Scheduled) (all []piece, err error) {
	f, copies := s.Fusion(), copiesOf(s)
	after := func(v core.ValID, uses []core.ValID) core.ValID {
		if err == nil {
			v, err = s.CacheAfter(v, uses)
		}
		return v
	}
	done := map[core.ValID]bool{}
	for k := range a.rows.Tensors {
		t := &a.rows.Tensors[k]
		if !a.rows.IsFull(t) {
			continue
		}
		x := piece{bytes: t.Bytes}
		if t.IsOutput {
			v := f.Outputs()[t.Place].Val
			if done[v] {
				continue
			}
			done[v] = true
			x.tile = after(f.TensorArgs(f.Expr(f.Val(v).Def))[0], []core.ValID{v})
			x.far, x.near = []core.ValID{v}, []core.ValID{x.tile}
		} else {
			v := f.Inputs()[t.Place]
			if x.near = copies[v]; len(x.near) == 0 {
				return nil, scheduler.Refused(f, name, "loops", v, "%s is read by what no copy of it is for", f.Name(v))
			}
			x.tile = after(v, x.near)
			x.far = []core.ValID{x.tile}
			if err == nil {
				err = s.SetCopy(x.tile, schedule.AsyncCopy, schedule.CacheUnspecified)
			}
		}
		if err == nil {
			err = s.SetMemory(x.tile, schedule.Shared)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// pieceLoops gives all tensors of s loops of blocks, rows of a block and elements of a row, which tiles lie in shared memory along, and
// then copies of pieces loops of all threads, and all other tensors those of rows, like v: as [analysis.loops] does.
func (a *analysis) pieceLoops(s *schedule.Scheduled, v core.ValID, p Params, pieces []piece) error {
	if err := a.rowsOfBlocks(s, v, p); err != nil {
		return err
	}
	isFar := map[core.ValID]bool{}
	for _, x := range pieces {
		if err := s.SetAllocation(x.tile, slices.Clone(s.Loop(x.tile)), nil); err != nil {
			return err
		}
		for _, v := range x.far {
			isFar[v] = true
			if err := p.sideBySide(s, v, accessBytes/x.bytes); err != nil {
				return err
			}
		}
	}
	n := scheduler.Nest{Schedule: s, Tensor: v} // blocks, rows, 1, elements
	n.Split(3, p.Vector, schedule.Serial)
	n.Split(3, p.Threads, schedule.TIDx)
	if p.Each == 1 {
		n.Parallelize(1, schedule.TIDy)
	} else if n.Split(1, p.Rows, schedule.TIDy); n.Err == nil {
		at := len(s.Loop(v)) - 1
		if p.Vector > 1 {
			at--
		}
		n.Reorder(map[int]int{1: at})
	}
	if n.Err != nil {
		return n.Err
	}
	refusals, err := s.TransformLike(v, slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return isFar[v] }))
	return scheduler.Follow(name, refusals, err)
}

// rowsOfBlocks gives all tensors of s loops of blocks, rows of a block, an axis of one element and the elements of a row, like v.
func (a *analysis) rowsOfBlocks(s *schedule.Scheduled, v core.ValID, p Params) error {
	order, kept := a.dimensions(p), a.rows.KeptDimensions
	moves := map[int]int{}
	for k, d := range order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: s, Tensor: v}
	n.Reorder(moves)
	n.Merge(kept, len(order)-kept)
	n.Merge(0, kept)
	if n.Err == nil {
		n.Err = s.PromiseLeast(v, 1, p.least())
	}
	if n.Err == nil {
		n.Err = s.SplitWhole(v, 1, p.capacity())
	}
	n.Split(0, p.Rows*p.Each, schedule.Serial)
	n.Parallelize(0, schedule.BIDx)
	if n.Err != nil {
		return n.Err
	}
	return scheduler.Spread(s, name, v)
}

// sideBySide lets all threads of a block copy the piece v, which has loops of rows, in accesses of w elements.
func (p Params) sideBySide(s *schedule.Scheduled, v core.ValID, w int64) error {
	n := scheduler.Nest{Schedule: s, Tensor: v}
	n.Reorder(map[int]int{2: 1})
	n.Merge(2, 2)
	n.Split(2, w, schedule.Vectorize)
	n.Split(2, p.Threads, schedule.TIDx)
	n.Split(2, p.copiers(w), schedule.TIDy)
	n.Parallelize(2, schedule.Unroll)
	n.Parallelize(0, schedule.BIDx)
	return n.Err
}

// copiers returns how many of the rows of threads of a block copy its piece in accesses of w elements, so that each has as many of them.
func (p Params) copiers(w int64) int64 {
	all := p.Rows * p.Each * p.Piece / (w * p.Threads)
	steps := max(scheduler.CeilDiv(all, p.Rows), 1)
	for all%steps != 0 {
		steps++
	}
	return all / steps
}

// copying returns the share of the threads of a block that copy its piece in accesses of w elements: of rows of a prime number of
// elements few have as many. 0: it is not made of such.
func (p Params) copying(w int64) float64 {
	all := p.Rows * p.Each * p.Piece
	if all%(w*p.Threads) != 0 {
		return 0
	}
	return float64(p.copiers(w)) / float64(min(p.Rows, all/(w*p.Threads)))
}

// accessPieces gives copies between tiles and registers their accesses.
func (a *analysis) accessPieces(s *schedule.Scheduled, p Params, pieces []piece) error {
	if p.Vector == 1 {
		return nil
	}
	for _, x := range pieces {
		for _, v := range x.near {
			if err := space.Widen(s, v, p.Vector, min(p.Vector, accessBytes/x.bytes)); err != nil {
				return err
			}
		}
	}
	return nil
}
