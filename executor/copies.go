package executor

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
)

// compact returns strides of a tensor with an element for each of d, in its order
// of dimensions.
func compact(d *OutputDescription) []int64 {
	strides, step, order := make([]int64, len(d.Sizes)), int64(1), d.order()
	for k := len(order) - 1; k >= 0; k-- {
		strides[order[k]] = step
		step *= d.Sizes[order[k]]
	}
	return strides
}

// copy adds the launch that makes the elements of to those of from, which shares
// no memory with it. about says so by names.
func (a *assembly) copy(from, to *located, about string) error {
	t, err := a.copyTask(from, to)
	if err != nil {
		return err
	}
	c, err := a.kernelOf(t, 0, 0)
	if err != nil {
		return err
	}
	a.made.parts = append(a.made.parts, part{segment: -1, about: about, f: t.f, task: t, c: c})
	in := func(i int) memory { return []memory{from.memory, to.memory}[i] }
	return a.add(nil, t, c, in, nil)
}

// copyTask returns the task that makes the elements of the tensor of output 0,
// which is also input 1, those of input 0. The two share no memory.
func (a *assembly) copyTask(from, to *located) (*task, error) {
	sizes, strides := folded(from, to)
	f := core.NewFusion()
	var v [2]core.ValID
	t := &task{device: a.target()}
	for i, x := range []*located{from, to} {
		d := tensorLike(x, sizes, strides[i])
		d.DType = to.dtype // from may be described by another type of the same elements, as Int for Index
		var err error
		if v[i], err = f.DefineTensor(d); err != nil {
			return nil, err
		}
		t.inputs = append(t.inputs, Input{Tensor: true, DType: to.dtype, Sizes: sizes, Strides: strides[i]})
		t.aligned = append(t.aligned, x.aligned)
	}
	out, err := f.Call(core.Lookup("set"), []core.Given{{Kind: core.GivenVal, Val: v[0]}}, nil)
	if err != nil {
		return nil, err
	}
	if err := f.AddOutput(out[0], v[1]); err != nil {
		return nil, err
	}
	f.Freeze()
	t.f, t.outputs = f, []OutputDescription{{DType: to.dtype, Sizes: sizes, Strides: strides[1], Alias: 1, Hidden: true, SameAs: -1}}
	t.b, err = f.Bind(valuesOf(t.inputs))
	return t, err
}

// folded returns sizes and strides of from and to with as few dimensions as there
// can be, from the outermost of to to its innermost. What repeats in to is taken
// once.
func folded(from, to *located) (sizes []int64, strides [2][]int64) {
	var dims []int
	for d, n := range to.sizes {
		if n != 1 && to.strides[d] != 0 {
			dims = append(dims, d)
		}
	}
	slices.SortStableFunc(dims, func(a, b int) int { return cmp.Compare(to.strides[b], to.strides[a]) })
	for _, d := range dims {
		n, s := to.sizes[d], [2]int64{from.strides[d], to.strides[d]}
		if k := len(sizes) - 1; k >= 0 && strides[0][k] == n*s[0] && strides[1][k] == n*s[1] {
			sizes[k] *= n
			strides[0][k], strides[1][k] = s[0], s[1]
			continue
		}
		sizes = append(sizes, n)
		strides[0], strides[1] = append(strides[0], s[0]), append(strides[1], s[1])
	}
	return sizes, strides
}

// tensorLike describes x, of sizes greater than 1, to a fusion that serves other
// sizes too.
func tensorLike(x *located, sizes, strides []int64) core.TensorDescription {
	t := core.TensorDescription{DType: x.dtype, CPU: x.onHost, Shape: make([]int64, len(sizes)), Contiguity: make([]core.Tri, len(sizes))}
	dense := int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		t.Shape[d], t.Contiguity[d] = -1, core.No // also what repeats, which as a broadcast would repeat in the copy
		if strides[d] == dense && dense > 0 {
			t.Contiguity[d] = core.Yes
		}
		dense = strides[d] * sizes[d]
	}
	return t
}
