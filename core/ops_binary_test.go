package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

const (
	lowest  = math.MinInt64
	highest = math.MaxInt64
)

func TestBinaryFloats(t *testing.T) {
	n, i, z := quietNaN, infinity, negativeZero
	for _, c := range []struct {
		name       string
		x, y, want []float64
	}{
		{"add", []float64{1, i, n, z}, []float64{2, -i, 1, z}, []float64{3, n, n, z}},
		{"sub", []float64{1, i, n, 0}, []float64{2, i, 1, 0}, []float64{-1, n, n, 0}},
		{"mul", []float64{3, 0, n, -1}, []float64{2, i, 0, 0}, []float64{6, n, n, z}},
		{"div", []float64{7, 1, -1, 0, 1}, []float64{2, 0, 0, 0, -i}, []float64{3.5, i, -i, n, z}},
		{"truediv", []float64{7, 1, -1, 0, 1}, []float64{2, 0, 0, 0, -i}, []float64{3.5, i, -i, n, z}},
		{"fmod", []float64{5, -5, 5, -5, 5, 1, i}, []float64{3, 3, -3, -3, 0, i, 3}, []float64{2, -2, 2, -2, n, 1, n}},
		{"mod", []float64{5, -5, 5, -5, 5, 1, i}, []float64{3, 3, -3, -3, 0, i, 3}, []float64{2, -2, 2, -2, n, 1, n}},
		{"remainder", []float64{5, -5, 5, -5, 5, -1}, []float64{3, 3, -3, -3, 0, i}, []float64{2, 1, -1, -2, n, i}},
		{"pow", []float64{2, 2, 0, n, 1, -8, -2, 9}, []float64{10, -1, -1, 0, n, 0.5, 3, 0.5}, []float64{1024, 0.5, i, 1, 1, n, -8, 3}},
		{"atan2", []float64{0, 0, z, n}, []float64{1, z, 1, 1}, []float64{0, math.Pi, z, n}},
		{"minimum", []float64{1, n, 1, -i, 0}, []float64{2, 1, n, i, z}, []float64{1, n, n, -i, z}},
		{"maximum", []float64{1, n, 1, -i, 0}, []float64{2, 1, n, i, z}, []float64{2, n, n, i, 0}},
	} {
		for _, d := range []dtype.Type{dtype.Double, dtype.Float} {
			want := make([]float64, len(c.want))
			for k := range want {
				want[k] = dtype.Round(d, c.want[k])
			}
			got := resultOf(t, c.name, floats(d, c.x...), floats(d, c.y...))
			requireFloats(t, want, got.F, c.name+" in "+d.String())
		}
		v := folded(t, c.name, c.x[0], c.y[0])
		require.Equal(t, scalar.Value{Type: dtype.Double, Re: c.want[0]}, v, c.name)
	}
	requireFloats(t, []float64{1 + 0x1p-23, -0x1p-149, 1, n},
		resultOf(t, "nextafter", floats(dtype.Float, 1, 0, 1, n), floats(dtype.Float, 2, -1, 1, 1)).F, "nextafter in Float")
	requireFloats(t, []float64{1 - 0x1p-53, i},
		resultOf(t, "nextafter", floats(dtype.Double, 1, math.MaxFloat64), floats(dtype.Double, 0, i)).F, "nextafter in Double")
	// The sum of two BFloat16 is not rounded to BFloat16.
	require.Equal(t, []float64{256 + 0x1p-6}, resultOf(t, "add", floats(dtype.BFloat16, 256), floats(dtype.BFloat16, 0x1p-6)).F)
}

func TestBinaryIntegers(t *testing.T) {
	for _, c := range []struct {
		name       string
		x, y, want []int64
	}{
		{"add", []int64{1, highest, 1<<53 + 1}, []int64{2, 1, 0}, []int64{3, lowest, 1<<53 + 1}},
		{"sub", []int64{1, lowest}, []int64{2, 1}, []int64{-1, highest}},
		{"mul", []int64{3, 1 << 62, 1<<53 + 1}, []int64{-2, 2, 1}, []int64{-6, lowest, 1<<53 + 1}},
		{"div", []int64{7, -7, 7, -7, lowest, highest}, []int64{2, 2, -2, -2, -1, 1}, []int64{3, -3, -3, 3, lowest, highest}},
		{"fmod", []int64{5, -5, 5, -5, lowest}, []int64{3, 3, -3, -3, -1}, []int64{2, -2, 2, -2, 0}},
		{"mod", []int64{5, -5, 5, -5, lowest}, []int64{3, 3, -3, -3, -1}, []int64{2, -2, 2, -2, 0}},
		{"remainder", []int64{5, -5, 5, -5, lowest}, []int64{3, 3, -3, -3, -1}, []int64{2, 1, -1, -2, 0}},
		{"pow", []int64{2, 3, -2, 2, -1, 0, 1}, []int64{10, 0, 3, -1, -3, -1, -5}, []int64{1024, 1, -8, 0, -1, 0, 1}},
		{"minimum", []int64{1, lowest, 1<<53 + 1}, []int64{2, highest, 1 << 53}, []int64{1, lowest, 1 << 53}},
		{"maximum", []int64{1, lowest, 1<<53 + 1}, []int64{2, highest, 1 << 53}, []int64{2, highest, 1<<53 + 1}},
		{"gcd", []int64{-4, 0, 6, lowest}, []int64{6, 0, -9, 0}, []int64{2, 0, 3, lowest}},
		{"bitwise_and", []int64{12, -1}, []int64{10, lowest}, []int64{8, lowest}},
		{"bitwise_or", []int64{12, -1}, []int64{10, 0}, []int64{14, -1}},
		{"bitwise_xor", []int64{12, -1}, []int64{10, -1}, []int64{6, 0}},
		{"bitwise_left_shift", []int64{1, 1, -3, 1, 1}, []int64{62, 63, 1, 64, -1}, []int64{1 << 62, lowest, -6, 0, 0}},
		{"bitwise_right_shift", []int64{12, -3, -3, 3, -3}, []int64{2, 1, 64, 64, -1}, []int64{3, -2, -1, 0, -1}},
		{"logical_right_shift", []int64{12, -1, -1, -3, -1}, []int64{2, 60, 0, 64, -1}, []int64{3, 15, -1, 0, 0}},
	} {
		got := resultOf(t, c.name, ints(dtype.Int, c.x...), ints(dtype.Int, c.y...))
		require.Equal(t, ints(dtype.Int, c.want...), got, c.name)
		for k := range c.x {
			x, y := scalar.Value{Type: dtype.Int, I: c.x[k]}, scalar.Value{Type: dtype.Int, I: c.y[k]}
			require.Equal(t, scalar.Value{Type: dtype.Int, I: c.want[k]}, folded(t, c.name, x, y), "%s(%d, %d)", c.name, x.I, y.I)
		}
	}
	// Nothing traps on a division by 0.
	zero := ints(dtype.Int, 0, 0)
	require.Equal(t, []int64{0, 0}, resultOf(t, "div", ints(dtype.Int, 5, lowest), zero).I)
	for _, name := range []string{"fmod", "mod", "remainder"} {
		require.Equal(t, []int64{5, lowest}, resultOf(t, name, ints(dtype.Int, 5, lowest), zero).I, name)
	}
}

func TestBinaryNarrowAndUnsigned(t *testing.T) {
	const low32, high32 = math.MinInt32, math.MaxInt32
	for _, c := range []struct {
		name       string
		t          dtype.Type
		x, y, want int64
	}{
		{"add", dtype.Int32, high32, 1, low32}, {"mul", dtype.Int32, 1 << 20, 1 << 12, 0}, {"div", dtype.Int32, low32, -1, low32},
		{"pow", dtype.Int32, 3, 21, 1870418611}, {"gcd", dtype.Int32, low32, 0, low32},
		{"bitwise_left_shift", dtype.Int32, 3, 31, low32}, {"bitwise_left_shift", dtype.Int32, 1, 32, 0},
		{"bitwise_right_shift", dtype.Int32, -5, 40, -1}, {"logical_right_shift", dtype.Int32, -1, 28, 15},
		{"logical_right_shift", dtype.Int32, -1, 32, 0}, {"logical_right_shift", dtype.Int32, -1, 0, -1},

		{"add", dtype.UInt64, -1, 2, 1}, {"div", dtype.UInt64, -1, 2, highest}, {"div", dtype.UInt64, 5, 0, 0}, {"fmod", dtype.UInt64, -1, 10, 5},
		{"remainder", dtype.UInt64, -1, 10, 5}, {"minimum", dtype.UInt64, -1, 2, 2}, {"maximum", dtype.UInt64, -1, 2, -1},
		{"pow", dtype.UInt64, -1, -1, -1}, {"gcd", dtype.UInt64, -1, 10, 5}, {"bitwise_right_shift", dtype.UInt64, -1, 60, 15},
		{"bitwise_left_shift", dtype.UInt64, 1, -1, 0}, {"bitwise_left_shift", dtype.UInt64, 3, 62, -1 << 62}, {"logical_right_shift", dtype.UInt64, -1, 60, 15}, {"logical_right_shift", dtype.UInt64, -1, -1, 0},
	} {
		require.Equal(t, []int64{c.want}, resultOf(t, c.name, ints(c.t, c.x), ints(c.t, c.y)).I, "%s(%d, %d) of %v", c.name, c.x, c.y, c.t)
	}
}

func TestBinaryBools(t *testing.T) {
	x, y := bools(false, false, true, true), bools(false, true, false, true)
	for name, want := range map[string]string{
		"add": "0111", "mul": "0001", "minimum": "0001", "maximum": "0111", "bitwise_and": "0001", "bitwise_or": "0111",
		"bitwise_xor": "0110", "logical_and": "0001", "logical_or": "0111", "eq": "1001", "ne": "0110", "lt": "0100",
		"le": "1101", "gt": "0010", "ge": "1011",
	} {
		require.Equal(t, want, truth(t, resultOf(t, name, x, y)), name)
	}
	require.Equal(t, []int64{0, 0, 0, 1}, resultOf(t, "div", x, y).I)
	requireFloats(t, []float64{quietNaN, 0, infinity, 1}, resultOf(t, "truediv", x, y).F, "truediv")
	require.Equal(t, "0111", truth(t, resultOf(t, "logical_or", floats(dtype.Half, 0, quietNaN, 2, 0), ints(dtype.Int, 0, 0, 0, -1))))
}

func TestBinaryComplex(t *testing.T) {
	x, y := complexes(dtype.ComplexFloat, 1+2i), complexes(dtype.ComplexFloat, 3-1i)
	for name, want := range map[string]complex128{
		"add": 4 + 1i, "sub": -2 + 3i, "mul": 5 + 5i, "div": 0.1 + 0.7i, "truediv": 0.1 + 0.7i,
	} {
		require.Equal(t, []complex128{complex128(complex64(want))}, resultOf(t, name, x, y).C, name)
	}
	require.Equal(t, "01", truth(t, resultOf(t, "eq", complexes(dtype.ComplexFloat, 1+2i, 3), complexes(dtype.ComplexFloat, 1-2i, 3))))
	require.Equal(t, "10", truth(t, resultOf(t, "ne", complexes(dtype.ComplexFloat, 1+2i, 3), complexes(dtype.ComplexFloat, 1-2i, 3))))
	z := resultOf(t, "complex", floats(dtype.Double, 1, quietNaN), floats(dtype.Double, 2, negativeZero))
	requireFloats(t, []float64{1, 2, quietNaN, negativeZero}, []float64{real(z.C[0]), imag(z.C[0]), real(z.C[1]), imag(z.C[1])}, "complex")
	square := resultOf(t, "pow", complexes(dtype.ComplexDouble, 1+2i), 2)
	require.InDelta(t, -3, real(square.C[0]), 1e-14)
	require.InDelta(t, 4, imag(square.C[0]), 1e-14)
}

func TestComparisons(t *testing.T) {
	n := quietNaN
	x, y := floats(dtype.Float, 1, 2, 2, n, 1, negativeZero), floats(dtype.Float, 2, 1, 2, 1, n, 0)
	u, w := ints(dtype.UInt64, -1, 1, 5), ints(dtype.UInt64, 1, -1, 5)
	a, b := ints(dtype.Int, 1<<53+1, lowest, 5), ints(dtype.Int, 1<<53, highest, 5)
	for _, c := range []struct{ name, floats, unsigned, ints string }{
		{"eq", "001001", "001", "001"}, {"ne", "110110", "110", "110"}, {"lt", "100000", "010", "010"},
		{"le", "101001", "011", "011"}, {"gt", "010000", "100", "100"}, {"ge", "011001", "101", "101"},
	} {
		require.Equal(t, c.floats, truth(t, resultOf(t, c.name, x, y)), c.name)
		require.Equal(t, c.unsigned, truth(t, resultOf(t, c.name, u, w)), c.name)
		require.Equal(t, c.ints, truth(t, resultOf(t, c.name, a, b)), c.name)
		require.Equal(t, boolValue(c.floats[0] == '1'), folded(t, c.name, 1, 2), c.name)
		require.Equal(t, boolValue(c.floats[3] == '1'), folded(t, c.name, n, 1), c.name)
	}
	// A Double number beside a Float tensor is rounded to Float first.
	require.Equal(t, "1", truth(t, resultOf(t, "eq", floats(dtype.Float, float64(float32(0.1))), 0.1)))
}

func TestBinaryErrors(t *testing.T) {
	b, f, z := bools(true, false), floats(dtype.Float, 1, 2), complexes(dtype.ComplexFloat, 1, 2)
	i, u := ints(dtype.Int, 1, 2), ints(dtype.UInt64, 1, 2)
	for _, c := range []struct {
		name string
		x, y any
		want string
	}{
		{"sub", b, b, "sub(): x must be of numeric, not bool type, got Bool"},
		{"sub", i, true, "sub(): y must be of numeric, not bool type, got Bool"},
		{"bitwise_and", f, f, "bitwise_and(): x must be of integer or bool type, got Float"},
		{"bitwise_left_shift", i, 1.5, "bitwise_left_shift(): y must be of integer or bool type, got Double"},
		{"gcd", i, f, "gcd(): y must be of integer or bool type, got Float"},
		{"lt", z, z, "lt(): x must be of real type, got ComplexFloat"},
		{"fmod", z, z, "fmod(): x must be of real type, got ComplexFloat"},
		{"add", i, u, "add(): Int and UInt64 have no common type; cast one of them"},
		{"complex", z, f, "complex(): real must be of real type, got ComplexFloat"},
		{"nextafter", i, i, "nextafter(): x must be of floating-point type, got Int"},
		{"nextafter", f, floats(dtype.Half, 1, 2), "nextafter(): y must be of Float or Double type, got Half; the neighbours of a converted number are not its own"},
	} {
		_, _, _, err := callOn(t, c.name, c.x, c.y)
		require.IsType(t, &InvalidType{}, err)
		require.EqualError(t, err, c.want)
	}
}

// Arithmetic on sizes is that of the scalar algebra, so that equal sizes are
// equal expressions.
func TestScalarAlgebra(t *testing.T) {
	f := NewFusion()
	x := inputLike(t, f, NewArray(dtype.Float, []int64{6, 5}))
	n, m := f.Shape(x)[0], f.Shape(x)[1]
	apply := func(name string, args ...scalar.ID) scalar.ID {
		given := make([]Arg, len(args))
		for i, a := range args {
			given[i] = ScalarOf(a)
		}
		out, err := f.Apply(Lookup(name), given...)
		require.NoError(t, err, name)
		return f.Val(out[0]).Scalar
	}
	s := f.scalars
	two := s.Int(2)
	for name, want := range map[string]scalar.ID{
		"add": s.Add(n, m), "sub": s.Sub(n, m), "mul": s.Mul(n, m), "div": s.TruncDiv(n, m), "remainder": s.Mod(n, m),
		"fmod": s.Rem(n, m), "mod": s.Rem(n, m), "minimum": s.Min(n, m), "maximum": s.Max(n, m), "lt": s.Lt(n, m),
		"le": s.Le(n, m), "gt": s.Lt(m, n), "ge": s.Le(m, n), "eq": s.Eq(n, m), "ne": s.Not(s.Eq(n, m)),
	} {
		require.Equal(t, want, apply(name, n, m), name)
		require.Less(t, s.Op(want), scalar.FirstOpaque, name)
	}
	require.Equal(t, s.Neg(n), apply("neg", n))
	require.Equal(t, s.Select(s.Lt(n, m), n, m), apply("where", apply("lt", n, m), n, m))
	require.Equal(t, s.Min(s.Max(n, two), m), apply("clamp", n, two, m))
	require.Equal(t, n, apply("add", apply("sub", n, m), m))
	require.Equal(t, s.Int(3), apply("div", s.Int(7), two))
	require.Equal(t, s.Add(n, s.Mul(m, s.Int(6))), apply("addcmul", n, m, two, s.Int(3)))

	// Others are opaque and keep their dtype; their values come from the rows.
	p := apply("pow", n, two)
	require.GreaterOrEqual(t, s.Op(p), scalar.FirstOpaque)
	require.Equal(t, dtype.Index, s.Type(p))
	require.Equal(t, dtype.Float, s.Type(apply("truediv", n, m)))
	b, err := f.Bind([]InputValue{{Tensor: true, DType: dtype.Float, Sizes: []int64{6, 5}}})
	require.NoError(t, err)
	v, err := b.Value(p)
	require.NoError(t, err)
	require.Equal(t, int64(36), v.I)
	v, err = b.Value(apply("truediv", n, m))
	require.NoError(t, err)
	require.Equal(t, float64(float32(1.2)), v.Re)
	_, err = b.Value(apply("div", n, apply("sub", m, s.Int(5))))
	require.ErrorContains(t, err, "division by zero")
}

// Scalars of every integer type go with sizes.
func TestScalarsOfOtherIntegerTypes(t *testing.T) {
	f := NewFusion()
	x := inputLike(t, f, NewArray(dtype.Float, []int64{6}))
	for _, d := range []dtype.Type{dtype.Int, dtype.Int32, dtype.Bool} {
		c, err := f.DefineScalar(d)
		require.NoError(t, err)
		for _, name := range []string{"add", "minimum", "eq", "pow"} {
			out, err := f.Call(Lookup(name), []Given{givenVal(f.ScalarVal(f.Shape(x)[0])), givenVal(c)}, nil)
			require.NoError(t, err)
			if name != "eq" {
				require.Equal(t, dtype.Index, f.Val(out[0]).DType, "%s with %v", name, d)
			}
		}
	}
	require.NoError(t, f.Verify())
}
