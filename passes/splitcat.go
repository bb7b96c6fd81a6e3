package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// repeatToExpand makes a broadcast dimension of one element that cat repeats an
// expanded one. An output has memory of its own there, and stays.
func repeatToExpand(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if e.Op != core.CatOp || len(args[0].Tensors) < 2 || r.IsOutput(e.Out[0]) {
		return nil, nil
	}
	v, dim := args[0].Tensors[0], args[1].Int
	if slices.ContainsFunc(args[0].Tensors, func(u core.ValID) bool { return u != v }) || !isNew(r.To, r.To.Axes(v)[dim]) {
		return nil, nil
	}
	shape := r.To.Shape(v)
	shape[dim] = r.To.Scalars().Int(int64(len(args[0].Tensors)))
	return r.To.Append(core.ExpandOp, []core.Arg{core.TensorOf(v), core.ScalarsOf(shape...)})
}

// splitCat leaves out pairs of cuts and joins at the same places: a slice of a
// cat that is one of its operands, and a cat of neighbouring slices, also behind
// elementwise operations that are the same on each slice.
func splitCat(f *core.Fusion) (*core.Fusion, int, error) {
	if !has(f, []*core.OpInfo{core.CatOp}) {
		return f, 0, nil
	}
	s := splits{starts: map[core.ValID]map[scalar.ID]int{}}
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		s.r = r
		switch e.Op {
		case core.SliceOp:
			return s.slice(args)
		case core.CatOp:
			return s.cat(args)
		}
		return nil, nil
	}})
}

type splits struct {
	r      *core.Rewriting
	starts map[core.ValID]map[scalar.ID]int // of the operands of a cat, by its result
}

// slice is for a slice of a cat.
func (s *splits) slice(args []core.Arg) ([]core.ValID, error) {
	f := s.r.To
	cat := s.r.Def(args[0].Tensor)
	if cat == nil || cat.Op != core.CatOp {
		return nil, nil
	}
	dim, operands := cat.Args[1].Int, cat.Args[0].Tensors
	start, end := args[1].Scalars, args[2].Scalars
	i, ok := s.startsOf(args[0].Tensor, cat)[start[dim]]
	if !ok {
		return nil, nil
	}
	v := operands[i]
	size := f.Shape(v)[dim]
	if f.Scalars().Add(start[dim], size) != end[dim] {
		return nil, nil
	}
	start, end = slices.Clone(start), slices.Clone(end)
	start[dim], end[dim] = f.Scalars().Int(0), size
	args = []core.Arg{core.TensorOf(v), core.ScalarsOf(start...), core.ScalarsOf(end...), args[3], args[4]}
	if changesNothing(f, core.SliceOp, args) {
		return []core.ValID{v}, nil
	}
	return f.Append(core.SliceOp, args)
}

// startsOf returns which operand of cat begins at a position.
func (s *splits) startsOf(v core.ValID, cat *core.Expr) map[scalar.ID]int {
	if at := s.starts[v]; at != nil {
		return at
	}
	at, sum := map[scalar.ID]int{}, s.r.To.Scalars().Int(0)
	for i, u := range cat.Args[0].Tensors {
		at[sum] = i // the last of those that begin there has elements
		sum = s.r.To.Scalars().Add(sum, s.r.To.Shape(u)[cat.Args[1].Int])
	}
	s.starts[v] = at
	return at
}

func (s *splits) cat(args []core.Arg) ([]core.ValID, error) {
	tensors, dim := args[0].Tensors, int(args[1].Int)
	if len(tensors) == 1 {
		return tensors, nil
	}
	v, err := s.join(tensors, dim)
	if err != nil {
		return nil, err
	}
	if v != core.NoVal {
		return []core.ValID{v}, nil
	}
	fewer, err := s.joinNeighbours(tensors, dim)
	if err != nil || len(fewer) == len(tensors) {
		return nil, err
	}
	return s.r.To.Append(core.CatOp, []core.Arg{core.TensorsOf(fewer...), args[1], args[2]})
}

// join returns what the tensors are, joined along dim, without a cat, or NoVal.
// What it appends is no more than what becomes needless.
func (s *splits) join(tensors []core.ValID, dim int) (core.ValID, error) {
	first := s.r.Def(tensors[0])
	if first == nil {
		return core.NoVal, nil
	}
	for k := 1; k < len(tensors); k++ {
		if e := s.r.Def(tensors[k]); e == nil || e.Op != first.Op || first.Op == core.SliceOp && !s.meet(tensors[k-1], tensors[k], dim) {
			return core.NoVal, nil
		}
	}
	switch {
	case first.Op == core.SliceOp:
		return s.span(tensors[0], tensors[len(tensors)-1], dim)
	case first.Op.Class == core.Elementwise && first.Op != core.SegmentSetOp:
		return s.joinElementwise(tensors, dim)
	}
	return core.NoVal, nil
}

// meet reports whether the slices u and v are of one tensor, and v begins along
// dim where u ends.
func (s *splits) meet(u, v core.ValID, dim int) bool {
	a, b := s.r.Def(u), s.r.Def(v)
	if a == nil || b == nil || a.Op != core.SliceOp || b.Op != core.SliceOp || a.Args[0].Tensor != b.Args[0].Tensor {
		return false
	}
	for d := range a.Args[1].Scalars {
		if d == dim {
			if a.Args[2].Scalars[d] != b.Args[1].Scalars[d] {
				return false
			}
		} else if a.Args[1].Scalars[d] != b.Args[1].Scalars[d] || a.Args[2].Scalars[d] != b.Args[2].Scalars[d] {
			return false
		}
	}
	return true
}

// span returns the slice from the start of u to the end of v.
func (s *splits) span(u, v core.ValID, dim int) (core.ValID, error) {
	args := slices.Clone(s.r.Def(u).Args)
	end := slices.Clone(args[2].Scalars)
	end[dim] = s.r.Def(v).Args[2].Scalars[dim]
	args[2] = core.ScalarsOf(end...)
	if changesNothing(s.r.To, core.SliceOp, args) {
		return args[0].Tensor, nil
	}
	out, err := s.r.To.Append(core.SliceOp, args)
	if err != nil {
		return core.NoVal, err
	}
	return out[0], nil
}

// joinElementwise joins the operands of the expressions that define tensors,
// which have one op, if they are alike otherwise and nothing else reads them.
func (s *splits) joinElementwise(tensors []core.ValID, dim int) (core.ValID, error) {
	first := s.r.Def(tensors[0])
	op, args := first.Op, slices.Clone(first.Args)
	for _, v := range tensors {
		if s.r.Uses(v) != 1 || !sameConstants(args, s.r.Def(v).Args) {
			return core.NoVal, nil
		}
	}
	for i := range args {
		if args[i].Kind != core.TensorArg {
			continue
		}
		operands := make([]core.ValID, len(tensors))
		for k, v := range tensors {
			operands[k] = s.r.Def(v).Args[i].Tensor
		}
		u, err := s.joinOperands(tensors, operands, dim)
		if u == core.NoVal || err != nil {
			return core.NoVal, err
		}
		args[i].Tensor = u
	}
	out, err := s.r.To.Append(op, args)
	if err != nil {
		return core.NoVal, err
	}
	return out[0], nil
}

// joinOperands joins operands, one of each of results: the same one that is
// broadcast along dim, or parts as long as the results.
func (s *splits) joinOperands(results, operands []core.ValID, dim int) (core.ValID, error) {
	f := s.r.To
	if u := operands[0]; isNew(f, f.Axes(u)[dim]) && !slices.ContainsFunc(operands, func(v core.ValID) bool { return v != u }) {
		return u, nil
	}
	for k, v := range operands { // a part of one element would be a broadcast
		if f.Shape(v)[dim] != f.Shape(results[k])[dim] {
			return core.NoVal, nil
		}
	}
	return s.join(operands, dim)
}

// sameConstants reports whether a and b differ in tensors alone.
func sameConstants(a, b []core.Arg) bool {
	for i := range a {
		if a[i].Kind != b[i].Kind || a[i].Kind != core.TensorArg && (a[i].Scalar != b[i].Scalar || a[i].Int != b[i].Int) {
			return false
		}
	}
	return true
}

// joinNeighbours returns tensors with runs of slices that meet as one slice, if
// nothing else reads one of them.
func (s *splits) joinNeighbours(tensors []core.ValID, dim int) ([]core.ValID, error) {
	var fewer []core.ValID
	for i := 0; i < len(tensors); {
		n, free := 1, s.r.Uses(tensors[i]) == 1
		for i+n < len(tensors) && s.meet(tensors[i+n-1], tensors[i+n], dim) {
			free = free || s.r.Uses(tensors[i+n]) == 1
			n++
		}
		if n == 1 || !free {
			fewer = append(fewer, tensors[i:i+n]...)
		} else {
			v, err := s.span(tensors[i], tensors[i+n-1], dim)
			if err != nil {
				return nil, err
			}
			fewer = append(fewer, v)
		}
		i += n
	}
	return fewer, nil
}
