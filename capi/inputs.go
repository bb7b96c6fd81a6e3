package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/executor"
)

// arguments are the inputs of a call as Go reads them. Their sizes and strides
// stay in the caller's memory, which outlives the call.
type arguments struct {
	inputs []executor.Input
	key    []byte // memory for one
}

// recycled holds arguments that no call uses.
var recycled = sync.Pool{New: func() any { return &arguments{key: make([]byte, 0, 1024)} }}

// readInputs reads inputs; done gives the result back.
func readInputs(first C.const_inputs, n C.int32_t) (*arguments, error) {
	if n < 0 {
		return nil, core.InvalidArgumentf("execute(): a negative number of inputs")
	}
	a := recycled.Get().(*arguments)
	if cap(a.inputs) < int(n) {
		a.inputs = make([]executor.Input, n)
	}
	a.inputs = a.inputs[:n]
	inputs := unsafe.Slice((*C.nvf_input)(unsafe.Pointer(first)), int(n))
	for i := range inputs {
		if err := inputOf(&a.inputs[i], &inputs[i], i); err != nil {
			a.done()
			return nil, err
		}
	}
	return a, nil
}

// done recycles a, without addresses: C's memory may become Go's.
func (a *arguments) done() {
	clear(a.inputs)
	recycled.Put(a)
}

func inputOf(out *executor.Input, in *C.nvf_input, i int) error {
	if in.kind != C.NVF_KIND_TENSOR {
		number, ok := numberOf(in.kind, in.integer, in.real, in.imag)
		if !ok {
			v := C.nvf_value{kind: in.kind}
			given, err := (*definition)(nil).argument(0, C.const_values(unsafe.Pointer(&v)), "execute", fmt.Sprintf("input %d", i))
			if err != nil {
				return err
			}
			return core.InvalidTypef("execute(): input %d must be a tensor or a number, got %s", i, describeGiven(given))
		}
		out.Scalar = number
		return nil
	}
	switch {
	case !isDType(int64(in.dtype)):
		_, err := dtypeOf(int64(in.dtype), fmt.Sprintf("execute(): the dtype of input %d is", i))
		return err
	case in.rank < 0 || in.rank > core.MaxRank:
		return core.InvalidArgumentf("execute(): input %d has %d dimensions; at most %d are supported", i, int(in.rank), core.MaxRank)
	case in.device_type != C.NVF_CPU && in.device_type != C.NVF_CUDA:
		return core.InvalidTypef("execute(): input %d is on a device of kind %d in the numbering of DLPack; fusions run on cpu and cuda devices", i, int(in.device_type))
	}
	*out = executor.Input{Tensor: true, DType: dtype.Type(in.dtype), Data: in.data,
		Sizes:   unsafe.Slice((*int64)(unsafe.Pointer(in.sizes)), int(in.rank)),
		Strides: unsafe.Slice((*int64)(unsafe.Pointer(in.strides)), int(in.rank))}
	if in.device_type == C.NVF_CUDA {
		out.Device = executor.Device{Type: executor.CUDA, Index: int(in.device_index)}
	}
	for d, size := range out.Sizes {
		if size < 0 {
			return core.InvalidArgumentf("execute(): input %d has size %d in dimension %d; a size is not negative", i, size, d)
		}
	}
	return nil
}
