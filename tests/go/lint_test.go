// Package tests holds the tests that look at more than one package: the lint
// rules and the direction of imports here, and compilers end to end beside.
package tests

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the root of the repository: tests run in the folder of their package.
const root = "../.."

const maxLines = 1000

// A source is a text file that people write, with its path from the root.
type source struct {
	path string
	text []byte
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

var generated = regexp.MustCompile(`(?m)^(//|#|/\*) Code generated .* DO NOT EDIT\.`)

// sources returns the files with one of the given extensions, less those under
// testdata and in folders that builds and tools make. Reading them here also
// tells `go test` which files a cached result of this package depends on.
func sources(t *testing.T, extensions ...string) []source {
	t.Helper()
	var found []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != ".." && name != ".ci"
			if hidden || slices.Contains([]string{"build", "dist", "testdata", "__pycache__"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !slices.Contains(extensions, path.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		found = append(found, source{filepath.ToSlash(relative), text})
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func TestLintGofmt(t *testing.T) {
	for _, s := range sources(t, ".go") {
		formatted, err := format.Source(s.text)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if !bytes.Equal(formatted, s.text) {
			t.Errorf("%s is not formatted: run gofmt -w %s", s.path, s.path)
		}
	}
}

func TestLintVet(t *testing.T) {
	goCommand(t, cgoFlags(t), "vet", "./...")
}

func TestLintStaticcheck(t *testing.T) {
	goCommand(t, cgoFlags(t), "tool", "staticcheck", "./...")
}

func TestLintFileLength(t *testing.T) {
	for _, s := range sources(t, ".go", ".py", ".pyi", ".c", ".h", ".cc", ".cuh") {
		if lines := bytes.Count(s.text, []byte("\n")); lines > maxLines && !generated.Match(s.text) {
			t.Errorf("%s has %d lines, more than %d: split it", s.path, lines, maxLines)
		}
	}
}

func TestLintReminders(t *testing.T) {
	reminder := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`) // in two parts, so that this line is none
	for _, s := range sources(t, ".go", ".py", ".pyi", ".c", ".h", ".cc", ".cuh", ".md", ".toml") {
		if at := reminder.FindIndex(s.text); at != nil {
			line := 1 + bytes.Count(s.text[:at[0]], []byte("\n"))
			t.Errorf("%s:%d: %s: do it, or write it down where work is planned", s.path, line, s.text[at[0]:at[1]])
		}
	}
}

// environmentReaders are the packages that may read the environment. The Python
// package reads the options and hands them on; capi reads where reproducers go,
// by C, because Go's copy of the environment is made before Python changes it, and
// so does cudadrv/real, for which libraries are taken; cmd/nvf reads where a
// calibration goes.
var environmentReaders = []string{"capi", "cudadrv/real", "cmd/nvf"}

// A callRule forbids calls outside of the files that allow names.
type callRule struct {
	calls []string // "package.Function", or the name of a builtin
	allow func(source) bool
	why   string
}

var callRules = []callRule{
	{
		calls: []string{"fmt.Print", "fmt.Printf", "fmt.Println", "print", "println"},
		allow: func(s source) bool { return s.isTest() || strings.HasPrefix(s.path, "cmd/") },
		why:   "a library does not write to the standard output of its host",
	},
	{
		calls: []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "syscall.Getenv", "syscall.Environ", "C.getenv"},
		allow: func(s source) bool { return s.isTest() || slices.Contains(environmentReaders, path.Dir(s.path)) },
		why:   "only the packages in environmentReaders read the environment",
	},
}

func TestLintForbiddenCalls(t *testing.T) {
	for _, s := range sources(t, ".go") {
		for _, problem := range forbiddenCalls(t, s) {
			t.Error(problem)
		}
	}
}

// TestLintForbiddenCallsFinds shows the rules to be able to fail.
func TestLintForbiddenCallsFinds(t *testing.T) {
	text := []byte(`package p

import (
	"fmt"
	env "os"
)

func f() {
	fmt.Println(env.Getenv("A"))
	println("builtin")
}

func g(println func(string)) { println("a parameter") }
`)
	require.Len(t, forbiddenCalls(t, source{"core/p.go", text}), 3)
	require.Len(t, forbiddenCalls(t, source{"cmd/p.go", text}), 1)
	require.Len(t, forbiddenCalls(t, source{"capi/p.go", text}), 2)
	require.Empty(t, forbiddenCalls(t, source{"core/p_test.go", text}))
}

func forbiddenCalls(t *testing.T, s source) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, s.path, s.text, 0)
	require.NoError(t, err)
	packages := map[string]string{} // local name -> path
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		local := path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		packages[local] = imported
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		name := ""
		switch n := node.(type) {
		case *ast.SelectorExpr: // also a function that is passed on and not called
			if x, ok := n.X.(*ast.Ident); ok && packages[x.Name] != "" {
				name = packages[x.Name] + "." + n.Sel.Name
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Obj == nil { // nil: the file declares no function of this name
				name = f.Name
			}
		}
		for _, rule := range callRules {
			if slices.Contains(rule.calls, name) && !rule.allow(s) {
				found = append(found, fmt.Sprintf("%s: %s: %s", files.Position(node.Pos()), name, rule.why))
			}
		}
		return true
	})
	return found
}

// cgoFlags returns the setting that commands over the package capi need, from
// the environment or else from the build script.
func cgoFlags(t *testing.T) string {
	t.Helper()
	const variable = "CGO_CFLAGS"
	if flags := os.Getenv(variable); flags != "" {
		return variable + "=" + flags
	}
	python := exec.Command(".venv/bin/python", "-c", "import setup; print(setup.cgo_cflags())")
	python.Dir = root
	out, err := python.Output()
	require.NoError(t, err, "%s is not set, and the build script does not give it: run make build", variable)
	return variable + "=" + strings.TrimSpace(string(out))
}
