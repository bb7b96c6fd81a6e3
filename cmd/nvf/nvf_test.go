package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/internal/golden"
)

// TestCommands runs the command on the first line of each archive's section
// "command", with the lines below as standard input.
func TestCommands(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "command", func(t *testing.T, in, section string) string {
		line, stdin, _ := strings.Cut(in, "\n")
		words := strings.Fields(line)
		require.Equal(t, "nvf", words[0])
		var stdout, stderr bytes.Buffer
		status := nvf(words[1:], strings.NewReader(stdin), &stdout, &stderr)
		require.LessOrEqual(t, strings.Count(stderr.String(), "\n"), 1, "an error is one line")
		require.Equal(t, status != 0, stderr.Len() > 0)
		switch section {
		case "stdout":
			return stdout.String()
		case "stderr":
			return stderr.String()
		case "status":
			return fmt.Sprintln(status)
		}
		t.Fatalf("there is no section %q", section)
		return ""
	})
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fusion")
	require.NoError(t, os.WriteFile(file, []byte("%0 = tensor f32 [4] contiguity=[yes]\n%1 = neg %0\noutput %1\n"), 0o600))
	for _, arguments := range [][]string{{"print", "-form", "text", file}, {"lower", file}, {"run", file}, {"simulate", file}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 0, nvf(arguments, nil, &stdout, &stderr), stderr.String())
		require.NotEmpty(t, stdout.String())
	}
}
