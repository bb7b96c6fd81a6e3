package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor"
)

// A deviceRun is one call of a plan on a device: what a caller of the executor
// does, one step after the other.
type deviceRun struct {
	g        *gpu
	plan     *executor.Plan
	memories []*fusionfuzz.Memory // of inputs and outputs, on the host
	copies   []*deviceMemory
	scratch  []*deviceMemory // workspaces
	values   cudadrv.CallValues
}

// errCalls is the error of a plan that calls torch, which is not here: tests/gpu has
// such plans.
var errCalls = errors.New("the plan calls torch")

// execute computes a fusion on the device, and returns its outputs.
func (g *gpu) execute(e *executor.Executor, inputs []fusionfuzz.Input) ([]*core.Array, error) {
	r := &deviceRun{g: g}
	defer r.free()
	var given []executor.Input
	for i := range inputs {
		in, err := r.input(&inputs[i])
		if err != nil {
			return nil, err
		}
		given = append(given, in)
	}
	var err error
	if r.plan, err = e.PlanWith(given, executor.Options{Device: &executor.Device{Type: executor.CUDA}}); err != nil {
		return nil, err
	}
	if r.plan.Device == nil {
		return nil, errors.New("the plan is one for the CPU")
	}
	if len(r.plan.Device.Calls) > 0 {
		return nil, errCalls
	}
	outputs, err := r.outputs(len(inputs))
	if err != nil {
		return nil, err
	}
	for _, w := range r.plan.Device.Workspaces {
		m, err := r.g.copyIn(make([]byte, w.Bytes), !w.Zeroed, 1)
		if err != nil {
			return nil, err
		}
		r.scratch = append(r.scratch, m)
		r.values.Workspaces = append(r.values.Workspaces, m.address())
	}
	r.values.Seed, r.values.Offset = randomState.Seed, randomState.Offset
	r.values.Scalars = make([]uint64, r.plan.Device.Scalars)
	if err := r.plan.Evaluate(given, r.values.Scalars); err != nil {
		return nil, err
	}
	for i := range r.plan.Device.Launches {
		if err := g.driver.Launch(&r.plan.Device.Launches[i], r.values, 0); err != nil {
			return nil, err
		}
	}
	if err := cu.Synchronize(); err != nil {
		return nil, &deviceLost{err}
	}
	return r.results(outputs)
}

func (r *deviceRun) copyIn(host []byte, undefined bool, multiple int) (*deviceMemory, error) {
	m, err := r.g.copyIn(host, undefined, multiple)
	if err == nil {
		r.copies = append(r.copies, m)
	}
	return m, err
}

// input puts an input on the device; a scalar stays.
func (r *deviceRun) input(in *fusionfuzz.Input) (executor.Input, error) {
	if in.Array == nil {
		r.memories, r.values.Inputs = append(r.memories, nil), append(r.values.Inputs, 0)
		return executor.Input{Scalar: in.Scalar}, nil
	}
	m := in.Memory()
	multiple := 1
	if n := len(in.Strides); n > 0 && in.Strides[n-1] > 1 {
		multiple = vectorBytes
	}
	c, err := r.copyIn(m.Bytes(), false, multiple)
	if err != nil {
		return executor.Input{}, err
	}
	data := c.address() + uintptr(in.Offset)*uintptr(in.Array.Type.Size())
	r.memories, r.values.Inputs = append(r.memories, m), append(r.values.Inputs, data)
	return executor.Input{Tensor: true, DType: in.Array.Type, Device: executor.Device{Type: executor.CUDA},
		Data: unsafe.Add(unsafe.Pointer(nil), data), Sizes: in.Array.Shape, Strides: in.Strides}, nil
}

// outputs allocates the outputs as the plan describes them, and returns the
// memory of each.
func (r *deviceRun) outputs(inputs int) ([]*fusionfuzz.Memory, error) {
	all := make([]*fusionfuzz.Memory, len(r.plan.Outputs))
	for k, o := range r.plan.Outputs {
		switch {
		case o.Alias >= 0:
			all[k] = r.memories[o.Alias]
			r.values.Outputs = append(r.values.Outputs, r.values.Inputs[o.Alias])
			continue
		case o.SameAs >= 0:
			all[k] = all[o.SameAs]
			r.values.Outputs = append(r.values.Outputs, r.values.Outputs[o.SameAs])
			continue
		}
		all[k] = fusionfuzz.NewMemory(o.DType, o.Sizes, o.Strides, 0)
		c, err := r.copyIn(all[k].Bytes(), true, 1)
		if err != nil {
			return nil, err
		}
		r.values.Outputs = append(r.values.Outputs, c.address())
	}
	return all, nil
}

// results reads the outputs; what is not written must be as it was.
func (r *deviceRun) results(outputs []*fusionfuzz.Memory) ([]*core.Array, error) {
	if r.g.margin > 0 { // else initcheck looks on, and not all of a workspace need be written
		r.copies, r.scratch = append(r.copies, r.scratch...), nil
	}
	for _, c := range r.copies {
		if err := c.copyOut(); err != nil {
			return nil, err
		}
	}
	r.copies = nil
	written := map[*fusionfuzz.Memory]bool{}
	var all []*core.Array
	for _, m := range outputs {
		written[m] = true
		all = append(all, m.Read())
	}
	for i, m := range r.memories {
		if m != nil && !written[m] && m.Changed() {
			return nil, fmt.Errorf("input %d was written", i)
		}
	}
	return all, nil
}

func (r *deviceRun) free() {
	for _, c := range slices.Concat(r.copies, r.scratch) {
		_ = cu.MemFree(c.block) // after an error, of which the caller hears
	}
}

// TestExecutorOnGPU runs the fusions of the corpus by the executor's own
// choices. One with a schedule by hand may be refused, and those are left out that
// need torch; others may not be refused.
func TestExecutorOnGPU(t *testing.T) {
	if !*onGPU {
		t.Skip("-gpu is not set")
	}
	g := newGPU(t)
	entries, err := readEntries(*archives)
	require.NoError(t, err)
	cache := executor.NewCache(1000, g.driver)
	var ran, refused atomic.Int64
	g.inParallel(t, len(entries)/(*every), func(i int) error {
		e := entries[i**every]
		x, err := cache.Executor(e.fusion)
		var problems []error
		for k := range e.inputs {
			if err != nil {
				break
			}
			in := &e.inputs[k]
			got, err := g.execute(x, in.values)
			if _, is := errors.AsType[*core.Unsupported](err); is && e.schedules != nil || errors.Is(err, errCalls) {
				refused.Add(1)
				continue
			}
			if err == nil {
				ran.Add(1)
				if text := (&subject{inputs: in}).differs(got); text != "" {
					err = errors.New(text)
				}
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s, %s: %w", e.name, in.label, err))
			}
		}
		return errors.Join(append(problems, err)...)
	})
	t.Logf("%d runs, and %d refused", ran.Load(), refused.Load())
	require.Greater(t, ran.Load(), refused.Load())
}

// TestRandomOnGPU runs random fusions by the executor, those that it neither refuses
// nor needs torch for.
func TestRandomOnGPU(t *testing.T) {
	if !*onGPU {
		t.Skip("-gpu is not set")
	}
	g := newGPU(t)
	cache := executor.NewCache(1000, g.driver)
	var ran, refused atomic.Int64
	g.inParallel(t, 4000/(*every), func(i int) error {
		c := randomCase(uint64(i))
		want, wrong := trial.Want(c.Fusion, c.Inputs, randomState)
		x, err := cache.Executor(c.Fusion)
		if err != nil {
			return err
		}
		got, err := g.execute(x, c.Inputs)
		_, unsupported := errors.AsType[*core.Unsupported](err)
		switch {
		case unsupported, errors.Is(err, errCalls):
			refused.Add(1)
			return nil
		case wrong != nil && err == nil:
			return fmt.Errorf("seed %d ran, and the evaluator says: %w\n%v", i, wrong, c.Fusion)
		case wrong != nil && !lost(err):
			return nil
		case err != nil:
			return fmt.Errorf("seed %d: %w\n%v", i, err, c.Fusion)
		}
		ran.Add(1)
		if text := checkOnDevice(c, want, got); text != "" {
			return fmt.Errorf("seed %d: %s", i, text)
		}
		return nil
	})
	t.Logf("%d ran, and %d refused", ran.Load(), refused.Load())
	require.Greater(t, ran.Load(), refused.Load())
}

func randomCase(seed uint64) *fusionfuzz.Case {
	r := rand.New(rand.NewPCG(seed, 5))
	data := make([]byte, 20+r.IntN(120))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return fusionfuzz.Decode(data)
}

// checkOnDevice compares outputs with those of the evaluator as Case.Check does,
// but that of arithmetic on floats only those results are compared that no
// decision and no steep function followed: a device multiplies and adds at once,
// and its functions are a little different.
func checkOnDevice(c *fusionfuzz.Case, want, got []*core.Array) string {
	accuracies := deviceAccuracies(c)
	for k, o := range c.Fusion.Outputs() {
		tolerance := 0.0
		switch accuracies[o.Val] {
		case fusionfuzz.Approximate:
			tolerance = max(1e-4, 2*epsilon(want[k].Type))
		case fusionfuzz.Unspecified:
			continue
		}
		if d := fusionfuzz.Difference(want[k], got[k], tolerance); d != "" {
			return fmt.Sprintf("output %d: %s\n%s", k, d, c.Fusion)
		}
	}
	return ""
}

func deviceAccuracies(c *fusionfuzz.Case) map[core.ValID]fusionfuzz.Accuracy {
	f, all := c.Fusion, c.Accuracies()
	for _, id := range f.Order() {
		e := f.Expr(id)
		from := fusionfuzz.Exact
		for _, v := range f.TensorArgs(e) {
			from = max(from, all[v])
		}
		for _, v := range e.Out {
			t := f.Val(v).DType
			real := t.IsFloat() || t.IsComplex()
			a := max(all[v], from)
			narrow := epsilon(t) > 0 // rounding makes a small difference a large one
			switch {
			case from == fusionfuzz.Approximate && (!real || narrow || !movesOnly(f, e)):
				a = fusionfuzz.Unspecified
			case real && !movesOnly(f, e):
				a = max(a, fusionfuzz.Approximate)
				if c.Wild {
					a = fusionfuzz.Unspecified
				}
			}
			all[v] = a
		}
	}
	return all
}

// movesOnly reports whether the results of e are elements of its operands, or
// those with another sign.
func movesOnly(f *core.Fusion, e *core.Expr) bool {
	switch e.Op {
	case core.CastOp, core.SetOp, core.WhereOp, core.NegOp, core.MaximumOp, core.MinimumOp:
		return true
	case core.AbsOp: // of a complex number a square root
		return !slices.ContainsFunc(f.TensorArgs(e), func(v core.ValID) bool { return f.Val(v).DType.IsComplex() })
	}
	switch e.Op.Class {
	case core.View, core.Resize, core.Gather:
		return true
	}
	return false
}
