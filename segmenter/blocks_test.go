package segmenter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/internal/golden"
	"nvfuser_go/passes"
	"nvfuser_go/schedulers/scheduler"
)

// Blocks of models as users write them, of examples/blocks.
const blocks = "../tests/go/testdata/corpus/blocks/*.fusion"

// A block is a fusion that leaves sizes open, and inputs by "small", "single", perhaps
// "empty", and "large".
type block struct {
	name   string
	f      *core.Fusion
	inputs map[string][]core.InputValue
}

func readBlocks(t *testing.T) []*block {
	files, err := filepath.Glob(blocks)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []*block
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		b := &block{strings.TrimSuffix(filepath.Base(file), ".fusion"), nil, nil}
		b.f, b.inputs, err = fusionfuzz.ParseSized(string(text))
		require.NoError(t, err, b.name)
		require.GreaterOrEqual(t, len(b.inputs), 3, b.name)
		all = append(all, b)
	}
	return all
}

// TestBlocks compares what passes and cuts make of blocks, cut by cost and at random,
// with the block, to the bit.
func TestBlocks(t *testing.T) {
	for _, b := range readBlocks(t) {
		t.Run(b.name, func(t *testing.T) {
			if testing.Short() && b.f.NumExprs() > 1000 {
				t.Skip("the whole model takes seconds, and has nothing that its layers have not")
			}
			g, _, err := passes.Run(b.f, true)
			require.NoError(t, err)
			for _, size := range []string{"small", "single", "empty"} {
				if b.inputs[size] == nil {
					continue
				}
				x, err := newTrial(g, fusionfuzz.Tame(b.f, b.inputs[size], 1))
				require.NoError(t, err)
				want, err := b.f.Eval(x.arrays, x.scalars, x.random)
				require.NoError(t, err)
				got, err := x.f.Eval(x.arrays, x.scalars, x.random)
				require.NoError(t, err)
				for k := range want {
					require.Empty(t, fusionfuzz.Difference(want[k], got[k], 0), "passes change output %d", k)
				}
				for _, o := range []Options{{}, {apart: func(v core.ValID) bool { return v%3 == 0 }}} {
					p, err := x.check(o)
					require.NoError(t, err, p.Dump())
				}
			}
		})
	}
}

// TestBlockSegments holds how blocks are cut at sizes of real models: the table
// counts, the sections show.
func TestBlockSegments(t *testing.T) {
	programs := map[string]*Program{}
	var table strings.Builder
	fmt.Fprintf(&table, "%-29s%6s%8s%9s%10s%7s%7s\n", "block", "ops", "passes", "kernels", "distinct", "torch", "views")
	for _, b := range readBlocks(t) {
		g, _, err := passes.Run(b.f, false)
		require.NoError(t, err)
		x := &trial{values: b.inputs["large"]}
		x.b, err = b.f.Bind(x.values)
		require.NoError(t, err, b.name)
		x.f, _, err = g.Concretize(x.b)
		require.NoError(t, err, b.name)
		x.b, err = x.f.Bind(x.values)
		require.NoError(t, err, b.name)
		p, err := Cut(x.f, x.b, scheduler.Hopper, Options{})
		require.NoError(t, err, b.name)
		require.NoError(t, x.sound(p, Options{}), b.name)
		programs[b.name] = p
		count, distinct := [3]int{}, map[string]bool{}
		for _, s := range p.Segments {
			count[s.Kind]++
			if s.Kind == Kernel {
				distinct[s.Key] = true
			}
		}
		fmt.Fprintf(&table, "%-29s%6d%8d%9d%10d%7d%7d\n",
			b.name, len(b.f.Order()), len(x.f.Order()), count[Kernel], len(distinct), count[TorchCall], count[View])
	}
	golden.Run(t, "testdata/blocks/*.txtar", "order", func(t *testing.T, _, section string) string {
		if section == "table" {
			return table.String()
		}
		p := programs[section]
		require.NotNil(t, p, "there is no block %s", section)
		return strings.Join(shown(p), "\n")
	})
}
