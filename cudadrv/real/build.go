//go:build cgo

package real

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
)

// likelyBuild returns the build of the file among places that find will open,
// without opening it as a library; empty if only that would tell.
func likelyBuild(places []place) string {
	for _, p := range places {
		if !filepath.IsAbs(p.path) {
			break // the loader knows where it is
		}
		if _, err := os.Stat(p.path); err == nil {
			return buildOf(p.path)
		}
	}
	return ""
}

// buildOf returns the identity that the linker gave a library, a hash of what is
// in it, as "build" and hexadecimal digits; empty if it has none.
func buildOf(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<16 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			continue
		}
		if id := noteAmong(notes, file.ByteOrder, builtByLinker); len(id) > 0 {
			return "build " + hex.EncodeToString(id)
		}
	}
	return ""
}

// A note says something of a file: who has the name says what the kind means.
type note struct {
	name string
	kind uint32
}

var (
	builtByLinker = note{"GNU\x00", 3} // NT_GNU_BUILD_ID
	builtByGo     = note{"Go\x00\x00", 4}
)

// noteAmong returns the value of a note among the notes of a file: each has the
// lengths of its name and its value and its kind, then both, filled up to multiples
// of 4, the last one perhaps not.
func noteAmong(notes []byte, order binary.ByteOrder, wanted note) []byte {
	const head = 12
	for len(notes) >= head {
		name, value, kind := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:])), order.Uint32(notes[8:])
		from := head + (name+3)/4*4
		if from+value > uint64(len(notes)) {
			return nil
		}
		if kind == wanted.kind && string(notes[head:head+name]) == wanted.name {
			return notes[from : from+value]
		}
		notes = notes[min(from+(value+3)/4*4, uint64(len(notes))):]
	}
	return nil
}
