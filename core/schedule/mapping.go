package schedule

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A Mapping answers what axes of a Scheduled have in common. It is immutable and
// does not see later changes of the Scheduled. Its Fusion has, beside the tables
// of the Scheduled's, axes and transforms made by loop promotion, which are in no
// tensor's domains.
type Mapping struct {
	s             *Scheduled
	f             *core.Fusion
	exact, almost *classes
	loops         *loopGraph
	promotion     map[core.AxisID]core.AxisID
	parallel      map[core.AxisID]Parallel
	transforms    []core.TransformID
	nests         *nests
	tree          []*Nest
	throughInputs bool
	numAxes       int // of the Scheduled: those of promotion are above
}

// Map computes the mapping of s. Errors: a fusion whose axes cannot be told
// apart, a broadcast inlined into two axes, compute positions that no nest of
// loops has, results of one expression in different loops, two parallel types in
// one loop.
func Map(s *Scheduled) (*Mapping, error) {
	if m := s.takeMapping(); m != nil { // mapping is a good part of all that is done for a kernel
		return m, nil
	}
	return mapWith(s, true)
}

// mapWith is Map; without partial, steps 4 and 5 of promotion are left out.
func mapWith(s *Scheduled, partial bool) (*Mapping, error) {
	m := &Mapping{s: s.Clone(), numAxes: s.f.NumAxes()}
	s = m.s
	m.f = s.f
	for _, e := range s.analysis().edges { // later reads write nothing
		s.relationOf(e)
	}
	var err error
	if m.nests, m.tree, err = s.checkPositions(); err != nil {
		return nil, err
	}
	m.loops = m.nests.loops
	if m.exact, m.throughInputs, err = s.exactClasses(m.f); err != nil {
		return nil, err
	}
	if err = m.checkResults(); err != nil {
		return nil, err
	}
	p := &promoter{s: s, f: m.f, exact: m.exact, loops: m.loops, partial: partial}
	if m.promotion, err = p.promotions(); err != nil {
		return nil, err
	}
	m.transforms = append(p.transforms, p.replays...)
	m.almost = s.almostExact(m.f, m.exact, m.transforms, m.throughInputs)
	for _, d := range []*disjoint{&m.exact.disjoint, &m.almost.disjoint, &m.loops.disjoint} {
		d.grow(m.f.NumAxes())
		d.flatten()
	}
	if err = m.checkPromotions(); err != nil {
		return nil, err
	}
	if err = m.checkCapacities(); err != nil {
		return nil, err
	}
	m.parallel, err = s.loopTypes(m.loops)
	return m, err
}

// checkResults fails if results of one expression, which one statement computes,
// have loops that are not each other's, place by place. Loops of equal extents
// may still be over different axes.
func (m *Mapping) checkResults() error {
	for _, id := range m.s.analysis().order {
		out := m.f.Expr(id).Out
		first := m.s.Loop(out[0])
		for _, v := range out[1:] {
			loop := m.s.Loop(v)
			for k := range max(len(first), len(loop)) {
				if k >= min(len(first), len(loop)) || !m.exact.same(first[k], loop[k]) {
					return m.s.refuse("results", v, "%s and %s are results of one expression, and their loops differ from place %d on; give them the same ones",
						m.s.name(out[0]), m.s.name(v), k)
				}
			}
		}
	}
	return nil
}

// checkPromotions fails if a loop has no promotion: no axis covers what its
// members stem from.
func (m *Mapping) checkPromotions() error {
	for _, v := range m.s.Tensors() {
		if m.s.isInput(v) {
			continue
		}
		for k, a := range m.s.Loop(v) {
			if q, ok := m.promotion[m.loops.find(a)]; !ok || q == core.NoAxis {
				return m.s.refuse("promotion", v, "no axis covers the loop of %s together with those that share it; inline less", m.s.axisText(v, k))
			}
		}
	}
	return nil
}

// checkCapacities fails if an axis that is split whole exceeds the capacity whatever the
// sizes, or if a loop would be one of more axes than the promise was made for.
func (m *Mapping) checkCapacities() error {
	type extent struct{ of, capacity scalar.ID }
	promised := map[extent]bool{}
	err := m.s.eachPromise(func(v core.ValID, of scalar.ID, most int64) error {
		if n, isConst := m.f.Scalars().ConstInt(of); isConst && n > most {
			return m.s.refuse("capacity", v, "an axis of %s has %d elements and is split whole, with a capacity of %d", m.s.name(v), n, most)
		}
		promised[extent{of, m.f.Scalars().Int(most)}] = true
		return nil
	})
	if err != nil || !m.s.isPromised {
		return err
	}
	for _, id := range m.transforms {
		t := m.f.Transform(id)
		if x := (extent{m.f.Axis(t.In[0]).Extent, t.Factor}); t.Whole && m.f.Axis(t.In[0]).Kind != core.Broadcast && !promised[x] {
			return m.s.refuse("capacity", m.s.f.Outputs()[0].Val, "a loop would run over %s elements, which nobody promised to be no more than %s", m.s.scalarText(x.of), m.s.scalarText(x.capacity))
		}
	}
	return nil
}

// loopTypes returns the parallel type of each loop class: that of its members.
// Two types in one loop are an error.
func (s *Scheduled) loopTypes(l *loopGraph) (map[core.AxisID]Parallel, error) {
	types := map[core.AxisID]Parallel{}
	type place struct {
		v core.ValID
		k int
	}
	from := map[core.AxisID]place{}
	for _, v := range s.Tensors() {
		if s.isInput(v) {
			continue
		}
		for k, a := range s.Loop(v) {
			class, p := l.find(a), s.Parallel(a)
			switch old := types[class]; {
			case p == Serial || p == old:
			case old != Serial:
				first := from[class]
				return nil, s.refuse("parallel type", v, "%s and %s share a loop that is %v for one and %v for the other; give it one parallel type",
					s.axisText(first.v, first.k), s.axisText(v, k), old, p)
			default:
				types[class], from[class] = p, place{v, k}
			}
		}
	}
	return types, nil
}

// checkLoopTypes fails if tensors that share a loop give it two parallel types.
func (s *Scheduled) checkLoopTypes(call string) error {
	if !slices.ContainsFunc(s.tensors, func(t tensor) bool { return t.position > 0 }) {
		return nil
	}
	if _, err := s.loopTypes(s.loopGraph()); err != nil {
		return core.InvalidArgumentf("%s(): %v", call, err)
	}
	return nil
}

// Fusion returns the tables that the axes of the mapping are in.
func (m *Mapping) Fusion() *core.Fusion { return m.f }

// Transforms returns the transforms of all tensors and of promotion, ascending.
func (m *Mapping) Transforms() []core.TransformID { return m.transforms }

// Exact returns the class of axes with a's extent and index.
func (m *Mapping) Exact(a core.AxisID) core.AxisID { return m.exact.find(a) }

// AlmostExact returns the class of axes with a's index, where extents of 1 are
// looked through.
func (m *Mapping) AlmostExact(a core.AxisID) core.AxisID { return m.almost.find(a) }

// LoopClass returns the class of axes that run in one loop with a.
func (m *Mapping) LoopClass(a core.AxisID) core.AxisID { return m.loops.find(a) }

// Promotion returns the axis that tells how often the loop of a runs.
func (m *Mapping) Promotion(a core.AxisID) core.AxisID { return m.promotion[m.loops.find(a)] }

// IsPromoted reports whether the loop of a runs over more than a.
func (m *Mapping) IsPromoted(a core.AxisID) bool { return !m.exact.same(a, m.Promotion(a)) }

// Parallel returns how the loop of a runs.
func (m *Mapping) Parallel(a core.AxisID) Parallel { return m.parallel[m.loops.find(a)] }

// MapsThroughInputs reports whether the uses of an input have its axes in
// common. If not, an index into an input, unless it broadcasts, is that of the
// consumer's root axis.
func (m *Mapping) MapsThroughInputs() bool { return m.throughInputs }

// Tree returns the loops and statements of the schedule, in order.
func (m *Mapping) Tree() []*Nest { return m.tree }

// Nest returns the loop classes around the statement of an expression,
// outermost first.
func (m *Mapping) Nest(id core.ExprID) []core.AxisID { return m.nests.of[id] }

// Scheduled returns the schedule that m is of. It must not be changed.
func (m *Mapping) Scheduled() *Scheduled { return m.s }

// Permissive reports whether a, of the producer, and b, of the consumer,
// correspond along some edge between the two if broadcasts are looked through.
func (m *Mapping) Permissive(producer core.ValID, a core.AxisID, consumer core.ValID, b core.AxisID) bool {
	for _, e := range m.s.consumers(producer) {
		if e.consumer == consumer && m.s.relationOf(e).maps(a, b) {
			return true
		}
	}
	return false
}
