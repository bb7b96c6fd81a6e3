package passes

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// castPastView lets a view be one of the narrower type, where a cast that
// nothing else reads comes before it or after it: the same number of
// operations on fewer bytes.
func castPastView(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	switch {
	case keepsElements(e.Op):
		cast := r.Def(args[0].Tensor)
		if cast == nil || cast.Op != core.CastOp || r.Uses(args[0].Tensor) != 1 {
			return nil, nil
		}
		from := r.To.Val(cast.Args[0].Tensor).DType
		if from.Size() >= r.To.Val(args[0].Tensor).DType.Size() {
			return nil, nil
		}
		return inTurn(r, e.Op, withOperand(args, cast.Args[0].Tensor), core.CastOp, cast.Args)
	case e.Op == core.CastOp:
		view := r.Def(args[0].Tensor)
		if view == nil || !keepsElements(view.Op) || r.Uses(args[0].Tensor) != 1 {
			return nil, nil
		}
		if args[1].DType().Size() >= r.To.Val(args[0].Tensor).DType.Size() {
			return nil, nil
		}
		return inTurn(r, core.CastOp, withOperand(args, view.Args[0].Tensor), view.Op, view.Args)
	}
	return nil, nil
}

// keepsElements reports whether op gives the elements of its operand other
// dimensions, each once. stride_order stays where it is.
func keepsElements(op *core.OpInfo) bool {
	return op == core.PermuteOp || op == core.ReshapeOp || op == core.SqueezeOp
}

// withOperand returns args with another first one.
func withOperand(args []core.Arg, v core.ValID) []core.Arg {
	return append([]core.Arg{core.TensorOf(v)}, args[1:]...)
}

// inTurn appends two operations, the second on the result of the first.
func inTurn(r *core.Rewriting, op *core.OpInfo, args []core.Arg, then *core.OpInfo, thenArgs []core.Arg) ([]core.ValID, error) {
	first, err := r.To.Append(op, args)
	if err != nil {
		return nil, err
	}
	return r.To.Append(then, withOperand(thenArgs, first[0]))
}

// consecutiveCasts leaves out casts to a type that has all values of the one
// before, and casts to the type of the operand.
func consecutiveCasts(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if e.Op != core.CastOp {
		return nil, nil
	}
	v, to := args[0].Tensor, args[1].DType()
	for {
		cast := r.Def(v)
		if cast == nil || cast.Op != core.CastOp {
			break
		}
		u := cast.Args[0].Tensor
		if !needless(r.To.Val(u).DType, r.To.Val(v).DType, to) {
			break
		}
		v = u
	}
	switch {
	case r.To.Val(v).DType == to:
		return []core.ValID{v}, nil
	case v == args[0].Tensor:
		return nil, nil
	}
	return r.To.Append(core.CastOp, withOperand(args, v))
}

// needless reports whether a cast from one type to another and on to a third
// gives what the cast from the first to the third gives, for all values.
func needless(from, through, to dtype.Type) bool {
	switch {
	case !holds(through, from):
		return false
	case from.IsInt() && !through.IsInt():
		// The value is the same, but a negative one becomes another unsigned
		// integer from a floating type than from a signed one.
		return to.Class() != dtype.ClassUInt
	}
	return true
}

// holds reports whether each value of type b is one of type a.
func holds(a, b dtype.Type) bool {
	if a == b {
		return true
	}
	if parts, ok := partType(a); ok { // complex
		if from, ok := partType(b); ok {
			b = from
		}
		return holds(parts, b)
	}
	switch b {
	case dtype.Bool:
		return a.IsInt() || a.IsFloat() && a != dtype.Float8E8M0FNU
	case dtype.Int32:
		return a == dtype.Int || a == dtype.Index || a == dtype.Double
	case dtype.Int, dtype.Index:
		return a == dtype.Int || a == dtype.Index
	case dtype.Float8E4M3FN, dtype.Float8E5M2:
		return a == dtype.Half || a == dtype.BFloat16 || a == dtype.Float || a == dtype.Double
	case dtype.Float8E8M0FNU:
		return a == dtype.BFloat16 || a == dtype.Float || a == dtype.Double
	case dtype.Half, dtype.BFloat16:
		return a == dtype.Float || a == dtype.Double
	case dtype.Float:
		return a == dtype.Double
	}
	return false
}

// partType is the type of the parts of complex numbers of type t.
func partType(t dtype.Type) (dtype.Type, bool) {
	switch t {
	case dtype.ComplexFloat:
		return dtype.Float, true
	case dtype.ComplexDouble:
		return dtype.Double, true
	}
	return t, false
}
