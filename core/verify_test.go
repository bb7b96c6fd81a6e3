package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Each rule of the verifier is broken by exactly one change, and reported.
func TestVerifyReports(t *testing.T) {
	const text = `%0 = tensor f32 [-1, 4] contiguity=[yes, yes]
%1 = tensor f32 [-1, 1] contiguity=[yes, none]
$0 = scalar f64
%2 = add %0, %1
%3 = add %2, $0
output %3
output %2 alias %0
`
	valOf := func(f *Fusion, number int) *Val {
		for i := range f.vals {
			if f.vals[i].Tensor && f.vals[i].Number == number {
				return &f.vals[i]
			}
		}
		return nil
	}
	for _, c := range []struct {
		name, want string
		damage     func(f *Fusion)
	}{
		{"scalar id", "wraps expression", func(f *Fusion) { f.vals[f.inputs[2]].Scalar = scalar.ID(f.scalars.Len()) }},
		{"input symbol", "not its own symbol", func(f *Fusion) { f.vals[f.inputs[2]].Scalar = f.scalars.Int(3) }},
		{"input definition", "an input has no definition", func(f *Fusion) { f.vals[f.inputs[0]].Def = 0 }},
		{"definition", "is not a result of expression", func(f *Fusion) { valOf(f, 3).Def = 0 }},
		{"axis id", "has axis", func(f *Fusion) { valOf(f, 3).Domain.Logical = []AxisID{AxisID(len(f.axes)), 0} }},
		{"allocation", "not a permutation", func(f *Fusion) { valOf(f, 3).Domain.Alloc = valOf(f, 2).Domain.Logical }},
		{"axis twice", "an axis twice", func(f *Fusion) {
			a := valOf(f, 3).Domain.Logical[0]
			valOf(f, 3).Domain.Logical = []AxisID{a, a}
		}},
		{"contiguity length", "contiguity flags", func(f *Fusion) { valOf(f, 3).Domain.Contig = []Tri{Yes} }},
		{"contiguity kind", "does not fit its kind", func(f *Fusion) { valOf(f, 3).Domain.Contig = []Tri{Yes, NotApplicable} }},
		{"arity", "arguments for", func(f *Fusion) { f.exprs[0].Args = f.exprs[0].Args[:1] }},
		{"argument kind", "is of kind", func(f *Fusion) {
			f.exprs[0].Args = []Arg{IntOf(3), f.exprs[0].Args[1]}
		}},
		{"order", "depend on their own results", func(f *Fusion) {
			f.exprs[0].Args = []Arg{TensorOf(f.exprs[1].Out[0]), f.exprs[0].Args[1]}
		}},
		{"operand type", "must be", func(f *Fusion) { f.vals[f.inputs[0]].DType = dtype.Half }},
		{"results", "results, want", func(f *Fusion) { f.exprs[1].Out = append(slices.Clone(f.exprs[1].Out), f.exprs[1].Out[0]) }},
		{"requirements", "requirements, want", func(f *Fusion) { f.exprs[0].Requires = nil }},
		{"result type", "is Double, want Float", func(f *Fusion) { valOf(f, 3).DType = dtype.Double }},
		{"rank", "axes, want", func(f *Fusion) {
			valOf(f, 3).Domain.Logical = valOf(f, 3).Domain.Logical[:1]
			valOf(f, 3).Domain.Contig = []Tri{Yes}
		}},
		{"extent", "differs from what is inferred", func(f *Fusion) { f.axes[valOf(f, 3).Domain.Logical[1]].Extent = f.scalars.Int(5) }},
		{"memory order", "memory order", func(f *Fusion) {
			l := valOf(f, 3).Domain.Logical
			valOf(f, 3).Domain.Alloc = []AxisID{l[1], l[0]}
		}},
		{"output", "is not a tensor", func(f *Fusion) { f.outputs[0].Val = f.inputs[2] }},
		{"alias", "its alias is not an input", func(f *Fusion) { f.outputs[1].Alias = f.outputs[0].Val }},
		{"alias twice", "that of another output too", func(f *Fusion) { f.outputs[0].Alias = f.outputs[1].Alias }},
		{"uses", "uses counted", func(f *Fusion) { valOf(f, 2).Uses++ }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse(text)
			require.NoError(t, err)
			require.NoError(t, f.Verify())
			c.damage(f)
			require.ErrorContains(t, f.Verify(), c.want)
		})
	}
}

// A clone is independent of its original.
func TestCloneIsIndependent(t *testing.T) {
	f, err := Parse(example)
	require.NoError(t, err)
	f.Freeze()
	g := f.Clone()
	_, err = g.Apply(AddOp, TensorOf(g.inputs[0]), TensorOf(g.inputs[0]))
	require.NoError(t, err)
	require.NoError(t, g.AddOutput(ValID(g.NumVals()-1), NoVal))
	require.NotEqual(t, f.String(), g.String())
	require.Equal(t, example, f.String())
	require.NoError(t, f.Verify())
	require.NoError(t, g.Verify())
	_, err = f.Apply(AddOp, TensorOf(f.inputs[0]), TensorOf(f.inputs[0]))
	require.ErrorContains(t, err, "the fusion is complete")
}
