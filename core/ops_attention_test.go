package core

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// pattern is an array of ((factor*i mod 11) - 5) / divisor.
func pattern(factor int, divisor float64, shape ...int64) *Array {
	values := make([]float64, NumElements(shape))
	for i := range values {
		values[i] = float64((factor*i)%11-5) / divisor
	}
	return array(dtype.Double, shape, values...)
}

func attentionOperands() []operandCase {
	return dense(pattern(7, 4, 1, 2, 3, 2), pattern(5, 4, 1, 1, 4, 2), pattern(3, 2, 1, 1, 4, 3))
}

// attentionBias is an additive bias, and a mask that hides one key of one
// position and all of another.
func attentionBias() (bias, mask *Array) {
	return pattern(2, 8, 3, 4), array(dtype.Bool, []int64{3, 4}, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1)
}

// requireNear compares with values given to nine digits.
func requireNear(t *testing.T, want []float64, got *Array) {
	t.Helper()
	require.Len(t, got.F, len(want))
	for i := range want {
		require.True(t, want[i] == got.F[i] || math.Abs(want[i]-got.F[i]) < 1e-8, "element %d: want %v, got %v", i, want[i], got.F[i])
	}
}

// evalAttentionCall evaluates sdpfa_fwd with optional bias and mask.
func evalAttentionCall(t *testing.T, bias, mask *Array, keywords ...Keyword) []*Array {
	t.Helper()
	operands := attentionOperands()
	var results [2][]*Array
	for i := range results {
		f := NewFusion()
		all := operands
		kw := keywords
		given := define(t, f, operands, i == 0)
		add := func(name string, x *Array) {
			if x != nil {
				kw = append(slices.Clip(kw), named(name, define(t, f, dense(x), i == 0)[0]))
				all = append(slices.Clip(all), operandCase{Array: x})
			}
		}
		add("bias", bias)
		add("mask", mask)
		out, err := f.Call(SdpfaFwdOp, given, kw)
		require.NoError(t, err)
		results[i] = evalOutputs(t, f, all, out)
	}
	for k := range results[0] {
		requireEqualArrays(t, results[0][k], results[1][k])
	}
	return results[0]
}

// The expected values are those of torch in float64; two heads of query go with
// one of key and value.
func TestAttention(t *testing.T) {
	bias, mask := attentionBias()
	for _, c := range []struct {
		name           string
		bias, mask     *Array
		keywords       []Keyword
		out, logsumexp []float64
	}{
		{"plain", nil, nil, nil,
			[]float64{-1.62277905, -0.533207228, -0.0368762351, -0.82504116, -0.296481737, -0.392471171, 0.437799523, 0.508763932, -1.25769255,
				0.889449952, 0.360580364, -1.26419406, -1.3917801, -0.451529311, -0.148047856, 0.0353168224, 0.487782856, -1.15810758},
			[]float64{1.40205973, 1.07081066, 1.70130168, 1.88115278, 1.26854853, 1.65830929}},
		{"causal and scaled", nil, nil, []Keyword{named("is_causal", givenBool(true)), named("scale", givenFloat(0.5))},
			[]float64{-2.5, -1.0, 0.5, -1.08677255, -1.31405054, 0.185949455, 0.512384064, -0.0017971856, -0.645881965,
				-2.5, -1.0, 0.5, -1.56897678, -1.20689405, 0.293105951, 0.0839718084, -0.0454894698, -0.510994954},
			[]float64{0.78125, 0.689451335, 1.25453531, -0.625, 0.856798458, 1.21649864}},
		{"bias", bias, nil, []Keyword{named("dropout_p", givenFloat(0)), named("is_causal", givenBool(false))},
			[]float64{-1.28687433, -0.231550614, -0.339239891, -0.908498903, -0.799094874, -0.139163392, 0.690881915, 0.543483334, -1.08682684,
				0.814935381, 0.681257094, -1.46786379, -1.52533261, -0.810653449, 0.0652464522, 0.286061971, 0.522785242, -0.986805964},
			[]float64{0.946914112, 1.33710307, 1.80910406, 1.72279748, 1.55494503, 1.72103917}},
		{"additive mask", nil, bias, nil,
			[]float64{-1.28687433, -0.231550614, -0.339239891, -0.908498903, -0.799094874, -0.139163392, 0.690881915, 0.543483334, -1.08682684,
				0.814935381, 0.681257094, -1.46786379, -1.52533261, -0.810653449, 0.0652464522, 0.286061971, 0.522785242, -0.986805964},
			[]float64{0.946914112, 1.33710307, 1.80910406, 1.72279748, 1.55494503, 1.72103917}},
		{"mask", nil, mask, nil,
			[]float64{-1.91492359, -0.414923587, 0.000470529938, 0, 0, 0, 0.437799523, 0.508763932, -1.25769255,
				0.240335413, 1.74033541, -1.71086414, 0, 0, 0, 0.0353168224, 0.487782856, -1.15810758},
			[]float64{1.32450534, -inf, 1.70130168, 1.420885, -inf, 1.65830929}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := evalAttentionCall(t, c.bias, c.mask, c.keywords...)
			require.Equal(t, []int64{1, 2, 3, 3}, out[0].Shape)
			require.Equal(t, []int64{1, 2, 3}, out[1].Shape)
			requireNear(t, c.out, out[0])
			requireNear(t, c.logsumexp, out[1])
			requireArray(t, out[2], dtype.UInt64, nil, 0)
			requireArray(t, out[3], dtype.UInt64, nil, 0)
		})
	}
}

func TestAttentionTypesAndSizes(t *testing.T) {
	ones := func(x dtype.Type, shape ...int64) *Array { return countingFrom(x, 1, shape...) }
	out := evalCall(t, "sdpfa_fwd", dense(ones(dtype.BFloat16, 1, 1, 1, 2), ones(dtype.BFloat16, 1, 1, 1, 2), ones(dtype.BFloat16, 1, 1, 1, 2)), nil)
	requireArray(t, out[0], dtype.BFloat16, []int64{1, 1, 1, 2}, 1, 2)
	requireArray(t, out[1], dtype.Float, []int64{1, 1, 1}, 5/math.Sqrt2)
	// No keys: nothing is seen. No features: all scores are 0.
	out = evalCall(t, "sdpfa_fwd", dense(ones(dtype.Float, 1, 1, 2, 2), ones(dtype.Float, 1, 1, 0, 2), ones(dtype.Float, 1, 1, 0, 1)), nil)
	requireArray(t, out[0], dtype.Float, []int64{1, 1, 2, 1}, 0, 0)
	requireArray(t, out[1], dtype.Float, []int64{1, 1, 2}, -inf, -inf)
	out = evalCall(t, "sdpfa_fwd", dense(ones(dtype.Float, 1, 1, 1, 0), ones(dtype.Float, 1, 1, 2, 0), ones(dtype.Float, 1, 1, 2, 1)), nil)
	requireArray(t, out[0], dtype.Float, []int64{1, 1, 1, 1}, 1.5)
	requireArray(t, out[1], dtype.Float, []int64{1, 1, 1}, math.Ln2)
	for _, shape := range [][]int64{{0, 2, 2, 2}, {2, 0, 2, 2}, {2, 2, 0, 2}} {
		x := ones(dtype.Half, shape...)
		require.Empty(t, evalCall(t, "sdpfa_fwd", dense(x, x, x), nil)[0].F)
	}
}

// Scalars known at run time only work, and a probability above 0 is refused.
func TestAttentionAtRunTime(t *testing.T) {
	f := NewFusion()
	operands := attentionOperands()
	given := define(t, f, operands, true)
	var keywords []Keyword
	for _, p := range []struct {
		name string
		t    dtype.Type
	}{{"dropout_p", dtype.Double}, {"is_causal", dtype.Bool}, {"scale", dtype.Double}} {
		v, err := f.DefineScalar(p.t)
		require.NoError(t, err)
		keywords = append(keywords, named(p.name, givenVal(v)))
	}
	out, err := f.Call(SdpfaFwdOp, given, keywords)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(out[0], NoVal))
	require.NoError(t, f.Verify())
	run := func(dropout float64) ([]*Array, error) {
		return f.Eval([]*Array{operands[0].Array, operands[1].Array, operands[2].Array, nil, nil, nil},
			[]scalar.Value{{}, {}, {}, {Type: dtype.Double, Re: dropout}, boolValue(true), {Type: dtype.Double, Re: 0.5}}, RandomState{})
	}
	got, err := run(0)
	require.NoError(t, err)
	requireEqualArrays(t, evalAttentionCall(t, nil, nil, named("is_causal", givenBool(true)), named("scale", givenFloat(0.5)))[0], got[0])
	_, err = run(0.25)
	require.EqualError(t, err, "sdpfa_fwd(): dropout_p is 0.25, and dropout in attention is not supported; use 0")
	require.IsType(t, &Unsupported{}, err)
	_, err = run(nan)
	require.EqualError(t, err, "sdpfa_fwd(): dropout_p is NaN; a probability is from 0 to 1")
}

func TestAttentionErrors(t *testing.T) {
	x := func(shape ...int64) *Array { return countingFrom(dtype.Float, 0, shape...) }
	q := x(1, 2, 3, 4)
	for _, c := range []struct {
		operands []operandCase
		keywords []Keyword
		want     string
	}{
		{dense(x(2, 3, 4), q, q), nil, "sdpfa_fwd(): query has 3 dimensions; it must have 4: batch, heads, positions, features"},
		{dense(q, countingFrom(dtype.Half, 0, 1, 2, 3, 4), q), nil, "sdpfa_fwd(): query is Float and key is Half; cast one of them"},
		{dense(countingFrom(dtype.Int, 0, 1, 2, 3, 4), q, q), nil, "sdpfa_fwd(): query must be of floating-point type, got Int"},
		{dense(q, x(2, 2, 3, 4), q), nil, "sdpfa_fwd(): the batch size of key must be that of query, got 1 and 2"},
		{dense(q, q, x(1, 2, 5, 4)), nil, "sdpfa_fwd(): the number of positions of value must be that of key, got 3 and 5"},
		{dense(q, x(1, 2, 3, 5), q), nil, "sdpfa_fwd(): the number of features of key must be that of query, got 4 and 5"},
		{dense(q, x(1, 3, 3, 4), x(1, 3, 3, 4)), nil, "sdpfa_fwd(): the number of heads of query must be a multiple of that of key, got 2 and 3"},
		{dense(q, x(1, 0, 3, 4), x(1, 0, 3, 4)), nil, "sdpfa_fwd(): the number of heads of query must be a multiple of that of key, got 2 and 0"},
		{dense(q, q, q, x(1, 2, 3, 2)), nil, "sdpfa_fwd(): the size of dimension 3 of bias must be that of the scores, or 1 by the definition, got 2 and 3"},
		{dense(q, q, q, countingFrom(dtype.Int, 0, 3, 3)), nil, "sdpfa_fwd(): bias must be of floating-point type, got Int"},
		{dense(q, q, q, x(3), countingFrom(dtype.Int, 0, 3, 3)), nil, "sdpfa_fwd(): mask must be of bool or floating-point type, got Int"},
		{dense(q, q, q, x(1, 1, 1, 1, 3)), nil, "sdpfa_fwd(): bias has 5 dimensions; it must broadcast to the 4 of the scores"},
		{dense(q, q, q), []Keyword{named("dropout_p", givenFloat(1.5))}, "sdpfa_fwd(): dropout_p is 1.5; a probability is from 0 to 1"},
		{dense(q, q, q), []Keyword{named("is_causal", givenInt(1))}, "sdpfa_fwd(): is_causal is of type Int and must be Bool in an expression"},
	} {
		require.EqualError(t, callError(t, "sdpfa_fwd", c.operands, nil, c.keywords...), c.want)
	}
}

// The expected gradients are those of torch's autograd in float64.
func TestAttentionGradients(t *testing.T) {
	grad := pattern(4, 4, 1, 2, 3, 3)
	for _, c := range []struct {
		name       string
		causal     bool
		scale      Given
		dq, dk, dv []float64
	}{
		{"plain", false, Given{},
			[]float64{-1.89395171, 0.440326221, -2.19929694, 0.462666008, -0.921883459, 0.22248264, -0.173345871, -0.319166635, 0.749274568, -0.286245683, 0.8164443, -0.445293335},
			[]float64{-1.00276489, 1.61339997, -0.0408028085, -0.0469802841, 0.499029347, -0.851975162, 0.544538356, -0.714444527},
			[]float64{-1.773171, 0.630400737, 0.335640561, -0.674659016, 0.497533186, -0.148350995, -0.655224093, 0.532286838, -0.105592608, -0.646945889, 0.589779239, -0.0816969585}},
		{"causal and scaled", true, givenFloat(0.5),
			[]float64{0, 0, -1.48103175, 0.148103175, -1.01026046, 0.144331745, 0, 0, -0.179472236, 0.0179472236, 0.594715696, -0.220998936},
			[]float64{-0.188876441, 0.850248142, 0.375088319, -0.234139293, -0.186211877, -0.616108849, 0, 0},
			[]float64{-2.81718967, 1.25218705, -0.561994217, -0.640435137, 0.542989917, 0.342725697, -0.292375197, 0.454823033, 0.21926852, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, static := range []bool{true, false} {
				f := NewFusion()
				operands := append(attentionOperands(), operandCase{Array: grad})
				given := define(t, f, operands, static)
				forward, err := f.Call(SdpfaFwdOp, given[:3], []Keyword{named("is_causal", givenBool(c.causal)), named("scale", c.scale)})
				require.NoError(t, err)
				args := []Given{given[3], given[0], given[1], given[2], givenVal(forward[0]), givenVal(forward[1]), givenFloat(0), givenBool(c.causal),
					givenVal(forward[2]), givenVal(forward[3]), c.scale}
				out, err := f.Call(SdpfaBwdOp, args, nil)
				require.NoError(t, err)
				got := evalOutputs(t, f, operands, out)
				requireNear(t, c.dq, got[0])
				requireNear(t, c.dk, got[1])
				requireNear(t, c.dv, got[2])
				require.Equal(t, []int64{1, 1, 4, 3}, got[2].Shape)
			}
		})
	}
}

func TestAttentionGradientErrors(t *testing.T) {
	x := func(shape ...int64) *Array { return countingFrom(dtype.Half, 0, shape...) }
	q, lse, seed := x(1, 2, 3, 4), countingFrom(dtype.Float, 0, 1, 2, 3), countingFrom(dtype.UInt64, 0)
	call := func(grad, output, lse, seed *Array) error {
		f := NewFusion()
		g := define(t, f, dense(grad, q, q, q, output, lse, seed), true)
		_, err := f.Call(SdpfaBwdOp, []Given{g[0], g[1], g[2], g[3], g[4], g[5], {}, {}, g[6], g[6]}, nil)
		return err
	}
	require.NoError(t, call(q, q, lse, seed))
	require.EqualError(t, call(x(1, 2, 3, 5), q, lse, seed), "sdpfa_bwd(): the size of dimension 3 of grad_output must be that of the forward result, got 5 and 4")
	require.EqualError(t, call(q, x(2, 3, 4), lse, seed), "sdpfa_bwd(): output has 3 dimensions; it must have 4")
	require.EqualError(t, call(q, q, x(1, 2, 3), seed), "sdpfa_bwd(): logsumexp is Half and must be Float beside a query of Half")
	require.EqualError(t, call(q, q, lse, lse), "sdpfa_bwd(): philox_seed must be of integer type, got Float")
}
