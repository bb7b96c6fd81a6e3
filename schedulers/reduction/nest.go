package reduction

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// A builder makes the schedule of a segment with its parameters.
//
// The loops of a reduction are, from outside, those that there are of:
//
//	inner: blocks of results, results along y, steps, results of a thread, steps under way, blocks that share, lanes, elements
//	outer: blocks of columns, tiles of columns along y, steps, blocks that share, steps under way, steps along z and y, lanes, elements
type builder struct {
	Params
	layout *layout
	s      *schedule.Scheduled
	types  []schedule.Parallel // of the loops of the first reduction
	apart  []core.AxisID       // that no tensors run along together
}

func (b *builder) schedule(all []core.ValID) error {
	instead, err := scheduler.CacheOutputs(b.s)
	if err != nil {
		return err
	}
	for k, v := range all {
		if cache, ok := instead[v]; ok {
			all[k] = cache
		}
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: all[0]}
	types := b.outerLoops
	if b.Inner {
		types = b.innerLoops
	}
	if b.types = types(&n); n.Err != nil {
		return n.Err
	}
	if err := scheduler.Spread(b.s, name, all[0]); err != nil {
		return err
	}
	loops := b.s.Loop(all[0])
	parts := make([]core.ValID, len(all))
	for k, v := range all {
		if !b.follows(v, loops) {
			return scheduler.Refused(b.s.Fusion(), name, "loops", v, "%s is not reduced along the axes of the first reduction", b.s.Fusion().Name(v))
		}
		if parts[k], err = b.inSteps(v); err != nil {
			return err
		}
	}
	if err := b.parallelize(parts[0], b.types); err != nil {
		return err
	}
	if err := b.layout.Vectorize(b.s, b.layout.pitch(b.Params)); err != nil {
		return err
	}
	if !b.Inner {
		if err := scheduler.PassFirstCache(b.s, len(loops)); err != nil {
			return err
		}
	}
	var like []core.ValID // that run as the parts do; nil: all
	if b.Staged {
		if err := b.stage(all, parts); err != nil {
			return err
		}
		below := b.below(parts)
		like = slices.DeleteFunc(slices.Clone(b.s.Tensors()), func(v core.ValID) bool { return slices.Contains(below, v) })
	}
	if err := scheduler.ParallelizeLike(b.s, parts[0], like); err != nil {
		return err
	}
	threads := b.Lanes * b.Rows
	if b.shares() {
		threads *= b.Tiles
	}
	switch {
	case b.Inner && b.layout.isHeavy && (threads == heavyBlock || threads == smallBlock):
		b.s.SetResidentBlocks(int(heavyThreads / threads))
	case threads <= residentThreads || !b.Inner:
		b.s.SetResidentBlocks(int(clamp(residentThreads/threads, 1, mostResident)))
	}
	return b.s.InlineMost(nil, b.apart)
}

// results returns v and the other results of its expression.
func (b *builder) results(v core.ValID) []core.ValID {
	f := b.s.Fusion()
	return slices.Clone(f.Expr(f.Val(v).Def).Out)
}

// parallelize says how the loops of v, and of the other results of its expression, run.
func (b *builder) parallelize(v core.ValID, types []schedule.Parallel) error {
	for _, w := range b.results(v) {
		n := scheduler.Nest{Schedule: b.s, Tensor: w}
		for k, p := range types {
			n.Parallelize(k, p)
		}
		if n.Err != nil {
			return n.Err
		}
	}
	return nil
}

// follows reports whether v, which is not reduced in steps yet, has loops like those
// of the first reduction, and reduces along the same.
func (b *builder) follows(v core.ValID, loops []core.AxisID) bool {
	f := b.s.Fusion()
	return slices.EqualFunc(b.s.Loop(v), loops, func(a, c core.AxisID) bool {
		return (f.Axis(a).Kind == core.Reduce) == (f.Axis(c).Kind == core.Reduce)
	})
}

// places returns the dimensions that are kept and those that are reduced, in the order
// of the space, and how many of those of the columns stand last.
func (b *builder) places() (kept, reduced []int, columns int) {
	l := b.layout
	for k, d := range l.Order {
		if l.isReduced[k] {
			reduced = append(reduced, d)
		} else {
			kept = append(kept, d)
		}
	}
	along := kept
	if b.Inner {
		along = reduced
	}
	if columns = len(along); b.Inner == l.isInner() && !l.isMerged {
		columns = len(l.Order) - l.columns
	}
	return kept, reduced, columns
}

// order puts the dimensions in the order given.
func order(n *scheduler.Nest, dims []int) {
	moves := map[int]int{}
	for k, d := range dims {
		moves[d] = k
	}
	n.Reorder(moves)
}

// innerLoops gives the tensor of n, which has its own dimensions, the loops of an inner
// reduction, and returns how they run.
func (b *builder) innerLoops(n *scheduler.Nest) []schedule.Parallel {
	kept, reduced, columns := b.places()
	order(n, slices.Concat(kept, reduced))
	at, outside := min(len(kept), 1), len(reduced)-columns
	if b.shares() {
		at = b.mergeShared(n, len(kept))
	} else {
		n.Merge(0, len(kept))
	}
	n.Merge(at+outside, columns)
	if b.Aligned && n.Err == nil {
		n.Err = n.Schedule.AlignRows(n.Tensor, 0, at, b.Vector)
	}
	types := b.split(n, at+outside, b.Vector, schedule.Serial, nil)
	n.Merge(at, outside+1)
	types = b.split(n, at, b.Lanes, schedule.TIDx, types)
	types = b.split(n, at, b.Blocks, schedule.BIDy, types)
	types = append([]schedule.Parallel{schedule.Serial}, b.split(n, at, b.Unroll, schedule.Unroll, types)...)
	if len(kept) == 0 {
		return types
	}
	across := schedule.TIDy
	if b.Lanes == 1 {
		across = schedule.TIDx
	}
	all := b.split(n, at-1, b.Rows, across, types)
	if b.shares() {
		return b.splitShared(n, at, len(all)-len(types)+1, all)
	}
	if b.Each > 1 { // split outside of results along y, so that rows of a warp are next to each other, and put inside the steps
		inside := len(all) - len(types) + 1
		if b.Aligned { // what rows have in common is loaded once for those of a thread
			inside = len(all) - 1
		}
		n.Split(0, b.Each, schedule.Serial)
		n.Reorder(map[int]int{1: 1 + inside})
		all = slices.Insert(all, inside, schedule.Unroll)
	}
	return append([]schedule.Parallel{schedule.BIDx}, all...)
}

// mergeShared merges the first axes of the tensor of n, which so many are kept, to those before the results that a
// thread has at a time, those that these lie along, and those after, which are along threads. It returns how many there are then.
func (b *builder) mergeShared(n *scheduler.Nest, kept int) int {
	begin, end := b.Shared.Begin, b.Shared.End
	n.Merge(end, kept-end)
	n.Merge(begin, end-begin)
	n.Merge(0, begin)
	return min(begin, 1) + 2
}

// splitShared splits the results of a thread, and threads along y, from the last loop but one of the first at, which are of blocks but for
// the threads along the last, and puts the results inside the steps. It returns how all loops run, of which all are those from the threads on.
func (b *builder) splitShared(n *scheduler.Nest, at, inside int, all []schedule.Parallel) []schedule.Parallel {
	n.Split(at-2, b.Each, schedule.Serial)
	n.Reorder(map[int]int{at - 1: at + inside})
	all = slices.Insert(all, inside, schedule.Unroll)
	if b.Tiles > 1 {
		n.Split(at-2, b.Tiles, schedule.Serial)
		n.Reorder(map[int]int{at - 1: at})
		all = append([]schedule.Parallel{schedule.TIDy}, all...)
	}
	n.Merge(0, at)
	return append([]schedule.Parallel{schedule.BIDx}, all...)
}

// outerLoops gives the tensor of n, which has its own dimensions, the loops of an outer
// reduction, and returns how they run.
func (b *builder) outerLoops(n *scheduler.Nest) []schedule.Parallel {
	kept, reduced, columns := b.places()
	order(n, slices.Concat(kept, reduced))
	at, outside := len(kept), len(kept)-columns
	n.Merge(at, len(reduced))
	var types []schedule.Parallel
	if b.Staged {
		types = b.split(n, at, b.groupSteps(), schedule.TIDy, types)
		types = b.split(n, at, b.groups(), schedule.TIDz, types)
	} else {
		types = b.split(n, at, b.Rows, schedule.TIDy, types)
	}
	types = b.split(n, at, b.Unroll, schedule.Unroll, types)
	types = append([]schedule.Parallel{schedule.Serial}, b.split(n, at, b.Blocks, schedule.BIDy, types)...)
	if len(kept) == 0 {
		return types
	}
	n.Merge(outside, columns)
	inside := b.split(n, outside, b.Vector, schedule.Serial, nil)
	inside = b.split(n, outside, b.Lanes, schedule.TIDx, inside)
	n.Merge(0, outside+1)
	moves := map[int]int{}
	for k := range inside {
		moves[1+k] = 1 + len(types) + k
	}
	n.Reorder(moves)
	tiles := b.split(n, 0, b.Tiles, schedule.TIDy, []schedule.Parallel{})
	return slices.Concat([]schedule.Parallel{schedule.BIDx}, tiles, types, inside)
}

// split splits factor iterations off the loop at, unless that is 1, and returns inside
// with how they run in front.
func (b *builder) split(n *scheduler.Nest, at int, factor int64, p schedule.Parallel, inside []schedule.Parallel) []schedule.Parallel {
	if factor == 1 {
		return inside
	}
	n.Split(at, factor, schedule.Serial)
	return append([]schedule.Parallel{p}, inside...)
}

// inSteps folds the share of each thread of the reduction v in a tensor of its own,
// which it returns; v itself if a thread has all.
func (b *builder) inSteps(v core.ValID) (core.ValID, error) {
	f := b.s.Fusion()
	var own []int
	isShared := false
	for k, a := range b.s.Loop(v) {
		switch p := b.types[k]; {
		case f.Axis(a).Kind != core.Reduce:
		case p.IsThread() || p.IsBlock():
			isShared = true
		default:
			own = append(own, k)
		}
	}
	if !isShared {
		return v, nil
	}
	parts, err := b.s.RFactor(v, own)
	if err != nil {
		return v, err
	}
	return parts[0], nil
}
