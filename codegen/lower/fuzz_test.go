package lower

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule/schedulefuzz"
)

// checkFusion schedules a fusion of any ops on any types at random and returns
// "right" or why there is nothing to run; errors are of wrong kernels.
func checkFusion(c *fusionfuzz.Case, rng *rand.Rand) (p *schedulefuzz.Program, result string, err error) {
	random := core.RandomState{Seed: 99, Offset: 4}
	if _, err := c.Fusion.Bind(trial.Values(c.Inputs)); err != nil {
		return nil, "no sizes", nil
	}
	want, err := trial.Want(c.Fusion, c.Inputs, random)
	if err != nil {
		return nil, "no value", nil
	}
	p = &schedulefuzz.Program{Fusion: c.Fusion, Inputs: c.Inputs, Schedule: schedulefuzz.Schedule(rng, c.Fusion, c.Inputs, schedulefuzz.All)}
	if p.Schedule.Verify() != nil {
		return p, "not a schedule", nil
	}
	k, err := lowered(p.Schedule, Options{})
	if err != nil {
		result, err = outcome(err)
		return p, result, err
	}
	got, err := simulated(&trial.Trial{Scheduled: p.Schedule, Kernel: k, Inputs: c.Inputs, Random: random}, sim.Forward)
	if err != nil {
		result, err = outcome(err)
		return p, result, err
	}
	if text := c.Check(want, got); text != "" && !(foldsFloats(c.Fusion) && nearly(want, got)) {
		return p, "", errors.New(text)
	}
	return p, "right", nil
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

// FuzzLower looks for a fusion and a schedule of it whose kernel is wrong. The
// first half of the bytes is the fusion.
func FuzzLower(f *testing.F) {
	f.Add([]byte("a fusion"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := len(data) / 2
		p, _, err := checkFusion(fusionfuzz.Decode(data[:n]), schedulefuzz.Decoded(data[n:]))
		require.NoError(t, err, "%v", p)
	})
}

func TestRandomFusions(t *testing.T) {
	n, first := number("LOWER_PROGRAMS", 300), number("LOWER_SEED", 0)
	count := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		rng := schedulefuzz.Seeded(seed)
		data := make([]byte, 40+rng.IntN(100))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		p, result, err := checkFusion(fusionfuzz.Decode(data), rng)
		if err != nil {
			t.Errorf("seed %d: %v\n%v", seed, err, p)
		}
		count[result]++
	}
	t.Log(count)
	require.Greater(t, count["right"], int(n)/20)
}
