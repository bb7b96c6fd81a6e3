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

// scheduled returns a program of a fusion of any ops on any types, or why there
// is none.
func scheduled(c *fusionfuzz.Case, rng *rand.Rand) (*schedulefuzz.Program, string) {
	if _, err := c.Fusion.Bind(trial.Values(c.Inputs)); err != nil {
		return nil, "no sizes"
	}
	if _, err := trial.Want(c.Fusion, c.Inputs, core.RandomState{}); err != nil {
		return nil, "no value"
	}
	return schedulefuzz.Schedule(rng, c.Fusion, c.Inputs, schedulefuzz.All), ""
}

// checkFusion runs p and returns "right" or why there is nothing to run; errors
// are of wrong kernels. With wild inputs what depends on the order of a sum may be
// anything.
func checkFusion(p *schedulefuzz.Program, wild bool, o Options) (result string, err error) {
	random := core.RandomState{Seed: 99, Offset: 4}
	want, err := trial.Want(p.Fusion, p.Inputs, random)
	if err != nil {
		return "no value", nil
	}
	if p.Schedule.Verify() != nil {
		return "not a schedule", nil
	}
	k, err := lowered(p.Schedule, o)
	if err != nil {
		return outcome(err)
	}
	c := &fusionfuzz.Case{Fusion: p.Fusion, Inputs: p.Inputs, Wild: wild}
	for _, order := range []sim.Order{sim.Forward, sim.Random} {
		got, err := simulated(&trial.Trial{Scheduled: p.Schedule, Kernel: k, Inputs: p.Inputs, Random: random}, order)
		if err != nil {
			return outcome(err)
		}
		if text := c.Check(want, got); text != "" && !(foldsFloats(p.Fusion) && nearly(want, got)) {
			return "", errors.New(text)
		}
	}
	return "right", nil
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
	for seed := range uint64(20) {
		rng := schedulefuzz.Seeded(seed)
		data := make([]byte, 120)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := len(data) / 2
		c := fusionfuzz.Decode(data[:n])
		if p, _ := scheduled(c, schedulefuzz.Decoded(data[n:])); p != nil {
			_, err := checkFusion(p, c.Wild, options(uint64(len(data))))
			require.NoError(t, err, "%v", p)
		}
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
		c := fusionfuzz.Decode(data)
		p, result := scheduled(c, rng)
		if p != nil {
			check := func(p *schedulefuzz.Program) (string, error) { return checkFusion(p, c.Wild, options(seed)) }
			var err error
			if result, err = check(p); err != nil {
				t.Errorf("seed %d: %v\n%v", seed, err, reduced(p, check))
			}
		}
		count[result]++
	}
	t.Log(count)
	require.Greater(t, count["right"], int(n)/20)
}
