package lower

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
	"nvfuser_go/core/schedule/schedulefuzz"
)

// number returns a number of the environment.
func number(name string, other uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return other
}

// outcome says of an error why a program was not run, or returns the error,
// which is of a wrong kernel.
func outcome(err error) (string, error) {
	var unsupported *core.Unsupported
	var illegal *schedule.Refused
	switch {
	case errors.As(err, &unsupported):
		return "refused: " + unsupported.Refusals[0].Rule, nil
	case errors.As(err, &illegal):
		return "illegal: " + illegal.Rule, nil
	case err != nil && strings.Contains(err.Error(), "more than the capacity"):
		return "illegal: promise", nil
	case err != nil && strings.Contains(err.Error(), "over the limit"):
		return "too many threads", nil
	}
	return "right", err
}

// Random programs, simulated, equal core.Eval. LOWER_PROGRAMS is how many of each
// set, LOWER_SEED the first.
func TestRandomSchedules(t *testing.T) { testRandom(t, schedulefuzz.Serial) }

// Random programs with random thread and block types and shared memory.
func TestRandomParallelSchedules(t *testing.T) { testRandom(t, schedulefuzz.All) }

// Random programs with whole splits and tensors that are computed again.
func TestRandomHeldSchedules(t *testing.T) {
	testRandom(t, schedulefuzz.All|schedulefuzz.Held)
}

// reduced returns a small program of which check finds an error, as it does of p.
func reduced(p *schedulefuzz.Program, check func(*schedulefuzz.Program) (string, error)) *schedulefuzz.Program {
	return schedulefuzz.Shrink(p, func(p *schedulefuzz.Program) bool {
		_, err := check(p)
		return err != nil
	}, 500)
}

// options returns those of a seed.
func options(seed uint64) Options {
	o := Options{Cooperative: seed%8 != 0, Index: []dtype.Type{dtype.Null, dtype.Null, dtype.Int32, dtype.Int}[seed%4]}
	if seed%16 != 5 {
		o.Alignment = func(core.ValID) int { return 16 }
	}
	return o
}

func testRandom(t *testing.T, moves schedulefuzz.Moves) {
	n, first := number("LOWER_PROGRAMS", 60), number("LOWER_SEED", 0)
	for _, set := range append(schedulefuzz.Sets(), schedulefuzz.Indexing()) {
		t.Run(set.Name, func(t *testing.T) {
			count := map[string]int{}
			for seed := first; seed < first+n; seed++ {
				p := schedulefuzz.New(schedulefuzz.Seeded(seed), set, moves)
				if p == nil {
					count["empty"]++
					continue
				}
				check := func(p *schedulefuzz.Program) (string, error) {
					o := options(seed)
					if seed%4 == 0 {
						var err error
						if o.Value, err = trial.Integers(p.Schedule, p.Inputs); err != nil {
							return outcome(err)
						}
					}
					_, err := checkWith(p.Schedule, p.Fusion, p.Inputs, o)
					return outcome(err)
				}
				result, err := check(p)
				if err != nil {
					t.Errorf("seed %d: %v\n%v", seed, err, reduced(p, check))
				}
				count[result]++
			}
			t.Log(count)
			require.Greater(t, count["right"], int(n)/5)
		})
	}
}
