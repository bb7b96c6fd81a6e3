package segmenter

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// TestReshapedStrides compares with the definition: strides exist if the place of an
// element is a sum of multiples of its indices.
func TestReshapedStrides(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	views, others := 0, 0
	for range 20000 {
		sizes, to := factors(r), factors(r)
		if core.NumElements(sizes) != core.NumElements(to) {
			continue
		}
		strides, step := make([]int64, len(sizes)), int64(1)
		for _, d := range r.Perm(len(sizes)) {
			if strides[d] = step; r.IntN(8) == 0 {
				strides[d] = 0
			}
			if step *= sizes[d]; r.IntN(3) == 0 {
				step++
			}
		}
		if r.IntN(2) == 0 { // mostly in order
			slices.Sort(strides)
			slices.Reverse(strides)
		}
		want, isView := affine(places(sizes, strides), to)
		got, ok := reshapedStrides(sizes, strides, to)
		require.Equal(t, isView, ok, "%v %v to %v", sizes, strides, to)
		if !ok {
			others++
			continue
		}
		views++
		require.Equal(t, places(to, want), places(to, got), "%v %v to %v", sizes, strides, to)
	}
	require.Greater(t, views, 100)
	require.Greater(t, others, 100)
}

// factors returns a shape of 1, 4, 12 or 24 elements.
func factors(r *rand.Rand) []int64 {
	var shape []int64
	n := []int64{1, 4, 12, 24}[r.IntN(4)]
	for n > 1 || r.IntN(4) == 0 {
		if f := int64(1 + r.IntN(6)); n%f == 0 {
			shape, n = append(shape, f), n/f
		}
	}
	return shape
}

// places returns where elements lie, in row-major order.
func places(sizes, strides []int64) []int64 {
	var all []int64
	core.EachIndex(sizes, func(index []int64) {
		at := int64(0)
		for d, i := range index {
			at += i * strides[d]
		}
		all = append(all, at)
	})
	return all
}

// affine returns strides with which elements of sizes lie at places.
func affine(at, sizes []int64) ([]int64, bool) {
	strides, step := make([]int64, len(sizes)), int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		if sizes[d] > 1 {
			strides[d] = at[step] - at[0]
		}
		step *= sizes[d]
	}
	return strides, slices.Equal(at, places(sizes, strides))
}
