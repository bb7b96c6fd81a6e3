package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestApproximable has small fusions, and the results of each that may be
// approximated.
func TestApproximable(t *testing.T) {
	softmax := `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = max %0 dims=[1] keepdim=false dtype=null
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
%4 = exp %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = truediv %4, %6
`
	x := "%0 = tensor f32 [8] contiguity=[yes]\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"softmax to bf16", softmax + "%8 = cast %7 dtype=bf16\noutput %8", []string{"tv4", "tv7"}},
		{"softmax to f16", softmax + "%8 = cast %7 dtype=f16\noutput %8", []string{"tv4", "tv7"}},
		{"softmax to f32", softmax + "output %7", nil},
		{"softmax to f64", softmax + "%8 = cast %7 dtype=f64\noutput %8", nil},
		{"an int", softmax + "%8 = cast %7 dtype=i32\noutput %8", nil},
		{"both bf16 and f32", softmax + "%8 = cast %7 dtype=bf16\noutput %8\noutput %7", nil},
		{"the sum is an output", softmax + "%8 = cast %7 dtype=bf16\noutput %8\noutput %5", []string{"tv7"}},
		{"a logarithm of the sum", softmax + "%8 = cast %7 dtype=bf16\n%9 = log %5\noutput %8\noutput %9", []string{"tv7"}},
		{"a comparison", softmax + "%8 = gt %7, 0.5:f64\n%9 = cast %7 dtype=bf16\noutput %8\noutput %9", nil},

		{"sum of exponentials", x + "%1 = exp %0\n%2 = add %1, 1.0:f64\n%3 = cast %2 dtype=bf16\noutput %3", []string{"tv1"}},
		{"less 1", x + "%1 = exp %0\n%2 = add %1, -1.0:f64\n%3 = cast %2 dtype=bf16\noutput %3", nil},
		{"difference", x + "%1 = exp %0\n%2 = sub %1, 1.0:f64\n%3 = cast %2 dtype=bf16\noutput %3", nil},
		{"plus anything", x + "%1 = exp %0\n%2 = add %1, %0\n%3 = cast %2 dtype=bf16\noutput %3", nil},
		{"sum of quotients", x + "%1 = truediv %0, 3.0:f64\n%2 = sum %1 dims=[0] keepdim=false dtype=f32\n%3 = cast %2 dtype=bf16\noutput %3", nil},
		{"sum of sizes", x + "%1 = truediv %0, 3.0:f64\n%2 = abs %1\n%3 = sum %2 dims=[0] keepdim=false dtype=f32\n%4 = cast %3 dtype=bf16\noutput %4", []string{"tv1"}},
		{"largest quotient", x + "%1 = truediv %0, 3.0:f64\n%2 = max %1 dims=[0] keepdim=false dtype=null\n%3 = cast %2 dtype=bf16\noutput %3", []string{"tv1"}},
		{"root of a mean square", x + "%1 = mul %0, %0\n%2 = truediv %1, 8.0:f64\n%3 = sum %2 dims=[0] keepdim=false dtype=f32\n%4 = add %3, 0.001:f64\n%5 = sqrt %4\n%6 = reciprocal %5\n%7 = cast %6 dtype=f16\noutput %7", []string{"tv2", "tv5", "tv6"}},
		{"exponential of an exponential", x + "%1 = exp %0\n%2 = exp %1\n%3 = cast %2 dtype=bf16\noutput %3", []string{"tv2"}},
		{"of a rounded exponential", x + "%1 = exp %0\n%2 = cast %1 dtype=bf16\n%3 = cast %2 dtype=f32\n%4 = exp %3\noutput %4", []string{"tv1"}},
		{"sine", x + "%1 = exp %0\n%2 = sin %1\n%3 = cast %2 dtype=bf16\noutput %3", nil},
		{"sigmoid, silu, exp2", x + "%1 = sigmoid %0\n%2 = silu %0\n%3 = exp2 %0\n%4 = mul %1, %2\n%5 = mul %4, %3\n%6 = cast %5 dtype=bf16\noutput %6", []string{"tv1", "tv2", "tv3"}},
		{"branches", "%0 = tensor bool [8] contiguity=[yes]\n%1 = tensor f32 [8] contiguity=[yes]\n%2 = exp %1\n%3 = where %0, %2, 0.0:f64\n%4 = neg %3\n%5 = cast %4 dtype=bf16\noutput %5", []string{"tv2"}},
		{"five factors", x + "%1 = exp %0\n%2 = mul %1, %1\n%3 = mul %2, %2\n%4 = mul %3, %1\n%5 = cast %4 dtype=bf16\noutput %5", nil},
		{"four factors", x + "%1 = exp %0\n%2 = mul %1, %1\n%3 = mul %2, %2\n%4 = cast %3 dtype=bf16\noutput %4", []string{"tv1"}},
		{"a range", x + "%1 = truediv %0, 3.0:f64\n%2 = clamp %1, -448:f64, 448:f64\n%3 = cast %2 dtype=f8e4m3\noutput %3", []string{"tv1"}},
		{"largest of any sign", x + "%1 = exp %0\n%2 = neg %1\n%3 = maximum %2, %0\n%4 = cast %3 dtype=f16\noutput %4", []string{"tv1"}},
		{"double", "%0 = tensor f64 [8] contiguity=[yes]\n%1 = exp %0\n%2 = cast %1 dtype=bf16\noutput %2", nil},
		{"wrapping squares", "%0 = tensor i32 [8] contiguity=[yes]\n%1 = mul %0, %0\n%2 = cast %1 dtype=f32\n%3 = truediv %2, 3.0:f64\n%4 = sum %3 dims=[0] keepdim=false dtype=f32\n%5 = cast %4 dtype=bf16\noutput %5", nil},
		{"the pair", "%0 = tensor f32 [-1, 8] contiguity=[yes, yes]\n%1, %2 = _max_exp_sum %0 dims=[1]\n%3 = broadcast %2 is_broadcast_dim=[false, true]\n%4 = truediv %0, %3\n%5 = cast %4 dtype=bf16\noutput %5", []string{"tv1", "tv4"}},
		{"the pair's logarithm", "%0 = tensor f32 [-1, 8] contiguity=[yes, yes]\n%1, %2 = _max_exp_sum %0 dims=[1]\n%3 = log %2\n%4 = cast %3 dtype=bf16\noutput %4\noutput %1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse(c.text + "\n")
			require.NoError(t, err)
			found := f.Approximable()
			var got []string
			for _, id := range f.Order() {
				if found[id] {
					got = append(got, f.Name(f.Expr(id).Out[0]))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
