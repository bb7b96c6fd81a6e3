package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestSumsOfEqualElements: where all elements are equal roundings do not cancel, so that the
// error of a sum is the greatest there is.
func TestSumsOfEqualElements(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		x, n := 0.1+10*r.Float64(), 1+r.IntN(5000)
		all := slices.Repeat([]float64{x}, n)
		want, _ := new(big.Float).Mul(big.NewFloat(x), big.NewFloat(float64(n))).Float64()
		for step := range 2 { // expanded, and next to each other
			got := sumOf[float64](unsafe.Pointer(&all[0]), step, n)
			require.LessOrEqual(t, math.Abs(got-want), 4*0x1p-52*want, "%d times %v", n, x)
		}
	}
}
