// Package schedulers lists the schedulers and chooses one for a segment.
//
// Its central function is [Choose]. The registry is in order of preference: one
// that takes fewer kinds of segments stands before one that takes more, and of
// those that take none of the other's, the one that decides faster comes first.
//
// It does not cut fusions into segments.
package schedulers

import (
	"nvfuser_go/core"
	"nvfuser_go/schedulers/blockrow"
	"nvfuser_go/schedulers/innerouter"
	"nvfuser_go/schedulers/innerpersistent"
	"nvfuser_go/schedulers/outerpersistent"
	"nvfuser_go/schedulers/pointwise"
	"nvfuser_go/schedulers/reduction"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/transpose"
)

// registry is in order of preference. A pointwise kernel does what a transpose does, element
// by element. What a reduction takes needs no element after it is reduced, but rows in registers may: short
// ones of which it takes a variance in one pass. Of the others no two take the same segment.
var registry = []registered{
	{transpose.Scheduler{}},
	{pointwise.Scheduler{}},
	{innerpersistent.Scheduler{}},
	{reduction.Scheduler{}},
	{outerpersistent.Scheduler{}},
	{innerouter.Scheduler{}},
	{blockrow.Scheduler{}},
}

// A registered is a scheduler of the registry.
type registered struct{ scheduler.Scheduler }

// Accept refuses also what no scheduler takes for its sizes: they themselves remember what
// they found out of a fusion of other sizes.
func (r registered) Accept(segment *scheduler.Segment, device scheduler.Device) []core.Refusal {
	if refusals := scheduler.CheckSizes(segment, r.Name()); len(refusals) > 0 {
		return refusals
	}
	return r.Scheduler.Accept(segment, device)
}

// All returns the schedulers in order of preference.
func All() []scheduler.Scheduler {
	var all []scheduler.Scheduler
	for _, r := range registry {
		all = append(all, r)
	}
	return all
}

// Lookup returns the scheduler called name, or nil.
func Lookup(name string) scheduler.Scheduler {
	for _, r := range registry {
		if r.Name() == name {
			return r
		}
	}
	return nil
}

// ParseParams reads parameters of the scheduler called name: a JSON object with
// the names and values of the fields of its Params.
//
// Errors: InvalidArgument.
func ParseParams(name, text string) (scheduler.Params, error) {
	if s := Lookup(name); s != nil {
		return s.ParseParams(text)
	}
	return nil, core.InvalidArgumentf("schedule(): there is no scheduler %s", name)
}

// Choose returns the first scheduler that takes segment, or nil, and why those
// before it refuse.
func Choose(segment *scheduler.Segment, device scheduler.Device) (scheduler.Scheduler, []core.Refusal) {
	var refusals []core.Refusal
	for _, s := range registry {
		r := s.Accept(segment, device)
		if len(r) == 0 {
			return s, refusals
		}
		refusals = append(refusals, r...)
	}
	return nil, refusals
}
