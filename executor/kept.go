package executor

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
)

// A keeping is how the program of a plan is kept from one process to the next: the
// driver keeps the program as data under all that planning depends on, and the
// machine code under its text. Nil keeps nothing.
type keeping struct {
	*assembly
	by cudadrv.Keeper
	of string // what the program depends on, but for the build of this program and the compiler
}

// keeping returns how the plan is kept; nil where the driver keeps nothing, and for
// plans that somebody had a hand in.
func (a *assembly) keeping(inputs []Input) *keeping {
	e := a.p.e
	if a.p.onHost() {
		return nil
	}
	by, ok := e.machine.driver.(cudadrv.Keeper)
	if !ok || e.byHand != nil || a.options.Candidate != 0 {
		return nil
	}
	of := strconv.AppendInt(nil, int64(len(e.text)), 10)
	of = fmt.Appendf(append(of, e.text...), "on %d: %+v\n", a.p.Device.Device, a.properties)
	return &keeping{assembly: a, by: by, of: string(e.AppendKey(of, inputs, a.options))}
}

// keep keeps the program, which is complete, if a file tells all of it: calls of
// torch and what they need are not told.
func (k *keeping) keep() {
	if k == nil || k.unkept.Load() {
		return
	}
	d := k.p.Device
	bytes := d.encode()
	told, _, err := decode(bytes, d.Device)
	if err == nil && d.like(told, &told.words) && d.words.String() == told.words.String() && len(d.Calls) == 0 && reflect.DeepEqual(d.Phases, []Phase{k.p.onePhase()}) {
		k.by.Keep(k.of, bytes)
	}
}

// restore completes the program from what was kept. It reports false, and leaves
// the plan as it was, if that is nothing, not all of it, or of no use.
func (k *keeping) restore() bool {
	if k == nil {
		return false
	}
	bytes, ok := k.by.Kept(k.of)
	if !ok {
		return false
	}
	d, texts, err := decode(bytes, k.p.Device.Device)
	if err == nil {
		err = k.check(d)
	}
	if err != nil {
		return false
	}
	empty := k.p.Device
	k.p.Device = d
	d.functions = make([]functionKey, len(d.Launches))
	failed := make([]error, len(d.Launches))
	workers.each(len(d.Launches), k.options.atOnce(), func(i int) {
		failed[i] = k.p.e.guard(k.p.inputs, func() error { return k.loadKept(i, texts[i]) })
	})
	if errors.Join(failed...) != nil {
		k.p.Device = empty
		return false
	}
	d.Phases = []Phase{k.p.onePhase()}
	k.p.finish(sync.OnceValues(k.makeAgain))
	return true
}

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
	if slices.ContainsFunc(d.Workspaces, func(w Workspace) bool { return w.Bytes < 0 }) {
		return errors.New("a workspace has no size")
	}
	return d.words.check(k.p.inputs)
}

// loadKept loads the kernel of launch i, if its machine code is kept.
func (k *keeping) loadKept(i int, text keptText) (err error) {
	d := k.p.Device
	block, key := &d.Launches[i], &d.functions[i]
	*key = keyOfFunction(k.properties, d.Device, text.sum, block.Function.Name, int64(block.Shared))
	key.registers = text.registers
	if block.Function, err = k.p.e.machine.keptFunction(k.properties, *key, k.by); err != nil {
		return err
	}
	if block.Threads() > int64(block.Function.MaxThreads) {
		return errors.New("a block has more threads than the device launches")
	}
	return nil
}

// makeAgain makes what the launches of a program that was kept were made from, which a
// call does not need, and who looks into it does.
func (k *keeping) makeAgain() (m *made, err error) {
	p := k.p
	err = p.e.guard(p.inputs, func() error {
		b, err := p.e.f.Bind(valuesOf(p.inputs))
		if err != nil {
			return err
		}
		a := k.again()
		if err := a.assemble(b); err != nil {
			return err
		}
		if !p.Device.like(a.p.Device, &a.p.Device.words) {
			return &Bug{What: fmt.Sprintf("a plan that was kept is not the one that is made:\n%v\nand\n%v", p.Device.Launches, a.p.Device.Launches)}
		}
		for i, c := range a.made.launched {
			c.launch.Function = p.Device.Launches[i].Function
		}
		m = a.made
		return nil
	})
	return m, err
}

// like reports whether d launches what other does, but for how functions were
// loaded, with the given words.
func (d *DeviceProgram) like(other *DeviceProgram, words *hostWords) bool {
	return reflect.DeepEqual(d.Workspaces, other.Workspaces) && slices.Equal(d.words.list, words.list) &&
		slices.EqualFunc(d.Launches, other.Launches, func(a, b cudadrv.LaunchBlock) bool {
			a.Function, b.Function = cudadrv.Function{}, cudadrv.Function{}
			return reflect.DeepEqual(a, b)
		})
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
