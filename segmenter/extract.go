package segmenter

import (
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A part is nodes with a fusion of their own.
type part struct {
	fusion *core.Fusion
	inputs []Source
	writes []core.ValID
	exprs  []core.ExprID
	draw   int
	values []core.InputValue         // of the inputs
	vals   map[core.ValID]core.ValID // by tensor of the whole fusion
	draws  []int                     // the streams of random expressions, if they are not 0, 1, 2, ...

	text string // the key, if told is the fusion
	told *core.Fusion
}

// An extraction copies expressions of a graph to a new fusion.
type extraction struct {
	g       *graph
	f       *core.Fusion // the new one
	vals    map[core.ValID]core.ValID
	scalars map[scalar.ID]scalar.ID
	part    *part
	exprs   []core.ExprID
	seen    map[core.ExprID]bool
	direct  map[core.ValID]bool // read from memory, also if it could be forwarded
	isNode  map[core.ExprID]bool
	alone   bool // what it computes is no kernel
}

// extract returns nodes as a part that writes what others read, with inPlace as aliases.
func (g *graph) extract(nodes []int32, inPlace map[core.ValID]core.ValID) (*part, error) {
	x := &extraction{g: g, f: core.NewFusion(), vals: map[core.ValID]core.ValID{}, scalars: map[scalar.ID]scalar.ID{},
		part: &part{}, seen: map[core.ExprID]bool{}, direct: map[core.ValID]bool{}, isNode: map[core.ExprID]bool{}}
	x.part.fusion = x.f
	readers := map[core.ValID]int32{}
	for _, i := range nodes {
		n := &g.nodes[i]
		x.isNode[n.expr] = true
		x.alone = n.kind != Kernel
		for _, v := range n.reads {
			readers[v]++
		}
		for k, v := range g.f.TensorArgs(g.f.Expr(n.expr)) {
			x.direct[v] = x.direct[v] || n.kind != Kernel || g.readsDirectly(n.expr, k)
		}
	}
	for _, i := range nodes {
		if id := g.nodes[i].expr; !x.seen[id] {
			x.visit(id)
		}
	}
	if err := x.defineInputs(inPlace, nodes); err != nil {
		return nil, err
	}
	for _, id := range x.exprs {
		if err := x.copy(id); err != nil {
			return nil, err
		}
	}
	for _, i := range nodes {
		for _, v := range g.f.Expr(g.nodes[i].expr).Out {
			if u := &g.values[v]; !u.output && u.readers == readers[v] {
				continue
			}
			alias := core.NoVal
			if a, ok := inPlace[v]; ok {
				alias = x.vals[a]
			}
			if err := x.f.AddOutput(x.vals[v], alias); err != nil {
				return nil, err
			}
			x.part.writes = append(x.part.writes, v)
		}
	}
	if len(nodes) == len(g.nodes) && len(x.seen) == len(x.exprs) { // nothing is computed twice: it is the whole
		x.f.NameAs(g.f, x.vals)
	}
	x.f.Freeze()
	x.part.exprs, x.part.vals = x.exprs, x.vals
	x.setStreams()
	return x.part, nil
}

// visit appends the expression id after those that are computed with it. Of one made from
// positions alone each that is forwarded gets its own copy: what reads positions along two
// dimensions, such as a mask of a triangle, has no common loop for them.
func (x *extraction) visit(id core.ExprID) {
	x.seen[id] = true
	g := x.g
	for k, v := range g.f.TensorArgs(g.f.Expr(id)) {
		d := g.f.Val(v).Def
		if d == core.NoExpr || g.values[v].empty {
			continue
		}
		isForwarded := g.chain[d] > 0 && !x.direct[v] && !x.alone && !g.readsDirectly(id, k)
		again := isForwarded && !x.isNode[id] && !x.isNode[d] && len(g.anchorsOf(d)) == 0
		if (isForwarded || x.isNode[d]) && (again || !x.seen[d]) {
			x.visit(d)
		}
	}
	x.exprs = append(x.exprs, id)
}

// defineInputs makes inputs of what is read and not computed, and of what is written to.
func (x *extraction) defineInputs(inPlace map[core.ValID]core.ValID, nodes []int32) error {
	for _, id := range x.exprs {
		for _, v := range x.g.f.TensorArgs(x.g.f.Expr(id)) {
			if d := x.g.f.Val(v).Def; d != core.NoExpr && x.seen[d] {
				continue
			}
			if err := x.defineInput(v); err != nil {
				return err
			}
		}
	}
	for _, i := range nodes {
		for _, v := range x.g.f.Expr(x.g.nodes[i].expr).Out {
			if a, ok := inPlace[v]; ok {
				if err := x.defineInput(a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (x *extraction) defineInput(v core.ValID) error {
	if _, ok := x.vals[v]; ok {
		return nil
	}
	f := x.g.f
	w, err := x.f.DefineTensor(x.g.description(v))
	if err != nil {
		return err
	}
	x.vals[v] = w
	x.part.inputs = append(x.part.inputs, Source{Val: v, Scalar: scalar.None})
	x.part.values = append(x.part.values, core.InputValue{Tensor: true, DType: f.Val(v).DType, Sizes: x.g.values[v].shape})
	for d, s := range f.Shape(v) {
		if _, isConst := f.Scalars().ConstValue(s); isConst {
			continue
		}
		if _, known := x.scalars[s]; !known {
			x.scalars[s] = x.f.Shape(w)[d]
		}
	}
	return nil
}

// description returns what a segment knows of v: an input of the fusion as that says it, else
// memory without gaps.
func (g *graph) description(v core.ValID) core.TensorDescription {
	f, x := g.f, g.f.Val(v)
	if x.Input {
		return f.Describe(v)
	}
	if g.isPart(v) {
		return g.describeView(v)
	}
	d := core.TensorDescription{DType: x.DType}
	axes := f.Axes(v)
	for _, a := range axes {
		n, isConst := f.Scalars().ConstInt(f.Size(a))
		if !isConst {
			n = -1
		}
		d.Shape = append(d.Shape, n)
	}
	order := axes
	if k := g.memoryOrder(v); k != nil {
		order = make([]core.AxisID, len(axes))
		d.StrideOrder = make([]int64, len(axes))
		for at, dim := range k {
			order[at] = axes[dim]
			d.StrideOrder[dim] = int64(len(axes) - 1 - at)
		}
	}
	for _, a := range order {
		c := core.Yes
		if f.Axis(a).Kind == core.Broadcast || d.Shape[slices.Index(axes, a)] == 1 {
			c = core.NotApplicable
		}
		d.Contiguity = append(d.Contiguity, c)
	}
	return d
}

// memoryOrder returns the dimensions of v, which is computed, from the outermost in
// memory to the innermost; nil: in their own order.
func (g *graph) memoryOrder(v core.ValID) []int {
	if g.o.Order != nil {
		return g.o.Order(v)
	}
	return g.f.DeclaredOrder(v)
}

// copy appends the expression id, with operands of the new fusion.
func (x *extraction) copy(id core.ExprID) error {
	e := *x.g.f.Expr(id)
	args := slices.Clone(e.Args)
	for i := range args {
		if err := x.argument(&args[i]); err != nil {
			return err
		}
	}
	if e.Op == core.PadOp {
		x.padTo(e.Out[0], args)
	}
	x.f.SetLocation(e.Where)
	out, err := x.f.Append(e.Op, args)
	if err != nil {
		return fmt.Errorf("segmenter: %s(), copied to a segment: %w", e.Op.Name, err)
	}
	for k, v := range e.Out {
		x.vals[v] = out[k]
	}
	x.f.Expr(x.f.Val(out[0]).Def).Called = e.Called
	return nil
}

// padTo has a pad end where its result v does in the whole fusion, if that has a constant size there. Widths may be
// sizes of another tensor, of which nobody knows here that it has as many elements: 1 + m - n elements would be no broadcast
// where n + 1 - n are one.
func (x *extraction) padTo(v core.ValID, args []core.Arg) {
	t := x.f.Scalars()
	sizes, widths := x.f.Shape(args[0].Tensor), args[1].Scalars
	for d, s := range x.g.f.Shape(v) {
		k := 2 * (len(sizes) - 1 - d)
		n, isConst := x.g.f.Scalars().ConstInt(s)
		if _, isKnown := t.ConstInt(sizes[d]); isConst && !isKnown {
			widths[k+1] = t.Sub(t.Sub(t.Int(n), widths[k]), sizes[d])
		}
	}
}

func (x *extraction) argument(a *core.Arg) (err error) {
	switch a.Kind {
	case core.TensorArg:
		a.Tensor = x.vals[a.Tensor]
	case core.TensorsArg:
		a.Tensors = slices.Clone(a.Tensors)
		for k, v := range a.Tensors {
			a.Tensors[k] = x.vals[v]
		}
	case core.ScalarArg:
		a.Scalar, err = x.scalar(a.Scalar)
	case core.ScalarsArg:
		a.Scalars = slices.Clone(a.Scalars)
		for k, s := range a.Scalars {
			if a.Scalars[k], err = x.scalar(s); err != nil {
				return err
			}
		}
	}
	return err
}

// scalar returns the scalar s of the whole fusion in the new one: what is a size of an
// input of that is not computed again.
func (x *extraction) scalar(s scalar.ID) (scalar.ID, error) {
	if r, ok := x.scalars[s]; ok {
		return r, nil
	}
	from, to := x.g.f.Scalars(), x.f.Scalars()
	var r scalar.ID
	switch op, t := from.Op(s), from.Type(s); op {
	case scalar.Const:
		v, _ := from.ConstValue(s)
		r = to.Value(v)
	case scalar.Symbol:
		declared := from.Declared(s)
		if declared == s {
			v, err := x.pass(s)
			if err != nil {
				return r, err
			}
			r = v
			break
		}
		v, err := x.scalar(declared)
		if err != nil {
			return r, err
		}
		r = v
		if t == dtype.Index {
			r = to.AsIndex(v)
		}
	default:
		args := slices.Clone(from.Args(s))
		for k, a := range args {
			v, err := x.scalar(a)
			if err != nil {
				return r, err
			}
			args[k] = v
		}
		r = to.Apply(op, t, args...)
	}
	x.scalars[s] = r
	return r, nil
}

// pass makes an input of a symbol of the whole fusion.
func (x *extraction) pass(s scalar.ID) (scalar.ID, error) {
	f := x.g.f
	tag := f.Scalars().Tag(s)
	if _, ok := x.g.o.inputs[core.ValID(tag.Val)]; !ok {
		return s, core.InvalidArgumentf("segmenter: the scalar %s cannot be derived: it is neither an input of the fusion nor a size of one", f.Scalars().String(s))
	}
	value, err := x.g.b.Value(s)
	if err != nil {
		return s, err
	}
	v, err := x.f.DefineScalar(f.Scalars().Type(s))
	if err != nil {
		return s, err
	}
	if tag.Dim < 0 {
		x.vals[core.ValID(tag.Val)] = v
	}
	x.part.inputs = append(x.part.inputs, Source{Val: core.NoVal, Scalar: s})
	x.part.values = append(x.part.values, core.InputValue{Scalar: value})
	return x.f.Val(v).Scalar, nil
}

// setStreams gives random expressions the distances of their places in the whole fusion.
func (x *extraction) setStreams() {
	streams := map[core.ValID]int{} // by result in the new fusion
	first := -1
	for _, id := range x.exprs {
		if e := x.g.f.Expr(id); e.Op.Class == core.Random {
			streams[x.vals[e.Out[0]]] = e.Stream
			if first < 0 || e.Stream < first {
				first = e.Stream
			}
		}
	}
	if first < 0 {
		return
	}
	x.part.draw = first
	isPlain := true
	for k, id := range x.randoms() {
		e := x.f.Expr(id)
		e.Stream = streams[e.Out[0]] - first
		isPlain = isPlain && e.Stream == k
		x.part.draws = append(x.part.draws, e.Stream)
	}
	if isPlain {
		x.part.draws = nil
	}
}

// randoms returns the random expressions of the new fusion, in order.
func (x *extraction) randoms() []core.ExprID {
	var all []core.ExprID
	for _, id := range x.f.Order() {
		if x.f.Expr(id).Op.Class == core.Random {
			all = append(all, id)
		}
	}
	return all
}

// key returns a text that is equal for parts which one kernel computes, given sizes.
func (p *part) key() string {
	if p.told != p.fusion {
		p.told, p.text = p.fusion, p.fusion.String()
		if p.draws != nil {
			p.text += strings.Trim(fmt.Sprintln("# random numbers of places", p.draws), "\n") + "\n"
		}
	}
	return p.text
}
