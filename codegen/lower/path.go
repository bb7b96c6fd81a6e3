package lower

import (
	"cmp"
	"maps"
	"slices"

	"nvfuser_go/core"
)

// A step is a relation walked forward, from its inputs to its outputs, or
// backward.
type step struct {
	relation int
	forward  bool
}

// path returns the steps that lead from the classes of start to targets. It
// searches first in the statement's own history, as a merge with an axis of one
// element of another tensor may hide points without an element; then
// everywhere; then, if withZero, with broadcasts known to be 0, which start then
// has. Resizes are walked only if they are among own.
func (c *context) path(start map[core.AxisID]index, targets []core.AxisID, own []int, withZero bool) ([]step, bool) {
	if steps, ok := c.search(start, targets, own, c.tensor.history, false); ok {
		return steps, true
	}
	if steps, ok := c.search(start, targets, own, nil, false); ok || !withZero {
		return steps, ok
	}
	steps, ok := c.search(start, targets, own, nil, true)
	if ok {
		for _, class := range c.zero {
			if _, there := start[class]; !there {
				start[class] = c.t.Int(0)
			}
		}
	}
	return steps, ok
}

// A search is breadth first, from known classes to targets.
type search struct {
	graph  *graph
	own    []int
	within []int               // nil: all relations
	from   map[core.AxisID]int // class -> step that gives it; -1: known at the start
	steps  []step
	state  map[int]relationState
	open   []int // relations of known classes that are not done, ascending
}

type relationState uint8

const (
	unseen relationState = iota
	opened
	done
)

func (c *context) search(start map[core.AxisID]index, targets []core.AxisID, own, within []int, zero bool) ([]step, bool) {
	s := &search{graph: c.graph, own: own, within: within, from: map[core.AxisID]int{}, state: map[int]relationState{}}
	var wait []core.AxisID // promoted loops come after the tensor's own, with all behind them
	for _, class := range slices.Sorted(maps.Keys(start)) {
		if c.alien[class] {
			wait = append(wait, class)
		} else {
			s.learn(class, -1)
		}
	}
	if zero {
		for _, class := range c.zero {
			s.learn(class, -1)
		}
	}
	for !s.knows(targets) {
		layer := s.layer()
		if len(wait) > 0 {
			layer = slices.DeleteFunc(layer, func(x step) bool { return x.forward })
			if len(layer) == 0 {
				for _, class := range wait {
					s.learn(class, -1)
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

// learn makes a class known, unless it is.
func (s *search) learn(class core.AxisID, step int) bool {
	if _, ok := s.from[class]; ok {
		return false
	}
	s.from[class] = step
	for _, r := range s.graph.touching[class] {
		if s.state[r] == unseen && s.allowed(r) {
			s.state[r] = opened
			at, _ := slices.BinarySearch(s.open, r)
			s.open = slices.Insert(s.open, at, r)
		}
	}
	return true
}

func (s *search) allowed(r int) bool {
	if s.graph.relation[r].moves && !slices.Contains(s.own, r) {
		return false
	}
	if s.within == nil {
		return true
	}
	_, ok := slices.BinarySearch(s.within, r)
	return ok
}

func (s *search) knows(classes []core.AxisID) bool {
	for _, a := range classes {
		if _, ok := s.from[a]; !ok {
			return false
		}
	}
	return true
}

// layer returns the steps that one more class can be known by.
func (s *search) layer() []step {
	var layer []step
	s.open = slices.DeleteFunc(s.open, func(r int) bool {
		in, out := s.knows(s.graph.relation[r].in), s.knows(s.graph.relation[r].out)
		if in != out {
			layer = append(layer, step{r, in})
		}
		return in && out
	})
	return layer
}

func (s *search) made(x step) []core.AxisID {
	if x.forward {
		return s.graph.relation[x.relation].out
	}
	return s.graph.relation[x.relation].in
}

// preferred drops steps that almost-exact looks through while there are others,
// and puts backward steps, which need no division for a split, first.
func (s *search) preferred(layer []step) []step {
	good := slices.DeleteFunc(slices.Clone(layer), func(x step) bool {
		through := core.Merge
		if x.forward {
			through = core.Split
		}
		return s.graph.relation[x.relation].kind == through &&
			slices.ContainsFunc(s.made(x), func(a core.AxisID) bool { return s.knows([]core.AxisID{a}) })
	})
	if len(good) > 0 {
		layer = good
	}
	rank := func(x step) int {
		if x.forward {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(layer, func(a, b step) int { return cmp.Compare(rank(a), rank(b)) })
	return layer
}

func (s *search) take(x step) {
	s.state[x.relation] = done
	s.open = slices.DeleteFunc(s.open, func(r int) bool { return r == x.relation })
	fresh := false
	for _, class := range s.made(x) {
		fresh = s.learn(class, len(s.steps)) || fresh
	}
	if fresh {
		s.steps = append(s.steps, x)
	}
}

// needed returns the steps that targets depend on, in order.
func (s *search) needed(targets []core.AxisID) []step {
	need := make([]bool, len(s.steps))
	stack := slices.Clone(targets)
	for len(stack) > 0 {
		k := s.from[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		if k < 0 || need[k] {
			continue
		}
		need[k] = true
		from := s.graph.relation[s.steps[k].relation]
		if s.steps[k].forward {
			stack = append(stack, from.in...)
		} else {
			stack = append(stack, from.out...)
		}
	}
	var steps []step
	for k, x := range s.steps {
		if need[k] {
			steps = append(steps, x)
		}
	}
	return steps
}

// walk gives every class on the way its index.
func (c *context) walk(start map[core.AxisID]index, steps []step) map[core.AxisID]index {
	v := maps.Clone(start)
	for _, x := range steps {
		r := &c.graph.relation[x.relation]
		made, from := r.made(x.forward), r.made(!x.forward)
		known := make([]index, len(from))
		for i, class := range from {
			known[i] = v[class]
		}
		for k, e := range c.across(r, x.forward, known) {
			if _, ok := v[made[k]]; !ok {
				v[made[k]] = e
			}
		}
	}
	return v
}

// across returns the indices on the other side of r. Of an axis that is cut to
// one element that element is found wherever the loops lead: threads at points
// beyond it may store what they read beside those that have it.
func (c *context) across(r *relation, forward bool, from []index) []index {
	x, t := c.f.Transform(r.t), c.t
	switch {
	case x.Kind == core.Split && !forward:
		return []index{t.Add(t.Mul(from[0], c.extent(x.Out[1])), from[1])}
	case x.Kind == core.Merge && forward:
		return []index{t.Add(t.Mul(from[0], c.extent(x.In[1])), from[1])}
	case x.Kind == core.Shift && forward:
		return []index{t.Add(from[0], c.size(x.Left))}
	case x.Kind == core.Shift:
		return []index{t.Sub(from[0], c.size(x.Left))}
	case x.Kind == core.Split:
		n := c.extent(x.Out[1])
		return []index{t.FloorDiv(from[0], n), t.Mod(from[0], n)}
	case x.Kind == core.Merge:
		n := c.extent(x.In[1])
		return []index{t.FloorDiv(from[0], n), t.Mod(from[0], n)}
	case forward:
		return []index{t.Add(from[0], c.size(x.Left))}
	case c.isOne(x.Out[0]):
		return []index{t.Neg(c.size(x.Left))}
	}
	return []index{t.Sub(from[0], c.size(x.Left))}
}
