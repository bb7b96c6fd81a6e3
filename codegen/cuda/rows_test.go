package cuda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// root is the root of the repository.
const root = "../.."

// computed are the types that threads compute with.
func computed() []dtype.Type {
	var all []dtype.Type
	for _, t := range dtype.All() {
		if t.Computes() && t != dtype.Index {
			all = append(all, t)
		}
	}
	return all
}

// A row is an op on elements of given types.
type row struct {
	op       *core.OpInfo
	operands []dtype.Type
	result   dtype.Type
}

func (r row) name() string {
	name := r.op.Name
	for _, t := range r.operands {
		name += "_" + t.Text()
	}
	return name + "_to_" + r.result.Text()
}

// rows returns every elementwise op of the table on every type that it computes
// in; a cast between each pair of types.
func rows() []row {
	var all []row
	for _, op := range core.Ops() {
		if op.Class != core.Elementwise {
			continue
		}
		for _, t := range computed() {
			if op == core.CastOp {
				for _, to := range computed() {
					all = append(all, row{op, []dtype.Type{t}, to})
				}
				continue
			}
			var operands []dtype.Type
			for i, p := range op.Params() {
				switch {
				case p.Kind != core.Operand:
				case i < op.Promote.Skip:
					operands = append(operands, dtype.Bool)
				default:
					operands = append(operands, t)
				}
			}
			if result, err := op.ElementType(operands...); err == nil {
				all = append(all, row{op, operands, result})
			}
		}
	}
	return all
}

// kernel returns y[i] = op(x0[i], ...) for i below n.
func (r row) kernel() *kir.Kernel {
	b := kir.NewBuilder(r.name(), dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 1<<24))
	inputs := make([]kir.BufferID, len(r.operands))
	for i, t := range r.operands {
		inputs[i] = b.Input(fmt.Sprintf("x%d", i), t, n)
	}
	y := b.Global("y", r.result, n)
	i := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(n, b.T.Int(128))), b.T.Int(128)), b.Thread(0, 128))
	b.If(b.T.Lt(i, n), func() {
		args := make([]kir.ValueID, len(inputs))
		for k, x := range inputs {
			args[k] = b.Load(x, i)
		}
		if r.op == core.CastOp {
			b.Store(b.Cast(r.result, args[0]), y, i)
		} else {
			b.Store(b.Op(r.op, args...), y, i)
		}
	}, nil)
	return b.Kernel()
}

// A compilation is what NVRTC says of a text.
type compilation struct {
	File      string  `json:"file"`
	OK        bool    `json:"ok"`
	Log       string  `json:"log"`
	Seconds   float64 `json:"seconds"`
	Functions map[string]struct {
		Registers   int `json:"registers"`
		SpillStores int `json:"spill_stores"`
		SpillLoads  int `json:"spill_loads"`
		Stack       int `json:"stack"`
	} `json:"functions"`
}

// python is the interpreter of the project, or the one that PYTHON names.
func python() string {
	if command := os.Getenv("PYTHON"); command != "" {
		return command
	}
	return filepath.Join(root, ".venv", "bin", "python")
}

// nvrtc compiles a text for an architecture.
func nvrtc(t testing.TB, text, arch string, options ...string) compilation {
	t.Helper()
	return compileAll(t, arch, []string{text}, options)[0]
}

func nvrtcAll(t testing.TB, arch string, texts ...string) []compilation {
	t.Helper()
	return compileAll(t, arch, texts, nil)
}

// compileAll runs the compiler's program with more options. It skips the test where there is no NVRTC, and fails it if that is so
// in CI.
func compileAll(t testing.TB, arch string, texts, options []string) []compilation {
	t.Helper()
	args := []string{filepath.Join(root, "tools", "nvrtc_compile.py"), "--arch", arch}
	args = append(args, options...)
	folder := t.TempDir()
	for i, text := range texts {
		file := filepath.Join(folder, fmt.Sprintf("kernel%d.cu", i))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		args = append(args, file)
	}
	var out, problems bytes.Buffer
	command := exec.Command(python(), args...)
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	const noNVRTC = 3
	if command.ProcessState == nil || command.ProcessState.ExitCode() == noNVRTC {
		require.Empty(t, os.Getenv("CI"), "%v\n%s", err, &problems)
		t.Skipf("this test needs a Python with an NVRTC library, such as torch brings: %v\n%s", err, &problems)
	}
	var all []compilation
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var c compilation
		require.NoError(t, decoder.Decode(&c))
		all = append(all, c)
	}
	require.Len(t, all, len(texts), "%s", &problems)
	return all
}

// TestRowsCompile compiles every op of the table on every type in one
// translation unit.
func TestRowsCompile(t *testing.T) {
	var kernels []*kir.Kernel
	for _, r := range rows() {
		k := r.kernel()
		require.NoError(t, k.Verify())
		kernels = append(kernels, k)
	}
	require.Greater(t, len(kernels), 500)
	for _, arch := range []struct {
		name string
		sm   int
	}{{"sm_80", 80}, {"sm_90a", 90}} {
		s, err := PrintAll(kernels, Options{Arch: arch.sm})
		require.NoError(t, err)
		c := nvrtc(t, s.Text, arch.name, "--option=--ptxas-options=-O1")
		require.True(t, c.OK, "%s", c.Log)
		require.Empty(t, c.Log)
		most := 0
		for _, k := range s.Kernels {
			f, ok := c.Functions[k.Name]
			require.True(t, ok, k.Name)
			most = max(most, f.Registers)
		}
		t.Logf("%s: %d kernels in %.1f s, at most %d registers", arch.name, len(kernels), c.Seconds, most)
	}
}
