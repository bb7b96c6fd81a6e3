package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

//export nvf_executor_create
func nvf_executor_create(h C.nvf_fusion, out *C.nvf_executor, e *C.nvf_error) C.int {
	return on(h, e, named("executor"), func(d *definition) error {
		x, err := newExecutor(d.fusion)
		if err == nil {
			*out = C.nvf_executor(handles.put(x))
		}
		return err
	})
}

//export nvf_executor_destroy
func nvf_executor_destroy(h C.nvf_executor) { take[executor](handle(h)) }

// A prepared is a plan that C holds, with its description in C memory.
type prepared struct {
	*plan
	description *C.nvf_plan_description
	memory      []unsafe.Pointer
}

//export nvf_prepare
func nvf_prepare(h C.nvf_executor, inputs C.const_inputs, n, device C.int32_t, out *C.nvf_plan, description *C.const_description, e *C.nvf_error) C.int {
	x, err := get[executor](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "prepare\n\n" + x.fusion.String() }, func() error {
		given := unsafe.Slice((*C.nvf_input)(unsafe.Pointer(inputs)), int(n))
		if err := checkDevices(given, int(device)); err != nil {
			return err
		}
		tensors, err := tensorsOf(given)
		if err != nil {
			return err
		}
		p, err := x.plan(tensors)
		if err != nil {
			return err
		}
		made := &prepared{plan: p}
		made.describe(x)
		*description = C.const_description(made.description)
		*out = C.nvf_plan(handles.put(made))
		return nil
	})
}

// describe copies the outputs of a plan to C memory.
func (p *prepared) describe(x *executor) {
	n := len(p.outputs)
	p.description = (*C.nvf_plan_description)(p.allocate(C.sizeof_nvf_plan_description))
	outputs := (*C.nvf_output)(p.allocate(n * C.sizeof_nvf_output))
	for i, o := range p.outputs {
		unsafe.Slice(outputs, n)[i] = C.nvf_output{dtype: C.int32_t(o.dtype), device_type: C.NVF_CPU, rank: C.int32_t(len(o.sizes)),
			sizes: p.integers(o.sizes), strides: p.integers(o.strides)}
	}
	written := (*C.int8_t)(p.allocate(len(x.written)))
	for i, w := range x.written {
		if w {
			unsafe.Slice(written, len(x.written))[i] = 1
		}
	}
	*p.description = C.nvf_plan_description{num_outputs: C.int32_t(n), work: C.int64_t(p.work), outputs: outputs, written: written}
	if p.needsSeed {
		p.description.needs_seed = 1
	}
}

func (p *prepared) allocate(bytes int) unsafe.Pointer {
	memory := C.calloc(1, C.size_t(bytes+1))
	p.memory = append(p.memory, memory)
	return memory
}

func (p *prepared) integers(values []int64) *C.int64_t {
	first := (*C.int64_t)(p.allocate(8 * len(values)))
	copy(unsafe.Slice((*int64)(unsafe.Pointer(first)), len(values)), values)
	return first
}

//export nvf_plan_release
func nvf_plan_release(h C.nvf_plan) {
	if p := take[prepared](handle(h)); p != nil {
		for _, memory := range p.memory {
			C.free(memory)
		}
	}
}

//export nvf_run
func nvf_run(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, e *C.nvf_error) C.int {
	return report(e, runPlan(h, inputs, n, outputs, numOutputs, seed, nil))
}

func runPlan(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, stop *atomic.Bool) (err error) {
	p, err := get[prepared](handle(h), "a plan")
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = caught(r, func() string { return "run\n\n" + p.text() })
		}
	}()
	if int(n) != p.numInputs || int(numOutputs) != len(p.outputs) {
		return core.InvalidArgumentf("the plan has %d inputs and %d outputs, got %d and %d", p.numInputs, len(p.outputs), int(n), int(numOutputs))
	}
	tensors, err := tensorsOf(unsafe.Slice((*C.nvf_input)(unsafe.Pointer(inputs)), int(n)))
	if err != nil {
		return err
	}
	memories := append([]unsafe.Pointer(nil), unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(outputs)), int(numOutputs))...)
	return p.run(tensors, memories, uint64(seed), stop)
}

// A job is a run on a thread of its own.
type job struct {
	done chan struct{}
	stop atomic.Bool
	err  error
}

//export nvfi_start
func nvfi_start(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, out *C.nvfi_job, e *C.nvf_error) C.int {
	j := &job{done: make(chan struct{})}
	*out = C.nvfi_job(handles.put(j))
	go func() {
		defer close(j.done)
		j.err = runPlan(h, inputs, n, outputs, numOutputs, seed, &j.stop)
	}()
	return C.NVF_OK
}

//export nvfi_wait
func nvfi_wait(h C.nvfi_job, milliseconds C.int32_t, status *C.int, e *C.nvf_error) C.int {
	j, err := get[job](handle(h), "a job")
	if err != nil {
		*status = report(e, err)
		return 1
	}
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-j.done:
		take[job](handle(h))
		*status = report(e, j.err)
		return 1
	case <-timer.C:
		return 0
	}
}

//export nvfi_stop
func nvfi_stop(h C.nvfi_job) {
	if j, err := get[job](handle(h), "a job"); err == nil {
		j.stop.Store(true)
	}
}

// checkDevices decides where a run takes place, from the tensors that have
// dimensions: those without are passed by value. There is only the CPU.
func checkDevices(inputs []C.nvf_input, device int) error {
	onHost, onDevice := -1, -1
	for i := range inputs {
		in := &inputs[i]
		if in.kind != C.NVF_KIND_TENSOR {
			continue
		}
		switch {
		case in.device_type == C.NVF_CPU:
			if in.rank > 0 {
				onHost = i
			}
		case in.device_type != C.NVF_CUDA:
			return core.InvalidTypef("execute(): input %d is on a device of kind %d (in DLPack); fusions run on cpu and cuda devices", i, int(in.device_type))
		case onDevice >= 0 && inputs[onDevice].device_index != in.device_index:
			return core.InvalidArgumentf("execute(): input %d is on cuda:%d and input %d is on cuda:%d; all tensors must be on one device",
				onDevice, int(inputs[onDevice].device_index), i, int(in.device_index))
		default:
			onDevice = i
		}
	}
	switch {
	case onHost >= 0 && onDevice >= 0:
		return core.InvalidArgumentf("execute(): input %d is on cpu and input %d is on cuda:%d; all tensors with dimensions must be on one device",
			onHost, onDevice, int(inputs[onDevice].device_index))
	case onDevice >= 0:
		return noGPU(fmt.Sprintf("input %d is on cuda:%d", onDevice, int(inputs[onDevice].device_index)))
	case onHost < 0 && device >= 0:
		return noGPU(fmt.Sprintf("device is cuda:%d", device))
	}
	return nil
}

func noGPU(found string) error {
	return &core.Unsupported{What: "execute(): this build of nvfuser_go runs fusions on the CPU only",
		Refusals: []core.Refusal{{By: "cuda", Rule: "build", Sentence: found + ", and this build has no GPU support"}}}
}

// tensorsOf reads inputs. Sizes and strides are copied: the caller may change
// them once the call has returned.
func tensorsOf(inputs []C.nvf_input) ([]input, error) {
	out := make([]input, len(inputs))
	for i := range inputs {
		in := &inputs[i]
		if in.kind != C.NVF_KIND_TENSOR {
			v := C.nvf_value{kind: in.kind, integer: in.integer, real: in.real, imag: in.imag}
			given, err := (&definition{}).given(0, C.const_values(unsafe.Pointer(&v)))
			if err == nil && given.Kind != core.GivenNumber {
				err = core.InvalidTypef("execute(): input %d must be a tensor or a number, got %s", i, describeGiven(given))
			}
			if err != nil {
				return nil, err
			}
			out[i].scalar = given.Num
			continue
		}
		t := dtypeOf(in.dtype)
		if !t.Valid() || t == dtype.Null {
			return nil, core.InvalidTypef("execute(): input %d has a dtype that fusions do not have", i)
		}
		if in.rank < 0 || in.rank > core.MaxRank {
			return nil, core.InvalidArgumentf("execute(): input %d has %d dimensions; at most %d are supported", i, int(in.rank), core.MaxRank)
		}
		n := int(in.rank)
		out[i] = input{tensor: true, dtype: t, data: in.data,
			sizes:   append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(in.sizes)), n)...),
			strides: append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(in.strides)), n)...)}
		if err := out[i].check(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// check refuses tensors that no run can read.
func (in *input) check(i int) error {
	for d, size := range in.sizes {
		switch {
		case size < 0:
			return core.InvalidArgumentf("execute(): input %d has size %d in dimension %d; a size is not negative", i, size, d)
		case in.strides[d] < 0:
			return core.InvalidArgumentf("execute(): input %d has stride %d in dimension %d; a stride is not negative", i, in.strides[d], d)
		}
	}
	if in.data == nil && core.NumElements(in.sizes) > 0 {
		return core.InvalidArgumentf("execute(): input %d has no memory: its storage was freed, or it belongs to a transformation of torch", i)
	}
	return nil
}
