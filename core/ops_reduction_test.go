package core

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

var nan, inf = math.NaN(), math.Inf(1)

// array is an array of the values, which are rounded to t; those of a complex
// type are real.
func array(t dtype.Type, shape []int64, values ...float64) *Array {
	a := NewArray(t, shape)
	for i, x := range values {
		v := scalar.Value{Type: dtype.Double, Re: x}
		if t.IsInt() || t.IsBool() {
			v = scalar.Value{Type: dtype.Int, I: int64(x)}
		}
		a.Set(int64(i), ConvertScalar(t, v))
	}
	if len(values) != a.Len() {
		panic("array: wrong number of values")
	}
	return a
}

// An operandCase is a tensor operand of a test: its dimensions of size 1 are
// broadcasts, and those listed are expanded ones.
type operandCase struct {
	*Array
	expanded []int
}

func dense(arrays ...*Array) []operandCase {
	out := make([]operandCase, len(arrays))
	for i, a := range arrays {
		out[i].Array = a
	}
	return out
}

// define adds the operands as inputs, with sizes of their own or symbolic ones.
func define(t *testing.T, f *Fusion, operands []operandCase, static bool) []Given {
	var given []Given
	for _, x := range operands {
		d := TensorDescription{DType: x.Type}
		for _, n := range x.Shape {
			c := Yes
			if n == 1 {
				c = NotApplicable
			} else if !static {
				n = -1
			}
			d.Shape, d.Contiguity = append(d.Shape, n), append(d.Contiguity, c)
		}
		for _, i := range x.expanded {
			d.Contiguity[i] = NotApplicable
		}
		v, err := f.DefineTensor(d)
		require.NoError(t, err)
		given = append(given, givenVal(v))
	}
	return given
}

// evalCall evaluates a call of op on operands, with static and with symbolic
// sizes, which must agree. The fusion must verify and its text parse back.
func evalCall(t *testing.T, op string, operands []operandCase, more []Given, keywords ...Keyword) []*Array {
	t.Helper()
	var results [2][]*Array
	for i := range results {
		f := NewFusion()
		given := append(define(t, f, operands, i == 0), more...)
		out, err := f.Call(Lookup(op), given, keywords)
		require.NoError(t, err)
		results[i] = evalOutputs(t, f, operands, out)
	}
	require.Len(t, results[1], len(results[0]))
	for i, want := range results[0] {
		requireEqualArrays(t, want, results[1][i])
	}
	return results[0]
}

// evalOutputs makes vals the outputs of f and evaluates it.
func evalOutputs(t *testing.T, f *Fusion, operands []operandCase, vals []ValID) []*Array {
	t.Helper()
	for _, v := range vals {
		require.NoError(t, f.AddOutput(v, NoVal))
	}
	f.Freeze()
	require.NoError(t, f.Verify())
	text := f.String()
	parsed, err := Parse(text)
	require.NoError(t, err, text)
	require.Equal(t, text, parsed.String())
	for id := range f.exprs { // maps are of the right rank
		e := &f.exprs[id]
		for k, v := range f.TensorArgs(e) {
			for out, r := range e.Out {
				if m := e.Op.AxisMap; m != nil {
					positions := m(f, e, k, out)
					require.Len(t, positions, len(f.vals[r].Domain.Root), e.Op.Name)
					for _, p := range positions {
						require.True(t, p >= -1 && p < f.Rank(v), e.Op.Name)
					}
				}
			}
		}
	}
	var inputs []*Array
	for _, x := range operands {
		inputs = append(inputs, x.Array)
	}
	out, err := f.Eval(inputs, make([]scalar.Value, len(inputs)), RandomState{})
	require.NoError(t, err)
	for i, v := range vals {
		require.Equal(t, f.vals[v].DType, out[i].Type)
	}
	return out
}

// requireArray compares with the values that array takes, to within two units in
// the last place of a Float; NaN equals NaN.
func requireArray(t *testing.T, got *Array, want dtype.Type, shape []int64, values ...float64) {
	t.Helper()
	requireEqualArrays(t, array(want, shape, values...), got)
}

func requireEqualArrays(t *testing.T, want, got *Array) {
	t.Helper()
	require.Equal(t, want.Type, got.Type)
	require.Equal(t, append([]int64{}, want.Shape...), append([]int64{}, got.Shape...))
	require.Equal(t, want.I, got.I)
	require.Equal(t, want.C, got.C)
	for i := range want.F {
		x, y := want.F[i], got.F[i]
		ulp := math.Abs(x) * 0x1p-22
		require.True(t, x == y || x != x && y != y || math.Abs(x-y) <= ulp, "want %v, got %v", want.F, got.F)
	}
}

// callError returns the error of a call of op and requires that it changed nothing.
func callError(t *testing.T, op string, operands []operandCase, more []Given, keywords ...Keyword) error {
	t.Helper()
	f := NewFusion()
	given := append(define(t, f, operands, true), more...)
	_, err := f.Call(Lookup(op), given, keywords)
	require.Error(t, err)
	return err
}

// text returns the expressions of a call of op on symbolic operands.
func text(t *testing.T, op string, operands []operandCase, more []Given, keywords ...Keyword) string {
	t.Helper()
	f := NewFusion()
	out, err := f.Call(Lookup(op), append(define(t, f, operands, true), more...), keywords)
	require.NoError(t, err)
	for _, v := range out {
		require.NoError(t, f.AddOutput(v, NoVal))
	}
	return f.Python("fusion")
}

func givenInts(ns ...int64) Given {
	g := Given{Kind: GivenList, List: []Given{}}
	for _, n := range ns {
		g.List = append(g.List, givenInt(n))
	}
	return g
}

func TestSum(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6))
	for _, c := range []struct {
		name     string
		more     []Given
		keywords []Keyword
		shape    []int64
		want     []float64
	}{
		{"all", nil, nil, nil, []float64{21}},
		{"dim", []Given{givenInt(0)}, nil, []int64{3}, []float64{5, 7, 9}},
		{"negative dim", nil, []Keyword{named("dim", givenInt(-1))}, []int64{2}, []float64{6, 15}},
		{"dims", []Given{givenInts(1, 0)}, nil, nil, []float64{21}},
		{"keepdim", nil, []Keyword{named("dims", givenInts(-1)), named("keepdim", givenBool(true))}, []int64{2, 1}, []float64{6, 15}},
		{"no dims", nil, []Keyword{named("dims", givenInts())}, []int64{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{"no dims kept", []Given{givenInts(), givenBool(true)}, nil, []int64{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := evalCall(t, "sum", x, c.more, c.keywords...)
			requireArray(t, out[0], dtype.Float, c.shape, c.want...)
		})
	}
}

func TestReductionTypes(t *testing.T) {
	for _, c := range []struct {
		op       string
		in       dtype.Type
		explicit dtype.Type
		want     dtype.Type
	}{
		{"sum", dtype.BFloat16, dtype.Null, dtype.BFloat16},
		{"sum", dtype.Int, dtype.Null, dtype.Int},
		{"sum", dtype.Int32, dtype.Null, dtype.Int},
		{"sum", dtype.Bool, dtype.Null, dtype.Int},
		{"sum", dtype.UInt64, dtype.Null, dtype.UInt64},
		{"sum", dtype.Float, dtype.Null, dtype.Float},
		{"sum", dtype.ComplexFloat, dtype.Null, dtype.ComplexFloat},
		{"sum", dtype.BFloat16, dtype.Float, dtype.Float},
		{"sum", dtype.Int, dtype.Float, dtype.Float},
		{"sum", dtype.Int, dtype.Int32, dtype.Int32},
		{"prod", dtype.Bool, dtype.Null, dtype.Int},
		{"prod", dtype.Half, dtype.Null, dtype.Half},
		{"max", dtype.BFloat16, dtype.Null, dtype.BFloat16},
		{"max", dtype.Int32, dtype.Null, dtype.Int32},
		{"min", dtype.Bool, dtype.Null, dtype.Bool},
	} {
		var keywords []Keyword
		if c.explicit != dtype.Null {
			keywords = []Keyword{named("dtype", givenDType(c.explicit))}
		}
		out := evalCall(t, c.op, dense(array(c.in, []int64{2}, 1, 1)), nil, keywords...)
		require.Equal(t, c.want, out[0].Type, "%s of %v", c.op, c.in)
	}
}

// The cast comes before the sum: its rounding, or lack of it, shows.
func TestSumIsRoundedOnce(t *testing.T) {
	x := dense(array(dtype.BFloat16, []int64{3}, 256, 1, 1))
	requireArray(t, evalCall(t, "sum", x, nil)[0], dtype.BFloat16, nil, 258)
	requireArray(t, evalCall(t, "sum", dense(array(dtype.Float, []int64{2}, 1.5, 1.5)), nil, named("dtype", givenDType(dtype.Int)))[0], dtype.Int, nil, 2)
	requireArray(t, evalCall(t, "sum", dense(array(dtype.Int32, []int64{2}, math.MaxInt32, 1)), nil)[0], dtype.Int, nil, 1<<31)
	requireArray(t, evalCall(t, "sum", dense(array(dtype.Int32, []int64{2}, math.MaxInt32, 1)), nil, named("dtype", givenDType(dtype.Int32)))[0], dtype.Int32, nil, math.MinInt32)
	requireArray(t, evalCall(t, "prod", dense(array(dtype.Half, []int64{3}, 60000, 2, 0.5)), nil)[0], dtype.Half, nil, 60000)
}

func TestMaxMin(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2, 3}, 1, nan, 3, -1, -inf, -2))
	requireArray(t, evalCall(t, "max", x, []Given{givenInt(1)})[0], dtype.Float, []int64{2}, nan, -1)
	requireArray(t, evalCall(t, "min", x, []Given{givenInts(1)})[0], dtype.Float, []int64{2}, nan, -inf)
	big := array(dtype.UInt64, []int64{2}, 1, 0)
	big.I[1] = -1 // the largest
	require.Equal(t, []int64{-1}, evalCall(t, "max", dense(big), nil)[0].I)
	require.Equal(t, []int64{1}, evalCall(t, "min", dense(big), nil)[0].I)
	requireArray(t, evalCall(t, "max", dense(array(dtype.Bool, []int64{2}, 0, 1)), nil)[0], dtype.Bool, nil, 1)
	requireArray(t, evalCall(t, "min", dense(array(dtype.Bool, []int64{2}, 0, 1)), nil)[0], dtype.Bool, nil, 0)
	exact := array(dtype.Int, []int64{2}, 0, 0)
	exact.I = []int64{1<<53 + 1, 1 << 53}
	require.Equal(t, []int64{1<<53 + 1}, evalCall(t, "max", dense(exact), nil)[0].I)
}

func TestReduceNothing(t *testing.T) {
	for _, c := range []struct {
		op   string
		t    dtype.Type
		want float64
	}{
		{"sum", dtype.Float, 0}, {"prod", dtype.Float, 1}, {"sum", dtype.Bool, 0}, {"prod", dtype.ComplexDouble, 1},
		{"max", dtype.Float, -inf}, {"min", dtype.Half, inf}, {"max", dtype.Float8E4M3FN, -448},
		{"max", dtype.Int32, math.MinInt32}, {"min", dtype.Int32, math.MaxInt32}, {"max", dtype.Bool, 0}, {"min", dtype.Bool, 1},
		{"max", dtype.UInt64, 0}, {"max", dtype.Int, math.MinInt64},
	} {
		out := evalCall(t, c.op, dense(array(c.t, []int64{2, 0})), []Given{givenInt(1)})
		requireArray(t, out[0], out[0].Type, []int64{2}, c.want, c.want)
		require.Empty(t, evalCall(t, c.op, dense(array(c.t, []int64{2, 0})), []Given{givenInt(0)})[0].Len())
	}
	require.Equal(t, []int64{math.MaxInt64}, evalCall(t, "min", dense(array(dtype.Int, []int64{0})), nil)[0].I)
	require.Equal(t, []int64{-1}, evalCall(t, "min", dense(array(dtype.UInt64, []int64{0})), nil)[0].I)
}

// A plain broadcast is squeezed, an expanded one is folded as often as it shows.
func TestReduceBroadcasts(t *testing.T) {
	x := []operandCase{{array(dtype.Float, []int64{2, 1, 3}, 1, 2, 3, 1, 2, 3), []int{0}}}
	requireArray(t, evalCall(t, "sum", x, []Given{givenInts(0, 1)})[0], dtype.Float, []int64{3}, 2, 4, 6)
	requireArray(t, evalCall(t, "prod", x, []Given{givenInts(0, 1), givenBool(true)})[0], dtype.Float, []int64{1, 1, 3}, 1, 4, 9)
	requireArray(t, evalCall(t, "sum", x, []Given{givenInt(1)}, named("keepdim", givenBool(true)))[0], dtype.Float, []int64{2, 1, 3}, 1, 2, 3, 1, 2, 3)
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[2, 1, 3], contiguity=[None, None, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.ops.squeeze(tv0, dims=[1])
    fd.add_output(tv1)
`, text(t, "sum", x, []Given{givenInt(1)}))
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[2, 1, 3], contiguity=[None, None, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.ops.squeeze(tv0, dims=[1])
    tv2 = fd.ops.sum(tv1, dims=[0, 1], dtype=DataType.Float)
    fd.add_output(tv2)
`, text(t, "sum", x, nil))
	// What is not reduced stays as it is.
	f := NewFusion()
	out, err := f.Call(SumOp, append(define(t, f, x, true), givenInt(2)), nil)
	require.NoError(t, err)
	a := f.Axis(f.Axes(out[0])[0])
	require.Equal(t, Broadcast, a.Kind)
	require.NotEqual(t, scalar.None, a.Expanded)
	require.Equal(t, Reduce, f.Axis(f.Val(out[0]).Domain.Root[2]).Kind)
	out2, err := f.Call(SumOp, []Given{givenVal(0), givenInt(0)}, nil)
	require.NoError(t, err)
	require.Equal(t, Axis{Extent: f.scalars.Int(2), Expanded: scalar.None, Kind: Reduce, Def: NoTransform}, *f.Axis(f.Val(out2[0]).Domain.Root[0]))
	require.Equal(t, []int{2}, SumOp.NeedsWhole(f, f.Expr(f.Val(out[0]).Def)))
}

func TestReductionText(t *testing.T) {
	x := dense(array(dtype.BFloat16, []int64{2, 2}, 1, 2, 3, 4))
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[2, 2], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)
    tv1 = fd.ops.max(tv0, dims=[0])
    tv2 = fd.ops.broadcast(tv1, is_broadcast_dim=[True, False])
    fd.add_output(tv2)
`, text(t, "max", x, []Given{givenInts(0)}, named("keepdim", givenBool(true))))
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[2, 2], contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False)
    tv1 = fd.ops.cast(tv0, dtype=DataType.Float)
    tv2 = fd.ops.sum(tv1, dims=[1], dtype=DataType.Float)
    fd.add_output(tv2)
`, text(t, "sum", x, []Given{givenInt(-1), givenBool(false), givenDType(dtype.Float)}))
}

func TestZeroDimensionalReduction(t *testing.T) {
	x := dense(array(dtype.Int32, nil, 7))
	requireArray(t, evalCall(t, "sum", x, nil)[0], dtype.Int, nil, 7)
	requireArray(t, evalCall(t, "max", x, nil)[0], dtype.Int32, nil, 7)
	require.EqualError(t, callError(t, "sum", x, []Given{givenInt(0)}), "sum(): dims is 0, and a tensor with 0 dimensions has none")
}

func TestReductionErrors(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6))
	complexArg := dense(array(dtype.ComplexFloat, []int64{1}, 1))
	for _, c := range []struct {
		op       string
		x        []operandCase
		more     []Given
		keywords []Keyword
		invalid  error
		want     string
	}{
		{"sum", x, []Given{givenInt(2)}, nil, &InvalidArgument{}, "sum(): dims is 2, which is not a dimension of a tensor of rank 2: it must be from -2 to 1"},
		{"sum", x, nil, []Keyword{named("dim", givenInt(-3))}, &InvalidArgument{}, "sum(): dim is -3, which is not a dimension of a tensor of rank 2: it must be from -2 to 1"},
		{"sum", x, []Given{givenInts(0, -2)}, nil, &InvalidArgument{}, "sum(): dims names dimension 0 twice"},
		{"sum", x, []Given{{Kind: GivenOther, Name: "str"}}, nil, &InvalidType{}, "sum(): dims must be an int or a list of ints, got str"},
		{"sum", x, nil, []Keyword{named("dtype", givenInt(5))}, &InvalidType{}, "sum(): dtype must be a DataType, got 5"},
		{"sum", x, nil, []Keyword{named("axis", givenInt(0))}, &InvalidType{}, `sum() has no argument "axis"; its arguments are arg, dims, keepdim, dtype`},
		{"sum", x, []Given{givenInts(0), givenInt(1)}, nil, &InvalidType{}, "sum(): keepdim must be a bool, got 1"},
		{"sum", x, nil, []Keyword{named("dtype", givenDType(dtype.Float4E2M1FN))}, &InvalidType{}, "sum(): dtype must be of any type, got Float4_e2m1fn"},
		{"max", x, nil, []Keyword{named("dtype", givenDType(dtype.Float))}, &InvalidArgument{}, "max(): dtype is Float; the result has the type of arg, so cast arg first"},
		{"min", complexArg, nil, nil, &InvalidType{}, "min(): arg must be of real type, got ComplexFloat"},
		{"var", complexArg, []Given{givenInt(0)}, nil, &InvalidType{}, "var(): arg must be of floating-point type, got ComplexFloat"},
		{"var_mean", x, []Given{givenInts()}, nil, &InvalidArgument{}, "var_mean(): dims is empty; it must name a dimension to reduce"},
		{"welford", x, []Given{givenInts()}, nil, &InvalidArgument{}, "welford(): dims is empty; it must name a dimension to reduce"},
		{"welford", dense(array(dtype.Int, []int64{1}, 1)), []Given{givenInt(0)}, nil, &InvalidType{}, "welford(): arg must be of floating-point type, got Int"},
		{"var", x, []Given{givenInt(0), givenFloat(1)}, nil, &InvalidType{}, "var(): correction must be an int, got 1.00000"},
	} {
		err := callError(t, c.op, c.x, c.more, c.keywords...)
		require.EqualError(t, err, c.want)
		require.IsType(t, c.invalid, err)
	}
}

func TestReductionTextErrors(t *testing.T) {
	const x = "%0 = tensor f32 [4, 4] contiguity=[yes, yes]\n"
	for text, want := range map[string]string{
		"%1 = sum %0 dims=[] dtype=f32":                 "dims is empty",
		"%1 = sum %0 dims=[2] dtype=f32":                "dims must be ascending dimensions of a tensor of rank 2, got [2]",
		"%1 = sum %0 dims=[-1] dtype=f32":               "dims must be ascending dimensions of a tensor of rank 2, got [-1]",
		"%1 = sum %0 dims=[1, 0] dtype=f32":             "dims must be ascending dimensions of a tensor of rank 2, got [1, 0]",
		"%1 = sum %0 dims=[0] dtype=f64":                "arg is Float and must have the dtype of the result, Double",
		"%1 = sum %0 dims=[0]":                          "arg is Float and must have the dtype of the result, Null",
		"%1 = sum %0 dims=[0] keepdim=true dtype=f32":   "keepdim must be False in an expression",
		"%1 = max %0 dims=[0] dtype=f32":                "dtype is Float; the result has the type of arg",
		"%1 = cumsum %0 dim=7":                          "dim is 7, which is not a dimension of a tensor of rank 2",
		"%1 = cumsum %0 dim=0 init=1:i64":               "init is of type Int and must be Float in an expression",
		"%1 = select %0 index=1:f64 dim=0":              "index must be of dtype Index, got Double",
		"%1 = select %0 index=4 dim=0":                  "index must be from 0 to the size of dimension 0 less 1, got 4 and 4",
		"%1, %2 = topk %0 k=true dim=0":                 "k must be of dtype Index, got Bool",
		"%1 = argsort %0 dim=-1":                        "dim is -1, which is not a dimension of a tensor of rank 2",
		"%1, %2, %3 = welford %0 dims=[0, 0]":           "dims must be ascending dimensions of a tensor of rank 2, got [0, 0]",
		"%1 = scatter %0, %0, 1:f64 dim=0":              "index must be of integer type, got Float",
		"%1, %2, %3, %4 = sdpfa_fwd %0, %0, %0, %0, %0": "query has 2 dimensions",
		"%1 = linear %0, %0, %0":                        "bias has 2 dimensions; beside arg2 with 2 it must have 1",
		"%1 = embedding_fwd %0, %0 padding_idx=1.5:f32": "padding_idx must be of dtype Index, got Float",
		"%1 = index_select %0, %0 dim=0":                "index must be of integer type, got Float",
		"%1 = grouped_mm %0, %0, %0":                    "offsets must be of integer type, got Float",
		"%1 = gather %0, %0 dim=9":                      "dim is 9, which is not a dimension of a tensor of rank 2",
		"%1 = take_along_axis %0, %0 dim=-1":            "dim is -1, which is not a dimension of a tensor of rank 2",
	} {
		_, err := Parse(x + text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestVariance(t *testing.T) {
	x := dense(array(dtype.Float, []int64{2, 4}, 1, 2, 3, 6, 5, 5, 5, 5))
	out := evalCall(t, "var_mean", x, []Given{givenInt(1)})
	requireArray(t, out[0], dtype.Float, []int64{2}, 14.0/3, 0)
	requireArray(t, out[1], dtype.Float, []int64{2}, 3, 5)
	out = evalCall(t, "var", x, []Given{givenInts(-1)}, named("correction", givenInt(0)), named("keepdim", givenBool(true)))
	requireArray(t, out[0], dtype.Float, []int64{2, 1}, 3.5, 0)
	out = evalCall(t, "welford", x, []Given{givenInts(0, 1)})
	requireArray(t, out[0], dtype.Float, nil, 4)
	requireArray(t, out[1], dtype.Float, nil, 22)
	requireArray(t, out[2], dtype.Int, nil, 8)
	out = evalCall(t, "var", dense(array(dtype.BFloat16, []int64{2}, 1, 2)), []Given{givenInt(0)})
	requireArray(t, out[0], dtype.Float, nil, 0.5)
	out = evalCall(t, "welford", dense(array(dtype.Double, []int64{2}, 1, 2)), []Given{givenInt(0)})
	requireArray(t, out[0], dtype.Double, nil, 1.5)
}

// Divisions by zero are those of torch.
func TestVarianceEdges(t *testing.T) {
	for _, c := range []struct {
		x          *Array
		correction int64
		want       float64
	}{
		{array(dtype.Float, []int64{1}, 3), 1, nan},
		{array(dtype.Float, []int64{1}, 3), 0, 0},
		{array(dtype.Float, []int64{2}, 1, 2), 5, inf},
		{array(dtype.Float, []int64{2}, 1, 2), 2, inf},
		{array(dtype.Float, []int64{2}, 1, 2), -2, 0.125},
		{array(dtype.Float, []int64{2}, 1, 2), math.MaxInt64, inf},
		{array(dtype.Float, []int64{0}), 1, nan},
		{array(dtype.Float, []int64{2}, 1, inf), 1, nan},
	} {
		out := evalCall(t, "var_mean", dense(c.x), []Given{givenInt(0)}, named("correction", givenInt(c.correction)))
		requireArray(t, out[0], dtype.Float, nil, c.want)
	}
	out := evalCall(t, "welford", dense(array(dtype.Float, []int64{0})), []Given{givenInt(0)})
	requireArray(t, out[0], dtype.Float, nil, nan)
	requireArray(t, out[1], dtype.Float, nil, 0)
	requireArray(t, out[2], dtype.Int, nil, 0)
	out = evalCall(t, "var", []operandCase{{array(dtype.Float, []int64{2, 2}, 1, 2, 1, 2), []int{0}}}, []Given{givenInts(0, 1)}, named("correction", givenInt(0)))
	requireArray(t, out[0], dtype.Float, nil, 0.25)
}

func TestVarianceText(t *testing.T) {
	x := dense(array(dtype.Float, []int64{6, 16}, make([]float64, 96)...))
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[6, 16], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1, tv2, tv3 = fd.ops.welford(tv0, dims=[1])
    tv4 = fd.ops.mul(tv2, 0.0625000)
    tv5 = fd.ops.broadcast(tv4, is_broadcast_dim=[False, True])
    tv6 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True])
    fd.add_output(tv5)
    fd.add_output(tv6)
`, text(t, "var_mean", x, []Given{givenInts(1), givenInt(0), givenBool(true)}))
}

// A composite that leaves out the correction gets that of the signature.
func TestVarianceDefault(t *testing.T) {
	f := NewFusion()
	x := dense(array(dtype.Double, []int64{2}, 1, 2))
	v := define(t, f, x, true)[0].Val
	out, err := f.Apply(VarOp, TensorOf(v), IntsOf(0))
	require.NoError(t, err)
	requireArray(t, evalOutputs(t, f, x, out)[0], dtype.Double, nil, 0.5)
}

// Sizes so large that their products do not fit change nothing but the count.
func TestVarianceOfHugeSizes(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{1 << 40, 1 << 22, 0}, Contiguity: []Tri{Yes, Yes, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	out, err := f.Call(VarOp, []Given{givenVal(x), givenInts(0, 1)}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, f.Rank(out[0]))
}

// Every fold has a meaning in the types that the op accepts.
func TestFoldsAreDefined(t *testing.T) {
	for _, op := range Ops() {
		if op.Combine == nil {
			continue
		}
		for _, x := range []dtype.Type{dtype.Bool, dtype.Int32, dtype.Int, dtype.UInt64, dtype.Half, dtype.Double, dtype.ComplexFloat} {
			if accepts(op.Promote.Accept, x) {
				by, err := newFold(op, x)
				require.NoError(t, err)
				v := ConvertScalar(by.empty.Type, scalar.Value{Type: dtype.Int, I: 1})
				require.Equal(t, v, by.combine(by.empty, v), "%s of %v", op.Name, x)
			}
		}
	}
}
