package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/memory"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// repeated returns a kernel with a part that is there count times, in a loop or
// not.
func repeated(part func(b *kernel, t, i scalar.ID, acc kir.BufferID) func(number int)) func(count int, loop bool) *kir.Kernel {
	return func(count int, loop bool) *kir.Kernel {
		b := newKernel("many")
		const threads = 128
		t := b.Thread(0, threads)
		x := b.input("x", threads)
		y, _ := b.work("y", threads)
		acc := b.Local("acc", dtype.Float)
		b.Store(b.Load(x, t), acc)
		body := func(i scalar.ID) {
			one := part(b, t, i, acc)
			for number := range count {
				one(number)
			}
		}
		if loop {
			b.Repeat("i", 3, kir.UnrollNone, body)
		} else {
			body(b.n(0))
		}
		b.Store(b.Load(acc), y, t)
		return b.Kernel()
	}
}

// The parts of kernels that grow.
var parts = map[string]func(b *kernel, t, i scalar.ID, acc kir.BufferID) func(number int){
	"reductions": func(b *kernel, t, _ scalar.ID, acc kir.BufferID) func(int) {
		return func(number int) { b.blockSum(t, acc, b.tile(fmt.Sprint("scratch", number), dtype.Float, 4)) }
	},
	"exchanges": func(b *kernel, t, _ scalar.ID, acc kir.BufferID) func(int) {
		return func(number int) {
			tile := b.tile(fmt.Sprint("tile", number), dtype.Float, 128)
			b.Store(b.Load(acc), tile, t)
			b.Store(b.Load(tile, b.mirrored(t, 128)), acc)
		}
	},
	"reads": func(b *kernel, t, _ scalar.ID, acc kir.BufferID) func(int) {
		tile := b.tile("tile", dtype.Float, 2, 128)
		b.Store(b.Load(acc), tile, b.n(0), t)
		b.Store(b.Load(acc), tile, b.n(1), t)
		return func(number int) {
			b.Store(b.Op(core.AddOp, b.Load(acc), b.Load(tile, b.n(int64(number%2)), b.mirrored(t, 128))), acc)
		}
	},
	"pipelines": func(b *kernel, t, i scalar.ID, acc kir.BufferID) func(int) {
		f := pipelineForm{slots: 3, ahead: 2, tiles: 5, commits: true, mirror: true}
		x := b.input("tiles", f.tiles, 4*64)
		return func(number int) {
			y, _ := b.work(fmt.Sprint("sum", number), 3, 64)
			f.round(b, i, t, b.n(f.tiles), x, y)
		}
	},
}

// TestWorkGrows compares the steps of the walks for kernels ten times as long.
// That two buffers may share bytes is looked at for each pair that is never
// alive at once.
func TestWorkGrows(t *testing.T) {
	for _, x := range []struct {
		part   string
		loop   bool
		count  int
		factor int
	}{
		{"reductions", false, 10, 15},
		{"reductions", true, 10, 15},
		{"exchanges", true, 10, 15},
		{"reads", true, 100, 15},
		{"pipelines", false, 2, 15},
		{"pipelines", true, 2, 25},
	} {
		build := repeated(parts[x.part])
		work := func(count int) int {
			steps, err := memory.Steps(build(count, x.loop))
			require.NoError(t, err)
			return steps
		}
		few, many := work(x.count), work(10*x.count)
		t.Logf("%s, in a loop %v: %d take %d steps, %d take %d", x.part, x.loop, x.count, few, 10*x.count, many)
		require.Less(t, many, x.factor*few, "%s, in a loop %v", x.part, x.loop)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, part := range []string{"reductions", "exchanges", "reads", "pipelines"} {
		for _, count := range []int{10, 100} {
			b.Run(fmt.Sprint(part, count), func(b *testing.B) {
				k := repeated(parts[part])(count, true)
				for b.Loop() {
					_, err := memory.Steps(k)
					require.NoError(b, err)
				}
			})
		}
	}
}
