package core

import (
	endian "encoding/binary"
	"slices"

	"nvfuser_go/core/scalar"
)

// A Decision is the value that a size, or a scalar that sizes depend on, was
// given.
type Decision struct {
	Symbol scalar.ID // of the fusion that was concretised
	Value  scalar.Value
}

// Concretize returns f with no Symbolic axis in what its outputs need, no
// expand whose operand may have size 1, no reshape whose dimensions cannot
// be paired, and no dimension of an input, inside of others, that has size 1 in b and is
// no broadcast: sizes that decide such a thing are constants, with the values of b. All
// other sizes stay symbols, so the result serves each binding that agrees with the
// decisions, which are in ascending order of symbols. It is f itself if there is
// nothing to decide. Ids of values and expressions keep their meaning, and so do the
// streams of random operations.
//
// Values of elements stay as they are, even those that are sizes elsewhere.
func (f *Fusion) Concretize(b *Binding) (*Fusion, []Decision, error) {
	g, decided := f.Clone(), map[scalar.ID]scalar.ID{} // looking makes scalars
	var decisions []Decision
	for round := 0; ; round++ {
		var found []scalar.ID
		decide := func(s scalar.ID) {
			if _, ok := decided[s]; !ok {
				decided[s] = scalar.None
				found = append(found, s)
			}
		}
		if round == 0 {
			f.ones(b, decide)
		}
		g.undecided(round > 0, decide)
		if len(found) == 0 && round == 0 {
			return f, nil, nil
		} else if len(found) == 0 {
			slices.SortFunc(decisions, func(a, b Decision) int { return int(a.Symbol) - int(b.Symbol) })
			return g, decisions, nil
		}
		for _, s := range found {
			v, err := b.Value(s)
			if err != nil {
				return nil, nil, err
			}
			decisions = append(decisions, Decision{s, v})
		}
		g = f.Clone()
		for _, d := range decisions {
			decided[d.Symbol] = g.scalars.Value(d.Value)
		}
		if err := g.decide(f.Order(), decided); err != nil {
			return nil, nil, err
		}
		g.frozen = true
	}
}

// ones calls yield with the symbols that sizes of inputs are and that are 1 in b, of
// dimensions that lie in memory inside of others with more elements: memory goes on over
// them, which nobody could tell of a symbol, so that kernels of [64, 1, 4096] elements
// would divide, and those of [4096, 1] have no vectors. An outermost dimension stays as it
// is: one row takes the kernel of many.
func (f *Fusion) ones(b *Binding, yield func(scalar.ID)) {
	for _, v := range f.inputs {
		if !f.vals[v].Tensor {
			continue
		}
		isInside := false
		for _, a := range f.vals[v].Domain.Allocation() {
			s := f.Size(a)
			n, err := b.Int(s)
			if err == nil && n == 1 && isInside && f.scalars.Op(s) == scalar.Symbol {
				yield(s)
			}
			isInside = isInside || err == nil && n > 1
		}
	}
}

// undecided calls yield with the symbols that the kinds of axes depend on, as
// they were declared; with all with those of all sizes.
func (f *Fusion) undecided(all bool, yield func(scalar.ID)) {
	mark := func(sizes ...scalar.ID) {
		for _, s := range sizes {
			f.scalars.Symbols(s, yield)
		}
	}
	open := false
	for _, id := range f.Order() {
		e := &f.exprs[id]
		for _, v := range e.Out {
			d := &f.vals[v].Domain
			for _, axes := range [][]AxisID{d.Root, d.Logical} {
				for _, a := range axes {
					if f.axes[a].Kind == Symbolic {
						open = true
						mark(f.axes[a].Extent)
					}
				}
			}
		}
		switch e.Op {
		case ExpandOp:
			f.undecidedExpand(e, mark)
		case ReshapeOp:
			in, out := f.Shape(e.Args[0].Tensor), e.Args[1].Scalars
			if slices.ContainsFunc(f.runs(in, out), func(r run) bool { return !r.known }) && !slices.Equal(in, out) {
				open = true
				mark(in...)
				mark(out...)
			}
		}
	}
	if all && open {
		for _, v := range f.inputs {
			if f.vals[v].Tensor {
				mark(f.Shape(v)...)
			}
		}
		for _, id := range f.Order() {
			mark(f.Shape(f.exprs[id].Out[0])...)
		}
	}
}

// undecidedExpand marks the sizes of dimensions that may be expanded or not.
func (f *Fusion) undecidedExpand(e *Expr, mark func(...scalar.ID)) {
	out := f.Axes(e.Out[0])
	for i, a := range f.Axes(e.Args[0].Tensor) {
		if f.axes[out[i]].Kind == Symbolic && e.Args[1].Scalars[i] != f.Size(a) {
			mark(f.Size(a), e.Args[1].Scalars[i])
		}
	}
}

// decide replaces symbols by constants in the sizes of inputs and of order, and
// infers the results of those again.
func (f *Fusion) decide(order []ExprID, values map[scalar.ID]scalar.ID) error {
	done := map[scalar.ID]scalar.ID{}
	with := func(s scalar.ID) scalar.ID {
		if r, ok := done[s]; ok {
			return r
		}
		done[s] = f.evaluated(f.scalars.Substitute(s, func(symbol scalar.ID) (scalar.ID, bool) {
			v, ok := values[symbol]
			return v, ok
		}))
		return done[s]
	}
	for _, v := range f.inputs {
		if f.vals[v].Tensor {
			f.decideInput(&f.vals[v].Domain, with)
		}
	}
	for _, id := range order {
		if err := f.decideExpr(id, with); err != nil {
			return err
		}
	}
	return nil
}

// evaluated returns the value of s as a constant if it has no symbol: the
// algebra does not compute what it does not know.
func (f *Fusion) evaluated(s scalar.ID) scalar.ID {
	open := f.isConst(s)
	if !open {
		f.scalars.Symbols(s, func(scalar.ID) { open = true })
	}
	if open {
		return s
	}
	v, err := f.scalars.Eval(s, nil, EvalOpaque, nil)
	if err != nil {
		return s // the binding has told the user, if it matters
	}
	return f.scalars.Value(v)
}

// decideInput makes the axes of an input what DefineTensor makes of its sizes.
func (f *Fusion) decideInput(d *Domain, with func(scalar.ID) scalar.ID) {
	contig := slices.Clone(d.Contig)
	for k, a := range d.Allocation() {
		x := &f.axes[a]
		switch {
		case x.Kind == Iter:
			if x.Extent = with(x.Extent); f.isOne(x.Extent) {
				x.Kind, contig[k] = Broadcast, NotApplicable
			}
		case x.Expanded != scalar.None:
			if x.Expanded = with(x.Expanded); f.isOne(x.Expanded) {
				x.Expanded = scalar.None
			}
		}
	}
	d.Contig = contig
}

// decideExpr infers the results of an expression from its changed operands.
func (f *Fusion) decideExpr(id ExprID, with func(scalar.ID) scalar.ID) error {
	e := f.exprs[id]
	args := slices.Clone(e.Args)
	for i, p := range e.Op.Params() {
		switch p.Kind {
		case Extent:
			if args[i].Kind == ScalarArg {
				args[i].Scalar = with(args[i].Scalar)
			}
		case Shape:
			args[i].Scalars = slices.Clone(args[i].Scalars)
			for k, s := range args[i].Scalars {
				args[i].Scalars[k] = with(s)
			}
		}
	}
	inf, err := e.Op.infer(f, args)
	if err != nil {
		return err
	}
	e.Args, e.Requires = args, inf.Requires
	f.exprs[id] = e
	for k, v := range e.Out {
		f.vals[v].Domain = inf.Results[k].Domain
	}
	return nil
}

// infer returns what the row says of an expression with args.
func (op *OpInfo) infer(f *Fusion, args []Arg) (Inference, error) {
	rule := op.Infer
	if rule == nil {
		rule = inferElementwise
	}
	inf, err := rule(f, op, args)
	if err == nil {
		err = f.checkInference(op, inf)
	}
	return inf, err
}

// WithHostTensors returns f, which is frozen, with those input tensors without
// dimensions passed by value that onHost tells, by position. Ids keep their meaning.
func (f *Fusion) WithHostTensors(onHost func(i int) bool) *Fusion {
	g := f
	for i, v := range f.inputs {
		x := &f.vals[v]
		if !x.Tensor || len(x.Domain.Logical) > 0 || x.Domain.CPU == onHost(i) {
			continue
		}
		if g == f {
			g = f.Clone()
			g.frozen = true
		}
		g.vals[v].Domain.CPU = onHost(i)
	}
	return g
}

// NameAs gives values of f, which is being built as a part of from, the names that
// they have there; vals says which they are, by value of from. What is added later gets
// other names.
func (f *Fusion) NameAs(from *Fusion, vals map[ValID]ValID) {
	for v, w := range vals {
		f.vals[w].Number, f.vals[w].Extent = from.vals[v].Number, from.vals[v].Extent
	}
	f.numTensors, f.numScalars = from.numTensors, from.numScalars
}

// AppendUntold appends what the text form does not tell but for lines: the names of values,
// those of what is added later, how operations were called, and the streams of random ones.
// Fusions of equal texts for which it is equal are the same to who compiles them.
func (f *Fusion) AppendUntold(key []byte) []byte {
	key = endian.AppendVarint(endian.AppendVarint(key, int64(f.numTensors)), int64(f.numScalars))
	name := func(v ValID) {
		key = endian.AppendVarint(endian.AppendVarint(key, int64(f.vals[v].Number)), int64(f.vals[v].Extent))
	}
	for _, v := range f.inputs {
		name(v)
	}
	for _, id := range f.Order() {
		e := &f.exprs[id]
		if e.Called != e.Op {
			key = append(key, e.Called.Name...)
		}
		key = append(key, 0)
		if e.Op.Class == Random {
			key = endian.AppendVarint(key, int64(e.Stream))
		}
		for _, v := range e.Out {
			name(v)
		}
	}
	return key
}

// WithOutputs returns a frozen copy of f that has other outputs. Ids keep their
// meaning, and random operations their streams.
func (f *Fusion) WithOutputs(outputs []Output) *Fusion {
	g := f.Clone()
	g.outputs = slices.Clone(outputs)
	g.frozen = true
	return g
}
