package executor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
)

// TestSimulateStrided runs every candidate for tensors that lie in memory in all
// kinds of ways.
func TestSimulateStrided(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	programs := 300
	if testing.Short() {
		programs = 60
	}
	chosen, refused := map[string]int{}, 0
	for range programs {
		sizes := make([]int64, 1+r.IntN(4))
		for d := range sizes {
			sizes[d] = []int64{1, 2, 3, 4, 5, 6, 8, 12, 16}[r.IntN(9)]
		}
		c := fusionfuzz.Strided(r, sizes, 1+r.IntN(3))
		for candidate := range 4 {
			p := prepare(c)
			want, err := c.Fusion.Eval(p.arrays, p.scalars, random)
			require.NoError(t, err)
			plan, err := executorOf(t, c.Fusion).PlanWith(p.inputs, executor.Options{Simulate: true, Candidate: candidate})
			requireNoError(t, err)
			got, _, err := p.runPlan(t, plan, random)
			requireNoError(t, err)
			require.Empty(t, c.Check(want, got), "%s", c.Fusion)
			text, err := plan.Inspection().Show("scheduler_params")
			require.NoError(t, err)
			chosen[text]++
			verbose, err := plan.Inspection().Show("scheduler_verbose")
			require.NoError(t, err)
			if candidate == 0 && !strings.Contains(verbose, "takes it\n  chosen") {
				refused++
			}
		}
	}
	t.Log(chosen)
	require.Greater(t, len(chosen), 3)
	require.Zero(t, refused, "first choices that cannot be lowered")
}

// TestSimulateSectors requires of kernels of what is common that they touch little
// more memory than they use, and in as few requests as their widths allow.
func TestSimulateSectors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		sizes      [][]int64
		bytes      float64 // of a request, of a warp: 512 are all of 16 a thread
	}{
		{"unary", `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = relu %1
%3 = cast %2 dtype=bf16
output %3
`, [][]int64{{64, 4096}}, 512},
		{"bias", `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor bf16 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = cast %0 dtype=f32
%4 = cast %2 dtype=f32
%5 = add %3, %4
%6 = cast %5 dtype=bf16
output %6
`, [][]int64{{64, 4096}, {4096}}, 512},
		{"scale and bias, channels last", `%0 = tensor bf16 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes] stride_order=[3, 0, 2, 1]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4 = broadcast %1 is_broadcast_dim=[true, false, true, true]
%5 = broadcast %2 is_broadcast_dim=[true, false, true, true]
%6 = mul %3, %4
%7 = add %6, %5
%8 = relu %7
%9 = cast %8 dtype=bf16
output %9
`, [][]int64{{8, 64, 16, 64}, {64}, {64}}, 512},
		{"to float", "%0 = tensor bf16 [-1] contiguity=[yes]\n%1 = cast %0 dtype=f32\noutput %1\n", [][]int64{{1 << 18}}, 384},
		{"to bfloat16", "%0 = tensor f32 [-1] contiguity=[yes]\n%1 = cast %0 dtype=bf16\noutput %1\n", [][]int64{{1 << 18}}, 384},
		{"permuted alike", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes] stride_order=[0, 1]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes] stride_order=[0, 1]
%2 = add %0, %1
output %2
`, [][]int64{{512, 512}, {512, 512}}, 512},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := core.Parse(test.text)
			require.NoError(t, err)
			f.Freeze()
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, test.sizes...)}
			p := prepare(c)
			want, err := f.Eval(p.arrays, p.scalars, random)
			require.NoError(t, err)
			plan, err := executorOf(t, f).PlanWith(p.inputs, executor.Options{Simulate: true})
			requireNoError(t, err)
			var n sim.Counters
			got, _, err := p.runBy(t, plan, func(outputs []unsafe.Pointer) error {
				return plan.Do(&executor.Call{Inputs: p.inputs, Outputs: outputs, Random: random, Counters: &n})
			})
			requireNoError(t, err)
			require.Empty(t, c.Check(want, got))
			moved := float64(n.GlobalRead + n.GlobalWritten)
			require.LessOrEqual(t, float64(n.GlobalSectors*32), 1.05*moved, fmt.Sprint(n))
			require.GreaterOrEqual(t, moved/float64(n.GlobalRequests), 0.95*test.bytes, fmt.Sprint(n))
		})
	}
}
