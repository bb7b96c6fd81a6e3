package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// Bools that are only copied are bytes in registers too, and others are bools of C++.
func TestBoolsThatAreCopied(t *testing.T) {
	printed := func(inverts bool) string {
		b := kir.NewBuilder("copied", dtype.Int32)
		n, zero := b.T.Int(16), b.T.Int(0)
		x, y := b.Input("x", dtype.Bool, n), b.Global("y", dtype.Bool, n)
		i := b.Thread(0, 16)
		first, second, third := b.Local("first", dtype.Bool, 2), b.Local("second", dtype.Bool, 2), b.Local("third", dtype.Bool, 2)
		b.Store(b.Load(x, i), first, zero)
		b.Store(b.Op(core.SetOp, b.Load(first, zero)), second, zero)
		if inverts {
			b.Store(b.Op(core.LogicalNotOp, b.Load(second, zero)), third, zero)
		} else {
			b.Store(b.Load(second, zero), third, zero)
		}
		b.Store(b.Load(third, zero), y, i)
		source, err := cuda.Print(b.Kernel(), cuda.Options{})
		require.NoError(t, err)
		return source.Text
	}
	text := printed(false)
	for _, name := range []string{"first", "second", "third"} {
		require.Contains(t, text, "unsigned char "+name+"[2]")
	}
	require.NotContains(t, text, "!= 0")
	text = printed(true)
	for _, line := range []string{"bool first[2]", "bool second[2]", "first[0] = readOnly(&p.x[tx]) != 0;", "third[0] = !second[0];"} {
		require.Contains(t, text, line)
	}
}
