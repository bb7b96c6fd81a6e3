package core

import "slices"

// TwoPassExponentials lets each _max_exp_sum() that exponentials are divided by the sum of be a maximum and a sum of those exponentials,
// and a share of them a product with one reciprocal: where a thread has a row, and nothing is exchanged, that takes each exponential once
// rather than twice. It returns, for the maximum that was, the one that is computed instead.
func (f *Fusion) TwoPassExponentials() (map[ValID]ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return nil, err
	}
	instead := map[ValID]ValID{}
	for _, id := range slices.Clone(f.Order()) {
		e := f.exprs[id]
		if e.Op != MaxExpSumOp {
			continue
		}
		shares := f.sharesOf(&e)
		if len(shares) == 0 {
			continue
		}
		largest, err := f.twoPassExponentials(&e, shares)
		if err != nil {
			return nil, err
		}
		instead[e.Out[0]] = largest
	}
	return instead, nil
}

// twoPassExponentials computes what shares have of e otherwise, and returns the maximum.
func (f *Fusion) twoPassExponentials(e *Expr, shares []Expr) (largest ValID, err error) {
	apply := func(op *OpInfo, args ...Arg) (v ValID) {
		if err == nil {
			v, err = f.apply1(op, args...)
		}
		return v
	}
	replace := func(from, to ValID) {
		if err == nil {
			err = f.replace(from, to)
		}
	}
	dims := IntsOf(e.Args[1].Ints...)
	largest = apply(MaxOp, e.Args[0], dims)
	replace(e.Out[0], largest)
	exponentials := apply(ExpOp, shares[0].Args[0])
	sum := apply(SumOp, TensorOf(exponentials), dims)
	reciprocal := apply(ReciprocalOp, TensorOf(sum))
	for _, x := range shares {
		along := f.DefinedBy(x.Args[1], BroadcastOp).Args[1]
		replace(x.Out[0], apply(MulOp, TensorOf(exponentials), TensorOf(apply(BroadcastOp, TensorOf(reciprocal), along))))
	}
	replace(e.Out[1], sum)
	return largest, err
}

// sharesOf returns what divides the exponentials of e, which is a _max_exp_sum(), by their sum: those of one distance from the maximum.
func (f *Fusion) sharesOf(e *Expr) (shares []Expr) {
	for _, id := range f.Order() {
		x := f.exprs[id]
		if x.Op != ExpShareOp || len(shares) > 0 && x.Args[0].Tensor != shares[0].Args[0].Tensor {
			continue
		}
		by, distance := f.DefinedBy(x.Args[1], BroadcastOp), f.DefinedBy(x.Args[0], SubOp)
		if by == nil || by.Args[0].Tensor != e.Out[1] || distance == nil || distance.Args[0].Kind != TensorArg || distance.Args[0].Tensor != e.Args[0].Tensor {
			continue
		}
		if from := f.DefinedBy(distance.Args[1], BroadcastOp); from != nil && from.Args[0].Tensor == e.Out[0] {
			shares = append(shares, x)
		}
	}
	return shares
}
