//go:build cgo

package real

/*
#include "program.h"
*/
import "C"

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
	"unsafe"
)

// ProgramID returns what tells the library or executable that this code is in from
// any other build of it: the identities that the linker and Go gave it, which they
// derive from all that it is built from. It is empty if both were told not to.
func ProgramID() string { return programID() }

var programID = sync.OnceValue(func() string {
	var notes [][]byte
	for i := range C.int(16) {
		n := C.program_notes(i)
		if n.bytes == nil {
			break
		}
		notes = append(notes, unsafe.Slice((*byte)(n.bytes), int(n.size)))
	}
	return programAmong(notes)
})

// programAmong returns the identity that the notes of a file give it.
func programAmong(notes [][]byte) string {
	id := ""
	for _, wanted := range []note{builtByLinker, builtByGo} {
		for _, n := range notes {
			id += hex.EncodeToString(noteAmong(n, binary.NativeEndian, wanted))
		}
	}
	return id
}
