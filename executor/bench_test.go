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
			benchmarkRuns(b, p.f, inputs)
		})
	}
}

// benchmarkRuns times the runs of a plan of f.
func benchmarkRuns(b *testing.B, f *core.Fusion, inputs []executor.Input) {
	plan, err := executorOf(b, f).Plan(inputs)
	require.NoError(b, err)
	var outputs []unsafe.Pointer
	for k, o := range f.Outputs() {
		out := plan.Outputs[k]
		bytes := core.NumElements(out.Sizes) * int64(f.Val(o.Val).DType.Size())
		outputs = append(outputs, unsafe.Pointer(unsafe.SliceData(make([]uint64, bytes/8+1))))
	}
	for b.Loop() {
		require.NoError(b, plan.Run(inputs, outputs, core.RandomState{}, nil))
	}
}

// BenchmarkOperations times operations that have loops of their own.
func BenchmarkOperations(b *testing.B) {
	for _, o := range []struct {
		name  string
		build func(p *program) core.ValID
		sizes [][]int64
	}{
		{"index_select rows", func(p *program) core.ValID {
			return p.call("index_select", p.tensor(-1, -1), p.tensorOf(dtype.Int, -1), 0)
		}, [][]int64{{129, 1031}, {1000}}},
		{"index_select columns", func(p *program) core.ValID {
			return p.call("index_select", p.tensor(-1, -1), p.tensorOf(dtype.Int, -1), 1)
		}, [][]int64{{1000, 1031}, {1000}}},
		{"gather", func(p *program) core.ValID {
			return p.call("gather", p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1), 0)
		}, [][]int64{{129, 1031}, {1000, 1031}}},
		{"scatter", func(p *program) core.ValID {
			x, i, src := p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1), p.tensor(-1, -1)
			return p.call("scatter", x, i, src, 0)
		}, [][]int64{{129, 1031}, {1000, 1031}, {1000, 1031}}},
		{"embedding", func(p *program) core.ValID {
			return p.call("embedding_fwd", p.tensorOf(dtype.Int, -1), p.tensor(-1, -1))
		}, [][]int64{{1000}, {129, 1031}}},
		{"matmul", func(p *program) core.ValID {
			return p.call("matmul", p.tensor(-1, -1), p.tensor(-1, -1))
		}, [][]int64{{1024, 1024}, {1024, 1024}}},
		{"matmul bfloat16", func(p *program) core.ValID {
			return p.call("matmul", p.tensorOf(dtype.BFloat16, -1, -1), p.tensorOf(dtype.BFloat16, -1, -1))
		}, [][]int64{{1024, 1024}, {1024, 1024}}},
		{"linear", func(p *program) core.ValID {
			return p.call("linear", p.tensor(-1, -1), p.tensor(-1, -1), p.tensor(-1))
		}, [][]int64{{128, 256}, {1024, 256}, {1024}}},
		{"mlp", func(p *program) core.ValID {
			h := p.call("linear", p.tensor(-1, -1), p.tensor(-1, -1), p.tensor(-1))
			cube := p.call("mul", p.call("mul", h, h), h)
			h = p.call("mul", p.call("mul", h, 0.5), p.call("add", p.call("tanh", p.call("add", h, p.call("mul", cube, 0.044715))), 1.0))
			return p.call("linear", h, p.tensor(-1, -1), p.tensor(-1))
		}, [][]int64{{128, 256}, {1024, 256}, {1024}, {256, 1024}, {256}}},
		{"attention", func(p *program) core.ValID {
			x := func() core.ValID { return p.tensor(-1, -1, -1, -1) }
			return p.call("sdpfa_fwd", x(), x(), x())
		}, [][]int64{{2, 4, 256, 64}, {2, 4, 256, 64}, {2, 4, 256, 64}}},
		{"uniform", func(p *program) core.ValID { return p.call("rand_like", p.tensor(-1, -1)) }, [][]int64{{1024, 1024}}},
		{"uniform double", func(p *program) core.ValID { return p.call("rand_like", p.tensorOf(dtype.Double, -1, -1)) }, [][]int64{{1024, 1024}}},
		{"normal", func(p *program) core.ValID { return p.call("randn_like", p.tensor(-1, -1)) }, [][]int64{{1024, 1024}}},
	} {
		b.Run(o.name, func(b *testing.B) {
			p := &program{b, core.NewFusion()}
			require.NoError(b, p.f.AddOutput(o.build(p), core.NoVal))
			p.f.Freeze()
			var inputs []executor.Input
			for k, v := range p.f.Inputs() {
				sizes := o.sizes[k]
				strides := make([]int64, len(sizes))
				n := int64(1)
				for d := len(sizes) - 1; d >= 0; d-- {
					strides[d] = n
					n *= sizes[d]
				}
				t := p.f.Val(v).DType
				data := make([]uint64, n*int64(t.Size())/8+1)
				at := unsafe.Pointer(&data[0])
				for i := range int(n) {
					x := uint64(i*7919) % 129
					switch element := unsafe.Slice((*byte)(unsafe.Add(at, i*t.Size())), t.Size()); {
					case t.IsFloat():
						dtype.StoreFloat(t, element, (float64(x)-64)/64)
					default:
						dtype.StoreInt(t, element, int64(x))
					}
				}
				inputs = append(inputs, executor.Input{Tensor: true, DType: t, Data: at, Sizes: sizes, Strides: strides})
			}
			benchmarkRuns(b, p.f, inputs)
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
