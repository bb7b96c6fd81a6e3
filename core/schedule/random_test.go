package schedule_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
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

// interpreted runs p and returns "right" or why there is nothing to run; errors
// are wrong programs.
func interpreted(p *schedulefuzz.Program) (string, error) {
	if p == nil {
		return "empty", nil
	}
	arrays, scalars, _ := fusionfuzz.Arguments(p.Inputs)
	want, err := p.Fusion.Eval(arrays, scalars, core.RandomState{})
	if err != nil {
		return "", err
	}
	return schedule.Interpret(p.Schedule, arrays, want)
}

// Random programs, interpreted, equal core.Eval. SCHEDULE_PROGRAMS is how many
// of each set, SCHEDULE_SEED the first.
func TestRandomSchedules(t *testing.T) { testRandom(t, schedulefuzz.Serial) }

// The same with whole splits and tensors that are computed again.
func TestRandomHeldSchedules(t *testing.T) { testRandom(t, schedulefuzz.Serial|schedulefuzz.Held) }

func testRandom(t *testing.T, moves schedulefuzz.Moves) {
	n, first := number("SCHEDULE_PROGRAMS", 300), number("SCHEDULE_SEED", 0)
	for _, set := range schedulefuzz.Sets() {
		t.Run(set.Name, func(t *testing.T) {
			count := map[string]int{}
			for seed := first; seed < first+n; seed++ {
				p := schedulefuzz.New(schedulefuzz.Seeded(seed), set, moves)
				result, err := interpreted(p)
				if err != nil {
					t.Errorf("seed %d: %v\n%v", seed, err, p)
				}
				count[result]++
			}
			t.Log(count)
			require.Greater(t, count["right"], int(n)*9/10)
			require.LessOrEqual(t, count["refused: no index"], 1+int(n)/1000)
		})
	}
}

// FuzzSchedule looks for a fusion and a schedule of it whose loops compute
// something else.
func FuzzSchedule(f *testing.F) {
	for seed := range byte(20) {
		f.Add([]byte{seed, seed * 37, seed * 91, 7})
	}
	sets := schedulefuzz.Sets()
	f.Fuzz(func(t *testing.T, data []byte) {
		rng := schedulefuzz.Decoded(data)
		p := schedulefuzz.New(rng, sets[rng.IntN(len(sets))], schedulefuzz.Serial)
		_, err := interpreted(p)
		require.NoError(t, err, "%v", p)
	})
}

// Of the points of random loops, those at which every axis is in range hit each
// element once.
func TestLoopPointsHitEachElementOnce(t *testing.T) {
	for seed := range uint64(100) {
		p := schedulefuzz.New(schedulefuzz.Seeded(seed), schedulefuzz.Sets()[0], schedulefuzz.Transforms)
		if p == nil {
			continue
		}
		s := p.Schedule
		require.NoError(t, s.Verify())
		for _, v := range s.Tensors() {
			hits := map[string]int{}
			core.EachIndex(extents(s, s.Loop(v)), func(point []int64) {
				if index, ok := elementAt(s, v, point); ok {
					hits[fmt.Sprint(index)]++
				}
			})
			n := 1
			for _, a := range s.Fusion().Val(v).Domain.Logical {
				if s.Fusion().Axis(a).Kind != core.Broadcast {
					n *= int(extents(s, []core.AxisID{a})[0])
				}
			}
			require.Len(t, hits, n, "seed %d", seed)
			for _, k := range hits {
				require.Equal(t, 1, k, "seed %d", seed)
			}
		}
	}
}

func extents(s *schedule.Scheduled, axes []core.AxisID) []int64 {
	out := []int64{}
	for _, a := range axes {
		n, _ := s.Fusion().Scalars().ConstInt(s.Fusion().Axis(a).Extent)
		out = append(out, n)
	}
	return out
}

// elementAt walks from a loop point to the logical axes of v; ok is false if some
// axis on the way is out of range.
func elementAt(s *schedule.Scheduled, v core.ValID, point []int64) (element []int64, ok bool) {
	at, ok := map[core.AxisID]int64{}, true
	for k, a := range s.Loop(v) {
		at[a] = point[k]
	}
	history := s.History(v)
	for i := len(history) - 1; i >= 0; i-- {
		t := s.Fusion().Transform(history[i])
		o := at[t.Out[0]]
		if t.Kind == core.Split {
			at[t.In[0]] = o*extents(s, t.Out[1:])[0] + at[t.Out[1]]
		} else {
			n := extents(s, t.In[1:])[0]
			at[t.In[0]], at[t.In[1]] = o/n, o%n
		}
		for _, a := range t.In {
			ok = ok && (a == core.NoAxis || at[a] < extents(s, []core.AxisID{a})[0])
		}
	}
	for _, a := range s.Fusion().Val(v).Domain.Logical {
		element = append(element, at[a])
	}
	return element, ok
}
