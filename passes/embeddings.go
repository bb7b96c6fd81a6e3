package passes

import (
	"slices"

	"nvfuser_go/core"
)

// embeddingAsTake makes of an embedding elements at positions along a dimension, which the
// index, with a dimension of one element for the rows, has as the result has it: its loops
// lead to the index then, which may be computed where it is used. An embedding that changes
// rows stays, and so does one with a dimension that is a broadcast, which its result is not.
func embeddingAsTake(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if e.Op != core.EmbeddingFwdOp || args[3].Kind != core.NoArg {
		return nil, nil
	}
	index, table := args[0].Tensor, args[1].Tensor
	rank := len(r.To.Axes(index))
	isBroadcast := func(a core.AxisID) bool { return r.To.Axis(a).Kind == core.Broadcast }
	if rank == 0 || slices.ContainsFunc(r.To.Axes(index), isBroadcast) || slices.ContainsFunc(r.To.Axes(table), isBroadcast) {
		return nil, nil
	}
	w := writer{r: r}
	inRow, batches := make([]bool, rank+1), make([]bool, rank+1)
	for d := range rank {
		batches[d] = d < rank-1
	}
	inRow[rank] = true
	index = w.apply(core.BroadcastOp, core.TensorOf(index), core.BoolsOf(inRow...))
	if rank > 1 {
		table = w.apply(core.BroadcastOp, core.TensorOf(table), core.BoolsOf(batches...))
	}
	out := w.apply(core.TakeAlongAxisOp, core.TensorOf(table), core.TensorOf(index), core.IntOf(int64(rank-1)))
	return []core.ValID{out}, w.err
}
