package cpu

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Elements that are sorted in stretches come out as if sorted at once.
func TestSortedInStretches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, sortStretch + 1, 3*sortStretch - 3} {
		values := make([]int64, n)
		for i := range values {
			values[i] = random.Int64N(1000)
		}
		for name, order := range map[string]func(a, b int64) int{
			"random": nil, "ascending": cmp.Compare[int64], "descending": func(a, b int64) int { return cmp.Compare(b, a) },
		} {
			given := slices.Clone(values)
			if order != nil {
				slices.SortFunc(given, order)
			}
			at := sortNumbers(&run{}, given, false)
			want := make([]int64, n)
			for i := range want {
				want[i] = int64(i)
			}
			slices.SortStableFunc(want, func(a, b int64) int { return cmp.Compare(given[a], given[b]) })
			require.True(t, slices.Equal(want, at), "%d elements, %s", n, name)
		}
	}
}

func TestSortedStops(t *testing.T) {
	var stop atomic.Bool
	all := rand.New(rand.NewPCG(1, 2)).Perm(4 * sortStretch)
	// comparisons sorts and asks to stop at the last of so many.
	comparisons := func(most int) int {
		n := 0
		stop.Store(false)
		sorted(&run{stop: &stop}, slices.Clone(all), func(a, b int) int {
			n++
			stop.Store(n >= most)
			return cmp.Compare(a, b)
		})
		return n
	}
	total := comparisons(math.MaxInt)
	for _, most := range []int{total / 2, total - 2*sortStretch} { // in a stretch, and in a merge
		require.Less(t, comparisons(most), min(most+30*sortStretch, total))
	}
}
