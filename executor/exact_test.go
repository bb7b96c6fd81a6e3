package executor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/executor"
)

// TestExact: plans and kernels that approximate are told apart from those that do not.
func TestExact(t *testing.T) {
	driver := h100s(1)
	e := deviceExecutor(t, driver, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = exp %0
%2 = cast %1 dtype=bf16
output %2
`)
	approximate := func(n int64, o executor.Options) bool {
		_, err := e.PlanWith([]executor.Input{vector(0x1000, n)}, o)
		requireNoError(t, err)
		x, err := e.Inspect([]executor.Input{vector(0x1000, n)}, o)
		requireNoError(t, err)
		text, err := x.Show("cuda_kernel")
		requireNoError(t, err)
		return strings.Contains(text, "approximateExp(")
	}
	require.True(t, approximate(1000, executor.Options{}))
	require.False(t, approximate(1000, executor.Options{Exact: true}))
	require.True(t, approximate(1000, executor.Options{}))
	require.Len(t, driver.Compiles(), 2)
	require.True(t, approximate(1001, executor.Options{})) // sizes that may share kernels
	require.False(t, approximate(1001, executor.Options{Exact: true}))
}
