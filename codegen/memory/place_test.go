package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// permutations calls yield for each order of a list.
func permutations(list []*buffer, n int, yield func()) {
	if n == len(list) {
		yield()
		return
	}
	for i := n; i < len(list); i++ {
		list[n], list[i] = list[i], list[n]
		permutations(list, n+1, yield)
		list[n], list[i] = list[i], list[n]
	}
}

// best is the least end of all arrangements: one of them rests each buffer on
// another or on the start, and so comes from some order of placing.
func best(list []*buffer) int64 {
	least := int64(1) << 40
	order := append([]*buffer(nil), list...)
	permutations(order, 0, func() {
		end := stack(order, apart)
		least = min(least, end)
	})
	return least
}

func TestArrange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	worst := 1.0
	for range 400 {
		list := make([]*buffer, 1+r.IntN(6))
		for i := range list {
			from := r.IntN(12)
			list[i] = &buffer{bytes: 16 * (1 + r.Int64N(12)), align: alignment, from: from, to: from + r.IntN(6)}
			if r.IntN(4) == 0 {
				list[i].bytes -= r.Int64N(16)
			}
		}
		least := best(list)
		end := arrange(list, apart)
		for i, a := range list {
			require.Zero(t, a.offset%alignment)
			require.LessOrEqual(t, a.offset+a.bytes, end)
			for _, b := range list[:i] {
				common := a.offset < b.offset+b.bytes && b.offset < a.offset+a.bytes
				require.False(t, common && !apart(a, b), "%+v %+v", a, b)
			}
		}
		require.LessOrEqual(t, float64(end), 1.3*float64(least))
		worst = max(worst, float64(end)/float64(least))
	}
	t.Logf("the worst arrangement takes %.2f times the best one's bytes", worst)
}

// TestArrangeExample has four buffers of which three are alive at most.
func TestArrangeExample(t *testing.T) {
	list := []*buffer{
		{bytes: 4096, align: 16, from: 0, to: 3}, {bytes: 2048, align: 16, from: 2, to: 5},
		{bytes: 6144, align: 16, from: 6, to: 9}, {bytes: 2048, align: 16, from: 8, to: 9}, {bytes: 0, align: 16, from: 0, to: 9}}
	require.EqualValues(t, 8192, arrange(list, apart))
	require.EqualValues(t, []int64{0, 4096, 0, 6144, 0}, []int64{list[0].offset, list[1].offset, list[2].offset, list[3].offset, list[4].offset})
}
