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

// randomMasked returns a fusion that adds masks to a tensor, which lack dimensions of it, and may
// have rows of the sum normalized, and others added then.
func randomMasked(t *testing.T, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	kinds := []string{"bf16", "f32", "f16"}
	sizes := make([]int64, 2+r.IntN(3))
	for d := range sizes {
		sizes[d] = []int64{1, 2, 3, 4, 5, 8, 16}[r.IntN(7)]
	}
	sizes[len(sizes)-1] = []int64{1, 3, 8, 16, 33, 64, 130, 264}[r.IntN(8)]
	b, given := &strings.Builder{}, [][]int64{}
	var declared []string
	count := 2 + r.IntN(2)
	for k := range count + r.IntN(3) {
		shape, signs, dense := slices.Clone(sizes), make([]string, len(sizes)), make([]string, len(sizes))
		for d := range shape {
			signs[d], dense[d] = "-1", "yes"
			if k > 0 && r.IntN(2) == 0 {
				shape[d], signs[d], dense[d] = 1, "1", "none"
			}
		}
		given = append(given, shape)
		declared = append(declared, fmt.Sprintf("tensor %s [%s] contiguity=[%s]", kinds[r.IntN(3)], strings.Join(signs, ", "), strings.Join(dense, ", ")))
	}
	n := 0
	add := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = %s\n", n, fmt.Sprintf(format, args...))
		n++
		return n - 1
	}
	for _, text := range declared {
		add("%s", text)
	}
	sum := add("cast %%0 dtype=f32")
	for k := 1; k < count; k++ {
		sum = add("add %%%d, %%%d", sum, add("cast %%%d dtype=f32", k))
	}
	if last := len(sizes) - 1; r.IntN(3) > 0 {
		kept := make([]string, len(sizes))
		for d := range kept {
			kept[d] = fmt.Sprint(d == last)
		}
		total := add("sum %%%d dims=[%d] dtype=f32", add("abs %%%d", sum), last)
		sum = add("div %%%d, %%%d", sum, add("add %%%d, 1", add("broadcast %%%d is_broadcast_dim=[%s]", total, strings.Join(kept, ", "))))
	}
	for k := count; k < len(declared); k++ {
		sum = add("%s %%%d, %%%d", []string{"add", "mul"}[r.IntN(2)], sum, add("cast %%%d dtype=f32", k))
	}
	fmt.Fprintf(b, "output %%%d\n", add("cast %%%d dtype=%s", sum, kinds[r.IntN(3)]))
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	return &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
}

// TestDeviceMasks has masks that some dimensions share added to tensors, for a device whose second cache is so
// small that blocks go through these. DEVICE_MASKS is how many, DEVICE_SEED says which.
func TestDeviceMasks(t *testing.T) {
	n := setting("DEVICE_MASKS", 150)
	seed := uint64(setting("DEVICE_SEED", 5))
	chosen := map[string]int{"through all rows": 0, "through the rows of": 0, "and before axis": 0, "rows that share elements one after another": 0, "read after they are reduced loaded first": 0}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomMasked(t, r)
		s := newStage(t)
		ok, err := s.check(s.executor(c.Fusion), c, 0, never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		s.tally(chosen)
	}
	t.Log(chosen)
	for kind, count := range chosen {
		require.Positive(t, count, kind)
	}
}
