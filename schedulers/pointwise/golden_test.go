package pointwise

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for whole segments.
func TestChoices(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := segmenttext.Read(t, in)
		require.Empty(t, Scheduler{}.Accept(g, scheduler.Hopper))
		candidates := Scheduler{}.Candidates(g, scheduler.Hopper)
		require.LessOrEqual(t, len(candidates), 4)
		first := candidates[0].(Params)
		p := analyse(g).space
		switch section {
		case "choice":
			var b strings.Builder
			for _, q := range candidates {
				fmt.Fprintln(&b, q)
			}
			return b.String()
		case "accesses":
			var b strings.Builder
			fmt.Fprintf(&b, "dimensions %v of %v\n", p.Order, p.Extents)
			for k, w := range p.PitchOf(first.Break, first.Width(), 1).Widths {
				x := &p.Tensors[k]
				if first.Break > 0 && x.IsConstant(first.Break, len(p.Order)) {
					fmt.Fprintf(&b, "%s: one of %d bytes a row\n", g.Fusion.Name(x.Val), x.Bytes)
					continue
				}
				fmt.Fprintf(&b, "%s: %d of %d bytes\n", g.Fusion.Name(x.Val), first.Vector/w, w*x.Bytes)
			}
			return b.String()
		}
		s, err := Scheduler{}.Apply(g, first)
		require.NoError(t, err)
		for _, line := range strings.Split(s.Text(false), "\n") {
			if strings.HasPrefix(line, s.Fusion().Name(p.Reference)+" ") {
				return line
			}
		}
		return ""
	})
}
