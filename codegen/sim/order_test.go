package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core/dtype"
)

// The block that is the last at one counter need not be that at another: what
// is left to a block that is both may be done by none.
func TestLastAtTwoCounters(t *testing.T) {
	run := func(o sim.Options) *sim.Report {
		b := kir.NewBuilder("both", dtype.Int32)
		const blocks = 3
		y := b.Global("y", dtype.Float, b.T.Int(1))
		counters := b.Global("counters", dtype.Int32, b.T.Int(2))
		b.BlockIndex(0, b.T.Int(blocks))
		last := b.T.Bool(true)
		for i := range int64(2) {
			old := b.AtomicAdd([]string{"first", "second"}[i], b.Number(dtype.Int32, 1), b.At(counters, b.T.Int(i)))
			last = b.T.And(last, b.T.Eq(old, b.T.Int(blocks-1)))
		}
		b.If(last, func() { b.Store(one(b), y, b.T.Int(0)) }, nil)
		require.NoError(t, b.Kernel().Verify())
		o.Outputs = []kir.BufferID{y}
		report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(4)), pointer(zeros(8))}, o)
		require.NoError(t, err)
		return report
	}
	require.NoError(t, run(sim.Options{}).Err())
	found := 0
	for seed := range uint64(10) {
		if err := run(sim.Options{Order: sim.Random, Seed: seed}).Err(); err != nil {
			require.ErrorContains(t, err, "nothing wrote this element of an output")
			found++
		}
	}
	require.NotZero(t, found)
	require.Less(t, found, 10)
}

// What a block has learnt of another one by a counter, all blocks of its cluster know after a
// barrier of theirs.
func TestClusterLearns(t *testing.T) {
	run := func(counting bool) error {
		b := kir.NewBuilder("learns", dtype.Int32)
		const blocks = 4
		work, y := b.Global("work", dtype.Float, b.T.Int(1)), b.Global("y", dtype.Float, b.T.Int(1))
		counter := b.Global("counter", dtype.Int32, b.T.Int(1))
		b.Kernel().Launch.Cluster[0] = 2
		block, zero := b.BlockIndex(0, b.T.Int(blocks)), b.T.Int(0)
		count := func() {
			b.Add(kir.Fence{Scope: kir.GridScope})
			b.AtomicAdd("arrival", b.Number(dtype.Int32, 1), b.At(counter, zero))
			b.Add(kir.Fence{Scope: kir.GridScope})
		}
		b.If(b.T.Eq(block, zero), func() { b.Store(one(b), work, zero); count() }, nil)
		b.If(b.T.Eq(block, b.T.Int(2)), func() {
			if counting {
				count()
			}
		}, nil)
		b.Add(kir.Barrier{Scope: kir.ClusterScope})
		b.If(b.T.Eq(block, b.T.Int(3)), func() { b.Store(b.Load(work, zero), y, zero) }, nil)
		require.NoError(t, b.Kernel().Verify())
		report, err := sim.Run(b.Kernel(), []sim.Argument{pointer(room(4)), pointer(room(4)), pointer(zeros(4))}, sim.Options{})
		require.NoError(t, err)
		return report.Err()
	}
	require.NoError(t, run(true))
	require.ErrorContains(t, run(false), "work")
}
