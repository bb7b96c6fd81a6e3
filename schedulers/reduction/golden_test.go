package reduction

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
		l := &analyse(g).layout
		var b strings.Builder
		switch section {
		case "choice":
			for _, p := range candidates {
				fmt.Fprintln(&b, p)
			}
			return b.String()
		case "accesses":
			fmt.Fprintf(&b, "dimensions %v of %v, columns from %d on\n", l.Order, l.Extents, l.columns)
			for k, w := range l.pitch(first).Widths {
				x := &l.Tensors[k]
				if x.IsOutput {
					continue
				}
				fmt.Fprintf(&b, "%s: %d of %d bytes\n", g.Fusion.Name(x.Val), first.Width()/w, w*x.Bytes)
			}
			return b.String()
		}
		s, err := Scheduler{}.Apply(g, first)
		require.NoError(t, err)
		require.Equal(t, first.Lanes*first.Rows <= residentThreads || !first.Inner, s.ResidentBlocks() > 0)
		for _, v := range s.Tensors() {
			if !s.Fusion().Val(v).Input {
				fmt.Fprintln(&b, strings.Split(s.TensorText(v), "\n")[0])
			}
		}
		return b.String()
	})
}
