package executor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
)

// TestStreamedLoads: loads that the second cache is to give up last are so in kernels, whatever moves
// them, and load the same.
func TestStreamedLoads(t *testing.T) {
	for _, test := range []struct {
		name, text string
		shapes     [][]int64
		load       string
		loads      int
	}{
		{"copies", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = add %0, %1
output %2
`, [][]int64{{40, 64}, {40, 64}}, "moveEvictLast<16>(", 2},
		{"joined", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = cat [%0, %1] dim=1
%3 = relu %2
output %3
`, [][]int64{{40, 64}, {40, 16}}, "moveEvictLast<16>(", 1},
		{"padded", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = pad %0 pad_widths=[2, 2, 0, 0] value=1:f64
output %1
`, [][]int64{{40, 64}}, "moveEvictLast<8>(", 1},
		{"padded by zeros", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = pad %0 pad_widths=[4, 4, 0, 0] value=0:f64
output %1
`, [][]int64{{40, 64}}, "moveReadOnlyWhereEvictLast<16>(", 1},
		{"padded by the zero that has a sign", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = pad %0 pad_widths=[4, 4, 0, 0] value=-0:f64
output %1
`, [][]int64{{40, 64}}, "moveEvictLast<16>(", 1},
		{"rows of a table", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = index_select %0, %2 dim=0
%4 = relu %3
output %4
`, [][]int64{{40, 64}, {10}}, "moveReadOnlyWhereEvictLast<16>(", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, f := newStage(t), parsed(t, test.text)
			s.driver.Present[0].Processors, s.driver.Present[0].L2 = 1, 1000
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 3, test.shapes...)}
			ok, err := s.check(s.executor(f), c, 0, never)
			require.True(t, ok, "%v", err)
			source := s.driver.Compiles()[0].Source
			require.Equal(t, test.loads, strings.Count(source[strings.Index(source, "__global__"):], test.load), source)
		})
	}
}
