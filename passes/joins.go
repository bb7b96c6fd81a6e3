package passes

import (
	"bytes"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

const (
	maxParts  = 4       // that a join chooses among, whatever is computed for them
	mostParts = 8       // the same where little is
	maxWork   = 24      // additions for an element of all parts together where little is computed
	fewTurned = 1 << 18 // elements up to which what lies otherwise in memory is read one by one
)

// cat returns tensors joined along dim as a function of joined tensors, if it is the same of all, or as a choice, or NoVal if
// none of them is computed or they are too many.
func (s *sinking) cat(tensors []core.ValID, dim int) core.ValID {
	if v := s.common(tensors, dim); v != core.NoVal || s.err != nil {
		return v
	}
	stored := s.inOrder(tensors)
	isComputed := slices.ContainsFunc(stored, func(v core.ValID) bool {
		e := s.def(v)
		return e != nil && keepsPlaces(e)
	})
	switch {
	case isComputed && s.chooses(stored, dim):
		return s.choice(stored, dim)
	case !slices.Equal(stored, tensors):
		return s.append(core.CatOp, core.TensorsOf(stored...), core.IntOf(int64(dim)), core.BoolOf(false))
	}
	return core.NoVal
}

// common returns what computes each of tensors, if that is the same operation on one tensor each, of their operands
// joined; else NoVal. So what is permuted is joined as it lies in memory, and what is cast is loaded once for each element.
func (s *sinking) common(tensors []core.ValID, dim int) core.ValID {
	f := s.r.To
	var first *core.Expr
	var operands []core.ValID
	for _, v := range tensors {
		e := s.def(v)
		switch {
		case e == nil || len(e.Out) != 1 || len(e.Args) == 0 || e.Args[0].Kind != core.TensorArg || e.Op != core.PermuteOp && e.Op.Class != core.Elementwise:
			return core.NoVal
		case first == nil:
			first = e
		case !bytes.Equal(appendKey(nil, e.Op, e.Args[1:]), appendKey(nil, first.Op, first.Args[1:])) || f.Val(e.Args[0].Tensor).DType != f.Val(operands[0]).DType:
			return core.NoVal
		}
		operands = append(operands, e.Args[0].Tensor)
	}
	if len(operands) < 2 || slices.ContainsFunc(first.Args[1:], func(a core.Arg) bool { return a.Kind == core.TensorArg || len(a.Tensors) > 0 }) {
		return core.NoVal
	}
	if first.Op == core.PermuteOp {
		dim = int(first.Args[1].Ints[dim])
	}
	for k, v := range operands {
		if s.isOne(v, dim) || s.mayBeOne(s.r.Def(tensors[k]), v, dim, s.placeOf(tensors[k], dim)) {
			return core.NoVal
		}
	}
	joined := s.cat(operands, dim)
	if joined == core.NoVal {
		joined = s.append(core.CatOp, core.TensorsOf(operands...), core.IntOf(int64(dim)), core.BoolOf(false))
	}
	return s.append(first.Op, slices.Concat([]core.Arg{core.TensorOf(joined)}, first.Args[1:])...)
}

// placeOf returns the dimension of v, the result of an operation on one tensor, that dimension dim of that becomes.
func (s *sinking) placeOf(v core.ValID, dim int) int { return s.axesOf(s.r.Def(v), 0)[dim] }

// inOrder returns tensors with those stored first that lie along another dimension in memory than they are joined in: a kernel
// of their own exchanges them by tiles. Images that are joined with others in channels-last, 32 x 128 x 64 x 64 bfloat16 each, take
// 123 us on an H200 read one by one.
func (s *sinking) inOrder(tensors []core.ValID) []core.ValID {
	all := slices.Clone(tensors)
	for k, v := range tensors {
		n := int64(1)
		for _, size := range s.r.To.Shape(v) {
			if c, ok := s.r.To.Scalars().ConstInt(size); ok {
				n *= c
			}
		}
		if n > fewTurned && s.isTurned(v, maxAgain) {
			var ranks []int64 // of strides: the innermost has 0
			for d := range s.r.To.Rank(v) {
				ranks = append(ranks, int64(s.r.To.Rank(v)-1-d))
			}
			all[k] = s.append(core.StrideOrderOp, core.TensorOf(v), core.IntsOf(ranks...))
		}
	}
	return all
}

// isTurned reports whether v is computed, in so many operations, from something permuted that has another dimension innermost.
func (s *sinking) isTurned(v core.ValID, left int) bool {
	e := s.r.Def(v)
	if e == nil || left == 0 || !keepsPlaces(e) {
		return false
	}
	if last := s.r.To.Rank(v) - 1; e.Op == core.PermuteOp && e.Args[1].Ints[last] != int64(last) {
		return true
	}
	return slices.ContainsFunc(s.r.To.TensorArgs(e), func(u core.ValID) bool { return s.isTurned(u, left-1) })
}

// chooses reports whether a join of tensors along dim is a choice: it computes all of them for each element, and
// loads all that have one element there.
func (s *sinking) chooses(tensors []core.ValID, dim int) bool {
	if len(tensors) <= maxParts {
		return len(tensors) > 1
	}
	work := float64(len(tensors))
	for _, v := range tensors {
		if s.isOne(v, dim) {
			return false
		}
		work += s.work(v, maxSunk)
	}
	return len(tensors) <= mostParts && work <= maxWork
}

// work returns what v takes to compute, in additions, by so many operations.
func (s *sinking) work(v core.ValID, left int) float64 {
	e := s.r.Def(v)
	if e == nil || left == 0 || !keepsPlaces(e) {
		return 0
	}
	n := 0.0
	if e.Op.Class == core.Elementwise {
		n = e.Op.Cost
	}
	for _, u := range s.r.To.TensorArgs(e) {
		n += s.work(u, left-1)
	}
	return n
}

// choice returns tensors joined along dim as a choice between functions of joins, or of pads (leaves.go).
func (s *sinking) choice(tensors []core.ValID, dim int) core.ValID {
	f, t := s.r.To, s.r.To.Scalars()
	first := []scalar.ID{t.Int(0)}
	for k, v := range tensors {
		first = append(first, t.Add(first[k], f.Shape(v)[dim]))
	}
	total := first[len(tensors)]
	rank, chosen := f.Rank(tensors[0]), core.NoVal
	widen := func(k int) core.ValID {
		v := tensors[k]
		if s.isOne(v, dim) {
			return v
		}
		widths := slices.Repeat([]scalar.ID{t.Int(0)}, 2*rank)
		at := 2 * (rank - 1 - dim)
		widths[at], widths[at+1] = first[k], t.Sub(total, first[k+1])
		return s.extended(v, widths)
	}
	joined := s.joinedLeaves(len(tensors), func(k int) { widen(k) })
	defer func() { s.joined = nil }()
	for k := range slices.Backward(tensors) {
		s.joined = joined[k]
		v := widen(k)
		if s.err != nil || v == core.NoVal {
			return core.NoVal
		}
		if chosen == core.NoVal || chosen == v {
			chosen = v
			continue
		}
		before := s.apply(core.LtOp, core.TensorOf(s.positions(total)), core.ScalarOf(first[k+1]))
		chosen = s.apply(core.WhereOp, core.TensorOf(s.along(before, dim, rank)), core.TensorOf(v), core.TensorOf(chosen))
	}
	return s.cast(chosen, f.Val(tensors[0]).DType) // of a narrow type another one is chosen
}
