package schedule

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
)

// An indexRelation is a transform of an operation between exact classes. The
// index on either side follows from that on the other.
type indexRelation struct {
	sides  [2][]core.AxisID // inputs, outputs
	resize bool
}

// An independence checks that the indices of the axes of a domain are free: that
// none follows from the others by what the operations of the fusion say. With x
// of shape [12], y = reshape(x, [6, 2]) and z = x[:, None, None] + y, the three
// loops of z would give y's root axis two indices.
type independence struct {
	relations []indexRelation
	touching  map[core.AxisID][]int // class -> relations
	checked   map[string]bool       // by the classes of the domain
}

// checkIndependence fails for a tensor with dependent axes.
func (s *Scheduled) checkIndependence(exact *classes) error {
	c := s.newIndependence(exact)
	for _, v := range s.Tensors() {
		d := &s.f.Val(v).Domain
		if s.isInput(v) || c.check(s.realClasses(exact, d.Logical)) && c.check(s.realClasses(exact, d.Root)) {
			continue
		}
		return s.refuse("self-mapping", v, "the index of an axis of %s follows from those of others, as in x[:, None] + reshape(x, [6, 2]) or x[:, None] + pad(x), so that one loop would need two indices: compute what it is made from in a kernel of its own, or twice", s.name(v))
	}
	return nil
}

func (s *Scheduled) realClasses(exact *classes, axes []core.AxisID) []core.AxisID {
	var list []core.AxisID
	for _, a := range axes {
		if !s.isBroadcast(a) {
			list = append(list, exact.find(a))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s *Scheduled) newIndependence(exact *classes) *independence {
	c := &independence{touching: map[core.AxisID][]int{}, checked: map[string]bool{}}
	type key struct {
		in      signature
		out     [2]core.AxisID
		product product // of a merge or a split that undoes one: the same relation
	}
	seen := map[key]bool{}
	for _, v := range s.Tensors() {
		for _, id := range s.f.TransformsTo(s.f.Val(v).Domain.Logical) {
			t := s.f.Transform(id)
			k := key{in: exact.forwardSignature(t, t.In), out: [2]core.AxisID{exact.find(t.Out[0]), exact.find(t.Out[1])}}
			if p, ok := exact.classesOf(t); ok {
				k = key{product: p}
			}
			if seen[k] || t.Kind == core.ResizeAxis && s.unchanged(t) {
				continue
			}
			seen[k] = true
			r := indexRelation{resize: t.Kind == core.ResizeAxis || t.Kind == core.Shift}
			r.sides[0], r.sides[1] = s.realClasses(exact, t.Inputs()), s.realClasses(exact, t.Results())
			for _, side := range r.sides {
				for _, a := range side {
					c.touching[a] = append(c.touching[a], len(c.relations))
				}
			}
			c.relations = append(c.relations, r)
		}
	}
	return c
}

// How a class is known while a domain is checked.
const (
	unknown  = iota
	given    // of the domain, or following from it by splits and merges
	byResize // following by one resize: a statement looks through its own
)

// check reports whether the classes of a domain are independent. What follows by
// splits and merges must be new each time, and so must what follows by a resize
// with respect to all that. Two resizes may lead to one class: x[1:] + x[:-1].
func (c *independence) check(domain []core.AxisID) bool {
	key := fmt.Sprint(domain)
	if ok, done := c.checked[key]; done {
		return ok
	}
	w := &independenceWalk{independence: c, known: map[core.AxisID]int{}, used: map[int]bool{}}
	for _, a := range domain {
		w.learn(a, given)
	}
	ok := w.follow(false, given) && w.follow(true, byResize) && w.follow(false, byResize)
	c.checked[key] = ok
	return ok
}

type independenceWalk struct {
	*independence
	known map[core.AxisID]int
	order []core.AxisID // known classes
	used  map[int]bool
}

func (w *independenceWalk) learn(a core.AxisID, how int) {
	if w.known[a] == unknown {
		w.known[a] = how
		w.order = append(w.order, a)
	}
}

// follow applies the resizes, or the other relations, that one side of is known;
// it learns the other side. Resizes are applied to what is given only.
func (w *independenceWalk) follow(resizes bool, how int) bool {
	n := len(w.order)
	for i := 0; i < len(w.order); i++ {
		if resizes && i == n {
			break
		}
		for _, k := range w.touching[w.order[i]] {
			if r := &w.relations[k]; r.resize == resizes && !w.used[k] && !w.apply(k, r, how) {
				return false
			}
		}
	}
	return true
}

func (w *independenceWalk) apply(k int, r *indexRelation, how int) bool {
	unusable := func(a core.AxisID) bool { return w.known[a] == unknown || r.resize && w.known[a] == byResize }
	for d := range 2 {
		from, to := r.sides[d], r.sides[1-d]
		if slices.ContainsFunc(from, unusable) {
			continue
		}
		w.used[k] = true
		for _, a := range to {
			if w.known[a] == given {
				return false
			}
		}
		for _, a := range to {
			w.learn(a, how)
		}
		return true
	}
	return true
}
