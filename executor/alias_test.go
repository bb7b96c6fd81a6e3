package executor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/executor"
)

// square is the sizes of two matrices.
var square = [][]int64{{90, 90}, {90, 90}}

// aliasPrograms write inputs. Every reader of an input sees its old value.
var aliasPrograms = []struct {
	name  string
	build func(p *program)
	sizes [][]int64
}{
	{"in place", func(p *program) {
		x := p.tensor(-1, -1)
		y := p.call("relu", x)
		p.alias(y, x)
		p.output(p.call("neg", x))
		p.output(y)
		p.output(p.call("set", y))
	}, square[:1]},
	{"swapped", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.alias(x, y)
		p.alias(y, x)
	}, square},
	{"swapped and changed", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.alias(p.call("add", x, 1.0), y)
		p.alias(p.call("add", y, 2.0), x)
		p.output(p.call("mul", x, y))
	}, square},
	{"of its transpose", func(p *program) {
		x := p.tensor(-1, -1)
		p.alias(p.call("exp", p.call("permute", x, []int{1, 0})), x)
	}, square[:1]},
	{"of its softmax, read by a later sum", func(p *program) {
		x := p.tensor(-1, -1)
		p.alias(softmax(p, x, 1), x)
		p.output(p.call("sum", x, 0))
		p.output(p.call("sum", x))
	}, square[:1]},
	{"read by a gather", func(p *program) {
		x, i := p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1)
		p.output(p.call("gather", x, i, 0))
		p.alias(p.call("neg", x), x)
	}, square},
	{"of a scatter", func(p *program) {
		x, i := p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1)
		p.alias(p.call("scatter", x, i, 3.0, 0), x)
		p.output(p.call("exp", x))
	}, square},
	{"of a broadcast", func(p *program) {
		x, row := p.tensor(-1, -1), p.tensor(1, -1)
		p.alias(p.call("expand", p.call("exp", row), []int{90, -1}), x)
		p.output(p.call("neg", x))
	}, [][]int64{{90, 90}, {1, 90}}},
	{"of a sum", func(p *program) {
		x, s := p.tensor(-1, -1), p.tensor(-1)
		p.alias(p.call("add", p.call("sum", x, 1), s), s)
	}, [][]int64{{90, 90}, {90}}},
	{"of a slice moved by one", func(p *program) {
		x := p.tensor(91)
		moved := p.call("cat", []core.ValID{p.call("slice", x, []int{1}, []int{91}), p.call("slice", x, []int{0}, []int{1})}, 0)
		p.alias(moved, x)
	}, [][]int64{{91}}},
}

func TestAliases(t *testing.T) {
	for _, test := range aliasPrograms {
		t.Run(test.name, func(t *testing.T) { checkCase(t, newCase(t, test.build, test.sizes...)) })
	}
}

// TestAliasesOfSharedMemory gives one memory to two inputs, one of which is
// written.
func TestAliasesOfSharedMemory(t *testing.T) {
	for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {50, 0}} { // of the written one, of the other
		p := &program{t, core.NewFusion()}
		x, y := p.tensor(-1), p.tensor(-1)
		p.alias(p.call("add", x, y), x)
		p.output(p.call("mul", y, 2.0))
		p.f.Freeze()
		memory := make([]float32, 20000)
		for i := range memory {
			memory[i] = float32(i % 1000)
		}
		n := int64(len(memory) - 50)
		old := append([]float32(nil), memory...)
		in := func(at int) executor.Input {
			return executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&memory[at]), Sizes: []int64{n}, Strides: []int64{1}}
		}
		inputs := []executor.Input{in(at[0]), in(at[1])}
		plan, err := executorOf(t, p.f).Plan(inputs)
		require.NoError(t, err)
		out := make([]float32, n)
		requireNoError(t, plan.Run(inputs, []unsafe.Pointer{nil, unsafe.Pointer(&out[0])}, random, nil))
		for i := range out {
			require.Equal(t, old[i+at[0]]+old[i+at[1]], memory[i+at[0]], "at %v, element %d", at, i)
			require.Equal(t, 2*old[i+at[1]], out[i], "at %v, element %d", at, i)
		}
	}
}
