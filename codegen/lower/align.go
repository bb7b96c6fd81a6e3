package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// anyIteration is the tag of any index of a loop that a thread runs through.
var anyIteration = scalar.Tag{Val: 0, Dim: -2}

// bindPhases gives the shifts of rows the values that they have in a thread, which follow
// from its place and that of its block, whichever of its rows it computes.
func (l *lowering) bindPhases() error {
	for _, p := range l.s.Phases() {
		v := l.ownerOf(p.Rows[0])
		if v == core.NoVal {
			return l.refuse("phase", l.s.Tensors()[0], "the rows that columns are shifted for are no axis of a tensor any more")
		}
		c := &context{lowering: l, tensor: l.tensors[v], start: map[core.AxisID]index{}}
		for _, a := range c.tensor.loop {
			switch q := l.m.Promotion(a); {
			case l.isSpread(a):
				c.start[l.m.AlmostExact(q)] = l.dimension(l.parallel(a)).symbol
			case l.isOne(q):
				c.start[l.m.AlmostExact(q)] = l.t.Int(0)
			default:
				c.start[l.m.AlmostExact(q)] = l.t.Symbol(dtype.Index, anyIteration, scalar.Range(0, 1<<62))
			}
		}
		rows, ok := c.indices(c.start, p.Rows, nil)
		phase := l.t.Int(0)
		if ok {
			row := l.t.Int(0)
			for k, r := range p.Rows {
				row = l.t.Add(l.t.Mul(row, l.extent(r)), rows[k])
			}
			phase = l.t.Mod(l.t.Mul(row, l.size(p.Pitch)), l.t.Int(p.Width))
			l.t.Symbols(phase, func(s scalar.ID) { ok = ok && l.t.Tag(s) != anyIteration })
		}
		if !ok {
			return l.refuse("phase", v, "columns of %s are shifted by the phase of its rows, which does not follow from the indices of blocks and threads alone", l.f.Name(v))
		}
		l.arguments.sizes[p.Shift] = phase
	}
	return nil
}

// ownerOf returns the tensor that has axis a, or NoVal.
func (a *Analysis) ownerOf(x core.AxisID) core.ValID {
	for _, v := range a.s.Tensors() {
		if slices.Contains(a.axes(v), x) {
			return v
		}
	}
	return core.NoVal
}

// checkPhases fails if what threads with rows of several phases share is stored as shifted
// loops run: one would find there what another has put in another place.
func (a *Analysis) checkPhases() error {
	if len(a.s.Phases()) == 0 {
		return nil
	}
	for _, v := range a.s.Tensors() {
		st := &a.tensors[v].storage
		memory := a.s.Memory(v)
		if memory == schedule.Local || memory == schedule.Shared && !a.hasPhases() || a.omitted == sharesShifted {
			continue
		}
		for _, id := range a.f.TransformsTo(st.axes) {
			if a.f.Transform(id).Kind == core.Shift {
				return a.refuse("phase", v, "%s is in %v memory in the shape of loops that begin elsewhere in each row: keep it in registers", a.f.Name(v), memory)
			}
		}
	}
	return nil
}

// hasPhases reports whether threads of a block may have rows of several phases.
func (a *Analysis) hasPhases() bool {
	for _, p := range a.s.Phases() {
		v := a.ownerOf(p.Rows[0])
		if v == core.NoVal {
			return true
		}
		isRow := map[core.AxisID]bool{}
		for _, r := range p.Rows {
			isRow[r] = true
		}
		for _, id := range a.f.TransformsTo(a.tensors[v].loop) {
			t := a.f.Transform(id)
			for _, out := range t.Out {
				isRow[out] = out != core.NoAxis && (isRow[out] || slices.ContainsFunc(t.In[:], func(in core.AxisID) bool { return isRow[in] }))
			}
		}
		if slices.ContainsFunc(a.tensors[v].loop, func(x core.AxisID) bool { return isRow[x] && a.parallel(x).IsThread() }) {
			return true
		}
	}
	return false
}
