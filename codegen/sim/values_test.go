package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// element draws a value of type t, often a special one.
func element(r *rand.Rand, t dtype.Type) scalar.Value {
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, 65504, 3e38}
	x := r.NormFloat64() * 8
	if r.IntN(3) == 0 {
		x = special[r.IntN(len(special))]
	}
	switch t.Class() {
	case dtype.ClassBool:
		return scalar.Value{Type: t, I: int64(r.IntN(2))}
	case dtype.ClassFloat:
		return scalar.Value{Type: t, Re: dtype.Round(t, x)}
	case dtype.ClassComplex:
		return scalar.Value{Type: t, Re: dtype.Round(t.Real(), x), Im: dtype.Round(t.Real(), r.NormFloat64())}
	}
	n := int64(r.IntN(40) - 20)
	if r.IntN(3) == 0 {
		n = int64(r.Uint64())
	}
	return scalar.Value{Type: t, I: dtype.WrapInt(t, n)}
}

func put(t dtype.Type, b []byte, v scalar.Value) {
	switch t.Class() {
	case dtype.ClassFloat:
		dtype.StoreFloat(t, b, v.Re)
	case dtype.ClassComplex:
		dtype.StoreComplex(t, b, complex(v.Re, v.Im))
	default:
		dtype.StoreInt(t, b, v.I)
	}
}

func get(t dtype.Type, b []byte) scalar.Value {
	v := scalar.Value{Type: t}
	switch t.Class() {
	case dtype.ClassFloat:
		v.Re = dtype.LoadFloat(t, b)
	case dtype.ClassComplex:
		c := dtype.LoadComplex(t, b)
		v.Re, v.Im = real(c), imag(c)
	default:
		v.I = dtype.LoadInt(t, b)
	}
	return v
}

// same reports whether a and b are one number, zeros with their signs, or both
// no number.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// TestOperations computes every elementwise row in every type that it takes,
// and compares with its definition exactly.
func TestOperations(t *testing.T) {
	const n = 64
	r := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for _, op := range core.Ops() {
		if op.Class != core.Elementwise {
			continue
		}
		for _, compute := range dtype.All() {
			operands := 0
			for _, p := range op.Params() {
				operands += map[bool]int{true: 1}[p.Kind == core.Operand]
			}
			types := make([]dtype.Type, operands)
			for i := range types {
				if types[i] = compute; i < op.Promote.Skip {
					types[i] = dtype.Bool
				}
			}
			result, err := op.ElementType(types...)
			if err != nil {
				continue
			}
			results := []dtype.Type{result}
			if op == core.CastOp {
				results = nil
				for _, to := range dtype.All() {
					if to.Computes() {
						results = append(results, to)
					}
				}
			}
			for _, result := range results {
				tried++
				checkOperation(t, r, op, types, result, n)
			}
		}
	}
	require.Greater(t, tried, 500)
}

func checkOperation(t *testing.T, r *rand.Rand, op *core.OpInfo, types []dtype.Type, result dtype.Type, n int) {
	t.Helper()
	b := kir.NewBuilder("operation", dtype.Int32)
	i := b.Thread(0, int64(n))
	inputs := make([][]scalar.Value, len(types))
	var arguments []sim.Argument
	var args []kir.ValueID
	for k, in := range types {
		m := zeros(n * in.Size())
		for e := range n {
			v := element(r, in)
			inputs[k] = append(inputs[k], v)
			put(in, m.Data[e*in.Size():], v)
		}
		args = append(args, b.Load(b.Input(fmt.Sprintf("x%d", k), in, b.T.Int(int64(n))), i))
		arguments = append(arguments, pointer(m))
	}
	y := b.Global("y", result, b.T.Int(int64(n)))
	out := room(n * result.Size())
	b.Store(b.Value(kir.Value{Kind: kir.Operation, DType: result, Op: op, Args: args}), y, i)
	require.NoError(t, b.Kernel().Verify(), "%s on %v", op.Name, types)
	report, err := sim.Run(b.Kernel(), append(arguments, pointer(out)), sim.Options{})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	for e := range n {
		var operands []scalar.Value
		for k := range types {
			operands = append(operands, inputs[k][e])
		}
		v, err := core.EvalScalar(op, result, operands)
		require.NoError(t, err)
		got := get(result, out.Data[e*result.Size():])
		require.True(t, same(got.Re, v.Re) && same(got.Im, v.Im) && got.I == v.I, "%s(%v) is %v, not %v", op.Name, operands, v, got)
	}
}

// TestOtherValues: what is no row of the table.
func TestOtherValues(t *testing.T) {
	b := kir.NewBuilder("values", dtype.Int)
	const n = 64
	seed, offset := kir.Argument{Name: "seed", Kind: kir.RandomSeed}, kir.Argument{Name: "offset", Kind: kir.RandomOffset}
	b.Kernel().Arguments = append(b.Kernel().Arguments, seed, offset)
	alpha := b.Scalar("alpha", dtype.Half)
	i, zero := b.Thread(0, n), b.T.Int(0)
	random, fixed := b.Global("random", dtype.Half, b.T.Int(n)), b.Global("fixed", dtype.Double, b.T.Int(n))
	total, scaled := b.Global("total", dtype.Float, b.T.Int(1)), b.Global("scaled", dtype.Half, b.T.Int(n))
	lanes := b.Global("lanes", dtype.Int, b.T.Int(n))
	lo, hi := b.Float(dtype.Double, -1), b.Float(dtype.Double, 3)
	b.Store(b.Value(kir.Value{Kind: kir.Random, DType: dtype.Half, Op: core.UniformOp, Args: []kir.ValueID{lo, hi}, Index: i, Stream: 2}), random, i)
	b.Store(b.Value(kir.Value{Kind: kir.Random, DType: dtype.Double, Op: core.NormalOp, Args: []kir.ValueID{lo, hi}, Index: i, Stream: -1,
		Seed: b.Number(dtype.Int, 5), Offset: b.Number(dtype.Int, 8)}), fixed, i)
	b.Add(kir.AtomicAdd{Dst: b.At(total, zero), Value: b.Index(dtype.Float, i), Old: kir.NoSymbol})
	b.Store(b.Cast(dtype.Half, b.Op(core.MulOp, b.Cast(dtype.Float, alpha), b.Index(dtype.Float, i))), scaled, i)
	b.Store(b.Shuffle(kir.ShuffleDown, b.Index(dtype.Int, i), 3, 8), lanes, i)
	require.NoError(t, b.Kernel().Verify())
	memory := []*sim.Memory{room(2 * n), room(8 * n), zeros(4), room(2 * n), room(8 * n)}
	number := func(t dtype.Type, v scalar.Value) sim.Argument { v.Type = t; return sim.Argument{Number: v} }
	arguments := []sim.Argument{number(dtype.UInt64, scalar.Value{I: 11}), number(dtype.UInt64, scalar.Value{I: 4}),
		number(dtype.Double, scalar.Value{Re: 1.5})}
	for _, m := range memory {
		arguments = append(arguments, pointer(m))
	}
	report, err := sim.Run(b.Kernel(), arguments, sim.Options{})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Equal(t, float64(n*(n-1)/2), dtype.LoadFloat(dtype.Float, memory[2].Data))
	for e := range n {
		require.Equal(t, core.UniformOp.RandomElement(dtype.Half, -1, 3, 11, 4+4*2, int64(e)), dtype.LoadFloat(dtype.Half, memory[0].Data[2*e:]))
		require.Equal(t, core.NormalOp.RandomElement(dtype.Double, -1, 3, 5, 8, int64(e)), dtype.LoadFloat(dtype.Double, memory[1].Data[8*e:]))
		require.Equal(t, 1.5*float64(e), dtype.LoadFloat(dtype.Half, memory[3].Data[2*e:]))
		want := e
		if e%8+3 < 8 {
			want = e + 3
		}
		require.Equal(t, int64(want), dtype.LoadInt(dtype.Int, memory[4].Data[8*e:]))
	}
}

// TestWarpMaximum takes the larger zero, and NaN.
func TestWarpMaximum(t *testing.T) {
	b := kir.NewBuilder("maxima", dtype.Int32)
	x, y := b.Input("x", dtype.Float, b.T.Int(128)), b.Global("y", dtype.Float, b.T.Int(128))
	i := b.Thread(0, 128)
	b.Store(b.WarpMaximum(b.Load(x, i)), y, i)
	require.NoError(t, b.Kernel().Verify())
	zero := float32(math.Copysign(0, -1))
	m := counted(128, func(i int) float32 {
		switch {
		case i < 32:
			return float32(i%7) - 10
		case i == 50:
			return float32(math.NaN())
		case i == 70:
			return 0
		}
		return zero
	})
	out := room(4 * 128)
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(m), pointer(out)}, sim.Options{})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	for i := range 128 {
		want := []float64{-4, math.NaN(), 0, math.Copysign(0, -1)}[i/32]
		got := dtype.LoadFloat(dtype.Float, out.Data[4*i:])
		require.Equal(t, math.IsNaN(want), math.IsNaN(got))
		require.True(t, math.IsNaN(want) || math.Float64bits(want) == math.Float64bits(got), "element %d: %v and %v", i, want, got)
	}
}

// TestDivergence: both sides of a condition, and loops of different length.
func TestDivergence(t *testing.T) {
	b := kir.NewBuilder("divergence", dtype.Int32)
	i, y := b.Thread(0, 64), b.Global("y", dtype.Float, b.T.Int(64))
	r := b.Local("r", dtype.Float)
	add := func(e scalar.ID) { b.Store(b.Op(core.AddOp, b.Load(r), b.Index(dtype.Float, e)), r) }
	b.If(b.T.Eq(b.T.Mod(i, b.T.Int(3)), b.T.Int(0)),
		func() { b.Store(b.Float(dtype.Float, 100), r) },
		func() { b.Store(b.Float(dtype.Float, 200), r) })
	b.For("k", b.T.Int(0), b.T.FloorDiv(i, b.T.Int(4)), b.T.Int(1), kir.UnrollNone, func(k scalar.ID) { add(b.T.Add(k, i)) })
	b.For("m", i, b.T.Int(60), b.T.Add(i, b.T.Int(1)), kir.UnrollNone, add)
	b.Store(b.Load(r), y, i)
	require.NoError(t, b.Kernel().Verify())
	out := room(256)
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(out)}, sim.Options{})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	holds(out, func(i int) float32 {
		want := 200
		if i%3 == 0 {
			want = 100
		}
		for k := range i / 4 {
			want += k + i
		}
		for m := i; m < 60; m += i + 1 {
			want += m
		}
		return float32(want)
	})(t)
}

// TestInPlace: an output may have the memory of an input.
func TestInPlace(t *testing.T) {
	b := kir.NewBuilder("inPlace", dtype.Int32)
	x, y := b.Global("x", dtype.Float, b.T.Int(64)), b.Global("y", dtype.Float, b.T.Int(64))
	i := b.Thread(0, 64)
	b.Store(b.Op(core.NegOp, b.Load(x, i)), y, i)
	m := counted(64, sample)
	report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(m), pointer(m)}, sim.Options{Outputs: []kir.BufferID{y}})
	require.NoError(t, err)
	require.NoError(t, report.Err())
	holds(m, func(i int) float32 { return -sample(i) })(t)

	b.Store(b.Op(core.NegOp, b.Load(x, b.T.Sub(b.T.Int(63), i))), y, i)
	report, err = sim.Run(b.Kernel(), []sim.Argument{pointer(m), pointer(m)}, sim.Options{})
	require.NoError(t, err)
	require.Equal(t, []sim.Kind{sim.Race}, kinds(report))
}

// TestIndices evaluates random index expressions against the table's own
// definition.
func TestIndices(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		b := kir.NewBuilder("indices", dtype.Int)
		n := b.Integer("n", scalar.Range(1, 50))
		y := b.Global("y", dtype.Int, b.T.Int(5), b.T.Int(64))
		i := b.Thread(0, 64)
		var e scalar.ID
		b.Repeat("k", 5, kir.UnrollNone, func(k scalar.ID) {
			e = expression(r, b.T, 4, []scalar.ID{i, n, k})
			b.Store(b.Index(dtype.Int, e), y, k, i)
		})
		require.NoError(t, b.Kernel().Verify())
		out := room(8 * 5 * 64)
		report, err := sim.Run(b.Kernel(), []sim.Argument{integer(7), pointer(out)}, sim.Options{})
		require.NoError(t, err)
		var failed bool
		for k := range 5 {
			for lane := range 64 {
				values := map[string]int64{"n": 7, "tx": int64(lane), "k": int64(k)}
				want, err := b.T.Eval(e, func(s scalar.ID) (scalar.Value, error) {
					return scalar.Value{Type: dtype.Index, I: values[b.Kernel().Symbols[b.T.Tag(s).Val].Name]}, nil
				}, nil, nil)
				if err != nil {
					failed = true
					continue
				}
				require.Equal(t, want.I, dtype.LoadInt(dtype.Int, out.Data[8*(64*k+lane):]), "%s", b.Kernel().Expr(e))
			}
		}
		if failed {
			require.Contains(t, kinds(report), sim.DivisionByZero)
		} else {
			require.NoError(t, report.Err())
		}
	}
}

// expression draws an index expression over leaves.
func expression(r *rand.Rand, t *scalar.Table, depth int, leaves []scalar.ID) scalar.ID {
	if depth == 0 || r.IntN(5) == 0 {
		if k := r.IntN(len(leaves) + 1); k < len(leaves) {
			return leaves[k]
		}
		return t.Int(int64(r.IntN(40) - 8))
	}
	x, y := expression(r, t, depth-1, leaves), expression(r, t, depth-1, leaves)
	switch r.IntN(9) {
	case 0, 1:
		return t.Add(x, y)
	case 2:
		return t.Sub(x, y)
	case 3:
		return t.Mul(x, y)
	case 4:
		return t.FloorDiv(x, y)
	case 5:
		return t.Mod(x, y)
	case 6:
		return t.Min(x, y)
	case 7:
		return t.TruncDiv(x, t.Int(int64(1<<r.IntN(5))))
	}
	return t.Select(t.Lt(x, y), x, t.Int(3))
}
