package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func givenInt(n int64) Given {
	return Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Int, I: n}}
}
func givenFloat(x float64) Given {
	return Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Double, Re: x}}
}
func givenBool(b bool) Given             { return Given{Kind: GivenNumber, Num: boolValue(b)} }
func givenVal(v ValID) Given             { return Given{Kind: GivenVal, Val: v} }
func givenList(g ...Given) Given         { return Given{Kind: GivenList, List: g} }
func givenDType(t dtype.Type) Given      { return Given{Kind: GivenDType, Num: scalar.Value{I: int64(t)}} }
func named(name string, g Given) Keyword { return Keyword{name, g} }

// A call that does not bind names the argument, what was given and the rule.
func TestBindingErrors(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1, 4}, Contiguity: []Tri{Yes, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	s, err := f.DefineScalar(dtype.Double)
	require.NoError(t, err)
	for _, c := range []struct {
		op       string
		given    []Given
		keywords []Keyword
		invalid  error // of this type
		want     string
	}{
		{"add", []Given{givenVal(x)}, nil, &InvalidType{}, `add() needs argument "y"; its arguments are x, y`},
		{"add", []Given{givenVal(x), givenVal(x), givenVal(x)}, nil, &InvalidType{}, "add() takes at most 2 positional arguments, got 3"},
		{"add", []Given{givenVal(x), {Kind: GivenOther, Name: "str"}}, nil, &InvalidType{}, "add(): y must be a tensor, a scalar or a number, got str"},
		{"add", []Given{givenVal(x), {}}, nil, &InvalidType{}, "add(): y must be a tensor, a scalar or a number, got None"},
		{"add", []Given{givenVal(x)}, []Keyword{named("z", givenVal(x))}, &InvalidType{}, `add() has no argument "z"; its arguments are x, y`},
		{"add", []Given{givenVal(x), givenVal(x)}, []Keyword{named("y", givenVal(x))}, &InvalidType{}, `add() got argument "y" twice`},
		{"broadcast", []Given{givenVal(s), givenList()}, nil, &InvalidType{}, "broadcast(): arg must be a tensor, got a scalar (c3, Double)"},
		{"broadcast", []Given{givenVal(x), givenList(givenBool(true), givenInt(1))}, nil, &InvalidType{}, "broadcast(): is_broadcast_dim[1] must be a bool, got 1"},
		{"broadcast", []Given{givenVal(x), givenList(givenBool(true))}, nil, &InvalidArgument{}, "is_broadcast_dim is False in 0 places, and arg has 2 dimensions"},
		{"expand", []Given{givenVal(x), givenList(givenInt(4), givenFloat(4))}, nil, &InvalidType{}, "expand(): shape[1] must be an int or an integer scalar, got 4.00000"},
		{"expand", []Given{givenVal(x), givenList(givenVal(s), givenInt(4))}, nil, &InvalidType{}, "expand(): shape[0] must be an int or an integer scalar, got a scalar (c3, Double)"},
		{"expand", []Given{givenVal(x), givenList(givenInt(-1), givenInt(5))}, nil, &InvalidArgument{}, "expand(): the size of dimension 1 must be 1 or that of shape, got 4 and 5"},
		{"cast", []Given{givenVal(x), givenInt(3)}, nil, &InvalidType{}, "cast(): dtype must be a DataType, got 3"},
		{"cast", []Given{givenVal(x), givenDType(dtype.Float4E2M1FN)}, nil, &InvalidType{}, "cast(): dtype is Float4_e2m1fn"},
	} {
		before := f.String()
		_, err := f.Call(Lookup(c.op), c.given, c.keywords)
		require.ErrorContains(t, err, c.want)
		require.IsType(t, c.invalid, err, c.want)
		require.Equal(t, before, f.String())
		require.NoError(t, f.Verify())
	}
	require.Empty(t, f.Records())
}

// Promotion follows the table of observed result types.
func TestPromotion(t *testing.T) {
	for _, c := range []struct {
		a, b dtype.Type // b as a tensor
		want dtype.Type
	}{
		{dtype.BFloat16, dtype.BFloat16, dtype.Float},
		{dtype.BFloat16, dtype.Float, dtype.Float},
		{dtype.Int, dtype.Int, dtype.Int},
		{dtype.Int, dtype.Int32, dtype.Int},
		{dtype.Int32, dtype.Int32, dtype.Int32},
		{dtype.Int, dtype.Float, dtype.Float},
		{dtype.Int, dtype.Half, dtype.Float},
		{dtype.Bool, dtype.Bool, dtype.Bool},
		{dtype.Bool, dtype.Int32, dtype.Int32},
		{dtype.Half, dtype.BFloat16, dtype.Float},
		{dtype.Double, dtype.ComplexFloat, dtype.ComplexDouble},
		{dtype.Float, dtype.ComplexFloat, dtype.ComplexFloat},
	} {
		f := NewFusion()
		a, _ := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: c.a})
		b, _ := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: c.b})
		for _, args := range [][]Arg{{TensorOf(a), TensorOf(b)}, {TensorOf(b), TensorOf(a)}} {
			out, err := f.Apply(AddOp, args...)
			require.NoError(t, err)
			require.Equal(t, c.want, f.Val(out[0]).DType, "%v and %v", c.a, c.b)
		}
	}
}

// A scalar changes the type of a tensor only if its class is higher, and then
// to the smallest type of that class; a 0-dimensional tensor likewise, to its
// own type.
func TestPromotionByStanding(t *testing.T) {
	f := NewFusion()
	tensor := func(d dtype.Type, shape ...int64) Arg {
		contiguity := make([]Tri, len(shape))
		for i := range contiguity {
			contiguity[i] = Yes
		}
		v, err := f.DefineTensor(TensorDescription{Shape: shape, Contiguity: contiguity, DType: d})
		require.NoError(t, err)
		return TensorOf(v)
	}
	constant := func(v scalar.Value) Arg { return ScalarOf(f.scalars.Value(v)) }
	for _, c := range []struct {
		a, b Arg
		want dtype.Type
	}{
		{tensor(dtype.Float, 2), constant(scalar.Value{Type: dtype.Double, Re: 0.1}), dtype.Float},
		{tensor(dtype.BFloat16, 2), constant(scalar.Value{Type: dtype.Double, Re: 0.1}), dtype.Float},
		{tensor(dtype.Int32, 2), constant(scalar.Value{Type: dtype.Int, I: 3}), dtype.Int32},
		{tensor(dtype.Int32, 2), constant(scalar.Value{Type: dtype.Double, Re: 0.5}), dtype.Float},
		{tensor(dtype.Bool, 2), constant(scalar.Value{Type: dtype.Int, I: 3}), dtype.Int},
		{tensor(dtype.Double, 2), constant(scalar.Value{Type: dtype.ComplexDouble, Im: 1}), dtype.ComplexDouble},
		{tensor(dtype.Float, 2), constant(scalar.Value{Type: dtype.ComplexDouble, Im: 1}), dtype.ComplexFloat},
		{tensor(dtype.Float, 2), tensor(dtype.Double), dtype.Float},
		{tensor(dtype.Int, 2), tensor(dtype.Double), dtype.Double},
		{tensor(dtype.Int), constant(scalar.Value{Type: dtype.Double, Re: 0.5}), dtype.Float},
	} {
		out, err := f.Apply(AddOp, c.a, c.b)
		require.NoError(t, err)
		require.Equal(t, c.want, f.Val(out[0]).DType)
	}
}

// A constant that the type of the operation does not hold is refused; wrapping
// it would compare with another number.
func TestConstantsThatDoNotFit(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: dtype.Int})
	require.NoError(t, err)
	y, err := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: dtype.Int32})
	require.NoError(t, err)
	u, err := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: dtype.UInt64})
	require.NoError(t, err)
	large := Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.UInt64, I: -1 << 63}}
	for _, c := range []struct {
		op    string
		given []Given
		want  string
	}{
		{"lt", []Given{givenVal(x), large}, "lt(): y is 9223372036854775808, which Int does not hold"},
		{"add", []Given{givenVal(y), givenInt(1 << 40)}, "add(): y is 1099511627776, which Int32 does not hold"},
		{"full", []Given{givenList(givenInt(2)), large, givenDType(dtype.Int)}, "full(): fill_value is 9223372036854775808, which Int does not hold"},
		{"add", []Given{givenVal(u), large}, ""},
		{"add", []Given{givenVal(u), givenInt(-1)}, ""},     // modulo 2^64
		{"cast", []Given{large, givenDType(dtype.Int)}, ""}, // asked for
	} {
		_, err := f.Call(Lookup(c.op), c.given, nil)
		if c.want == "" {
			require.NoError(t, err, c.op)
			continue
		}
		require.EqualError(t, err, c.want)
		require.IsType(t, &InvalidArgument{}, err)
	}
}
