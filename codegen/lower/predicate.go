package lower

import (
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A guard is the conditions of a statement, all of which must hold: tests that
// the indices are those of an element, once that this iteration computes it, and
// among that this thread or block does.
type guard struct {
	tests       []test
	ranges      int // of tests, how many say first that indices are in range
	once, among []scalar.ID
	redundant   bool // several threads write the same
}

// hasBefore reports whether some index may be negative where g fails.
func (g *guard) hasBefore() bool {
	return slices.ContainsFunc(g.tests, func(x test) bool { return x.below == scalar.None })
}

// A test is that an index is less than below, or, if that is None, not negative.
type test struct{ value, below index }

// conditions returns the tests as expressions.
func (l *lowering) conditions(tests []test) []scalar.ID {
	list := make([]scalar.ID, len(tests))
	for i, x := range tests {
		if list[i] = l.t.Le(l.t.Int(0), x.value); x.below != scalar.None {
			list[i] = l.t.Lt(l.firstOfVector(x), x.below)
		}
		if list[i] == l.there {
			list[i] = l.t.Bool(true)
		}
	}
	return list
}

// widestVector is the largest number of elements of which tests may be one.
const widestVector = 16

// firstOfVector returns what is below the bound of x where its value is: of the elements
// of a vector, if their number divides the bound and the others follow a multiple of it,
// the first one, so that they have one test.
func (l *lowering) firstOfVector(x test) index {
	if l.t.Op(x.value) != scalar.Add {
		return x.value
	}
	first := x.value
	for w := int64(2); w <= widestVector && l.t.Divides(l.t.Int(w), x.below); w *= 2 {
		multiple, rest := l.t.Int(0), l.t.Int(0)
		for _, a := range l.t.Args(x.value) {
			if l.t.Divides(l.t.Int(w), a) {
				multiple = l.t.Add(multiple, a)
			} else {
				rest = l.t.Add(rest, a)
			}
		}
		if f := l.t.Facts(rest); f.Lo >= 0 && f.Hi < w {
			first = multiple
		}
	}
	return first
}

// holds returns the condition of g. In the fast copy of an unswitched nest the
// tests hold.
func (l *lowering) holds(g guard) scalar.ID {
	if l.fast != nil {
		l.fast.tests = append(l.fast.tests, g.tests...)
		return l.all(g.once, g.among)
	}
	return l.all(l.conditions(g.tests), g.once, g.among)
}

// all returns whether all conditions hold.
func (c *lowering) all(conditions ...[]scalar.ID) scalar.ID {
	all := slices.Concat(conditions...)
	cond := c.t.Bool(true)
	for i, x := range all {
		if !slices.Contains(all[:i], x) {
			cond = c.t.And(cond, x)
		}
	}
	return cond
}

// guard returns the conditions of the statement id, or of the initialisation of
// its result v.
func (c *context) guard(id core.ExprID, init bool) (guard, error) {
	var g guard
	t := c.tensor
	reduces := t.reduces && !init
	if !init || t.storage.compact {
		tests, err := c.rangeTests(init)
		if err != nil {
			return g, err
		}
		g.tests, g.ranges = tests, len(tests)
		if !init && c.f.Expr(id).Op != core.PadOp { // which reads its operand at some of its points only
			g.tests = append(g.tests, c.storedTests()...)
		}
	} else if c.s.Memory(t.v) == schedule.Shared {
		g.tests = c.threadTests(init, nil, nil, nil)
	}
	g.tests = append(append(g.tests, c.aheadTests()...), c.shownTests()...)
	if reduces && c.omitted != onceAtPromotedLoops {
		once, err := c.onceAtPromoted()
		if err != nil {
			return g, err
		}
		g.once = once
	}
	if reduces && c.omitted != onceAroundLoops {
		g.once = append(g.once, c.onceAround(id)...)
	}
	if !init || t.storage.compact || c.s.Memory(t.v) == schedule.Shared {
		dims, valid := c.limits(c.f.Expr(id))
		if err := c.checkLimited(dims); err != nil {
			return g, err
		}
		own := c.limited[t.v].dims
		g.among = append(c.onceAmongThreads(slices.Concat(dims, own)), valid)
		tests, all, err := c.oneOfPromoted(id)
		if err != nil {
			return g, err
		}
		g.among, g.redundant = append(g.among, tests...), all
	}
	for _, x := range c.s.Loop(t.v) { // memory has what the first one of those that are alike has
		if c.s.IsAlike(t.v, x) {
			g.once = append(g.once, c.t.Eq(c.loops[c.m.LoopClass(x)], c.t.Int(0)))
		}
	}
	return g, nil
}

// threadTests returns the tests that a thread or block has an iteration of each
// loop: of a dimension that is longer than the loop, only some have. Where the
// loop is on the way to a target, w is told that its index may be beyond it, and
// finds what to test; not if shared memory in the shape of loops is involved,
// where every point needs to be inside. w may be nil.
func (c *context) threadTests(init bool, w *unsafeWalk, steps []step, targets []core.AxisID) []test {
	var tests []test
	shared := c.touchesShared()
	used := func(class core.AxisID) bool {
		return slices.ContainsFunc(targets, func(a core.AxisID) bool { return c.m.AlmostExact(a) == class }) || slices.ContainsFunc(steps, func(x step) bool {
			r := &c.graph.relation[x.relation]
			return x.forward && slices.Contains(r.in, class) || !x.forward && slices.Contains(r.out, class)
		})
	}
	for _, a := range c.tensor.loop {
		q := c.m.Promotion(a)
		if !c.isSpread(a) || c.isBroadcast(q) || init && c.isReduced(a) || c.dimension(c.parallel(a)).exact {
			continue
		}
		class, value := c.m.AlmostExact(q), c.loops[c.m.LoopClass(a)]
		if w != nil && (!shared || c.parallel(a).IsBlock()) && c.start[class] == value && used(class) {
			w.unsafe[class] = true
		} else {
			tests = append(tests, test{value, c.extent(q)})
		}
	}
	return tests
}

// touchesShared reports whether the statement reads or writes shared memory.
func (c *context) touchesShared() bool {
	v := c.tensor.v
	return slices.ContainsFunc(append(c.f.TensorArgs(c.f.Expr(c.f.Val(v).Def)), v), func(w core.ValID) bool { return c.s.Memory(w) == schedule.Shared })
}

// shownTests returns the tests that broadcast axes have elements: none are shown
// of one that is expanded to a size of 0.
func (c *context) shownTests() []test {
	var tests []test
	for _, a := range c.f.Val(c.tensor.v).Domain.Logical {
		if e := c.f.Axis(a).Expanded; e != scalar.None && c.t.Facts(c.size(e)).Lo < 1 {
			tests = append(tests, test{c.t.Int(0), c.size(e)})
		}
	}
	return tests
}

// rangeTests returns the tests that the indices of the tensor's axes are in
// range: of its logical axes; of root axes if it reduces, because there the
// operand is read and the splits below them need not divide. A broadcast has
// one index, but loops over what it was cut from have more.
func (c *context) rangeTests(init bool) ([]test, error) {
	t := c.tensor
	d := &c.f.Val(t.v).Domain
	domain := d.Logical
	if t.reduces && (!init || c.omitted == initByLogical) {
		domain = d.Root
	}
	if t.handSet && !slices.Equal(d.Root, d.Logical) {
		domain = slices.Concat(d.Root, d.Logical)
	}
	domain = slices.DeleteFunc(slices.Clone(domain), func(a core.AxisID) bool {
		return c.isBroadcast(a) && !(t.handSet && c.isCut(a)) || init && c.isReduced(a)
	})
	targets := make([]core.AxisID, len(domain))
	for i, a := range domain {
		targets[i] = c.m.AlmostExact(a)
	}
	// Broadcasts of other tensors must not be taken as 0 here if that can be
	// avoided: they would hide points without an element.
	start := maps.Clone(c.start)
	steps, ok := c.path(start, targets, t.resizes, true)
	if !ok {
		return nil, c.refuse("predicate", t.v, "the loops of %s do not lead to its axes, so that points without an element cannot be told", c.f.Name(t.v))
	}
	if tests, ok := c.testsOf(init, true, domain, start, steps); ok {
		return tests, nil
	}
	tests, _ := c.testsOf(init, false, domain, start, steps)
	return tests, nil
}

// testsOf returns the tests that the indices of the axes of domain are in range,
// which steps lead to from the values of start. With follow, those of threads
// beyond the end of a loop are made where the index is compared next, if that can
// be, without it where the loop is. It reports whether what indices are divided by
// is known not to be 0 where the tests hold: loops with such an extent have no
// iteration, but those of a whole split have as many of nothing.
func (c *context) testsOf(init, follow bool, domain []core.AxisID, start map[core.AxisID]index, steps []step) (tests []test, ok bool) {
	w := c.newUnsafeWalk(start)
	if follow {
		tests = c.threadTests(init, w, steps, domain)
	} else {
		tests = c.threadTests(init, nil, nil, nil)
	}
	ok = true
	var products []core.AxisID // that have no element where something is divided by 0
	isWhole := false
	for _, x := range steps {
		w.step(x)
		t := c.f.Transform(c.graph.relation[x.relation].t)
		isWhole = isWhole || t.Whole
		switch {
		case !c.mayDivideByZero(x):
		case x.forward:
			ok = false
		case follow: // what is below a product is divided by no 0
			w.check(t.Out[0])
		case isWhole:
			products = append(products, t.Out[0])
		}
	}
	for _, a := range domain {
		if w.unsafe[c.m.AlmostExact(a)] {
			w.check(a)
		}
	}
	value := c.walk(maps.Clone(start), steps)
	for _, a := range products { // before what divides
		tests = append(tests, test{value[c.m.AlmostExact(a)], c.extent(a)})
	}
	for _, class := range slices.Sorted(maps.Keys(w.below)) {
		tests = append(tests, test{value[class], w.below[class]})
	}
	for _, class := range slices.Sorted(maps.Keys(w.notNegative)) {
		tests = append(tests, test{value[class], scalar.None})
	}
	return tests, ok && !slices.ContainsFunc(tests, func(x test) bool { return !isTotal(c.t, x.value, map[scalar.ID]bool{}) })
}

// storedTests returns the tests that operands are stored where the statement
// reads them. What is stored as promoted loops run has an element for each of
// their iterations; loops of the statement that are split further may run past
// the last one, at points that are in range along its own axes.
func (c *context) storedTests() []test {
	var tests []test
	for _, v := range c.f.TensorArgs(c.f.Expr(c.f.Val(c.tensor.v).Def)) {
		st := &c.tensors[v].storage
		if !st.promoted {
			continue
		}
		axes := slices.DeleteFunc(except(st.axes, c.sharedIndices(v)), c.isOne)
		own := c.resizesTo(v)
		if _, ok := c.byRoot(axes, own); ok && c.goesByRoot() {
			continue // root indices are in range, and so is what follows from them
		}
		targets := make([]core.AxisID, len(axes))
		for i, a := range axes {
			targets[i] = c.m.AlmostExact(a)
		}
		start := maps.Clone(c.start)
		steps, ok := c.path(start, targets, own, true)
		if !ok {
			continue // it is read by its logical index
		}
		w := c.newUnsafeWalk(start)
		for _, x := range steps {
			w.step(x)
		}
		value := c.walk(start, steps)
		for i, a := range axes {
			if class := targets[i]; w.unsafe[class] {
				tests = append(tests, test{value[class], c.extent(a)})
			}
		}
		for _, class := range slices.Sorted(maps.Keys(w.below)) {
			tests = append(tests, test{value[class], w.below[class]})
		}
	}
	return tests
}

// mayDivideByZero reports whether a step divides by an extent that may be 0.
func (c *context) mayDivideByZero(x step) bool {
	t := c.f.Transform(c.graph.relation[x.relation].t)
	switch {
	case t.Kind == core.Merge && !x.forward:
		return c.t.Facts(c.extent(t.In[1])).Lo < 1
	case t.Kind == core.Split && x.forward:
		return c.t.Facts(c.extent(t.Out[1])).Lo < 1
	}
	return false
}

// An unsafeWalk follows the classes whose index may reach its extent. Only
// splits that need not divide, and resizes, make one so; the inner result of a
// split must be tested where it is, as its excess would go over into the outer.
type unsafeWalk struct {
	*context
	unsafe      map[core.AxisID]bool
	below       map[core.AxisID]index
	notNegative map[core.AxisID]bool
	quotient    map[core.AxisID]core.AxisID // of classes whose index is one of a merged axis: that
	known       map[core.AxisID]bool        // classes that have an index before the step
}

func (c *context) newUnsafeWalk(start map[core.AxisID]index) *unsafeWalk {
	w := &unsafeWalk{context: c, unsafe: map[core.AxisID]bool{}, below: map[core.AxisID]index{}, notNegative: map[core.AxisID]bool{}, quotient: map[core.AxisID]core.AxisID{}, known: map[core.AxisID]bool{}}
	for class := range start {
		w.known[class] = true
	}
	return w
}

// check tests the index of an axis. That a quotient is in range is seen from what
// is divided.
func (w *unsafeWalk) check(a core.AxisID) {
	for {
		of, ok := w.quotient[w.m.AlmostExact(a)]
		if !ok {
			break
		}
		a = of
	}
	w.below[w.m.AlmostExact(a)] = w.extent(a)
}

func (w *unsafeWalk) divides(t *core.Transform) bool {
	if t.Whole && w.size(t.Factor) != w.extent(t.In[0]) {
		return w.isBroadcast(t.In[0])
	}
	return w.isBroadcast(t.In[0]) || w.t.Divides(w.size(t.Factor), w.extent(t.In[0]))
}

func (w *unsafeWalk) step(x step) {
	r := &w.graph.relation[x.relation]
	defer func() {
		for _, class := range r.made(x.forward) {
			w.known[class] = true
		}
	}()
	t := w.f.Transform(r.t)
	switch {
	case r.kind == core.Split && !x.forward:
		if w.unsafe[r.out[1]] {
			w.check(t.Out[1])
		}
		if w.unsafe[r.out[0]] || !w.divides(t) {
			w.unsafe[r.in[0]] = true
		}
	case r.kind == core.Merge && !x.forward: // the inner index is a remainder
		w.unsafe[r.in[0]] = w.unsafe[r.in[0]] || w.unsafe[r.out[0]]
		if !w.known[r.in[0]] {
			w.quotient[r.in[0]] = t.Out[0]
		}
	case r.kind == core.Split:
		w.unsafe[r.out[0]] = w.unsafe[r.out[0]] || w.unsafe[r.in[0]]
	case r.kind == core.Merge:
		if w.unsafe[r.in[1]] {
			w.check(t.In[1])
		}
		w.unsafe[r.out[0]] = w.unsafe[r.out[0]] || w.unsafe[r.in[0]]
	case r.kind == core.Shift && x.forward:
		w.unsafe[r.out[0]] = w.unsafe[r.out[0]] || w.unsafe[r.in[0]]
	case r.kind == core.Shift: // there is something before the first element, and behind the last one
		w.unsafe[r.in[0]] = true
		if w.omitted != shiftedBefore {
			w.notNegative[r.in[0]] = true
		}
	default:
		w.resize(t, x.forward, r.in[0], r.out[0])
	}
}

// resize: what is moved up must not be negative, and what is cut above not
// beyond the extent.
func (w *unsafeWalk) resize(t *core.Transform, forward bool, in, out core.AxisID) {
	from, to := out, in
	left, right := w.size(t.Left), w.size(t.Right)
	if forward {
		from, to = in, out
		left, right = w.t.Neg(left), w.t.Neg(right)
	}
	w.unsafe[to] = w.unsafe[to] || w.unsafe[from]
	if forward && w.omitted == forwardResize {
		return
	}
	w.unsafe[to] = w.unsafe[to] || w.t.Facts(right).Hi > 0
	if w.t.Facts(left).Hi > 0 {
		w.notNegative[to] = true
	}
}

// onceAtPromoted keeps a reduction from adding again in the iterations of
// promoted loops that are none of its elements'. Storage in the shape of the
// promoted loops has an element for each.
func (c *context) onceAtPromoted() ([]scalar.ID, error) {
	t := c.tensor
	memory := c.s.Memory(t.v)
	tests := c.foreign(c.isFirst, func(x alienLoop) bool {
		apart := c.isPrivate(memory, x.axis) && !c.isReduced(x.axis) // what threads have of a reduced axis is combined
		return x.position >= t.storage.position && !apart && c.repeats(x)
	})
	if len(tests) > 0 && !t.storage.promoted && (c.s.Position(t.v) > 0 || c.sharesLoop()) {
		return nil, c.refuse("repeated reduction", t.v, "%s is reduced in a loop that %s shares and that repeats it, so that it would be read before it is complete: compute it outside of that loop, or cache it before", c.f.Name(t.v), "one of its readers")
	}
	return tests, nil
}

// repeats reports whether iterations of a promoted loop come to the same element
// in memory.
func (c *context) repeats(x alienLoop) bool {
	return c.isReduced(x.axis) || c.isBroadcast(x.axis) || !c.tensor.storage.promoted
}

// sharesLoop reports whether a reader of the tensor is in one of its loops.
func (c *context) sharesLoop() bool {
	for _, id := range c.readers[c.tensor.v] {
		nest := c.m.Nest(id)
		for _, a := range c.tensor.loop {
			if slices.Contains(nest, c.m.LoopClass(a)) {
				return true
			}
		}
	}
	return false
}

func (c *context) isFirst(_ core.AxisID, value index) scalar.ID { return c.t.Eq(value, c.t.Int(0)) }

func (c *context) isWithin(class core.AxisID, value index) scalar.ID {
	return c.t.Lt(value, c.extent(class))
}

// makers returns the classes that classes of mine alone are made from, as those of the
// operand of a reshape of which the tensor is a copy: each of its elements is one of mine.
func (c *context) makers(mine map[core.AxisID]bool) map[core.AxisID]bool {
	makes := map[core.AxisID]bool{}
	has := func(a core.AxisID) bool { return mine[a] || makes[a] }
	work := slices.Sorted(maps.Keys(mine))
	for ; len(work) > 0; work = work[1:] {
		for _, k := range c.graph.touching[work[0]] {
			r := &c.graph.relation[k]
			if r.moves || slices.ContainsFunc(r.out, func(a core.AxisID) bool { return !has(a) }) {
				continue
			}
			for _, a := range r.in {
				if !has(a) {
					makes[a] = true
					work = append(work, a)
				}
			}
		}
	}
	return makes
}

// foreign returns tests of the indices, walking back from the promoted loops that
// are selected, along the classes that are no axes of the tensor or that it
// iterates itself. An axis of one element that nothing leads to has
// index 0. A resize is not walked: where the index of one side is 0 that of the
// other is not.
func (c *context) foreign(test func(class core.AxisID, value index) scalar.ID, selected func(alienLoop) bool) []scalar.ID {
	v, leaf := map[core.AxisID]index{}, map[core.AxisID]bool{}
	var work []core.AxisID
	for _, x := range c.aliens {
		if selected(x) {
			v[x.class], leaf[x.class] = x.value, true
			work = append(work, x.class)
		}
	}
	if len(work) == 0 {
		return nil
	}
	mine := c.tensor.mine
	makes := c.makers(mine)
	ours := maps.Clone(mine)
	maps.Copy(ours, makes)
	known := func(a core.AxisID) bool { _, ok := v[a]; return ok }
	unknown := func(a core.AxisID) bool { return !known(a) }
	var later []int // relations that lack nothing but axes of one element
	for len(work)+len(later) > 0 {
		relations, isLast := later, len(work) == 0
		if later = nil; !isLast {
			relations, later, work = c.graph.touching[work[0]], relations, work[1:]
		}
		for _, k := range relations {
			r := &c.graph.relation[k]
			stops := func(a core.AxisID) bool { return known(a) && mine[a] || unknown(a) && !c.isOne(a) }
			switch {
			case r.moves || slices.ContainsFunc(r.out, stops) || !slices.ContainsFunc(r.in, unknown) || c.saysAgain(k, ours, known):
				continue
			case slices.ContainsFunc(r.out, unknown) && !isLast:
				later = append(later, k)
				continue
			}
			from := make([]index, len(r.out))
			for i, a := range r.out {
				if from[i] = c.t.Int(0); known(a) {
					from[i] = v[a]
				}
				leaf[a] = leaf[a] && slices.Contains(r.in, a) // a merge with one element
			}
			for i, e := range c.across(r, false, from) {
				if a := r.in[i]; unknown(a) {
					v[a], leaf[a] = e, true
					work = append(work, a)
				}
			}
		}
	}
	own := c.ownReach()
	var tests []scalar.ID
	for _, class := range slices.Sorted(maps.Keys(leaf)) {
		if leaf[class] && (!mine[class] && !makes[class] || own[class]) {
			tests = append(tests, test(class, v[class]))
		}
	}
	return tests
}

// saysAgain reports whether what relation k leads back to says no more than what else does: of several reshapes to one axis,
// as of 33 by 4 and of 66 by 2 elements, one tells what the parts of its index are, that which has parts of mine if there is one,
// and what is made of known parts is known by them. But where a walk from the parts comes to none of mine and one from what they
// make does, the latter is to be followed: of 8 by 4 elements that are a reshape of 16 by 2, both parts are 0 for one of the 16 alone.
// mine has what makes axes of the tensor, too.
func (c *context) saysAgain(k int, mine map[core.AxisID]bool, known func(core.AxisID) bool) bool {
	r := &c.graph.relation[k]
	makes := func(m int, whole core.AxisID) bool {
		x := &c.graph.relation[m]
		return !x.moves && len(x.in) > 1 && len(x.out) == 1 && x.out[0] == whole
	}
	if len(r.in) == 1 {
		return slices.ContainsFunc(c.graph.touching[r.in[0]], func(m int) bool {
			return makes(m, r.in[0]) && !slices.ContainsFunc(c.graph.relation[m].in, func(a core.AxisID) bool { return !known(a) }) &&
				(c.stemsFrom(m, mine) || !c.leadsTo(r.in[0], mine))
		})
	}
	if len(r.out) > 1 {
		return false
	}
	first := k
	for _, m := range c.graph.touching[r.out[0]] {
		switch isOf := makes(m, r.out[0]) && c.stemsFrom(m, mine); {
		case !makes(m, r.out[0]) || m == first:
		case isOf && (!c.stemsFrom(first, mine) || m < first), m < first && !c.stemsFrom(first, mine):
			first = m
		}
	}
	return first != k || !c.stemsFrom(k, mine) && c.leadsTo(r.out[0], mine)
}

// leadsTo reports whether a relation that makes class leads back to one of mine.
func (c *context) leadsTo(class core.AxisID, mine map[core.AxisID]bool) bool {
	return slices.ContainsFunc(c.graph.touching[class], func(m int) bool {
		r := &c.graph.relation[m]
		return !r.moves && slices.Contains(r.out, class) && c.stemsFrom(m, mine)
	})
}

// stemsFrom reports whether relation k leads back to one of mine, other than through what it makes.
func (c *context) stemsFrom(k int, mine map[core.AxisID]bool) bool {
	seen := map[core.AxisID]bool{}
	for _, a := range c.graph.relation[k].out {
		seen[a] = true
	}
	var from func(k int) bool
	from = func(k int) bool {
		return slices.ContainsFunc(c.graph.relation[k].in, func(a core.AxisID) bool {
			if seen[a] {
				return false
			}
			seen[a] = true
			return mine[a] || slices.ContainsFunc(c.graph.touching[a], func(m int) bool {
				r := &c.graph.relation[m]
				return !r.moves && slices.Contains(r.out, a) && from(m)
			})
		})
	}
	return from(k)
}

// onceAround keeps a reduction from adding again in loops around it that it has
// no axis for and that its storage is outside of.
func (c *context) onceAround(id core.ExprID) []scalar.ID {
	t, nest := c.tensor, c.m.Nest(id)
	first := 0
	if n := t.storage.position; n > 0 {
		first = slices.Index(nest, c.m.LoopClass(t.loop[n-1])) + 1
	}
	var tests []scalar.ID
	for _, class := range nest[first:] {
		own := slices.ContainsFunc(t.loop, func(a core.AxisID) bool { return c.m.LoopClass(a) == class })
		if !own && !c.isSpread(class) {
			tests = append(tests, c.t.Eq(c.loops[class], c.t.Int(0)))
		}
	}
	return tests
}

// onceAmongThreads returns the tests that this is the thread, or block, which
// writes an element of shared or global memory that several compute: the first
// of each dimension that the tensor has no axis for.
func (c *context) onceAmongThreads(limited []schedule.Parallel) []scalar.ID {
	t := c.tensor
	memory := c.s.Memory(t.v)
	if memory == schedule.Local {
		return nil
	}
	bound := map[schedule.Parallel]bool{}
	for _, a := range t.loop {
		if !c.isReduced(a) {
			bound[c.parallel(a)] = true
		}
	}
	for _, p := range limited {
		bound[p] = true
	}
	var tests []scalar.ID
	for _, d := range c.dimensions {
		if d.used && !bound[d.parallel] && (memory == schedule.Global || d.parallel.IsThread()) {
			tests = append(tests, c.t.Eq(d.symbol, c.t.Int(0)))
		}
	}
	return tests
}

// oneOfPromoted chooses the writer among the threads, or blocks, that promoted
// loops make compute an element of shared or global memory: it returns tests for
// that, or that all of them write it. The one at index 0 of what is no axis of
// the tensor may come later in a serial loop than a reader of the element.
func (c *context) oneOfPromoted(id core.ExprID) (tests []scalar.ID, all bool, err error) {
	t := c.tensor
	memory := c.s.Memory(t.v)
	several := slices.ContainsFunc(c.aliens, func(x alienLoop) bool { return c.isSpread(x.axis) && !c.isPrivate(memory, x.axis) && c.repeats(x) })
	if memory == schedule.Local || !several {
		return nil, false, nil
	}
	serial := slices.ContainsFunc(c.m.Nest(id), func(class core.AxisID) bool { return !c.isSpread(class) && !c.isOne(c.m.Promotion(class)) })
	private := slices.ContainsFunc(c.aliens, func(x alienLoop) bool { return c.isPrivate(memory, x.axis) }) // each block has a copy to fill
	switch {
	case !private && (!serial || len(c.readers[t.v]) == 0):
		return c.foreign(c.isFirst, c.repeats), false, nil
	case t.reduces:
		return nil, false, c.refuse("repeated reduction", t.v, "%s is reduced by several threads at the same element, in a loop that a reader shares: cache it before", c.f.Name(t.v))
	}
	if memory != schedule.Global {
		return nil, true, nil // what reads it may run at points without an element too
	}
	return c.foreign(c.isWithin, c.repeats), true, nil // beyond the promoted loops' elements operands may have no value
}

// checkLimited fails if the statement runs over blocks of which only one has
// what it reads, or if that is not one block: any may be the last to arrive at a
// reduction.
func (c *context) checkLimited(dims []schedule.Parallel) error {
	name := c.f.Name(c.tensor.v)
	for _, a := range c.tensor.loop {
		if p := c.parallel(a); slices.Contains(dims, p) {
			return c.refuse("grid reduction", c.tensor.v, "%s runs over %v and reads the result of a reduction over it, which only one block has", name, p)
		}
	}
	first := core.NoVal
	for _, v := range c.f.TensorArgs(c.f.Expr(c.f.Val(c.tensor.v).Def)) {
		switch x, ok := c.limited[v]; {
		case !ok:
		case first == core.NoVal:
			first = v
		case c.limited[first].valid != x.valid:
			return c.refuse("grid reduction", c.tensor.v, "%s reads %s and %s, which stem from different reductions across blocks: the last block to arrive at one, which has its result, need not be that of the other; "+
				"let another kernel combine them", name, c.f.Name(first), c.f.Name(v))
		}
	}
	return nil
}

// conditional emits body where cond holds.
func (l *lowering) conditional(cond scalar.ID, body func() error) error {
	if n, ok := l.t.ConstInt(cond); ok {
		if n == 0 {
			return nil
		}
		return body()
	}
	var err error
	l.b.If(cond, func() { err = body() }, nil)
	return err
}
