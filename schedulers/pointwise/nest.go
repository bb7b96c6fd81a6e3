package pointwise

import (
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// loops gives the reference its loops. Those of one dimension are blocks, steps of
// a thread, threads and elements of a step; those of two are blocks, threads along
// columns and along rows, steps, which are rows, and elements. In that order what
// has no columns or no rows is read outside the steps. p is as q arranges it.
func (q Params) loops(s *schedule.Scheduled, p *space.Space) error {
	moves := map[int]int{}
	for k, d := range p.Order {
		moves[d] = k
	}
	if err := s.Reorder(p.Reference, moves); err != nil {
		return err
	}
	n := scheduler.Nest{Schedule: s, Tensor: p.Reference}
	if q.Break == 0 {
		q.step(&n, p)
		n.Split(0, q.Threads, schedule.TIDx)
		n.Split(0, q.Unroll, schedule.Unroll)
		n.Parallelize(0, schedule.BIDx)
		return n.Err
	}
	n.Merge(q.Break, len(p.Order)-q.Break)
	n.Merge(0, q.Break)
	n.Split(1, max(q.Vector, 1), schedule.Serial)
	n.Split(0, q.Rows, schedule.TIDy)
	n.Split(0, q.Unroll, schedule.Unroll)
	if q.Groups > 0 {
		q.through(&n)
	}
	at := len(s.Loop(p.Reference)) - 1 // the columns, or what they are split from
	if q.Vector > 1 {
		at--
	}
	n.Split(at, q.Threads, schedule.TIDx)
	// blocks or groups of rows, steps, rows; blocks of columns, columns
	moves = map[int]int{0: 0, at: 1, at + 1: 2}
	if q.Rows > 1 {
		moves[at-1] = 3
	}
	n.Reorder(moves)
	n.Merge(0, 2)
	n.Parallelize(0, schedule.BIDx)
	return n.Err
}

// step merges the places of p to one loop, and splits the elements of a step off.
func (q Params) step(n *scheduler.Nest, p *space.Space) {
	outside := len(p.Order) - q.Whole
	if q.Whole == 0 {
		n.Merge(0, outside)
		n.Split(0, max(q.Vector, 1), schedule.Serial)
		return
	}
	n.Merge(outside, q.Whole)
	n.Merge(0, outside)
	if v := q.Vector / p.Size(outside, len(p.Order)); v > 1 { // the step is of what is whole, and of what is outside
		n.Split(0, v, schedule.Serial)
		n.Merge(1, 2)
	}
}

// arrange returns p with its places in the order that the loops of q have them in: rows first.
func (q Params) arrange(p *space.Space) *space.Space {
	if q.Before == 0 {
		return p
	}
	before, rows, columns := q.ranges(p)
	return p.Ordered(rows, before, columns)
}

// across returns p with its places in the order that blocks of q go along, if they go through rows: these last.
func (q Params) across(p *space.Space) *space.Space {
	before, rows, columns := q.ranges(p)
	return p.Ordered(before, columns, rows)
}

// ranges returns which places of p are rows in a nest of two dimensions, and which columns before and after them.
func (q Params) ranges(p *space.Space) (before, rows, columns space.Range) {
	end := q.Before + q.Break
	return space.Range{Begin: 0, End: q.Before}, space.Range{Begin: q.Before, End: end}, space.Range{Begin: end, End: len(p.Order)}
}
