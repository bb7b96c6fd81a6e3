package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/scalar"
)

// Edits of a fusion by those who schedule it, on their own Clone. They keep
// what Verify checks and what the outputs mean. Ids stay valid; an expression
// that an edit adds may have a greater id than one that reads its result.

// NumTransforms returns the number of transforms: ids are below it.
func (f *Fusion) NumTransforms() int { return len(f.transforms) }

// AddTransform appends t with new axes as its results, in order. The inputs of
// a transform have smaller ids than its results, so ascending ids are a
// topological order.
func (f *Fusion) AddTransform(t Transform, out ...Axis) TransformID {
	id := TransformID(len(f.transforms))
	t.Out = [2]AxisID{NoAxis, NoAxis}
	for k, a := range out {
		a.Def = id
		t.Out[k] = f.newAxis(a)
	}
	f.transforms = append(f.transforms, t)
	return id
}

// AddAxis appends a root axis like a.
func (f *Fusion) AddAxis(a Axis) AxisID {
	a.Def = NoTransform
	return f.newAxis(a)
}

// Redirect makes expression id read to wherever it reads from. The two have one
// dtype and equal sizes.
func (f *Fusion) Redirect(id ExprID, from, to ValID) error {
	if err := f.checkBuilding(); err != nil {
		return err
	}
	if f.vals[from].DType != f.vals[to].DType || !slices.Equal(f.Shape(from), f.Shape(to)) {
		return fmt.Errorf("%s cannot stand for %s: their dtypes or sizes differ", f.Name(to), f.Name(from))
	}
	e := &f.exprs[id]
	args := slices.Clone(e.Args)
	for i := range args {
		switch args[i].Kind {
		case TensorArg:
			if args[i].Tensor == from {
				args[i].Tensor = to
				f.moveUse(from, to)
			}
		case TensorsArg:
			args[i].Tensors = slices.Clone(args[i].Tensors)
			for k, v := range args[i].Tensors {
				if v == from {
					args[i].Tensors[k] = to
					f.moveUse(from, to)
				}
			}
		}
	}
	e.Args = args
	return nil
}

func (f *Fusion) moveUse(from, to ValID) {
	f.vals[from].Uses--
	f.vals[to].Uses++
}

// ReplaceOutput makes to the output wherever from is one.
func (f *Fusion) ReplaceOutput(from, to ValID) {
	for i := range f.outputs {
		if f.outputs[i].Val == from {
			f.outputs[i].Val = to
		}
	}
}

// CopyOf returns a new tensor, a copy of v that nothing reads.
func (f *Fusion) CopyOf(v ValID) (ValID, error) {
	out, err := f.appendExpr(SetOp, []Arg{TensorOf(v)})
	if err != nil {
		return NoVal, err
	}
	return out[0], nil
}

// Repeat appends an expression that computes what id does once more, a random one the
// same numbers, and returns its results, which nothing reads.
func (f *Fusion) Repeat(id ExprID) ([]ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return nil, err
	}
	old, random := f.exprs[id], f.numRandom
	out, err := f.appendExpr(old.Op, old.Args)
	if err != nil {
		return nil, err
	}
	f.numRandom = random
	e := &f.exprs[len(f.exprs)-1]
	e.Stream, e.Called, e.Where = old.Stream, old.Called, old.Where
	return out, nil
}

// CopyBefore moves the definition of v, with its axes, to a new tensor and
// makes v a copy of that, with axes of its own. If the definition says how v is
// laid out in memory it stays, and its operand is copied.
func (f *Fusion) CopyBefore(v ValID) (ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return NoVal, err
	}
	id := f.vals[v].Def
	if id == NoExpr {
		return NoVal, fmt.Errorf("%s is an input and has no definition to move", f.Name(v))
	}
	if f.exprs[id].Op == StrideOrderOp {
		from := f.exprs[id].Args[0].Tensor
		to, err := f.CopyOf(from)
		if err == nil {
			err = f.Redirect(id, from, to)
		}
		return to, err
	}
	u := f.newTensor(f.vals[v].DType, f.vals[v].Domain, id)
	inf, err := inferElementwise(f, SetOp, []Arg{TensorOf(u)})
	if err == nil {
		err = f.checkInference(SetOp, inf)
	}
	if err != nil {
		f.vals = f.vals[:u]
		f.numTensors--
		return NoVal, err
	}
	f.redefine(id, v, u)
	f.vals[v].Domain = inf.Results[0].Domain
	f.vals[v].Def = ExprID(len(f.exprs))
	f.exprs = append(f.exprs, Expr{Op: SetOp, Args: []Arg{TensorOf(u)}, Out: []ValID{v}, Called: f.exprs[id].Called, Where: f.exprs[id].Where})
	f.vals[u].Uses = 1
	return u, nil
}

// redefine makes u the result of expression id that v was.
func (f *Fusion) redefine(id ExprID, v, u ValID) {
	out := slices.Clone(f.exprs[id].Out)
	out[slices.Index(out, v)] = u
	f.exprs[id].Out = out
}

// ReduceInSteps makes the reduction id compute new tensors that have the domains
// of partial, one a result, and lets an expression that it appends reduce the
// dimensions rest of those to the results, whose axes are made anew. The new
// tensors are returned. In partial, Root has a Reduce axis exactly where the
// operand is reduced in the first step; Logical is made from Root by splits and
// merges, and its Reduce axes are what the first step leaves none of.
func (f *Fusion) ReduceInSteps(id ExprID, partial []Domain, rest []int64) ([]ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return nil, err
	}
	first := f.exprs[id]
	second := MergeOp(first.Op)
	switch {
	case second == nil:
		return nil, fmt.Errorf("%s cannot be computed in two steps", first.Op.Name)
	case len(partial) != len(first.Out):
		return nil, fmt.Errorf("%s has %d results, got %d domains", first.Op.Name, len(first.Out), len(partial))
	}
	results := first.Out
	first.Out, first.Args = nil, slices.Clone(first.Args)
	for k, d := range partial {
		d.Contig = f.dense(&d)
		first.Out = append(first.Out, f.newTensor(f.vals[results[k]].DType, d, id))
	}
	dims := 1
	if first.Op.Merges {
		dims = len(first.Out)
	}
	first.Args[dims] = IntsOf(f.reducedRoots(partial[0].Root)...)
	args, err := f.mergeArgs(first, rest)
	var inf Inference
	if err == nil {
		inf, err = second.Infer(f, second, args)
	}
	if err == nil {
		err = f.checkInference(second, inf)
	}
	if err != nil {
		f.vals = f.vals[:first.Out[0]]
		f.numTensors -= len(first.Out)
		return nil, err
	}
	f.exprs[id] = first
	for k, v := range results {
		f.vals[v].Domain, f.vals[v].Def = inf.Results[k].Domain, ExprID(len(f.exprs))
	}
	f.exprs = append(f.exprs, Expr{Op: second, Args: args, Out: results, Called: first.Called, Where: first.Where})
	f.forEachTensor(args, func(v ValID) { f.vals[v].Uses++ })
	return first.Out, nil
}

// reducedRoots lists the positions of Reduce axes.
func (f *Fusion) reducedRoots(root []AxisID) []int64 {
	var dims []int64
	for i, a := range root {
		if f.axes[a].Kind == Reduce {
			dims = append(dims, int64(i))
		}
	}
	return dims
}

// mergeArgs returns the arguments of the second step of first over dims.
func (f *Fusion) mergeArgs(first Expr, dims []int64) ([]Arg, error) {
	if MergeOp(first.Op).Merges {
		var args []Arg
		for _, v := range first.Out {
			args = append(args, TensorOf(v))
		}
		return append(args, IntsOf(dims...)), nil
	}
	args := slices.Clone(first.Args)
	args[0], args[1] = TensorOf(first.Out[0]), IntsOf(dims...)
	return args, f.checkArgs(first.Op, args)
}

// MergeOp returns the op that combines partial results of the reduction op, or
// nil if there is none: the parts of an op that is not associative and
// commutative cannot be combined.
func MergeOp(op *OpInfo) *OpInfo {
	switch {
	case op.Merges:
		return op
	case op.Merge != nil:
		return op.Merge
	case op.Class == Reduction && op.Combine != nil:
		if c := op.Combine().Info(); c.Associates && c.Commutes {
			return op
		}
	}
	return nil
}

// isPartial reports whether d is that of the first step of a reduction: of its
// root axes some are reduced in parts.
func (f *Fusion) isPartial(d *Domain) bool {
	return !slices.Equal(d.Root, d.Logical) &&
		slices.ContainsFunc(d.Logical, func(a AxisID) bool { return f.axes[a].Kind == Reduce })
}

// eachFolded calls yield with the position of each element of the operand of
// the reduction c, in order, and that of the result element that it belongs to.
func (c *Evaluation) eachFolded(shape, dims []int64, yield func(i, o int64)) error {
	d := &c.f.vals[c.Expr.Out[0]].Domain
	if !c.f.isPartial(d) {
		eachReduced(shape, dims, yield)
		return nil
	}
	p := newPointMap(c.Binding, d)
	out, err := c.Shape(c.Expr.Out[0])
	if err != nil {
		return err
	}
	i, at := int64(0), make([]int64, len(out))
	axes := c.f.Axes(c.Expr.Out[0])
	EachIndex(shape, func(index []int64) {
		p.set(d.Root, index)
		for k, a := range axes {
			at[k] = p.index[a]
		}
		yield(i, Offset(out, at))
		i++
	})
	return p.err
}

// A pointMap carries the index of a point from the root axes of a tensor to the
// axes made from them.
type pointMap struct {
	b          *Binding
	index      map[AxisID]int64
	transforms []TransformID // on the way to Logical, ascending
	err        error
}

func newPointMap(b *Binding, d *Domain) *pointMap {
	p := &pointMap{b: b, index: map[AxisID]int64{}}
	seen := map[TransformID]bool{}
	stack := slices.Clone(d.Logical)
	for len(stack) > 0 {
		a := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if a == NoAxis {
			continue
		}
		if t := b.f.axes[a].Def; t != NoTransform && !seen[t] && !slices.Contains(d.Root, a) {
			seen[t] = true
			p.transforms = append(p.transforms, t)
			stack = append(stack, b.f.transforms[t].In[:]...)
		}
	}
	slices.Sort(p.transforms)
	return p
}

func (p *pointMap) extent(s scalar.ID) int64 {
	n, err := p.b.Int(s)
	if err != nil && p.err == nil {
		p.err = err
	}
	return max(n, 1)
}

func (p *pointMap) set(root []AxisID, index []int64) {
	for k, a := range root {
		p.index[a] = index[k]
	}
	for _, id := range p.transforms {
		t := &p.b.f.transforms[id]
		switch i := p.index[t.In[0]]; t.Kind {
		case Split:
			n := p.extent(p.b.f.axes[t.Out[1]].Extent)
			p.index[t.Out[0]], p.index[t.Out[1]] = i/n, i%n
		case Merge:
			p.index[t.Out[0]] = i*p.extent(p.b.f.axes[t.In[1]].Extent) + p.index[t.In[1]]
		case Shift: // by how much tells which parts there are, not what they are parts of
			p.index[t.Out[0]] = i
		case ResizeAxis:
			p.err = fmt.Errorf("a partial reduction has a resized axis")
		}
	}
}
