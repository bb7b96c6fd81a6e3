package executor

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/executor/cpu"
)

// An OutputDescription is what the caller needs to know of an output.
type OutputDescription struct {
	DType          dtype.Type
	Sizes, Strides []int64 // strides in elements; 0 along expanded dimensions
	Alias          int     // the input in whose memory it is written, or -1
	Hidden         bool    // not returned to the user
	SameAs         int     // an earlier output that is the same tensor, or -1; then it has no memory of its own
	// View: the output is another view of the memory that the rest describes, which is
	// that of View.Of. Nil: it is as described.
	View *View
}

// NumBytes returns the bytes from the first element to the end of the last.
func (o *OutputDescription) NumBytes() int64 {
	n := int64(1)
	for d, size := range o.Sizes {
		if size == 0 {
			return 0
		}
		n += (size - 1) * o.Strides[d]
	}
	return n * int64(o.DType.Size())
}

// order returns the dimensions from the outermost in memory to the innermost;
// those that have no place of their own stay where they are among the others.
func (o *OutputDescription) order() []int {
	var moving []int
	for d, s := range o.Strides {
		if s != 0 && o.Sizes[d] != 1 {
			moving = append(moving, d)
		}
	}
	slices.SortStableFunc(moving, func(a, b int) int { return cmp.Compare(o.Strides[b], o.Strides[a]) })
	order := make([]int, len(o.Sizes))
	for d, k := 0, 0; d < len(order); d++ {
		if order[d] = d; o.Strides[d] != 0 && o.Sizes[d] != 1 {
			order[d] = moving[k]
			k++
		}
	}
	return order
}

// describeOutputs returns the descriptions of the outputs of f.
func describeOutputs(f *core.Fusion, b *core.Binding, inputs []Input) ([]OutputDescription, error) {
	orders := memoryOrders(f)
	all := make([]OutputDescription, len(f.Outputs()))
	first := map[core.ValID]int{} // returned
	for k, o := range f.Outputs() {
		sizes, err := b.Shape(o.Val)
		if err != nil {
			return nil, err
		}
		d := OutputDescription{DType: f.Val(o.Val).DType, Sizes: slices.Clone(sizes), Alias: -1, SameAs: -1}
		if o.Alias != core.NoVal {
			d.Alias, d.Hidden = slices.Index(f.Inputs(), o.Alias), true
			d.Strides = slices.Clone(inputs[d.Alias].Strides)
		} else {
			d.Strides = denseStrides(f, o.Val, sizes, orders[o.Val])
			if j, ok := first[o.Val]; ok {
				d.SameAs = j
			} else {
				first[o.Val] = k
			}
		}
		all[k] = d
	}
	return all, nil
}

// memoryOrders returns, by tensor, its dimensions from the outermost in memory
// to the innermost; nil is row-major.
func memoryOrders(f *core.Fusion) map[core.ValID][]int {
	orders := map[core.ValID][]int{}
	for _, v := range f.Inputs() {
		if f.Val(v).Tensor {
			orders[v] = f.DeclaredOrder(v)
		}
	}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for _, v := range e.Out {
			if o := f.DeclaredOrder(v); o != nil {
				orders[v] = o
			} else if e.Op.Class == core.Elementwise {
				if u := f.LeadingOperand(e); u != core.NoVal {
					orders[v] = orders[u]
				}
			}
		}
	}
	return orders
}

// denseStrides returns the strides of a dense tensor of the sizes of v.
func denseStrides(f *core.Fusion, v core.ValID, sizes []int64, order []int) []int64 {
	strides := make([]int64, len(sizes))
	step := int64(1)
	for k := len(sizes) - 1; k >= 0; k-- {
		d := k
		if order != nil {
			d = order[k]
		}
		if f.Axis(f.Axes(v)[d]).Kind == core.Broadcast && sizes[d] != 1 {
			continue // expanded
		}
		strides[d] = step
		step *= max(sizes[d], 1)
	}
	return strides
}

// layouts are the outputs as package cpu takes them.
func layouts(outputs []OutputDescription) []cpu.Layout {
	all := make([]cpu.Layout, len(outputs))
	for i, o := range outputs {
		all[i] = cpu.Layout{DType: o.DType, Sizes: o.Sizes, Strides: o.Strides}
	}
	return all
}
