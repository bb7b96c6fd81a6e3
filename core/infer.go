package core

import (
	"errors"
	"fmt"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A TensorResult is the type of one result of an expression.
type TensorResult struct {
	DType  dtype.Type
	Domain Domain
}

// An Inference is what a row says of an expression from its arguments.
type Inference struct {
	Results  []TensorResult
	Requires []Requirement
}

func (i *Inference) add(t dtype.Type, axes []AxisID) {
	i.Results = append(i.Results, TensorResult{t, Domain{Root: axes, Logical: axes}})
}

// requireEqual notes that a and b, sizes, must be equal, or fails if they are
// known to differ. text names the rule: "sizes of dimension 1 must be equal".
func (f *Fusion) requireEqual(i *Inference, op *OpInfo, a, b scalar.ID, text string) error {
	return f.require(i, op, f.scalars.Eq(a, b), a, b, text)
}

// require notes that cond, a Bool, must hold, or fails if it is known not to.
func (f *Fusion) require(i *Inference, op *OpInfo, cond, left, right scalar.ID, text string) error {
	if c, ok := f.scalars.ConstValue(cond); ok {
		if c.I == 0 {
			return invalidArgument("%s(): %s%s", op.Name, text, f.values(left, right))
		}
		return nil
	}
	i.Requires = append(i.Requires, Requirement{Cond: cond, Left: left, Right: right, Text: text})
	return nil
}

// reword gives what is required for v, the result of an operation within another one, the rules
// of that one, in order: they name its arguments.
func (f *Fusion) reword(v ValID, rules []string) {
	for i := range f.exprs[f.vals[v].Def].Requires {
		f.exprs[f.vals[v].Def].Requires[i].Text = rules[i]
	}
}

// values prints two sizes for an error text: ", got 3 and 4".
func (f *Fusion) values(left, right scalar.ID) string {
	show := func(s scalar.ID) string {
		if c, ok := f.scalars.ConstValue(s); ok {
			return PythonLiteral(c)
		}
		return f.extentText(s)
	}
	switch {
	case left == scalar.None:
		return ""
	case right == scalar.None:
		return ", got " + show(left)
	}
	return ", got " + show(left) + " and " + show(right)
}

// beyond reports whether the size s has no symbol, and does not fit in 64 bits.
func (f *Fusion) beyond(s scalar.ID) bool {
	if facts := f.scalars.Facts(s); facts.Lo < maxExtent && facts.Hi > -1<<63 {
		return false
	}
	constant := true
	f.scalars.Symbols(s, func(scalar.ID) { constant = false })
	if !constant {
		return false
	}
	_, err := f.scalars.Eval(s, nil, EvalOpaque, nil)
	return errors.Is(err, scalar.ErrOverflow)
}

// checkInference holds the results against the limits of any tensor. It fills
// in Contig of results that have none: dense.
func (f *Fusion) checkInference(op *OpInfo, inf Inference) error {
	for k := range inf.Results {
		r := &inf.Results[k]
		rank, elements := 0, int64(1)
		for _, a := range r.Domain.Logical {
			if f.axes[a].Kind == Reduce {
				continue
			}
			rank++
			n, ok := f.scalars.ConstInt(f.Size(a))
			if !ok && f.beyond(f.Size(a)) {
				return invalidArgument("%s(): dimension %d of the result would have size %s, which does not fit in 64 bits", op.Name, rank-1, f.extentText(f.Size(a)))
			} else if !ok {
				continue
			}
			if n < 0 {
				return invalidArgument("%s(): dimension %d of the result would have size %d; a size is not negative", op.Name, rank-1, n)
			}
			if n > 1 && elements > maxExtent/n {
				return invalidArgument("%s(): the result would have more than 2^63-1 elements", op.Name)
			}
			if n > 1 {
				elements *= n
			}
		}
		if rank > MaxRank {
			return invalidArgument("%s(): the result would have %d dimensions; at most %d are supported", op.Name, rank, MaxRank)
		}
		if r.Domain.Contig == nil {
			r.Domain.Contig = f.dense(&r.Domain)
		}
	}
	return nil
}

// dense returns the contiguity of d without gaps.
func (f *Fusion) dense(d *Domain) []Tri {
	var contig []Tri
	for _, a := range d.Allocation() {
		c := Yes
		if k := f.axes[a].Kind; k == Broadcast || k == Reduce {
			c = NotApplicable
		}
		contig = append(contig, c)
	}
	return contig
}

// An operandType is what promotion reads of an operand.
func (f *Fusion) operandType(a Arg) (dtype.Type, int) {
	if a.Kind == TensorArg {
		if len(f.Axes(a.Tensor)) == 0 {
			return f.vals[a.Tensor].DType, zeroDim
		}
		return f.vals[a.Tensor].DType, dimensioned
	}
	return f.scalars.Type(a.Scalar), plainScalar
}

// promote returns the compute type of op on args and checks what op accepts.
func (f *Fusion) promote(op *OpInfo, args []Arg) (dtype.Type, error) {
	types, standing := make([]dtype.Type, 0, 3), make([]int, 0, 3)
	params := op.Params()
	for i, a := range args {
		if a.Kind != TensorArg && a.Kind != ScalarArg {
			continue
		}
		t, s := f.operandType(a)
		if i < op.Promote.Skip {
			if !t.IsBool() && !t.IsInt() {
				return t, invalidType("%s(): %s must be of bool or integer type, got %v", op.Name, params[i].Name, t)
			}
			continue
		}
		if !accepts(op.Promote.Accept, t) {
			return t, invalidType("%s(): %s must be of %v type, got %v", op.Name, params[i].Name, op.Promote.Accept, t)
		}
		types, standing = append(types, t), append(standing, s)
	}
	// The value of an op like where may come from scalars alone while its
	// condition is a tensor: they are weak then, as beside a tensor.
	anyTensor := false
	for _, a := range args {
		anyTensor = anyTensor || a.Kind == TensorArg
	}
	t, err := op.Promote.computeType(op, types, standing)
	if err != nil {
		return t, err
	}
	if anyTensor {
		allScalar := true
		for _, s := range standing {
			allScalar = allScalar && s == plainScalar
		}
		if allScalar && op.Promote.Compute != BoolOperands {
			t = weak(t)
		}
	}
	if op.Meaning.Any == nil && !t.Computes() {
		return t, invalidType("%s(): %v has no arithmetic; cast it to a wider type", op.Name, t)
	}
	if !accepts(op.Promote.Accept, t) && op.Promote.Compute != BoolOperands {
		return t, invalidType("%s(): operands have the common type %v, and the op takes %v types", op.Name, t, op.Promote.Accept)
	}
	return t, nil
}

// operandCompute is the type that operand i of an elementwise op has when the
// op computes in t.
func (op *OpInfo) operandCompute(i int, t dtype.Type) dtype.Type {
	if i < op.Promote.Skip {
		return dtype.Bool
	}
	return t
}

// expandElementwise gives the operands of op one type and one rank, and appends
// it; without a tensor operand the result is a scalar.
func expandElementwise(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	rank := -1
	for _, a := range args {
		if a.Kind == TensorArg {
			rank = max(rank, f.Rank(a.Tensor))
		}
	}
	if rank < 0 {
		s, err := f.scalarOp(op, args)
		if err != nil {
			return nil, err
		}
		return []ValID{f.ScalarVal(s)}, nil
	}
	t, err := f.promote(op, args)
	if err != nil {
		return nil, err
	}
	args = append([]Arg(nil), args...)
	for i := range args {
		if args[i].Kind != TensorArg {
			continue
		}
		v := args[i].Tensor
		if want := op.operandCompute(i, t); f.vals[v].DType != want {
			if v, err = f.Cast(v, want); err != nil {
				return nil, err
			}
		}
		if n := f.Rank(v); n < rank {
			flags := make([]bool, rank)
			for k := range rank - n {
				flags[k] = true
			}
			if v, err = f.apply1(Lookup("broadcast"), TensorOf(v), BoolsOf(flags...)); err != nil {
				return nil, err
			}
		}
		args[i].Tensor = v
	}
	return f.appendExpr(op, args)
}

// Cast returns v converted to t; v itself if it has that type.
func (f *Fusion) Cast(v ValID, t dtype.Type) (ValID, error) {
	if f.vals[v].DType == t {
		return v, nil
	}
	return f.apply1(Lookup("cast"), TensorOf(v), DTypeOf(t))
}

// inferElementwise is the rule of elementwise ops: operands of one rank; an
// axis is a broadcast if it is one in every operand.
func inferElementwise(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	t, err := f.promote(op, args)
	if err != nil {
		return inf, err
	}
	for i, a := range args {
		want, name := op.operandCompute(i, t), op.Params()[i].Name
		switch {
		case a.Kind == TensorArg && f.vals[a.Tensor].DType != want:
			return inf, invalidType("%s(): %s is %v and must be %v", op.Name, name, f.vals[a.Tensor].DType, want)
		case a.Kind == ScalarArg && want.IsInt():
			if err := f.checkValue(op, name, a.Scalar, want); err != nil {
				return inf, err
			}
		}
	}
	axes, err := f.elementwiseAxes(&inf, op, args)
	if err != nil {
		return inf, err
	}
	inf.add(op.Promote.resultType(t), axes)
	return inf, nil
}

// elementwiseAxes returns the axes of the result of an elementwise expression.
func (f *Fusion) elementwiseAxes(inf *Inference, op *OpInfo, args []Arg) ([]AxisID, error) {
	var operands []ValID
	f.forEachTensor(args, func(v ValID) { operands = append(operands, v) })
	if len(operands) == 0 {
		return nil, invalidArgument("%s(): no operand is a tensor", op.Name)
	}
	axes := make([]AxisID, f.Rank(operands[0]))
	for _, v := range operands[1:] {
		if f.Rank(v) != len(axes) {
			return nil, invalidArgument("%s(): operands have %d and %d dimensions", op.Name, len(axes), f.Rank(v))
		}
	}
	var err error
	for i := range axes {
		if axes[i], err = f.combineAxes(inf, op, operands, i); err != nil {
			return nil, err
		}
	}
	return axes, nil
}

// combineAxes returns the axis of an elementwise result from axis i of its
// operands.
func (f *Fusion) combineAxes(inf *Inference, op *OpInfo, operands []ValID, i int) (AxisID, error) {
	axes := make([]AxisID, len(operands))
	for k, v := range operands {
		axes[k] = f.Axes(v)[i]
	}
	return f.combine(inf, op, axes, func() string { return fmt.Sprintf("sizes of dimension %d must be equal", i) })
}

// combine returns a new axis for a result that runs along all of axes: of the
// sizes that are not broadcast, a constant one if there is one, else the first.
// The others must equal it; rule is the text of that.
func (f *Fusion) combine(inf *Inference, op *OpInfo, axes []AxisID, rule func() string) (AxisID, error) {
	best, kind := scalar.None, Iter
	for _, id := range axes {
		a := f.axes[id]
		if a.Kind == Broadcast {
			continue
		}
		if a.Kind == Symbolic && best == scalar.None {
			kind = Symbolic
		} else if a.Kind == Iter {
			kind = Iter
		}
		if _, isConst := f.scalars.ConstInt(a.Extent); best == scalar.None || isConst && !f.isConst(best) {
			best = a.Extent
		}
	}
	expanded, want := scalar.None, best
	for _, id := range axes {
		a := f.axes[id]
		size := a.Extent
		if a.Kind == Broadcast {
			if size = a.Expanded; size == scalar.None {
				continue
			}
			if want == scalar.None {
				expanded, want = size, size
			}
		}
		if size == want {
			continue // nearly always; the rule's text is not made
		}
		if err := f.requireEqual(inf, op, want, size, rule()); err != nil {
			return NoAxis, err
		}
	}
	if best == scalar.None {
		return f.broadcastAxis(expanded), nil
	}
	a := f.iterAxis(best)
	f.axes[a].Kind = kind
	return a, nil
}

func (f *Fusion) isConst(s scalar.ID) bool {
	_, ok := f.scalars.ConstValue(s)
	return ok
}
