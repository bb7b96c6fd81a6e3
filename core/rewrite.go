package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/scalar"
)

// A Rewrite says how a fusion is made from another one: expression by
// expression, in [Fusion.Order], so that what nothing needs is left out.
type Rewrite struct {
	// Rule returns tensors of r.To that stand for the results of e, which is
	// of r.From, or nil if e is to be computed as it was. args are the arguments
	// of e in r.To. What the rule appends has the line of e.
	Rule func(r *Rewriting, e *Expr, args []Arg) ([]ValID, error)

	// Broadcasts lets the axes of what stands for a result be broadcasts where
	// those of the result are not. Otherwise, and the other way round, the result
	// is computed as it was: its readers might be refused.
	Broadcasts bool

	// Sizes are those of dimensions of inputs, by their symbols in the fusion,
	// that become constants. None of them is negative.
	Sizes map[scalar.ID]int64
}

// A Rewriting is a rewrite under way: what a rule looks at.
type Rewriting struct {
	From, To *Fusion
	Changes  int // expressions of From that something else stands for

	how     *Rewrite
	vals    []ValID     // of To, by those of From
	scalars []scalar.ID // of To, by those of From
	uses    []int       // readers among the needed expressions, and places among the outputs, by ValID of From
	output  []bool      // by ValID of From
	readers []int       // of a tensor of To: the uses of all that it stands for
	taken   []bool      // tensors of To that stand for an output
}

// Rewritten returns the fusion that how makes of f, which is frozen and stays as
// it is, and the number of expressions that changed. The result is frozen. Its
// inputs and outputs are those of f in order, with their aliases; ids are new,
// but a tensor that stands for one of f has its name, an expression the line of
// the one that it comes from, and a random operation its stream. It has no
// records.
//
// No two outputs become one tensor, and no output becomes an input: they would
// share memory. A rule that proposes it is not followed there.
//
// An error is a mistake of the rule, or of sizes that contradict each other.
func (f *Fusion) Rewritten(how Rewrite) (*Fusion, int, error) {
	if !f.frozen {
		return nil, 0, fmt.Errorf("a fusion is rewritten after it is frozen")
	}
	r := &Rewriting{From: f, To: NewFusion(), how: &how,
		vals: make([]ValID, len(f.vals)), scalars: make([]scalar.ID, f.scalars.Len()),
		uses: make([]int, len(f.vals)), output: make([]bool, len(f.vals))}
	for i := range r.vals {
		r.vals[i] = NoVal
	}
	for i := range r.scalars {
		r.scalars[i] = scalar.None
	}
	r.To.numTensors, r.To.numRandom = f.numTensors, f.numRandom
	order := f.Order()
	for _, id := range order {
		f.forEachTensor(f.exprs[id].Args, func(v ValID) { r.uses[v]++ })
	}
	for _, o := range f.outputs {
		r.uses[o.Val]++
		r.output[o.Val] = true
	}
	for _, v := range f.inputs {
		if err := r.input(v); err != nil {
			return nil, 0, err
		}
	}
	r.To.numScalars = f.numScalars
	for _, id := range order {
		if err := r.expr(&f.exprs[id]); err != nil {
			return nil, 0, err
		}
	}
	for _, o := range f.outputs {
		alias := NoVal
		if o.Alias != NoVal {
			alias = r.vals[o.Alias]
		}
		r.To.outputs = append(r.To.outputs, Output{r.vals[o.Val], alias})
	}
	r.To.where, r.To.called = Location{}, nil
	r.To.frozen = true
	return r.To, r.Changes, nil
}

// input defines input v.
func (r *Rewriting) input(v ValID) error {
	x := &r.From.vals[v]
	numTensors := r.To.numTensors
	var u ValID
	var err error
	if x.Tensor {
		u, err = r.To.DefineTensor(r.description(v))
	} else {
		u, err = r.To.DefineScalar(x.DType)
	}
	if err != nil {
		return err
	}
	r.To.vals[u].Number, r.To.vals[u].Extent = x.Number, x.Extent
	r.To.numTensors = numTensors
	r.stand(v, u)
	return nil
}

// description is that of input v with the sizes that become constants.
func (r *Rewriting) description(v ValID) TensorDescription {
	t := r.From.Describe(v)
	if len(r.how.Sizes) == 0 {
		return t
	}
	t.Contiguity = slices.Clone(t.Contiguity)
	for i, s := range r.From.Shape(v) {
		n, ok := r.how.Sizes[s]
		if !ok {
			continue
		}
		if t.Shape[i] = n; n == 1 {
			for k, dim := range t.memoryOrder() {
				if dim == i {
					t.Contiguity[k] = NotApplicable
				}
			}
		}
	}
	return t
}

// Scalar returns what scalar s of From is in To. What has become constant is a
// constant, as it would be in a definition.
func (r *Rewriting) Scalar(s scalar.ID) scalar.ID {
	from := r.From.scalars
	done := func(s scalar.ID) bool { return r.scalars[s] != scalar.None }
	one := func(s scalar.ID) {
		if r.From.inline(s) {
			r.scalars[s] = r.To.scalars.Import(from, s, r.symbol)
			return
		}
		args := slices.Clone(from.Args(s))
		for i, a := range args {
			if !done(a) { // inline
				r.scalars[a] = r.To.scalars.Import(from, a, r.symbol)
			}
			args[i] = r.scalars[a]
		}
		r.scalars[s] = r.To.evaluated(r.To.scalars.Apply(from.Op(s), from.Type(s), args...))
	}
	r.From.eachScalar(s, from.Args, done, one)
	if !done(s) {
		one(s)
	}
	return r.scalars[s]
}

func (r *Rewriting) symbol(s scalar.ID) scalar.ID {
	tag := r.From.scalars.Tag(s)
	v := r.vals[tag.Val]
	if tag.Dim < 0 {
		return r.To.vals[v].Scalar
	}
	return r.To.Size(r.To.vals[v].Domain.Logical[tag.Dim])
}

func (r *Rewriting) arg(a Arg) Arg {
	switch a.Kind {
	case TensorArg:
		a.Tensor = r.vals[a.Tensor]
	case ScalarArg:
		a.Scalar = r.Scalar(a.Scalar)
	case TensorsArg:
		tensors := make([]ValID, len(a.Tensors))
		for i, v := range a.Tensors {
			tensors[i] = r.vals[v]
		}
		a.Tensors = tensors
	case ScalarsArg:
		scalars := make([]scalar.ID, len(a.Scalars))
		for i, s := range a.Scalars {
			scalars[i] = r.Scalar(s)
		}
		a.Scalars = scalars
	}
	return a
}

func (r *Rewriting) expr(e *Expr) error {
	args := make([]Arg, len(e.Args))
	for i, a := range e.Args {
		args[i] = r.arg(a)
	}
	r.To.where, r.To.called = e.Where, e.Called
	before, number := ValID(len(r.To.vals)), r.To.numTensors
	var out []ValID
	var err error
	if r.how.Rule != nil {
		out, err = r.how.Rule(r, e, args)
	}
	switch {
	case err != nil:
		return err
	case out != nil && r.accepts(e, out, before):
		r.Changes++
	default:
		if out, err = r.To.appendExpr(e.Op, args); err != nil {
			return err
		}
		r.To.exprs[len(r.To.exprs)-1].Stream = e.Stream
		r.To.numRandom = r.From.numRandom
	}
	r.name(e, out, before, number)
	for k, v := range e.Out {
		r.stand(v, out[k])
	}
	return nil
}

// accepts reports whether out can stand for the results of e. Tensors from
// before on were made for it.
func (r *Rewriting) accepts(e *Expr, out []ValID, before ValID) bool {
	if len(out) != len(e.Out) {
		return false
	}
	for k, v := range e.Out {
		u := out[k]
		x := &r.To.vals[u]
		if x.DType != r.From.vals[v].DType || !r.sameAxes(v, u) {
			return false
		}
		if r.output[v] && u < before && (x.Input || r.Taken(u)) {
			return false
		}
	}
	return true
}

// sameAxes reports whether the axes of u, of To, are like those of v, of From.
func (r *Rewriting) sameAxes(v, u ValID) bool {
	a, b := r.From.Axes(v), r.To.Axes(u)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		kind := r.To.axes[b[i]].Kind
		if kind != r.From.axes[a[i]].Kind && !(r.how.Broadcasts && kind == Broadcast) || r.Scalar(r.From.Size(a[i])) != r.To.Size(b[i]) {
			return false
		}
	}
	return true
}

// name gives the results that were made for e the names of those of e, and what
// was made beside them the next numbers.
func (r *Rewriting) name(e *Expr, out []ValID, before ValID, number int) {
	for u := before; int(u) < len(r.To.vals); u++ {
		if !r.To.vals[u].Tensor {
			continue
		}
		named := false
		for k := range out {
			if out[k] == u {
				r.To.vals[u].Number, named = r.From.vals[e.Out[k]].Number, true
			}
		}
		if !named {
			r.To.vals[u].Number = number
			number++
		}
	}
	r.To.numTensors = number
}

// stand notes that u is what v became.
func (r *Rewriting) stand(v, u ValID) {
	r.vals[v] = u
	for int(u) >= len(r.readers) {
		r.readers, r.taken = append(r.readers, 0), append(r.taken, false)
	}
	r.readers[u] += r.uses[v]
	r.taken[u] = r.taken[u] || r.output[v]
}

// Def returns the expression that defines u, a tensor of To; nil: u is an input.
func (r *Rewriting) Def(u ValID) *Expr {
	if d := r.To.vals[u].Def; d != NoExpr {
		return &r.To.exprs[d]
	}
	return nil
}

// Uses returns how many expressions and outputs of From read what u, a tensor of
// To, stands for: 0 if it stands for nothing.
func (r *Rewriting) Uses(u ValID) int {
	if int(u) >= len(r.readers) {
		return 0
	}
	return r.readers[u]
}

// Val returns the tensor of To that stands for v, of From.
func (r *Rewriting) Val(v ValID) ValID { return r.vals[v] }

// IsOutput reports whether v, of From, is an output.
func (r *Rewriting) IsOutput(v ValID) bool { return r.output[v] }

// Taken reports whether u, a tensor of To, stands for an output.
func (r *Rewriting) Taken(u ValID) bool { return int(u) < len(r.taken) && r.taken[u] }

// Apply adds op(args) to To with what a caller's call gets, and returns its
// first result.
func (r *Rewriting) Apply(op *OpInfo, args ...Arg) (ValID, error) { return r.To.apply1(op, args...) }
