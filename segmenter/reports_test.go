package segmenter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReports has programs that broke segmenters of this kind.
func TestReports(t *testing.T) {
	for _, test := range []struct {
		name, text string
		sizes      [][]int64
		want       []string
	}{
		{"D02 an input cast twice and reduced along different dimensions", `%0 = tensor bf16 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = cast %0 dtype=f32
%2 = cast %0 dtype=f32
%3 = sum %2 dims=[0, 1] keepdim=false dtype=f32
%4 = sum %1 dims=[0, 1] keepdim=false dtype=f32
%5 = sum %1 dims=[2] keepdim=false dtype=f32
output %3
output %4
output %5
`, [][]int64{{6, 17, 40}}, []string{"kernel: cast sum cast sum sum"}},
		{"D03 an input that is overwritten and read", `%0 = tensor f32 [10, 2] contiguity=[yes, yes]
%1 = tensor f32 [2, 10, 2] contiguity=[yes, yes, yes]
%2 = relu %0
%3 = broadcast %0 is_broadcast_dim=[true, false, false]
%4 = add %3, %1
output %2 alias %0
output %4
`, [][]int64{{10, 2}, {2, 10, 2}}, []string{"kernel: broadcast add", "kernel: relu"}},
		{"D03 with a cut", `%0 = tensor f32 [10, 2] contiguity=[yes, yes]
%1 = tensor f32 [2, 10, 2] contiguity=[yes, yes, yes]
%2 = relu %0
%3 = broadcast %0 is_broadcast_dim=[true, false, false]
%4 = segment_set %3
%5 = add %4, %1
output %2 alias %0
output %5
`, [][]int64{{10, 2}, {2, 10, 2}}, []string{"kernel: relu broadcast segment_set", "kernel: add"}},
		{"D12 sizes that are scalars, across a cut", `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor f32 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
$0 = scalar i64
$1 = scalar i64
%2 = sum %0 dims=[0, 1] keepdim=false dtype=f32
%3 = permute %1 dims=[1, 2, 3, 0]
%4 = reshape %3 new_shape=[index($0), index($1)]
%5 = broadcast %2 is_broadcast_dim=[true, false]
%6 = add %4, %5
output %6
`, [][]int64{{3, 4, 6}, {2, 3, 5, 4}}, []string{"kernel: sum", "kernel: permute reshape broadcast add"}},
		{"D13 a slice of what is computed", `%0 = tensor bf16 [10] contiguity=[yes]
%1 = cast %0 dtype=f32
%2 = neg %1
%3 = cast %2 dtype=bf16
%4 = slice %3 start_indices=[0] end_indices=[5] strides=[1] manual_normalization=true
output %4
`, [][]int64{{10}}, []string{"kernel: cast neg cast", "kernel: slice"}},
		{"D23 an input that is used through its cast alone", `%0 = tensor f16 [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = add %1, %1
%3 = cast %2 dtype=f16
%4 = sum %1 dims=[1] keepdim=false dtype=f32
output %3
output %4
`, [][]int64{{8, 16}}, []string{"kernel: cast add cast sum"}},
		{"D46 a slice, a cut, a sum and a pad", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = slice %0 start_indices=[1, 0] end_indices=[5, 10] strides=[1, 1] manual_normalization=true
%3 = segment_set %2
%4 = add %3, %1
%5 = pad %4 pad_widths=[0, 0, 0, 1] value=0.0:f32
output %5
`, [][]int64{{5, 10}, {4, 10}}, []string{"view: slice", "kernel: segment_set", "kernel: add", "kernel: pad"}},
		{"D48 a scalar that nothing uses", `%0 = tensor f32 [-1] contiguity=[yes]
$0 = scalar f64
%1 = exp %0
output %1
`, [][]int64{{7}}, []string{"kernel: exp"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := parsedWith(t, test.text, []int64{20, 6}, test.sizes...)
			p, err := x.check(Options{})
			require.NoError(t, err)
			require.Equal(t, test.want, shown(p), p.Dump())
		})
	}
}
