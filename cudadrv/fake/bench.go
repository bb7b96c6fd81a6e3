package fake

import (
	"fmt"
	"slices"

	"nvfuser_go/cudadrv"
)

// A Timing is one call of Time of a bench.
type Timing struct {
	Rounds        int
	Before, Timed []cudadrv.Work
}

// A Copy is what a bench copied from memory of the device; To is its own.
type Copy struct {
	To, From uintptr
	Bytes    int64
}

// benchMemory is where the memory of benches begins, far from what tests make up.
const benchMemory = 1 << 46

// Held returns how many bytes benches hold, and the largest number that they held.
func (d *Driver) Held() (now, most int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held, d.mostHeld
}

// Timings returns the calls of Time so far.
func (d *Driver) Timings() []Timing { return copied(d, &d.timings) }

// Copies returns what benches copied so far.
func (d *Driver) Copies() []Copy { return copied(d, &d.copies) }

// OfBench reports whether an address is in memory of a bench.
func OfBench(address uintptr) bool { return address >= benchMemory }

// Bench returns one whose work takes Microseconds.
func (d *Driver) Bench(device int, _ uintptr) (cudadrv.Bench, error) {
	if err := d.failure("Bench"); err != nil {
		return nil, err
	}
	if _, err := d.Properties(device); err != nil {
		return nil, err
	}
	return &bench{d: d}, nil
}

type bench struct {
	d    *Driver
	held int64
}

func (b *bench) Memory(bytes int64) (uintptr, error) {
	if err := b.d.failure("Memory"); err != nil {
		return 0, err
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	at := benchMemory + b.d.given
	b.d.given += (max(bytes, 1) + 255) / 256 * 256
	b.held += bytes
	b.d.held += bytes
	b.d.mostHeld = max(b.d.mostHeld, b.d.held)
	return uintptr(at), nil
}

func (b *bench) Copy(to, from uintptr, bytes int64) error {
	if err := b.own(to); err != nil {
		return err
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	b.d.copies = append(b.d.copies, Copy{to, from, bytes})
	return b.d.failure("Copy")
}

func (b *bench) Write(to uintptr, _ []byte) error { return b.own(to) }

func (b *bench) own(to uintptr) error {
	if !OfBench(to) {
		return fmt.Errorf("%#x is not memory of the bench", to)
	}
	return nil
}

func (b *bench) Time(rounds int, before, timed []cudadrv.Work) ([]float64, error) {
	if err := b.d.failure("Time"); err != nil {
		return nil, err
	}
	for _, w := range slices.Concat(before, timed) {
		if l := w.Launch; l != nil {
			if err := l.Check(); err != nil {
				return nil, err
			}
			if err := l.Fill(make([]byte, len(l.Arguments)), w.Values); err != nil {
				return nil, err
			}
		} else if err := b.own(w.Zero); err != nil {
			return nil, err
		}
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	b.d.timings = append(b.d.timings, Timing{rounds, before, timed})
	us := make([]float64, rounds)
	for i := range us {
		us[i] = 10
		if b.d.Microseconds != nil {
			us[i] = b.d.Microseconds(i, before, timed)
		}
	}
	return us, nil
}

func (b *bench) Close() error {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	b.d.held -= b.held
	b.held = 0
	return nil
}
