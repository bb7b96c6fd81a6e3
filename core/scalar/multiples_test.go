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
