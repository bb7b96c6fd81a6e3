package blockrow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for segments: parameters, and the loops of what is scanned
// and stored.
func TestChoices(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := segmenttext.Read(t, in)
		var b strings.Builder
		if section == "refusals" {
			for _, r := range (Scheduler{}).Accept(g, scheduler.Hopper) {
				fmt.Fprintf(&b, "%s (%s): %s\n", r.Tensor, r.Rule, r.Sentence)
			}
			return b.String()
		}
		require.Empty(t, Scheduler{}.Accept(g, scheduler.Hopper))
		candidates := Scheduler{}.Candidates(g, scheduler.Hopper)
		if section == "choice" {
			for _, p := range candidates {
				fmt.Fprintln(&b, p)
			}
			return b.String()
		}
		s, err := Scheduler{}.Apply(g, candidates[0])
		require.NoError(t, err)
		f := s.Fusion()
		for _, v := range s.Tensors() {
			if f.Val(v).Def != core.NoExpr && (s.Memory(v) == schedule.Global || !scheduler.Maps(f.Expr(f.Val(v).Def).Op.Class)) {
				fmt.Fprintf(&b, "%s %v %v %s\n", f.Name(v), f.Val(v).DType, s.Memory(v), s.LoopText(v))
			}
		}
		return b.String()
	})
}
