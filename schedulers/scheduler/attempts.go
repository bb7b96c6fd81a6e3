package scheduler

import "nvfuser_go/core/schedule"

// A Choice is a type of [Params].
type Choice interface {
	comparable
	Params
}

// Attempts are schedules of one segment that a scheduler builds to learn whether it
// takes the segment. Each is kept until it is asked for.
type Attempts[P Choice] struct {
	Segment *Segment
	Recipe  func(P) string // all that Build depends on beside the fusion
	Build   func(P) (*schedule.Scheduled, error)

	built map[P]*schedule.Scheduled
}

// An attempt is a recipe of the scheduler with parameters of type P, an outcome what
// came of it.
type (
	attempt[P Choice] string
	outcome           struct{ err error }
)

// Try returns why the segment cannot be scheduled with p. It is known without building
// where it was found out before.
func (a *Attempts[P]) Try(p P) error {
	if a.built[p] != nil {
		return nil
	}
	return Recall(a.Segment, attempt[P](a.Recipe(p)), func() outcome {
		s, err := a.Build(p)
		if err == nil {
			if a.built == nil {
				a.built = map[P]*schedule.Scheduled{}
			}
			a.built[p] = s
		}
		return outcome{err}
	}).err
}

// First returns all without those in front that cannot be built, or last alone if none
// can, and why that one cannot.
func (a *Attempts[P]) First(all []P, last P) ([]P, error) {
	for len(all) > 0 && a.Try(all[0]) != nil {
		all = all[1:]
	}
	if len(all) == 0 {
		return []P{last}, a.Try(last)
	}
	return all, nil
}

// Take returns the schedule with p, and keeps it no longer.
func (a *Attempts[P]) Take(p P) (*schedule.Scheduled, error) {
	if s, ok := a.built[p]; ok {
		delete(a.built, p)
		return s, nil
	}
	return a.Build(p)
}
