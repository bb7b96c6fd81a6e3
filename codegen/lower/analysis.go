package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// An Analysis is what passes know of a schedule. It is immutable.
type Analysis struct {
	m           *schedule.Mapping
	s           *schedule.Scheduled
	f           *core.Fusion
	graph       *graph
	alias       map[core.ValID]core.ValID // output -> the input whose memory it gets
	overwritten map[core.ValID]core.ValID // the other way round
	tensors     map[core.ValID]*tensor
	readers     map[core.ValID][]core.ExprID
	pipelines   map[core.AxisID]*pipeline // by loop class
	circular    map[core.ValID]*pipeline  // of tensors with circular buffers
	omitted     rule
	cooperative bool                // blocks may wait for each other
	zero        []core.AxisID       // almost-exact classes of broadcasts
	blocks      []schedule.Parallel // dimensions of the grid that some loop has
	approximate map[core.ExprID]bool
}

// A tensor is what is derived for one tensor.
type tensor struct {
	v       core.ValID
	loop    []core.AxisID
	reduces bool // some root axis is reduced
	handSet bool // its loops are made from its root axes
	// history is what made its promoted loops, and of hand-set loops also what
	// made its own, as relations: where a path looks first.
	history []int
	resizes []int // relations between its root and logical axes
	mine    map[core.AxisID]bool
	storage storage
}

// analyse computes the Analysis of m.
func analyse(m *schedule.Mapping, o Options) *Analysis {
	a := &Analysis{m: m, omitted: o.omitted, cooperative: o.Cooperative, s: m.Scheduled(), f: m.Fusion(), tensors: map[core.ValID]*tensor{}, readers: map[core.ValID][]core.ExprID{}, pipelines: map[core.AxisID]*pipeline{}, circular: map[core.ValID]*pipeline{}}
	if !o.Exact {
		a.approximate = a.f.Approximable()
	}
	a.findAliases()
	a.graph = newGraph(m)
	seen := map[core.AxisID]bool{}
	for _, v := range a.s.Tensors() {
		t := a.tensor(v)
		a.tensors[v] = t
		for _, x := range t.loop {
			if p := a.parallel(x); p.IsBlock() && !slices.Contains(a.blocks, p) {
				a.blocks = append(a.blocks, p)
			}
		}
		for _, x := range a.axes(v) {
			if c := m.AlmostExact(x); a.isBroadcast(x) && !seen[c] {
				seen[c] = true
				a.zero = append(a.zero, c)
			}
		}
	}
	a.cooperative = a.cooperative && !a.reducesBlocks()
	for _, id := range a.f.Order() {
		for _, v := range a.f.TensorArgs(a.f.Expr(id)) {
			if list := a.readers[v]; len(list) == 0 || list[len(list)-1] != id {
				a.readers[v] = append(list, id)
			}
		}
	}
	return a
}

func (a *Analysis) tensor(v core.ValID) *tensor {
	d := &a.f.Val(v).Domain
	t := &tensor{v: v, mine: map[core.AxisID]bool{}}
	if !a.f.Val(v).Input {
		t.loop = a.s.Loop(v)
	}
	for _, x := range d.Root {
		t.reduces = t.reduces || a.f.Axis(x).Kind == core.Reduce
	}
	t.handSet = a.isHandSet(v)
	promoted := make([]core.AxisID, len(t.loop))
	for i, x := range t.loop {
		promoted[i] = a.m.Promotion(x)
	}
	history := a.f.TransformsTo(promoted)
	if t.handSet {
		history = append(history, a.history(v)...)
	}
	t.history = a.graph.relations(history)
	t.resizes = slices.DeleteFunc(a.graph.relations(a.f.TransformsTo(d.Logical)), func(r int) bool { return !a.graph.relation[r].moves })
	for _, x := range a.axes(v) {
		t.mine[a.m.AlmostExact(x)] = true
	}
	t.storage = a.storageOf(v)
	return t
}

// byTicket reports whether blocks along p combine what they have in the last of
// them. Those of a cluster send it to each other.
func byTicket(p schedule.Parallel) bool { return p.IsBlock() && p != schedule.Cluster }

// reducesBlocks reports whether some tensor is reduced across blocks. The fences
// of that must not be taken for what orders other accesses of the blocks.
func (a *Analysis) reducesBlocks() bool {
	for _, t := range a.tensors {
		if slices.ContainsFunc(t.loop, func(x core.AxisID) bool { return a.isReduced(x) && byTicket(a.parallel(x)) }) {
			return true
		}
	}
	return false
}

func (a *Analysis) isBroadcast(x core.AxisID) bool { return a.f.Axis(x).Kind == core.Broadcast }
func (a *Analysis) isReduced(x core.AxisID) bool   { return a.f.Axis(x).Kind == core.Reduce }

// isCut reports whether x is one element of an axis.
func (a *Analysis) isCut(x core.AxisID) bool {
	d := a.f.Axis(x).Def
	return a.isBroadcast(x) && d != core.NoTransform && a.f.Transform(d).Kind == core.ResizeAxis && !a.isBroadcast(a.f.Transform(d).In[0])
}

// isOne reports whether x has one index.
func (a *Analysis) isOne(x core.AxisID) bool {
	n, ok := a.f.Scalars().ConstInt(a.f.Axis(x).Extent)
	return ok && n == 1
}

// parallel returns how the loop of x runs. One of a single iteration runs in
// every thread instead of in the first.
func (a *Analysis) parallel(x core.AxisID) schedule.Parallel {
	if a.isOne(a.m.Promotion(x)) {
		return schedule.Serial
	}
	return a.m.Parallel(x)
}

// isSpread reports whether the iterations of the loop of x are in different
// threads or blocks.
func (a *Analysis) isSpread(x core.AxisID) bool {
	p := a.parallel(x)
	return p.IsBlock() || p.IsThread()
}

// history returns the transforms of v.
func (a *Analysis) history(v core.ValID) []core.TransformID {
	d := &a.f.Val(v).Domain
	return a.f.TransformsTo(d.Logical, a.s.Loop(v))
}

// axes returns the root, logical and loop axes of v and those between.
func (a *Analysis) axes(v core.ValID) []core.AxisID {
	d := &a.f.Val(v).Domain
	list := slices.Concat(d.Root, d.Logical, a.s.Loop(v))
	for _, id := range a.history(v) {
		t := a.f.Transform(id)
		list = append(append(list, t.Inputs()...), t.Results()...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// isHandSet reports whether some loop axis of v is made from its root axes
// without passing its logical ones.
func (a *Analysis) isHandSet(v core.ValID) bool {
	logical := a.f.Val(v).Domain.Logical
	have := map[core.AxisID]bool{}
	for _, x := range logical {
		have[x] = true
	}
	for _, id := range a.history(v) {
		t := a.f.Transform(id)
		if !slices.ContainsFunc(t.Inputs(), func(x core.AxisID) bool { return !have[x] }) {
			for _, x := range t.Results() {
				have[x] = true
			}
		}
	}
	return slices.ContainsFunc(a.s.Loop(v), func(x core.AxisID) bool { return !have[x] })
}

// isOutput reports whether v is an output of the fusion.
func (a *Analysis) isOutput(v core.ValID) bool {
	return slices.ContainsFunc(a.f.Outputs(), func(o core.Output) bool { return o.Val == v })
}
