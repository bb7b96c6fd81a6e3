package innerpersistent

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

func (a *analysis) build(p Params) (*schedule.Scheduled, error) {
	if err := scheduler.CheckPositive(p, p.Vector, p.Steps, p.Threads, p.Cluster, p.Rows, p.Each, int64(p.Price)); err != nil {
		return nil, err
	}
	return scheduler.Build(a.g.Fusion, func(s *schedule.Scheduled) error { return a.schedule(s, p) })
}

func (a *analysis) schedule(s *schedule.Scheduled, p Params) error {
	var sums map[core.ValID]core.ValID
	if !p.isOnePass() {
		if err := twoPass(s, &sums); err != nil {
			return err
		}
	}
	if p.Piece > 0 {
		if err := apartExponentials(s, sums); err != nil {
			return err
		}
	}
	instead, err := scheduler.CacheOutputs(s)
	if err != nil {
		return err
	}
	if err := a.share(s, p); err != nil {
		return err
	}
	phases, err := persistence.Sort(s)
	if err != nil {
		return err
	}
	plan := phases.Choose(p.Price, p.holding().isPacked)
	if err := plan.Apply(); err != nil {
		return err
	}
	if p.Vector > 1 {
		if err := holdPacked(s, plan); err != nil {
			return err
		}
	}
	reference := a.facts.reference
	for _, names := range []map[core.ValID]core.ValID{sums, instead} {
		if v, ok := names[reference]; ok {
			reference = v
		}
	}
	pieces, err := a.spreadLoops(s, reference, p)
	if err != nil {
		return err
	}
	if err := s.ParallelizeLike(reference, -1, phases.Reductions, nil); err != nil {
		return err
	}
	for _, v := range phases.Reductions {
		partial, err := a.steps(s, v)
		if err != nil {
			return err
		}
		if v == reference {
			reference = partial
		}
	}
	if err := a.rows.Vectorize(s, a.pitch(p)); err != nil {
		return err
	}
	if err := a.accessPieces(s, p, pieces); err != nil {
		return err
	}
	if err := a.storeTogether(s, p); err != nil {
		return err
	}
	if err := scheduler.ParallelizeLike(s, reference, nil); err != nil {
		return err
	}
	if err := layRows(s, p); err != nil {
		return err
	}
	if p.Steps > leastSteps && p.Vector == 1 && p.Threads == warp && p.Rows*warp == block {
		s.SetResidentBlocks(warpResident)
	}
	if p.Resident > 0 {
		s.SetResidentBlocks(int(p.Resident))
	}
	if p.Apart {
		s.SetApart()
	}
	tensors := s.Tensors()
	if p.Early {
		tensors = slices.DeleteFunc(slices.Clone(tensors), func(v core.ValID) bool { return isFirstCopy(s.Fusion(), phases, v) })
	}
	if err := a.stream(s, reference, plan, p); err != nil {
		return err
	}
	var soon []core.ValID
	if p.Soon {
		soon = slices.DeleteFunc(slices.Clone(tensors), func(v core.ValID) bool {
			from, ok := scheduler.CopiedInput(s.Fusion(), v)
			return !ok || !phases.LoadsSoon(from)
		})
		tensors = slices.DeleteFunc(slices.Clone(tensors), func(v core.ValID) bool { return slices.Contains(soon, v) })
		s.SetFirst()
	}
	if err := s.InlineMost(tensors, nil); err != nil {
		return err
	}
	for _, v := range soon {
		if err := s.InlineAt(v, p.outside(), false); err != nil {
			return err
		}
	}
	return nil
}

// spreadLoops gives all tensors the loops of p, and returns the pieces that go through shared memory.
func (a *analysis) spreadLoops(s *schedule.Scheduled, reference core.ValID, p Params) (pieces []piece, err error) {
	if p.Piece > 0 {
		if pieces, err = a.pieces(s); err == nil {
			err = a.pieceLoops(s, reference, p, pieces)
		}
		return pieces, err
	}
	if err := a.loops(s, reference, p); err != nil {
		return nil, err
	}
	return nil, scheduler.Spread(s, name, reference)
}

// outside returns how many loops are of blocks and of their rows.
func (p Params) outside() int { return 1 + int(min(p.Rows-1, 1)) }

// storeTogether lets a thread that has several rows next to each other store what they are reduced to at once,
// where that lies in memory so.
func (a *analysis) storeTogether(s *schedule.Scheduled, p Params) error {
	for k, w := range a.beside(p) {
		if w == 0 {
			continue
		}
		if err := space.Widen(s, s.Fusion().Outputs()[a.rows.Tensors[k].Place].Val, p.Each, w); err != nil {
			return err
		}
	}
	return nil
}

// beside returns, for each tensor that is an output with one element for a row, how many of those of a thread
// an access has; 0 for others.
func (a *analysis) beside(p Params) []int64 {
	widths := make([]int64, len(a.rows.Tensors))
	for k := range widths {
		t := &a.rows.Tensors[k]
		if p.Each > 1 && p.Aligned == 0 && !p.Across && t.IsOutput && t.IsConstant(a.rows.Kept, len(a.rows.Order)) {
			widths[k] = min(p.Each, a.rows.Beside(t))
		}
	}
	return widths
}

// stream says what loads leave in caches.
func (a *analysis) stream(s *schedule.Scheduled, reference core.ValID, plan *persistence.Plan, p Params) error {
	switch {
	case p.Once:
		return scheduler.PassFirstCache(s, len(s.Loop(reference)))
	case p.streams(s, plan):
		return a.g.Stream(s)
	}
	return nil
}

// streams reports whether large inputs are loaded as [scheduler.Segment.Stream] says: not pairs of elements of
// two rows that begin where memory is aligned if a thread computes with them at once, as where a mask is added,
// since ptxas orders those loads badly then. A softmax(x + row) of 65600 x 1023 bfloat16 takes 73.4 / 71.0 us on an H200 so and 69.2 / 67.5
// without, where a layer norm gains 1.7 / 1.3 and a softmax 1.0 / 0.5.
func (p Params) streams(s *schedule.Scheduled, plan *persistence.Plan) bool {
	isPairs := p.Each > 1 && p.Aligned > 1 && !p.isInSectors()
	return !isPairs || !slices.ContainsFunc(plan.Held, func(v core.ValID) bool {
		_, isCopy := scheduler.CopiedInput(s.Fusion(), v)
		return !isCopy && !s.Fusion().Val(v).Input
	})
}

// isOnePass reports whether means and variances are reduced together, which reads shared memory once less and
// exchanges once, but exchanges more: fewer numbers where all threads have as many elements. In us on an H200, in one
// pass and in two, of whole rows with more warps than a warp has lanes: a layer norm of 2048 x 131072 bfloat16 275.8 /
// 272.2 and 282.0 / 277.8, of 1024 x 262144 281.0 / 279.4 and 291.0 / 287.8, of 512 x 131072 float32 144.3 / 141.5 and
// 150.7 / 147.3.
func (p Params) isOnePass() bool {
	most := int64(onePassThreads)
	if p.Whole {
		most = wholeThreads
	}
	return p.Shared && p.Cluster*p.Threads <= most
}

// layRows lays out the rows of a thread in shared memory one after the other: what the lanes of a
// warp read of one of them is side by side then. A layer norm of 4096 x 65536 bfloat16 took 386 us
// on an H200 with steps of its two rows in turn, which lie in half the banks, and 288 so.
func layRows(s *schedule.Scheduled, p Params) error {
	for _, v := range s.Tensors() {
		if p.Each == 1 || p.Piece > 0 || s.Memory(v) != schedule.Shared {
			continue
		}
		axes := slices.Clone(s.Loop(v))
		each := len(axes) - 1 // see loops
		if p.Vector > 1 {
			each--
		}
		row := axes[each]
		if err := s.SetAllocation(v, slices.Insert(slices.Delete(axes, each, each+1), 0, row), nil); err != nil {
			return err
		}
	}
	return nil
}

// isFirstCopy reports whether v is a copy of what is loaded before rows are reduced, if anything is.
func isFirstCopy(f *core.Fusion, phases *persistence.Phases, v core.ValID) bool {
	from, ok := scheduler.CopiedInput(f, v)
	return ok && phases.LoadsFirst(from)
}

// holdPacked lets phases unpack what is held anew. Else a compiler keeps what the first
// phase has unpacked, in twice the registers: an RMS norm of 8192 elements and 256 threads
// took 48 registers and spilled three, and takes 40.
func holdPacked(s *schedule.Scheduled, plan *persistence.Plan) error {
	for _, v := range plan.Held {
		if x := s.Fusion().Val(v); !x.Input && s.Memory(v) == schedule.Local && x.DType.Size() < 4 {
			if err := s.HoldPacked(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// share lets copies of inputs in registers be of copies in shared memory, of which each
// thread makes those that it reads.
func (a *analysis) share(s *schedule.Scheduled, p Params) error {
	f, copies := s.Fusion(), copiesOf(s)
	for _, i := range a.facts.held[p.holding()].again {
		v := f.Inputs()[i]
		if len(copies[v]) == 0 {
			continue
		}
		cache, err := s.CacheAfter(v, copies[v])
		if err == nil {
			err = s.SetCopy(cache, schedule.AsyncCopy, schedule.CacheUnspecified)
		}
		if err == nil {
			err = s.SetMemory(cache, schedule.Shared)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copiesOf returns the copies that s has of each tensor, in registers if it is an input.
func copiesOf(s *schedule.Scheduled) map[core.ValID][]core.ValID {
	f, copies := s.Fusion(), map[core.ValID][]core.ValID{}
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op == core.SetOp {
			from := f.TensorArgs(e)[0]
			copies[from] = append(copies[from], e.Out[0])
		}
	}
	return copies
}

// loops gives the reduction v loops: blocks of rows, rows, an axis of one element, blocks
// of a cluster, steps of a thread, threads, rows of a thread, and elements of a step. What
// rows have in common is so loaded once for those of a thread. What is 1 of rows and
// elements is left out.
func (a *analysis) loops(s *schedule.Scheduled, v core.ValID, p Params) error {
	order, kept := a.dimensions(p), a.rows.KeptDimensions
	moves := map[int]int{}
	for k, d := range order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: s, Tensor: v}
	n.Reorder(moves)
	at := a.row(&n, len(order)-kept, p)
	n.Split(at, p.Threads, schedule.TIDx)
	steps := at
	switch {
	case p.Cluster > 1 && p.inOnePiece():
		n.Split(at, p.Steps, schedule.Serial)
		n.Parallelize(at, schedule.Cluster)
		steps++
	case p.Cluster > 1:
		n.Split(at, p.Cluster, schedule.Serial)
		n.Parallelize(at+1, schedule.Cluster)
	}
	if p.Ahead > 1 {
		n.Split(steps, p.Ahead, schedule.Unroll)
	}
	if kept > 0 {
		isApart := p.Aligned > 1 && p.Each > 1 // rows of one phase are as many apart as a block has of other phases
		if isApart {
			n.Split(0, p.Rows, schedule.TIDy)
		}
		if n.Split(0, p.Each, schedule.Serial); p.Each > 1 {
			at := len(s.Loop(v)) - 1
			if p.Vector > 1 {
				at--
			}
			n.Reorder(map[int]int{1: at})
		}
		if !isApart {
			n.Split(0, p.Rows, schedule.TIDy)
		}
		n.Parallelize(0, schedule.BIDx)
	}
	return n.Err
}

// row gives n, whose last dimensions are those reduced, a loop of the steps of all threads of
// a row, which it returns the place of, and one of the elements of a step.
func (a *analysis) row(n *scheduler.Nest, reduced int, p Params) int {
	kept := a.rows.KeptDimensions
	split := func(capacity int64, at int) int {
		n.Merge(0, kept)
		at -= max(kept-1, 0)
		if least := p.least(); n.Err == nil && least > 0 && a.rows.Piece == a.rows.Length {
			n.Err = n.Schedule.PromiseLeast(n.Tensor, at, least)
		}
		if n.Err == nil && p.Aligned > 1 {
			n.Err = n.Schedule.AlignRows(n.Tensor, 0, at, p.Aligned)
		}
		if n.Err == nil {
			n.Err = n.Schedule.SplitWhole(n.Tensor, at, capacity)
		}
		return at + 1
	}
	if a.rows.Piece == a.rows.Length {
		n.Merge(kept, reduced)
		at := split(p.capacity()+p.before(), kept)
		n.Split(at, p.Vector, schedule.Serial)
		return at
	}
	inner := len(a.rows.Order) - a.rows.Kept // no step goes on in another piece
	n.Merge(kept+reduced-inner, inner)
	n.Split(kept+reduced-inner, p.Vector, schedule.Serial)
	n.Merge(kept, reduced-inner+1)
	return split(p.capacity()/p.Vector, kept)
}

// steps lets each thread fold its elements of a row in a tensor of its own, which it
// returns.
func (a *analysis) steps(s *schedule.Scheduled, v core.ValID) (core.ValID, error) {
	f := s.Fusion()
	var own []int
	isShared := false
	for k, x := range s.Loop(v) {
		switch {
		case f.Axis(x).Kind != core.Reduce:
		case s.Parallel(x) == schedule.TIDx:
			isShared = true
		case s.Parallel(x) == schedule.Cluster:
		default:
			own = append(own, k)
		}
	}
	if !isShared || len(own) < 2 {
		return v, scheduler.Refused(f, name, "loops", v, "%s is not reduced along the dimensions of the first reduction", f.Name(v))
	}
	partial, err := s.RFactor(v, own)
	if err != nil {
		return v, err
	}
	return partial[0], nil
}
