package executor_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// chain is a fusion of n elementwise operations.
func chain(t testing.TB, n int) *core.Fusion {
	p := &program{t, core.NewFusion()}
	p.output(chainOf(p, n))
	p.f.Freeze()
	return p.f
}

// chainOf returns the last of n elementwise operations on one input.
func chainOf(p *program, n int) core.ValID {
	x := p.tensor(-1)
	v := x
	for i := range n {
		switch i % 3 {
		case 0:
			v = p.call("add", v, x)
		case 1:
			v = p.call("neg", v)
		default:
			v = p.call("mul", v, 0.5)
		}
	}
	return v
}

// mixed is a fusion of about n operations of many kinds.
func mixed(t testing.TB, n int) *core.Fusion {
	p := &program{t, core.NewFusion()}
	v := p.tensor(8, 8)
	for i := range n / 8 {
		v = softmax(p, v, i%2)
		v = p.call("add", v, p.call("permute", v, []int{1, 0}))
		if i%5 == 0 {
			v = p.call("reshape", p.call("reshape", v, []int{4, 16}), []int{8, 8})
		}
		if i%7 == 0 {
			v = p.call("matmul", v, v)
		}
	}
	p.output(v)
	p.f.Freeze()
	return p.f
}

// allocated returns the bytes that f allocates, which stand for its work.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestPlanGrowth requires that a plan of ten times the operations takes little
// more than ten times the memory to build.
func TestPlanGrowth(t *testing.T) {
	for name, build := range map[string]func(testing.TB, int) *core.Fusion{"chain": chain, "mixed": mixed} {
		t.Run(name, func(t *testing.T) {
			sizes, strides := []int64{1000}, []int64{1}
			if name == "mixed" {
				sizes, strides = []int64{8, 8}, []int64{8, 1}
			}
			var cost [3]uint64
			for i, n := range []int{100, 1000, 10000} {
				e := executorOf(t, build(t, n))
				in := []executor.Input{floats(sizes, strides)}
				cost[i] = allocated(func() {
					_, err := e.Plan(in)
					require.NoError(t, err)
				})
			}
			t.Log(cost)
			require.Less(t, cost[2], 13*cost[1])
			require.Less(t, cost[1], 13*cost[0])
		})
	}
}

// TestDeepFusion runs 100,000 operations in a row. Tiles take turns in a few
// registers, so that little memory is needed.
func TestDeepFusion(t *testing.T) {
	e := executorOf(t, chain(t, 100000))
	n := int64(1000)
	in := []executor.Input{floats([]int64{n}, []int64{1})}
	x := unsafe.Slice((*float32)(in[0].Data), n)
	for i := range x {
		x[i] = float32(i)
	}
	plan, err := e.Plan(in)
	require.NoError(t, err)
	out := make([]float32, n)
	cost := allocated(func() { requireNoError(t, plan.Run(in, []unsafe.Pointer{unsafe.Pointer(&out[0])}, random, nil)) })
	require.Less(t, cost, uint64(20<<20))
	for _, i := range []int{0, 1, 999} {
		v := x[i]
		for k := range 100000 {
			switch k % 3 {
			case 0:
				v += x[i]
			case 1:
				v = -v
			default:
				v *= 0.5
			}
		}
		require.Equal(t, v, out[i], "element %d", i)
	}
}
