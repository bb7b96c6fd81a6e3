package lower

import (
	"math"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// load returns the element of tensor operand k of e that the statement reads.
func (c *context) load(e *core.Expr, k int) (kir.ValueID, error) { return c.loadAt(c.operand(e, k)) }

func (c *context) loadAt(o operand) (kir.ValueID, error) {
	x := c.f.Val(o.v)
	if x.Domain.CPU {
		return c.hostScalar(kir.HostValue{Tensor: o.v, Scalar: scalar.None, Stride: -1}, x.DType, c.f.Name(o.v)), nil
	}
	at, err := c.read(o)
	if err != nil {
		return 0, err
	}
	v := c.b.Value(kir.Value{Kind: kir.Load, DType: c.b.Kernel().Buffers[at.Buffer].DType, Access: at})
	return c.b.Cast(c.s.ElementType(o.v), v), nil
}

// value returns the element of the result of e that the statement computes.
func (c *context) value(id core.ExprID) (kir.ValueID, error) {
	e := c.f.Expr(id)
	switch {
	case e.Op == core.ReshapeOp:
		return c.reshape(e)
	case e.Op.Class == core.View || e.Op == core.SliceOp || e.Op == core.SetOp || e.Op == core.SegmentSetOp:
		return c.load(e, 0)
	case e.Op == core.CastOp:
		v, err := c.load(e, 0)
		return c.b.Cast(c.f.Val(e.Out[0]).DType, v), err
	case c.comparesPositions(e):
		return c.comparePosition(e)
	case e.Op.Class == core.Elementwise:
		return c.elementwise(id)
	case e.Op == core.FullOp:
		return c.number(e.Args[1].Scalar, e.Args[2].DType()), nil
	case e.Op == core.IotaOp:
		return c.iota(e)
	case e.Op.Class == core.Random:
		return c.random(e)
	}
	return 0, c.refuse("operation", e.Out[0], "%s is the result of %s(), which this build does not compute in a kernel", c.f.Name(e.Out[0]), e.Op.Name)
}

// isUnread reports whether id makes positions that are read as indices alone.
func (l *lowering) isUnread(id core.ExprID) bool {
	v := l.f.Expr(id).Out[0]
	return l.f.Expr(id).Op == core.IotaOp && !l.isOutput(v) && len(l.readers[v]) > 0 &&
		!slices.ContainsFunc(l.readers[v], func(r core.ExprID) bool { return !l.comparesPositions(l.f.Expr(r)) })
}

// comparesPositions reports whether e is a comparison of positions, 0, 1, 2, ... or some of
// these, with a size: that of an index, which vectors have once.
func (l *lowering) comparesPositions(e *core.Expr) bool {
	if e.Op != core.LtOp && e.Op != core.GeOp || e.Args[0].Kind != core.TensorArg || e.Args[1].Kind != core.ScalarArg {
		return false
	}
	d, t := l.f.Val(e.Args[0].Tensor).Def, l.f.Scalars()
	if d == core.NoExpr || l.f.Expr(d).Op != core.IotaOp {
		return false
	}
	iota := l.f.Expr(d)
	isSmall := func(s scalar.ID) bool {
		n, isConst := t.ConstInt(s)
		return isConst && 0 <= n && n <= math.MaxInt32
	}
	step, isConst := t.ConstInt(iota.Args[2].Scalar)
	return iota.Args[3].DType() == dtype.Int && isConst && step == 1 && isSmall(iota.Args[1].Scalar) &&
		(isSmall(e.Args[1].Scalar) || t.Type(e.Args[1].Scalar) == dtype.Index)
}

func (c *context) comparePosition(e *core.Expr) (kir.ValueID, error) {
	at, err := c.rowMajor()
	if err != nil {
		return 0, err
	}
	iota := c.f.Expr(c.f.Val(e.Args[0].Tensor).Def)
	below := c.conditions([]test{{c.t.Add(at, c.bound(iota.Args[1].Scalar)), c.bound(e.Args[1].Scalar)}})[0]
	if e.Op == core.GeOp {
		below = c.t.Not(below)
	}
	return c.b.Index(dtype.Bool, below), nil
}

// elementwise applies the row to operands of its compute type.
func (c *context) elementwise(id core.ExprID) (kir.ValueID, error) {
	e := c.f.Expr(id)
	args := make([]kir.ValueID, 0, len(e.Args))
	types := make([]dtype.Type, len(e.Args))
	compute, k := dtype.Null, 0
	for i, a := range e.Args {
		if a.Kind == core.TensorArg {
			if types[i] = c.f.Val(a.Tensor).DType; i >= e.Op.Promote.Skip {
				compute = types[i]
			}
		}
	}
	if compute == dtype.Null { // of where with two scalars
		compute = c.f.Val(e.Out[0]).DType
	}
	for i, a := range e.Args {
		switch a.Kind {
		case core.TensorArg:
			v, err := c.load(e, k)
			if err != nil {
				return 0, err
			}
			args = append(args, v)
			k++
		case core.ScalarArg:
			t := compute
			if i < e.Op.Promote.Skip {
				t = dtype.Bool
			}
			args = append(args, c.number(a.Scalar, t))
		}
	}
	if c.approximate[id] {
		return c.b.Approximately(e.Op, args...), nil
	}
	return c.b.Op(e.Op, args...), nil
}

// rowMajor returns the row-major position of the element that the statement
// computes in its tensor.
func (c *context) rowMajor() (index, error) {
	v := c.tensor.v
	axes := c.f.Axes(v)
	coords, ok := c.indices(c.start, axes, c.tensor.resizes)
	if !ok {
		return 0, c.refuse("index", v, "the loops of %s do not lead to its dimensions", c.f.Name(v))
	}
	at := c.t.Int(0)
	for i, a := range axes {
		at = c.t.Add(c.t.Mul(at, c.size(c.f.Size(a))), coords[i])
	}
	return at, nil
}

// iota returns start + i*step: for floating types in double precision.
func (c *context) iota(e *core.Expr) (kir.ValueID, error) {
	at, err := c.rowMajor()
	if err != nil {
		return 0, err
	}
	t := e.Args[3].DType()
	compute := t
	if t.IsFloat() {
		compute = dtype.Double
	}
	i := c.b.Index(compute, at)
	product := c.b.Op(core.MulOp, i, c.number(e.Args[2].Scalar, compute))
	return c.b.Cast(t, c.b.Op(core.AddOp, c.number(e.Args[1].Scalar, compute), product)), nil
}

// random draws the number at the element's position.
func (c *context) random(e *core.Expr) (kir.ValueID, error) {
	at, err := c.rowMajor()
	if err != nil {
		return 0, err
	}
	v := kir.Value{Kind: kir.Random, DType: e.Args[5].DType(), Op: e.Op, Index: at, Stream: e.Stream,
		Args: []kir.ValueID{c.number(e.Args[0].Scalar, dtype.Double), c.number(e.Args[1].Scalar, dtype.Double)}}
	if e.Args[3].Kind != core.NoArg {
		v.Stream, v.Seed, v.Offset = -1, c.number(e.Args[3].Scalar, dtype.Int), c.number(e.Args[4].Scalar, dtype.Int)
	} else {
		c.arguments.needsRandom(c.b)
	}
	return c.b.Value(v), nil
}

// storedType is the type of the elements of the buffer of v.
func (l *lowering) storedType(v core.ValID) dtype.Type {
	if l.tensors[v].reduces {
		return accumulator(l.s.ElementType(v))
	}
	return l.s.ElementType(v)
}

// accumulator is the type that a thread folds elements of type t in.
func accumulator(t dtype.Type) dtype.Type {
	if t.IsReducedFloat() {
		return dtype.Float
	}
	return t
}
