package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// pad emits the element of the operand where there is one, else the value. The
// access is made only where it is an element, and nothing is where that is one
// that loops beyond those of the operand would store.
func (c *context) pad(e *core.Expr, dst kir.Access) error {
	d := &c.f.Val(e.Out[0]).Domain
	root, ok := c.indices(c.start, d.Root, c.tensor.resizes)
	if !ok {
		return c.refuse("index", e.Out[0], "the loops of %s do not lead to the dimensions of what it pads", c.f.Name(e.Out[0]))
	}
	var inside []scalar.ID
	for k, a := range d.Root {
		if d.Root[k] != d.Logical[k] {
			inside = append(inside, c.conditions([]test{{root[k], scalar.None}, {root[k], c.extent(a)}})...)
		}
	}
	value := func() error {
		c.assign(dst, c.number(e.Args[2].Scalar, c.f.Val(e.Out[0]).DType))
		return nil
	}
	stored := slices.DeleteFunc(c.conditions(c.storedTests()), func(x scalar.ID) bool { return slices.Contains(inside, x) })
	return c.choose(c.all(inside), func() error {
		return c.conditional(c.all(stored), func() error { return c.copyOperand(e, 0, dst) })
	}, value)
}

func (c *context) copyOperand(e *core.Expr, k int, dst kir.Access) error {
	v, err := c.load(e, k)
	if err == nil {
		c.assign(dst, v)
	}
	return err
}

// choose emits one of two sides.
func (l *lowering) choose(cond scalar.ID, then, otherwise func() error) error {
	if n, ok := l.t.ConstInt(cond); ok {
		if n != 0 {
			return then()
		}
		return otherwise()
	}
	var err, err2 error
	l.b.If(cond, func() { err = then() }, func() { err2 = otherwise() })
	if err != nil {
		return err
	}
	return err2
}

// cat emits the element of the operand that the position along the joined
// dimension falls in.
func (c *context) cat(e *core.Expr, dst kir.Access) error {
	dim := int(e.Args[1].Int)
	v := e.Out[0]
	at, ok := c.indices(c.start, []core.AxisID{c.f.Val(v).Domain.Root[dim]}, c.tensor.resizes)
	if !ok {
		return c.refuse("index", v, "the loops of %s do not lead to its dimension %d", c.f.Name(v), dim)
	}
	return c.piece(e, dst, dim, 0, at[0])
}

// piece emits operand k and those after it; at is the position from the start of
// operand k.
func (c *context) piece(e *core.Expr, dst kir.Access, dim, k int, at index) error {
	operands := e.Args[0].Tensors
	read := func() error {
		o := c.operand(e, k)
		o.at[dim] = at
		v, err := c.loadAt(o)
		if err == nil {
			c.assign(dst, v)
		}
		return err
	}
	if k == len(operands)-1 {
		return read()
	}
	n := c.size(c.f.Shape(operands[k])[dim])
	return c.choose(c.t.Lt(at, n), read, func() error { return c.piece(e, dst, dim, k+1, c.t.Sub(at, n)) })
}

// reshape reads the element at the same row-major position. Axes that transforms
// connect are found by these; between the others, of which only the products
// are known to be equal, the position is computed.
func (c *context) reshape(e *core.Expr) (kir.ValueID, error) {
	o := c.operand(e, 0)
	whole := e.Op.NeedsWhole(c.f, e)
	if len(whole) == 0 {
		return c.loadAt(o)
	}
	v := e.Out[0]
	d := &c.f.Val(v).Domain
	var free []core.AxisID // logical axes that are not made from root axes
	for _, a := range d.Logical {
		if c.f.Axis(a).Def == core.NoTransform && !slices.Contains(d.Root, a) && !c.isBroadcast(a) {
			free = append(free, a)
		}
	}
	values, ok := c.indices(c.start, free, c.tensor.resizes)
	if !ok {
		return 0, c.refuse("index", v, "the loops of %s do not lead to its dimensions", c.f.Name(v))
	}
	position := c.t.Int(0)
	for i, a := range free {
		position = c.t.Add(c.t.Mul(position, c.extent(a)), values[i])
	}
	axes := c.f.Axes(o.v)
	for i := len(whole) - 1; i >= 0; i-- {
		n := c.size(c.f.Size(axes[whole[i]]))
		o.at[whole[i]] = c.t.Mod(position, n)
		if i == 0 {
			o.at[whole[i]] = position
		}
		position = c.t.FloorDiv(position, n)
	}
	return c.loadAt(o)
}

// gather reads an operand at a position along one dimension that is a value. One
// that is no position of the dimension reads 0.
func (c *context) gather(e *core.Expr, dst kir.Access) error {
	switch e.Op {
	case core.ScatterOp:
		return c.scatter(e, dst)
	case core.SumSlicesOp, core.SumPartsOp:
		return c.sumListed(e, []kir.Access{dst}, func(int) (kir.ValueID, error) { return c.load(e, 0) }, func(o operand) ([]kir.Access, error) {
			src, err := c.read(o)
			return []kir.Access{src}, err
		})
	}
	return c.lookup(e, dst, c.read)
}

// lookup emits a move to dst of what e looks up, at the access that source returns for an
// operand at its position, or of zeros where that is none. The range is tested on the value
// as it is, before it becomes an index. From global memory to registers that is one
// instruction, and the address is computed in any case, so that several are under way at once.
func (c *context) lookup(e *core.Expr, dst kir.Access, source func(operand) (kir.Access, error)) error {
	k, ok := e.IndexedRead()
	switch {
	case !ok && e.Op == core.EmbeddingFwdOp:
		return c.refuse("operation", e.Out[0], "%s is the result of embedding_fwd() with max_norm, which this build does not compute in a kernel", c.f.Name(e.Out[0]))
	case !ok:
		return c.refuse("operation", e.Out[0], "%s is the result of %s(), which this build does not compute in a kernel", c.f.Name(e.Out[0]), e.Op.Name)
	}
	o := c.operand(e, k.Table)
	if e.Op == core.GatherOp {
		if err := c.prefixes(e, &o, k.Dim); err != nil {
			return err
		}
	}
	if k.Index < 0 {
		o.at[k.Dim] = c.size(e.Args[1].Scalar)
		src, err := source(o)
		if err == nil {
			c.moveLooked(e, dst, src)
		}
		return err
	}
	position, err := c.load(e, k.Index)
	if err != nil {
		return err
	}
	b, n := c.b, c.size(c.f.Shape(o.v)[k.Dim])
	position = c.temporary("position", b.Cast(dtype.Int, position)) // it is loaded once
	isInside := b.Op(core.LogicalAndOp, b.Op(core.GeOp, position, b.Number(dtype.Int, 0)), b.Op(core.LtOp, position, b.Index(dtype.Int, n)))
	inside := b.Let(c.name("inside"), isInside, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1})
	to, from := &b.Kernel().Buffers[dst.Buffer], &b.Kernel().Buffers[c.buffers[o.v]]
	if to.Space == kir.Local && from.Space == kir.Global && to.DType == from.DType {
		o.at[k.Dim] = c.position(b.Op(core.WhereOp, isInside, position, b.Number(dtype.Int, 0)), n)
		src, err := source(o)
		if err == nil {
			b.Add(kir.Move{Dst: dst, Src: src, Cache: c.plainCacheOf(e.Out[0]), Guarded: true, Guard: inside})
		}
		return err
	}
	return c.choose(inside, func() error {
		o.at[k.Dim] = c.position(position, n)
		src, err := source(o)
		if err == nil {
			c.moveLooked(e, dst, src)
		}
		return err
	}, func() error {
		c.assign(dst, b.Const(core.ConvertScalar(c.f.Val(e.Out[0]).DType, scalar.Value{Type: dtype.Int})))
		return nil
	})
}

// moveLooked emits the move of what e looks up.
func (c *context) moveLooked(e *core.Expr, dst, src kir.Access) {
	if src.Width > 1 {
		c.moveVector(e.Out[0], dst, src, nil, false)
		return
	}
	t := c.f.Val(e.Out[0]).DType
	c.assign(dst, c.b.Cast(t, c.loadFrom(src)))
}

// prefixes gives the dimensions of which a gather covers a part their index.
func (c *context) prefixes(e *core.Expr, o *operand, dim int) error {
	root := c.f.Val(e.Out[0]).Domain.Root
	for i, a := range o.axis {
		if a != core.NoAxis || i == dim {
			continue
		}
		at, ok := c.indices(c.start, []core.AxisID{root[i]}, c.tensor.resizes)
		if !ok {
			return c.refuse("index", e.Out[0], "the loops of %s do not lead to its dimension %d", c.f.Name(e.Out[0]), i)
		}
		o.at[i] = at[0]
	}
	return nil
}

// position names a value that is known to be an index below n.
func (l *lowering) position(v kir.ValueID, n index) index {
	if n == l.t.Int(1) {
		return l.t.Int(0)
	}
	at := l.b.Let(l.name("at"), v, below(l.t.Facts(n)))
	l.below[at] = n
	return at
}
