package executor

import (
	"unsafe"

	"nvfuser_go/core"
)

// A strided is elements in memory.
type strided struct {
	data           unsafe.Pointer // of the element of index 0
	sizes, strides []int64        // strides in elements
	bytes          int            // of an element
}

func (r *simulation) input(i int) strided {
	x := &r.call.Inputs[i]
	return strided{x.Data, x.Sizes, x.Strides, x.DType.Size()}
}

// output returns the memory that output k has in the end.
func (r *simulation) output(k int) strided {
	d := &r.step.outputs[k]
	switch {
	case d.Alias >= 0:
		return r.input(d.Alias)
	case d.SameAs >= 0:
		return r.output(d.SameAs)
	}
	return strided{r.call.Outputs[k], d.Sizes, d.Strides, d.DType.Size()}
}

// at returns the bytes of the element of index.
func (x strided) at(index []int64) []byte {
	offset := int64(0)
	for d, i := range index {
		offset += i * x.strides[d]
	}
	return unsafe.Slice((*byte)(unsafe.Add(x.data, offset*int64(x.bytes))), x.bytes)
}

// copyFrom makes the elements of x those of y, which has the same sizes and
// shares no memory with x.
func (x strided) copyFrom(y strided) {
	core.EachIndex(x.sizes, func(index []int64) { copy(x.at(index), y.at(index)) })
}

// clone returns a dense copy of x.
func (x strided) clone() strided {
	y := strided{nil, x.sizes, make([]int64, len(x.sizes)), x.bytes}
	n := int64(1)
	for d := len(x.sizes) - 1; d >= 0; d-- {
		y.strides[d] = n
		n *= x.sizes[d]
	}
	if n > 0 {
		y.data = unsafe.Pointer(unsafe.SliceData(make([]byte, n*int64(x.bytes))))
		y.copyFrom(x)
	}
	return y
}
