package lower

import (
	"fmt"
	"math"
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

	approximate bool // the approximations of the rows that a state is computed by will do
}

// A state is how the values of a reduction with several results are folded.
type state struct {
	identity func(f *fold, k int) scalar.Value
	of       func(l *lowering, f fold, x kir.ValueID) []kir.ValueID                  // of one element
	add      func(l *lowering, f fold, a []kir.ValueID, x kir.ValueID) []kir.ValueID // an element to a
	addAll   func(l *lowering, f fold, a, x []kir.ValueID) []kir.ValueID             // elements to a; nil: one after the other
	merge    func(l *lowering, f fold, a, b []kir.ValueID) []kir.ValueID
	counts   func(f *fold) bool // what is added counts, whatever it is

	// rescale returns the second value of part a for a first value that is the largest
	// of several parts. It is for a state of two values, the second of which are added
	// if the first are equal: lanes of a warp find the largest, rescale once and add,
	// which takes half the instructions of a merge at each step. nil: they merge.
	rescale func(l *lowering, f fold, a []kir.ValueID, largest kir.ValueID) kir.ValueID

	symmetric bool // a merged with b has the bits of b merged with a
}

// states holds those of the rows with several results and of their merges.
var states = map[*core.OpInfo]*state{core.WelfordOp: moments, core.MaxExpSumOp: maxExpSum}

func init() {
	for op, s := range states {
		states[core.MergeOp(op)] = s
	}
}

// moments is the state of welford: the mean, the sum of squares and the number of
// elements.
var moments = &state{
	identity: func(f *fold, k int) scalar.Value {
		if k == 0 && f.mayBeEmpty {
			return scalar.Value{Type: f.types[0], Re: math.NaN()}
		}
		return core.ConvertScalar(f.types[k], scalar.Value{Type: dtype.Int})
	},
	of: func(l *lowering, f fold, x kir.ValueID) []kir.ValueID {
		return []kir.ValueID{x, l.b.Const(core.ConvertScalar(f.types[1], scalar.Value{Type: dtype.Int})), l.b.Number(f.types[2], 1)}
	},
	add:    (*lowering).addToWelford,
	merge:  (*lowering).combineWelford,
	counts: func(*fold) bool { return true },
}

func (l *lowering) fold(e *core.Expr) fold {
	f := fold{op: e.Op, state: states[e.Op], approximate: l.approximate[l.f.Val(e.Out[0]).Def]}
	if e.Op.Merges { // there are parts, but each may be of nothing
		part := l.f.Val(l.f.TensorArgs(e)[0]).Def
		f.mayBeEmpty = part == core.NoExpr || l.f.Expr(part).Op.Class != core.Reduction || l.fold(l.f.Expr(part)).mayBeEmpty
	}
	for _, v := range e.Out {
		f.types = append(f.types, accumulator(l.f.Val(v).DType))
	}
	for _, a := range l.f.Val(e.Out[0]).Domain.Root {
		f.mayBeEmpty = f.mayBeEmpty || l.isReduced(a) && l.t.Facts(l.extent(a)).Lo < 1
	}
	return f
}

// isSymmetric reports whether a combined with b has the bits of b combined with a.
// A product of complex numbers has not where a compiler fuses a multiplication and
// an addition.
func (f *fold) isSymmetric() bool {
	if f.state != nil {
		return f.state.symmetric
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
	if l.s.Memory(v) == schedule.Global && f.types[k] != l.f.Val(v).DType {
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
	if f.state != nil && f.state.addAll != nil && len(x) < len(dst) {
		c.additions[from] = &addition{f, dst, x[0], from, kir.BufferID(len(c.b.Kernel().Buffers))}
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

// combineAll folds states in pairs, then pairs of pairs.
func (l *lowering) combineAll(f fold, states [][]kir.ValueID) []kir.ValueID {
	if len(states) == 1 {
		return states[0]
	}
	half := (len(states) + 1) / 2
	return l.combine(f, l.combineAll(f, states[:half]), l.combineAll(f, states[half:]))
}

// addToWelford adds one element, by B. P. Welford, Note on a Method for
// Calculating Corrected Sums of Squares and Products (1962).
func (l *lowering) addToWelford(f fold, a []kir.ValueID, x kir.ValueID) []kir.ValueID {
	op, t := l.b.Op, f.types[0]
	old := a[0]
	if f.mayBeEmpty {
		old = op(core.WhereOp, l.isZero(f, a[2]), l.b.Float(t, 0), old)
	}
	n := l.temporary("n", op(core.AddOp, a[2], l.b.Number(f.types[2], 1)))
	share := l.temporary("share", op(core.DivOp, l.b.Float(t, 1), l.b.Cast(t, n)))
	d := l.temporary("delta", op(core.SubOp, x, old))
	mean := l.weightedMean(old, x, d, op(core.MulOp, l.b.Cast(t, a[2]), share), share)
	squares := l.temporary("squares", op(core.AddOp, a[1], op(core.MulOp, d, op(core.SubOp, x, mean))))
	return []kir.ValueID{mean, squares, n}
}

// weightedMean returns the mean of a and b, which differ by d = b - a, with
// weights that add up to 1. The short form is wrong where d is not finite: the
// mean of an infinity and a number is that infinity, as their sum says, and that
// of two large numbers of different signs is a number.
func (l *lowering) weightedMean(a, b, d, weightA, weightB kir.ValueID) kir.ValueID {
	op := l.b.Op
	near := op(core.AddOp, a, op(core.MulOp, d, weightB))
	far := op(core.AddOp, op(core.MulOp, a, weightA), op(core.MulOp, b, weightB))
	return l.temporary("mean", op(core.WhereOp, op(core.IsFiniteOp, d), near, far))
}

func (l *lowering) isZero(f fold, n kir.ValueID) kir.ValueID {
	return l.b.Op(core.EqOp, n, l.b.Number(f.types[2], 0))
}

// combineWelford merges two parts: T. F. Chan, G. H. Golub, R. J. LeVeque,
// Updating Formulae and a Pairwise Algorithm for Computing Sample Variances
// (1979), formulas 2.1. Two empty parts give an empty one.
func (l *lowering) combineWelford(f fold, a, b []kir.ValueID) []kir.ValueID {
	op, t := l.b.Op, f.types[0]
	choose := func(name string, cond, x, y kir.ValueID) kir.ValueID {
		return l.temporary(name, op(core.WhereOp, cond, x, y))
	}
	zero := l.b.Float(t, 0)
	meanA, meanB := a[0], b[0]
	if f.mayBeEmpty { // the mean of nothing is NaN
		meanA, meanB = choose("mean", l.isZero(f, a[2]), zero, a[0]), choose("mean", l.isZero(f, b[2]), zero, b[0])
	}
	n := l.temporary("n", op(core.AddOp, a[2], b[2]))
	share := choose("share", l.isZero(f, b[2]), zero, op(core.DivOp, l.b.Cast(t, b[2]), l.b.Cast(t, n)))
	d := l.temporary("delta", op(core.SubOp, meanB, meanA))
	rest := choose("rest", l.isZero(f, a[2]), zero, op(core.DivOp, l.b.Cast(t, a[2]), l.b.Cast(t, n)))
	mean := l.weightedMean(meanA, meanB, d, rest, share)
	if f.mayBeEmpty {
		mean = choose("mean", l.isZero(f, n), l.b.Float(t, math.NaN()), mean)
	}
	// With an empty part, whose weight is 0, the square of d alone might overflow.
	between := op(core.MulOp, op(core.MulOp, op(core.MulOp, d, share), op(core.MulOp, d, rest)), l.b.Cast(t, n))
	squares := l.temporary("squares", op(core.AddOp, op(core.AddOp, a[1], b[1]), between))
	return []kir.ValueID{mean, squares, n}
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
