package executor_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// numbers are values that are easily taken for others.
var numbers = []scalar.Value{
	{Type: dtype.Int, I: 0}, {Type: dtype.Int, I: 1}, {Type: dtype.Int, I: -1}, {Type: dtype.Int, I: 2}, {Type: dtype.Int, I: 3},
	{Type: dtype.Int, I: 1 << 31}, {Type: dtype.Int, I: math.MinInt64}, {Type: dtype.Int, I: math.MaxInt64},
	{Type: dtype.Double, Re: 0}, {Type: dtype.Double, Re: math.Copysign(0, -1)}, {Type: dtype.Double, Re: 1}, {Type: dtype.Double, Re: -2.5},
	{Type: dtype.Double, Re: math.NaN()}, {Type: dtype.Double, Re: math.Inf(-1)}, {Type: dtype.Double, Re: 1 << 63}, {Type: dtype.Double, Re: 1e-310},
	{Type: dtype.Bool, I: 1}, {Type: dtype.Bool, I: 0},
}

// TestDeviceCalls calls one executor with numbers of all kinds: a plan serves those
// that no size depends on, whatever they are. DEVICE_CALLS is of how many random
// fusions, DEVICE_SEED says which.
func TestDeviceCalls(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(setting("DEVICE_SEED", 9)), 10))
	calls, computed, plans := 0, 0, 0
	for range setting("DEVICE_CALLS", 600) {
		c := randomCase(r)
		if !slices.ContainsFunc(c.Inputs, func(in fusionfuzz.Input) bool { return in.Array == nil }) {
			continue
		}
		c.Wild = true
		s, p := newStage(t), prepare(c)
		e := s.executor(c.Fusion)
		toDevice(p.inputs, never)
		if plan, err := e.PlanWith(p.inputs, executor.Options{Device: &executor.Device{Type: executor.CUDA}}); err != nil || plan.Device.Scalars == 0 {
			continue // no kernel reads a number
		}
		for range 5 {
			for i := range c.Inputs {
				x := numbers[r.IntN(len(numbers))]
				if in := &c.Inputs[i]; in.Array == nil && e.AnyValue(i, x.Type) { // others may be sizes
					in.Scalar = x
				}
			}
			ok, _ := s.check(e, c, 0, never)
			if calls++; ok {
				computed++
			}
		}
		held, _ := e.Plans()
		plans += held
	}
	t.Logf("%d calls, %d computed by %d plans", calls, computed, plans)
	require.Greater(t, computed, 2*plans)
}
