package cuda_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// TestLaunchOrder: a kernel that starts early waits before all else, and none of its loads
// is one that a compiler or a cache may take for one of constant memory.
func TestLaunchOrder(t *testing.T) {
	for _, made := range []func() *kir.Kernel{vectors, moves, ticket, gridBarrier, shuffles} {
		k := made()
		for _, o := range []cuda.Options{{Follows: true}, {Leads: true}, {Follows: true, Leads: true}} {
			o.Arch = 90
			body, _, err := cuda.Body(k, o)
			require.NoError(t, err)
			_, statements, _ := strings.Cut(body, ") {\n")
			want := ""
			if o.Follows {
				want += "  waitForKernels();\n"
			}
			if o.Leads {
				want += "  startNextKernel();\n"
			}
			require.True(t, strings.HasPrefix(statements, want), statements)
			for _, constant := range []string{"readOnly", "moveReadOnly", "moveStreaming"} {
				if o.Follows {
					require.NotContains(t, body, constant)
				}
			}
			o.Arch = 80
			_, err = cuda.Print(k, o)
			require.ErrorContains(t, err, "launches that overlap before compute capability 9.0")
		}
		body, _, err := cuda.Body(k, cuda.Options{Arch: 90})
		require.NoError(t, err)
		require.NotContains(t, body, "waitForKernels")
		require.NotContains(t, body, "startNextKernel")
	}
	var texts []string
	for _, made := range []func() *kir.Kernel{vectors, ticket} {
		s, err := cuda.Print(made(), cuda.Options{Arch: 90, Follows: true, Leads: true})
		require.NoError(t, err)
		texts = append(texts, s.Text)
	}
	for _, c := range cuda.Compile(t, nvrtc.Compiler{}, "sm_90a", texts) {
		require.True(t, c.OK, c.Log)
		for name, f := range c.Functions {
			require.Zero(t, f.SpillStores+f.SpillLoads+f.Stack, name)
		}
	}
}

// TestPartialVectors: what is loaded one by one where a vector is not whole is loaded apart, as
// ptxas 13 made the load of one element that of the vector.
func TestPartialVectors(t *testing.T) {
	b := kir.NewBuilder("partial", dtype.Int32)
	n := b.Integer("n", scalar.Facts{Lo: 0, Hi: 1 << 20, Divisor: 1})
	x, y := b.Input("x", dtype.Float, n), b.Global("y", dtype.Float, n)
	b.Kernel().Buffers[x].Align = 16
	i := b.T.Mul(b.Thread(0, 128), b.T.Int(4))
	r := b.Local("r", dtype.Float, 4)
	b.Kernel().Buffers[r].Registers = true
	one := func(e scalar.ID) { b.Store(b.Load(x, b.T.Add(i, e)), r, e) }
	b.If(b.T.Lt(b.T.Add(i, b.T.Int(3)), n), func() {
		b.Add(kir.Move{Dst: b.Vector(4, r, b.T.Int(0)), Src: b.Vector(4, x, i)})
	}, func() {
		b.Repeat("e", 4, kir.UnrollFull, func(e scalar.ID) { b.If(b.T.Lt(b.T.Add(i, e), n), func() { one(e) }, nil) })
	})
	b.If(b.T.Lt(i, n), func() { b.Store(b.Load(x, i), y, i) }, nil)
	for _, o := range []cuda.Options{{Arch: 90}, {Arch: 90, Follows: true}} {
		body, _, err := cuda.Body(b.Kernel(), o)
		require.NoError(t, err)
		vector, instead, _ := strings.Cut(body, "} else {")
		instead, after, _ := strings.Cut(instead, "\n  }\n")
		require.Contains(t, vector, "move")
		require.Contains(t, instead, "= apart(&", body)
		require.NotContains(t, vector+after, "apart", body)
	}
}
