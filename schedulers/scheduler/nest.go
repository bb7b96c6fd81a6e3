package scheduler

import (
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A Nest is the loops of a tensor as they come about. It keeps the first error,
// after which nothing more is done.
type Nest struct {
	Schedule *schedule.Scheduled
	Tensor   core.ValID
	Err      error
}

// Merge merges count loops from place at on to one.
func (n *Nest) Merge(at, count int) {
	if n.Err == nil {
		n.Err = MergeAll(n.Schedule, n.Tensor, at, at+count)
	}
}

// Split splits a loop of factor iterations off, inside, unless that is 1 and the
// loop is not of threads along x, which every launch has.
func (n *Nest) Split(at int, factor int64, p schedule.Parallel) {
	if factor == 1 && p != schedule.TIDx || n.Err != nil {
		return
	}
	if n.Err = n.Schedule.Split(n.Tensor, at, factor, true); p != schedule.Serial {
		n.Parallelize(at+1, p)
	}
}

// Parallelize gives a loop its kind.
func (n *Nest) Parallelize(at int, p schedule.Parallel) {
	if n.Err == nil {
		n.Err = n.Schedule.Parallelize(n.Tensor, at, p)
	}
}

// Reorder is [schedule.Scheduled.Reorder].
func (n *Nest) Reorder(moves map[int]int) {
	if n.Err == nil {
		n.Err = n.Schedule.Reorder(n.Tensor, moves)
	}
}

// CeilDiv returns n / d rounded up, of an n that is not negative; d below 1 is 1.
func CeilDiv(n, d int64) int64 { return (n + d - 1) / max(d, 1) }
