package executor

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A DeviceType is a kind of memory.
type DeviceType uint8

const (
	CPU DeviceType = iota
	CUDA
)

// A Device is where a tensor lies.
type Device struct {
	Type  DeviceType
	Index int // of a CUDA device
}

// String returns the name of d in Python, such as "cuda:0".
func (d Device) String() string {
	if d.Type == CPU {
		return "cpu"
	}
	return fmt.Sprintf("cuda:%d", d.Index)
}

// An Input is what a run reads for one input of the fusion.
type Input struct {
	Tensor         bool
	DType          dtype.Type
	Device         Device
	Data           unsafe.Pointer // of the element of index 0
	Sizes, Strides []int64        // strides in elements
	Scalar         scalar.Value   // of a scalar
}

// AlignmentOf returns the logarithm of the largest power of two, up to 16 bytes,
// that divides an address: what the width of accesses depends on. That of no memory
// is 4. Package capi has the same in C, for calls that do not come to Go.
func AlignmentOf(data unsafe.Pointer) int {
	return min(bits.TrailingZeros64(uint64(uintptr(data))), 4)
}

// check holds the inputs against the definition, and returns the sizes and
// scalars of f for them.
//
// Errors: InvalidArgument or InvalidType that names the input by position and
// name, and the rule.
func check(f *core.Fusion, inputs []Input) (*core.Binding, error) {
	b, err := f.Bind(valuesOf(inputs))
	if err != nil {
		return nil, err
	}
	for i, v := range f.Inputs() {
		if inputs[i].Tensor {
			if err := checkMemory(f, i, v, &inputs[i]); err != nil {
				return nil, err
			}
		}
	}
	if err := checkWritable(f, inputs); err != nil {
		return nil, err
	}
	return b, checkTypes(f)
}

// written returns the inputs that receive outputs.
func written(f *core.Fusion) []int {
	var list []int
	for _, o := range f.Outputs() {
		if o.Alias != core.NoVal {
			list = append(list, slices.Index(f.Inputs(), o.Alias))
		}
	}
	return list
}

// checkWritable refuses memory of which it is not clear what a run leaves in it.
func checkWritable(f *core.Fusion, inputs []Input) error {
	list := written(f)
	for _, i := range list {
		if x := &inputs[i]; overlapsItself(x.Sizes, x.Strides) {
			return core.InvalidArgumentf("execute(): input %d (%s) receives an output, and several of its elements share memory: sizes %v, strides %v", i, f.Name(f.Inputs()[i]), x.Sizes, x.Strides)
		}
	}
	if i, j, found := bothWritten(list, inputs); found {
		return core.InvalidArgumentf("execute(): input %d (%s) and input %d (%s) each receive an output and share memory, which can hold one of the two only: pass tensors that have no elements in common", i, f.Name(f.Inputs()[i]), j, f.Name(f.Inputs()[j]))
	}
	return nil
}

// valuesOf returns what sizes and scalars depend on.
func valuesOf(inputs []Input) []core.InputValue {
	values := make([]core.InputValue, len(inputs))
	for i := range inputs {
		x := &inputs[i]
		values[i] = core.InputValue{Tensor: x.Tensor, DType: x.DType, Sizes: slices.Clone(x.Sizes), Scalar: x.Scalar}
	}
	return values
}

// described returns inputs without their data.
func described(inputs []Input) []Input {
	out := slices.Clone(inputs)
	for i := range out {
		x := &out[i]
		x.Data, x.Sizes, x.Strides = nil, slices.Clone(x.Sizes), slices.Clone(x.Strides)
	}
	return out
}

// checkTypes refuses the types that nothing computes with yet. Operations make none.
func checkTypes(f *core.Fusion) error {
	for i, v := range f.Inputs() {
		if t := f.Val(v).DType; t == dtype.Float4E2M1FN || t == dtype.Float4E2M1FNx2 {
			return &core.Unsupported{What: "execute(): four-bit floats are not supported", Refusals: []core.Refusal{{By: "executor", Rule: "dtype",
				Tensor: f.Name(v), Sentence: fmt.Sprintf("input %d (%s) is %v", i, f.Name(v), t)}}}
		}
	}
	return nil
}

// checkMemory holds the strides and data of input i against what f says of v.
func checkMemory(f *core.Fusion, i int, v core.ValID, x *Input) error {
	name := f.Name(v)
	if len(x.Strides) != len(x.Sizes) {
		return core.InvalidArgumentf("execute(): input %d (%s) has %d sizes but %d strides", i, name, len(x.Sizes), len(x.Strides))
	}
	for d, s := range x.Strides {
		if s < 0 {
			return core.InvalidArgumentf("execute(): input %d (%s) has stride %d in dimension %d; a stride is not negative", i, name, s, d)
		}
	}
	if core.NumElements(x.Sizes) == 0 {
		return nil
	}
	if x.Data == nil {
		return core.InvalidArgumentf("execute(): input %d (%s) has %d elements but no memory", i, name, core.NumElements(x.Sizes))
	}
	return checkContiguity(f, i, v, x)
}

// checkContiguity checks what the definition promises of strides: an axis that
// is contiguous has the stride of a dense layout over the axes inside it, and an
// expanded one has stride 0. Axes of size 1 have no stride to speak of.
func checkContiguity(f *core.Fusion, i int, v core.ValID, x *Input) error {
	d := &f.Val(v).Domain
	axes := d.Allocation()
	dense := int64(1)
	for k := len(axes) - 1; k >= 0; k-- {
		dim := slices.Index(d.Logical, axes[k])
		size, stride := x.Sizes[dim], x.Strides[dim]
		if size == 1 {
			continue
		}
		switch d.Contig[k] {
		case core.NotApplicable:
			if stride != 0 {
				return core.InvalidArgumentf("execute(): input %d (%s) has size %d and stride %d in dimension %d, but the definition says that it is expanded (contiguity None), which needs stride 0; sizes %v, strides %v", i, f.Name(v), size, stride, dim, x.Sizes, x.Strides)
			}
			continue
		case core.Yes:
			if stride != dense {
				return core.InvalidArgumentf("execute(): input %d (%s) has stride %d in dimension %d, but the definition says that it is contiguous, which needs stride %d; sizes %v, strides %v", i, f.Name(v), stride, dim, dense, x.Sizes, x.Strides)
			}
		}
		dense = stride * size
	}
	return nil
}
