package schedule

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// exactCount is the largest number up to which float32 has all integers.
const exactCount = 1 << 24

// CountInFloats lets the numbers of elements that go with means and variances be float32, where nothing but the
// merges of such reads them: they are divided by, and what is exchanged is half as large. Who calls it promises that
// none is above most, as loops of a whole split do.
func (s *Scheduled) CountInFloats(most int64) {
	if most > exactCount {
		return
	}
	f := s.f
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op == core.WelfordOp && f.Val(e.Out[2]).DType == dtype.Int && f.Val(e.Out[0]).DType == dtype.Float {
			if list, ok := s.countsFrom(e.Out[2], nil); ok {
				for _, v := range list {
					s.tensors[v].inFloat = true
				}
			}
		}
	}
}

// StoreAlike lays v, numbers of elements in global memory, out along axes, and then others along which all of them are
// alike: memory has one for all.
//
// Errors: those of [Scheduled.SetAllocation].
func (s *Scheduled) StoreAlike(v core.ValID, axes, alike []core.AxisID) error {
	if err := s.SetAllocation(v, slices.Concat(axes, alike), nil); err != nil {
		return err
	}
	s.tensors[v].alike = slices.Clone(alike)
	return nil
}

// IsAlike reports whether memory has one element of v for all along an axis.
func (s *Scheduled) IsAlike(v core.ValID, a core.AxisID) bool {
	return slices.Contains(s.tensors[v].alike, a)
}

// CountsInFloat reports whether v are numbers that are counted so.
func (s *Scheduled) CountsInFloat(v core.ValID) bool { return s.tensors[v].inFloat }

// ElementType is the type of the elements of v in a kernel: that of v, but for numbers that are counted in another one.
func (s *Scheduled) ElementType(v core.ValID) dtype.Type {
	if s.tensors[v].inFloat {
		return dtype.Float
	}
	return s.f.Val(v).DType
}

// countsFrom returns n and the numbers that are made of it, or that something else reads one.
func (s *Scheduled) countsFrom(n core.ValID, list []core.ValID) ([]core.ValID, bool) {
	f := s.f
	if slices.ContainsFunc(f.Outputs(), func(o core.Output) bool { return o.Val == n }) {
		return nil, false
	}
	list = append(list, n)
	for _, id := range f.Order() {
		e := f.Expr(id)
		args := f.TensorArgs(e)
		at, ok := slices.Index(args, n), true
		switch {
		case at < 0:
			continue
		case e.Op == core.SetOp:
			list, ok = s.countsFrom(e.Out[0], list)
		case e.Op == core.WelfordMergeOp && at == 2:
			list, ok = s.countsFrom(e.Out[2], list)
		default:
			return nil, false
		}
		if !ok {
			return nil, false
		}
	}
	return list, true
}
