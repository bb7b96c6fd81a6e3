package core

import (
	"slices"

	"nvfuser_go/core/dtype"
)

// TwoPassWelford lets each welford() whose number of elements nothing reads be a sum
// divided by that number, and a sum of squared distances from that mean: cheaper than a
// pass that corrects a mean, where the elements are at hand twice. It returns, for the
// mean that was, the sum that it is computed from now. Those for which keep is true of the
// mean stay as they are; nil: none.
func (f *Fusion) TwoPassWelford(keep func(mean ValID) bool) (map[ValID]ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return nil, err
	}
	sums := map[ValID]ValID{}
	for _, id := range f.Order() {
		e := f.exprs[id]
		if e.Op != WelfordOp || f.isNeeded(e.Out[2]) || keep != nil && keep(e.Out[0]) {
			continue
		}
		sum, mean, squares, err := f.twoPass(e.Args[0].Tensor, e.Args[1].Ints)
		if err != nil {
			return nil, err
		}
		for k, instead := range []ValID{mean, squares} {
			if err := f.replace(e.Out[k], instead); err != nil {
				return nil, err
			}
		}
		sums[e.Out[0]] = sum
	}
	return sums, nil
}

// isNeeded reports whether v is an output or read.
func (f *Fusion) isNeeded(v ValID) bool {
	return f.vals[v].Uses > 0 || slices.ContainsFunc(f.outputs, func(o Output) bool { return o.Val == v })
}

// twoPass returns the sum of v along dims, the mean, and the sum of the squares of the
// distances from that.
func (f *Fusion) twoPass(v ValID, dims []int64) (sum, mean, squares ValID, err error) {
	add := func(v ValID) ValID {
		var s ValID
		if err == nil {
			s, err = f.apply1(SumOp, TensorOf(v), IntsOf(dims...))
		}
		return s
	}
	apply := func(op *OpInfo, args ...Arg) ValID {
		var r ValID
		if err == nil {
			r, err = f.apply1(op, args...)
		}
		return r
	}
	n, isReduced := f.scalars.Int(1), make([]bool, f.Rank(v))
	for _, d := range dims {
		n, isReduced[d] = f.scalars.Mul(n, f.Size(f.Axes(v)[d])), true
	}
	sum = add(v)
	mean = apply(TrueDivOp, TensorOf(sum), ScalarOf(f.castScalar(n, dtype.Double)))
	distance := apply(SubOp, TensorOf(v), TensorOf(apply(BroadcastOp, TensorOf(mean), BoolsOf(isReduced...))))
	return sum, mean, add(apply(MulOp, TensorOf(distance), TensorOf(distance))), err
}

// replace lets whoever reads from, or has it as an output, have to.
func (f *Fusion) replace(from, to ValID) error {
	for _, id := range f.Order() {
		if slices.Contains(f.TensorArgs(&f.exprs[id]), from) {
			if err := f.Redirect(id, from, to); err != nil {
				return err
			}
		}
	}
	f.ReplaceOutput(from, to)
	return nil
}
