package pointwise

import (
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// loops gives the reference its loops. Those of one dimension are blocks, steps of
// a thread, threads and elements of a step; those of two are blocks, threads along
// columns and along rows, steps, which are rows, and elements. In that order what
// has no columns or no rows is read outside the steps.
func (q Params) loops(s *schedule.Scheduled, p *space.Space) error {
	moves := map[int]int{}
	for k, d := range p.Order {
		moves[d] = k
	}
	if err := s.Reorder(p.Reference, moves); err != nil {
		return err
	}
	n := scheduler.Nest{Schedule: s, Tensor: p.Reference}
	n.Merge(q.Break, len(p.Order)-q.Break)
	if q.Break == 0 {
		n.Split(0, max(q.Vector, 1), schedule.Serial)
		n.Split(0, q.Threads, schedule.TIDx)
		n.Split(0, q.Unroll, schedule.Unroll)
		n.Parallelize(0, schedule.BIDx)
		return n.Err
	}
	n.Merge(0, q.Break)
	n.Split(1, max(q.Vector, 1), schedule.Serial)
	n.Split(0, q.Rows, schedule.TIDy)
	n.Split(0, q.Unroll, schedule.Unroll)
	at := len(s.Loop(p.Reference)) - 1 // the columns, or what they are split from
	if q.Vector > 1 {
		at--
	}
	n.Split(at, q.Threads, schedule.TIDx)
	// blocks of rows, steps, rows; blocks of columns, columns
	moves = map[int]int{0: 0, at: 1, at + 1: 2}
	if q.Rows > 1 {
		moves[at-1] = 3
	}
	n.Reorder(moves)
	n.Merge(0, 2)
	n.Parallelize(0, schedule.BIDx)
	return n.Err
}
