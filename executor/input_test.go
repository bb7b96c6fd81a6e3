package executor_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
	"nvfuser_go/executor/cpu"
)

// floats returns an input over fresh memory.
func floats(sizes, strides []int64) executor.Input {
	n := int64(1)
	for d := range sizes {
		n += max(sizes[d]-1, 0) * strides[d]
	}
	return executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&make([]float32, n)[0]), Sizes: sizes, Strides: strides}
}

func TestInputErrors(t *testing.T) {
	type ints = []int64
	const yes, no, none = core.Yes, core.No, core.NotApplicable
	contiguous := []core.Tri{yes, yes}
	on := func(x executor.Input, d executor.Device) executor.Input {
		x.Device = d
		return x
	}
	of := func(x executor.Input, d dtype.Type) executor.Input {
		x.DType = d
		return x
	}
	dense := func() executor.Input { return floats(ints{3, 4}, ints{4, 1}) }
	cuda := executor.Device{Type: executor.CUDA, Index: 1}
	tests := []struct {
		name       string
		contiguity []core.Tri
		inputs     []executor.Input
		want       string // "" if the input is good
	}{
		{"good", contiguous, []executor.Input{dense()}, ""},
		{"count", contiguous, []executor.Input{dense(), dense()}, "execute(): the fusion has 1 input, got 2: (tv0)"},
		{"scalar", contiguous, []executor.Input{{Scalar: scalar.Value{Type: dtype.Int}}}, "execute(): input 0 (tv0) must be a tensor, got a scalar"},
		{"dtype", contiguous, []executor.Input{of(dense(), dtype.Int32)}, "execute(): input 0 (tv0) has dtype Int32, but the definition says Float"},
		{"rank", contiguous, []executor.Input{floats(ints{3}, ints{1})}, "execute(): input 0 (tv0) has 1 dimension, but the definition says 2"},
		{"size", contiguous, []executor.Input{floats(ints{3, 5}, ints{5, 1})}, "execute(): input 0 (tv0) has size 5 in dimension 1, but the definition says 4"},
		{"inner stride", contiguous, []executor.Input{floats(ints{3, 4}, ints{8, 2})}, "execute(): input 0 (tv0) has stride 2 in dimension 1, but the definition says that it is contiguous, which needs stride 1; sizes [3, 4], strides [8, 2]"},
		{"outer stride", contiguous, []executor.Input{floats(ints{3, 4}, ints{5, 1})}, "execute(): input 0 (tv0) has stride 5 in dimension 0, but the definition says that it is contiguous, which needs stride 4; sizes [3, 4], strides [5, 1]"},
		{"gap where one is allowed", []core.Tri{no, yes}, []executor.Input{floats(ints{3, 4}, ints{5, 1})}, ""},
		{"anything where nothing is promised", []core.Tri{no, no}, []executor.Input{floats(ints{3, 4}, ints{1, 7})}, ""},
		{"stride of size 1", contiguous, []executor.Input{floats(ints{1, 4}, ints{77, 1})}, ""},
		{"strides of no elements", contiguous, []executor.Input{floats(ints{0, 4}, ints{9, 9})}, ""},
		{"expanded", []core.Tri{none, yes}, []executor.Input{floats(ints{3, 4}, ints{0, 1})}, ""},
		{"not expanded", []core.Tri{none, yes}, []executor.Input{dense()}, "execute(): input 0 (tv0) has size 3 and stride 4 in dimension 0, but the definition says that it is expanded (contiguity None), which needs stride 0; sizes [3, 4], strides [4, 1]"},
		{"negative stride", []core.Tri{no, no}, []executor.Input{{Tensor: true, DType: dtype.Float, Data: dense().Data, Sizes: ints{3, 4}, Strides: ints{4, -1}}}, "execute(): input 0 (tv0) has stride -1 in dimension 1; a stride is not negative"},
		{"no memory", contiguous, []executor.Input{{Tensor: true, DType: dtype.Float, Sizes: ints{3, 4}, Strides: ints{4, 1}}}, "execute(): input 0 (tv0) has 12 elements but no memory"},
		{"no strides", contiguous, []executor.Input{{Tensor: true, DType: dtype.Float, Data: dense().Data, Sizes: ints{3, 4}}}, "execute(): input 0 (tv0) has 2 sizes but 0 strides"},
		{"device", contiguous, []executor.Input{on(dense(), cuda)}, "execute(): this executor computes on the CPU only\n  executor: the run is on cuda:1, and there is no CUDA driver"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := core.NewFusion()
			v, err := f.DefineTensor(core.TensorDescription{Shape: ints{-1, 4}, Contiguity: test.contiguity, DType: dtype.Float})
			require.NoError(t, err)
			p := &program{t, f}
			p.output(p.call("neg", v))
			f.Freeze()
			_, err = executorOf(t, f).Plan(test.inputs)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.want)
			}
		})
	}
}

func TestDevicesMustAgree(t *testing.T) {
	p := &program{t, core.NewFusion()}
	p.output(p.call("add", p.tensor(-1), p.tensor(-1)))
	p.f.Freeze()
	x, y := floats([]int64{4}, []int64{1}), floats([]int64{4}, []int64{1})
	y.Device = executor.Device{Type: executor.CUDA}
	_, err := executorOf(t, p.f).Plan([]executor.Input{x, y})
	require.EqualError(t, err, "execute(): input 0 (tv0) is on cpu and input 1 (tv1) is on cuda:0; all tensors must be on one device")
}

func TestFourBitFloats(t *testing.T) {
	p := &program{t, core.NewFusion()}
	x := p.tensorOf(dtype.Float4E2M1FNx2, -1)
	p.output(x)
	p.f.Freeze()
	in := floats([]int64{4}, []int64{1})
	in.DType = dtype.Float4E2M1FNx2
	_, err := executorOf(t, p.f).Plan([]executor.Input{in})
	require.EqualError(t, err, "execute(): four-bit floats are not supported\n  executor: input 0 (tv0) is Float4_e2m1fn_x2")
}

func TestAliasOfOverlappingElements(t *testing.T) {
	for _, strides := range [][]int64{{0, 1}, {1, 1}, {3, 1}} {
		f := core.NewFusion()
		v, err := f.DefineTensor(core.TensorDescription{Shape: []int64{-1, -1}, Contiguity: []core.Tri{core.No, core.No}, DType: dtype.Float})
		require.NoError(t, err)
		p := &program{t, f}
		p.alias(p.call("neg", v), v)
		f.Freeze()
		_, err = executorOf(t, f).Plan([]executor.Input{floats([]int64{3, 4}, strides)})
		require.ErrorContains(t, err, "several of its elements share memory: sizes [3, 4], strides")
	}
}

func TestTooManyBytes(t *testing.T) {
	p := &program{t, core.NewFusion()}
	x := p.tensor(-1)
	big := p.call("expand", p.call("broadcast", p.call("exp", x), []bool{true, false}), []int{1 << 61, -1})
	p.output(p.call("sum", p.call("argsort", big, 0)))
	p.f.Freeze()
	_, err := executorOf(t, p.f).Plan([]executor.Input{floats([]int64{3}, []int64{1})})
	require.ErrorContains(t, err, "bytes of memory")
	var invalid *core.InvalidArgument
	require.ErrorAs(t, err, &invalid)
}

func TestNegativeSizeOfAnEmptyTensor(t *testing.T) {
	p := &program{t, core.NewFusion()}
	p.output(p.call("pad", p.tensor(-1, -1), []int{-100, 0}))
	p.f.Freeze()
	_, err := executorOf(t, p.f).Plan([]executor.Input{floats([]int64{0, 4}, []int64{4, 1})})
	require.ErrorContains(t, err, "pad(): result 0: dimension 1 has size -96; a size is not negative")
}

func TestInterrupt(t *testing.T) {
	p := &program{t, core.NewFusion()}
	p.output(p.call("exp", p.tensor(-1)))
	p.f.Freeze()
	in := []executor.Input{floats([]int64{100000}, []int64{1})}
	for _, simulate := range []bool{false, true} {
		plan, err := executorOf(t, p.f).PlanWith(in, executor.Options{Simulate: simulate})
		require.NoError(t, err)
		var stop atomic.Bool
		stop.Store(true)
		out := make([]float32, 100000)
		require.ErrorIs(t, plan.Run(in, []unsafe.Pointer{unsafe.Pointer(&out[0])}, random, &stop), cpu.ErrInterrupted)
	}
}

// The tasks of a long fold are few, whatever its size; left alone, these would
// take days.
func TestInterruptWithinATask(t *testing.T) {
	for name, body := range map[string]func(p *program, x core.ValID) core.ValID{
		"fold": func(p *program, x core.ValID) core.ValID { return p.call("sum", p.call("exp", x), []int{1}) },
		"product": func(p *program, x core.ValID) core.ValID {
			return p.call("matmul", x, p.call("permute", x, []int{1, 0}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{t, core.NewFusion()}
			x := p.call("expand", p.call("broadcast", p.tensor(3), []bool{false, true}), []int{-1, 1 << 45})
			p.output(body(p, x))
			p.f.Freeze()
			in := []executor.Input{floats([]int64{3}, []int64{1})}
			plan, err := executorOf(t, p.f).Plan(in)
			require.NoError(t, err)
			var stop atomic.Bool
			time.AfterFunc(20*time.Millisecond, func() { stop.Store(true) })
			out := make([]float32, 9)
			require.ErrorIs(t, plan.Run(in, []unsafe.Pointer{unsafe.Pointer(&out[0])}, random, &stop), cpu.ErrInterrupted)
		})
	}
}

// A loop over the dimensions beside the empty one would take days.
func TestHugeResultsWithoutElements(t *testing.T) {
	const huge = 1 << 45
	for name, body := range map[string]func(p *program, x core.ValID) core.ValID{
		"matmul":  func(p *program, x core.ValID) core.ValID { return p.call("matmul", x, p.tensor(3, 2)) },
		"linear":  func(p *program, x core.ValID) core.ValID { return p.call("linear", x, p.tensor(2, 3)) },
		"argsort": func(p *program, x core.ValID) core.ValID { return p.call("argsort", x, 1) },
		"topk":    func(p *program, x core.ValID) core.ValID { return p.call("topk", x, 0, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{t, core.NewFusion()}
			p.output(body(p, p.tensor(huge, 0, 3)))
			p.f.Freeze()
			in := []executor.Input{{Tensor: true, DType: dtype.Float, Data: floats(nil, nil).Data, Sizes: []int64{huge, 0, 3}, Strides: []int64{3, 3, 1}}}
			if name == "matmul" || name == "linear" {
				in = append(in, floats([]int64{3, 2}, []int64{2, 1}))
			}
			if name == "linear" {
				in[1] = floats([]int64{2, 3}, []int64{3, 1})
			}
			plan, err := executorOf(t, p.f).Plan(in)
			require.NoError(t, err)
			require.NoError(t, plan.Run(in, []unsafe.Pointer{nil}, random, nil))
		})
	}
}

// A plan does not depend on the value of this scalar, and refuses it all the
// same.
func TestScalarsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		of    dtype.Type
		value scalar.Value
		text  string
	}{
		{dtype.Int32, scalar.Value{Type: dtype.Int, I: 1 << 31}, "input 1 (c2) is 2147483648, which does not fit Int32"},
		{dtype.Int, scalar.Value{Type: dtype.UInt64, I: -1}, "input 1 (c2) is 18446744073709551615, which does not fit Int"},
		{dtype.UInt64, scalar.Value{Type: dtype.Int, I: -1}, "input 1 (c2) is -1, which does not fit UInt64"},
	} {
		p := &program{t, core.NewFusion()}
		x := p.tensor(-1)
		s, err := p.f.DefineScalar(c.of)
		require.NoError(t, err)
		p.output(p.call("mul", x, s))
		p.f.Freeze()
		e := executorOf(t, p.f)
		for _, good := range []int64{1, 2} {
			_, err = e.Plan([]executor.Input{floats([]int64{3}, []int64{1}), {Scalar: scalar.Value{Type: c.value.Type, I: good}}})
			require.NoError(t, err)
		}
		_, err = e.Plan([]executor.Input{floats([]int64{3}, []int64{1}), {Scalar: c.value}})
		require.ErrorContains(t, err, c.text)
		var invalid *core.InvalidArgument
		require.ErrorAs(t, err, &invalid)
	}
}

func TestScalarWithoutValue(t *testing.T) {
	p := &program{t, core.NewFusion()}
	x := p.tensor(-1)
	n, err := p.f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	p.output(p.call("mul", x, p.call("div", 12, n)))
	p.f.Freeze()
	e := executorOf(t, p.f)
	for _, divisor := range []int64{4, 0, 3} {
		in := []executor.Input{floats([]int64{1}, []int64{1}), {Scalar: scalar.Value{Type: dtype.Int, I: divisor}}}
		*(*float32)(in[0].Data) = 2
		plan, err := e.Plan(in)
		require.NoError(t, err)
		out := float32(-1)
		err = plan.Run(in, []unsafe.Pointer{unsafe.Pointer(&out)}, random, nil)
		if divisor == 0 {
			var invalid *core.InvalidArgument
			require.ErrorAs(t, err, &invalid)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, float32(2*12/divisor), out)
	}
	held, built := e.Plans()
	require.Equal(t, []int{1, 1}, []int{held, built}, "the value of an operand is not in the key")
}
