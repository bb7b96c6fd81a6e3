package lower

import (
	"math/bits"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
)

// maxLine bounds the elements of a line that a thread has in registers.
const maxLine = 256

// A line is the elements along one dimension that a scan needs all of, as threads along x or y
// have them in registers: in steps, in each of which every thread has a few consecutive
// ones, after those of the threads before it. Threads along y, or those that share a line with
// no others, may have several columns: lines side by side.
//
// It is emitted as an exchange is: each thread's elements go to registers, the results of
// all of them take their place, and are stored where the statement stands.
type line struct {
	*meeting
	x           *exchange
	axis        core.AxisID // of the result
	steps, each int64
	threads     int64
	columns     int64
	column      index // that is being emitted
}

// dimOf returns the dimension along which e needs its operand whole, if its results are
// computed from the elements that all threads of a line have.
func dimOf(e *core.Expr) (int, bool) {
	switch {
	case e.Op == core.TopkOp:
		return int(e.Args[2].Int), true
	case e.Op.Class == core.Scan || e.Op.Class == core.Sort:
		return int(e.Args[1].Int), true
	}
	return 0, false
}

// lines emits what gives each thread the results of the operations in n that need lines,
// if what they read is computed before n.
func (l *lowering) lines(n *schedule.Nest) error {
	inside := l.inside(n)
	for _, id := range inside {
		e := l.f.Expr(id)
		isInside := slices.ContainsFunc(l.f.TensorArgs(e), func(v core.ValID) bool { return slices.Contains(inside, l.f.Val(v).Def) })
		if _, ok := dimOf(e); !ok || isInside || l.exchanged[id] != nil {
			continue
		}
		y, err := l.line(id, n)
		if y == nil || err != nil {
			return err
		}
		if e.Op.Class == core.Sort {
			err = y.sort()
		} else if err = l.collect(y.x); err == nil {
			err = y.scan()
		}
		if err != nil {
			return err
		}
		l.exchanged[id] = y.x
	}
	return nil
}

// line describes that of id, which is in n; nil if loops of n are not along it.
func (l *lowering) line(id core.ExprID, n *schedule.Nest) (*line, error) {
	e := l.f.Expr(id)
	v := e.Out[0]
	dim, _ := dimOf(e)
	y := &line{axis: l.f.Val(v).Domain.Root[dim], steps: 1, each: 1, threads: 1, columns: 1, column: l.t.Int(0), x: &exchange{id: id, count: 1}}
	y.meeting = &meeting{lowering: l, v: v, list: []*exchange{y.x}, ranks: 1}
	isPassed := false // a loop along the dimension
	for _, a := range l.tensors[v].loop {
		class := l.m.LoopClass(a)
		isAlong, isAlone := l.along(a, y.axis)
		inNest := l.hasLoop(n, class)
		p := l.parallel(class)
		if inNest {
			y.x.loops = append(y.x.loops, class)
		}
		switch {
		case !isAlong && inNest && !l.isSpread(class) && !isPassed:
			return nil, nil // an inner block has it
		case !isAlong && (!inNest || l.isSpread(class)) || l.isOne(l.m.Promotion(a)):
			continue
		case isAlong && !isAlone:
			return nil, l.refuse("line", v, "%s is computed in a loop over dimension %d and others, and needs all of that dimension: keep it apart", l.f.Name(v), dim)
		case p == schedule.TIDx || p == schedule.TIDy && e.Op.Class == core.Scan:
			y.x.across = append(y.x.across, p)
			isPassed = true
			if y.threads, _ = l.t.ConstInt(l.extent(l.m.Promotion(a))); bits.OnesCount64(uint64(y.threads)) != 1 || !l.dimension(p).exact {
				return nil, l.refuse("block size", v, "%s is computed from what threads along %v have of dimension %d: their number must be a power of two", l.f.Name(v), p, dim)
			}
			continue
		case l.isSpread(class) || p == schedule.Vectorize || !inNest:
			return nil, l.refuse("line", v, "%s is computed in loops of dimension %d that are %v: those of threads along x, or of a scan along y, can be, within loops of steps and around loops of elements", l.f.Name(v), dim, p)
		}
		if err := y.extend(a, dim, isAlong); err != nil {
			return nil, err
		}
		isPassed = true
	}
	if len(y.x.across) == 0 {
		y.steps, y.each = 1, y.steps
	}
	if err := y.checkColumns(dim); err != nil {
		return nil, err
	}
	if e.Op.Class == core.Scan {
		y.x.scanned, y.x.fold = y, l.fold(e)
	}
	return y, y.split(y.x.across)
}

// extend gives each thread the elements of loop axis a: of a line, or of several.
func (y *line) extend(a core.AxisID, dim int, isAlong bool) error {
	size, isConst := y.t.ConstInt(y.extent(y.m.Promotion(a)))
	if y.x.count *= size; !isConst || size < 1 || y.x.count > maxLine {
		return y.refuse("register size", y.v, "each thread has elements of dimension %d of what %s is computed from in registers, one and no more than %d: split the dimension whole", dim, y.f.Name(y.v), maxLine)
	}
	switch {
	case !isAlong:
		y.columns *= size
	case y.columns > 1:
		return y.refuse("line", y.v, "%s is computed in loops over dimension %d within one over others: those of a thread's columns can be within all of them", y.f.Name(y.v), dim)
	case len(y.x.across) > 0:
		y.each *= size
	default:
		y.steps *= size
	}
	return nil
}

// checkColumns fails unless the threads of columns can exchange what they have.
func (y *line) checkColumns(dim int) error {
	isAlongX := slices.Contains(y.x.across, schedule.TIDx)
	switch isSort := y.f.Expr(y.x.id).Op.Class == core.Sort; {
	case len(y.x.across) > 1:
		return y.refuse("line", y.v, "%s is computed by threads along x and y that have dimension %d: those along one of them can have it", y.f.Name(y.v), dim)
	case (isAlongX || isSort) && y.columns > 1:
		return y.refuse("line", y.v, "%s is computed in loops over dimension %d around one over others: threads along y or a single one can have several columns of a scan", y.f.Name(y.v), dim)
	case len(y.x.across) > 0 && !isAlongX && y.steps > 1:
		return y.refuse("line", y.v, "%s is computed in steps of threads along y that have dimension %d: each of those can have consecutive elements alone", y.f.Name(y.v), dim)
	}
	return nil
}

// along reports whether loop axis a is made from root axis of, and from nothing else.
func (l *lowering) along(a, of core.AxisID) (is, alone bool) {
	if a == of {
		return true, true
	}
	d := l.f.Axis(a).Def
	if d == core.NoTransform {
		return false, true
	}
	alone = true
	for _, in := range l.f.Transform(d).Inputs() {
		isAlong, isAlone := l.along(in, of)
		is, alone = is || isAlong, alone && isAlone && (isAlong || l.isOne(in))
	}
	return is, alone
}

// hasLoop reports whether n is or has a loop of class that a thread runs.
func (l *lowering) hasLoop(n *schedule.Nest, class core.AxisID) bool {
	if n.Axis == core.NoAxis {
		return false
	}
	return l.m.LoopClass(n.Axis) == class || slices.ContainsFunc(n.Body, func(b *schedule.Nest) bool { return l.hasLoop(b, class) })
}

// inOrder fails unless the elements that the statement of c has in the loops that are open
// follow those of the steps, threads and elements before.
func (y *line) inOrder(c *context) error {
	at := y.t.Int(0)
	for _, a := range c.tensor.loop {
		if is, _ := y.along(a, y.axis); is && !y.isOne(y.m.Promotion(a)) {
			at = y.t.Add(y.t.Mul(at, y.extent(y.m.Promotion(a))), y.loops[y.m.LoopClass(a)])
		}
	}
	found, ok := c.indices(c.start, []core.AxisID{y.axis}, c.tensor.resizes)
	if !ok || found[0] != at && !y.isShifted(found[0], at) {
		return y.refuse("line", y.v, "%s needs elements in order, and its loops have them in another one", y.f.Name(y.v))
	}
	return nil
}

// isShifted reports whether at is behind found by the phase of the row, which all threads of
// it have.
func (y *line) isShifted(found, at index) bool {
	return slices.ContainsFunc(y.s.Phases(), func(p schedule.Phase) bool { return found == y.t.Sub(at, y.lowering.size(p.Shift)) })
}

// place returns the place of element j of a step, of the column that is being emitted.
func (y *line) place(step index, j int64) kir.Access {
	at := y.t.Add(y.t.Mul(step, y.t.Int(y.each)), y.t.Int(j))
	return y.access(y.x, 0, y.t.Add(y.t.Mul(at, y.t.Int(y.columns)), y.column))
}

// eachStep emits body for n of the steps from first on.
func (y *line) eachStep(first index, n int64, body func(step index)) {
	if n == 1 {
		body(first)
		return
	}
	y.b.Repeat(y.loopName(), n, kir.UnrollFull, func(i index) { body(y.t.Add(first, i)) })
}

// scan replaces each element by the fold of those up to it.
func (y *line) scan() error {
	e, f := y.f.Expr(y.x.id), y.x.fold
	t := f.types[0]
	carry := y.b.Local(y.name("carry"), t) // of all steps before
	first := y.b.Const(f.identity(0))
	if e.Args[2].Kind != core.NoArg {
		first = y.b.Cast(t, y.lowering.number(e.Args[2].Scalar, y.f.Val(y.v).DType))
	}
	y.b.Store(first, carry)
	if y.threads == 1 {
		y.eachColumn(func() {
			y.inThread(y.t.Int(0), func(total kir.ValueID) kir.ValueID { return total })
			y.prepend(y.t.Int(0), y.b.Load(carry))
		})
		return nil
	}
	if y.x.across[0] != schedule.TIDx {
		y.acrossColumns(carry)
		return nil
	}
	lane, lanes := y.lane(y.dims)
	warp, warps := y.warps(y.dims)
	if warps == 1 {
		y.eachStep(y.t.Int(0), y.steps, func(step index) {
			all := y.inThread(step, func(total kir.ValueID) kir.ValueID { return y.lanesBefore(total, lane, lanes) })
			before := y.temporary("before", y.upTo(y.b.Load(carry), y.exclusive(all, lane, lanes)))
			y.prepend(step, before)
			if y.steps > 1 {
				y.b.Store(y.upTo(y.b.Load(carry), y.fromLane(all, lanes-1, lanes)), carry)
			}
		})
		return nil
	}
	y.acrossWarps(carry, lane, warp, warps)
	return nil
}

// acrossWarps scans the elements of steps that several warps have. What a warp has of each
// step goes to shared memory; then each warp scans that itself.
func (y *line) acrossWarps(carry kir.BufferID, lane, number index, warps int64) {
	t := y.x.fold.types[0]
	row, rows := y.linear(y.kept)
	scratch := y.sharedBuffer(y.name("scratch"), t, y.t.Int(rows), y.t.Int(y.steps*warps))
	y.b.Add(kir.Declare{Buffer: scratch})
	before := y.b.Local(y.name("before"), t, y.steps) // of a step, in the lanes before
	y.eachStep(y.t.Int(0), y.steps, func(step index) {
		all := y.inThread(step, func(total kir.ValueID) kir.ValueID { return y.lanesBefore(total, lane, warp) })
		y.b.Store(y.exclusive(all, lane, warp), before, step)
		y.whenever(y.t.Eq(lane, y.t.Int(warp-1)), func() {
			y.b.Store(all, scratch, row, y.t.Add(y.t.Mul(step, y.t.Int(warps)), number))
		})
	})
	for from, some := int64(0), warp/warps; from < y.steps; from += some {
		n := min(some, y.steps-from)
		at := y.t.Add(y.t.Int(from*warps), lane)
		own := y.b.Local(y.name("own"), t)
		y.whenever(y.t.Lt(lane, y.t.Int(n*warps)), func() { y.b.Store(y.b.Load(scratch, row, at), own) }) // other lanes come after these
		all := y.lanesBefore(y.b.Load(own), lane, warp)
		others := y.temporary("others", y.exclusive(all, lane, warp))
		y.eachStep(y.t.Int(0), n, func(i index) {
			step := y.t.Add(y.t.Int(from), i)
			those := y.b.ShuffleAt(others, y.t.Add(y.t.Mul(i, y.t.Int(warps)), number), warp)
			those = y.upTo(y.b.Load(carry), y.temporary("those", those))
			y.prepend(step, y.temporary("prefix", y.upTo(those, y.b.Load(before, step))))
		})
		if from+n < y.steps {
			y.b.Store(y.upTo(y.b.Load(carry), y.fromLane(all, warp-1, warp)), carry)
		}
	}
}

// upTo combines what comes first with what follows.
func (y *line) upTo(first, next kir.ValueID) kir.ValueID {
	return y.combine(y.x.fold, []kir.ValueID{first}, []kir.ValueID{next})[0]
}

// inThread replaces the elements that the thread has of a step by the folds up to them,
// and returns what lanes makes of the last one.
func (y *line) inThread(step index, lanes func(total kir.ValueID) kir.ValueID) kir.ValueID {
	for j := int64(1); j < y.each; j++ {
		y.b.Add(kir.Assign{Dst: y.place(step, j), Value: y.upTo(y.loadFrom(y.place(step, j-1)), y.loadFrom(y.place(step, j)))})
	}
	return lanes(y.loadFrom(y.place(step, y.each-1)))
}

// prepend combines what comes before with each element that the thread has of a step.
func (y *line) prepend(step index, before kir.ValueID) {
	for j := range y.each {
		y.b.Add(kir.Assign{Dst: y.place(step, j), Value: y.upTo(before, y.loadFrom(y.place(step, j)))})
	}
}

// lanesBefore returns the fold of v in the lanes of a group of n up to this one.
func (y *line) lanesBefore(v kir.ValueID, lane index, n int64) kir.ValueID {
	all := y.b.Local(y.name("all"), y.x.fold.types[0])
	y.b.Store(v, all)
	for d := int64(1); d < n; d *= 2 {
		other := y.temporary("other", y.b.Shuffle(kir.ShuffleUp, y.b.Load(all), d, int(n)))
		y.b.If(y.t.Le(y.t.Int(d), lane), func() { y.b.Store(y.upTo(other, y.b.Load(all)), all) }, nil)
	}
	return y.b.Load(all)
}

// exclusive returns the fold of the lanes of a group of n before this one, of which all
// have the fold up to themselves.
func (y *line) exclusive(all kir.ValueID, lane index, n int64) kir.ValueID {
	last := y.temporary("last", y.b.Shuffle(kir.ShuffleUp, all, 1, int(n)))
	isFirst := y.b.Index(dtype.Bool, y.t.Eq(lane, y.t.Int(0)))
	return y.b.Op(core.WhereOp, isFirst, y.b.Const(y.x.fold.identity(0)), last)
}

// fromLane returns what one lane of a group of n has.
func (y *line) fromLane(v kir.ValueID, lane, n int64) kir.ValueID {
	return y.temporary("total", y.b.ShuffleAt(v, y.t.Int(lane), int(n)))
}

// storeOfLine stores the results of x for one element, together those that the same threads
// write: what lies in registers all threads write, and the same in global memory one may.
func (c *context) storeOfLine(x *exchange) error {
	c.limit(c.f.Expr(x.id))
	for rest := c.f.Expr(x.id).Out; len(rest) > 0; {
		var g guard
		var those, others []core.ValID
		for _, v := range rest {
			own, err := c.lowering.context(v, false).guard(x.id, false)
			switch {
			case err != nil:
				return err
			case len(those) == 0:
				g, those = own, append(those, v)
			case c.all(own.among) == c.all(g.among) && own.redundant == g.redundant:
				those = append(those, v)
			default:
				others = append(others, v)
			}
		}
		c.redundant = g.redundant
		if err := c.under(&guarded{id: x.id, g: g}, c.holds(g), func() error { return c.storeLine(x, those) }); err != nil {
			return err
		}
		rest = others
	}
	return nil
}

// storeLine stores some results of x.
func (c *context) storeLine(x *exchange, results []core.ValID) error {
	if x.sorted != nil {
		return c.storeSorted(x, results)
	}
	v := c.tensor.v
	dst, err := c.write(v)
	if err == nil {
		c.assign(dst, c.b.Cast(c.f.Val(v).DType, c.loadFrom(c.partAt(x, 0))))
	}
	return err
}
