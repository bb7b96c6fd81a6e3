package passes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// edges are numbers at which conversions differ, as values of type t.
func edges(t dtype.Type) []scalar.Value {
	var all []scalar.Value
	for _, n := range []int64{0, 1, -1, 2, 7, 255, 256, 257, 1 << 24, 1<<24 + 1, -1 << 31, 1<<31 - 1, 1 << 31, 1<<53 + 1, math.MinInt64, math.MaxInt64} {
		all = append(all, core.ConvertScalar(t, scalar.Value{Type: dtype.Int, I: n}))
	}
	for _, x := range []float64{0.5, -2.5, 1.0 / 3, 65504, 65520, 448, 464, 57344, 1e-3, 1e-7, 6e-8, 1e-38, 1e-40, 1e38, 3e38, 1e300, 1e-300, 1 + 0x1p-8, 1 + 0x1p-11,
		1 + 0x1p-24, 0x1p-133, 0x1p-126 * 1.0078125, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), -1e19, 1.8e19} {
		all = append(all, core.ConvertScalar(t, scalar.Value{Type: dtype.ComplexDouble, Re: x, Im: -x}), core.ConvertScalar(t, scalar.Value{Type: dtype.Double, Re: x}))
	}
	return all
}

func same(a, b scalar.Value) bool {
	number := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
	return a.Type == b.Type && a.I == b.I && number(a.Re, b.Re) && number(a.Im, b.Im)
}

// A needless cast changes no value, of all triples of types.
func TestNeedlessCasts(t *testing.T) {
	for _, from := range dtype.All() {
		for _, through := range dtype.All() {
			for _, to := range dtype.All() {
				if !from.Computes() || !through.Computes() || !to.Computes() || !needless(from, through, to) {
					continue
				}
				for _, v := range edges(from) {
					direct, far := core.ConvertScalar(to, v), core.ConvertScalar(to, core.ConvertScalar(through, v))
					require.True(t, same(direct, far), "%v -> %v -> %v: %v, not %v", from, through, to, far, direct)
				}
			}
		}
	}
}
