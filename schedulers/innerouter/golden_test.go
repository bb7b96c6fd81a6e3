package innerouter

import (
	"fmt"
	"strings"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for segments: parameters, what is loaded ahead or once
// for all rows, and the loops of what is stored.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(_ *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		s, f := c.Schedule, c.Schedule.Fusion()
		for _, v := range s.Tensors() {
			isAhead := c.Section == "ahead" && s.Buffering(v).Stages > 0
			isOnce := c.Section == "once" && s.Position(v) == 0 && s.Memory(v) == schedule.Local && f.Val(v).Def != core.NoExpr && f.Expr(f.Val(v).Def).Op == core.SetOp
			isStored := c.Section == "nest" && f.Val(v).Def != core.NoExpr && s.Memory(v) == schedule.Global
			if isAhead || isOnce || isStored {
				fmt.Fprintf(b, "%s %v %v %s\n", f.Name(v), f.Val(v).DType, s.Memory(v), s.LoopText(v))
			}
		}
	})
}
