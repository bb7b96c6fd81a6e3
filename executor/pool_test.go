package executor_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// A compiler is a driver of which a test sees what it compiles.
type compiler struct {
	*fake.Driver
	meet func(source string) error // called in each compilation
}

func (c *compiler) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	if err := c.meet(source); err != nil {
		return cudadrv.Compiled{}, err
	}
	return c.Driver.Compile(source, o)
}

// layers is a fusion of segments of one kernel each, which are all different but for the
// last two.
func layers(names ...string) string {
	var b strings.Builder
	b.WriteString("%0 = tensor f32 [-1] contiguity=[yes]\n")
	for i, name := range names {
		fmt.Fprintf(&b, "%%%d = %s %%%d\n%%%d = segment_set %%%d\n", 2*i+1, name, 2*i, 2*i+2, 2*i+1)
	}
	fmt.Fprintf(&b, "output %%%d\n", 2*len(names))
	return b.String()
}

func layersExecutor(t testing.TB, c *executor.Cache, names ...string) *executor.Executor {
	e, err := c.Executor(parsed(t, layers(names...)))
	require.NoError(t, err)
	return e
}

var aVector = []executor.Input{vector(0x1000, 1000)}

// failing is a driver that cannot compile kernels with one of the words.
func failing(with func(source string) error, words ...string) *compiler {
	return &compiler{h100s(1), func(source string) error {
		for _, word := range words {
			if strings.Contains(source, word) {
				return with(source)
			}
		}
		return nil
	}}
}

// TestSegmentsThatFail: all of them are told, each as Python, and the next call compiles
// them alone.
func TestSegmentsThatFail(t *testing.T) {
	for _, test := range []struct {
		name string
		with func(source string) error
		is   func(t *testing.T, err error)
		says string
	}{
		{"text", func(source string) error { return &cudadrv.CompileError{Source: source, Log: "expected a }"} },
			func(t *testing.T, err error) {
				var bug *executor.Bug
				require.ErrorAs(t, err, &bug)
				require.Contains(t, bug.Reproducer, "expf(")
				require.Contains(t, bug.Reproducer, "sinf(")
				require.NotContains(t, bug.Reproducer, "fabsf(")
			}, "expected a }"},
		{"panic", func(string) error { panic("the compiler panics") },
			func(t *testing.T, err error) {
				var bug *executor.Bug
				require.ErrorAs(t, err, &bug)
				require.Contains(t, string(bug.Stack), "pool_test.go")
			}, "the compiler panics"},
		{"memory", func(string) error {
			return &cudadrv.CallError{Call: "cuAnything", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory"}
		}, func(t *testing.T, err error) {
			require.NotErrorAs(t, err, new(*executor.Bug))
			require.ErrorAs(t, err, new(*cudadrv.CallError))
		}, "out of memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			driver := failing(test.with, "expf(", "sinf(")
			e := layersExecutor(t, executor.NewCache(1, driver), "exp", "abs", "sin", "neg")
			_, err := e.Plan(aVector)
			require.Error(t, err)
			test.is(t, err)
			require.Contains(t, err.Error(), "2 of 4 segments cannot be computed: ")
			_, parts, _ := strings.Cut(err.Error(), "\nsegment ")
			require.Equal(t, 2, strings.Count(parts, test.says))
			require.NotContains(t, err.Error(), "goroutine")
			for _, part := range []string{
				"\nsegment 0, kernel by pointwise: tv2 from tv0\n  ",
				"\ndef nvfuser_fusion_0(fd : FusionDefinition) -> None :\n    tv0 = fd.define_tensor(",
				"    tv1 = fd.ops.exp(tv0)\n",
				"\nsegment 2, kernel by pointwise: tv6 (here tv2) from tv4 (here tv0)\n  ",
				"    tv1 = fd.ops.sin(tv0)\n",
			} {
				require.Contains(t, err.Error(), part)
			}
			require.NotContains(t, err.Error(), "fd.ops.abs")
			compiled := len(driver.Compiles())
			require.Equal(t, 2, compiled)
			driver.meet = func(string) error { return nil }
			_, err = e.Plan(aVector)
			requireNoError(t, err)
			again := driver.Compiles()[compiled:]
			require.Len(t, again, 2)
			for _, c := range again {
				require.True(t, strings.Contains(c.Source, "expf(") || strings.Contains(c.Source, "sinf("))
			}
		})
	}
}

// TestMachineLacks: what the machine lacks is told once, and of no segment.
func TestMachineLacks(t *testing.T) {
	driver := &compiler{h100s(1), func(string) error { return &cudadrv.Unavailable{Library: "NVRTC"} }}
	_, err := layersExecutor(t, executor.NewCache(1, driver), "exp", "abs", "sin").Plan(aVector)
	require.ErrorAs(t, err, new(*core.Unsupported))
	require.NotContains(t, err.Error(), "segment")
	require.Equal(t, 1, strings.Count(err.Error(), "NVRTC"))
}

// deviceText shows the plan of f for aVector.
func deviceText(c *executor.Cache, f *core.Fusion) (string, error) {
	e, err := c.Executor(f)
	if err != nil {
		return "", err
	}
	plan, err := e.Plan(aVector)
	if err != nil {
		return "", err
	}
	text, err := plan.Inspection().Show("cuda_full")
	return plan.Device.String() + text, err
}

// TestPlansShareKernels: many goroutines plan fusions that share kernels, and each
// kernel is compiled once, no more at once than there are processors.
func TestPlansShareKernels(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var now, most atomic.Int64
	driver := &compiler{h100s(1), func(string) error {
		for n := now.Add(1); ; {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		return nil
	}}
	cache := executor.NewCache(16, driver)
	names := []string{"exp", "abs", "sin", "neg", "cos", "relu", "tanh", "sqrt"}
	var want []string // made by one goroutine, from nothing
	for g := range names {
		text, err := deviceText(executor.NewCache(1, h100s(1)), parsed(t, layers(append(append([]string{}, names[g:]...), names[:g]...)...)))
		requireNoError(t, err)
		want = append(want, text)
	}
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			some := append(append([]string{}, names[g%8:]...), names[:g%8]...)
			if got, err := deviceText(cache, parsed(t, layers(some...))); err != nil || got != want[g%8] {
				t.Errorf("%v: %s\nis not\n%s", err, got, want[g%8])
			}
		})
	}
	all.Wait()
	texts := map[string]bool{}
	for _, c := range driver.Compiles() {
		require.False(t, texts[c.Source], "compiled twice:\n%s", c.Source)
		texts[c.Source] = true
	}
	t.Logf("%d kernels, %d at once", len(texts), most.Load())
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Equal(t, 2*len(names), len(texts)) // one that is the first of a plan does not wait for another
	done, asked := executor.Compiling()
	require.Zero(t, done)
	require.Zero(t, asked)
}

// TestSerial: with the option kernels are compiled one after another, in order, into the
// plan that is found without it.
func TestSerial(t *testing.T) {
	names := []string{"exp", "abs", "sin", "neg", "cos", "tanh", "sqrt", "floor"}
	marks := []string{"expf(", "fabsf(", "sinf(", "= -", "cosf(", "tanhf(", "sqrt", "floorf("}
	var running, most atomic.Int32
	var lock sync.Mutex
	var sources []string
	driver := &compiler{h100s(1), func(source string) error {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(time.Millisecond)
		lock.Lock()
		defer lock.Unlock()
		sources = append(sources, source[strings.LastIndex(source, "__global__"):])
		running.Add(-1)
		return nil
	}}
	e := layersExecutor(t, executor.NewCache(1, driver), names...)
	plan, err := e.PlanWith(aVector, executor.Options{Serial: true})
	requireNoError(t, err)
	require.EqualValues(t, 1, most.Load())
	require.Len(t, sources, len(names))
	for i, mark := range marks {
		require.Contains(t, sources[i], mark)
	}
	same, err := e.Plan(aVector)
	requireNoError(t, err)
	require.Same(t, plan, same)
}
