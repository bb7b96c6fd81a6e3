package cpu

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
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

// TestFoldsOfFolds: a fold of what another one gives, along any dimensions, fits tiles with that or has a group of
// its own.
func TestFoldsOfFolds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	fold := func(in string) (text string, folded []bool) {
		op := []string{"sum %s dims=%s keepdim=false dtype=f64", "max %s dims=%s keepdim=false"}[r.IntN(2)]
		folded = make([]bool, 3)
		var dims []string
		for d := range folded {
			if folded[d] = r.IntN(2) == 0; folded[d] {
				dims = append(dims, strconv.Itoa(d))
			}
		}
		if len(dims) == 0 {
			d := r.IntN(3)
			folded[d], dims = true, []string{strconv.Itoa(d)}
		}
		return fmt.Sprintf(op, in, "["+strings.Join(dims, ", ")+"]"), folded
	}
	sizes := []int64{1, 2, 7, 64, 65, 300}
	for range 600 {
		first, folded := fold("%0")
		second, _ := fold("%3")
		if r.IntN(2) == 0 { // along the same dimensions
			second = strings.Replace(first, "%0", "%3", 1)
		}
		f, err := core.Parse(fmt.Sprintf(`%%0 = tensor f64 [-1, -1, -1] contiguity=[yes, yes, yes]
%%1 = %s
%%2 = broadcast %%1 is_broadcast_dim=[%t, %t, %t]
%%3 = sub %%0, %%2
%%4 = %s
output %%4
`, first, folded[0], folded[1], folded[2], second))
		require.NoError(t, err)
		f.Freeze()
		shape := []int64{sizes[r.IntN(len(sizes))], sizes[r.IntN(3)], sizes[r.IntN(len(sizes))]}
		r.Shuffle(3, func(i, k int) { shape[i], shape[k] = shape[k], shape[i] })
		checkCase(t, &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), shape)})
	}
}
