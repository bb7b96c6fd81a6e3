package passes

import (
	"encoding/binary"

	"nvfuser_go/core"
)

// commonSubexpressions lets one expression stand for all that have its operation
// and arguments. Random operations each draw numbers of their own, and each
// segment_set is a cut of its own.
func commonSubexpressions(f *core.Fusion) (*core.Fusion, int, error) {
	first := map[string][]core.ValID{} // of f
	var key []byte
	return changed(f, core.Rewrite{Rule: func(r *core.Rewriting, e *core.Expr, args []core.Arg) ([]core.ValID, error) {
		if e.Op.Class == core.Random || e.Op == core.SegmentSetOp {
			return nil, nil
		}
		key = appendKey(key[:0], e.Op, args)
		before, found := first[string(key)]
		if !found {
			first[string(key)] = e.Out
			return nil, nil
		}
		out := make([]core.ValID, len(before))
		for k, v := range before {
			out[k] = r.Val(v)
		}
		return out, nil
	}})
}

// appendKey appends bytes that are those of equal operations on equal arguments.
func appendKey(key []byte, op *core.OpInfo, args []core.Arg) []byte {
	number := func(n int64) { key = binary.AppendVarint(key, n) }
	key = append(append(key, op.Name...), 0)
	for _, a := range args {
		number(int64(a.Kind))
		switch a.Kind {
		case core.TensorArg:
			number(int64(a.Tensor))
		case core.ScalarArg:
			number(int64(a.Scalar))
		case core.IntArg, core.BoolArg, core.DTypeArg:
			number(a.Int)
		case core.TensorsArg:
			number(int64(len(a.Tensors)))
			for _, v := range a.Tensors {
				number(int64(v))
			}
		case core.ScalarsArg:
			number(int64(len(a.Scalars)))
			for _, s := range a.Scalars {
				number(int64(s))
			}
		case core.IntsArg, core.BoolsArg:
			number(int64(len(a.Ints)))
			for _, n := range a.Ints {
				number(n)
			}
		}
	}
	return key
}
