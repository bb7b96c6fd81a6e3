package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// TestCountInFloats: numbers of elements that only merges read are float32, unless there may be more than that has.
func TestCountInFloats(t *testing.T) {
	const text = `%0 = tensor f32 [-1, 4] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
output %2
`
	for _, test := range []struct {
		text string
		most int64
		want dtype.Type
	}{{text, 1 << 24, dtype.Float}, {text, 1<<24 + 1, dtype.Int}, {text + "output %3\n", 100, dtype.Int}} {
		f, err := core.Parse(test.text)
		require.NoError(t, err)
		f.Freeze()
		s := New(f)
		n := core.NoVal
		for _, id := range s.Fusion().Order() {
			if e := s.Fusion().Expr(id); e.Op == core.WelfordOp {
				n = e.Out[2]
			}
		}
		require.NotEqual(t, core.NoVal, n)
		s.CountInFloats(test.most)
		require.Equal(t, test.want, s.ElementType(n), test)
		require.Equal(t, dtype.Int, s.Fusion().Val(n).DType)
	}
}
