package lower

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
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

// normalisations returns a schedule of about n operations on rows: each a few elementwise
// ones, a sum or maximum of the row by the threads of a block, and a broadcast
// back, as a reduction scheduler makes it.
func normalisations(t testing.TB, n int) *schedule.Scheduled {
	var b strings.Builder
	b.WriteString("%0 = tensor f32 [-1, 512] contiguity=[yes, yes]\n%1 = neg %0\n")
	last := 1
	for range n / 5 {
		fmt.Fprintf(&b, "%%%d = exp %%%d\n%%%d = sum %%%d dims=[1] keepdim=false dtype=f32\n%%%d = broadcast %%%d is_broadcast_dim=[false, true]\n%%%d = sub %%%d, %%%d\n%%%d = mul %%%d, %%0\n",
			last+1, last, last+2, last+1, last+3, last+2, last+4, last+1, last+3, last+5, last+4)
		last += 5
	}
	fmt.Fprintf(&b, "output %%%d\n", last)
	s := parsed(t, b.String())
	for _, v := range s.Tensors() {
		if d := s.Fusion().Val(v).Domain; !s.Fusion().Val(v).Input {
			require.NoError(t, s.Parallelize(v, 0, schedule.BIDx))
			if len(d.Root) == 2 && len(s.Loop(v)) == 2 {
				require.NoError(t, s.Split(v, 1, 128, true))
				require.NoError(t, s.Parallelize(v, 2, schedule.TIDx))
			}
		}
	}
	for _, v := range s.Tensors() {
		if e := s.Fusion().Val(v).Def; !s.Fusion().Val(v).Input && s.Fusion().Expr(e).Op.Class == core.Reduction {
			_, err := s.RFactor(v, []int{1})
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.InlineMost(nil, nil))
	return s
}

// outer returns a schedule of n additions of rows and columns to a matrix, all
// inlined and merged.
func outer(t testing.TB, n int) *schedule.Scheduled {
	var b strings.Builder
	b.WriteString("%0 = tensor f32 [-1] contiguity=[yes]\n%1 = tensor f32 [-1] contiguity=[yes]\n%2 = tensor f32 [-1, -1] contiguity=[yes, yes]\n")
	last := 2
	for i := range n / 3 {
		fmt.Fprintf(&b, "%%%d = mul %%%d, %d:f64\n%%%d = broadcast %%%d is_broadcast_dim=[%t, %t]\n%%%d = add %%%d, %%%d\n", last+1, i%2, i, last+2, last+1, i%2 == 1, i%2 == 0, last+3, last+2, last)
		last += 3
	}
	fmt.Fprintf(&b, "output %%%d\n", last)
	s := parsed(t, b.String())
	out := s.Fusion().Outputs()[0].Val
	require.NoError(t, s.Merge(out, 0, 1))
	require.NoError(t, s.Split(out, 0, 128, true))
	_, err := s.TransformLike(out, nil)
	require.NoError(t, err)
	require.NoError(t, s.ParallelizeLike(out, -1, nil, nil))
	require.NoError(t, s.InlineMost(nil, nil))
	return s
}

var growths = []struct {
	name string
	make func(testing.TB, int) *schedule.Scheduled
}{{"chain", chain}, {"rows", normalisations}, {"outer", outer}}

// The work grows with the number of operations, not faster.
func TestGrowth(t *testing.T) {
	for _, x := range growths {
		t.Run(x.name, func(t *testing.T) {
			work := func(n int) float64 {
				s := x.make(t, n)
				return testing.AllocsPerRun(1, func() {
					_, err := Lower(s, Options{})
					require.NoError(t, err)
				})
			}
			small, large := work(60), work(480)
			t.Log(small, large)
			require.Less(t, large/small, 10.0)
		})
	}
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
