package core

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"nvfuser_go/core/scalar"
)

// ReshapeOp gives the elements, in row-major order, other dimensions.
//
// Root is the axes of arg. Runs of dimensions with provably equal products
// ([Fusion.runs]) lead to Logical by merges and splits; where nothing is provable
// the logical axes stand for themselves. Of dimensions of size 1, those of arg
// end in Root and those of the result begin in Logical, as broadcasts.
var ReshapeOp = def(OpInfo{Name: "reshape", Group: groupView, Class: View,
	Signatures: signature(Param{Name: "arg", Kind: TensorIn}, Param{Name: "new_shape", Kind: Shape}),
	Expand:     expandReshape, Infer: inferReshape,
	NeedsWhole: reshapedWhole,
	Eval:       copyInOrder,
	Torch:      "arg.reshape(new_shape)",
	Doc: "The elements of arg, in row-major order, with the sizes of new_shape, which has as many elements as arg. " +
		"One entry may be -1: it becomes what the others leave."})

func expandReshape(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	shape := slices.Clone(args[1].Scalars)
	infer := -1
	for i, s := range shape {
		n, ok := f.scalars.ConstInt(s)
		switch {
		case !ok || n >= 0:
			continue
		case n < -1:
			return nil, negativeSize(i, n)
		case infer >= 0:
			return nil, invalidArgument("reshape(): new_shape has -1 at %d and at %d; only one size can be inferred", infer, i)
		}
		infer = i
	}
	if infer >= 0 {
		others := slices.Delete(slices.Clone(shape), infer, infer+1)
		s, err := f.inferredSize(f.Shape(args[0].Tensor), others)
		if err != nil {
			return nil, invalidArgument("reshape(): new_shape is %s: %v", f.listText(shape), err)
		}
		shape[infer] = s
	}
	return f.appendExpr(op, []Arg{args[0], ScalarsOf(shape...)})
}

func negativeSize(i int, n int64) error {
	return invalidArgument("reshape(): new_shape[%d] is %d; a size is not negative (one may be -1, to be inferred)", i, n)
}

// listText prints sizes for an error text: [2, ?, 3].
func (f *Fusion) listText(sizes []scalar.ID) string {
	parts := make([]string, len(sizes))
	for i, s := range sizes {
		if parts[i] = "?"; f.isConst(s) {
			n, _ := f.scalars.ConstInt(s)
			parts[i] = fmt.Sprint(n)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// inferredSize returns the product of sizes divided by that of others, without
// the factors that they share.
func (f *Fusion) inferredSize(sizes, others []scalar.ID) (scalar.ID, error) {
	n, numerator, _ := f.factors(sizes)
	d, divisor, ok := f.factors(others)
	switch {
	case !ok:
		return scalar.None, fmt.Errorf("it has more than 2^63-1 elements")
	case d == 0:
		return scalar.None, fmt.Errorf("-1 is ambiguous, because the other sizes multiply to 0")
	}
	var rest []scalar.ID // of the divisor
	for _, s := range divisor {
		if i := slices.Index(numerator, s); i >= 0 {
			numerator = slices.Delete(numerator, i, i+1)
		} else {
			rest = append(rest, s)
		}
	}
	if n%d == 0 {
		n, d = n/d, 1
	} else if len(numerator)+len(rest) == 0 {
		return scalar.None, fmt.Errorf("the other sizes multiply to %d, which does not divide the %d elements of arg", d, n)
	}
	top := f.scalars.Mul(f.scalars.Int(n), f.product(numerator))
	bottom := f.scalars.Mul(f.scalars.Int(d), f.product(rest))
	if top == bottom { // also where both are 0 and any size would do
		return f.scalars.Int(1), nil
	}
	return f.scalars.TruncDiv(top, bottom), nil // as div makes it, where a size may be negative
}

// factors returns sizes as a constant times factors that are not constants. It
// fails if the constant exceeds 64 bits.
func (f *Fusion) factors(sizes []scalar.ID) (constant int64, factors []scalar.ID, ok bool) {
	constant, ok = 1, true
	stack := slices.Clone(sizes)
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n, isConst := f.scalars.ConstInt(s); isConst {
			hi, lo := bits.Mul64(uint64(constant), uint64(n)) // n < 0: not a size
			constant, ok = int64(lo), ok && n >= 0 && hi == 0 && lo <= maxExtent
		} else if f.scalars.Op(s) == scalar.Mul {
			stack = append(stack, f.scalars.Args(s)...)
		} else {
			factors = append(factors, s)
		}
	}
	return constant, factors, ok
}

// product returns the product of sizes.
func (f *Fusion) product(sizes []scalar.ID) scalar.ID {
	p := f.scalars.Int(1)
	for _, s := range sizes {
		p = f.scalars.Mul(p, s)
	}
	return p
}

// A run is a range of dimensions of a reshape's operand that becomes a range of
// dimensions of its result. If known, the products of their sizes are equal for
// any sizes; the rest of the elements may still be none.
type run struct {
	in, out []int
	known   bool
}

// runs pairs the dimensions of sizes with those of shape, those of size 1 left
// out: the shortest known runs from the front, then from the back, then one of
// what is left between them.
func (f *Fusion) runs(sizes, shape []scalar.ID) []run {
	in, out := f.dimsNotOne(sizes), f.dimsNotOne(shape)
	zero := f.scalars.Int(0)
	if slices.Contains(sizes, zero) || slices.Contains(shape, zero) {
		return []run{{in, out, false}} // any product is that of any other
	}
	var runs []run
	take := func(fromEnd bool) bool {
		n, m := f.shortestRun(sizes, shape, in, out, fromEnd)
		switch {
		case n == 0:
			return false
		case fromEnd:
			i, k := len(in)-n, len(out)-m
			runs = append(runs, run{in[i:], out[k:], true})
			in, out = in[:i], out[:k]
		default:
			runs = append(runs, run{in[:n], out[:m], true})
			in, out = in[n:], out[m:]
		}
		return true
	}
	for take(false) {
	}
	for take(true) {
	}
	if len(in)+len(out) > 0 {
		runs = append(runs, run{in, out, false})
	}
	return runs
}

// dimsNotOne lists the dimensions whose size is not the constant 1.
func (f *Fusion) dimsNotOne(sizes []scalar.ID) []int {
	var dims []int
	for d, s := range sizes {
		if !f.isOne(s) {
			dims = append(dims, d)
		}
	}
	return dims
}

// shortestRun returns how many dimensions of in and of out, counted from one
// end, have the same product; 0 if it cannot be proved of any.
func (f *Fusion) shortestRun(sizes, shape []scalar.ID, in, out []int, fromEnd bool) (n, m int) {
	products := func(sizes []scalar.ID, dims []int) []scalar.ID {
		p := []scalar.ID{f.scalars.Int(1)}
		for i := range dims {
			d := dims[i]
			if fromEnd {
				d = dims[len(dims)-1-i]
			}
			p = append(p, f.scalars.Mul(p[i], sizes[d]))
		}
		return p
	}
	a, b := products(sizes, in), products(shape, out)
	for total := 2; total <= len(in)+len(out); total++ {
		for n := max(1, total-len(out)); n < total && n <= len(in); n++ {
			if a[n] == b[total-n] {
				return n, total - n
			}
		}
	}
	return 0, 0
}

func inferReshape(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	v, shape := args[0].Tensor, args[1].Scalars
	sizes := f.Shape(v)
	for i, s := range shape {
		if n, ok := f.scalars.ConstInt(s); ok && n < 0 {
			return inf, negativeSize(i, n)
		}
	}
	if err := f.requireEqual(&inf, op, f.product(sizes), f.product(shape), "arg and new_shape must have the same number of elements"); err != nil {
		return inf, err
	}
	r := reshaping{f: f, shape: shape, logical: make([]AxisID, len(shape))}
	for _, a := range f.Axes(v) {
		r.root = append(r.root, f.copyAxis(a))
	}
	if slices.Equal(sizes, shape) {
		r.logical = r.root
	} else {
		for i, s := range shape {
			if f.isOne(s) {
				r.logical[i] = f.broadcastAxis(scalar.None)
			}
		}
		for _, run := range f.runs(sizes, shape) {
			r.connect(run)
		}
	}
	inf.Results = []TensorResult{{DType: f.vals[v].DType, Domain: Domain{Root: r.root, Logical: r.logical}}}
	return inf, nil
}

// A reshaping builds the axes of a reshape.
type reshaping struct {
	f             *Fusion
	shape         []scalar.ID
	root, logical []AxisID
}

// connect makes the logical axes of a run.
func (r *reshaping) connect(run run) {
	f := r.f
	repeats := true // arg is the same at every position of the run
	for _, i := range run.in {
		repeats = repeats && f.axes[r.root[i]].Kind == Broadcast
	}
	switch {
	case run.known && len(run.in) == 1 && len(run.out) == 1:
		r.logical[run.out[0]] = r.root[run.in[0]]
	case run.known && repeats:
		for _, k := range run.out {
			r.logical[k] = f.broadcastAxis(r.shape[k])
		}
	case run.known:
		r.regroup(run)
	default:
		for _, k := range run.out {
			r.logical[k] = f.sizeAxis(r.shape[k])
		}
	}
}

// regroup merges the axes of the run into one and splits that, the last first.
func (r *reshaping) regroup(run run) {
	f := r.f
	for _, i := range run.in {
		r.root[i] = f.realAxis(r.root[i])
	}
	whole := r.root[run.in[0]]
	for _, i := range run.in[1:] {
		whole = f.mergeAxes(whole, r.root[i], f.scalars.Mul(f.axes[whole].Extent, f.axes[r.root[i]].Extent))
	}
	outer := []scalar.ID{f.scalars.Int(1)} // products of the sizes before an axis
	for i, k := range run.out {
		outer = append(outer, f.scalars.Mul(outer[i], r.shape[k]))
	}
	for i := len(run.out) - 1; i > 0; i-- {
		whole, r.logical[run.out[i]] = f.splitAxis(whole, outer[i], r.shape[run.out[i]])
	}
	r.logical[run.out[0]] = whole
}

// reshapedWhole lists the axes of arg that no transform connects to the result.
func reshapedWhole(f *Fusion, e *Expr) []int {
	d := &f.vals[e.Out[0]].Domain
	reached := map[AxisID]bool{}
	stack := slices.Clone(d.Logical)
	for len(stack) > 0 {
		a := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if reached[a] || a == NoAxis {
			continue
		}
		reached[a] = true
		if t := f.axes[a].Def; t != NoTransform {
			stack = append(stack, f.transforms[t].In[:]...)
		}
	}
	var whole []int
	for i, a := range d.Root {
		if !f.isOne(f.axes[a].Extent) && !reached[a] { // a broadcast has one element
			whole = append(whole, i)
		}
	}
	return whole
}
