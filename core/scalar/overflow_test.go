package scalar

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// TestLimits has expressions that rules would get wrong if their own arithmetic
// wrapped, or took the ends of int64 for bounds, and rarely meet at random.
func TestLimits(t *testing.T) {
	n := func(n int64) *tree { return &tree{op: Const, n: n} }
	s := func(i int) *tree { return &tree{op: Symbol, symbol: i} }
	op := func(o Op, a ...*tree) *tree {
		for len(a) > 2 && o == Add {
			a = append([]*tree{{op: Add, args: a[:2]}}, a[2:]...)
		}
		return &tree{op: o, args: a}
	}
	const half = 1 << 62
	lowest := domain{Range(math.MinInt64, math.MinInt64+9), []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 9}}
	bit := domain{Range(0, 1), []int64{0, 1}}
	sign := domain{Range(-1, 1), []int64{-1, 0, 1}}
	few := domain{Range(1, 3), []int64{1, 2, 3}}
	huge := domain{Range(0, 1<<42), []int64{0, 1, 5, 1 << 42}}
	size := domain{Range(1, 1<<20), []int64{1, 2, 7, 1 << 20}}
	big := domain{Range(1, 1<<42), []int64{1, 2, 7, 1<<42 - 1, 1 << 42}}
	extent := domain{Range(0, math.MaxInt64), []int64{0, 1, 3, 1 << 31, 1 << 62, math.MaxInt64}}
	large := domain{Range(half, math.MaxInt64), []int64{half, math.MaxInt64}}
	free := domain{Unknown(), []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64}}
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
		{"product against the largest", []domain{extent, extent}, op(Le, op(Mul, s(0), s(1)), n(math.MaxInt64))},
		{"minimum of a product and the largest", []domain{extent, extent}, op(Min, op(Mul, s(0), s(1)), n(math.MaxInt64))},
		{"maximum of a negative product and the least", []domain{extent, extent},
			op(Max, op(Mul, n(-1), op(Mul, s(0), s(1))), n(math.MinInt64))},
		{"difference of products that do not fit", []domain{extent, extent, extent},
			op(FloorDiv, op(opSub, op(Mul, s(0), s(1)), op(Mul, s(1), s(2))), n(7))},
		{"product of differences", []domain{extent, extent, extent}, op(Mul, op(opSub, s(0), s(1)), s(2))},
		{"remainder of a product that does not fit", []domain{extent, extent, few}, op(Mod, op(Add, op(Mul, s(0), s(1)), n(5)), s(2))},
		{"rem by a size", []domain{free, extent, extent}, op(Rem, s(0), op(Mul, s(1), op(Add, s(2), n(1))))},
		{"quotient of a size by a product", []domain{extent, extent, extent}, op(FloorDiv, op(opSub, s(0), n(half)), op(Mul, s(1), s(2)))},
		{"quotient of products", []domain{extent, extent, few}, op(FloorDiv, op(Mul, s(0), s(1)), op(Mul, s(2), n(half)))},
		{"constants beyond 64 bits", []domain{bit}, op(opSub, op(Add, op(Mul, s(0), n(math.MaxInt64)), op(Mul, s(0), n(math.MaxInt64)), n(math.MaxInt64), n(3)),
			op(Mul, op(Add, s(0), n(1)), n(math.MaxInt64)))},
		{"constants beyond 64 bits, negative", []domain{sign}, op(FloorDiv, op(Mul, op(Mul, s(0), n(math.MinInt64)), n(3)), op(Mul, n(1<<40), n(-1<<40)))},
		{"constants beyond 64 bits compared", []domain{sign}, op(Lt, op(Mul, op(Mul, s(0), n(half)), n(8)), op(Mul, op(Mul, s(0), n(half)), n(9)))},
		{"constant beyond 64 bits times 0", []domain{{Range(0, 0), []int64{0}}}, op(Mul, op(Mul, s(0), n(half)), n(half))},
		{"least coefficient recombined", []domain{extent, few},
			op(Add, op(Mul, op(Mul, op(FloorDiv, s(0), s(1)), s(1)), n(math.MinInt64)), op(Mul, op(Mod, s(0), s(1)), n(math.MinInt64)))},
		{"least coefficient, remainder by hand", []domain{extent, few},
			op(Add, op(Mul, op(Mul, op(FloorDiv, s(0), s(1)), s(1)), n(math.MinInt64)), op(Mul, s(0), n(math.MinInt64)))},
		{"least coefficient over a negative", []domain{sign, {Range(-3, -1), []int64{-3, -2, -1}}},
			op(FloorDiv, op(Mul, op(Mul, s(0), s(1)), n(math.MinInt64)), op(Mul, s(1), n(-1)))},
		{"least coefficient from a constant", []domain{{Range(0, 9), []int64{0, 7, 8, 9}}},
			op(Add, op(Mul, op(FloorDiv, s(0), n(8)), n(math.MinInt64)), op(Mul, op(Mod, s(0), n(8)), n(-1<<60)))},
		{"least coefficient on one side", []domain{{Unknown(), []int64{math.MinInt64 + 3, 3, math.MaxInt64}}, bit},
			op(Eq, op(Add, s(0), op(Mul, s(1), n(math.MinInt64))), n(3))},
		{"large product by sizes", []domain{large, extent, extent}, op(FloorDiv, op(Mul, s(0), s(0)), op(Mul, op(Add, s(1), n(1)), op(Add, s(2), n(1))))},
		{"large product against a multiple", []domain{large, free}, op(Lt, op(Add, op(Mul, s(0), s(0)), op(Mul, s(1), n(8))), n(0))},
		{"power", []domain{extent, extent}, func() *tree {
			x := op(opSub, s(0), s(1))
			for range 6 {
				x = op(Mul, x, op(opSub, s(0), s(1)))
			}
			return x
		}()},
		{"ceilDiv of a size by a size", []domain{extent, extent}, op(opCeilDiv, s(0), s(1))},
		{"ceilDiv of a product", []domain{extent, extent, extent}, op(opCeilDiv, op(Mul, s(0), s(1)), op(Add, s(2), n(1)))},
		{"ceilDiv of anything", []domain{free, free}, op(opCeilDiv, s(0), s(1))},
	} {
		t.Run(test.name, func(t *testing.T) {
			tab := NewTable()
			compare(t, tab, dtype.Index, test.x, test.domains)
		})
	}
}

// An Index is exact, so that only the value that is asked for must fit.
func TestOverflow(t *testing.T) {
	tab := NewTable()
	s := []ID{}
	for i := range 3 {
		s = append(s, tab.Symbol(dtype.Index, Tag{uint32(i), 0}, Range(0, math.MaxInt64)))
	}
	values := []int64{1 << 40, 1 << 39, 1 << 38}
	bind := func(s ID) (Value, error) { return Value{Type: dtype.Index, I: values[tab.Tag(s).Val]}, nil }
	double := func(_ Op, dt dtype.Type, args []Value) (Value, error) { return Value{Type: dt, I: 2 * args[0].I}, nil }
	product := tab.Mul(s[0], s[1])
	most := tab.Int(math.MaxInt64)
	beyond := tab.Add(most, tab.Int(1))
	for _, test := range []struct {
		id      ID
		want    int64
		message string
	}{
		{id: tab.FloorDiv(tab.Add(product, tab.Int(5)), s[2]), want: 1 << 41},
		{id: tab.Mod(tab.Add(product, tab.Int(5)), s[2]), want: 5},
		{id: product, message: "overflow of 64 bits in i0.d0*i1.d0"},
		{id: tab.Add(product, s[2]), message: "overflow of 64 bits in i2.d0 + i0.d0*i1.d0"},
		{id: tab.Lt(s[0], product), want: 1},
		{id: tab.Min(s[0], product), want: 1 << 40},
		{id: tab.Select(tab.Lt(s[0], s[1]), product, s[1]), want: 1 << 39},
		{id: tab.Select(tab.Lt(s[1], s[0]), product, s[1]), message: "overflow of 64 bits in select(i1.d0 < i0.d0, i0.d0*i1.d0, i1.d0)"},
		{id: tab.Apply(FirstOpaque, dtype.Index, product), message: "overflow of 64 bits in i0.d0*i1.d0"},
		{id: tab.Apply(FirstOpaque, dtype.Index, s[2]), want: 1 << 39},
		{id: beyond, message: "overflow of 64 bits in 1 + 9223372036854775807"},
		{id: tab.Mul(most, most), message: "overflow of 64 bits in 9223372036854775807*9223372036854775807"},
		{id: tab.Sub(beyond, tab.Int(9)), want: math.MaxInt64 - 8},
		{id: tab.Sub(tab.Add(s[0], beyond), s[0]), message: "overflow of 64 bits in 1 + 9223372036854775807"},
		{id: tab.FloorDiv(tab.Int(math.MinInt64), tab.Int(-1)), message: "overflow of 64 bits in -9223372036854775808*-1"},
		{id: tab.TruncDiv(tab.Int(math.MinInt64), tab.Int(-1)), message: "overflow of 64 bits in truncDiv(-9223372036854775808, -1)"},
		{id: tab.Neg(tab.Int(math.MinInt64)), message: "overflow of 64 bits in -9223372036854775808*-1"},
		{id: tab.Lt(beyond, most), want: 0},
		{id: tab.Eq(tab.Mul(most, tab.Int(2)), tab.Add(most, most)), want: 1},
		{id: tab.FloorDiv(tab.Int(5), tab.Sub(product, product)), message: "division by zero in 5 / 0"},
	} {
		v, err := tab.Eval(test.id, bind, double, nil)
		if test.message == "" {
			require.NoError(t, err)
			require.Equal(t, test.want, v.I, tab.String(test.id))
			continue
		}
		require.EqualError(t, err, test.message)
		var e *EvalError
		require.ErrorAs(t, err, &e)
		require.Equal(t, test.message[len(e.Err.Error())+len(" in "):], tab.String(e.Expr))
	}
	_, ok := tab.ConstInt(tab.Sub(beyond, tab.Int(9)))
	require.True(t, ok, "a sum of constants that fits is one")

	x := s[0]
	for range 100 { // 2^(40 * 2^100)
		x = tab.Mul(x, x)
	}
	_, err := tab.Eval(tab.Min(x, s[1]), bind, nil, nil)
	require.ErrorIs(t, err, ErrOverflow)
}

// An Int wraps; its view as an Index does not, and comparing it does not change
// that.
func TestIntWraps(t *testing.T) {
	tab := NewTable()
	a := tab.Symbol(dtype.Int, Tag{0, -1}, Unknown())
	b := tab.Symbol(dtype.Int, Tag{1, -1}, Unknown())
	bind := func(ID) (Value, error) { return Value{Type: dtype.Int, I: math.MaxInt64}, nil }
	zero, one := tab.Value(Value{Type: dtype.Int}), tab.Value(Value{Type: dtype.Int, I: 1})
	eval := func(id ID) int64 {
		v, err := tab.Eval(id, bind, nil, nil)
		require.NoError(t, err)
		return v.I
	}
	sum := tab.Add(a, b)
	require.EqualValues(t, -2, eval(sum))
	require.EqualValues(t, 1, eval(tab.Lt(sum, zero)))
	require.EqualValues(t, 0, eval(tab.Lt(a, tab.Add(a, one))))
	require.EqualValues(t, 0, eval(tab.Le(tab.Int(0), tab.Select(tab.Lt(sum, zero), tab.Int(-1), tab.Int(0)))), "a condition keeps its meaning")
	require.EqualValues(t, -1, eval(tab.AsIndex(tab.Select(tab.Lt(sum, zero), tab.Neg(one), one))))
	require.EqualValues(t, 0, eval(tab.Eq(tab.Apply(TruncDiv, dtype.Int, tab.Mul(a, b), b), a)))
	require.Equal(t, tab.Add(tab.AsIndex(a), tab.AsIndex(b)), tab.AsIndex(sum))
	_, err := tab.Eval(tab.AsIndex(sum), bind, nil, nil)
	require.ErrorIs(t, err, ErrOverflow)
	require.Equal(t, tab.Lt(tab.AsIndex(a), tab.AsIndex(b)), tab.Lt(a, b), "symbols have no arithmetic to wrap")
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
