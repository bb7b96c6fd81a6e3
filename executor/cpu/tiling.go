package cpu

import (
	"slices"

	"nvfuser_go/core"
)

// A joined axis stands for neighbouring axes that every access of a group walks
// as one.
type joined struct {
	axes []int // outermost first
	size int64
}

// settle orders and joins the axes, decides the form of every register and the
// tile, and places the registers in tile memory.
func (l *lowering) settle() {
	outerAxes, innerAxes := l.axisOrder()
	accesses := l.accesses()
	outer, inner := l.join(outerAxes, accesses), l.join(innerAxes, accesses)
	if l.g.inner == 0 {
		cut := innerCut(outer, accesses)
		outer, inner = outer[:cut], outer[cut:]
	}
	for _, a := range accesses {
		a.settle(outer, inner)
	}
	t := l.t
	t.outer, t.numOuter = joinedSizes(outer)
	t.inner, t.numInner = joinedSizes(inner)
	l.forms(inner)
	crossed := slices.ContainsFunc(accesses, t.byColumn)
	l.direct(crossed)
	l.allocate()
	l.chooseTile(crossed)
}

// innerCut returns where the inner axes of a group without folds begin: at the
// last axis, or before if it is short and nothing is closer in memory along the
// axis before it.
func innerCut(axes []joined, accesses []*access) int {
	if len(axes) == 0 {
		return 0
	}
	cut := len(axes) - 1
	for n := axes[cut].size; cut > 0 && n < limits.minRun; n *= axes[cut].size {
		for _, a := range accesses {
			if before := a.stride(axes[cut-1]); before > 0 && before < a.stride(axes[cut]) {
				return cut
			}
		}
		cut--
	}
	return cut
}

func joinedSizes(axes []joined) (sizes []int64, n int64) {
	sizes = make([]int64, len(axes))
	for i, a := range axes {
		sizes[i] = a.size
	}
	return sizes, core.NumElements(sizes)
}

func (l *lowering) accesses() []*access {
	var all []*access
	for _, code := range [][]instruction{l.t.code, l.t.finish} {
		for i := range code {
			if a := code[i].access; a != nil {
				all = append(all, a)
			}
		}
	}
	return all
}

// join joins neighbours among axes, where all accesses allow it.
func (l *lowering) join(axes []int, accesses []*access) []joined {
	var out []joined
	for _, a := range axes {
		size := l.g.sizes[a]
		if n := len(out); n > 0 {
			last := out[n-1].axes[len(out[n-1].axes)-1]
			apart := func(x *access) bool {
				return x.strides[last] != x.strides[a]*size || x.absent>>last&1 != x.absent>>a&1
			}
			if !slices.ContainsFunc(accesses, apart) {
				out[n-1].axes = append(out[n-1].axes, a)
				out[n-1].size *= size
				continue
			}
		}
		out = append(out, joined{[]int{a}, size})
	}
	return out
}

// stride returns the distance of neighbours along j.
func (a *access) stride(j joined) int64 { return a.strides[j.axes[len(j.axes)-1]] }

// settle fills in what a is along the joined axes.
func (a *access) settle(outer, inner []joined) {
	a.outer, a.noOuter, a.skipOuter = a.along(outer)
	a.inner, a.noInner, a.skipInner = a.along(inner)
}

func (a *access) along(axes []joined) (strides []int64, none bool, skip []bool) {
	strides = make([]int64, len(axes))
	absent := make([]bool, len(axes))
	count := 0
	for i, j := range axes {
		strides[i] = a.stride(j)
		if absent[i] = a.absent>>j.axes[0]&1 != 0; absent[i] {
			count++
		}
	}
	switch count {
	case 0:
		return strides, false, nil
	case len(axes):
		return strides, true, nil
	}
	return strides, false, absent
}

// forms decides the form of every register.
func (l *lowering) forms(inner []joined) {
	var innerMask uint64
	for _, j := range inner {
		for _, a := range j.axes {
			innerMask |= 1 << a
		}
	}
	for i := range l.t.regs {
		r := &l.t.regs[i]
		if r.varies&innerMask != 0 {
			r.form |= alongCols
		}
		if r.varies&^innerMask != 0 {
			r.form |= alongRows
		}
	}
}

// direct finds the registers that can lie where their value lies in memory: of
// loads and of one store of a computed value. crossed says that tiles are not
// whole rows or parts of one row.
func (l *lowering) direct(crossed bool) {
	t := l.t
	taken := make([]bool, len(t.regs))
	computed := make([]bool, len(t.regs))
	written := map[int]bool{} // memory of inputs, at the end of the tile
	for _, i := range t.code {
		if i.code == opStore && l.b.buffers[i.access.buffer].kind == inputBuffer {
			written[i.access.buffer] = true
		}
	}
	keep := t.code[:0]
	for _, i := range t.code {
		switch i.code {
		case opApply, opScan:
			for _, r := range i.dst {
				computed[r] = true
			}
		case opLoad:
			r := i.dst[0]
			if !written[i.access.buffer] && t.liesAs(&t.regs[r], i.access, crossed) {
				t.directs = append(t.directs, direct{r, i.access})
				taken[r] = true
				continue
			}
		case opStore:
			r := i.src[0]
			if computed[r] && !taken[r] && !written[i.access.buffer] && i.access.absent == 0 && t.wholeForm(t.regs[r].form) && t.liesAs(&t.regs[r], i.access, crossed) {
				t.directs = append(t.directs, direct{r, i.access})
				taken[r] = true
				continue
			}
		}
		keep = append(keep, i)
	}
	t.code = keep
	for r := range taken {
		t.regs[r].direct = taken[r]
	}
}

// wholeForm reports whether a register of form f has an element for every
// position of a tile.
func (t *tiles) wholeForm(f form) bool {
	return (f&alongRows != 0 || t.numOuter == 1) && (f&alongCols != 0 || t.numInner == 1)
}

// liesAs reports whether a tile of a in memory is what register r is to hold.
func (t *tiles) liesAs(r *register, a *access, crossed bool) bool {
	if a.move == nil || a.skipOuter != nil || a.skipInner != nil || !sameBits(r.dtype) {
		return false
	}
	rowsDense := len(a.outer) == 1 && a.outer[0] == 1
	colsDense := len(a.inner) == 1 && a.inner[0] == 1
	switch r.form {
	case alongRows:
		return rowsDense
	case alongCols:
		return colsDense
	case full:
		return colsDense && !crossed && len(a.outer) == 1 && a.outer[0] == t.numInner // the tiles of chooseTile
	}
	return true
}

// allocate gives registers their slots: a slot is used again by a register of
// the same form and size once what it holds is read for the last time. An
// instruction may write the slot that it reads, element by element.
func (l *lowering) allocate() {
	t := l.t
	last := make([]int, len(t.regs))
	for at, i := range t.code {
		for _, r := range i.src {
			last[r] = at
		}
	}
	for _, r := range t.scalars {
		t.take(r, nil)
	}
	free := map[slotClass][]int{}
	done := func(r, at int) {
		if x := &t.regs[r]; x.scalar < 0 && x.slot >= 0 && last[r] <= at {
			c := x.class()
			free[c] = append(free[c], x.slot)
			last[r] = len(t.code) // once
		}
	}
	for at, i := range t.code {
		for _, r := range i.src {
			done(r, at)
		}
		for _, r := range i.dst {
			t.take(r, free)
		}
		for _, r := range i.dst {
			done(r, at)
		}
	}
	for _, a := range t.accus {
		for _, r := range a.dst {
			t.take(r, nil)
		}
	}
	t.weight = len(t.code)
}

func (r *register) class() slotClass { return slotClass{domainSize[r.domain], r.form} }

// take gives register r a slot.
func (t *tiles) take(r int, free map[slotClass][]int) {
	x := &t.regs[r]
	if x.direct {
		return
	}
	c := x.class()
	if n := len(free[c]); n > 0 {
		x.slot = free[c][n-1]
		free[c] = free[c][:n-1]
		return
	}
	x.slot = len(t.slots)
	t.slots = append(t.slots, slot{class: c})
}

// chooseTile decides the rows and columns of a tile, the parts of a long fold,
// and where the slots lie.
func (l *lowering) chooseTile(crossed bool) {
	t := l.t
	bytes := 0
	for _, s := range t.slots {
		if s.class.form == full {
			bytes += s.class.size
		}
	}
	target := int64(min(max(limits.tileBytes/max(bytes, 4), limits.minTile), limits.maxTile))
	rows, cols := int64(1), t.numInner
	switch {
	case l.g.inner != 0 && !l.g.chunked:
		if crossed {
			rows = 16 // a line of memory of the narrow types
		}
		rows = max(rows, target/max(cols, 1))
	case crossed:
		cols = min(cols, limits.squareTile)
		rows = target / max(cols, 1)
	default:
		parts := (cols + target - 1) / target
		cols = (cols + max(parts, 1) - 1) / max(parts, 1)
		if parts <= 1 {
			rows = target / max(cols, 1)
		}
	}
	t.rows, t.cols = int(max(min(rows, t.numOuter), 1)), int(cols)
	t.chunked = l.g.chunked
	if t.segments = 1; t.chunked && !l.g.sequential {
		t.segments = max(1, min(limits.parts/ceilDiv(t.numOuter, int64(t.rows)), ceilDiv(t.numInner, cols)))
	}
	for i := range t.slots {
		s := &t.slots[i]
		n := s.class.size
		if s.class.form&alongRows != 0 {
			n *= t.rows
		}
		if s.class.form&alongCols != 0 {
			n *= t.cols
		}
		s.offset = t.tileBytes
		t.tileBytes += (n + 63) &^ 63
	}
}

// ceilDiv is a/b rounded up; 1 where there is nothing to divide.
func ceilDiv(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 1
	}
	return (a + b - 1) / b
}
