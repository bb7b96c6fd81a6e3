package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A storage is where a tensor lives: an element per point of axes, which are
// outermost first, allocated inside its first position loops.
type storage struct {
	axes     []core.AxisID
	position int
	promoted bool // axes are those of promoted loops
	set      bool // axes are those that the schedule set
	compact  bool // there is no room for points without an element
	onto     bool // each point of the loops has an element of its own, whether axes are those of loops or not
	// shared has, for each of axes, the loop whose value is the index along it in
	// what reads the tensor too, because it runs in that loop; NoAxis: none.
	shared []core.AxisID
	// alien marks those of axes whose loop carries more than the tensor's axis.
	alien []bool
}

// storageOf returns the storage of v. A global tensor has all its elements.
//
// Of others the loops left of the position store nothing, as each iteration
// overwrites the last one's, and neither do those that run in different threads
// (of Local) or blocks. What is computed in promoted loops is stored as they run
// only if a loop left of the position is promoted: the promotion may come from
// another consumer than the one that reads. Otherwise the tensor's own axes are
// stored: those that the schedule lists, the loops' or, if it is not inlined at
// all, the logical ones, which the promoted loops write several times.
func (a *Analysis) storageOf(v core.ValID) storage {
	memory, loop := a.s.Memory(v), a.s.Loop(v)
	if memory == schedule.Global {
		axes := slices.DeleteFunc(a.stored(a.allocation(v)), func(x core.AxisID) bool { return a.s.IsAlike(v, x) })
		return storage{axes: axes, compact: true, set: true}
	}
	if a.s.HoldsWindow(v) {
		return storage{axes: a.windowAxes(v), position: a.s.Position(v), compact: true, set: true}
	}
	st := storage{}
	circular := a.s.Buffering(v).Stages > 0 // allocated at its loop, see pipelined
	for st.position < a.s.Position(v) && (circular || !unrolls(a.m.Parallel(loop[st.position]))) {
		st.position++
	}
	own := !slices.ContainsFunc(loop[:st.position], a.m.IsPromoted) && a.omitted != ownStorage
	if own && st.position == 0 && slices.ContainsFunc(loop, a.m.IsPromoted) {
		return storage{axes: a.stored(a.f.Val(v).Domain.Logical), compact: true}
	}
	st.promoted = !own
	if alloc, set := a.s.Allocation(v); set && !slices.ContainsFunc(loop, func(x core.AxisID) bool { return a.m.IsPromoted(x) && !a.isPrivate(memory, x) }) {
		st.set, st.promoted = true, false
		st.axes = slices.DeleteFunc(a.stored(alloc), func(x core.AxisID) bool {
			k := slices.Index(loop, x)
			return k >= 0 && (k < st.position && !a.parallel(x).IsThread() || a.isPrivate(memory, x))
		})
		st.onto = a.isOnto(v, &st)
		st.compact = !st.onto && slices.ContainsFunc(st.axes, func(x core.AxisID) bool { return !slices.Contains(loop, x) })
		return st
	}
	for k, x := range loop {
		q := a.m.Promotion(x)
		coexist := memory == schedule.Shared && a.parallel(x).IsThread()
		if k < st.position && !coexist || a.isPrivate(memory, x) || a.isReduced(x) || a.isBroadcast(x) || a.isBroadcast(q) {
			continue
		}
		shared := core.NoAxis
		if k < a.s.Position(v) && (!own || !a.m.IsPromoted(x)) {
			shared = x
		}
		if own {
			q = x
		}
		st.axes, st.shared, st.alien = append(st.axes, q), append(st.shared, shared), append(st.alien, !own && a.m.IsPromoted(x))
	}
	st.onto = own && !slices.ContainsFunc(loop, a.m.IsPromoted) && a.isOnto(v, &st)
	return st
}

// isOnto reports whether the points of the loops of v that its storage st tells apart are as
// many as its elements. As loops lead to all elements, no two of those points have one; but
// not where the index along a stored axis follows from a loop that is not told apart: in a
// later block, or iteration, that leads beyond the storage.
func (a *Analysis) isOnto(v core.ValID, st *storage) bool {
	elements, points := int64(1), int64(1)
	for _, x := range st.axes {
		n, isConst := a.f.Scalars().ConstInt(a.f.Axis(x).Extent)
		if !isConst || n > maxOnto || elements > maxOnto {
			return false
		}
		elements *= n
	}
	loops := a.s.Loop(v)
	others := slices.DeleteFunc(slices.Clone(st.axes), func(x core.AxisID) bool { return slices.Contains(loops, x) })
	for k, x := range loops {
		n, isConst := a.f.Scalars().ConstInt(a.f.Axis(x).Extent)
		if k < st.position && !a.parallel(x).IsThread() || a.isPrivate(a.s.Memory(v), x) || a.isReduced(x) {
			if (!isConst || n != 1) && a.anyFollows(others, x, loops) {
				return false
			}
			continue
		}
		if !isConst || n > maxOnto || points > maxOnto {
			return false
		}
		points *= n
	}
	return points == elements
}

// anyFollows reports whether the index along one of axes, which are no loops, is made from an
// ancestor of loop x. The indices of the ancestors of loops follow from what they became.
func (a *Analysis) anyFollows(axes []core.AxisID, x core.AxisID, loops []core.AxisID) bool {
	if len(axes) == 0 {
		return false
	}
	ofOne, ofLoops := a.ancestors(x), a.ancestors(loops...)
	var follows func(y core.AxisID) bool
	follows = func(y core.AxisID) bool {
		d := a.f.Axis(y).Def
		if ofLoops[y] || d == core.NoTransform {
			return ofOne[y]
		}
		return slices.ContainsFunc(a.f.Transform(d).Inputs(), follows)
	}
	return slices.ContainsFunc(axes, follows)
}

// ancestors returns axes and those that they were made from.
func (a *Analysis) ancestors(axes ...core.AxisID) map[core.AxisID]bool {
	all := map[core.AxisID]bool{}
	for _, x := range axes {
		all[x] = true
	}
	for _, id := range a.f.TransformsTo(axes) {
		for _, x := range a.f.Transform(id).Inputs() {
			all[x] = true
		}
	}
	return all
}

// maxOnto bounds what isOnto counts, so that products fit.
const maxOnto = 1 << 30

// isDeclared reports whether a schedule lays input v out as its definition does,
// and promises no more than that: the host checks the definition's promises.
func (a *Analysis) isDeclared(v core.ValID) bool {
	alloc, _ := a.s.Allocation(v)
	contig, d := a.s.Contiguity(v), &a.f.Val(v).Domain
	for k := range contig {
		if contig[k] == core.Yes && (k >= len(d.Contig) || d.Contig[k] != core.Yes) {
			return false
		}
	}
	return slices.Equal(alloc, d.Allocation())
}

// isPrivate reports whether the iterations of the loop of x each have memory of
// their own.
func (a *Analysis) isPrivate(memory schedule.Memory, x core.AxisID) bool {
	p := a.parallel(x)
	return memory != schedule.Global && p.IsBlock() || memory == schedule.Local && p.IsThread()
}

// stored returns those of axes that elements differ along.
func (a *Analysis) stored(axes []core.AxisID) []core.AxisID {
	return slices.DeleteFunc(slices.Clone(axes), func(x core.AxisID) bool { return a.isBroadcast(x) || a.isReduced(x) })
}

func unrolls(p schedule.Parallel) bool { return p == schedule.Unroll || p == schedule.Unswitch }
