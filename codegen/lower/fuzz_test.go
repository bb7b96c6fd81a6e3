package lower

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// decoded runs a fusion of any ops on any types, under a random schedule, and
// returns "right" or why there is nothing to run.
func decoded(data []byte, rng *rand.Rand) (s *schedule.Scheduled, result string, err error) {
	c := fusionfuzz.Decode(data)
	r := &run{fusion: c.Fusion, inputs: c.Inputs, random: core.RandomState{Seed: 99, Offset: 4}}
	arrays, scalars, values := r.arrays()
	if _, err := c.Fusion.Bind(values); err != nil {
		return nil, "no sizes", nil
	}
	want, err := c.Fusion.Eval(arrays, scalars, r.random)
	if err != nil {
		return nil, "no value", nil
	}
	s = schedule.New(c.Fusion)
	randomly(rng, s)
	if s.Verify() != nil {
		return s, "not a schedule", nil
	}
	k, err := lowered(s, Options{})
	var unsupported *core.Unsupported
	var illegal *schedule.Refused
	switch {
	case errors.As(err, &unsupported):
		return s, "refused: " + unsupported.Refusals[0].Rule, nil
	case errors.As(err, &illegal):
		return s, "illegal: " + illegal.Rule, nil
	case err != nil:
		return s, "", err
	}
	got, err := r.simulate(s, k, sim.Forward)
	if err != nil {
		if strings.Contains(err.Error(), "over the limit") {
			return s, "too many threads", nil
		}
		return s, "", fmt.Errorf("simulation: %w", err)
	}
	if text := c.Check(want, got); text != "" {
		return s, "", errors.New(text)
	}
	return s, "right", nil
}

// randomly transforms, inlines and parallelises s.
func randomly(rng *rand.Rand, s *schedule.Scheduled) {
	g := &generator{Rand: rng}
	if g.chance(0.5) {
		outs := s.Fusion().Outputs()
		reference := outs[g.IntN(len(outs))].Val
		if !s.Fusion().Val(reference).Input {
			g.transform(s, reference, g.IntN(4))
			_, _ = s.TransformLike(reference, nil)
		}
	}
	if g.chance(0.7) {
		_ = s.InlineMost(nil, nil)
	}
	if g.chance(0.5) {
		parallelise(g, s)
	}
}

func TestRandomFusions(t *testing.T) {
	number := func(name string, other uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return other
	}
	n, first := number("LOWER_PROGRAMS", 300), number("LOWER_SEED", 0)
	count := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		data := make([]byte, 40+rng.IntN(100))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		s, result, err := decoded(data, rng)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if os.Getenv("LOWER_PROGRAMS") == "1" {
				k, _ := Lower(s, Options{})
				t.Logf("%v\n%v\n%v", s.Fusion(), s, k)
			}
		}
		count[result]++
	}
	t.Log(count)
	require.Greater(t, count["right"], int(n)/20)
}
