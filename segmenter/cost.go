package segmenter

import (
	"nvfuser_go/core"
	"nvfuser_go/schedulers/model"
)

const minGain = 0.3 // us that joining must save

// A total is the sums of a group that say how long it takes.
type total struct {
	work, bytes, bytesTo float64
	writes               int
}

// time returns the microseconds of a kernel.
func (p *partition) time(t total) float64 {
	return p.judge.device.Model.InChain(model.Kernel{Read: t.bytes, Written: t.bytesTo, Instructions: t.work})
}

func (g *group) total() total { return total{g.work, g.bytes, g.bytesTo, g.writes} }

// gain returns how many microseconds less a and b take as one kernel.
func (p *partition) gain(a, b *group) float64 {
	p.work.Visits += len(a.reads) + len(b.reads)
	return p.time(a.total()) + p.time(b.total()) - p.time(p.total(a, b))
}

// total returns the sums of a and b together. What one of them computes and the other
// reads is not read, and not written if nobody else reads it. What runs over fewer
// elements is computed again for each of the others that it is broadcast to: nests
// are not known to lift it out.
func (p *partition) total(a, b *group) total {
	t := total{a.work + b.work, 0, a.bytesTo + b.bytesTo, a.writes + b.writes}
	if a.reduces == "" && b.reduces == "" {
		t.work = (a.weight + b.weight) * max(a.space, b.space)
	}
	for _, r := range p.merged(a, b, func(v core.ValID, nodes int32) {
		if x := &p.values[v]; !x.output && x.inside+nodes == x.readers {
			t.bytesTo -= x.bytes
			t.writes--
		}
	}) {
		t.bytes += p.values[r.val].bytes
	}
	return t
}
