package main

/*
#include "export_types.h"

#cgo noescape plan_begin
#cgo nocallback plan_begin
#cgo noescape plan_borrow
#cgo nocallback plan_borrow
#cgo noescape plan_launch
#cgo nocallback plan_launch
*/
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/cudadrv/real"
	"nvfuser_go/executor"
)

// executors holds those of the definitions used last, for the whole process.
var executors = sync.OnceValue(func() *executor.Cache {
	c := executor.NewCache(maxExecutors, cubins.NewDriver(driver, cubinStore(), real.ProgramID(), runtime.GOMAXPROCS(0)))
	c.UseModels(models())
	return c
})

// maxExecutors bounds what a process that defines new fusions all the time keeps;
// an executor that is in use lives on without it.
const maxExecutors = 1024

// An execution is an executor that C holds.
type execution struct {
	*executor.Executor
	simulates atomic.Int64                  // 0: no; else one more than the candidate
	serial    atomic.Bool                   // kernels are made one after another
	apart     atomic.Bool                   // and none starts before the one before it has ended
	exact     atomic.Bool                   // no operation is approximated
	last      atomic.Pointer[executor.Plan] // that was prepared
	plans     plans
}

// A setting is what a caller says of a run, besides its inputs.
type setting struct {
	device         int  // as for nvf_prepare
	randomInMemory bool // as for nvfi_find
	views          bool // it makes outputs that are views, as Python does
}

// options are those that plans for such runs are made with.
func (x *execution) options(s setting) executor.Options {
	k := x.simulates.Load()
	return executor.Options{Simulate: k > 0, Candidate: int(max(k-1, 0)), Serial: x.serial.Load(), Apart: x.apart.Load(), Exact: x.exact.Load(), Device: deviceOf(s.device), RandomInMemory: s.randomInMemory, Views: s.views}
}

// devices are what options point to, so that a call allocates none.
var devices = func() (all [maxDevices + 1]executor.Device) {
	for i := range maxDevices {
		all[i+1] = executor.Device{Type: executor.CUDA, Index: i}
	}
	return all
}()

// maxDevices is how many devices can be named, as in Python.
const maxDevices = 256

// deviceOf returns where the caller says that a run without tensors takes place;
// nil: nowhere.
func deviceOf(device int) *executor.Device {
	switch {
	case device == C.NVF_ANY_DEVICE:
		return nil
	case device == C.NVF_CPU_DEVICE:
		return &devices[0]
	case device < maxDevices:
		return &devices[device+1]
	}
	return &executor.Device{Type: executor.CUDA, Index: device}
}

// inspect returns what there is to see for inputs in C memory.
func (x *execution) inspect(inputs []executor.Input) (*executor.Inspection, error) {
	return x.Inspect(inputs, x.options(setting{device: C.NVF_ANY_DEVICE, views: true}))
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

//export nvfi_plan_so
func nvfi_plan_so(h C.nvf_executor, serial, apart, exact C.int32_t, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err == nil {
		x.serial.Store(serial != 0)
		x.apart.Store(apart != 0)
		x.exact.Store(exact != 0)
	}
	return report(e, err)
}

//export nvf_executor_destroy
func nvf_executor_destroy(h C.nvf_executor) {
	if x := take[execution](handle(h)); x != nil {
		x.plans.close()
	}
}

// found passes the plan that find finds for inputs to use, if there is one.
func found(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, s setting, e *C.nvf_error, find func(*execution, *arguments, setting) (*prepared, error), use func(*prepared)) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err == nil && s.device < C.NVF_CPU_DEVICE {
		err = core.InvalidArgumentf("execute(): device is %d", s.device)
	}
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "prepare\n\n" + x.Text() }, func() error {
		given, err := readInputs(inputs, n)
		if err != nil {
			return err
		}
		defer given.done()
		p, err := find(x, given, s)
		if err == nil && p != nil {
			use(p)
		}
		return err
	})
}

//export nvfi_find
func nvfi_find(h C.nvf_executor, inputs C.const_inputs, n, device, random C.int32_t, out **C.nvfi_plan, e *C.nvf_error) C.int {
	*out = nil
	return found(h, inputs, n, setting{int(device), random != 0, true}, e, (*execution).recall, func(p *prepared) { *out = p.block })
}

//export nvfi_has_plan
func nvfi_has_plan(h C.nvf_executor, inputs C.const_inputs, n, device C.int32_t, has *C.int32_t, e *C.nvf_error) C.int {
	*has = 0
	return found(h, inputs, n, setting{device: int(device), views: true}, e, (*execution).find, func(p *prepared) {
		p.release()
		*has = 1
	})
}

//export nvfi_make
func nvfi_make(h C.nvf_executor, inputs C.const_inputs, n, device, random C.int32_t, out **C.nvfi_plan, e *C.nvf_error) C.int {
	return found(h, inputs, n, setting{int(device), random != 0, true}, e, (*execution).prepare, func(p *prepared) { *out = p.block })
}

// A lease is a plan as a C program holds it: each has a handle of its own, so
// that one released twice is stale.
type lease struct{ *prepared }

// leased returns the plan of h with a reference more: another thread may release h
// while it runs.
func leased(h C.nvf_plan) (*lease, error) {
	return getAnd(handle(h), "a plan", func(l *lease) { l.hold() })
}

//export nvf_prepare
func nvf_prepare(h C.nvf_executor, inputs C.const_inputs, n, device C.int32_t, out *C.nvf_plan, description *C.const_description, e *C.nvf_error) C.int {
	return found(h, inputs, n, setting{device: int(device)}, e, (*execution).prepare, func(p *prepared) {
		*description = C.const_description(&p.block.description)
		*out = C.nvf_plan(handles.put(&lease{p}))
	})
}

//export nvf_plan_release
func nvf_plan_release(h C.nvf_plan) {
	if l := take[lease](handle(h)); l != nil {
		l.release()
	}
}

// What addresses on a device that C programs give are multiples of, in bytes:
// kernels write vectors there.
const (
	outputAlignment    = 16
	workspaceAlignment = 256
)

// on runs body on a plan that a C program holds and inputs of its kind.
func (l *lease) on(inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, body func([]executor.Input) error) error {
	if int(n) != l.inputs || int(numOutputs) != len(l.own) {
		return core.InvalidArgumentf("the plan has %d inputs and %d outputs, got %d and %d", l.inputs, len(l.own), int(n), int(numOutputs))
	}
	for i, memory := range unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(outputs)), int(numOutputs)) {
		o := &l.Outputs[l.own[i]]
		if memory == nil && o.SameAs < 0 && core.NumElements(o.Sizes) > 0 {
			return core.InvalidArgumentf("output %d has no memory", i)
		}
		if l.OnDevice() && uintptr(memory)%outputAlignment != 0 {
			return core.InvalidArgumentf("output %d is at %#x, which is no multiple of %d", i, uintptr(memory), outputAlignment)
		}
	}
	given, err := readInputs(inputs, n)
	if err != nil {
		return err
	}
	defer given.done()
	if string(l.x.key(given, l.setting)) != l.key {
		return core.InvalidArgumentf("the inputs are not those that the plan was prepared for: only their data may differ, which must be aligned as they were")
	}
	return body(given.inputs)
}

//export nvf_run
func nvf_run(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, seed C.uint64_t, e *C.nvf_error) C.int {
	l, err := leased(h)
	if err != nil {
		return report(e, err)
	}
	defer l.release()
	return guard(e, named("run"), func() error {
		if l.OnDevice() {
			return core.InvalidArgumentf("nvf_run(): the plan is for %v: call nvf_launch", executor.Device{Type: executor.CUDA, Index: l.Device.Device})
		}
		if err := l.refuseCalls("nvf_run"); err != nil {
			return err
		}
		return l.on(inputs, n, outputs, numOutputs, func(given []executor.Input) error {
			memories := make([]unsafe.Pointer, len(l.Outputs))
			for i, memory := range unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(outputs)), len(l.own)) {
				memories[l.own[i]] = memory
			}
			return l.Run(given, memories, core.RandomState{Seed: uint64(seed)}, nil)
		})
	})
}

//export nvf_launch
func nvf_launch(h C.nvf_plan, inputs C.const_inputs, n C.int32_t, outputs C.const_memories, numOutputs C.int32_t, workspaces C.const_memories, numWorkspaces C.int32_t,
	seed, offset C.uint64_t, stream unsafe.Pointer, e *C.nvf_error) C.int {
	l, err := leased(h)
	if err != nil {
		return report(e, err)
	}
	defer l.release()
	return guard(e, named("launch"), func() error {
		switch {
		case !l.OnDevice():
			return core.InvalidArgumentf("nvf_launch(): the plan is for the CPU: call nvf_run")
		case int(numWorkspaces) != len(l.Device.Workspaces):
			return core.InvalidArgumentf("the plan has %d workspaces, got %d", len(l.Device.Workspaces), int(numWorkspaces))
		}
		if err := l.refuseCalls("nvf_launch"); err != nil {
			return err
		}
		for i, memory := range unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(workspaces)), int(numWorkspaces)) {
			switch {
			case memory == nil && l.Device.Workspaces[i].Bytes > 0 && !l.Device.Workspaces[i].Zeroed:
				return core.InvalidArgumentf("workspace %d has no memory", i)
			case uintptr(memory)%workspaceAlignment != 0:
				return core.InvalidArgumentf("workspace %d is at %#x, which is no multiple of %d", i, uintptr(memory), workspaceAlignment)
			}
		}
		return l.on(inputs, n, outputs, numOutputs, func(given []executor.Input) error {
			words := make([]uint64, l.counts.Total())
			C.plan_begin(l.block, inputs, seed, offset, (*C.uint64_t)(&words[0]))
			l.place(words, outputs, 0, numOutputs)
			l.place(words, workspaces, numOutputs, numWorkspaces)
			if err := l.Evaluate(given, words[l.block.scalars_at:]); err != nil {
				return err
			}
			for i := range unsafe.Slice(l.block.phases, l.block.num_phases) {
				phase := (C.const_phases)(unsafe.Add(unsafe.Pointer(l.block.phases), i*C.sizeof_nvfi_phase))
				borrowed, err := l.borrow(phase, words, uintptr(stream))
				if err != nil {
					return err
				}
				var failed C.int32_t
				if code := C.plan_launch(l.block, phase, borrowed, (*C.uint64_t)(&words[0]), C.uintptr_t(uintptr(stream)), &failed); code != 0 {
					return l.launchError(int(code), int(failed))
				}
			}
			return nil
		})
	})
}

// place puts the addresses of memories, which begin with that of number first, among
// the words.
func (p *prepared) place(words []uint64, memories C.const_memories, first, n C.int32_t) {
	places := unsafe.Slice(p.block.places, first+n)[first:]
	for i, memory := range unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(memories)), int(n)) {
		words[places[i]] = uint64(uintptr(memory))
	}
}

// borrow has the zeroed memories of a phase lie in the counters of the stream if the caller has
// not brought them, and returns whether it does.
func (l *lease) borrow(phase C.const_phases, words []uint64, stream uintptr) (C.int, error) {
	zeroed := unsafe.Slice(phase.zeroed, phase.num_zeroed)
	memories := len(l.own) + l.counts.Workspaces
	places, all := unsafe.Slice(l.block.places, memories), unsafe.Slice(l.block.memories, memories)
	missing := slices.IndexFunc(zeroed, func(memory C.int32_t) bool { return words[places[memory]] == 0 && all[memory].num_bytes > 0 })
	if missing < 0 {
		return 0, nil
	}
	if C.plan_borrow(l.block, phase, C.uintptr_t(stream), (*C.uint64_t)(&words[0])) == 0 {
		return 0, core.InvalidArgumentf("nvf_launch(): workspace %d has no memory, and the library has none for it: the stream may be captured for a graph, it may be the default one of a thread, there may have been too many streams, or no memory", int(zeroed[missing])-len(l.own))
	}
	return 1, nil
}

// refuseCalls refuses plans that call torch.
func (p *prepared) refuseCalls(function string) error {
	if p.block.num_calls == 0 {
		return nil
	}
	return &core.Unsupported{What: function + "(): the plan calls torch, which is done from Python alone", Refusals: p.callsOfTorch()}
}

// callsOfTorch names what torch computes.
func (p *prepared) callsOfTorch() (refusals []core.Refusal) {
	for i := range p.Device.Calls {
		refusals = append(refusals, core.Refusal{By: "executor", Rule: "torch", Sentence: p.Device.Calls[i].Name + "() is computed by torch"})
	}
	return refusals
}

// onFound runs body on a plan that C has found and its inputs.
func onFound(b *C.nvfi_plan, inputs C.const_inputs, body func(*prepared, []executor.Input) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = caught(r, named("run"))
		}
	}()
	p, err := get[prepared](handle(b.self), "a plan")
	if err != nil {
		return err
	}
	given, err := readInputs(inputs, b.num_inputs)
	if err != nil {
		return err
	}
	defer given.done()
	return body(p, given.inputs)
}

func runFound(b *C.nvfi_plan, phase C.int32_t, inputs C.const_inputs, words C.const_words, stop *atomic.Bool) error {
	return onFound(b, inputs, func(p *prepared, given []executor.Input) error {
		addresses := unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(words)), int(b.random_at))
		random := unsafe.Slice((*uint64)(unsafe.Pointer(words)), int(b.num_words))[b.random_at:]
		return p.RunPhase(int(phase), addresses, given, core.RandomState{Seed: random[0], Offset: random[1]}, stop)
	})
}

//export nvfi_run_phase
func nvfi_run_phase(b *C.nvfi_plan, phase C.int32_t, inputs C.const_inputs, words C.const_words, e *C.nvf_error) C.int {
	return report(e, runFound(b, phase, inputs, words, nil))
}

//export nvfi_scalars
func nvfi_scalars(b *C.nvfi_plan, inputs C.const_inputs, words *C.uint64_t, e *C.nvf_error) C.int {
	return report(e, onFound(b, inputs, func(p *prepared, given []executor.Input) error {
		return p.Evaluate(given, unsafe.Slice((*uint64)(unsafe.Pointer(words)), int(b.num_scalars)))
	}))
}

//export nvfi_launch_error
func nvfi_launch_error(b *C.nvfi_plan, code, failed C.int32_t, e *C.nvf_error) C.int {
	p, err := get[prepared](handle(b.self), "a plan")
	if err == nil {
		err = p.launchError(int(code), int(failed))
	}
	return report(e, err)
}

// launchError returns the error of plan_launch, nil if code is 0.
func (p *prepared) launchError(code, failed int) error {
	if code == 0 {
		return nil
	}
	if failed < 0 {
		return failure("execute(): memory of a run on cuda:%d could not be set to zero: %v", p.Device.Device, real.CallError("cuMemsetD8Async", code))
	}
	l := &p.Device.Launches[failed]
	return failure("execute(): kernel %s could not be launched on cuda:%d with a grid of %d x %d x %d blocks of %d x %d x %d threads and %d bytes of dynamic shared memory: %v",
		l.Function.Name, p.Device.Device, l.Grid[0], l.Grid[1], l.Grid[2], l.Block[0], l.Block[1], l.Block[2], l.Shared, real.CallError("cuLaunchKernelEx", code))
}

//export nvfi_forget
func nvfi_forget(h C.uint64_t) {
	if p, err := get[prepared](handle(h), "a plan"); err == nil {
		p.free()
	}
}
