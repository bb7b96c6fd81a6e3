package fusionfuzz

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
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

// TestProducts: the order of factors matters where some of them have a product that is out of
// the range of their type, and nowhere else.
func TestProducts(t *testing.T) {
	for _, test := range []struct {
		name    string
		dtype   string
		factors []float64
		want    Accuracy
	}{
		{"few", "f32", []float64{1e30, 2, 3}, Approximate},
		{"too large, and 0", "f32", []float64{1e30, 1e30, 0}, Unspecified},
		{"too large together", "f32", []float64{1e30, 1e-30, 1e30}, Unspecified},
		{"too small together", "f32", []float64{1e-30, 1e30, 1e-30}, Unspecified},
		{"of double precision", "f64", []float64{1e30, 1e-30, 1e30}, Approximate},
		{"of half precision", "f16", []float64{300, 300, 0.001}, Unspecified},
		{"infinite, and 0", "f32", []float64{math.Inf(1), 0, 5, math.NaN()}, Approximate},
		{"many ones", "f32", slices.Repeat([]float64{-1}, 1000), Approximate},
		{"none", "f32", nil, Approximate},
		{"drawn", "drawn", []float64{1}, Unspecified},
	} {
		product := "prod %0 dims=[0] keepdim=false dtype=" + test.dtype
		if test.dtype == "drawn" {
			test.dtype, product = "f32", "uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32\n%2 = cumprod %1 dim=0\noutput %2"
		}
		f, err := core.Parse("%0 = tensor " + test.dtype + " [-1] contiguity=[yes]\n%1 = " + product + "\noutput %1\n")
		require.NoError(t, err, test.name)
		f.Freeze()
		c := &Case{Fusion: f, Inputs: Inputs(f, 1, []int64{int64(len(test.factors))})}
		for i, x := range test.factors {
			c.Inputs[0].Array.Set(int64(i), scalar.Value{Type: c.Inputs[0].Array.Type, Re: x})
		}
		last := f.Expr(f.Order()[len(f.Order())-1]).Out[0]
		require.Equal(t, test.want, c.Accuracies()[last], test.name)
	}
}
