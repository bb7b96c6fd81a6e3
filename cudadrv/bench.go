package cudadrv

// A Bench is where work of a device is timed: a stream of its own, and memory that
// nobody else sees. One goroutine at a time may use it. It must be closed.
type Bench interface {
	// Memory returns the address of new memory, at a multiple of 256 bytes. What it
	// holds is not known. It is given back by Close.
	Memory(bytes int64) (uintptr, error)

	// Copy copies from memory of the device to memory of the bench.
	Copy(to, from uintptr, bytes int64) error

	// Write copies from the host to memory of the bench.
	Write(to uintptr, bytes []byte) error

	// Time does, rounds times, first what is in before, then what is in timed, and
	// returns how many us each of the latter took. It waits for all of it.
	Time(rounds int, before, timed []Work) ([]float64, error)

	// Close waits for what was begun, and gives all memory back.
	Close() error
}

// Work is a launch, or if Launch is nil, bytes of memory that are set to zero.
type Work struct {
	Launch *LaunchBlock
	Values CallValues

	Zero  uintptr
	Bytes int64
}
