// Package golden runs golden tests that are kept as txtar archives: the comment
// says the point, one section is the input, the others are what must come out.
//
// Its central function is [Run]. With -update the sections that come out are
// rewritten. A pattern that no file matches fails, so that a test cannot pass by
// finding nothing. The package is for tests only.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected sections of the golden archives")

// Run calls produce for each archive that pattern matches, as a subtest, with
// the text of the section called input. produce returns the text of a section
// by its name; every other section of the archive is compared with that, and
// an archive without one fails.
func Run(t *testing.T, pattern, input string, produce func(t *testing.T, in, section string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no archive matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { check(t, file, input, produce) })
	}
}

func check(t *testing.T, file, input string, produce func(t *testing.T, in, section string) string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in, found := "", false
	for _, f := range archive.Files {
		if f.Name == input {
			in, found = string(f.Data), true
		}
	}
	if !found || len(archive.Files) < 2 {
		t.Fatalf("%s needs a section %q and at least one more", file, input)
	}
	changed := false
	for i := range archive.Files {
		f := &archive.Files[i]
		if f.Name == input {
			continue
		}
		got := produce(t, in, f.Name)
		if !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if got == string(f.Data) {
			continue
		}
		if !*update {
			t.Errorf("%s, section %s: got\n%s\nwant\n%s", file, f.Name, got, f.Data)
		}
		f.Data, changed = []byte(got), true
	}
	if changed && *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
