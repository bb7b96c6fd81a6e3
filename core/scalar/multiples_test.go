package scalar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// A size that is a multiple of a vector is compared with where the vector begins, and the
// comparison is right for all values.
func TestComparisonsWithMultiples(t *testing.T) {
	table := NewTable()
	n := table.Symbol(dtype.Index, Tag{Val: 0, Dim: 0}, Facts{0, 48, 8})
	x := table.Symbol(dtype.Index, Tag{Val: 1, Dim: 0}, Range(0, 6))
	i := table.Symbol(dtype.Index, Tag{Val: 2, Dim: 0}, Range(0, 7))
	vector := table.Mul(x, table.Int(8))
	require.Equal(t, table.Lt(vector, n), table.Lt(table.Add(vector, i), n))
	require.Equal(t, table.Lt(vector, n), table.Lt(table.Add(vector, table.Int(7)), n))
	for k := int64(-20); k <= 20; k++ {
		for _, factor := range []int64{4, 8, 16} {
			sum := table.Add(table.Add(table.Mul(x, table.Int(factor)), i), table.Int(k))
			for _, c := range []struct {
				id   ID
				want func(a, b int64) bool
			}{
				{table.Lt(sum, n), func(a, b int64) bool { return a < b }},
				{table.Le(sum, n), func(a, b int64) bool { return a <= b }},
				{table.Lt(n, sum), func(a, b int64) bool { return b < a }},
				{table.Le(n, sum), func(a, b int64) bool { return b <= a }},
			} {
				for vn := int64(0); vn <= 48; vn += 8 {
					for vx := range int64(7) {
						for vi := range int64(8) {
							got, err := table.Eval(c.id, func(symbol ID) (Value, error) {
								return Value{Type: dtype.Index, I: []int64{vn, vx, vi}[table.Tag(symbol).Val]}, nil
							}, nil, nil)
							require.NoError(t, err)
							if got.I != 0 != c.want(factor*vx+vi+k, vn) {
								t.Fatalf("n=%d x=%d i=%d k=%d factor=%d: %v", vn, vx, vi, k, factor, got)
							}
						}
					}
				}
			}
		}
	}
}

// A remainder differs from what it is the remainder of by a multiple of what it is by.
func TestDividesWithRemainders(t *testing.T) {
	table := NewTable()
	size := Facts{0, 1 << 40, 1}
	n := table.Symbol(dtype.Index, Tag{Val: 0, Dim: 0}, size)
	row := table.Symbol(dtype.Index, Tag{Val: 1, Dim: 0}, size)
	i := table.Symbol(dtype.Index, Tag{Val: 2, Dim: 0}, size)
	start := table.Mul(row, n)
	at := func(k, m int64) ID { // i vectors of k elements behind where row begins, less what it is behind multiples of m
		return table.Add(table.Sub(start, table.Mod(start, table.Int(m))), table.Mul(i, table.Int(k)))
	}
	require.True(t, table.Divides(table.Int(8), at(8, 8)))
	require.True(t, table.Divides(table.Int(2), at(4, 8)))
	require.True(t, table.Divides(table.Int(4), table.Add(at(8, 8), table.Int(12))))
	require.False(t, table.Divides(table.Int(4), table.Add(at(8, 8), table.Int(2))))
	require.False(t, table.Divides(table.Int(8), at(4, 8)))
	require.False(t, table.Divides(table.Int(8), at(8, 4)))
	require.False(t, table.Divides(table.Int(8), table.Add(at(8, 8), start)))
	require.False(t, table.Divides(table.Int(8), table.Sub(start, table.Mod(table.Add(start, i), table.Int(8)))))
}
