package cuda_test

import (
	"fmt"
	"testing"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// chain is a pointwise kernel of ops statements, each on an element in registers.
func chain(ops int) *kir.Kernel {
	b := kir.NewBuilder("chain", dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 1<<30))
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	i := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(n, b.T.Int(128))), b.T.Int(128)), b.Thread(0, 128))
	b.If(b.T.Lt(i, n), func() {
		last := b.Local("t", dtype.Float)
		b.Store(b.Load(x, i), last)
		for k := range ops {
			next := b.Local("t", dtype.Float)
			op := []*core.OpInfo{core.SiluOp, core.TanhOp, core.NegOp}[k%3]
			b.Store(b.Op(op, b.Op(core.AddOp, b.Load(last), b.Float(dtype.Float, float64(k)))), next)
			last = next
		}
		b.Store(b.Load(last), y, i)
	}, nil)
	return b.Kernel()
}

func BenchmarkPrint(b *testing.B) {
	for _, ops := range []int{10, 100, 1000} {
		k := chain(ops)
		b.Run(fmt.Sprintf("%d ops", ops), func(b *testing.B) {
			for b.Loop() {
				if _, err := cuda.Print(k, cuda.Options{Arch: 90}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
