package fusionfuzz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// Strided returns a sum of n tensors, which make one of up to sizes, in float32:
// each is of some type, broadcast along some dimensions, in any order in memory,
// with gaps, and begins anywhere. The definition says of their sizes only which
// are 1.
func Strided(r *rand.Rand, sizes []int64, n int) *Case {
	d := &decoder{reader: reader{hash: r.Uint64()}}
	var text strings.Builder
	var inputs []Input
	for i := range n {
		shape, order := slices.Clone(sizes), r.Perm(len(sizes))
		if r.IntN(2) == 0 {
			slices.Sort(order)
		}
		for k := range shape {
			if r.IntN(4) == 0 {
				shape[k] = 1
			}
		}
		t := []dtype.Type{dtype.Float, dtype.Half, dtype.Bool}[r.IntN(3)]
		if i == 0 {
			t = dtype.Float // what the sum is in
		}
		in := Input{Array: core.NewArray(t, shape), Strides: make([]int64, len(shape)), Offset: r.Int64N(16) * r.Int64N(2)}
		contiguity := stride(r, &in, order)
		d.fill(&in)
		inputs = append(inputs, in)
		extents := make([]string, len(shape))
		places := make([]string, len(shape))
		for k, d := range order {
			places[d] = fmt.Sprint(len(order) - 1 - k)
		}
		for k, size := range shape {
			if extents[k] = "-1"; size == 1 {
				extents[k] = "1"
			}
		}
		fmt.Fprintf(&text, "%%%d = tensor %s [%s] contiguity=[%s] stride_order=[%s]\n", i, t.Text(),
			strings.Join(extents, ", "), strings.Join(contiguity, ", "), strings.Join(places, ", "))
	}
	last := n
	fmt.Fprintf(&text, "%%%d = neg %%0\n", last)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&text, "%%%d = cast %%%d dtype=f32\n%%%d = add %%%d, %%%d\n", last+1, i, last+2, last, last+1)
		last += 2
	}
	fmt.Fprintf(&text, "output %%%d\n", last)
	f, err := core.Parse(text.String())
	if err != nil {
		panic(fmt.Sprintf("%v in\n%s", err, &text))
	}
	f.Freeze()
	return &Case{Fusion: f, Inputs: inputs}
}

// stride lays in out in the given order, with some gaps, and returns the
// contiguity in that order.
func stride(r *rand.Rand, in *Input, order []int) []string {
	contiguity := make([]string, len(order))
	step, dense := int64(1), int64(1) // of the next dimension, and what it is without a gap
	for k := len(order) - 1; k >= 0; k-- {
		d := order[k]
		if r.IntN(6) == 0 {
			step += []int64{1, 2, 4, 8}[r.IntN(4)]
		}
		in.Strides[d] = step
		switch {
		case in.Array.Shape[d] == 1:
			contiguity[k] = "none"
			continue
		case step == dense:
			contiguity[k] = "yes"
		default:
			contiguity[k] = "no"
		}
		step *= in.Array.Shape[d]
		dense = step
	}
	return contiguity
}
