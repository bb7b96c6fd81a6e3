package transpose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// permuted returns the segment of a permute of a tensor of sizes.
func permuted(t *testing.T, kind, dims string, sizes ...int64) *scheduler.Segment {
	list := func(x string) string { return strings.Repeat(x+", ", len(sizes)-1) + x }
	return segmenttext.Read(t, fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]\n%%1 = permute %%0 dims=[%s]\noutput %%1\n\n%s\n",
		kind, list("-1"), list("yes"), dims, strings.ReplaceAll(fmt.Sprint(sizes), " ", ", ")))
}

// TestSwizzledWindows checks the cycles of banks that a warp takes for the 8 or 4 elements of a step, and that words are swizzled where
// that makes them fewer. The simulator counts as many.
func TestSwizzledWindows(t *testing.T) {
	for _, test := range []struct {
		kind, dims     string
		sizes          []int64
		plain, changed int64
	}{
		{"bf16", "1, 0", []int64{16387, 2051}, 32, 8}, // 3 * 3 = 1 modulo 8
		{"bf16", "1, 0", []int64{12289, 3071}, 8, 24},
		{"bf16", "1, 0", []int64{8197, 8195}, 8, 24},
		{"bf16", "2, 1, 0", []int64{511, 513, 515}, 16, 8}, // 3 * (3 * 1 * 7)
		{"bf16", "0, 2, 1", []int64{512, 257, 513}, 32, 8},
		{"bf16", "0, 2, 3, 1", []int64{64, 129, 113, 113}, 32, 8},
		{"f32", "1, 0", []int64{16387, 2051}, 16, 4},
		{"bool", "0, 2, 1", []int64{512, 1023, 64}, 64, 16},
		{"bool", "1, 0", []int64{8197, 8195}, 32, 28},
		{"f32", "1, 0", []int64{8197, 8195}, 8, 4},
	} {
		g := permuted(t, test.kind, test.dims, test.sizes...)
		q := Scheduler{}.Candidates(g, scheduler.Hopper)[0].(Params)
		require.True(t, q.Window)
		q.Near, q.Far, q.Lanes = 128, 128, 8
		p := newPlanner(analyse(g).layout, scheduler.Hopper)
		require.Equal(t, [2]int64{test.plain, test.changed}, [2]int64{p.cycles(&q, false), p.cycles(&q, true)}, test.sizes)
		require.Equal(t, test.changed < test.plain && (test.kind != "bool" || 2*test.changed <= test.plain), p.swizzles(&q), test.sizes)
	}
}
