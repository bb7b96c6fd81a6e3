//go:build cgo

package real

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

// compile compiles with the machine's NVRTC.
func compile(t *testing.T, source, arch string) (cudadrv.Compiled, error) {
	t.Helper()
	c, err := Driver{}.Compile(source, cudadrv.CompileOptions{Arch: arch})
	var none *cudadrv.Unavailable
	if errors.As(err, &none) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	return c, err
}

const small = `extern "C" __global__ void k(float* x) { x[threadIdx.x] = 2.f * x[threadIdx.x]; }`

func TestCompile(t *testing.T) {
	for _, arch := range []string{"sm_80", "sm_90", "sm_90a", "sm_100a"} {
		c, err := compile(t, small, arch)
		require.NoError(t, err)
		require.Equal(t, "\x7fELF", string(c.Cubin[:4]))
		require.Contains(t, c.Log, "registers")
		require.Greater(t, codeBytes(c.Cubin, "k"), 50, "some instructions of 16 bytes")
		require.Zero(t, codeBytes(c.Cubin, "none"))
		require.Zero(t, codeBytes(c.Cubin[:200], "k"))
	}
	v, err := Driver{}.Compiler()
	require.NoError(t, err)
	require.GreaterOrEqual(t, v.Major, 12)
	require.Contains(t, v.Path, "libnvrtc")
	again, err := compile(t, small, "sm_90a")
	require.NoError(t, err)
	once, err := compile(t, small, "sm_90a")
	require.NoError(t, err)
	require.Equal(t, again.Cubin, once.Cubin, "the same text gives the same code")
}

func TestCompileErrors(t *testing.T) {
	_, err := compile(t, "not CUDA", "sm_90a")
	var e *cudadrv.CompileError
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Log, "error")
	require.Contains(t, e.Reproducer(), "--gpu-architecture=sm_90a")
	require.Contains(t, e.Reproducer(), "not CUDA")
	for _, arch := range []string{"sm_20", "sm_999a", "", "sm_x"} {
		_, err = compile(t, small, arch)
		var u *cudadrv.Unsupported
		require.ErrorAs(t, err, &u, arch)
		require.ErrorContains(t, err, "does not know the architecture "+arch)
	}
}

// TestCompileTogether compiles in several goroutines at once.
func TestCompileTogether(t *testing.T) {
	expected, err := compile(t, small, "sm_90a")
	require.NoError(t, err)
	var all sync.WaitGroup
	results := make([]cudadrv.Compiled, 6)
	for i := range results {
		all.Go(func() { results[i], _ = Driver{}.Compile(small, cudadrv.CompileOptions{Arch: "sm_90a"}) })
	}
	all.Wait()
	for _, r := range results {
		require.Equal(t, expected.Cubin, r.Cubin)
	}
}
