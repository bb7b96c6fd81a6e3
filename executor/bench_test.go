package executor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/executor"
)

const benchSize = 4096

// benchPrograms are the programs of the performance aim: at least 0.3 of the
// speed of torch eager.
var benchPrograms = map[string]func(p *program) core.ValID{
	"gelu": func(p *program) core.ValID {
		x := p.tensor(-1, -1)
		cube := p.call("mul", p.call("mul", x, x), x)
		inner := p.call("mul", p.call("add", x, p.call("mul", cube, 0.044715)), 0.7978845608)
		return p.call("mul", p.call("mul", x, 0.5), p.call("add", p.call("tanh", inner), 1.0))
	},
	"softmax": func(p *program) core.ValID {
		x := p.tensor(-1, -1)
		e := p.call("exp", p.call("sub", x, p.call("max", x, 1, true)))
		return p.call("div", e, p.call("sum", e, 1, true))
	},
	"layernorm": func(p *program) core.ValID {
		x, w, b := p.tensor(-1, -1), p.tensor(-1), p.tensor(-1)
		out := p.calls("var_mean", x, []int{1}, 0, true)
		y := p.call("mul", p.call("sub", x, out[1]), p.call("rsqrt", p.call("add", out[0], 1e-5)))
		return p.call("add", p.call("mul", y, w), b)
	},
	"sum": func(p *program) core.ValID { return p.call("sum", p.tensor(-1, -1)) },
	"transpose_add": func(p *program) core.ValID {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		return p.call("add", p.call("permute", x, []int{1, 0}), y)
	},
}

func BenchmarkPrograms(b *testing.B) {
	for _, name := range []string{"gelu", "softmax", "layernorm", "sum", "transpose_add"} {
		b.Run(name, func(b *testing.B) {
			p := &program{b, core.NewFusion()}
			require.NoError(b, p.f.AddOutput(benchPrograms[name](p), core.NoVal))
			p.f.Freeze()
			var inputs []executor.Input
			for i, v := range p.f.Inputs() {
				sizes, strides := []int64{benchSize, benchSize}, []int64{benchSize, 1}
				if p.f.Rank(v) == 1 {
					sizes, strides = sizes[1:], strides[1:]
				}
				data := make([]float32, core.NumElements(sizes))
				for k := range data {
					data[k] = float32((k*7919+i)%2001-1000) / 500
				}
				inputs = append(inputs, executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&data[0]), Sizes: sizes, Strides: strides})
			}
			plan, err := executorOf(b, p.f).Plan(inputs)
			require.NoError(b, err)
			out := make([]float32, max(core.NumElements(plan.Outputs[0].Sizes), 1))
			b.ResetTimer()
			for b.Loop() {
				require.NoError(b, plan.Run(inputs, []unsafe.Pointer{unsafe.Pointer(&out[0])}, core.RandomState{}, nil))
			}
		})
	}
}

// BenchmarkCall plans and runs a fusion of 32 elements: the cost of a call.
func BenchmarkCall(b *testing.B) {
	e := executorOf(b, scaled(b, 3))
	in := []executor.Input{floats([]int64{32}, []int64{1})}
	out := make([]float32, 32)
	for b.Loop() {
		plan, err := e.Plan(in)
		require.NoError(b, err)
		require.NoError(b, plan.Run(in, []unsafe.Pointer{unsafe.Pointer(&out[0])}, core.RandomState{}, nil))
	}
}
