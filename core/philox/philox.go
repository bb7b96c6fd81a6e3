// Package philox is the random number generator of the fusion IR: the
// counter-based Philox4x32-10 and the values that the random operations make
// of its words.
//
// Its central function is [Block]. Invariants: a value depends on its arguments
// alone, so that elements can be computed in any order and on any device; the
// text of [Block], [Uniform] and [Normal] is the definition that every other
// implementation reproduces.
//
// It keeps no state: whoever calls it advances the offset.
package philox

import (
	"math"
	"math/bits"

	"nvfuser_go/core/dtype"
)

const (
	multiplier0 = 0xd2511f53
	multiplier1 = 0xcd9e8d57
	weyl0       = 0x9e3779b9 // golden ratio
	weyl1       = 0xbb67ae85 // sqrt(3) - 1
	rounds      = 10
)

// Block returns block number offset (of four words) of the stream that seed and
// subsequence select. It is Philox4x32-10 with counter (offset low, offset
// high, subsequence low, subsequence high) and key (seed low, seed high), where
// low and high are the halves of 32 bits. Each of the ten rounds maps counter
// (a, b, c, d) and key (k, l) to
//
//	(hi(0xcd9e8d57*c) ^ b ^ k, lo(0xcd9e8d57*c), hi(0xd2511f53*a) ^ d ^ l, lo(0xd2511f53*a))
//
// and between rounds (0x9e3779b9, 0xbb67ae85) is added to the key.
//
// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC11.
func Block(seed, offset, subsequence uint64) [4]uint32 {
	a, b := uint32(offset), uint32(offset>>32)
	c, d := uint32(subsequence), uint32(subsequence>>32)
	k, l := uint32(seed), uint32(seed>>32)
	for range rounds {
		hi0, lo0 := bits.Mul32(multiplier0, a)
		hi1, lo1 := bits.Mul32(multiplier1, c)
		a, b, c, d = hi1^b^k, lo1, hi0^d^l, lo0
		k += weyl0
		l += weyl1
	}
	return [4]uint32{a, b, c, d}
}

// Keys are the keys (k, l) of the rounds of [Block], one after the other: those of
// seed 0 are what is added to the halves of any seed.
func Keys(seed uint64) [2 * rounds]uint32 {
	var keys [2 * rounds]uint32
	k, l := uint32(seed), uint32(seed>>32)
	for i := range rounds {
		keys[2*i], keys[2*i+1] = k, l
		k += weyl0
		l += weyl1
	}
	return keys
}

// Uniform returns element index of a tensor of floating type t that is uniform
// over [0, 1), a value of t.
//
// For every type but Double the word w of the element is word index%4 of
// Block(seed, offset/4, index/4) and the value is
//
//	(w mod 2^p) * 2^-p
//
// where p is the precision of t: 24 for Float, 11 for Half, 8 for BFloat16, 4
// for Float8E4M3FN, 3 for Float8E5M2. For Double the words lo and hi are 2*(index%2)
// and the one after it of Block(seed, offset/4, index/2), w is hi*2^32 + lo and
// p is 53. Every value is exact in t, and none reaches 1.
//
// offset counts words, in multiples of 4, as torch's generators do; index is
// the position in row-major order and not negative. Uniform panics for types
// without a zero and for those that are not floating.
func Uniform(t dtype.Type, seed, offset uint64, index int64) float64 {
	var x [1]float64
	Uniforms(x[:], t, seed, offset, index)
	return x[0]
}

// Word returns the word of element index of a tensor of any type but Double, of which
// [Uniform] takes the lowest bits.
func Word(seed, offset uint64, index int64) uint32 {
	return Block(seed, offset/4, uint64(index/4))[index%4]
}

// Uniforms sets dst to the elements from index on that [Uniform] describes, and
// computes their blocks once each.
func Uniforms(dst []float64, t dtype.Type, seed, offset uint64, index int64) {
	if t == dtype.Double {
		eachBlock(dst, 2, seed, offset, index, func(b [4]uint32) [4]float64 {
			first, second := doubleWords(b)
			return [4]float64{float64(first&(1<<53-1)) * 0x1p-53, float64(second&(1<<53-1)) * 0x1p-53}
		})
		return
	}
	p := precision(t)
	mask, unit := uint32(1<<p-1), math.Ldexp(1, -p)
	eachBlock(dst, 4, seed, offset, index, func(b [4]uint32) [4]float64 {
		return [4]float64{float64(b[0]&mask) * unit, float64(b[1]&mask) * unit, float64(b[2]&mask) * unit, float64(b[3]&mask) * unit}
	})
}

// eachBlock sets dst to elements from index on, of which values makes the first
// n, 2 or 4, of its results from a block.
func eachBlock(dst []float64, n int64, seed, offset uint64, index int64, values func(block [4]uint32) [4]float64) {
	for len(dst) > 0 {
		x := values(Block(seed, offset/4, uint64(index/n)))
		done := copy(dst, x[index%n:n])
		dst = dst[done:]
		index += int64(done)
	}
}

// Normal returns element index of a tensor of floating type t that is normally
// distributed with mean 0 and variance 1, rounded to t. The elements 2i and
// 2i+1 are a pair, made by the method of Box and Muller:
//
//	sqrt(-2 ln u) * cos(2 pi v)   and   sqrt(-2 ln u) * sin(2 pi v)
//
// For every type but Double u and v come from the words w[n] and w[n+1], n = 0
// for an even pair and 2 for an odd one (that is, n = index%4 rounded down to
// even), of Block(seed, offset/4, index/4), in binary32, so that they are the
// same wherever they are computed:
//
//	u = fma(float32(w[n]), 2^-32, 2^-33), in (0, 1]     v = float32(w[n+1]) * 2^-32, in [0, 1]
//
// For Double they come from the four words of Block(seed, offset/4, index/2),
// in binary64 and without rounding:
//
//	u = (floor((w[1]*2^32 + w[0]) / 2^11) + 1) * 2^-53, in (0, 1]
//	v = floor((w[3]*2^32 + w[2]) / 2^11) * 2^-53, in [0, 1)
//
// From u and v on the value is the real number of the formula rounded to t.
// Here it is computed in float64 and rounded once; an implementation that
// computes in binary32 differs by the error of its functions.
//
// Source: G. Box, M. Muller, "A note on the generation of random normal
// deviates", 1958. Arguments are as for [Uniform].
func Normal(t dtype.Type, seed, offset uint64, index int64) float64 {
	var x [1]float64
	Normals(x[:], t, seed, offset, index)
	return x[0]
}

// Normals sets dst to the elements from index on that [Normal] describes, and
// computes their blocks once each.
func Normals(dst []float64, t dtype.Type, seed, offset uint64, index int64) {
	if t == dtype.Double {
		eachBlock(dst, 2, seed, offset, index, func(b [4]uint32) [4]float64 {
			first, second := normalPair(arguments64(doubleWords(b)))
			return [4]float64{first, second}
		})
		return
	}
	precision(t) // panics where there are no random values
	eachBlock(dst, 4, seed, offset, index, func(b [4]uint32) [4]float64 {
		x, y := normalPair(arguments32(b[0], b[1]))
		z, w := normalPair(arguments32(b[2], b[3]))
		return [4]float64{dtype.Round(t, x), dtype.Round(t, y), dtype.Round(t, z), dtype.Round(t, w)}
	})
}

// normalPair returns the pair that is made of u and v.
func normalPair(u, v float64) (first, second float64) {
	radius := math.Sqrt(-2 * math.Log(u))
	sine, cosine := sincosTurns(v)
	return radius * cosine, radius * sine
}

func arguments32(first, second uint32) (u, v float64) {
	// The sum is exact in float64: its bits lie between 2^0 and 2^-33.
	u = float64(float32(float64(float32(first))*0x1p-32 + 0x1p-33))
	return u, float64(float32(second)) * 0x1p-32
}

func arguments64(first, second uint64) (u, v float64) {
	return float64(first>>11+1) * 0x1p-53, float64(second>>11) * 0x1p-53
}

// sincosTurns returns the sine and cosine of the angle of v turns, 0 <= v <= 1.
// Taking the quarter turns away from v is exact, which a reduction of 2 pi v is
// not: a quarter turn has a cosine of 0.
func sincosTurns(v float64) (sine, cosine float64) {
	quarter := math.Round(4 * v)
	s, c := math.Sincos((4*v - quarter) * (math.Pi / 2))
	switch int(quarter) % 4 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// doubleWords returns the block of a Double as two words of 64 bits.
func doubleWords(b [4]uint32) (first, second uint64) {
	return uint64(b[1])<<32 | uint64(b[0]), uint64(b[3])<<32 | uint64(b[2])
}

// precision returns the bits of a significand of t, the hidden one included. It
// panics for the types that random values are not made for.
func precision(t dtype.Type) int {
	switch t {
	case dtype.Float:
		return 24
	case dtype.Half:
		return 11
	case dtype.BFloat16:
		return 8
	case dtype.Float8E4M3FN:
		return 4
	case dtype.Float8E5M2:
		return 3
	}
	panic("philox: no random " + t.String())
}
