package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// Build calls finish with a schedule of f with the input tensors copied to
// registers, once for all that reads them but tables and resizes, which choose among
// elements, so that those follow each other's loops. If that fails it calls it
// with copies for elementwise operations and reductions alone: what else reads an
// input, such as a permute, may put its elements to another use, x + permute(x)
// being an example, and a copy for both would have to be held whole.
// The error is that of the first call.
func Build(f *core.Fusion, finish func(*schedule.Scheduled) error) (*schedule.Scheduled, error) {
	return BuildParts(f, []map[core.ValID]bool{nil}, finish)
}

// BuildParts is Build for tensors of which some have other loops than others: each of the sets that
// parts lists, with what they are computed from, has copies of inputs of its own, and computes what an earlier
// set computes too once more. A nil one has all tensors.
func BuildParts(f *core.Fusion, parts []map[core.ValID]bool, finish func(*schedule.Scheduled) error) (*schedule.Scheduled, error) {
	s, err := build(f, parts, finish, func(e *core.Expr, k int) bool {
		if e.Op.Class == core.Gather {
			return isIndex(f, e, k) || isBegun(f, e, k)
		}
		return e.Op.Class != core.Resize
	})
	if err == nil {
		return s, nil
	}
	s, again := build(f, parts, finish, func(e *core.Expr, _ int) bool { return e.Op.Class == core.Elementwise || e.Op.Class == core.Reduction })
	if again == nil {
		return s, nil
	}
	return nil, err
}

// isIndex reports whether tensor operand k of e says at which positions e looks up another
// tensor.
func isIndex(f *core.Fusion, e *core.Expr, k int) bool {
	x, ok := e.IndexedRead()
	args := f.TensorArgs(e)
	return ok && k == x.Index && args[k] != args[x.Table]
}

// isBegun reports whether tensor operand k of e is what its result begins as, and no more.
func isBegun(f *core.Fusion, e *core.Expr, k int) bool {
	args := f.TensorArgs(e)
	return k == 0 && e.Op.Updates() && !slices.Contains(args[1:], args[0])
}

func build(f *core.Fusion, parts []map[core.ValID]bool, finish func(*schedule.Scheduled) error, shares func(e *core.Expr, k int) bool) (*schedule.Scheduled, error) {
	s := schedule.New(f)
	if err := s.Fusion().CombinePlusOne(); err != nil {
		return nil, err
	}
	if err := s.Fusion().CompareBits(); err != nil {
		return nil, err
	}
	parts, err := takeApart(s, parts)
	if err != nil {
		return nil, err
	}
	for _, in := range parts {
		if err := cacheInputs(s, in, shares); err != nil {
			return nil, err
		}
	}
	if err := finish(s); err != nil {
		return nil, err
	}
	m, err := s.Verified()
	if err != nil {
		return nil, err
	}
	if err := checkOutputs(m); err != nil {
		return nil, err
	}
	return s, checkRegisters(m)
}

// fewAlone is how many elements of an output one thread may compute alone: the columns of a
// sum, if they are so few.
const fewAlone = 16

// checkOutputs refuses a schedule in which one thread computes a whole output while others
// compute other tensors: nothing relates its loops to theirs. Three slices of 25 MB each took
// three seconds that way. Loops that it has in common with what many threads compute are
// none: the rows of a block, whose sums one thread stores.
func checkOutputs(m *schedule.Mapping) error {
	s := m.Scheduled()
	f := s.Fusion()
	isOne := func(a core.AxisID) bool {
		n, isConst := f.Scalars().ConstInt(f.Axis(a).Extent)
		return f.Axis(a).Kind == core.Broadcast || isConst && n == 1
	}
	isSpread := func(v core.ValID) bool {
		return slices.ContainsFunc(s.Loop(v), func(a core.AxisID) bool {
			p := m.Parallel(a)
			return (p.IsBlock() || p.IsThread()) && !isOne(a)
		})
	}
	related := map[core.AxisID]bool{}
	for _, v := range s.Tensors() {
		if !isSpread(v) {
			continue
		}
		for _, a := range s.Loop(v) {
			related[m.LoopClass(a)] = true
		}
	}
	isLarge := func(v core.ValID) bool {
		elements := int64(1)
		for _, a := range s.Loop(v) {
			n, isConst := f.Scalars().ConstInt(f.Axis(a).Extent)
			switch {
			case isOne(a) || related[m.LoopClass(a)]:
			case !isConst || n > fewAlone:
				elements = fewAlone + 1
			default:
				elements = min(elements*n, fewAlone+1)
			}
		}
		return elements > fewAlone
	}
	var alone []core.ValID
	for _, o := range f.Outputs() {
		if !f.Val(o.Val).Input && !isSpread(o.Val) && isLarge(o.Val) {
			alone = append(alone, o.Val)
		}
	}
	if len(alone) == 0 || len(related) == 0 {
		return nil
	}
	return &schedule.Refused{Refusal: core.Refusal{Rule: "loops", Tensor: f.Name(alone[0]), Sentence: fmt.Sprintf(
		"%s would be computed by one thread: its loops have nothing to do with those of other tensors", f.Name(alone[0]))}}
}

// maxRegisterBytes are those of the 255 registers that a thread has at most. What
// does not fit lies in memory that the driver sets aside for each thread that a
// device can hold: 64 KB for each were 17 GB on an H100, and a launch ran out of
// memory.
const maxRegisterBytes = 255 * 4

// checkRegisters refuses a schedule in which a thread keeps a tensor in registers
// that it has not: along an axis whose size is not constant, or too large.
func checkRegisters(m *schedule.Mapping) error {
	s := m.Scheduled()
	f := s.Fusion()
	for _, v := range s.Tensors() {
		if f.Val(v).Input || s.Memory(v) != schedule.Local {
			continue
		}
		bytes := int64(f.Val(v).DType.Size())
		for _, a := range kept(m, v) {
			kind := f.Axis(a).Kind
			if kind == core.Reduce || kind == core.Broadcast {
				continue
			}
			n, isConst := f.Scalars().ConstInt(f.Axis(a).Extent)
			if !isConst {
				return &schedule.Refused{Refusal: core.Refusal{Rule: "register size", Tensor: f.Name(v), Sentence: fmt.Sprintf(
					"%s is read in other loops than it is computed in, and cannot be kept in registers till then: its size is not constant", f.Name(v))}}
			}
			if bytes *= min(n, maxRegisterBytes+1); bytes > maxRegisterBytes {
				return &schedule.Refused{Refusal: core.Refusal{Rule: "register size", Tensor: f.Name(v), Sentence: fmt.Sprintf(
					"%s is read in other loops than it is computed in, and a thread has registers for %d bytes of it till then, not for %d or more", f.Name(v), maxRegisterBytes, bytes)}}
			}
		}
	}
	return nil
}

// kept returns the axes along which a thread keeps the elements of v, which is in
// registers: all if it is inlined nowhere and its loops run for others too.
func kept(m *schedule.Mapping, v core.ValID) []core.AxisID {
	s := m.Scheduled()
	loop, position := s.Loop(v), s.Position(v)
	if position == 0 && slices.ContainsFunc(loop, m.IsPromoted) {
		return m.Fusion().Val(v).Domain.Logical
	}
	return slices.DeleteFunc(slices.Clone(loop[position:]), func(a core.AxisID) bool {
		p := m.Parallel(a)
		return p.IsBlock() || p.IsThread()
	})
}

// takeApart lets each set of tensors have those that others compute too computed again, and returns the
// sets as they are then.
func takeApart(s *schedule.Scheduled, parts []map[core.ValID]bool) ([]map[core.ValID]bool, error) {
	f := s.Fusion()
	before := map[core.ValID]bool{}
	all := slices.Clone(parts)
	for k, in := range parts {
		own := maps.Clone(in)
		for _, id := range slices.Backward(f.Order()) {
			e := f.Expr(id)
			v := e.Out[0]
			if !in[v] || !before[v] {
				continue
			}
			var uses []core.ValID
			for _, id := range f.Order() {
				if u := f.Expr(id).Out[0]; own[u] && slices.Contains(f.TensorArgs(f.Expr(id)), v) {
					uses = append(uses, u)
				}
			}
			if delete(own, v); len(uses) == 0 {
				continue
			}
			again, err := s.Recompute(v, uses)
			if err != nil {
				return nil, err
			}
			own[again] = true
		}
		for v := range in {
			before[v] = true
		}
		all[k] = own
	}
	return all, nil
}

// cacheInputs copies input tensors to registers for the operations that share and whose results are
// among some tensors; nil: all. Tensors on the host are passed by value.
func cacheInputs(s *schedule.Scheduled, among map[core.ValID]bool, shares func(e *core.Expr, k int) bool) error {
	f := s.Fusion()
	readers := map[core.ValID][]core.ValID{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for k, v := range f.TensorArgs(e) {
			if shares(e, k) && (among == nil || among[e.Out[0]]) {
				readers[v] = append(readers[v], e.Out[0])
			}
		}
	}
	for _, v := range slices.Clone(f.Inputs()) {
		if len(readers[v]) == 0 || f.Val(v).Domain.CPU {
			continue
		}
		if _, err := s.CacheAfter(v, readers[v]); err != nil {
			return err
		}
	}
	return nil
}

// CacheOutputs lets outputs be copies of registers. It returns, by output that is
// computed otherwise now, the tensor that is computed as it was.
func CacheOutputs(s *schedule.Scheduled) (map[core.ValID]core.ValID, error) {
	f := s.Fusion()
	isRead := map[core.ValID]bool{}
	for _, id := range f.Order() {
		for _, v := range f.TensorArgs(f.Expr(id)) {
			isRead[v] = true
		}
	}
	instead, done := map[core.ValID]core.ValID{}, map[core.ValID]bool{}
	for _, o := range slices.Clone(f.Outputs()) {
		v := o.Val
		if done[v] {
			continue
		}
		done[v] = true
		if isRead[v] && f.Val(v).Domain.Alloc == nil {
			if _, err := s.CacheFork(v); err != nil {
				return nil, err
			}
			continue
		}
		cache, err := s.CacheBefore(v)
		if err != nil {
			return nil, err
		}
		instead[v] = cache
	}
	return instead, nil
}

// MergeAll merges the loops of v at positions from to before end into one.
func MergeAll(s *schedule.Scheduled, v core.ValID, from, end int) error {
	for n := end - from; n > 1; n-- {
		if err := s.Merge(v, from, from+1); err != nil {
			return err
		}
	}
	return nil
}

// Spread gives all tensors the loops of reference. Its error is a [Refusals] of
// the scheduler called by if one cannot follow.
func Spread(s *schedule.Scheduled, by string, reference core.ValID) error {
	refusals, err := s.TransformLike(reference, nil)
	return Follow(by, refusals, err)
}

// Follow returns what [schedule.Scheduled.TransformLike] does as one error, a [Refusals] of
// the scheduler called by if a tensor cannot follow.
func Follow(by string, refusals []core.Refusal, err error) error {
	if err != nil || len(refusals) == 0 {
		return err
	}
	for i := range refusals {
		refusals[i].By = by
	}
	return &Refusals{refusals}
}

// Finish parallelizes all tensors like reference, vectors apart, and inlines them.
func Finish(s *schedule.Scheduled, reference core.ValID) error {
	if err := ParallelizeLike(s, reference, nil); err != nil {
		return err
	}
	return s.InlineMost(nil, nil)
}

// ParallelizeLike parallelizes tensors, nil for all, like reference, vectors apart.
func ParallelizeLike(s *schedule.Scheduled, reference core.ValID, tensors []core.ValID) error {
	types := []schedule.Parallel{schedule.Unroll, schedule.Cluster}
	for p := schedule.BIDx; p <= schedule.TIDz; p++ {
		types = append(types, p)
	}
	return s.ParallelizeLike(reference, -1, tensors, types)
}

// Uncovered returns the first tensor that g computes, in order, that has an axis which the
// axes of reference do not lead to: through operations that keep it, and through
// the splits and merges of reshapes. It returns [core.NoVal] if there is none.
func (g *Segment) Uncovered(reference core.ValID) (core.ValID, error) {
	return g.UncoveredAmong(reference, func(core.ValID) bool { return true })
}

// UncoveredAmong is [Segment.Uncovered] of the tensors that are asked for.
func (g *Segment) UncoveredAmong(reference core.ValID, asked func(core.ValID) bool) (core.ValID, error) {
	m, err := g.Mapping()
	if err != nil {
		return core.NoVal, err
	}
	f := m.Fusion()
	covered := map[core.AxisID]bool{}
	isCovered := func(a core.AxisID) bool {
		return a == core.NoAxis || f.Axis(a).Kind == core.Broadcast || covered[m.Exact(a)]
	}
	for _, a := range f.Val(reference).Domain.Logical {
		covered[m.Exact(a)] = true
	}
	for changed := true; changed; {
		changed = false
		for _, id := range m.Transforms() {
			t := f.Transform(id)
			if t.Kind == core.ResizeAxis {
				continue // loops do not follow it: each thread would run through all that is beyond
			}
			for _, side := range [][2][2]core.AxisID{{t.In, t.Out}, {t.Out, t.In}} {
				if !isCovered(side[0][0]) || !isCovered(side[0][1]) {
					continue
				}
				for _, a := range side[1] {
					if !isCovered(a) {
						covered[m.Exact(a)], changed = true, true
					}
				}
			}
		}
	}
	for _, v := range m.Scheduled().Tensors() {
		if !f.Val(v).Input && asked(v) && slices.ContainsFunc(f.Val(v).Domain.Logical, func(a core.AxisID) bool { return !isCovered(a) }) {
			return v, nil
		}
	}
	return core.NoVal, nil
}
