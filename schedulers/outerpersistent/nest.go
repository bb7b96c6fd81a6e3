package outerpersistent

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
)

func (a *analysis) build(p Params) (*schedule.Scheduled, error) {
	if err := scheduler.CheckPositive(p, p.Vector, p.Lanes, p.Steps, p.Rows, p.Blocks, int64(p.Price)); err != nil {
		return nil, err
	}
	return scheduler.Build(a.g.Fusion, func(s *schedule.Scheduled) error {
		b := &builder{Params: p, a: a, s: s}
		return b.schedule()
	})
}

// A builder makes the schedule of a segment with its parameters. The loops are, from
// outside, those that there are of: blocks of columns, blocks that share a column, steps
// one after the other, steps side by side, threads along the reduced dimension, threads
// along the columns, columns of a thread.
type builder struct {
	Params
	a     *analysis
	s     *schedule.Scheduled
	types []schedule.Parallel         // of those loops
	again []core.ValID                // inputs that later phases load again
	loads map[core.ValID][]core.ValID // copies() as long as all have the loops of types: narrower accesses add one
	ahead map[core.ValID]core.ValID   // their copies in circular buffers, of the first phase

	turned []turnedCopy
}

func (b *builder) schedule() error {
	s, reference := b.s, b.a.reference
	sums, err := passes(s, b.Reload)
	if err != nil {
		return err
	}
	instead, err := scheduler.CacheOutputs(s)
	if err != nil {
		return err
	}
	for _, names := range []map[core.ValID]core.ValID{sums, instead} {
		if v, ok := names[reference]; ok {
			reference = v
		}
	}
	if err := b.turnOutputs(); err != nil {
		return err
	}
	phases, err := persistence.Sort(s)
	if err != nil {
		return err
	}
	if err := b.loops(reference); err != nil {
		return err
	}
	if err := scheduler.Spread(s, name, reference); err != nil {
		return err
	}
	if err := b.recompute(phases); err != nil {
		return err
	}
	if err := b.stage(); err != nil {
		return err
	}
	if err := b.turnInputs(); err != nil {
		return err
	}
	parts := make([][]core.ValID, len(phases.Reductions))
	var results []core.ValID
	for k, v := range phases.Reductions {
		results = append(results, s.Fusion().Expr(s.Fusion().Val(v).Def).Out...)
		if parts[k], err = b.ofBlock(v); err != nil {
			return err
		}
	}
	like := slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return slices.Contains(results, v) })
	whole := slices.DeleteFunc(slices.Clone(like), func(v core.ValID) bool { return s.Fusion().Val(v).Input || len(s.Loop(v)) != len(b.types) })
	if err := b.parallelize(slices.Concat(parts[0], whole), b.types); err != nil { // phases may have no tensors in common
		return err
	}
	if err := s.ParallelizeLike(parts[0][0], -1, like, nil); err != nil {
		return err
	}
	for k, v := range phases.Reductions {
		if err := b.fold(v, parts[k]); err != nil {
			return err
		}
	}
	if err := b.a.space.Vectorize(s, b.a.pitch(b.Vector)); err != nil {
		return err
	}
	b.countInFloats()
	if err := b.keep(); err != nil {
		return err
	}
	if err := b.turnLoops(); err != nil {
		return err
	}
	if err := s.InlineMost(nil, nil); err != nil || !b.Reload {
		return err
	}
	at := b.steps()[0] + 1
	if b.Rounds {
		at = 1 // blocks wait for each other inside
	}
	for _, u := range b.again {
		if v, ok := b.ahead[u]; ok {
			if err := s.InlineAt(v, at, false); err != nil {
				return err
			}
		}
	}
	return b.lift()
}

// lift lets what all elements of a column share be loaded before the loops along it: who
// reads it there in each iteration would load it in each.
func (b *builder) lift() error {
	f := b.s.Fusion()
	for _, v := range b.s.Tensors() {
		d, loop := f.Val(v).Def, b.s.Loop(v)
		if d == core.NoExpr || f.Expr(d).Op != core.SetOp || b.s.Memory(v) != schedule.Local {
			continue
		}
		if u := f.TensorArgs(f.Expr(d))[0]; !f.Val(u).Input && b.s.Memory(u) != schedule.Shared {
			continue
		}
		blocks := 0
		if b.Rounds {
			blocks = 1
		}
		for blocks < len(loop) && b.s.Parallel(loop[blocks]).IsBlock() {
			blocks++
		}
		isAlong := len(loop) == len(b.types) && slices.ContainsFunc(b.steps(), func(k int) bool { return f.Axis(loop[k]).Kind != core.Broadcast })
		if isAlong || b.s.Position(v) <= blocks {
			continue
		}
		if err := b.s.InlineAt(v, blocks, true); err != nil {
			return err
		}
	}
	return nil
}

// copies returns the copies in registers of what is loaded again, those of each phase after
// those of the one before.
func (b *builder) copies() map[core.ValID][]core.ValID {
	copies, f := map[core.ValID][]core.ValID{}, b.s.Fusion()
	for _, v := range b.s.Tensors() {
		if d := f.Val(v).Def; d != core.NoExpr && f.Expr(d).Op == core.SetOp && len(b.s.Loop(v)) == len(b.types) && b.s.Memory(v) == schedule.Local {
			u := f.TensorArgs(f.Expr(d))[0]
			copies[u] = append(copies[u], v)
		}
	}
	for _, u := range b.again {
		slices.Sort(copies[u]) // those of later phases were made later
	}
	return copies
}

// stage lets the first phase copy what is loaded again to circular buffers, so that many
// iterations are under way and the last ones stay there. In rounds all stays there, and nothing is read again: the second
// cache has what is written, which memory then takes while blocks wait. So a batch norm took 79.3 / 73.3 us (second
// cache dirty / clean) rather than 79.6 / 75.6.
func (b *builder) stage() error {
	b.ahead, b.loads = map[core.ValID]core.ValID{}, b.copies()
	if b.Kept < 2 {
		return nil
	}
	for _, u := range b.again {
		if len(b.loads[u]) < 2 {
			continue
		}
		first := b.loads[u][:1]
		if b.Rounds {
			first = b.loads[u]
		}
		v, err := b.s.CacheAfter(u, first)
		if err != nil {
			return err
		}
		hint := schedule.CacheUnspecified
		if b.Once && !b.Rounds {
			hint = schedule.CacheEvictFirst
		}
		if err := b.s.SetCopy(v, schedule.AsyncCopy, hint); err != nil {
			return err
		}
		if err := b.s.SetMemory(v, schedule.Shared); err != nil {
			return err
		}
		if !b.Rounds {
			if err := b.s.SetBuffering(v, int(b.Kept), int(b.Kept)-1); err != nil {
				return err
			}
		}
		refusals, err := b.s.TransformLike(first[0], []core.ValID{v})
		if err := scheduler.Follow(name, refusals, err); err != nil {
			return err
		}
		b.ahead[u] = v
	}
	if !b.Rounds {
		return nil
	}
	f := b.s.Fusion()
	for _, o := range f.Outputs() {
		if d := f.Val(o.Val).Def; d != core.NoExpr && f.Expr(d).Op == core.SetOp && len(b.s.Loop(o.Val)) == len(b.types) {
			if err := b.s.SetCopy(o.Val, schedule.PlainCopy, schedule.CacheEvictLast); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep lets what a later phase loads again stay where the first one left it.
func (b *builder) keep() error {
	if b.Kept+b.Warm == 0 || b.Rounds {
		return nil
	}
	for _, u := range b.again {
		all := b.loads[u]
		if v, ok := b.ahead[u]; ok {
			all = []core.ValID{v, all[1]} // the first phase reads v
		}
		if len(all) > 1 {
			if err := b.s.Keep(all[1], all[0], b.steps()[0], b.Kept, b.Warm); err != nil {
				return err
			}
		}
	}
	return nil
}

// recompute lets later phases read copies of what is not held. Tensors have their loops
// by then, which copies get from what reads them: nothing else may lead to a copy of an
// input from those of earlier phases.
func (b *builder) recompute(phases *persistence.Phases) error {
	old := map[core.ValID]bool{}
	for _, v := range b.s.Tensors() {
		old[v] = true
	}
	phases.Reload = b.Reload
	plan := phases.Choose(b.Price, b.Vector > 1)
	b.again = plan.LoadedAgain()
	if err := plan.Apply(); err != nil {
		return err
	}
	f := b.s.Fusion()
	left := slices.DeleteFunc(slices.Clone(b.s.Tensors()), func(v core.ValID) bool { return old[v] })
	for _, v := range slices.Backward(b.s.Tensors()) {
		if f.Val(v).Input || slices.Contains(left, v) || !slices.ContainsFunc(f.TensorArgs(f.Expr(f.Val(v).Def)), func(u core.ValID) bool { return slices.Contains(left, u) }) {
			continue
		}
		if refusals, err := b.s.TransformLike(v, left); err != nil || len(refusals) > 0 {
			return scheduler.Follow(name, refusals, err)
		}
	}
	return nil
}

// loops gives the reduction v its loops.
func (b *builder) loops(v core.ValID) error {
	order, outside, reduced := b.a.order()
	moves := map[int]int{}
	for k, d := range order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: v}
	n.Reorder(moves)
	n.Merge(outside+reduced, len(order)-outside-reduced)
	n.Merge(outside, reduced)
	n.Merge(0, outside)
	at := min(outside, 1) // of the reduced loop
	switch {
	case n.Err != nil:
	case b.Rounds:
		n.Err = b.s.SplitWhole(v, at, b.Kept*b.capacity())
	case b.Reload:
		n.Err = b.s.Split(v, at, b.capacity(), true)
	default:
		n.Err = b.s.SplitWhole(v, at, b.capacity())
	}
	blocks := at + 2
	if b.Turn > 0 {
		n.Split(at+1, b.Steps, schedule.Serial)
		n.Reorder(map[int]int{at + 1: at + 2})
	} else {
		n.Split(at+1, b.Rows, schedule.Serial)
	}
	if b.Near && b.Blocks > 1 {
		if n.Err == nil { // also of one step
			n.Err = b.s.Split(v, at+1, b.Steps, true)
		}
		blocks = at + 1
		if b.Rounds {
			n.Split(at+1, b.Blocks, schedule.Serial)
			n.Merge(at, 2)
		}
	} else {
		n.Split(at+1, b.Blocks, schedule.Serial)
	}
	end := len(b.s.Loop(v)) - 1
	n.Split(end, b.Vector, schedule.Serial)
	if n.Err == nil { // along x there are threads in any case
		n.Err = b.s.Split(v, end, b.Lanes, true)
	}
	front := map[int]int{end: at}
	if b.Blocks > 1 {
		front[blocks] = at + 1
	}
	n.Reorder(front)
	n.Merge(0, at+1)
	steps := schedule.Serial
	if b.Reload {
		steps = schedule.Unroll
	}
	b.types = []schedule.Parallel{b.tiles()}
	if b.Blocks > 1 {
		b.types = append(b.types, schedule.BIDy)
	}
	b.types = append(b.types, schedule.Serial, steps)
	if warps := b.warps(); warps > 0 {
		n.Split(len(b.types), b.Rows/warps, schedule.Serial)
		b.types = append(b.types, schedule.TIDz)
	}
	if b.Rows > 1 {
		b.types = append(b.types, schedule.TIDy)
	}
	b.types = append(b.types, schedule.TIDx)
	if b.Vector > 1 {
		b.types = append(b.types, schedule.Serial)
	}
	return n.Err
}

// tiles says what runs the loop over tiles of columns.
func (b *builder) tiles() schedule.Parallel {
	if b.Rounds {
		return schedule.Serial
	}
	return schedule.BIDx
}

// place returns where the loop of a kind is among those of types, or -1.
func (b *builder) place(p schedule.Parallel) int { return slices.Index(b.types, p) }

// steps are the loops along what is reduced that a thread has alone.
func (b *builder) steps() []int {
	at := 1
	if b.Blocks > 1 {
		at++
	}
	return []int{at, at + 1}
}

// ofBlock lets v be reduced from what threads have, or from what blocks have where several
// share a column. It returns what has the loops of types.
func (b *builder) ofBlock(v core.ValID) ([]core.ValID, error) {
	loop, f := b.s.Loop(v), b.s.Fusion()
	if len(loop) != len(b.types) || f.Axis(loop[b.steps()[0]]).Kind != core.Reduce {
		return nil, scheduler.Refused(f, name, "loops", v, "%s is not reduced along the dimensions of the first reduction", f.Name(v))
	}
	own := b.steps()
	for _, p := range []schedule.Parallel{schedule.TIDz, schedule.TIDy} {
		if at := b.place(p); b.Blocks > 1 && at >= 0 {
			own = append(own, at)
		}
	}
	if b.Blocks == 1 && b.Rows == 1 {
		return slices.Clone(f.Expr(f.Val(v).Def).Out), nil
	}
	return b.s.RFactor(v, own)
}

// parallelize says how the loops of tensors run.
func (b *builder) parallelize(tensors []core.ValID, types []schedule.Parallel) error {
	for _, v := range tensors {
		n := scheduler.Nest{Schedule: b.s, Tensor: v}
		for k, p := range types {
			n.Parallelize(k, p)
		}
		if n.Err != nil {
			return n.Err
		}
	}
	return nil
}

// fold reduces v from part, which it was factored into.
func (b *builder) fold(v core.ValID, part []core.ValID) error {
	s := b.s
	if b.Blocks == 1 && b.Rows == 1 {
		return b.parallelize(part, b.types)
	}
	results := slices.Clone(s.Fusion().Expr(s.Fusion().Val(v).Def).Out)
	columns := []schedule.Parallel{schedule.TIDx}
	if b.Vector > 1 {
		columns = append(columns, schedule.Serial)
	}
	if b.Blocks == 1 {
		return b.parallelize(results, slices.Concat([]schedule.Parallel{b.tiles(), schedule.TIDy}, columns))
	}
	if b.Rows > 1 {
		if _, err := s.RFactor(part[0], b.steps()); err != nil {
			return err
		}
	}
	b.countInFloats()
	var left []core.ValID // in global memory, by all blocks
	for _, p := range part {
		c, err := b.copyLike(p, p, schedule.Global)
		switch {
		case err != nil:
		case s.CountsInFloat(p): // all columns have as many elements
			loop := s.Loop(c)
			err = s.StoreAlike(c, loop[:2], loop[2:])
		default:
			err = b.inVectors(c, b.Vector)
		}
		if err != nil {
			return err
		}
		left = append(left, c)
	}
	b.countInFloats()
	if b.Rows == 1 {
		return b.parallelize(results, slices.Concat([]schedule.Parallel{b.tiles(), schedule.Serial}, columns))
	}
	if b.warps() > 0 {
		return b.gather(v, results, left)
	}
	if scheduler.CeilDiv(b.Blocks, b.Lanes) <= fewParts {
		return b.spread(v, results, left)
	}
	for _, w := range results {
		n := scheduler.Nest{Schedule: s, Tensor: w}
		n.Split(1, b.Rows, schedule.Serial)
		if n.Err != nil {
			return n.Err
		}
	}
	if err := b.parallelize(results, slices.Concat([]schedule.Parallel{b.tiles(), schedule.Serial, schedule.TIDy}, columns)); err != nil {
		return err
	}
	_, err := s.RFactor(v, []int{1})
	return err
}

// countInFloats has blocks that go around in rounds tell each other half as much: they wait for what they read.
func (b *builder) countInFloats() {
	if b.Rounds {
		b.s.CountInFloats(b.Kept * b.capacity())
	}
}

// spread lets each thread of a block reduce few columns of results from what blocks have
// left, as few lanes of a warp each: threads along the columns lie along the blocks then, and
// those along what is reduced along the columns. All threads read the results from shared
// memory.
func (b *builder) spread(v core.ValID, results, left []core.ValID) error {
	s := b.s
	const parts, columns = 1, 3
	loops := []schedule.Parallel{b.tiles(), schedule.Unroll, schedule.TIDx, schedule.Serial, schedule.TIDy}
	for _, w := range results {
		n := scheduler.Nest{Schedule: s, Tensor: w}
		if b.Vector > 1 {
			n.Merge(parts+1, 2)
		}
		if n.Err == nil {
			n.Err = s.Split(w, parts, b.Lanes, true)
		}
		if n.Err == nil {
			n.Err = s.Split(w, columns, b.Rows, true)
		}
		if n.Err != nil {
			return n.Err
		}
	}
	if err := b.share(results, slices.Delete(slices.Clone(loops), parts, columns)); err != nil {
		return err
	}
	if err := b.parallelize(results, loops); err != nil {
		return err
	}
	own, err := s.RFactor(v, []int{parts})
	if err != nil {
		return err
	}
	for _, p := range left { // all that a thread reads of them is under way together
		if _, err := b.copyLike(p, own[0], schedule.Local); err != nil {
			return err
		}
	}
	return nil
}

// gather lets each warp of a block reduce all columns of results from what some blocks have left, and then all
// warps those, so that a warp reads lines of memory. All threads read the results from shared memory.
func (b *builder) gather(v core.ValID, results, left []core.ValID) error {
	s := b.s
	const parts, columns = 1, 3
	width := b.Lanes * b.Vector / warp
	loops := []schedule.Parallel{b.tiles(), schedule.Unroll, schedule.TIDz, schedule.TIDy, schedule.TIDx, schedule.Serial}
	for _, w := range results {
		n := scheduler.Nest{Schedule: s, Tensor: w}
		n.Merge(parts+1, 2)
		for _, split := range [][2]int64{{parts, b.warps()}, {columns, width}, {columns, b.Lanes}} {
			if n.Err == nil {
				n.Err = s.Split(w, int(split[0]), split[1], true)
			}
		}
		if n.Err != nil {
			return n.Err
		}
	}
	if err := b.share(results, slices.Concat(loops[:parts], loops[columns:])); err != nil {
		return err
	}
	if err := b.parallelize(results, loops); err != nil {
		return err
	}
	own, err := s.RFactor(v, []int{parts})
	if err != nil {
		return err
	}
	for _, p := range left { // all that a thread reads of them is under way together
		c, err := b.copyLike(p, own[0], schedule.Local)
		if err == nil && !s.CountsInFloat(p) {
			err = b.inVectors(c, width)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warps returns how many warps of a block there are along what is reduced, if all lanes of each lie along the columns
// where the block gathers what others have left; else 0.
func (b *builder) warps() int64 {
	if across := warp / b.Lanes; b.Rounds && b.Vector > 1 && b.Lanes*b.Vector%warp == 0 && b.Rows%across == 0 && b.Rows > across {
		return b.Rows / across
	}
	return 0
}

// share lets what reads results read copies of them from shared memory, which have these loops.
func (b *builder) share(results []core.ValID, loops []schedule.Parallel) error {
	for _, w := range results {
		readers := b.readers(w)
		if len(readers) == 0 {
			continue
		}
		c, err := b.copyLike(w, w, schedule.Shared)
		if err == nil {
			err = b.parallelize([]core.ValID{c}, loops)
		}
		if err == nil {
			_, err = b.copyLike(c, readers[0], schedule.Local)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inVectors lets a thread move what it has of neighbouring elements of v by instructions of
// accessBytes: the barrier after it waits for each.
func (b *builder) inVectors(v core.ValID, elements int64) error {
	width := min(elements, accessBytes/int64(b.s.Fusion().Val(v).DType.Size()))
	if width <= 1 {
		return nil
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: v}
	at := len(b.s.Loop(v)) - 1
	if width < elements {
		n.Split(at, width, schedule.Serial)
		at++
	}
	n.Parallelize(at, schedule.Vectorize)
	return n.Err
}

// readers returns the results of what reads v.
func (b *builder) readers(v core.ValID) (list []core.ValID) {
	f := b.s.Fusion()
	for _, id := range f.Order() {
		if e := f.Expr(id); slices.Contains(f.TensorArgs(e), v) {
			list = append(list, e.Out...)
		}
	}
	return list
}

// copyLike lets all that reads v read a copy of it, which has the loops of like.
func (b *builder) copyLike(v, like core.ValID, memory schedule.Memory) (core.ValID, error) {
	c, err := b.s.CacheAfter(v, nil)
	if err != nil {
		return c, err
	}
	if err := b.s.SetMemory(c, memory); err != nil {
		return c, err
	}
	refusals, err := b.s.TransformLike(like, []core.ValID{c})
	if err := scheduler.Follow(name, refusals, err); err != nil {
		return c, err
	}
	return c, b.s.ParallelizeLike(like, -1, []core.ValID{c}, nil)
}
