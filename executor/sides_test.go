package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// TestDeviceSidesInPlace has parts of one tensor added to tensors of other sizes in place, whose sums are needed
// again: one kernel, in vectors, that needs no copies.
func TestDeviceSidesInPlace(t *testing.T) {
	f, err := core.Parse(`%0 = tensor f32 [40960] contiguity=[yes]
%1 = tensor f32 [8192] contiguity=[yes]
%2 = tensor f32 [32768] contiguity=[yes]
%3 = slice %0 start_indices=[0] end_indices=[8192] strides=[1] manual_normalization=true
%4 = slice %0 start_indices=[8192] end_indices=[40960] strides=[1] manual_normalization=true
%5 = add %1, %3
%6 = exp %5
%7 = add %2, %4
%8 = sin %7
output %5 alias %1
output %6
output %7 alias %2
output %8
`)
	require.NoError(t, err)
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, []int64{40960}, []int64{8192}, []int64{32768})}
	s := newStage(t)
	s.driver.Present[0].Processors = 1
	ok, err := s.check(s.executor(f), c, 0, never)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, s.driver.Launches(), 1)
	text, err := s.plan.Inspection().Show("scheduler_params")
	require.NoError(t, err)
	require.Contains(t, text, "vectors of 4 elements each; beside that 1 vectors of 4 elements each")
}
