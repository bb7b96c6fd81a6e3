package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// typical is a kernel of 4 blocks of 128 threads that execute ten statements
// count times: loads, a tile in shared memory with two barriers, arithmetic in
// registers, a guarded store.
func typical(count int64) launch {
	b := kir.NewBuilder("typical", dtype.Int32)
	const threads, blocks = 128, 4
	n, m := b.Integer("n", scalar.Range(0, 1<<12)), b.Integer("m", scalar.Range(0, 1<<12))
	x, y := b.Input("x", dtype.Float, n, m), b.Global("y", dtype.Float, n, m)
	t := b.Thread(0, threads)
	j := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(m, b.T.Int(threads))), b.T.Int(threads)), t)
	tile := b.Shared("tile", dtype.Float, 0, b.T.Int(threads))
	acc, r := b.Local("acc", dtype.Float), b.Local("r", dtype.Float)
	b.Store(b.Float(dtype.Float, 0), acc)
	b.For("i", b.T.Int(0), n, b.T.Int(1), kir.UnrollNone, func(i scalar.ID) {
		b.Store(b.Float(dtype.Float, 0), r)
		b.If(b.T.Lt(j, m), func() { b.Store(b.Load(x, i, j), r) }, nil)
		b.Store(b.Load(r), tile, t)
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		b.Store(b.Op(core.AddOp, b.Load(acc), b.Load(tile, b.T.Sub(b.T.Int(threads-1), t))), acc)
		b.Add(kir.Barrier{Scope: kir.BlockScope})
		b.If(b.T.Lt(j, m), func() {
			b.Store(b.Op(core.MulOp, b.Load(acc), b.Op(core.AddOp, b.Load(r), b.Float(dtype.Float, 1))), y, i, j)
		}, nil)
	})
	const columns = threads*blocks - 5
	input := counted(int(count)*columns, sample)
	return launch{k: b.Kernel(), arguments: []sim.Argument{integer(count), integer(columns), pointer(input), pointer(room(len(input.Data)))}}
}

// BenchmarkTypical is the budget of a small kernel: 1.0 million statements,
// checked.
func BenchmarkTypical(b *testing.B) {
	l := typical(200)
	require.NoError(b, l.k.Verify())
	b.ReportAllocs()
	for b.Loop() {
		report, err := sim.Run(l.k, l.arguments, sim.Options{})
		require.NoError(b, err)
		require.NoError(b, report.Err())
		b.ReportMetric(float64(report.Counters.Statements), "statements")
	}
}

// TestStatementsAreCounted shows the benchmark to be of the size that it says.
func TestStatementsAreCounted(t *testing.T) {
	for _, count := range []int64{50, 200} {
		l := typical(count)
		report, err := sim.Run(l.k, l.arguments, sim.Options{})
		require.NoError(t, err)
		require.NoError(t, report.Err())
		require.Equal(t, 5*512+count*(9*512-5*2), report.Counters.Statements) // the last 5 threads skip two statements
		require.Equal(t, 4*2*count, report.Counters.Barriers)
	}
}
