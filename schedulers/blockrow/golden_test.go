package blockrow

import (
	"fmt"
	"strings"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for segments: parameters, and the loops of what is scanned
// and stored, and where inputs are loaded.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(_ *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		s, f := c.Schedule, c.Schedule.Fusion()
		for _, v := range s.Tensors() {
			if f.Val(v).Def != core.NoExpr && (s.Memory(v) == schedule.Global || !scheduler.Maps(f.Expr(f.Val(v).Def).Op.Class)) {
				fmt.Fprintf(b, "%s %v %v %s\n", f.Name(v), f.Val(v).DType, s.Memory(v), s.LoopText(v))
			}
			if _, isCopy := scheduler.CopiedInput(f, v); isCopy {
				fmt.Fprintf(b, "%s is loaded in %d loops of others\n", f.Name(v), s.Position(v))
			}
		}
	})
}
