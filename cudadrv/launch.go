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
	Early       bool      // it may start before the launch before it ends, as that allows: its kernel waits for it

	Arguments []byte  // the parameter structure, zero where a patch goes
	Patches   []Patch // by offset
}

// Threads returns how many a block has.
func (l *LaunchBlock) Threads() int64 {
	return int64(l.Block[0]) * int64(l.Block[1]) * int64(l.Block[2])
}

// Blocks returns how many the launch has.
func (l *LaunchBlock) Blocks() int64 {
	return int64(l.Grid[0]) * int64(l.Grid[1]) * int64(l.Grid[2])
}

// LargeCluster returns what the function of the launch opts in to, zero if it need not.
func (l *LaunchBlock) LargeCluster() LargeCluster {
	if l.Cluster[0] <= PortableCluster {
		return LargeCluster{}
	}
	return LargeCluster{Blocks: int(l.Cluster[0]), Threads: int(l.Threads()), Shared: int(l.Shared)}
}

// A Patch is a part of the parameter structure that a call fills in. The lower half of a
// seed may be written over that of the patch before, so that something is added to the
// halves apart.
type Patch struct {
	Offset int // a multiple of Size
	Size   int // bytes: 8, or 1, 2, 4 or 8 of a scalar, the first of its word, or 4 of a seed
	Value  ValueKind
	Index  int    // of an input, output, workspace or word of scalars, else 0
	Add    uint64 // to the value: bytes to an address, how many numbers were drawn before to the random offset, what rounds add to a seed; else 0
}

// isOver reports whether p is the lower half of a seed over what before, at the same
// place, has written.
func (p Patch) isOver(before Patch) bool {
	return p.Value == RandomSeed && p.Size == 4 && before.Value == RandomSeed && before.Size == 8 && p.Offset == before.Offset
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
	ScalarWord
)

var kindNames = [...]string{"input", "output", "workspace", "seed", "offset", "scalar"}

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
	Scalars                     []uint64
}

// ValueCounts are how many values of each kind a call brings. As an array of
// 64-bit words they are ordered: inputs, outputs, workspaces, seed, offset,
// scalars.
type ValueCounts struct{ Inputs, Outputs, Workspaces, Scalars int }

// Total returns the number of words.
func (n ValueCounts) Total() int { return n.Inputs + n.Outputs + n.Workspaces + 2 + n.Scalars }

// Place returns the index among the words of what p wants; an error if calls do
// not bring it.
func (n ValueCounts) Place(p Patch) (int, error) {
	first, count := 0, n.Inputs
	switch pointers := n.Inputs + n.Outputs + n.Workspaces; p.Value {
	case OutputPointer:
		first, count = n.Inputs, n.Outputs
	case WorkspacePointer:
		first, count = n.Inputs+n.Outputs, n.Workspaces
	case RandomSeed:
		first, count = pointers, 1
	case RandomOffset:
		first, count = pointers+1, 1
	case ScalarWord:
		first, count = pointers+2, n.Scalars
	}
	if p.Index >= count {
		return 0, fmt.Errorf("patch at %d wants %v %d, and the call brings %d", p.Offset, p.Value, p.Index, count)
	}
	return first + p.Index, nil
}

// Counts returns how many there are.
func (v CallValues) Counts() ValueCounts {
	return ValueCounts{len(v.Inputs), len(v.Outputs), len(v.Workspaces), len(v.Scalars)}
}

// Words returns them as one array.
func (v CallValues) Words() []uint64 {
	words := make([]uint64, 0, v.Counts().Total())
	for _, pointers := range [][]uintptr{v.Inputs, v.Outputs, v.Workspaces} {
		for _, p := range pointers {
			words = append(words, uint64(p))
		}
	}
	return append(append(words, v.Seed, v.Offset), v.Scalars...)
}

// MaxArguments is how many bytes of parameters a launch has at most: what every
// architecture takes.
const MaxArguments = 4096

// Check returns what is wrong with the block, which is a mistake of whoever made
// it: a patch that is outside, misaligned, out of order, of another size or
// overlaps another, too many bytes, or no threads.
func (l *LaunchBlock) Check() error {
	if len(l.Arguments) > MaxArguments {
		return fmt.Errorf("%d bytes of parameters, and a launch takes %d", len(l.Arguments), MaxArguments)
	}
	end := 0
	for i, p := range l.Patches {
		over := i > 0 && p.isOver(l.Patches[i-1])
		switch {
		case int(p.Value) >= len(kindNames) || p.Index < 0:
			return fmt.Errorf("patch at %d of %v %d: there is no such value", p.Offset, p.Value, p.Index)
		case p.Size != 8 && !over && (p.Value != ScalarWord || p.Size != 1 && p.Size != 2 && p.Size != 4):
			return fmt.Errorf("patch at %d of %v %d has %d bytes", p.Offset, p.Value, p.Index, p.Size)
		case p.Add != 0 && p.Value == ScalarWord:
			return fmt.Errorf("patch at %d of %v %d adds %d to it", p.Offset, p.Value, p.Index, p.Add)
		case p.Offset < end && !over || p.Offset%p.Size != 0 || p.Offset+p.Size > len(l.Arguments):
			return fmt.Errorf("patch at %d of %v %d: not at a multiple of %d from %d on in %d bytes", p.Offset, p.Value, p.Index, p.Size, end, len(l.Arguments))
		}
		end = max(end, p.Offset+p.Size)
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
	words, n := v.Words(), v.Counts()
	for _, p := range l.Patches {
		at, err := n.Place(p)
		if err != nil {
			return err
		}
		var bytes [8]byte
		binary.LittleEndian.PutUint64(bytes[:], words[at]+p.Add)
		copy(into[p.Offset:p.Offset+p.Size], bytes[:])
	}
	return nil
}
