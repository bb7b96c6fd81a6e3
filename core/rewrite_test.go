package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// withoutCopies is a rule that lets the operand of set stand for the result.
func withoutCopies(_ *Rewriting, e *Expr, args []Arg) ([]ValID, error) {
	if e.Op == SetOp {
		return []ValID{args[0].Tensor}, nil
	}
	return nil, nil
}

func parsed(t *testing.T, text string) *Fusion {
	f, err := Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return f
}

// No output becomes an input or another output, whatever a rule says.
func TestRewrittenKeepsOutputsApart(t *testing.T) {
	const text = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = set %0
%2 = neg %0
%3 = set %2
%4 = set %3
%5 = exp %4
output %1
output %2
output %3
output %5
output %5
output %5 alias %0
`
	f := parsed(t, text)
	g, n, err := f.Rewritten(Rewrite{Rule: withoutCopies})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, g.Verify())
	require.Equal(t, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = set %0
%2 = neg %0
%3 = set %2
%4 = exp %3
output %1
output %2
output %3
output %4
output %4
output %4 alias %0
`, g.String())
	require.Equal(t, text, f.String())
}

// Names, lines and streams are those of the fusion that was defined, also where
// the order of the text is another one.
func TestRewrittenKeepsNames(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1, 3}, Contiguity: []Tri{Yes, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	_, err = f.DefineScalar(dtype.Double)
	require.NoError(t, err)
	call := func(line int, name string, args ...Given) ValID {
		f.SetLocation(Location{"model.py", line})
		out, err := f.Call(Lookup(name), args, nil)
		require.NoError(t, err)
		return out[0]
	}
	call(1, "exp", givenVal(x)) // needed by nothing
	a := call(2, "rand_like", givenVal(x))
	b := call(3, "rand_like", givenVal(x))
	c := call(4, "set", givenVal(a))
	d := call(5, "sub", givenVal(b), givenVal(c))
	require.NoError(t, f.AddOutput(d, NoVal))
	f.Freeze()
	before, _, err := f.Rewritten(Rewrite{})
	require.NoError(t, err)
	require.Equal(t, f.String(), before.String())
	require.Equal(t, 4, before.NumExprs())
	g, n, err := before.Rewritten(Rewrite{Rule: func(r *Rewriting, e *Expr, args []Arg) ([]ValID, error) {
		if e.Op == SubOp { // y - x is -(x - y)
			v, err := r.Apply(SubOp, args[1], args[0])
			if err != nil {
				return nil, err
			}
			v, err = r.Apply(NegOp, TensorOf(v))
			return []ValID{v}, err
		}
		return withoutCopies(r, e, args)
	}})
	require.NoError(t, err)
	require.NoError(t, g.Verify())
	require.Equal(t, 2, n)
	require.Equal(t, f.Name(d), g.Name(g.Outputs()[0].Val))
	require.Equal(t, f.Name(x), g.Name(g.Inputs()[0]))
	require.Equal(t, f.Name(f.Inputs()[1]), g.Name(g.Inputs()[1]))
	streams := map[int]int{} // by line
	for _, id := range g.Order() {
		e := g.Expr(id)
		if e.Op.Class == Random {
			streams[e.Where.Line] = e.Stream
		} else {
			require.Equal(t, Location{"model.py", 5}, e.Where)
			require.Equal(t, SubOp, e.Called)
		}
	}
	require.Equal(t, map[int]int{3: 0, 2: 1}, streams, "as the text of f says")
	require.Equal(t, f.NumRandom(), g.NumRandom())
}

// What has other axes does not stand for a result: who reads it could be refused.
func TestRewrittenComparesAxes(t *testing.T) {
	f := parsed(t, `%0 = tensor f32 [4] contiguity=[yes]
%1 = tensor f32 [1] contiguity=[none]
%2 = expand %1 shape=[4]
%3 = add %0, %2
%4 = tensor f64 [4] contiguity=[yes]
output %3
`)
	for k, want := range []int{1, 0, 0} {
		g, n, err := f.Rewritten(Rewrite{Rule: func(r *Rewriting, e *Expr, args []Arg) ([]ValID, error) {
			if e.Op != AddOp {
				return nil, nil
			}
			v := []ValID{args[0].Tensor, args[1].Tensor, r.To.Inputs()[2]}[k]
			out, err := r.To.Append(SetOp, []Arg{TensorOf(v)})
			return out, err
		}})
		require.NoError(t, err)
		require.NoError(t, g.Verify())
		require.Equal(t, want, n, "operand %d", k)
	}
}

// Sizes that become constants do so in the inputs, and in all that is made of them.
func TestRewrittenSizes(t *testing.T) {
	f := parsed(t, `%0 = tensor f32 [-1, -1] contiguity=[yes, yes] stride_order=[0, 1]
$0 = scalar f64
$1 = i.mul 2, %0.0 : index
$2 = cast $1 : f64
%1 = full shape=[$1] fill_value=$2 dtype=f32
output %1
output %0
`)
	shape := f.Shape(f.Inputs()[0])
	g, _, err := f.Rewritten(Rewrite{Sizes: map[scalar.ID]int64{shape[0]: 3, shape[1]: 1}})
	require.NoError(t, err)
	require.NoError(t, g.Verify())
	require.Equal(t, `%0 = tensor f32 [3, 1] contiguity=[none, yes] stride_order=[0, 1]
$0 = scalar f64
%1 = full shape=[6] fill_value=6:f64 dtype=f32
output %1
output %0
`, g.String())
}
