package main

/*
#include "export_types.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor"
)

// A cutter hands out pieces of a block of C memory; without one, it counts how
// large that must be.
type cutter struct {
	at   unsafe.Pointer
	size uintptr
}

func cut[T any](c *cutter, n int) []T {
	var zero T
	size := (uintptr(n)*unsafe.Sizeof(zero) + 15) / 16 * 16
	c.size += size
	if c.at == nil {
		return make([]T, n)
	}
	first := (*T)(c.at)
	c.at = unsafe.Add(c.at, size)
	return unsafe.Slice(first, n)
}

// integers returns a copy of values.
func (c *cutter) integers(values []int64) *C.int64_t {
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(copied(c, values))))
}

// text returns a copy of s that ends with a zero.
func (c *cutter) text(s string) *C.char {
	bytes := cut[byte](c, len(s)+1)
	copy(bytes, s)
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes)))
}

func copied[T any](c *cutter, values []T) []T {
	all := cut[T](c, len(values))
	copy(all, values)
	return all
}

// fill makes the form in C memory, with one reference.
func (p *prepared) fill(inputs []executor.Input) error {
	if err := p.load(); err != nil {
		return err
	}
	p.number()
	var measure cutter
	p.describe(&measure, inputs)
	p.describe(&cutter{at: C.calloc(1, C.size_t(measure.size))}, inputs)
	p.block.self = C.uint64_t(handles.put(p))
	return nil
}

// A numbering says how C counts the memories of a plan: outputs that are returned,
// then workspaces; and inputs by the complement of their position.
type numbering struct {
	own    []int // the outputs that are returned, by position in the plan
	of     []C.int32_t
	counts cudadrv.ValueCounts
}

// number makes the numbering of the plan.
func (p *prepared) number() {
	n := &p.numbering
	n.counts = p.Counts()
	for i := range n.counts.Inputs {
		n.of = append(n.of, C.int32_t(^i))
	}
	for k := range p.Outputs {
		switch o := &p.Outputs[k]; {
		case o.Hidden:
			n.of = append(n.of, C.int32_t(^o.Alias))
		case o.SameAs >= 0:
			n.own, n.of = append(n.own, k), append(n.of, n.of[n.counts.Inputs+o.SameAs])
		default:
			n.own, n.of = append(n.own, k), append(n.of, C.int32_t(len(n.own)))
		}
	}
	for i := range n.counts.Workspaces {
		n.of = append(n.of, C.int32_t(len(n.own)+i))
	}
}

// all returns the numbers of slots.
func (n *numbering) all(c *cutter, slots []executor.Slot) (C.int32_t, *C.int32_t) {
	numbers := cut[C.int32_t](c, len(slots))
	for i, s := range slots {
		numbers[i] = n.of[s]
	}
	return C.int32_t(len(slots)), unsafe.SliceData(numbers)
}

// describe makes all but the handle.
func (p *prepared) describe(memory *cutter, inputs []executor.Input) {
	b := &cut[C.nvfi_plan](memory, 1)[0]
	p.block = b
	b.references, b.num_inputs = 1, C.int32_t(len(inputs))
	b.description = C.nvf_plan_description{num_outputs: C.int32_t(len(p.own)), work: C.int64_t(p.Work), device_type: C.NVF_CPU}
	if p.NeedsRandom {
		b.description.needs_seed = 1
	}
	p.describeInputs(memory, inputs)
	p.describeMemories(memory)
	p.describeViews(memory)
	p.describeWords(memory)
	p.describePhases(memory)
	p.describeCalls(memory)
	if p.OnDevice() {
		p.describeDevice(memory, inputs)
	}
}

// describeInputs says which inputs are written to, and if none is, of which kind
// they are: else it matters whether they share memory.
func (p *prepared) describeInputs(memory *cutter, inputs []executor.Input) {
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
		like[i] = C.nvf_input{kind: C.NVF_KIND_TENSOR, dtype: C.int32_t(x.DType), device_type: C.NVF_CPU, rank: C.int32_t(len(x.Sizes)), sizes: memory.integers(slices.Concat(x.Sizes, x.Strides))}
		like[i].strides = (*C.int64_t)(unsafe.Add(unsafe.Pointer(like[i].sizes), 8*len(x.Sizes)))
		if x.Device.Type == executor.CUDA {
			like[i].device_type, like[i].device_index = C.NVF_CUDA, C.int32_t(x.Device.Index)
		}
		if x.Data != nil {
			alignments[i] = 1 + C.int8_t(executor.AlignmentOf(x.Data))
		}
	}
	p.block.like, p.block.alignments = unsafe.SliceData(like), unsafe.SliceData(alignments)
}

// describeMemories says what outputs and workspaces are.
func (p *prepared) describeMemories(memory *cutter) {
	b, d := p.block, &p.block.description
	all := cut[C.nvf_output](memory, len(p.own)+p.counts.Workspaces)
	for i, k := range p.own {
		o := &p.Outputs[k]
		all[i] = C.nvf_output{dtype: C.int32_t(o.DType), rank: C.int32_t(len(o.Sizes)), sizes: memory.integers(o.Sizes), strides: memory.integers(o.Strides),
			num_bytes: C.int64_t(o.NumBytes()), same_as: C.int32_t(slices.Index(p.own, o.SameAs))}
	}
	workspaces := cut[C.nvf_workspace](memory, p.counts.Workspaces)
	for i := range workspaces {
		w := &p.Device.Workspaces[i]
		x := C.nvf_output{num_bytes: C.int64_t(w.Bytes), same_as: -1}
		if w.Tensor {
			x.dtype, x.rank, x.sizes, x.strides = C.int32_t(w.DType), C.int32_t(len(w.Sizes)), memory.integers(w.Sizes), memory.integers(w.Strides)
		}
		all[len(p.own)+i] = x
		workspaces[i].num_bytes = x.num_bytes
		if w.Zeroed {
			workspaces[i].zeroed = 1
		}
	}
	for i := range all {
		all[i].device_type = C.NVF_CPU
		if p.OnDevice() {
			all[i].device_type, all[i].device_index = C.NVF_CUDA, C.int32_t(p.Device.Device)
		}
	}
	b.memories, d.outputs = unsafe.SliceData(all), unsafe.SliceData(all)
	d.num_workspaces, d.workspaces = C.int32_t(len(workspaces)), unsafe.SliceData(workspaces)
}

// describeViews says how outputs are seen that are views.
func (p *prepared) describeViews(memory *cutter) {
	isView := func(k int) bool { return p.Outputs[k].View != nil }
	if !slices.ContainsFunc(p.own, isView) {
		return
	}
	views := cut[C.nvfi_argument](memory, len(p.own))
	for i, k := range p.own {
		if v := p.Outputs[k].View; v != nil {
			views[i] = C.nvfi_argument{kind: C.NVFI_VIEW, from: p.of[v.Of], rank: C.int32_t(len(v.Sizes)),
				sizes: memory.integers(v.Sizes), strides: memory.integers(v.Strides), offset: C.int64_t(v.Offset)}
		}
	}
	p.block.views = unsafe.SliceData(views)
}

// describeWords says what the words of a call are.
func (p *prepared) describeWords(memory *cutter) {
	b, n := p.block, p.counts
	b.num_words, b.num_scalars = C.int32_t(n.Total()), C.int32_t(n.Scalars)
	workspacesAt := n.Inputs + n.Outputs
	b.random_at = C.int32_t(workspacesAt + n.Workspaces)
	b.scalars_at = b.random_at + 2
	places, hidden := cut[C.int32_t](memory, len(p.own)+n.Workspaces), cut[C.int32_t](memory, 2*(len(p.Outputs)-len(p.own)))
	for i, k := range p.own {
		places[i] = C.int32_t(n.Inputs + k)
	}
	for i := range n.Workspaces {
		places[len(p.own)+i] = C.int32_t(workspacesAt + i)
	}
	b.places, b.hidden = unsafe.SliceData(places), unsafe.SliceData(hidden)
	for k := range p.Outputs {
		if o := &p.Outputs[k]; o.Hidden {
			hidden[2*b.num_hidden], hidden[2*b.num_hidden+1] = C.int32_t(n.Inputs+k), C.int32_t(o.Alias)
			b.num_hidden++
		}
	}
}

// describePhases says what a run does.
func (p *prepared) describePhases(memory *cutter) {
	b, all := p.block, p.Phases()
	phases := cut[C.nvfi_phase](memory, len(all))
	launched := 0
	for i := range all {
		from, to := &all[i], &phases[i]
		found, zeroed := p.byContents(from.Allocate)
		to.num_allocated, to.allocated = p.all(memory, slices.Concat(found, zeroed))
		to.num_zeroed, to.zeroed = p.all(memory, zeroed)
		to.counters = p.counters(memory, zeroed)
		to.num_released, to.released = p.all(memory, from.Release)
		to.first_launch, to.num_launches = C.int32_t(launched), C.int32_t(from.Launches)
		to.call = C.int32_t(from.Call)
		launched += from.Launches
	}
	b.num_phases, b.phases = C.int32_t(len(phases)), unsafe.SliceData(phases)
}

// byContents parts what a phase allocates into that which launches find as it is and that
// which is set to zero.
func (p *prepared) byContents(allocate []executor.Slot) (found, zeroed []executor.Slot) {
	for _, s := range allocate {
		if w := p.workspace(s); w != nil && w.Zeroed {
			zeroed = append(zeroed, s)
		} else {
			found = append(found, s)
		}
	}
	return found, zeroed
}

// workspace returns what a slot is, or nil.
func (p *prepared) workspace(s executor.Slot) *executor.Workspace {
	if w := int(s) - p.counts.Inputs - p.counts.Outputs; w >= 0 {
		return &p.Device.Workspaces[w]
	}
	return nil
}

// counters returns where zeroed memories of a phase lie among the counters of a stream, each
// at a place of its own, or nil if there is no room for all. Semaphores lie apart: they may
// leave their words so that no other counter can begin with them.
func (p *prepared) counters(memory *cutter, zeroed []executor.Slot) *C.int32_t {
	if len(zeroed) == 0 || !p.OnDevice() {
		return nil
	}
	places := cut[C.int32_t](memory, len(zeroed))
	semaphores, others := int64(0), int64(C.COUNTERS_SEMAPHORES)
	for i, s := range zeroed {
		next, alignment := &others, int64(workspaceAlignment)
		w := p.workspace(s)
		if w.Semaphore {
			next, alignment = &semaphores, 8
		}
		places[i] = C.int32_t(*next)
		*next += (w.Bytes + alignment - 1) / alignment * alignment
		if semaphores > C.COUNTERS_SEMAPHORES || others > C.COUNTERS_BYTES {
			return nil
		}
	}
	return unsafe.SliceData(places)
}

// describeCalls says how torch is called.
func (p *prepared) describeCalls(memory *cutter) {
	if p.Device == nil {
		return
	}
	all := p.Device.Calls
	calls := cut[C.nvfi_call](memory, len(all))
	for i := range all {
		from, to := &all[i], &calls[i]
		to.name, to.spec = memory.text(from.Name), memory.text(from.Spec)
		arguments := cut[C.nvfi_argument](memory, len(from.Arguments))
		for k := range arguments {
			arguments[k] = p.argument(memory, &from.Arguments[k])
		}
		results := cut[C.nvfi_result](memory, len(from.Results))
		for k := range results {
			r := &from.Results[k]
			results[k] = C.nvfi_result{memory: -1, dtype: C.int32_t(inTorch(r.DType)), rank: C.int32_t(len(r.Sizes)), sizes: memory.integers(r.Sizes), strides: memory.integers(r.Strides)}
			if r.Slot >= 0 {
				results[k].memory = p.of[r.Slot]
			}
		}
		to.num_arguments, to.arguments = C.int32_t(len(arguments)), unsafe.SliceData(arguments)
		to.num_results, to.results = C.int32_t(len(results)), unsafe.SliceData(results)
	}
	b := p.block
	b.num_calls, b.calls, b.description.num_calls = C.int32_t(len(calls)), unsafe.SliceData(calls), C.int32_t(len(calls))
}

func (p *prepared) argument(memory *cutter, a *executor.CallArgument) C.nvfi_argument {
	switch {
	case a.Slot < 0:
		return C.nvfi_argument{kind: C.NVFI_NUMBER, from: p.block.scalars_at + C.int32_t(a.Word), dtype: C.int32_t(inTorch(a.DType))}
	case a.Whole:
		return C.nvfi_argument{kind: C.NVFI_WHOLE, from: p.of[a.Slot]}
	}
	return C.nvfi_argument{kind: C.NVFI_VIEW, from: p.of[a.Slot], dtype: C.int32_t(inTorch(a.DType)), rank: C.int32_t(len(a.Sizes)),
		sizes: memory.integers(a.Sizes), strides: memory.integers(a.Strides), offset: C.int64_t(a.Offset)}
}

// inTorch returns the type of torch's tensors for t.
func inTorch(t dtype.Type) dtype.Type {
	if t == dtype.Index {
		return dtype.Int
	}
	return t
}

// describeDevice fills in what a run on a CUDA device needs besides.
func (p *prepared) describeDevice(memory *cutter, inputs []executor.Input) {
	b, d := p.block, p.Device
	b.description.device_type, b.description.device_index = C.NVF_CUDA, C.int32_t(d.Device)
	b.description.draws = C.uint64_t(d.Draws)
	for i := range inputs {
		if inputs[i].Tensor && inputs[i].Device.Type == executor.CUDA {
			b.runs_with_gpu = 1
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
