package schedule

import (
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A disjoint is a union-find over axes. Ids beyond its length are classes of
// their own.
type disjoint struct {
	parent []core.AxisID
	size   []int32
}

func (d *disjoint) grow(n int) {
	for a := len(d.parent); a < n; a++ {
		d.parent = append(d.parent, core.AxisID(a))
		d.size = append(d.size, 1)
	}
}

func (d *disjoint) find(a core.AxisID) core.AxisID {
	if int(a) >= len(d.parent) {
		return a
	}
	for {
		p := d.parent[a]
		root := d.parent[p]
		if root == p {
			return p
		}
		d.parent[a] = root
		a = root
	}
}

// flatten makes every later find one that writes nothing.
func (d *disjoint) flatten() {
	for a := range d.parent {
		d.parent[a] = d.find(core.AxisID(a))
	}
}

func (d *disjoint) same(a, b core.AxisID) bool { return d.find(a) == d.find(b) }

// unite joins two classes and returns the root that stays and the one that
// goes, the same if they are one.
func (d *disjoint) unite(a, b core.AxisID) (kept, gone core.AxisID) {
	d.grow(int(max(a, b)) + 1)
	kept, gone = d.find(a), d.find(b)
	if kept == gone {
		return
	}
	if d.size[kept] < d.size[gone] || d.size[kept] == d.size[gone] && gone < kept {
		kept, gone = gone, kept
	}
	d.parent[gone] = kept
	d.size[kept] += d.size[gone]
	return
}

// A classes is a partition of axes that is closed under congruence: equal
// transforms of mapped inputs have mapped outputs; and backwards, if their
// inputs have equal extents too, since 2*6 and 3*4 are both 12. Of the transforms
// of operations, a split that divides is a merge read backwards, so that what is
// reshaped there and back has the axes that it had. For those of loops this is
// left out: promotion needs to know how a loop came about.
type classes struct {
	disjoint
	f        *core.Fusion
	uses     [][]core.TransformID // of a root: transforms that take or make its axes
	extent   []scalar.ID          // of a root: a constant if some member has one
	forward  map[signature]core.TransformID
	backward map[signature]core.TransformID
	product  map[product]core.TransformID
	reshapes map[core.TransformID]bool // whose products take part
	apart    *apartness                // nil: any two axes may be united
	pending  [][2]core.AxisID
}

// A signature is a transform up to classes. In and the extents are set for the
// backward direction, where In is that of the outputs.
type signature struct {
	kind        core.TransformKind
	inner       bool
	whole       bool
	broadcast   bool // a split or shift of one, which gives extents of 1
	factor      scalar.ID
	left, right scalar.ID
	axes        [2]core.AxisID
	extents     [2]scalar.ID
}

// A product is the three axes of a merge, or of a split that divides, as classes;
// as a key it has either no whole, or no parts but their extents.
type product struct {
	outer, inner, whole core.AxisID
	extents             [2]scalar.ID
}

func newClasses(f *core.Fusion, reshapes map[core.TransformID]bool, apart *apartness) *classes {
	c := &classes{f: f, reshapes: reshapes, forward: map[signature]core.TransformID{}, backward: map[signature]core.TransformID{},
		product: map[product]core.TransformID{}, apart: apart}
	c.growTo(f.NumAxes())
	return c
}

func (c *classes) growTo(n int) {
	c.grow(n)
	for a := len(c.uses); a < n; a++ {
		c.uses = append(c.uses, nil)
		c.extent = append(c.extent, c.f.Axis(core.AxisID(a)).Extent)
	}
}

// forwardSignature returns that of a transform like t of the axes in.
func (c *classes) forwardSignature(t *core.Transform, in [2]core.AxisID) signature {
	s := signature{kind: t.Kind, inner: t.Inner, whole: t.Whole, factor: t.Factor, left: t.Left, right: t.Right}
	s.axes = [2]core.AxisID{c.find(in[0]), c.find(in[1])} // NoAxis is beyond all
	s.broadcast = (t.Kind == core.Split || t.Kind == core.Shift) && c.f.Axis(in[0]).Kind == core.Broadcast
	return s
}

func (c *classes) backwardSignature(t *core.Transform) signature {
	s := c.forwardSignature(t, t.Out)
	for k, a := range t.Inputs() {
		s.extents[k] = c.extent[c.find(a)]
	}
	return s
}

// add enters transform id.
func (c *classes) add(id core.TransformID) {
	c.growTo(c.f.NumAxes())
	t := c.f.Transform(id)
	for _, list := range [][]core.AxisID{t.Inputs(), t.Results()} {
		for _, a := range list {
			r := c.find(a)
			c.uses[r] = append(c.uses[r], id)
		}
	}
	c.rekey(id)
	c.settle()
}

// join unites the classes of a and b, and all that follows.
func (c *classes) join(a, b core.AxisID) {
	c.growTo(c.f.NumAxes())
	c.pending = append(c.pending, [2]core.AxisID{a, b})
	c.settle()
}

func (c *classes) settle() {
	for len(c.pending) > 0 {
		pair := c.pending[len(c.pending)-1]
		c.pending = c.pending[:len(c.pending)-1]
		c.joinOne(pair[0], pair[1])
	}
}

func (c *classes) joinOne(a, b core.AxisID) {
	if c.same(a, b) || c.apart != nil && c.apart.bars(c.find(a), c.find(b)) {
		return
	}
	kept, gone := c.unite(a, b)
	if c.apart != nil {
		c.apart.move(gone, kept)
	}
	changed := c.uses[gone]
	extent := c.simpler(c.extent[kept], c.extent[gone])
	if extent != c.extent[kept] {
		c.extent[kept] = extent
		changed = append(changed[:len(changed):len(changed)], c.uses[kept]...)
	}
	c.uses[kept] = append(c.uses[kept], c.uses[gone]...)
	c.uses[gone] = nil
	for _, id := range changed {
		c.rekey(id)
	}
}

// simpler returns a constant rather than an expression, then what is older.
func (c *classes) simpler(a, b scalar.ID) scalar.ID {
	_, constA := c.f.Scalars().ConstInt(a)
	_, constB := c.f.Scalars().ConstInt(b)
	switch {
	case constA != constB && constA:
		return a
	case constA != constB:
		return b
	}
	return min(a, b)
}

// rekey looks transform id up under its present signatures; what is there
// already is congruent.
func (c *classes) rekey(id core.TransformID) {
	t := c.f.Transform(id)
	key := c.forwardSignature(t, t.In)
	if other, ok := c.forward[key]; !ok {
		c.forward[key] = id
	} else if other != id {
		c.joinAll(t.Results(), c.f.Transform(other).Results())
	}
	c.rekeyProduct(id)
	key = c.backwardSignature(t)
	if other, ok := c.backward[key]; !ok {
		c.backward[key] = id
	} else if other != id {
		for k, a := range t.Inputs() {
			c.pending = append(c.pending, [2]core.AxisID{a, c.f.Transform(other).In[k]})
		}
	}
}

// productOf returns the axes of a merge, or of a split that divides. Broadcasts
// have none: their parts have other extents than their factors. Nor do axes of
// extent 1, which almost-exact classes look through by rules of their own.
func (c *classes) productOf(t *core.Transform) (p product, ok bool) {
	switch t.Kind {
	case core.Merge:
		p = product{outer: t.In[0], inner: t.In[1], whole: t.Out[0]}
	case core.Split:
		p = product{outer: t.Out[0], inner: t.Out[1], whole: t.In[0]}
		of := func(extent func(core.AxisID) scalar.ID) bool {
			return c.f.Scalars().Mul(extent(p.outer), extent(p.inner)) == extent(p.whole)
		}
		ok = of(func(a core.AxisID) scalar.ID { return c.extent[c.find(a)] }) || of(func(a core.AxisID) scalar.ID { return c.f.Axis(a).Extent })
		if !ok {
			return p, false
		}
	default:
		return p, false
	}
	for _, a := range []core.AxisID{p.outer, p.inner, p.whole} {
		if n, isConst := c.f.Scalars().ConstInt(c.extent[c.find(a)]); c.f.Axis(a).Kind == core.Broadcast || isConst && n == 1 {
			return p, false
		}
	}
	return p, true
}

// classesOf returns the product of t as classes.
func (c *classes) classesOf(t *core.Transform) (p product, ok bool) {
	p, ok = c.productOf(t)
	return product{outer: c.find(p.outer), inner: c.find(p.inner), whole: c.find(p.whole)}, ok
}

// rekeyProduct unites what follows from two products with the same parts, or
// with the same whole and parts of the same extents.
func (c *classes) rekeyProduct(id core.TransformID) {
	if !c.reshapes[id] {
		return
	}
	p, ok := c.productOf(c.f.Transform(id))
	if !ok {
		return
	}
	outer, inner := c.find(p.outer), c.find(p.inner)
	c.meet(product{outer: outer, inner: inner, whole: core.NoAxis}, id)
	c.meet(product{outer: core.NoAxis, inner: core.NoAxis, whole: c.find(p.whole), extents: [2]scalar.ID{c.extent[outer], c.extent[inner]}}, id)
}

// meet enters a product by a key; one that is there already is the same.
func (c *classes) meet(key product, id core.TransformID) {
	known, ok := c.product[key]
	if !ok {
		c.product[key] = id
		return
	}
	t, u := c.f.Transform(id), c.f.Transform(known)
	p, _ := c.productOf(t)
	q, _ := c.productOf(u)
	if isAxis(key.whole) {
		c.joinAll([]core.AxisID{p.outer, p.inner}, []core.AxisID{q.outer, q.inner})
	} else {
		c.joinAll([]core.AxisID{p.whole}, []core.AxisID{q.whole})
	}
}

// joinAll unites the results of congruent transforms pairwise, or none of them.
func (c *classes) joinAll(a, b []core.AxisID) {
	if c.apart != nil {
		for k := range a {
			if c.apart.bars(c.find(a[k]), c.find(b[k])) {
				return
			}
		}
	}
	for k := range a {
		c.pending = append(c.pending, [2]core.AxisID{a[k], b[k]})
	}
}

// An apartness holds axes of one tensor apart of which neither is made from the
// other, unless they are exactly equal.
type apartness struct {
	f       *core.Fusion
	exact   *classes
	owner   []core.ValID // by AxisID; what is beyond belongs to no tensor
	members [][]core.AxisID
	held    map[classOwner][]core.AxisID
}

type classOwner struct {
	class core.AxisID
	owner core.ValID
}

func newApartness(s *Scheduled, f *core.Fusion, exact *classes) *apartness {
	p := &apartness{f: f, exact: exact, owner: make([]core.ValID, f.NumAxes()), members: make([][]core.AxisID, f.NumAxes()), held: map[classOwner][]core.AxisID{}}
	for i := range p.owner {
		p.owner[i] = core.NoVal
		p.members[i] = []core.AxisID{core.AxisID(i)}
	}
	for _, v := range s.Tensors() {
		for _, a := range s.axesOf(v) {
			p.owner[a] = v
			p.held[classOwner{a, v}] = []core.AxisID{a}
		}
	}
	return p
}

// bars reports whether the classes a and b hold axes that are apart.
func (p *apartness) bars(a, b core.AxisID) bool {
	if a == b {
		return false
	}
	if len(p.members[a]) > len(p.members[b]) {
		a, b = b, a
	}
	for _, x := range p.members[a] {
		if p.owner[x] == core.NoVal {
			continue
		}
		for _, y := range p.held[classOwner{b, p.owner[x]}] {
			if !p.exact.same(x, y) && !p.stems(x, y) && !p.stems(y, x) {
				return true
			}
		}
	}
	return false
}

func (p *apartness) move(gone, kept core.AxisID) {
	for _, x := range p.members[gone] {
		if o := p.owner[x]; o != core.NoVal {
			key := classOwner{kept, o}
			p.held[key] = append(p.held[key], x)
		}
	}
	p.members[kept] = append(p.members[kept], p.members[gone]...)
	p.members[gone] = nil
}

// stems reports whether a is made from b by transforms.
func (p *apartness) stems(a, b core.AxisID) bool {
	if a <= b {
		return a == b
	}
	d := p.f.Axis(a).Def
	if d == core.NoTransform {
		return false
	}
	for _, in := range p.f.Transform(d).Inputs() {
		if p.stems(in, b) {
			return true
		}
	}
	return false
}
