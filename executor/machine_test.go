package executor_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// TestDeviceKeys: what one plan serves, and what needs another one.
func TestDeviceKeys(t *testing.T) {
	driver := h100s(2)
	e := deviceExecutor(t, driver, scaledText)
	plan := func(x executor.Input, factor float64) *executor.Plan {
		p, err := e.Plan([]executor.Input{x, number(factor)})
		requireNoError(t, err)
		return p
	}
	first := plan(vector(0x1000, 1000), 0.001)
	require.Same(t, first, plan(vector(0x1010, 1000), 0.001), "another address")
	require.Same(t, first, plan(vector(0x1000, 1000), 0.002), "another number")
	seen := []*executor.Plan{first}
	for _, other := range []executor.Input{
		vector(0x1008, 1000), vector(0x1004, 1000), // less aligned
		vector(0x1000, 1001),
		onDevice(1, 0x1000, []int64{1000}, []int64{1}),
	} {
		p := plan(other, 0.001)
		require.NotContains(t, seen, p)
		seen = append(seen, p)
	}
	other, err := e.PlanWith([]executor.Input{vector(0x1000, 1000), number(0.001)}, executor.Options{Candidate: 1})
	requireNoError(t, err)
	require.NotContains(t, seen, other)
}

// TestDeviceMisaligned: elements that the device cannot read are the user's mistake.
func TestDeviceMisaligned(t *testing.T) {
	e := deviceExecutor(t, h100s(1), reluText)
	for _, address := range []uintptr{0x1001, 0x1002} {
		_, err := e.Plan([]executor.Input{vector(address, 10)})
		var mistake *core.InvalidArgument
		require.ErrorAs(t, err, &mistake)
		require.ErrorContains(t, err, "execute(): input 0 (tv0) is at address 0x100")
		require.ErrorContains(t, err, "multiples of 4 bytes")
	}
	for _, x := range []executor.Input{vector(0x1004, 10), vector(0x1001, 0)} {
		_, err := e.Plan([]executor.Input{x})
		requireNoError(t, err)
	}
}

// TestDeviceMisalignedOnHost: what the host reads may lie anywhere.
func TestDeviceMisalignedOnHost(t *testing.T) {
	c := newCase(t, func(p *program) {
		p.output(p.call("mul", p.tensor(-1), p.call("broadcast", p.tensor(), []bool{true})))
	}, []int64{10}, nil)
	memory := [8]byte{3: 0xc0, 4: 0x3f} // 1.5 from 1 on
	inputs := []executor.Input{vector(0x1000, 10), hostScalar((*float32)(unsafe.Pointer(&memory[1])))}
	e, err := executor.NewCache(1, h100s(1)).Executor(c.Fusion)
	require.NoError(t, err)
	plan, err := e.Plan(inputs)
	requireNoError(t, err)
	words := make([]uint64, 1)
	require.NoError(t, plan.Evaluate(inputs, words))
	require.Equal(t, uint64(math.Float32bits(1.5)), words[0])
}

// TestDeviceNumbers: one plan, with the number of each call among its words.
func TestDeviceNumbers(t *testing.T) {
	e := deviceExecutor(t, h100s(1), scaledText)
	for _, x := range []float64{0.001, 0.1, -3, math.Inf(1)} {
		inputs := []executor.Input{vector(0x1000, 10), number(x)}
		plan, err := e.Plan(inputs)
		requireNoError(t, err)
		words := make([]uint64, plan.Device.Scalars)
		require.NoError(t, plan.Evaluate(inputs, words))
		require.Equal(t, []uint64{uint64(math.Float32bits(float32(x)))}, words)
	}
	_, built := e.Plans()
	require.Equal(t, 1, built)
}

// TestDeviceNumbersWithoutValue: a division by zero is the user's mistake, and
// one that is not asked for is none.
func TestDeviceNumbersWithoutValue(t *testing.T) {
	const text = `%0 = tensor i64 [-1] contiguity=[yes]
$0 = scalar i64
$1 = i.truncdiv 12:i64, $0 : i64
%1 = mul %0, $1
output %1
`
	e := deviceExecutor(t, h100s(1), text)
	x := vector(0x1000, 10)
	x.DType = dtype.Int
	for divisor, want := range map[int64]uint64{5: 2, -5: 1<<64 - 2, 0: 0} {
		inputs := []executor.Input{x, {Scalar: scalar.Value{Type: dtype.Int, I: divisor}}}
		plan, err := e.Plan(inputs)
		requireNoError(t, err)
		words := make([]uint64, plan.Device.Scalars)
		require.Len(t, words, 1)
		if err = plan.Evaluate(inputs, words); divisor == 0 {
			var mistake *core.InvalidArgument
			require.ErrorAs(t, err, &mistake)
			require.ErrorContains(t, err, "division by zero")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, words[0])
	}
}

// TestEvaluateAllocatesNothing, with operations of the scalar algebra, rows and
// tensors of the host.
func TestEvaluateAllocatesNothing(t *testing.T) {
	e := newEvaluation(t)
	require.Zero(t, testing.AllocsPerRun(100, func() { e.run(t) }))
}

func BenchmarkEvaluate(b *testing.B) {
	e := newEvaluation(b)
	b.ReportAllocs()
	for b.Loop() {
		e.run(b)
	}
}

type evaluation struct {
	plan   *executor.Plan
	inputs []executor.Input
	words  []uint64
}

func newEvaluation(t testing.TB) *evaluation {
	x := float32(2)
	c := newCase(t, func(p *program) {
		v, s, u := p.tensor(-1), p.scalar(dtype.Double), p.tensor()
		p.output(p.call("mul", p.call("add", v, p.call("neg", p.call("mul", s, s))), p.call("broadcast", u, []bool{true})))
	}, []int64{10}, nil, nil)
	e := &evaluation{inputs: []executor.Input{vector(0x1000, 10), number(3), hostScalar(&x)}}
	x2, err := executor.NewCache(1, h100s(1)).Executor(c.Fusion)
	require.NoError(t, err)
	e.plan, err = x2.Plan(e.inputs)
	requireNoError(t, err)
	e.words = make([]uint64, e.plan.Device.Scalars)
	e.run(t)
	require.ElementsMatch(t, []uint64{uint64(math.Float32bits(-9)), uint64(math.Float32bits(2))}, e.words)
	return e
}

func (e *evaluation) run(t testing.TB) {
	if err := e.plan.Evaluate(e.inputs, e.words); err != nil {
		t.Fatal(err)
	}
}

// TestDeviceCompilesOnce: many goroutines ask for one plan, and fusions for equal
// kernels.
func TestDeviceCompilesOnce(t *testing.T) {
	driver := h100s(1)
	cache := executor.NewCache(4, driver)
	f := parsed(t, reluText)
	plans := make([]*executor.Plan, 8)
	var all sync.WaitGroup
	for i := range plans {
		all.Go(func() {
			e, err := cache.Executor(f)
			if err == nil {
				plans[i], err = e.Plan([]executor.Input{vector(0x1000, 1000)})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, p := range plans {
		require.Same(t, plans[0], p)
	}
	e, err := cache.Executor(f)
	require.NoError(t, err)
	other, err := e.Plan([]executor.Input{vector(0x1000, 2000)})
	requireNoError(t, err)
	require.Equal(t, plans[0].Device.Launches[0].Function, other.Device.Launches[0].Function)
	require.Len(t, driver.Compiles(), 1)
	require.Len(t, driver.Loads(), 1)
}

// TestDeviceFailures: an error of a call leaves nothing behind, and the next one
// succeeds.
func TestDeviceFailures(t *testing.T) {
	memory := &cudadrv.CallError{Call: "cuModuleLoadData", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory"}
	for _, test := range []struct {
		name, call string
		err        error
		check      func(t *testing.T, err error)
	}{
		{"no compiler", "Compile", &cudadrv.Unavailable{Library: "NVRTC"}, func(t *testing.T, err error) {
			var refused *core.Unsupported
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "cuda", refused.Refusals[0].By)
			require.Contains(t, refused.Refusals[0].Sentence, "NVRTC was not found")
		}},
		{"our mistake", "Compile", &cudadrv.CompileError{Source: "line\nother", Flags: []string{"-x"}, Log: "expected a }"}, func(t *testing.T, err error) {
			var bug *executor.Bug
			require.ErrorAs(t, err, &bug)
			require.Contains(t, bug.Error(), "expected a }")
			require.Contains(t, bug.Reproducer, "relu")
			require.Contains(t, bug.Reproducer, "# // -x\n# line\n# other\n")
			_, err = core.Parse(bug.Reproducer)
			require.NoError(t, err)
		}},
		{"memory", "Load", memory, func(t *testing.T, err error) { require.ErrorIs(t, err, memory) }},
		{"properties", "Properties", &cudadrv.Unsupported{What: "too old"}, func(t *testing.T, err error) {
			var refused *core.Unsupported
			require.ErrorAs(t, err, &refused)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			driver, fails := h100s(1), true
			driver.Fail = func(call string) error {
				if fails && call == test.call {
					return test.err
				}
				return nil
			}
			e := deviceExecutor(t, driver, reluText)
			inputs := []executor.Input{vector(0x1000, 1000)}
			_, err := e.Plan(inputs)
			require.Error(t, err)
			test.check(t, err)
			held, _ := e.Plans()
			require.Zero(t, held)
			fails = false
			_, err = e.Plan(inputs)
			requireNoError(t, err)
		})
	}
}

// TestDeviceWithFewRegisters: a kernel whose registers do not fit is compiled for
// fewer.
func TestDeviceWithFewRegisters(t *testing.T) {
	driver := &greedy{Driver: h100s(1)}
	plan, err := deviceExecutor(t, driver, reluText).Plan([]executor.Input{vector(0x1000, 1<<20)})
	requireNoError(t, err)
	compiles := driver.Compiles()
	require.Len(t, compiles, 2)
	threads := int(plan.Device.Launches[0].Block[0])
	require.Equal(t, fake.H100.RegistersPerProcessor/threads/8*8, compiles[1].Options.MaxRegisters)
}

// greedy loads functions for few threads, until the registers are limited.
type greedy struct {
	*fake.Driver
}

func (d *greedy) Load(device int, cubin []byte, kernel string, o cudadrv.LoadOptions) (cudadrv.Function, error) {
	f, err := d.Driver.Load(device, cubin, kernel, o)
	if compiles := d.Compiles(); compiles[len(compiles)-1].Options.MaxRegisters == 0 {
		f.MaxThreads = 32
	}
	return f, err
}

// TestDeviceLimits: what the device cannot launch is not compiled.
func TestDeviceLimits(t *testing.T) {
	driver := h100s(1)
	driver.Present[0].ThreadsPerBlock = 16
	c := newCase(t, func(p *program) { p.output(p.call("neg", p.tensor(-1))) }, []int64{100})
	s := schedule.New(c.Fusion)
	v := c.Fusion.Outputs()[0].Val
	require.NoError(t, s.Split(v, 0, 128, true))
	require.NoError(t, s.Parallelize(v, 1, schedule.TIDx))
	_, err := executor.NewCache(1, driver).Scheduled(c.Fusion, s, executor.AnyLaunch).Plan([]executor.Input{vector(0x1000, 100)})
	require.ErrorContains(t, err, "the number of threads of a block is 128, and the device has at most 16")
	require.Empty(t, driver.Compiles())
}

// TestDeviceGrid: more blocks than a grid has.
func TestDeviceGrid(t *testing.T) {
	driver := h100s(1)
	e := deviceExecutor(t, driver, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = neg %0
output %1
`)
	plan, err := e.Plan([]executor.Input{vector(0x1000, 1<<45)})
	requireNoError(t, err)
	require.Empty(t, driver.Compiles())
	require.Equal(t, "neg", plan.Device.Calls[0].Name, "torch computes what cannot be launched")
	_, err = plan.Inspection().Show("cuda_kernel")
	require.ErrorContains(t, err, "gridDim.x is 34359738368, and the device has at most 2147483647")
}

// TestDeviceRandomInMemory: another kernel, with addresses at the same places.
func TestDeviceRandomInMemory(t *testing.T) {
	driver := h100s(1)
	e := deviceExecutor(t, driver, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32
output %1
`)
	inputs := []executor.Input{vector(0x1000, 1000)}
	byValue, err := e.Plan(inputs)
	requireNoError(t, err)
	inMemory, err := e.PlanWith(inputs, executor.Options{RandomInMemory: true})
	requireNoError(t, err)
	require.Equal(t, byValue.Device.String(), inMemory.Device.String())
	require.Len(t, driver.Compiles(), 2)
	require.Contains(t, driver.Compiles()[1].Source, "const unsigned long long* offset;")
	for _, seed := range []uint64{5, 0x89abcdef_fedcba98, math.MaxUint64} {
		v := cudadrv.CallValues{Inputs: make([]uintptr, 1), Outputs: make([]uintptr, 1), Seed: seed, Offset: 12}
		l := byValue.Device.Launches[0]
		into := make([]byte, len(l.Arguments))
		requireNoError(t, l.Fill(into, v))
		var want bytes.Buffer
		requireNoError(t, binary.Write(&want, binary.LittleEndian, philox.Keys(seed)))
		requireNoError(t, binary.Write(&want, binary.LittleEndian, v.Offset))
		require.Equal(t, want.Bytes(), into[len(into)-want.Len():])
		l = inMemory.Device.Launches[0]
		requireNoError(t, l.Fill(into, v))
		require.Equal(t, seed, binary.LittleEndian.Uint64(into[len(into)-want.Len():]))
	}
}

// TestDeviceManyParts: outputs with nothing in common share functions where their
// kernels are alike.
func TestDeviceManyParts(t *testing.T) {
	build := func(p *program, n int) {
		var tensors []core.ValID
		for range n {
			tensors = append(tensors, p.tensor(-1))
		}
		for _, v := range tensors {
			p.output(p.call("neg", v))
		}
	}
	for _, test := range []struct {
		tensors, sizes, launches, compiles int
	}{{5, 5, 5, 1}, {3, 1, 3, 1}} {
		s := newStage(t)
		var sizes [][]int64
		for i := range test.tensors {
			sizes = append(sizes, []int64{int64(5 + i%test.sizes)})
		}
		c := newCase(t, func(p *program) { build(p, test.tensors) }, sizes...)
		e := s.executor(c.Fusion)
		ok, err := s.check(e, c, 0, never)
		require.True(t, ok, err)
		require.Len(t, s.driver.Launches(), test.launches)
		require.Len(t, s.driver.Compiles(), test.compiles)
	}
}

// TestDeviceManyParameters refuses a kernel with more arguments than a launch may
// have, before it is compiled.
func TestDeviceManyParameters(t *testing.T) {
	driver := h100s(1)
	var inputs []executor.Input
	c := newCase(t, func(p *program) {
		for range 600 {
			p.tensor(-1)
			inputs = append(inputs, vector(0x1000, 10))
		}
		sum := p.f.Inputs()[0]
		for _, v := range p.f.Inputs()[1:] {
			sum = p.call("add", sum, v)
		}
		p.output(sum)
	}, slices.Repeat([][]int64{{10}}, 600)...)
	e, err := executor.NewCache(1, driver).Executor(c.Fusion)
	require.NoError(t, err)
	plan, err := e.Plan(inputs)
	requireNoError(t, err)
	require.Greater(t, len(plan.Device.Launches), 1, "one launch takes 4096 bytes of parameters")
	require.Empty(t, plan.Device.Calls)
}

// TestDeviceInspection shows the kernel that the device runs.
func TestDeviceInspection(t *testing.T) {
	driver := h100s(1)
	driver.Present[0].Major, driver.Present[0].Minor = 8, 6
	plan, err := deviceExecutor(t, driver, reluText).Plan([]executor.Input{vector(0x1000, 1000)})
	requireNoError(t, err)
	x := plan.Inspection()
	text, err := x.Show("cuda_full")
	require.NoError(t, err)
	require.Equal(t, driver.Compiles()[0].Source, text)
	require.Equal(t, "sm_86", driver.Compiles()[0].Options.Arch)
	text, err = x.Show("launch_param")
	require.NoError(t, err)
	require.Contains(t, text, "registers 1\nlocal memory 0\n")
}

// TestDeviceSharedMemory: a kernel that needs more than a block gets unasked is
// loaded for that, and one that needs more than there is is refused.
func TestDeviceSharedMemory(t *testing.T) {
	const n = 1 << 14
	for _, most := range []int{227 << 10, 60 << 10} {
		driver := h100s(1)
		driver.Present[0].SharedPerBlockOptIn = most
		c := newCase(t, func(p *program) { p.output(p.call("neg", p.tensor(n))) }, []int64{n})
		s := schedule.New(c.Fusion)
		v, err := s.CacheAfter(c.Fusion.Inputs()[0], nil)
		require.NoError(t, err)
		require.NoError(t, s.SetMemory(v, schedule.Shared))
		plan, err := executor.NewCache(1, driver).Scheduled(c.Fusion, s, executor.AnyLaunch).Plan([]executor.Input{vector(0x1000, n)})
		if most < 4*n {
			require.ErrorContains(t, err, "the shared memory of a block is 65536, and the device has at most 61440")
			require.Empty(t, driver.Compiles())
			continue
		}
		requireNoError(t, err)
		require.Equal(t, uint32(4*n), plan.Device.Launches[0].Shared)
		require.Equal(t, int(4*n), driver.Loads()[0].Options.DynamicShared)
	}
}

// TestPlace: where a run takes place.
func TestPlace(t *testing.T) {
	x := float32(1)
	cpu, cuda1 := &executor.Device{}, &executor.Device{Type: executor.CUDA, Index: 1}
	many := executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&x), Sizes: []int64{1}, Strides: []int64{1}}
	small := onDevice(1, 0x1000, []int64{}, []int64{})
	for _, test := range []struct {
		name    string
		inputs  []executor.Input
		device  *executor.Device
		devices int
		want    string
	}{
		{"a tensor of a device", []executor.Input{onDevice(1, 0x1000, []int64{1}, []int64{1})}, nil, 2, "cuda:1"},
		{"and a small one of the CPU", []executor.Input{onDevice(1, 0x1000, []int64{1}, []int64{1}), hostScalar(&x)}, cuda1, 2, "cuda:1"},
		{"and another device", []executor.Input{onDevice(1, 0x1000, []int64{1}, []int64{1})}, cpu, 2, "execute(): device is cpu, but input 0 (tv0) is on cuda:1"},
		{"a small one of a device", []executor.Input{small, hostScalar(&x)}, nil, 2, "cuda:1"},
		{"of the CPU", []executor.Input{many, hostScalar(&x)}, nil, 2, "cpu"},
		{"of the CPU, and a device", []executor.Input{many, hostScalar(&x)}, cuda1, 2, "execute(): device is cuda:1, but input 0 (tv0) is on cpu"},
		{"small ones of the CPU", []executor.Input{hostScalar(&x)}, nil, 2, "cpu"},
		{"and a device", []executor.Input{hostScalar(&x)}, cuda1, 2, "cuda:1"},
		{"nothing", nil, nil, 2, "cuda:0"},
		{"nothing, and no device", nil, nil, 0, "cpu"},
		{"nothing, and the CPU", nil, cpu, 2, "cpu"},
		{"a device that is not there", nil, &executor.Device{Type: executor.CUDA, Index: 2}, 2, "execute(): there is no device cuda:2; this machine has 2 CUDA devices"},
		{"two devices", []executor.Input{onDevice(1, 0x1000, []int64{1}, []int64{1}), onDevice(0, 0x1000, []int64{}, []int64{})}, nil, 2,
			"execute(): input 0 (tv0) is on cuda:1 and input 1 (tv1) is on cuda:0; all tensors must be on one device"},
		{"a device and the CPU", []executor.Input{many, small}, nil, 2,
			"execute(): input 0 (tv0) is on cpu and input 1 (tv1) is on cuda:1; all tensors must be on one device"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &program{t, core.NewFusion()}
			var tensors []core.ValID
			for i := range test.inputs {
				shape := make([]int64, len(test.inputs[i].Sizes))
				for d := range shape {
					shape[d] = -1
				}
				tensors = append(tensors, p.tensor(shape...))
			}
			for _, v := range tensors {
				p.output(p.call("neg", v))
			}
			p.output(p.call("full", []int{3}, 2.0, dtype.Float))
			p.f.Freeze()
			e, err := executor.NewCache(1, h100s(test.devices)).Executor(p.f)
			require.NoError(t, err)
			plan, err := e.PlanWith(test.inputs, executor.Options{Device: test.device})
			got := "cpu"
			switch {
			case err != nil:
				got = err.Error()
			case plan.Device != nil:
				got = executor.Device{Type: executor.CUDA, Index: plan.Device.Device}.String()
			}
			require.Equal(t, test.want, got)
		})
	}
}

// TestDeviceWritesToTheHost refuses an output in memory of the CPU.
func TestDeviceWritesToTheHost(t *testing.T) {
	x := float32(1)
	c := newCase(t, func(p *program) {
		v, u := p.tensor(-1), p.tensor()
		p.output(p.call("neg", v))
		p.alias(p.call("neg", u), u)
	}, []int64{10}, nil)
	e, err := executor.NewCache(1, h100s(1)).Executor(c.Fusion)
	require.NoError(t, err)
	_, err = e.Plan([]executor.Input{vector(0x1000, 10), hostScalar(&x)})
	var mistake *core.InvalidArgument
	require.True(t, errors.As(err, &mistake), "%v", err)
	require.EqualError(t, err, "execute(): input 1 (tv1) receives an output and is on cpu, but the run is on cuda:0")
}

// TestDeviceByHandRefuses: what the kernel of a schedule made by hand cannot do is
// the user's mistake.
func TestDeviceByHandRefuses(t *testing.T) {
	x := float32(1)
	onCPU := func(p *program) core.ValID {
		v, err := p.f.DefineTensor(core.TensorDescription{DType: dtype.Float, CPU: true})
		require.NoError(p.t, err)
		return v
	}
	times := func(p *program, v, u core.ValID) core.ValID {
		return p.call("mul", v, p.call("broadcast", u, []bool{true}))
	}
	for _, test := range []struct {
		build  func(p *program)
		inputs []executor.Input
		want   string // "": nothing
	}{
		{func(p *program) { v, u := p.tensor(-1), p.tensor(-1); p.alias(p.call("add", v, u), v) }, []executor.Input{vector(0x1000, 10), vector(0x8000, 10)}, ""},
		{func(p *program) { v, u := p.tensor(-1), p.tensor(-1); p.alias(p.call("add", v, u), v) }, []executor.Input{vector(0x1000, 10), vector(0x1010, 10)},
			"an input that receives an output shares memory with another input"},
		{func(p *program) { p.output(times(p, p.tensor(-1), onCPU(p))) }, []executor.Input{vector(0x1000, 10), hostScalar(&x)}, ""},
		{func(p *program) { p.output(times(p, p.tensor(-1), p.tensor())) }, []executor.Input{vector(0x1000, 10), hostScalar(&x)},
			"input 1 (tv1) is on cpu, and the schedule was made for a definition with is_cpu=false"},
		{func(p *program) { p.output(times(p, p.tensor(-1), onCPU(p))) }, []executor.Input{vector(0x1000, 10), onDevice(0, 0x8000, nil, nil)},
			"input 1 (tv1) is on cuda:0, and the schedule was made for a definition with is_cpu=true"},
	} {
		f := frozen(t, test.build)
		_, err := executor.NewCache(1, h100s(1)).Scheduled(f, schedule.New(f), executor.AnyLaunch).Plan(test.inputs)
		if test.want == "" {
			requireNoError(t, err)
			continue
		}
		require.ErrorAs(t, err, new(*core.InvalidArgument))
		require.ErrorContains(t, err, test.want)
	}
}

// BenchmarkPlan measures what a new kernel costs beside the compiler.
func BenchmarkPlan(b *testing.B) {
	matrix := func(p *program) core.ValID {
		v := p.tensorOf(dtype.BFloat16, -1, -1)
		return p.call("cast", v, dtype.Float)
	}
	narrow := func(p *program, v core.ValID) { p.output(p.call("cast", v, dtype.BFloat16)) }
	for _, c := range []struct {
		name   string
		define func(*program)
	}{
		{"relu", func(p *program) { narrow(p, p.call("relu", matrix(p))) }},
		{"silu*mul", func(p *program) {
			x, y := matrix(p), matrix(p)
			narrow(p, p.call("mul", p.call("mul", x, p.call("sigmoid", x)), y))
		}},
		{"bias+gelu", func(p *program) {
			x, bias := matrix(p), p.call("cast", p.tensorOf(dtype.BFloat16, -1), dtype.Float)
			x = p.call("add", x, p.call("broadcast", bias, []bool{true, false}))
			erf := p.call("add", p.call("erf", p.call("mul", x, math.Sqrt(0.5))), 1.0)
			narrow(p, p.call("mul", p.call("mul", x, 0.5), erf))
		}},
		{"100", func(p *program) { p.output(chainOf(p, 100)) }},
		{"1000", func(p *program) { p.output(chainOf(p, 1000)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := &program{b, core.NewFusion()}
			c.define(p)
			p.f.Freeze()
			var inputs []executor.Input
			for i, v := range p.f.Inputs() {
				sizes, strides := []int64{4096, 4096}, []int64{4096, 1}
				rank := p.f.Rank(v)
				x := onDevice(0, 0x10000000*uintptr(i+1), sizes[:rank], strides[2-rank:])
				x.DType = p.f.Val(v).DType
				inputs = append(inputs, x)
			}
			b.Run("new", func(b *testing.B) {
				for b.Loop() {
					e, err := executor.NewCache(1, h100s(1)).Executor(p.f)
					require.NoError(b, err)
					_, err = e.Plan(inputs)
					require.NoError(b, err)
				}
			})
			b.Run("of new sizes", func(b *testing.B) {
				e, err := executor.NewCache(1, h100s(1)).Executor(p.f)
				require.NoError(b, err)
				for rows := int64(4096); b.Loop(); rows++ {
					for i := range inputs {
						if sizes := slices.Clone(inputs[i].Sizes); len(sizes) == len(inputs[0].Sizes) {
							sizes[0], inputs[i].Sizes = rows, sizes
						}
					}
					_, err = e.Plan(inputs)
					require.NoError(b, err)
				}
			})
		})
	}
}
