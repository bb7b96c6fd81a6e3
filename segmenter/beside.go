package segmenter

import (
	"slices"

	"nvfuser_go/core"
)

// mostBeside is how many groups that read a tensor, or parts of it, are looked at for one that reads it too.
const mostBeside = 8

// beside joins groups that read a tensor in common, or parts of one, and compute over other elements than each
// other: queries and keys of which there are fewer. One kernel has blocks for each then. Those that a scheduler
// takes which exchanges elements stay alone, as joined they would be moved one by one.
func (p *partition) beside() error {
	readers := map[core.ValID][]int32{} // groups by what they read
	for _, g := range p.groups {
		if p.find(g.id) != g || g.fixed || g.reduces != "" {
			continue
		}
		var others []*group
		for _, r := range g.reads {
			base := p.memoryOf(r.val)
			for _, id := range readers[base] {
				if c := p.find(id); !slices.Contains(others, c) && len(others) < mostBeside {
					others = append(others, c)
				}
			}
		}
		for _, c := range others {
			if c = p.find(c.id); c == g {
				continue
			}
			joined, err := p.joinBeside(c, g)
			if err != nil {
				return err
			}
			g = joined
		}
		for _, r := range g.reads {
			base := p.memoryOf(r.val)
			readers[base] = append(readers[base], g.id)
		}
	}
	return nil
}

// joinBeside joins c and g if one kernel may have both, side by side, and returns the group that g is in.
func (p *partition) joinBeside(c, g *group) (*group, error) {
	isMuch := len(c.nodes)+len(g.nodes) > maxNodes || c.weight+g.weight > maxWeight || len(c.reads)+len(g.reads)+c.writes+g.writes > maxTensors
	reads, _ := p.follows(c, g)
	isRead, _ := p.follows(g, c)
	if p.work.Visits += len(c.reads) + len(g.reads); isMuch || reads || isRead {
		return g, nil
	}
	if p.overwrites(c, g) || p.overwrites(g, c) {
		return g, nil
	}
	t := p.total(c, g)
	if t.work = c.work + g.work; p.time(c.total())+p.time(g.total())-p.time(t) < minGain {
		return g, nil
	}
	for _, x := range []*group{c, g} {
		if by, err := p.judge.takes(p, x.nodes); err != nil || by != besideBy {
			return g, err
		}
	}
	if by, err := p.judge.takes(p, slices.Concat(c.nodes, g.nodes)); err != nil || by != besideBy {
		return g, err
	}
	if !p.level(c, g) {
		p.log(c, g, "others may have to run between them")
		return g, nil
	}
	asked := len(c.nodes) + len(g.nodes)
	g = p.join(c, g)
	g.work, g.asked = t.work, asked
	return g, nil
}

// overwrites reports whether a writes to an input that b reads.
func (p *partition) overwrites(a, b *group) bool {
	return slices.ContainsFunc(p.f.Outputs(), func(o core.Output) bool {
		return o.Alias != core.NoVal && p.definer(o.Val) == a && slices.ContainsFunc(b.reads, func(r read) bool { return p.memoryOf(r.val) == o.Alias })
	})
}

// besideBy is the scheduler whose kernels have blocks for what has nothing in common.
const besideBy = "pointwise"
