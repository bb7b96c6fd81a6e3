package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// Tiles are how many iterations of a loop a block has, and what holds in each of them.
type tiles struct {
	number index
	there  func(i index) scalar.ID // that iteration i has an element; nil: it is not known
}

// ownTiles returns the iterations of p's loop that a block has. Where the loop is over the outer
// part of what blocks are dealt, and body, which is in it, is of that alone, some blocks have one
// less than others: they end there, and nothing in body is tested for it, which would select each
// element of what is reduced. A loop of one iteration is not written as a loop, which a block
// without that iteration could pass over: its tests stay.
func (l *lowering) ownTiles(p *pipeline, body []*schedule.Nest) tiles {
	all := tiles{number: l.tiles(p)}
	if _, isLoop := l.only(p.class); !isLoop {
		return all
	}
	if _, isBackward := l.backward[p.class]; isBackward || unrolls(l.parallel(p.class)) || len(l.alias) > 0 || l.dimension(schedule.Cluster).used {
		return all
	}
	var of *dealt
	var ids []core.ExprID
	for _, n := range body {
		ids = append(ids, l.inside(n)...)
	}
	for _, id := range ids {
		if l.waitsForBlocks(id) {
			return all
		}
		switch d := l.dealt(p.class, id); {
		case d == nil:
		case of == nil:
			of = d
		case *d != *of:
			return all
		}
	}
	if of == nil || slices.ContainsFunc(ids, func(id core.ExprID) bool { return !slices.Contains(l.m.Nest(id), of.blocks) }) {
		return all
	}
	block, _ := l.only(of.blocks) // also where that loop is inside, not open yet
	number := l.t.Int(of.number)
	return tiles{
		number: l.t.CeilDiv(l.t.Max(l.t.Sub(of.parts, block), l.t.Int(0)), number),
		there: func(i index) scalar.ID {
			return l.t.Lt(l.t.Mul(l.t.Add(l.t.Mul(i, number), block), l.t.Int(of.size)), of.extent)
		},
	}
}

// waitsForBlocks reports whether a statement combines what blocks have or reads what they store:
// they then need as many iterations each.
func (l *lowering) waitsForBlocks(id core.ExprID) bool {
	e := l.f.Expr(id)
	for _, v := range append(l.f.TensorArgs(e), e.Out...) {
		if l.s.Memory(v) == schedule.Global && !l.f.Val(v).Input && len(l.readers[v]) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.tensors[e.Out[0]].loop, func(a core.AxisID) bool { return l.isReduced(a) && l.parallel(l.m.LoopClass(a)).IsBlock() })
}

// waitsInside reports whether each iteration of a loop has what some blocks compute read by others.
func (l *lowering) waitsInside(class core.AxisID) bool {
	isInside := func(id core.ExprID) bool { return slices.Contains(l.m.Nest(id), class) }
	return slices.ContainsFunc(l.s.Tensors(), func(v core.ValID) bool {
		return l.s.Memory(v) == schedule.Global && !l.f.Val(v).Input && isInside(l.f.Val(v).Def) && slices.ContainsFunc(l.readers[v], isInside)
	})
}

// A dealt is an axis whose parts of some size blocks are dealt in turn.
type dealt struct {
	blocks core.AxisID // class of the loop that runs in blocks
	number int64       // of them
	parts  index
	size   int64
	extent index // of the axis
}

// dealt returns the axis of a statement that blocks are dealt, of whose parts class is the loop
// that a block goes through. nil: there is none in its loops, or it was split before what is
// computed was reduced, or it is a broadcast, whose one element is read of what others have more
// of.
func (l *lowering) dealt(class core.AxisID, id core.ExprID) *dealt {
	var d *dealt
	axis := core.NoAxis
	for _, x := range slices.Backward(l.history(l.f.Expr(id).Out[0])) {
		t := l.f.Transform(x)
		if t.Kind != core.Split || l.f.Axis(t.In[0]).Kind == core.Broadcast {
			continue
		}
		n, isConst := l.t.ConstInt(l.extent(t.Out[1]))
		switch {
		case d == nil && l.m.LoopClass(t.Out[0]) == class:
			blocks := l.m.LoopClass(t.Out[1])
			if !isConst || n < 1 || !l.parallel(blocks).IsBlock() {
				return nil
			}
			d, axis = &dealt{blocks: blocks, number: n, parts: l.extent(t.In[0]), size: 1, extent: l.extent(t.In[0])}, t.In[0]
		case d != nil && axis == t.Out[0] && isConst:
			d.size, d.extent, axis = d.size*n, l.extent(t.In[0]), t.In[0]
		}
	}
	return d
}
