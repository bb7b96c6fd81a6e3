package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/passes"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/segmenter"
)

// TestBlockKernels lowers and simulates the kernels of the blocks of testdata/corpus/blocks,
// each distinct one by all candidates of its scheduler.
func TestBlockKernels(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/blocks/*.fusion")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		f, inputs, err := fusionfuzz.ParseSized(string(text))
		require.NoError(t, err)
		f, _, err = passes.Run(f, false)
		require.NoError(t, err)
		for _, size := range []string{"small", "single"} {
			t.Run(filepath.Base(file)+" "+size, func(t *testing.T) {
				for _, c := range blockKernels(t, f, inputs[size]) {
					c.check(t)
				}
			})
		}
	}
}

// A blockKernel is a segment and its inputs.
type blockKernel struct {
	device scheduler.Device // that kernels are made for
	*segmenter.Segment
	inputs []fusionfuzz.Input
	want   []*core.Array
}

// blockKernels cuts f and evaluates its segments one after the other.
func blockKernels(t *testing.T, f *core.Fusion, values []core.InputValue) []*blockKernel {
	b, err := f.Bind(values)
	require.NoError(t, err)
	f, _, err = f.Concretize(b)
	require.NoError(t, err)
	b, err = f.Bind(values)
	require.NoError(t, err)
	p, err := segmenter.Cut(f, b, scheduler.Hopper, segmenter.Options{})
	require.NoError(t, err)
	at := map[core.ValID]*core.Array{}
	for i, in := range fusionfuzz.Tame(f, values, 1) {
		at[f.Inputs()[i]] = in.Array
	}
	seen := map[string]bool{}
	var all []*blockKernel
	for _, s := range p.Segments {
		c := &blockKernel{Segment: s, device: scheduler.Hopper}
		for k, source := range s.Inputs {
			in := fusionfuzz.Input{}
			if source.Val == core.NoVal {
				in.Scalar, err = b.Value(source.Scalar)
				require.NoError(t, err)
			} else {
				if in.Array = at[source.Val]; in.Array == nil { // no segment computes what has no elements
					sizes, err := b.Shape(source.Val)
					require.NoError(t, err)
					require.Zero(t, core.NumElements(sizes))
					in.Array = core.NewArray(f.Val(source.Val).DType, sizes)
				}
				in.Strides = fusionfuzz.DenseStrides(s.Fusion, s.Fusion.Inputs()[k], in.Array.Shape)
			}
			c.inputs = append(c.inputs, in)
		}
		c.evaluate(t)
		for k, v := range s.Writes {
			at[v] = c.want[k]
		}
		if s.Kind == segmenter.Kernel && !seen[s.Key] {
			seen[s.Key] = true
			all = append(all, c)
		}
	}
	return all
}

// evaluate finds what c is to compute.
func (c *blockKernel) evaluate(t *testing.T) {
	combined := c.Fusion.Clone() // as schedulers have it: 1 + tanh(x) and the like are rounded once
	require.NoError(t, combined.CombinePlusOne())
	var err error
	c.want, err = trial.Want(combined, c.inputs, randomOf(c.Segment))
	require.NoError(t, err)
}

// check compares what kernels by the candidates of the scheduler compute. One that cannot be
// lowered is passed over, and if none can what is written in place is written apart, as
// the executor does.
func (c *blockKernel) check(t *testing.T) {
	if refused := c.run(t, c.Fusion); refused == nil {
		return
	}
	outputs := slices.Clone(c.Fusion.Outputs())
	for k := range outputs {
		outputs[k].Alias = core.NoVal
	}
	require.NotEqual(t, c.Fusion.Outputs(), outputs, "no kernel of\n%v", c.Fusion)
	require.NoError(t, c.run(t, c.Fusion.WithOutputs(outputs)))
}

// run returns why no candidate can be lowered, or nil.
func (c *blockKernel) run(t *testing.T, f *core.Fusion) (refused error) {
	b, err := f.Bind(trial.Values(c.inputs))
	require.NoError(t, err)
	g, err := scheduler.Dense(f, b)
	require.NoError(t, err)
	by, ran := schedulers.Lookup(c.Scheduler), false
	for k, p := range by.Candidates(g, c.device) {
		where := fmt.Sprintf("%v\n%s %v", f, c.Scheduler, p)
		s, err := by.Apply(g, p)
		if err != nil {
			require.Positive(t, k, "the first must be possible: %v\n%s", err, where)
			continue
		}
		x, err := c.lower(s, p)
		if errors.As(err, new(*core.Unsupported)) {
			refused = err
			continue
		}
		require.NoError(t, err, where)
		ran = true
		got, report, err := x.Simulate(sim.Options{})
		require.NoError(t, err, where)
		require.NoError(t, report.Err(), where)
		require.Empty(t, (&fusionfuzz.Case{Fusion: f, Inputs: c.inputs}).Check(c.want, got), where)
		require.Less(t, report.Counters.Statements, 80*(c.elements()+4096)*int64(f.NumExprs()+1), "this kernel does much in vain: %s", where)
	}
	if ran {
		return nil
	}
	return refused
}

func (c *blockKernel) lower(s *schedule.Scheduled, p scheduler.Params) (*trial.Trial, error) {
	given, err := trial.Integers(s, c.inputs)
	if err != nil {
		return nil, err
	}
	width := int64(1)
	if v, ok := p.(scheduler.Vectorized); ok {
		width = v.Width()
	}
	k, err := lower.Lower(s, lower.Options{Value: given, Cooperative: true, Alignment: func(core.ValID) int { return 16 },
		Promise: func(h kir.HostValue) scalar.Facts {
			n, ok := given(h)
			if !ok || n <= 0 {
				return scalar.Unknown()
			}
			low := int64(1)
			if h.Stride < 0 && n >= width {
				low = width
			}
			return scalar.Facts{Lo: low, Hi: 1 << 62, Divisor: min(n&-n, width)}
		}})
	if err != nil {
		return nil, err
	}
	return &trial.Trial{Scheduled: s, Kernel: k, Inputs: c.inputs, Random: randomOf(c.Segment)}, k.Verify()
}

// elements returns those of the largest tensor that c reads or writes.
func (c *blockKernel) elements() int64 {
	n := 0
	for _, in := range c.inputs {
		if in.Array != nil {
			n = max(n, in.Array.Len())
		}
	}
	for _, a := range c.want {
		n = max(n, a.Len())
	}
	return int64(n)
}

// randomOf returns the state of the generator with which s draws the numbers of its place.
func randomOf(s *segmenter.Segment) core.RandomState {
	return core.RandomState{Seed: randomState.Seed, Offset: randomState.Offset + 4*uint64(s.Draw)}
}
