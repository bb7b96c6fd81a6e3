package pointwise

import (
	"fmt"
	"strings"
	"testing"

	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for whole segments.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(_ *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		first, s := c.Params.(Params), c.Schedule
		p := first.arrange(analyse(c.Segment).spaces[0])
		if c.Section == "accesses" {
			fmt.Fprintf(b, "dimensions %v of %v\n", p.Order, p.Extents)
			for k, w := range p.PitchOf(first.Break, max(first.Vector, 1), 1).Widths {
				x := &p.Tensors[k]
				if first.Break > 0 && x.IsConstant(first.Break, len(p.Order)) {
					fmt.Fprintf(b, "%s: one of %d bytes a row\n", c.Segment.Fusion.Name(x.Val), x.Bytes)
					continue
				}
				fmt.Fprintf(b, "%s: %d of %d bytes\n", c.Segment.Fusion.Name(x.Val), first.Vector/w, w*x.Bytes)
			}
			return
		}
		for _, line := range strings.Split(s.Text(false), "\n") {
			if strings.HasPrefix(line, s.Fusion().Name(p.Reference)+" ") {
				fmt.Fprintln(b, line)
				return
			}
		}
	})
}
