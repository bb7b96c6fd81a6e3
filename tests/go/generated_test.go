package tests

import (
	"io/fs"
	"os"
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
