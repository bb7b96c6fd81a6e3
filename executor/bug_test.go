package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// TestBug provokes a panic: the caller gives no memory for an output.
func TestBug(t *testing.T) {
	e := executorOf(t, scaled(t, 3))
	in := []executor.Input{floats([]int64{4}, []int64{1})}
	plan, err := e.Plan(in)
	require.NoError(t, err)
	err = plan.Run(in, nil, core.RandomState{}, nil)
	var bug *executor.Bug
	require.ErrorAs(t, err, &bug)
	require.Contains(t, string(bug.Stack), "executor/cpu")
	require.Contains(t, bug.Reproducer, e.Text())
	require.Contains(t, bug.Reproducer, "# input 0: Float sizes [4] strides [1] on cpu")
	require.Contains(t, err.Error(), "internal error: runtime error")
}
