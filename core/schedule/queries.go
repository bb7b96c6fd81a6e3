package schedule

import (
	"maps"
	"slices"

	"nvfuser_go/core"
)

// A Graph answers which axes are mapped in one sense, and takes further pairs,
// which follow from nothing. It is used by one goroutine.
type Graph struct {
	m       *Mapping
	axes    int       // of the schedule: later ones are not in it
	classes *classes  // closed under transforms; nil: loops or pairs
	loops   *disjoint // nil: classes or pairs
	pairs   map[[2]core.AxisID]bool
}

// Graph returns the graph of mode: axes of equal extent and index (exact), the
// same where extents of 1 are looked through (almost_exact), axes that run in one
// loop (loop), axes of a producer and its consumer that correspond if broadcasts
// are looked through (permissive). The last is a relation of neighbours and not
// transitive: x and z may both correspond to a broadcast and not to each other.
//
// Errors: Unsupported for another mode.
func (m *Mapping) Graph(mode string) (*Graph, error) {
	g := &Graph{m: m, axes: m.numAxes}
	switch mode {
	case "exact":
		g.classes = m.exact.clone()
	case "almost_exact":
		g.classes = m.almost.clone()
	case "loop":
		d := m.loops.disjoint.clone()
		g.loops = &d
	case "permissive":
		g.pairs = map[[2]core.AxisID]bool{}
	default:
		return nil, &core.Unsupported{What: "the graph is not supported", Refusals: []core.Refusal{{By: "mapping", Rule: "mode",
			Sentence: mode + " is not a graph of the mapping model, which has exact, almost_exact, permissive and loop; permissive looks through broadcasts"}}}
	}
	return g, nil
}

func (g *Graph) check(axes ...core.AxisID) error {
	for _, a := range axes {
		if int(a) >= g.axes {
			return core.InvalidArgumentf("the axis was made after the graph, which has %d axes: build the graph again", g.axes)
		}
	}
	return nil
}

// Mapped reports whether a and b are mapped.
func (g *Graph) Mapped(a, b core.AxisID) (bool, error) {
	if err := g.check(a, b); err != nil {
		return false, err
	}
	switch {
	case g.classes != nil:
		return g.classes.same(a, b), nil
	case g.loops != nil:
		return g.loops.same(a, b), nil
	}
	if a == b || g.pairs[[2]core.AxisID{a, b}] || g.pairs[[2]core.AxisID{b, a}] {
		return true, nil
	}
	for _, e := range g.m.s.analysis().edges {
		if r := g.m.s.relationOf(e); r.maps(a, b) && g.m.s.owns(e, a) != g.m.s.owns(e, b) {
			return true, nil
		}
	}
	return false, nil
}

// owns reports whether a is an axis of the producer of e, not of its consumer.
func (s *Scheduled) owns(e *edge, a core.AxisID) bool {
	return slices.Contains(s.axesOf(e.producer), a)
}

// Join maps a and b, and in the exact and almost exact graphs what follows: equal
// transforms of mapped axes have mapped results.
func (g *Graph) Join(a, b core.AxisID) error {
	if err := g.check(a, b); err != nil {
		return err
	}
	switch {
	case g.classes != nil:
		g.classes.join(a, b)
	case g.loops != nil:
		g.loops.unite(a, b)
	default:
		g.pairs[[2]core.AxisID{a, b}] = true
	}
	return nil
}

func (d *disjoint) clone() disjoint {
	return disjoint{parent: slices.Clone(d.parent), size: slices.Clone(d.size)}
}

// clone returns a copy in which any two axes may be united.
func (c *classes) clone() *classes {
	k := &classes{disjoint: c.disjoint.clone(), f: c.f, extent: slices.Clone(c.extent),
		forward: maps.Clone(c.forward), backward: maps.Clone(c.backward), uses: make([][]core.TransformID, len(c.uses))}
	for i := range c.uses {
		k.uses[i] = slices.Clone(c.uses[i])
	}
	return k
}
