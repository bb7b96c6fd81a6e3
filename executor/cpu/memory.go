package cpu

import (
	"math"
	"math/bits"
	"syscall"

	"nvfuser_go/core"
)

// checkMemory refuses temporaries that the machine cannot hold at one time. Go
// ends the process when it cannot get memory.
func (p *Program) checkMemory() error {
	limit := machineMemory()
	live := uint64(0)
	for i := range p.steps {
		for _, n := range p.steps[i].starts {
			b := &p.buffers[n]
			high, size := bits.Mul64(uint64(b.elements), uint64(b.dtype.Size()))
			if high != 0 || size > limit-live {
				return core.InvalidArgumentf("execute(): a temporary tensor of %d elements of %v, beside %d bytes of others, needs more bytes of memory than the machine's %d", b.elements, b.dtype, live, limit)
			}
			live += size
		}
		for _, n := range p.steps[i].ends {
			live -= uint64(p.buffers[n].elements) * uint64(p.buffers[n].dtype.Size())
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
