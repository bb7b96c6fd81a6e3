package transpose

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

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
		{"f32", "1, 0", []int64{8197, 8195}, 8, 4},
	} {
		axes, yes := "-1", "yes"
		for range test.sizes[1:] {
			axes, yes = axes+", -1", yes+", yes"
		}
		text := fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]\n%%1 = permute %%0 dims=[%s]\noutput %%1\n\n[", test.kind, axes, yes, test.dims)
		for k, n := range test.sizes {
			if k > 0 {
				text += ", "
			}
			text += fmt.Sprint(n)
		}
		g := segmenttext.Read(t, text+"]\n")
		q := Scheduler{}.Candidates(g, scheduler.Hopper)[0].(Params)
		p := newPlanner(analyse(g).layout, scheduler.Hopper)
		require.Equal(t, [2]int64{test.plain, test.changed}, [2]int64{p.cycles(&q, false), p.cycles(&q, true)}, test.sizes)
		require.Equal(t, test.changed < test.plain, q.Swizzle, test.sizes)
	}
}
