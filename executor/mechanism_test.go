package executor_test

import (
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// softmax along dim.
func softmax(p *program, x core.ValID, dim int) core.ValID {
	e := p.call("exp", p.call("sub", x, p.call("max", x, dim, true)))
	return p.call("div", e, p.call("sum", e, dim, true))
}

// TestMechanisms runs a program for each way of computing that the CPU executor
// has, at sizes that need several tiles.
func TestMechanisms(t *testing.T) {
	type sizes = [][]int64
	tests := []struct {
		name  string
		build func(p *program)
		sizes sizes
	}{
		{"softmax of rows", func(p *program) { p.output(softmax(p, p.tensor(-1, -1), 1)) }, sizes{{67, 300}}},
		{"softmax of columns", func(p *program) { p.output(softmax(p, p.tensor(-1, -1), 0)) }, sizes{{300, 67}}},
		{"softmax of a middle dimension", func(p *program) { p.output(softmax(p, p.tensor(-1, -1, -1), 1)) }, sizes{{5, 40, 33}}},
		{"softmax of a row too long for a tile", func(p *program) { p.output(softmax(p, p.tensor(-1, -1), 1)) }, sizes{{2, 40000}}},
		{"layer norm", func(p *program) {
			x, w := p.tensor(-1, -1), p.tensor(-1)
			m := p.calls("var_mean", x, []int{1}, 0, true)
			p.output(p.call("mul", p.call("mul", p.call("sub", x, m[1]), p.call("rsqrt", p.call("add", m[0], 1e-5))), w))
			p.output(m[0])
		}, sizes{{50, 257}, {257}}},
		{"two sums of all elements", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(p.call("sum", x))
			p.output(p.call("sum", p.call("mul", x, x)))
		}, sizes{{300, 301}}},
		{"sums along both dimensions", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(p.call("sum", x, 0))
			p.output(p.call("sum", x, 1))
		}, sizes{{200, 130}}},
		{"sum along a long first dimension", func(p *program) { p.output(p.call("sum", p.tensor(-1, -1), 0)) }, sizes{{40000, 3}}},
		{"max of a long row", func(p *program) { p.output(p.call("max", p.tensor(-1))) }, sizes{{70001}}},
		{"welford of a long row", func(p *program) {
			for _, v := range p.calls("welford", p.tensor(-1, -1), []int{1}) {
				p.output(v)
			}
		}, sizes{{2, 70001}}},
		{"scan of a long row", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(p.call("mul", p.call("cumsum", x, 1), 2.0))
			p.output(p.call("sum", x, 1))
		}, sizes{{2, 50000}}},
		{"scan of columns", func(p *program) { p.output(p.call("cummax", p.tensor(-1, -1), 0)) }, sizes{{70, 65}}},
		{"transposed addition", func(p *program) {
			x, y := p.tensor(-1, -1), p.tensor(-1, -1)
			p.output(p.call("add", p.call("permute", x, []int{1, 0}), y))
		}, sizes{{130, 150}, {150, 130}}},
		{"a value seen both ways", func(p *program) {
			x := p.call("exp", p.tensor(-1, -1))
			p.output(p.call("add", p.call("permute", x, []int{1, 0}), x))
		}, sizes{{90, 90}}},
		{"an output on which nothing varies", func(p *program) {
			p.output(p.call("neg", p.call("expand", p.call("broadcast", p.tensor(-1), []bool{true, false}), []int{4, -1})))
		}, sizes{{70}}},
		{"a row and a column that are outputs too", func(p *program) {
			x, row, col := p.tensor(-1, -1), p.tensor(1, -1), p.tensor(-1, 1)
			row, col = p.call("exp", row), p.call("neg", col)
			p.output(p.call("add", p.call("mul", x, row), col))
			p.output(row)
			p.output(col)
		}, sizes{{130, 9000}, {1, 9000}, {130, 1}}},
		{"reshape of a computed value", func(p *program) {
			x := p.call("exp", p.tensor(-1, -1))
			p.output(p.call("sum", p.call("reshape", x, []int{4, 10, 9}), 1))
		}, sizes{{20, 18}}},
		{"rotary halves", func(p *program) {
			x := p.tensor(6, 64)
			a := p.call("slice", x, []int{0, 0}, []int{6, 32})
			b := p.call("slice", x, []int{0, 32}, []int{6, 64})
			p.output(p.call("cat", []core.ValID{p.call("neg", b), a}, 1))
		}, sizes{{6, 64}}},
		{"pad of a computed value", func(p *program) {
			p.output(p.call("neg", p.call("pad", p.call("exp", p.tensor(-1, -1)), []int{1, 2, -1, 3}, 7.0)))
		}, sizes{{5, 6}}},
		{"random numbers", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(p.call("add", p.call("rand_like", x), p.call("randn_like", x)))
		}, sizes{{70, 80}}},
		{"upper triangle", func(p *program) { p.output(p.call("triu", p.tensor(-1, -1), 1)) }, sizes{{70, 80}}},
		{"gather", func(p *program) {
			x, i := p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1)
			p.output(p.call("gather", x, i, 0))
			p.output(p.call("gather", x, i, 1))
		}, sizes{{6, 7}, {5, 6}}},
		{"take along an axis", func(p *program) {
			p.output(p.call("take_along_axis", p.tensor(-1, 1, -1), p.tensorOf(dtype.Int32, 1, -1, -1), 2))
		}, sizes{{6, 1, 7}, {1, 3, 9}}},
		{"index select", func(p *program) {
			p.output(p.call("index_select", p.tensor(-1, -1), p.tensorOf(dtype.Int, -1), 0))
		}, sizes{{6, 70}, {100}}},
		{"scatter", func(p *program) {
			x, i, s := p.tensor(-1, -1), p.tensorOf(dtype.Int, -1, -1), p.tensor(-1, -1)
			p.output(p.call("scatter", x, i, s, 0))
			p.output(p.call("scatter", x, i, 1.5, 1))
		}, sizes{{6, 7}, {5, 6}, {5, 8}}},
		{"embedding", func(p *program) {
			i, w := p.tensorOf(dtype.Int, -1, -1), p.tensor(-1, -1)
			p.output(p.call("embedding_fwd", i, w))
			p.output(p.call("embedding_fwd", i, w, nil, 2.0, 3.0))
		}, sizes{{4, 5}, {6, 33}}},
		{"sorts", func(p *program) {
			x := p.tensor(-1, -1)
			p.output(p.call("argsort", x, 1))
			p.output(p.call("argsort", x, 0, true))
			for _, v := range p.calls("topk", x, 5, 1) {
				p.output(v)
			}
			p.output(p.call("argsort", p.tensorOf(dtype.UInt64, -1), 0))
			p.output(p.call("argsort", p.tensorOf(dtype.Bool, -1), 0))
		}, sizes{{10, 300}, {50}, {50}}},
		{"matmul", func(p *program) {
			x, y := p.tensor(-1, 1, -1, -1), p.tensor(-1, -1, -1)
			p.output(p.call("matmul", x, y))
		}, sizes{{2, 1, 35, 300}, {3, 300, 70}}},
		{"matmul of vectors", func(p *program) {
			x, y := p.tensor(-1), p.tensor(-1)
			m := p.tensor(-1, -1)
			p.output(p.call("matmul", x, y))
			p.output(p.call("matmul", m, y))
			p.output(p.call("matmul", x, p.call("permute", m, []int{1, 0})))
		}, sizes{{40}, {40}, {30, 40}}},
		{"matmul of other types", func(p *program) {
			for _, d := range []dtype.Type{dtype.Half, dtype.Double, dtype.ComplexFloat, dtype.BFloat16} {
				p.output(p.call("matmul", p.tensorOf(d, -1, -1), p.tensorOf(d, -1, -1)))
			}
		}, sizes{{5, 6}, {6, 7}, {5, 6}, {6, 7}, {5, 6}, {6, 7}, {5, 6}, {6, 7}}},
		{"linear", func(p *program) {
			x, w, b := p.tensor(-1, -1, -1), p.tensor(-1, -1), p.tensor(-1)
			p.output(p.call("linear", p.call("relu", x), w, b))
			p.output(p.call("linear", x, w))
		}, sizes{{2, 3, 50}, {7, 50}, {7}}},
		{"grouped matmul of rows", func(p *program) {
			p.output(p.call("grouped_mm", p.tensor(-1, -1), p.tensor(-1, -1, -1), p.tensorOf(dtype.Int32, -1)))
		}, sizes{{10, 8}, {3, 8, 5}, {3}}},
		{"grouped matmul of columns", func(p *program) {
			p.output(p.call("grouped_mm", p.tensor(-1, -1, -1), p.tensor(-1, -1), p.tensorOf(dtype.Int32, -1)))
		}, sizes{{3, 5, 8}, {8, 10}, {3}}},
		{"grouped matmul of summed elements", func(p *program) {
			p.output(p.call("grouped_mm", p.tensor(-1, -1), p.tensor(-1, -1), p.tensorOf(dtype.Int32, -1)))
		}, sizes{{5, 8}, {8, 10}, {3}}},
		{"attention", func(p *program) {
			q, k, v := p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1)
			for _, o := range p.calls("sdpfa_fwd", q, k, v, nil, nil, nil, true) {
				p.output(o)
			}
			p.output(p.call("sdpfa_fwd", q, k, v, p.tensor(-1, -1), p.tensorOf(dtype.Bool, 1, 1, -1, -1), nil, nil, 0.3))
		}, sizes{{2, 4, 5, 8}, {2, 2, 6, 8}, {2, 2, 6, 3}, {5, 6}, {1, 1, 5, 6}}},
		{"attention gradients", func(p *program) {
			q, k, v := p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1)
			g := p.tensor(-1, -1, -1, -1)
			o := p.calls("sdpfa_fwd", q, k, v)
			for _, d := range p.calls("sdpfa_bwd", g, q, k, v, o[0], o[1], nil, nil, o[2], o[3]) {
				p.output(d)
			}
		}, sizes{{2, 4, 5, 8}, {2, 2, 6, 8}, {2, 2, 6, 3}, {2, 4, 5, 3}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { checkCase(t, newCase(t, test.build, test.sizes...)) })
	}
}
