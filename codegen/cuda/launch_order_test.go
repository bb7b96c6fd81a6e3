package cuda_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
)

// TestLaunchOrder: a kernel that starts early waits before all else, and none of its loads
// is one that a compiler or a cache may take for one of constant memory.
func TestLaunchOrder(t *testing.T) {
	for _, made := range []func() *kir.Kernel{vectors, moves, ticket, shuffles} {
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
