package cudadrv

import "crypto/sha256"

// A Keeper is a driver that keeps things from one process to the next. What it
// gives back was kept by a program of the very same build, for a compiler of the
// same identity; it may forget anything at any time. Any number of goroutines may
// call it.
type Keeper interface {
	Driver

	// Kept returns what Keep was given last for a description. The caller must not
	// change it.
	Kept(of string) (what []byte, ok bool)

	// Keep keeps bytes for a description, if that is possible.
	Keep(of string, what []byte)

	// KeptCode returns what Compile gave for the text that has the given sum, if that
	// is kept. It compiles nothing.
	KeptCode(text [sha256.Size]byte, o CompileOptions) (Compiled, bool)
}
