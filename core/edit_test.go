package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// edited is the fusion that the tests of edits start from, and its tensors.
func edited(t *testing.T, text string) (*Fusion, func(number int) ValID) {
	f, err := Parse(text)
	require.NoError(t, err)
	f = f.Clone()
	return f, func(number int) ValID {
		for i := range f.vals {
			if f.vals[i].Tensor && f.vals[i].Number == number {
				return ValID(i)
			}
		}
		return NoVal
	}
}

const chainText = `%0 = tensor f32 [3, 10] contiguity=[yes, yes]
%1 = exp %0
%2 = neg %1
%3 = add %1, %2
output %3
output %1
`

func evalOnes(t *testing.T, f *Fusion) []*Array {
	require.NoError(t, f.Verify())
	x := NewArray(f.vals[f.inputs[0]].DType, []int64{3, 10})
	for i := range x.F {
		x.F[i] = float64(i%7) - 2
	}
	out, err := f.Eval([]*Array{x}, nil, RandomState{})
	require.NoError(t, err)
	return out
}

// Copies before and after a tensor that is an output and is read twice.
func TestCopies(t *testing.T) {
	f, v := edited(t, chainText)
	want := evalOnes(t, f)
	before, err := f.CopyBefore(v(1))
	require.NoError(t, err)
	require.Equal(t, ExpOp, f.exprs[f.vals[before].Def].Op)
	require.Equal(t, SetOp, f.exprs[f.vals[v(1)].Def].Op)
	require.Equal(t, want, evalOnes(t, f))
	after, err := f.CopyOf(v(1))
	require.NoError(t, err)
	require.NoError(t, f.Redirect(f.vals[v(2)].Def, v(1), after))
	require.Equal(t, 1, f.vals[after].Uses)
	require.Equal(t, want, evalOnes(t, f))
	_, err = f.CopyBefore(v(0))
	require.ErrorContains(t, err, "no definition")
}

// A sum over 10, split by 4 into 3 rows with holes, in both orders.
func TestReduceInSteps(t *testing.T) {
	for _, text := range []string{
		"%1 = sum %0 dims=[1] keepdim=false dtype=f32\noutput %1\n",
		"%1, %2, %3 = welford %0 dims=[1]\noutput %1\noutput %2\noutput %3\n",
	} {
		for _, keepInner := range []bool{true, false} {
			f, v := edited(t, "%0 = tensor f32 [3, 10] contiguity=[yes, yes]\n"+text)
			want := evalOnes(t, f)
			id := f.vals[v(1)].Def
			var partial []Domain
			for range f.exprs[id].Out {
				i, r := f.iterAxis(f.scalars.Int(3)), f.reduceAxis(f.scalars.Int(10))
				outer, inner := f.axes[f.reduceAxis(f.scalars.Int(3))], f.axes[f.iterAxis(f.scalars.Int(4))]
				if !keepInner {
					outer.Kind, inner.Kind = Iter, Reduce
				}
				s := f.AddTransform(Transform{Kind: Split, In: [2]AxisID{r, NoAxis}, Factor: f.scalars.Int(4), Inner: true}, outer, inner)
				partial = append(partial, Domain{Root: []AxisID{i, r}, Logical: []AxisID{i, f.transforms[s].Out[0], f.transforms[s].Out[1]}})
			}
			_, err := f.ReduceInSteps(id, partial, []int64{1})
			require.NoError(t, err)
			got := evalOnes(t, f)
			for k := range want {
				require.InDeltaSlice(t, want[k].F, got[k].F, 1e-5)
				require.Equal(t, want[k].I, got[k].I)
			}
		}
	}
}
