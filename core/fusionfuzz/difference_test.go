package fusionfuzz

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// Numbers of a narrow type that are next to each other may be the same one, rounded after another order of sums. Others may
// not, nor exact ones.
func TestNeighbours(t *testing.T) {
	array := func(d dtype.Type, x float64) *core.Array {
		a := core.NewArray(d, []int64{2})
		a.F[0], a.F[1] = 1, x
		return a
	}
	for _, x := range []struct {
		t         dtype.Type
		a, b      float64
		isAllowed bool
	}{
		{dtype.Half, 0.048187255859375, 0.04815673828125, true},
		{dtype.Half, 0.048187255859375, 0.048126220703125, true}, // within 1e-4 of 1
		{dtype.Half, 0.5, 0.5 + 0x1p-11, true},
		{dtype.Half, 0.5, 0.5 + 0x1p-10, false},
		{dtype.BFloat16, -0.5, -0.5 - 0x1p-8, true},
		{dtype.BFloat16, -0.5, -0.5 - 0x1p-7, false},
		{dtype.Half, 65504, math.Inf(1), false},
		{dtype.Half, 1, math.NaN(), false},
		{dtype.Float, 0.5, 0.5 + 0x1p-11, false},
	} {
		require.Equal(t, x.isAllowed, Difference(array(x.t, x.a), array(x.t, x.b), 1e-4) == "", "%v", x)
		require.NotEmpty(t, Difference(array(x.t, x.a), array(x.t, x.b), 0))
	}
}
