package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// A coverage tells what exact classes stem from. That of a root axis is itself,
// of a broadcast nothing, of a merge or resize the union of its inputs', of an
// output of a split itself: a part of what the split axis covers. An element of
// a coverage is therefore named by an exact class.
type coverage struct {
	exact   *classes
	of      map[core.AxisID][]core.AxisID // exact class -> elements, ascending
	side    map[core.AxisID]int           // element made by a split -> which output
	from    map[core.AxisID]core.AxisID   // element made by a split -> class of the input
	made    map[core.AxisID]core.AxisID   // exact class -> first member that a transform makes
	nothing map[core.AxisID]bool          // exact classes of broadcasts
	covers  map[[2]core.AxisID]bool
	within  map[[2]core.AxisID]bool
	sides   map[[2]core.AxisID]bool
}

func newCoverage(p *promoter) *coverage {
	c := &coverage{exact: p.exact, of: map[core.AxisID][]core.AxisID{}, side: map[core.AxisID]int{}, from: map[core.AxisID]core.AxisID{},
		made: map[core.AxisID]core.AxisID{}, nothing: map[core.AxisID]bool{}, covers: map[[2]core.AxisID]bool{}, within: map[[2]core.AxisID]bool{}, sides: map[[2]core.AxisID]bool{}}
	note := func(a core.AxisID) {
		r := c.exact.find(a)
		if p.f.Axis(a).Kind == core.Broadcast {
			c.nothing[r] = true
		}
		if _, ok := c.made[r]; !ok && p.f.Axis(a).Def != core.NoTransform {
			c.made[r] = a
		}
	}
	for _, a := range p.original {
		note(a)
	}
	for _, id := range p.replays {
		for _, a := range p.f.Transform(id).Results() {
			note(a)
		}
	}
	return c
}

// elements returns the coverage of class r. An exact graph has cycles where what
// is reshaped or padded comes back to what it was: a class on its own path is an
// element.
func (c *coverage) elements(r core.AxisID) []core.AxisID {
	if list, ok := c.of[r]; ok {
		return list
	}
	c.of[r] = []core.AxisID{r}
	a, ok := c.made[r]
	var list []core.AxisID
	switch {
	case c.nothing[r]:
	case !ok:
		list = []core.AxisID{r}
	default:
		t := c.exact.f.Transform(c.exact.f.Axis(a).Def)
		if t.Kind == core.Split {
			c.side[r], c.from[r] = slices.Index(t.Results(), a), c.exact.find(t.In[0])
			c.elements(c.from[r])
			list = []core.AxisID{r}
			break
		}
		for _, in := range t.Inputs() {
			list = append(list, c.elements(c.exact.find(in))...)
		}
		slices.Sort(list)
		list = slices.Compact(list)
	}
	c.of[r] = list
	return list
}

// includes reports whether the coverage of class q includes that of class w.
func (c *coverage) includes(q, w core.AxisID) bool {
	return !slices.ContainsFunc(c.elements(w), func(y core.AxisID) bool { return !c.includesElement(q, y) })
}

func (c *coverage) includesElement(q, y core.AxisID) bool {
	key := [2]core.AxisID{q, y}
	if v, ok := c.within[key]; ok {
		return v
	}
	c.within[key] = false
	v := slices.ContainsFunc(c.elements(q), func(x core.AxisID) bool { return c.covered(x, y) })
	if from, split := c.from[y]; !v && split {
		v = c.includes(q, from)
	}
	c.within[key] = v
	return v
}

// covered reports whether element x includes y: they are the same, or the same
// side of splits of which x's input includes y's as a whole, or x includes all
// that y's input covers.
func (c *coverage) covered(x, y core.AxisID) bool {
	if x == y {
		return true
	}
	key := [2]core.AxisID{x, y}
	if v, ok := c.covers[key]; ok {
		return v
	}
	c.covers[key] = false
	fromY, splitY := c.from[y]
	v := c.sameSide(x, y)
	if !v && splitY {
		v = !slices.ContainsFunc(c.elements(fromY), func(e core.AxisID) bool { return !c.covered(x, e) })
	}
	c.covers[key] = v
	return v
}

// sameSide reports whether x and y are one side of splits of axes of which the
// first includes the second, element by element. A part of an element is not
// enough: what is outer in an axis says nothing of what is outer in its inner
// part.
func (c *coverage) sameSide(x, y core.AxisID) bool {
	key := [2]core.AxisID{x, y}
	if v, ok := c.sides[key]; ok {
		return v
	}
	c.sides[key] = false // on its own path
	fromX, splitX := c.from[x]
	fromY, splitY := c.from[y]
	c.sides[key] = splitX && splitY && c.side[x] == c.side[y] && !slices.ContainsFunc(c.elements(fromY), func(b core.AxisID) bool {
		return !slices.ContainsFunc(c.elements(fromX), func(a core.AxisID) bool { return a == b || c.sameSide(a, b) })
	})
	return c.sides[key]
}
