package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// vectorAxis returns the loop axis of the tensor that one instruction covers and
// its extent, or 1.
func (c *context) vectorAxis() (core.AxisID, int64) {
	for _, a := range c.tensor.loop {
		if c.parallel(a) == schedule.Vectorize {
			n, _ := c.t.ConstInt(c.extent(c.m.Promotion(a)))
			return a, n
		}
	}
	return core.NoAxis, 1
}

// vector emits a copy of width elements, which are next to each other on both
// sides. Where they need not all exist it is one instruction if they do, and else
// a copy of each that does. What it is not right for is refused, as the other
// elements would be left out.
func (l *lowering) vector(id core.ExprID, a core.AxisID, width int64) error {
	e := l.f.Expr(id)
	v := e.Out[0]
	if e.Op == core.PadOp || e.Op == core.CatOp {
		return l.vectorOfParts(id, a, width)
	}
	if _, ok := e.IndexedRead(); ok {
		return l.vectorLookup(id, a, width)
	}
	if e.Op != core.SetOp && e.Op != core.SliceOp && e.Op != core.StrideOrderOp {
		return l.refuse("vector", v, "%s is vectorized and is the result of %s(): only a copy moves several elements at once; cache it", l.f.Name(v), e.Op.Name)
	}
	dsts, srcs, whole, err := l.neighbours(id, a, width, (*context).copied)
	if err != nil {
		return err
	}
	lane, err := l.lane(id, a, width)
	if err != nil {
		return err
	}
	l.loops[l.m.LoopClass(a)] = l.t.Int(0)
	c, reads := l.context(v, false), guard{}
	isLocal := l.isLocal(dsts[0]) && l.isLocal(srcs[0])
	if whole.partial && isLocal {
		return l.refuse("vector", v, "%s is vectorized by %d, which is not known to divide the extent that is split", l.f.Name(v), width)
	}
	first := whole.guard
	if c.isAsync() && !whole.partial { // else elements that exist are copied one by one, and no zeros written
		first, reads = c.zeroFilled(first)
	}
	l.limit(e)
	cond := l.holds(first)
	inRegisters := func() error {
		for i, dst := range dsts {
			c.assign(dst, l.loadFrom(srcs[i]))
		}
		return nil
	}
	if isLocal {
		return c.under(lane.guarded, cond, inRegisters)
	}
	dst, src := dsts[0], srcs[0]
	if !l.isLocal(src) {
		src.Step = l.stepOf(srcs)
	}
	unaligned := l.readsUnaligned(c, dst, src, int(width))
	if dst, src, err = l.aligned(v, dst, src, int(width), unaligned); err != nil {
		return err
	}
	move := func() error {
		if c.isAsync() {
			return c.asyncCopy(dst, src, reads)
		}
		if b := l.b.Kernel().Buffers; l.isLocal(dst) && b[src.Buffer].DType != b[dst.Buffer].DType { // rounded, which no move does
			return inRegisters()
		}
		l.moveVector(v, dst, src, srcs, unaligned)
		return nil
	}
	if k := l.keeping; k != nil && l.keepingStep == loading {
		if k.isRing { // whether the copy is made now or not
			whole.tests = slices.DeleteFunc(slices.Clone(whole.tests), func(x test) bool { return slices.Contains(c.aheadTests(), x) })
			cond = l.all(l.conditions(whole.tests), whole.once, whole.among)
		}
		if err := l.compareKept(v, src, cond); err != nil {
			return err
		}
		cond = l.holds(first)
	} else if k != nil { // of all elements, whether they are there or not: no other thread has them
		return l.moveKept(v, dst)
	}
	if whole.partial && l.fast == nil {
		lane.context = c
		if there, ok := l.isThere(whole, lane, dst, src); ok && !unaligned && src.Step == 0 {
			src.Span = kir.InMemory
			lane.s = l.b.If(l.t.Bool(true), func() {
				l.b.Add(kir.Move{Dst: dst, Src: src, Cache: l.plainCacheOf(v), Guarded: true, Guard: there})
				if all := l.allInside(src); all != scalar.None {
					there = l.t.Or(all, there)
				}
				if width <= testedPair {
					l.oneByOne(lane, there)
				} else {
					l.b.If(cond, func() {}, func() { l.oneByOne(lane, there) })
				}
			}, nil)
			c.note(lane.guarded)
			return nil
		}
		copyAll := func(cond scalar.ID) *kir.If {
			return l.b.If(cond, func() { err = move() }, func() { l.oneByOne(lane, scalar.None) })
		}
		if busy, rest := c.byThread(whole.tests); len(busy) > 0 && !l.isLocal(dst) {
			lane.s = l.b.If(l.all(l.conditions(busy)), func() { copyAll(l.all(l.conditions(rest), whole.once, whole.among)) }, nil)
			lane.each = nil // nothing relies on what is in memory where there is no element
		} else {
			lane.s = copyAll(cond)
		}
		c.note(lane.guarded)
		return err
	}
	return c.under(lane.guarded, cond, move)
}

// aligned returns the accesses to width elements from those of the first on, and fails if one
// is not known to be aligned, but for src if that may be unaligned.
func (l *lowering) aligned(v core.ValID, dst, src kir.Access, width int, unaligned bool) (kir.Access, kir.Access, error) {
	for _, side := range []*kir.Access{&dst, &src} {
		b := &l.b.Kernel().Buffers[side.Buffer]
		if side.Width = width; b.DType != l.b.Kernel().Buffers[dst.Buffer].DType {
			continue // in registers, rounded on the way
		}
		if side.Step > 0 {
			if !l.gathers(dst, side) {
				return dst, src, l.refuse("vector", v, "%s is vectorized by %d, and elements of %s are %d apart, of which vectors are not known to have as many", l.f.Name(v), width, b.Name, side.Step)
			}
			continue
		}
		if !l.isAligned(side, width) && (side == &dst || !unaligned) {
			return dst, src, l.refuse("vector", v, "%s is vectorized by %d, and the address of %s is not known to be a multiple of %d bytes", l.f.Name(v), width, b.Name, width*b.DType.Size())
		}
	}
	return dst, src, nil
}

// isAligned reports whether the address of width elements from a on is known to be a multiple
// of what they take.
func (l *lowering) isAligned(a *kir.Access, width int) bool {
	b := &l.b.Kernel().Buffers[a.Buffer]
	return width*b.DType.Size() <= b.Align && l.t.Divides(l.t.Int(int64(width)), a.Index)
}

// stepOf returns how many elements of memory it is from each of some to the next, 0 if they are next to each other.
func (l *lowering) stepOf(elements []kir.Access) int {
	if step, _ := l.t.ConstInt(l.t.Sub(elements[1].Index, elements[0].Index)); step > 1 {
		return int(step)
	}
	return 0
}

// gathers reports whether what src has, in steps, can be read as vectors, to dst.
func (l *lowering) gathers(dst kir.Access, src *kir.Access) bool {
	b := &l.b.Kernel().Buffers[src.Buffer]
	g, ok := kir.GatheredBy(b, src.Width, src.Step)
	return ok && l.isLocal(dst) && b.Space == kir.Global && b.ReadOnly && l.keeping == nil && l.t.Divides(l.t.Int(int64(g.Vector/b.DType.Size())), src.Index)
}

// readsUnaligned reports whether width elements from src on, to dst, must be read from an address
// that is not known to be aligned, and can be: see [kir.Move].
func (l *lowering) readsUnaligned(c *context, dst, src kir.Access, width int) bool {
	b := &l.b.Kernel().Buffers[src.Buffer]
	cache, _ := l.cacheOf(c.tensor.v)
	return l.isLocal(dst) && src.Step == 0 && b.Space == kir.Global && b.DType.Size() <= 2 && width*b.DType.Size() >= 4 && cache.IsPlain() && l.keeping == nil &&
		!l.isAligned(&src, width)
}

// vectorLookup emits a read of width elements of a table that are next to each other and
// all at one position, or zeros. They are read to registers.
func (l *lowering) vectorLookup(id core.ExprID, a core.AxisID, width int64) error {
	e := l.f.Expr(id)
	v, name := e.Out[0], l.f.Name(e.Out[0])
	k, _ := e.IndexedRead()
	var rows [][]index      // by element, where it lies along the axes that the positions run along
	var first []kir.ValueID // of a sum of slices: what it begins with
	dsts, _, whole, err := l.neighbours(id, a, width, func(c *context, id core.ExprID) (dst, src kir.Access, g guard, err error) {
		if g, err = c.guard(id, false); err == nil {
			dst, err = c.write(v)
		}
		if err == nil && k.Index >= 0 {
			var at []index
			at, err = c.lookedUpBy(e, k.Index)
			rows = append(rows, at)
		}
		if err == nil && e.Op == core.SumSlicesOp {
			var x kir.ValueID
			x, err = c.load(e, 0)
			first = append(first, x)
		}
		return dst, dst, g, err
	})
	switch {
	case err != nil:
		return err
	case whole.partial:
		return l.refuse("vector", v, "%s is vectorized by %d, which is not known to divide the extent that is split", name, width)
	case !l.isLocal(dsts[0]):
		return l.refuse("vector", v, "%s is vectorized and is looked up, which is done to registers only: cache it", name)
	case slices.ContainsFunc(rows, func(at []index) bool { return !slices.Equal(at, rows[0]) }):
		return l.refuse("vector", v, "%s is vectorized by %d, and each of its elements is looked up at a position of its own", name, width)
	}
	l.loops[l.m.LoopClass(a)] = l.t.Int(0)
	c := l.context(v, false)
	l.limit(e)
	dst := dsts[0]
	return c.under(&guarded{id: id, g: whole.guard}, l.holds(whole.guard), func() error {
		dst.Width = int(width)
		if e.Op.SumsListed() {
			return c.sumListed(e, dsts, func(i int) (kir.ValueID, error) { return first[i], nil }, func(at operand) ([]kir.Access, error) { return l.looked(e, at, width, a) })
		}
		return c.lookup(e, dst, func(first operand) (kir.Access, error) { return l.lookedUp(e, first, dst, a) })
	})
}

// lookedUpBy returns the indices of the statement's element along the axes that tensor operand k
// of e runs along: elements for which they are equal read one element of it, wherever that is
// kept.
func (c *context) lookedUpBy(e *core.Expr, k int) ([]index, error) {
	o := c.operand(e, k)
	var axes []core.AxisID
	for i, a := range c.f.Axes(o.v) {
		if o.axis[i] != core.NoAxis && !c.isBroadcast(a) {
			axes = append(axes, o.axis[i])
		}
	}
	at, ok := c.elements(c.start, axes, c.tensor.resizes)
	if !ok {
		return nil, c.refuse("index", c.tensor.v, "the loops of %s do not lead to the dimensions of %s", c.f.Name(c.tensor.v), c.f.Name(o.v))
	}
	return at, nil
}

// lookedUp returns the access to the elements of a vector along a to dst, of which first is the
// operand that the first one is looked up in.
func (l *lowering) lookedUp(e *core.Expr, first operand, dst kir.Access, a core.AxisID) (kir.Access, error) {
	v := e.Out[0]
	srcs, err := l.looked(e, first, int64(dst.Width), a)
	if err != nil {
		return kir.Access{}, err
	}
	src, b := srcs[0], l.b.Kernel().Buffers
	if b[src.Buffer].Space != kir.Global || b[src.Buffer].DType != b[dst.Buffer].DType {
		return src, l.refuse("vector", v, "%s is vectorized and is looked up in %s, which is not in global memory", l.f.Name(v), l.f.Name(first.v))
	}
	_, src, err = l.aligned(v, dst, src, dst.Width, false)
	return src, err
}

// looked returns the accesses to width elements along a, of which first is the operand that the
// first one is looked up in.
func (l *lowering) looked(e *core.Expr, first operand, width int64, a core.AxisID) ([]kir.Access, error) {
	v := e.Out[0]
	k, _ := e.IndexedRead()
	var srcs []kir.Access
	for i := range width {
		l.loops[l.m.LoopClass(a)] = l.t.Int(i)
		c := l.context(v, false)
		o := c.operand(e, first.k)
		if e.Op == core.GatherOp {
			if err := c.prefixes(e, &o, k.Dim); err != nil {
				return nil, err
			}
		}
		o.at[k.Dim] = first.at[k.Dim]
		at, err := c.read(o)
		if err != nil {
			return nil, err
		}
		if srcs = append(srcs, at); at.Index != l.t.Add(srcs[0].Index, l.t.Int(i)) {
			return nil, l.refuse("vector", v, "%s is vectorized, but elements of what it looks up are not known to be next to each other in memory", l.f.Name(v))
		}
	}
	return srcs, nil
}

// kirCache has no level of caches: it is the device that decides those.
var kirCache = map[schedule.CacheHint]kir.CacheHint{
	schedule.CacheStreaming:  kir.CacheStreaming,
	schedule.CacheEvictFirst: kir.CacheEvictFirst,
	schedule.CacheEvictLast:  kir.CacheEvictLast,
}

// cacheOf returns how the copy that defines v uses the caches, and the condition of that.
func (l *lowering) cacheOf(v core.ValID) (kir.CacheHint, scalar.ID) {
	if l.keeping != nil {
		return l.keepingCache, l.keepingLast
	}
	return kirCache[l.s.CacheHint(v)], scalar.None
}

// plainCacheOf is cacheOf for loads under a condition, which have hints that are plain alone.
func (l *lowering) plainCacheOf(v core.ValID) kir.CacheHint {
	if cache, _ := l.cacheOf(v); cache.IsPlain() {
		return cache
	}
	return kir.CacheDefault
}

// moveVector emits the copy of a vector, of the elements srcs, by one instruction on each
// side, or from an unaligned address. What a reduction keeps in a wider type than its own is rounded.
func (l *lowering) moveVector(v core.ValID, dst, src kir.Access, srcs []kir.Access, unaligned bool) {
	if t := l.b.Kernel().Buffers[dst.Buffer].DType; l.b.Kernel().Buffers[src.Buffer].DType != t {
		id := l.b.Local(l.name("rounded"), t, int64(src.Width))
		for i, at := range srcs {
			l.b.Store(l.b.Cast(t, l.loadFrom(at)), id, l.t.Int(int64(i)))
		}
		src = l.b.Vector(src.Width, id, l.t.Int(0))
	}
	cache, last := l.cacheOf(v)
	if !l.isLocal(dst) && !l.isLocal(src) { // by way of registers
		id := l.b.Local(l.name("vector"), l.b.Kernel().Buffers[src.Buffer].DType, int64(src.Width))
		through := l.b.Vector(src.Width, id, l.t.Int(0))
		l.b.Add(kir.Move{Dst: through, Src: src, Cache: cache, Last: last})
		src = through
	}
	if src.Step > 0 { // what is between is read soon, by others
		cache, last = kir.CacheDefault, scalar.None
	}
	l.b.Add(kir.Move{Dst: dst, Src: src, Unaligned: unaligned, Cache: cache, Last: last})
}

// byThread returns those of tests that are of the thread alone, and the others. Threads that have nothing to do must not go the way
// of those of whose vector only some elements exist, as their warp goes it with them: an RMS norm of rows of 20 bfloat16, in blocks
// whose copies leave 24 of 64 threads idle, took 100.5 / 100.3 us on an H200 (second cache dirty and clean) and takes 69.5 / 65.2.
func (c *context) byThread(tests []test) (busy, rest []test) {
	own := c.threadTests(false, nil, nil, nil)
	for _, x := range tests {
		if slices.Contains(own, x) {
			busy = append(busy, x)
		} else {
			rest = append(rest, x)
		}
	}
	return busy, rest
}

// testedPair is the width of vectors whose elements are tested one by one, where others have a
// test of all first: two tests cost less than a branch.
const testedPair = 2

// isThere returns where the load of a vector may read all of src, as elements of it that do not
// exist are in memory too: those before a row, if its address is a multiple of the width and
// so not below 0, are the last ones of the row before, and those behind it the first ones of
// the next, but at the end of memory. One load under a condition lets others be under way,
// where loads of single elements in a branch would be waited for in it.
func (l *lowering) isThere(all whole, x lane, dst, src kir.Access) (there scalar.ID, ok bool) {
	from := &l.b.Kernel().Buffers[src.Buffer]
	isLoad := l.isLocal(dst) && from.Space == kir.Global && from.ReadOnly && from.DType == l.b.Kernel().Buffers[dst.Buffer].DType
	if !isLoad || l.keeping != nil || l.ahead != nil || l.t.Facts(src.Index).Lo <= -int64(src.Width) {
		return scalar.None, false
	}
	isBelow := func(tests []test) []test {
		return slices.DeleteFunc(slices.Clone(tests), func(x test) bool { return x.below == scalar.None })
	}
	if len(isBelow(all.tests)) == len(all.tests) { // nothing is before a row
		return scalar.None, false
	}
	first := func(symbol scalar.ID) (scalar.ID, bool) { return l.t.Int(0), symbol == x.lane }
	some := l.t.Substitute(l.all(l.conditions(isBelow(x.g.tests)), x.g.once, x.g.among), first)
	inside := l.t.Le(l.t.Add(src.Index, l.t.Int(int64(src.Width))), from.Size)
	return l.t.And(some, l.t.Or(l.all(l.conditions(isBelow(all.tests))), inside)), true
}

// allInside returns a condition that all threads of a block have in common, under which memory does not end within
// what any of them loads from src on: what it cannot load as a vector is then known to be nothing without a branch
// of each thread. None: none is known. A softmax of 65536 rows of 1,023 bfloat16 took 68.0 / 66.3 us of an H200 without it
// (second cache dirty / clean), and 66.8 / 64.6 so (a copy 66.9 / 63.5).
func (l *lowering) allInside(src kir.Access) scalar.ID {
	first := l.t.Substitute(src.Index, func(symbol scalar.ID) (scalar.ID, bool) {
		s := &l.b.Kernel().Symbols[l.t.Tag(symbol).Val]
		return l.t.Int(l.t.Facts(symbol).Lo), s.Kind == kir.ThreadIdx || s.Kind == kir.LoopIndex
	})
	most := l.t.Facts(l.t.Sub(src.Index, first)).Hi
	if first == src.Index || most > mostApart {
		return scalar.None
	}
	end := l.t.Add(first, l.t.Int(most+int64(src.Width)))
	return l.t.Le(end, l.b.Kernel().Buffers[src.Buffer].Size)
}

// mostApart is how many elements what a block loads at a time is apart at most, for it to have a condition of its own.
const mostApart = 1 << 20

// oneByOne emits copies of those elements of a vector that exist, where they were not loaded
// because there holds; None: none were.
func (l *lowering) oneByOne(x lane, there scalar.ID) {
	copied := kir.Block{kir.Assign{Dst: x.dst, Value: l.b.Cast(l.b.Kernel().Buffers[x.dst.Buffer].DType, l.loadFrom(x.src))}}
	if there != scalar.None {
		copied = kir.Block{&kir.If{Cond: there, Else: copied}}
	}
	x.each = &kir.If{Cond: l.all(l.conditions(x.g.tests), x.g.once, x.g.among), Then: copied}
	l.b.Add(&kir.For{Symbol: kir.SymbolID(l.t.Tag(x.lane).Val), Start: l.t.Int(0), Stop: l.t.Int(x.width), Step: l.t.Int(1), Unroll: kir.UnrollFull, Body: kir.Block{x.each}})
}

// A whole is the condition that all elements of a vector exist.
type whole struct {
	guard
	partial bool // some may exist without the others
}

// neighbours returns both sides of each element, as sides says, and the condition of all. Sources may be a few
// elements apart.
func (l *lowering) neighbours(id core.ExprID, a core.AxisID, width int64, sides func(*context, core.ExprID) (dst, src kir.Access, g guard, err error)) (dsts, srcs []kir.Access, all whole, err error) {
	v := l.f.Expr(id).Out[0]
	var first guard
	step := int64(1) // elements of memory from one source to the next
	for i := range width {
		l.loops[l.m.LoopClass(a)] = l.t.Int(i)
		dst, src, g, err := sides(l.context(v, false), id)
		if err != nil {
			return nil, nil, all, err
		}
		g.tests = l.undivided(g.tests)
		dsts, srcs = append(dsts, dst), append(srcs, src)
		if i == 0 {
			first, all.guard = g, g
			continue
		}
		next := func(first, at kir.Access, step int64) bool { return at.Index == l.t.Add(first.Index, l.t.Int(i*step)) }
		if i == 1 && l.b.Kernel().Buffers[src.Buffer].Space == kir.Global {
			step = max(int64(l.stepOf(srcs)), 1)
		}
		switch {
		case !next(dsts[0], dst, 1) || step > kir.MaxStep || !next(srcs[0], src, step):
			return nil, nil, all, l.refuse("vector", v, "%s is vectorized, but elements of it or of what it copies are not known to be next to each other in memory", l.f.Name(v))
		case l.all(first.once, first.among) != l.all(g.once, g.among):
			return nil, nil, all, l.refuse("vector", v, "%s is vectorized by %d, and not every thread writes all elements of a vector", l.f.Name(v), width)
		case !l.sameOutcome(first, g, i, width):
			all.partial = true
			all.tests = l.both(all.tests, g.tests)
		}
	}
	for _, side := range [][]kir.Access{dsts, srcs} {
		if l.isRow(side) {
			side[0].Span = kir.InRow
		}
	}
	return dsts, srcs, all, nil
}

// isRow reports whether elements, of which each is where its tests hold, follow each other
// along the last axis that they are stored along.
func (l *lowering) isRow(elements []kir.Access) bool {
	first := elements[0].Coords
	last := len(first) - 1
	for i, x := range elements {
		if last < 0 || len(x.Coords) != len(first) || !slices.Equal(x.Coords[:last], first[:last]) || x.Coords[last] != l.t.Add(first[last], l.t.Int(int64(i))) {
			return false
		}
	}
	return true
}

// undivided returns tests that hold where those do, in which sums with one quotient are
// multiplied by its divisor: a + x/3 < n as 3*a + x < 3*n, of which it shows what x goes by.
func (l *lowering) undivided(tests []test) []test {
	tests = slices.Clone(tests)
	for i, x := range tests {
		if x.below == scalar.None || l.t.Op(x.value) != scalar.Add {
			continue
		}
		for _, q := range l.t.Args(x.value) {
			if l.t.Op(q) != scalar.FloorDiv {
				continue
			}
			if d, isConst := l.t.ConstInt(l.t.Args(q)[1]); isConst && d > 1 {
				n := l.t.Int(d)
				tests[i].value = l.t.Add(l.t.Mul(l.t.Sub(x.value, q), n), l.t.Args(q)[0])
				tests[i].below = l.t.Mul(x.below, n)
				break
			}
		}
	}
	return tests
}

// both returns tests that hold where those of two elements hold: of two that an
// index is below the same bound, the one of which the index is greater by a
// constant, and of two that it is not negative the first.
func (l *lowering) both(tests, more []test) []test {
	all := slices.Clone(tests)
	for _, x := range more {
		k := slices.IndexFunc(all, func(y test) bool {
			n, isConst := l.t.ConstInt(l.t.Sub(x.value, y.value))
			return x == y || x.below == y.below && isConst && n > 0
		})
		switch {
		case k < 0:
			all = append(all, x)
		case x.below != scalar.None: // else the lesser one must not be negative
			all[k] = x
		}
	}
	return all
}

// A lane is any element of a vector, as a function of a symbol, which is that of
// a loop if elements are copied one by one.
type lane struct {
	*guarded
	dst, src kir.Access
}

func (l *lowering) lane(id core.ExprID, a core.AxisID, width int64) (lane, error) {
	i := l.b.Symbol(l.name("lane"), kir.LoopIndex, 0, dtype.Index, scalar.Range(0, width-1))
	l.loops[l.m.LoopClass(a)] = i
	c := l.context(l.f.Expr(id).Out[0], false)
	c.again = true
	dst, src, g, err := c.copied(id)
	return lane{guarded: &guarded{id: id, g: g, lane: i, width: width}, dst: dst, src: src}, err
}

func (l *lowering) isLocal(a kir.Access) bool {
	return l.b.Kernel().Buffers[a.Buffer].Space == kir.Local
}

// copied returns both sides of a copy of one element and its condition.
func (c *context) copied(id core.ExprID) (dst, src kir.Access, g guard, err error) {
	g, err = c.guard(id, false)
	if err == nil {
		dst, err = c.write(c.tensor.v)
	}
	if err == nil {
		src, err = c.read(c.operand(c.f.Expr(id), 0))
	}
	if err == nil && g.redundant {
		err = c.refuse("vector", c.tensor.v, "%s is vectorized, and several threads write each of its elements", c.f.Name(c.tensor.v))
	}
	return dst, src, g, err
}

// sameOutcome reports whether the tests of element 0 and of element i of a vector
// hold or fail together. They do if a test is of x+i against n, or against 0, where
// the width divides both x and n.
func (l *lowering) sameOutcome(first, g guard, i, width int64) bool {
	if len(first.tests) != len(g.tests) {
		return false
	}
	for k, a := range first.tests {
		b, w := g.tests[k], l.t.Int(width)
		divides := b.below == a.below && b.value == l.t.Add(a.value, l.t.Int(i)) &&
			l.t.Divides(w, a.value) && (a.below == scalar.None || l.t.Divides(w, a.below))
		if a != b && !divides && l.conditions([]test{a})[0] != l.conditions([]test{b})[0] {
			return false
		}
	}
	return true
}
