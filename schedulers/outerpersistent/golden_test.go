package outerpersistent

import (
	"fmt"
	"strings"
	"testing"

	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for whole segments, and the loops of what is loaded and stored.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(_ *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		s := c.Schedule
		f := s.Fusion()
		for _, v := range s.Tensors() {
			if f.Val(v).Input {
				continue
			}
			args := f.TensorArgs(f.Expr(f.Val(v).Def))
			if s.Memory(v) == schedule.Global || len(args) > 0 && f.Val(args[0]).Input {
				fmt.Fprintln(b, strings.Split(s.TensorText(v), "\n")[0])
			}
		}
	})
}
