package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// randomIndex returns a random expression over symbols whose value is small. Of
// the leaves, the first is positive and the third not negative.
func randomIndex(r *rand.Rand, t *scalar.Table, leaves []scalar.ID, depth int) scalar.ID {
	if depth == 0 || r.IntN(8) == 0 {
		if r.IntN(3) == 0 {
			return t.Int(int64(r.IntN(41) - 20))
		}
		return leaves[r.IntN(len(leaves))]
	}
	sub := func() scalar.ID { return randomIndex(r, t, leaves, depth-1) }
	divisor := t.Int(int64(r.IntN(9) + 1))
	switch r.IntN(4) {
	case 0:
		divisor = t.Int(int64(-r.IntN(9) - 1))
	case 1: // of the first and third leaf, which are not negative
		divisor = t.Mul(leaves[0], t.Max(leaves[2], t.Int(1)))
	case 2: // by an argument, in kernels of 32 bits
		divisor = leaves[0]
	}
	switch r.IntN(11) {
	case 0, 1:
		return t.Add(sub(), sub())
	case 2:
		return t.Sub(sub(), sub())
	case 3:
		return t.Mul(sub(), t.Int(int64(r.IntN(9)-4)))
	case 4:
		return t.FloorDiv(sub(), divisor)
	case 5:
		return t.Mod(sub(), divisor)
	case 6:
		return t.TruncDiv(sub(), divisor)
	case 7:
		return t.Rem(sub(), divisor)
	case 8:
		return t.Min(sub(), sub())
	case 9:
		return t.Max(sub(), sub())
	}
	return t.Select(randomCondition(r, t, leaves, depth-1), sub(), sub())
}

func randomCondition(r *rand.Rand, t *scalar.Table, leaves []scalar.ID, depth int) scalar.ID {
	if depth <= 0 || r.IntN(3) == 0 {
		a, b := randomIndex(r, t, leaves, depth/2), randomIndex(r, t, leaves, depth/2)
		return []func(a, b scalar.ID) scalar.ID{t.Lt, t.Le, t.Eq}[r.IntN(3)](a, b)
	}
	sub := func() scalar.ID { return randomCondition(r, t, leaves, depth-1) }
	switch r.IntN(5) {
	case 0, 1:
		return t.And(sub(), sub())
	case 2, 3:
		return t.Or(sub(), sub())
	}
	return t.Not(sub())
}

// TestIndexExpressions runs random expressions in kernels of both index types.
// One leaf is an element of 64 bits, one is a hoisted expression.
func TestIndexExpressions(t *testing.T) {
	const kernelCount, each, threads = 30, 30, 16
	r := rand.New(rand.NewPCG(5, 6))
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	var wants [][]int64
	for n := range kernelCount {
		b := kir.NewBuilder(fmt.Sprintf("indices%d", n), []dtype.Type{dtype.Int32, dtype.Int}[n%2])
		m, k := b.Integer("m", scalar.Range(1, 1000)), b.Integer("k", scalar.Range(-1000, 1000))
		x, y := b.Input("x", dtype.Int, b.T.Int(threads)), b.Global("y", dtype.Int, b.T.Int(threads), b.T.Int(each))
		i := b.Thread(0, threads)
		loaded := b.Let("loaded", b.Load(x, i), scalar.Unknown())
		leaves := []scalar.ID{m, k, i, loaded}
		named := randomIndex(r, b.T, leaves, 3)
		h := b.Symbol("h", kir.HoistedIndex, 0, dtype.Index, scalar.Unknown())
		b.Kernel().Symbols[b.T.Tag(h).Val].Expr = named
		b.Add(kir.Hoist{Symbol: kir.SymbolID(b.T.Tag(h).Val), Expr: named})
		var expressions []scalar.ID
		for range each {
			expressions = append(expressions, randomIndex(r, b.T, append(leaves, named), 5))
		}
		if n%2 == 0 {
			b.Divisor("by", m)
		}
		for column, e := range expressions {
			b.Store(b.Index(dtype.Int, e), y, i, b.T.Int(int64(column)))
		}
		mValue, kValue := r.IntN(1000)+1, r.IntN(2001)-1000
		elements := counted(dtype.Int, threads, func(int) float64 { return float64(r.IntN(2001) - 1000) })
		kernels = append(kernels, b.Kernel())
		arguments := []any{mValue, kValue, memoryOf(elements), room(dtype.Int, threads*each)}
		if by, err := kir.NewDivider(int64(mValue)); n%2 == 0 {
			require.NoError(t, err)
			arguments = append(arguments, int(by))
		}
		launches = append(launches, launchOf(t, b.Kernel(), arguments...))
		var want []int64
		for thread := range threads {
			values := map[scalar.ID]int64{m: int64(mValue), k: int64(kValue), i: int64(thread), loaded: elements[thread].I}
			for _, e := range expressions {
				v, err := b.T.Eval(e, func(s scalar.ID) (scalar.Value, error) {
					return scalar.Value{Type: dtype.Index, I: values[s]}, nil
				}, nil, nil)
				require.NoError(t, err)
				want = append(want, v.I)
			}
		}
		wants = append(wants, want)
	}
	require.NoError(t, build(t, kernels...).Run(launches...))
	for n, want := range wants {
		for j, w := range want {
			got := load(dtype.Int, launches[n].Buffers[1].Bytes, j).I
			require.Equal(t, w, got, "kernel %d, thread %d, column %d\n%v", n, j/each, j%each, kernels[n])
		}
	}
}

// TestRemaindersOfNeighbours: what is small beside a divisor is added behind the
// division, and the remainder wraps.
func TestRemaindersOfNeighbours(t *testing.T) {
	const threads, steps = 64, 8
	b := kir.NewBuilder("neighbours", dtype.Int32)
	m := b.Integer("m", scalar.Range(16, 1000))
	y := b.Global("y", dtype.Int, b.T.Int(threads), b.T.Int(steps))
	i, u := b.Thread(0, threads), b.Thread(1, steps)
	b.Divisor("by", m)
	at := b.T.Add(b.T.Mul(i, b.T.Int(37)), u)
	b.Store(b.Index(dtype.Int, b.T.Mod(at, m)), y, i, u)
	source, err := cuda.Print(b.Kernel(), cuda.Options{Arch: 90})
	require.NoError(t, err)
	require.Contains(t, source.Text, "wrapped(fastMod(")
	kernel := build(t, b.Kernel())
	for _, mValue := range []int64{16, 17, 23, 24, 36, 37, 38, 111, 999, 1000} {
		by, err := kir.NewDivider(mValue)
		require.NoError(t, err)
		l := launchOf(t, b.Kernel(), int(mValue), room(dtype.Int, threads*steps), int(by))
		require.NoError(t, kernel.Run(l))
		for j := range threads * steps {
			require.Equal(t, int64(j/steps*37+j%steps)%mValue, load(dtype.Int, l.Buffers[0].Bytes, j).I, "thread %d, step %d by %d", j/steps, j%steps, mValue)
		}
	}
}

// exact are the ops that are exact in every type, with how CUDA contracts them.
var exact = []*core.OpInfo{core.AddOp, core.SubOp, core.MulOp, core.NegOp, core.AbsOp, core.SignOp, core.MinimumOp, core.MaximumOp, core.ReluOp,
	core.WhereOp, core.EqOp, core.LtOp, core.GeOp, core.NeOp, core.LogicalAndOp, core.LogicalOrOp, core.LogicalNotOp, core.BitwiseAndOp, core.BitwiseOrOp,
	core.BitwiseXorOp, core.BitwiseNotOp, core.BitwiseLeftShiftOp, core.DivOp, core.RemainderOp, core.ClampOp, core.ThresholdOp, core.FracOp, core.FloorOp,
	core.IsNaNOp, core.IsPosInfOp, core.SignbitOp}

// A tree is a random expression of elements and its value in each thread.
type tree struct {
	id     kir.ValueID
	values []scalar.Value
}

// grow adds an op on trees that there are, if it is defined on their types; a
// float is only selected, compared and converted, as sums may be contracted.
func grow(t *testing.T, r *rand.Rand, b *kir.Builder, trees []tree) (tree, bool) {
	op := exact[r.IntN(len(exact))]
	operands := 0
	for _, p := range op.Params() {
		if p.Kind == core.Operand {
			operands++
		}
	}
	args, types := make([]tree, operands), make([]dtype.Type, operands)
	for k := range args {
		args[k] = trees[r.IntN(len(trees))]
		types[k] = b.Kernel().Values[args[k].id].DType
	}
	if compute := types[operands-1]; compute.IsFloat() && (op == core.AddOp || op == core.SubOp || op == core.MulOp || op == core.RemainderOp) {
		return tree{}, false
	}
	result, err := op.ElementType(types...)
	if err != nil {
		return tree{}, false
	}
	ids := make([]kir.ValueID, operands)
	for k := range args {
		ids[k] = args[k].id
	}
	out := tree{id: b.Op(op, ids...)}
	for i := range args[0].values {
		operand := make([]scalar.Value, operands)
		for k := range args {
			operand[k] = args[k].values[i]
		}
		v, err := core.EvalScalar(op, result, operand)
		require.NoError(t, err)
		v.Type = result
		out.values = append(out.values, v)
	}
	return out, true
}

// TestValueExpressions runs random expressions of elements, whose parts are
// used several times, in one statement each.
func TestValueExpressions(t *testing.T) {
	const kernelCount, size, threads = 40, 60, 16
	types := []dtype.Type{dtype.Bool, dtype.Int32, dtype.Int, dtype.UInt64, dtype.Half, dtype.BFloat16, dtype.Float, dtype.Double, dtype.Float8E4M3FN}
	r := rand.New(rand.NewPCG(7, 8))
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	var wants []tree
	for n := range kernelCount {
		b := kir.NewBuilder(fmt.Sprintf("values%d", n), dtype.Int32)
		i := b.Thread(0, threads)
		var trees []tree
		var arguments []any
		for k, dt := range types {
			var values []scalar.Value
			for range threads {
				corners := special(dt)
				values = append(values, corners[r.IntN(len(corners))])
			}
			x := b.Input(fmt.Sprintf("x%d", k), dt, b.T.Int(threads))
			trees = append(trees, tree{b.Load(x, i), values})
			arguments = append(arguments, memoryOf(values))
		}
		for len(trees) < size {
			if r.IntN(4) == 0 { // a cast
				x, to := trees[r.IntN(len(trees))], types[r.IntN(len(types))]
				if b.Kernel().Values[x.id].DType == to {
					continue
				}
				c := tree{id: b.Cast(to, x.id)}
				for _, v := range x.values {
					c.values = append(c.values, core.ConvertScalar(to, v))
				}
				trees = append(trees, c)
			} else if next, ok := grow(t, r, b, trees); ok {
				trees = append(trees, next)
			}
		}
		last := trees[len(trees)-1]
		dt := b.Kernel().Values[last.id].DType
		b.Store(last.id, b.Global("y", dt, b.T.Int(threads)), i)
		require.NoError(t, b.Kernel().Verify())
		kernels, wants = append(kernels, b.Kernel()), append(wants, last)
		launches = append(launches, launchOf(t, b.Kernel(), append(arguments, room(dt, threads))...))
	}
	require.NoError(t, build(t, kernels...).Run(launches...))
	for n, want := range wants {
		out := launches[n].Buffers[len(types)].Bytes
		for i, w := range want.values {
			require.Empty(t, differs(w, load(w.Type, out, i), 0), "kernel %d, thread %d\n%v", n, i, kernels[n])
		}
	}
}

// TestPositionsOfElements prints an element that a 32-bit kernel takes for an index as an int, as
// all that is computed of it fits.
func TestPositionsOfElements(t *testing.T) {
	for index, want := range map[dtype.Type]string{dtype.Int32: "const int at = (int)p.x[0];", dtype.Int: "const long long at = p.x[0];"} {
		b := kir.NewBuilder("positions", index)
		zero := b.T.Int(0)
		x, y := b.Global("x", dtype.Int, b.T.Int(1)), b.Global("y", dtype.Int, b.T.Int(10))
		b.Thread(0, 1)
		at := b.Let("at", b.Load(x, zero), scalar.Range(0, 9))
		b.Store(b.Number(dtype.Int, 1), y, at)
		source, err := cuda.Print(b.Kernel(), cuda.Options{Arch: 90})
		require.NoError(t, err)
		require.Contains(t, source.Text, want)
	}
}
