package cuda_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

var onGPU = flag.Bool("gpu", false, "run kernels on a GPU of compute capability 9.0 and not on the CPU")

// build compiles kernels, which takes some seconds, for the CPU or the GPU.
func build(t testing.TB, kernels ...*kir.Kernel) *hostshim.Program {
	t.Helper()
	s, err := cuda.PrintAll(kernels, cuda.Options{Arch: 90})
	require.NoError(t, err)
	return buildText(t, s)
}

func buildText(t testing.TB, s cuda.Source) *hostshim.Program {
	t.Helper()
	folder := t.TempDir()
	if *onGPU {
		c := cuda.Compile(t, nvrtc.Compiler{Cubins: folder}, "sm_90a", []string{s.Text})[0]
		require.True(t, c.OK, "%s", c.Log)
		return hostshim.Command(cuda.Python(), filepath.Join(cuda.Root, "tools", "cuda_run.py"), filepath.Join(folder, "kernel0.cubin"))
	}
	p, err := hostshim.Build(folder, s)
	require.NoError(t, err)
	return p
}

// launchOf returns a launch of k; arguments are ints, values, or bytes for
// pointers.
func launchOf(t testing.TB, k *kir.Kernel, arguments ...any) *hostshim.Launch {
	t.Helper()
	var given []hostshim.Argument
	for _, a := range arguments {
		switch a := a.(type) {
		case int:
			given = append(given, hostshim.Argument{Number: scalar.Value{I: int64(a)}})
		case scalar.Value:
			given = append(given, hostshim.Argument{Number: a})
		case []byte:
			given = append(given, hostshim.Argument{Memory: a})
		default:
			require.Failf(t, "argument", "%T", a)
		}
	}
	l, err := hostshim.NewLaunch(k, k.Name, given...)
	require.NoError(t, err)
	return l
}

// operandsOf returns columns of operands: corners, every pair of them, and
// random values of the row's domain.
func operandsOf(r *rand.Rand, x cuda.Row) [][]scalar.Value {
	const random = 300
	operands := x.Operands()
	columns := make([][]scalar.Value, len(operands))
	for k, t := range operands {
		corners := special(t)
		n := len(corners)
		for i := range n * n {
			at := i % n
			if k > 0 {
				at = i / n
			}
			if k > 1 {
				at = (i + i/n) % n
			}
			columns[k] = append(columns[k], corners[at])
		}
		var in core.Interval
		if k < len(x.Op().Domain) {
			in = x.Op().Domain[k]
		}
		for range random {
			columns[k] = append(columns[k], draw(r, t, in))
		}
	}
	n := len(columns[0])
	for _, c := range columns {
		n = min(n, len(c))
	}
	for k := range columns { // the random ones, and as many corners as there is room for
		c := columns[k]
		columns[k] = append(c[:n-random:n-random], c[len(c)-random:]...)
	}
	return columns
}

// tolerance is the error bound of a row in units of the last place of its
// result. Both sides are rounded. Of double precision and complex numbers the
// table says little: Go's functions are a few units off themselves, and a
// complex power is as many more as its exponent is large.
func tolerance(x cuda.Row) float64 {
	op, isComplex := x.Op(), x.Operands()[len(x.Operands())-1].IsComplex()
	switch {
	case x.Approximate():
		return op.Approx.Error*(1<<24) + 1
	case op == core.CastOp || op.ULP == 0 && !isComplex || x.Result().IsBool():
		return 0
	case op == core.PowOp && isComplex:
		return 200
	case isComplex || x.Result() == dtype.Double:
		return 2*op.ULP + 8
	}
	return op.ULP + 1
}

// beyond reports whether operands are outside of where the row's function and
// its meaning are close: Go reduces angles of double precision only so far, the
// error of a complex power grows with its exponent, lerp cancels, and overflows
// in float where doubles do not, lgamma has zeros below -2, and shares are of sums.
func beyond(x cuda.Row, args []scalar.Value, want scalar.Value) bool {
	size := func(i int) float64 { return max(math.Abs(args[i].Re), math.Abs(args[i].Im)) }
	switch x.Op() {
	case core.SinOp, core.CosOp, core.TanOp:
		return x.Result() == dtype.Double && size(0) > 1<<40
	case core.PowOp:
		return x.Result() == dtype.ComplexDouble && size(1) > 10
	case core.LerpOp:
		most := max(size(0), size(1))
		return math.Hypot(want.Re, want.Im) < most/4 || x.Result() == dtype.Float && most > 1e37
	case core.LgammaOp:
		return args[0].Re < -2
	case core.ExpShareOp:
		return args[0].Re > 0 || args[1].Re < 1 || args[1].Re > 1<<40
	}
	return false
}

// TestRowsRun runs every op of the table on every type on the CPU, and compares
// with what the op means.
func TestRowsRun(t *testing.T) {
	cuda.Slow(t)
	r := rand.New(rand.NewPCG(1, 2))
	rows := cuda.Rows()
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	var inputs [][][]scalar.Value
	for _, x := range rows {
		k := x.Kernel()
		columns := operandsOf(r, x)
		n := len(columns[0])
		arguments := []any{n}
		for i, c := range columns {
			memory := make([]byte, n*x.Operands()[i].Size())
			for j, v := range c {
				store(memory, j, v)
			}
			arguments = append(arguments, memory)
		}
		arguments = append(arguments, make([]byte, n*x.Result().Size()))
		kernels, launches, inputs = append(kernels, k), append(launches, launchOf(t, k, arguments...)), append(inputs, columns)
	}
	p := build(t, kernels...)
	require.NoError(t, p.Run(launches...))
	elements := 0
	for i, x := range rows {
		shown := 0
		out := launches[i].Buffers[len(launches[i].Buffers)-1].Bytes
		args := make([]scalar.Value, len(inputs[i]))
		for j := range inputs[i][0] {
			elements++
			for k := range args {
				args[k] = inputs[i][k][j]
			}
			want, err := core.EvalScalar(x.Op(), x.Result(), args)
			require.NoError(t, err)
			want.Type = x.Result()
			if problem := differs(want, load(x.Result(), out, j), tolerance(x)); problem != "" && shown < 4 && !beyond(x, args, want) {
				t.Errorf("%s%v: %s", launches[i].Kernel, args, problem)
				shown++
			}
		}
	}
	t.Logf("%d rows, %d elements", len(rows), elements)
}
