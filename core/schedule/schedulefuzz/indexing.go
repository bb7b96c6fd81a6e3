package schedulefuzz

import (
	"nvfuser_go/core"
)

// indexing applies an operation that reads or writes at positions which are
// values, of which some are no positions, or that cuts or joins tensors.
func (b *builder) indexing(kind string, v core.ValID, shape []int64) {
	if len(shape) == 0 {
		return
	}
	dim := b.IntN(len(shape))
	at := core.IntOf(int64(dim))
	switch kind {
	case "slice":
		if shape[dim] == 0 {
			return
		}
		from, to := make([]int64, len(shape)), append([]int64{}, shape...)
		strides := make([]int64, len(shape))
		for i := range strides {
			strides[i] = 1
		}
		from[dim] = b.Int64N(shape[dim])
		to[dim] = from[dim] + 1 + b.Int64N(shape[dim]-from[dim])
		b.apply("slice", core.TensorOf(v), b.literals(from), b.literals(to), b.literals(strides), core.BoolOf(true))
	case "cat":
		other := append([]int64{}, shape...)
		other[dim] = b.size()
		b.apply("cat", core.TensorsOf(v, b.input(other), v), at, core.BoolOf(false))
	case "select":
		if shape[dim] == 0 {
			return
		}
		b.apply("select", core.TensorOf(v), core.ScalarOf(b.f.Scalars().Int(b.Int64N(shape[dim]))), at)
	case "index_select":
		b.apply("index_select", core.TensorOf(v), core.TensorOf(b.input([]int64{b.size()})), at)
	case "gather":
		b.apply("gather", core.TensorOf(v), core.TensorOf(b.indices(b.covered(shape, dim))), at)
	case "take_along_axis":
		positions := append([]int64{}, shape...)
		positions[dim] = b.size()
		b.apply("take_along_axis", core.TensorOf(v), core.TensorOf(b.indices(positions)), at)
	case "scatter":
		covered := b.covered(shape, dim)
		src := append([]int64{}, covered...)
		for i := range src {
			src[i] += b.Int64N(2)
		}
		b.apply("scatter", core.TensorOf(v), core.TensorOf(b.indices(covered)), core.TensorOf(b.input(src)), at)
	}
}

// covered returns sizes that are not larger than shape but in dim.
func (b *builder) covered(shape []int64, dim int) []int64 {
	out := append([]int64{}, shape...)
	for i, n := range out {
		if i == dim {
			out[i] = b.size()
		} else if b.chance(0.3) {
			out[i] = b.Int64N(n + 1)
		}
	}
	return out
}

// indices returns a tensor of positions: an input, or what is computed from one.
func (b *builder) indices(shape []int64) core.ValID {
	v := b.input(shape)
	if b.chance(0.5) {
		v, _ = b.apply("neg", core.TensorOf(v))
	}
	return v
}
