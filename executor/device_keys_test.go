package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// keyPrograms have what plans depend on, and what they do not.
var keyPrograms = []func(p *program){
	func(p *program) { // written to, and read by others
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.alias(p.call("add", x, y), x)
		p.output(p.call("neg", y))
	},
	func(p *program) { // two that are written to, of which one is small
		x, y, z := p.tensor(-1), p.tensor(-1), p.tensor()
		p.alias(p.call("add", x, p.call("broadcast", z, []bool{true})), y)
		p.alias(p.call("neg", z), z)
		p.output(x)
	},
	func(p *program) { // a small tensor, a number that is an element, one that is a size, one that is both
		x, u, s, n := p.tensor(-1), p.tensor(), p.scalar(dtype.Float), p.scalar(dtype.Int)
		z := p.call("add", p.call("mul", x, s), p.call("broadcast", u, []bool{true}))
		p.output(p.call("mul", z, n))
		p.output(p.call("full", []core.ValID{n, n}, s, dtype.Float))
	},
	func(p *program) { // numbers of all kinds
		x, b, c, i := p.tensorOf(dtype.ComplexFloat, -1), p.scalar(dtype.Bool), p.scalar(dtype.ComplexDouble), p.scalar(dtype.Int32)
		p.output(p.call("mul", p.call("add", x, c), i))
		p.output(p.call("where", b, x, c))
	},
	func(p *program) { // gaps, expanded, and sizes that may be 1
		v := func(shape []int64, contiguity ...core.Tri) core.ValID {
			v, err := p.f.DefineTensor(core.TensorDescription{Shape: shape, Contiguity: contiguity, DType: dtype.Half})
			require.NoError(p.t, err)
			return v
		}
		x, y := v([]int64{-1, -1}, core.No, core.No), v([]int64{-1, -1}, core.No, core.Yes)
		p.output(p.call("add", p.call("cast", x, dtype.Float), p.call("cast", y, dtype.Float)))
		p.output(x)
	},
	func(p *program) { // random numbers, in two kernels
		x, y := p.tensor(-1), p.tensor(-1, -1)
		p.output(p.call("rand_like", x))
		p.output(p.call("randn_like", y))
	},
	func(p *program) { // a reduction
		x := p.tensorOf(dtype.BFloat16, -1, -1)
		p.output(p.call("sum", p.call("cast", x, dtype.Float), 1))
	},
	func(p *program) { // nothing but numbers
		n := p.scalar(dtype.Int)
		p.output(p.call("full", []core.ValID{n}, 2.0, dtype.Float))
		p.output(p.call("rand_like", p.call("full", []core.ValID{n}, 2.0, dtype.Float)))
	},
}

// A keyed is a call of one of two devices.
type keyed struct {
	inputs  []executor.Input
	options executor.Options
}

func (c keyed) clone() keyed {
	c.inputs = slices.Clone(c.inputs)
	for i := range c.inputs {
		x := &c.inputs[i]
		x.Sizes, x.Strides = slices.Clone(x.Sizes), slices.Clone(x.Strides)
	}
	return c
}

// dense gives input i sizes and the strides that f promises.
func (c *keyed) dense(f *core.Fusion, i int, sizes []int64) {
	c.inputs[i].Sizes, c.inputs[i].Strides = sizes, fusionfuzz.DenseStrides(f, f.Inputs()[i], sizes)
}

func sizeOf(r *rand.Rand) int64 { return []int64{0, 1, 2, 3, 64, 64, 1 << 16}[r.IntN(7)] }

// change makes of a call another one, which often differs in one thing, and is not
// always one that the definition takes.
func (c *keyed) change(r *rand.Rand, f *core.Fusion) {
	if r.IntN(4) == 0 || len(c.inputs) == 0 {
		c.changeOptions(r)
		return
	}
	i := r.IntN(len(c.inputs))
	x := &c.inputs[i]
	if !x.Tensor {
		x.Scalar = numbers[r.IntN(len(numbers))]
		return
	}
	where := func() int { return r.IntN(len(x.Sizes)) }
	switch kind := r.IntN(12); {
	case kind == 0:
		x.Data = unsafe.Add(unsafe.Pointer(nil), uintptr(0x100000*(i+1)+[]int{0, 1, 2, 4, 8, 12, 16, 24, 256}[r.IntN(9)]))
	case kind == 1:
		x.Data = c.inputs[r.IntN(len(c.inputs))].Data
	case kind == 2:
		x.Data = unsafe.Add(x.Data, []int{-4, 4, 16, 512}[r.IntN(4)])
	case kind == 3:
		x.Data = nil
	case kind == 4:
		x.DType = []dtype.Type{dtype.Float, dtype.Half, dtype.BFloat16, dtype.Int32}[r.IntN(4)]
	case kind == 5 && len(x.Sizes) == 0:
		x.Device = executor.Device{}
	case kind == 5:
		x.Device.Index = 1 - x.Device.Index
	case kind == 6:
		for k := range c.inputs {
			if c.inputs[k].Tensor {
				c.inputs[k].Device = executor.Device{Type: executor.CUDA, Index: r.IntN(2)}
			}
		}
	case len(x.Sizes) == 0:
	case kind == 7: // of one
		x.Sizes[where()] = sizeOf(r)
	case kind == 8:
		x.Strides[where()] = []int64{0, 1, 2, 7, 64, 1 << 20}[r.IntN(6)]
	default: // of all that have this one
		from, to := x.Sizes[where()], sizeOf(r)
		for k := range c.inputs {
			sizes := slices.Clone(c.inputs[k].Sizes)
			for d := range sizes {
				if sizes[d] == from {
					sizes[d] = to
				}
			}
			if c.inputs[k].Tensor {
				c.dense(f, k, sizes)
			}
		}
	}
}

func (c *keyed) changeOptions(r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		c.options.Candidate = r.IntN(3)
	case 1:
		c.options.RandomInMemory = !c.options.RandomInMemory
	case 2:
		c.options.Device = nil
	default:
		c.options.Device = &executor.Device{Type: executor.CUDA, Index: r.IntN(2)}
	}
}

// contents is all that a plan is, for inputs whose tensors of the host are real.
func contents(driver *fake.Driver, plan *executor.Plan, inputs []executor.Input) string {
	d := plan.Device
	if d == nil {
		return fmt.Sprint("on the CPU", plan.Outputs)
	}
	s := fmt.Sprint(d, plan.Outputs, plan.NeedsRandom, d.Draws, d.Workspaces, plan.Counts(), d.Phases)
	for _, c := range d.Calls {
		s += fmt.Sprint("\n", c.Name, c.Spec, c.Arguments, c.Results)
	}
	loads := driver.Loads()
	for _, l := range d.Launches {
		load := loads[l.Function.Handle-1]
		l.Function.Handle = 0
		s += fmt.Sprintf("\n%+v\n%s", l, load.Cubin)
		s += fmt.Sprint(" on ", load.Device)
	}
	for i := range inputs {
		if x := &inputs[i]; x.Tensor && x.Device.Type == executor.CPU {
			memory := make([]byte, 16)
			memory[0], memory[1] = 1, 0x40
			x.Data = unsafe.Pointer(&memory[0])
		}
	}
	words := make([]uint64, d.Scalars)
	err := plan.Evaluate(inputs, words)
	return fmt.Sprint(s, words, err)
}

// TestDeviceKeysRandom makes calls of one executor, each a little different from
// one before, and requires of each the plan that an executor of its own makes.
// DEVICE_KEYS is how many of each program, DEVICE_SEED says which.
func TestDeviceKeysRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(setting("DEVICE_SEED", 11)), 12))
	n := setting("DEVICE_KEYS", 150)
	var k keyCounts
	for _, build := range keyPrograms {
		f := frozen(t, build)
		k.compare(t, r, f, firstCall(f), n)
	}
	for range n / 5 {
		f := randomCase(r).Fusion
		k.compare(t, r, f, firstCall(f), 10)
	}
	t.Logf("%d calls, %d of a plan that was there, %d refused", k.made, k.found, k.failed)
	require.Greater(t, k.found, k.made/5)
	require.Greater(t, k.made-k.found-k.failed, k.made/10)
}

// keyCounts are calls, those that a plan was there for, and those that failed.
type keyCounts struct{ made, found, failed int }

// compare makes n calls of f, each a little different from an earlier one.
func (k *keyCounts) compare(t *testing.T, r *rand.Rand, f *core.Fusion, first keyed, n int) {
	driver := h100s(2)
	shared, err := executor.NewCache(1, driver).Executor(f)
	require.NoError(t, err)
	calls := []keyed{first}
	for range n {
		c := calls[r.IntN(len(calls))].clone()
		c.change(r, f)
		_, before := shared.Plans()
		plan, err := shared.PlanWith(c.inputs, c.options)
		_, after := shared.Plans()
		own := h100s(2)
		fresh, cacheErr := executor.NewCache(1, own).Executor(f)
		require.NoError(t, cacheErr)
		want, wantErr := fresh.PlanWith(c.inputs, c.options)
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err), "%s%+v", f, c)
		requireAnyValue(t, r, shared, c)
		k.made++
		if err != nil {
			if k.failed++; r.IntN(3) > 0 {
				continue
			}
		} else {
			require.Equal(t, contents(own, want, c.clone().inputs), contents(driver, plan, c.clone().inputs), "%s%+v", f, c)
		}
		if before == after {
			k.found++
		}
		calls = append(calls, c)
	}
}

// requireAnyValue: a number of which the executor says that any value will do has
// the same key with another one.
func requireAnyValue(t *testing.T, r *rand.Rand, e *executor.Executor, c keyed) {
	other := c.clone()
	for i := range other.inputs {
		x := &other.inputs[i].Scalar
		if value := numbers[r.IntN(len(numbers))]; !other.inputs[i].Tensor && value.Type == x.Type && e.AnyValue(i, x.Type) {
			*x = value
		}
	}
	require.Equal(t, e.AppendKey(nil, c.inputs, c.options), e.AppendKey(nil, other.inputs, c.options), "%+v", c)
}

// firstCall is a call of f on a device.
func firstCall(f *core.Fusion) keyed {
	c := keyed{inputs: make([]executor.Input, len(f.Inputs()))}
	for i, v := range f.Inputs() {
		x, def := &c.inputs[i], f.Val(v)
		if !def.Tensor {
			x.Scalar = numbers[3]
			continue
		}
		x.Tensor, x.DType, x.Device = true, def.DType, executor.Device{Type: executor.CUDA}
		x.Data = unsafe.Add(unsafe.Pointer(nil), uintptr(0x100000*(i+1)))
		sizes := slices.Repeat([]int64{64}, f.Rank(v))
		for d, s := range f.Shape(v) {
			if n, ok := f.Scalars().ConstInt(s); ok {
				sizes[d] = n
			}
		}
		c.dense(f, i, sizes)
	}
	return c
}

// TestDeviceKeysOfBytes: at an odd address, only the device tells a small tensor
// that goes by value from one that is read.
func TestDeviceKeysOfBytes(t *testing.T) {
	c := newCase(t, func(p *program) {
		x, u := p.tensorOf(dtype.Bool, -1), p.tensorOf(dtype.Bool)
		p.output(p.call("bitwise_and", x, p.call("broadcast", u, []bool{true})))
	}, []int64{9}, nil)
	s := newStage(t)
	e := s.executor(c.Fusion)
	c.Inputs[1].Offset = 1
	for _, stays := range []bool{true, false, true} {
		ok, err := s.check(e, c, 0, func(int) bool { return stays })
		require.True(t, ok, err)
	}
	held, _ := e.Plans()
	require.Equal(t, 2, held)
}
