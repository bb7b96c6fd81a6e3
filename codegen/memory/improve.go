package memory

import (
	"cmp"
	"slices"

	"nvfuser_go/codegen/kir"
)

// A gapAt is a gap with tokens.
type gapAt struct {
	in    *block
	i     int
	depth int // loops around it
}

func (g gapAt) gap() *gap { return &g.in.gaps[g.i] }

// improve removes tokens that the others make redundant. The walk puts a token
// as late as it can, which is best for statements in a row; around a loop it
// may be better to put it earlier, where one barrier serves two conflicts, and
// what was put before a loop may not be needed when the loop has its own. It
// tries, innermost loops first:
//
//   - to move a barrier and its wait to the barrier before it in the same block;
//   - to remove what is in a gap, or a part of it;
//   - to let more copies be under way after a wait;
//   - to let groups of threads that have nothing to do with each other wait apart.
//
// Each change is kept if the walk then finds no conflict. Without loops there is
// nothing to find.
func (p *plan) improve() {
	if !slices.ContainsFunc(p.tokens(), func(g gapAt) bool { return g.depth > 0 }) {
		return
	}
	p.record()
	for again := true; again; {
		again = false
		for _, g := range p.tokens() {
			again = p.combine(g) || again
		}
	}
	for _, g := range p.tokens() {
		was := *g.gap()
		if p.try(g, emptyGap) {
			continue
		}
		if was.barrier != noBarrier {
			p.try(g, gap{commit: was.commit, wait: was.wait})
		}
		if was.wait != noWait {
			p.try(g, gap{wait: noWait, barrier: g.gap().barrier})
		}
	}
	for _, g := range p.tokens() {
		for g.gap().wait != noWait && g.gap().wait < maxStages {
			more := *g.gap()
			more.wait++
			if !p.try(g, more) {
				break
			}
		}
	}
	for _, g := range p.tokens() {
		if apart := *g.gap(); len(p.groups) > 0 && g.depth > 0 && apart.barrier == blockBarrier {
			apart.barrier = groupBarrier
			p.try(g, apart)
		}
	}
}

// try keeps a change of a gap if no conflict follows.
func (p *plan) try(g gapAt, to gap) bool {
	was := *g.gap()
	if *g.gap() = to; p.holdsFrom(g.in, g.i, g.i) {
		return true
	}
	*g.gap() = was
	return false
}

// combine moves a barrier in a loop, and its wait, to the one before it in the
// same block, if it can.
func (p *plan) combine(g gapAt) bool {
	if g.depth == 0 || g.gap().barrier == noBarrier {
		return false
	}
	for i := g.i - 1; i >= 0; i-- {
		first := &g.in.gaps[i]
		if first.barrier == noBarrier {
			continue
		}
		was, moved := *first, *g.gap()
		first.barrier = max(was.barrier, moved.barrier)
		first.commit = was.commit || moved.commit
		if moved.wait != noWait {
			first.wait = 0
		}
		if *g.gap() = emptyGap; p.holdsFrom(g.in, i, g.i) {
			return true
		}
		*first, *g.gap() = was, moved
		break
	}
	return false
}

// tokens returns the gaps that are not empty, those in most loops first, then in
// order of the text.
func (p *plan) tokens() []gapAt {
	var out []gapAt
	var walk func(b *block, depth int)
	walk = func(b *block, depth int) {
		for i, n := range b.nodes {
			if b.gaps[i] != emptyGap {
				out = append(out, gapAt{b, i, depth})
			}
			inside := depth
			if _, ok := n.s.(*kir.For); ok {
				inside++
			}
			for _, body := range n.bodies {
				walk(body, inside)
			}
		}
	}
	walk(p.root, 0)
	slices.SortStableFunc(out, func(a, b gapAt) int { return cmp.Compare(b.depth, a.depth) })
	return out
}
