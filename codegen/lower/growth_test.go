package lower

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/schedule"
)

// chain returns a schedule of n elementwise operations on tensors of two
// dimensions, as a pointwise scheduler makes it.
func chain(t testing.TB, n int) *schedule.Scheduled {
	var b strings.Builder
	b.WriteString("%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%2 = add %0, %1\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "%%%d = mul %%%d, %%%d\n", i+3, i+2, i%2)
	}
	fmt.Fprintf(&b, "output %%%d\n", n+1)
	s := parsed(t, b.String())
	out := s.Fusion().Outputs()[0].Val
	require.NoError(t, s.Merge(out, 0, 1))
	require.NoError(t, s.Split(out, 0, 128, true))
	_, err := s.TransformLike(out, nil)
	require.NoError(t, err)
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			require.NoError(t, s.Parallelize(v, 0, schedule.BIDx))
			require.NoError(t, s.Parallelize(v, 1, schedule.TIDx))
		}
	}
	require.NoError(t, s.InlineMost(nil, nil))
	return s
}

// The work grows with the number of operations, not faster.
func TestGrowth(t *testing.T) {
	work := func(n int) float64 {
		s := chain(t, n)
		return testing.AllocsPerRun(1, func() {
			_, err := Lower(s, Options{})
			require.NoError(t, err)
		})
	}
	require.Less(t, work(1000)/work(100), 12.0)
}

func BenchmarkLower(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := chain(b, n)
			for b.Loop() {
				_, err := Lower(s, Options{})
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprint("map", n), func(b *testing.B) {
			s := chain(b, n)
			for b.Loop() {
				_, err := schedule.Map(s)
				require.NoError(b, err)
			}
		})
	}
}
