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

// newTask returns the task that outputs leave of f; nil if no kernel is needed.
func newTask(f *core.Fusion, inputs []Input, b *core.Binding, outputs []OutputDescription) (*task, error) {
	t := &task{device: scheduler.Hopper, inputs: described(inputs), aligned: alignments(inputs)}
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
	var err error
	if t.f, _, err = f.Concretize(b); err != nil {
		return nil, err
	}
	t.b, err = t.f.Bind(valuesOf(inputs))
	return t, err
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
