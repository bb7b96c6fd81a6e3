package executor

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

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
	of = fmt.Appendf(append(of, e.text...), "on %d: %+v, %+v\n", a.p.Device.Device, a.properties, a.model)
	return &keeping{assembly: a, by: by, of: string(e.AppendKey(of, inputs, a.options))}
}

// keep keeps the program, which is complete, if what a file tells of it is all of it.
func (k *keeping) keep() {
	if k == nil || k.unkept.Load() {
		return
	}
	d := k.p.Device
	bytes := d.encode(k.p.e.f)
	told, _, err := decode(bytes, k.p.e.f, d.Device)
	if err == nil && d.like(told, &told.words) && d.words.String() == told.words.String() && k.check(told) == nil {
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
	d, texts, err := decode(bytes, k.p.e.f, k.p.Device.Device)
	if err == nil {
		err = k.check(d)
	}
	if err != nil {
		return false
	}
	empty := k.p.Device
	d.Draws = empty.Draws // of the definition and the device
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
	k.p.finish(sync.OnceValues(k.makeAgain))
	return true
}

// loadKept loads the kernel of launch i, if its machine code is kept.
func (k *keeping) loadKept(i int, text keptText) (err error) {
	d := k.p.Device
	block, key := &d.Launches[i], &d.functions[i]
	*key = keyOfFunction(k.properties, d.Device, text.sum, block.Function.Name, block)
	key.registers = text.registers
	if block.Function, err = k.p.e.machine.keptFunction(k.properties, *key, k.by); err != nil {
		return err
	}
	if block.Threads() > int64(block.Function.MaxThreads) {
		return errors.New("a block has more threads than the device launches")
	}
	if block.LargeCluster().Blocks > 0 && block.Function.Clusters == 0 {
		return errors.New("the device has no room for a cluster")
	}
	return nil
}

// makeAgain makes what the launches of a program that was kept were made from, which a
// call does not need, and who looks into it does.
func (k *keeping) makeAgain() (m *made, err error) {
	p := k.p
	err = p.e.guard(p.inputs, func() error {
		a, err := k.again()
		if err != nil {
			return err
		}
		if err := a.assemble(); err != nil {
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

// like reports whether d does what other does, but for how functions were loaded,
// with the given words.
func (d *DeviceProgram) like(other *DeviceProgram, words *hostWords) bool {
	return like(d.Workspaces, other.Workspaces) && like(d.Phases, other.Phases) && like(d.Calls, other.Calls) && slices.Equal(d.words.list, words.list) &&
		slices.EqualFunc(d.Launches, other.Launches, func(a, b cudadrv.LaunchBlock) bool {
			a.Function, b.Function = cudadrv.Function{}, cudadrv.Function{}
			return reflect.DeepEqual(a, b)
		})
}

// like reports whether all that is in a is in b. NaN is like NaN, and nil like empty.
func like[T any](a, b []T) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }
