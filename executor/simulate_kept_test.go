package executor_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
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
	"nvfuser_go/schedulers/outerpersistent"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
)

// Fusions over columns whose elements are needed after they are reduced.
const (
	keptSums = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = sub %0, %2
output %3
`
	keptGradient = `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
%4 = mul %2, %3
%5 = sum %4 dims=[0] keepdim=false dtype=f32
%6 = sum %2 dims=[0] keepdim=false dtype=f32
%7 = broadcast %5 is_broadcast_dim=[true, false]
%8 = broadcast %6 is_broadcast_dim=[true, false]
%9 = mul %3, %7
%10 = add %9, %8
%11 = sub %2, %10
%12 = cast %11 dtype=bf16
output %12
output %5
output %6
`
	keptMoments = `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2, %3, %4 = welford %1 dims=[0]
%5 = broadcast %2 is_broadcast_dim=[true, false]
%6 = sub %1, %5
%7 = cast %6 dtype=bf16
output %7
output %3
`
)

// TestSimulateKept loads columns again of which the last iterations are in shared memory: for
// as many iterations as are kept, fewer and more, and none.
func TestSimulateKept(t *testing.T) {
	cases := 0
	for _, c := range []struct {
		text   string
		vector int64
		inputs int
	}{{keptSums, 4, 1}, {keptGradient, 8, 2}, {keptMoments, 8, 1}} {
		for _, p := range []outerpersistent.Params{
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Kept: 2, Warm: 1},
			{Lanes: 2, Rows: 4, Steps: 1, Blocks: 3, Kept: 3},
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Warm: 2},
			{Lanes: 4, Rows: 8, Steps: 2, Blocks: 1, Kept: 1},
			{Lanes: 4, Rows: 1, Steps: 4, Blocks: 1, Kept: 2, Warm: 1},
			{Lanes: 2, Rows: 2, Steps: 1, Blocks: 2, Kept: 5, Warm: 3},
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Near: true, Kept: 2, Warm: 1},
			{Lanes: 8, Rows: 4, Steps: 3, Blocks: 20, Near: true, Kept: 1, Warm: 1},
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 20, Near: true, Kept: 2},
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 10, Near: true, Kept: 2, Once: true},
			{Lanes: 8, Rows: 32, Steps: 2, Blocks: 2, Near: true, Kept: 2}, // lanes share the columns of a thread
		} {
			p.Vector, p.Reload, p.Price = c.vector, true, persistence.Tight
			for _, rows := range []int64{0, 1, 5, 24, 100, 145} {
				for _, columns := range []int64{2 * c.vector, 7 * c.vector} {
					if cases++; testing.Short() && cases%5 != 1 {
						continue
					}
					name := fmt.Sprintf("%d inputs, %dx%d, %v", c.inputs, rows, columns, p)
					text := strings.ReplaceAll(c.text, "-1]", fmt.Sprintf("%d]", columns))
					require.NoError(t, checkKept(t, text, []int64{rows, columns}, c.inputs, p), name)
				}
			}
		}
	}
}

// TestSimulateKeptOfGaps loads columns again whose rows begin where accesses are narrower than
// what a thread has of them: copies that such addresses do not allow are refused, and no more.
func TestSimulateKeptOfGaps(t *testing.T) {
	text := strings.Replace(keptMoments, "[-1, -1] contiguity=[yes, yes]", "[-1, 24] contiguity=[no, yes]", 1)
	for _, p := range []outerpersistent.Params{
		{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Kept: 2, Warm: 1},
		{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Near: true, Kept: 2},
		{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Warm: 2},
	} {
		p.Vector, p.Reload, p.Price = 4, true, persistence.Tight
		for _, rows := range []int64{1, 24, 145} {
			err := checkKept(t, text, []int64{rows, 24}, 1, p)
			if !errors.As(err, new(*core.Unsupported)) && !errors.As(err, new(*schedule.Refused)) {
				require.NoError(t, err, "%d rows, %v", rows, p)
			}
		}
	}
}

// TestSimulateRounds has all blocks together hold a few columns after the others in shared memory.
func TestSimulateRounds(t *testing.T) {
	cases := 0
	for _, c := range []struct {
		text   string
		vector int64
		inputs int
	}{{keptSums, 4, 1}, {keptGradient, 8, 2}, {keptMoments, 8, 1}} {
		for _, p := range []outerpersistent.Params{
			{Lanes: 2, Rows: 4, Steps: 2, Blocks: 3, Kept: 2},
			{Lanes: 2, Rows: 4, Steps: 1, Blocks: 3, Kept: 6},
			{Lanes: 4, Rows: 2, Steps: 4, Blocks: 2, Kept: 3},
			{Lanes: 8, Rows: 4, Steps: 3, Blocks: 20, Kept: 2},
			{Lanes: 2, Rows: 2, Steps: 4, Blocks: 150, Kept: 2},
			{Lanes: 8, Rows: 32, Steps: 2, Blocks: 2, Kept: 2}, // lanes share the columns of a thread
		} {
			p.Vector, p.Reload, p.Price, p.Near, p.Once, p.Rounds = c.vector, true, persistence.Tight, true, true, true
			most := p.Steps * p.Blocks * p.Rows * p.Kept
			for _, rows := range []int64{1, most - 7, most} {
				if rows > 300 {
					continue
				}
				for _, columns := range []int64{9 * c.vector, 16 * c.vector} {
					if cases++; testing.Short() && cases%5 != 1 {
						continue
					}
					name := fmt.Sprintf("%d inputs, %dx%d, %v", c.inputs, rows, columns, p)
					text := strings.ReplaceAll(c.text, "-1]", fmt.Sprintf("%d]", columns))
					require.NoError(t, checkKept(t, text, []int64{rows, columns}, c.inputs, p), name)
				}
			}
		}
	}
}

// checkKept compares simulated runs of the fusion of text, scheduled with p, with the evaluator.
func checkKept(t *testing.T, text string, sizes []int64, inputs int, p outerpersistent.Params) error {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	x := fusionfuzz.Inputs(f, 7, [][]int64{sizes, sizes}[:inputs]...)
	_, _, values := fusionfuzz.Arguments(x)
	bind, err := f.Bind(values)
	require.NoError(t, err)
	g, err := scheduler.Dense(f, bind)
	require.NoError(t, err)
	if strings.Contains(text, "[no, yes]") { // rows with gaps, so that accesses are narrower than what a thread has
		for i := range x {
			x[i].Strides = []int64{sizes[1] + 2, 1}
			g.Inputs[i].Strides = x[i].Strides
		}
	}
	s, err := outerpersistent.Scheduler{}.Apply(g, p)
	if err != nil {
		return err
	}
	o := lower.Options{Cooperative: true, Alignment: func(core.ValID) int { return 16 }}
	if p.Rounds { // which is not chosen where there is nothing
		o.Promise = func(kir.HostValue) scalar.Facts { return scalar.Range(1, math.MaxInt64) }
	}
	k, err := lower.Lower(s, o)
	if err != nil {
		return err
	}
	kernel := k.String()
	require.Equal(t, p.Kept == 1, strings.Contains(kernel, "kept"))
	require.Equal(t, p.Kept > 1, strings.Contains(kernel, "async "))
	require.Equal(t, p.Warm > 0, strings.Contains(kernel, "evict last if"))
	r := trial.Trial{Scheduled: s, Kernel: k, Inputs: x, Random: core.RandomState{Seed: 1234, Offset: 8}}
	want, err := trial.Want(f, x, r.Random)
	require.NoError(t, err)
	for _, order := range []sim.Order{sim.Forward, sim.Reverse} {
		got, report, err := r.Simulate(sim.Options{Order: order, Seed: 1})
		if err == nil {
			err = report.Err()
		}
		if err != nil {
			return err
		}
		c := &fusionfuzz.Case{Fusion: f, Inputs: x}
		if d := c.Check(want, got); d != "" {
			return errors.New(d)
		}
	}
	return nil
}
