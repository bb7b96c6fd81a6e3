package executor

import (
	"errors"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
)

// place returns where a run takes place: on the device of its tensors, 0-dim
// tensors of the CPU apart; without such on the one that the caller names, else on
// the CPU if there are any tensors, else on a CUDA device if there is one.
//
// Errors: InvalidArgument that names two tensors on different devices, or one that
// is not on the device that the caller names; those of the driver, which is asked
// for a device.
func (e *Executor) place(inputs []Input, o Options) (Device, error) {
	first, small := -1, false
	for i := range inputs {
		x := &inputs[i]
		switch {
		case !x.Tensor:
		case x.Device.Type == CPU && len(x.Sizes) == 0:
			small = true
		case first < 0:
			first = i
		case x.Device != inputs[first].Device:
			return Device{}, core.InvalidArgumentf("execute(): input %d%s is on %v and input %d%s is on %v; all tensors must be on one device",
				first, e.nameOf(first), inputs[first].Device, i, e.nameOf(i), x.Device)
		}
	}
	switch {
	case first >= 0 && o.Device != nil && *o.Device != inputs[first].Device:
		return Device{}, core.InvalidArgumentf("execute(): device is %v, but input %d%s is on %v", *o.Device, first, e.nameOf(first), inputs[first].Device)
	case first >= 0:
		return inputs[first].Device, nil
	case o.Device != nil:
		return *o.Device, nil
	case small || o.Simulate || e.byHand != nil:
		return Device{}, nil
	}
	present, err := e.hasDevice()
	if err != nil || !present {
		return Device{}, err
	}
	return Device{Type: CUDA}, nil
}

// hasDevice reports whether there is a CUDA device: none where there is no driver,
// or one that is too old.
//
// Errors: those of a call of the driver, which may be answered the next time.
func (e *Executor) hasDevice() (bool, error) {
	if e.machine == nil {
		return false, nil
	}
	n, err := e.machine.driver.Devices()
	if errors.As(err, new(*cudadrv.Unavailable)) || errors.As(err, new(*cudadrv.Unsupported)) {
		return false, nil
	}
	return n > 0, ofDriver(err)
}

// nameOf is the name of input i in messages.
func (e *Executor) nameOf(i int) string {
	if i >= len(e.f.Inputs()) {
		return ""
	}
	return " (" + e.f.Name(e.f.Inputs()[i]) + ")"
}
