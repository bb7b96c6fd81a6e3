package dtype

import (
	"encoding/binary"
	"math"
)

// The functions of this file read and write one element at the start of b, in
// little-endian order. They panic if b is shorter than the element or t is not
// of the class they are for; Index is 64 bits.

// LoadFloat returns the element of floating type t. It is exact.
func LoadFloat(t Type, b []byte) float64 {
	switch t {
	case Double:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case Float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case Half:
		return float64(halfToFloat(binary.LittleEndian.Uint16(b)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	case Float8E4M3FN:
		return float64(tableFloat8E4M3[b[0]])
	case Float8E5M2:
		return float64(tableFloat8E5M2[b[0]])
	case Float8E8M0FNU:
		return float64(tableFloat8E8M0[b[0]])
	}
	panic("dtype: LoadFloat of " + t.String())
}

// StoreFloat writes [Round] of x as an element of floating type t.
func StoreFloat(t Type, b []byte, x float64) {
	// Every value of a narrower type is one of binary32, so the second
	// conversion is exact.
	switch t {
	case Double:
		binary.LittleEndian.PutUint64(b, math.Float64bits(x))
	case Float:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x)))
	case Half:
		binary.LittleEndian.PutUint16(b, uint16(narrowHalf.code(math.Float32bits(float32(Round(t, x))))))
	case BFloat16:
		binary.LittleEndian.PutUint16(b, codeBFloat16(math.Float32bits(float32(Round(t, x)))))
	case Float8E4M3FN:
		b[0] = uint8(narrowFloat8E4M3.code(math.Float32bits(float32(Round(t, x)))))
	case Float8E5M2:
		b[0] = uint8(narrowFloat8E5M2.code(math.Float32bits(float32(Round(t, x)))))
	case Float8E8M0FNU:
		b[0] = codeFloat8E8M0(math.Float32bits(float32(Round(t, x))))
	default:
		panic("dtype: StoreFloat of " + t.String())
	}
}

// LoadInt returns the element of integer type or Bool t: UInt64 as its bits,
// Bool as 0 or 1 (1 for any byte but 0).
func LoadInt(t Type, b []byte) int64 {
	switch t {
	case Bool:
		return WrapInt(Bool, int64(b[0]))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case Int, UInt64, Index:
		return int64(binary.LittleEndian.Uint64(b))
	}
	panic("dtype: LoadInt of " + t.String())
}

// StoreInt writes [WrapInt] of x as an element of integer type or Bool t.
func StoreInt(t Type, b []byte, x int64) {
	switch t {
	case Bool:
		b[0] = uint8(WrapInt(Bool, x))
	case Int32:
		binary.LittleEndian.PutUint32(b, uint32(x))
	case Int, UInt64, Index:
		binary.LittleEndian.PutUint64(b, uint64(x))
	default:
		panic("dtype: StoreInt of " + t.String())
	}
}

// LoadComplex returns the element of complex type t: the real part lies first.
func LoadComplex(t Type, b []byte) complex128 {
	part := complexPart(t)
	return complex(LoadFloat(part, b), LoadFloat(part, b[part.Size():]))
}

// StoreComplex writes [RoundComplex] of x as an element of complex type t.
func StoreComplex(t Type, b []byte, x complex128) {
	part := complexPart(t)
	StoreFloat(part, b, real(x))
	StoreFloat(part, b[part.Size():], imag(x))
}

func complexPart(t Type) Type {
	if !t.IsComplex() {
		panic("dtype: complex access to " + t.String())
	}
	return t.Real()
}
