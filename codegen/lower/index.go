package lower

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// An index is an expression of the kernel.
type index = scalar.ID

// A context is one statement: where its indices start.
type context struct {
	*lowering
	tensor *tensor // the first one that the statement defines
	// start has the almost-exact classes of the promoted loops and their values.
	start map[core.AxisID]index
	// alien marks classes of start whose loops are not the tensor's own: they
	// carry more than its axis.
	alien  map[core.AxisID]bool
	aliens []alienLoop
	// redundant says that several threads store the same.
	redundant bool
	reading   guard // where an asynchronous copy reads
	again     bool  // its accesses are known from another context
}

// An alienLoop is a loop that runs over more than the tensor's axis.
type alienLoop struct {
	position int // in the loop domain
	axis     core.AxisID
	class    core.AxisID
	value    index
}

// context starts the statement that defines v in the loops that are open.
// Without reductions the loops are those of its initialisation.
func (l *lowering) context(v core.ValID, withoutReductions bool) *context {
	c := &context{lowering: l, tensor: l.tensors[v], start: map[core.AxisID]index{}, alien: map[core.AxisID]bool{}}
	for k, a := range c.tensor.loop {
		q := l.m.Promotion(a)
		if withoutReductions && l.isReduced(a) || l.isBroadcast(q) {
			continue
		}
		class, value := l.m.AlmostExact(q), l.loops[l.m.LoopClass(a)]
		if l.m.IsPromoted(a) {
			c.aliens = append(c.aliens, alienLoop{k, a, class, value})
		} else {
			c.start[class] = value
		}
	}
	if len(c.aliens) > 0 {
		own := c.ownReach()
		if c.omitted == ownLoopsFirst {
			own = nil
		}
		for _, x := range c.aliens { // a promoted loop never hides one of the tensor's own
			if _, ok := c.start[x.class]; !ok && !own[x.class] {
				c.start[x.class] = x.value
				c.alien[x.class] = c.omitted != ownLoopsFirst
			}
		}
	}
	return c
}

// ownReach returns the classes that the tensor iterates by loops of its own: what
// they are parts of, and the parts of that.
func (c *context) ownReach() map[core.AxisID]bool {
	reach := map[core.AxisID]bool{}
	var work []core.AxisID
	for _, class := range slices.Sorted(maps.Keys(c.start)) {
		if !c.alien[class] {
			reach[class] = true
			work = append(work, class)
		}
	}
	for len(work) > 0 {
		class := work[len(work)-1]
		work = work[:len(work)-1]
		for _, r := range c.graph.touching[class] {
			rel := &c.graph.relation[r]
			lacks := func(x core.AxisID) bool { return !reach[x] }
			var more []core.AxisID
			switch {
			case !slices.ContainsFunc(rel.out, lacks):
				more = rel.in
			case !rel.moves && !slices.ContainsFunc(rel.in, lacks):
				more = rel.out
			}
			for _, x := range more {
				if !reach[x] {
					reach[x] = true
					work = append(work, x)
				}
			}
		}
	}
	return reach
}

// indices returns the index along each of axes, found from the values of start;
// of a broadcast it is 0.
func (c *context) indices(start map[core.AxisID]index, axes []core.AxisID, own []int) ([]index, bool) {
	start = maps.Clone(start)
	var targets []core.AxisID
	for _, a := range axes {
		if !c.isBroadcast(a) {
			targets = append(targets, c.m.AlmostExact(a))
		}
	}
	steps, ok := c.path(start, targets, own, true)
	if !ok {
		return nil, false
	}
	v := c.walk(start, steps)
	out := make([]index, len(axes))
	for i, a := range axes {
		if out[i] = c.t.Int(0); !c.isBroadcast(a) {
			out[i] = v[c.m.AlmostExact(a)]
		}
	}
	return out, true
}

// elements is indices for a point that has an element: along an axis of one
// element the index is 0, wherever the loops lead.
func (c *context) elements(start map[core.AxisID]index, axes []core.AxisID, own []int) ([]index, bool) {
	long := slices.DeleteFunc(slices.Clone(axes), c.isOne)
	values, ok := c.indices(start, long, own)
	if !ok {
		return nil, false
	}
	out := make([]index, len(axes))
	for i, a := range axes {
		if out[i] = c.t.Int(0); !c.isOne(a) {
			out[i], values = values[0], values[1:]
		}
	}
	return out, true
}

// write returns the access to the element of w, a result of the statement, that
// it computes.
func (c *context) write(w core.ValID) (kir.Access, error) {
	t := c.tensors[w]
	coords, ok := c.elements(c.start, t.storage.axes, c.tensor.resizes)
	if !ok {
		return kir.Access{}, c.refuse("index", w, "the loops of %s do not lead to its elements in memory", c.f.Name(w))
	}
	c.touched(w, coords, true)
	return c.at(w, coords), nil
}

// at returns the access to an element of w at coordinates along its storage.
func (c *context) at(w core.ValID, coords []index) kir.Access {
	if x := c.windows[w]; x != nil {
		return c.b.At(c.buffers[w], x.place(c.lowering, coords)...)
	}
	return c.b.At(c.buffers[w], append(c.slot(w), c.swizzled(w, coords)...)...)
}

// An operand is a tensor argument of a statement: where its elements are.
type operand struct {
	v core.ValID
	k int // place among the tensor arguments
	// axis has, for each logical axis of v, the root axis of the result that it
	// runs along, or NoAxis.
	axis []core.AxisID
	// at, where set, has the index along logical axes that run along none.
	at map[int]index
}

// operand describes tensor argument k of expression e.
func (c *context) operand(e *core.Expr, k int) operand {
	v := c.f.TensorArgs(e)[k]
	o := operand{v: v, k: k, at: map[int]index{}}
	for range c.f.Axes(v) {
		o.axis = append(o.axis, core.NoAxis)
	}
	var positions []int
	if e.Op.AxisMap != nil {
		positions = e.Op.AxisMap(c.f, e, k, 0)
	}
	for i, a := range c.f.Val(e.Out[0]).Domain.Root {
		at := i
		if positions != nil {
			at = positions[i]
		}
		if at >= 0 && at < len(o.axis) {
			o.axis[at] = a
		}
	}
	return o
}

// read returns the access to the element of an operand that the statement reads.
//
// What is stored in the shape of loops is found from the statement's loops: that
// of a loop that both share is its value. A reduction in promoted loops goes first
// by its root indices, because the promoted loops may carry an axis that it
// iterates itself. Elements of tensors in global memory are found by the logical
// index that the op says.
func (c *context) read(o operand) (kir.Access, error) {
	t := c.tensors[o.v]
	var apart []apartAxis
	if !c.f.Val(o.v).Input {
		if apart = c.apart(o.v); c.s.Memory(o.v) == schedule.Global {
			if err := c.seesLimited(o.v); err != nil {
				return kir.Access{}, err
			}
		}
	}
	axes := slices.Clone(t.storage.axes)
	for _, x := range apart {
		axes = append(axes, x.axis)
	}
	n := len(t.storage.axes)
	known := c.sharedIndices(o.v)
	coords, err := c.locate(o, slices.Concat(except(axes[:n], known), axes[n:]))
	if err != nil {
		return kir.Access{}, err
	}
	for i := range n {
		if x, ok := known[i]; ok {
			coords = slices.Insert(coords, i, x)
		}
	}
	c.touched(o.v, coords[:n], false)
	return c.at(o.v, coords[:n]), c.sees(o.v, apart, coords[n:])
}

// sharedIndices returns the indices along axes of v's storage that are the values
// of loops, by place: of those that the statement shares with v; and, along a
// promoted loop of v, of the statement's own one of that class. Its root indices
// would lead to the same element of v, but to a place that v may have in an
// iteration of the shared loops other than this one.
func (c *context) sharedIndices(v core.ValID) map[int]index {
	known, st := map[int]index{}, &c.tensors[v].storage
	for i, x := range st.shared {
		switch class := c.m.AlmostExact(st.axes[i]); {
		case c.isOne(st.axes[i]):
		case x != core.NoAxis:
			known[i] = c.loops[c.m.LoopClass(x)]
		case st.alien[i] && c.alien[class]:
			known[i] = c.start[class]
		}
	}
	return known
}

// except returns the axes whose index is not known.
func except(axes []core.AxisID, known map[int]index) []core.AxisID {
	var out []core.AxisID
	for i, a := range axes {
		if _, ok := known[i]; !ok {
			out = append(out, a)
		}
	}
	return out
}

// locate returns the indices of an operand's element along axes of it.
func (c *context) locate(o operand, axes []core.AxisID) ([]index, error) {
	if len(axes) == 0 {
		return nil, nil
	}
	own := c.resizesTo(o.v)
	if !c.f.Val(o.v).Input && len(o.at) == 0 {
		if c.goesByRoot() {
			if coords, ok := c.byRoot(axes, own); ok {
				return coords, nil
			}
		}
		if coords, ok := c.elements(c.start, axes, own); ok {
			return coords, nil
		}
	}
	return c.byLogical(o, axes)
}

// resizesTo returns the resizes that lead from the statement to what it reads.
func (c *context) resizesTo(v core.ValID) []int {
	if t := c.tensors[v]; t.handSet {
		return slices.Concat(c.tensor.resizes, t.resizes)
	}
	return c.tensor.resizes
}

// goesByRoot reports whether the statement looks for what it reads from its root
// indices first.
func (c *context) goesByRoot() bool {
	return len(c.aliens) > 0 && c.tensor.reduces && c.omitted != ownLoopsFirst
}

// byRoot finds indices from those of the root axes and from the loops that are
// the tensor's own.
func (c *context) byRoot(axes []core.AxisID, own []int) ([]index, bool) {
	root := slices.DeleteFunc(slices.Clone(c.f.Val(c.tensor.v).Domain.Root), c.isBroadcast)
	values, ok := c.elements(c.start, root, c.tensor.resizes)
	if !ok {
		return nil, false
	}
	start := map[core.AxisID]index{}
	for i, a := range root {
		start[c.m.AlmostExact(a)] = values[i]
	}
	for _, a := range c.tensor.loop {
		class := c.m.AlmostExact(a)
		if _, ok := start[class]; !ok && !c.m.IsPromoted(a) && !c.isBroadcast(a) {
			start[class] = c.loops[c.m.LoopClass(a)]
		}
	}
	return c.elements(start, axes, own)
}

// byLogical finds indices from those of the logical axes of an operand.
func (c *context) byLogical(o operand, axes []core.AxisID) ([]index, error) {
	start := map[core.AxisID]index{}
	for i, a := range c.f.Axes(o.v) {
		if c.isBroadcast(a) {
			continue
		}
		value, ok := o.at[i]
		switch {
		case ok:
		case o.axis[i] == core.NoAxis && c.isOne(a):
			value = c.t.Int(0)
		case o.axis[i] == core.NoAxis:
			return nil, c.refuse("index", o.v, "%s is read along dimension %d at more than one element", c.f.Name(o.v), i)
		default:
			values, found := c.elements(c.start, []core.AxisID{o.axis[i]}, c.tensor.resizes)
			if !found {
				return nil, c.refuse("index", c.tensor.v, "the loops of %s do not lead to dimension %d of %s, which it reads", c.f.Name(c.tensor.v), i, c.f.Name(o.v))
			}
			value = values[0]
		}
		start[c.m.AlmostExact(a)] = value
	}
	plain := &context{lowering: c.lowering, tensor: c.tensors[o.v], start: start}
	coords, ok := plain.elements(start, axes, plain.tensor.resizes)
	if !ok {
		return nil, c.refuse("index", o.v, "%s is stored in the shape of the loops that it is computed in, and %s, which reads it, does not run in loops that lead there: inline %s less",
			c.f.Name(o.v), c.f.Name(c.tensor.v), c.f.Name(o.v))
	}
	return coords, nil
}

// refuse returns the error of a schedule that cannot be lowered.
func (a *Analysis) refuse(rule string, v core.ValID, format string, args ...any) error {
	sentence := fmt.Sprintf(format, args...)
	return &core.Unsupported{What: "this schedule cannot be lowered to a kernel",
		Refusals: []core.Refusal{{By: "lowering", Rule: rule, Tensor: a.f.Name(v), Sentence: sentence}}}
}
