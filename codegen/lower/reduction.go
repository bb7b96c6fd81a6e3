package lower

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// name returns a name that nothing else of the kernel has.
func (l *lowering) name(prefix string) string {
	l.numNames++
	return fmt.Sprintf("%s%d", prefix, l.numNames-1)
}

// A fold is what a reduction keeps: one value, or the several of a state.
type fold struct {
	op         *core.OpInfo
	state      *state // nil: one value, folded by the binary op of the row
	types      []dtype.Type
	mayBeEmpty bool // there may be no elements at all
}

// A state is how the values of a reduction with several results are folded.
type state struct {
	identity func(f *fold, k int) scalar.Value
	of       func(l *lowering, f fold, x kir.ValueID) []kir.ValueID                  // of one element
	add      func(l *lowering, f fold, a []kir.ValueID, x kir.ValueID) []kir.ValueID // an element to a
	addAll   func(l *lowering, f fold, a, x []kir.ValueID) []kir.ValueID             // elements to a; nil: one after the other
	merge    func(l *lowering, f fold, a, b []kir.ValueID) []kir.ValueID
	counts   func(f *fold) bool // what is added counts, whatever it is

	// mergeAll merges parts of this thread and of other lanes, which takes a fraction of
	// the instructions that a merge has at each step; nil: they are merged in pairs.
	mergeAll func(l *lowering, f fold, parts [][]kir.ValueID, of lanes) []kir.ValueID

	number    int   // which value is the number of elements; 0: none
	enough    int64 // elements of inner loops that are not added together with those of one around: more would cost more registers than they save
	symmetric bool  // a merged with b has the bits of b merged with a
}

// Lanes fold what threads that each have parts have, by a row that is associative. All get
// the same bits.
type lanes struct {
	number int64 // of threads
	fold   func(by *core.OpInfo, v kir.ValueID) kir.ValueID
}

// oneLane is the thread alone.
var oneLane = lanes{1, func(_ *core.OpInfo, v kir.ValueID) kir.ValueID { return v }}

// states holds those of the rows with several results and of their merges.
var states = map[*core.OpInfo]*state{core.WelfordOp: moments, core.MaxExpSumOp: maxExpSum}

func init() {
	for op, s := range states {
		states[core.MergeOp(op)] = s
	}
}

func (l *lowering) fold(e *core.Expr) fold {
	f := fold{op: e.Op, state: states[e.Op]}
	if e.Op.Merges { // there are parts, but each may be of nothing
		part := l.f.Val(l.f.TensorArgs(e)[0]).Def
		f.mayBeEmpty = part == core.NoExpr || l.f.Expr(part).Op.Class != core.Reduction || l.fold(l.f.Expr(part)).mayBeEmpty
	}
	for _, v := range e.Out {
		f.types = append(f.types, accumulator(l.s.ElementType(v)))
	}
	for _, a := range l.f.Val(e.Out[0]).Domain.Root {
		f.mayBeEmpty = f.mayBeEmpty || l.isReduced(a) && l.t.Facts(l.extent(a)).Lo < 1
	}
	return f
}

// isSymmetric reports whether lanes that exchange what they have get the same bits: a
// combined with b has those of b combined with a, or sums are what is exchanged.
// A product of complex numbers has not where a compiler fuses a multiplication and
// an addition.
func (f *fold) isSymmetric() bool {
	if f.state != nil {
		return f.state.symmetric || f.state.mergeAll != nil
	}
	return !f.types[0].IsComplex()
}

// identity returns value k of the fold of nothing.
func (f *fold) identity(k int) scalar.Value {
	if f.state != nil {
		return f.state.identity(f, k)
	}
	return f.op.Identity(f.types[k])
}

// initialise sets result k of the reduction id to the fold of nothing, in loops
// of its own.
func (l *lowering) initialise(id core.ExprID, k int) error {
	e := l.f.Expr(id)
	v, f := e.Out[k], l.fold(e)
	t := l.tensors[v]
	if l.s.Memory(v) == schedule.Global && f.types[k] != l.s.ElementType(v) {
		return l.refuse("accumulation", v, "%s is folded in global memory in %v, which would round each step: cache it before", l.f.Name(v), l.f.Val(v).DType)
	}
	var inner []core.AxisID
	for _, a := range t.loop[t.storage.position:] {
		if !l.isReduced(a) {
			inner = append(inner, l.m.LoopClass(a))
		}
	}
	var emit func(rest []core.AxisID) error
	emit = func(rest []core.AxisID) error {
		if len(rest) > 0 {
			return l.open(rest[0], func() error { return emit(rest[1:]) })
		}
		c := l.context(v, true)
		g, err := c.guard(id, true)
		if err != nil {
			return err
		}
		dst, err := c.write(v)
		if err != nil {
			return err
		}
		return l.conditional(c.holds(g), func() error {
			c.assign(dst, l.b.Const(f.identity(k)))
			return nil
		})
	}
	return emit(inner)
}

// reduction emits the statement of a reduction in a thread.
func (c *context) reduction(id core.ExprID) error {
	e := c.f.Expr(id)
	f := c.fold(e)
	g, err := c.guard(id, false)
	if err != nil {
		return err
	}
	c.limit(e)
	if len(e.Out) > 1 {
		if err := c.checkSiblings(e, g.among); err != nil {
			return err
		}
	}
	if f.state != nil && f.state.number > 0 && !e.Op.Merges && len(c.lowering.across(id)) == 0 {
		c.alike[id] = c.countsAlike(e, g)
		c.noteNumber(id, g)
	}
	return c.under(&guarded{id: id, g: g, fold: &f}, c.holds(g), func() error {
		x, err := c.contribution(e, f)
		if err != nil {
			return err
		}
		return c.accumulate(e, f, x)
	})
}

// contribution returns what the element that the statement reads adds.
func (c *context) contribution(e *core.Expr, f fold) ([]kir.ValueID, error) {
	x := make([]kir.ValueID, len(c.f.TensorArgs(e)))
	for k := range x {
		v, err := c.loadPart(e, k)
		if err != nil {
			return nil, err
		}
		x[k] = c.b.Cast(f.types[k], v)
	}
	return x, nil
}

// loadPart loads an operand without the rounding of its type, if that is the
// first step of the same reduction.
func (c *context) loadPart(e *core.Expr, k int) (kir.ValueID, error) {
	o := c.operand(e, k)
	if def := c.f.Val(o.v).Def; def == core.NoExpr || core.MergeOp(c.f.Expr(def).Op) != e.Op || c.f.Expr(def).Op.Class != core.Reduction {
		return c.loadAt(o)
	}
	at, err := c.read(o)
	if err != nil {
		return 0, err
	}
	return c.b.Value(kir.Value{Kind: kir.Load, DType: c.b.Kernel().Buffers[at.Buffer].DType, Access: at}), nil
}

// accumulate folds into the results a state, or one element.
func (c *context) accumulate(e *core.Expr, f fold, x []kir.ValueID) error {
	dst := make([]kir.Access, len(e.Out))
	old := make([]kir.ValueID, len(e.Out))
	for k, v := range e.Out {
		var err error
		if dst[k], err = c.write(v); err != nil {
			return err
		}
		old[k] = c.loadFrom(dst[k])
	}
	from := kir.BufferID(len(c.b.Kernel().Buffers))
	for k, v := range c.combine(f, old, x) {
		c.b.Add(kir.Assign{Dst: dst[k], Value: v})
	}
	if f.state != nil && (len(x) < len(dst) && f.state.addAll != nil || len(x) == len(dst) && f.state.mergeAll != nil) {
		c.additions[from] = &addition{f, dst, x, from, kir.BufferID(len(c.b.Kernel().Buffers))}
	}
	return nil
}

// checkSiblings fails if several threads compute the results of e and other ones
// of them would write one result than another: each reads all of the state.
func (c *context) checkSiblings(e *core.Expr, among []scalar.ID) error {
	for _, v := range e.Out[1:] {
		g, err := c.lowering.context(v, false).guard(c.f.Val(v).Def, false)
		if err != nil {
			return err
		}
		if c.all(g.among) != c.all(among) {
			return c.refuse("exchange", v, "%s and %s are results of one reduction and not in the same memory, and several threads compute them: cache them before", c.f.Name(e.Out[0]), c.f.Name(v))
		}
	}
	return nil
}

func (l *lowering) loadFrom(at kir.Access) kir.ValueID {
	return l.b.Value(kir.Value{Kind: kir.Load, DType: l.b.Kernel().Buffers[at.Buffer].DType, Access: at})
}

// temporary returns a value that is computed here, once.
func (l *lowering) temporary(name string, v kir.ValueID) kir.ValueID {
	id := l.b.Local(l.name(name), l.b.Kernel().Values[v].DType)
	l.b.Store(v, id)
	return l.b.Load(id)
}

// combine returns the fold of a and b.
func (l *lowering) combine(f fold, a, b []kir.ValueID) []kir.ValueID {
	switch {
	case f.state != nil && len(b) == 1:
		return f.state.add(l, f, a, b[0])
	case f.state != nil:
		return f.state.merge(l, f, a, b)
	}
	return []kir.ValueID{l.b.Op(f.op.Combine().Info(), a[0], b[0])}
}

// combineAll folds states: all at once, or in pairs, then pairs of pairs.
func (l *lowering) combineAll(f fold, states [][]kir.ValueID) []kir.ValueID {
	switch {
	case len(states) == 1:
		return states[0]
	case len(states) > 2 && f.state != nil && f.state.mergeAll != nil:
		return f.state.mergeAll(l, f, states, oneLane)
	}
	half := (len(states) + 1) / 2
	return l.combine(f, l.combineAll(f, states[:half]), l.combineAll(f, states[half:]))
}

// limit gives the results of e the limits of what it reads.
func (l *lowering) limit(e *core.Expr) {
	if dims, valid := l.limits(e); len(dims) > 0 {
		for _, v := range e.Out {
			l.limited[v] = limit{dims, valid}
		}
	}
}

// limits returns the dimensions of the grid of which only one block has the
// elements of what e reads, and the condition for being that block.
func (l *lowering) limits(e *core.Expr) (dims []schedule.Parallel, valid scalar.ID) {
	var all []scalar.ID
	for _, v := range l.f.TensorArgs(e) {
		if x, ok := l.limited[v]; ok {
			dims = append(dims, x.dims...)
			all = append(all, x.valid)
		}
	}
	slices.Sort(dims)
	return slices.Compact(dims), l.all(all)
}
