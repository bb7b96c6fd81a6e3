package cpu

import (
	"math"
	"math/bits"
	"syscall"

	"nvfuser_go/core"
)

// checkMemory refuses temporaries that the machine cannot hold. Go ends the
// process when it cannot get memory.
func (p *Program) checkMemory() error {
	limit := machineMemory()
	for _, b := range p.buffers {
		if b.kind != tempBuffer {
			continue
		}
		high, n := bits.Mul64(uint64(b.elements), uint64(b.dtype.Size()))
		if high != 0 || n > limit {
			return core.InvalidArgumentf("execute(): a temporary tensor of %d elements of %v needs more bytes of memory than the machine's %d", b.elements, b.dtype, limit)
		}
	}
	return nil
}

// machineMemory returns the bytes of memory of the machine, swap included.
func machineMemory() uint64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return math.MaxInt64
	}
	return (info.Totalram + info.Totalswap) * uint64(info.Unit)
}
