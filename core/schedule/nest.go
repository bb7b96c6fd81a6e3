package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// A nests holds, for each expression, the loop classes around its statement,
// outermost first: those of its own loop axes and those of the consumers it is
// inlined in.
type nests struct {
	loops *loopGraph
	of    [][]core.AxisID // by ExprID
}

// A Nest is a loop with what it contains, or a statement.
type Nest struct {
	Axis core.AxisID // of a loop: some axis of its class; NoAxis: a statement
	Body []*Nest
	Expr core.ExprID // of a statement
}

// loopNests computes the nests for the present positions, from consumers to
// producers.
func (s *Scheduled) loopNests() (*nests, error) {
	l := s.loopGraph()
	if v, i, k, found := s.twoInOneLoop(l); found {
		return nil, s.refuse("inlining", v, "axes %d and %d of %s would share one loop", i, k, s.name(v))
	}
	n := &nests{loops: l, of: make([][]core.AxisID, s.f.NumExprs())}
	order := s.analysis().order
	for i := len(order) - 1; i >= 0; i-- {
		if err := s.nestOf(n, order[i]); err != nil {
			return nil, err
		}
	}
	return n, s.checkPrefixes(n)
}

func (s *Scheduled) nestOf(n *nests, id core.ExprID) error {
	out := s.f.Expr(id).Out
	var nest []core.AxisID
	for _, a := range s.Loop(out[0]) {
		nest = append(nest, n.loops.find(a))
	}
	for _, v := range out {
		position := s.tensors[v].position
		if position == 0 {
			continue
		}
		last := n.loops.find(s.Loop(v)[position-1])
		for _, e := range s.consumers(v) {
			outer := n.of[e.expr]
			at := slices.Index(outer, last)
			merged, ok := mergeOrdered(outer[:at+1], nest)
			if at < 0 || !ok {
				return s.refuse("inlining", v, "the loops of %s and of %s, which it is inlined in up to %s, nest in different orders", s.name(v), s.name(e.consumer), s.axisText(v, position-1))
			}
			nest = merged
		}
	}
	n.of[id] = nest
	return nil
}

// mergeOrdered merges two sequences, keeping both orders, with what p alone has
// as early as possible.
func mergeOrdered(p, q []core.AxisID) ([]core.AxisID, bool) {
	var out []core.AxisID
	for len(p)+len(q) > 0 {
		switch {
		case len(p) > 0 && !slices.Contains(q, p[0]):
			out, p = append(out, p[0]), p[1:]
		case len(q) > 0 && !slices.Contains(p, q[0]):
			out, q = append(out, q[0]), q[1:]
		case len(p) > 0 && len(q) > 0 && p[0] == q[0]:
			out, p, q = append(out, p[0]), p[1:], q[1:]
		default:
			return nil, false
		}
	}
	return out, true
}

// checkPrefixes fails unless each class has the same loops around it wherever it
// is: it opens in one place.
func (s *Scheduled) checkPrefixes(n *nests) error {
	prefix := map[core.AxisID][]core.AxisID{}
	for _, id := range s.analysis().order {
		nest := n.of[id]
		for i, c := range nest {
			old, ok := prefix[c]
			if ok && !slices.Equal(old, nest[:i]) {
				v := s.f.Expr(id).Out[0]
				return s.refuse("inlining", v, "loop %d around %s would have to be inside different loops for the tensors that share it", i, s.name(v))
			}
			prefix[c] = nest[:i]
		}
	}
	return nil
}

// checkPositions returns the nests and the loops that they make, or why the present positions together have
// no loops.
func (s *Scheduled) checkPositions() (n *nests, tree []*Nest, err error) {
	n, err = s.loopNests()
	if err == nil {
		err = s.checkShared(n)
	}
	if err == nil {
		tree, err = s.tree(n, s.analysis().order, 0)
	}
	return n, tree, err
}

// checkShared fails if the two sides of an edge are in one loop, by way of other
// tensors, whose axes the edge does not map: the consumer would read elements
// of other iterations.
func (s *Scheduled) checkShared(n *nests) error {
	for _, e := range s.analysis().edges {
		if s.isInput(e.producer) {
			continue
		}
		mine, theirs := n.of[s.f.Val(e.producer).Def], n.of[e.expr]
		for i, class := range mine {
			if slices.Contains(theirs, class) && !s.corresponds(n, e, class) && !s.isAroundShared(n, e.producer, mine, i) {
				return s.refuse("inlining", e.producer, "%s and %s would be in one loop, in which %s reads elements of %s of other iterations",
					s.name(e.producer), s.name(e.consumer), s.name(e.consumer), s.name(e.producer))
			}
		}
	}
	return nil
}

// corresponds reports whether e maps the axes of its two sides in class.
func (s *Scheduled) corresponds(n *nests, e *edge, class core.AxisID) bool {
	p, c := s.axisInLoop(n, e.producer, class), s.axisInLoop(n, e.consumer, class)
	return isAxis(p) && isAxis(c) && s.relationOf(e).maps(p, c)
}

func (s *Scheduled) axisInLoop(n *nests, v core.ValID, class core.AxisID) core.AxisID {
	for _, a := range s.Loop(v) {
		if n.loops.find(a) == class {
			return a
		}
	}
	return core.NoAxis
}

// isAroundShared reports whether class, at place i of the nest of v, is left of
// v's position or is a loop v has no axis for around such a one.
func (s *Scheduled) isAroundShared(n *nests, v core.ValID, nest []core.AxisID, i int) bool {
	own := isAxis(s.axisInLoop(n, v, nest[i]))
	for _, a := range s.Loop(v)[:s.tensors[v].position] {
		at := slices.Index(nest, n.loops.find(a))
		if at == i || !own && i < at {
			return true
		}
	}
	return false
}

// tree sorts statements, which share the first depth loops of their nests, into
// loops.
func (s *Scheduled) tree(n *nests, statements []core.ExprID, depth int) ([]*Nest, error) {
	groups, member := s.group(n, statements, depth)
	waits, next := make([]int, len(groups)), make([][]int, len(groups))
	for _, id := range statements {
		for _, v := range s.f.TensorArgs(s.f.Expr(id)) {
			from, ok := member[s.f.Val(v).Def]
			if to := member[id]; ok && from != to && !slices.Contains(next[from], to) {
				next[from] = append(next[from], to)
				waits[to]++
			}
		}
	}
	var body []*Nest
	ready := &groupHeap{}
	for g := range groups {
		if waits[g] == 0 {
			ready.push(g)
		}
	}
	for ready.len() > 0 {
		g := ready.pop()
		node, err := s.node(n, groups[g], depth)
		if err != nil {
			return nil, err
		}
		body = append(body, node)
		for _, to := range next[g] {
			if waits[to]--; waits[to] == 0 {
				ready.push(to)
			}
		}
	}
	if len(body) < len(groups) {
		return nil, s.cycle(groups, waits)
	}
	return body, nil
}

// group partitions statements by their loop at depth, in order of the first
// statement; one without such a loop is a group of its own.
func (s *Scheduled) group(n *nests, statements []core.ExprID, depth int) ([][]core.ExprID, map[core.ExprID]int) {
	var groups [][]core.ExprID
	member, ofClass := make(map[core.ExprID]int, len(statements)), map[core.AxisID]int{}
	for _, id := range statements {
		g := len(groups)
		if nest := n.of[id]; depth < len(nest) {
			if old, ok := ofClass[nest[depth]]; ok {
				g = old
			}
			ofClass[nest[depth]] = g
		}
		if g == len(groups) {
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], id)
		member[id] = g
	}
	return groups, member
}

func (s *Scheduled) node(n *nests, statements []core.ExprID, depth int) (*Nest, error) {
	nest := n.of[statements[0]]
	if depth >= len(nest) {
		return &Nest{Axis: core.NoAxis, Expr: statements[0]}, nil
	}
	body, err := s.tree(n, statements, depth+1)
	return &Nest{Axis: nest[depth], Body: body, Expr: core.NoExpr}, err
}

// cycle names tensors whose loops wait for each other.
func (s *Scheduled) cycle(groups [][]core.ExprID, waits []int) error {
	text, first := "", core.NoVal
	for g, statements := range groups {
		if waits[g] == 0 {
			continue
		}
		for _, id := range statements {
			v := s.f.Expr(id).Out[0]
			if first == core.NoVal {
				first = v
			} else {
				text += ", "
			}
			text += s.name(v)
		}
	}
	return s.refuse("inlining", first, "the loops of %s cannot be put in an order: a tensor is computed outside of the loop that holds both what it reads and what reads it", text)
}

// A groupHeap gives the smallest number first.
type groupHeap struct{ a []int }

func (h *groupHeap) len() int { return len(h.a) }

func (h *groupHeap) push(g int) {
	h.a = append(h.a, g)
	for i := len(h.a) - 1; i > 0 && h.a[(i-1)/2] > h.a[i]; i = (i - 1) / 2 {
		h.a[i], h.a[(i-1)/2] = h.a[(i-1)/2], h.a[i]
	}
}

func (h *groupHeap) pop() int {
	top, last := h.a[0], len(h.a)-1
	h.a[0] = h.a[last]
	h.a = h.a[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return top
		}
		if c+1 < last && h.a[c+1] < h.a[c] {
			c++
		}
		if h.a[i] <= h.a[c] {
			return top
		}
		h.a[i], h.a[c] = h.a[c], h.a[i]
		i = c
	}
}
