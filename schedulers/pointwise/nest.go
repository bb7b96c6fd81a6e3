package pointwise

import (
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// loops gives the reference its loops. Those of one dimension are blocks, steps of
// a thread, threads and elements of a step; those of two are blocks, threads along
// columns and along rows, steps, which are rows, and elements. In that order what
// has no columns or no rows is read outside the steps.
func (q Params) loops(s *schedule.Scheduled, p *space) error {
	moves := map[int]int{}
	for k, d := range p.order {
		moves[d] = k
	}
	if err := s.Reorder(p.reference, moves); err != nil {
		return err
	}
	n := nest{s: s, v: p.reference}
	n.merge(q.Break, len(p.order)-q.Break)
	if q.Break == 0 {
		n.split(0, max(q.Vector, 1), schedule.Serial)
		n.split(0, q.Threads, schedule.TIDx)
		n.split(0, q.Unroll, schedule.Unroll)
		n.parallelize(0, schedule.BIDx)
		return n.err
	}
	n.merge(0, q.Break)
	n.split(1, max(q.Vector, 1), schedule.Serial)
	n.split(0, q.Rows, schedule.TIDy)
	n.split(0, q.Unroll, schedule.Unroll)
	at := len(s.Loop(p.reference)) - 1 // the columns, or what they are split from
	if q.Vector > 1 {
		at--
	}
	n.split(at, q.Threads, schedule.TIDx)
	// blocks of rows, steps, rows; blocks of columns, columns
	moves = map[int]int{0: 0, at: 1, at + 1: 2}
	if q.Rows > 1 {
		moves[at-1] = 3
	}
	if n.err == nil {
		n.err = s.Reorder(p.reference, moves)
	}
	n.merge(0, 2)
	n.parallelize(0, schedule.BIDx)
	return n.err
}

// A nest is the loops of v as they come about; it keeps the first error.
type nest struct {
	s   *schedule.Scheduled
	v   core.ValID
	err error
}

// merge merges count loops from place at on to one.
func (n *nest) merge(at, count int) {
	if n.err == nil {
		n.err = scheduler.MergeAll(n.s, n.v, at, at+count)
	}
}

// split splits a loop of factor iterations off, unless that is 1.
func (n *nest) split(at int, factor int64, p schedule.Parallel) {
	if factor == 1 && p != schedule.TIDx || n.err != nil {
		return
	}
	if n.err = n.s.Split(n.v, at, factor, true); p != schedule.Serial {
		n.parallelize(at+1, p)
	}
}

func (n *nest) parallelize(at int, p schedule.Parallel) {
	if n.err == nil {
		n.err = n.s.Parallelize(n.v, at, p)
	}
}

// vectorize splits the elements of a step into accesses, for each copy from an
// input and to an output as wide as the tensor allows.
func (q Params) vectorize(s *schedule.Scheduled, p *space) error {
	if q.Vector <= 1 {
		return nil
	}
	f := s.Fusion()
	widths := p.pitchOf(q.Break, q.Vector, 1).widths
	inputs, outputs := map[core.ValID]int64{}, map[core.ValID]int64{}
	for k := range p.tensors {
		if t := &p.tensors[k]; t.isOutput {
			outputs[f.Outputs()[t.place].Val] = widths[k]
		} else {
			inputs[f.Inputs()[t.place]] = widths[k]
		}
	}
	for _, v := range s.Tensors() {
		if f.Val(v).Def == core.NoExpr || f.Expr(f.Val(v).Def).Op != core.SetOp {
			continue
		}
		from := f.TensorArgs(f.Expr(f.Val(v).Def))[0]
		w, isCopy := inputs[from]
		if s.Memory(v) == schedule.Global && s.Memory(from) == schedule.Local {
			w, isCopy = outputs[v]
		}
		if isCopy {
			if err := q.widen(s, v, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// widen lets accesses of w elements make up the innermost loop of v, if that is a
// step. Several accesses stay together, so that loads are under way at once.
func (q Params) widen(s *schedule.Scheduled, v core.ValID, w int64) error {
	loop := s.Loop(v)
	if len(loop) == 0 {
		return nil
	}
	f := s.Fusion()
	if n, ok := f.Scalars().ConstInt(f.Axis(loop[len(loop)-1]).Extent); !ok || n != q.Vector {
		return nil
	}
	n := nest{s: s, v: v}
	switch w {
	case 1:
		n.parallelize(-1, schedule.Unroll)
		return n.err
	case q.Vector:
	default:
		n.split(-1, w, schedule.Serial)
		n.parallelize(-2, schedule.Unroll)
	}
	n.parallelize(-1, schedule.Vectorize)
	return n.err
}
