//go:build cgo

package real

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

// TestSignalHandlersStay compiles with an NVRTC that takes SIGINT and SIGTERM.
func TestSignalHandlersStay(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		for name, flags := range map[string][]string{"bound late": {"-Wl,-z,lazy"}, "read-only": {"-Wl,-z,now,-z,relro"}, "by address": {"-fno-plt", "-Wl,-z,now,-z,relro"}} {
			t.Run(name, func(t *testing.T) {
				library := filepath.Join(t.TempDir(), "libnvrtc.so.13")
				flags := append(flags, "-O1", "-shared", "-fPIC", "-fvisibility=default", "-o", library, "testdata/libnvrtc.c")
				out, err := exec.Command("cc", flags...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				child(t, "TestSignalHandlersStay", compilerVariable+"="+library)
			})
		}
		return
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	compiled, err := Driver{}.Compile("text", cudadrv.CompileOptions{Arch: "sm_90a"})
	require.NoError(t, err)
	require.Equal(t, "compiled;handled 23;", string(compiled.Cubin))
	for range 2 {
		select {
		case <-signals:
		case <-time.After(10 * time.Second):
			t.Fatal("a signal did not reach the program")
		}
	}
}
