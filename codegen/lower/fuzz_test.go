package lower

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// decoded runs a fusion of any ops on any types, under a random schedule, and
// returns "right" or why there is nothing to run.
func decoded(data []byte, rng *rand.Rand) (s *schedule.Scheduled, result string, err error) {
	c := fusionfuzz.Decode(data)
	random := core.RandomState{Seed: 99, Offset: 4}
	if _, err := c.Fusion.Bind(trial.Values(c.Inputs)); err != nil {
		return nil, "no sizes", nil
	}
	want, err := trial.Want(c.Fusion, c.Inputs, random)
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
	got, err := simulated(&trial.Trial{Scheduled: s, Kernel: k, Inputs: c.Inputs, Random: random}, sim.Forward)
	if err != nil {
		if strings.Contains(err.Error(), "over the limit") {
			return s, "too many threads", nil
		}
		return s, "", fmt.Errorf("simulation: %w", err)
	}
	if text := c.Check(want, got); text != "" && !(foldsFloats(c.Fusion) && nearly(want, got)) {
		return s, "", errors.New(text)
	}
	return s, "right", nil
}

// foldsFloats reports whether f adds up numbers, which a kernel does in the
// precision of their type and the evaluator in a wider one.
func foldsFloats(f *core.Fusion) bool {
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Reduction && !f.Val(e.Out[0]).DType.IsInt() {
			return true
		}
	}
	return false
}

// nearly reports whether outputs differ by the errors of sums alone, as far as
// that can be told: what overflows in a narrower type, or is decided by an
// inexact number, may be anything.
func nearly(want, got []*core.Array) bool {
	for k := range want {
		var scale, worst float64
		for i := range int64(want[k].Len()) {
			a, b := want[k].At(i), got[k].At(i)
			d := math.Hypot(a.Re-b.Re, a.Im-b.Im)
			if math.IsNaN(d) || math.IsInf(d, 0) {
				continue
			}
			scale, worst = max(scale, math.Hypot(a.Re, a.Im)), max(worst, d)
		}
		if worst > 1e-3*max(scale, 1) {
			return false
		}
	}
	return true
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

// FuzzLower looks for a fusion and a schedule of it whose kernel is wrong.
func FuzzLower(f *testing.F) {
	f.Add([]byte("a fusion"))
	f.Fuzz(func(t *testing.T, data []byte) {
		seed := uint64(len(data))
		for _, b := range data {
			seed = seed*1099511628211 + uint64(b)
		}
		_, _, err := decoded(data, rand.New(rand.NewPCG(seed, 3)))
		require.NoError(t, err)
	})
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
