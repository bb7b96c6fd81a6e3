package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestTwoPassWelford(t *testing.T) {
	for _, x := range []struct {
		name, outputs string
		rewritten     bool
	}{
		{"both", "output %1\noutput %2\n", true},
		{"read", "%4 = mul %1, %2\noutput %4\noutput %1\n", true},
		{"number", "output %2\noutput %3\n", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, err := Parse("%0 = tensor f32 [3, -1] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[1]\n" + x.outputs)
			require.NoError(t, err)
			f.Freeze()
			g := f.Clone()
			sums, err := g.TwoPassWelford(nil)
			require.NoError(t, err)
			g.Freeze()
			require.NoError(t, g.Verify())
			require.Equal(t, x.rewritten, len(sums) == 1)
			if !x.rewritten {
				require.Equal(t, f.String(), g.String())
				return
			}
			require.NotContains(t, g.String(), "welford")
			for _, sum := range sums {
				require.Equal(t, SumOp, g.Expr(g.Val(sum).Def).Op)
			}
			for _, columns := range []int64{0, 1, 7} {
				in := NewArray(dtype.Float, []int64{3, columns})
				for i := range in.F {
					in.F[i] = 1000 + float64(i*i%17)/4
				}
				want, err := f.Eval([]*Array{in}, make([]scalar.Value, 1), RandomState{})
				require.NoError(t, err)
				got, err := g.Eval([]*Array{in}, make([]scalar.Value, 1), RandomState{})
				require.NoError(t, err)
				for k := range want {
					require.InDeltaSlice(t, want[k].F, got[k].F, 1e-3, "%d columns", columns)
				}
			}
		})
	}
}
