package transpose

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/scheduler"
)

// TestFittedWindows checks which windows shapes have, each of which a device took least or nearly least time by.
func TestFittedWindows(t *testing.T) {
	for _, test := range []struct {
		dims      string
		sizes     []int64
		near, far int64
	}{
		{"1, 0", []int64{8197, 8195}, 128, 128},
		{"0, 2, 3, 1", []int64{64, 129, 113, 113}, 144, 64},
		{"0, 3, 1, 2", []int64{64, 113, 113, 129}, 64, 160},
		{"0, 2, 1", []int64{512, 1023, 80}, 96, 96},
		{"0, 2, 1", []int64{32, 701, 907}, 64, 64},
		{"0, 2, 1", []int64{512, 257, 513}, 144, 64},
		{"0, 2, 1", []int64{512, 1023, 64}, 128, 64},
		{"0, 2, 1", []int64{512, 64, 1023}, 64, 128},
		{"1, 0", []int64{1023, 1025}, 64, 64}, // few blocks
	} {
		q := Scheduler{}.Candidates(permuted(t, "bf16", test.dims, test.sizes...), scheduler.Hopper)[0].(Params)
		require.True(t, q.Window, test.sizes)
		require.Equal(t, [2]int64{test.near, test.far}, [2]int64{q.Near, q.Far}, test.sizes)
	}
}
