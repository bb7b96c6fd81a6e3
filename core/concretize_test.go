package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// concretized parses text, binds tensors of the shapes and integers, and
// concretises it.
func concretized(t *testing.T, text string, inputs ...any) (*Fusion, []Decision, *Fusion) {
	t.Helper()
	f, err := Parse(text)
	require.NoError(t, err)
	f.Freeze()
	var values []InputValue
	for _, x := range inputs {
		switch x := x.(type) {
		case []int64:
			values = append(values, InputValue{Tensor: true, DType: dtype.Float, Sizes: x})
		case int:
			values = append(values, InputValue{Scalar: scalar.Value{Type: dtype.Int, I: int64(x)}})
		}
	}
	b, err := f.Bind(values)
	require.NoError(t, err)
	before := f.String()
	g, decisions, err := f.Concretize(b)
	require.NoError(t, err)
	require.Equal(t, before, f.String())
	require.True(t, g.Frozen())
	require.NoError(t, g.Verify())
	again, err := g.Bind(values)
	require.NoError(t, err)
	for _, id := range g.Order() {
		for _, v := range g.Expr(id).Out {
			for _, a := range g.Axes(v) {
				require.NotEqual(t, Symbolic, g.Axis(a).Kind, g.Name(v))
			}
			want, err := b.Shape(v)
			require.NoError(t, err)
			got, err := again.Shape(v)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, f.Name(v), g.Name(v))
		}
	}
	return g, decisions, f
}

func TestConcretize(t *testing.T) {
	const expand = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
$0 = scalar i64
%1 = neg %0
%2 = expand %1 shape=[index($0), %0.1]
output %2
`
	for _, test := range []struct {
		name, text string
		inputs     []any
		want       string
		decisions  int
	}{
		{"expanded", expand, []any{[]int64{1, 5}, 3}, `%0 = tensor f32 [1, -1] contiguity=[none, yes]
$0 = scalar i64
%1 = neg %0
%2 = expand %1 shape=[3, %0.1]
output %2
`, 2},
		{"kept", expand, []any{[]int64{3, 5}, 3}, `%0 = tensor f32 [3, -1] contiguity=[yes, yes]
$0 = scalar i64
%1 = neg %0
%2 = expand %1 shape=[3, %0.1]
output %2
`, 2},
		{"reshape", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
$0 = scalar i64
$1 = i.mul %0.0, %0.1 : index
$2 = i.truncdiv $1, index($0) : index
%2 = reshape %0 new_shape=[index($0), $2]
output %2
output %1
`, []any{[]int64{4, 6}, []int64{2}, 8}, `%0 = tensor f32 [4, 6] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
$0 = scalar i64
%2 = reshape %0 new_shape=[8, 3]
output %2
output %1
`, 3},
		{"values stay", `$0 = scalar i64
%0 = full shape=[index($0)] fill_value=$0 dtype=i64
output %0
`, []any{1}, `$0 = scalar i64
%0 = full shape=[1] fill_value=$0 dtype=i64
output %0
`, 1},
		{"nothing to decide", `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = reshape %0 new_shape=[%0.0, 2, 4]
output %1
`, []any{[]int64{1, 8}}, "", 0},
		{"one element", `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[no, no]
%2 = sum %0 dims=[0] keepdim=false dtype=f32
%3 = add %2, %1
output %3
`, []any{[]int64{4, 1, 6}, []int64{1, 6}}, `%0 = tensor f32 [-1, 1, -1] contiguity=[yes, none, yes]
%1 = tensor f32 [-1, -1] contiguity=[no, no]
%2 = sum %0 dims=[0] keepdim=false dtype=f32
%3 = add %2, %1
output %3
`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, decisions, f := concretized(t, test.text, test.inputs...)
			require.Len(t, decisions, test.decisions)
			if test.decisions == 0 {
				require.Same(t, f, g)
				return
			}
			want, err := Parse(test.want)
			require.NoError(t, err)
			require.Equal(t, want.String(), g.String())
			for i := 1; i < len(decisions); i++ {
				require.Less(t, decisions[i-1].Symbol, decisions[i].Symbol)
			}
		})
	}
}

// TestConcretizeDeadCode leaves alone what outputs do not need, even where the
// sizes allow no meaning for it.
func TestConcretizeDeadCode(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1}, Contiguity: []Tri{Yes}, DType: dtype.Float})
	require.NoError(t, err)
	n, err := f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	size := f.Scalars().AsIndex(f.Val(n).Scalar)
	_, err = f.Apply(ExpandOp, TensorOf(x), ScalarsOf(size))
	require.NoError(t, err)
	full, err := f.Apply(FullOp, ScalarsOf(size), ScalarOf(f.Scalars().Int(0)), DTypeOf(dtype.Float))
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(full[0], NoVal))
	f.Freeze()
	b, err := f.Bind([]InputValue{{Tensor: true, DType: dtype.Float, Sizes: []int64{5}}, {Scalar: scalar.Value{Type: dtype.Int, I: 3}}})
	require.NoError(t, err)
	g, decisions, err := f.Concretize(b)
	require.NoError(t, err)
	require.Len(t, decisions, 1)
	require.NoError(t, g.Verify())
}

func TestWithOutputs(t *testing.T) {
	f := NewFusion()
	for range 2 {
		low, high := f.Scalars().Value(scalar.Value{Type: dtype.Double}), f.Scalars().Value(scalar.Value{Type: dtype.Double, Re: 1})
		v, err := f.Apply(Lookup("uniform"), ScalarOf(low), ScalarOf(high), ScalarsOf(f.Scalars().Int(3)), Arg{}, Arg{}, DTypeOf(dtype.Float))
		require.NoError(t, err)
		require.NoError(t, f.AddOutput(v[0], NoVal))
	}
	f.Freeze()
	g := f.WithOutputs(f.Outputs()[1:])
	require.NoError(t, g.Verify())
	require.Len(t, g.Outputs(), 1)
	require.Equal(t, 1, g.Expr(g.Order()[0]).Stream, "as in the whole fusion")
}
