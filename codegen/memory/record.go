package memory

import (
	"nvfuser_go/codegen/kir"
)

// A visit is one walk over the statements of a block, kept so that a change of
// one gap is judged by walking from there until what is pending is as it was.
type visit struct {
	block  *block
	passes []relation // of the loops around, outermost first
	before []state    // at each gap, without what is in it
	after  state
	inner  [][]*visit // by statement: the walks over what is in it, in order
}

// visit begins the record of a walk over b, if walks are recorded.
func (s *scan) visit(b *block) *visit {
	if !s.recording {
		return nil
	}
	v := &visit{block: b, before: make([]state, len(b.nodes)), inner: make([][]*visit, len(b.nodes))}
	for _, l := range b.loops() {
		v.passes = append(v.passes, l.pass)
	}
	s.found = append(s.found, v)
	return v
}

// record walks over the kernel, in which no conflict is, and keeps the walk.
func (p *plan) record() {
	s := scan{p: p, recording: true}
	s.block(p.root, nil)
	p.walked = s.found[0]
}

// visits returns the walks over a block, in the order that they were made.
func (p *plan) visits(b *block) []*visit {
	if b.owner == nil {
		return []*visit{p.walked}
	}
	var all []*visit
	for _, v := range p.visits(b.owner.parent) {
		for _, w := range v.inner[b.owner.place] {
			if w.block == b {
				all = append(all, w)
			}
		}
	}
	return all
}

// holdsFrom reports whether the tokens that are there are enough, if they were
// before the gap at i of b, and perhaps others after it, were changed. If so
// the record is that of the kernel as it is now.
//
// The walks over b go on from the gap. Where one of them comes to a state that
// it was in before, the rest of it is as it was. If one does not, all from the
// statement that b is in may be different, and that is walked over again.
func (p *plan) holdsFrom(b *block, i, last int) bool {
	var fresh []*visit
	old := p.visits(b)
	for _, v := range old {
		w, c := p.again(v, i, last)
		if c != nil {
			return false
		}
		if w == nil && b.owner != nil {
			return p.holdsFrom(b.owner.parent, b.owner.place, b.owner.place)
		}
		fresh = append(fresh, w)
	}
	for k, v := range old {
		*v = *fresh[k]
	}
	return true
}

// again walks a part of a visit again, from gap i on and at least past gap last.
// It returns the visit as it is now, or nil if that ends in another state; of the
// kernel, where nothing follows, it returns it in any case.
func (p *plan) again(old *visit, i, last int) (*visit, *conflict) {
	b := old.block
	for k, l := range b.loops() {
		l.open, l.pass = true, old.passes[k]
	}
	defer func() {
		for _, l := range b.loops() {
			l.open = false
		}
	}()
	v := &visit{block: b, passes: old.passes, before: append([]state{}, old.before...), after: old.after, inner: append([][]*visit{}, old.inner...)}
	s := scan{p: p, recording: true}
	st := old.before[i]
	for ; i < len(b.nodes); i++ {
		if i > last && st.equal(old.before[i]) {
			return v, nil
		}
		v.before[i] = st
		s.found = nil
		after, c := s.step(b, i, st)
		if c != nil {
			return nil, c
		}
		v.inner[i] = s.found
		st = after
	}
	if !st.equal(old.after) && b.owner != nil {
		return nil, nil
	}
	v.after = st
	return v, nil
}

// loops returns those around the statements of a block, outermost first.
func (b *block) loops() []*node {
	if b.owner == nil {
		return nil
	}
	if _, isLoop := b.owner.s.(*kir.For); isLoop {
		return append(b.owner.loops[:len(b.owner.loops):len(b.owner.loops)], b.owner)
	}
	return b.owner.loops
}
