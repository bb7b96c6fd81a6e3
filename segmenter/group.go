package segmenter

import (
	"cmp"
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/persistence"
)

// Limits of a group: they bound the time that compiling takes, which grows faster
// than the text, the parameters of a launch, and the work of joining.
const (
	maxNodes   = 96
	maxWeight  = 500 // instructions an element
	maxTensors = 64  // that are read and written
	maxEdges   = 512 // that are followed to join two groups

	// Up to so many nodes the schedulers are asked each time that a group grows, and
	// then each time that it has doubled: asking about 90 takes a hundred times as long
	// as about 9. If they refuse one that grew without being asked about, it grows no more.
	maxAsked = 8
)

// A read is a tensor that a group reads and does not compute.
type read struct {
	val   core.ValID
	nodes int32 // that read it
}

// A group is nodes that one kernel is to compute, with a summary of them.
type group struct {
	id      int32
	level   int
	nodes   []int32 // ascending
	next    []int32 // groups that read its results
	fixed   bool    // nothing joins it
	asked   int     // how many nodes it had when the schedulers last took it, or they were sure to
	shape   []int64 // what it runs over
	space   float64
	weight  float64 // of an element of that
	work    float64 // instructions
	reduces string
	across  string // as of a node
	crosses bool   // it reduces along both
	kept    float64
	outer   bool
	// doubtful says that one of the nodes was in a group that was refused.
	doubtful bool
	plain    bool // all nodes are elementwise, over the same shape
	apart    []core.ValID
	reads    []read // by value
	bytes    float64
	writes   int
	bytesTo  float64 // written
}

// A partition is the nodes of a graph in groups that have no cycle.
type partition struct {
	*graph
	work   *Work
	groups []*group
	parent []int32                // by group: itself, or one that it was joined to
	of     []int32                // by node: a group
	recent map[core.ValID][]int32 // nodes that read a tensor or a part of it: the last few
	judge  *judge

	doubtful []bool // by expression: as of a cutter
}

func (p *partition) find(id int32) *group {
	for p.parent[id] != id {
		p.parent[id] = p.parent[p.parent[id]]
		id = p.parent[id]
	}
	return p.groups[id]
}

// definer returns the group that computes v, or nil.
func (p *partition) definer(v core.ValID) *group {
	if n := p.values[v].node; n != none {
		return p.find(p.of[n])
	}
	return nil
}

// start adds a group of node i alone.
func (p *partition) start(i int32) *group {
	n := &p.nodes[i]
	g := &group{id: int32(len(p.groups)), nodes: []int32{i}, fixed: n.kind != Kernel, asked: 1, shape: n.shape, space: n.space,
		weight: n.weight, work: n.weight * n.space, reduces: n.reduces, across: n.across, kept: n.kept, outer: n.outer, plain: n.plain, doubtful: p.doubtful[n.expr]}
	p.groups, p.parent, p.of[i] = append(p.groups, g), append(p.parent, g.id), g.id
	for _, v := range n.reads {
		g.reads = append(g.reads, read{v, 1})
		g.bytes += p.values[v].bytes
		if d := p.definer(v); d != nil && d != g {
			g.level = max(g.level, d.level+1)
			d.next = append(d.next, g.id)
		}
	}
	slices.SortFunc(g.reads, func(a, b read) int { return cmp.Compare(a.val, b.val) })
	g.apart = n.apart
	for _, v := range p.f.Expr(n.expr).Out {
		if x := &p.values[v]; x.output || x.readers > 0 {
			g.writes++
			g.bytesTo += x.bytes
		}
	}
	return g
}

// candidates returns the groups that g, the last one, may join: those that compute what it
// reads, and some that read it too.
func (p *partition) candidates(g *group) []*group {
	const most, siblings = 16, 3
	var all []*group
	add := func(c *group) {
		if c != nil && c != g && !c.fixed && len(all) < most && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for _, r := range g.reads {
		add(p.definer(r.val))
	}
	for _, r := range g.reads {
		base := p.memoryOf(r.val)
		for _, n := range p.recent[base] {
			add(p.find(p.of[n]))
		}
		p.recent[base] = append(p.recent[base], g.nodes[0])
		if k := len(p.recent[base]); k > siblings {
			p.recent[base] = p.recent[base][k-siblings:]
		}
	}
	return all
}

// share reports whether a and b read a tensor in common.
func share(a, b *group) bool {
	return slices.ContainsFunc(a.reads, func(r read) bool {
		_, found := slices.BinarySearchFunc(b.reads, r.val, func(x read, v core.ValID) int { return cmp.Compare(x.val, v) })
		return found
	})
}

// arrive puts node i into a group.
func (p *partition) arrive(i int32) error {
	g := p.start(i)
	if g.fixed {
		return nil
	}
	left := p.candidates(g)
	for len(left) > 0 {
		best, most := -1, minGain
		for k, c := range left {
			if c = p.find(c.id); c == g {
				continue
			}
			if gain := p.gain(c, g); gain > most {
				best, most = k, gain
			}
		}
		if best < 0 {
			for _, c := range left {
				if c = p.find(c.id); c != g {
					p.log(c, g, "one kernel takes as long as two")
				}
			}
			return nil
		}
		c := p.find(left[best].id)
		left = slices.Delete(left, best, best+1)
		why, sure := p.fits(c, g)
		if why != "" {
			p.log(c, g, why)
			continue
		}
		isDue := p.isDue(c, g)
		if !sure && isDue {
			accepted, err := p.judge.accepts(p, slices.Concat(c.nodes, g.nodes))
			if err != nil {
				return err
			}
			if !accepted {
				c.fixed, g.fixed = len(c.nodes) > c.asked, len(g.nodes) > g.asked
				continue
			}
		}
		if !p.level(c, g) {
			p.log(c, g, "others may have to run between them")
			continue
		}
		asked := max(c.asked, g.asked)
		if g = p.join(c, g); sure || isDue {
			asked = len(g.nodes)
		}
		g.asked = asked
	}
	return nil
}

// isDue reports whether it is time to ask about a and b together.
func (p *partition) isDue(a, b *group) bool {
	n := len(a.nodes) + len(b.nodes)
	return n <= maxAsked || n >= 2*max(a.asked, b.asked) || a.doubtful || b.doubtful
}

// log tells why a and b are not joined.
func (p *partition) log(a, b *group, why string) {
	if p.judge.o.Log != nil {
		p.judge.o.Log(fmt.Sprintf("%s does not join %s: %s", p.named(b.nodes), p.named(a.nodes), why))
	}
}

// follows reports whether g reads a tensor that c computes, and whether it reads one
// that its own group must not read.
func (p *partition) follows(c, g *group) (reads, sealed bool) {
	for _, r := range g.reads {
		if p.definer(r.val) == c {
			reads = true
			sealed = sealed || p.nodes[p.values[r.val].node].sealed
		}
	}
	return reads, sealed
}

// fits returns why the summaries do not let a kernel compute a and b, else "", and
// whether that is sure, so that nobody need be asked now.
func (p *partition) fits(a, b *group) (why string, sure bool) {
	if a.level > b.level {
		a, b = b, a
	}
	p.work.Visits += len(a.reads) + len(b.reads)
	after, sealed := p.follows(a, b)
	switch {
	case sealed:
		return "a segment ends here by the definition", false
	case len(a.nodes)+len(b.nodes) > maxNodes || a.weight+b.weight > maxWeight:
		return "a kernel of so many operations takes long to compile", false
	case len(a.reads)+len(b.reads)+a.writes+b.writes > maxTensors:
		return "a kernel has too many tensors", false
	}
	for _, v := range b.apart {
		if p.definer(v) == a {
			return p.f.Name(v) + " must be in memory", false
		}
	}
	switch {
	case a.reduces == "" && b.reduces == "":
		if slices.Equal(a.shape, b.shape) {
			return "", a.plain && b.plain && (after || share(a, b))
		}
		if a.space == b.space || after && b.space > a.space {
			return "", false
		}
		return "they run over other elements", false
	case a.reduces != "" && b.reduces != "" && a.reduces != b.reduces && a.reduces != b.across:
		return "they reduce along other axes", false
	}
	reduces := a
	if a.reduces == "" {
		reduces = b
	}
	if !after && a.space != b.space {
		return "neither reads what the other computes, and they run over other elements", false
	}
	switch held, beyond := p.needsAgain(a, b, reduces); {
	case beyond:
		return "they run over other elements than those that are reduced", false
	case !reduces.outer && !crossed(a, b) && float64(held)*reduces.space > reduces.kept*p.longestRow():
		return "elements that were reduced are needed again, and are too many to be held", false
	case crossed(a, b) && reduces.row() > longestCrossed:
		return "rows are reduced and columns too, which are too many to be folded meanwhile", false
	}
	return "", false
}

// longestRow returns how many elements a row has at most if threads hold one of each: in the
// registers of a block or, where there are clusters, in the shared memory of one, which has
// room for twice as many a block.
func (p *partition) longestRow() float64 {
	if blocks := p.judge.device.Cluster; blocks > 1 {
		return 2 * persistence.LongestRow * float64(blocks)
	}
	return persistence.LongestRow
}

// longestCrossed is how many elements a row has at most of which threads fold the columns.
const longestCrossed = 16 << 10

// row returns how many elements lie next to each other that are all reduced, or all kept.
func (g *group) row() float64 {
	if g.outer {
		return g.kept
	}
	return g.space / g.kept
}

// crossed reports whether a and b together reduce rows and columns.
func crossed(a, b *group) bool {
	return a.crosses || b.crosses || a.reduces != "" && b.reduces != "" && a.reduces != b.reduces
}

// needsAgain returns how many elements are held for each that the reductions of a and b, of
// which b does not come first, need again, about, and reports whether a or b runs over more
// than those that are reduced. One that reduces is given. If what is needed again is computed
// it is taken to be one tensor; of what is loaded each is held.
func (p *partition) needsAgain(a, b, reduces *group) (held int, beyond bool) {
	post, again, loads := map[int32]bool{}, false, false
	nodes := slices.Concat(a.nodes, b.nodes)
	slices.Sort(nodes)
	p.work.Visits += len(nodes)
	for _, i := range nodes {
		n := &p.nodes[i]
		if n.space > reduces.space {
			return 0, true
		}
		isPost := n.reduces != ""
		for _, v := range n.reads {
			if at := p.values[v].node; at != none && post[at] {
				again = again || n.reduces != "" || n.space > reduces.kept
				isPost = true
			}
		}
		post[i] = isPost
		loads = loads || isPost && n.reduces == "" && slices.ContainsFunc(n.reads, func(v core.ValID) bool { return p.isLoaded(v, a, b, reduces) })
	}
	switch {
	case !again:
		return 0, false
	case !loads:
		return 1, false
	}
	for _, r := range p.merged(a, b, func(core.ValID, int32) {}) {
		if p.isLoaded(r.val, a, b, reduces) {
			held++
		}
	}
	return held, false
}

// isLoaded reports whether v has an element for each that is reduced and is computed by
// neither a nor b.
func (p *partition) isLoaded(v core.ValID, a, b, reduces *group) bool {
	elements := 1.0
	for _, n := range p.values[v].shape {
		elements *= float64(n)
	}
	d := p.definer(v)
	return elements == reduces.space && d != a && d != b
}

// level makes the levels such that a and b can be joined, or changes nothing and
// reports false: there may be a path from one to the other through a third.
func (p *partition) level(a, b *group) bool {
	if a.level > b.level {
		a, b = b, a
	}
	if a.level == b.level {
		return true
	}
	type old struct {
		g     *group
		level int
	}
	var undo []old
	left := maxEdges
	var raise func(g *group, level int) bool
	raise = func(g *group, level int) bool {
		if g == b || g == a {
			return false
		}
		if g.level >= level {
			return true
		}
		undo = append(undo, old{g, g.level})
		g.level = level
		for _, id := range g.next {
			if left--; left < 0 || !raise(p.find(id), level+1) {
				return false
			}
		}
		return true
	}
	ok := true
	for _, id := range a.next {
		if s := p.find(id); s != b {
			if left--; left < 0 || !raise(s, b.level+1) {
				ok = false
				break
			}
		}
	}
	p.work.Visits += maxEdges - left
	if !ok {
		for _, o := range slices.Backward(undo) {
			o.g.level = o.level
		}
		return false
	}
	a.level = b.level
	return true
}

// join makes one group of a and b, of equal level.
func (p *partition) join(a, b *group) *group {
	if a.id > b.id {
		a, b = b, a
	}
	t := p.total(a, b)
	a.nodes = append(a.nodes, b.nodes...)
	slices.Sort(a.nodes)
	a.doubtful = a.doubtful || b.doubtful
	a.plain = a.plain && b.plain && slices.Equal(a.shape, b.shape)
	if b.space > a.space {
		a.shape, a.space = b.shape, b.space
	}
	if a.crosses = crossed(a, b); a.reduces == "" {
		a.reduces, a.across, a.kept, a.outer = b.reduces, b.across, b.kept, b.outer
	}
	a.weight += b.weight
	a.work, a.bytes, a.bytesTo, a.writes = t.work, t.bytes, t.bytesTo, t.writes
	a.apart = append(slices.Clip(a.apart), b.apart...)
	a.reads = p.merged(a, b, func(v core.ValID, n int32) { p.values[v].inside += n })
	p.parent[b.id] = a.id
	next := make([]int32, 0, len(a.next)+len(b.next))
	for _, id := range slices.Concat(a.next, b.next) {
		if s := p.find(id); s != a {
			next = append(next, s.id)
		}
	}
	slices.Sort(next)
	a.next = slices.Compact(next)
	p.work.Visits += len(a.nodes) + len(a.reads) + len(next)
	return a
}

// merged returns what a and b read together and do not compute; inside is called with
// what one computes, and by how many nodes the other reads it.
func (p *partition) merged(a, b *group, inside func(v core.ValID, nodes int32)) []read {
	all := make([]read, 0, len(a.reads)+len(b.reads))
	i, k := 0, 0
	for i < len(a.reads) || k < len(b.reads) {
		var r read
		switch {
		case k == len(b.reads) || i < len(a.reads) && a.reads[i].val < b.reads[k].val:
			r = a.reads[i]
			i++
		case i == len(a.reads) || b.reads[k].val < a.reads[i].val:
			r = b.reads[k]
			k++
		default:
			r = read{a.reads[i].val, a.reads[i].nodes + b.reads[k].nodes}
			i, k = i+1, k+1
		}
		if d := p.definer(r.val); d == a || d == b {
			inside(r.val, r.nodes)
			continue
		}
		all = append(all, r)
	}
	return all
}
