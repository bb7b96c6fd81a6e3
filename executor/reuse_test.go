package executor_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// resized returns inputs of the kinds of inputs with other sizes, without gaps: each size
// has become the one that to says.
func resized(inputs []executor.Input, to func(n int64) int64) []executor.Input {
	all := slices.Clone(inputs)
	for i := range all {
		x := &all[i]
		if !x.Tensor {
			continue
		}
		order := make([]int, len(x.Sizes))
		for d := range order {
			order[d] = d
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(x.Strides[b] - x.Strides[a]) })
		sizes, strides, step := make([]int64, len(order)), make([]int64, len(order)), int64(1)
		for d, n := range x.Sizes {
			sizes[d] = to(n)
		}
		for _, d := range slices.Backward(order) {
			if x.Strides[d] != 0 {
				strides[d] = step
				step *= max(sizes[d], 1)
			}
		}
		x.Sizes, x.Strides = sizes, strides
	}
	return all
}

// A whole is all that a plan is, but for handles: its program, its kernels and the texts that
// they were compiled from.
type whole struct {
	program, kernels string
	launches         []cudadrv.LaunchBlock
	texts            []string
	outputs          []executor.OutputDescription
	failure          string
}

func wholeOf(e *executor.Executor, driver *fake.Driver, inputs []executor.Input, o executor.Options) whole {
	plan, err := e.PlanWith(inputs, o)
	if err != nil {
		return whole{failure: err.Error()}
	}
	d := plan.Device
	x := whole{program: d.String(), outputs: plan.Outputs}
	loads := driver.Loads()
	for i, l := range d.Launches {
		x.kernels += d.Kernel(i).String()
		x.texts = append(x.texts, string(loads[l.Function.Handle-1].Cubin))
		l.Function.Handle = 0
		x.launches = append(x.launches, l)
	}
	return x
}

// requireReused compares a plan of e, which may take kernels of others, with one that may not.
func requireReused(t *testing.T, e *executor.Executor, driver *fake.Driver, inputs []executor.Input, o executor.Options) whole {
	fresh := h100s(1)
	alone, err := executor.NewCache(1, fresh).Executor(e.Fusion())
	require.NoError(t, err)
	want := wholeOf(alone, fresh, inputs, o)
	require.Equal(t, want, wholeOf(e, driver, inputs, o), "%v\n%+v", e.Fusion(), inputs)
	return want
}

// TestReuse plans random fusions for several sizes each, with kernels of other sizes and
// without. REUSE_PROGRAMS is how many, REUSE_SEED says which.
func TestReuse(t *testing.T) {
	n := setting("REUSE_PROGRAMS", 150)
	r := rand.New(rand.NewPCG(uint64(setting("REUSE_SEED", 3)), 9))
	lengths := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 33, 64, 100, 127, 128, 256, 1000, 1024, 4096, 50000, 65536}
	driver, at := h100s(1), executor.Device{Type: executor.CUDA}
	cache := executor.NewCache(n+1, driver)
	plans, launches := 0, 0
	for range n {
		c := randomCase(r)
		p := prepare(c)
		toDevice(p.inputs, func(int) bool { return true })
		e, err := cache.Executor(c.Fusion)
		require.NoError(t, err)
		for range 6 {
			to := map[int64]int64{}
			inputs := resized(p.inputs, func(n int64) int64 {
				if _, ok := to[n]; !ok {
					if to[n] = lengths[r.IntN(len(lengths))]; r.IntN(4) == 0 {
						to[n] = n
					}
				}
				return to[n]
			})
			o := executor.Options{Device: &at, Candidate: max(r.IntN(8)-5, 0), RandomInMemory: r.IntN(4) == 0}
			if got := requireReused(t, e, driver, inputs, o); got.failure == "" {
				plans, launches = plans+1, launches+len(got.launches)
			}
		}
	}
	t.Logf("%d plans with %d launches, %d of kernels made for others", plans, launches, cache.Reused())
	require.Greater(t, plans, n)
	require.Greater(t, cache.Reused(), launches/10)
}

// TestReuseOfSizes tells which sizes have a kernel in common.
func TestReuseOfSizes(t *testing.T) {
	matrix := func(rows, columns int64) []executor.Input {
		return []executor.Input{onDevice(0, 0x1000, []int64{rows, columns}, []int64{columns, 1})}
	}
	relu := func(p *program) { p.output(p.call("relu", p.tensor(-1, -1))) }
	sum := func(p *program) { p.output(p.call("sum", p.tensor(-1, -1), 1)) }
	softmax := func(p *program) {
		x := p.tensor(-1, -1)
		e := p.call("exp", p.call("sub", x, p.call("max", x, 1, true)))
		p.output(p.call("div", e, p.call("sum", e, 1, true)))
	}
	reshaped := func(p *program) { p.output(p.call("neg", p.call("reshape", p.tensor(-1, -1), []int{-1}))) }
	for _, test := range []struct {
		name         string
		define       func(*program)
		first, other []executor.Input
		reused       int
	}{
		{"another row", relu, matrix(5, 5), matrix(6, 5), 1},
		{"other vectors", relu, matrix(4096, 4096), matrix(4096, 8192), 1},
		{"no vectors", relu, matrix(4096, 4096), matrix(4097, 4097), 0},
		{"indices of 64 bits", relu, matrix(4096, 4096), matrix(1<<16, 1<<16), 0},
		{"one row", relu, matrix(5, 5), matrix(1, 5), 1},
		{"no row", relu, matrix(5, 5), matrix(0, 5), 0},
		{"another address", relu, matrix(4096, 4096), []executor.Input{onDevice(0, 0x1004, []int64{4096, 4096}, []int64{4096, 1})}, 0},
		{"rows of sums", sum, matrix(300, 100), matrix(304, 108), 1},
		{"shorter rows", sum, matrix(300, 100), matrix(300, 7), 0},
		{"rows of some length", softmax, matrix(300, 1000), matrix(304, 1008), 1},
		{"rows with all that threads have", softmax, matrix(300, 1024), matrix(304, 1024), 1},
		{"rows that have less", softmax, matrix(300, 1024), matrix(300, 1008), 0},
		{"rows that have more", softmax, matrix(300, 1008), matrix(300, 1024), 0},
		{"a size that is a constant", reshaped, matrix(5, 7), matrix(5, 8), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			driver := h100s(1)
			cache := executor.NewCache(1, driver)
			e, err := cache.Executor(frozen(t, test.define))
			require.NoError(t, err)
			requireReused(t, e, driver, test.first, executor.Options{})
			requireReused(t, e, driver, test.other, executor.Options{})
			require.Equal(t, test.reused, cache.Reused())
		})
	}
}

// TestReuseByOthers: equal parts of other definitions share kernels, and nothing is compiled or
// loaded for them.
func TestReuseByOthers(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(4, driver)
	layers := func(n int) (*core.Fusion, []executor.Input) {
		var inputs []executor.Input
		f := frozen(t, func(p *program) {
			add := func() core.ValID {
				inputs = append(inputs, onDevice(0, addressOf(len(inputs)), []int64{16, 16}, []int64{16, 1}))
				return p.tensorOf(dtype.Float, 16, 16)
			}
			x := add()
			for range n {
				x = p.call("relu", p.call("linear", x, add()))
			}
			p.output(x)
		})
		return f, inputs
	}
	compiled := 0
	for _, n := range []int{1, 32, 7} {
		f, inputs := layers(n)
		e, err := cache.Executor(f)
		require.NoError(t, err)
		require.Len(t, requireReused(t, e, driver, inputs, executor.Options{}).launches, n)
		if n == 1 {
			compiled = len(driver.Compiles())
		}
	}
	require.Equal(t, 1, compiled)
	require.Len(t, driver.Compiles(), compiled)
	require.Len(t, driver.Loads(), compiled)
	require.Equal(t, 2, cache.Reused())
}

// TestReuseOfRandomNumbers: where seed and offset are in memory, how many numbers were drawn before
// is in the text of a kernel.
func TestReuseOfRandomNumbers(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(2, driver)
	inputs := []executor.Input{vector(0x1000, 10), onDevice(0, 0x2000, []int64{3, 4}, []int64{4, 1})}
	for i, other := range []string{"neg", "randn_like"} {
		define := func(p *program) {
			x := p.tensor(-1)
			p.output(p.call(other, p.tensor(-1, -1)))
			p.output(p.call("rand_like", x))
		}
		e, err := cache.Executor(frozen(t, define))
		require.NoError(t, err)
		for _, inMemory := range []bool{false, true} {
			requireReused(t, e, driver, inputs, executor.Options{RandomInMemory: inMemory})
		}
		require.Equal(t, i, cache.Reused(), "without seeds in memory one kernel serves both places")
	}
}

// TestReuseByThreads has many goroutines plan for many sizes with few kernels at a time, and look at
// and evaluate what they have in common.
func TestReuseByThreads(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(2, driver)
	e, err := cache.Executor(frozen(t, func(p *program) {
		x := p.tensor(-1, -1)
		p.output(p.call("mul", p.call("sum", x, 1), p.call("add", p.scalar(dtype.Float), 1.0)))
	}))
	require.NoError(t, err)
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := range int64(20) {
				n := i + int64(k%4)*20
				inputs := []executor.Input{onDevice(0, 0x1000, []int64{n + 2, 3*n + 7}, []int64{3*n + 7, 1}), number(2)}
				plan, err := e.Plan(inputs)
				if !assert.NoError(t, err) {
					return
				}
				words := make([]uint64, plan.Device.Scalars)
				assert.NoError(t, plan.Evaluate(inputs, words))
				assert.NotContains(t, plan.Device.String(), "could not")
				for _, stage := range []string{"kernel_args", "predicate_elimination", "ca_map"} {
					_, err = plan.Inspection().Show(stage)
					assert.NoError(t, err)
				}
			}
		})
	}
	all.Wait()
	require.Less(t, len(driver.Compiles()), 20)
	require.Greater(t, cache.Reused(), 50)
}

func TestIsCompiled(t *testing.T) {
	matrix := func(device int, rows, columns int64) []executor.Input {
		return []executor.Input{onDevice(device, 0x1000, []int64{rows, columns}, []int64{columns, 1})}
	}
	driver := h100s(2)
	cache := executor.NewCache(3, driver)
	relu := func(p *program) { p.output(p.call("relu", p.tensor(-1, -1))) }
	e, err := cache.Executor(frozen(t, relu))
	require.NoError(t, err)
	is := func(e *executor.Executor, inputs []executor.Input, o executor.Options) bool {
		compiles := len(driver.Compiles())
		is, err := e.IsCompiled(inputs, o)
		require.NoError(t, err)
		require.Len(t, driver.Compiles(), compiles)
		_, err = e.PlanWith(inputs, o)
		require.NoError(t, err)
		require.Equal(t, is, len(driver.Compiles()) == compiles)
		return is
	}
	require.False(t, is(e, matrix(0, 5, 5), executor.Options{}))
	require.True(t, is(e, matrix(0, 5, 5), executor.Options{}))
	require.True(t, is(e, matrix(0, 5, 7), executor.Options{}), "by the same kernel")
	require.False(t, is(e, matrix(0, 4096, 4096), executor.Options{}))
	require.False(t, is(e, matrix(1, 5, 5), executor.Options{}), "on another device")
	require.True(t, is(e, matrix(0, 5, 5), executor.Options{RandomInMemory: true}), "the kernel has no random numbers")
	other, err := cache.Executor(frozen(t, func(p *program) { p.output(p.call("squeeze", p.call("relu", p.tensor(-1, 1)), []int{1})) }))
	require.NoError(t, err)
	require.False(t, is(other, matrix(0, 5, 1), executor.Options{}))

	_, err = e.IsCompiled([]executor.Input{vector(0x1000, 5)}, executor.Options{})
	require.ErrorAs(t, err, new(*core.InvalidArgument))
	onCPU := matrix(0, 5, 5)
	onCPU[0].Device = executor.Device{}
	compiled, err := e.IsCompiled(onCPU, executor.Options{})
	require.NoError(t, err)
	require.True(t, compiled)

	// A part of a program that is there, and one that is not.
	two, err := cache.Executor(frozen(t, func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1)
		p.output(p.call("relu", x))
		p.output(p.call("neg", y))
	}))
	require.NoError(t, err)
	require.False(t, is(two, []executor.Input{matrix(0, 5, 5)[0], vector(0x2000, 5)}, executor.Options{}))
	require.True(t, is(two, []executor.Input{matrix(0, 9, 5)[0], vector(0x2000, 9)}, executor.Options{}))
}

// TestIsCompiledOnDisk: machine code that another process compiled for other sizes serves.
func TestIsCompiledOnDisk(t *testing.T) {
	folder := keptFolder(t)
	for i, want := range []bool{false, true} {
		p := newProcess(h100s(1), folder)
		e, err := executor.NewCache(1, p).Executor(frozen(t, func(p *program) { p.output(p.call("relu", p.tensor(-1))) }))
		require.NoError(t, err)
		is, err := e.IsCompiled([]executor.Input{vector(0x1000, int64(5+i))}, executor.Options{})
		require.NoError(t, err)
		require.Equal(t, want, is)
		require.Empty(t, p.below.Compiles())
		_, err = e.Plan([]executor.Input{vector(0x1000, 5)})
		require.NoError(t, err)
		require.Len(t, p.below.Compiles(), 1-i)
	}
}

// TestReuseOfRandomPlaces: one kernel draws numbers of other places than another of the same text.
func TestReuseOfRandomPlaces(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(2, driver)
	inputs := []executor.Input{vector(0x1000, 10), onDevice(0, 0x2000, []int64{3, 4}, []int64{4, 1})}
	for _, between := range []bool{false, true} {
		e, err := cache.Executor(frozen(t, func(p *program) {
			x, y := p.tensor(-1), p.tensor(-1, -1)
			p.output(p.call("mul", x, p.call("rand_like", x)))
			if between {
				y = p.call("rand_like", y)
			}
			p.output(p.call("neg", y))
			p.output(p.call("mul", x, p.call("rand_like", x)))
		}))
		require.NoError(t, err)
		whole := requireReused(t, e, driver, inputs, executor.Options{})
		require.Equal(t, between, strings.Contains(whole.kernels, "stream 2"))
	}
	require.Zero(t, cache.Reused())
}

// TestReuseIsBounded: of kernels that differ in answers alone a few are kept, and of all some hundreds.
func TestReuseIsBounded(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(1, driver)
	for k := range 600 {
		e, err := cache.Executor(frozen(t, func(p *program) { p.output(p.call("mul", p.tensor(-1), float64(k)+0.5)) }))
		require.NoError(t, err)
		_, err = e.Plan([]executor.Input{vector(0x1000, 5)})
		require.NoError(t, err)
	}
	require.Equal(t, 512, cache.Kernels())

	e, err := cache.Executor(frozen(t, func(p *program) { // of which each address has a kernel of its own
		x, y, z, u := p.tensor(-1, -1), p.tensor(-1, -1), p.tensor(-1, -1), p.tensor(-1, -1)
		p.output(p.call("add", p.call("add", x, y), p.call("add", z, u)))
	}))
	require.NoError(t, err)
	for range 2 {
		for i := range uintptr(27) {
			var inputs []executor.Input
			for k, address := range []uintptr{0x1000, 0x1004 << (i % 3), 0x1004 << (i / 3 % 3), 0x1004 << (i / 9)} {
				inputs = append(inputs, onDevice(0, address+addressOf(k), []int64{4096, 4096}, []int64{4096, 1}))
			}
			requireReused(t, e, driver, inputs, executor.Options{})
		}
	}
	require.Equal(t, 512, cache.Kernels())
}
