package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// scatter emits an element of the result from its own side: it is that of src
// at the last place of its line, along the dimension, whose index is this
// element's position, or else that of arg. No thread writes what another one
// writes too, so that of several writes to one place the last holds in any
// order of threads, and nothing is exchanged; the price is that each element
// looks at its whole line of index.
func (c *context) scatter(e *core.Expr, dst kir.Access) error {
	b, dim, v := c.b, int(e.Args[3].Int), e.Out[0]
	where := c.operand(e, 1)
	if err := c.prefixes(e, &where, dim); err != nil {
		return err
	}
	here, ok := c.indices(c.start, []core.AxisID{c.f.Val(v).Domain.Root[dim]}, c.tensor.resizes)
	if !ok {
		return c.refuse("index", v, "the loops of %s do not lead to its dimension %d", c.f.Name(v), dim)
	}
	covered := c.t.Bool(true) // index has elements beside this one
	length := index(scalar.None)
	for i, n := range c.f.Shape(where.v) {
		if at, ok := where.at[i]; ok {
			covered = c.t.And(covered, c.t.Lt(at, c.size(n)))
		} else if i == dim {
			length = c.size(n)
		}
	}
	last := b.Local(c.name("last"), dtype.Int)
	b.Store(b.Number(dtype.Int, -1), last)
	look := func(j index) (err error) {
		where.at[dim] = j
		position, err := c.loadAt(where)
		if err == nil {
			is := b.Op(core.EqOp, b.Cast(dtype.Int, position), b.Index(dtype.Int, here[0]))
			b.Store(b.Op(core.WhereOp, is, b.Index(dtype.Int, j), b.Load(last)), last)
		}
		return err
	}
	if err := c.conditional(covered, func() error { return c.each(length, look) }); err != nil {
		return err
	}
	found := b.Let(c.name("found"), b.Op(core.GeOp, b.Load(last), b.Number(dtype.Int, 0)), scalar.Facts{Lo: 0, Hi: 1, Divisor: 1})
	return c.choose(found, func() error {
		if src := e.Args[2]; src.Kind == core.ScalarArg {
			c.assign(dst, c.number(src.Scalar, c.f.Val(v).DType))
			return nil
		}
		src := c.operand(e, 2)
		if err := c.prefixes(e, &src, dim); err != nil {
			return err
		}
		src.at[dim] = c.position(b.Load(last), length)
		x, err := c.loadAt(src)
		if err == nil {
			c.assign(dst, x)
		}
		return err
	}, func() error { return c.copyOperand(e, 0, dst) })
}

// sumSlices emits elements of the result that are next to each other, dsts: those of the first
// operand, and the elements of slices at their place, one after the other, in the order that
// says which slices there are. Places and numbers that there are none of are left out, as
// nothing is known of them. first loads the elements of the first operand, and source returns
// the access to those of the operand that has slices.
func (c *context) sumSlices(e *core.Expr, dsts []kir.Access, first func(i int) (kir.ValueID, error), source func(operand) (kir.Access, error)) error {
	b, v := c.b, e.Out[0]
	here, ok := c.indices(c.start, []core.AxisID{c.f.Val(v).Domain.Root[0]}, c.tensor.resizes)
	if !ok {
		return c.refuse("index", v, "the loops of %s do not lead to its first dimension", c.f.Name(v))
	}
	order, value := c.operand(e, 1), c.operand(e, 3)
	count := c.size(c.f.Shape(order.v)[0])
	from, err := c.placeAmong(e, here[0], count)
	if err != nil {
		return err
	}
	to, err := c.placeAmong(e, c.t.Add(here[0], c.t.Int(1)), count)
	if err != nil {
		return err
	}
	t, width := c.f.Val(v).DType, len(dsts)
	wide := t
	if t.IsFloat() && t.Size() < dtype.Float.Size() {
		wide = dtype.Float
	}
	sums := b.Local(c.name("sum"), wide, int64(width))
	lane := func(i int) index { return c.t.Int(int64(i)) }
	for i := range width {
		x, err := first(i)
		if err != nil {
			return err
		}
		b.Store(b.Cast(wide, x), sums, lane(i))
	}
	b.For(c.name("j"), from, to, c.t.Int(1), kir.UnrollAuto, func(j index) {
		order.at[0] = j
		var number kir.ValueID
		if number, err = c.loadAt(order); err != nil {
			return
		}
		number = c.temporary("number", b.Cast(dtype.Int, number))
		is := b.Op(core.LogicalAndOp, b.Op(core.GeOp, number, b.Number(dtype.Int, 0)), b.Op(core.LtOp, number, b.Index(dtype.Int, count)))
		err = c.choose(b.Let(c.name("is"), is, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1}), func() error {
			value.at[0] = c.position(number, count)
			src, err := source(value)
			if err != nil {
				return err
			}
			slice := b.Local(c.name("slice"), b.Kernel().Buffers[src.Buffer].DType, int64(width))
			b.Add(kir.Move{Dst: b.Vector(width, slice, lane(0)), Src: src})
			for i := range width {
				b.Store(b.Op(core.AddOp, b.Load(sums, lane(i)), b.Cast(wide, b.Load(slice, lane(i)))), sums, lane(i))
			}
			return nil
		}, func() error { return nil })
	})
	if err != nil {
		return err
	}
	for i, dst := range dsts {
		c.assign(dst, b.Cast(t, b.Load(sums, lane(i))))
	}
	return nil
}

// placeAmong returns what operand 2 of e has at a place, from 0 to count.
func (c *context) placeAmong(e *core.Expr, at, count index) (index, error) {
	b, begin := c.b, c.operand(e, 2)
	begin.at[0] = at
	x, err := c.loadAt(begin)
	if err != nil {
		return at, err
	}
	x = b.Op(core.MinimumOp, b.Op(core.MaximumOp, b.Cast(dtype.Int, x), b.Number(dtype.Int, 0)), b.Index(dtype.Int, count))
	return c.position(c.temporary("place", x), c.t.Add(count, c.t.Int(1))), nil
}

// each emits body for the numbers below n, in a loop unless there is one.
func (l *lowering) each(n index, body func(i index) error) (err error) {
	if n == l.t.Int(1) {
		return body(l.t.Int(0))
	}
	l.b.For(l.name("j"), l.t.Int(0), n, l.t.Int(1), kir.UnrollAuto, func(i index) { err = body(i) })
	return err
}
