package innerouter

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
)

func (a *analysis) build(p Params) (*schedule.Scheduled, error) {
	if err := scheduler.CheckPositive(p, p.Vector, p.Steps, p.Warps, p.Rows, p.Blocks, int64(p.Price)); err != nil {
		return nil, err
	}
	return scheduler.Build(a.g.Fusion, func(s *schedule.Scheduled) error {
		b := &builder{Params: p, a: a, s: s}
		return b.schedule()
	})
}

// A builder makes the schedule of a segment with its parameters. The loops of a row are,
// from outside, those that there are of: blocks, rows of a block, rows at a time, an axis
// of one element, steps of a thread, warps, threads of a warp, elements of a step.
type builder struct {
	Params
	a *analysis
	s *schedule.Scheduled

	staged []core.ValID // tensors in circular buffers
	folds  []core.ValID // of columns, of what all blocks have left
}

func (b *builder) schedule() error {
	s, reference := b.s, b.a.reference
	sums, err := twoPass(s, reference)
	if err != nil {
		return err
	}
	instead, err := scheduler.CacheOutputs(s)
	if err != nil {
		return err
	}
	for _, names := range []map[core.ValID]core.ValID{sums, instead} {
		if v, ok := names[reference]; ok {
			reference = v
		}
	}
	phases, err := persistence.SortRows(s, reference)
	if err != nil {
		return err
	}
	if b.Stages > 0 {
		if b.staged, err = stage(s, phases); err != nil {
			return err
		}
		if phases, err = persistence.SortRows(s, reference); err != nil {
			return err
		}
	}
	phases.Resident = b.IsResident
	residents := slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return !b.isLoaded(v) || !phases.IsResident(v) })
	plan := phases.Choose(b.Price, b.Vector > 1)
	if err := plan.Apply(); err != nil {
		return err
	}
	below, above := b.below(phases)
	if err := b.loops(reference); err != nil {
		return err
	}
	if err := scheduler.Spread(s, name, reference); err != nil {
		return err
	}
	var parts [][]core.ValID
	for _, v := range phases.Columns {
		part, err := b.s.RFactor(v, b.ownRows())
		if err != nil {
			return err
		}
		parts, above = append(parts, part), append(above, part...)
	}
	if err := s.ParallelizeLike(reference, -1, above, nil); err != nil {
		return err
	}
	for _, v := range phases.Reductions {
		if err := b.foldRow(v); err != nil {
			return err
		}
	}
	for _, part := range parts {
		if err := b.leave(part); err != nil {
			return err
		}
	}
	for _, v := range phases.Columns {
		if err := b.fold(v, below[v]); err != nil {
			return err
		}
	}
	if err := b.a.rows.Vectorize(s, b.a.rows.Pitch(b.Vector)); err != nil {
		return err
	}
	if err := b.widenStaged(); err != nil {
		return err
	}
	// The branch of a division by an argument keeps ptxas from mixing what is before it with what is after. A layer norm
	// backward of 16384 x 4096 bfloat16 takes 104.8 / 99.7 us on an H200 so, 113.4 / 109.1 divided by a constant.
	s.SetArguments()
	if err := s.InlineMost(nil, nil); err != nil {
		return err
	}
	for _, v := range b.folds { // loads of all columns of a thread are under way together
		if err := s.InlineAt(v, 1, true); err != nil {
			return err
		}
	}
	for _, v := range residents {
		if err := s.InlineAt(v, 0, false); err != nil {
			return err
		}
	}
	return b.ahead(phases)
}

// below returns by column what is made of it, and what else there is.
func (b *builder) below(phases *persistence.Phases) (below map[core.ValID][]core.ValID, above []core.ValID) {
	f := b.s.Fusion()
	below, of := map[core.ValID][]core.ValID{}, map[core.ValID]core.ValID{}
	for _, v := range b.s.Tensors() {
		if !phases.IsAfter(v) {
			above = append(above, v)
			continue
		}
		e := f.Expr(f.Val(v).Def)
		if e.Op.Class == core.Reduction {
			of[v] = e.Out[0]
			continue
		}
		column := of[f.TensorArgs(e)[0]]
		below[column], of[v] = append(below[column], v), column
	}
	return below, above
}

// loops gives the reduction v its loops.
func (b *builder) loops(v core.ValID) error {
	order, kept := b.a.rows.Dimensions, b.a.rows.KeptDimensions
	moves := map[int]int{}
	for k, d := range order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: v}
	n.Reorder(moves)
	n.Merge(kept, len(order)-kept)
	n.Merge(0, kept)
	if n.Err == nil && b.Whole {
		n.Err = b.s.PromiseLeast(v, 1, b.capacity())
	}
	if n.Err == nil {
		n.Err = b.s.SplitWhole(v, 1, b.capacity())
	}
	n.Split(2, b.Vector, schedule.Serial)
	n.Split(2, warp, schedule.TIDx)
	n.Split(2, b.Warps, schedule.TIDy)
	n.Split(0, b.Rows, schedule.TIDz)
	if n.Err == nil {
		n.Err = b.s.Split(v, 0, b.Blocks, true)
	}
	n.Parallelize(1, schedule.BIDx)
	n.Reorder(map[int]int{1: 0})
	return n.Err
}

// ownRows are the loops over rows that a block has alone.
func (b *builder) ownRows() []int {
	if b.Rows > 1 {
		return []int{1, 2}
	}
	return []int{1}
}

// foldRow lets each thread fold its elements of a row in tensors of its own.
func (b *builder) foldRow(v core.ValID) error {
	var own []int
	for k, x := range b.s.Loop(v) {
		if b.s.Fusion().Axis(x).Kind == core.Reduce && !b.s.Parallel(x).IsThread() {
			own = append(own, k)
		}
	}
	_, err := b.s.RFactor(v, own)
	return err
}

// leave lets each thread fold its columns of the rows of its block, which part has, and
// the threads of a block that have the same columns leave them in global memory together.
func (b *builder) leave(part []core.ValID) error {
	s := b.s
	if b.Rows > 1 {
		if _, err := s.RFactor(part[0], []int{1}); err != nil {
			return err
		}
	}
	for _, p := range part {
		c, err := s.CacheAfter(p, nil)
		if err != nil {
			return err
		}
		if err := s.SetMemory(c, schedule.Global); err != nil {
			return err
		}
		if refusals, err := s.TransformLike(p, []core.ValID{c}); err != nil || len(refusals) > 0 {
			return scheduler.Follow(name, refusals, err)
		}
		if err := s.ParallelizeLike(p, -1, []core.ValID{c}, nil); err != nil {
			return err
		}
		if err := b.widen(c); err != nil {
			return err
		}
	}
	return nil
}

// widen lets c store several elements at a time, if its innermost loop is of elements.
func (b *builder) widen(c core.ValID) error {
	w := min(b.Vector, accessBytes/int64(b.s.Fusion().Val(c).DType.Size()))
	if w <= 1 || b.Vector%w != 0 {
		return nil
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: c}
	if w < b.Vector {
		n.Split(-1, w, schedule.Serial)
		n.Parallelize(-2, schedule.Unroll)
	}
	n.Parallelize(-1, schedule.Vectorize)
	return n.Err
}

// fold gives the reduction v of what blocks have left its loops: blocks, columns at a
// time, steps, what several threads fold side by side, threads along columns. Then each
// thread folds its steps first. Where blocks are few all threads are along columns. What is
// below it runs as it does.
func (b *builder) fold(v core.ValID, below []core.ValID) error {
	f := b.s.Fusion()
	isAlong := b.Blocks < b.Warps*b.Rows
	for _, w := range slices.Clone(f.Expr(f.Val(v).Def).Out) {
		n := scheduler.Nest{Schedule: b.s, Tensor: w}
		n.Merge(1, len(b.s.Loop(w))-1)
		n.Split(1, warp, schedule.Serial)
		at := 0 // of the loop that threads beside those share
		if isAlong {
			at = 1
		}
		n.Split(at, b.Warps, schedule.TIDy)
		n.Split(at, b.Rows, schedule.TIDz)
		end := len(b.s.Loop(w)) - 1 // of the loop over columns
		if isAlong {
			end = 2
		}
		if n.Err == nil {
			n.Err = b.s.Split(w, end-1, b.Blocks, false)
		}
		n.Reorder(map[int]int{end - 1: 0, end: 1})
		n.Parallelize(0, schedule.BIDx)
		n.Parallelize(2, schedule.Unroll)
		n.Parallelize(-1, schedule.TIDx)
		if n.Err != nil {
			return n.Err
		}
	}
	if refusals, err := b.s.TransformLike(v, below); err != nil || len(refusals) > 0 {
		return scheduler.Follow(name, refusals, err)
	}
	if err := b.s.ParallelizeLike(v, -1, below, nil); err != nil {
		return err
	}
	if isAlong || b.Warps == 1 && b.Rows == 1 {
		return nil
	}
	part, err := b.s.RFactor(v, []int{2})
	if scheduler.CeilDiv(b.capacity(), warp*b.Blocks) <= fewColumns {
		b.folds = append(b.folds, append(part, f.Expr(f.Val(v).Def).Out...)...)
	}
	return err
}
