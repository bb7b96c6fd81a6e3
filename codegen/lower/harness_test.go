package lower

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// parsed returns a schedule of the fusion of text, unscheduled.
func parsed(t testing.TB, text string) *schedule.Scheduled {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return schedule.New(f)
}

// tv returns the tensor that is called tvN.
func tv(s *schedule.Scheduled, n int) core.ValID {
	f := s.Fusion()
	for v := range f.NumVals() {
		if x := f.Val(core.ValID(v)); x.Tensor && x.Number == n {
			return core.ValID(v)
		}
	}
	panic("no such tensor")
}

// lowered returns the kernel of s, verified after each pass.
func lowered(s *schedule.Scheduled, o Options) (*kir.Kernel, error) {
	o.After = func(p Pass, k *kir.Kernel) error {
		if !p.Complete {
			return nil
		}
		return k.Verify()
	}
	return Lower(s, o)
}

// checkWith lowers s and compares simulated runs with core.Eval.
func checkWith(s *schedule.Scheduled, f *core.Fusion, inputs []fusionfuzz.Input, o Options) (*kir.Kernel, error) {
	k, err := lowered(s, o)
	if err != nil {
		return nil, err
	}
	r := trial.Trial{Scheduled: s, Kernel: k, Inputs: inputs, Random: core.RandomState{Seed: 1234, Offset: 8}}
	want, err := trial.Want(f, inputs, r.Random)
	if err != nil {
		return k, err
	}
	for _, order := range []sim.Order{sim.Forward, sim.Reverse, sim.Random} {
		got, err := simulated(&r, order)
		if err != nil {
			return k, fmt.Errorf("simulation: %w", err)
		}
		for i := range want {
			if text := fusionfuzz.Difference(want[i], got[i], 1e-5); text != "" {
				return k, fmt.Errorf("output %d: %s", i, text)
			}
		}
	}
	return k, nil
}

// simulated returns the outputs of a run about which the simulator reports
// nothing.
func simulated(t *trial.Trial, order sim.Order) ([]*core.Array, error) {
	got, report, err := t.Simulate(sim.Options{Order: order, Seed: 1})
	if err == nil {
		err = report.Err()
	}
	return got, err
}
