package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWork: what a run is expected to cost decides whether others wait for it.
func TestWork(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(p *program)
		sizes [][]int64
		want  int64
	}{
		{"an operation", func(p *program) { p.output(p.call("neg", p.tensor(-1, -1))) }, [][]int64{{30, 40}}, 1200},
		{"a sum", func(p *program) { p.output(p.call("sum", p.tensor(-1, -1))) }, [][]int64{{30, 40}}, 1200},
		{"a product", func(p *program) { p.output(p.call("matmul", p.tensor(-1, -1), p.tensor(-1, -1))) }, [][]int64{{30, 40}, {40, 50}}, 2000 * 40},
		{"a copy", func(p *program) { p.output(p.tensor(-1, -1)) }, [][]int64{{30, 40}}, 1200},
		{"a copy to another", func(p *program) { p.alias(p.tensor(-1), p.tensor(-1)) }, [][]int64{{30}, {30}}, 30},
		{"what is there", func(p *program) { x := p.tensor(-1); p.alias(x, x) }, [][]int64{{30}}, 0},
		{"nothing", func(p *program) { p.output(p.tensor(-1, -1)) }, [][]int64{{0, 40}}, 0},
	} {
		c := newCase(t, test.build, test.sizes...)
		plan, err := executorOf(t, c.Fusion).Plan(prepare(c).inputs)
		requireNoError(t, err)
		require.Equal(t, test.want, plan.Work, test.name)
	}
}
