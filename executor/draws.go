package executor

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
)

// offsetOf is how far from the offset of a run the random operation at a place begins: a
// block of four words for each before it. The numbers of an operation differ in their
// position alone.
func offsetOf(place int) uint64 { return 4 * uint64(place) }

// drawn returns how far a run moves the offset of the random generator: as far as torch
// does on such a device for the same operations one by one, and beyond all that the run
// draws. It is 0 if outputs depend on no random operation with elements and without a seed
// of its own. As in torch, it makes no difference whether something reads what is drawn.
func drawn(f *core.Fusion, b *core.Binding, device cudadrv.Properties) (uint64, error) {
	by, beyond := uint64(0), uint64(0)
	for _, id := range f.Order() {
		e := f.Expr(id)
		if e.Op.Class != core.Random || e.Args[3].Kind != core.NoArg {
			continue
		}
		sizes, err := b.Shape(e.Out[0])
		if err != nil {
			return 0, err
		}
		if n := core.NumElements(sizes); n > 0 {
			by += movedByTorch(uint64(n), f.Val(e.Out[0]).DType, device)
			beyond = max(beyond, offsetOf(e.Stream+1))
		}
	}
	return max(by, beyond), nil
}

// movedByTorch returns how far torch moves the offset to draw n numbers, more than 0. It has
// a grid of blocks of 256 threads, no more than the device holds at once, of which each
// thread draws four numbers at a time, or two in double precision, in a loop that moves the
// offset by 4 for each iteration.
func movedByTorch(n uint64, t dtype.Type, device cudadrv.Properties) uint64 {
	const threads = 256
	blocks := min((n+threads-1)/threads, uint64(max(device.Processors*(device.ThreadsPerProcessor/threads), 1)))
	each := uint64(4)
	if t == dtype.Double {
		each = 2
	}
	return 4 * ((n-1)/(threads*blocks*each) + 1)
}
