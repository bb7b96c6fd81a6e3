package cpu

import (
	"sync"
	"unsafe"

	"nvfuser_go/core/dtype"
)

// A mover copies n elements between memory and a tile, and converts them.
// Steps are in elements.
type mover func(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep int, n int)

// moveBits copies elements as they are.
func moveBits[T any](dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep int, n int) {
	if dstStep == 1 && srcStep == 1 {
		copy(elements[T](dst, n), elements[T](src, n))
		return
	}
	if n == 0 {
		return
	}
	d, s := elements[T](dst, (n-1)*dstStep+1), elements[T](src, (n-1)*srcStep+1)
	for i, j := 0, 0; n > 0; n-- {
		d[i] = s[j]
		i += dstStep
		j += srcStep
	}
}

// converting makes a mover of a function of one element.
func converting[D, S any](convert func(S) D) mover {
	return func(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep int, n int) {
		if n == 0 {
			return
		}
		d, s := elements[D](dst, (n-1)*dstStep+1), elements[S](src, (n-1)*srcStep+1)
		for i, j := 0, 0; n > 0; n-- {
			d[i] = convert(s[j])
			i += dstStep
			j += srcStep
		}
	}
}

// A scratch is room for a part of a row on the way between two conversions. It
// comes from a pool: an array of the caller would be allocated at every call,
// because what it is passed to is not known to the compiler.
type scratch [2 * scratchElements]uint64

const scratchElements = 256

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// halves returns room for scratchElements elements of 8 bytes, twice.
func (s *scratch) halves() (a, b unsafe.Pointer) {
	return unsafe.Pointer(&s[0]), unsafe.Pointer(&s[scratchElements])
}

// slicing makes a mover of a function of slices, with a scratch for strided
// elements on either side.
func slicing[D, S any](convert func(dst []D, src []S)) mover {
	var d D
	var s S
	toSize, fromSize := int(unsafe.Sizeof(d)), int(unsafe.Sizeof(s))
	return func(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep int, n int) {
		if dstStep == 1 && srcStep == 1 {
			convert(elements[D](dst, n), elements[S](src, n))
			return
		}
		room := scratches.Get().(*scratch)
		defer scratches.Put(room)
		to, from := room.halves()
		for i := 0; i < n; i += scratchElements {
			m := min(n-i, scratchElements)
			moveBits[S](from, 1, unsafe.Add(src, i*srcStep*fromSize), srcStep, m)
			convert(elements[D](to, m), elements[S](from, m))
			moveBits[D](unsafe.Add(dst, i*dstStep*toSize), dstStep, to, 1, m)
		}
	}
}

func truth(b uint8) uint8 {
	if b != 0 {
		return 1
	}
	return 0
}

// loaders and storers move between the memory of a dtype and its domain.
var (
	loaders = [...]mover{
		dtype.Bool:          converting(truth),
		dtype.Int32:         converting(func(x int32) int64 { return int64(x) }),
		dtype.Int:           moveBits[uint64],
		dtype.UInt64:        moveBits[uint64],
		dtype.Index:         moveBits[uint64],
		dtype.Half:          slicing(dtype.WidenHalf),
		dtype.BFloat16:      slicing(dtype.WidenBFloat16),
		dtype.Float:         moveBits[uint32],
		dtype.Double:        moveBits[uint64],
		dtype.Float8E4M3FN:  slicing(dtype.WidenFloat8E4M3FN),
		dtype.Float8E5M2:    slicing(dtype.WidenFloat8E5M2),
		dtype.Float8E8M0FNU: slicing(dtype.WidenFloat8E8M0FNU),
		dtype.ComplexFloat:  converting(func(x complex64) complex128 { return complex128(x) }),
		dtype.ComplexDouble: moveBits[complex128],
	}
	storers = [...]mover{
		dtype.Bool:          moveBits[uint8],
		dtype.Int32:         converting(func(x int64) int32 { return int32(x) }),
		dtype.Int:           moveBits[uint64],
		dtype.UInt64:        moveBits[uint64],
		dtype.Index:         moveBits[uint64],
		dtype.Half:          slicing(dtype.NarrowHalf),
		dtype.BFloat16:      slicing(dtype.NarrowBFloat16),
		dtype.Float:         moveBits[uint32],
		dtype.Double:        moveBits[uint64],
		dtype.Float8E4M3FN:  slicing(dtype.NarrowFloat8E4M3FN),
		dtype.Float8E5M2:    slicing(dtype.NarrowFloat8E5M2),
		dtype.Float8E8M0FNU: slicing(dtype.NarrowFloat8E8M0FNU),
		dtype.ComplexFloat:  converting(func(x complex128) complex64 { return complex64(x) }),
		dtype.ComplexDouble: moveBits[complex128],
	}
)
