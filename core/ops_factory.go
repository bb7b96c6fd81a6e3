package core

import (
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// FullOp repeats one number.
var FullOp = def(OpInfo{Name: "full", Group: groupFactory, Class: Factory,
	Signatures: signature(Param{Name: "shape", Kind: Shape}, Param{Name: "fill_value", Kind: Number}, Param{Name: "dtype", Kind: Dtype}),
	Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
		t := args[2].DType()
		if err := checkElementType(op, t); err != nil {
			return Inference{}, err
		}
		if err := f.checkValue(op, "fill_value", args[1].Scalar, t); err != nil {
			return Inference{}, err
		}
		return f.made(t, args[0].Scalars), nil
	},
	Eval: func(c *Evaluation) error {
		value, err := c.ScalarAt(1, c.Expr.Args[2].DType())
		if err != nil {
			return err
		}
		return c.fill(func(int64) scalar.Value { return value })
	},
	Torch: "torch.full(shape, fill_value, dtype=dtype)", TorchCall: "rows.number(fill_value, dtype, device).expand(shape)",
	Doc: "A tensor of the sizes of shape whose elements are all fill_value, converted to dtype. A complex fill_value needs a complex dtype."})

// made infers a result of dtype t whose elements come from their position.
func (f *Fusion) made(t dtype.Type, shape []scalar.ID) Inference {
	var inf Inference
	axes := make([]AxisID, len(shape))
	for i, s := range shape {
		axes[i] = f.sizeAxis(s)
	}
	inf.add(t, axes)
	return inf
}

// fill makes result 0 of the values at each row-major position.
func (c *Evaluation) fill(value func(i int64) scalar.Value) error {
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	for i := range int64(out.Len()) {
		out.Set(i, value(i))
	}
	return nil
}

// IotaOp counts. An Expr has all arguments.
var IotaOp = def(OpInfo{Name: "iota", Group: groupFactory, Class: Factory,
	Signatures: signature(Param{Name: "length", Kind: Extent},
		Param{Name: "start", Kind: Number, Optional: true}, Param{Name: "step", Kind: Number, Optional: true},
		Param{Name: "dtype", Kind: Dtype, Optional: true, Default: Given{Kind: GivenDType, Num: scalar.Value{I: int64(dtype.Int)}}}),
	Expand: expandIota, Infer: inferIota, Eval: evalIota,
	Torch: "[(torch.tensor(0 if start is None else start, dtype=c) + torch.tensor(1 if step is None else step, dtype=c) * " +
		"torch.arange(length, dtype=c)).to(dtype) for c in [torch.float64 if dtype.is_floating_point else torch.int64]][0]",
	TorchCall: "rows.iota(length, start, step, dtype, device)",
	Doc: "A vector of length numbers: start, start + step, start + 2*step, ... start is 0 and step is 1 unless given. " +
		"For an integer dtype both are converted to it and the sums wrap; " +
		"for a floating dtype element i is start + i*step in double precision, rounded once. No other dtype is taken."})

func expandIota(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	args = slices.Clone(args)
	for i, n := range []int64{0, 1} { // start and step
		if args[1+i].Kind == NoArg {
			args[1+i] = ScalarOf(f.scalars.Value(scalar.Value{Type: dtype.Int, I: n}))
		}
	}
	return f.appendExpr(op, args)
}

func inferIota(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	t := args[3].DType()
	if err := checkElementType(op, t); err != nil {
		return Inference{}, err
	}
	if !t.IsInt() && !t.IsFloat() {
		return Inference{}, invalidType("iota(): dtype is %v, and must be an integer or floating-point type", t)
	}
	for i, name := range []string{"start", "step"} {
		a := args[1+i]
		if a.Kind == NoArg {
			return Inference{}, invalidArgument("iota(): an expression has start and step")
		}
		if err := f.checkValue(op, name, a.Scalar, t); err != nil {
			return Inference{}, err
		}
	}
	return f.made(t, []scalar.ID{args[0].Scalar}), nil
}

func evalIota(c *Evaluation) error {
	t := c.Expr.Args[3].DType()
	compute := t
	if t.IsFloat() {
		compute = dtype.Double
	}
	start, err := c.ScalarAt(1, compute)
	if err != nil {
		return err
	}
	step, err := c.ScalarAt(2, compute)
	if err != nil {
		return err
	}
	return c.fill(func(i int64) scalar.Value {
		if t.IsFloat() {
			return scalar.Value{Type: t, Re: dtype.Round(t, start.Re+float64(i)*step.Re)}
		}
		return scalar.Value{Type: t, I: dtype.WrapInt(t, start.I+i*step.I)}
	})
}

// TriuOp keeps the upper triangle.
var TriuOp = def(OpInfo{Name: "triu", Group: groupIndexing, Class: Composite,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn},
		Param{Name: "diagonal", Kind: Extent, Optional: true, Default: Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.Int}}}),
	Expand: expandTriu,
	Torch:  "torch.triu(arg, diagonal)",
	Doc: "arg with 0 in place of the elements below a diagonal of its last two dimensions: those whose column minus row is less than diagonal. " +
		"arg has at least 2 dimensions."})

func expandTriu(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) {
	v, diagonal := args[0].Tensor, args[1]
	sizes := f.Shape(v)
	n := len(sizes)
	if n < 2 {
		return nil, invalidArgument("triu(): arg has %d dimensions; it needs at least 2", n)
	}
	b := builder{f: f}
	columns := b.apply("iota", ScalarOf(sizes[n-1]))
	rows := b.apply("broadcast", TensorOf(b.apply("iota", ScalarOf(sizes[n-2]))), BoolsOf(false, true))
	// The difference does not wrap, whereas adding a large diagonal could.
	keep := b.apply("ge", TensorOf(b.apply("sub", TensorOf(columns), TensorOf(rows))), diagonal)
	t := f.vals[v].DType
	out := b.apply("where", TensorOf(keep), TensorOf(v), f.zero(t))
	if b.err != nil {
		return nil, b.err
	}
	out, err := f.Cast(out, t)
	return []ValID{out}, err
}

// A builder applies ops by name until one of them fails.
type builder struct {
	f   *Fusion
	err error
}

func (b *builder) apply(name string, args ...Arg) ValID {
	if b.err != nil {
		return NoVal
	}
	var v ValID
	v, b.err = b.f.apply1(Lookup(name), args...)
	return v
}
