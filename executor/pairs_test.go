package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// randomPairs returns a fusion that reduces a function of all pairs of rows of two or three tensors, some with gaps, perhaps for each of a batch.
func randomPairs(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	m, n, k := 15+r.Int64N(30), 15+r.Int64N(80), []int64{1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 20, 24, 33}[r.IntN(14)]
	sizes := []int64{m, n, k}
	if r.IntN(3) == 0 {
		sizes = []int64{1 + r.Int64N(3), m, n, k}
	}
	b := &strings.Builder{}
	var given [][]int64
	var hasGaps []bool
	rank, next := len(sizes), 0
	for i := range 2 + r.IntN(3)/2 {
		shape := slices.Clone(sizes)
		shape[rank-2-i%2] = 1
		if i == 2 { // has one of both
			shape[rank-2], shape[rank-3] = 1, 1
		}
		gaps := r.IntN(4) == 0
		dims, contiguity := make([]string, rank), make([]string, rank)
		for d, size := range shape {
			dims[d], contiguity[d] = "-1", "yes"
			switch {
			case size == 1:
				dims[d], contiguity[d] = "1", "none"
			case gaps:
				contiguity[d] = "no"
			case r.IntN(3) == 0:
				dims[d] = fmt.Sprint(size)
			}
		}
		fmt.Fprintf(b, "%%%d = tensor %s [%s] contiguity=[%s]\n", next, []string{"f32", "f32", "bf16", "f16"}[r.IntN(4)], strings.Join(dims, ", "), strings.Join(contiguity, ", "))
		next++
		given, hasGaps = append(given, shape), append(hasGaps, gaps)
	}
	add := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = "+format+"\n", append([]any{next}, args...)...)
		next++
		return next - 1
	}
	x := 0
	for i := range given {
		v := add("cast %%%d dtype=f32", i)
		if i == 0 {
			x = v
			continue
		}
		x = add([]string{"sub %%%d, %%%d", "mul %%%d, %%%d", "add %%%d, %%%d"}[r.IntN(3)], x, v)
	}
	switch r.IntN(3) {
	case 0:
		x = add("abs %%%d", x)
	case 1:
		x = add("mul %%%d, %%%d", x, x)
	}
	var outputs []int
	for range 1 + r.IntN(4)/3 {
		y := add([]string{"sum %%%d dims=[%d] keepdim=false dtype=f32", "max %%%d dims=[%d] keepdim=false dtype=null"}[r.IntN(4)/3], x, rank-1)
		if r.IntN(2) == 0 {
			y = add("cast %%%d dtype=bf16", add("tanh %%%d", y))
		}
		outputs = append(outputs, y)
	}
	for _, o := range outputs {
		fmt.Fprintf(b, "output %%%d\n", o)
	}
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
	for i := range c.Inputs {
		if !hasGaps[i] {
			continue
		}
		in := &c.Inputs[i]
		in.Storage = widen(r, in) + 1
		in.Offset = r.Int64N(2)
	}
	return c
}

// TestDevicePairs has random functions of pairs of rows planned for a device of few processors, so that threads have several results.
func TestDevicePairs(t *testing.T) {
	n := setting("DEVICE_PAIRS", 100)
	seed := uint64(setting("DEVICE_SEED", 5))
	right, chosen := 0, map[string]int{}
	for k := range n {
		c := randomPairs(t, rand.New(rand.NewPCG(seed, uint64(k))))
		s := newStage(t)
		s.driver.Present[0].Processors = 1 + k%4
		ok, err := s.check(s.executor(c.Fusion), c, 0, never)
		if ok {
			right++
		} else {
			t.Log(err)
		}
		if s.plan != nil {
			choice, _ := s.plan.Inspection().Show("scheduler_verbose") // an error: there is no kernel
			_, choice, _ = strings.Cut(choice, "chosen: ")
			choice, _, _ = strings.Cut(choice, "\n")
			for _, kind := range []string{"rows along", "of 8 rows along", "axes 0 to 0", "axes 1 to 1", "vectors of 8"} {
				if strings.Contains(choice, kind) {
					chosen[kind]++
				}
			}
		}
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
	}
	t.Log(chosen)
	require.Equal(t, n, right)
	require.Greater(t, chosen["rows along"], n/2)
	for _, kind := range []string{"of 8 rows along", "axes 0 to 0", "axes 1 to 1", "vectors of 8"} {
		require.Greater(t, chosen[kind], n/50, kind)
	}
}
