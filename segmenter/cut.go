package segmenter

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// Options of [Cut].
type Options struct {
	// Inputs says where the inputs of the fusion lie, one for each; nil: without gaps, at
	// addresses of the widest alignment.
	Inputs []scheduler.Placement
	// Order returns the dimensions of a tensor that is computed and stored from the
	// outermost in memory to the innermost, nil for their own order. Nil: that of its
	// allocation domain.
	Order func(v core.ValID) []int
	// Refused returns why a segment that is asked for as key, which a scheduler takes, is no kernel
	// all the same: whoever lowered it found out. Nil: none is.
	Refused func(key string) []core.Refusal
	// Log, if set, is told why expressions are not in one segment, or computed by torch.
	Log func(line string)
	// Known returns what is known of a fusion, for whoever asks about it next; text has its
	// text form. Nil: nothing.
	Known func(f *core.Fusion, text string) *scheduler.Known

	inputs map[core.ValID]int
	apart  func(v core.ValID) bool // for tests: v is stored, and read by other segments
}

// place returns where v lies if that was said.
func (o *Options) place(v core.ValID) *scheduler.Placement {
	if i, ok := o.inputs[v]; ok && i < len(o.Inputs) {
		return &o.Inputs[i]
	}
	return nil
}

// Cut returns segments that compute f, which is frozen and concrete, for the sizes of b,
// a binding of it, on device.
//
// Errors: InvalidArgument for axes that are not concrete and for scalars that are neither
// inputs nor sizes of inputs; Unsupported, with what each scheduler says, for an
// expression that none takes and that torch does not compute either.
func Cut(f *core.Fusion, b *core.Binding, device scheduler.Device, o Options) (*Program, error) {
	o.inputs = map[core.ValID]int{}
	for i, v := range f.Inputs() {
		o.inputs[v] = i
	}
	n := f.NumExprs()
	c := &cutter{program: &Program{Fusion: f}, b: b, torch: make([]bool, n), direct: make([]bool, n), again: make([]bool, n), doubtful: make([]bool, n), refused: map[core.ExprID][]core.Refusal{}}
	c.judge = &judge{device: device, o: o, work: &c.program.Work, verdicts: map[string]verdict{}}
	if err := c.sortOut(); err != nil {
		return nil, err
	}
	for {
		c.program.Work.Rounds++
		parts, again, err := c.round()
		if err != nil {
			return nil, err
		}
		if !again {
			return c.program, c.arrange(parts)
		}
	}
}

// A cutter makes a program.
type cutter struct {
	program *Program
	b       *core.Binding
	g       *graph
	judge   *judge
	torch   []bool // as of graph
	direct  []bool
	again   []bool
	// doubtful are those of groups that were refused after they had been joined: the
	// schedulers are asked each time that one of them is joined to something.
	doubtful []bool
	refused  map[core.ExprID][]core.Refusal
}

// sortOut asks about each expression of an operation of which it is not plain that a
// scheduler takes it.
func (c *cutter) sortOut() error {
	f := c.program.Fusion
	all := make([]bool, f.NumExprs())
	var asked []core.ExprID
	for _, id := range f.Order() {
		if !triesAlone(f.Expr(id).Op) {
			all[id] = true // nothing is forwarded to it
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	g, err := newGraph(f, c.b, c.judge.o, all, c.direct, c.again)
	if err != nil {
		return err
	}
	for _, id := range asked {
		at := g.values[f.Expr(id).Out[0]].node
		if at == none {
			continue
		}
		if err := c.ask(g, at); err != nil {
			return err
		}
	}
	return nil
}

// ask marks the expression of node i if no scheduler takes that alone: as one whose operands
// must be in memory, if there are some that were computed with it, else as one for torch.
func (c *cutter) ask(g *graph, i int32) error {
	x, err := g.extract([]int32{i}, nil)
	if err != nil {
		return err
	}
	v, err := c.judge.verdict(g, x)
	if err != nil || v.scheduler != "" {
		return err
	}
	id := g.nodes[i].expr
	if len(x.exprs) > 1 {
		c.direct[id] = true
		c.judge.logf(g, v, x, "%s reads from memory what could be computed with it", func() string { return g.named([]int32{i}) })
		return nil
	}
	c.refused[id], c.torch[id] = x.named(g, v.refusals), true
	c.judge.logf(g, v, x, "%s is for torch", func() string { return g.named([]int32{i}) })
	if e := g.f.Expr(id); e.Op.Torch == "" || e.Op.Class == core.Random {
		return &core.Unsupported{What: "no scheduler takes " + e.Called.Name + "(), and torch does not compute it", Refusals: c.refused[id]}
	}
	return nil
}

// A verified is nodes that are a segment.
type verified struct {
	nodes     []int32
	scheduler string
	refusals  []core.Refusal
	part      *part
	asked     *scheduler.Segment
}

// round makes groups, and reports whether that must be done again because there are
// expressions more that no scheduler takes, alone or joined as they were, or that are
// better computed by all who read them.
func (c *cutter) round() ([]verified, bool, error) {
	var err error
	if c.g, err = newGraph(c.program.Fusion, c.b, c.judge.o, c.torch, c.direct, c.again); err != nil {
		return nil, false, err
	}
	p := &partition{graph: c.g, work: &c.program.Work, of: make([]int32, len(c.g.nodes)), recent: map[core.ValID][]int32{}, judge: c.judge, doubtful: c.doubtful}
	for i := range c.g.nodes {
		if err := p.arrive(int32(i)); err != nil {
			return nil, false, err
		}
	}
	if err := p.beside(); err != nil {
		return nil, false, err
	}
	var parts []verified
	again := false
	for _, g := range p.groups {
		if p.find(g.id) != g {
			continue
		}
		some, refused, err := c.verify(g.nodes)
		if err != nil {
			return nil, false, err
		}
		parts, again = append(parts, some...), again || refused
	}
	return parts, again || c.recompute(parts), nil
}

// verify asks about nodes, and about halves of them if they are refused and were asked
// about whenever one joined the others. It reports whether groups must be made again.
func (c *cutter) verify(nodes []int32) (parts []verified, refused bool, err error) {
	n := &c.g.nodes[nodes[0]]
	if n.kind != Kernel {
		return []verified{{nodes: nodes, refusals: c.refused[n.expr]}}, false, nil
	}
	x, err := c.g.extract(nodes, nil)
	if err != nil {
		return nil, false, err
	}
	c.program.Work.Extracted += len(x.exprs)
	v, err := c.judge.verdict(c.g, x)
	switch {
	case err != nil:
		return nil, false, err
	case v.scheduler != "":
		return []verified{{nodes, v.scheduler, x.named(c.g, v.refusals), x, v.asked}}, false, nil
	case len(nodes) == 1:
		return nil, true, c.ask(c.g, nodes[0])
	}
	isKnown := true
	for _, i := range nodes {
		isKnown = isKnown && c.doubtful[c.g.nodes[i].expr]
		c.doubtful[c.g.nodes[i].expr] = true
	}
	if !isKnown {
		return nil, true, nil
	}
	half := len(nodes) / 2
	c.judge.logf(c.g, v, x, "%s is halved", func() string { return c.g.named(nodes) })
	for _, some := range [][]int32{nodes[:half], nodes[half:]} {
		more, isRefused, err := c.verify(some)
		if err != nil {
			return nil, false, err
		}
		parts, refused = append(parts, more...), refused || isRefused
	}
	return parts, refused, nil
}

func sorted(nodes []int32) []int32 {
	slices.Sort(nodes)
	return nodes
}
