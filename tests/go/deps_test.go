package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// arrows is the direction of imports: a package may import those to its left,
// directly or through other lines, and nothing else of the project. A name that
// ends in "/..." stands for a package and all below it, which may import each
// other. A package that is not here fails the test: placing it is a decision.
const arrows = `
core/dtype < core/numerics < core/scalar, core/philox < core
core < core/schedule/... < codegen/kir < codegen/sim, codegen/cuda/...
codegen/kir, codegen/sim < codegen/memory < codegen/lower
core < core/fusionfuzz < core/schedule/..., passes
codegen/kir < codegen/arguments < codegen/trial
core/schedule/..., codegen/sim < codegen/trial < codegen/lower, executor
core/schedule/... < schedulers/...
passes, schedulers/... < segmenter
segmenter, codegen/lower, codegen/sim, codegen/cuda/..., cudadrv, cudadrv/fake, executor/cpu < executor
core/fusionfuzz < executor/cpu
cudadrv < cudadrv/real
cudadrv < cudadrv/fake < cudadrv/cubins < executor
executor/planfile < executor
cudadrv, cudadrv/fake, schedulers/... < executor/calibration < executor
executor, executor/calibration, cudadrv/real < capi, cmd/...
`

// Packages under internal may be imported by all, and import only each other.
const everywhere = "internal/..."

// Tests that need more than their package's own view live here.
const unbounded = "tests/go"

// cgoUsers are the packages that may contain C; the rest builds without cgo.
var cgoUsers = []string{"capi", "cudadrv/real"}

// modules are the dependencies and the packages that may import them, in code
// and tests; "tests" stands for the test files of all packages.
var modules = map[string][]string{
	"github.com/google/flatbuffers": {"executor", "executor/planfile"},
	"github.com/stretchr/testify":   {"tests"},
	"golang.org/x/sync":             {"executor", "cudadrv/cubins"},
	"golang.org/x/tools":            {"tests", "internal/golden"},
	"gorgonia.org/cu":               {"cudadrv/real"},
}

const module = "nvfuser_go"

// A goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	CgoFiles                           []string
}

func TestLintImports(t *testing.T) {
	require.Empty(t, violations(listPackages(t), arrows))
}

// TestLintImportsFinds shows the rules to be able to fail.
func TestLintImportsFinds(t *testing.T) {
	const order = "a < b, c < d/...\nx < d/..."
	for _, test := range []struct {
		name    string
		pkg     goPackage
		problem string // empty: allowed
	}{
		{"lower", goPackage{ImportPath: "b", Imports: []string{"nvfuser_go/a", "fmt"}}, ""},
		{"through another", goPackage{ImportPath: "d", Imports: []string{"nvfuser_go/a"}}, ""},
		{"second line", goPackage{ImportPath: "d/sub", Imports: []string{"nvfuser_go/x", "nvfuser_go/d"}}, ""},
		{"internal", goPackage{ImportPath: "a", Imports: []string{"nvfuser_go/internal/debug"}}, ""},
		{"own test", goPackage{ImportPath: "a", XTestImports: []string{"nvfuser_go/a", "github.com/stretchr/testify/require"}}, ""},
		{"higher", goPackage{ImportPath: "a", Imports: []string{"nvfuser_go/b"}}, "a imports b"},
		{"same layer", goPackage{ImportPath: "b", Imports: []string{"nvfuser_go/c"}}, "b imports c"},
		{"other branch", goPackage{ImportPath: "b", Imports: []string{"nvfuser_go/x"}}, "b imports x"},
		{"test", goPackage{ImportPath: "a", TestImports: []string{"nvfuser_go/b"}}, "a (tests) imports b"},
		{"from internal", goPackage{ImportPath: "internal/debug", Imports: []string{"nvfuser_go/a"}}, "internal/debug imports a"},
		{"unlisted", goPackage{ImportPath: "e"}, "e is not in the list"},
		{"prefix of a name", goPackage{ImportPath: "dd"}, "dd is not in the list"},
		{"cgo", goPackage{ImportPath: "a", CgoFiles: []string{"a.go"}}, "a uses cgo"},
		{"unknown module", goPackage{ImportPath: "a", Imports: []string{"example.com/z"}}, "a imports example.com/z"},
		{"test module", goPackage{ImportPath: "a", Imports: []string{"github.com/stretchr/testify/require"}}, "a imports github.com/stretchr/testify/require"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.pkg.ImportPath = module + "/" + test.pkg.ImportPath
			found := violations([]goPackage{test.pkg}, order)
			if test.problem == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], test.problem)
		})
	}
}

// TestLintNoCgo compiles all packages but cgoUsers without a C compiler.
func TestLintNoCgo(t *testing.T) {
	goCommand(t, "CGO_ENABLED=0", "build", "./...")
}

// violations returns a sentence for each import that the rules above and the
// given arrows forbid.
func violations(packages []goPackage, arrows string) []string {
	below := parseArrows(arrows)
	var found []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name == unbounded {
			continue
		}
		place, known := placeOf(name, below)
		if !known {
			found = append(found, name+" is not in the list of packages: decide where it stands")
			continue
		}
		if len(p.CgoFiles) > 0 && !slices.Contains(cgoUsers, name) {
			found = append(found, fmt.Sprintf("%s uses cgo in %v", name, p.CgoFiles))
		}
		check := func(imports []string, user, label string) {
			for _, imported := range imports {
				if !mayImport(imported, name, place, user, below) {
					found = append(found, fmt.Sprintf("%s imports %s", label, strings.TrimPrefix(imported, module+"/")))
				}
			}
		}
		check(p.Imports, name, name)
		check(slices.Concat(p.TestImports, p.XTestImports), "tests", name+" (tests)")
	}
	return found
}

// mayImport reports whether the package name, which stands at the given place
// of the order, may import the package imported; user is how modules calls it.
func mayImport(imported, name, place, user string, below map[string]map[string]bool) bool {
	target, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		first, _, _ := strings.Cut(imported, "/")
		if !strings.Contains(first, ".") {
			return true // the standard library
		}
		for path, users := range modules {
			if matches(path+"/...", imported) {
				return slices.Contains(users, user) || slices.Contains(users, name)
			}
		}
		return false
	}
	if target == name || matches(everywhere, target) || matches(place, target) {
		return true
	}
	targetPlace, known := placeOf(target, below)
	return known && below[place][targetPlace]
}

// parseArrows returns, for each name in the order, all names below it.
func parseArrows(text string) map[string]map[string]bool {
	below := map[string]map[string]bool{everywhere: {}}
	for line := range strings.Lines(text) {
		var lower []string
		for group := range strings.SplitSeq(line, "<") {
			var names []string
			for name := range strings.SplitSeq(group, ",") {
				if name = strings.TrimSpace(name); name != "" {
					names = append(names, name)
				}
			}
			for _, name := range names {
				if below[name] == nil {
					below[name] = map[string]bool{}
				}
				for _, l := range lower {
					below[name][l] = true
				}
			}
			lower = names
		}
	}
	for middle := range below { // transitive closure
		for high := range below {
			if below[high][middle] {
				for low := range below[middle] {
					below[high][low] = true
				}
			}
		}
	}
	return below
}

// placeOf returns the name in the order that stands for the package.
func placeOf(pkg string, below map[string]map[string]bool) (string, bool) {
	for name := range below {
		if matches(name, pkg) {
			return name, true
		}
	}
	return "", false
}

func matches(pattern, pkg string) bool {
	tree, isTree := strings.CutSuffix(pattern, "/...")
	return pkg == tree || isTree && strings.HasPrefix(pkg, tree+"/")
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out := goCommand(t, "CGO_ENABLED=1", "list", "-json=ImportPath,Imports,TestImports,XTestImports,CgoFiles", "./...")
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
	require.NotEmpty(t, packages)
	return packages
}

// goCommand runs the go command in the root of the repository, with one more
// setting of the environment, and returns its output. Failing fails the test.
func goCommand(t *testing.T, setting string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), setting)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "go %s\n%s%s", strings.Join(args, " "), &stdout, &stderr)
	return stdout.Bytes()
}
