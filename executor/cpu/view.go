package cpu

import (
	"slices"

	"nvfuser_go/core"
)

// addView adds n, an expression that shows its operand under other dimensions:
// a view of memory where the operand lies there, else a remap in tiles. A
// reshape that cuts or joins dimensions needs its operand in memory.
func (b *builder) addView(n node) error {
	n.axisMap = b.remapping(n)
	v, r := n.in[0], n.out[0]
	switch {
	case n.axisMap == nil:
		b.reshape(v, r)
	case b.values[v].memory:
		b.show(r, b.remapped(&n, b.values[v].place))
	default:
		n.kind = remap
		b.addNode(n)
	}
	return nil
}

// show makes value r a view of memory.
func (b *builder) show(r int, p place) {
	b.values[r].memory, b.values[r].placed, b.values[r].place = true, true, p
}

// remapping returns, for each dimension of the result of n, that of its operand
// with the same elements, or -1; nil if n does more than that.
func (b *builder) remapping(n node) []int {
	x, r := &b.values[n.in[0]], &b.values[n.out[0]]
	if op := n.expr.Op; op == core.ExpandOp || op == core.StrideOrderOp {
		return identityMap(len(r.sizes))
	}
	domain := &b.f.Val(core.ValID(n.out[0])).Domain
	if n.expr.Op.AxisMap != nil && slices.Equal(domain.Root, domain.Logical) {
		m := n.expr.Op.AxisMap(b.f, n.expr, 0, 0)
		for d, k := range m {
			if k >= 0 && x.span[k] != 1 && x.sizes[k] != r.sizes[d] {
				return nil
			}
		}
		return m
	}
	return unitRemapping(x, r)
}

func identityMap(rank int) []int {
	m := make([]int, rank)
	for d := range m {
		m[d] = d
	}
	return m
}

// unitRemapping is the remapping between shapes that differ in dimensions of
// size 1 alone, or nil. An expanded dimension must stay one.
func unitRemapping(x, r *value) []int {
	m := make([]int, len(r.sizes))
	k := 0
	for d, n := range r.sizes {
		for k < len(x.sizes) && x.sizes[k] == 1 {
			k++
		}
		m[d] = -1
		if n == 1 {
			continue
		}
		if k == len(x.sizes) || x.sizes[k] != n || r.span[d] != n && x.span[k] == n {
			return nil
		}
		m[d] = k
		k++
	}
	for ; k < len(x.sizes); k++ {
		if x.sizes[k] != 1 {
			return nil
		}
	}
	return m
}

// remapped returns the view of p that remap n shows.
func (b *builder) remapped(n *node, p place) place {
	strides := make([]int64, len(n.axisMap))
	for d, k := range n.axisMap {
		if k >= 0 && b.values[n.out[0]].span[d] != 1 {
			strides[d] = p.strides[k]
		}
	}
	p.strides = strides
	return p
}

// reshape makes r the elements of v in row-major order under other sizes: a
// view of memory where strides can express it, else of a copy.
func (b *builder) reshape(v, r int) {
	p := b.placeOf(v)
	sizes := b.values[r].sizes
	strides, ok := reshapedStrides(b.values[v].sizes, p.strides, sizes)
	if !ok {
		whole := b.values[v].sizes
		c := b.copyOf(v, whole, func(n int) place { return b.temporary(n, whole) })
		p = b.values[c].place
		strides, _ = reshapedStrides(whole, p.strides, sizes)
	}
	p.strides = within(strides, b.values[r].span)
	b.show(r, p)
}

// reshapedStrides returns the strides that show a tensor under other sizes, if
// there are any. Both have the same number of elements.
//
// It walks both shapes from the innermost dimension, and takes dimensions of
// the old one together while they are contiguous.
func reshapedStrides(sizes, strides, want []int64) ([]int64, bool) {
	out := make([]int64, len(want))
	if core.NumElements(sizes) == 0 {
		return out, true
	}
	j := len(want) - 1
	for i := len(sizes) - 1; i >= 0; {
		step, run := strides[i], sizes[i]
		for i--; i >= 0 && (sizes[i] == 1 || run == 1 || strides[i] == step*run); i-- {
			if run == 1 {
				step = strides[i]
			}
			run *= sizes[i]
		}
		for ; j >= 0 && run > 1 && run%want[j] == 0; j-- {
			out[j] = step
			step *= want[j]
			run /= want[j]
		}
		if run > 1 {
			return nil, false
		}
	}
	return out, true
}

// addSlice makes the result of n a view of memory if n takes a range of its
// operand.
func (b *builder) addSlice(n node) (bool, error) {
	e := n.expr
	x := func() *value { return &b.values[n.in[0]] }
	switch e.Op {
	case core.SliceOp:
		start, err := b.ints(e.Args[1])
		if err != nil {
			return false, err
		}
		p := b.placeOf(n.in[0])
		strides := slices.Clone(p.strides)
		for d := range strides {
			if len(e.Args) > 3 && len(e.Args[3].Scalars) > 0 {
				step, err := b.b.Int(e.Args[3].Scalars[d])
				if err != nil {
					return false, err
				}
				strides[d] *= step
			}
			p.offset += start[d] * p.strides[d]
		}
		p.strides = within(strides, b.values[n.out[0]].span)
		b.show(n.out[0], p)
		return true, nil
	case core.SelectOp:
		index, err := b.b.Int(e.Args[1].Scalar)
		if err != nil {
			return false, err
		}
		d := e.Args[2].Int
		size := x().sizes[d]
		if index < 0 || index >= size {
			return false, nil
		}
		p := b.placeOf(n.in[0])
		p.offset += index * p.strides[d]
		p.strides = within(slices.Delete(slices.Clone(p.strides), int(d), int(d)+1), b.values[n.out[0]].span)
		b.show(n.out[0], p)
		return true, nil
	}
	return false, nil
}

func (b *builder) ints(a core.Arg) ([]int64, error) {
	out := make([]int64, len(a.Scalars))
	for i, s := range a.Scalars {
		n, err := b.b.Int(s)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}
