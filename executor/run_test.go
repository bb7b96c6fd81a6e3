package executor_test

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// prepared is a case in memory.
type prepared struct {
	c       *fusionfuzz.Case
	inputs  []executor.Input
	memory  []*fusionfuzz.Memory
	arrays  []*core.Array
	scalars []scalar.Value
}

func prepare(c *fusionfuzz.Case) *prepared {
	p := &prepared{c: c}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		p.arrays, p.scalars = append(p.arrays, in.Array), append(p.scalars, in.Scalar)
		if in.Array == nil {
			p.inputs, p.memory = append(p.inputs, executor.Input{Scalar: in.Scalar}), append(p.memory, nil)
			continue
		}
		m := in.Memory()
		p.memory = append(p.memory, m)
		p.inputs = append(p.inputs, executor.Input{Tensor: true, DType: m.DType, Data: m.Data(), Sizes: m.Sizes, Strides: m.Strides})
	}
	return p
}

// run plans and runs the case and returns the outputs, and their memory.
func (p *prepared) run(t testing.TB, e *executor.Executor, random core.RandomState) ([]*core.Array, []*fusionfuzz.Memory, error) {
	t.Helper()
	return p.runWith(t, e, executor.Options{}, random)
}

func (p *prepared) runWith(t testing.TB, e *executor.Executor, o executor.Options, random core.RandomState) ([]*core.Array, []*fusionfuzz.Memory, error) {
	t.Helper()
	plan, err := e.PlanWith(p.inputs, o)
	if err != nil {
		return nil, nil, err
	}
	return p.runPlan(t, plan, random)
}

func (p *prepared) runPlan(t testing.TB, plan *executor.Plan, random core.RandomState) ([]*core.Array, []*fusionfuzz.Memory, error) {
	t.Helper()
	return p.runBy(t, plan, func(outputs []unsafe.Pointer) error { return plan.Run(p.inputs, outputs, random, nil) })
}

// runBy allocates the outputs and has them computed by run.
func (p *prepared) runBy(t testing.TB, plan *executor.Plan, run func(outputs []unsafe.Pointer) error) ([]*core.Array, []*fusionfuzz.Memory, error) {
	t.Helper()
	outputs := make([]*fusionfuzz.Memory, len(plan.Outputs))
	pointers := make([]unsafe.Pointer, len(plan.Outputs))
	written := map[int]bool{}
	for k, d := range plan.Outputs {
		switch {
		case d.Alias >= 0:
			outputs[k] = p.memory[d.Alias]
			written[d.Alias] = true
		case d.View != nil && int(d.View.Of) < len(p.memory):
			outputs[k] = p.memory[d.View.Of]
		case d.SameAs >= 0:
			outputs[k] = outputs[d.SameAs]
		default:
			outputs[k] = fusionfuzz.NewMemory(d.DType, d.Sizes, d.Strides, 0)
			pointers[k] = outputs[k].Data()
		}
	}
	if err := run(pointers); err != nil {
		return nil, nil, err
	}
	for i, m := range p.memory {
		require.False(t, m != nil && !written[i] && m.Changed(), "input %d was written\n%s", i, p.c.Fusion)
		require.False(t, m != nil && written[i] && m.ChangedBeside(), "more than the elements of input %d was written\n%s", i, p.c.Fusion)
	}
	arrays := make([]*core.Array, len(outputs))
	for k, m := range outputs {
		require.False(t, m.Overrun(), "output %d was written beyond its end\n%s", k, p.c.Fusion)
		if v := plan.Outputs[k].View; v != nil {
			m = m.Seen(v.Sizes, v.Strides, v.Offset)
			outputs[k] = m
		}
		arrays[k] = m.Read()
	}
	return arrays, outputs, nil
}

func executorOf(t testing.TB, f *core.Fusion) *executor.Executor {
	t.Helper()
	e, err := executor.NewCache(4, nil).Executor(f)
	require.NoError(t, err)
	return e
}

var random = core.RandomState{Seed: 7, Offset: 16}

// checkCase runs c and compares the outputs with the evaluator's.
func checkCase(t testing.TB, c *fusionfuzz.Case) {
	t.Helper()
	p := prepare(c)
	want, wantErr := c.Fusion.Eval(p.arrays, p.scalars, random)
	got, _, err := p.run(t, executorOf(t, c.Fusion), random)
	if wantErr != nil {
		require.Error(t, err, "%s\n%v", c.Fusion, wantErr)
		return
	}
	requireNoError(t, err)
	if d := c.Check(want, got); d != "" {
		t.Fatal(d)
	}
}

// requireNoError fails with the stack and reproducer of a bug.
func requireNoError(t testing.TB, err error) {
	t.Helper()
	var bug *executor.Bug
	if errors.As(err, &bug) {
		t.Fatalf("%v\n%s\n%s", bug, bug.Stack, bug.Reproducer)
	}
	require.NoError(t, err)
}

func FuzzExecutor(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 100)
		for k := range seed {
			seed[k] = byte((i*131 + k*k*17 + k*(i+3)) >> 1)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkCase(t, fusionfuzz.Decode(data)) })
}
