package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda/nvrtc"
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

	approximate bool
}

func (r row) name() string {
	name := strings.TrimLeft(r.op.Name, "_")
	for _, t := range r.operands {
		name += "_" + t.Text()
	}
	if r.approximate {
		name += "_approximately"
	}
	return name + "_to_" + r.result.Text()
}

// rows returns every elementwise op of the table on every type that it computes
// in, and each approximation; a cast between each pair of types.
func rows() []row {
	var all []row
	ops := core.Ops()
	for _, op := range core.Ops() {
		if op.PlusOne != nil {
			ops = append(slices.Clip(ops), op.PlusOne)
		}
	}
	for _, op := range ops {
		if op.Class != core.Elementwise {
			continue
		}
		for _, t := range computed() {
			if op == core.CastOp {
				for _, to := range computed() {
					all = append(all, row{op: op, operands: []dtype.Type{t}, result: to})
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
				all = append(all, row{op: op, operands: operands, result: result})
				if t == dtype.Float && op.Approx.CUDA != "" {
					all = append(all, row{op, operands, result, true})
				}
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
			compute := b.Op
			if r.approximate {
				compute = b.Approximately
			}
			b.Store(compute(r.op, args...), y, i)
		}
	}, nil)
	return b.Kernel()
}

// compile compiles texts with NVRTC. It skips the test where there is none, and
// fails it if that is so in CI.
func compile(t testing.TB, c nvrtc.Compiler, arch string, texts []string, options ...string) []nvrtc.Result {
	t.Helper()
	c.Python, c.Root = python(), root
	results, err := c.Compile(arch, texts, options...)
	if errors.Is(err, nvrtc.ErrNone) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return results
}

var raceDetector bool // set where the tests are built with it

// slow skips a test that spends its time in other programs or on millions of
// elements, and starts no goroutines: under the race detector it says nothing
// new.
func slow(t testing.TB) {
	if t.Helper(); testing.Short() || raceDetector {
		t.Skip("takes half a minute")
	}
}

// python is the interpreter of the project, or the one that PYTHON names.
func python() string {
	if command := os.Getenv("PYTHON"); command != "" {
		return command
	}
	return filepath.Join(root, ".venv", "bin", "python")
}

// TestRowsCompile compiles every op of the table on every type in one
// translation unit.
func TestRowsCompile(t *testing.T) {
	slow(t)
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
		c := compile(t, nvrtc.Compiler{}, arch.name, []string{s.Text}, "--ptxas-options=-O1")[0]
		require.True(t, c.OK, "%s", c.Log)
		require.Empty(t, c.Log)
		most := 0
		for i, k := range s.Kernels {
			f, ok := c.Functions[k.Name]
			require.True(t, ok, k.Name)
			most = max(most, f.Registers)
			// What has a stack has a slow path that indexes it by what it makes of an operand.
			require.True(t, f.Stack == 0 || newPrinter(kernels[i], Options{}).needsDefined(), "%s, of a stack of %d bytes, calls nothing in needDefined", k.Name, f.Stack)
		}
		t.Logf("%s: %d kernels in %.1f s, at most %d registers", arch.name, len(kernels), c.Seconds, most)
	}
}
