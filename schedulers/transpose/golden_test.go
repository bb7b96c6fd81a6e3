package transpose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for whole segments, or why none is.
func TestChoices(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := segmenttext.Read(t, in)
		if refusals := (Scheduler{}).Accept(g, scheduler.Hopper); len(refusals) > 0 {
			require.Equal(t, "choice", section)
			return fmt.Sprintf("%s: %s\n", refusals[0].Rule, refusals[0].Sentence)
		}
		candidates := Scheduler{}.Candidates(g, scheduler.Hopper)
		l, q := analyse(g).layout, candidates[0].(Params)
		var b strings.Builder
		switch section {
		case "choice":
			for _, p := range candidates {
				_, err := Scheduler{}.Apply(g, p)
				require.NoError(t, err)
				fmt.Fprintln(&b, p)
			}
		case "groups":
			fmt.Fprintf(&b, "dimensions %v of %v, the far run from %d on, the near one from %d on\n", l.near.Order, l.near.Extents, l.farAt, l.nearAt)
			for k, w := range l.nearPitch(q).Widths {
				x := &l.near.Tensors[k]
				fmt.Fprintf(&b, "near %s: %d of %d bytes\n", g.Fusion.Name(x.Val), q.Vector/w, w*x.Bytes)
			}
			for _, x := range l.far.Tensors {
				fmt.Fprintf(&b, "far %s: accesses of %d bytes\n", g.Fusion.Name(x.Val), q.Access*x.Bytes)
			}
		}
		return b.String()
	})
}
