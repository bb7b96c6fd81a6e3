package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// TestDefined: registers have a value before what may not load anything, where a function
// must not see a register that is undefined.
func TestDefined(t *testing.T) {
	for _, c := range []struct {
		op      *core.OpInfo
		element dtype.Type
		zeroed  bool
	}{
		{core.SinOp, dtype.Double, true},
		{core.CosOp, dtype.Float, true},
		{core.TanhOp, dtype.ComplexFloat, true},
		{core.TanhOp, dtype.Double, false},
		{core.ExpOp, dtype.Float, false},
	} {
		b := kir.NewBuilder("defined", dtype.Int32)
		n := b.Integer("n", scalar.Range(0, 1<<24))
		x, y := b.Input("x", c.element, n), b.Global("y", c.element, n)
		one, two := b.Local("one", c.element, 1), b.Local("two", c.element, 2)
		i := b.Thread(0, 128)
		zero := b.T.Int(0)
		b.If(b.T.Lt(i, n), func() {
			b.Store(b.Load(x, i), one, zero)
			b.Store(b.Load(x, i), two, zero)
		}, nil)
		b.Store(b.Op(c.op, b.Load(one, zero)), two, zero)
		b.If(b.T.Lt(i, n), func() { b.Store(b.Load(two, zero), y, i) }, nil)
		body, _, err := Body(b.Kernel(), Options{Arch: 90})
		require.NoError(t, err)
		require.Regexp(t, map[bool]string{true: `one = \{\};[^=]*two\[2\] = \{\};`, false: `one;[^=]*two\[2\];`}[c.zeroed], body)
	}
}
