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

// A listed sum emits elements of the result of e that are next to each other, dsts, as sums of
// elements at their places of slices that an order lists. Places and numbers that there are none
// of are left out, as nothing is known of them.
type listedSum struct {
	*context
	e     *core.Expr
	dsts  []kir.Access
	first func(i int) (kir.ValueID, error) // loads what the sum of an element begins with
	// sources returns the accesses to the elements of an operand, which are next to each other.
	sources func(o operand) ([]kir.Access, error)

	count index // of slices
	sums  kir.BufferID
}

// sumListed emits the sums of _sum_slices() or _sum_parts().
func (c *context) sumListed(e *core.Expr, dsts []kir.Access, first func(i int) (kir.ValueID, error), sources func(operand) ([]kir.Access, error)) error {
	v := e.Out[0]
	here, ok := c.indices(c.start, []core.AxisID{c.f.Val(v).Domain.Root[0]}, c.tensor.resizes)
	if !ok {
		return c.refuse("index", v, "the loops of %s do not lead to its first dimension", c.f.Name(v))
	}
	t := c.f.Val(v).DType
	wide := t
	if t.IsFloat() && t.Size() < dtype.Float.Size() {
		wide = dtype.Float
	}
	y := &listedSum{context: c, e: e, dsts: dsts, first: first, sources: sources,
		count: c.size(c.f.Shape(c.f.TensorArgs(e)[1])[0]), sums: c.b.Local(c.name("sum"), wide, int64(len(dsts)))}
	if err := y.begin(wide); err != nil {
		return err
	}
	sum := y.slices
	if e.Op == core.SumPartsOp {
		sum = y.part
	}
	if err := sum(here[0]); err != nil {
		return err
	}
	for i, dst := range dsts {
		c.assign(dst, c.b.Cast(t, c.b.Load(y.sums, y.lane(i))))
	}
	return nil
}

func (y *listedSum) lane(i int) index { return y.t.Int(int64(i)) }

// How many slices are read before the first of them is added: of lists, most of which are short,
// few, as their registers cost threads, and of parts many.
const fewAbreast, manyAbreast = 2, 8

// begin stores what the sums begin with, of the type that they are in.
func (y *listedSum) begin(wide dtype.Type) error {
	for i := range y.dsts {
		x := y.b.Number(wide, 0)
		if y.e.Op != core.SumPartsOp {
			var err error
			if x, err = y.first(i); err != nil {
				return err
			}
		}
		y.b.Store(y.b.Cast(wide, x), y.sums, y.lane(i))
	}
	return nil
}

// slices adds to the sums for a place of the result: first, one after the other, the slices that
// are in no whole part, then the parts.
func (y *listedSum) slices(at index) error {
	t, some := y.t, y.t.Int(core.PlacesOfPart)
	from, err := y.placeAmong(at)
	if err != nil {
		return err
	}
	to, err := y.placeAmong(t.Add(at, t.Int(1)))
	if err != nil {
		return err
	}
	begin := t.Min(t.Mul(t.CeilDiv(from, some), some), to) // of whole parts, if any
	end := t.Max(t.Mul(t.FloorDiv(to, some), some), begin)
	begin, end = y.place(y.b.Index(dtype.Int, begin)), y.place(y.b.Index(dtype.Int, end))
	err = y.listed(from, y.place(y.b.Index(dtype.Int, t.Sub(to, t.Sub(end, begin)))), 3, fewAbreast, func(j index) index {
		return t.Select(t.Lt(j, begin), j, t.Add(j, t.Sub(end, begin)))
	})
	if err != nil {
		return err
	}
	parts := y.operand(y.e, 4)
	y.b.For(y.name("j"), t.FloorDiv(begin, some), t.FloorDiv(end, some), t.Int(1), kir.UnrollNone, func(j index) {
		parts.at[0] = j
		var part kir.BufferID
		if part, err = y.read(parts, t.Bool(true)); err == nil {
			y.add(part)
		}
	})
	return err
}

// part adds the slices of part at, if the first and the last one have one position.
func (y *listedSum) part(at index) error {
	t, b, some := y.t, y.b, y.t.Int(core.PlacesOfPart)
	from := t.Mul(at, some)
	var numbers [2]kir.ValueID
	var are [2]index
	order, of := y.operand(y.e, 1), y.operand(y.e, 0)
	for i := range numbers {
		order.at[0] = t.Add(from, t.Int(int64(i)*(core.PlacesOfPart-1)))
		var err error
		if numbers[i], are[i], err = y.number(order); err != nil {
			return err
		}
	}
	return y.conditional(t.And(are[0], are[1]), func() error {
		var positions [2]kir.ValueID
		for i := range positions {
			of.at[0] = y.position(numbers[i], y.count)
			x, err := y.loadAt(of)
			if err != nil {
				return err
			}
			positions[i] = y.temporary("position", b.Cast(dtype.Int, x))
		}
		size := y.size(y.e.Args[3].Scalar)
		is := b.Op(core.LogicalAndOp, b.Op(core.EqOp, positions[0], positions[1]),
			b.Op(core.LogicalAndOp, b.Op(core.GeOp, positions[0], b.Number(dtype.Int, 0)), b.Op(core.LtOp, positions[0], b.Index(dtype.Int, size))))
		return y.conditional(b.Let(y.name("together"), is, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1}), func() error {
			return y.listed(from, t.Add(from, some), 2, manyAbreast, func(j index) index { return j })
		})
	})
}

// number loads what order has, a number of a slice, and tells whether there is such a slice.
func (y *listedSum) number(order operand) (number kir.ValueID, is index, err error) {
	b := y.b
	if number, err = y.loadAt(order); err != nil {
		return number, is, err
	}
	number = y.temporary("number", b.Cast(dtype.Int, number))
	isSome := b.Op(core.LogicalAndOp, b.Op(core.GeOp, number, b.Number(dtype.Int, 0)), b.Op(core.LtOp, number, b.Index(dtype.Int, y.count)))
	return number, b.Let(y.name("is"), isSome, scalar.Facts{Lo: 0, Hi: 1, Divisor: 1}), nil
}

// listed adds slices of operand k: those whose numbers are in the order where place says, for
// each j from one to before another. So many are read abreast before the first of them is added.
func (y *listedSum) listed(from, to index, k, abreast int, place func(j index) index) (err error) {
	b, t := y.b, y.t
	order, value := y.operand(y.e, 1), y.operand(y.e, k)
	n, isConst := t.ConstInt(t.Sub(to, from))
	isWhole := isConst && n%int64(abreast) == 0
	b.For(y.name("j"), from, to, y.lane(abreast), kir.UnrollNone, func(j index) {
		numbers, before, are, slices := make([]kir.ValueID, abreast), make([]index, abreast), make([]index, abreast), make([]kir.BufferID, abreast)
		for i := range are {
			at := t.Add(j, y.lane(i))
			if before[i] = t.Bool(true); !isWhole && i > 0 { // beyond the end the last one is looked at again
				at, before[i] = t.Min(at, t.Sub(to, t.Int(1))), t.Lt(at, to)
			}
			order.at[0] = place(at)
			if numbers[i], are[i], err = y.number(order); err != nil {
				return
			}
			are[i] = t.And(before[i], are[i])
		}
		for i, number := range numbers {
			value.at[0] = y.position(b.Op(core.WhereOp, b.Index(dtype.Bool, are[i]), number, b.Number(dtype.Int, 0)), y.count)
			if slices[i], err = y.read(value, are[i]); err != nil {
				return
			}
		}
		for i, slice := range slices {
			if err = y.conditional(before[i], func() error { y.add(slice); return nil }); err != nil {
				return
			}
		}
	})
	return err
}

// read reads the elements of a slice to registers, or zeros where there is none.
func (y *listedSum) read(slice operand, is index) (kir.BufferID, error) {
	b, width := y.b, len(y.dsts)
	srcs, err := y.sources(slice)
	if err != nil {
		return 0, err
	}
	from := b.Kernel().Buffers[srcs[0].Buffer]
	elements, each := b.Local(y.name("slice"), from.DType, int64(width)), width
	for !y.isAligned(&srcs[0], each) && each > 1 {
		each /= 2
	}
	for i := 0; i < width; i += each {
		srcs[i].Width = each
		m := kir.Move{Dst: b.Vector(each, elements, y.lane(i)), Src: srcs[i]}
		n, isConst := y.t.ConstInt(is)
		switch {
		case isConst && n == 1:
			b.Add(m)
		case from.Space == kir.Global:
			m.Guarded, m.Guard = true, is
			b.Add(m)
		default:
			for k := i; k < i+each; k++ {
				b.Store(b.Number(from.DType, 0), elements, y.lane(k))
			}
			b.If(is, func() { b.Add(m) }, nil)
		}
	}
	return elements, nil
}

// add adds the elements of a slice in registers.
func (y *listedSum) add(slice kir.BufferID) {
	b := y.b
	wide := b.Kernel().Buffers[y.sums].DType
	for i := range y.dsts {
		b.Store(b.Op(core.AddOp, b.Load(y.sums, y.lane(i)), b.Cast(wide, b.Load(slice, y.lane(i)))), y.sums, y.lane(i))
	}
}

// placeAmong returns what operand 2 has at a place, from 0 to the number of slices.
func (y *listedSum) placeAmong(at index) (index, error) {
	b, begin := y.b, y.operand(y.e, 2)
	begin.at[0] = at
	x, err := y.loadAt(begin)
	if err != nil {
		return at, err
	}
	x = b.Op(core.MinimumOp, b.Op(core.MaximumOp, b.Cast(dtype.Int, x), b.Number(dtype.Int, 0)), b.Index(dtype.Int, y.count))
	return y.place(y.temporary("place", x)), nil
}

// place returns an index that is x, from 0 to the number of slices.
func (y *listedSum) place(x kir.ValueID) index {
	return y.position(x, y.t.Add(y.count, y.t.Int(1)))
}

// each emits body for the numbers below n, in a loop unless there is one.
func (l *lowering) each(n index, body func(i index) error) (err error) {
	if n == l.t.Int(1) {
		return body(l.t.Int(0))
	}
	l.b.For(l.name("j"), l.t.Int(0), n, l.t.Int(1), kir.UnrollAuto, func(i index) { err = body(i) })
	return err
}
