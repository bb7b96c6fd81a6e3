package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func TestSelect(t *testing.T) {
	x := dense(array(dtype.Int32, []int64{2, 3}, 1, 2, 3, 4, 5, 6))
	requireArray(t, evalCall(t, "select", x, []Given{givenInt(1), givenInt(0)})[0], dtype.Int32, []int64{3}, 4, 5, 6)
	requireArray(t, evalCall(t, "select", x, []Given{givenInt(-1), givenInt(1)})[0], dtype.Int32, []int64{2}, 3, 6)
	requireArray(t, evalCall(t, "select", dense(array(dtype.Float, []int64{1}, 7)), []Given{givenInt(0), givenInt(0)})[0], dtype.Float, nil, 7)
	require.EqualError(t, callError(t, "select", x, []Given{givenInt(3), givenInt(1)}), "select(): index must be from 0 to the size of dimension 1 less 1, got 3 and 3")
	require.EqualError(t, callError(t, "select", x, []Given{givenInt(-4), givenInt(1)}), "select(): index is -4, and dimension 1 of arg has size 3")
	require.EqualError(t, callError(t, "select", x, []Given{givenInt(-1 << 63), givenInt(1)}), "select(): index is -9223372036854775808, and dimension 1 of arg has size 3")
	require.EqualError(t, callError(t, "select", x, []Given{givenFloat(1), givenInt(1)}), "select(): index must be an int or an integer scalar, got 1.00000")
	require.EqualError(t, callError(t, "select", dense(array(dtype.Float, nil, 1)), []Given{givenInt(0), givenInt(0)}), "select(): dim is 0, and a tensor with 0 dimensions has none")
	require.Error(t, callError(t, "select", dense(array(dtype.Float, []int64{0})), []Given{givenInt(0), givenInt(0)}))
}

// What cannot be known at definition is checked when the sizes are.
func TestSelectAtRunTime(t *testing.T) {
	f := NewFusion()
	x := define(t, f, dense(array(dtype.Float, []int64{3}, 1, 2, 3)), false)[0]
	at, err := f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	out, err := f.Call(SelectOp, []Given{x, givenVal(at), givenInt(0)}, nil)
	require.NoError(t, err)
	last, err := f.Call(SelectOp, []Given{x, givenInt(-2), givenInt(0)}, nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(out[0], NoVal))
	require.NoError(t, f.AddOutput(last[0], NoVal))
	matrix := define(t, f, dense(array(dtype.Float, []int64{2, 2}, 1, 2, 3, 4)), false)[0]
	row, err := f.Call(SelectOp, []Given{matrix, givenInt(0), givenInt(0)}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{1}, SelectOp.AxisMap(f, f.Expr(f.Val(row[0]).Def), 0, 0))
	require.NoError(t, f.Verify())
	run := func(at int64, values ...float64) ([]*Array, error) {
		return f.Eval([]*Array{array(dtype.Float, []int64{int64(len(values))}, values...), nil, array(dtype.Float, []int64{0, 0})}, []scalar.Value{{}, {Type: dtype.Int, I: at}, {}}, RandomState{})
	}
	got, err := run(2, 1, 2, 3)
	require.NoError(t, err)
	requireArray(t, got[0], dtype.Float, nil, 3)
	requireArray(t, got[1], dtype.Float, nil, 2)
	_, err = run(3, 1, 2, 3)
	require.EqualError(t, err, "select(): index must be from 0 to the size of dimension 0 less 1, got 3 and 3")
	_, err = run(-1, 1, 2, 3)
	require.EqualError(t, err, "select(): index must be from 0 to the size of dimension 0 less 1, got -1 and 3")
	_, err = run(0, 1)
	require.EqualError(t, err, "select(): index must be from 0 to the size of dimension 0 less 1, got -1 and 1")
}

func TestIndexSelect(t *testing.T) {
	x := array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	index := array(dtype.Int, []int64{4}, 2, 0, 3, -1)
	requireArray(t, evalCall(t, "index_select", dense(x, index), []Given{givenInt(1)})[0], dtype.Float, []int64{2, 4}, 3, 1, 0, 0, 6, 4, 0, 0)
	requireArray(t, evalCall(t, "index_select", dense(x, array(dtype.Int32, []int64{1}, 1)), []Given{givenInt(0)})[0], dtype.Float, []int64{1, 3}, 4, 5, 6)
	requireArray(t, evalCall(t, "index_select", dense(x, array(dtype.Int32, nil, 1)), []Given{givenInt(-2)})[0], dtype.Float, []int64{1, 3}, 4, 5, 6)
	requireArray(t, evalCall(t, "index_select", dense(x, array(dtype.Int, []int64{2, 1}, 1, 1)), []Given{givenInt(0)})[0], dtype.Float, []int64{2, 3}, 4, 5, 6, 4, 5, 6)
	requireArray(t, evalCall(t, "index_select", dense(array(dtype.Bool, []int64{2}, 0, 1), array(dtype.Int, []int64{3}, 1, 0, 1)), []Given{givenInt(0)})[0], dtype.Bool, []int64{3}, 1, 0, 1)
	require.Empty(t, evalCall(t, "index_select", dense(x, array(dtype.Int, []int64{0})), []Given{givenInt(0)})[0].F)
	requireArray(t, evalCall(t, "index_select", dense(array(dtype.Float, []int64{0, 2}), array(dtype.Int, []int64{1}, 0)), []Given{givenInt(0)})[0], dtype.Float, []int64{1, 2}, 0, 0)
	expanded := []operandCase{{array(dtype.Float, []int64{2, 3}, 1, 2, 3, 1, 2, 3), []int{0}}, {array(dtype.Int, []int64{3}, 1, 1, 1), []int{0}}}
	requireArray(t, evalCall(t, "index_select", expanded, []Given{givenInt(1)})[0], dtype.Float, []int64{2, 3}, 2, 2, 2, 2, 2, 2)
	require.Equal(t, `def fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[2, 3], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[4], contiguity=[True], dtype=DataType.Int, is_cpu=False)
    tv2 = fd.ops.broadcast(tv1, is_broadcast_dim=[False, True])
    tv3 = fd.ops.index_select(tv0, tv2, dim=0)
    fd.add_output(tv3)
`, text(t, "index_select", dense(x, index), []Given{givenInt(0)}))
}

func TestGather(t *testing.T) {
	x := array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	requireArray(t, evalCall(t, "gather", dense(x, array(dtype.Int, []int64{2, 2}, 0, 2, 3, -1)), []Given{givenInt(1)})[0], dtype.Float, []int64{2, 2}, 1, 3, 0, 0)
	requireArray(t, evalCall(t, "gather", dense(x, array(dtype.Int32, []int64{3, 2}, 0, 1, 1, 0, 1, 1)), []Given{givenInt(0)})[0], dtype.Float, []int64{3, 2}, 1, 5, 4, 2, 4, 5)
	requireArray(t, evalCall(t, "gather", dense(x, array(dtype.Int, []int64{1, 2}, 1, 0)), []Given{givenInt(0)})[0], dtype.Float, []int64{1, 2}, 4, 2)
	require.Empty(t, evalCall(t, "gather", dense(x, array(dtype.Int, []int64{0, 2})), []Given{givenInt(0)})[0].F)
	expanded := []operandCase{{Array: x}, {array(dtype.Int, []int64{2, 2}, 1, 1, 1, 1), []int{0, 1}}}
	requireArray(t, evalCall(t, "gather", expanded, []Given{givenInt(1)})[0], dtype.Float, []int64{2, 2}, 2, 2, 5, 5)
	require.EqualError(t, callError(t, "gather", dense(x, array(dtype.Int, []int64{3, 3}, make([]float64, 9)...)), []Given{givenInt(1)}), "gather(): the size of dimension 0 of index must not be larger than that of arg, got 3 and 2")
	f := NewFusion()
	out, err := f.Call(GatherOp, append(define(t, f, expanded, true), givenInt(1)), nil)
	require.NoError(t, err)
	require.Equal(t, Iter, f.Axis(f.Axes(out[0])[0]).Kind, "its elements differ")
	f = NewFusion()
	given := define(t, f, dense(x, array(dtype.Int, []int64{2, 2}, 0, 0, 0, 0)), false)
	out, err = f.Call(GatherOp, append(given, givenInt(1)), nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(out[0], NoVal))
	e := f.Expr(f.Val(out[0]).Def)
	require.Equal(t, []int{-1, -1}, GatherOp.AxisMap(f, e, 0, 0)) // the sizes of dimension 0 may differ
	require.Equal(t, []int{0, 1}, GatherOp.NeedsWhole(f, e))
	_, err = f.Eval([]*Array{x, array(dtype.Int, []int64{3, 1}, 0, 0, 0)}, make([]scalar.Value, 2), RandomState{})
	require.EqualError(t, err, "gather(): the size of dimension 0 of index must not be larger than that of arg, got 3 and 2")
}

func TestTakeAlongAxis(t *testing.T) {
	x := array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	requireArray(t, evalCall(t, "take_along_axis", dense(x, array(dtype.Int, []int64{1, 2}, 2, 5)), []Given{givenInt(1)})[0], dtype.Float, []int64{2, 2}, 3, 0, 6, 0)
	requireArray(t, evalCall(t, "take_along_axis", dense(array(dtype.Float, []int64{1, 2}, 7, 8), array(dtype.Int, []int64{2, 2}, 1, 0, 0, 0)), []Given{givenInt(-1)})[0], dtype.Float, []int64{2, 2}, 8, 7, 7, 7)
	requireArray(t, evalCall(t, "take_along_axis", dense(array(dtype.Float, []int64{2, 1}, 7, 8), array(dtype.Int, []int64{2, 2}, 0, 1, 0, 0)), []Given{givenInt(1)})[0], dtype.Float, []int64{2, 2}, 7, 0, 8, 8)
	require.EqualError(t, callError(t, "take_along_axis", dense(x, array(dtype.Int, []int64{3, 1}, 0, 0, 0)), []Given{givenInt(1)}), "take_along_axis(): sizes of dimension 0 of arg and index must be equal, or one of them 1, got 2 and 3")
}

func TestScatter(t *testing.T) {
	x := array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	index := array(dtype.Int, []int64{2, 2}, 2, 2, 0, 7)
	src := array(dtype.Float, []int64{2, 3}, 10, 20, 30, 40, 50, 60)
	operands := dense(x, index, src)
	requireArray(t, evalCall(t, "scatter", operands, []Given{givenInt(1)})[0], dtype.Float, []int64{2, 3}, 1, 2, 20, 40, 5, 6)
	requireArray(t, evalCall(t, "scatter", dense(x, index), []Given{givenInt(9), givenInt(1)})[0], dtype.Float, []int64{2, 3}, 1, 2, 9, 9, 5, 6)
	requireArray(t, evalCall(t, "scatter", dense(x, array(dtype.Int, []int64{1, 3}, 1, 0, -1)), []Given{givenFloat(0.5), givenInt(0)})[0], dtype.Float, []int64{2, 3}, 1, 0.5, 3, 0.5, 5, 6)
	expanded := []operandCase{{array(dtype.Int, []int64{2, 2}, 1, 2, 1, 2), []int{0}}, {Array: array(dtype.Int, []int64{2, 1}, 0, 1)}}
	requireArray(t, evalCall(t, "scatter", expanded, []Given{givenFloat(7.9), givenInt(1)})[0], dtype.Int, []int64{2, 2}, 7, 2, 1, 7)
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, x.F, "the input is not changed")
	for _, c := range []struct {
		operands []operandCase
		more     []Given
		want     string
	}{
		{dense(x, index, array(dtype.Double, []int64{2, 3}, src.F...)), nil, "scatter(): src is Double and arg is Float; cast one of them"},
		{dense(x, index, array(dtype.Float, []int64{2}, 1, 2)), nil, "scatter(): src has 1 dimension and arg 2; they must have the same number"},
		{dense(x, index, array(dtype.Float, []int64{2, 0})), nil, "scatter(): the size of dimension 1 of index must not be larger than that of src, got 2 and 0"},
		{dense(x, array(dtype.Int, []int64{3, 1}, 0, 0, 0)), []Given{givenInt(1)}, "scatter(): the size of dimension 0 of index must not be larger than that of arg, got 3 and 2"},
		{dense(x, array(dtype.Int, []int64{2}, 0, 0)), []Given{givenInt(1)}, "scatter(): index has 1 dimension and arg 2; they must have the same number"},
		{dense(x, src), []Given{givenInt(1)}, "scatter(): index must be of integer type, got Float"},
		{dense(x, index), []Given{{Kind: GivenNumber, Num: scalar.Value{Type: dtype.ComplexDouble, Im: 1}}}, "scatter(): src is complex, and the elements are Float"},
	} {
		require.EqualError(t, callError(t, "scatter", c.operands, append(c.more, givenInt(1))), c.want)
	}
}

func TestIndexErrors(t *testing.T) {
	x := array(dtype.Float, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	floats := array(dtype.Float, []int64{2}, 0, 1)
	for _, op := range []string{"index_select", "gather", "take_along_axis"} {
		err := callError(t, op, dense(x, floats), []Given{givenInt(0)})
		require.EqualError(t, err, op+"(): index must be of integer type, got Float")
		require.IsType(t, &InvalidType{}, err)
		err = callError(t, op, dense(x, array(dtype.Bool, []int64{2}, 0, 1)), []Given{givenInt(0)})
		require.EqualError(t, err, op+"(): index must be of integer type, got Bool")
	}
	require.EqualError(t, callError(t, "gather", dense(x, array(dtype.Int, []int64{2}, 0, 1)), []Given{givenInt(0)}), "gather(): index has 1 dimension and arg 2; they must have the same number")
	require.EqualError(t, callError(t, "index_select", dense(x, array(dtype.Int, []int64{2, 3}, make([]float64, 6)...)), []Given{givenInt(0)}), "index_select(): dimension 1 of index is not a broadcast; index must have one dimension, or size 1 everywhere but in dimension 0")
	require.EqualError(t, callError(t, "index_select", dense(x, array(dtype.Int, []int64{2, 1, 1}, 0, 0)), []Given{givenInt(0)}), "index_select(): index has 3 dimensions; it must have at most one, or the 2 of arg with size 1 everywhere but in dim")
}

func TestEmbedding(t *testing.T) {
	weight := array(dtype.Float, []int64{3, 2}, 3, 4, 0.125, 0.125, 0, 5)
	input := array(dtype.Int, []int64{2, 2}, 0, 1, 3, -1)
	requireArray(t, evalCall(t, "embedding_fwd", dense(input, weight), nil)[0], dtype.Float, []int64{2, 2, 2}, 3, 4, 0.125, 0.125, 0, 0, 0, 0)
	requireArray(t, evalCall(t, "embedding_fwd", dense(array(dtype.Int32, nil, 2), weight), []Given{givenInt(-3)}, named("sparse", givenBool(true)))[0], dtype.Float, []int64{2}, 0, 5)
	require.Empty(t, evalCall(t, "embedding_fwd", dense(array(dtype.Int, []int64{0}), weight), nil)[0].F)
	requireArray(t, evalCall(t, "embedding_fwd", dense(array(dtype.Int, []int64{1}, 0), array(dtype.Float, []int64{0, 2})), nil)[0], dtype.Float, []int64{1, 2}, 0, 0)
	// The values are those of torch.nn.functional.embedding.
	rows := dense(array(dtype.Int, []int64{3}, 0, 1, 2), weight)
	for _, c := range []struct {
		keywords []Keyword
		want     []float64
	}{
		{[]Keyword{named("max_norm", givenFloat(1))}, []float64{3 / (5 + 1e-7), 4 / (5 + 1e-7), 0.125, 0.125, 0, 5 / (5 + 1e-7)}},
		{[]Keyword{named("max_norm", givenInt(1)), named("norm_type", givenFloat(inf))}, []float64{3 / (4 + 1e-7), 4 / (4 + 1e-7), 0.125, 0.125, 0, 5 / (5 + 1e-7)}},
		{[]Keyword{named("max_norm", givenFloat(0.5)), named("norm_type", givenInt(0))}, []float64{1.5 / (2 + 1e-7), 2 / (2 + 1e-7), 0.0625 / (2 + 1e-7), 0.0625 / (2 + 1e-7), 0, 2.5 / (1 + 1e-7)}},
		{[]Keyword{named("max_norm", givenFloat(3.5)), named("norm_type", givenInt(1))}, []float64{1.5, 2, 0.125, 0.125, 0, 3.5}},
		{[]Keyword{named("norm_type", givenInt(1))}, []float64{3, 4, 0.125, 0.125, 0, 5}},
	} {
		requireArray(t, evalCall(t, "embedding_fwd", rows, nil, c.keywords...)[0], dtype.Float, []int64{3, 2}, c.want...)
	}
	for _, c := range []struct {
		operands []operandCase
		keywords []Keyword
		want     string
	}{
		{dense(weight, weight), nil, "embedding_fwd(): input must be of integer type, got Float"},
		{dense(input, array(dtype.Float, []int64{2}, 1, 2)), nil, "embedding_fwd(): weight has 1 dimension; it must have 2"},
		{dense(input, weight), []Keyword{named("padding_idx", givenInt(3))}, "embedding_fwd(): padding_idx must be a row of weight, got 3 and 3"},
		{dense(input, weight), []Keyword{named("padding_idx", givenInt(-4))}, "embedding_fwd(): padding_idx must be a row of weight, got -4 and 3"},
		{dense(input, array(dtype.Int, []int64{1, 1}, 1)), []Keyword{named("max_norm", givenInt(3))}, "embedding_fwd(): max_norm needs a weight of floating-point type, got Int"},
		{dense(input, weight), []Keyword{named("sparse", givenInt(3))}, "embedding_fwd(): sparse is of type Int and must be Bool in an expression"},
	} {
		require.EqualError(t, callError(t, "embedding_fwd", c.operands, nil, c.keywords...), c.want)
	}
}

// A type whose elements are less than a byte has no numbers.
func TestScatterIntoPackedElements(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{2}, Contiguity: []Tri{Yes}, DType: dtype.Float4E2M1FN})
	require.NoError(t, err)
	index := define(t, f, dense(array(dtype.Int, []int64{1}, 0)), true)[0]
	_, err = f.Call(ScatterOp, []Given{givenVal(x), index, givenInt(1), givenInt(0)}, nil)
	require.EqualError(t, err, "scatter(): arg must be of any type, got Float4_e2m1fn")
}

func TestIndexPutAccumulate(t *testing.T) {
	acc := array(dtype.Float, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	index := array(dtype.Int, []int64{5}, 2, 0, 3, 2, -1)
	value := array(dtype.Float, []int64{5, 2}, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
	want := []float64{31, 42, 3, 4, 85, 106}
	requireArray(t, evalCall(t, "index_put_accumulate", dense(acc, index, value), nil)[0], dtype.Float, []int64{3, 2}, want...)
	column := array(dtype.Int, []int64{5, 1}, 2, 0, 3, 2, -1)
	requireArray(t, evalCall(t, "index_put_accumulate", dense(acc, column, value), nil)[0], dtype.Float, []int64{3, 2}, want...)
	// A sum is rounded once: one by one, ones would be lost beside 2048.
	half := dense(array(dtype.Half, []int64{1}, 2048), array(dtype.Int, []int64{4}, 0, 0, 0, 0), array(dtype.Half, []int64{4}, 1, 1, 1, 1))
	requireArray(t, evalCall(t, "index_put_accumulate", half, nil)[0], dtype.Half, []int64{1}, 2052)
	for _, c := range []struct {
		operands []operandCase
		want     string
	}{
		{dense(array(dtype.Float, nil, 1), index, value), "index_put_accumulate(): acc has no dimensions; it must have at least one"},
		{dense(acc, value, value), "index_put_accumulate(): the size of dimension 1 of index must be 1, got 2"},
		{dense(acc, array(dtype.Float, []int64{5}, 0, 0, 0, 0, 0), value), "index_put_accumulate(): index must be of integer type, got Float"},
		{dense(acc, index, array(dtype.Float, []int64{5}, 1, 2, 3, 4, 5)), "index_put_accumulate(): value has 1 dimension and acc 2; they must have the same number"},
		{dense(acc, index, array(dtype.Double, []int64{5, 2}, value.F...)), "index_put_accumulate(): value is Double and acc is Float; cast one of them"},
		{dense(acc, array(dtype.Int, []int64{4}, 0, 0, 0, 0), value), "index_put_accumulate(): the size of dimension 0 of value must be that of index, got 5 and 4"},
	} {
		require.EqualError(t, callError(t, "index_put_accumulate", c.operands, nil), c.want)
	}
}
