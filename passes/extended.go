package passes

import (
	"math"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// pad returns v with elements added at the ends of dimensions, as core.PadOp has it.
func (s *sinking) pad(v core.ValID, widths []scalar.ID, value scalar.ID) core.ValID {
	v, widths = s.cutEnds(v, widths)
	f := s.r.To
	if s.err != nil || allZero(f, widths) {
		return v
	}
	number, isConst := f.Scalars().ConstValue(value)
	if e := s.def(v); e != nil && isConst && keepsPlaces(e) {
		t := f.Val(v).DType
		if u := s.padOf(e, widths, value, number); u != core.NoVal || s.err != nil {
			return u
		}
		if u := s.extended(v, widths); u != core.NoVal && !s.isPadOf(u, v) {
			inside := s.inside(f.Shape(v), widths)
			return s.cast(s.apply(core.WhereOp, core.TensorOf(inside), core.TensorOf(u), core.ScalarOf(f.Scalars().Value(core.ConvertScalar(t, number)))), t)
		}
	}
	return s.append(core.PadOp, core.TensorOf(v), core.ScalarsOf(widths...), core.ScalarOf(value))
}

// isPadOf reports whether u is a pad of v.
func (s *sinking) isPadOf(u, v core.ValID) bool {
	e := s.r.Def(u)
	return e != nil && e.Op == core.PadOp && e.Args[0].Tensor == v
}

// cutEnds returns the part of v that negative widths leave, and the other widths.
func (s *sinking) cutEnds(v core.ValID, widths []scalar.ID) (core.ValID, []scalar.ID) {
	f, t := s.r.To, s.r.To.Scalars()
	widths = slices.Clone(widths)
	start, end := make([]scalar.ID, f.Rank(v)), f.Shape(v)
	for d := range start {
		start[d] = t.Int(0)
		k := 2 * (len(start) - 1 - d)
		n, ok := s.numbers(widths[k], widths[k+1], end[d])
		if !ok || n[0] >= 0 && n[1] >= 0 {
			continue
		}
		from, to := max(-n[0], 0), n[2]+min(n[1], 0)
		if from >= to {
			continue // what is left is of what the pad adds
		}
		start[d], end[d] = t.Int(from), t.Int(to)
		widths[k], widths[k+1] = t.Int(max(n[0], 0)), t.Int(max(n[1], 0))
	}
	return s.slice(v, start, end), widths
}

// padOf returns e of padded operands where that gives what is added the value, else NoVal.
func (s *sinking) padOf(e *core.Expr, widths []scalar.ID, value scalar.ID, number scalar.Value) core.ValID {
	f := s.r.To
	switch e.Op {
	case core.CastOp:
		if number.I != 0 || math.Float64bits(number.Re) != 0 || math.Float64bits(number.Im) != 0 {
			return core.NoVal
		}
		u := e.Args[0].Tensor
		return s.append(e.Op, core.TensorOf(s.pad(u, widths, zero(f, f.Val(u).DType).Scalar)), e.Args[1])
	case core.BroadcastOp, core.PermuteOp, core.SqueezeOp:
		return s.widened(e, widths, false, func(u core.ValID, own []scalar.ID) core.ValID { return s.pad(u, own, value) })
	}
	return core.NoVal
}

// widened returns e, which keeps places, of widened operands, or NoVal if a dimension that
// it brings is widened. With spread, one element stands for all that are added too.
func (s *sinking) widened(e *core.Expr, widths []scalar.ID, spread bool, of func(u core.ValID, widths []scalar.ID) core.ValID) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	start, end := make([]scalar.ID, f.Rank(e.Out[0])), f.Shape(e.Out[0])
	for d := range start {
		k := 2 * (len(start) - 1 - d)
		start[d], end[d] = t.Neg(widths[k]), t.Add(end[d], widths[k+1])
	}
	return s.part(e, func(u core.ValID, axis []int) core.ValID {
		own := make([]scalar.ID, 2*len(axis))
		for d, k := range axis {
			at := 2 * (len(axis) - 1 - d)
			if own[at], own[at+1] = t.Int(0), t.Int(0); k >= 0 && !(spread && s.isOne(u, d)) {
				from := 2 * (len(start) - 1 - k)
				own[at], own[at+1] = widths[from], widths[from+1]
			}
		}
		return of(u, own)
	}, start, end)
}

// extended returns v with elements of no matter which value added, or NoVal.
func (s *sinking) extended(v core.ValID, widths []scalar.ID) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	if s.err != nil || allZero(f, widths) {
		return v
	}
	if e := s.def(v); e != nil {
		var u core.ValID = core.NoVal
		switch {
		case e.Op == core.PadOp:
			sum := make([]scalar.ID, len(widths))
			for k := range widths {
				sum[k] = t.Add(widths[k], e.Args[1].Scalars[k])
				if n, ok := t.ConstInt(e.Args[1].Scalars[k]); !ok || n < 0 {
					return core.NoVal
				}
			}
			u = s.append(e.Op, e.Args[0], core.ScalarsOf(sum...), e.Args[2])
		case e.Op == core.FullOp:
			shape := f.Shape(v)
			for d := range shape {
				k := 2 * (len(shape) - 1 - d)
				shape[d] = t.Add(t.Add(shape[d], widths[k]), widths[k+1])
			}
			u = s.append(e.Op, core.ScalarsOf(shape...), e.Args[1], e.Args[2])
		case e.Op != core.IotaOp && keepsPlaces(e):
			u = s.widened(e, widths, true, s.extended)
		}
		if u != core.NoVal || s.err != nil {
			return u
		}
	}
	if u := s.leaf(v, widths); u != core.NoVal {
		return u
	}
	return s.append(core.PadOp, core.TensorOf(v), core.ScalarsOf(widths...), zero(f, f.Val(v).DType))
}

// inside returns where there are elements of a tensor of a shape that is padded.
func (s *sinking) inside(shape, widths []scalar.ID) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	all := core.NoVal
	add := func(v core.ValID, d int) {
		if v = s.along(v, d, len(shape)); all == core.NoVal {
			all = v
		} else {
			all = s.apply(core.LogicalAndOp, core.TensorOf(all), core.TensorOf(v))
		}
	}
	for d, n := range shape {
		k := 2 * (len(shape) - 1 - d)
		left, right := widths[k], widths[k+1]
		at := t.Add(left, n)
		if !isZero(f, left) {
			add(s.apply(core.GeOp, core.TensorOf(s.positions(t.Add(at, right))), core.ScalarOf(left)), d)
		}
		if !isZero(f, right) {
			add(s.apply(core.LtOp, core.TensorOf(s.positions(t.Add(at, right))), core.ScalarOf(at)), d)
		}
	}
	return all
}

// positions returns 0, 1, 2, ...
func (s *sinking) positions(size scalar.ID) core.ValID {
	t := s.r.To.Scalars()
	return s.append(core.IotaOp, core.ScalarOf(size), core.ScalarOf(t.Int(0)), core.ScalarOf(t.Int(1)), core.DTypeOf(dtype.Int))
}

// along has a vector be dimension d of rank ones.
func (s *sinking) along(v core.ValID, d, rank int) core.ValID {
	if rank == 1 {
		return v
	}
	flags := make([]bool, rank)
	for i := range flags {
		flags[i] = i != d
	}
	return s.apply(core.BroadcastOp, core.TensorOf(v), core.BoolsOf(flags...))
}
