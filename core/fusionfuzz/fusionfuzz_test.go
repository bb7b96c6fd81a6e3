package fusionfuzz

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// Random cases have outputs whose strides have an order, some of them written to inputs.
func TestOrderedOutputs(t *testing.T) {
	ordered, aliased := 0, 0
	for k := range 1000 {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		data := make([]byte, 40+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f := Decode(data).Fusion
		require.NoError(t, f.Verify())
		for _, o := range f.Outputs() {
			if f.Val(o.Val).Def != core.NoExpr && f.Expr(f.Val(o.Val).Def).Op == core.StrideOrderOp {
				ordered++
				if o.Alias != core.NoVal {
					aliased++
				}
			}
		}
	}
	require.Greater(t, ordered, 100)
	require.Greater(t, aliased, 5)
}

// TestAccuracies: means are rounded wherever two are merged, unlike sums up to Float.
func TestAccuracies(t *testing.T) {
	f, err := core.Parse(`%0 = tensor f32 [3, 3] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
%4 = neg %1
%5 = erfcinv %4
%6 = sum %0 dims=[1] keepdim=false dtype=f32
%7 = erfcinv %6
output %1
output %4
output %5
output %7
`)
	require.NoError(t, err)
	f.Freeze()
	all := (&Case{Fusion: f}).Accuracies()
	var got []Accuracy
	for _, o := range f.Outputs() {
		got = append(got, all[o.Val])
	}
	require.Equal(t, []Accuracy{Approximate, Approximate, Unspecified, Approximate}, got)
}
