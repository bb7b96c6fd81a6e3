package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// An edge is a tensor that an expression reads and a tensor that it defines.
type edge struct {
	producer, consumer core.ValID
	expr               core.ExprID
	// pairs are the logical axes of the producer and the root axes of the
	// consumer that run along each other. whole marks those that the consumer
	// needs completely before it has an element, other than by its own
	// reduction.
	pairs    []axisPair
	relation *relation // nil: not yet known
}

type axisPair struct {
	producer, consumer core.AxisID
	whole              bool
}

// A graph is what the expressions of the fusion say, in dense tables. It is made
// again after an edit.
type graph struct {
	order      []core.ExprID
	tensors    []core.ValID // each after those that it is computed from
	number     []int        // of a tensor in tensors, -1: not needed
	in, out    [][]*edge    // by ValID
	edges      []*edge
	unmappable map[core.AxisID]bool // nil: not yet known
}

// analysis returns the graph of s.
func (s *Scheduled) analysis() *graph {
	if s.graph == nil {
		s.graph = s.newGraph()
	}
	return s.graph
}

func (s *Scheduled) newGraph() *graph {
	f := s.f
	g := &graph{order: f.Order(), number: make([]int, f.NumVals()), in: make([][]*edge, f.NumVals()), out: make([][]*edge, f.NumVals())}
	for i := range g.number {
		g.number[i] = -1
	}
	add := func(v core.ValID) {
		if g.number[v] < 0 {
			g.number[v] = len(g.tensors)
			g.tensors = append(g.tensors, v)
		}
	}
	for _, id := range g.order {
		e := f.Expr(id)
		for k, p := range f.TensorArgs(e) {
			add(p)
			for out, c := range e.Out {
				s.addEdge(g, id, k, p, out, c)
			}
		}
		for _, v := range e.Out {
			add(v)
		}
	}
	for _, o := range f.Outputs() {
		add(o.Val)
	}
	return g
}

func (s *Scheduled) addEdge(g *graph, id core.ExprID, k int, p core.ValID, out int, c core.ValID) {
	e := &edge{producer: p, consumer: c, expr: id, pairs: mapAxes(s.f, id, k, out)}
	for _, old := range g.in[c] {
		if old.producer == p && slices.Equal(old.pairs, e.pairs) {
			return
		}
	}
	g.edges = append(g.edges, e)
	g.in[c] = append(g.in[c], e)
	g.out[p] = append(g.out[p], e)
}

// mapAxes returns which logical axis of tensor operand k of an expression runs
// along which root axis of result out. Everything else starts from this.
func mapAxes(f *core.Fusion, id core.ExprID, k, out int) []axisPair {
	e := f.Expr(id)
	producer := f.Axes(f.TensorArgs(e)[k])
	root := f.Val(e.Out[out]).Domain.Root
	var whole []int
	if e.Op.NeedsWhole != nil && k == 0 {
		whole = e.Op.NeedsWhole(f, e)
	}
	var positions []int
	if e.Op.AxisMap != nil {
		positions = e.Op.AxisMap(f, e, k, out)
	}
	var pairs []axisPair
	for i, c := range root {
		at := i
		if positions != nil {
			at = positions[i]
		}
		if at < 0 || at >= len(producer) {
			continue
		}
		needed := slices.Contains(whole, at) && f.Axis(c).Kind != core.Reduce
		pairs = append(pairs, axisPair{producer[at], c, needed})
	}
	return pairs
}

// edited forgets what was derived from the expressions.
func (s *Scheduled) edited() {
	s.grow()
	s.graph, s.verified = nil, nil
}

// moved forgets what was derived from the loop domain of v.
func (s *Scheduled) moved(v core.ValID) {
	if s.graph == nil {
		return
	}
	for _, list := range [][]*edge{s.graph.in[v], s.graph.out[v]} {
		for _, e := range list {
			e.relation = nil
		}
	}
}

// Tensors returns the tensors that the outputs need, each after those that it
// is computed from.
func (s *Scheduled) Tensors() []core.ValID { return s.analysis().tensors }

// siblings returns the results of the expression that defines v.
func (s *Scheduled) siblings(v core.ValID) []core.ValID {
	if d := s.f.Val(v).Def; d != core.NoExpr {
		return s.f.Expr(d).Out
	}
	return nil
}

// history returns all transforms of v: on the way to its logical and its loop
// axes.
func (s *Scheduled) history(v core.ValID) []core.TransformID {
	return s.f.TransformsTo(s.Loop(v), s.f.Val(v).Domain.Logical)
}

// below returns those transforms of v, ascending, whose inputs all come from
// domain.
func (s *Scheduled) below(v core.ValID, domain []core.AxisID) []core.TransformID {
	return below(s.f, s.history(v), domain)
}

func below(f *core.Fusion, transforms []core.TransformID, domain []core.AxisID) []core.TransformID {
	have := slices.Clone(domain)
	var found []core.TransformID
	for _, id := range transforms {
		t := f.Transform(id)
		if containsAll(have, t.Inputs()) {
			have = append(have, t.Results()...)
			found = append(found, id)
		}
	}
	return found
}

// axesOf returns every axis of v: root, logical, loop and those between.
func (s *Scheduled) axesOf(v core.ValID) []core.AxisID {
	d := &s.f.Val(v).Domain
	var axes []core.AxisID
	add := func(list []core.AxisID) {
		for _, a := range list {
			if !slices.Contains(axes, a) {
				axes = append(axes, a)
			}
		}
	}
	add(d.Root)
	for _, id := range s.history(v) {
		add(s.f.Transform(id).Inputs())
		add(s.f.Transform(id).Results())
	}
	add(d.Logical)
	add(s.Loop(v))
	return axes
}

func containsAll(have, want []core.AxisID) bool {
	for _, a := range want {
		if !slices.Contains(have, a) {
			return false
		}
	}
	return true
}
