package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/executor"
)

// executors holds those of the definitions used last, for the whole process.
var executors = sync.OnceValue(func() *executor.Cache {
	return executor.NewCache(maxExecutors, cubins.NewDriver(driver, cubinStore(), runtime.GOMAXPROCS(0)))
})

// maxExecutors bounds what a process that defines new fusions all the time keeps;
// an executor that is in use lives on without it.
const maxExecutors = 1024

// An execution is an executor that C holds.
type execution struct {
	*executor.Executor
	simulates atomic.Int64                  // 0: no; else one more than the candidate
	last      atomic.Pointer[executor.Plan] // that was prepared
}

// plan returns the plan for inputs in C memory.
func (x *execution) plan(inputs []executor.Input, device *executor.Device) (*executor.Plan, error) {
	k := x.simulates.Load()
	return x.PlanWith(inputs, executor.Options{Simulate: k > 0, Candidate: int(max(k-1, 0)), Device: device})
}

//export nvf_executor_create
func nvf_executor_create(h C.nvf_fusion, out *C.nvf_executor, e *C.nvf_error) C.int {
	return on(h, e, named("executor"), func(d *definition) error {
		f := d.fusion.Clone()
		f.Freeze()
		x, err := executors().Executor(f)
		if err == nil {
			*out = C.nvf_executor(handles.put(&execution{Executor: x}))
		}
		return err
	})
}

//export nvf_executor_simulate
func nvf_executor_simulate(h C.nvf_executor, candidate C.int32_t, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err == nil && candidate < 0 {
		err = core.InvalidArgumentf("nvf_executor_simulate(): candidate is %d; it is counted from 0", int(candidate))
	}
	if err == nil {
		x.simulates.Store(1 + int64(candidate))
	}
	return report(e, err)
}

//export nvf_executor_destroy
func nvf_executor_destroy(h C.nvf_executor) { take[execution](handle(h)) }

// A prepared is a plan that C holds, with its description in C memory.
type prepared struct {
	*executor.Plan
	inputs  int
	kind    uint64 // fingerprint of the inputs
	own     []int  // the outputs of the description, by position in the plan
	block   unsafe.Pointer
	outputs []C.nvf_output
}

//export nvf_prepare
func nvf_prepare(h C.nvf_executor, inputs C.const_inputs, n, device C.int32_t, out *C.nvf_plan, description *C.const_description, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "prepare\n\n" + x.Text() }, func() error {
		tensors, err := inputsOf(inputs, n)
		if err != nil {
			return err
		}
		plan, err := x.plan(tensors, deviceOf(int(device)))
		if err != nil {
			return err
		}
		if plan.Device != nil {
			return &core.Unsupported{What: "execute(): this build launches nothing on a CUDA device"}
		}
		x.last.Store(plan)
		p := &prepared{Plan: plan, inputs: int(n), kind: fingerprint(tensors)}
		*description = p.describe()
		*out = C.nvf_plan(handles.put(p))
		return nil
	})
}

// describe makes the description of a plan: one block of C memory.
func (p *prepared) describe() C.const_description {
	integers := 0
	for k := range p.Outputs {
		if !p.Outputs[k].Hidden {
			p.own = append(p.own, k)
			integers += 2 * len(p.Outputs[k].Sizes)
		}
	}
	n := len(p.own)
	size := C.sizeof_nvf_plan_description + n*C.sizeof_nvf_output + 8*integers + p.inputs
	p.block = C.calloc(1, C.size_t(size))
	d := (*C.nvf_plan_description)(p.block)
	first := unsafe.Add(p.block, C.sizeof_nvf_plan_description)
	p.outputs = unsafe.Slice((*C.nvf_output)(first), n)
	numbers := unsafe.Slice((*int64)(unsafe.Add(first, n*C.sizeof_nvf_output)), integers)
	written := unsafe.Slice((*int8)(unsafe.Add(first, n*C.sizeof_nvf_output+8*integers)), p.inputs)
	place := func(values []int64) *C.int64_t {
		copy(numbers, values)
		at := (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(numbers)))
		numbers = numbers[len(values):]
		return at
	}
	for i, k := range p.own {
		o := &p.Outputs[k]
		p.outputs[i] = C.nvf_output{dtype: C.int32_t(o.DType), device_type: C.NVF_CPU, rank: C.int32_t(len(o.Sizes)),
			sizes: place(o.Sizes), strides: place(o.Strides), num_bytes: C.int64_t(o.NumBytes()), same_as: C.int32_t(slices.Index(p.own, o.SameAs))}
	}
	for k := range p.Outputs {
		if a := p.Outputs[k].Alias; a >= 0 {
			written[a] = 1
		}
	}
	*d = C.nvf_plan_description{num_outputs: C.int32_t(n), work: C.int64_t(p.Work), outputs: (*C.nvf_output)(first),
		written: (*C.int8_t)(unsafe.Pointer(unsafe.SliceData(written)))}
	if p.NeedsRandom {
		d.needs_seed = 1
	}
	return C.const_description(d)
}

//export nvf_plan_release
func nvf_plan_release(h C.nvf_plan) {
	if p := take[prepared](handle(h)); p != nil {
		C.free(p.block)
	}
}

//export nvf_run
func nvf_run(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, e *C.nvf_error) C.int {
	return report(e, run(h, inputs, n, outputs, numOutputs, seed, nil))
}

func run(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, stop *atomic.Bool) (err error) {
	p, err := get[prepared](handle(h), "a plan")
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = caught(r, named("run"))
		}
	}()
	if int(n) != p.inputs || int(numOutputs) != len(p.own) {
		return core.InvalidArgumentf("the plan has %d inputs and %d outputs, got %d and %d", p.inputs, len(p.own), int(n), int(numOutputs))
	}
	tensors, err := inputsOf(inputs, n)
	if err != nil {
		return err
	}
	if fingerprint(tensors) != p.kind {
		return core.InvalidArgumentf("the inputs are not those that the plan was prepared for: only their data may differ")
	}
	memories := make([]unsafe.Pointer, len(p.Outputs))
	for i, memory := range unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(outputs)), int(numOutputs)) {
		o := &p.Outputs[p.own[i]]
		if memory == nil && o.SameAs < 0 && core.NumElements(o.Sizes) > 0 {
			return core.InvalidArgumentf("output %d has no memory", i)
		}
		memories[p.own[i]] = memory
	}
	return p.Run(tensors, memories, core.RandomState{Seed: uint64(seed)}, stop)
}

// fingerprint is a hash of all of the inputs but where their data lie. A plan is
// run without checking them again, and would read beyond other ones.
func fingerprint(inputs []executor.Input) uint64 {
	h := uint64(len(inputs))
	mix := func(x uint64) { h = (h ^ x) * 0x9e3779b97f4a7c15; h ^= h >> 29 }
	for i := range inputs {
		x := &inputs[i]
		if !x.Tensor {
			mix(uint64(x.Scalar.Type))
			mix(uint64(x.Scalar.I))
			mix(math.Float64bits(x.Scalar.Re))
			mix(math.Float64bits(x.Scalar.Im))
			continue
		}
		mix(uint64(x.DType)<<32 | uint64(x.Device.Type)<<24 | uint64(x.Device.Index)<<8 | uint64(len(x.Sizes)))
		if x.Data == nil {
			mix(1)
		}
		for d := range x.Sizes {
			mix(uint64(x.Sizes[d]))
			mix(uint64(x.Strides[d]))
		}
	}
	return h
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
		j.err = run(h, inputs, n, outputs, numOutputs, seed, &j.stop)
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

// deviceOf returns where the caller says that a run without tensors takes place;
// nil: nowhere.
func deviceOf(index int) *executor.Device {
	if index < 0 {
		return nil
	}
	return &executor.Device{Type: executor.CUDA, Index: index}
}

// inputsOf reads inputs. Their sizes and strides stay in the caller's memory,
// which outlives the call.
func inputsOf(first C.const_inputs, n C.int32_t) ([]executor.Input, error) {
	if n < 0 {
		return nil, core.InvalidArgumentf("execute(): a negative number of inputs")
	}
	inputs := unsafe.Slice((*C.nvf_input)(unsafe.Pointer(first)), int(n))
	out := make([]executor.Input, len(inputs))
	for i := range inputs {
		if err := inputOf(&out[i], &inputs[i], i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func inputOf(out *executor.Input, in *C.nvf_input, i int) error {
	if in.kind != C.NVF_KIND_TENSOR {
		v := C.nvf_value{kind: in.kind, integer: in.integer, real: in.real, imag: in.imag}
		given, err := (*definition)(nil).argument(0, C.const_values(unsafe.Pointer(&v)), "execute", fmt.Sprintf("input %d", i))
		if err == nil && given.Kind != core.GivenNumber {
			err = core.InvalidTypef("execute(): input %d must be a tensor or a number, got %s", i, describeGiven(given))
		}
		out.Scalar = given.Num
		return err
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
