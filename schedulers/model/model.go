// Package model estimates how long a kernel takes.
//
// Its central type is [Machine]: what was measured of a device. A time is that of the
// memory or of the instructions, whichever is longer, and what a launch takes: memory
// and instructions overlap.
//
// Invariants: a time depends on the arguments alone; more bytes or instructions never take
// less of it. The package does not know fusions or schedules, and it measures nothing.
package model

// A Machine is what a device does at best, as it was measured.
type Machine struct {
	Launch float64 // us of a kernel that does nothing, after another one
	Rate   float64 // bytes in a us, read and written together
	Clock  float64 // cycles in a us
	Lanes  float64 // instructions in a cycle of a multiprocessor
	Issued float64 // share of them that kernels reach
}

// H100 is an H100 SXM.
var H100 = Machine{Launch: 2.05, Rate: 3.04e6, Clock: 1750, Lanes: 128, Issued: 0.65}

// A Kernel is what a kernel does.
type Kernel struct {
	Bytes        float64 // that are read or written, each once
	Instructions float64 // of all threads
	Processors   int     // multiprocessors that run it
}

// Time returns the us that k takes.
func (m *Machine) Time(k Kernel) float64 {
	issue := float64(max(k.Processors, 1)) * m.Lanes * m.Clock * m.Issued
	return m.Launch + max(k.Bytes/m.Rate, k.Instructions/issue)
}
