package core

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

type (
	ValID       uint32 // a tensor or scalar of a Fusion
	ExprID      uint32 // an expression of a Fusion
	AxisID      uint32 // an axis of a Fusion
	TransformID uint32 // a transform between axes of a Fusion
)

// Absent ids.
const (
	NoVal       = ValID(1<<32 - 1)
	NoExpr      = ExprID(1<<32 - 1) // the definition of an input and of a scalar
	NoAxis      = AxisID(1<<32 - 1)
	NoTransform = TransformID(1<<32 - 1)
)

// MaxRank bounds the number of dimensions of a tensor.
const MaxRank = 32

// A Val is a value of a fusion: a tensor, or a scalar known on the host.
type Val struct {
	DType  dtype.Type
	Tensor bool
	Input  bool
	Def    ExprID    // of a tensor; NoExpr for an input
	Number int       // N of the printed name tvN or cN
	Extent int       // of an input tensor: the N of its first extent's name
	Scalar scalar.ID // of a scalar
	Domain Domain    // of a tensor
	Uses   int       // expressions that read it (a tensor), counted as they are made
}

// A Requirement is a condition on sizes and scalars that must hold for the
// expression to have a meaning, where it could not be decided at definition.
type Requirement struct {
	Cond        scalar.ID // a Bool
	Left, Right scalar.ID // shown with their values when Cond is false; may be None
	Text        string    // the rule, in the user's terms: "sizes of dimension 1 must be equal"
}

// An Expr is one operation: Out = Op(Args). It never changes.
type Expr struct {
	Op       *OpInfo
	Args     []Arg // one per parameter of the row
	Out      []ValID
	Requires []Requirement
	Stream   int      // of a Random op: its place in the order of random ops
	Called   *OpInfo  // by the user's program: Op, or what expanded to it
	Where    Location // of that call
}

// A Location is a line of the user's program; the zero value is unknown.
type Location struct {
	File string
	Line int
}

func (l Location) String() string {
	if l.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", l.File, l.Line)
}

// An Output is a result of a fusion.
type Output struct {
	Val   ValID
	Alias ValID // the input whose memory receives it, or NoVal; then it is not returned
}

// A Fusion is a program: inputs, expressions, outputs. See the package comment
// for its invariants. A Fusion that is not frozen is used by one goroutine; a
// frozen one by any number.
type Fusion struct {
	vals       []Val
	exprs      []Expr
	axes       []Axis
	transforms []Transform
	scalars    *scalar.Table
	inputs     []ValID
	outputs    []Output
	scalarVals map[scalar.ID]ValID // the value that wraps a scalar expression
	numTensors int
	numScalars int // names given out: an input tensor takes one per dimension and one more
	numRandom  int // in order of definition; Freeze renumbers in order of use
	frozen     bool
	called     *OpInfo  // the operation that Call is adding
	where      Location // given to the expressions being made
	records    []Record
}

// A Record is one call of the user's program, in order. The fusion's graph says
// what the calls mean; records say what was called, and where, for diagnostics.
type Record struct {
	Op      *OpInfo
	Where   Location
	Results []ValID
}

// Records returns the calls that built f.
func (f *Fusion) Records() []Record { return f.records }

// NewFusion returns an empty fusion.
func NewFusion() *Fusion {
	return &Fusion{scalars: scalar.NewTable(), scalarVals: map[scalar.ID]ValID{}}
}

// Clone returns an unfrozen copy in which every id keeps its meaning.
func (f *Fusion) Clone() *Fusion {
	g := *f
	g.vals = slices.Clone(f.vals)
	g.exprs = slices.Clone(f.exprs)
	g.axes = slices.Clone(f.axes)
	g.transforms = slices.Clone(f.transforms)
	g.scalars = f.scalars.Clone()
	g.inputs = slices.Clone(f.inputs)
	g.outputs = slices.Clone(f.outputs)
	g.records = slices.Clone(f.records)
	g.scalarVals = make(map[scalar.ID]ValID, len(f.scalarVals))
	for s, v := range f.scalarVals {
		g.scalarVals[s] = v
	}
	g.frozen = false
	return &g
}

// NumRandom returns how many random operations the outputs of f, which is frozen,
// need: Expr.Stream counts them.
func (f *Fusion) NumRandom() int {
	n := 0
	for _, id := range f.Order() {
		if e := &f.exprs[id]; e.Op.Class == Random {
			n = max(n, e.Stream+1)
		}
	}
	return n
}

// Freeze ends building. It is idempotent. Random ops are numbered in the order
// of the text form, so that fusions of equal text draw equal numbers.
func (f *Fusion) Freeze() {
	if f.frozen {
		return
	}
	f.frozen = true
	n := 0
	for _, id := range f.Order() {
		if e := &f.exprs[id]; e.Op.Class == Random {
			e.Stream = n
			n++
		}
	}
}

// Frozen reports whether Freeze was called.
func (f *Fusion) Frozen() bool { return f.frozen }

// Val returns the value of id; it is valid until the next value is made.
func (f *Fusion) Val(id ValID) *Val { return &f.vals[id] }

// Expr returns the expression of id; it is valid until the next one is made.
func (f *Fusion) Expr(id ExprID) *Expr { return &f.exprs[id] }

// DefinedBy returns the expression that defines the tensor a, if it is of op, else nil; it
// is valid until the next one is made.
func (f *Fusion) DefinedBy(a Arg, op *OpInfo) *Expr {
	if a.Kind != TensorArg || f.vals[a.Tensor].Def == NoExpr {
		return nil
	}
	if e := f.Expr(f.vals[a.Tensor].Def); e.Op == op {
		return e
	}
	return nil
}

// Axis returns the axis of id; it is valid until the next one is made.
func (f *Fusion) Axis(id AxisID) *Axis { return &f.axes[id] }

// Transform returns the transform of id.
func (f *Fusion) Transform(id TransformID) *Transform { return &f.transforms[id] }

func (f *Fusion) NumVals() int           { return len(f.vals) }
func (f *Fusion) NumExprs() int          { return len(f.exprs) }
func (f *Fusion) NumAxes() int           { return len(f.axes) }
func (f *Fusion) Inputs() []ValID        { return f.inputs }
func (f *Fusion) Outputs() []Output      { return f.outputs }
func (f *Fusion) Scalars() *scalar.Table { return f.scalars }

// SetLocation names the line of the user's program that the next expressions
// come from.
func (f *Fusion) SetLocation(l Location) { f.where = l }

func (f *Fusion) checkBuilding() error {
	if f.frozen {
		return invalidArgument("the fusion is complete: operations and outputs are added inside its `with FusionDefinition() as fd:` block")
	}
	return nil
}

// ScalarVal returns the value that wraps s.
func (f *Fusion) ScalarVal(s scalar.ID) ValID {
	if v, ok := f.scalarVals[s]; ok {
		return v
	}
	v := ValID(len(f.vals))
	x := Val{DType: f.scalars.Type(s), Def: NoExpr, Scalar: s, Number: f.numScalars}
	if extent, ok := f.extentNumber(s); ok {
		x.Number = extent
	} else if !f.isConst(s) {
		f.numScalars++
	}
	f.vals = append(f.vals, x)
	f.scalarVals[s] = v
	return v
}

// extentNumber returns the N of the name of s if it is the extent of an input.
func (f *Fusion) extentNumber(s scalar.ID) (int, bool) {
	if f.scalars.Op(s) != scalar.Symbol {
		return 0, false
	}
	tag := f.scalars.Tag(s)
	if tag.Dim < 0 {
		return 0, false
	}
	return f.vals[tag.Val].Extent + int(tag.Dim), true
}

// DefineScalar adds an input scalar of type t.
func (f *Fusion) DefineScalar(t dtype.Type) (ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return NoVal, err
	}
	if !t.Computes() {
		return NoVal, invalidType("define_scalar(): dtype is %v; a scalar has one of the whole-byte types", t)
	}
	v := ValID(len(f.vals))
	s := f.scalars.Symbol(t, scalar.Tag{Val: uint32(v), Dim: -1}, scalarFacts(t))
	f.vals = append(f.vals, Val{DType: t, Input: true, Def: NoExpr, Scalar: s, Number: f.numScalars})
	f.numScalars++
	f.scalarVals[s] = v
	f.inputs = append(f.inputs, v)
	return v, nil
}

// Constant returns the scalar value of v.
func (f *Fusion) Constant(v scalar.Value) ValID { return f.ScalarVal(f.scalars.Value(v)) }

// AddOutput makes v a result of the fusion. alias, if not NoVal, is the input
// tensor whose memory receives it.
func (f *Fusion) AddOutput(v, alias ValID) error {
	if err := f.checkBuilding(); err != nil {
		return err
	}
	x := f.vals[v]
	if !x.Tensor {
		return invalidArgument("add_output(): output is a scalar; a fusion returns tensors (use full([], scalar, dtype) for a 0-dimensional one)")
	}
	if alias != NoVal {
		a := f.vals[alias]
		switch {
		case !a.Tensor || !a.Input:
			return invalidArgument("add_output(): alias_input must be an input tensor of the fusion, and %s is not", f.Name(alias))
		case a.DType != x.DType:
			return invalidType("add_output(): output is %v but alias_input is %v; cast the output first", x.DType, a.DType)
		case len(f.Shape(alias)) != len(f.Shape(v)):
			return invalidArgument("add_output(): output has %d dimensions but alias_input has %d", len(f.Shape(v)), len(f.Shape(alias)))
		}
		for i, e := range f.Shape(alias) {
			n, okn := f.scalars.ConstInt(e)
			m, okm := f.scalars.ConstInt(f.Shape(v)[i])
			if okn && okm && n != m {
				return invalidArgument("add_output(): dimension %d of output has size %d but that of alias_input has %d", i, m, n)
			}
		}
		for _, o := range f.outputs {
			if o.Alias == alias {
				return invalidArgument("add_output(): %s is the alias_input of another output already", f.Name(alias))
			}
		}
	}
	f.outputs = append(f.outputs, Output{v, alias})
	return nil
}

// Name returns the printed name of v: tvN, cN or a literal.
func (f *Fusion) Name(v ValID) string {
	x := &f.vals[v]
	if x.Tensor {
		return fmt.Sprintf("tv%d", x.Number)
	}
	if c, ok := f.scalars.ConstValue(x.Scalar); ok {
		return PythonLiteral(c)
	}
	return fmt.Sprintf("c%d", x.Number)
}

// appendExpr infers the results of op(args) and appends the expression. The
// args are normalised. On an error the fusion is as it was.
func (f *Fusion) appendExpr(op *OpInfo, args []Arg) ([]ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return nil, err
	}
	if err := f.checkArgs(op, args); err != nil {
		return nil, err
	}
	numAxes, numTransforms := len(f.axes), len(f.transforms)
	inf, err := op.infer(f, args)
	if err != nil {
		f.axes, f.transforms = f.axes[:numAxes], f.transforms[:numTransforms]
		return nil, err
	}
	e := Expr{Op: op, Args: args, Requires: inf.Requires, Called: op, Where: f.where, Out: make([]ValID, len(inf.Results))}
	if f.called != nil {
		e.Called = f.called
	}
	if op.Class == Random {
		e.Stream = f.numRandom
		f.numRandom++
	}
	for i, r := range inf.Results {
		e.Out[i] = f.newTensor(r.DType, r.Domain, ExprID(len(f.exprs)))
	}
	f.forEachTensor(args, func(v ValID) { f.vals[v].Uses++ })
	f.exprs = append(f.exprs, e)
	return e.Out, nil
}

// Append adds the expression op(args) with normalised arguments, as the text
// form has it: nothing is promoted or broadcast.
func (f *Fusion) Append(op *OpInfo, args []Arg) ([]ValID, error) { return f.appendExpr(op, args) }

// Apply adds op(args) with normalised arguments, with the rewriting that a
// caller's call gets: promotion, broadcasting, composites.
func (f *Fusion) Apply(op *OpInfo, args ...Arg) ([]ValID, error) {
	if err := f.checkBuilding(); err != nil && op.Class != Query {
		return nil, err
	}
	args, err := f.withDefaults(op, args)
	if err != nil {
		return nil, err
	}
	switch {
	case op.Expand != nil:
		return op.Expand(f, op, args)
	case op.Class == Elementwise:
		return expandElementwise(f, op, args)
	}
	return f.appendExpr(op, args)
}

// apply1 is Apply for an op with one result.
func (f *Fusion) apply1(op *OpInfo, args ...Arg) (ValID, error) {
	out, err := f.Apply(op, args...)
	if err != nil {
		return NoVal, err
	}
	return out[0], nil
}

func (f *Fusion) newTensor(t dtype.Type, d Domain, def ExprID) ValID {
	f.vals = append(f.vals, Val{DType: t, Tensor: true, Def: def, Number: f.numTensors, Domain: d, Scalar: scalar.None})
	f.numTensors++
	return ValID(len(f.vals) - 1)
}

// forEachTensor calls yield for each tensor among args, in order.
func (f *Fusion) forEachTensor(args []Arg, yield func(ValID)) {
	for i := range args {
		switch args[i].Kind {
		case TensorArg:
			yield(args[i].Tensor)
		case TensorsArg:
			for _, v := range args[i].Tensors {
				yield(v)
			}
		}
	}
}

// TensorArgs returns the tensor operands of e in order.
func (f *Fusion) TensorArgs(e *Expr) []ValID {
	var in []ValID
	f.forEachTensor(e.Args, func(v ValID) { in = append(in, v) })
	return in
}

// Order returns the expressions that the outputs need, each after those that it
// reads: depth first from the outputs that nothing else reads, operands from
// left to right. It depends on the graph alone, not on ids.
func (f *Fusion) Order() []ExprID {
	needed := f.needed()
	read := make([]bool, len(f.vals)) // by a needed expression
	for i := range f.exprs {
		if needed[i] {
			f.forEachTensor(f.exprs[i].Args, func(v ValID) { read[v] = true })
		}
	}
	var order []ExprID
	seen := make([]bool, len(f.exprs))
	for _, o := range f.outputs {
		if !read[o.Val] {
			order = f.visit(order, seen, f.vals[o.Val].Def)
		}
	}
	return order
}

// needed marks the expressions that the outputs depend on.
func (f *Fusion) needed() []bool {
	needed := make([]bool, len(f.exprs))
	var stack []ExprID
	push := func(v ValID) {
		if e := f.vals[v].Def; e != NoExpr && !needed[e] {
			needed[e] = true
			stack = append(stack, e)
		}
	}
	for _, o := range f.outputs {
		push(o.Val)
	}
	for len(stack) > 0 {
		e := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f.forEachTensor(f.exprs[e].Args, push)
	}
	return needed
}

// visit appends root and what it depends on to order, operands first. It keeps
// its own stack: definitions may be hundreds of thousands of ops deep.
func (f *Fusion) visit(order []ExprID, seen []bool, root ExprID) []ExprID {
	type frame struct {
		expr ExprID
		in   []ValID
	}
	if root == NoExpr || seen[root] {
		return order
	}
	seen[root] = true
	stack := []frame{{root, f.TensorArgs(&f.exprs[root])}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.in) == 0 {
			order = append(order, top.expr)
			stack = stack[:len(stack)-1]
			continue
		}
		d := f.vals[top.in[0]].Def
		top.in = top.in[1:]
		if d != NoExpr && !seen[d] {
			seen[d] = true
			stack = append(stack, frame{d, f.TensorArgs(&f.exprs[d])})
		}
	}
	return order
}
