package passes

import "nvfuser_go/core"

// accumulateBySums makes of slices that are added where an index says sums of slices, which a
// kernel computes for each place of the result: what the index alone decides is found before, and
// parts of long lists are summed before. Without slices there are no sums.
func accumulateBySums(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
	if e.Op != core.IndexPutAccumulateOp || isEmpty(r.To, args[1].Tensor) {
		return nil, nil
	}
	size := r.To.Shape(args[0].Tensor)[0]
	grouped, err := r.To.Append(core.GroupPositionsOp, []core.Arg{args[1], core.ScalarOf(size)})
	if err != nil {
		return nil, err
	}
	parts, err := r.To.Append(core.SumPartsOp, []core.Arg{args[1], core.TensorOf(grouped[0]), args[2], core.ScalarOf(size)})
	if err != nil {
		return nil, err
	}
	return r.To.Append(core.SumSlicesOp, []core.Arg{args[0], core.TensorOf(grouped[0]), core.TensorOf(grouped[1]), args[2], core.TensorOf(parts[0])})
}
