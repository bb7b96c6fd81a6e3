package executor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// TestDraws holds how far runs move the offset against what torch 2.11 does on an H100.
func TestDraws(t *testing.T) {
	parse := func(text string) *core.Fusion {
		f, err := core.Parse(text)
		require.NoError(t, err)
		f.Freeze()
		return f
	}
	for _, test := range []struct {
		dtype string
		n     int64
		by    uint64
	}{
		{"f32", 0, 0},
		{"f32", 1, 4},
		{"bf16", 1 << 20, 4},
		{"f32", 132 * 2048 * 4, 4},
		{"f32", 132*2048*4 + 1, 8},
		{"f16", 20_000_000, 76},
		{"f64", 132*2048*2 + 1, 8},
		{"f64", 20_000_000, 148},
	} {
		f := parse(fmt.Sprintf("%%0 = tensor f32 [-1] contiguity=[yes]\n%%1 = uniform minval=0:f64 maxval=1:f64 shape=[%%0.0] dtype=%s\noutput %%1\n", test.dtype))
		plan, err := newStage(t).executor(f).Plan([]executor.Input{vector(0x1000, test.n)})
		requireNoError(t, err)
		require.Equal(t, test.by, plan.Device.Draws, "%d of %s", test.n, test.dtype)
		require.Equal(t, test.by > 0, plan.NeedsRandom)
	}
	// Of several operations each begins at its own place, also after one without elements;
	// one with a seed moves nothing.
	f := parse(`%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0] dtype=f32
%3 = normal mean=0:f64 std=1:f64 shape=[%1.0] dtype=f32
%4 = uniform minval=0:f64 maxval=1:f64 shape=[%1.0] rng_seed=1 rng_offset=4 dtype=f32
output %2
output %3
output %4
`)
	e := newStage(t).executor(f)
	for _, test := range []struct {
		n, m int64
		by   uint64
	}{{0, 0, 0}, {5, 7, 8}, {0, 7, 8}, {5, 0, 4}, {3_000_000, 7, 16}} {
		plan, err := e.Plan([]executor.Input{vector(0x1000, test.n), vector(addressOf(1), test.m)})
		requireNoError(t, err)
		require.Equal(t, test.by, plan.Device.Draws, "%d and %d", test.n, test.m)
	}
}
