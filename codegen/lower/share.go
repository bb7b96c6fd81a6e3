package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// countsAlike reports whether e adds elements, under g, to states of which all that there are
// have the same number of elements in a thread: a test that depends on the loops of what is
// kept says whether a state exists, and the first of a thread does if another one does.
func (c *context) countsAlike(e *core.Expr, g guard) bool {
	var kept, reduced []scalar.ID
	for _, a := range c.tensors[e.Out[0]].loop {
		class := c.m.LoopClass(a)
		value, ok := c.loops[class]
		if !ok {
			return false
		}
		c.t.Symbols(value, func(id scalar.ID) {
			switch {
			case c.isReduced(a):
				reduced = append(reduced, id)
			case !c.isSpread(a):
				kept = append(kept, id)
			}
		})
		if _, isConst := c.t.ConstInt(c.extent(c.m.Promotion(class))); !isConst && !c.isReduced(a) && !c.isSpread(a) {
			return false
		}
	}
	reads := func(x scalar.ID, symbols []scalar.ID) bool {
		found := false
		if x != scalar.None {
			c.t.Symbols(x, func(id scalar.ID) { found = found || slices.Contains(symbols, id) })
		}
		return found
	}
	for _, x := range slices.Concat(g.once, g.among) {
		if reads(x, kept) {
			return false
		}
	}
	for _, x := range g.tests {
		if !reads(x.value, kept) && !reads(x.below, kept) {
			continue
		}
		if x.below == scalar.None || reads(x.below, kept) || reads(x.value, reduced) || !c.grows(x.value, kept) {
			return false
		}
	}
	return true
}

// grows reports whether an index is nowhere less than where one of the symbols is 0.
func (c *context) grows(x index, symbols []scalar.ID) bool {
	at := func(symbol scalar.ID, n int64) index {
		return c.t.Substitute(x, func(id scalar.ID) (scalar.ID, bool) { return c.t.Int(n), id == symbol })
	}
	for _, s := range symbols {
		for n := c.t.Facts(s).Hi; n > 0; n-- {
			if d, isConst := c.t.ConstInt(c.t.Sub(at(s, n), at(s, 0))); !isConst || d < 0 || n > maxParts {
				return false
			}
		}
	}
	return true
}

// scatters reports whether the lanes of each group of n may combine a share of the parts each:
// those of all lie side by side in shared memory then, where others combine them.
func (m *meeting) scatters(n, rows int64) bool {
	if n == 1 || m.ranks > 1 || rows == 1 || !m.isByColumns(rows, n) {
		return false
	}
	return !slices.ContainsFunc(m.list, func(x *exchange) bool { return x.count%n != 0 || x.scanned != nil || x.sorted != nil })
}

// scatter lets each lane of a group of n combine what the group has of a share of the parts of
// x, which are the first ones of the thread then: in each step it gives half of what is left
// to the lane that it takes the other half from. That is a third of the shuffles that all
// lanes need to have all, or less.
func (m *meeting) scatter(x *exchange, n int64) {
	left, number := x.count, 0
	if x.isAlike || x.number > 0 {
		number = x.fold.state.number
	}
	for _, mask := range m.masks(n) {
		left /= 2
		width := int(2 * mask)
		upper := m.temporary("upper", m.b.Index(dtype.Bool, m.t.Eq(m.laneBit(mask), m.t.Int(1))))
		var ownNumber, otherNumber kir.ValueID
		if number > 0 && !x.isShared(number) {
			ownNumber = m.state(x, m.t.Int(0))[number]
			otherNumber = ownNumber
		} else if number > 0 {
			ownNumber = m.temporary("own", m.state(x, m.t.Int(0))[number])
			otherNumber = m.temporary("other", m.b.Shuffle(kir.ShuffleXor, ownNumber, mask, width))
		}
		m.each(&exchange{count: left}, func(i index) {
			low, high := m.state(x, i), m.state(x, m.t.Add(i, m.t.Int(left)))
			own, other := make([]kir.ValueID, len(low)), make([]kir.ValueID, len(low))
			for k := range low {
				if number > 0 && k == number {
					own[k], other[k] = ownNumber, otherNumber
					continue
				}
				own[k] = m.temporary("own", m.b.Op(core.WhereOp, upper, high[k], low[k]))
				given := m.temporary("given", m.b.Op(core.WhereOp, upper, low[k], high[k]))
				other[k] = m.temporary("other", m.b.Shuffle(kir.ShuffleXor, given, mask, width))
			}
			m.set(x, i, m.combine(x.fold, own, other))
		})
		x.number *= 2
	}
}

// laneBit returns the bit of the number of the lane in its warp that mask has.
func (m *meeting) laneBit(mask int64) index {
	for _, i := range m.dims {
		if at := mask / m.stride[i]; at > 0 && at < m.lanes[i] {
			return m.t.Mod(m.t.FloorDiv(m.thread(i), m.t.Int(at)), m.t.Int(2))
		}
	}
	return m.t.Int(0)
}

// firstOfShare returns the number of the first part of x that the lane has after scatter.
func (m *meeting) firstOfShare(x *exchange, n int64) index {
	first, left := m.t.Int(0), x.count
	for _, mask := range m.masks(n) {
		left /= 2
		first = m.t.Add(first, m.t.Mul(m.laneBit(mask), m.t.Int(left)))
	}
	return first
}
