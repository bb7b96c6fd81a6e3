package scalar

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// TestWrap has expressions that the rules would get wrong if they took values
// that wrap for exact ones, or rarely meet at random.
func TestWrap(t *testing.T) {
	n := func(n int64) *tree { return &tree{op: Const, n: n} }
	s := func(i int) *tree { return &tree{op: Symbol, symbol: i} }
	op := func(o Op, a ...*tree) *tree {
		for len(a) > 2 && o == Add {
			a = append([]*tree{{op: Add, args: a[:2]}}, a[2:]...)
		}
		return &tree{op: o, args: a}
	}
	lowest := domain{Range(math.MinInt64, math.MinInt64+9), []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 9}}
	bit := domain{Range(0, 1), []int64{0, 1}}
	sign := domain{Range(-1, 1), []int64{-1, 0, 1}}
	few := domain{Range(1, 3), []int64{1, 2, 3}}
	huge := domain{Range(0, 1<<42), []int64{0, 1, 5, 1 << 42}}
	size := domain{Range(1, 1<<20), []int64{1, 2, 7, 1 << 20}}
	big := domain{Range(1, 1<<42), []int64{1, 2, 7, 1<<42 - 1, 1 << 42}}
	free := domain{Unknown(), []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64}}
	const half = 1 << 62
	for _, test := range []struct {
		name    string
		domains []domain
		x       *tree
	}{
		{"remainder of a polynomial is too low", []domain{few, few, few, lowest},
			op(FloorDiv, op(Add, op(Mul, s(0), s(2)), op(Mul, s(1), s(2)), s(0), s(3)), op(Add, s(2), n(1)))},
		{"remainder of a polynomial is a product that wraps", []domain{few, huge, size, big},
			op(FloorDiv, op(Add, op(Mul, s(0), s(2)), op(opSub, op(Mul, s(0), s(3)), op(Mul, s(1), s(2)))), op(Add, s(2), s(3)))},
		{"difference of coefficients wraps", []domain{sign}, op(Lt, op(Mul, s(0), n(half+1)), op(Mul, s(0), n(-half-5)))},
		{"difference of coefficients wraps to a sign", []domain{bit}, op(Min,
			op(Add, op(Mul, s(0), n(half+1)), n(-10)), op(Add, op(Mul, s(0), n(-half-5)), n(-5)))},
		{"difference of products wraps", []domain{sign, bit}, op(Lt, op(Mul, s(0), op(Mul, s(1), n(half+1))), op(Mul, s(0), op(Mul, s(1), n(-half-5))))},
		{"difference of coefficients is the least", []domain{bit, bit}, op(Lt, op(Mul, s(0), n(math.MinInt64)), s(1))},
		{"difference of constants wraps", []domain{bit}, op(Lt, op(Add, s(0), n(math.MaxInt64-1)), op(Add, s(0), n(-5)))},
		{"the least is equal to its negative", []domain{bit, few}, op(Eq, op(Mul, s(0), n(math.MinInt64)), op(opSub, s(1), n(1)))},
		{"the least by -1", []domain{free}, op(FloorDiv, op(FloorDiv, s(0), n(-1)), n(3))},
		{"modulo of a partial sum", []domain{lowest, few}, op(Mod, op(Add, op(Mul, s(1), n(12)), s(0)), n(4))},
		{"minimum of wrapped sums", []domain{free}, op(Min, op(Add, s(0), n(1)), s(0))},
		{"nested sum wraps", []domain{free, few}, op(FloorDiv, op(Add, op(FloorDiv, s(0), n(3)), op(Mul, s(1), n(half/2))), n(5))},
		{"quotient compared with a large number", []domain{few, free}, op(Lt, op(FloorDiv, s(0), n(3)), s(1))},
		{"quotient compared with the largest", []domain{free}, op(Le, op(FloorDiv, s(0), n(3)), n(math.MaxInt64))},
		{"limit of a quotient is the least", []domain{{Range(-half-1, -half+5), []int64{-half - 1, -half, -half + 5}}, free},
			op(Lt, s(0), op(FloorDiv, s(1), n(2)))},
		{"ceilDiv of the largest", []domain{{Range(0, math.MaxInt64), []int64{0, 1, math.MaxInt64 - 1, math.MaxInt64}}}, op(opCeilDiv, s(0), n(4))},
		{"ceilDiv of anything", []domain{free, free}, op(opCeilDiv, s(0), s(1))},
	} {
		t.Run(test.name, func(t *testing.T) {
			tab := NewTable()
			compare(t, tab, dtype.Index, test.x, test.domains)
		})
	}
}

func TestArithmeticWraps(t *testing.T) {
	for _, test := range []struct {
		dt         dtype.Type
		op         Op
		a, b, want int64
	}{
		{dt: dtype.Int, op: Add, a: math.MaxInt64, b: 1, want: math.MinInt64},
		{dt: dtype.Int, op: FloorDiv, a: math.MinInt64, b: -1, want: math.MinInt64},
		{dt: dtype.Int, op: Mod, a: math.MinInt64, b: -1, want: 0},
		{dt: dtype.Int32, op: Add, a: math.MaxInt32, b: 1, want: math.MinInt32},
		{dt: dtype.Int32, op: TruncDiv, a: math.MinInt32, b: -1, want: math.MinInt32},
		{dt: dtype.Int32, op: Mul, a: 1 << 16, b: 1 << 16, want: 0},
		{dt: dtype.UInt64, op: FloorDiv, a: -1, b: 2, want: math.MaxInt64},
		{dt: dtype.UInt64, op: Max, a: -1, b: 2, want: -1},
		{dt: dtype.UInt64, op: Lt, a: -1, b: 2, want: 0},
	} {
		tab := NewTable()
		id := tab.Apply(test.op, test.dt, tab.integer(test.dt, test.a), tab.integer(test.dt, test.b))
		got, ok := tab.ConstInt(id)
		require.True(t, ok)
		require.Equal(t, test.want, got, "%+v", test)
	}
}
