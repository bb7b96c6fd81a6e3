package fusionfuzz

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// Random cases have outputs whose strides have an order, some of them written to inputs.
func TestOrderedOutputs(t *testing.T) {
	ordered, aliased := 0, 0
	for k := range 1000 {
		r := rand.New(rand.NewPCG(1, uint64(k)))
		data := make([]byte, 40+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f := Decode(data).Fusion
		require.NoError(t, f.Verify())
		for _, o := range f.Outputs() {
			if f.Val(o.Val).Def != core.NoExpr && f.Expr(f.Val(o.Val).Def).Op == core.StrideOrderOp {
				ordered++
				if o.Alias != core.NoVal {
					aliased++
				}
			}
		}
	}
	require.Greater(t, ordered, 100)
	require.Greater(t, aliased, 5)
}
