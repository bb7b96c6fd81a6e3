package executor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
)

// check returns why d cannot be the program of the plan.
func (k *keeping) check(d *DeviceProgram) error {
	counts := cudadrv.ValueCounts{Inputs: len(k.p.inputs), Outputs: len(k.p.Outputs), Workspaces: len(d.Workspaces), Scalars: len(d.words.list)}
	most := limits(k.properties)
	for i := range d.Launches {
		l := &d.Launches[i]
		if err := l.Check(); err != nil {
			return err
		}
		for _, p := range l.Patches {
			if _, err := counts.Place(p); err != nil {
				return err
			}
		}
		var grid, threads, cluster [3]int64
		for d := range 3 {
			grid[d], threads[d], cluster[d] = int64(l.Grid[d]), int64(l.Block[d]), int64(max(l.Cluster[d], 1))
		}
		if err := most.Check(grid, threads, cluster, int64(l.Shared)); err != nil {
			return err
		}
	}
	if err := d.words.check(k.p.inputs); err != nil {
		return err
	}
	return newLiving(k.p, d).check()
}

// check returns why the words cannot be those of calls with inputs.
func (w *hostWords) check(inputs []Input) error {
	computed := make([]int, len(w.list)) // how often
	for i, x := range w.list {
		if x.at != 0 && x.at != 8 || !x.to.Computes() {
			return fmt.Errorf("word %d is no part of an element", i)
		}
		if x.input < 0 {
			continue
		}
		computed[i]++
		if x.input >= len(inputs) || !inputs[x.input].Tensor || inputs[x.input].Device.Type != CPU || core.NumElements(inputs[x.input].Sizes) != 1 {
			return fmt.Errorf("word %d is in input %d, which is no number of the host", i, x.input)
		}
	}
	for _, p := range w.programs {
		for _, i := range p.words {
			if i < 0 || i >= len(computed) {
				return fmt.Errorf("a program computes word %d of %d", i, len(computed))
			}
			computed[i]++
		}
		for _, s := range p.symbols {
			if s.input >= len(inputs) || s.input >= 0 && (inputs[s.input].Tensor || !s.dt.Computes()) {
				return fmt.Errorf("a program reads input %d, which is no number", s.input)
			}
		}
	}
	if slices.ContainsFunc(computed, func(n int) bool { return n != 1 }) {
		return errors.New("not every word is computed once")
	}
	return nil
}

// check returns why c cannot be a call, whatever its slots are: its form has a text.
func (c *TorchCall) check() error {
	f := &c.form
	switch {
	case f.row == nil || f.called == nil || !torchComputes(f.row):
		return errors.New("a call is of no row that torch computes")
	case len(f.values) != len(f.row.Params()):
		return fmt.Errorf("%d values for the %d parameters of %s", len(f.values), len(f.row.Params()), f.row.Name)
	}
	for i := range f.values {
		v := &f.values[i]
		if !v.isList && len(v.elements) > 1 || v.dtype != dtype.Null && (!v.dtype.Valid() || v.dtype.Torch() == "") {
			return fmt.Errorf("parameter %d of %s is nothing that a call passes", i, f.row.Name)
		}
		for _, e := range v.elements {
			if e.argument >= len(c.Arguments) || e.argument < 0 && !e.value.Type.Computes() {
				return fmt.Errorf("parameter %d of %s is no argument and no number", i, f.row.Name)
			}
		}
	}
	for i := range c.Arguments {
		if !inTorch(c.Arguments[i].DType) {
			return fmt.Errorf("argument %d of %s has no dtype", i, f.row.Name)
		}
	}
	for i := range c.Results {
		if !inTorch(c.Results[i].DType) {
			return fmt.Errorf("result %d of %s has no dtype", i, f.row.Name)
		}
	}
	return nil
}

// inTorch reports whether torch has tensors of t.
func inTorch(t dtype.Type) bool { return t.Computes() && t.Torch() != "" }

// A living follows a program that was read from phase to phase: which memory is there,
// and how much.
type living struct {
	d       *DeviceProgram
	outputs []OutputDescription
	inputs  int
	bytes   []int64 // by slot: bytes from its first element to the end of the last
	is      []bool  // by slot: it is there now
	was     []bool  // by slot: it was
}

// newLiving is for a plan before its first phase: inputs are there, and outputs that have the
// memory of an input.
func newLiving(p *Plan, d *DeviceProgram) *living {
	l := &living{d: d, outputs: p.Outputs, inputs: len(p.inputs)}
	n := l.inputs + len(p.Outputs) + len(d.Workspaces)
	l.bytes, l.is, l.was = make([]int64, n), make([]bool, n), make([]bool, n)
	for i := range p.inputs {
		x := &p.inputs[i]
		l.is[i] = x.Tensor
		l.bytes[i], _ = spanOf(x.DType, x.Sizes, x.Strides)
	}
	for k := range p.Outputs {
		o := &p.Outputs[k]
		l.is[l.inputs+k] = o.Hidden
		l.bytes[l.inputs+k], _ = spanOf(o.DType, o.Sizes, o.Strides)
	}
	for i := range d.Workspaces {
		l.bytes[l.inputs+len(p.Outputs)+i] = d.Workspaces[i].Bytes
	}
	return l
}

// output returns the output that a slot is, if it has memory of its own, else nil.
func (l *living) output(s Slot) *OutputDescription {
	if k := int(s) - l.inputs; k >= 0 && k < len(l.outputs) && l.outputs[k].isOwn(l.inputs) {
		return &l.outputs[k]
	}
	return nil
}

// workspace returns the one that a slot is, else nil.
func (l *living) workspace(s Slot) *Workspace {
	if w := int(s) - l.inputs - len(l.outputs); w >= 0 && w < len(l.d.Workspaces) {
		return &l.d.Workspaces[w]
	}
	return nil
}

// check returns why the program cannot be one that was made.
func (l *living) check() error {
	for i := range l.d.Workspaces {
		if err := l.d.Workspaces[i].check(); err != nil {
			return fmt.Errorf("workspace %d: %w", i, err)
		}
	}
	launch, call := 0, 0
	for i := range l.d.Phases {
		p := &l.d.Phases[i]
		if p.Launches < 0 || p.Launches > len(l.d.Launches)-launch || p.Call >= 0 && p.Call != call || p.Call >= len(l.d.Calls) {
			return fmt.Errorf("phase %d does not follow those before", i)
		}
		for _, s := range p.Allocate {
			if w := l.workspace(s); l.output(s) == nil && (w == nil || w.Result) {
				return fmt.Errorf("phase %d allocates what is not allocated: %d", i, s)
			}
			if err := l.begin(s); err != nil {
				return err
			}
		}
		for range p.Launches {
			if err := l.launch(&l.d.Launches[launch]); err != nil {
				return fmt.Errorf("launch %d: %w", launch, err)
			}
			launch++
		}
		if p.Call >= 0 {
			if err := l.call(&l.d.Calls[call]); err != nil {
				return fmt.Errorf("call %d: %w", call, err)
			}
			call++
		}
		for _, s := range p.Release {
			if l.workspace(s) == nil || !l.is[s] {
				return fmt.Errorf("phase %d releases what is not there: %d", i, s)
			}
			l.is[s] = false
		}
	}
	if launch != len(l.d.Launches) || call != len(l.d.Calls) {
		return errors.New("not all launches and calls are in phases")
	}
	for k := range l.outputs {
		if s := l.inputs + k; l.output(Slot(s)) != nil && !l.is[s] {
			return fmt.Errorf("output %d is not there", k)
		}
	}
	return nil
}

// begin has a slot be there, once.
func (l *living) begin(s Slot) error {
	if l.was[s] {
		return fmt.Errorf("slot %d is there twice", s)
	}
	l.is[s], l.was[s] = true, true
	return nil
}

// launch returns why a launch, whose patches have places, cannot be now.
func (l *living) launch(b *cudadrv.LaunchBlock) error {
	n := cudadrv.ValueCounts{Inputs: l.inputs, Outputs: len(l.outputs), Workspaces: len(l.d.Workspaces)}
	for _, p := range b.Patches {
		if p.Value != cudadrv.InputPointer && p.Value != cudadrv.OutputPointer && p.Value != cudadrv.WorkspacePointer {
			continue
		}
		s, err := n.Place(p)
		if err != nil {
			return err
		}
		if !l.is[s] || p.Add > uint64(l.bytes[s]) {
			return fmt.Errorf("%v %d is not there, or ends before %d", p.Value, p.Index, p.Add)
		}
	}
	return nil
}

// call returns why a call cannot be now, and has its results be there.
func (l *living) call(c *TorchCall) error {
	for i := range c.Arguments {
		if err := l.argument(&c.Arguments[i]); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	for i := range c.Results {
		r := &c.Results[i]
		if bytes, ok := spanOf(r.DType, r.Sizes, r.Strides); !ok || bytes < 0 {
			return fmt.Errorf("result %d has no size", i)
		}
		if r.Slot < 0 {
			continue
		}
		is := CallResult{Slot: r.Slot}
		if o := l.output(r.Slot); o != nil {
			is.DType, is.Sizes, is.Strides = o.DType, o.Sizes, o.Strides
		} else if w := l.workspace(r.Slot); w != nil && w.Result && w.Tensor {
			is.DType, is.Sizes, is.Strides = w.DType, w.Sizes, w.Strides
		}
		if is.DType != r.DType || !slices.Equal(is.Sizes, r.Sizes) || !slices.Equal(is.Strides, r.Strides) {
			return fmt.Errorf("result %d is not what slot %d is", i, r.Slot)
		}
		if err := l.begin(r.Slot); err != nil {
			return err
		}
	}
	return nil
}

func (l *living) argument(g *CallArgument) error {
	if g.Slot < 0 {
		words := l.d.words.list
		for i := range max(g.DType.Size()/8, 1) {
			if at := g.Word + i; at < 0 || at >= len(words) || words[at].to != g.DType || words[at].at != 8*i {
				return fmt.Errorf("there is no word %d of %v", at, g.DType)
			}
		}
		return nil
	}
	if int(g.Slot) >= len(l.is) || !l.is[g.Slot] {
		return fmt.Errorf("slot %d is not there", g.Slot)
	}
	bytes, ok := spanOf(g.DType, g.Sizes, g.Strides)
	first := g.Offset * int64(g.DType.Size())
	if !ok || g.Offset < 0 || g.Offset > math.MaxInt64/16 || bytes > 0 && first > l.bytes[g.Slot]-bytes || g.Whole && first != 0 {
		return fmt.Errorf("it is not in slot %d", g.Slot)
	}
	return nil
}

// check returns why w cannot be a workspace.
func (w *Workspace) check() error {
	switch {
	case w.Bytes < 0 || w.Result && (w.Zeroed || !w.Tensor):
		return errors.New("it has no size, or is no result")
	case w.Semaphore && !w.Zeroed:
		return errors.New("it is a semaphore that may hold anything")
	}
	if !w.Tensor {
		return nil
	}
	if bytes, ok := spanOf(w.DType, w.Sizes, w.Strides); !ok || !inTorch(w.DType) || bytes != w.Bytes {
		return fmt.Errorf("it has %d bytes, and its elements take %d", w.Bytes, bytes)
	}
	return nil
}

// spanOf returns the bytes from the first element to the end of the last. It reports
// false if that is no tensor.
func spanOf(t dtype.Type, sizes, strides []int64) (bytes int64, ok bool) {
	if !t.Valid() || len(sizes) != len(strides) {
		return 0, false
	}
	n, isEmpty := uint64(1), false
	for d, size := range sizes {
		if size < 0 || strides[d] < 0 {
			return 0, false
		}
		isEmpty = isEmpty || size == 0
		high, low := bits.Mul64(uint64(max(size-1, 0)), uint64(strides[d]))
		if n += low; high != 0 || n < low || n > math.MaxInt64/16 {
			return 0, false
		}
	}
	if isEmpty {
		return 0, true
	}
	return int64(n) * int64(t.Size()), true
}
