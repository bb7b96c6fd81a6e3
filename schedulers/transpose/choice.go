package transpose

import (
	"slices"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

const (
	pieceBytes  = 256 // of a tile along memory
	leastBytes  = 64  // the same where there is little
	accessBytes = 16
	mostCell    = 8
	mostThreads = 256
	fewThreads  = 64
	fewest      = 1 << 10 // elements that a processor has for tiles to be worth it: what fewer cost is the launch
	mostWhole   = 16      // elements of a run that a thread has all of
)

// nearFrom returns the place from which the loops of the near group follow its memory.
func (l *layout) nearFrom(q Params) int {
	if q.Whole {
		return l.farAt
	}
	return l.nearAt
}

// nearPitch returns how tensors of the near group are moved.
func (l *layout) nearPitch(q Params) space.Pitch {
	return l.near.PitchOf(l.nearFrom(q), q.Vector, 1)
}

// access returns the elements of an access to tensors of the far group, up to most: as
// many as all of them allow.
func (l *layout) access(most int64) int64 {
	return slices.Min(l.far.PitchOf(len(l.far.Order)-(l.nearAt-l.farAt), most, 1).Widths)
}

// choose returns the parameters, the best first.
func (l *layout) choose(device scheduler.Device) []Params {
	size := int64(1) // of an element of a far tensor
	for _, t := range l.far.Tensors {
		size = max(size, t.Bytes)
	}
	nearRun, farRun := l.near.Size(l.nearAt, len(l.near.Extents)), l.near.Size(l.farAt, l.nearAt)
	q := Params{Cell: min(mostCell, accessBytes/size), Threads: mostThreads, Whole: l.isNearRow}
	if q.Whole {
		q.Near, q.Threads = nearRun, mostThreads/2
		q.Far = q.Threads * q.Cell
		for q.Far > farRun && q.Threads > fewThreads {
			q.Threads, q.Far = q.Threads/2, q.Far/2
		}
	} else {
		q.Near = tileOf(nearRun, size)
		q.Far = tileOf(farRun, size)
		blocks := func() int64 {
			return l.near.Size(0, l.farAt) * scheduler.CeilDiv(nearRun, q.Near) * scheduler.CeilDiv(farRun, q.Far)
		}
		for least := max(leastBytes/size, 16); blocks() < int64(2*device.Processors) && max(q.Near, q.Far) > least; {
			if q.Far >= q.Near {
				q.Far /= 2
			} else {
				q.Near /= 2
			}
		}
		for q.Cell > 1 && q.Near*q.Far < fewThreads*q.Cell*q.Cell {
			q.Cell /= 2
		}
		q.Threads = min(mostThreads, max(q.Near*q.Far/(q.Cell*q.Cell), fewThreads/2))
	}
	q.Access = l.access(q.Cell)
	q.Vector = min(l.near.Cheapest(l.nearFrom(q), 1).Elements, q.Near*q.Far/q.Threads)
	for !q.Whole && q.Vector > q.Near || q.Near*q.Far%(q.Threads*q.Vector) != 0 {
		q.Vector /= 2
	}
	single := q
	single.Vector, single.Access, single.Cell = 1, 1, 1
	all := []Params{q, single}
	return slices.Compact(all)
}

// tileOf returns the elements of a tile along a run of n elements of size bytes each.
func tileOf(n, size int64) int64 {
	e := max(pieceBytes/size, 32)
	if size == 1 {
		e = 128
	}
	for e > leastBytes/size && e > 16 && n <= e/2 {
		e /= 2
	}
	return e
}
