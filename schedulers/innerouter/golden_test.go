package innerouter

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

// TestChoices compares what is chosen for segments: parameters, what is loaded ahead or once
// for all rows, and the loops of what is stored.
func TestChoices(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := segmenttext.Read(t, in)
		require.Empty(t, Scheduler{}.Accept(g, scheduler.Hopper))
		candidates := Scheduler{}.Candidates(g, scheduler.Hopper)
		var b strings.Builder
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
			isAhead := section == "ahead" && s.Buffering(v).Stages > 0
			isOnce := section == "once" && s.Position(v) == 0 && s.Memory(v) == schedule.Local && f.Val(v).Def != core.NoExpr && f.Expr(f.Val(v).Def).Op == core.SetOp
			isStored := section == "nest" && f.Val(v).Def != core.NoExpr && s.Memory(v) == schedule.Global
			if isAhead || isOnce || isStored {
				fmt.Fprintf(&b, "%s %v %v %s\n", f.Name(v), f.Val(v).DType, s.Memory(v), s.LoopText(v))
			}
		}
		return b.String()
	})
}
