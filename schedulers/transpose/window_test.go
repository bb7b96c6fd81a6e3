package transpose

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestWindowsGivenUpLast checks which windows the second cache gives up last: those of inputs that are larger than it.
func TestWindowsGivenUpLast(t *testing.T) {
	for _, test := range []struct {
		rows int
		want schedule.CacheHint
	}{{8197, schedule.CacheEvictLast}, {4099, schedule.CacheUnspecified}} {
		g := segmenttext.Read(t, fmt.Sprintf("%%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]\n%%1 = permute %%0 dims=[1, 0]\noutput %%1\n\n[%d, 8195]\n", test.rows))
		q := Scheduler{}.Candidates(g, scheduler.Hopper)[0]
		require.True(t, q.(Params).Window)
		s, err := Scheduler{}.Apply(g, q)
		require.NoError(t, err)
		f, tiles := s.Fusion(), 0
		for _, id := range f.Order() {
			if e := f.Expr(id); f.TensorArgs(e)[0] == f.Inputs()[0] {
				require.Equal(t, test.want, s.CacheHint(e.Out[0]))
				tiles++
			}
		}
		require.Equal(t, 1, tiles)
	}
}
