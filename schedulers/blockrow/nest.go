package blockrow

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

func (a *analysis) build(p Params) (*schedule.Scheduled, error) {
	if err := scheduler.CheckPositive(p, p.Vector, p.Steps, p.Threads, p.Rows); err != nil {
		return nil, err
	}
	return scheduler.Build(a.g.Fusion, func(s *schedule.Scheduled) error { return a.schedule(s, p) })
}

func (a *analysis) schedule(s *schedule.Scheduled, p Params) error {
	instead, err := scheduler.CacheOutputs(s)
	if err != nil {
		return err
	}
	f := s.Fusion()
	reference := a.facts.reference
	if v, ok := instead[reference]; ok {
		reference = v
	}
	var first core.ValID // of the results of topk
	isShort := false
	for _, e := range operations(f) {
		if e.Op.Class != core.Sort {
			continue
		}
		cache, err := s.CacheAfter(f.TensorArgs(e)[0], e.Out[:1])
		if err == nil {
			err = s.SetMemory(cache, schedule.Shared)
		}
		if err != nil {
			return err
		}
		if e.Op == core.TopkOp {
			reference, first, isShort = cache, e.Out[0], true
		}
	}
	if err := a.spread(s, reference, p, false); err != nil {
		return err
	}
	if isShort {
		if err := a.spread(s, first, p, true); err != nil {
			return err
		}
	}
	if err := a.space.Vectorize(s, a.pitch(p)); err != nil {
		return err
	}
	if err := parallelize(s, reference); err != nil {
		return err
	}
	if err := a.g.Stream(s); err != nil {
		return err
	}
	tensors := s.Tensors()
	if p.Aligned { // all loads come first: what does not exist at the ends of a row is set right after them
		tensors = slices.DeleteFunc(slices.Clone(tensors), func(v core.ValID) bool { _, isCopy := scheduler.CopiedInput(f, v); return isCopy })
	}
	return s.InlineMost(tensors, nil)
}

// spread gives reference its loops, and those tensors that have its rows: those that are
// computed from the first elements of rows, or the others.
func (a *analysis) spread(s *schedule.Scheduled, reference core.ValID, p Params, isShort bool) error {
	if err := a.loops(s, reference, p); err != nil {
		return err
	}
	shorter := shortened(s.Fusion())
	like := slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return shorter[v] != isShort })
	refusals, err := s.TransformLike(reference, like)
	return scheduler.Follow(name, refusals, err)
}

// loops gives v loops: blocks of rows, rows, steps of a thread, threads, and elements of a
// step; of columns blocks, threads next to each other, threads along them, elements, and columns
// of a thread.
func (a *analysis) loops(s *schedule.Scheduled, v core.ValID, p Params) error {
	order := a.order()
	moves := map[int]int{}
	for k, d := range order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: s, Tensor: v}
	n.Reorder(moves)
	kept := len(order) - 1
	n.Merge(0, kept)
	at := min(kept, 1)
	if least := p.least(); n.Err == nil && least > 0 {
		n.Err = s.PromiseLeast(v, at, least)
	}
	if n.Err == nil && p.Aligned {
		n.Err = s.AlignRows(v, 0, at, p.Vector)
	}
	if n.Err == nil {
		n.Err = s.SplitWhole(v, at, p.capacity()+p.before())
	}
	at++
	if p.Columns {
		return splitColumns(n, at, p)
	}
	n.Split(at, p.Vector, schedule.Serial)
	n.Split(at, p.Threads, schedule.TIDx)
	if kept > 0 {
		n.Split(0, p.Rows, schedule.TIDy)
		n.Parallelize(0, schedule.BIDx)
	}
	return n.Err
}

// splitColumns gives the columns of n, which have their elements at a place, the loops of p.
func splitColumns(n scheduler.Nest, at int, p Params) error {
	n.Split(at, p.Steps, schedule.Serial)
	if p.Threads > 1 {
		n.Parallelize(at, schedule.TIDy)
	}
	n.Split(0, p.Vector, schedule.Serial)
	n.Split(0, p.Rows, schedule.TIDx)
	n.Parallelize(0, schedule.BIDx)
	if p.Vector > 1 && n.Err == nil {
		n.Reorder(map[int]int{2: len(n.Schedule.Loop(n.Tensor)) - 1})
	}
	return n.Err
}

// parallelize gives all tensors the threads of reference. The axes of what needs a row and
// of what it reads have no loops in common, so each of the two is a reference for those
// that have its own.
func parallelize(s *schedule.Scheduled, reference core.ValID) error {
	f := s.Fusion()
	loop := s.Loop(reference)
	like := func(v core.ValID) error {
		for k, a := range s.Loop(v) {
			if k >= len(loop) || s.Parallel(loop[k]) == schedule.Serial || s.Parallel(a) != schedule.Serial {
				continue
			}
			if err := s.Parallelize(v, k, s.Parallel(loop[k])); err != nil {
				return err
			}
		}
		return scheduler.ParallelizeLike(s, v, nil)
	}
	for _, e := range operations(f) {
		for _, v := range []core.ValID{e.Out[0], f.TensorArgs(e)[0]} {
			if err := like(v); err != nil {
				return err
			}
		}
	}
	return nil
}
