package segmenter

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// none is no node.
const none = int32(-1)

// maxChain bounds the expressions that are computed again for one reader.
const maxChain = 8

// A node is an expression whose results are computed once.
type node struct {
	expr    core.ExprID
	kind    Kind
	reads   []core.ValID // what is in memory and read, also by what is forwarded to it; each once
	shape   []int64      // what it runs over: sizes other than 1
	space   float64      // their product
	weight  float64      // instructions an element, in additions
	reduces string       // which sizes it reduces, of which shape; "" if it is no reduction
	across  string       // what reduces says of a reduction of the same along all other axes
	kept    float64      // elements that a reduction leaves
	outer   bool         // it reduces outside of others in memory
	plain   bool         // it is elementwise
	apart   []core.ValID // what it reads that its own group does not compute
	sealed  bool         // nothing in its own group reads its results
}

// A value is what is known of a tensor.
type value struct {
	shape   []int64
	bytes   float64
	node    int32 // that computes it, or none: it is an input, has no elements, or is forwarded
	readers int32 // nodes
	inside  int32 // readers in the group that computes it
	output  bool
	empty   bool // and computed by no node
}

// A graph is a fusion as nodes.
type graph struct {
	f      *core.Fusion
	b      *core.Binding
	o      Options
	nodes  []node
	values []value
	chain  []int  // by expression: how many are computed again with it if it is forwarded; else 0
	torch  []bool // by expression: no scheduler takes it alone
	direct []bool // by expression: no scheduler takes it with what is forwarded to it
	again  []bool // by expression: kernels that read its result had better compute it
	copied []bool // by expression that is forwarded: a kernel reads its result from memory
	cut    []bool // by expression: a slice, of which whoever reads it sees the operand's memory
	seen   []bool // by expression: what isView said before there were nodes
	homes  []bool // by expression: an output that its operand is stored as

	taken map[core.ValID]bool // operands of homes, and outputs that may be in place
	order []core.ExprID

	inMemory []bool // by value: something reads it from memory, through views or not

	anchors map[core.ExprID][]core.ValID
}

// newGraph returns the graph of f, of which the schedulers take no expression alone
// that torch marks, nor with what is forwarded to it if direct does. What again marks is
// forwarded.
func newGraph(f *core.Fusion, b *core.Binding, o Options, torch, direct, again []bool) (*graph, error) {
	g := &graph{f: f, b: b, o: o, torch: torch, direct: direct, again: again, order: f.Order(), values: make([]value, f.NumVals()),
		chain: make([]int, f.NumExprs()), copied: make([]bool, f.NumExprs()), cut: make([]bool, f.NumExprs()), seen: make([]bool, f.NumExprs()),
		homes: make([]bool, f.NumExprs()), taken: map[core.ValID]bool{}, anchors: map[core.ExprID][]core.ValID{}}
	for v := range g.values {
		g.values[v].node = none
	}
	for _, v := range f.Inputs() {
		if err := g.describe(v); err != nil {
			return nil, err
		}
	}
	g.findReaders()
	stored := make([]bool, f.NumExprs()) // of those that are forwarded
	for _, o := range f.Outputs() {
		g.values[o.Val].output = true
		g.taken[o.Val] = g.taken[o.Val] || o.Alias != core.NoVal
	}
	for _, id := range g.order {
		e := f.Expr(id)
		empty := true
		for _, v := range e.Out {
			if err := g.describe(v); err != nil {
				return nil, err
			}
			empty = empty && slices.Contains(g.values[v].shape, 0)
		}
		for _, v := range e.Out {
			g.values[v].empty = empty
		}
		if !empty {
			g.forward(id)
			g.cut[id] = e.Op == core.SliceOp && !torch[id] && !g.values[e.Out[0]].output && (o.apart == nil || !o.apart(e.Out[0]))
		}
	}
	g.order = g.live()
	for _, id := range slices.Backward(g.order) {
		e := f.Expr(id)
		if g.chain[id] > 0 && !stored[id] && !g.values[e.Out[0]].output {
			continue
		}
		g.seen[id] = g.isView(id)
		for k, v := range f.TensorArgs(e) {
			if d := f.Val(v).Def; (g.readsDirectly(id, k) || g.seen[id]) && d != core.NoExpr && g.chain[d] > 0 {
				stored[d] = true
				g.copied[d] = g.copied[d] || !g.torch[id] && !g.seen[id] || g.torch[id] && g.wouldCopy(e, v)
			}
		}
	}
	for _, id := range g.order {
		if g.chain[id] == 0 || stored[id] || g.values[f.Expr(id).Out[0]].output {
			if err := g.add(id); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// live returns the expressions that outputs with elements need, in order.
func (g *graph) live() []core.ExprID {
	isLive := make([]bool, g.f.NumExprs())
	for _, id := range slices.Backward(g.order) {
		e := g.f.Expr(id)
		needed := isLive[id] || slices.ContainsFunc(e.Out, func(v core.ValID) bool { return g.values[v].output })
		if isLive[id] = needed && !g.values[e.Out[0]].empty; !isLive[id] {
			continue
		}
		for _, v := range g.f.TensorArgs(e) {
			if d := g.f.Val(v).Def; d != core.NoExpr {
				isLive[d] = true
			}
		}
	}
	return slices.DeleteFunc(g.order, func(id core.ExprID) bool { return !isLive[id] })
}

// describe finds the sizes of v.
func (g *graph) describe(v core.ValID) error {
	x := &g.values[v]
	if !g.f.Val(v).Tensor || x.shape != nil {
		return nil
	}
	sizes, err := g.b.Shape(v)
	if err != nil {
		return err
	}
	x.shape = append([]int64{}, sizes...)
	x.bytes = float64(g.f.Val(v).DType.Bits()) / 8
	for d, a := range g.f.Axes(v) {
		switch g.f.Axis(a).Kind {
		case core.Symbolic:
			return core.InvalidArgumentf("segmenter: %s has a dimension of which it is not known whether it is broadcast: make the fusion concrete first", g.f.Name(v))
		case core.Iter:
			x.bytes *= float64(sizes[d])
		}
	}
	return nil
}

// storesAll reports whether v has an element in memory for each of its own: no dimension of it
// is expanded.
func (g *graph) storesAll(v core.ValID) bool {
	for d, a := range g.f.Axes(v) {
		if g.f.Axis(a).Kind == core.Broadcast && g.values[v].shape[d] != 1 {
			return false
		}
	}
	return true
}

// readsDirectly reports whether tensor operand k of an expression must be in memory: a table
// must be, and where it is read may be computed, as may be what a scatter begins with.
func (g *graph) readsDirectly(id core.ExprID, k int) bool {
	e := g.f.Expr(id)
	if g.torch[id] || g.direct[id] || e.Op.Class != core.Gather {
		return g.torch[id] || g.direct[id]
	}
	x, ok := e.IndexedRead()
	args := g.f.TensorArgs(e)
	switch {
	case e.Op == core.SumPartsOp:
		return true
	case e.Op.Updates():
		return k > 0 || slices.Contains(args[1:], args[0])
	}
	return !ok || args[k] == args[x.Table]
}

// isView reports whether an expression is stored as another view of its operand. Calls
// of torch read one with any strides, and kernels a slice. Of others a kernel computes it
// again, or reads it from memory if it lies there as what is computed does. An output is one
// if the operand is stored there.
func (g *graph) isView(id core.ExprID) bool {
	e := g.f.Expr(id)
	if g.cut[id] || g.homes[id] {
		return true
	}
	return !g.values[e.Out[0]].output && g.chain[id] > 0 && maySee(e.Op) && !g.isOfHost(e) && (!g.copied[id] || g.liesDense(e))
}

// findHome finds out whether the result of e, an output, lies as its operand does, which a
// kernel computes for nobody but the program: the operand is then stored as the output, and
// no kernel need follow loops through e.
func (g *graph) findHome(id core.ExprID) bool {
	e := g.f.Expr(id)
	if v := e.Out[0]; !maySee(e.Op) || !g.values[v].output || g.taken[v] {
		return false
	}
	x := e.Args[0].Tensor
	d := g.f.Val(x).Def
	if d == core.NoExpr || g.torch[d] || g.taken[x] || g.values[x].output || !g.storesAll(x) || !g.storesAll(e.Out[0]) {
		return false
	}
	if op := g.f.Expr(d).Op; g.cut[d] || g.chain[d] > 0 && maySee(op) || !g.liesDense(e) {
		return false
	}
	g.homes[id], g.taken[x] = true, true
	return true
}

// forward decides whether an expression is computed again by those who read it.
func (g *graph) forward(id core.ExprID) {
	f, e := g.f, g.f.Expr(id)
	if g.torch[id] || g.direct[id] || g.o.apart != nil && g.o.apart(e.Out[0]) {
		return
	}
	args := f.TensorArgs(e)
	size, reads := 1, 0
	for _, v := range args {
		d := f.Val(v).Def
		if d == core.NoExpr || g.values[v].empty || g.chain[d] == 0 {
			reads++
			continue
		}
		size += g.chain[d]
		reads += len(g.anchorsOf(d))
	}
	cheap := g.again[id] || g.findHome(id)
	switch e.Op.Class {
	case core.Factory:
		cheap = true
	case core.View:
		cheap = cheap || isStrided(e.Op) || e.Op == core.ReshapeOp && g.inMemory[e.Out[0]] && g.viewed(e) != nil
	case core.Elementwise:
		switch {
		case e.Op == core.SegmentSetOp:
			cheap = f.Val(args[0]).Input // which no kernel computes
		case e.Op == core.CastOp && widens(f, args[0], e.Out[0]):
			cheap = true
		default:
			cheap = cheap || reads == 0
		}
	}
	if cheap && size <= maxChain {
		g.chain[id] = size
	}
}

// widens reports whether w takes more memory than v, which it is cast from.
func widens(f *core.Fusion, v, w core.ValID) bool {
	t, u := f.Val(v).DType, f.Val(w).DType
	return t.Bits() < u.Bits() && !u.IsComplex()
}

// anchorsOf returns what is in memory and read to compute the forwarded expression id.
func (g *graph) anchorsOf(id core.ExprID) []core.ValID {
	if known, ok := g.anchors[id]; ok {
		return known
	}
	known := g.operands(id, false)
	g.anchors[id] = known
	return known
}

// operands returns what is in memory and read to compute the expression id.
func (g *graph) operands(id core.ExprID, directly bool) []core.ValID {
	var reads []core.ValID
	add := func(v core.ValID) {
		if !slices.Contains(reads, v) {
			reads = append(reads, v)
		}
	}
	for k, v := range g.f.TensorArgs(g.f.Expr(id)) {
		d := g.f.Val(v).Def
		if directly || g.readsDirectly(id, k) || d == core.NoExpr || g.values[v].empty || g.chain[d] == 0 {
			add(v)
			continue
		}
		for _, u := range g.anchorsOf(d) {
			add(u)
		}
	}
	return reads
}

// add makes a node of the expression id.
func (g *graph) add(id core.ExprID) error {
	e := g.f.Expr(id)
	n := node{expr: id, weight: g.weight(id), plain: e.Op.Class == core.Elementwise}
	switch {
	case g.torch[id]:
		n.kind = TorchCall
	case g.seen[id]:
		n.kind = View
	}
	n.reads = g.operands(id, n.kind != Kernel)
	for k, v := range g.f.TensorArgs(e) {
		if g.readsDirectly(id, k) && !slices.Contains(n.apart, v) {
			n.apart = append(n.apart, v)
		}
	}
	if e.Op.Class == core.Resize {
		n.apart = n.reads
	}
	n.sealed = e.Op == core.SegmentSetOp || e.Op.Updates() || e.Op.SumsListed() || g.o.apart != nil && g.o.apart(e.Out[0])
	for _, v := range n.reads {
		g.values[v].readers++
	}
	if err := g.measure(&n); err != nil {
		return err
	}
	for _, v := range e.Out {
		g.values[v].node = int32(len(g.nodes))
	}
	g.nodes = append(g.nodes, n)
	return nil
}

// measure finds what n runs over.
func (g *graph) measure(n *node) error {
	e := g.f.Expr(n.expr)
	sizes := g.values[e.Out[0]].shape
	n.space, n.kept = 1, 1
	if e.Op.Class == core.Reduction {
		n.reduces, n.across = "reduces", "reduces"
		at := 0
		in := g.values[g.f.TensorArgs(e)[0]].shape
		for _, a := range g.f.Val(e.Out[0]).Domain.Logical {
			size := int64(1)
			if at < len(in) {
				size = in[at]
			}
			at++
			switch {
			case size == 1:
			case g.f.Axis(a).Kind == core.Reduce:
				n.reduces, n.across = n.reduces+fmt.Sprint(" ", size), n.across+fmt.Sprint(" kept ", size)
			default:
				n.reduces, n.across = n.reduces+fmt.Sprint(" kept ", size), n.across+fmt.Sprint(" ", size)
				n.kept *= float64(size)
			}
		}
		sizes = in
		n.outer = g.isOuter(n, in)
	}
	for _, size := range sizes {
		if size != 1 {
			n.shape = append(n.shape, size)
			n.space *= float64(size)
		}
	}
	return nil
}

// isOuter reports whether the reduction n, of a tensor of the given sizes, keeps the
// dimension along which neighbours lie in memory, if what it reads lies as the tensor would.
func (g *graph) isOuter(n *node, sizes []int64) bool {
	var order []int // of the dimensions with more than one element, the outermost first
	for d, size := range sizes {
		if size != 1 {
			order = append(order, d)
		}
	}
	for _, v := range n.reads {
		at := g.place(v)
		if at == nil || len(at.Strides) != len(sizes) || !slices.Equal(g.values[v].shape, sizes) {
			continue
		}
		rank := func(d int) int64 { // what is expanded is one element in memory
			if at.Strides[d] == 0 {
				return math.MaxInt64
			}
			return at.Strides[d]
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(b), rank(a)) })
		break
	}
	axes := g.f.Val(g.f.Expr(n.expr).Out[0]).Domain.Logical
	if len(order) == 0 {
		return false
	}
	inner := order[len(order)-1]
	return inner < len(axes) && g.f.Axis(axes[inner]).Kind != core.Reduce
}

// weight returns the instructions for an element of the expression id and of what is
// forwarded to it, in additions.
func (g *graph) weight(id core.ExprID) float64 {
	e := g.f.Expr(id)
	w := scheduler.Weight(e.Op)
	for _, v := range g.f.TensorArgs(e) {
		if d := g.f.Val(v).Def; d != core.NoExpr && g.chain[d] > 0 && !g.values[v].empty {
			w += g.weight(d)
		}
	}
	return w
}

// triesAlone reports whether it is plain that some scheduler takes an expression of
// such an operation alone; others are asked about.
func triesAlone(op *core.OpInfo) bool {
	return scheduler.Maps(op.Class) && op != core.EmbeddingFwdOp && !op.Updates() && !op.SumsListed() || op.Class == core.Reduction && core.MergeOp(op) != nil
}
