package executor

import "nvfuser_go/core"

// workOf estimates the work of f for the sizes of b: the elements that each
// operation reads or writes, whichever are more; of a product of matrices, its
// multiplications; and those of inputs that are copied to outputs. It saturates.
func workOf(f *core.Fusion, b *core.Binding) (int64, error) {
	const limit = 1 << 62
	total := int64(0)
	for _, id := range f.Order() {
		e := f.Expr(id)
		most, inner := int64(0), int64(1)
		for k, v := range append(f.TensorArgs(e), e.Out...) {
			sizes, err := b.Shape(v)
			if err != nil {
				return 0, err
			}
			if k == 0 && len(sizes) > 0 && (e.Op.Class == core.Contraction || e.Op.Class == core.Attention) {
				inner = max(sizes[len(sizes)-1], 1)
			}
			most = max(most, core.NumElements(sizes))
		}
		if most > (limit-total)/inner {
			return limit, nil
		}
		total += most * inner
	}
	for _, o := range f.Outputs() {
		if !f.Val(o.Val).Input || o.Alias == o.Val {
			continue
		}
		sizes, err := b.Shape(o.Val)
		if err != nil {
			return 0, err
		}
		total += min(core.NumElements(sizes), limit-total)
	}
	return total, nil
}
