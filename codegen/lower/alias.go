package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// findAliases notes the outputs that are written to the memory of inputs.
func (a *Analysis) findAliases() {
	a.alias, a.overwritten = map[core.ValID]core.ValID{}, map[core.ValID]core.ValID{}
	for _, o := range a.f.Outputs() {
		if o.Alias != core.NoVal {
			a.alias[o.Val], a.overwritten[o.Alias] = o.Alias, o.Val
		}
	}
}

// allocation returns the axes of v in memory order, outermost first: of an
// output in the memory of an input as that has them.
func (a *Analysis) allocation(v core.ValID) []core.AxisID {
	in, ok := a.alias[v]
	if !ok {
		alloc, _ := a.s.Allocation(v)
		return alloc
	}
	alloc, _ := a.s.Allocation(in)
	logical, mine := a.f.Axes(in), a.f.Axes(v)
	out := make([]core.AxisID, len(alloc))
	for i, x := range alloc {
		out[i] = mine[slices.Index(logical, x)]
	}
	return out
}

// checkAliases refuses outputs in the memory of inputs that are not laid out like
// them, or that are somewhere else too.
func (a *Analysis) checkAliases() error {
	for _, o := range a.f.Outputs() {
		in, ok := a.alias[o.Val]
		if !ok {
			continue
		}
		name := a.f.Name(o.Val)
		if a.f.Val(o.Val).Input || slices.ContainsFunc(a.f.Outputs(), func(p core.Output) bool { return p.Val == o.Val && p.Alias != in }) {
			return a.refuse("alias", o.Val, "%s is written to the memory of %s and is another output or an input too: copy it", name, a.f.Name(in))
		}
		if def := a.f.Val(o.Val).Def; def != core.NoExpr && a.f.Expr(def).Op.Class == core.Reduction {
			return a.refuse("alias", o.Val, "%s is reduced in the memory of %s, where the first step would overwrite what is read: cache it before", name, a.f.Name(in))
		}
		if a.isOutput(in) {
			return a.refuse("alias", o.Val, "%s is written to the memory of %s, which is an output as it was", name, a.f.Name(in))
		}
		if alloc, set := a.s.Allocation(o.Val); set && !slices.Equal(a.stored(alloc), a.stored(a.allocation(o.Val))) {
			return a.refuse("allocation", o.Val, "%s is written to the memory of %s and has an allocation domain of another order", name, a.f.Name(in))
		}
		logical, mine := a.f.Axes(in), a.f.Axes(o.Val)
		for i, x := range logical {
			if a.isBroadcast(x) != a.isBroadcast(mine[i]) {
				return a.refuse("alias", o.Val, "%s is written to the memory of %s, and only one of them has elements of its own along dimension %d", name, a.f.Name(in), i)
			}
		}
	}
	return nil
}

// A touch is an access to memory that an input and an output share.
type touch struct {
	loops    []core.AxisID // around it, without those of one iteration or instruction
	coords   []index
	shared   bool                // more than one thread makes it
	repeated bool                // more than one iteration makes it
	number   int                 // of the statement
	async    bool                // it goes on after the statement, until some wait
	last     []schedule.Parallel // dimensions of the grid of which the last block to arrive makes it
}

// touched notes that the statement reads input v, or writes output v, if the
// memory is shared so.
func (c *context) touched(v core.ValID, coords []index, write bool) {
	out, isInput := c.overwritten[v]
	_, isOutput := c.alias[v]
	switch {
	case c.again:
		return
	case write && isOutput:
		out = v
	case write || !isInput:
		return
	}
	id := c.f.Val(c.tensor.v).Def
	last, _ := c.limits(c.f.Expr(id))
	t := touch{coords: coords, number: c.numStatements, async: !write && c.isAsync(), shared: c.redundant || len(c.onceAmongThreads(last)) > 0, last: last}
	for _, class := range c.m.Nest(id) {
		if !c.isOwnLoop(v, class) && !c.isOne(c.m.Promotion(class)) {
			t.shared, t.repeated = t.shared || c.isSpread(class), t.repeated || !c.isSpread(class)
		}
		if !c.isOne(c.m.Promotion(class)) && c.parallel(class) != schedule.Vectorize {
			t.loops = append(t.loops, class)
		}
	}
	if !write {
		c.reads[out] = append(c.reads[out], t)
	} else {
		c.writes[out] = append(c.writes[out], t)
	}
}

// overwriting is a pass. It refuses kernels that may read an element of an input
// after it was overwritten: all reads must be in the loops of the write, before it, of
// the elements that are written there, and where one block does what is left of a
// reduction it does both.
// Unless each thread has elements of its own, both are then accesses of one buffer,
// so that barriers order them. An asynchronous copy reads until it is waited for,
// which is where its result is read.
func (l *lowering) overwriting() error {
	one := map[kir.BufferID]kir.BufferID{}
	for _, o := range l.f.Outputs() {
		v := o.Val
		if o.Alias == core.NoVal || len(l.reads[v]) == 0 {
			continue
		}
		own := !slices.ContainsFunc(l.writes[v], func(w touch) bool { return w.shared })
		for _, r := range l.reads[v] {
			inStep := slices.ContainsFunc(l.writes[v], func(w touch) bool { return r.isBefore(w) && r.isInStep(w) })
			if !inStep {
				return l.refuseOverwriting(v, o.Alias)
			}
		}
		if !own && l.reducesBlocks() { // a block that has counted itself is not the last one
			return l.refuseOverwriting(v, o.Alias)
		}
		if !own {
			one[l.buffers[v]], l.ordered = l.buffers[o.Alias], append(l.ordered, o)
		}
	}
	if len(one) > 0 {
		l.unify(l.b.Kernel(), one)
	}
	return nil
}

// isBefore reports whether a read ends before a write begins, where they are in one
// iteration of the loops around both.
func (r *touch) isBefore(w touch) bool {
	return !r.async && r.number <= w.number && slices.Equal(r.last, w.last)
}

// isInStep reports whether a read is of what is written in the same iteration.
func (r *touch) isInStep(w touch) bool {
	return !w.repeated && slices.Equal(r.loops, w.loops) && slices.Equal(r.coords, w.coords)
}

func (l *lowering) refuseOverwriting(v, in core.ValID) error {
	return l.refuse("alias", v, "%s is written to the memory of %s, of which an element may be read after that: read it just before, in the same loops", l.f.Name(v), l.f.Name(in))
}

// unify replaces buffers by others, which are the same memory: their strides are equal,
// and may be other expressions of the sizes.
func (l *lowering) unify(k *kir.Kernel, by map[kir.BufferID]kir.BufferID) {
	replace := func(a *kir.Access) {
		b, ok := by[a.Buffer]
		if !ok {
			return
		}
		a.Buffer, a.Index = b, l.t.Int(0)
		for i, stride := range k.Buffers[b].Stride {
			a.Index = l.t.Add(a.Index, l.t.Mul(a.Coords[i], stride))
		}
	}
	for i := range k.Values {
		replace(&k.Values[i].Access)
	}
	var block func(b kir.Block)
	block = func(b kir.Block) {
		for i := range b {
			switch s := b[i].(type) {
			case kir.Assign:
				replace(&s.Dst)
				b[i] = s
			case kir.Move:
				replace(&s.Src)
				replace(&s.Dst)
				b[i] = s
			case kir.AtomicAdd:
				replace(&s.Dst)
				b[i] = s
			case *kir.For:
				block(s.Body)
			case *kir.If:
				block(s.Then)
				block(s.Else)
			}
		}
	}
	block(k.Body)
}
