package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// windowBytes are those that a thread loads of a window at a time.
const windowBytes = 16

// bankBytes are those of a bank of shared memory.
const bankBytes = 4

// A window is what a block has in shared memory of an input: a box, of which the rows lie
// along the innermost axis of the input in memory. As a row may begin anywhere, a block
// loads the aligned vectors that have its elements, to where they are aligned as well: the
// distance of two rows in shared memory is, modulo a vector, that of two rows of the input,
// and so is where the first one begins. Thus neither side shifts anything.
//
// A vector has elements before or behind its row as well, which nothing reads from shared memory:
// what is there in memory is loaded with it. Only of one that passes the end of all memory those
// elements are loaded that are of the row, one by one.
type window struct {
	source       kir.BufferID // the input
	axes         []windowAxis // those of the input, as the box has them
	width        int64        // elements of a vector
	row          int          // axis that rows are counted along; -1: there is one
	rows, length int64        // elements along that and in a row
	vectors      int64        // of a row
	origin       []index      // where the box begins along the axes
	pitch, phase index        // of rows in shared memory: distance, and where the first one begins
	isAlone      bool         // nothing else is loaded
	gap          int64        // elements left out after as many rows as a vector has elements
	word         int64        // elements of 4 bytes, if those of a vector are permuted by its row; else 0
}

// A windowAxis is some axes of an input next to each other that memory goes on along without a
// gap, where loops run along all of them at once: its index counts their elements.
type windowAxis struct {
	first, last int // of the axes of the input
	extent      index
}

// windowed emits the load of n if that is all of a window, and reports whether it is.
func (l *lowering) windowed(n *schedule.Nest) (bool, error) {
	ids := l.inside(n)
	if len(ids) == 0 || !l.s.HoldsWindow(l.f.Expr(ids[0]).Out[0]) {
		return false, nil
	}
	v := l.f.Expr(ids[0]).Out[0]
	if len(ids) > 1 {
		return true, l.refuse("window", v, "%s holds a window and is computed in a loop with others: inline it in loops of blocks alone", l.f.Name(v))
	}
	w := l.windows[v]
	var exist []scalar.ID // else places of blocks are divided by sizes of 0
	for _, n := range l.b.Kernel().Buffers[w.source].Shape {
		exist = append(exist, l.t.Lt(l.t.Int(0), n))
	}
	return true, l.conditional(l.all(exist), func() error { return l.load(v, w) })
}

// checkWindow refuses windows that are not one for each block, or not of what nobody writes.
func (a *Analysis) checkWindow(v core.ValID) error {
	loop, name := a.s.Loop(v), a.f.Name(v)
	source := a.f.TensorArgs(a.f.Expr(a.f.Val(v).Def))[0]
	_, isOverwritten := a.overwritten[source]
	switch {
	case isOverwritten:
		return a.refuse("window", v, "%s holds a window of %s, which is overwritten", name, a.f.Name(source))
	case slices.ContainsFunc(loop, a.m.IsPromoted):
		return a.refuse("window", v, "%s holds a window and is computed in loops that run over more than its axes", name)
	case slices.ContainsFunc(loop[:a.s.Position(v)], func(x core.AxisID) bool { return !a.isOne(x) && !a.parallel(x).IsBlock() }):
		return a.refuse("window", v, "%s holds a window and is inlined in a loop that is not of blocks", name)
	}
	return nil
}

// windowAxes returns the axes of v that are those of its source in memory.
func (a *Analysis) windowAxes(v core.ValID) []core.AxisID {
	source := a.f.TensorArgs(a.f.Expr(a.f.Val(v).Def))[0]
	var axes []core.AxisID
	for _, x := range a.stored(a.allocation(source)) {
		axes = append(axes, a.f.Val(v).Domain.Root[slices.Index(a.f.Val(source).Domain.Logical, x)])
	}
	return axes
}

// newWindow finds the box that blocks have in the loops of v, and declares memory for it.
func (l *lowering) newWindow(v core.ValID) error {
	name, e := l.f.Name(v), l.f.Expr(l.f.Val(v).Def)
	w := &window{row: -1, rows: 1, source: l.buffers[l.f.TensorArgs(e)[0]], isAlone: l.tensorInputs() == 1}
	from := &l.b.Kernel().Buffers[w.source]
	w.width = windowBytes / int64(from.DType.Size())
	column := len(from.Shape) - 1
	if n, isConst := l.t.ConstInt(l.strideOf(from, column)); column < 0 || !isConst || n != 1 || from.Align < windowBytes {
		return l.refuse("window", v, "%s holds a window of %s, of which rows are not dense, or the first element is not known to be at a multiple of %d bytes", name, from.Name, windowBytes)
	}
	least, most, err := l.box(v, w)
	if err != nil {
		return err
	}
	w.origin = least
	width := l.t.Int(w.width)
	for k := range least {
		n, isConst := l.between(least[k], most[k])
		// A multiple of vectors before, so that no remainder is of something negative.
		if before := l.t.Mul(l.t.FloorDiv(least[k], width), width); isConst && n > 1 && k != len(least)-1 {
			if more, ok := l.between(before, most[k]); ok {
				least[k], n = before, more
			}
		}
		switch {
		case !isConst:
			return l.refuse("window", v, "%s holds a window, and how many elements of axis %d in memory a block has is not a constant", name, w.axes[k].last)
		case k == len(least)-1:
			w.length = n
		case n > 1 && w.row >= 0:
			return l.refuse("window", v, "%s holds a window, and a block has several elements along more than two axes in memory", name)
		case n > 1:
			w.row, w.rows = k, n
		}
	}
	w.vectors = (w.length + 2*w.width - 2) / w.width
	step := l.t.Int(0)
	if w.row >= 0 {
		step = l.t.Mod(from.Stride[w.axes[w.row].last], width)
	}
	if n, isConst := l.t.ConstInt(step); isConst && n == 0 && w.row >= 0 {
		w.gap = w.width // else these rows are whole passes of all banks apart: vectors of a column would lie in one
	}
	w.pitch = l.t.Add(l.t.Int(w.vectors*w.width), step)
	if l.s.SwizzlesWindow(v) {
		if w.word = bankBytes / int64(from.DType.Size()); w.word == 0 || l.s.CopyKind(v) == schedule.AsyncCopy {
			return l.refuse("window", v, "%s holds a window that is swizzled, and is copied asynchronously or has elements of more than %d bytes", name, bankBytes)
		}
	}
	w.phase = l.t.Mod(w.access(l, w.origin, 1).Index, width)
	// Vectors begin up to their width before the first element of a row.
	last := l.t.Facts(w.phase).Hi + (w.vectors+1)*w.width + (w.rows-1)/w.width*w.gap
	id := l.b.Buffer(name, kir.Shared, from.DType, l.t.Int(w.rows), l.t.Int(last))
	to := &l.b.Kernel().Buffers[id]
	to.Stride[0], to.Size = w.pitch, l.t.Int((w.rows-1)*l.t.Facts(w.pitch).Hi+last)
	to.Align, to.Offset, to.Once = windowBytes, l.t.Int(0), true
	l.b.Add(kir.Declare{Buffer: id})
	l.buffers[v], l.windows[v] = id, w
	return nil
}

// tensorInputs returns how many inputs are tensors.
func (l *lowering) tensorInputs() (n int) {
	for _, v := range l.f.Inputs() {
		if l.f.Val(v).Tensor {
			n++
		}
	}
	return n
}

// between returns how many integers there are from least to most, if that is a constant.
func (l *lowering) between(least, most index) (int64, bool) {
	if least == scalar.None || most == scalar.None {
		return 0, false
	}
	return l.t.ConstInt(l.t.Add(l.t.Sub(most, least), l.t.Int(1)))
}

// strideOf returns the stride of an axis of b, of which there may be none.
func (l *lowering) strideOf(b *kir.Buffer, axis int) index {
	if axis < 0 {
		return l.t.Int(0)
	}
	return b.Stride[axis]
}

// box finds the axes of w, which v holds, and returns the least and the largest index of a block
// along each; None: it is not known.
func (l *lowering) box(v core.ValID, w *window) (least, most []index, err error) {
	around := map[core.AxisID]index{}
	inner := bounds{l: l, loops: map[kir.SymbolID]scalar.ID{}, memo: map[boundKey]index{}}
	for _, x := range l.tensors[v].loop {
		class := l.m.LoopClass(x)
		value, isOpen := l.loops[class]
		if isOpen {
			around[class] = value
		}
		switch p := l.parallel(class); {
		case l.isOne(l.m.Promotion(class)):
			value = l.t.Int(0)
		case p.IsBlock():
			value = l.dimension(p).symbol
		default:
			value = l.b.Symbol(l.name("any"), kir.LoopIndex, 0, l.t.Type(l.extent(x)), below(l.t.Facts(l.extent(x))))
			inner.loops[kir.SymbolID(l.t.Tag(value).Val)] = l.t.Sub(l.extent(x), l.t.Int(1))
		}
		l.loops[class] = value
		defer func() {
			if delete(l.loops, class); isOpen {
				l.loops[class] = around[class]
			}
		}()
	}
	for p := schedule.TIDx; p <= schedule.TIDz; p++ { // where rows begin elsewhere for each thread
		if d := l.dimension(p); d.used {
			inner.loops[kir.SymbolID(l.t.Tag(d.symbol).Val)] = l.t.Sub(d.extent, l.t.Int(1))
		}
	}
	e := l.f.Expr(l.f.Val(v).Def)
	c := l.context(v, false)
	o := c.operand(e, 0)
	coords, err := c.byLogical(o, l.tensors[o.v].storage.axes)
	if err != nil {
		return nil, nil, err
	}
	w.findAxes(l, coords, func(x index) int64 {
		if n, isConst := l.between(inner.of(x, false), inner.of(x, true)); isConst {
			return n
		}
		return -1
	})
	for _, x := range w.along(l, coords) {
		least, most = append(least, inner.of(x, false)), append(most, inner.of(x, true))
	}
	return least, most, nil
}

// findAxes finds the axes of w: those of the input, of which coords are the indices, but as one those
// next to each other that memory goes on along where a block has a part of both that is no box.
// count is how many values an index has in a block; -1: it is not known.
func (w *window) findAxes(l *lowering, coords []index, count func(x index) int64) {
	from := &l.b.Kernel().Buffers[w.source]
	for last := len(coords) - 1; last >= 0; {
		a := windowAxis{last, last, from.Shape[last]}
		for x := coords[last]; a.first > 0 && from.Stride[a.first-1] == l.t.Mul(a.extent, from.Stride[last]); {
			outer := coords[a.first-1]
			both := l.t.Add(l.t.Mul(outer, a.extent), x)
			inside, outside, all := count(x), count(outer), count(both)
			if n, isConst := l.t.ConstInt(a.extent); isConst { // a block may have places beyond the end
				inside = min(inside, n)
			}
			if isBox := outside >= 0 && (all < 0 || all >= inside*outside); inside >= 0 && (isBox || all < 0) {
				break
			}
			a.first, x, a.extent = a.first-1, both, l.t.Mul(a.extent, from.Shape[a.first-1])
		}
		w.axes = slices.Insert(w.axes, 0, a)
		last = a.first - 1
	}
}

// along returns the indices along the axes of w of the element of the source at coords.
func (w *window) along(l *lowering, coords []index) []index {
	from, out := &l.b.Kernel().Buffers[w.source], []index{}
	for _, a := range w.axes {
		x := coords[a.first]
		for k := a.first + 1; k <= a.last; k++ {
			x = l.t.Add(l.t.Mul(x, from.Shape[k]), coords[k])
		}
		out = append(out, x)
	}
	return out
}

// access returns that to width elements of the source from the given place along the axes of w on.
func (w *window) access(l *lowering, at []index, width int64) kir.Access {
	coords := make([]index, len(l.b.Kernel().Buffers[w.source].Shape))
	for k := range coords {
		coords[k] = l.t.Int(0)
	}
	for k, a := range w.axes {
		coords[a.last] = at[k]
	}
	out := l.b.Vector(int(width), w.source, coords...)
	out.Span = kir.InMemory
	return out
}

// place returns where an element of the source of w is in shared memory.
func (w *window) place(l *lowering, coords []index) []index {
	coords = w.along(l, coords)
	column, row := len(coords)-1, l.t.Int(0)
	if w.row >= 0 {
		row = l.t.Sub(coords[w.row], w.origin[w.row])
	}
	at := l.t.Add(l.t.Add(w.phase, l.t.Int(w.width)), l.t.Add(w.gaps(l, row), l.t.Sub(coords[column], w.origin[column])))
	return []index{row, l.t.Add(at, w.moved(l, row, l.t.Add(l.t.Mul(row, w.pitch), at)))}
}

// moved returns by how much an element of a row, which is at the given place of shared memory else, lies elsewhere as words are
// permuted. It does not change from one vector of a row to the next.
func (w *window) moved(l *lowering, row, at index) index {
	if w.word == 0 {
		return l.t.Int(0)
	}
	at = l.t.Mod(at, l.t.Int(w.width))
	return l.t.Sub(l.t.Xor(at, l.t.Mul(l.t.Mod(row, l.t.Int(w.width/w.word)), l.t.Int(w.word))), at)
}

// stores emits the store of a vector of w in registers, from, at p.
func (w *window) stores(l *lowering, p piece, to, from kir.BufferID, i index) {
	width := w.width
	if w.word > 0 {
		width = w.word
	}
	for k := int64(0); k < w.width; k += width {
		at := l.t.Add(p.to[1], l.t.Add(l.t.Int(k), w.moved(l, p.to[0], l.t.Int(k))))
		l.b.Add(kir.Move{Dst: l.b.Vector(int(width), to, p.to[0], at), Src: l.b.Vector(int(width), from, i, l.t.Int(k))})
	}
}

// gaps returns the elements left out before a row.
func (w *window) gaps(l *lowering, row index) index {
	return l.t.Mul(l.t.FloorDiv(row, l.t.Int(w.width)), l.t.Int(w.gap))
}

// A piece is the vector of a window that a thread loads in an iteration of its own.
type piece struct {
	isIn    scalar.ID // the vector is one of the window
	exists  scalar.ID // and the row one of the input
	isWhole scalar.ID // an element of it is of the row, and all are known to be in memory
	from    []index   // along the axes of the window: where the first one is
	to      []index   // in shared memory
}

// load emits the load of a window by all threads of the block.
func (l *lowering) load(v core.ValID, w *window) error {
	thread, threads := l.t.Int(0), int64(1)
	for p := schedule.TIDx; p <= schedule.TIDz; p++ {
		d := l.dimension(p)
		if !d.used {
			continue
		}
		n, isConst := l.t.ConstInt(d.extent)
		if !isConst {
			return l.refuse("window", v, "%s holds a window, and the number of threads of a block is not a constant", l.f.Name(v))
		}
		thread, threads = l.t.Add(thread, l.t.Mul(d.symbol, l.t.Int(threads))), threads*n
	}
	each := func(unroll kir.UnrollMode, do func(i index, p piece)) { w.turns(l, thread, threads, unroll, do) }
	isAligned := true
	whole := func(do func(i index, dst, src kir.Access)) {
		each(kir.UnrollFull, func(i index, p piece) {
			from, to := w.access(l, p.from, w.width), l.b.Vector(int(w.width), l.buffers[v], p.to...)
			isAligned = isAligned && l.isAligned(&from, int(w.width)) && l.isAligned(&to, int(w.width))
			l.b.If(l.t.And(p.exists, p.isWhole), func() { do(i, to, from) }, nil)
		})
	}
	cache, last := l.cacheOf(v)
	if l.s.CopyKind(v) == schedule.AsyncCopy {
		whole(func(_ index, dst, src kir.Access) {
			l.b.Add(kir.AsyncCopy{Dst: dst, Src: src, Guard: scalar.None, Cache: cache, Last: last})
		})
	} else { // all loads of a thread are under way at once
		id := l.b.Local(l.name("vectors"), l.b.Kernel().Buffers[w.source].DType, (w.rows*w.vectors+threads-1)/threads, w.width)
		whole(func(i index, _, src kir.Access) {
			l.b.Add(kir.Move{Dst: l.b.Vector(int(w.width), id, i, l.t.Int(0)), Src: src, Cache: cache, Last: last})
		})
		each(kir.UnrollFull, func(i index, p piece) { // also of those with no element, what is undefined
			l.b.If(p.isIn, func() {
				w.stores(l, p, l.buffers[v], id, i)
			}, nil)
		})
	}
	if !isAligned {
		return l.refuse("window", v, "%s holds a window, and the vectors of a block, of tiles that are no multiple of %d elements, are not known to be aligned", l.f.Name(v), w.width)
	}
	isEdge := l.t.Not(w.isInside(l))
	l.b.If(isEdge, func() {
		each(kir.UnrollNone, func(_ index, p piece) { l.loadSingly(v, w, &p, isEdge) })
	}, nil)
	return nil
}

// columns is how many elements a row of the input has.
func (w *window) columns() index {
	return w.axes[len(w.axes)-1].extent
}

// isInside returns whether all vectors of rows that there are, are in memory as a whole.
func (w *window) isInside(l *lowering) scalar.ID {
	last, column := slices.Clone(w.origin), len(w.origin)-1
	if w.row >= 0 {
		last[w.row] = l.t.Min(l.t.Add(last[w.row], l.t.Int(w.rows-1)), l.t.Sub(w.axes[w.row].extent, l.t.Int(1)))
	}
	last[column] = l.t.Add(last[column], l.t.Int((w.vectors-1)*w.width))
	isInside := l.t.Le(w.access(l, last, w.width).Index, l.t.Sub(l.b.Kernel().Buffers[w.source].Size, l.t.Int(w.width)))
	return l.t.And(l.t.Le(l.t.Int(0), w.origin[column]), isInside)
}

// turns emits what do does with the piece that a thread has in each of the turns that the threads of a
// block take over w.
func (w *window) turns(l *lowering, thread index, threads int64, unroll kir.UnrollMode, do func(i index, p piece)) {
	ends := []int64{w.body(threads) / threads, (w.rows*w.vectors + threads - 1) / threads}
	if unroll == kir.UnrollNone { // there is one loop
		ends = ends[1:]
	}
	from := int64(0)
	for _, to := range ends {
		turn := func(i index) {
			i = l.t.Add(i, l.t.Int(from))
			do(i, w.piece(l, l.t.Add(thread, l.t.Mul(i, l.t.Int(threads))), threads))
		}
		switch to - from {
		case 0:
		case 1:
			turn(l.t.Int(0))
		default:
			l.b.Repeat(l.loopName(), to-from, unroll, turn)
		}
		from = to
	}
}

// body returns how many vectors of w come first, which are all but the last one of each row, if a thread
// has those of one column then: its places in both memories are multiples of some rows apart, so that it
// divides and aligns once. Else 0: vectors come in the order of rows.
//
// With 128 + 8 elements of 2 bytes in a row a transpose has 584 instructions so and had 784. Of 64 x 1031 x 1027 it took
// 73.2 / 70.7 us of an H200, with the cache dirty and clean, and else 77.9 / 75.6, of images of 57 x 57 with 255
// channels 124.4 / 123.1 and 134.4 / 132.8. Where a turn has vectors of both kinds, 64 x 129 x 113 x 113 took
// 191.8 / 188.9 and 201.8 / 198.6, but x + y^T of 16387 x 2051 59.9 / 55.4 and 59.1 / 55.0.
func (w *window) body(threads int64) int64 {
	n := w.vectors - 1
	if n == 0 || threads%n != 0 || !w.isAlone && w.rows*n%threads != 0 {
		return 0
	}
	return w.rows * n
}

// position returns the row of the k-th vector of w, and its place there.
func (w *window) position(l *lowering, k index, threads int64) (row, vector index) {
	body := w.body(threads)
	if body == 0 {
		return l.t.FloorDiv(k, l.t.Int(w.vectors)), l.t.Mod(k, l.t.Int(w.vectors))
	}
	n, isIn := l.t.Int(w.vectors-1), l.t.Lt(k, l.t.Int(body))
	beyond := l.t.Max(l.t.Sub(k, l.t.Int(body)), l.t.Int(0)) // remainders of what may be below 0 take more
	return l.t.Select(isIn, l.t.FloorDiv(k, n), beyond), l.t.Select(isIn, l.t.Mod(k, n), n)
}

// piece returns the k-th vector of w.
func (w *window) piece(l *lowering, k index, threads int64) piece {
	row, vector := w.position(l, k, threads)
	column, n := len(w.origin)-1, l.t.Int(w.width)
	from := slices.Clone(w.origin)
	if w.row >= 0 {
		from[w.row] = l.t.Add(from[w.row], row)
	}
	tests := []test{{k, l.t.Int(w.rows * w.vectors)}}
	for k, x := range from[:column] {
		tests = append(tests, test{x, w.axes[k].extent}, test{x, scalar.None})
	}
	// The vectors begin at a multiple of their width in either memory.
	aligned := func(at index) index {
		return l.t.Add(l.t.Mul(l.t.FloorDiv(at, n), n), l.t.Mul(vector, n))
	}
	first := w.access(l, from, 1).Index
	from[column] = l.t.Add(l.t.Sub(aligned(first), first), from[column])
	begin := l.t.Mul(row, w.pitch)
	at := aligned(l.t.Add(l.t.Add(w.phase, n), l.t.Add(w.gaps(l, row), begin)))
	// Inside, vectors go on in memory where the row ends.
	beyond := l.t.Select(w.isInside(l), l.t.Int(0), l.t.Int(w.width-1))
	isWhole := l.t.Lt(from[column], l.t.Sub(w.columns(), beyond))
	if l.t.Facts(w.origin[column]).Lo < 0 { // and memory may begin behind a vector
		isWhole = l.t.And(isWhole, l.t.Le(l.t.Int(0), from[column]))
	}
	return piece{isIn: l.all(l.conditions(tests[:1])), exists: l.all(l.conditions(tests)), isWhole: isWhole, from: from, to: []index{row, l.t.Sub(at, begin)}}
}

// loadSingly emits the load of the elements of p that there are, if those are not all and cond holds.
func (l *lowering) loadSingly(v core.ValID, w *window, p *piece, cond scalar.ID) {
	column := len(p.from) - 1
	l.b.If(l.all([]scalar.ID{cond, l.t.Not(p.isWhole), p.exists}), func() {
		l.b.Repeat(l.loopName(), w.width, kir.UnrollNone, func(i index) {
			at := slices.Clone(p.from)
			at[column] = l.t.Add(at[column], i)
			l.b.If(l.t.And(l.t.Le(l.t.Int(0), at[column]), l.t.Lt(at[column], w.columns())), func() {
				l.b.Store(l.loadFrom(w.access(l, at, 1)), l.buffers[v], p.to[0], l.t.Add(p.to[1], l.t.Add(i, w.moved(l, p.to[0], i))))
			}, nil)
		})
	}, nil)
}
