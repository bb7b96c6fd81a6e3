package executor

import (
	"sync/atomic"
	"unsafe"

	"nvfuser_go/core"
)

// OnDevice reports whether the plan runs on a CUDA device, Device.Device, by launches
// that its caller makes.
func (p *Plan) OnDevice() bool { return p.Device != nil && !p.onHost() }

// Phases returns what a run of the plan consists of.
func (p *Plan) Phases() []Phase {
	if p.Device != nil {
		return p.Device.Phases
	}
	phase := p.onePhase()
	phase.Launches = len(p.Steps)
	return []Phase{phase}
}

// RunPhase makes the launches of a phase of a plan that is not on a device. addresses
// are by [Slot]; inputs, random and stop as for [Plan.Run].
//
// Errors: as of [Plan.Run].
func (p *Plan) RunPhase(phase int, addresses []unsafe.Pointer, inputs []Input, random core.RandomState, stop *atomic.Bool) error {
	if p.Device == nil {
		n := p.Counts()
		return p.Run(inputs, addresses[n.Inputs:][:n.Outputs], random, stop)
	}
	return p.e.guard(inputs, func() error { return p.runPhase(phase, addresses, &Call{Inputs: inputs, Random: random, Stop: stop}) })
}
