package schedule

import (
	"maps"
	"slices"

	"nvfuser_go/core"
)

// A context is where the indices of one statement start: the loops of the
// tensor that it defines, as almost-exact classes with their values.
type context struct {
	p        *interpreter
	v        core.ValID
	start    map[core.AxisID]expression
	promoted []core.AxisID        // promotions of the loop axes
	alien    map[core.AxisID]bool // classes of start that stand for more than v's own loop
	aliens   []alienLoop
}

type alienLoop struct {
	axis  core.AxisID // of v
	class core.AxisID
	value expression
}

func zeroIndex([]int64) int64 { return 0 }

func (p *interpreter) variable(a core.AxisID) expression {
	class := p.m.LoopClass(a)
	if p.extent(p.m.Promotion(a)) == 1 {
		return zeroIndex
	}
	return func(loops []int64) int64 { return loops[class] }
}

func (p *interpreter) context(v core.ValID) *context {
	c := &context{p: p, v: v, start: map[core.AxisID]expression{}, alien: map[core.AxisID]bool{}}
	for _, a := range p.s.Loop(v) {
		q := p.m.Promotion(a)
		c.promoted = append(c.promoted, q)
		if p.isBroadcast(q) {
			continue
		}
		class := p.m.AlmostExact(q)
		if p.m.IsPromoted(a) {
			c.aliens = append(c.aliens, alienLoop{a, class, p.variable(a)})
		} else {
			c.start[class] = p.variable(a)
		}
	}
	mine := c.ownReach()
	for _, x := range c.aliens { // a promoted loop never hides a loop of v's own
		if _, ok := c.start[x.class]; !ok && !mine[x.class] {
			c.start[x.class] = x.value
			c.alien[x.class] = true
		}
	}
	return c
}

func (c *context) classes(axes []core.AxisID) []core.AxisID {
	out := make([]core.AxisID, len(axes))
	for i, a := range axes {
		out[i] = c.p.m.AlmostExact(a)
	}
	return out
}

func (c *context) in(id core.TransformID) []core.AxisID {
	return c.classes(c.p.m.f.Transform(id).Inputs())
}

func (c *context) out(id core.TransformID) []core.AxisID {
	return c.classes(c.p.m.f.Transform(id).Results())
}

// ownReach returns the classes that v iterates by loops that are not promoted.
func (c *context) ownReach() map[core.AxisID]bool {
	known := map[core.AxisID]bool{}
	for class := range c.start {
		if !c.alien[class] {
			known[class] = true
		}
	}
	all := func(classes []core.AxisID) bool {
		return !slices.ContainsFunc(classes, func(a core.AxisID) bool { return !known[a] })
	}
	for changed := true; changed; {
		changed = false
		for _, id := range c.p.m.transforms {
			if in := c.in(id); c.p.m.f.Transform(id).Kind != core.ResizeAxis && all(c.out(id)) && !all(in) {
				changed = true
				for _, a := range in {
					known[a] = true
				}
			}
		}
	}
	return known
}

// A step is a transform walked from its outputs to its inputs, or forward.
type step struct {
	id      core.TransformID
	forward bool
}

// resizes returns those between root and logical axes of v.
func (c *context) resizes(v core.ValID) []core.TransformID {
	return c.p.resizes(c.p.s.f.TransformsTo(c.p.s.f.Val(v).Domain.Logical))
}

func (p *interpreter) resizes(ids []core.TransformID) []core.TransformID {
	return slices.DeleteFunc(ids, func(id core.TransformID) bool { return p.m.f.Transform(id).Kind != core.ResizeAxis })
}

// handSet reports whether the loops of v hang on its root axes.
func (p *interpreter) handSet(v core.ValID) bool {
	logical := p.s.f.Val(v).Domain.Logical
	have := slices.Clone(logical)
	for _, id := range p.s.below(v, logical) {
		have = append(have, p.s.f.Transform(id).Results()...)
	}
	return !containsAll(have, p.s.Loop(v))
}

// path searches first among the statement's own history, then everywhere, then
// with broadcasts known as 0.
func (c *context) path(start map[core.AxisID]expression, targets []core.AxisID, own []core.TransformID) ([]step, bool) {
	p := c.p
	mine := p.m.f.TransformsTo(c.promoted)
	if p.handSet(c.v) {
		mine = slices.Concat(mine, p.s.history(c.v))
		slices.Sort(mine)
		mine = slices.Compact(mine)
	}
	for _, ids := range [][]core.TransformID{mine, p.m.transforms} {
		if steps, ok := c.search(start, targets, own, ids, nil); ok {
			return steps, true
		}
	}
	steps, ok := c.search(start, targets, own, p.m.transforms, p.zero)
	if ok {
		for _, class := range p.zero {
			if _, there := start[class]; !there {
				start[class] = zeroIndex
			}
		}
	}
	return steps, ok
}

// A search is breadth first, from known classes to targets.
type search struct {
	*context
	from  map[core.AxisID]int // class -> step that gives it, -1: known at the start
	steps []step
	used  map[core.TransformID]bool
}

func (c *context) search(start map[core.AxisID]expression, targets []core.AxisID, own, ids []core.TransformID, zero []core.AxisID) ([]step, bool) {
	s := &search{context: c, from: map[core.AxisID]int{}, used: map[core.TransformID]bool{}}
	var wait []core.AxisID // promoted loops come after v's own
	for class := range start {
		if c.alien[class] {
			wait = append(wait, class)
		} else {
			s.from[class] = -1
		}
	}
	for _, class := range zero {
		if _, ok := s.from[class]; !ok {
			s.from[class] = -1
		}
	}
	for !s.knows(targets) {
		layer := s.layer(own, ids)
		if len(wait) > 0 {
			layer = slices.DeleteFunc(layer, func(x step) bool { return x.forward })
			if len(layer) == 0 {
				for _, class := range wait {
					if _, ok := s.from[class]; !ok {
						s.from[class] = -1
					}
				}
				wait = nil
				continue
			}
		}
		if len(layer) == 0 {
			return nil, false
		}
		for _, x := range s.preferred(layer) {
			s.take(x)
		}
	}
	return s.needed(targets), true
}

func (s *search) knows(classes []core.AxisID) bool {
	return !slices.ContainsFunc(classes, func(a core.AxisID) bool { _, ok := s.from[a]; return !ok })
}

func (s *search) layer(own, ids []core.TransformID) []step {
	var layer []step
	for _, id := range ids {
		if s.used[id] || !s.allowed(id, own) {
			continue
		}
		in, out := s.knows(s.in(id)), s.knows(s.out(id))
		if in != out {
			layer = append(layer, step{id, in})
		}
	}
	return layer
}

// allowed keeps resizes to those of this statement.
func (s *search) allowed(id core.TransformID, own []core.TransformID) bool {
	t := s.p.m.f.Transform(id)
	if t.Kind != core.ResizeAxis || s.p.s.unchanged(t) {
		return true
	}
	return slices.ContainsFunc(own, func(o core.TransformID) bool {
		return sameKind(t, s.p.m.f.Transform(o)) && s.in(id)[0] == s.in(o)[0] && s.out(id)[0] == s.out(o)[0]
	})
}

// preferred drops steps that almost-exact looks through while there are others,
// and puts backward steps first.
func (s *search) preferred(layer []step) []step {
	good := slices.DeleteFunc(slices.Clone(layer), func(x step) bool {
		made, kind := s.in(x.id), core.Merge
		if x.forward {
			made, kind = s.out(x.id), core.Split
		}
		return s.p.m.f.Transform(x.id).Kind == kind && slices.ContainsFunc(made, func(a core.AxisID) bool { return s.knows([]core.AxisID{a}) })
	})
	if len(good) > 0 {
		layer = good
	}
	slices.SortStableFunc(layer, func(a, b step) int {
		switch {
		case a.forward == b.forward:
			return 0
		case b.forward:
			return -1
		}
		return 1
	})
	return layer
}

func (s *search) take(x step) {
	s.used[x.id] = true
	made := s.in(x.id)
	if x.forward {
		made = s.out(x.id)
	}
	fresh := false
	for _, class := range made {
		if _, ok := s.from[class]; !ok {
			s.from[class] = len(s.steps)
			fresh = true
		}
	}
	if fresh {
		s.steps = append(s.steps, x)
	}
}

func (s *search) needed(targets []core.AxisID) []step {
	need := map[int]bool{}
	stack := slices.Clone(targets)
	for len(stack) > 0 {
		k := s.from[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		if k < 0 || need[k] {
			continue
		}
		need[k] = true
		if x := s.steps[k]; x.forward {
			stack = append(stack, s.in(x.id)...)
		} else {
			stack = append(stack, s.out(x.id)...)
		}
	}
	var steps []step
	for _, k := range slices.Sorted(maps.Keys(need)) {
		steps = append(steps, s.steps[k])
	}
	return steps
}

// walk gives every class on the way its value.
func (c *context) walk(start map[core.AxisID]expression, steps []step) map[core.AxisID]expression {
	v := maps.Clone(start)
	put := func(class core.AxisID, e expression) {
		if _, ok := v[class]; !ok {
			v[class] = e
		}
	}
	for _, x := range steps {
		in, out := c.in(x.id), c.out(x.id)
		if x.forward {
			for k, e := range c.forwards(x.id, values(v, in)) {
				put(out[k], e)
			}
		} else {
			for k, e := range c.backwards(x.id, values(v, out)) {
				put(in[k], e)
			}
		}
	}
	return v
}

func values(v map[core.AxisID]expression, classes []core.AxisID) []expression {
	out := make([]expression, len(classes))
	for i, class := range classes {
		out[i] = v[class]
	}
	return out
}

func (c *context) constant(t *core.Transform) int64 {
	n, err := c.p.bind.Int(t.Left)
	if err != nil {
		panic(err)
	}
	return n
}

// quotient and remainder have a value where n is 0: no element is there, which a
// test says.
func quotient(x, n int64) int64 {
	if n == 0 {
		return 0
	}
	return x / n
}

func remainder(x, n int64) int64 { return x - quotient(x, n)*n }

// backwards gives the inputs of a transform from its outputs.
func (c *context) backwards(id core.TransformID, o []expression) []expression {
	t := c.p.m.f.Transform(id)
	switch t.Kind {
	case core.Split:
		n := c.p.extent(t.Out[1])
		return []expression{func(l []int64) int64 { return o[0](l)*n + o[1](l) }}
	case core.Merge:
		n := c.p.extent(t.In[1])
		return []expression{func(l []int64) int64 { return quotient(o[0](l), n) }, func(l []int64) int64 { return remainder(o[0](l), n) }}
	}
	n := c.constant(t)
	if c.p.extent(t.Out[0]) == 1 { // the one element, wherever the loops lead
		return []expression{func([]int64) int64 { return -n }}
	}
	return []expression{func(l []int64) int64 { return o[0](l) - n }}
}

func (c *context) forwards(id core.TransformID, i []expression) []expression {
	t := c.p.m.f.Transform(id)
	switch t.Kind {
	case core.Split:
		n := c.p.extent(t.Out[1])
		return []expression{func(l []int64) int64 { return quotient(i[0](l), n) }, func(l []int64) int64 { return remainder(i[0](l), n) }}
	case core.Merge:
		n := c.p.extent(t.In[1])
		return []expression{func(l []int64) int64 { return i[0](l)*n + i[1](l) }}
	}
	n := c.constant(t)
	return []expression{func(l []int64) int64 { return i[0](l) + n }}
}

// index returns the values of axes; of a broadcast it is 0.
func (c *context) index(axes []core.AxisID, own []core.TransformID, what string, from map[core.AxisID]expression) []expression {
	start := maps.Clone(from)
	var targets []core.AxisID
	for _, a := range axes {
		if !c.p.isBroadcast(a) {
			targets = append(targets, c.p.m.AlmostExact(a))
		}
	}
	steps, ok := c.path(start, targets, own)
	if !ok {
		panic(unreachable{what + " of " + c.p.s.name(c.v), c.isPromotedStorage(axes)})
	}
	v := c.walk(start, steps)
	out := make([]expression, len(axes))
	for i, a := range axes {
		if out[i] = zeroIndex; !c.p.isBroadcast(a) {
			out[i] = v[c.p.m.AlmostExact(a)]
		}
	}
	return out
}

func (c *context) isPromotedStorage(axes []core.AxisID) bool {
	m := c.p.m
	return slices.ContainsFunc(axes, func(a core.AxisID) bool {
		if int(a) >= c.p.s.f.NumAxes() {
			return true
		}
		for _, q := range m.promotion {
			if isAxis(q) && m.exact.same(a, q) {
				return true
			}
		}
		return false
	})
}

// address returns where v, the result, is written.
func (c *context) address(v core.ValID) []coordinate {
	return c.coordinates(v, c.elements(c.start, c.p.storage[v].axes, c.resizes(c.v), "write of "+c.p.s.name(v)))
}

// elements is index for a point that has an element: along an axis of one element
// the index is 0, wherever the loops lead.
func (c *context) elements(start map[core.AxisID]expression, axes []core.AxisID, own []core.TransformID, what string) []expression {
	isOne := func(a core.AxisID) bool { return c.p.extent(a) == 1 }
	values := c.index(slices.DeleteFunc(slices.Clone(axes), isOne), own, what, start)
	out := make([]expression, len(axes))
	for i, a := range axes {
		if out[i] = zeroIndex; !isOne(a) {
			out[i], values = values[0], values[1:]
		}
	}
	return out
}

func (c *context) coordinates(v core.ValID, index []expression) []coordinate {
	at := make([]coordinate, len(index))
	for i, a := range c.p.storage[v].axes {
		at[i] = coordinate{index[i], c.p.extent(a)}
	}
	return at
}

// operand returns where operand k of the statement is read, and the tests that it
// is stored there. A promoted loop may carry an axis that a reduction iterates
// itself: then it goes by its root indices and its own loops, if that finds a way.
func (c *context) operand(id core.ExprID, k int, q core.ValID) (at []coordinate, stored []test) {
	p := c.p
	index := c.sharedIndices(q)
	var axes []core.AxisID // whose index is not known
	for i, a := range p.storage[q].axes {
		if index[i] == nil {
			axes = append(axes, c.read(id, k, q, a))
		}
	}
	own := c.resizes(c.v)
	if p.handSet(q) {
		own = slices.Concat(own, c.resizes(q))
	}
	from := func(start map[core.AxisID]expression) {
		found := c.elements(start, axes, own, "read of "+p.s.name(q))
		if p.storage[q].promoted {
			stored = c.storedTests(start, axes, own)
		}
		for i := range index {
			if index[i] == nil {
				index[i], found = found[0], found[1:]
			}
		}
	}
	byRoot := len(c.aliens) > 0 && p.s.f.Expr(id).Op.Class == core.Reduction
	if !byRoot || !attempt(func() { from(c.rootStart()) }) {
		from(c.start)
	}
	return c.coordinates(q, index), stored
}

// read returns the axis that leads to the index along a, of the storage of operand k.
func (c *context) read(id core.ExprID, k int, q core.ValID, a core.AxisID) core.AxisID {
	p := c.p
	if p.s.isInput(q) && !p.m.throughInputs && !p.isBroadcast(a) {
		for _, pair := range mapAxes(p.s.f, id, k, 0) {
			if pair.producer == a {
				return pair.consumer
			}
		}
	}
	return a
}

// sharedIndices returns the indices along axes of q's storage that are the values of
// loops: of those that the statement shares with q; and, along a promoted loop of q,
// of the statement's own one of that class. Its root indices would lead to the same
// element, but to where it lies in another iteration of the shared loops.
func (c *context) sharedIndices(q core.ValID) []expression {
	st := c.p.storage[q]
	index := make([]expression, len(st.axes))
	for i, a := range st.shared {
		switch class := c.p.m.AlmostExact(st.axes[i]); {
		case c.p.extent(st.axes[i]) == 1:
			index[i] = zeroIndex
		case a != core.NoAxis:
			index[i] = c.p.variable(a)
		case st.alien[i] && c.alien[class]:
			index[i] = c.start[class]
		}
	}
	return index
}

// storedTests returns the tests that indices along axes, which are found from
// start, are in range: what is stored as promoted loops run has an element for
// each of their iterations, and loops that are split further may run past the
// last one, at points that are in range along the axes of the statement.
func (c *context) storedTests(start map[core.AxisID]expression, axes []core.AxisID, own []core.TransformID) []test {
	axes = slices.DeleteFunc(slices.Clone(axes), c.p.isBroadcast)
	start = maps.Clone(start)
	steps, _ := c.path(start, c.classes(axes), own) // as for the address, which was found
	w := c.unsafeWalk(steps)
	for _, a := range axes {
		if w.unsafe[c.p.m.AlmostExact(a)] {
			w.check(a)
		}
	}
	return w.tests(c.walk(start, steps))
}

// attempt reports whether f finds its indices.
func attempt(f func()) (reached bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(unreachable); !ok {
				panic(r)
			}
			reached = false
		}
	}()
	f()
	return true
}

// rootStart returns the indices of the statement's root axes and of its own loops.
func (c *context) rootStart() map[core.AxisID]expression {
	p := c.p
	start := map[core.AxisID]expression{}
	root := slices.DeleteFunc(slices.Clone(p.s.f.Val(c.v).Domain.Root), p.isBroadcast)
	for i, e := range c.index(root, c.resizes(c.v), "root", c.start) {
		start[p.m.AlmostExact(root[i])] = e
	}
	for _, a := range p.s.Loop(c.v) {
		if class := p.m.AlmostExact(a); !p.m.IsPromoted(a) && !p.isBroadcast(a) && start[class] == nil {
			start[class] = p.variable(a)
		}
	}
	return start
}
