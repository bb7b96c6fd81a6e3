package lower

import (
	"maps"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A keeping is two copies of a tensor in global memory to registers, of which the later
// one takes what the earlier one loaded in the last iterations of a loop from shared memory,
// where each thread leaves what it will take: no other accesses it. Loads are in loops of
// their own, so that those of a thread are under way together:
//
//	for i < n    load; if n - kept <= i { leave }
//	for i < n    if n - kept <= j { take } else { load }
//
// If the earlier copy has a circular buffer, it need not leave anything: the tiles of the last
// iterations are still there.
//
// That both copies of an iteration are of the same elements is compared: the indices of the
// later one, with the loops of the earlier one, must be those of that.
type keeping struct {
	earlier, later core.ValID
	schedule.Keeping
	buffer kir.BufferID
	isFull bool // there is such a buffer
	isRing bool // it is the circular one of the earlier copy

	loaded  bool // what follows is of the earlier copy
	values  []index
	cond    scalar.ID
	element index
	taken   bool // the later copy was emitted
}

// A keepingStep is what is emitted of a copy instead of its load.
type keepingStep uint8

const (
	loading keepingStep = iota
	leaving
	taking
)

// findKeepings finds the copies that take what others left.
func (l *lowering) findKeepings() error {
	l.keepings, l.backward = map[core.ValID]*keeping{}, map[core.AxisID]int64{}
	for _, v := range l.s.Tensors() {
		k := l.s.Keeping(v)
		if k == (schedule.Keeping{}) {
			continue
		}
		source := l.f.TensorArgs(l.f.Expr(l.f.Val(v).Def))[0]
		_, isWritten := l.overwritten[source]
		switch {
		case !l.f.Val(source).Input || isWritten:
			return l.refuse("kept", v, "%s and %s copy %s, which the kernel writes: only what is read alone is kept", l.f.Name(v), l.f.Name(k.Earlier), l.f.Name(source))
		case l.keepings[v] != nil || l.keepings[k.Earlier] != nil:
			return l.refuse("kept", v, "what %s or %s loads is kept twice", l.f.Name(v), l.f.Name(k.Earlier))
		}
		isRing := l.s.Memory(k.Earlier) == schedule.Shared
		x := &keeping{earlier: k.Earlier, later: v, Keeping: k, isRing: isRing, isFull: isRing && k.Kept > 0}
		for _, u := range []core.ValID{v, k.Earlier} {
			if err := l.checkKept(u, k.Loop); err != nil {
				return err
			}
			l.keepings[u] = x
		}
		l.backward[l.keptLoop(x, v)] = max(k.Kept, l.backward[l.keptLoop(x, v)])
	}
	return nil
}

// checkKept refuses loops of u of which each thread has no place for each iteration.
func (l *lowering) checkKept(u core.ValID, loop int) error {
	for at, x := range l.s.Loop(u) {
		p, class := l.parallel(x), l.m.LoopClass(x)
		_, isConst := l.t.ConstInt(l.extent(l.m.Promotion(x)))
		isRight := p.IsThread() || isConst
		switch {
		case at < loop:
			isRight = p.IsBlock() || p.IsThread() || l.isOne(l.m.Promotion(x))
		case at == loop:
			isRight = p == schedule.Serial && l.pipelines[class] == l.circular[u]
		}
		if !isRight {
			return l.refuse("kept", u, "axis %d of %s is %v: what is kept has loops of blocks and threads outside of the one at place %d, which is serial, and loops of constant extents inside", at, l.f.Name(u), p, loop)
		}
	}
	return nil
}

// keptLoop returns the class of the loop of u, one of the copies of k.
func (l *lowering) keptLoop(k *keeping, u core.ValID) core.AxisID {
	return l.m.LoopClass(l.s.Loop(u)[k.Loop])
}

// declareKept begins the life of the memory of what is kept.
func (l *lowering) declareKept() error {
	for _, v := range l.s.Tensors() {
		k := l.keepings[v]
		if k == nil || v != k.earlier || k.Kept == 0 || k.isRing {
			continue
		}
		shape := []index{l.t.Int(k.Kept)}
		for _, x := range l.s.Loop(v)[k.Loop+1:] {
			if p := l.parallel(x); !p.IsThread() && p != schedule.Vectorize {
				shape = append(shape, l.extent(l.m.Promotion(x)))
			}
		}
		for _, d := range slices.Backward(l.dimensions) {
			if d.used && d.parallel.IsThread() {
				if _, isConst := l.t.ConstInt(d.extent); !isConst {
					return l.refuse("kept", v, "%s is kept by threads of which the number along %v is not a constant", l.f.Name(v), d.parallel)
				}
				shape = append(shape, d.extent)
			}
		}
		_, width := l.context(v, false).vectorAxis()
		k.buffer, k.isFull = l.b.Buffer(l.name("kept"), kir.Shared, l.f.Val(v).DType, append(shape, l.t.Int(width))...), true
		buffer := &l.b.Kernel().Buffers[k.buffer]
		buffer.Align, buffer.Offset = 16, l.t.Int(0)
		l.b.Add(kir.Declare{Buffer: k.buffer})
	}
	return nil
}

// keptFirst returns the nodes that are copies in a loop of which iterations are kept, and
// the others. They read what nobody writes, and come first so that all are under way together.
func (l *lowering) keptFirst(nodes []*schedule.Nest, outside func(*schedule.Nest) []core.AxisID) (kept, others []*schedule.Nest) {
	if l.keeping != nil || len(l.keepings) == 0 {
		return nil, nodes
	}
	for _, n := range nodes {
		if v, k := l.keptBy(n); k != nil && slices.Contains(outside(n), l.keptLoop(k, v)) {
			kept = append(kept, n)
		} else {
			others = append(others, n)
		}
	}
	return kept, others
}

// keptBy returns the copy that is all that n does and its keeping; nil: it is none.
func (l *lowering) keptBy(n *schedule.Nest) (core.ValID, *keeping) {
	ids := l.inside(n)
	if len(ids) > 1 {
		return core.NoVal, nil
	}
	v := l.f.Expr(ids[0]).Out[0]
	return v, l.keepings[v]
}

// keep emits copies, which node emits, with what is kept of them: those together that are
// alike.
func (l *lowering) keep(nodes []*schedule.Nest, node func(*schedule.Nest) error) error {
	for len(nodes) > 0 {
		first, k := l.keptBy(nodes[0])
		count := 1
		for count < len(nodes) {
			v, x := l.keptBy(nodes[count])
			if x.Kept != k.Kept || x.Warm != k.Warm || (v == x.later) != (first == k.later) || l.keptLoop(x, v) != l.keptLoop(k, first) {
				break
			}
			count++
		}
		if err := l.keepAlike(nodes[:count], node); err != nil {
			return err
		}
		nodes = nodes[count:]
	}
	return nil
}

func (l *lowering) keepAlike(nodes []*schedule.Nest, node func(*schedule.Nest) error) (err error) {
	v, k := l.keptBy(nodes[0])
	class := l.keptLoop(k, v)
	i, stop := l.loops[class], l.extent(l.m.Promotion(class))
	isKept := l.t.Le(l.t.Sub(stop, l.t.Int(k.Kept)), i)
	step := func(s keepingStep, cache kir.CacheHint, last scalar.ID) func() {
		return func() {
			for _, n := range nodes {
				if err == nil {
					_, l.keeping = l.keptBy(n)
					l.keepingStep, l.keepingCache, l.keepingLast = s, cache, last
					err = node(n)
				}
			}
			l.keeping = nil
		}
	}
	isWarm := l.t.And(l.t.Le(l.t.Sub(stop, l.t.Int(k.Kept+k.Warm)), i), l.t.Lt(i, l.t.Sub(stop, l.t.Int(k.Kept))))
	load := step(loading, kir.CacheEvictLastIf, isWarm)
	switch {
	case k.Warm == 0:
		load = step(loading, kirCache[l.s.CacheHint(v)], scalar.None)
	case v == k.later:
		load = step(loading, kir.CacheEvictFirst, scalar.None)
	}
	if v == k.later && k.isFull {
		l.b.If(isKept, step(taking, 0, 0), load)
		return err
	}
	if load(); k.isFull && !k.isRing {
		l.b.If(isKept, step(leaving, 0, 0), nil)
	}
	return err
}

// compareKept notes of which element the earlier copy is, and compares with it that of the
// later one.
func (l *lowering) compareKept(v core.ValID, src kir.Access, cond scalar.ID) error {
	k := l.keeping
	values := make([]index, len(l.s.Loop(v)))
	for at, x := range l.s.Loop(v) {
		values[at] = l.loops[l.m.LoopClass(x)]
	}
	if v == k.earlier {
		k.loaded, k.values, k.cond, k.element = true, values, cond, src.Index
		return nil
	}
	k.taken = true
	with := map[scalar.ID]scalar.ID{}
	for at, x := range values {
		if l.t.Op(x) == scalar.Symbol && at < len(k.values) {
			with[l.t.Declared(x)] = k.values[at]
		}
	}
	like := func(x scalar.ID) scalar.ID {
		return l.t.Substitute(x, func(s scalar.ID) (scalar.ID, bool) { y, ok := with[s]; return y, ok })
	}
	if !k.loaded || len(values) != len(k.values) || like(src.Index) != k.element || like(cond) != k.cond {
		return l.refuse("kept", v, "%s is not known to copy in each iteration what %s copies in it", l.f.Name(v), l.f.Name(k.earlier))
	}
	return nil
}

// moveKept emits the copy between the registers and what is kept there.
func (l *lowering) moveKept(v core.ValID, registers kir.Access) error {
	if k := l.keeping; v == k.later && !k.loaded {
		return l.refuse("kept", v, "%s takes what %s copies only after it", l.f.Name(v), l.f.Name(k.earlier))
	}
	place, err := l.keptPlace(v, registers.Width)
	if err == nil && l.keepingStep == leaving {
		l.b.Add(kir.Move{Dst: place, Src: registers})
	} else if err == nil {
		l.b.Add(kir.Move{Dst: registers, Src: place})
	}
	return err
}

// keptPlace returns where what v copies now is kept: in its iteration of those that are, or
// in the tile that the earlier copy has filled in an iteration like it.
func (l *lowering) keptPlace(v core.ValID, width int) (kir.Access, error) {
	k := l.keeping
	if k.isRing {
		loops := maps.Clone(l.loops)
		for at, x := range l.s.Loop(k.earlier) {
			loops[l.m.LoopClass(x)] = l.loops[l.m.LoopClass(l.s.Loop(v)[at])]
		}
		l.loops, loops = loops, l.loops
		place, err := l.context(k.earlier, false).write(k.earlier)
		l.loops = loops
		if place.Width = width; err == nil && !l.t.Divides(l.t.Int(int64(width)), place.Index) {
			err = l.refuse("kept", v, "the addresses of %s are not known to be multiples of %d elements", l.f.Name(k.earlier), width)
		}
		return place, err
	}
	class := l.keptLoop(k, v)
	coords := []index{l.t.Add(l.t.Sub(l.loops[class], l.extent(l.m.Promotion(class))), l.t.Int(k.Kept))}
	for _, x := range l.s.Loop(v)[k.Loop+1:] {
		if p := l.parallel(x); !p.IsThread() && p != schedule.Vectorize {
			coords = append(coords, l.loops[l.m.LoopClass(x)])
		}
	}
	for _, d := range slices.Backward(l.dimensions) {
		if d.used && d.parallel.IsThread() {
			coords = append(coords, d.symbol)
		}
	}
	return l.b.Vector(width, k.buffer, append(coords, l.t.Int(0))...), nil
}

// checkTaken refuses copies that were not emitted by a vector, of which nothing was kept.
func (l *lowering) checkTaken() error {
	for _, v := range l.s.Tensors() {
		if k := l.keepings[v]; k != nil && v == k.later && !(k.loaded && k.taken) {
			return l.refuse("kept", v, "%s or %s is not moved by vectors in loops of its own, of which some are kept", l.f.Name(v), l.f.Name(k.earlier))
		}
	}
	return nil
}
