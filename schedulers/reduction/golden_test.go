package reduction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for whole segments.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(t *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		first, s, l := c.Params.(Params), c.Schedule, &analyse(c.Segment).layout
		if c.Section == "accesses" {
			fmt.Fprintf(b, "dimensions %v of %v, columns from %d on\n", l.Order, l.Extents, l.columns)
			for k, w := range l.pitch(first).Widths {
				if x := &l.Tensors[k]; !x.IsOutput {
					fmt.Fprintf(b, "%s: %d of %d bytes\n", c.Segment.Fusion.Name(x.Val), first.Width()/w, w*x.Bytes)
				}
			}
			return
		}
		require.Equal(t, first.Lanes*first.Rows <= residentThreads || !first.Inner, s.ResidentBlocks() > 0)
		for _, v := range s.Tensors() {
			if !s.Fusion().Val(v).Input {
				fmt.Fprintln(b, strings.Split(s.TensorText(v), "\n")[0])
			}
		}
	})
}
