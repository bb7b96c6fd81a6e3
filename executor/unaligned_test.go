package executor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// randomUnaligned returns a fusion that adds up tensors of small elements, which begin anywhere,
// some in rows that do, or a row for all, and may store the sum in the first one.
func randomUnaligned(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	rows, columns := []int64{1, 2, 3, 17, 40}[r.IntN(5)], []int64{0, 1, 7, 8, 16, 33, 64, 120, 256, 1000}[r.IntN(10)]
	types := []string{"bf16", "f16", "bf16", "bool", "f8e4m3", "f32"}
	b := &strings.Builder{}
	var given [][]int64
	var gaps []bool
	var inputs []string
	for i := range 1 + r.IntN(3) {
		name, hasGaps := types[r.IntN(len(types))], r.IntN(2) == 0
		if i > 0 && r.IntN(4) == 0 {
			fmt.Fprintf(b, "%%%d = tensor %s [1, -1] contiguity=[none, yes]\n", i, name)
			given, gaps = append(given, []int64{1, columns}), append(gaps, false)
		} else {
			fmt.Fprintf(b, "%%%d = tensor %s [-1, -1] contiguity=[%s, yes]\n", i, name, []string{"yes", "no"}[btoi(hasGaps)])
			given, gaps = append(given, []int64{rows, columns}), append(gaps, hasGaps)
		}
		inputs = append(inputs, name)
	}
	next, sum := len(inputs), 0
	for i := range inputs {
		fmt.Fprintf(b, "%%%d = cast %%%d dtype=f32\n", next, i)
		if next++; i == 0 {
			sum = next - 1
		} else {
			fmt.Fprintf(b, "%%%d = add %%%d, %%%d\n", next, sum, next-1)
			sum, next = next, next+1
		}
	}
	to, alias := types[r.IntN(3)], ""
	if r.IntN(3) == 0 && inputs[0] != "bool" {
		to, alias = inputs[0], " alias %0"
	}
	fmt.Fprintf(b, "%%%d = cast %%%d dtype=%s\noutput %%%d%s\n", next, sum, to, next, alias)
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		if gaps[i] {
			in.Strides[0] = columns + r.Int64N(10)
		}
		in.Offset = r.Int64N(10)
		in.Storage = given[i][0]*max(in.Strides[0], columns) + 10
	}
	return c
}

func btoi(x bool) int {
	if x {
		return 1
	}
	return 0
}

// TestDeviceUnaligned has random elementwise programs on tensors that begin anywhere planned for
// a device of one processor, whose threads soon have several elements.
func TestDeviceUnaligned(t *testing.T) {
	n := setting("DEVICE_UNALIGNED", 150)
	seed := uint64(setting("DEVICE_SEED", 5))
	shifted := 0
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomUnaligned(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		e := s.executor(c.Fusion)
		ok, err := s.check(e, c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		for _, x := range s.driver.Compiles() {
			if strings.Contains(x.Source, "Unaligned<") || strings.Contains(x.Source, "UnalignedEvictLast<") {
				shifted++
			}
		}
	}
	t.Log(shifted, "kernels read unaligned vectors")
	require.Greater(t, shifted, n/10)
}
