package pointwise

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/schedulers/scheduler"
)

// BenchmarkPlan measures what a first call pays for a schedule of ten operations:
// accepting, choosing and applying.
func BenchmarkPlan(b *testing.B) {
	f, err := core.Parse(`%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor bf16 [-1] contiguity=[yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
%4 = broadcast %3 is_broadcast_dim=[true, false]
%5 = add %2, %4
%6 = mul %5, 0.7071067811865476:f64
%7 = erf %6
%8 = add %7, 1:f64
%9 = mul %5, 0.5:f64
%10 = mul %9, %8
%11 = cast %10 dtype=bf16
output %11
`)
	require.NoError(b, err)
	f.Freeze()
	bind, err := f.Bind([]core.InputValue{{Tensor: true, DType: dtype.BFloat16, Sizes: []int64{16384, 4096}}, {Tensor: true, DType: dtype.BFloat16, Sizes: []int64{4096}}})
	require.NoError(b, err)
	for b.Loop() {
		g, err := scheduler.Dense(f, bind)
		require.NoError(b, err)
		require.Empty(b, Scheduler{}.Accept(g, scheduler.Hopper))
		_, err = Scheduler{}.Apply(g, Scheduler{}.Candidates(g, scheduler.Hopper)[0])
		require.NoError(b, err)
	}
}
