package main

/*
#include "export_types.h"
*/
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/cudadrv/real"
	"nvfuser_go/executor"
)

// maxPlans bounds the plans of an executor in C memory. A program that meets
// more kinds of inputs takes them from the executor's own cache again.
const maxPlans = 256

// plans are those of an executor that C can find without making anything.
type plans struct {
	lock   sync.RWMutex
	by     map[string]*prepared // by key
	closed bool
}

// A prepared is a plan with its form in C memory.
type prepared struct {
	*executor.Plan
	x   *execution
	key string
	setting
	inputs   int   // their number
	own      []int // the outputs of the description, by position in the plan
	launches []*real.Launch
	block    *C.nvfi_plan
}

// key is what plans for inputs are found by, in the memory of a.
func (x *execution) key(a *arguments, s setting) []byte {
	a.key = x.AppendKey(a.key[:0], a.inputs, x.options(s))
	return a.key
}

// find returns the plan for inputs, with a reference more, or nil.
func (x *execution) find(a *arguments, s setting) (*prepared, error) {
	key := x.key(a, s)
	x.plans.lock.RLock()
	defer x.plans.lock.RUnlock()
	p := x.plans.by[string(key)]
	if p != nil {
		p.hold()
		x.last.Store(p.Plan)
	}
	return p, nil
}

// prepare is find, and makes the plan if there is none.
func (x *execution) prepare(a *arguments, s setting) (*prepared, error) {
	if p, _ := x.find(a, s); p != nil {
		return p, nil
	}
	plan, err := x.PlanWith(a.inputs, x.options(s))
	if err != nil {
		return nil, err
	}
	p := &prepared{Plan: plan, x: x, key: string(a.key), setting: s, inputs: len(a.inputs)}
	if err := p.fill(a.inputs); err != nil {
		return nil, err
	}
	x.last.Store(plan)
	return x.plans.keep(p), nil
}

// keep adds p, unless another thread was faster, and returns the one that is
// kept, with a reference for the caller.
func (t *plans) keep(p *prepared) *prepared {
	t.lock.Lock()
	defer t.lock.Unlock()
	if known := t.by[p.key]; known != nil {
		known.hold()
		p.release()
		return known
	}
	if t.closed {
		return p
	}
	if len(t.by) >= maxPlans {
		t.drop()
	}
	if t.by == nil {
		t.by = map[string]*prepared{}
	}
	p.hold()
	t.by[p.key] = p
	return p
}

// close drops the plans, and those that are being made.
func (t *plans) close() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.closed = true
	t.drop()
}

func (t *plans) drop() {
	for _, p := range t.by {
		p.release()
	}
	t.by = nil
}

func (p *prepared) hold() { atomic.AddInt64((*int64)(unsafe.Pointer(&p.block.references)), 1) }

func (p *prepared) release() {
	if atomic.AddInt64((*int64)(unsafe.Pointer(&p.block.references)), -1) == 0 {
		p.free()
	}
}

func (p *prepared) free() {
	take[prepared](handle(p.block.self))
	for _, l := range p.launches {
		l.Free()
	}
	C.plan_bury(p.block)
}

// A cutter hands out pieces of a block of C memory.
type cutter struct{ at unsafe.Pointer }

func cut[T any](c *cutter, n int) []T {
	var zero T
	first := (*T)(c.at)
	c.at = unsafe.Add(c.at, (uintptr(n)*unsafe.Sizeof(zero)+15)/16*16)
	return unsafe.Slice(first, n)
}

// fill makes the form in C memory, with one reference.
func (p *prepared) fill(inputs []executor.Input) error {
	if err := p.load(); err != nil {
		return err
	}
	integers := 0
	for k := range p.Outputs {
		if !p.Outputs[k].Hidden {
			p.own = append(p.own, k)
			integers += 2 * len(p.Outputs[k].Sizes)
		}
	}
	for i := range inputs {
		integers += len(inputs[i].Sizes) + len(inputs[i].Strides)
	}
	hidden := len(p.Outputs) - len(p.own)
	var workspaces []executor.Workspace
	if p.Device != nil {
		workspaces = p.Device.Workspaces
	}
	size := C.sizeof_nvfi_plan + len(p.own)*C.sizeof_nvf_output + 8*integers + len(inputs)*(2+C.sizeof_nvf_input) + 4*len(p.own) + 8*hidden +
		8*len(p.launches) + len(workspaces)*C.sizeof_nvf_workspace
	memory := cutter{C.calloc(1, C.size_t(size+16*8))}
	b := &cut[C.nvfi_plan](&memory, 1)[0]
	p.block = b
	b.references, b.num_inputs = 1, C.int32_t(len(inputs))
	b.description = C.nvf_plan_description{num_outputs: C.int32_t(len(p.own)), work: C.int64_t(p.Work), device_type: C.NVF_CPU}
	if p.NeedsRandom {
		b.description.needs_seed = 1
	}
	numbers := cut[int64](&memory, integers)
	place := func(values []int64) *C.int64_t {
		copy(numbers, values)
		at := (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(numbers)))
		numbers = numbers[len(values):]
		return at
	}
	p.describeOutputs(&memory, place)
	p.describeInputs(&memory, inputs, place)
	if p.Device != nil {
		p.describeDevice(&memory, inputs)
	}
	b.self = C.uint64_t(handles.put(p))
	return nil
}

// describeInputs says which inputs are written to, and if none is, of which kind
// they are: else it matters whether they share memory.
func (p *prepared) describeInputs(memory *cutter, inputs []executor.Input, place func([]int64) *C.int64_t) {
	written := cut[C.int8_t](memory, len(inputs))
	p.block.description.written = unsafe.SliceData(written)
	for k := range p.Outputs {
		if a := p.Outputs[k].Alias; a >= 0 {
			written[a] = 1
		}
	}
	if slices.Contains(written, 1) {
		return
	}
	like, alignments := cut[C.nvf_input](memory, len(inputs)), cut[C.int8_t](memory, len(inputs))
	for i := range inputs {
		x := &inputs[i]
		if !x.Tensor {
			like[i] = numberAs(x.Scalar)
			if p.x.AnyValue(i, x.Scalar.Type) {
				alignments[i] = 1
			}
			continue
		}
		like[i] = C.nvf_input{kind: C.NVF_KIND_TENSOR, dtype: C.int32_t(x.DType), device_type: C.NVF_CPU, rank: C.int32_t(len(x.Sizes)), sizes: place(x.Sizes), strides: place(x.Strides)}
		if x.Device.Type == executor.CUDA {
			like[i].device_type, like[i].device_index = C.NVF_CUDA, C.int32_t(x.Device.Index)
		}
		if x.Data != nil {
			alignments[i] = 1 + C.int8_t(executor.AlignmentOf(x.Data))
		}
	}
	p.block.like, p.block.alignments = unsafe.SliceData(like), unsafe.SliceData(alignments)
}

func (p *prepared) describeOutputs(memory *cutter, place func([]int64) *C.int64_t) {
	outputs := cut[C.nvf_output](memory, len(p.own))
	for i, k := range p.own {
		o := &p.Outputs[k]
		outputs[i] = C.nvf_output{dtype: C.int32_t(o.DType), device_type: C.NVF_CPU, rank: C.int32_t(len(o.Sizes)),
			sizes: place(o.Sizes), strides: place(o.Strides), num_bytes: C.int64_t(o.NumBytes()), same_as: C.int32_t(slices.Index(p.own, o.SameAs))}
		if p.Device != nil {
			outputs[i].device_type, outputs[i].device_index = C.NVF_CUDA, C.int32_t(p.Device.Device)
		}
	}
	p.block.description.outputs = unsafe.SliceData(outputs)
}

// load puts the launches into C memory.
func (p *prepared) load() error {
	if p.Device == nil {
		return nil
	}
	for i := range p.Device.Launches {
		l, err := real.NewLaunch(&p.Device.Launches[i], p.Counts())
		if err != nil {
			for _, l := range p.launches {
				l.Free()
			}
			return err
		}
		p.launches = append(p.launches, l)
	}
	return nil
}

// describeDevice fills in what a run on a CUDA device needs.
func (p *prepared) describeDevice(memory *cutter, inputs []executor.Input) {
	b, d, n := p.block, p.Device, p.Counts()
	b.description.device_type, b.description.device_index = C.NVF_CUDA, C.int32_t(d.Device)
	b.description.draws = C.uint64_t(d.Draws)
	workspaces := cut[C.nvf_workspace](memory, len(d.Workspaces))
	for i, w := range d.Workspaces {
		workspaces[i].num_bytes = C.int64_t(w.Bytes)
		if w.Zeroed {
			workspaces[i].zeroed = 1
		}
	}
	b.description.num_workspaces, b.description.workspaces = C.int32_t(len(workspaces)), unsafe.SliceData(workspaces)
	for i := range inputs {
		if inputs[i].Tensor && inputs[i].Device.Type == executor.CUDA {
			b.runs_with_gpu = 1
		}
	}
	b.num_words, b.num_scalars = C.int32_t(n.Total()), C.int32_t(n.Scalars)
	b.workspaces_at = C.int32_t(n.Inputs + n.Outputs)
	b.random_at = b.workspaces_at + C.int32_t(n.Workspaces)
	b.scalars_at = b.random_at + 2
	places, hidden := cut[C.int32_t](memory, len(p.own)), cut[C.int32_t](memory, 2*(len(p.Outputs)-len(p.own)))
	for i, k := range p.own {
		places[i] = C.int32_t(n.Inputs + k)
	}
	b.places, b.hidden = unsafe.SliceData(places), unsafe.SliceData(hidden)
	for k := range p.Outputs {
		if o := &p.Outputs[k]; o.Hidden {
			hidden[2*b.num_hidden], hidden[2*b.num_hidden+1] = C.int32_t(n.Inputs+k), C.int32_t(o.Alias)
			b.num_hidden++
		}
	}
	launches := cut[unsafe.Pointer](memory, len(p.launches))
	for i, l := range p.launches {
		launches[i] = l.Pointer()
	}
	b.num_launches, b.launches = C.int32_t(len(launches)), C.const_launches(unsafe.Pointer(unsafe.SliceData(launches)))
	if len(d.Launches) > 0 {
		b.context = C.uintptr_t(d.Launches[0].Function.Context)
	}
}
