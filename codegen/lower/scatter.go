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

// each emits body for the numbers below n, in a loop unless there is one.
func (l *lowering) each(n index, body func(i index) error) (err error) {
	if n == l.t.Int(1) {
		return body(l.t.Int(0))
	}
	l.b.For(l.name("j"), l.t.Int(0), n, l.t.Int(1), kir.UnrollAuto, func(i index) { err = body(i) })
	return err
}
