package tests

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
	"nvfuser_go/core/schedule/schedulefuzz"
)

// TestRandomKernels takes a sample of random programs, from KERNELS_SEED on (0),
// through the simulator, the compiler of the host and NVRTC, or with -gpu a larger
// sample through the simulator and a GPU. Package lower's tests simulate many more.
func TestRandomKernels(t *testing.T) {
	c := &corpus{of: map[*subject]*uniqueKernel{}, costs: map[*subject]*cost{}}
	each := 4
	switch {
	case *onGPU:
		each = 20
	case testing.Short():
		each = 1
	}
	for _, set := range append(schedulefuzz.Sets(), schedulefuzz.Indexing()) {
		c.sample(t, set.Name, each, func(seed uint64) *schedulefuzz.Program {
			return schedulefuzz.New(schedulefuzz.Seeded(seed), set, schedulefuzz.All)
		})
	}
	c.sample(t, "any", 2*each, func(seed uint64) *schedulefuzz.Program {
		rng := schedulefuzz.Seeded(seed)
		data := make([]byte, 100)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		x := fusionfuzz.Decode(data)
		if _, err := x.Fusion.Bind(trial.Values(x.Inputs)); err != nil || x.Wild {
			return nil
		}
		return schedulefuzz.Schedule(rng, x.Fusion, x.Inputs, schedulefuzz.All)
	})
	require.NoError(t, c.findUnique())
	if *onGPU {
		c.runOnGPU(t)
		return
	}
	c.runOnHost(t)
	c.compile(t)
}

// sample adds the first n programs that can be lowered, and simulates them.
func (c *corpus) sample(t *testing.T, name string, n int, program func(seed uint64) *schedulefuzz.Program) {
	first, _ := strconv.ParseUint(os.Getenv("KERNELS_SEED"), 10, 64)
	for seed := first; n > 0; seed++ {
		require.Less(t, seed, first+500, name)
		p := program(seed)
		if p == nil || p.Schedule.Verify() != nil {
			continue
		}
		want, err := trial.Want(p.Fusion, p.Inputs, randomState)
		if err != nil {
			continue
		}
		e := &entry{name: fmt.Sprintf("%s %d", name, seed), fusion: p.Fusion, expect: []string{"spills", "stack"}}
		x := &subject{entry: e, inputs: &inputs{"random", p.Inputs, want}, choice: "schedule:\n" + p.Schedule.Script().String()}
		err = x.lower(p.Schedule)
		var unsupported *core.Unsupported
		var illegal *schedule.Refused
		if errors.As(err, &unsupported) || errors.As(err, &illegal) || x.Kernel != nil && x.Kernel.CheckLimits(kir.Hopper) != nil {
			continue
		}
		require.NoError(t, err, "%v\n%v", x, p)
		require.NoError(t, c.simulate(x), "%v\n%v", x, p)
		c.entries, c.subjects = append(c.entries, e), append(c.subjects, x)
		n--
	}
}
