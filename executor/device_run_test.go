package executor_test

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// A stage runs programs of devices in the simulator: the memory of the test stands
// for that of the device, and a kernel gets what it finds in the parameter
// structure that the driver would get.
type stage struct {
	t       testing.TB
	driver  *fake.Driver
	regions []region
	plan    *executor.Plan
}

// A region is memory that a call brings.
type region struct {
	bytes     []byte
	undefined bool
}

// newStage returns a stage whose device has a second cache that is smaller than any tensor.
func newStage(t testing.TB) *stage {
	s := &stage{t: t, driver: h100s(1)}
	s.driver.Present[0].L2 = 1
	return s
}

func (s *stage) executor(f *core.Fusion) *executor.Executor {
	e, err := executor.NewCache(4, s.driver).Executor(f)
	require.NoError(s.t, err)
	return e
}

// toDevice says of inputs that they are on the device, but for those without
// dimensions that stay.
func toDevice(inputs []executor.Input, stays func(i int) bool) {
	for i := range inputs {
		if x := &inputs[i]; x.Tensor && !(len(x.Sizes) == 0 && stays(i)) {
			x.Device = executor.Device{Type: executor.CUDA}
		}
	}
}

// add returns the address of a region of n bytes.
func (s *stage) add(address unsafe.Pointer, n int64, undefined bool) uintptr {
	if n == 0 {
		return 0
	}
	s.regions = append(s.regions, region{unsafe.Slice((*byte)(address), n), undefined})
	return uintptr(address)
}

// run does what the caller of a plan does.
func (s *stage) run(plan *executor.Plan, inputs []executor.Input, outputs []unsafe.Pointer, random core.RandomState) error {
	d := plan.Device
	requireMemory(s.t, plan)
	s.plan = plan
	var values cudadrv.CallValues
	s.regions = nil
	for i := range inputs {
		x, address := &inputs[i], uintptr(0)
		if x.Tensor && x.Device.Type == executor.CUDA {
			o := executor.OutputDescription{DType: x.DType, Sizes: x.Sizes, Strides: x.Strides}
			address = s.add(x.Data, o.NumBytes(), false)
		}
		values.Inputs = append(values.Inputs, address)
	}
	for k := range plan.Outputs {
		address := uintptr(0)
		if outputs[k] != nil {
			address = s.add(outputs[k], plan.Outputs[k].NumBytes(), true)
		}
		values.Outputs = append(values.Outputs, address)
	}
	for _, w := range d.Workspaces {
		memory := fusionfuzz.NewMemory(dtype.Bool, []int64{w.Bytes}, []int64{1}, 0)
		clear(memory.Bytes())
		values.Workspaces = append(values.Workspaces, s.add(memory.Data(), w.Bytes, !w.Zeroed))
	}
	values.Seed, values.Offset = random.Seed, random.Offset
	values.Scalars = make([]uint64, d.Scalars)
	if err := plan.Evaluate(inputs, values.Scalars); err != nil {
		return err
	}
	launch := 0
	for i := range d.Phases {
		for range d.Phases[i].Launches {
			require.NoError(s.t, s.driver.Launch(&d.Launches[launch], values, 0))
			launches := s.driver.Launches()
			s.simulate(d.Kernel(launch), &launches[len(launches)-1])
			launch++
		}
		if call := d.Phases[i].Call; call >= 0 {
			if err := s.call(call, &values, inputs); err != nil {
				return err
			}
		}
	}
	require.Equal(s.t, len(d.Launches), launch)
	return nil
}

// call does what torch would.
func (s *stage) call(i int, values *cudadrv.CallValues, inputs []executor.Input) error {
	var addresses []unsafe.Pointer
	for _, list := range [][]uintptr{values.Inputs, values.Outputs, values.Workspaces} {
		for _, address := range list {
			addresses = append(addresses, s.pointer(address))
		}
	}
	for i := range inputs { // 0-dim ones of the host have no address on the device
		addresses[i] = inputs[i].Data
	}
	if err := s.plan.EvaluateCall(i, addresses, inputs); err != nil {
		return err
	}
	for _, r := range s.plan.Device.Calls[i].Results {
		for i := range s.regions {
			if r.Slot >= 0 && unsafe.Pointer(&s.regions[i].bytes[0]) == addresses[r.Slot] {
				s.regions[i].undefined = false
			}
		}
	}
	return nil
}

// pointer returns an address of a region as a pointer.
func (s *stage) pointer(address uintptr) unsafe.Pointer {
	for i := range s.regions {
		if first := unsafe.Pointer(&s.regions[i].bytes[0]); uintptr(first) == address {
			return first
		}
	}
	return nil
}

// simulate runs a launch, and requires it to be the one that k says.
func (s *stage) simulate(k *kir.Kernel, l *fake.Launch) {
	layout := cuda.Layout(k)
	require.Len(s.t, l.Arguments, layout.Size)
	arguments := make([]sim.Argument, len(k.Arguments))
	memories := map[*byte]*sim.Memory{}
	for i := range k.Arguments {
		a, at := &k.Arguments[i], layout.Fields[i]
		bytes := l.Arguments[at.Offset : at.Offset+at.Size]
		switch a.Kind {
		case kir.Pointer:
			address := uintptr(binary.LittleEndian.Uint64(bytes))
			align := uintptr(k.Buffers[a.Buffer].Align)
			require.Zero(s.t, address%align, "%s is at %#x, and the kernel takes it to be at a multiple of %d", a.Name, address, align)
			arguments[i].Memory = s.memory(address, memories)
		case kir.ValueScalar:
			arguments[i].Number = executor.Element(a.DType, bytes)
		case kir.IndexScalar:
			arguments[i].Number = executor.Element(k.Index, bytes)
			arguments[i].Number.Type = dtype.Index
		default:
			arguments[i].Number = executor.Element(dtype.Int, bytes)
		}
	}
	integers, err := k.Integers(func(i int, _ *kir.Argument) (int64, error) { return arguments[i].Number.I, nil })
	require.NoError(s.t, err)
	grid, block, shared, err := integers.Launched()
	require.NoError(s.t, err)
	for d := range 3 {
		require.Equal(s.t, grid[d], int64(l.Block.Grid[d]))
		require.Equal(s.t, block[d], int64(l.Block.Block[d]))
	}
	require.Equal(s.t, shared, int64(l.Block.Shared))
	report, err := sim.Run(k, arguments, sim.Options{})
	require.NoError(s.t, err, "%v", k)
	require.NoError(s.t, report.Err(), "%v\n%v", k, s.plan.Device)
	for i, a := range k.Arguments {
		if a.Kind == kir.Pointer && !k.Buffers[a.Buffer].ReadOnly {
			s.defined(arguments[i].Memory)
		}
	}
}

// memory returns what is at an address, the same for equal ones.
func (s *stage) memory(address uintptr, memories map[*byte]*sim.Memory) *sim.Memory {
	if address == 0 {
		return &sim.Memory{Undefined: true}
	}
	byBegin := slices.Clone(s.regions) // what shares memory with others begins where its address says
	slices.SortStableFunc(byBegin, func(a, b region) int {
		return cmp.Compare(uintptr(unsafe.Pointer(unsafe.SliceData(b.bytes))), uintptr(unsafe.Pointer(unsafe.SliceData(a.bytes))))
	})
	for i := range byBegin {
		r := &byBegin[i]
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes)))
		if address < begin || address >= begin+uintptr(len(r.bytes)) {
			continue
		}
		first := &r.bytes[address-begin]
		if memories[first] == nil {
			memories[first] = &sim.Memory{Data: r.bytes[address-begin:], Undefined: r.undefined}
		}
		return memories[first]
	}
	s.t.Fatalf("a kernel gets the address %#x, where nothing is", address)
	return nil
}

func (s *stage) defined(m *sim.Memory) {
	for i := range s.regions {
		r := &s.regions[i]
		if n := len(m.Data); n > 0 && n <= len(r.bytes) && &r.bytes[len(r.bytes)-n] == &m.Data[0] {
			s.regions[i].undefined = false
		}
	}
}

// checkDevice runs c on a device and compares the outputs with the evaluator's. It
// reports false if a scheduler or the lowering refuses.
func checkDevice(t testing.TB, c *fusionfuzz.Case, candidate int, stays func(i int) bool) (bool, error) {
	t.Helper()
	s := newStage(t)
	return s.check(s.executor(c.Fusion), c, candidate, stays)
}

// check is checkDevice with plans of e.
func (s *stage) check(e *executor.Executor, c *fusionfuzz.Case, candidate int, stays func(i int) bool) (bool, error) {
	t := s.t
	t.Helper()
	p := prepare(c)
	toDevice(p.inputs, func(i int) bool {
		receives := func(o core.Output) bool { return o.Alias == c.Fusion.Inputs()[i] }
		return stays(i) && !slices.ContainsFunc(c.Fusion.Outputs(), receives)
	})
	want, wantErr := c.Fusion.Eval(p.arrays, p.scalars, random)
	at := executor.Device{Type: executor.CUDA}
	plan, err := e.PlanWith(p.inputs, executor.Options{Device: &at, Candidate: candidate})
	var got []*core.Array
	if err == nil {
		require.NotNil(t, plan.Device)
		got, _, err = p.runBy(t, plan, func(outputs []unsafe.Pointer) error { return s.run(plan, p.inputs, outputs, random) })
	}
	return judge(t, c, want, wantErr, got, err)
}

// tally counts which of some words the choice of a scheduler for the plan that was checked has.
func (s *stage) tally(words map[string]int) {
	choice, _ := s.plan.Inspection().Show("scheduler_verbose") // an error: there is no kernel
	for word := range words {
		if strings.Contains(choice, word) {
			words[word]++
		}
	}
}

func never(int) bool { return false }

func TestDeviceAliases(t *testing.T) {
	for _, test := range aliasPrograms {
		t.Run(test.name, func(t *testing.T) {
			ok, err := checkDevice(t, newCase(t, test.build, test.sizes...), 0, never)
			require.True(t, ok, "%v", err)
		})
	}
}

// TestDeviceRandom has random fusions planned for a device by one of the first
// candidates, tensors without dimensions there or not. DEVICE_PROGRAMS is how many, DEVICE_SEED says which.
func TestDeviceRandom(t *testing.T) {
	n := setting("DEVICE_PROGRAMS", 600)
	r := rand.New(rand.NewPCG(uint64(setting("DEVICE_SEED", 5)), 6))
	right := 0
	for i := range n {
		c, stays := randomCase(r), r.Uint32()
		if i == n/2 {
			defer executor.PartAlways()()
		}
		ok, _ := checkDevice(t, c, int(stays>>30), func(i int) bool { return stays>>(i%32)&1 == 1 })
		if ok {
			right++
		}
	}
	t.Log(right)
	require.Greater(t, right, n*5/6)
}

// TestDeviceZeroedWorkspace: blocks that share a reduction count themselves in
// memory that its caller sets to zero.
func TestDeviceZeroedWorkspace(t *testing.T) {
	s := newStage(t)
	c := newCase(t, func(p *program) { p.output(p.call("sum", p.tensor(-1))) }, []int64{1 << 17})
	e := s.executor(c.Fusion)
	ok, err := s.check(e, c, 0, never)
	require.True(t, ok, "%v", err)
	plan, err := e.Plan([]executor.Input{vector(0x1000, 1<<17)})
	requireNoError(t, err)
	require.True(t, slices.ContainsFunc(plan.Device.Workspaces, func(w executor.Workspace) bool { return w.Zeroed }), "%v", plan.Device)
}

// setting is a number in the environment.
func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func randomCase(r *rand.Rand) *fusionfuzz.Case {
	data := make([]byte, 20+r.IntN(80))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return fusionfuzz.Decode(data)
}

// TestDeviceByHand runs schedules as they are at first, which one thread computes,
// of outputs that no scheduler is asked about.
func TestDeviceByHand(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(p *program)
		sizes [][]int64
	}{
		{"one", func(p *program) { p.output(p.call("exp", p.tensor(-1, -1))) }, [][]int64{{3, 4}}},
		{"inputs and repetitions", func(p *program) {
			x := p.tensor(-1)
			z := p.call("neg", x)
			p.output(x)
			p.output(z)
			p.output(z)
		}, [][]int64{{7}}},
		{"in place", func(p *program) {
			x := p.tensor(-1)
			p.alias(p.call("neg", x), x)
		}, [][]int64{{7}}},
		{"no elements", func(p *program) { p.output(p.call("exp", p.tensor(-1, -1))) }, [][]int64{{0, 4}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, s := newCase(t, test.build, test.sizes...), newStage(t)
			e := executor.NewCache(1, s.driver).Scheduled(c.Fusion, schedule.New(c.Fusion), executor.AnyLaunch)
			ok, err := s.check(e, c, 0, never)
			require.True(t, ok, err)
		})
	}
}
