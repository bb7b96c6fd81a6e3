package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// scan fills a row for an op that keeps every prefix of a fold along one
// dimension. In its expressions arg has the type of the result, and so has init.
func scan(name string, accept Accept, resultType func(dtype.Type) dtype.Type, combine func() Op,
	identity func(dtype.Type) scalar.Value, torch, torchCall, doc string) OpInfo {
	if resultType == nil {
		resultType = func(t dtype.Type) dtype.Type { return t }
	}
	return OpInfo{Name: name, Group: groupScan, Class: Scan,
		Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "dim", Kind: Dim},
			Param{Name: "init", Kind: Number, Optional: true}),
		Promote: Promotion{Accept: accept},
		Expand: func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
			v := args[0].Tensor
			if err := checkAccepted(op, "arg", f.vals[v].DType); err != nil {
				return nil, err
			}
			t := resultType(f.vals[v].DType)
			v, err := f.Cast(v, t)
			if err != nil {
				return nil, err
			}
			init, err := f.numberAs(op, "init", args[2], t)
			if err != nil {
				return nil, err
			}
			return f.appendExpr(op, []Arg{TensorOf(v), args[1], init})
		},
		Infer: func(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
			return inferScan(f, op, resultType, args)
		},
		NeedsWhole: wholeDim(1), Eval: evalScan,
		Combine: combine, Identity: identity, Torch: torch, TorchCall: torchCall, Doc: doc + scanDoc}
}

const scanDoc = " init, if given, is combined before the first element; it is converted to the type of the result. " +
	"Elements are combined in float64, int64, uint64 or complex128, and each result is rounded once; " +
	"by GPU kernels in parts, and in Float where they are Float or narrower."

const scanAccumulationDoc = " Integers and bools give Int (UInt64 stays); floating-point and complex types are kept."

var CumsumOp = def(scan("cumsum", AcceptAll, accumulated, func() Op { return AddOp.Op() }, number(0),
	"torch.cumsum(arg, dim) if init is None else torch.cumsum(arg, dim) + init", "rows.scan(torch.cumsum, torch.add, arg, dim, init, device)",
	"The sums of the elements of arg up to and including each position along dim."+scanAccumulationDoc))

var CumprodOp = def(scan("cumprod", AcceptAll, accumulated, func() Op { return MulOp.Op() }, number(1),
	"torch.cumprod(arg, dim) if init is None else torch.cumprod(arg, dim) * init", "rows.scan(torch.cumprod, torch.mul, arg, dim, init, device)",
	"The products of the elements of arg up to and including each position along dim."+partialProductsDoc+scanAccumulationDoc))

var CummaxOp = def(scan("cummax", AcceptReal, nil, func() Op { return MaximumOp.Op() }, least,
	"torch.cummax(arg, dim).values if init is None else torch.maximum(torch.cummax(arg, dim).values, torch.tensor(init, dtype=arg.dtype))",
	"rows.scan_extreme(torch.cummax, torch.maximum, arg, dim, init, device)",
	"The largest of the elements of arg up to and including each position along dim, NaN from the first NaN on. The type is that of arg."))

var CumminOp = def(scan("cummin", AcceptReal, nil, func() Op { return MinimumOp.Op() }, greatest,
	"torch.cummin(arg, dim).values if init is None else torch.minimum(torch.cummin(arg, dim).values, torch.tensor(init, dtype=arg.dtype))",
	"rows.scan_extreme(torch.cummin, torch.minimum, arg, dim, init, device)",
	"The smallest of the elements of arg up to and including each position along dim, NaN from the first NaN on. The type is that of arg."))

// numberAs returns the optional scalar argument a converted to t. A number of a
// higher class than t, such as a complex one for a floating type, is refused.
func (f *Fusion) numberAs(op *OpInfo, param string, a Arg, t dtype.Type) (Arg, error) {
	if a.Kind == NoArg {
		return a, nil
	}
	if from := f.scalars.Type(a.Scalar); category(from) > category(t) {
		return a, invalidType("%s(): %s is a number of type %v, which %v does not hold", op.Name, param, from, t)
	}
	return ScalarOf(f.castScalar(a.Scalar, t)), nil
}

// checkNumber returns an error unless the optional scalar argument a is of type t.
func (f *Fusion) checkNumber(op *OpInfo, param string, a Arg, t dtype.Type) error {
	if a.Kind != NoArg && f.scalars.Type(a.Scalar) != t {
		return invalidType("%s(): %s is of type %v and must be %v in an expression", op.Name, param, f.scalars.Type(a.Scalar), t)
	}
	return nil
}

// wholeDim returns the NeedsWhole of ops that read along the dimension that
// their argument i names.
func wholeDim(i int) func(*Fusion, *Expr) []int {
	return func(_ *Fusion, e *Expr) []int { return []int{int(e.Args[i].Int)} }
}

func inferScan(f *Fusion, op *OpInfo, resultType func(dtype.Type) dtype.Type, args []Arg) (Inference, error) {
	var inf Inference
	v := args[0].Tensor
	t := f.vals[v].DType
	if err := checkAccepted(op, "arg", t); err != nil {
		return inf, err
	}
	if want := resultType(t); want != t {
		return inf, invalidType("%s(): arg is %v and must have the type of the result, %v", op.Name, t, want)
	}
	if err := f.checkNumber(op, "init", args[2], t); err != nil {
		return inf, err
	}
	inf.add(t, f.axesAlong(v, args[1].Int))
	return inf, nil
}

// axesAlong returns copies of the axes of v for a result that varies along dim:
// an expanded broadcast there becomes an iteration.
func (f *Fusion) axesAlong(v ValID, dim int64) []AxisID {
	in := f.Axes(v)
	axes := make([]AxisID, len(in))
	for i, a := range in {
		if axes[i] = f.copyAxis(a); int64(i) == dim {
			f.materialise(axes[i])
		}
	}
	return axes
}

// materialise makes the new root axis a one whose elements differ: an expanded
// broadcast becomes an iteration over the extent that it shows.
func (f *Fusion) materialise(a AxisID) {
	if x := &f.axes[a]; x.Expanded != scalar.None {
		*x = Axis{Extent: x.Expanded, Expanded: scalar.None, Kind: f.kindOfSize(x.Expanded), Def: NoTransform}
	}
}

// denseAxis is copyAxis for a result whose elements differ along the axis.
func (f *Fusion) denseAxis(a AxisID) AxisID {
	b := f.copyAxis(a)
	f.materialise(b)
	return b
}

// evalScan goes through the elements in row-major order and keeps one running
// value for each line along dim.
func evalScan(c *Evaluation) error {
	x := c.In(0)
	out, err := c.Out(0)
	if err != nil {
		return err
	}
	by, err := newFold(c.Expr.Op, x.Type)
	if err != nil {
		return err
	}
	start := by.empty
	if c.Has(2) {
		init, err := c.ScalarAt(2, x.Type)
		if err != nil {
			return err
		}
		start = by.combine(start, init)
	}
	running := make(map[int64]scalar.Value)
	eachReduced(x.Shape, []int64{c.Expr.Args[1].Int}, func(i, line int64) {
		acc, ok := running[line]
		if !ok {
			acc = start
		}
		running[line] = by.combine(acc, x.At(i))
		out.Set(i, ConvertScalar(out.Type, running[line]))
	})
	return nil
}
