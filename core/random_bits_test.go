package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// withBits returns a fusion of the given body, and what CompareBits makes of it.
func withBits(t *testing.T, body string) (f, g *Fusion) {
	t.Helper()
	f, err := Parse("%0 = tensor f32 [-1] contiguity=[yes]\n" + body)
	require.NoError(t, err)
	f.Freeze()
	g = f.Clone()
	require.NoError(t, g.CompareBits())
	g.Freeze()
	require.NoError(t, g.Verify())
	return f, g
}

func TestCompareBits(t *testing.T) {
	const drawn = "%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32\n"
	for _, x := range []struct{ name, body, want string }{
		{"less", drawn + "%2 = lt %1, 0.25:f64\noutput %2\n", "lt %1, 4194304"},
		{"not more", drawn + "%2 = le %1, 0.25:f64\noutput %2\n", "lt %1, 4194305"},
		{"greater", drawn + "%2 = gt %1, 0.25:f64\noutput %2\n", "ge %1, 4194305"},
		{"not less", drawn + "%2 = ge %1, 0.25:f64\noutput %2\n", "ge %1, 4194304"},
		{"exchanged", drawn + "%2 = lt 0.25:f64, %1\noutput %2\n", "ge %1, 4194305"},
		{"an integer", drawn + "%2 = lt %1, 1:i64\noutput %2\n", "lt %1, 16777216"},
		{"none", drawn + "%2 = lt %1, 0:i64\noutput %2\n", "ge %1, 16777216"},
		{"NaN", drawn + "%2 = ge %1, nan:f64\noutput %2\n", "ge %1, 16777216"},
		{"downwards", "%1 = uniform minval=1:f64 maxval=0:f64 shape=[%0.0] dtype=f32\n%2 = gt %1, 0.75:f64\noutput %2\n", "lt %1, 4194304"},
		{"equal", drawn + "%2 = eq %1, 0.25:f64\noutput %2\n", ""},
		{"read twice", drawn + "%2 = lt %1, 0.25:f64\n%3 = where %2, %1, 0:f64\noutput %3\n", ""},
		{"an output", drawn + "%2 = lt %1, 0.25:f64\noutput %2\noutput %1\n", ""},
		{"a tensor", drawn + "%2 = lt %1, %0\noutput %2\n", ""},
		{"a scalar", "$0 = scalar f64\n" + drawn + "%2 = lt %1, $0\noutput %2\n", ""},
		{"another type", "%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f64\n%2 = lt %1, 0.25:f64\noutput %2\n", ""},
		{"normal", "%1 = normal mean=0:f64 std=1:f64 shape=[%0.0] dtype=f32\n%2 = lt %1, 0.25:f64\noutput %2\n", ""},
		{"not finite", "%1 = uniform minval=0:f64 maxval=inf:f64 shape=[%0.0] dtype=f32\n%2 = lt %1, 0.25:f64\noutput %2\n", ""},
		{"too long", "%1 = uniform minval=-1e308:f64 maxval=1e308:f64 shape=[%0.0] dtype=f32\n%2 = lt %1, 0.25:f64\noutput %2\n", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, g := withBits(t, x.body)
			if x.want == "" {
				require.Equal(t, f.String(), g.String())
				return
			}
			require.True(t, strings.Contains(g.String(), x.want), g.String())
			require.Contains(t, g.String(), "uniform_bits minval=0:f64 maxval=1.6777216e+07:f64")
			require.Contains(t, f.String(), "uniform minval")
		})
	}
}

// TestCompareBitsExactly compares what a comparison of numbers and one of bits say, around
// where it changes and at bits of chance, for constants with corners and without.
func TestCompareBitsExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	constants := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 0.1, 0.9, 1 - 0x1p-24, 1 - 0x1p-25, 1 + 0x1p-23, 0x1p-24, 0x1p-25, 0x1.8p-24, 0x1p-149, 0x1p-126, -0x1p-149,
		math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 0x1p-1074}
	for range 30 {
		constants = append(constants, r.Float64(), float64(r.Uint32()>>8)*0x1p-24, math.Float64frombits(r.Uint64()))
	}
	intervals := [][2]float64{{0, 1}, {1, 0}, {-1, 1}, {0.25, 0.25}, {1, 1 + 0x1p-20}, {-0x1p-140, 0x1p-140}, {3e38, 4e38}, {-0.3, 5.7}, {0, 0x1p-1074}}
	const last = 1<<bitsOfFloat - 1
	for k, c := range constants {
		for j, in := range intervals {
			op, operands := []*OpInfo{LtOp, LeOp, GtOp, GeOp}[(k+j)%4], []string{"%1", floatText(c) + ":f64"}
			side := (k / 4) % 2
			if side == 1 {
				slices.Reverse(operands)
			}
			f, g := withBits(t, fmt.Sprintf("%%1 = uniform minval=%s:f64 maxval=%s:f64 shape=[%%0.0] dtype=f32\n%%2 = %s %s\noutput %%2\n",
				floatText(in[0]), floatText(in[1]), op.Name, strings.Join(operands, ", ")))
			of := g.Expr(g.Val(g.Outputs()[0].Val).Def)
			n, isConstant := g.Scalars().ConstInt(of.Args[1].Scalar)
			require.True(t, isConstant && (of.Op == LtOp || of.Op == GeOp), g.String())
			at := []int64{0, 1, n - 2, n - 1, n, n + 1, last - 1, last}
			for range 20 {
				at = append(at, r.Int64N(last))
			}
			for _, bits := range at {
				if bits < 0 || bits > last {
					continue
				}
				x := scalar.Value{Type: dtype.Float, Re: between(dtype.Float, in[0], in[1], float64(bits)*0x1p-24)}
				compared := []scalar.Value{x, ConvertScalar(dtype.Float, scalar.Value{Type: dtype.Double, Re: c})}
				if side == 1 {
					slices.Reverse(compared)
				}
				want, err := EvalScalar(op, dtype.Bool, compared)
				require.NoError(t, err)
				require.Equal(t, want.I != 0, (bits < n) == (of.Op == LtOp), "%d bits, %v%v", bits, f, g)
			}
		}
	}
}

// TestCompareBitsEverywhere has all numbers that there are.
func TestCompareBitsEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at 2^24 numbers several times")
	}
	for _, c := range []float64{0.1, 0.5, 1 - 0x1p-24} {
		for _, op := range []*OpInfo{LtOp, GtOp} {
			_, g := withBits(t, fmt.Sprintf("%%1 = uniform minval=0:f64 maxval=1:f64 shape=[%%0.0] dtype=f32\n%%2 = %s %%1, %s:f64\noutput %%2\n", op.Name, floatText(c)))
			of := g.Expr(g.Val(g.Outputs()[0].Val).Def)
			n, _ := g.Scalars().ConstInt(of.Args[1].Scalar)
			wrong, limit := 0, float32(c)
			for bits := range int64(1 << bitsOfFloat) {
				x := float32(bits) * 0x1p-24
				if (op == LtOp && x < limit || op == GtOp && x > limit) != ((bits < n) == (of.Op == LtOp)) {
					wrong++
				}
			}
			require.Zero(t, wrong, "%s %g", op.Name, c)
		}
	}
}

// TestCompareBitsEvaluated: the evaluator has the same results, of the same numbers.
func TestCompareBitsEvaluated(t *testing.T) {
	const n = 5000
	for _, seed := range []string{"", " rng_seed=7 rng_offset=8"} {
		f, g := withBits(t, "%1 = uniform minval=-1:f64 maxval=3:f64 shape=[%0.0]"+seed+" dtype=f32\n%2 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32\n"+
			"%3 = le %2, 0.3:f64\n%4 = where %3, %1, 2:f64\n%5 = gt 0.5:f64, %4\noutput %3\noutput %5\n")
		x := NewArray(dtype.Float, []int64{n})
		random := RandomState{Seed: 5, Offset: 100}
		want, err := f.Eval([]*Array{x}, nil, random)
		require.NoError(t, err)
		got, err := g.Eval([]*Array{x}, nil, random)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NotEqual(t, f.String(), g.String())
	}
}
