package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// A promoter finds, for each loop class, an axis that says how often the loop
// runs and where its indices come from: its promotion. Where no broadcast is
// inlined into a real axis any member serves. Otherwise five steps:
//
//  1. resolve: a broadcast axis whose loop class has the real axis that it meets
//     in a consumer is promoted to that.
//  2. push: a transform of promoted inputs promotes its outputs to those of an
//     equal transform in the same loops, or of a replay of it.
//  3. choose: of each loop class, a member, or its promotion, that covers all
//     members and their promotions.
//  4. push again, for tensors that share outer loops only: where a class with a
//     promotion that some member lacks splits into loops of one tensor and
//     shared ones, its promotion is pushed through those transforms. Where one
//     input is promoted the others must be: by step 2, or as their loop is.
//  5. choose again, in the classes that 4 has touched.
//
// Axes are grouped by exact and loop class; a group has one promotion.
type promoter struct {
	s          *Scheduled
	f          *core.Fusion // receives the axes of replays
	exact      *classes
	loops      *loopGraph
	original   []core.AxisID // of all tensors, in order
	transforms []core.TransformID
	replays    []core.TransformID
	group      []int // by original AxisID
	members    [][]core.AxisID
	classes    []core.AxisID                      // loop classes in order of first member
	ofLoop     map[core.AxisID][]core.AxisID      // loop class -> members
	entering   map[core.AxisID][]core.TransformID // loop class -> transforms that take a member
	bySign     map[signature][]core.TransformID
	resolved   []core.AxisID // step 1, by group
	partial    bool          // steps 4 and 5 are done; tests switch them off
}

// promotions returns the promotion of each loop class.
func (p *promoter) promotions() (map[core.AxisID]core.AxisID, error) {
	p.collect()
	if err := p.resolve(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.resolved, isAxis) {
		return p.anyMember(), nil
	}
	pushed := p.push(slices.Clone(p.resolved), nil, nil, nil)
	chosen := p.choose(pushed, nil)
	if !p.partial {
		return chosen, p.checkTwice(chosen)
	}
	if from := p.toPush(chosen); len(from) > 0 {
		again := p.push(p.none(), from, pushed, chosen)
		for class, a := range p.choose(again, again) {
			if isAxis(a) {
				chosen[class] = a
			}
		}
	}
	return chosen, p.checkTwice(chosen)
}

// checkTwice refuses loops over an axis merged with itself, as a broadcast that is promoted to
// the axis beside it is: that axis would have two indices, and nothing tells which points are
// the first of an element.
func (p *promoter) checkTwice(chosen map[core.AxisID]core.AxisID) error {
	twice := map[core.AxisID]bool{}
	for _, id := range p.replays {
		t := p.f.Transform(id)
		isMade := slices.ContainsFunc(t.Inputs(), func(a core.AxisID) bool { return twice[a] })
		if isMade || t.Kind == core.Merge && p.f.Axis(t.In[0]).Kind != core.Broadcast && p.exact.same(t.In[0], t.In[1]) {
			for _, a := range t.Results() {
				twice[a] = true
			}
		}
	}
	for _, class := range p.classes {
		if twice[chosen[class]] {
			v := p.owner(p.ofLoop[class][0])
			return p.s.refuse("self-mapping", v, "a loop of %s would run over an axis merged with itself, as one of its two axes is a broadcast that meets the other one elsewhere: inline it less, or do not merge them", p.s.name(v))
		}
	}
	return nil
}

func isAxis(a core.AxisID) bool { return a != core.NoAxis }

func (p *promoter) none() []core.AxisID {
	return slices.Repeat([]core.AxisID{core.NoAxis}, len(p.members))
}

func (p *promoter) collect() {
	s := p.s
	p.group = make([]int, s.f.NumAxes())
	p.ofLoop, p.entering = map[core.AxisID][]core.AxisID{}, map[core.AxisID][]core.TransformID{}
	groups := map[[2]core.AxisID]int{}
	for _, v := range s.Tensors() {
		p.original = append(p.original, s.axesOf(v)...)
	}
	for _, a := range p.original {
		key := [2]core.AxisID{p.exact.find(a), p.loops.find(a)}
		g, ok := groups[key]
		if !ok {
			g = len(p.members)
			groups[key] = g
			p.members = append(p.members, nil)
		}
		p.group[a] = g
		p.members[g] = append(p.members[g], a)
		if p.ofLoop[key[1]] == nil {
			p.classes = append(p.classes, key[1])
		}
		p.ofLoop[key[1]] = append(p.ofLoop[key[1]], a)
	}
	p.transforms = s.transforms()
	p.bySign = map[signature][]core.TransformID{}
	for _, id := range p.transforms {
		p.enter(id)
		for _, a := range p.f.Transform(id).Inputs() {
			class := p.loops.find(a)
			if list := p.entering[class]; len(list) == 0 || list[len(list)-1] != id {
				p.entering[class] = append(list, id)
			}
		}
	}
}

// enter makes transform id findable. Signatures do not change any more: a replay
// adds axes to exact classes and never unites two old ones.
func (p *promoter) enter(id core.TransformID) {
	t := p.f.Transform(id)
	key := p.exact.forwardSignature(t, t.In)
	p.bySign[key] = append(p.bySign[key], id)
}

// resolve is step 1.
func (p *promoter) resolve() error {
	p.resolved = p.none()
	meets := map[core.AxisID][]core.AxisID{} // broadcast -> exact classes
	for _, e := range p.s.analysis().edges {
		for _, pair := range e.pairs {
			if p.s.isBroadcast(pair.producer) && !p.s.isBroadcast(pair.consumer) {
				meets[pair.producer] = append(meets[pair.producer], p.exact.find(pair.consumer))
			}
		}
	}
	first := map[[2]core.AxisID]core.AxisID{} // exact and loop class -> member
	shared := false
	for _, class := range p.classes {
		shared = shared || len(p.ofLoop[class]) > 1
		for _, a := range p.ofLoop[class] {
			if key := [2]core.AxisID{p.exact.find(a), class}; first[key] == 0 {
				first[key] = a + 1 // 0 is absent
			}
		}
	}
	if !shared {
		return nil
	}
	for g, members := range p.members {
		if !p.s.isBroadcast(members[0]) {
			continue
		}
		for _, a := range members {
			for _, e := range meets[a] {
				found := first[[2]core.AxisID{e, p.loops.find(a)}]
				if found == 0 || found-1 == p.resolved[g] {
					continue
				}
				if isAxis(p.resolved[g]) {
					return p.ambiguous(a, p.resolved[g], found-1)
				}
				p.resolved[g] = found - 1
			}
		}
	}
	return nil
}

func (p *promoter) ambiguous(broadcast, a, b core.AxisID) error {
	v := p.owner(broadcast)
	return p.s.refuse("ambiguous broadcast", v, "a broadcast axis of %s is inlined into two different axes, of extent %s (%s) and %s (%s); inline it into one of them only",
		p.s.name(v), p.s.extentText(a), p.s.name(p.owner(a)), p.s.extentText(b), p.s.name(p.owner(b)))
}

// owner returns the tensor that has axis a.
func (p *promoter) owner(a core.AxisID) core.ValID {
	for _, v := range p.s.Tensors() {
		if slices.Contains(p.s.axesOf(v), a) {
			return v
		}
	}
	return core.NoVal
}

// push walks the transforms downwards and promotes the outputs of those with a
// promoted input: in promoted by group, or else in from by loop class, where the
// transform leaves that class. Once one input is promoted the others take their
// promotion of rest, or that of their loop in chosen, so that no replay mixes in
// an unresolved broadcast or a loop's axis of another extent.
func (p *promoter) push(promoted []core.AxisID, from map[core.AxisID]core.AxisID, rest []core.AxisID, chosen map[core.AxisID]core.AxisID) []core.AxisID {
	for _, id := range p.transforms {
		t := *p.f.Transform(id)
		in, ok := p.promotedInputs(&t, promoted, from)
		if !ok {
			continue
		}
		for k, a := range (&t).Inputs() {
			if in[k] == a && rest != nil {
				in[k] = p.promotionBeside(&t, a, rest, chosen)
			}
		}
		out := p.equalTransform(&t, in)
		for k, a := range (&t).Results() {
			if !p.exact.same(a, out[k]) {
				promoted[p.group[a]] = out[k]
			}
		}
	}
	return promoted
}

// promotedInputs returns the inputs of t, promoted where they are, and whether
// one is.
func (p *promoter) promotedInputs(t *core.Transform, promoted []core.AxisID, from map[core.AxisID]core.AxisID) ([2]core.AxisID, bool) {
	in, some := t.In, false
	leaves := p.leaves(t)
	for k, a := range t.Inputs() {
		pushed, ok := from[p.loops.find(a)]
		switch q := promoted[p.group[a]]; {
		case isAxis(q) && ok && leaves && p.covers(pushed, q):
			in[k], some = pushed, true
		case isAxis(q):
			in[k], some = q, true
		case ok && leaves:
			in[k], some = pushed, true
		}
	}
	return in, some
}

// covers reports whether axis a covers what b stems from.
func (p *promoter) covers(a, b core.AxisID) bool {
	return !p.exact.same(a, b) && newCoverage(p).includes(p.exact.find(a), p.exact.find(b))
}

// promotionBeside returns what stands for input a of t beside a promoted one.
func (p *promoter) promotionBeside(t *core.Transform, a core.AxisID, rest []core.AxisID, chosen map[core.AxisID]core.AxisID) core.AxisID {
	if q := rest[p.group[a]]; isAxis(q) {
		return q
	}
	q := chosen[p.loops.find(a)]
	if !isAxis(q) || slices.ContainsFunc(t.Results(), func(b core.AxisID) bool { return p.loops.same(a, b) }) {
		return a
	}
	return q
}

// leaves reports whether t has an input whose loop class is not among those of
// its outputs.
func (p *promoter) leaves(t *core.Transform) bool {
	for _, a := range t.Inputs() {
		if !slices.ContainsFunc(t.Results(), func(b core.AxisID) bool { return p.loops.same(a, b) }) {
			return true
		}
	}
	return false
}

// equalTransform returns the outputs of a transform like t of in, in the loop
// classes of t's: one there is, or a replay.
func (p *promoter) equalTransform(t *core.Transform, in [2]core.AxisID) [2]core.AxisID {
	for _, id := range p.bySign[p.exact.forwardSignature(t, in)] {
		u := p.f.Transform(id)
		if p.loops.same(u.Out[0], t.Out[0]) && (t.Out[1] == core.NoAxis || p.loops.same(u.Out[1], t.Out[1])) {
			return u.Out
		}
	}
	id := replay(p.f, t, in)
	p.replays = append(p.replays, id)
	p.exact.add(id)
	p.enter(id)
	u := p.f.Transform(id)
	for k, a := range u.Results() {
		p.loops.unite(t.Out[k], a)
	}
	return u.Out
}

// replay appends a transform like t of the axes in. Its outputs are real, or
// broadcasts if in is: the parts of one that nothing resolves have extent 1.
func replay(f *core.Fusion, t *core.Transform, in [2]core.AxisID) core.TransformID {
	kind := core.Broadcast
	for k := range t.Inputs() {
		if f.Axis(in[k]).Kind != core.Broadcast {
			kind = core.Iter
		}
	}
	switch t.Kind {
	case core.Split:
		return splitAxis(f, in[0], t, kind)
	case core.Merge:
		return mergeAxes(f, in[0], in[1], kind)
	case core.Shift:
		return shiftAxis(f, in[0], t, kind)
	}
	return resizeAxis(f, in[0], t.Left, t.Right, core.Iter)
}

// choose is step 3, for the loop classes that have a group with a promotion in
// only; nil: for all.
func (p *promoter) choose(promoted, only []core.AxisID) map[core.AxisID]core.AxisID {
	cover := newCoverage(p)
	chosen := map[core.AxisID]core.AxisID{}
	for _, class := range p.classes {
		members := p.ofLoop[class]
		if only == nil || slices.ContainsFunc(members, func(a core.AxisID) bool { return isAxis(only[p.group[a]]) }) {
			chosen[class] = p.chooseOne(members, promoted, cover)
		}
	}
	return chosen
}

func (p *promoter) chooseOne(members, promoted []core.AxisID, cover *coverage) core.AxisID {
	pick, tried, want := core.NoAxis, map[core.AxisID]bool{}, p.wanted(members, promoted)
	for _, a := range members {
		q := a
		if r := promoted[p.group[a]]; isAxis(r) {
			q = r
		}
		if tried[p.exact.find(q)] {
			continue
		}
		tried[p.exact.find(q)] = true
		if !slices.ContainsFunc(want, func(w core.AxisID) bool { return !cover.includes(p.exact.find(q), w) }) {
			pick = q
			break
		}
	}
	return pick
}

// wanted returns the exact classes of members and of their promotions.
func (p *promoter) wanted(members, promoted []core.AxisID) []core.AxisID {
	seen, want := map[core.AxisID]bool{}, []core.AxisID(nil)
	add := func(a core.AxisID) {
		if r := p.exact.find(a); !seen[r] {
			seen[r] = true
			want = append(want, r)
		}
	}
	for _, a := range members {
		add(a)
		if q := promoted[p.group[a]]; isAxis(q) {
			add(q)
		}
	}
	return want
}

// toPush returns the promotions of loop classes that step 4 starts from.
func (p *promoter) toPush(chosen map[core.AxisID]core.AxisID) map[core.AxisID]core.AxisID {
	from := map[core.AxisID]core.AxisID{}
	for _, class := range p.classes {
		q := chosen[class]
		if !isAxis(q) || !slices.ContainsFunc(p.ofLoop[class], func(a core.AxisID) bool { return !p.exact.same(a, q) }) {
			continue
		}
		if p.parts(class) {
			from[class] = q
		}
	}
	return from
}

// parts reports whether transforms that leave the class lead, at one position of
// their outputs, to several loop classes.
func (p *promoter) parts(class core.AxisID) bool {
	type column struct {
		kind core.TransformKind
		k    int
	}
	to := map[column]core.AxisID{}
	for _, id := range p.entering[class] {
		t := p.f.Transform(id)
		if !slices.ContainsFunc(t.Results(), func(o core.AxisID) bool { return p.loops.find(o) != class }) {
			continue
		}
		for k, o := range t.Results() {
			l := p.loops.find(o)
			if old, ok := to[column{t.Kind, k}]; ok && old != l {
				return true
			}
			to[column{t.Kind, k}] = l
		}
	}
	return false
}

// anyMember chooses an axis that is no broadcast where there is one.
func (p *promoter) anyMember() map[core.AxisID]core.AxisID {
	chosen := map[core.AxisID]core.AxisID{}
	for _, class := range p.classes {
		members := p.ofLoop[class]
		i := slices.IndexFunc(members, func(a core.AxisID) bool { return !p.s.isBroadcast(a) })
		chosen[class] = members[max(i, 0)]
	}
	return chosen
}
