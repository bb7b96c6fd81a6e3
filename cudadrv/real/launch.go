//go:build cgo

package real

/*
#include <stdlib.h>
#include <string.h>
#include "launch.h"

#cgo noescape launch_kernel
#cgo nocallback launch_kernel
*/
import "C"

import (
	"fmt"
	"unsafe"

	"nvfuser_go/cudadrv"
)

// A Launch is a launch block in C memory: a struct launch of launch.h. C launches
// it with launch_kernel, without Go.
type Launch struct {
	c      *C.struct_launch
	values int
}

// NewLaunch copies a block whose calls bring the given numbers of values: an
// array of 64-bit words in the order of [cudadrv.ValueCounts]. Free gives the
// memory back.
//
// The error is what [cudadrv.LaunchBlock.Check] says, or a patch of a value that
// calls do not bring.
func NewLaunch(l *cudadrv.LaunchBlock, n cudadrv.ValueCounts) (*Launch, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	places := make([]int, len(l.Patches))
	for i, p := range l.Patches {
		var err error
		if places[i], err = n.Place(p); err != nil {
			return nil, err
		}
	}
	patchesAt := C.size_t(unsafe.Sizeof(C.struct_launch{}))
	argumentsAt := patchesAt + C.size_t(len(l.Patches))*C.size_t(unsafe.Sizeof(C.struct_launch_patch{}))
	memory := C.calloc(1, argumentsAt+C.size_t(len(l.Arguments)))
	c := (*C.struct_launch)(memory)
	c.function, c.context = C.uintptr_t(l.Function.Handle), C.uintptr_t(l.Function.Context)
	for i := range 3 {
		c.grid[i], c.block[i], c.cluster[i] = C.uint32_t(l.Grid[i]), C.uint32_t(l.Block[i]), C.uint32_t(l.Cluster[i])
	}
	c.shared = C.uint32_t(l.Shared)
	if l.Cooperative {
		c.cooperative = 1
	}
	if l.Early {
		c.early = 1
	}
	c.patches = (*C.struct_launch_patch)(unsafe.Add(memory, patchesAt))
	c.patches_count = C.uint32_t(len(l.Patches))
	patches := unsafe.Slice(c.patches, len(l.Patches))
	for i := range patches {
		p := &l.Patches[i]
		patches[i].offset, patches[i].size, patches[i].value, patches[i].add = C.uint32_t(p.Offset), C.uint16_t(p.Size), C.uint16_t(places[i]), C.uint64_t(p.Add)
	}
	c.arguments = (*C.uint8_t)(unsafe.Add(memory, argumentsAt))
	c.arguments_size = C.uint32_t(len(l.Arguments))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(c.arguments)), len(l.Arguments)), l.Arguments)
	return &Launch{c, n.Total()}, nil
}

// Pointer returns the address of the struct launch, for C.
func (l *Launch) Pointer() unsafe.Pointer { return unsafe.Pointer(l.c) }

// Free gives the memory back. No thread may be launching it.
func (l *Launch) Free() {
	C.free(unsafe.Pointer(l.c))
	l.c = nil
}

// Start launches with the values of a call, as NewLaunch orders them.
func (l *Launch) Start(values []uint64, stream uintptr) error {
	if len(values) != l.values {
		return fmt.Errorf("%d values for a launch of %d", len(values), l.values)
	}
	if code := C.launch_kernel(l.c, (*C.uint64_t)(&values[0]), C.uintptr_t(stream)); code != 0 {
		return callError("cuLaunchKernelEx", int(code))
	}
	return nil
}

// Launch launches a block once.
func (Driver) Launch(b *cudadrv.LaunchBlock, v cudadrv.CallValues, stream uintptr) error {
	if _, err := started(); err != nil {
		return err
	}
	l, err := NewLaunch(b, v.Counts())
	if err != nil {
		return err
	}
	defer l.Free()
	return l.Start(v.Words(), stream)
}

// CallError returns the error that a code which a call of the driver returned
// stands for.
func CallError(call string, code int) error { return callError(call, code) }
