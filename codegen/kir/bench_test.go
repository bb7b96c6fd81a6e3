package kir

import (
	"fmt"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// BenchmarkVerify shows the cost of a kernel with n statements, each with an
// operation, in 10 nested conditions.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		k := NewBuilder("chain", dtype.Int32)
		size := k.Integer("n", scalar.Range(0, 1<<30))
		x, y := k.Input("x", dtype.Float, size), k.Global("y", dtype.Float, size)
		i := k.T.Add(k.T.Mul(k.BlockIndex(0, k.T.CeilDiv(size, k.T.Int(128))), k.T.Int(128)), k.Thread(0, 128))
		r := k.Local("r", dtype.Float)
		k.Store(k.Float(dtype.Float, 0), r)
		var body func(depth int)
		body = func(depth int) {
			if depth > 0 {
				k.If(k.T.Lt(i, k.T.Add(size, k.T.Int(int64(depth)))), func() { body(depth - 1) }, nil)
				return
			}
			for range n {
				k.Store(k.Op(core.AddOp, k.Load(r), k.Load(x, i)), r)
			}
			k.Store(k.Load(r), y, i)
		}
		body(10)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if err := k.kernel.Verify(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/statement")
		})
	}
}
