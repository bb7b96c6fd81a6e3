package scheduler

import "nvfuser_go/core"

// Weight returns the instructions for an element of op, in additions.
func Weight(op *core.OpInfo) float64 {
	switch op.Class {
	case core.Reduction:
		return max(1, op.Cost)
	case core.Gather, core.Resize:
		return 2
	case core.Random:
		return 9
	}
	return op.Cost
}

// Work returns the instructions of f for the sizes of b, in additions, if each of its
// operations is done once for each element that it reads or writes, whichever are more,
// and a scatter once for each place of the index that an element looks at.
func Work(f *core.Fusion, b *core.Binding) (float64, error) {
	total := 0.0
	for _, id := range f.Order() {
		e := f.Expr(id)
		most := int64(0)
		x, isLookup := e.IndexedRead()
		for k, v := range append(f.TensorArgs(e), e.Out...) {
			if isLookup && k == x.Table {
				continue // of which as many elements are read as there are results
			}
			sizes, err := b.Shape(v)
			if err != nil {
				return 0, err
			}
			most = max(most, core.NumElements(sizes))
		}
		n, err := line(e, b)
		if err != nil {
			return 0, err
		}
		total += Weight(e.Op) * float64(most) * float64(max(n, 1))
	}
	return total, nil
}

// line returns how many elements of an operand each element of the result of e looks
// at, where that depends on sizes and e is no reduction; else 1.
func line(e *core.Expr, b *core.Binding) (int64, error) {
	if e.Op != core.ScatterOp {
		return 1, nil
	}
	sizes, err := b.Shape(e.Args[1].Tensor)
	if err != nil {
		return 0, err
	}
	return sizes[e.Args[3].Int], nil
}
