package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// checkThreads refuses schedules in which a thread would need what another one
// has and nothing carries it over: registers of other threads, shared memory of
// other blocks, and global memory that another block writes in the same launch.
func (a *Analysis) checkThreads() error {
	for _, id := range a.f.Order() {
		e := a.f.Expr(id)
		if err := a.checkNest(id, e.Out[0]); err != nil {
			return err
		}
		for k, p := range a.f.TensorArgs(e) {
			if a.f.Val(p).Input {
				continue
			}
			if err := a.checkExchange(p, e.Out[0]); err != nil {
				return err
			}
			if err := a.checkIndirect(e, k, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNest fails if two loops around a statement are one dimension.
func (a *Analysis) checkNest(id core.ExprID, v core.ValID) error {
	seen := map[schedule.Parallel]bool{}
	for _, class := range a.m.Nest(id) {
		if p := a.parallel(class); a.isSpread(class) && seen[p] {
			return a.refuse("parallel type", v, "two of the loops that %s is computed in are %v", a.f.Name(v), p)
		}
		seen[a.parallel(class)] = true
	}
	return nil
}

// checkExchange fails if p is in memory that the threads which compute c do not
// share with those that compute p.
func (a *Analysis) checkExchange(p, c core.ValID) error {
	for k, x := range a.tensors[p].loop {
		if a.isReduced(x) || !a.isApart(p, x) || a.runsAlong(c, x) {
			continue
		}
		return a.refuse("exchange", p, "axis %d of %s is %v, and %s, which reads %s in %v memory, does not run over the same %v",
			k, a.f.Name(p), a.parallel(x), a.f.Name(c), a.f.Name(p), a.s.Memory(p), a.parallel(x))
	}
	if a.s.Memory(p) != schedule.Global {
		return nil
	}
	// What no loop of a tensor says is computed by all blocks, and written by
	// the first.
	for _, d := range a.blocks {
		bound := a.isBound(p, d)
		if !bound && !a.isBound(c, d) && a.s.Memory(c) == schedule.Global {
			continue
		}
		if !bound || !a.isBound(c, d) {
			return a.refuse("exchange", p, "%s reads %s in global memory, which another block along %v writes: this needs a kernel of its own", a.f.Name(c), a.f.Name(p), d)
		}
	}
	return nil
}

// isBound reports whether a loop of v of type p runs over an axis of its own.
func (a *Analysis) isBound(v core.ValID, p schedule.Parallel) bool {
	return slices.ContainsFunc(a.tensors[v].loop, func(x core.AxisID) bool {
		return a.parallel(x) == p && !a.isReduced(x) && !a.m.IsPromoted(x)
	})
}

// isApart reports whether those who run the iterations of loop axis x of p do not
// see each other's elements of p.
func (a *Analysis) isApart(p core.ValID, x core.AxisID) bool {
	return a.parallel(x).IsBlock() || a.isPrivate(a.s.Memory(p), x)
}

// runsAlong reports whether v has a loop axis with the type and the index of
// loop axis x of another tensor.
func (a *Analysis) runsAlong(v core.ValID, x core.AxisID) bool {
	return slices.ContainsFunc(a.tensors[v].loop, func(b core.AxisID) bool {
		return a.parallel(b) == a.parallel(x) &&
			(a.m.LoopClass(b) == a.m.LoopClass(x) || a.m.AlmostExact(a.m.Promotion(b)) == a.m.AlmostExact(a.m.Promotion(x)))
	})
}

// checkIndirect fails if e reads p, its tensor operand k, along an axis at
// positions that its loops do not say, while that axis is spread.
func (a *Analysis) checkIndirect(e *core.Expr, k int, p core.ValID) error {
	along := map[core.AxisID]bool{}
	var positions []int
	if e.Op.AxisMap != nil {
		positions = e.Op.AxisMap(a.f, e, k, 0)
	}
	logical := a.f.Axes(p)
	for i := range a.f.Val(e.Out[0]).Domain.Root {
		at := i
		if positions != nil {
			at = positions[i]
		}
		if at >= 0 && at < len(logical) {
			along[logical[at]] = true
		}
	}
	if e.Op == core.ReshapeOp {
		for _, i := range e.Op.NeedsWhole(a.f, e) {
			along[logical[i]] = false
		}
	}
	for _, x := range a.tensors[p].loop {
		if !a.isApart(p, x) {
			continue
		}
		for _, l := range logical {
			if !along[l] && !a.isBroadcast(l) && a.stems(x, l) {
				return a.refuse("exchange", p, "%s reads %s at positions of an axis that is %v, which other threads or blocks have", a.f.Name(e.Out[0]), a.f.Name(p), a.parallel(x))
			}
		}
	}
	return nil
}

// stems reports whether x is made from l.
func (a *Analysis) stems(x, l core.AxisID) bool {
	if x <= l {
		return x == l
	}
	d := a.f.Axis(x).Def
	return d != core.NoTransform && slices.ContainsFunc(inputs(a.f.Transform(d)), func(in core.AxisID) bool { return a.stems(in, l) })
}
