// Package schedulers lists the schedulers and chooses one for a segment.
//
// Its central function is [Choose]. The registry is in order of preference: one
// that takes fewer kinds of segments stands before one that takes more, and of
// those that take none of the other's, the one that decides faster comes first.
//
// It does not cut fusions into segments.
package schedulers

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/pointwise"
	"nvfuser_go/schedulers/reduction"
	"nvfuser_go/schedulers/scheduler"
)

// registry is in order of preference. No segment is taken by both: one needs a
// reduction, the other refuses it.
var registry = []scheduler.Scheduler{
	pointwise.Scheduler{},
	reduction.Scheduler{},
}

// All returns the schedulers in order of preference.
func All() []scheduler.Scheduler { return slices.Clone(registry) }

// Choose returns the first scheduler that takes segment, or nil, and why those
// before it refuse.
func Choose(segment *core.Fusion, shapes *core.Binding, device scheduler.Device) (scheduler.Scheduler, []core.Refusal) {
	var refusals []core.Refusal
	for _, s := range registry {
		r := s.Accept(segment, shapes, device)
		if len(r) == 0 {
			return s, refusals
		}
		refusals = append(refusals, r...)
	}
	return nil, refusals
}
