package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Values of the functions of one real operand, in Double; the last is the
// result for NaN, 0, -0.0, inf and -inf.
func TestUnaryFunctions(t *testing.T) {
	n, i, z := quietNaN, infinity, negativeZero
	half := math.Pi / 2
	for _, c := range []struct {
		name    string
		x, want float64
		special [4]float64 // of 0, -0.0, inf, -inf
	}{
		{"acos", 0.5, math.Pi / 3, [4]float64{half, half, n, n}},
		{"acosh", 2, math.Log(2 + math.Sqrt(3)), [4]float64{n, n, i, n}},
		{"asin", 0.5, math.Pi / 6, [4]float64{0, z, n, n}},
		{"asinh", 1, math.Log(1 + math.Sqrt2), [4]float64{0, z, i, -i}},
		{"atan", 1, math.Pi / 4, [4]float64{0, z, half, -half}},
		{"atanh", 0.5, math.Log(3) / 2, [4]float64{0, z, n, n}},
		{"cos", math.Pi / 3, 0.5, [4]float64{1, 1, n, n}},
		{"cosh", 1, (math.E + 1/math.E) / 2, [4]float64{1, 1, i, i}},
		{"sin", math.Pi / 6, 0.5, [4]float64{0, z, n, n}},
		{"sinh", 1, (math.E - 1/math.E) / 2, [4]float64{0, z, i, -i}},
		{"tan", math.Pi / 4, 1, [4]float64{0, z, n, n}},
		{"tanh", math.Log(3) / 2, 0.5, [4]float64{0, z, 1, -1}},
		{"exp", 2, math.E * math.E, [4]float64{1, 1, i, 0}},
		{"exp2", 0.5, math.Sqrt2, [4]float64{1, 1, i, 0}},
		{"expm1", 1e-10, 1.00000000005e-10, [4]float64{0, z, i, -1}},
		{"log", math.E * math.E, 2, [4]float64{-i, -i, i, n}},
		{"log10", 1000, 3, [4]float64{-i, -i, i, n}},
		{"log1p", 1e-10, 9.9999999995e-11, [4]float64{0, z, i, n}},
		{"log2", 8, 3, [4]float64{-i, -i, i, n}},
		{"erf", 0.5, 0.5204998778130465, [4]float64{0, z, 1, -1}},
		{"erfc", 0.5, 0.4795001221869535, [4]float64{1, 1, 0, 2}},
		{"erfinv", 0.5204998778130465, 0.5, [4]float64{0, z, n, n}},
		{"erfcinv", 0.4795001221869535, 0.5, [4]float64{i, i, n, n}},
		{"lgamma", 5, math.Log(24), [4]float64{i, i, i, i}},
		{"sqrt", 9, 3, [4]float64{0, z, i, n}},
		{"rsqrt", 4, 0.5, [4]float64{i, -i, 0, n}},
		{"reciprocal", -4, -0.25, [4]float64{i, -i, 0, z}},
		{"sigmoid", math.Log(3), 0.75, [4]float64{0.5, 0.5, 1, 0}},
		{"silu", math.Log(3), 0.75 * math.Log(3), [4]float64{0, z, i, n}},
		{"ceil", -1.5, -1, [4]float64{0, z, i, -i}},
		{"floor", -1.5, -2, [4]float64{0, z, i, -i}},
		{"round", 2.5, 2, [4]float64{0, z, i, -i}},
		{"trunc", -1.5, -1, [4]float64{0, z, i, -i}},
		{"frac", -1.75, -0.75, [4]float64{0, 0, n, n}},
		{"abs", -3, 3, [4]float64{0, 0, i, i}},
		{"neg", 3, -3, [4]float64{z, 0, -i, i}},
		{"relu", -3, 0, [4]float64{0, 0, i, 0}},
		{"relu", 0.5, 0.5, [4]float64{0, 0, i, 0}},
		{"sign", -3, -1, [4]float64{0, 0, 1, -1}},
		{"real", -3, -3, [4]float64{0, z, i, -i}},
		{"set", -3, -3, [4]float64{0, z, i, -i}},
		{"segment_set", -3, -3, [4]float64{0, z, i, -i}},
	} {
		for _, d := range []dtype.Type{dtype.Double, dtype.Float} {
			got := resultOf(t, c.name, floats(d, dtype.Round(d, c.x), n, 0, z, i, -i))
			require.Equal(t, d, got.Type)
			tolerance := 1e-15
			if d == dtype.Float {
				tolerance = 1.5e-7
			}
			require.InDelta(t, c.want, got.F[0], tolerance*math.Max(1, math.Abs(c.want)), "%s(%v) in %v", c.name, c.x, d)
			want := append([]float64{n}, c.special[:]...)
			if c.name == "sign" {
				want[0] = 0
			}
			for k := range want {
				want[k] = dtype.Round(d, want[k])
			}
			requireFloats(t, want, got.F[1:], c.name+" in "+d.String())
		}
	}
}

// The result is rounded once, to the type of the result.
func TestUnaryRounding(t *testing.T) {
	x := float64(float32(1.7))
	require.Equal(t, []float64{float64(float32(math.Atan(x)))}, resultOf(t, "atan", floats(dtype.Float, x)).F)
	h := resultOf(t, "atan", floats(dtype.Half, 1.7001953125))
	require.Equal(t, dtype.Float, h.Type)
	require.Equal(t, float64(float32(math.Atan(1.7001953125))), h.F[0])
	requireFloats(t, []float64{3, 0}, resultOf(t, "relu", floats(dtype.BFloat16, 3, -3)).F, "relu")
	require.Equal(t, math.Atan(1.7), folded(t, "atan", 1.7).Re)
}

// The fast functions are within a unit of the last place of the slow ones.
func TestFastFunctionsAgree(t *testing.T) {
	for _, op := range Ops() {
		f32, f64 := op.Meaning.Float32.F1, op.Meaning.Float.F1
		if f32 == nil {
			continue
		}
		for x := float32(-20); x < 20; x += 0.0137 {
			got, want := f32(x), float32(f64(float64(x)))
			if want != want {
				require.True(t, got != got, "%s(%v)", op.Name, x)
				continue
			}
			low, high := math.Nextafter32(want, -math.MaxFloat32), math.Nextafter32(want, math.MaxFloat32)
			require.True(t, low <= got && got <= high, "%s(%v) = %v, want %v", op.Name, x, got, want)
		}
	}
}

func TestUnaryIntegers(t *testing.T) {
	const low = math.MinInt64
	for _, c := range []struct {
		name    string
		x, want []int64
	}{
		{"abs", []int64{-3, 3, 0, low}, []int64{3, 3, 0, low}},
		{"neg", []int64{-3, 3, 0, low, low + 1}, []int64{3, -3, 0, low, -low - 1}},
		{"sign", []int64{-3, 3, 0, low}, []int64{-1, 1, 0, -1}},
		{"relu", []int64{-3, 3, 0, low}, []int64{0, 3, 0, 0}},
		{"bitwise_not", []int64{-3, 0, low}, []int64{2, -1, math.MaxInt64}},
		{"ceil", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
		{"floor", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
		{"round", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
		{"trunc", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
		{"frac", []int64{1<<53 + 1, low}, []int64{0, 0}},
		{"real", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
		{"set", []int64{1<<53 + 1, low}, []int64{1<<53 + 1, low}},
	} {
		got := resultOf(t, c.name, ints(dtype.Int, c.x...))
		require.Equal(t, dtype.Int, got.Type)
		require.Equal(t, c.want, got.I, c.name)
		for k, x := range c.x {
			v := folded(t, c.name, scalar.Value{Type: dtype.Int, I: x})
			require.Equal(t, scalar.Value{Type: dtype.Int, I: c.want[k]}, v, "%s(%d) of a scalar", c.name, x)
		}
	}
	// Int32 wraps at its own width; UInt64 has no sign.
	require.Equal(t, []int64{math.MinInt32, 7}, resultOf(t, "abs", ints(dtype.Int32, math.MinInt32, -7)).I)
	require.Equal(t, []int64{math.MinInt32, 7}, resultOf(t, "neg", ints(dtype.Int32, math.MinInt32, -7)).I)
	require.Equal(t, []int64{-1, 1}, resultOf(t, "abs", ints(dtype.UInt64, -1, 1)).I)
	require.Equal(t, []int64{1, 1, 0}, resultOf(t, "sign", ints(dtype.UInt64, -1, 1, 0)).I)
	require.Equal(t, []int64{-1, 0}, resultOf(t, "relu", ints(dtype.UInt64, -1, 0)).I)
	require.Equal(t, []int64{-1}, resultOf(t, "neg", ints(dtype.UInt64, 1)).I)
	require.Equal(t, []int64{0, 1}, resultOf(t, "sign", bools(false, true)).I)
	require.Equal(t, []int64{1, 0}, resultOf(t, "bitwise_not", bools(false, true)).I)
	requireFloats(t, []float64{float64(float32(math.E)), 1}, resultOf(t, "exp", bools(true, false)).F, "exp of bools")
	requireFloats(t, []float64{0.5, infinity}, resultOf(t, "reciprocal", ints(dtype.Int, 2, 0)).F, "reciprocal")
}

func TestPredicates(t *testing.T) {
	n, i := quietNaN, infinity
	x := []float64{1, -1, 0, negativeZero, i, -i, n}
	z := []complex128{1, 1i, complex(n, 0), complex(0, n), complex(i, n), complex(-1, -i)}
	for _, c := range []struct{ name, floats, ints, bools, complexes string }{
		{"isfinite", "1111000", "111", "11", "110000"},
		{"isinf", "0000110", "000", "00", "000011"},
		{"isnan", "0000001", "000", "00", "001110"},
		{"isneginf", "0000010", "000", "00", ""},
		{"isposinf", "0000100", "000", "00", ""},
		{"isreal", "1111111", "111", "11", "101000"},
		{"signbit", "0101010", "010", "00", ""},
		{"logical_not", "0011000", "001", "01", "000000"},
	} {
		for _, d := range []dtype.Type{dtype.Double, dtype.Float, dtype.BFloat16} {
			require.Equal(t, c.floats, truth(t, resultOf(t, c.name, floats(d, x...))), "%s of %v", c.name, d)
		}
		require.Equal(t, c.ints, truth(t, resultOf(t, c.name, ints(dtype.Int, 3, math.MinInt64, 0))), c.name)
		require.Equal(t, c.bools, truth(t, resultOf(t, c.name, bools(true, false))), c.name)
		if c.complexes != "" {
			require.Equal(t, c.complexes, truth(t, resultOf(t, c.name, complexes(dtype.ComplexFloat, z...))), c.name)
		}
		require.Equal(t, boolValue(c.floats[4] == '1'), folded(t, c.name, i), c.name)
	}
	require.Equal(t, "1", truth(t, resultOf(t, "signbit", floats(dtype.Float, math.Copysign(n, -1)))))
	require.Equal(t, "0", truth(t, resultOf(t, "signbit", ints(dtype.UInt64, -1))))
}

func TestUnaryComplex(t *testing.T) {
	z := complexes(dtype.ComplexDouble, 3+4i)
	for _, c := range []struct {
		name string
		want complex128
	}{
		{"neg", -3 - 4i}, {"reciprocal", complex(3, -4) / 25}, {"sign", 0.6 + 0.8i}, {"sqrt", 2 + 1i}, {"set", 3 + 4i},
		{"exp", complex(math.Exp(3)*math.Cos(4), math.Exp(3)*math.Sin(4))}, {"log", complex(math.Log(5), math.Atan2(4, 3))},
		{"rsqrt", 1 / (2 + 1i)}, {"log2", complex(math.Log2(5), math.Atan2(4, 3)/math.Ln2)},
	} {
		got := resultOf(t, c.name, z)
		require.Equal(t, dtype.ComplexDouble, got.Type)
		require.InDelta(t, 0, real(got.C[0]-c.want), 1e-14, c.name)
		require.InDelta(t, 0, imag(got.C[0]-c.want), 1e-14, c.name)
	}
	for name, want := range map[string]float64{"abs": 5, "real": 3, "imag": 4} {
		require.Equal(t, floats(dtype.Double, want), resultOf(t, name, z), name)
		single := resultOf(t, name, complexes(dtype.ComplexFloat, 3+4i))
		require.Equal(t, floats(dtype.Float, want), single, name)
		require.Equal(t, scalar.Value{Type: dtype.Double, Re: want}, folded(t, name, 3+4i))
	}
}

func TestUnaryErrors(t *testing.T) {
	b, z, x := bools(true, false), complexes(dtype.ComplexFloat, 1, 2), floats(dtype.Float, 1, 2)
	for _, c := range []struct {
		name string
		arg  any
		want string
	}{
		{"neg", b, "neg(): x must be of numeric, not bool type, got Bool"},
		{"neg", true, "neg(): x must be of numeric, not bool type, got Bool"},
		{"abs", b, "abs(): x must be of numeric, not bool type, got Bool"},
		{"relu", b, "relu(): x must be of real, not bool type, got Bool"},
		{"floor", z, "floor(): x must be of real, not bool type, got ComplexFloat"},
		{"erf", z, "erf(): x must be of real type, got ComplexFloat"},
		{"imag", x, "imag(): x must be of complex type, got Float"},
		{"bitwise_not", x, "bitwise_not(): x must be of integer or bool type, got Float"},
		{"bitwise_not", 1.5, "bitwise_not(): x must be of integer or bool type, got Double"},
		{"isposinf", z, "isposinf(): x must be of real type, got ComplexFloat"},
		{"abs", floats(dtype.Float4E2M1FN, 1, 2), "abs(): Float4_e2m1fn has no arithmetic; cast it to a wider type"},
	} {
		_, _, _, err := callOn(t, c.name, c.arg)
		require.IsType(t, &InvalidType{}, err)
		require.EqualError(t, err, c.want)
	}
}

// The dtypes of results that nvFuser was seen to give, and ours of the kind.
func TestResultTypes(t *testing.T) {
	b, h, f := floats(dtype.BFloat16, 1, 2), floats(dtype.Half, 1, 2), floats(dtype.Float, 1, 2)
	d, i, o := floats(dtype.Double, 1, 2), ints(dtype.Int, 1, 2), bools(true, false)
	d0, i32, z := shaped(floats(dtype.Double, 1)), ints(dtype.Int32, 1, 2), complexes(dtype.ComplexFloat, 1, 2)
	for _, c := range []struct {
		want dtype.Type
		name string
		args []any
	}{
		{dtype.Float, "add", []any{b, b}}, {dtype.Float, "add", []any{b, f}}, {dtype.Int, "add", []any{i, i}},
		{dtype.Float, "add", []any{i, f}}, {dtype.Bool, "add", []any{o, o}}, {dtype.Float, "mul", []any{b, 2.0}},
		{dtype.Int, "div", []any{i, i}}, {dtype.Float, "truediv", []any{i, i}}, {dtype.Float, "exp", []any{i}},
		{dtype.Float, "exp", []any{h}}, {dtype.Float, "neg", []any{b}}, {dtype.BFloat16, "abs", []any{b}},
		{dtype.BFloat16, "relu", []any{b}}, {dtype.Float, "maximum", []any{b, b}}, {dtype.Float, "where", []any{o, f, 1.0}},
		{dtype.Float, "pow", []any{f, 2}}, {dtype.Int, "pow", []any{i, 2}}, {dtype.Int, "round", []any{i}},
		{dtype.Float, "reciprocal", []any{i}}, {dtype.Int, "remainder", []any{i, i}},

		{dtype.BFloat16, "set", []any{b}}, {dtype.Float8E4M3FN, "segment_set", []any{floats(dtype.Float8E4M3FN, 1, 2)}},
		{dtype.Float4E2M1FN, "set", []any{floats(dtype.Float4E2M1FN, 1, 2)}},
		{dtype.BFloat16, "floor", []any{b}}, {dtype.Int32, "trunc", []any{i32}}, {dtype.Half, "sign", []any{h}},
		{dtype.Float, "abs", []any{z}}, {dtype.ComplexFloat, "add", []any{z, i}}, {dtype.ComplexDouble, "add", []any{z, d}},
		{dtype.ComplexFloat, "mul", []any{f, 2i}}, {dtype.ComplexFloat, "complex", []any{b, b}}, {dtype.ComplexDouble, "complex", []any{d, f}},
		{dtype.ComplexFloat, "complex", []any{i, 1.0}},
		{dtype.Float, "mul", []any{f, d0}}, {dtype.Double, "mul", []any{i, d0}}, {dtype.Double, "mul", []any{d0, 2.0}},
		{dtype.Int32, "add", []any{i32, 5}}, {dtype.Int, "add", []any{i32, i}}, {dtype.Float, "add", []any{i32, 0.5}},
		{dtype.Int, "add", []any{o, 1}}, {dtype.Int, "pow", []any{o, o}}, {dtype.Int, "div", []any{o, o}}, {dtype.Bool, "minimum", []any{o, o}},
		{dtype.Int, "bitwise_left_shift", []any{o, o}}, {dtype.Bool, "bitwise_xor", []any{o, o}},
		{dtype.Float, "where", []any{o, 1.0, 2}}, {dtype.Int, "where", []any{o, 1, 2}}, {dtype.Bool, "where", []any{o, true, false}},
		{dtype.Float, "where", []any{i, b, b}}, {dtype.Double, "where", []any{o, d, f}}, {dtype.Float, "where", []any{true, f, 1.0}},
		{dtype.Int, "clamp", []any{i, 0, 1}}, {dtype.Float, "clamp", []any{i, 0.5, nil}}, {dtype.Float, "clamp", []any{b, nil, 1}},
		{dtype.Int, "clamp", []any{o, nil, true}}, {dtype.Float, "clamp", []any{i, 0, 1.5}}, {dtype.Float, "threshold", []any{b, 0.0, 1.0}},
		{dtype.Float, "lerp", []any{b, b, 0.5}}, {dtype.Float, "lerp", []any{i, i, i}}, {dtype.ComplexFloat, "lerp", []any{z, z, 0.5}},
		{dtype.Float, "addcmul", []any{b, b, b, 1.0}}, {dtype.Int, "addcmul", []any{i, i, i, 2}}, {dtype.Float, "addcmul", []any{i, i, i, 0.5}},
		{dtype.Double, "addcmul", []any{i, i, d0, 0.5}}, {dtype.Int, "addcmul", []any{o, o, o, true}},
		{dtype.Float, "nextafter", []any{f, 1.0}}, {dtype.Double, "nextafter", []any{d, f}},
		{dtype.Bool, "eq", []any{b, 1}}, {dtype.Bool, "logical_and", []any{z, b}},
	} {
		require.Equal(t, c.want, resultOf(t, c.name, c.args...).Type, "%s%v", c.name, c.args)
	}
}

// Expanded and broadcast inputs, no elements, no dimensions and symbolic sizes.
func TestElementwiseShapes(t *testing.T) {
	row := floats(dtype.Float, 1, 2, 3)
	column := shaped(floats(dtype.Float, 10, 20), 2, 1)
	sum := resultOf(t, "add", column, row)
	require.Equal(t, []int64{2, 3}, sum.Shape)
	require.Equal(t, []float64{11, 12, 13, 21, 22, 23}, sum.F)

	empty := NewArray(dtype.Float, []int64{2, 0})
	for _, name := range []string{"exp", "neg", "set", "isnan", "sign"} {
		got := resultOf(t, name, empty)
		require.Equal(t, []int64{2, 0}, got.Shape, name)
		require.Zero(t, got.Len())
		got = resultOf(t, name, shaped(floats(dtype.Float, 0.5)))
		require.Empty(t, got.Shape, name)
		require.Equal(t, 1, got.Len(), name)
	}
	require.Equal(t, []int64{2, 0}, resultOf(t, "add", empty, column).Shape)

	// An input whose contiguity does not apply is one element shown many times.
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1, 3}, Contiguity: []Tri{NotApplicable, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	y, err := f.apply1(NegOp, TensorOf(x))
	require.NoError(t, err)
	require.Equal(t, f.Shape(x), f.Shape(y))
	require.Equal(t, Broadcast, f.Axis(f.Axes(y)[0]).Kind)
	require.NoError(t, f.Verify())
}

func TestSizesMustAgree(t *testing.T) {
	f, v, _, err := callOn(t, "mul", NewArray(dtype.Float, []int64{2, 4}), NewArray(dtype.Float, []int64{3, 4}))
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v, NoVal))
	_, err = f.Eval([]*Array{NewArray(dtype.Float, []int64{2, 4}), NewArray(dtype.Float, []int64{3, 4})}, make([]scalar.Value, 2), RandomState{})
	require.IsType(t, &InvalidArgument{}, err)
	require.ErrorContains(t, err, "mul(): sizes of dimension 0 must be equal")
}

func TestCopiesOfScalars(t *testing.T) {
	for _, name := range []string{"set", "segment_set"} {
		require.Equal(t, scalar.Value{Type: dtype.Double, Re: 0.5}, folded(t, name, 0.5))
		require.Equal(t, scalar.Value{Type: dtype.Bool, I: 1}, folded(t, name, true))
	}
}
