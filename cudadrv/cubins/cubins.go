// Package cubins keeps machine code on disk, so that a kernel is compiled once
// and not once in each process, and the plans of launches beside it.
//
// Its central types are [Driver], a driver whose Compile asks a [Store] first, and
// the store. An entry is a file that is named by everything that it depends on:
// machine code by the text, the flags with the architecture and the identity of the
// compiler; a plan by what its maker says, the build of the program and the
// compiler. So nothing is ever out of date. The store is an optimisation: whatever
// is wrong with it, a program does the same, later.
//
// Invariants: a file is complete or not there, as it is written under another
// name first; what is read is only believed if the file and its folder belong to
// the user and nobody else may write them, and if its checksum is right; several
// processes may use one folder; any number of goroutines may use one store. A
// problem is told once and the entry is made again.
//
// It does not know what a plan is, and keeps nothing in memory.
package cubins

import (
	"crypto/sha256"

	"golang.org/x/sync/singleflight"

	"nvfuser_go/cudadrv"
)

// A Driver compiles what its store does not have, and keeps plans; all else is the
// driver below.
type Driver struct {
	cudadrv.Driver
	store   *Store
	program string             // which build this is
	calls   singleflight.Group // by key
	slots   chan struct{}      // compilations at once
}

var _ cudadrv.Keeper = (*Driver)(nil)

// NewDriver returns a driver that compiles by the given one and keeps the code in
// store. program tells this build of the program from all others; empty: it is not
// known, and plans are not kept. At most parallel compilations run at once; others
// wait. A call for a text that is being compiled waits for that one.
func NewDriver(below cudadrv.Driver, store *Store, program string, parallel int) *Driver {
	return &Driver{Driver: below, store: store, program: program, slots: make(chan struct{}, max(parallel, 1))}
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
	key := codeKey(sha256.Sum256([]byte(source)), o, compiler)
	result, err, _ := d.calls.Do(key.file(), func() (any, error) {
		if c, ok := d.code(key); ok {
			return c, nil
		}
		d.slots <- struct{}{}
		defer func() { <-d.slots }()
		c, err := d.Driver.Compile(source, o)
		if used, _ := d.CompilerID(); err == nil && used == compiler {
			d.store.put(key, encodeCode(c))
		}
		return c, err
	})
	c, _ := result.(cudadrv.Compiled)
	return c, err
}

// KeptCode returns the code of a text from the store.
func (d *Driver) KeptCode(text [sha256.Size]byte, o cudadrv.CompileOptions) (cudadrv.Compiled, bool) {
	compiler, err := d.CompilerID()
	if err != nil {
		return cudadrv.Compiled{}, false
	}
	return d.code(codeKey(text, o, compiler))
}

func (d *Driver) code(k key) (cudadrv.Compiled, bool) {
	b, ok := d.store.get(k)
	if !ok {
		return cudadrv.Compiled{}, false
	}
	return decodeCode(b)
}

// Kept returns a plan from the store.
func (d *Driver) Kept(of string) ([]byte, bool) {
	k, ok := d.planKey(of)
	if !ok {
		return nil, false
	}
	return d.store.get(k)
}

// Keep puts a plan into the store.
func (d *Driver) Keep(of string, what []byte) {
	if k, ok := d.planKey(of); ok {
		d.store.put(k, what)
	}
}

func (d *Driver) planKey(of string) (k key, ok bool) {
	compiler, err := d.CompilerID()
	if err != nil || d.program == "" {
		return k, false
	}
	return keyOf(plan, d.program, compiler, of), true
}
