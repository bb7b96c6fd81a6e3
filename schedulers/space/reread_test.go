package space

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/schedulers/scheduler"
)

// spaceOf returns the space of text for inputs of sizes that lie densely.
func spaceOf(t *testing.T, text string, sizes ...[]int64) *Space {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	values := make([]core.InputValue, len(sizes))
	for k := range sizes {
		values[k] = core.InputValue{Tensor: true, DType: dtype.Float, Sizes: sizes[k]}
	}
	bind, err := f.Bind(values)
	require.NoError(t, err)
	g, err := scheduler.Dense(f, bind)
	require.NoError(t, err)
	p, err := New(g, f.Outputs()[0].Val)
	require.NoError(t, err)
	return p
}

const whole = 1 << 30 // a second cache that has room for everything

func TestRereadOfRowsThatAllRead(t *testing.T) {
	p := spaceOf(t, `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor f32 [1, -1, -1] contiguity=[none, yes, yes]
%2 = add %0, %1
output %2
`, []int64{4, 32, 8}, []int64{1, 32, 8})
	require.Equal(t, []Range{{0, 1}}, p.Repeats())
	const one = 3 * 32 * 8 * 4 / reuseShare // that keeps a row of the three tensors
	for cache, want := range map[int64]float64{0: 0, whole: 0, one: 0, one - 4: 3} {
		require.InDelta(t, want, p.Reread(cache), 1e-9, cache)
	}
	across := p.Ordered(Range{1, 3}, Range{0, 1})
	require.Zero(t, across.Reread(1))
	require.Empty(t, across.Repeats())
}

func TestRereadInTheMiddle(t *testing.T) {
	p := spaceOf(t, `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor f32 [-1, 1, -1] contiguity=[yes, none, yes]
%2 = add %0, %1
output %2
`, []int64{2, 4, 32}, []int64{2, 1, 32})
	require.Equal(t, []Range{{1, 2}}, p.Repeats())
	require.InDelta(t, 3, p.Reread(1), 1e-9)
}
