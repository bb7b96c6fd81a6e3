package lower

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// Programs that users write, inlined and parallelized in the plain way, are
// lowered: none is refused.
func TestOrdinaryPrograms(t *testing.T) {
	for _, x := range []struct {
		name, text string
		sizes      [][]int64
		differ     bool // the uses of an input, so that one copy of it is not enough
	}{
		{"group norm", `%0 = tensor f32 [2, 6, 4] contiguity=[yes, yes, yes]
%1 = reshape %0 new_shape=[2, 3, 8]
%2 = sum %1 dims=[2] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, false, true]
%4 = sub %1, %3
%5 = reshape %4 new_shape=[2, 6, 4]
%6 = add %5, %0
output %6
`, [][]int64{{2, 6, 4}}, false},
		{"group norm of a computed tensor", `%0 = tensor f32 [2, 6, 4] contiguity=[yes, yes, yes]
%10 = neg %0
%1 = reshape %10 new_shape=[2, 3, 8]
%2 = sum %1 dims=[2] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, false, true]
%4 = sub %1, %3
%5 = reshape %4 new_shape=[2, 6, 4]
%6 = add %5, %10
output %6
`, [][]int64{{2, 6, 4}}, false},
		{"there and back", `%0 = tensor f32 [6, 4] contiguity=[yes, yes]
%1 = neg %0
%2 = reshape %1 new_shape=[24]
%3 = neg %2
%4 = reshape %3 new_shape=[6, 4]
%5 = add %4, %1
output %5
`, [][]int64{{6, 4}}, false},
		{"there and back by split", `%0 = tensor f32 [24] contiguity=[yes]
%1 = neg %0
%2 = reshape %1 new_shape=[6, 4]
%3 = neg %2
%4 = reshape %3 new_shape=[24]
%5 = add %4, %1
output %5
`, [][]int64{{24}}, false},
		{"transposed reshape", `%0 = tensor f32 [6, 4] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
%2 = reshape %1 new_shape=[6, 4]
%3 = add %2, %0
output %3
`, [][]int64{{6, 4}}, true},
		{"slices of one", `%0 = tensor f32 [6, 8] contiguity=[yes, yes]
%1 = neg %0
%2 = slice %1 start_indices=[0, 0] end_indices=[6, 4] strides=[1, 1] manual_normalization=true
%3 = slice %1 start_indices=[0, 4] end_indices=[6, 8] strides=[1, 1] manual_normalization=true
%4 = add %2, %3
output %4
`, [][]int64{{6, 8}}, false},
		{"rope", `%0 = tensor f32 [6, 8] contiguity=[yes, yes]
%1 = tensor f32 [6, 8] contiguity=[yes, yes]
%2 = slice %0 start_indices=[0, 0] end_indices=[6, 4] strides=[1, 1] manual_normalization=true
%3 = slice %0 start_indices=[0, 4] end_indices=[6, 8] strides=[1, 1] manual_normalization=true
%4 = neg %3
%5 = cat [%4, %2] dim=1 manual_padding=false
%6 = mul %5, %1
%7 = add %6, %0
output %7
`, [][]int64{{6, 8}, {6, 8}}, false},
		{"rope computed", `%0 = tensor f32 [6, 8] contiguity=[yes, yes]
%1 = tensor f32 [6, 8] contiguity=[yes, yes]
%8 = neg %0
%2 = slice %8 start_indices=[0, 0] end_indices=[6, 4] strides=[1, 1] manual_normalization=true
%3 = slice %8 start_indices=[0, 4] end_indices=[6, 8] strides=[1, 1] manual_normalization=true
%4 = neg %3
%5 = cat [%4, %2] dim=1 manual_padding=false
%6 = mul %5, %1
%7 = add %6, %8
output %7
`, [][]int64{{6, 8}, {6, 8}}, false},
		{"shifted", `%0 = tensor f32 [9] contiguity=[yes]
%1 = neg %0
%2 = slice %1 start_indices=[0] end_indices=[8] strides=[1] manual_normalization=true
%3 = slice %1 start_indices=[1] end_indices=[9] strides=[1] manual_normalization=true
%4 = sub %3, %2
output %4
`, [][]int64{{9}}, false},
		{"square transposed", `%0 = tensor f32 [5, 5] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
%2 = add %1, %0
output %2
`, [][]int64{{5, 5}}, true},
		{"an input is an output", `%0 = tensor f32 [5, 5] contiguity=[yes, yes]
%1 = neg %0
output %1
output %0
`, [][]int64{{5, 5}}, false},
		{"only an input", `%0 = tensor f32 [5, 5] contiguity=[yes, yes]
output %0
`, [][]int64{{5, 5}}, false},
		{"an output twice", `%0 = tensor f32 [5, 5] contiguity=[yes, yes]
%1 = neg %0
output %1
output %1
`, [][]int64{{5, 5}}, false},
		{"unrelated", `%0 = tensor f32 [5, 3] contiguity=[yes, yes]
%1 = tensor f32 [7] contiguity=[yes]
%2 = neg %0
%3 = neg %1
output %2
output %3
`, [][]int64{{5, 3}, {7}}, false},
		{"expanded input", `%0 = tensor f32 [5, 3] contiguity=[yes, none]
%1 = tensor f32 [5, 3] contiguity=[no, yes] stride_order=[0, 1]
%2 = add %0, %1
output %2
`, [][]int64{{5, 3}, {5, 3}}, false},
		{"pixel shuffle", `%0 = tensor f32 [2, 8, 3, 3] contiguity=[yes, yes, yes, yes]
%1 = reshape %0 new_shape=[2, 2, 2, 2, 3, 3]
%2 = permute %1 dims=[0, 1, 4, 2, 5, 3]
%3 = reshape %2 new_shape=[2, 2, 6, 6]
%4 = neg %3
output %4
`, [][]int64{{2, 8, 3, 3}}, false},
	} {
		for _, cached := range []bool{false, true} {
			if cached && x.differ {
				continue
			}
			t.Run(fmt.Sprintf("%s, copied %v", x.name, cached), func(t *testing.T) {
				s := parsed(t, x.text)
				f := frozen(s)
				for _, in := range s.Fusion().Inputs() {
					if cached && !isOutput(s, in) {
						_, err := s.CacheAfter(in, nil)
						must(t, err)
					}
				}
				must(t, s.InlineMost(nil, nil))
				k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), Options{})
				require.NoError(t, err, "%v", k)
			})
		}
	}
}

func isOutput(s *schedule.Scheduled, v core.ValID) bool {
	return slices.ContainsFunc(s.Fusion().Outputs(), func(o core.Output) bool { return o.Val == v })
}

// What is refused says what to change.
func TestSquareTransposed(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [5, 5] contiguity=[yes, yes]
%1 = neg %0
%2 = permute %1 dims=[1, 0]
%3 = add %2, %1
output %3
`)
	_, err := lowered(s, Options{})
	require.EqualError(t, err, "two axes of tv1 always have the same index as far as the operations say, as in x + permute(x, [1, 0]), so that loops cannot tell them apart: "+
		"compute it in a kernel of its own, or twice")
}
