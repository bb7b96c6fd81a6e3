package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// checkOperations refuses what no thread computes element by element.
func (a *Analysis) checkOperations() error {
	for _, id := range a.f.Order() {
		e := a.f.Expr(id)
		switch e.Op.Class {
		case core.Elementwise, core.Reduction, core.View, core.Resize, core.Gather, core.Factory, core.Random, core.Scan, core.Sort:
		default:
			return a.refuse("operation", e.Out[0], "%s is the result of %s(), which this build does not compute in a kernel", a.f.Name(e.Out[0]), e.Op.Name)
		}
	}
	return nil
}

// checkMemory refuses what this build does not do with memory.
func (a *Analysis) checkMemory() error {
	for _, v := range a.s.Tensors() {
		name := a.f.Name(v)
		switch _, set := a.s.Allocation(v); {
		case set && a.f.Val(v).Input && !a.isDeclared(v):
			return a.refuse("allocation", v, "%s is an input and lies in memory as the caller has it: its order and its contiguity are said where it is defined", name)
		case set && !a.tensors[v].storage.set:
			return a.refuse("allocation", v, "%s has an allocation domain and is computed in loops that run over more than its axes: inline less", name)
		}
		if a.s.HoldsWindow(v) {
			if err := a.checkWindow(v); err != nil {
				return err
			}
		}
		switch kind := a.s.CopyKind(v); {
		case len(a.s.Swizzles(v)) > 0 && !a.canSwizzle(v):
			return a.refuse("swizzle", v, "%s is swizzled along an axis that it does not store: loops left of where it is inlined, or of blocks, take no room", name)
		case kind != schedule.PlainCopy && kind != schedule.AsyncCopy:
			return a.refuse("copy", v, "%s is copied by an instruction that this build does not use", name)
		case kind == schedule.AsyncCopy && (a.s.Memory(v) != schedule.Shared || a.s.Memory(a.f.TensorArgs(a.f.Expr(a.f.Val(v).Def))[0]) != schedule.Global):
			return a.refuse("copy", v, "%s is copied asynchronously, which is done from global to shared memory only", name)
		}
	}
	return nil
}

// checkThreads refuses schedules in which a thread would need what another one
// has and nothing carries it over, as far as the loops alone say it: two loops
// that are one dimension, and global memory that another block writes in the same
// launch. [context.read] does the rest.
func (a *Analysis) checkThreads() error {
	for _, id := range a.f.Order() {
		e := a.f.Expr(id)
		if err := a.checkNest(id, e.Out[0]); err != nil {
			return err
		}
		for _, p := range a.f.TensorArgs(e) {
			if a.f.Val(p).Input || a.s.Memory(p) != schedule.Global || a.cooperative {
				continue
			}
			if err := a.checkBlocks(p, e.Out[0]); err != nil {
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

// checkBlocks fails if c may read an element of p, in global memory, that another
// block writes. Along a dimension that no loop of a tensor has, all blocks
// compute it and the first one writes it.
func (a *Analysis) checkBlocks(p, c core.ValID) error {
	first := a.s.Memory(c) == schedule.Global && !slices.ContainsFunc(a.tensors[c].loop, func(x core.AxisID) bool { return a.isReduced(x) && a.isSpread(x) })
	for _, d := range a.blocks {
		ofP, ofC := a.bound(p, d), a.bound(c, d)
		if ofP == ownLoop && ofC == ownLoop || ofP == noLoop && ofC == noLoop && first {
			continue
		}
		return a.refuse("exchange", p, "%s reads %s in global memory, which another block along %v writes: this needs a kernel of its own", a.f.Name(c), a.f.Name(p), d)
	}
	return nil
}

// A binding is what a tensor has of a dimension of the grid or block.
type binding uint8

const (
	noLoop       binding = iota
	ownLoop              // one over an axis of its own
	promotedLoop         // one over more than that
)

func (a *Analysis) bound(v core.ValID, p schedule.Parallel) binding {
	for _, x := range a.tensors[v].loop {
		if a.parallel(x) == p && !a.isReduced(x) {
			if a.m.IsPromoted(x) {
				return promotedLoop
			}
			return ownLoop
		}
	}
	return noLoop
}

// An apartAxis is a loop axis of a tensor whose iterations are in threads that do
// not see each other's elements, and the index that says which thread.
type apartAxis struct {
	axis  core.AxisID
	index index
}

// apart returns those of v.
func (l *lowering) apart(v core.ValID) []apartAxis {
	t, memory := l.tensors[v], l.s.Memory(v)
	var list []apartAxis
	for _, x := range t.loop {
		waits := memory == schedule.Global && l.cooperative
		if l.isReduced(x) || !l.isSpread(x) || waits || !l.parallel(x).IsBlock() && !l.isPrivate(memory, x) {
			continue
		}
		list = append(list, apartAxis{l.m.Promotion(x), l.dimension(l.parallel(x)).symbol})
	}
	return list
}

// sees fails unless the statement reads elements of operand v that its own
// thread has: those along the loop axes that are spread are at its index.
func (c *context) sees(v core.ValID, apart []apartAxis, at []index) error {
	for i, x := range apart {
		if at[i] != x.index {
			return c.refuse("exchange", v, "%s reads an element of %s that another thread or block has: %s is in %v memory and computed at index %s by the one at %s",
				c.f.Name(c.tensor.v), c.f.Name(v), c.f.Name(v), c.s.Memory(v), c.b.Kernel().Expr(at[i]), c.b.Kernel().Expr(x.index))
		}
	}
	return nil
}

// seesLimited fails if the statement runs in the last block to arrive at a
// reduction and reads v in global memory, which the first one has written.
func (c *context) seesLimited(v core.ValID) error {
	dims, _ := c.limits(c.f.Expr(c.f.Val(c.tensor.v).Def))
	for _, d := range dims {
		if !slices.Contains(c.limited[v].dims, d) {
			return c.refuse("exchange", v, "%s is computed by the last block along %v and reads %s in global memory, which another one writes: this needs a kernel of its own", c.f.Name(c.tensor.v), d, c.f.Name(v))
		}
	}
	return nil
}
