package schedule

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// axisAt returns axis k of the loop domain of v, counted from the end if
// negative, and its position.
func (s *Scheduled) axisAt(call string, v core.ValID, k int) (core.AxisID, int, error) {
	loop := s.Loop(v)
	at := k
	if at < 0 {
		at += len(loop)
	}
	if at < 0 || at >= len(loop) {
		return core.NoAxis, 0, core.InvalidArgumentf("%s(): axis %d is out of range for %s, which has %d axes", call, k, s.name(v), len(loop))
	}
	return loop[at], at, nil
}

// checkTensor fails unless v is a tensor with loops.
func (s *Scheduled) checkTensor(call string, v core.ValID) error {
	switch {
	case int(v) >= s.f.NumVals() || !s.f.Val(v).Tensor:
		return core.InvalidArgumentf("%s(): the value is not a tensor of this fusion", call)
	case s.isInput(v):
		return core.InvalidArgumentf("%s(): %s is an input of the fusion and has no loops; cache_after() makes a copy that has", call, s.name(v))
	}
	return nil
}

// movable returns axis k of v if a transform may consume it.
func (s *Scheduled) movable(call string, v core.ValID, k int) (core.AxisID, int, error) {
	if err := s.checkTensor(call, v); err != nil {
		return core.NoAxis, 0, err
	}
	a, at, err := s.axisAt(call, v, k)
	if err != nil {
		return a, at, err
	}
	switch {
	case at < s.tensors[v].position:
		err = core.InvalidArgumentf("%s(): %s is left of position %d, where %s is computed inside its consumer; transform before inlining",
			call, s.axisText(v, at), s.tensors[v].position, s.name(v))
	case s.Parallel(a) != Serial:
		err = core.InvalidArgumentf("%s(): %s is parallelized as %v; transform it before parallelize()", call, s.axisText(v, at), s.Parallel(a))
	}
	return a, at, err
}

// replace puts axes in the loop domain of v where n axes from position at were.
func (s *Scheduled) replace(v core.ValID, at, n int, axes ...core.AxisID) {
	s.setLoop(v, slices.Replace(slices.Clone(s.Loop(v)), at, at+n, axes...))
	s.moved(v)
}

// Split replaces an axis of v of extent n by two, of extents ceil(n/factor) and
// factor, the latter inner if inner is set and else outer. If factor does not
// divide n, points beyond n are computed for no element. A negative axis counts
// from the end.
func (s *Scheduled) Split(v core.ValID, axis int, factor int64, inner bool) error {
	a, at, err := s.movable("split", v, axis)
	if err != nil {
		return err
	}
	if factor < 1 {
		return core.InvalidArgumentf("split(): factor is %d; it must be positive", factor)
	}
	t := s.splitAxis(a, &core.Transform{Factor: s.f.Scalars().Int(factor), Inner: inner})
	s.replace(v, at, 1, s.f.Transform(t).Results()...)
	return nil
}

// SplitWhole replaces an axis of v by two, of extents 1 and capacity: who calls it
// promises that the axis has no more than capacity elements whatever sizes the kernel
// runs on. Loops over the row of a tensor so have constant extents, and one kernel
// serves rows of many lengths. [Scheduled.CheckPromises] looks whether sizes keep it.
//
// Errors: those of [Scheduled.Split]; InvalidArgument if the extent is a constant
// above capacity.
func (s *Scheduled) SplitWhole(v core.ValID, axis int, capacity int64) error {
	a, at, err := s.movable("split_whole", v, axis)
	if err != nil {
		return err
	}
	if capacity < 1 {
		return core.InvalidArgumentf("split_whole(): capacity is %d; it must be positive", capacity)
	}
	if n, isConst := s.f.Scalars().ConstInt(s.extent(a)); isConst && n > capacity {
		return core.InvalidArgumentf("split_whole(): %s has %d elements, more than the capacity %d", s.axisText(v, at), n, capacity)
	}
	s.isPromised = true
	t := s.splitAxis(a, &core.Transform{Factor: s.f.Scalars().Int(capacity), Inner: true, Whole: true})
	s.replace(v, at, 1, s.f.Transform(t).Results()...)
	return nil
}

// A least is how many elements axes of an extent have at least.
type least struct {
	extent scalar.ID
	number int64
}

// PromiseLeast promises that an axis of v has no fewer than least elements, whatever
// sizes the kernel runs on: the iterations of constant loops that lead to no more need
// no test. It says nothing new of an extent that is computed of several sizes.
// [Scheduled.CheckPromises] looks whether sizes keep it.
//
// Errors: InvalidArgument if there is no such axis, or if it has fewer elements
// whatever the sizes.
func (s *Scheduled) PromiseLeast(v core.ValID, axis int, number int64) error {
	if err := s.checkTensor("promise_least", v); err != nil {
		return err
	}
	a, at, err := s.axisAt("promise_least", v, axis)
	if err != nil {
		return err
	}
	extent := s.extent(a)
	if n, isConst := s.f.Scalars().ConstInt(extent); isConst && n < number {
		return core.InvalidArgumentf("promise_least(): %s has %d elements, fewer than %d", s.axisText(v, at), n, number)
	}
	s.least, s.verified = append(s.least, least{extent, number}), nil
	return nil
}

// Least returns how many elements axes of an extent were promised to have, at least.
func (s *Scheduled) Least(extent scalar.ID) int64 {
	n := int64(0)
	for _, x := range s.least {
		if x.extent == extent {
			n = max(n, x.number)
		}
	}
	return n
}

// Most returns how many elements axes of an extent have at most, as SplitWhole was promised of them or
// of what AlignRows made longer; 0: nothing was.
func (s *Scheduled) Most(extent scalar.ID) int64 {
	n, t := int64(0), s.f.Scalars()
	s.eachPromise(func(_ core.ValID, of scalar.ID, most int64) error {
		if longer, isConst := t.ConstInt(t.Sub(of, extent)); isConst && (n == 0 || most-longer < n) {
			n = most - longer
		}
		return nil
	})
	return n
}

// Exactly returns how many elements axes of an extent have, if what was promised says so:
// no fewer than as many as SplitWhole allows; else 0.
func (s *Scheduled) Exactly(extent scalar.ID) int64 {
	if n := s.Least(extent); n > 0 && n == s.Most(extent) {
		return n
	}
	return 0
}

// CheckPromises fails if the sizes of b break what was promised by SplitWhole, of the
// tensor that it was called on and of those that follow that one's loops, or by
// PromiseLeast.
//
// Errors: InvalidArgument with the extent and what was promised of it.
func (s *Scheduled) CheckPromises(b *core.Binding) error {
	for _, x := range s.least {
		n, err := b.Int(x.extent)
		if err == nil && n < x.number {
			err = core.InvalidArgumentf("promise_least(): %s is %d, fewer than the %d that the schedule relies on", s.scalarText(x.extent), n, x.number)
		}
		if err != nil {
			return err
		}
	}
	return s.eachPromise(func(_ core.ValID, extent scalar.ID, most int64) error {
		n, err := b.Int(extent)
		if err == nil && n > most {
			err = core.InvalidArgumentf("split_whole(): %s is %d, more than the capacity %d of the schedule", s.scalarText(extent), n, most)
		}
		return err
	})
}

// eachPromise calls visit with each extent that was promised not to exceed a number, and
// with a tensor that has it, until it fails.
func (s *Scheduled) eachPromise(visit func(v core.ValID, extent scalar.ID, most int64) error) error {
	if !s.isPromised {
		return nil
	}
	seen := map[[2]scalar.ID]bool{}
	for _, v := range s.Tensors() {
		for _, id := range s.history(v) {
			t := s.f.Transform(id)
			extent := s.extent(t.In[0])
			if !t.Whole || s.isBroadcast(t.In[0]) || seen[[2]scalar.ID{extent, t.Factor}] {
				continue
			}
			seen[[2]scalar.ID{extent, t.Factor}] = true
			most, _ := s.f.Scalars().ConstInt(t.Factor)
			if err := visit(v, extent, most); err != nil {
				return err
			}
		}
	}
	return nil
}

// Merge replaces two neighbouring axes, or any two, of v by one over their
// product, at the place of the first; the second runs fastest.
func (s *Scheduled) Merge(v core.ValID, outer, inner int) error {
	a, at, err := s.movable("merge", v, outer)
	if err != nil {
		return err
	}
	b, bt, err := s.movable("merge", v, inner)
	if err != nil {
		return err
	}
	if at == bt {
		return core.InvalidArgumentf("merge(): axis %d of %s cannot be merged with itself", at, s.name(v))
	}
	if err := s.checkMerge("merge", v, a, b); err != nil {
		return err
	}
	t := s.mergeAxes(a, b)
	s.replace(v, at, 1, s.f.Transform(t).Out[0])
	loop := slices.Clone(s.Loop(v))
	s.setLoop(v, slices.Delete(loop, bt, bt+1))
	return nil
}

// checkMerge fails for one axis that is reduced and one that is not.
func (s *Scheduled) checkMerge(call string, v core.ValID, a, b core.AxisID) error {
	if k, l := s.kind(a), s.kind(b); k != l && (k == core.Reduce || l == core.Reduce) && k != core.Broadcast && l != core.Broadcast {
		return core.InvalidArgumentf("%s(): an axis of %s that is reduced and one that is not cannot be merged", call, s.name(v))
	}
	return nil
}

func (s *Scheduled) splitAxis(a core.AxisID, like *core.Transform) core.TransformID {
	return splitAxis(s.f, a, like, s.kind(a))
}

func (s *Scheduled) mergeAxes(a, b core.AxisID) core.TransformID {
	return mergeAxes(s.f, a, b, mergedKind(s.kind(a), s.kind(b)))
}

// splitAxis splits a as the split `like` does another axis; the parts of a broadcast
// are broadcasts of extent 1, whatever the factor, so that one nobody resolves has no
// points without an element.
func splitAxis(f *core.Fusion, a core.AxisID, like *core.Transform, kind core.AxisKind) core.TransformID {
	quotient, part := f.Scalars().Int(1), like.Factor
	if !like.Whole {
		quotient = f.Scalars().CeilDiv(f.Axis(a).Extent, like.Factor)
	}
	if kind == core.Broadcast {
		quotient, part = f.Scalars().Int(1), f.Scalars().Int(1)
	}
	if !like.Inner {
		quotient, part = part, quotient
	}
	t := core.Transform{Kind: core.Split, In: [2]core.AxisID{a, core.NoAxis}, Factor: like.Factor, Inner: like.Inner, Whole: like.Whole, Left: scalar.None, Right: scalar.None}
	return f.AddTransform(t, axis(quotient, kind), axis(part, kind))
}

func mergeAxes(f *core.Fusion, a, b core.AxisID, kind core.AxisKind) core.TransformID {
	extent := f.Scalars().Mul(f.Axis(a).Extent, f.Axis(b).Extent)
	t := core.Transform{Kind: core.Merge, In: [2]core.AxisID{a, b}, Factor: scalar.None, Left: scalar.None, Right: scalar.None}
	return f.AddTransform(t, axis(extent, kind))
}

func resizeAxis(f *core.Fusion, a core.AxisID, left, right scalar.ID, kind core.AxisKind) core.TransformID {
	t := f.Scalars()
	extent := t.Add(f.Axis(a).Extent, t.Add(left, right))
	return f.AddTransform(core.Transform{Kind: core.ResizeAxis, In: [2]core.AxisID{a, core.NoAxis}, Factor: scalar.None, Left: left, Right: right}, axis(extent, kind))
}

// shiftAxis shifts a as the transform like does another axis; a broadcast has one element
// wherever that is.
func shiftAxis(f *core.Fusion, a core.AxisID, like *core.Transform, kind core.AxisKind) core.TransformID {
	t := f.Scalars()
	extent := t.Add(f.Axis(a).Extent, t.Sub(like.Factor, t.Int(1)))
	if kind == core.Broadcast {
		extent = t.Int(1)
	}
	return f.AddTransform(core.Transform{Kind: core.Shift, In: [2]core.AxisID{a, core.NoAxis}, Factor: like.Factor, Left: like.Left, Right: scalar.None}, axis(extent, kind))
}

func axis(extent scalar.ID, kind core.AxisKind) core.Axis {
	return core.Axis{Extent: extent, Expanded: scalar.None, Kind: kind, Def: core.NoTransform}
}

// mergedKind: Broadcast only if both are, Reduce if either is.
func mergedKind(a, b core.AxisKind) core.AxisKind {
	switch {
	case a == core.Reduce || b == core.Reduce:
		return core.Reduce
	case a == core.Broadcast && b == core.Broadcast:
		return core.Broadcast
	}
	return core.Iter
}

// Reorder moves axis k of v to position moves[k]; the other axes keep their
// order. Negative axes and positions count from the end.
func (s *Scheduled) Reorder(v core.ValID, moves map[int]int) error {
	if err := s.checkTensor("reorder", v); err != nil {
		return err
	}
	loop := s.Loop(v)
	to := make([]core.AxisID, len(loop))
	for i := range to {
		to[i] = core.NoAxis
	}
	moved := make([]bool, len(loop))
	for _, k := range slices.Sorted(maps.Keys(moves)) {
		a, from, err := s.axisAt("reorder", v, k)
		if err != nil {
			return err
		}
		_, at, err := s.axisAt("reorder", v, moves[k])
		switch {
		case err != nil:
			return err
		case moved[from]:
			return core.InvalidArgumentf("reorder(): axis %d of %s is moved twice", from, s.name(v))
		case to[at] != core.NoAxis:
			return core.InvalidArgumentf("reorder(): two axes of %s are moved to position %d", s.name(v), at)
		}
		moved[from], to[at] = true, a
	}
	next := 0
	for i := range to {
		if to[i] != core.NoAxis {
			continue
		}
		for moved[next] {
			next++
		}
		to[i] = loop[next]
		next++
	}
	if n := s.tensors[v].position; !slices.Equal(to[:n], loop[:n]) {
		return core.InvalidArgumentf("reorder(): %s has %d axes computed inside its consumer; reorder before inlining", s.name(v), n)
	}
	s.setLoop(v, to)
	s.moved(v)
	return nil
}

// Parallelize says how axis of v runs. Tensors that share its loop have the same
// type or none.
func (s *Scheduled) Parallelize(v core.ValID, axis int, p Parallel) error {
	if err := s.checkTensor("parallelize", v); err != nil {
		return err
	}
	a, at, err := s.axisAt("parallelize", v, axis)
	if err != nil {
		return err
	}
	old := s.Parallel(a)
	if err := s.parallelize(v, at, a, p); err != nil {
		return err
	}
	if err := s.checkLoopTypes("parallelize"); err != nil {
		s.setParallel(a, old)
		return err
	}
	return nil
}

func (s *Scheduled) parallelize(v core.ValID, at int, a core.AxisID, p Parallel) error {
	reduced := s.kind(a) == core.Reduce
	n, isConst := s.f.Scalars().ConstInt(s.extent(a))
	switch {
	case p.IsWhole() && !isConst:
		return core.InvalidArgumentf("parallelize(): %s cannot be %v, because its extent is not a constant", s.axisText(v, at), p)
	case (p == Vectorize || p == Bulk) && reduced:
		return core.InvalidArgumentf("parallelize(): %s cannot be %v, because it is reduced", s.axisText(v, at), p)
	case p == Vectorize && !isVector(n, s.f.Val(v).DType):
		return core.InvalidArgumentf("parallelize(): %s cannot be %v, because %d elements of %v have not 1, 2, 4, 8 or 16 bytes", s.axisText(v, at), p, n, s.f.Val(v).DType)
	case p.IsWhole() && at < s.tensors[v].position:
		return core.InvalidArgumentf("parallelize(): %s cannot be %v, because %s is computed inside its consumer there", s.axisText(v, at), p, s.name(v))
	case p != Serial && (p.IsBlock() || p.IsThread()):
		for k, b := range s.Loop(v) {
			if k != at && s.Parallel(b) == p {
				return core.InvalidArgumentf("parallelize(): axes %d and %d of %s cannot both be %v", min(k, at), max(k, at), s.name(v), p)
			}
		}
	}
	s.setParallel(a, p)
	return nil
}

// isVector reports whether n elements of type t are what one instruction moves.
func isVector(n int64, t dtype.Type) bool {
	if n < 1 || n > 128 {
		return false
	}
	bytes := n * int64(t.Bits()) / 8
	return bytes >= 1 && bytes <= 16 && bits.OnesCount64(uint64(bytes)) == 1
}

// SetMemory says where v lives. Inputs and outputs of the fusion are in global
// memory.
func (s *Scheduled) SetMemory(v core.ValID, m Memory) error {
	if m != Global && (s.isInput(v) || s.isOutput(v)) {
		role := "an input"
		if s.isOutput(v) {
			role = "an output"
		}
		return core.InvalidArgumentf("set_memory_type(): %s is %s of the fusion, which lives in global memory; cache it to have a copy in %v memory", s.name(v), role, m)
	}
	switch t := &s.tensors[v]; {
	case m != Shared && len(t.swizzle) > 0:
		return core.InvalidArgumentf("set_memory_type(): %s has a swizzle, which is for shared memory", s.name(v))
	case m != Shared && t.window:
		return core.InvalidArgumentf("set_memory_type(): %s holds a window, which is in shared memory", s.name(v))
	case m != Local && t.packed:
		return core.InvalidArgumentf("set_memory_type(): %s is held packed in registers", s.name(v))
	case m == Global && t.buffering != (Buffering{}):
		return core.InvalidArgumentf("set_memory_type(): %s has a circular buffer, which is not for global memory", s.name(v))
	}
	s.tensors[v].memory = m
	return nil
}

// SetAllocation lays v out along axes, outermost first, that are its logical
// axes or made from them by the transforms of its loop domain. contig has one
// promise an axis; nil: no gaps.
func (s *Scheduled) SetAllocation(v core.ValID, axes []core.AxisID, contig []core.Tri) error {
	const call = "set_allocation_domain"
	if contig != nil && len(contig) != len(axes) {
		return core.InvalidArgumentf("%s(): %d contiguity flags for %d axes of %s", call, len(contig), len(axes), s.name(v))
	}
	if s.tensors[v].window {
		return core.InvalidArgumentf("%s(): %s holds a window, which lies as the input does", call, s.name(v))
	}
	if err := s.covers(call, v, s.f.Val(v).Domain.Logical, axes); err != nil {
		return err
	}
	filled := make([]core.Tri, len(axes))
	for k, a := range axes {
		none := s.isBroadcast(a) || s.kind(a) == core.Reduce
		switch {
		case none:
			filled[k] = core.NotApplicable
		case contig == nil:
			filled[k] = core.Yes
		case contig[k] == core.NotApplicable:
			return core.InvalidArgumentf("%s(): contiguity[%d] of %s must be True or False, because the axis is neither a broadcast nor reduced", call, k, s.name(v))
		default:
			filled[k] = contig[k]
		}
	}
	s.tensors[v].alloc, s.tensors[v].contig = slices.Clone(axes), filled
	return nil
}

// covers fails unless axes are made from all of domain, each once, by
// transforms of v.
func (s *Scheduled) covers(call string, v core.ValID, domain, axes []core.AxisID) error {
	if k, ok := repeated(axes); ok {
		return core.InvalidArgumentf("%s(): axis %d of the domain for %s is there twice", call, k, s.name(v))
	}
	left := slices.Clone(axes)
	steps := s.f.TransformsTo(axes)
	for i := len(steps) - 1; i >= 0; i-- { // undo transforms until domain is left
		t := s.f.Transform(steps[i])
		if containsAll(domain, t.Results()) || !containsAll(left, t.Results()) {
			continue
		}
		left = slices.DeleteFunc(left, func(a core.AxisID) bool { return slices.Contains(t.Results(), a) })
		left = append(left, t.Inputs()...)
	}
	slices.Sort(left)
	if want := slices.Sorted(slices.Values(domain)); !slices.Equal(left, want) {
		return core.InvalidArgumentf("%s(): the domain for %s is not made from all of its axes by splits and merges", call, s.name(v))
	}
	return nil
}

func repeated(axes []core.AxisID) (int, bool) {
	for i, a := range axes {
		if slices.Contains(axes[:i], a) {
			return i, true
		}
	}
	return 0, false
}

// SetLoop sets the loop domain of v by hand: axes are made by its transforms
// from its logical axes, or from its root axes.
func (s *Scheduled) SetLoop(v core.ValID, axes []core.AxisID) error {
	const call = "set_loop_domain"
	if err := s.checkTensor(call, v); err != nil {
		return err
	}
	if s.tensors[v].position > 0 {
		return core.InvalidArgumentf("%s(): %s is inlined; set the domain before", call, s.name(v))
	}
	d := &s.f.Val(v).Domain
	err := s.covers(call, v, d.Logical, axes)
	if err != nil && s.covers(call, v, d.Root, axes) != nil {
		return err
	}
	s.setLoop(v, slices.Clone(axes))
	s.moved(v)
	return nil
}

// SwizzleXOR stores column c of row r of v, which is in shared memory, in column
// c^r modulo the number of columns, a power of two. row and column are
// positions in the allocation domain, which must be set.
func (s *Scheduled) SwizzleXOR(v core.ValID, row, column int) error {
	alloc, set := s.Allocation(v)
	switch {
	case !set || s.tensors[v].memory != Shared:
		return core.InvalidArgumentf("swizzle(): %s must be in shared memory and have an allocation domain", s.name(v))
	case row < 0 || row >= len(alloc) || column < 0 || column >= len(alloc) || row == column:
		return core.InvalidArgumentf("swizzle(): %d and %d are not two axes of the %d in the allocation domain of %s", row, column, len(alloc), s.name(v))
	}
	n, ok := s.f.Scalars().ConstInt(s.extent(alloc[column]))
	if !ok || n < 1 || bits.OnesCount64(uint64(n)) != 1 {
		return core.InvalidArgumentf("swizzle(): axis %d of the allocation domain of %s must have a power of two as its extent", column, s.name(v))
	}
	s.tensors[v].swizzle = append(s.tensors[v].swizzle, Swizzle{alloc[row], alloc[column]})
	return nil
}

// SetCopy says by which instruction the copy that defines v is made, and how
// its loads are cached. What else moves elements as they are, resizes and reads at positions,
// may have a cache hint alone.
func (s *Scheduled) SetCopy(v core.ValID, kind CopyKind, hint CacheHint) error {
	if why := s.notCopied(v, kind, hint); why != "" {
		return core.InvalidArgumentf("%s", why)
	}
	s.tensors[v].copyKind, s.tensors[v].cacheHint = kind, hint
	return nil
}

// notCopied returns why v cannot be loaded as kind and hint say, else "".
func (s *Scheduled) notCopied(v core.ValID, kind CopyKind, hint CacheHint) string {
	d := s.f.Val(v).Def
	if d == core.NoExpr {
		return fmt.Sprintf("%s is an input: it is not loaded", s.name(v))
	}
	e := s.f.Expr(d)
	_, isLookup := e.IndexedRead()
	switch isMove := e.Op.Class == core.Resize || isLookup && !e.Op.SumsListed(); {
	case e.Op == core.SetOp || kind == PlainCopy && (hint == CacheUnspecified || isMove):
		return ""
	case isMove:
		return fmt.Sprintf("%s is not a copy: it cannot be loaded by another instruction", s.name(v))
	}
	return fmt.Sprintf("%s is not a copy: it cannot be loaded by another instruction or with a cache hint", s.name(v))
}

// HoldPacked says that v, in registers, is read anew in each loop that reads it: a
// compiler would keep what the first one made of its elements, such as numbers
// of 32 bits of those of 16, in more registers.
func (s *Scheduled) HoldPacked(v core.ValID) error {
	if s.isInput(v) || s.tensors[v].memory != Local {
		return core.InvalidArgumentf("hold_packed(): %s is in global or shared memory, not in registers", s.name(v))
	}
	s.tensors[v].packed = true
	return nil
}

// HoldWindow says that v, a copy of an input in shared memory, holds a window of it: of each
// row all elements from the first to the last that a block has in the loops of v, and those
// beside them that lie in the same 16 bytes. The threads of a block load it together,
// 16 bytes at a time, whatever the loops of v that are not of blocks; the rows may begin anywhere.
// If it is swizzled, word k of 4 bytes of such 16 lies where word k^r would, r being the number of
// the row modulo 4: words of columns, of rows that begin elsewhere each, lie in other banks so.
func (s *Scheduled) HoldWindow(v core.ValID, swizzled bool) error {
	if why := s.noWindow(v); why != "" {
		return core.InvalidArgumentf("hold_window(): %s", why)
	}
	s.tensors[v].window, s.tensors[v].windowSwizzle = true, swizzled
	return nil
}

// noWindow returns why v cannot hold a window, else "".
func (s *Scheduled) noWindow(v core.ValID) string {
	t, d := &s.tensors[v], s.f.Val(v).Def
	switch {
	case d == core.NoExpr || s.f.Expr(d).Op != core.SetOp || !s.isInput(s.f.TensorArgs(s.f.Expr(d))[0]) || t.memory != Shared:
		return fmt.Sprintf("%s is not a copy of an input in shared memory", s.name(v))
	case t.alloc != nil || len(t.swizzle) > 0 || t.buffering != (Buffering{}):
		return fmt.Sprintf("%s has an allocation domain, a swizzle or a circular buffer of its own: a window lies as the input does", s.name(v))
	}
	return ""
}

// Keep lets v, a copy of a tensor in global memory, take the elements of the last iterations
// of its loop at place loop, which then come last, after the others from the last to the
// first, from where earlier, a copy of the same, left them: in shared memory those of kept iterations, in the second
// cache, if there is room, those of warm iterations before. If earlier has a circular buffer
// in shared memory, kept iterations are those of its tiles, or fewer.
func (s *Scheduled) Keep(v, earlier core.ValID, loop int, kept, warm int64) error {
	k := Keeping{earlier, loop, kept, warm}
	if why := s.notKept(v, k); why != "" {
		return core.InvalidArgumentf("keep(): %s", why)
	}
	s.tensors[v].keeping = k
	return nil
}

// notKept returns why k is nothing for v, else "".
func (s *Scheduled) notKept(v core.ValID, k Keeping) string {
	source := func(u core.ValID) core.ValID {
		t := &s.tensors[u]
		isThere := t.memory == Local || u == k.Earlier && t.memory == Shared && t.buffering.Stages > 0
		if d := s.f.Val(u).Def; d != core.NoExpr && s.f.Expr(d).Op == core.SetOp && isThere {
			return s.f.TensorArgs(s.f.Expr(d))[0]
		}
		return core.NoVal
	}
	switch from := source(v); {
	case from == core.NoVal || s.tensors[from].memory != Global || source(k.Earlier) != from || v == k.Earlier:
		return fmt.Sprintf("%s and %s are not copies of one tensor in global memory, in registers or, the earlier one, in a circular buffer", s.name(v), s.name(k.Earlier))
	case k.Loop < 0 || k.Loop >= min(len(s.Loop(v)), len(s.Loop(k.Earlier))):
		return fmt.Sprintf("%s and %s have no loop at place %d", s.name(v), s.name(k.Earlier), k.Loop)
	case s.tensors[k.Earlier].memory == Shared && k.Kept > int64(s.tensors[k.Earlier].buffering.Stages):
		return fmt.Sprintf("%d iterations are kept of %s, which has %d tiles", k.Kept, s.name(k.Earlier), s.tensors[k.Earlier].buffering.Stages)
	case k.Kept < 0 || k.Warm < 0 || k.Kept+k.Warm < 1:
		return fmt.Sprintf("%d iterations in shared memory and %d in a cache are kept: none is negative, and one is not 0", k.Kept, k.Warm)
	}
	return ""
}

// SetBuffering gives v a circular buffer of stages tiles, of which prefetch are
// loaded ahead of the one in use: 1 <= prefetch < stages.
func (s *Scheduled) SetBuffering(v core.ValID, stages, prefetch int) error {
	switch {
	case s.isInput(v) || s.tensors[v].memory == Global:
		return core.InvalidArgumentf("circular_buffer(): %s is in global memory", s.name(v))
	case s.tensors[v].window:
		return core.InvalidArgumentf("circular_buffer(): %s holds a window, of which there is one", s.name(v))
	case stages < 2 || prefetch < 1 || prefetch >= stages:
		return core.InvalidArgumentf("circular_buffer(): %d stages with a prefetch distance of %d; 1 <= distance < stages must hold", stages, prefetch)
	}
	s.tensors[v].buffering = Buffering{stages, prefetch}
	return nil
}

// extentText shows the extent of a.
func (s *Scheduled) extentText(a core.AxisID) string { return s.scalarText(s.extent(a)) }

// scalarText shows a size; that of dimension d of input tvN is tvN.d.
func (s *Scheduled) scalarText(e scalar.ID) string {
	t := s.f.Scalars()
	return t.Format(e, func(symbol scalar.ID) string {
		tag := t.Tag(symbol)
		if tag.Dim < 0 {
			return s.f.Name(core.ValID(tag.Val))
		}
		return fmt.Sprintf("%s.%d", s.f.Name(core.ValID(tag.Val)), tag.Dim)
	}, func(op scalar.Op) string { return fmt.Sprintf("op%d", op) })
}
