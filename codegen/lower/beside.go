package lower

import (
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
)

// A side is what a range of the blocks computes, which has nothing in common with what others do.
type side struct {
	body  []*schedule.Nest
	block dimension // of the range, along x
}

// findSides finds what has blocks of its own, if the schedule says so, and lets the grid have the
// blocks of all.
func (l *lowering) findSides() error {
	if !l.s.IsSideBySide() {
		return nil
	}
	var of, reads []map[core.ValID]bool // what is computed and what is read, by side
	for _, n := range l.m.Tree() {
		s := side{body: []*schedule.Nest{n}, block: dimension{parallel: schedule.BIDx, exact: true}}
		computed, read := map[core.ValID]bool{}, map[core.ValID]bool{}
		for _, id := range l.inside(n) {
			e := l.f.Expr(id)
			for _, v := range e.Out {
				computed[v] = true
			}
			for _, v := range l.f.TensorArgs(e) {
				read[v] = true
			}
		}
		for k := len(l.sides) - 1; k >= 0; k-- {
			if !meets(of[k], read) {
				continue
			}
			maps.Copy(computed, of[k])
			maps.Copy(read, reads[k])
			s.body = slices.Concat(l.sides[k].body, s.body)
			l.sides, of, reads = slices.Delete(l.sides, k, k+1), slices.Delete(of, k, k+1), slices.Delete(reads, k, k+1)
		}
		l.sides, of, reads = append(l.sides, s), append(of, computed), append(reads, read)
	}
	for v, in := range l.alias {
		if slices.ContainsFunc(of, func(computed map[core.ValID]bool) bool { return computed[v] && !l.readsAlone(in, computed, of, reads) }) {
			return l.refuse("side by side", v, "%s is in the memory of %s, which blocks of its own read that do not wait for it", l.f.Name(v), l.f.Name(in))
		}
	}
	total := l.t.Int(0)
	for k := range l.sides {
		s := &l.sides[k]
		for _, v := range l.s.Tensors() {
			if of[k][v] {
				if err := l.widenSide(s, v); err != nil {
					return err
				}
			}
		}
		if !s.block.used { // loops of one block are none
			l.widen(&s.block, l.t.Int(1))
		}
		s.block.exact = s.block.exact && l.t.Facts(s.block.extent).Lo > 0 // else the last one may have a block for nothing
		total = l.t.Add(total, s.block.extent)
	}
	x := l.dimension(schedule.BIDx)
	x.used, x.exact, x.extent = true, true, total
	return nil
}

// meets reports whether a and b have a tensor in common.
func meets(a, b map[core.ValID]bool) bool {
	for v := range a {
		if b[v] {
			return true
		}
	}
	return false
}

// readsAlone reports whether only the side that computes what own has reads v.
func (l *lowering) readsAlone(v core.ValID, own map[core.ValID]bool, of, reads []map[core.ValID]bool) bool {
	for k, read := range reads {
		if read[v] && !meets(own, of[k]) {
			return false
		}
	}
	return true
}

// widenSide gives the range of s the blocks of v.
func (l *lowering) widenSide(s *side, v core.ValID) error {
	for _, a := range l.tensors[v].loop {
		switch p := l.parallel(a); {
		case p == schedule.BIDx && !l.isReduced(a):
			l.widen(&s.block, l.extent(l.m.Promotion(a)))
		case p.IsBlock():
			return l.refuse("side by side", v, "%s has blocks along %v, or reduces over blocks: those of what has nothing in common follow each other along x", l.f.Name(v), p)
		}
	}
	return nil
}

// sideBySide emits sides, of which the first one has the blocks from start on.
func (l *lowering) sideBySide(sides []side, start index) (err error) {
	x := l.dimension(schedule.BIDx)
	all, own := *x, sides[0].block
	first := func() {
		if own.symbol = l.t.Int(0); own.extent != l.t.Int(1) {
			own.symbol = l.b.Let(l.name("block"), l.b.Index(dtype.Int, l.t.Sub(all.symbol, start)), below(l.t.Facts(own.extent)))
		}
		*x = own
		err = l.block(sides[0].body, nil)
		*x = all
	}
	if len(sides) == 1 {
		first()
		return err
	}
	end := l.t.Add(start, own.extent)
	var other error
	l.b.If(l.t.Lt(all.symbol, end), first, func() { other = l.sideBySide(sides[1:], end) })
	if err == nil {
		err = other
	}
	return err
}
