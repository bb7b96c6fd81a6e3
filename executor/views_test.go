package executor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
)

// viewPlaces are where fusions with views run: the options of a plan, and how inputs come
// there.
var viewPlaces = []struct {
	name     string
	options  executor.Options
	onDevice bool
}{
	{"cpu", executor.Options{Views: true}, false},
	{"simulated", executor.Options{Views: true, Simulate: true}, false},
	{"device", executor.Options{Views: true, Device: &executor.Device{Type: executor.CUDA}}, true},
}

// planViews plans c in a place and runs it.
func planViews(t testing.TB, c *fusionfuzz.Case, place int) (p *prepared, plan *executor.Plan, got []*core.Array, outputs []*fusionfuzz.Memory, err error) {
	t.Helper()
	at, s := viewPlaces[place], newStage(t)
	p = prepare(c)
	if at.onDevice {
		toDevice(p.inputs, never)
	}
	if plan, err = s.executor(c.Fusion).PlanWith(p.inputs, at.options); err != nil {
		return p, nil, nil, nil, err
	}
	got, outputs, err = p.runBy(t, plan, func(memory []unsafe.Pointer) error {
		if at.onDevice {
			return s.run(plan, p.inputs, memory, random)
		}
		return plan.Run(p.inputs, memory, random, nil)
	})
	return p, plan, got, outputs, err
}

// TestViews says of small programs which outputs are views of what: "in 0" an input, "out 1"
// an output, "own" the memory of the output, "copy" none.
func TestViews(t *testing.T) {
	permuted := func(p *program, x core.ValID) core.ValID { return p.call("permute", x, []int{1, 0}) }
	for _, test := range []struct {
		name  string
		build func(p *program)
		sizes [][]int64
		views []string
	}{
		{"an input", func(p *program) { p.output(p.tensor(-1)) }, [][]int64{{5}}, []string{"in 0"}},
		{"of an input", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(permuted(p, x))
			p.output(p.call("exp", x))
			p.output(permuted(p, x))
		}, [][]int64{{3, 4}}, []string{"in 0", "copy", "in 0"}},
		{"of an output that comes later", func(p *program) {
			y := p.call("exp", p.tensor(-1, -1))
			p.output(permuted(p, y))
			p.output(y)
		}, [][]int64{{3, 4}}, []string{"own", "copy"}},
		{"of a view", func(p *program) {
			y := permuted(p, p.tensor(-1, -1))
			p.output(y)
			p.output(permuted(p, y))
			p.output(y)
		}, [][]int64{{3, 4}}, []string{"in 0", "in 0", "in 0"}},
		{"a copy", func(p *program) {
			x := p.call("set", p.tensor(-1, -1))
			p.output(x)
			p.output(permuted(p, x))
		}, [][]int64{{3, 4}}, []string{"copy", "out 0"}},
		{"of what is no output", func(p *program) {
			p.output(permuted(p, p.call("exp", p.tensor(-1, -1))))
		}, [][]int64{{3, 4}}, []string{"copy"}},
		{"of a product", func(p *program) {
			m := p.call("matmul", p.tensor(-1, -1), p.tensor(-1, -1))
			p.output(permuted(p, m))
			p.output(p.call("neg", m))
			p.output(permuted(p, m))
		}, [][]int64{{3, 4}, {4, 5}}, []string{"own", "copy", "out 0"}},
		{"of an input that is written", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(permuted(p, x))
			p.output(x)
			p.alias(p.call("neg", x), x)
		}, [][]int64{{3, 4}}, []string{"copy", "copy", "copy"}},
		{"of an output in place", func(p *program) {
			x := p.tensor(-1, -1)
			y := p.call("neg", x)
			p.alias(y, x)
			p.output(y)
			p.output(permuted(p, y))
		}, [][]int64{{3, 4}}, []string{"copy", "copy", "copy"}},
		{"one that is written to another input", func(p *program) {
			x, y := p.tensor(-1, -1), p.tensor(-1, -1)
			p.alias(x, y)
			p.output(x)
			p.output(permuted(p, x))
		}, [][]int64{{3, 4}, {3, 4}}, []string{"copy", "in 0", "in 0"}},
		{"no elements", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(permuted(p, x))
			p.output(p.call("exp", x))
		}, [][]int64{{0, 4}}, []string{"in 0", "copy"}},
		{"no dimensions", func(p *program) {
			x := p.tensor()
			p.output(x)
			p.output(p.call("neg", x))
		}, [][]int64{{}}, []string{"in 0", "copy"}},
	} {
		for place, at := range viewPlaces {
			t.Run(test.name+"/"+at.name, func(t *testing.T) {
				c := newCase(t, test.build, test.sizes...)
				before := prepare(c)
				want, err := c.Fusion.Eval(before.arrays, before.scalars, random)
				require.NoError(t, err)
				p, plan, got, _, err := planViews(t, c, place)
				requireNoError(t, err)
				require.Empty(t, c.Check(want, got))
				var views []string
				for k := range plan.Outputs {
					views = append(views, shownView(plan, k, len(p.inputs)))
				}
				require.Equal(t, test.views, views)
			})
		}
	}
}

func shownView(plan *executor.Plan, k, inputs int) string {
	switch v := plan.Outputs[k].View; {
	case v == nil:
		return "copy"
	case int(v.Of) < inputs:
		return fmt.Sprint("in ", v.Of)
	case int(v.Of) == inputs+k:
		return "own"
	default:
		return fmt.Sprint("out ", int(v.Of)-inputs)
	}
}

// TestViewsNeedNoKernel: nothing is launched for outputs that are views, nor allocated for
// those of inputs.
func TestViewsNeedNoKernel(t *testing.T) {
	c := newCase(t, func(p *program) {
		x := p.tensor(-1, -1)
		p.output(x)
		p.output(p.call("permute", x, []int{1, 0}))
	}, []int64{3, 4})
	for place := range viewPlaces {
		_, plan, _, _, err := planViews(t, c, place)
		requireNoError(t, err)
		for _, phase := range plan.Phases() {
			require.Zero(t, phase.Launches)
			require.Empty(t, phase.Allocate)
		}
	}
}

// TestViewsRandom: random fusions give the evaluator's values with views. VIEW_PROGRAMS is
// how many, VIEW_SEED says which.
func TestViewsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(setting("VIEW_SEED", 9)), 10))
	views := 0
	for range setting("VIEW_PROGRAMS", 1500) {
		c := randomCase(r)
		for place := range viewPlaces {
			p := prepare(c)
			want, wantErr := c.Fusion.Eval(p.arrays, p.scalars, random)
			_, plan, got, _, err := planViews(t, c, place)
			if ok, _ := judge(t, c, want, wantErr, got, err); !ok || wantErr != nil {
				break
			}
			seen := 0
			for k := range plan.Outputs {
				if plan.Outputs[k].View != nil {
					seen++
				}
			}
			if views += seen; seen == 0 {
				break // it is planned as without
			}
		}
	}
	t.Log(views, "views")
	require.Greater(t, views, setting("VIEW_PROGRAMS", 1500)/10)
}

// TestViewsKept: another process finds the plan of a fusion with views.
func TestViewsKept(t *testing.T) {
	const text = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = exp %0\n%2 = broadcast %1 is_broadcast_dim=[false, true]\noutput %0\noutput %2\noutput %1\n"
	folder, inputs := keptFolder(t), []executor.Input{vector(0x1000, 1000)}
	o := executor.Options{Views: true}
	made := newProcess(h100s(1), folder).plan(t, text, inputs, o)
	second := newProcess(h100s(1), folder)
	kept := second.plan(t, text, inputs, o)
	require.True(t, second.found())
	requireSame(t, made, kept)
	require.Len(t, kept.Device.Launches, 1)
	require.Equal(t, []executor.Phase{{Allocate: []executor.Slot{2}, Launches: 1, Call: -1}}, kept.Phases())
	require.Contains(t, kept.Device.String(), "output 0: a view of input 0, sizes [1000], strides [1], from element 0 on\n"+
		"output 1: a view of output 1, sizes [1000 1], strides [1 0], from element 0 on\n")
	third := newProcess(h100s(1), folder)
	require.Len(t, third.plan(t, text, inputs, executor.Options{}).Device.Launches, 2)
	require.False(t, third.found())
}

// TestViewsOfCallsKept: so it does with views of a product.
func TestViewsOfCallsKept(t *testing.T) {
	const text = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = matmul %0, %0\n%2 = permute %1 dims=[1, 0]\n%3 = permute %0 dims=[1, 0]\n%4 = neg %1\noutput %2\noutput %3\noutput %4\n"
	folder := keptFolder(t)
	x := vector(0x1000, 16)
	x.Sizes, x.Strides = []int64{4, 4}, []int64{4, 1}
	inputs, o := []executor.Input{x}, executor.Options{Views: true}
	made := newProcess(h100s(1), folder).plan(t, text, inputs, o)
	second := newProcess(h100s(1), folder)
	kept := second.plan(t, text, inputs, o)
	require.True(t, second.found())
	requireSame(t, made, kept)
	require.Equal(t, []string{"own", "in 0", "copy"}, []string{shownView(kept, 0, 1), shownView(kept, 1, 1), shownView(kept, 2, 1)})
	require.Len(t, kept.Device.Launches, 1)
}

// TestViewsOfOverlappingInputs: where an input that is written shares memory with another
// one, nothing is a view of an input.
func TestViewsOfOverlappingInputs(t *testing.T) {
	const text = "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = tensor f32 [-1] contiguity=[yes]\n%2 = neg %0\noutput %0\noutput %2 alias %1\n"
	memory := make([]float32, 20)
	at := func(i int) executor.Input {
		in := vector(0, 8)
		in.Data = unsafe.Pointer(&memory[i])
		return in
	}
	for _, place := range viewPlaces {
		s := newStage(t)
		e := deviceExecutor(t, s.driver, text)
		for second, isView := range map[int]bool{0: false, 4: false, 8: true} {
			inputs := []executor.Input{at(0), at(second)}
			for i := range inputs {
				if !place.onDevice {
					inputs[i].Device = executor.Device{}
				}
			}
			plan, err := e.PlanWith(inputs, place.options)
			requireNoError(t, err)
			require.Equal(t, isView, plan.Outputs[0].View != nil, "%s, %d", place.name, second)
		}
	}
}
