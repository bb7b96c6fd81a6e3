package tests

import (
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGenerated holds the files that are made from tables against what
// would be made now.
func TestGenerated(t *testing.T) {
	made := t.TempDir()
	goCommand(t, "CGO_ENABLED=0", "run", "./cmd/genops", "-root", made)
	files := 0
	require.NoError(t, filepath.WalkDir(made, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(made, path)
		require.NoError(t, err)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.True(t, string(want) == string(have), "%s is stale: run make generate", name)
		return nil
	}))
	require.Equal(t, 3, files)
}

// TestGeneratedPlanfile holds the code of plans on disk against their schema, where
// its compiler is.
func TestGeneratedPlanfile(t *testing.T) {
	flatc, err := filepath.Abs(filepath.Join(root, ".venv/bin/flatc"))
	require.NoError(t, err)
	if _, err := os.Stat(flatc); err != nil {
		if flatc, err = exec.LookPath("flatc"); err != nil {
			t.Skip("there is no flatc, which is among the test requirements in pyproject.toml")
		}
	}
	folder := filepath.Join(root, "executor", "planfile")
	made := t.TempDir()
	out, err := exec.Command(flatc, "--go", "--gen-onefile", "--go-namespace", "planfile", "-o", made, filepath.Join(folder, "plan.fbs")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(filepath.Join(made, "plan_generated.go"))
	require.NoError(t, err)
	want, err = format.Source(want)
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(folder, "plan_generated.go"))
	require.NoError(t, err)
	require.True(t, string(want) == string(have), "plan_generated.go is stale: run go generate ./executor/planfile")
}
