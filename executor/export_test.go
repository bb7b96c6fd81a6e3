package executor

import (
	"unsafe"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Kernel returns that of a launch.
func (d *DeviceProgram) Kernel(launch int) *kir.Kernel {
	m, err := d.made()
	if err != nil {
		panic(err)
	}
	return m.launched[launch].kernel
}

// EvaluateCall does what call i of torch does.
func (p *Plan) EvaluateCall(i int, addresses []unsafe.Pointer, inputs []Input) error {
	return p.evaluateCall(i, addresses, &Call{Inputs: inputs})
}

// Words shows how words are computed.
func (d *DeviceProgram) Words() string { return d.words.String() }

// Element reads an element.
func Element(t dtype.Type, b []byte) scalar.Value { return element(t, b) }

// Reused returns how many kernels of plans were made for others.
func (c *Cache) Reused() int {
	c.kernels.lock.Lock()
	defer c.kernels.lock.Unlock()
	return c.kernels.reused
}

// Cut does all of planning for a device but for kernels.
func (e *Executor) Cut(inputs []Input) error {
	b, err := check(e.f, inputs)
	if err != nil {
		return err
	}
	a, err := e.begin(b, inputs, Options{}, 0)
	if err != nil {
		return err
	}
	if err := a.prepare(); err != nil {
		return err
	}
	return a.cut()
}

// Restored returns the plan that was kept, and nil where it is not believed.
func (e *Executor) Restored(inputs []Input) (*Plan, error) {
	b, err := check(e.f, inputs)
	if err != nil {
		return nil, err
	}
	a, err := e.begin(b, inputs, Options{}, 0)
	if err != nil || !a.keeping(inputs).restore() {
		return nil, err
	}
	return a.p, nil
}

// Kernels returns how many kernels are kept for others.
func (c *Cache) Kernels() int {
	c.kernels.lock.Lock()
	defer c.kernels.lock.Unlock()
	return c.kernels.kernels.recent.Len()
}

// Known returns of how many fusions of kernels something is known.
func (c *Cache) Known() int {
	c.kernels.lock.Lock()
	defer c.kernels.lock.Unlock()
	return c.kernels.known.recent.Len()
}

// Feasible returns why d cannot be the program of p.
func (p *Plan) Feasible(d *DeviceProgram) error { return newLiving(p, d).check() }

// PartAlways has launches parted however little memory that saves, until undo is called.
func PartAlways() (undo func()) {
	old := notWorthParting
	notWorthParting = func(int64) int64 { return 0 }
	return func() { notWorthParting = old }
}
