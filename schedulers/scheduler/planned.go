package scheduler

import (
	"encoding/json"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A Kind is what a scheduler with parameters of type P adds to [Planned]. It has no state.
type Kind[P Choice] interface {
	Name() string
	// Find returns what is found out about a segment. It is asked for often: what takes
	// time is left to [Remember] and [Recall].
	Find(segment *Segment) Finding[P]
}

// A Finding is what a scheduler found out about a segment.
type Finding[P Choice] struct {
	Attempts *Attempts[P]
	Choose   func(Device) ([]P, error) // the choices, of which the first can be applied, or why there is none; called if Err is nil
	Err      error                     // why the segment is not taken, whatever the device
}

func (x *Finding[P]) choose(device Device) ([]P, error) {
	if x.Err != nil {
		return nil, x.Err
	}
	return x.Choose(device)
}

// Planned is the [Scheduler] of kind K. It knows of a segment what Find returns.
type Planned[P Choice, K Kind[P]] struct{ kind K }

func (s Planned[P, K]) Name() string { return s.kind.Name() }

func (s Planned[P, K]) Accept(segment *Segment, device Device) []core.Refusal {
	x := s.kind.Find(segment)
	_, err := x.choose(device)
	return RefusalsOf(s.Name(), err)
}

// Candidates returns nothing for a segment that is not accepted.
func (s Planned[P, K]) Candidates(segment *Segment, device Device) []Params {
	x := s.kind.Find(segment)
	chosen, _ := x.choose(device)
	all := make([]Params, len(chosen))
	for i, p := range chosen {
		all[i] = p
	}
	return all
}

// Recipe returns why Apply fails where it does without a schedule.
func (s Planned[P, K]) Recipe(segment *Segment, params Params) string {
	x, p, err := s.with(segment, params)
	if err != nil {
		return err.Error()
	}
	return x.Attempts.Recipe(p) + segment.streaming()
}

// Apply is that of [Scheduler]. Its errors: InvalidArgument for parameters of another
// scheduler or that are not possible; [Refusals].
func (s Planned[P, K]) Apply(segment *Segment, params Params) (*schedule.Scheduled, error) {
	x, p, err := s.with(segment, params)
	if err != nil {
		return nil, err
	}
	return x.Attempts.Take(p)
}

// with returns what is known of a segment that can be scheduled with params.
func (s Planned[P, K]) with(segment *Segment, params Params) (x Finding[P], p P, err error) {
	p, isOurs := params.(P)
	if !isOurs {
		return x, p, core.InvalidArgumentf("schedule(): the parameters %v are not those of %s", params, s.Name())
	}
	x = s.kind.Find(segment)
	return x, p, x.Err
}

// ParseParams is that of [Scheduler].
func (s Planned[P, K]) ParseParams(text string) (Params, error) {
	var p P
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, core.InvalidArgumentf("schedule(): the parameters %s are not those of %s: %v", text, s.Name(), err)
	}
	return p, nil
}

// CheckPositive returns the user's mistake in parameters p of which not all numbers are positive.
func CheckPositive(p Params, numbers ...int64) error {
	if slices.Min(numbers) < 1 {
		return core.InvalidArgumentf("schedule(): %v is not possible: all are positive", p)
	}
	return nil
}
