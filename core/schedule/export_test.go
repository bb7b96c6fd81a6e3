package schedule

import (
	"errors"
	"fmt"

	"nvfuser_go/core"
)

// Interpret runs s in the tests' interpreter and compares the outputs with want.
// It returns "right", or what refused the schedule; an error is a wrong program.
func Interpret(s *Scheduled, inputs, want []*core.Array) (result string, err error) {
	defer func() {
		if r := recover(); r != nil {
			if u, ok := r.(unreachable); ok {
				result, err = "refused: no index", nil
				if u.promoted {
					result = "refused: storage"
				}
				return
			}
			err = fmt.Errorf("%v", r)
		}
	}()
	if err := s.f.Verify(); err != nil {
		return "", err
	}
	m, err := Map(s)
	var refused *Refused
	if errors.As(err, &refused) {
		return "refused: " + refused.Rule, nil
	} else if err != nil {
		return "", err
	}
	switch err := execute(m, inputs, want); err {
	case errPromise:
		return "refused: promise", nil
	case errEmpty:
		return "refused: empty loop", nil
	default:
		return "right", err
	}
}

// History returns the transforms of v.
func (s *Scheduled) History(v core.ValID) []core.TransformID { return s.history(v) }
