//go:build cgo

package real

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"
)

// A recording is what the libcuda of testdata was asked for.
type recording struct {
	t    *testing.T
	file string
}

// newRecording begins one, in which a call fails with a code, on a thread that
// has no context.
func newRecording(t *testing.T, fail string, code int) *recording {
	t.Helper()
	_, err := Driver{}.Devices() // starts the driver
	require.NoError(t, err)
	runtime.LockOSThread() // a context belongs to a thread
	t.Cleanup(runtime.UnlockOSThread)
	r := &recording{t, os.Getenv(recordVariable)}
	r.setContext(0)
	r.clear(fail, code)
	return r
}

func (r *recording) clear(fail string, code int) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.file+".fail", fmt.Appendf(nil, "%s %d\n", fail, code), 0o600))
	require.NoError(r.t, os.WriteFile(r.file, nil, 0o600))
}

func (r *recording) text() string {
	r.t.Helper()
	text, err := os.ReadFile(r.file)
	require.NoError(r.t, err)
	return string(text)
}

// setContext changes the context of the thread.
func (r *recording) setContext(context uintptr) {
	r.t.Helper()
	var c cu.CUContext
	*(*uintptr)(unsafe.Pointer(&c)) = context
	require.NoError(r.t, cu.SetCurrentContext(c))
	r.clear("", 0)
}

func (r *recording) context() uintptr {
	r.t.Helper()
	c, err := cu.CurrentContext()
	require.NoError(r.t, err)
	return *(*uintptr)(unsafe.Pointer(&c))
}
