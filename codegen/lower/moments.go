package lower

import (
	"math"
	"math/bits"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// moments is the state of welford: the mean, the sum of squares of the distances from it
// and the number of elements.
//
// A division takes longer than all else that is done for an element, so there is one for
// as many elements, or parts, as come together: these have a mean by sums and distances
// from that. Distances are those between neighbours, never between an element and 0:
// where the mean is 10,000 and the variance 1, squares have no digits left. What is equal
// everywhere has a variance of exactly 0.
//
// The mean of an infinity and numbers is that infinity, as their sum says, and large
// numbers whose sum or difference overflows have a mean.
var moments = &state{
	identity: func(f *fold, k int) scalar.Value {
		if k == 0 && f.mayBeEmpty {
			return scalar.Value{Type: f.types[0], Re: math.NaN()}
		}
		return core.ConvertScalar(f.types[k], scalar.Value{Type: dtype.Int})
	},
	of: func(l *lowering, f fold, x kir.ValueID) []kir.ValueID {
		return []kir.ValueID{x, l.b.Op(core.SubOp, x, x), l.b.Number(f.types[2], 1)} // NaN of an infinity, else 0
	},
	add:      (*lowering).addToMean,
	addAll:   (*lowering).addToMoments,
	merge:    (*lowering).mergeMoments,
	mergeAll: (*lowering).mergeAllMoments,
	counts:   func(*fold) bool { return true },
	number:   2,
	enough:   maxTogether,
}

// addToMoments adds elements in groups of a power of two: the sum of equal ones is exact
// then, and each is scaled before it is added, without an error.
func (l *lowering) addToMoments(f fold, a, x []kir.ValueID) []kir.ValueID {
	for len(x) > 1 {
		size := 1 << (bits.Len(uint(len(x))) - 1)
		mean, squares := l.momentsOf(f, x[:size])
		a, x = l.addGroup(f, a, mean, squares, int64(size)), x[size:]
	}
	if len(x) == 1 {
		a = l.addToMean(f, a, x[0])
	}
	return a
}

// momentsOf returns the mean of elements, whose number is a power of two, and the sum of
// squares of the distances from it.
func (l *lowering) momentsOf(f fold, x []kir.ValueID) (mean, squares kir.ValueID) {
	op, part := l.b.Op, l.b.Float(f.types[0], 1/float64(len(x)))
	terms := make([]kir.ValueID, len(x))
	for i := range x {
		terms[i] = op(core.MulOp, x[i], part)
	}
	mean = l.temporary("average", l.balanced(core.AddOp, terms))
	for i := range x {
		d := op(core.SubOp, x[i], mean)
		terms[i] = op(core.MulOp, d, d)
	}
	return mean, l.temporary("spread", l.balanced(core.AddOp, terms))
}

// addToMean adds one element, by B. P. Welford, Note on a Method for Calculating
// Corrected Sums of Squares and Products (1962).
func (l *lowering) addToMean(f fold, a []kir.ValueID, x kir.ValueID) []kir.ValueID {
	return l.addGroup(f, a, x, l.b.Op(core.SubOp, x, x), 1)
}

// addGroup adds size elements with this mean and sum of squares.
func (l *lowering) addGroup(f fold, a []kir.ValueID, mean, squares kir.ValueID, size int64) []kir.ValueID {
	op, t := l.b.Op, f.types[0]
	old := a[0]
	if f.mayBeEmpty { // the mean of nothing is NaN
		old = l.temporary("old", op(core.WhereOp, l.isZero(f, a[2]), l.b.Float(t, 0), old))
	}
	was, group := l.temporary("was", l.b.Cast(t, a[2])), l.b.Float(t, float64(size))
	share := l.temporary("share", op(core.ReciprocalOfCountOp, op(core.AddOp, was, group)))
	weight := op(core.MulOp, group, share)
	rest := l.temporary("rest", op(core.MulOp, was, share))
	d := l.temporary("delta", op(core.SubOp, mean, old))
	// Beside nothing, whose weight is 0, the square of d alone might overflow.
	between := op(core.MulOp, op(core.MulOp, op(core.MulOp, d, rest), group), d)
	return []kir.ValueID{l.weightedMean(old, mean, d, rest, weight),
		l.temporary("squares", op(core.AddOp, op(core.AddOp, a[1], squares), between)),
		l.temporary("n", op(core.AddOp, a[2], l.b.Number(f.types[2], size)))}
}

// weightedMean returns the mean of a and b, which differ by d = b - a, with
// weights that add up to 1. The short form is wrong where d is not finite.
func (l *lowering) weightedMean(a, b, d, weightA, weightB kir.ValueID) kir.ValueID {
	op := l.b.Op
	near := op(core.AddOp, a, op(core.MulOp, d, weightB))
	far := op(core.AddOp, op(core.MulOp, a, weightA), op(core.MulOp, b, weightB))
	return l.temporary("mean", op(core.WhereOp, op(core.IsFiniteOp, d), near, far))
}

func (l *lowering) isZero(f fold, n kir.ValueID) kir.ValueID {
	return l.b.Op(core.EqOp, n, l.b.Number(f.types[2], 0))
}

// share returns 1 / n, 0 for no elements.
func (l *lowering) share(f fold, n kir.ValueID) kir.ValueID {
	op, t := l.b.Op, f.types[0]
	return l.temporary("share", op(core.WhereOp, l.isZero(f, n), l.b.Float(t, 0), op(core.ReciprocalOfCountOp, l.b.Cast(t, n))))
}

// meanOf returns the mean of a part, 0 for no elements.
func (l *lowering) meanOf(f fold, a []kir.ValueID) kir.ValueID {
	if !f.mayBeEmpty {
		return a[0]
	}
	return l.temporary("mean", l.b.Op(core.WhereOp, l.isZero(f, a[2]), l.b.Float(f.types[0], 0), a[0]))
}

// orNothing returns the mean of n elements, NaN for none.
func (l *lowering) orNothing(f fold, n, mean kir.ValueID) kir.ValueID {
	if !f.mayBeEmpty {
		return mean
	}
	return l.temporary("mean", l.b.Op(core.WhereOp, l.isZero(f, n), l.b.Float(f.types[0], math.NaN()), mean))
}

// mergeMoments merges two parts: T. F. Chan, G. H. Golub, R. J. LeVeque,
// Updating Formulae and a Pairwise Algorithm for Computing Sample Variances
// (1979), formulas 2.1. Two empty parts give an empty one.
func (l *lowering) mergeMoments(f fold, a, b []kir.ValueID) []kir.ValueID {
	op, t := l.b.Op, f.types[0]
	if numbers, n, ok := l.numbersOf([][]kir.ValueID{a, b}, f.state.number, 1); ok {
		weight := func(k int) kir.ValueID { return l.b.Float(t, float64(numbers[k])/float64(n)) }
		d := l.temporary("delta", op(core.SubOp, b[0], a[0]))
		between := op(core.MulOp, op(core.MulOp, op(core.MulOp, d, weight(0)), l.b.Float(t, float64(numbers[1]))), d)
		return []kir.ValueID{l.weightedMean(a[0], b[0], d, weight(0), weight(1)),
			l.temporary("squares", op(core.AddOp, op(core.AddOp, a[1], b[1]), between)), l.b.Number(f.types[2], n)}
	}
	meanA, meanB := l.meanOf(f, a), l.meanOf(f, b)
	n := l.temporary("n", op(core.AddOp, a[2], b[2]))
	share := l.share(f, n)
	numA, numB := l.temporary("num", l.b.Cast(t, a[2])), l.temporary("num", l.b.Cast(t, b[2]))
	rest := l.temporary("rest", op(core.MulOp, numA, share))
	d := l.temporary("delta", op(core.SubOp, meanB, meanA))
	mean := l.weightedMean(meanA, meanB, d, rest, op(core.MulOp, numB, share))
	// With an empty part, whose weight is 0, the square of d alone might overflow.
	between := op(core.MulOp, op(core.MulOp, op(core.MulOp, d, rest), numB), d)
	squares := l.temporary("squares", op(core.AddOp, op(core.AddOp, a[1], b[1]), between))
	return []kir.ValueID{l.orNothing(f, n, mean), squares, n}
}

// mergeAllMoments merges parts at once: their mean is the sum of the weighted ones and the
// mean of the distances from that, which leaves the error of the last addition, and none
// where all are equal. About one of the parts, which may be far from the others, the mean
// of 33 numbers was off by 1.7 units in the last place of the mean of their absolute
// values. All are halved, as the distance of two large numbers overflows.
func (l *lowering) mergeAllMoments(f fold, parts [][]kir.ValueID, of lanes) []kir.ValueID {
	op, t := l.b.Op, f.types[0]
	sum := func(name string, term func(i int) kir.ValueID) kir.ValueID {
		x := make([]kir.ValueID, len(parts))
		for i := range x {
			x[i] = term(i)
		}
		return l.temporary(name, of.fold(core.AddOp, l.balanced(core.AddOp, x)))
	}
	half := l.b.Float(t, 0.5)
	means, counts, weights := make([]kir.ValueID, len(parts)), make([]kir.ValueID, len(parts)), make([]kir.ValueID, len(parts))
	var n kir.ValueID
	if numbers, all, ok := l.numbersOf(parts, f.state.number, of.number); ok {
		f.mayBeEmpty, n = false, l.b.Number(f.types[2], all)
		for i, p := range parts {
			means[i], counts[i], weights[i] = p[0], l.b.Float(t, float64(numbers[i])), l.b.Float(t, float64(numbers[i])/float64(all))
		}
	} else {
		n = sum("n", func(i int) kir.ValueID { return parts[i][2] })
		share := l.share(f, n)
		for i, p := range parts {
			means[i], counts[i] = l.meanOf(f, p), l.temporary("num", l.b.Cast(t, p[2]))
			weights[i] = op(core.MulOp, counts[i], share)
		}
	}
	halves := make([]kir.ValueID, len(parts))
	for i := range parts {
		halves[i] = op(core.MulOp, means[i], half)
	}
	first := sum("first", func(i int) kir.ValueID { return op(core.MulOp, halves[i], weights[i]) })
	first = l.temporary("first", op(core.WhereOp, op(core.IsFiniteOp, first), first, l.b.Float(t, 0)))
	distance := sum("distance", func(i int) kir.ValueID { return op(core.MulOp, op(core.SubOp, halves[i], first), weights[i]) })
	mean := l.temporary("mean", op(core.MulOp, op(core.AddOp, first, distance), l.b.Float(t, 2)))
	squares := sum("squares", func(i int) kir.ValueID {
		d := op(core.SubOp, means[i], mean)
		return op(core.AddOp, parts[i][1], op(core.MulOp, op(core.MulOp, d, counts[i]), d))
	})
	return []kir.ValueID{l.orNothing(f, n, mean), squares, n}
}
