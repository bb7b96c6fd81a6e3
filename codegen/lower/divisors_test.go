package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
)

// Indices of threads are divided by sizes of the launch by way of arguments that
// the host computes, in kernels of 32 bits.
func TestDivisors(t *testing.T) {
	const text = `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = permute %0 dims=[1, 0, 2]
output %1
`
	for _, sizes := range [][]int64{{3, 5, 7}, {1, 9, 2}, {16, 8, 4}, {7, 1, 1}, {2, 3, 100}} {
		for index, want := range map[dtype.Type]int{dtype.Null: 3, dtype.Int: 0} {
			s := parsed(t, text)
			f := frozen(s)
			pointwise(t, s)
			inputs := fusionfuzz.Inputs(f, 7, sizes)
			value, err := trial.Integers(s, inputs)
			require.NoError(t, err)
			k, err := checkWith(s, f, inputs, Options{Value: value, Index: index})
			require.NoError(t, err, "%v", k)
			divisors := 0
			for _, a := range k.Arguments {
				if a.Kind == kir.Divisor {
					divisors++
				}
			}
			require.Equal(t, want, divisors, "%v", k)
		}
	}
}
