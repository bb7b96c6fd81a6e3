package executor_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// planShapes are families of fusions, by a number of operations.
var planShapes = []struct {
	name   string
	define func(b *planBuilder, n int)
}{
	{"chain", func(b *planBuilder, n int) {
		x := b.input("-1, -1")
		for i := range n {
			x = b.add("%s %s", []string{"relu", "neg", "abs"}[i%3], x)
		}
		b.output(x)
	}},
	{"tree", func(b *planBuilder, n int) {
		var level []string
		for range (n + 1) / 2 {
			level = append(level, b.input("-1, -1"))
		}
		for len(level) > 1 {
			var next []string
			for i := 0; i+1 < len(level); i += 2 {
				next = append(next, b.add("add %s, %s", level[i], level[i+1]))
			}
			level = append(next, level[len(level)/2*2:]...)
		}
		b.output(level[0])
	}},
	{"siblings", func(b *planBuilder, n int) {
		x := b.input("-1, -1")
		for i := range n {
			b.output(b.add("mul %s, %d.0:f64", x, i+2))
		}
	}},
	{"layers", func(b *planBuilder, n int) { // linear and relu
		x := b.input("16, 16")
		for range n / 2 {
			x = b.add("linear %s, %s, none", x, b.input("16, 16"))
			x = b.add("relu %s", x)
		}
		b.output(x)
	}},
	{"transformer", func(b *planBuilder, n int) { // norm, linear, gelu of tanh, linear, residual
		x := b.input("16, 16")
		for range max(n/22, 1) {
			mean := b.add("broadcast %s is_broadcast_dim=[false, true]", b.add("sum %s dims=[1] keepdim=false dtype=f32", x))
			y := b.add("sub %s, %s", x, b.add("mul %s, 0.0625:f64", mean))
			square := b.add("sum %s dims=[1] keepdim=false dtype=f32", b.add("mul %s, %s", y, y))
			y = b.add("mul %s, %s", y, b.add("broadcast %s is_broadcast_dim=[false, true]", b.add("rsqrt %s", square)))
			y = b.add("mul %s, %s", y, b.add("broadcast %s is_broadcast_dim=[true, false]", b.input("16")))
			h := b.add("linear %s, %s, none", y, b.input("16, 16"))
			cube := b.add("mul %s, %s", b.add("mul %s, %s", h, h), h)
			inner := b.add("tanh %s", b.add("add %s, %s", h, b.add("mul %s, 0.044715:f64", cube)))
			h = b.add("mul %s, %s", b.add("mul %s, 0.5:f64", h), b.add("add %s, 1.0:f64", inner))
			x = b.add("add %s, %s", x, b.add("linear %s, %s, none", h, b.input("16, 16")))
		}
		b.output(x)
	}},
}

// A planBuilder writes the text of a fusion.
type planBuilder struct {
	inputs, body, outputs strings.Builder
	numInputs, numValues  int
}

func (b *planBuilder) input(shape string) string {
	yes := strings.TrimSuffix(strings.Repeat("yes, ", 1+strings.Count(shape, ",")), ", ")
	fmt.Fprintf(&b.inputs, "%%i%d = tensor f32 [%s] contiguity=[%s]\n", b.numInputs, shape, yes)
	b.numInputs++
	return fmt.Sprintf("%%i%d", b.numInputs-1)
}

func (b *planBuilder) add(format string, args ...any) string {
	fmt.Fprintf(&b.body, "%%v%d = "+format+"\n", append([]any{b.numValues}, args...)...)
	b.numValues++
	return fmt.Sprintf("%%v%d", b.numValues-1)
}

func (b *planBuilder) output(v string) { fmt.Fprintf(&b.outputs, "output %s\n", v) }

// fusion returns the fusion, and inputs of 16 by 16.
func (b *planBuilder) fusion(t testing.TB) (*core.Fusion, []executor.Input) {
	f, err := core.Parse(b.inputs.String() + b.body.String() + b.outputs.String())
	require.NoError(t, err)
	f.Freeze()
	var inputs []executor.Input
	for i, v := range f.Inputs() {
		sizes, strides := []int64{16, 16}, []int64{16, 1}
		rank := f.Rank(v)
		inputs = append(inputs, onDevice(0, addressOf(i), sizes[:rank], strides[2-rank:]))
	}
	return f, inputs
}

// BenchmarkGrowth times planning without kernels (passes, concrete sizes, cuts, and where tensors
// lie), and all of it.
func BenchmarkGrowth(b *testing.B) {
	for _, s := range planShapes {
		for _, n := range []int{60, 100, 1000, 10000} {
			f, inputs := planFusion(b, s.define, n)
			for name, do := range map[string]func(*executor.Executor) error{
				"cut":  func(e *executor.Executor) error { return e.Cut(inputs) },
				"plan": func(e *executor.Executor) error { _, err := e.Plan(inputs); return err },
			} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, s.name, n), func(b *testing.B) {
					before := processorTime()
					for b.Loop() {
						e, err := executor.NewCache(1, h100s(1)).Executor(f)
						require.NoError(b, err)
						require.NoError(b, do(e))
					}
					b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N)/float64(f.NumExprs()), "cpu-us/expr")
				})
			}
		}
	}
}

// processorTime is that of the process, which others do not lengthen as they do the time.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func planFusion(t testing.TB, define func(*planBuilder, int), n int) (*core.Fusion, []executor.Input) {
	b := new(planBuilder)
	define(b, n)
	return b.fusion(t)
}

// TestDevicePlanGrowth holds what planning allocates to be near linear in the operations, exponent 1.15:
// without kernels for all families, with kernels where few are distinct.
func TestDevicePlanGrowth(t *testing.T) {
	for _, s := range planShapes {
		t.Run(s.name, func(t *testing.T) {
			var cost [2][2]float64
			for i, n := range []int{400, 4000} {
				f, inputs := planFusion(t, s.define, n)
				for k, do := range []func(*executor.Executor) error{
					func(e *executor.Executor) error { return e.Cut(inputs) },
					func(e *executor.Executor) error { _, err := e.Plan(inputs); return err },
				} {
					if k == 1 && s.name != "layers" && s.name != "transformer" {
						continue
					}
					e, err := executor.NewCache(1, h100s(1)).Executor(f)
					require.NoError(t, err)
					cost[k][i] = float64(allocated(func() { require.NoError(t, do(e)) }))
				}
			}
			t.Log(cost)
			for _, c := range cost {
				require.LessOrEqual(t, c[1], c[0]*math.Pow(10, 1.15))
			}
		})
	}
}

// TestEqualLayers: the kernels of a model are those of a few of its layers.
func TestEqualLayers(t *testing.T) {
	for _, test := range []struct {
		family      int
		operations  int // of a layer
		few, layers int // the first and the last layer are cut otherwise than those between
	}{{3, 2, 1, 32}, {4, 22, 3, 32}} {
		s := planShapes[test.family]
		driver := h100s(1)
		cache, kernels := executor.NewCache(2, driver), 0
		for _, layers := range []int{test.few, test.layers} {
			f, inputs := planFusion(t, s.define, layers*test.operations)
			e, err := cache.Executor(f)
			require.NoError(t, err)
			plan, err := e.Plan(inputs)
			require.NoError(t, err)
			t.Logf("%s: %d layers have %d launches of %d kernels", s.name, layers, len(plan.Device.Launches), len(driver.Compiles()))
			require.GreaterOrEqual(t, len(plan.Device.Launches), layers)
			if layers == test.few {
				kernels = len(driver.Compiles())
			}
		}
		require.Len(t, driver.Compiles(), kernels)
	}
}

// addressOf returns an address of input i, where no program has memory and 256 MB are apart, as
// far as that goes. Below 1<<47 the heap of Go may be anywhere since Go 1.26, which ends a
// process that has a pointer to no object there.
func addressOf(i int) uintptr { return 1<<47 + uintptr(i%2000)<<28 }

// A corpusBlock is a block of the corpus with its inputs by name, such as "small".
type corpusBlock struct {
	f      *core.Fusion
	names  []string
	inputs map[string][]executor.Input
}

func readBlock(t testing.TB, file string) corpusBlock {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	b := corpusBlock{inputs: map[string][]executor.Input{}}
	b.f, err = core.Parse(string(text))
	require.NoError(t, err)
	b.f.Freeze()
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[0] != "#" {
			break
		}
		b.names = append(b.names, words[1])
		b.inputs[words[1]] = nil
		for i, v := range b.f.Inputs() {
			b.inputs[words[1]] = append(b.inputs[words[1]], blockInput(t, words[2+i], addressOf(i), b.f.Val(v)))
		}
	}
	return b
}

// blockInput returns the input that word tells: sizes, or a number.
func blockInput(t testing.TB, word string, address uintptr, v *core.Val) executor.Input {
	if !v.Tensor {
		x, err := strconv.ParseFloat(word, 64)
		require.NoError(t, err)
		return executor.Input{Scalar: core.ConvertScalar(v.DType, scalar.Value{Type: dtype.Double, Re: x})}
	}
	var sizes []int64
	for n := range strings.SplitSeq(strings.TrimPrefix(word, "-"), "x") {
		if n == "" { // no dimensions
			break
		}
		size, err := strconv.ParseInt(n, 10, 64)
		require.NoError(t, err)
		sizes = append(sizes, size)
	}
	strides, step := make([]int64, len(sizes)), int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d] = step
		step *= max(sizes[d], 1)
	}
	x := onDevice(0, address, sizes, strides)
	x.DType = v.DType
	return x
}

// TestModelKernels counts the kernels of models of the corpus, of 30 layers and of 32.
func TestModelKernels(t *testing.T) {
	for name, most := range map[string]int{"linear_relu": 2, "gpt2_model": 12} {
		b := readBlock(t, "../tests/go/testdata/corpus/blocks/"+name+".fusion")
		driver := h100s(1)
		e, err := executor.NewCache(1, driver).Executor(b.f)
		require.NoError(t, err)
		began := processorTime()
		plan, err := e.Plan(b.inputs["small"])
		requireNoError(t, err)
		t.Logf("%s: %d operations, %d launches of %d kernels, %d calls, planned in %v", name, b.f.NumExprs(), len(plan.Device.Launches), len(driver.Compiles()),
			len(plan.Device.Calls), processorTime()-began)
		require.LessOrEqual(t, len(driver.Compiles()), most)
		require.GreaterOrEqual(t, len(plan.Device.Launches), 30)
	}
}

// TestReuseOfBlocks plans the blocks of the corpus, for all their sizes, with the kernels of each
// other and without.
func TestReuseOfBlocks(t *testing.T) {
	files, err := filepath.Glob("../tests/go/testdata/corpus/blocks/*.fusion")
	require.NoError(t, err)
	driver := h100s(1)
	cache, launches := executor.NewCache(len(files), driver), 0
	for _, file := range files {
		b := readBlock(t, file)
		e, err := cache.Executor(b.f)
		require.NoError(t, err)
		if b.f.NumExprs() > 1000 {
			b.names = b.names[:1]
		}
		for _, name := range b.names {
			launches += len(requireReused(t, e, driver, b.inputs[name], executor.Options{}).launches)
		}
	}
	t.Logf("%d launches of %d kernels, %d of others", launches, len(driver.Compiles()), cache.Reused())
	require.Greater(t, cache.Reused(), 10)
}
