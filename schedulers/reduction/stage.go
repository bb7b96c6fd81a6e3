package reduction

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// mostGroups is how many threads of a block lie along z, at most.
const mostGroups = 64

// accessBytes are those that one instruction moves, at most.
const accessBytes = 16

// stage lets the threads of a block leave what they have of all columns in shared
// memory, from where each folds some steps of one column: threads along x and y lie along
// the columns then, and those along z share a column.
func (b *builder) stage(all, parts []core.ValID) error {
	below := b.below(all)
	if err := b.checkApart(all, below); err != nil {
		return err
	}
	for k, v := range all {
		if parts[k] == v {
			return core.InvalidArgumentf("schedule(): %v: a thread has all of a result, and leaves nothing", b.Params)
		}
		if err := b.leave(parts[k], b.types); err != nil {
			return err
		}
		if err := b.fold(v); err != nil {
			return err
		}
	}
	if len(below) == 0 {
		return nil
	}
	for _, v := range all {
		if refusals, err := b.s.TransformLike(v, below); err != nil || len(refusals) > 0 {
			return err
		}
	}
	for _, v := range all {
		if err := b.s.ParallelizeLike(v, -1, below, nil); err != nil {
			return err
		}
	}
	return nil
}

// below returns what is computed from the results of the reductions all, and what is
// computed for that alone.
func (b *builder) below(all []core.ValID) []core.ValID {
	isResult, is := map[core.ValID]bool{}, map[core.ValID]bool{}
	for _, v := range all {
		for _, w := range b.results(v) {
			isResult[w] = true
		}
	}
	isOutput := map[core.ValID]bool{}
	for _, o := range b.s.Fusion().Outputs() {
		isOutput[o.Val] = true
	}
	tensors := b.s.Tensors()
	isForOthers := map[core.ValID]bool{}
	for _, v := range tensors {
		for _, w := range b.operands(v) {
			is[v] = is[v] || !isResult[v] && (is[w] || isResult[w])
		}
	}
	for k := len(tensors) - 1; k >= 0; k-- {
		v := tensors[k]
		if isResult[v] {
			isForOthers[v] = true
		}
		isRead := !b.s.Fusion().Val(v).Input && !isForOthers[v]
		is[v] = is[v] || isRead && !isOutput[v]
		for _, w := range b.operands(v) {
			isForOthers[w] = isForOthers[w] || !is[v]
		}
	}
	return slices.DeleteFunc(slices.Clone(tensors), func(v core.ValID) bool { return !is[v] })
}

// operands returns the tensors that v is computed from.
func (b *builder) operands(v core.ValID) []core.ValID {
	f := b.s.Fusion()
	if f.Val(v).Def == core.NoExpr {
		return nil
	}
	return f.TensorArgs(f.Expr(f.Val(v).Def))
}

// checkApart refuses loops for below of their own if others of them are computed from the
// same tensor, which would be held for all columns.
func (b *builder) checkApart(all, below []core.ValID) error {
	f := b.s.Fusion()
	isFree := map[core.ValID]bool{}
	for _, v := range all {
		for _, w := range b.results(v) {
			isFree[w] = true
		}
	}
	for _, v := range below {
		isFree[v] = true
	}
	for _, v := range below {
		for _, w := range b.operands(v) {
			if !f.Val(w).Input && !isFree[w] {
				return scheduler.Refused(f, name, "loops", w, "%s is needed with what is reduced and with the results, in other loops", f.Name(w))
			}
		}
	}
	return nil
}

// leave copies the results of the expression of part to shared memory, in loops of the
// types of those of part that are not reduced.
func (b *builder) leave(part core.ValID, types []schedule.Parallel) error {
	f, s := b.s.Fusion(), b.s
	var kept []schedule.Parallel
	for k, a := range s.Loop(part) {
		if f.Axis(a).Kind != core.Reduce {
			kept = append(kept, types[k])
		}
	}
	for _, p := range b.results(part) {
		c, err := s.CacheAfter(p, nil)
		if err != nil {
			return err
		}
		if err := s.SetMemory(c, schedule.Shared); err != nil {
			return err
		}
		if refusals, err := s.TransformLike(p, []core.ValID{c}); err != nil || len(refusals) > 0 {
			return err
		}
		if err := b.parallelize(c, kept); err != nil {
			return err
		}
		if err := b.widen(c, kept); err != nil {
			return err
		}
		for k, p := range kept { // what one thread stores another one reads
			if p == schedule.TIDy || p == schedule.TIDz {
				b.apart = append(b.apart, s.Loop(c)[k])
			}
		}
	}
	return nil
}

// widen lets c store several elements at a time, if its innermost loop is of elements.
func (b *builder) widen(c core.ValID, types []schedule.Parallel) error {
	w := min(b.Vector, accessBytes/int64(b.s.Fusion().Val(c).DType.Size()))
	if types[len(types)-1] != schedule.Serial || w <= 1 || b.Vector%w != 0 {
		return nil
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: c}
	if w < b.Vector {
		n.Split(-1, w, schedule.Serial)
		n.Parallelize(-2, schedule.Unroll)
	}
	n.Parallelize(-1, schedule.Vectorize)
	return n.Err
}

// fold computes the reduction v of what lies in shared memory. Its loops are blocks of
// columns, blocks that share, groups of steps, steps, lanes and elements.
func (b *builder) fold(v core.ValID) error {
	outer := []schedule.Parallel{schedule.BIDx}
	if b.Blocks > 1 {
		outer = append(outer, schedule.BIDy)
	}
	if b.groups() > 1 {
		outer = append(outer, schedule.TIDz)
	}
	at := len(outer)                              // of the steps
	columns := []schedule.Parallel{schedule.TIDy} // the elements
	if b.Lanes > 1 {
		columns = append(columns, schedule.TIDx)
		for _, w := range b.results(v) { // neighbours lie along x
			n := scheduler.Nest{Schedule: b.s, Tensor: w}
			n.Merge(at+1, 2)
			n.Split(at+1, b.Lanes, schedule.Serial)
			if n.Err != nil {
				return n.Err
			}
		}
	}
	own := slices.Concat(outer, []schedule.Parallel{schedule.Serial}, columns)
	if at == 1 {
		return b.parallelize(v, own)
	}
	part, err := b.s.RFactor(v, []int{at})
	if err != nil {
		return err
	}
	if err := b.parallelize(part[0], own); err != nil {
		return err
	}
	return b.parallelize(v, slices.Concat(outer, columns))
}

// groupSteps returns how many steps of a column a thread folds: there are as many threads
// along y, and at least one for each element of a vector.
func (b *builder) groupSteps() int64 { return max(b.Vector, scheduler.CeilDiv(b.Rows, mostGroups)) }

// groups returns how many threads fold the steps of a column.
func (b *builder) groups() int64 { return scheduler.CeilDiv(b.Rows, b.groupSteps()) }
