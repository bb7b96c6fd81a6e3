package core

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

var (
	quietNaN     = math.NaN()
	infinity     = math.Inf(1)
	negativeZero = math.Copysign(0, -1)
)

// floats, ints, bools and complexes are tensors of one dimension.

func floats(t dtype.Type, x ...float64) *Array {
	return &Array{Type: t, Shape: []int64{int64(len(x))}, F: x}
}

func ints(t dtype.Type, x ...int64) *Array {
	return &Array{Type: t, Shape: []int64{int64(len(x))}, I: x}
}

func bools(x ...bool) *Array {
	a := ints(dtype.Bool)
	for _, b := range x {
		a.I = append(a.I, boolValue(b).I)
	}
	a.Shape[0] = int64(len(x))
	return a
}

func complexes(t dtype.Type, x ...complex128) *Array {
	return &Array{Type: t, Shape: []int64{int64(len(x))}, C: x}
}

// shaped returns a with another shape.
func shaped(a *Array, shape ...int64) *Array {
	b := *a
	b.Shape = shape
	return &b
}

// literalOf is x as the literal that Python would pass.
func literalOf(x any) Given {
	switch x := x.(type) {
	case nil:
		return Given{}
	case bool:
		return givenBool(x)
	case int:
		return givenInt(int64(x))
	case float64:
		return givenFloat(x)
	case complex128:
		return Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.ComplexDouble, Re: real(x), Im: imag(x)}}
	case scalar.Value:
		return Given{Kind: GivenNumber, Num: x}
	case dtype.Type:
		return givenDType(x)
	}
	panic("not a literal")
}

// inputLike adds an input of symbolic sizes for an array; size 1 is a broadcast.
func inputLike(t testing.TB, f *Fusion, a *Array) ValID {
	t.Helper()
	d := TensorDescription{DType: a.Type}
	for _, n := range a.Shape {
		c := Yes
		if n == 1 {
			c = NotApplicable
		} else {
			n = -1
		}
		d.Shape, d.Contiguity = append(d.Shape, n), append(d.Contiguity, c)
	}
	v, err := f.DefineTensor(d)
	require.NoError(t, err)
	return v
}

// callOn calls op on arrays, which become inputs, and literals.
func callOn(t testing.TB, name string, args ...any) (*Fusion, ValID, []*Array, error) {
	t.Helper()
	f := NewFusion()
	var inputs []*Array
	given := make([]Given, len(args))
	for i, a := range args {
		if x, ok := a.(*Array); ok {
			inputs = append(inputs, x)
			given[i] = givenVal(inputLike(t, f, x))
		} else {
			given[i] = literalOf(a)
		}
	}
	require.NotNil(t, Lookup(name), name)
	out, err := f.Call(Lookup(name), given, nil)
	if err != nil {
		require.NoError(t, f.Verify())
		return nil, NoVal, nil, err
	}
	require.Len(t, out, 1)
	return f, out[0], inputs, nil
}

// resultOf returns op(args); at least one is an array.
func resultOf(t testing.TB, name string, args ...any) *Array {
	t.Helper()
	f, v, inputs, err := callOn(t, name, args...)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v, NoVal))
	require.NoError(t, f.Verify())
	again, err := Parse(f.String())
	require.NoError(t, err, f.String())
	require.Equal(t, f.String(), again.String())
	out, err := f.Eval(inputs, make([]scalar.Value, len(inputs)), RandomState{})
	require.NoError(t, err)
	require.Equal(t, f.Val(v).DType, out[0].Type)
	return out[0]
}

// requireFloats is equality that takes NaN for itself and tells zeros apart.
func requireFloats(t testing.TB, want, got []float64, message string) {
	t.Helper()
	require.Len(t, got, len(want), message)
	for i := range want {
		if want[i] != want[i] && got[i] != got[i] || math.Float64bits(want[i]) == math.Float64bits(got[i]) {
			continue
		}
		require.Failf(t, "wrong value", "%s: element %d: want %v, got %v", message, i, want, got)
	}
}

// truth returns the elements of a Bool array as a string of 0 and 1.
func truth(t testing.TB, a *Array) string {
	t.Helper()
	require.Equal(t, dtype.Bool, a.Type)
	var b strings.Builder
	for _, x := range a.I {
		b.WriteByte('0' + byte(x))
	}
	return b.String()
}

// folded returns op on literals alone, which is a constant.
func folded(t testing.TB, name string, args ...any) scalar.Value {
	t.Helper()
	f, v, _, err := callOn(t, name, args...)
	require.NoError(t, err)
	require.False(t, f.Val(v).Tensor)
	c, ok := f.scalars.ConstValue(f.Val(v).Scalar)
	require.True(t, ok, "%s%v", name, args)
	return c
}

// TestElementwiseNames holds the table against the names of the Python API.
func TestElementwiseNames(t *testing.T) {
	for heading, names := range map[string]string{
		"unary": "abs acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 erf erfc erfinv erfcinv floor frac lgamma " +
			"log log10 log1p log2 neg logical_not bitwise_not relu reciprocal round rsqrt set segment_set sign sigmoid " +
			"signbit silu sin sinh sqrt tan tanh trunc isfinite isinf isnan isneginf isposinf isreal real imag",
		"binary":  "add sub mul div truediv pow fmod mod remainder atan2 nextafter minimum maximum gcd complex",
		"compare": "eq ne lt le gt ge",
		"logical": "logical_and logical_or bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift logical_right_shift",
		"ternary": "where clamp threshold lerp addcmul",
		"cast":    "cast",
	} {
		for _, name := range strings.Fields(names) {
			require.NotNil(t, Lookup(name), "%s: %s", heading, name)
		}
	}
}

// domains are the element types that stand for the classes, with the spelling
// and kernels that an elementwise row must have for them.
var domains = []struct {
	t        dtype.Type
	accept   Accept
	spelling func(s *Spelling) string
}{
	{dtype.Bool, AcceptBool, func(s *Spelling) string { return s.Bool }},
	{dtype.Int32, AcceptInt, func(s *Spelling) string { return s.Int }},
	{dtype.Int, AcceptInt, func(s *Spelling) string { return s.Int }},
	{dtype.UInt64, AcceptInt, func(s *Spelling) string { return s.UInt }},
	{dtype.Half, AcceptFloat, func(s *Spelling) string { return s.F32 }},
	{dtype.Float, AcceptFloat, func(s *Spelling) string { return s.F32 }},
	{dtype.Double, AcceptFloat, func(s *Spelling) string { return s.F32 }},
	{dtype.ComplexFloat, AcceptComplex, func(s *Spelling) string { return s.C64 }},
	{dtype.ComplexDouble, AcceptComplex, func(s *Spelling) string { return s.C64 }},
}

// Every row is complete: what it accepts has a meaning, a result of the type
// that is inferred, and a CUDA text that names each operand.
func TestElementwiseRowsAreComplete(t *testing.T) {
	for _, op := range Ops() {
		if op.Class != Elementwise {
			continue
		}
		require.NotEmpty(t, op.Torch, op.Name)
		require.Positive(t, op.Cost, op.Name)
		require.True(t, strings.HasSuffix(op.Doc, "."), op.Name)
		operands := 0
		for _, p := range op.Params() {
			if p.Kind == Operand {
				operands++
			}
		}
		require.True(t, len(op.Domain) == 0 || len(op.Domain) == operands, "%s: domain", op.Name)
		if op == CastOp {
			continue
		}
		for _, d := range domains {
			accepted := op.Promote.Accept&d.accept != 0
			args := make([]any, operands)
			for i := range args {
				args[i] = NewArray(d.t, []int64{3})
				if i < op.Promote.Skip {
					args[i] = NewArray(dtype.Bool, []int64{3})
				}
			}
			if op == NextAfterOp && d.t == dtype.Half {
				accepted = false
			}
			_, _, _, err := callOn(t, op.Name, args...)
			if !accepted {
				require.IsType(t, &InvalidType{}, err, "%s of %v", op.Name, d.t)
				continue
			}
			require.NoError(t, err)
			resultOf(t, op.Name, args...)
			compute, err := op.Promote.computeType(op, []dtype.Type{d.t}, []int{dimensioned})
			require.NoError(t, err)
			for _, e := range domains {
				if e.t != compute {
					continue
				}
				text := e.spelling(&op.CUDA)
				require.NotEmpty(t, text, "%s: CUDA for %v", op.Name, e.t)
				require.NotContains(t, text, "$"+string(rune('0'+operands)), op.Name)
			}
		}
	}
}
