package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/executor"
)

// TestPage makes what docs/inspecting.md shows: the schedule and the kernel of
// its Python program, the table of stages, and the session. With -update the page
// is rewritten.
func TestPage(t *testing.T) {
	const file = "../../docs/inspecting.md"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	got := string(page)
	got = replaced(t, got, "```text\n", "```\n", func(string) string { return programOutput(t) })
	got = replaced(t, got, "| value | shows |\n|---|---|\n", "| `cuda_to_file`", func(string) string { return stageTable() })
	got = replaced(t, got, "```console\n", "```\n", func(session string) string { return replay(t, session) })
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	require.Equal(t, string(page), got)
}

// replaced returns page with what stands between begin and the next end made
// anew.
func replaced(t *testing.T, page, begin, end string, anew func(string) string) string {
	before, rest, found := strings.Cut(page, begin)
	require.True(t, found, begin)
	old, after, found := strings.Cut(rest, end)
	require.True(t, found, end)
	return before + begin + anew(old) + end + after
}

// programOutput is what the Python program of the page prints.
func programOutput(t *testing.T) string {
	const text = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = mul %0, 2.0:f64\n%2 = relu %1\noutput %2\n"
	f, err := readFusion("", strings.NewReader(text))
	require.NoError(t, err)
	o := &options{fusion: f, sizes: "3x300"}
	inputs, err := describedInputs(o)
	require.NoError(t, err)
	plan, err := planFor(o, inputs, false)
	require.NoError(t, err)
	ir, err := plan.Inspection().Show("fusion_ir", "transforms")
	require.NoError(t, err)
	kernel, err := plan.Inspection().Show("cuda_kernel")
	require.NoError(t, err)
	return ir + "\n" + strings.TrimRight(kernel, "\n") + "\n"
}

func stageTable() string {
	var b strings.Builder
	for _, s := range executor.Stages() {
		does := s.Does
		if s.Takes != "" {
			does += "; argument: " + s.Takes
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Name, does)
	}
	return b.String()
}

// replay returns a session with what its commands print now.
func replay(t *testing.T, session string) string {
	folder := t.TempDir()
	var out bytes.Buffer
	commands := strings.Split(session, "$ ")[1:]
	require.Greater(t, len(commands), 3)
	for _, c := range commands {
		line, shown, _ := strings.Cut(c, "\n")
		out.WriteString("$ " + line + "\n")
		words := strings.Fields(line)
		for i, w := range words {
			if strings.HasPrefix(w, "columns.") {
				words[i] = filepath.Join(folder, w)
			}
		}
		switch words[0] {
		case "cat":
			require.NoError(t, os.WriteFile(words[1], []byte(shown), 0o600))
			out.WriteString(shown)
		case "nvf":
			require.Equal(t, 0, nvf(words[1:], nil, &out, &out), line)
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	return out.String()
}
