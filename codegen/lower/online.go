package lower

import (
	"math"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// maxExpSum is the state of [core.MaxExpSumOp]: the largest element so far and the
// sum of the exponentials of the distances from it, which are scaled when a larger
// one comes. Nothing is special about what is not finite but one thing: the sum
// of a part is NaN if all of it is minus infinity, and must not count beside larger
// elements.
var maxExpSum = &state{
	identity: func(f *fold, k int) scalar.Value {
		x := scalar.Value{Type: f.types[k]}
		if k == 0 {
			x.Re = math.Inf(-1)
		}
		return x
	},
	of: func(l *lowering, f fold, x kir.ValueID) []kir.ValueID {
		return []kir.ValueID{x, l.expDistance(x, x)}
	},
	add: func(l *lowering, f fold, a []kir.ValueID, x kir.ValueID) []kir.ValueID {
		return l.addExponentials(f, a, []kir.ValueID{x})
	},
	addAll:    (*lowering).addExponentials,
	merge:     (*lowering).mergeMaxExpSum,
	mergeAll:  (*lowering).mergeAllMaxExpSum,
	enough:    8, // scaling the sum costs as much as one of them
	symmetric: true,
	// An element of minus infinity adds nothing to a part with a larger one. To a part
	// without it adds NaN, which is right unless there are no elements at all.
	counts: func(f *fold) bool { return f.mayBeEmpty },
}

// expDistance returns exp(a - b) of an a that is not larger than b.
func (l *lowering) expDistance(a, b kir.ValueID) kir.ValueID {
	return l.b.Op(core.ExpNegativeOp, l.b.Op(core.SubOp, a, b))
}

// addExponentials adds elements to a part: one exponential each, and one to scale
// what there is. Where all are minus infinity the sum becomes NaN, so that what a part of
// nothing is scaled by does not matter then.
func (l *lowering) addExponentials(f fold, a, x []kir.ValueID) []kir.ValueID {
	op := l.b.Op
	largest := l.temporary("largest", op(core.MaximumOp, a[0], l.balanced(core.MaximumOp, x)))
	terms := make([]kir.ValueID, len(x))
	for i := range x {
		terms[i] = l.expDistance(x[i], largest)
	}
	rest := l.scaled(f, a[1], l.temporary("factor", l.expDistance(a[0], largest)))
	sum := l.temporary("sum", op(core.AddOp, rest, l.balanced(core.AddOp, terms)))
	return []kir.ValueID{largest, sum}
}

// rescaleExponentials returns the sum of a part of exponentials of the distances from
// largest, which is no less than the largest element of the part.
func (l *lowering) rescaleExponentials(f fold, a []kir.ValueID, largest kir.ValueID) kir.ValueID {
	op := l.b.Op
	return op(core.WhereOp, op(core.EqOp, a[0], largest), a[1], l.scaled(f, a[1], l.temporary("factor", l.expDistance(a[0], largest))))
}

// scaled returns sum * factor, 0 if factor is 0.
func (l *lowering) scaled(f fold, sum, factor kir.ValueID) kir.ValueID {
	zero := l.b.Float(f.types[1], 0)
	return l.b.Op(core.WhereOp, l.b.Op(core.EqOp, factor, zero), zero, l.b.Op(core.MulOp, sum, factor))
}

// balanced folds values in pairs, then pairs of pairs.
func (l *lowering) balanced(by *core.OpInfo, x []kir.ValueID) kir.ValueID {
	if len(x) == 1 {
		return x[0]
	}
	half := (len(x) + 1) / 2
	return l.b.Op(by, l.balanced(by, x[:half]), l.balanced(by, x[half:]))
}

// mergeMaxExpSum scales the sum of the part whose largest element is the smaller one.
// The bits are those of b merged with a.
func (l *lowering) mergeMaxExpSum(f fold, a, b []kir.ValueID) []kir.ValueID {
	op := l.b.Op
	choose := func(name string, cond, x, y kir.ValueID) kir.ValueID {
		return l.temporary(name, op(core.WhereOp, cond, x, y))
	}
	first := l.temporary("first", op(core.GeOp, a[0], b[0]))
	more, less := choose("more", first, a[1], b[1]), choose("less", first, b[1], a[1])
	smaller, larger := choose("smaller", first, b[0], a[0]), choose("larger", first, a[0], b[0])
	factor := l.temporary("factor", l.expDistance(smaller, larger))
	rest := op(core.WhereOp, op(core.EqOp, a[0], b[0]), less, l.scaled(f, less, factor))
	return []kir.ValueID{l.temporary("largest", op(core.MaximumOp, a[0], b[0])), l.temporary("sum", op(core.AddOp, more, rest))}
}

// mergeAllMaxExpSum finds the largest element, scales each sum once and adds.
func (l *lowering) mergeAllMaxExpSum(f fold, parts [][]kir.ValueID, of lanes) []kir.ValueID {
	x := make([]kir.ValueID, len(parts))
	for i, p := range parts {
		x[i] = p[0]
	}
	largest := l.temporary("largest", of.fold(core.MaximumOp, l.balanced(core.MaximumOp, x)))
	for i, p := range parts {
		x[i] = l.rescaleExponentials(f, p, largest)
	}
	return []kir.ValueID{largest, l.temporary("sum", of.fold(core.AddOp, l.balanced(core.AddOp, x)))}
}
