package kir

import (
	"fmt"
	"math/bits"
)

// A Divider divides numbers of 31 bits by one that is known at the launch: by a
// multiplier, its lower 32 bits, and a shift, its upper. The quotient of n is
// (n*multiplier>>32 + n) >> shift. T. Granlund, P. L. Montgomery, Division by
// Invariant Integers using Multiplication (1994), figure 4.1.
type Divider uint64

// NewDivider returns the Divider by d, which is at least 0 and below 2^31. That
// by 0 is for code that does not run: it divides by 1.
//
// Errors: another d.
func NewDivider(d int64) (Divider, error) {
	if d < 0 || d > 1<<31-1 {
		return 0, fmt.Errorf("there is no divider by %d, which is not a number of 31 bits", d)
	}
	if d == 0 {
		return 0, nil
	}
	shift := bits.Len64(uint64(d - 1))
	multiplier := (uint64(1)<<shift-uint64(d))<<32/uint64(d) + 1
	return Divider(uint64(shift)<<32 | multiplier), nil
}

// Quotient returns n divided by the number, as a kernel computes it in 32 bits.
func (x Divider) Quotient(n int64) int64 {
	high := uint32(uint64(uint32(n)) * uint64(uint32(x)) >> 32)
	return int64(int32((high + uint32(n)) >> (x >> 32)))
}
