//go:build cgo

package real

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

func hasCompiler() bool {
	return slices.ContainsFunc(loadedFiles(), func(file string) bool { return strings.Contains(file, "libnvrtc") })
}

// TestCompilerIDOpensNothing, and is the same once NVRTC is open.
func TestCompilerIDOpensNothing(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		child(t, "TestCompilerIDOpensNothing", compilerVariable+"="+os.Getenv(compilerVariable))
		return
	}
	if os.Getenv(compilerVariable) == "" {
		t.Skip("NVRTC is where the loader finds it")
	}
	id, err := Driver{}.CompilerID()
	require.NoError(t, err)
	require.Regexp(t, "^build [0-9a-f]{40}$", id)
	require.False(t, hasCompiler())
	_, err = compile(t, small, "sm_90a")
	require.NoError(t, err)
	require.True(t, hasCompiler())
	again, err := Driver{}.CompilerID()
	require.NoError(t, err)
	require.Equal(t, id, again)
}

// TestCompilerWithoutBuild is told from others by its version, which it is opened for.
func TestCompilerWithoutBuild(t *testing.T) {
	if library := os.Getenv(compilerVariable); os.Getenv("CUDADRV_CHILD") != "" {
		require.Empty(t, buildOf(library))
		id, err := Driver{}.CompilerID()
		require.NoError(t, err)
		require.Equal(t, "NVRTC 13.0", id)
		require.True(t, hasCompiler())
		return
	}
	library := filepath.Join(t.TempDir(), "libnvrtc.so")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-Wl,--build-id=none", "-o", library, "testdata/libnvrtc.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	child(t, "TestCompilerWithoutBuild", compilerVariable+"="+library)
}

// TestBrokenCompiler has a file that says which build it is and cannot be opened:
// its code may be on disk, and nothing else is compiled in its name.
func TestBrokenCompiler(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") != "" {
		id, err := Driver{}.CompilerID()
		require.NoError(t, err)
		require.Equal(t, "build 0123456789abcdef", id)
		_, err = Driver{}.Compile(small, cudadrv.CompileOptions{Arch: "sm_90a"})
		var u *cudadrv.Unsupported
		require.ErrorAs(t, err, &u)
		_, err = Driver{}.CompilerID()
		require.ErrorAs(t, err, &u)
		return
	}
	library := filepath.Join(t.TempDir(), "libnvrtc.so")
	out, err := exec.Command("cc", "-shared", "-Wl,--build-id=0x0123456789abcdef", "-o", library, "-x", "c", os.DevNull).CombinedOutput()
	require.NoError(t, err, "%s", out)
	child(t, "TestBrokenCompiler", compilerVariable+"="+library)
}

func TestLikelyBuild(t *testing.T) {
	folder := t.TempDir()
	library := filepath.Join(folder, "libnvrtc.so")
	out, err := exec.Command("cc", "-shared", "-Wl,--build-id=0x01", "-o", library, "-x", "c", os.DevNull).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "text"), []byte("text"), 0o600))
	missing, named, other := place{path: filepath.Join(folder, "missing")}, place{path: "libnvrtc.so.13", loaded: true}, place{path: filepath.Join(folder, "text")}
	require.Equal(t, "build 01", likelyBuild([]place{missing, {path: library}, named}))
	require.Empty(t, likelyBuild([]place{named, {path: library}}), "which the loader knows may be another one")
	require.Empty(t, likelyBuild([]place{other, {path: library}}), "the first is opened, or not")
	require.Empty(t, likelyBuild(nil))
}

func TestBuildAmongNotes(t *testing.T) {
	note := func(name, value string, kind uint32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
		b = append(binary.LittleEndian.AppendUint32(b, kind), name...)
		b = append(b, make([]byte, -len(b)&3)...)
		b = append(b, value...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	build := note("GNU\x00", "12345", 3)
	all := slices.Concat(note("other", "value", 3), note("GNU\x00", "version", 1), build)
	require.Equal(t, "12345", string(noteAmong(all, binary.LittleEndian, builtByLinker)))
	require.Empty(t, noteAmong(all[:len(all)-len(build)], binary.LittleEndian, builtByLinker))
	end := len(all) - 3 // of the value
	require.Equal(t, "12345", string(noteAmong(all[:end], binary.LittleEndian, builtByLinker)))
	for i := range end {
		require.Empty(t, noteAmong(all[:i], binary.LittleEndian, builtByLinker), "cut short at %d", i)
		all[i] ^= 0xff // lengths that are too large among others
		_ = noteAmong(all, binary.LittleEndian, builtByLinker)
		all[i] ^= 0xff
	}
}
