package executor

import (
	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// A task is the part of a fusion that a kernel computes, for inputs of one kind:
// with concrete axes, and without outputs that are inputs, have no elements, or
// stand in the list before.
type task struct {
	f       *core.Fusion
	b       *core.Binding
	device  scheduler.Device
	inputs  []Input // descriptions
	aligned []int   // addresses of inputs, in bytes
	outputs []int   // of the fusion, by output of f
}

// newTask returns the task that outputs leave of f, which runs at place; nil if no
// kernel is needed. aligned are the bytes that divide the addresses of inputs. On a
// CUDA device, tensors of the CPU are passed by value.
func newTask(f *core.Fusion, inputs []Input, aligned []int, b *core.Binding, outputs []OutputDescription, place Device) (*task, error) {
	t := &task{device: scheduler.Hopper, inputs: described(inputs), aligned: aligned}
	var list []core.Output
	listed := map[core.ValID]bool{}
	for k, o := range f.Outputs() {
		if !f.Val(o.Val).Input && !listed[o.Val] && core.NumElements(outputs[k].Sizes) > 0 {
			listed[o.Val] = true
			t.outputs, list = append(t.outputs, k), append(list, o)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) < len(f.Outputs()) {
		f = f.WithOutputs(list)
	}
	if place.Type == CUDA {
		f = f.WithHostTensors(func(i int) bool { return inputs[i].Device.Type == CPU })
	}
	var err error
	if t.f, _, err = f.Concretize(b); err != nil {
		return nil, err
	}
	t.b, err = t.f.Bind(valuesOf(inputs))
	return t, err
}

// groups returns the outputs of t, by position, in groups that have no computed
// tensors in common.
func (t *task) groups() [][]int {
	joined := map[core.ValID]core.ValID{} // of a computed tensor: another of its group, or itself
	root := func(v core.ValID) core.ValID {
		for joined[v] != v {
			v = joined[v]
		}
		return v
	}
	for _, id := range t.f.Order() {
		e := t.f.Expr(id)
		for _, v := range e.Out {
			joined[v] = e.Out[0]
		}
		for _, v := range t.f.TensorArgs(e) {
			if !t.f.Val(v).Input {
				joined[root(v)] = e.Out[0]
			}
		}
	}
	of := map[core.ValID]int{}
	var groups [][]int
	for k, o := range t.f.Outputs() {
		r := root(o.Val)
		if _, ok := of[r]; !ok {
			of[r] = len(groups)
			groups = append(groups, nil)
		}
		groups[of[r]] = append(groups[of[r]], k)
	}
	return groups
}

// part returns the task of groups of outputs, in memory of their own: groups may
// be computed in any order.
func (t *task) part(groups [][]int) *task {
	part := *t
	part.outputs = nil
	var list []core.Output
	for _, group := range groups {
		for _, k := range group {
			part.outputs = append(part.outputs, t.outputs[k])
			list = append(list, core.Output{Val: t.f.Outputs()[k].Val, Alias: core.NoVal})
		}
	}
	part.f = t.f.WithOutputs(list)
	return &part
}

// withoutAliases returns t with outputs that have memory of their own.
func (t *task) withoutAliases() *task {
	var list []core.Output
	for _, o := range t.f.Outputs() {
		list = append(list, core.Output{Val: o.Val, Alias: core.NoVal})
	}
	u := *t
	u.f = t.f.WithOutputs(list)
	return &u
}
