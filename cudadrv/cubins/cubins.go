// Package cubins keeps machine code on disk, so that a kernel is compiled once
// and not once in each process.
//
// Its central type is [Driver]: a driver whose Compile asks a [Store] first. An
// entry is a file that is named by everything the code depends on (the text, the
// flags with the architecture, the identity of the compiler), so nothing is ever
// out of date. The store is an optimisation: whatever is wrong with it, Compile
// gives the same result, later.
//
// Invariants: a file is complete or not there, as it is written under another
// name first; what is read is only believed if the file and its folder belong to
// the user and nobody else may write them, and if its checksum is right; several
// processes may use one folder; any number of goroutines may use one store. A
// problem is told once and the entry is made again.
//
// It does not choose the folder, and keeps nothing in memory.
package cubins

import (
	"golang.org/x/sync/singleflight"

	"nvfuser_go/cudadrv"
)

// A Driver compiles what its store does not have; all else is the driver below.
type Driver struct {
	cudadrv.Driver
	store *Store
	calls singleflight.Group // by key
	slots chan struct{}      // compilations at once
}

// NewDriver returns a driver that compiles by the given one and keeps the code in
// store. At most parallel compilations run at once; others wait. A call for a text
// that is being compiled waits for that one.
func NewDriver(below cudadrv.Driver, store *Store, parallel int) *Driver {
	return &Driver{Driver: below, store: store, slots: make(chan struct{}, max(parallel, 1))}
}

// Compile returns the code from the store, or compiles it and puts it there. The
// caller must not change the code.
//
// Errors: those of the driver below.
func (d *Driver) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	compiler, err := d.CompilerID()
	if err != nil {
		return cudadrv.Compiled{}, err
	}
	key := keyOf(source, o, compiler)
	result, err, _ := d.calls.Do(string(key[:]), func() (any, error) {
		if c, ok := d.store.get(key); ok {
			return c, nil
		}
		d.slots <- struct{}{}
		defer func() { <-d.slots }()
		c, err := d.Driver.Compile(source, o)
		if used, _ := d.CompilerID(); err == nil && used == compiler {
			d.store.put(key, c)
		}
		return c, err
	})
	c, _ := result.(cudadrv.Compiled)
	return c, err
}
