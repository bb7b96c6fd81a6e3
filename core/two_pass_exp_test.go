package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// TestTwoPassExponentials has softmaxes, and others that divide nothing by a sum of exponentials, of usual numbers and of infinite ones.
func TestTwoPassExponentials(t *testing.T) {
	const (
		stats    = "%0 = tensor f32 [3, -1] contiguity=[yes, yes]\n%1, %2 = _max_exp_sum %0 dims=[1]\n%3 = broadcast %1 is_broadcast_dim=[false, true]\n"
		distance = "%4 = sub %0, %3\n%5 = broadcast %2 is_broadcast_dim=[false, true]\n"
	)
	for _, x := range []struct {
		name, text string
		rewritten  bool
	}{
		{"softmax", stats + distance + "%6 = _exp_share %4, %5\noutput %6\n", true},
		{"with the sum and the maximum", stats + distance + "%6 = _exp_share %4, %5\noutput %6\noutput %2\noutput %1\n", true},
		{"two shares", stats + distance + "%6 = _exp_share %4, %5\n%7 = _exp_share %4, %5\n%8 = add %6, %7\noutput %8\n", true},
		{"logarithm", stats + distance + "%6 = log %5\n%7 = sub %4, %6\noutput %7\n", false},
		{"of something else", stats + "%4 = mul %0, 2.0:f64\n%5 = sub %4, %3\n%6 = broadcast %2 is_broadcast_dim=[false, true]\n%7 = _exp_share %5, %6\noutput %7\n", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, err := Parse(x.text)
			require.NoError(t, err)
			f.Freeze()
			g := f.Clone()
			largest, err := g.TwoPassExponentials()
			require.NoError(t, err)
			g.Freeze()
			require.NoError(t, g.Verify())
			require.Equal(t, x.rewritten, len(largest) == 1)
			if !x.rewritten {
				require.Equal(t, f.String(), g.String())
				return
			}
			require.NotContains(t, g.String(), "_max_exp_sum")
			require.NotContains(t, g.String(), "_exp_share")
			for _, v := range largest {
				require.Equal(t, MaxOp, g.Expr(g.Val(v).Def).Op)
			}
			for _, columns := range []int64{0, 1, 7} {
				in := NewArray(dtype.Float, []int64{3, columns})
				for i := range in.F {
					in.F[i] = float64(i*i%17)/4 - 2
					if i >= 14 { // the last row, if it is one of seven
						in.F[i] = math.Inf(-1 + 2*(i%5/4))
					}
				}
				want, err := f.Eval([]*Array{in}, make([]scalar.Value, 1), RandomState{})
				require.NoError(t, err)
				got, err := g.Eval([]*Array{in}, make([]scalar.Value, 1), RandomState{})
				require.NoError(t, err)
				for k := range want {
					for i := range want[k].F {
						if w := want[k].F[i]; math.IsNaN(w) || math.IsInf(w, 0) {
							require.Equal(t, math.Float64bits(w), math.Float64bits(got[k].F[i]))
						} else {
							require.InDelta(t, w, got[k].F[i], 1e-6, "%d columns", columns)
						}
					}
				}
			}
		})
	}
}
