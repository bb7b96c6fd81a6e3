package executor

import (
	"nvfuser_go/cudadrv"
)

// A DeviceProgram is what a plan does on a CUDA device, as data: its caller
// allocates outputs and workspaces, asks [Plan.Evaluate] for scalars, and
// launches, without Go if it likes.
//
// A call brings the values that the patches of launches name: the addresses of
// inputs by position (0 for what is no tensor of the device), of outputs by
// position in Plan.Outputs, of workspaces, seed and offset of the random
// generator, and scalars.
type DeviceProgram struct {
	Device     int
	Launches   []cudadrv.LaunchBlock // in order, on one stream
	Workspaces []Workspace
	Scalars    int    // 64-bit words that Evaluate fills; 0: calls differ in addresses alone
	Draws      uint64 // by which a run moves the offset of the random generator: a multiple of 4

	words   hostWords
	kernels []*compiled // by launch
}

// A Workspace is memory of the device that belongs to one run.
type Workspace struct {
	Bytes  int64
	Zeroed bool // it must hold zeros when the first launch begins
}

// Counts returns how many values a call brings.
func (p *Plan) Counts() cudadrv.ValueCounts {
	return cudadrv.ValueCounts{Inputs: len(p.inputs), Outputs: len(p.Outputs), Workspaces: len(p.Device.Workspaces), Scalars: p.Device.Scalars}
}
