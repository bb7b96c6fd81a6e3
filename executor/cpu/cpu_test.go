package cpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

var random = core.RandomState{Seed: 7, Offset: 16}

// checkCase builds and runs c, whose outputs are row-major, and compares them
// with the evaluator's.
func checkCase(t testing.TB, c *fusionfuzz.Case) {
	t.Helper()
	var arrays []*core.Array
	var values []core.InputValue
	var inputs, outputs []Layout
	a := Arguments{Random: random}
	memory := make([]*fusionfuzz.Memory, len(c.Inputs))
	for i := range c.Inputs {
		in := &c.Inputs[i]
		arrays = append(arrays, in.Array)
		a.Scalars = append(a.Scalars, in.Scalar)
		if in.Array == nil {
			values, inputs, a.Inputs = append(values, core.InputValue{Scalar: in.Scalar}), append(inputs, Layout{}), append(a.Inputs, nil)
			continue
		}
		memory[i] = in.Memory()
		values = append(values, core.InputValue{Tensor: true, DType: in.Array.Type, Sizes: in.Array.Shape})
		inputs = append(inputs, Layout{in.Array.Type, in.Array.Shape, in.Strides})
		a.Inputs = append(a.Inputs, memory[i].Data())
	}
	want, err := c.Fusion.Eval(arrays, a.Scalars, random)
	if err != nil {
		return // the executor's test checks that it fails too
	}
	b, err := c.Fusion.Bind(values)
	require.NoError(t, err)
	a.Outputs = make([]unsafe.Pointer, len(want))
	results := make([]*fusionfuzz.Memory, len(want))
	for k, o := range c.Fusion.Outputs() {
		strides := denseStrides(want[k].Shape)
		for d, axis := range c.Fusion.Axes(o.Val) {
			if c.Fusion.Axis(axis).Kind == core.Broadcast {
				strides[d] = 0
			}
		}
		if o.Alias != core.NoVal {
			i := indexOf(c.Fusion.Inputs(), o.Alias)
			results[k] = memory[i]
			outputs = append(outputs, inputs[i])
			continue
		}
		outputs = append(outputs, Layout{want[k].Type, want[k].Shape, strides})
		results[k] = fusionfuzz.NewMemory(want[k].Type, want[k].Shape, strides, 0)
		a.Outputs[k] = results[k].Data()
	}
	p, err := Build(c.Fusion, b, inputs, outputs, Options{Fixed: func(int) bool { return true }, Apart: true})
	require.NoError(t, err, "%s", c.Fusion)
	err = p.Run(a)
	var bug *Panic
	if errors.As(err, &bug) {
		t.Fatalf("%v\n%s\n%s", bug, bug.Stack, c.Fusion)
	}
	require.NoError(t, err)
	got := make([]*core.Array, len(want))
	first := map[core.ValID]int{}
	for k, o := range c.Fusion.Outputs() {
		at := k
		if o.Alias == core.NoVal {
			if j, ok := first[o.Val]; ok {
				at = j
			} else {
				first[o.Val] = k
			}
		}
		require.False(t, results[at].Overrun(), "output %d was written beyond its end\n%s", k, c.Fusion)
		got[k] = results[at].Read()
	}
	if d := c.Check(want, got); d != "" {
		t.Fatal(d)
	}
}

func indexOf(vals []core.ValID, v core.ValID) int {
	for i := range vals {
		if vals[i] == v {
			return i
		}
	}
	panic(fmt.Sprint("no input ", v))
}

// TestSmallLimits runs random fusions with limits so small that folds do not fit
// tiles, groups are full and everything is parallel.
func TestSmallLimits(t *testing.T) {
	saved := limits
	defer func() { limits = saved }()
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 4000 {
		limits.whole = []int64{2, 8, 40}[i%3]
		limits.members = []int{3, 4096}[i%2]
		limits.foldingMembers = []int{2, 10, 512}[i/2%3]
		limits.rootCandidates = []int{0, 8}[i/3%2]
		limits.minTile, limits.maxTile, limits.squareTile = 4, 16, 4
		limits.minRun = []int64{1, 8, 64}[i/5%3]
		limits.smallWork = 0
		data := make([]byte, 20+r.IntN(300))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkCase(t, fusionfuzz.Decode(data))
	}
}
