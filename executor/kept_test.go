package executor_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// A process is a driver with a store, as a new process has them, which counts what
// was kept and found.
type process struct {
	*cubins.Driver
	below *fake.Driver
	keeps atomic.Int32 // plans that were made
	finds atomic.Int32 // plans that were there
}

func newProcess(below *fake.Driver, folder string) *process {
	return processOf(below, below, folder, "program")
}

func processOf(driver cudadrv.Driver, below *fake.Driver, folder, program string) *process {
	return &process{Driver: cubins.NewDriver(driver, cubins.NewStore(folder, 1<<30, nil), program, 2), below: below}
}

func (p *process) Keep(of string, what []byte) {
	p.keeps.Add(1)
	p.Driver.Keep(of, what)
}

func (p *process) Kept(of string) ([]byte, bool) {
	what, ok := p.Driver.Kept(of)
	if ok {
		p.finds.Add(1)
	}
	return what, ok
}

// found reports whether the one plan of the process was there, and not made.
func (p *process) found() bool { return p.finds.Load() == 1 && p.keeps.Load() == 0 }

// keptFolder is a folder that stores trust.
func keptFolder(t testing.TB) string { return filepath.Join(t.TempDir(), "kept") }

// keptFiles are those of a folder with names of a pattern.
func keptFiles(t testing.TB, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	require.NoError(t, err)
	return found
}

// keptFile is the content of the one that there is.
func keptFile(t testing.TB, folder, pattern string) []byte {
	t.Helper()
	found := keptFiles(t, folder, pattern)
	require.Len(t, found, 1)
	content, err := os.ReadFile(found[0])
	require.NoError(t, err)
	return content
}

// plan returns the plan of a process that has no executor yet.
func (p *process) plan(t testing.TB, text string, inputs []executor.Input, o executor.Options) *executor.Plan {
	t.Helper()
	plan, err := deviceExecutor(t, p, text).PlanWith(inputs, o)
	requireNoError(t, err)
	return plan
}

func (p *process) planOf(t testing.TB, f *core.Fusion, inputs []executor.Input) *executor.Plan {
	t.Helper()
	_, e := cacheOf(t, p, f)
	plan, err := e.Plan(inputs)
	requireNoError(t, err)
	return plan
}

// requireSame holds a plan that was kept against the one that was made.
func requireSame(t testing.TB, made, kept *executor.Plan) {
	t.Helper()
	unloaded := func(d *executor.DeviceProgram) []cudadrv.LaunchBlock {
		launches := slices.Clone(d.Launches)
		for i := range launches {
			launches[i].Function.Handle = 0
		}
		return launches
	}
	require.Equal(t, unloaded(made.Device), unloaded(kept.Device))
	for _, of := range []func(d *executor.DeviceProgram) any{
		func(d *executor.DeviceProgram) any { return d.Workspaces },
		func(d *executor.DeviceProgram) any { return d.Phases },
		func(d *executor.DeviceProgram) any { return d.Calls },
	} {
		require.Equal(t, fmt.Sprintf("%+v", of(made.Device)), fmt.Sprintf("%+v", of(kept.Device)))
	}
	require.Equal(t, made.Device.Scalars, kept.Device.Scalars)
	require.Equal(t, made.Device.Words(), kept.Device.Words())
	require.Equal(t, made.Device.Draws, kept.Device.Draws)
	require.Equal(t, made.NeedsRandom, kept.NeedsRandom)
	require.Equal(t, made.Outputs, kept.Outputs)
	require.Equal(t, made.Device.String(), kept.Device.String())
}

// TestKeptRandom has random fusions planned in one process and run in another,
// which finds their plans. DEVICE_PROGRAMS is how many, DEVICE_SEED says which.
func TestKeptRandom(t *testing.T) {
	folder := keptFolder(t)
	r := rand.New(rand.NewPCG(uint64(setting("DEVICE_SEED", 15)), 16))
	planned, right, calling, words := 0, 0, 0, 0
	at := executor.Device{Type: executor.CUDA}
	for range setting("DEVICE_PROGRAMS", 200) {
		c, mask := randomCase(r), r.Uint32()
		stays := func(i int) bool { return mask>>(i%32)&1 == 1 }
		p := prepare(c)
		toDevice(p.inputs, func(i int) bool {
			receives := func(o core.Output) bool { return o.Alias == c.Fusion.Inputs()[i] }
			return stays(i) && !slices.ContainsFunc(c.Fusion.Outputs(), receives)
		})
		first, second := newProcess(h100s(1), folder), newProcess(h100s(1), folder)
		e, err := executor.NewCache(1, first).Executor(c.Fusion)
		require.NoError(t, err)
		made, err := e.PlanWith(p.inputs, executor.Options{Device: &at})
		if err != nil {
			require.Zero(t, first.keeps.Load(), "%v", err)
			continue
		}
		planned++
		s := &stage{t: t, driver: second.below}
		if e, err = executor.NewCache(1, second).Executor(c.Fusion); err != nil {
			t.Fatal(err)
		}
		if ok, _ := s.check(e, c, 0, stays); ok {
			right++
		}
		kept, err := e.PlanWith(p.inputs, executor.Options{Device: &at})
		requireNoError(t, err)
		requireSame(t, made, kept)
		words += kept.Device.Scalars
		require.Empty(t, second.below.Compiles())
		require.EqualValues(t, 1, first.keeps.Load()+first.finds.Load())
		require.True(t, second.found(), "%v\n%v", c.Fusion, made.Device)
		if len(made.Device.Calls) > 0 {
			calling++
		}
	}
	t.Logf("%d planned, %d right, %d with calls, %d words", planned, right, calling, words)
	require.Greater(t, right, planned*9/10)
	require.NotZero(t, calling)
	require.NotZero(t, words)
}

const dividedText = `%0 = tensor i64 [-1] contiguity=[yes]
$0 = scalar i64
$1 = i.truncdiv 12:i64, $0 : i64
%1 = mul %0, $1
output %1
`

// A keptText is a fusion with inputs.
type keptText struct {
	name, text string
	inputs     func() []executor.Input
}

// keptTexts are plans with launches of every kind, and calls.
var keptTexts = []keptText{
	{"relu", reluText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000)} }},
	{"number", scaledText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000), number(0.5)} }},
	{"in place", updateText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000), vector(0x8000, 1000)} }},
	{"in place, shared", updateText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000), vector(0x1010, 1000)} }},
	{"host", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = tensor f32 [] contiguity=[]\n%2 = broadcast %1 is_broadcast_dim=[true]\n%3 = mul %0, %2\noutput %3\n",
		func() []executor.Input {
			x := float32(1.5)
			return []executor.Input{vector(0x1000, 1000), hostScalar(&x)}
		}},
	{"sum of a long vector", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = sum %0 dims=[0] keepdim=false dtype=f32\noutput %1\n",
		func() []executor.Input { return []executor.Input{vector(0x1000, 1<<17)} }},
	{"complex number", "%0 = tensor c128 [-1] contiguity=[yes]\n$0 = scalar c128\n%1 = mul %0, $0\noutput %1\n",
		func() []executor.Input {
			x := vector(0x1000, 1000)
			x.DType = dtype.ComplexDouble
			return []executor.Input{x, {Scalar: scalar.Value{Type: dtype.ComplexDouble, Re: 2, Im: 3}}}
		}},
	{"divided number", dividedText, func() []executor.Input {
		x := vector(0x1000, 10)
		x.DType = dtype.Int
		return []executor.Input{x, {Scalar: scalar.Value{Type: dtype.Int, I: 5}}}
	}},
	{"number times size", "%0 = tensor i64 [-1] contiguity=[yes]\n$0 = scalar i64\n$1 = i.mul $0, %0.0 : index\n%1 = mul %0, $1\noutput %1\n",
		func() []executor.Input {
			x := vector(0x1000, 10)
			x.DType = dtype.Int
			return []executor.Input{x, {Scalar: scalar.Value{Type: dtype.Int, I: 5}}}
		}},
	{"random numbers", drawnText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000)} }},
	{"random numbers of a seed", seededText, func() []executor.Input { return []executor.Input{vector(0x1000, 1000)} }},
	{"nothing to launch", reluText, func() []executor.Input { return []executor.Input{vector(0, 0)} }},
	{"calls", callsText, func() []executor.Input {
		x := float32(1.5)
		return []executor.Input{onDevice(0, 0x1000, []int64{8, 8}, []int64{8, 1}), onDevice(0, 0x8000, []int64{8, 8}, []int64{8, 1}), hostScalar(&x)}
	}},
	{"call of a number", "%0 = tensor f32 [40000, 2] contiguity=[yes, yes]\n$0 = scalar f64\n$1 = cast $0 : f32\n%1 = cumsum %0 dim=0 init=$1\noutput %1\n",
		func() []executor.Input {
			return []executor.Input{onDevice(0, 0x1000, []int64{40000, 2}, []int64{2, 1}), number(0.5)}
		}},
	{"call of a complex number", "%0 = tensor c128 [40000, 2] contiguity=[yes, yes]\n$0 = scalar c128\n%1 = cumsum %0 dim=0 init=$0\noutput %1\n",
		func() []executor.Input {
			x := onDevice(0, 0x1000, []int64{40000, 2}, []int64{2, 1})
			x.DType = dtype.ComplexDouble
			return []executor.Input{x, {Scalar: scalar.Value{Type: dtype.ComplexDouble, Re: 2, Im: 3}}}
		}},
}

// callsText has kernels before, between and after calls of torch, a call that reads another way
// how a kernel stored, or what another call returned, and an output that a call makes.
const callsText = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = tensor f32 [] contiguity=[]
%3 = relu %0
%4 = linear %3, %1, none
%5 = permute %4 dims=[1, 0]
%6 = linear %5, %1, none
%7 = neg %6
%8 = broadcast %2 is_broadcast_dim=[true, true]
%9 = mul %7, %8
%10 = sum %9 dims=[1] keepdim=false dtype=f32
%11 = slice %0 start_indices=[1, 2] end_indices=[4, 8] strides=[1, 1] manual_normalization=true
%12 = slice %1 start_indices=[0, 2] end_indices=[8, 8] strides=[1, 1] manual_normalization=true
%13 = linear %11, %12, none
output %10
output %6
output %13
output %9
`

const (
	drawnText  = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32\n%2 = add %0, %1\noutput %2\n"
	seededText = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] rng_seed=1 rng_offset=4 dtype=f32\n%2 = add %0, %1\noutput %2\n"
	twiceText  = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32\n%2 = normal mean=0:f64 std=1:f64 shape=[%0.0] dtype=f32\n%3 = add %1, %2\noutput %3\n"
)

// TestKeptDraws: a run moves the offset of the generator by as much whether its plan was
// made or kept; and a definition that is changed has a plan of its own.
func TestKeptDraws(t *testing.T) {
	folder := keptFolder(t)
	for _, inMemory := range []bool{false, true} {
		for _, c := range []struct {
			text  string
			draws uint64
		}{{drawnText, 4}, {twiceText, 8}, {seededText, 0}} {
			inputs, o := []executor.Input{vector(0x1000, 1000)}, executor.Options{RandomInMemory: inMemory}
			first := newProcess(h100s(1), folder)
			made := first.plan(t, c.text, inputs, o)
			require.Zero(t, first.finds.Load())
			second := newProcess(h100s(1), folder)
			kept := second.plan(t, c.text, inputs, o)
			require.True(t, second.found())
			for _, plan := range []*executor.Plan{made, kept} {
				require.Equal(t, c.draws, plan.Device.Draws)
				require.Equal(t, c.draws > 0, plan.NeedsRandom)
			}
		}
	}
}

// TestKeptKinds finds plans with launches, words and workspaces of all kinds, and
// has their numbers.
func TestKeptKinds(t *testing.T) {
	for _, c := range keptTexts {
		t.Run(c.name, func(t *testing.T) {
			folder, inputs := keptFolder(t), c.inputs()
			made := newProcess(h100s(1), folder).plan(t, c.text, inputs, executor.Options{})
			second := newProcess(h100s(1), folder)
			kept := second.plan(t, c.text, inputs, executor.Options{})
			require.True(t, second.found())
			requireSame(t, made, kept)
			want, got := make([]uint64, made.Device.Scalars), make([]uint64, kept.Device.Scalars)
			require.NoError(t, made.Evaluate(inputs, want))
			require.NoError(t, kept.Evaluate(inputs, got))
			require.Equal(t, want, got)
		})
	}
}

// TestKeptDamaged damages each byte of the file of a plan: it is made anew, and
// kept again.
func TestKeptDamaged(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000), number(0.5)}
	want := newProcess(h100s(1), folder).plan(t, scaledText, inputs, executor.Options{})
	file, path := keptFile(t, folder, "*.plan"), keptFiles(t, folder, "*.plan")[0]
	step := 1
	if testing.Short() {
		step = 17
	}
	for i := 0; i < len(file); i += step {
		flipped := slices.Clone(file)
		flipped[i] ^= 1 << (i % 8)
		for _, damaged := range [][]byte{file[:i], flipped} {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			p := newProcess(h100s(1), folder)
			requireSame(t, want, p.plan(t, scaledText, inputs, executor.Options{}))
			require.EqualValues(t, 1, p.keeps.Load(), "%d", i)
		}
	}
	p := newProcess(h100s(1), folder)
	p.plan(t, scaledText, inputs, executor.Options{})
	require.True(t, p.found())
}

// TestKeptKey changes each thing that a plan depends on: the plan that was kept is
// not that of another.
func TestKeptKey(t *testing.T) {
	folder := keptFolder(t)
	inputs := func() []executor.Input { return []executor.Input{vector(0x1000, 1000), vector(0x8000, 1000)} }
	newProcess(h100s(1), folder).plan(t, updateText, inputs(), executor.Options{})
	isNew := func(name string, p *process, text string, inputs []executor.Input, o executor.Options) {
		t.Helper()
		p.plan(t, text, inputs, o)
		require.EqualValues(t, 1, p.keeps.Load(), name)
		require.Zero(t, p.finds.Load(), name)
	}
	for name, change := range map[string]func(in []executor.Input){
		"alignment":      func(in []executor.Input) { in[1] = vector(0x8004, 1000) },
		"alignment of 8": func(in []executor.Input) { in[1] = vector(0x8008, 1000) },
		"shared memory":  func(in []executor.Input) { in[1] = vector(0x1010, 1000) },
		"sizes":          func(in []executor.Input) { in[0], in[1] = vector(0x1000, 1001), vector(0x8000, 1001) },
		"place": func(in []executor.Input) {
			in[0], in[1] = onDevice(1, 0x1000, []int64{1000}, []int64{1}), onDevice(1, 0x8000, []int64{1000}, []int64{1})
		},
	} {
		in := inputs()
		change(in)
		isNew(name, newProcess(h100s(2), folder), updateText, in, executor.Options{})
	}
	isNew("random numbers", newProcess(h100s(1), folder), updateText, inputs(), executor.Options{RandomInMemory: true})
	isNew("text", newProcess(h100s(1), folder), reluText, inputs()[:1], executor.Options{})
	isNew("program", processOf(h100s(1), h100s(1), folder, "another"), updateText, inputs(), executor.Options{})
	isNew("compiler", processOf(&otherCompiler{h100s(1)}, h100s(1), folder, "program"), updateText, inputs(), executor.Options{})
	for i := range reflect.TypeFor[cudadrv.Properties]().NumField() {
		driver := h100s(1)
		field := reflect.ValueOf(&driver.Present[0]).Elem().Field(i)
		if field.CanInt() {
			field.SetInt(field.Int() + 1)
		} else {
			field.SetString(field.String() + "+")
		}
		isNew(fmt.Sprintf("%+v", driver.Present[0]), newProcess(driver, folder), updateText, inputs(), executor.Options{})
	}
	again := newProcess(h100s(1), folder)
	again.plan(t, updateText, inputs(), executor.Options{})
	require.True(t, again.found())
}

type otherCompiler struct{ *fake.Driver }

func (otherCompiler) CompilerID() (string, error) { return "other", nil }

// TestKeptByNobody: plans that somebody had a hand in, or of a program that does
// not know which it is.
func TestKeptByNobody(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000)}
	for range 2 {
		p := newProcess(h100s(1), folder)
		p.plan(t, reluText, inputs, executor.Options{Candidate: 1})
		require.Zero(t, p.keeps.Load()+p.finds.Load())
		p = processOf(p.below, p.below, folder, "")
		p.plan(t, reluText, inputs, executor.Options{})
		require.Zero(t, p.finds.Load())
	}
	require.Zero(t, cubins.NewStore(folder, 1, nil).Usage().Plans)
}

// TestKeptWithoutCode: the machine code alone is gone, or of another size.
func TestKeptWithoutCode(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000)}
	newProcess(h100s(1), folder).plan(t, reluText, inputs, executor.Options{})
	found := keptFiles(t, folder, "*.cubin")
	require.Len(t, found, 1)
	for _, lose := range []func() error{
		func() error { return os.Remove(found[0]) },
		func() error { return os.Truncate(found[0], 100) },
	} {
		require.NoError(t, lose())
		for _, compiles := range []int{1, 0} {
			p := newProcess(h100s(1), folder)
			p.plan(t, reluText, inputs, executor.Options{})
			require.Len(t, p.below.Compiles(), compiles)
			require.EqualValues(t, compiles, p.keeps.Load())
			require.EqualValues(t, 1, p.finds.Load())
		}
	}
}

// TestKeptInNoFolder makes all plans.
func TestKeptInNoFolder(t *testing.T) {
	for range 2 {
		p := newProcess(h100s(1), "/dev/null/kept")
		p.plan(t, reluText, []executor.Input{vector(0x1000, 1000)}, executor.Options{})
		require.Len(t, p.below.Compiles(), 1)
	}
}

// TestKeptWithFewRegisters finds a kernel that was compiled for few registers.
func TestKeptWithFewRegisters(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1<<20)}
	below := h100s(1)
	made := processOf(&greedy{below}, below, folder, "program").plan(t, reluText, inputs, executor.Options{})
	require.Len(t, below.Compiles(), 2)
	second := newProcess(h100s(1), folder)
	requireSame(t, made, second.plan(t, reluText, inputs, executor.Options{}))
	require.True(t, second.found())
	require.Len(t, second.below.Loads(), 1)

	// It is the code for few registers that is loaded: only without that one the plan is made anew.
	codes, kept, path := keptFiles(t, folder, "*.cubin"), keptFile(t, folder, "*.plan"), keptFiles(t, folder, "*.plan")[0]
	require.Len(t, codes, 2)
	bounded := below.Compiles()[1]
	for _, code := range codes {
		content, err := os.ReadFile(code)
		require.NoError(t, err)
		require.NoError(t, os.Remove(code))
		p := newProcess(h100s(1), folder)
		_, isThere := p.KeptCode(sha256.Sum256([]byte(bounded.Source)), bounded.Options)
		p.plan(t, reluText, inputs, executor.Options{})
		require.Equal(t, isThere, p.found())
		require.NoError(t, os.WriteFile(code, content, 0o600))
		require.NoError(t, os.WriteFile(path, kept, 0o600))
	}

	// Where the function is loaded for fewer threads all the same, torch computes it, and
	// nothing is kept of that.
	third := h100s(1)
	p := processOf(&tight{third}, third, folder, "program")
	plan, err := deviceExecutor(t, p, reluText).Plan(inputs)
	requireNoError(t, err)
	require.Equal(t, "relu", plan.Device.Calls[0].Name)
	require.EqualValues(t, 1, p.finds.Load())
	require.Zero(t, p.keeps.Load())
}

// tight loads all functions for few threads.
type tight struct{ *fake.Driver }

func (d *tight) Load(device int, cubin []byte, kernel string, o cudadrv.LoadOptions) (cudadrv.Function, error) {
	f, err := d.Driver.Load(device, cubin, kernel, o)
	f.MaxThreads = 32
	return f, err
}

// TestKeptNumbersWithoutValue has the error of a plan that was made.
func TestKeptNumbersWithoutValue(t *testing.T) {
	folder := keptFolder(t)
	x := vector(0x1000, 10)
	x.DType = dtype.Int
	var texts []string
	for i := range 2 {
		p := newProcess(h100s(1), folder)
		e := deviceExecutor(t, p, dividedText)
		for _, divisor := range []int64{0, 5} {
			inputs := []executor.Input{x, {Scalar: scalar.Value{Type: dtype.Int, I: divisor}}}
			plan, err := e.Plan(inputs)
			requireNoError(t, err)
			words := []uint64{0}
			if err := plan.Evaluate(inputs, words); divisor == 0 {
				require.ErrorAs(t, err, new(*core.InvalidArgument))
				texts = append(texts, err.Error())
				continue
			}
			require.Equal(t, []uint64{2}, words)
		}
		require.EqualValues(t, i, p.finds.Load())
	}
	require.Equal(t, texts[0], texts[1])
}

// TestKeptInspection shows the same of a plan that was kept.
func TestKeptInspection(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000), number(0.5)}
	var shown [2][]string
	for i := range shown {
		p := newProcess(h100s(1), folder)
		plan := p.plan(t, scaledText, inputs, executor.Options{})
		require.EqualValues(t, i, p.finds.Load())
		for _, s := range executor.Stages() {
			text, err := plan.Inspection().Show(s.Name)
			require.NoError(t, err, s.Name)
			shown[i] = append(shown[i], s.Name+"\n"+text)
		}
	}
	require.Equal(t, shown[0], shown[1])
}

// TestKeptAtOnce has many goroutines of several processes ask for the same plans.
func TestKeptAtOnce(t *testing.T) {
	folder := keptFolder(t)
	var all sync.WaitGroup
	for range 3 {
		p := newProcess(h100s(1), folder)
		cache := executor.NewCache(4, p)
		for i := range 24 {
			all.Go(func() {
				c := keptTexts[i%3]
				f, err := core.Parse(c.text)
				if err != nil {
					t.Error(err)
					return
				}
				f.Freeze()
				e, err := cache.Executor(f)
				if err != nil {
					t.Error(err)
					return
				}
				inputs := c.inputs()
				inputs[0] = vector(0x1000+16*uintptr(i%2), 1000)
				plan, err := e.Plan(inputs)
				if err != nil {
					t.Error(err)
					return
				}
				if err := plan.Evaluate(inputs, make([]uint64, plan.Device.Scalars)); err != nil {
					t.Error(err)
				}
				_ = plan.Device.String()
			})
		}
	}
	all.Wait()
}

// TestKeptTwoProcesses finds in one process what another kept.
func TestKeptTwoProcesses(t *testing.T) {
	const variable = "KEPT_FOLDER"
	inputs := []executor.Input{vector(0x1000, 1000)}
	if folder := os.Getenv(variable); folder != "" {
		newProcess(h100s(1), folder).plan(t, reluText, inputs, executor.Options{})
		return
	}
	folder := keptFolder(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			c := exec.Command(os.Args[0], "-test.run", "^TestKeptTwoProcesses$")
			c.Env = append(os.Environ(), variable+"="+folder)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	p := newProcess(h100s(1), folder)
	p.plan(t, reluText, inputs, executor.Options{})
	require.True(t, p.found())
	require.EqualValues(t, 1, p.finds.Load())
}

// slowKeeper has no machine code, and says so only when it may.
type slowKeeper struct {
	*process
	asked, answer chan bool
}

func (k *slowKeeper) KeptCode([32]byte, cudadrv.CompileOptions) (cudadrv.Compiled, bool) {
	k.asked <- true
	<-k.answer
	return cudadrv.Compiled{}, false
}

// TestKeptCodeOfAnother: who waits for the kernel of a plan that was kept, whose
// code turns out to be lost, compiles it.
func TestKeptCodeOfAnother(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000)}
	newProcess(h100s(1), folder).plan(t, reluText, inputs, executor.Options{})
	k := &slowKeeper{newProcess(h100s(1), folder), make(chan bool, 1), make(chan bool)}
	e := deviceExecutor(t, k, reluText)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := e.Plan(inputs); err != nil {
			t.Error(err)
		}
	})
	<-k.asked
	all.Go(func() { // of another key, and so not kept, with the same kernel
		if _, err := e.PlanWith(inputs, executor.Options{Device: &executor.Device{Type: executor.CUDA}}); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(50 * time.Millisecond) // it waits now, or the test shows less
	close(k.answer)
	all.Wait()
}
