package executor_test

import (
	"hash/fnv"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// scaled is a fusion x * factor + x over a vector, different for each factor.
func scaled(t testing.TB, factor int) *core.Fusion {
	p := &program{t, core.NewFusion()}
	x := p.tensor(-1)
	p.output(p.call("add", p.call("mul", x, factor), x))
	p.f.Freeze()
	return p.f
}

// runScaled runs it on n elements and checks the result.
func runScaled(t testing.TB, c *executor.Cache, factor, n int) {
	e, err := c.Executor(scaled(t, factor))
	require.NoError(t, err)
	in := floats([]int64{int64(n)}, []int64{1})
	for i, x := 0, unsafe.Slice((*float32)(in.Data), n); i < n; i++ {
		x[i] = float32(i)
	}
	plan, err := e.Plan([]executor.Input{in})
	require.NoError(t, err)
	out := make([]float32, n)
	require.NoError(t, plan.Run([]executor.Input{in}, []unsafe.Pointer{unsafe.Pointer(&out[0])}, random, nil))
	for i := range out {
		require.Equal(t, float32(i*factor+i), out[i])
	}
}

// TestManyGoroutines uses a cache that is too small from many goroutines: the
// same plan, other plans of one executor, and executors that are evicted.
func TestManyGoroutines(t *testing.T) {
	c := executor.NewCache(3, nil)
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 30 {
				runScaled(t, c, (g+i)%6, 1+(i*7919)%5000)
			}
			runScaled(t, c, 1, 60000)
		})
	}
	all.Wait()
	s := c.Stats()
	require.Equal(t, 3, s.Executors)
	require.Equal(t, 16*31, s.Hits+s.Misses)
	require.Equal(t, s.Misses-3, s.Evictions)
}

func TestEqualDefinitionsShareAnExecutor(t *testing.T) {
	c := executor.NewCache(2, nil)
	a, err := c.Executor(scaled(t, 3))
	require.NoError(t, err)
	b, err := c.Executor(scaled(t, 3))
	require.NoError(t, err)
	require.Same(t, a, b)
	for _, factor := range []int{4, 3, 5} { // 4 is used longest ago
		_, err = c.Executor(scaled(t, factor))
		require.NoError(t, err)
	}
	require.Equal(t, executor.Stats{Hits: 2, Misses: 3, Evictions: 1, Executors: 2}, c.Stats())
	again, err := c.Executor(scaled(t, 3))
	require.NoError(t, err)
	require.Same(t, a, again)
}

// TestPlanIsBuiltOnce asks for one new plan from many goroutines at once.
func TestPlanIsBuiltOnce(t *testing.T) {
	e := executorOf(t, scaled(t, 2))
	in := []executor.Input{floats([]int64{10}, []int64{1})}
	var all sync.WaitGroup
	plans := make([]*executor.Plan, 32)
	for i := range plans {
		all.Go(func() { plans[i], _ = e.Plan(in) })
	}
	all.Wait()
	for _, p := range plans {
		require.Same(t, plans[0], p)
	}
	held, built := e.Plans()
	require.Equal(t, []int{1, 1}, []int{held, built})
}

func TestPlansAreBounded(t *testing.T) {
	e := executorOf(t, scaled(t, 2))
	for n := range 600 {
		_, err := e.Plan([]executor.Input{floats([]int64{int64(n)}, []int64{1})})
		require.NoError(t, err)
	}
	held, built := e.Plans()
	require.Equal(t, []int{256, 600}, []int{held, built})
	last := []executor.Input{floats([]int64{599}, []int64{1})}
	_, err := e.Plan(last)
	require.NoError(t, err)
	_, built = e.Plans()
	require.Equal(t, 600, built, "the plan used last was kept")
}

// TestScalarsInTheKey makes a plan for each value of a scalar that a size
// depends on.
func TestScalarsInTheKey(t *testing.T) {
	p := &program{t, core.NewFusion()}
	n, err := p.f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	x := p.tensor(-1)
	p.output(p.call("expand", p.call("broadcast", x, []bool{true, false}), []core.ValID{n, p.call("size", x, 0)}))
	p.f.Freeze()
	e := executorOf(t, p.f)
	for _, rows := range []int64{3, 5, 3} {
		plan, err := e.Plan([]executor.Input{{Scalar: scalar.Value{Type: dtype.Int, I: rows}}, floats([]int64{4}, []int64{1})})
		require.NoError(t, err)
		require.Equal(t, []int64{rows, 4}, plan.Outputs[0].Sizes)
		require.Equal(t, []int64{0, 1}, plan.Outputs[0].Strides)
	}
	held, built := e.Plans()
	require.Equal(t, []int{2, 2}, []int{held, built})
}

// TestLookupDoesNotAllocate finds a plan that exists.
func TestLookupDoesNotAllocate(t *testing.T) {
	p := &program{t, core.NewFusion()}
	var inputs []executor.Input
	sum := p.tensor(-1, -1, -1, -1)
	for i := range 10 {
		if i > 0 {
			sum = p.call("add", sum, p.tensor(-1, -1, -1, -1))
		}
		inputs = append(inputs, floats([]int64{20, 30, 2, 10}, []int64{600, 20, 10, 1}))
	}
	p.output(sum)
	p.f.Freeze()
	e := executorOf(t, p.f)
	_, err := e.Plan(inputs)
	require.NoError(t, err)
	n := testing.AllocsPerRun(1000, func() { _, err = e.Plan(inputs) })
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestSameBitsOnAnyProcessors runs programs with one and with two processors,
// and again while other goroutines disturb the schedule.
func TestSameBitsOnAnyProcessors(t *testing.T) {
	build := func(p *program) {
		x := p.tensor(-1, -1)
		p.output(softmax(p, x, 1))
		x = p.call("cast", x, dtype.Double) // sums in another order have other bits
		p.output(p.call("sum", p.call("exp", x)))
		p.output(p.call("sum", p.call("sin", x), 0))
		p.output(p.call("cumsum", p.call("cos", x), 0))
		for _, v := range p.calls("welford", p.call("exp", x), []int{0, 1}) {
			p.output(v)
		}
		p.output(p.call("matmul", x, p.call("permute", x, []int{1, 0})))
		p.output(p.call("rand_like", x))
	}
	c := newCase(t, build, []int64{150, 500})
	p := prepare(c)
	bits := func() uint64 {
		_, memory, err := p.run(t, executorOf(t, c.Fusion), random)
		requireNoError(t, err)
		all := fnv.New64()
		for _, m := range memory {
			all.Write(m.Bytes())
		}
		return all.Sum64()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want := bits()
	for _, n := range []int{2, 8} {
		runtime.GOMAXPROCS(n)
		for range 2 {
			stop := make(chan struct{})
			for range 4 {
				go func() {
					for {
						select {
						case <-stop:
							return
						default:
							runtime.Gosched()
						}
					}
				}()
			}
			require.True(t, want == bits(), "with %d processors", n)
			close(stop)
		}
	}
}
