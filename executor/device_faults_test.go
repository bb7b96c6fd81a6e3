package executor_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// faultPrograms call the driver in all ways in which plans do.
var faultPrograms = []func(p *program){
	func(p *program) { p.output(p.call("relu", p.tensor(-1, -1))) },
	func(p *program) { // several kernels, and copies
		x, y, z := p.tensor(-1), p.tensor(-1, -1), p.tensorOf(dtype.Half, -1, -1, -1)
		p.output(p.call("neg", x))
		p.output(p.call("exp", y))
		p.output(p.call("sum", p.call("cast", z, dtype.Float), 2))
		p.alias(p.call("neg", y), y)
		p.output(x)
	},
	func(p *program) { p.output(p.call("full", []int{3}, 2.0, dtype.Float)) }, // on a device if there is one
}

// faulty are errors of a driver, and whether the executor's is what it should be.
var faulty = []struct {
	err error // nil: it panics
	is  func(err error) bool
}{
	{&cudadrv.CallError{Call: "cuAnything", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory"}, func(err error) bool {
		return errors.As(err, new(*cudadrv.CallError))
	}},
	{&cudadrv.Unavailable{Library: "NVRTC"}, func(err error) bool { return errors.As(err, new(*core.Unsupported)) }},
	{&cudadrv.Unsupported{What: "too old"}, func(err error) bool { return errors.As(err, new(*core.Unsupported)) }},
	{&cudadrv.CompileError{Source: "text", Log: "expected a }"}, func(err error) bool { return errors.As(err, new(*executor.Bug)) }},
	{nil, func(err error) bool { return errors.As(err, new(*executor.Bug)) }},
}

func frozen(t testing.TB, build func(p *program)) *core.Fusion {
	p := &program{t, core.NewFusion()}
	build(p)
	p.f.Freeze()
	return p.f
}

// planned is the plan of an executor for the first call of its definition.
func planned(e *executor.Executor) (*executor.Plan, keyed, error) {
	c := firstCall(e.Fusion())
	plan, err := e.PlanWith(c.inputs, c.options)
	return plan, c, err
}

// TestDeviceFaultsInTurn has each call of the driver fail in each way. The next
// call of the user gives what it would have given.
func TestDeviceFaultsInTurn(t *testing.T) {
	for i, build := range faultPrograms {
		f, own := frozen(t, build), h100s(1)
		e, err := executor.NewCache(1, own).Executor(f)
		require.NoError(t, err)
		plan, c, err := planned(e)
		requireNoError(t, err)
		want := contents(own, plan, c.inputs)
		for _, fault := range faulty {
			failed := 1
			for ; ; failed++ {
				driver, calls := h100s(1), 0
				var lock sync.Mutex
				driver.Fail = func(call string) error {
					lock.Lock()
					defer lock.Unlock()
					if calls++; calls != failed {
						return nil
					}
					if fault.err == nil {
						panic("the driver panics")
					}
					return fault.err
				}
				e, err := executor.NewCache(1, driver).Executor(f)
				require.NoError(t, err)
				plan, c, err := planned(e)
				if calls < failed {
					requireNoError(t, err)
					break
				}
				missing := fault.err != nil && !errors.As(fault.err, new(*cudadrv.CallError)) && !errors.As(fault.err, new(*cudadrv.CompileError))
				if failed == 1 && len(f.Inputs()) == 0 && missing {
					requireNoError(t, err) // a machine without devices
					require.Nil(t, plan.Device)
					continue
				}
				require.Error(t, err, "call %d", failed)
				require.True(t, fault.is(err), "call %d: %v is of another kind than %v", failed, err, fault.err)
				held, _ := e.Plans()
				require.Zero(t, held)
				plan, c, err = planned(e)
				requireNoError(t, err)
				require.Equal(t, want, contents(driver, plan, c.inputs))
				again, _, err := planned(e)
				requireNoError(t, err)
				require.Same(t, plan, again)
			}
			require.Greater(t, failed, 4, "program %d", i)
		}
	}
}

// TestDeviceFaultsOfThreads has calls of the driver fail at random while many
// goroutines ask executors of several definitions for plans.
func TestDeviceFaultsOfThreads(t *testing.T) {
	const threads = 16
	var want []string
	var all []*core.Fusion
	for _, build := range faultPrograms {
		f, driver := frozen(t, build), h100s(1)
		e, err := executor.NewCache(1, driver).Executor(f)
		require.NoError(t, err)
		plan, c, err := planned(e)
		requireNoError(t, err)
		all, want = append(all, f), append(want, contents(driver, plan, c.inputs))
	}
	var failures atomic.Int64
	for seed := range uint64(setting("DEVICE_FAULTS", 20)) {
		driver := h100s(1)
		var lock sync.Mutex
		r := rand.New(rand.NewPCG(seed, 1))
		driver.Fail = func(string) error {
			lock.Lock()
			defer lock.Unlock()
			if r.IntN(4) > 0 {
				return nil
			}
			return faulty[[]int{0, 3}[r.IntN(2)]].err
		}
		cache := executor.NewCache(8, driver)
		var running sync.WaitGroup
		for k := range threads {
			running.Go(func() {
				for i := range all {
					i = (i + k) % len(all)
					if err := untilPlanned(cache, driver, all[i], want[i], &failures); err != nil {
						t.Error(err)
					}
				}
			})
		}
		running.Wait()
	}
	require.Positive(t, failures.Load())
}

// untilPlanned asks for a plan until the driver lets it be made.
func untilPlanned(cache *executor.Cache, driver *fake.Driver, f *core.Fusion, want string, failures *atomic.Int64) error {
	e, err := cache.Executor(f)
	if err != nil {
		return err
	}
	for range 1000 {
		plan, c, err := planned(e)
		if err == nil {
			if got := contents(driver, plan, c.inputs); got != want {
				return fmt.Errorf("want %s\ngot %s", want, got)
			}
			return nil
		}
		failures.Add(1)
		if !slices.ContainsFunc(faulty, func(fault struct {
			err error
			is  func(err error) bool
		}) bool {
			return fault.is(err)
		}) {
			return err
		}
	}
	return errors.New("no plan after 1000 calls")
}
