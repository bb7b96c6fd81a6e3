package cudadrv

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A LaunchBlock is a launch as data: everything but what a call brings.
type LaunchBlock struct {
	Function    Function
	Grid, Block [3]uint32
	Cluster     [3]uint32 // blocks of a cluster; zeros: none
	Shared      uint32    // bytes of dynamic shared memory
	Cooperative bool      // all blocks must be resident together

	Arguments []byte  // the parameter structure, zero where a patch goes
	Patches   []Patch // by offset
}

// A Patch is 8 bytes of the parameter structure that a call fills in.
type Patch struct {
	Offset int
	Value  ValueKind
	Index  int // of an input, output or workspace, else 0
}

// A ValueKind says what a Patch holds.
type ValueKind uint8

// What a call brings.
const (
	InputPointer ValueKind = iota
	OutputPointer
	WorkspacePointer
	RandomSeed
	RandomOffset
)

var kindNames = [...]string{"input", "output", "workspace", "seed", "offset"}

func (k ValueKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("ValueKind(%d)", uint8(k))
}

// CallValues are what one call brings.
type CallValues struct {
	Inputs, Outputs, Workspaces []uintptr
	Seed, Offset                uint64
}

// MaxArguments is how many bytes of parameters a launch has at most: what every
// architecture takes.
const MaxArguments = 4096

// Check returns what is wrong with the block, which is a mistake of whoever made
// it: a patch that is outside, misaligned, out of order or overlaps another, too
// many bytes, or no threads.
func (l *LaunchBlock) Check() error {
	if len(l.Arguments) > MaxArguments {
		return fmt.Errorf("%d bytes of parameters, and a launch takes %d", len(l.Arguments), MaxArguments)
	}
	end := 0
	for _, p := range l.Patches {
		switch {
		case int(p.Value) >= len(kindNames) || p.Index < 0:
			return fmt.Errorf("patch at %d of %v %d: there is no such value", p.Offset, p.Value, p.Index)
		case p.Offset < end || p.Offset%8 != 0 || p.Offset+8 > len(l.Arguments):
			return fmt.Errorf("patch at %d of %v %d: not at a multiple of 8 from %d on in %d bytes", p.Offset, p.Value, p.Index, end, len(l.Arguments))
		}
		end = p.Offset + 8
	}
	if slices.Contains(l.Grid[:], 0) || slices.Contains(l.Block[:], 0) {
		return fmt.Errorf("a launch of %v blocks of %v threads has no threads", l.Grid, l.Block)
	}
	return nil
}

// Fill writes the parameter structure of one call to into, which has the length
// of l.Arguments. It is the meaning of the patches; the launch in C does the
// same. A value that the call does not bring is an error.
func (l *LaunchBlock) Fill(into []byte, v CallValues) error {
	if len(into) != len(l.Arguments) {
		return fmt.Errorf("%d bytes for parameters of %d", len(into), len(l.Arguments))
	}
	copy(into, l.Arguments)
	for _, p := range l.Patches {
		word, err := v.value(p)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(into[p.Offset:], word)
	}
	return nil
}

func (v CallValues) value(p Patch) (uint64, error) {
	from := v.Inputs
	switch p.Value {
	case RandomSeed:
		return v.Seed, nil
	case RandomOffset:
		return v.Offset, nil
	case OutputPointer:
		from = v.Outputs
	case WorkspacePointer:
		from = v.Workspaces
	}
	if p.Index >= len(from) {
		return 0, fmt.Errorf("patch at %d wants %v %d, and the call brings %d", p.Offset, p.Value, p.Index, len(from))
	}
	return uint64(from[p.Index]), nil
}
