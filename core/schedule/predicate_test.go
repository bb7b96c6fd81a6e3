package schedule

import (
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// tests returns the conditions under which the statement of c runs: its indices
// are those of an element.
func (c *context) tests() []test {
	p, v := c.p, c.v
	d := &p.s.f.Val(v).Domain
	reduces := slices.ContainsFunc(d.Root, func(a core.AxisID) bool { return p.s.kind(a) == core.Reduce })
	var once []test
	if reduces {
		once = c.onceAtPromoted()
	}
	domain := d.Logical
	if reduces {
		domain = d.Root
	}
	if !slices.Equal(d.Root, d.Logical) && p.handSet(v) {
		domain = slices.Concat(d.Root, d.Logical)
	}
	domain = slices.DeleteFunc(slices.Clone(domain), func(a core.AxisID) bool {
		return p.isBroadcast(a)
	})
	start := maps.Clone(c.start)
	steps, ok := c.path(start, c.classes(domain), c.resizes(v))
	if !ok {
		panic(unreachable{"predicate of " + p.s.name(v), false})
	}
	w := c.unsafeWalk(steps)
	for _, a := range domain {
		if w.unsafe[p.m.AlmostExact(a)] {
			w.check(a)
		}
	}
	tests := slices.Concat(w.tests(c.walk(start, steps)), once)
	for _, a := range d.Logical { // none are shown of a broadcast that is expanded to nothing
		if e := p.m.f.Axis(a).Expanded; e != scalar.None && p.sizeOf(e) == 0 {
			tests = append(tests, test{zeroIndex, inRange, 0})
		}
	}
	return tests
}

// An unsafeWalk follows the classes whose index may reach its extent.
type unsafeWalk struct {
	*context
	unsafe      map[core.AxisID]bool
	below       map[core.AxisID]int64
	notNegative map[core.AxisID]bool
}

// unsafeWalk returns what is found along steps.
func (c *context) unsafeWalk(steps []step) *unsafeWalk {
	w := &unsafeWalk{context: c, unsafe: map[core.AxisID]bool{}, below: map[core.AxisID]int64{}, notNegative: map[core.AxisID]bool{}}
	for _, x := range steps {
		w.step(x)
	}
	return w
}

// tests returns those that were found, of the values of classes.
func (w *unsafeWalk) tests(value map[core.AxisID]expression) []test {
	var tests []test
	for _, class := range slices.Sorted(maps.Keys(w.below)) {
		tests = append(tests, test{value[class], inRange, w.below[class]})
	}
	for _, class := range slices.Sorted(maps.Keys(w.notNegative)) {
		tests = append(tests, test{value[class], notNegative, 0})
	}
	return tests
}

func (w *unsafeWalk) check(a core.AxisID) { w.below[w.p.m.AlmostExact(a)] = w.p.extent(a) }

func (w *unsafeWalk) divisible(t *core.Transform) bool {
	return w.p.isBroadcast(t.In[0]) || w.p.extent(t.Out[0])*w.p.extent(t.Out[1]) == w.p.extent(t.In[0])
}

func (w *unsafeWalk) step(x step) {
	t, in, out := w.p.m.f.Transform(x.id), w.in(x.id), w.out(x.id)
	switch { // what an axis of no element is merged into has none, but whole splits of it have iterations
	case t.Kind == core.Merge && !x.forward && w.p.extent(t.In[1]) == 0:
		w.check(t.Out[0])
	case t.Kind == core.Split && x.forward && w.p.extent(t.Out[1]) == 0:
		w.check(t.In[0])
	}
	switch {
	case t.Kind == core.Split && !x.forward:
		if w.unsafe[out[1]] {
			w.check(t.Out[1])
		}
		if w.unsafe[out[0]] || !w.divisible(t) {
			w.unsafe[in[0]] = true
		}
	case t.Kind == core.Merge && !x.forward:
		w.unsafe[in[0]] = w.unsafe[in[0]] || w.unsafe[out[0]]
	case t.Kind == core.Split:
		w.unsafe[out[0]] = w.unsafe[out[0]] || w.unsafe[in[0]]
	case t.Kind == core.Merge:
		if w.unsafe[in[1]] {
			w.check(t.In[1])
		}
		w.unsafe[out[0]] = w.unsafe[out[0]] || w.unsafe[in[0]]
	default:
		w.resize(t, x.forward, in[0], out[0])
	}
}

func (w *unsafeWalk) resize(t *core.Transform, forward bool, in, out core.AxisID) {
	left := w.constant(t)
	right, err := w.p.bind.Int(t.Right)
	if err != nil {
		panic(err)
	}
	from, to := out, in
	if forward {
		from, to = in, out
		left, right = -left, -right
	}
	w.unsafe[to] = w.unsafe[to] || w.unsafe[from] || right > 0
	if left > 0 {
		w.notNegative[to] = true
	}
}

// onceAtPromoted keeps a reduction from adding again in the iterations of
// promoted loops that are none of its elements'.
func (c *context) onceAtPromoted() []test {
	p, v := c.p, c.v
	mine := map[core.AxisID]bool{}
	for _, a := range p.s.axesOf(v) {
		mine[p.m.AlmostExact(a)] = true
	}
	foreign := c.foreign(mine)
	if len(foreign) > 0 && !p.storesPromoted(v) && (p.s.Position(v) > 0 || c.sharesLoop()) {
		panic(unreachable{"reduction repeated in a shared loop", true})
	}
	var tests []test
	for _, e := range foreign {
		tests = append(tests, test{e, isFirst, 0})
	}
	return tests
}

func (c *context) sharesLoop() bool {
	p := c.p
	for _, e := range p.s.consumers(c.v) {
		for _, a := range p.s.Loop(c.v) {
			if slices.Contains(p.m.nests.of[e.expr], p.m.LoopClass(a)) {
				return true
			}
		}
	}
	return false
}

// foreign returns the values, walking back from promoted loops, of the classes
// that are no axes of v, or that v iterates itself.
func (c *context) foreign(mine map[core.AxisID]bool) []expression {
	p, loop := c.p, c.p.s.Loop(c.v)
	position, stored := p.storage[c.v].position, p.storesPromoted(c.v)
	v, leaf := map[core.AxisID]expression{}, map[core.AxisID]bool{}
	for _, x := range c.aliens {
		k := slices.Index(loop, x.axis)
		if kind := p.s.kind(x.axis); k >= position && (kind != core.Iter || !stored) {
			v[x.class], leaf[x.class] = x.value, true
		}
	}
	for changed := true; changed; {
		changed = false
		for _, id := range p.m.transforms {
			in, out := c.in(id), c.out(id)
			known := func(a core.AxisID) bool { return v[a] != nil }
			if p.m.f.Transform(id).Kind == core.ResizeAxis { // 0 would become another index
				continue
			}
			if slices.ContainsFunc(out, func(a core.AxisID) bool { return !known(a) || mine[a] }) || !slices.ContainsFunc(in, func(a core.AxisID) bool { return !known(a) }) {
				continue
			}
			for _, a := range out {
				if !slices.Contains(in, a) { // else a merge with 1 that almost-exact looks through
					delete(leaf, a)
				}
			}
			for k, e := range c.backwards(id, values(v, out)) {
				if !known(in[k]) {
					v[in[k]], leaf[in[k]], changed = e, true, true
				}
			}
		}
	}
	own := c.ownReach()
	var out []expression
	for _, class := range slices.Sorted(maps.Keys(leaf)) {
		if !mine[class] || own[class] {
			out = append(out, v[class])
		}
	}
	return out
}

// onceAround keeps a reduction from adding again in loops around it that it has
// no axis for.
func (c *context) onceAround(id core.ExprID) []test {
	p, loop := c.p, c.p.s.Loop(c.v)
	nest := p.m.nests.of[id]
	first := 0
	if n := p.storage[c.v].position; n > 0 {
		first = slices.Index(nest, p.m.LoopClass(loop[n-1])) + 1
	}
	var tests []test
	for _, class := range nest[first:] {
		if !slices.ContainsFunc(loop, func(a core.AxisID) bool { return p.m.LoopClass(a) == class }) {
			tests = append(tests, test{func(l []int64) int64 { return l[class] }, isFirst, 0})
		}
	}
	return tests
}
