package executor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// TestBug provokes panics: the caller gives no memory for an output.
func TestBug(t *testing.T) {
	e := executorOf(t, scaled(t, 3))
	for _, n := range []int64{4, 1 << 20} { // on one goroutine, on several
		in := []executor.Input{floats([]int64{n}, []int64{1})}
		plan, err := e.Plan(in)
		require.NoError(t, err)
		for _, outputs := range [][]unsafe.Pointer{nil, {nil}} {
			err = plan.Run(in, outputs, core.RandomState{}, nil)
			var bug *executor.Bug
			require.ErrorAs(t, err, &bug)
			require.Contains(t, string(bug.Stack), "executor/cpu")
			require.Contains(t, bug.Reproducer, e.Text())
			require.Contains(t, bug.Reproducer, "# input 0: Float sizes [")
			require.Contains(t, err.Error(), "internal error: runtime error")
		}
	}
}
