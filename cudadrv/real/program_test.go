//go:build cgo

package real

import (
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramID is that of the file, and another one for other code.
func TestProgramID(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	id := ProgramID()
	require.Regexp(t, "^([0-9a-f]{2}){20}", id)
	require.Equal(t, programOf(t, executable), id)

	folder := t.TempDir()
	seen := map[string]bool{id: true}
	for _, constant := range []string{"1", "2"} {
		source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, constant)
		require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println("+constant+") }\n"), 0o600))
		out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput()
		require.NoError(t, err, "%s", out)
		built := programOf(t, program)
		require.NotEmpty(t, built)
		require.False(t, seen[built])
		seen[built] = true
	}
}

// programOf reads the identity of a program from its file.
func programOf(t *testing.T, path string) string {
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var notes [][]byte
	for _, p := range file.Progs {
		if p.Type == elf.PT_NOTE {
			n, err := io.ReadAll(p.Open())
			require.NoError(t, err)
			notes = append(notes, n)
		}
	}
	return programAmong(notes)
}
