package cpu

import (
	"unsafe"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A domain is the type in which a tile holds the elements of a dtype.
type domain uint8

const (
	inBool    domain = iota // uint8, 0 or 1
	inFloat32               // Float and the types narrower than it
	inFloat64
	inInt // int64; UInt64 as its bits, Int32 wrapped
	inComplex
)

// domainSize is the bytes of an element, by domain.
var domainSize = [...]int{1, 4, 8, 8, 16}

func domainOf(t dtype.Type) domain {
	switch t.Class() {
	case dtype.ClassBool:
		return inBool
	case dtype.ClassFloat:
		if t == dtype.Double {
			return inFloat64
		}
		return inFloat32
	case dtype.ClassComplex:
		return inComplex
	}
	return inInt
}

// sameBits reports whether a tile holds t as memory does. A Bool in memory may
// be any byte, so it is not one.
func sameBits(t dtype.Type) bool {
	switch t {
	case dtype.Float, dtype.Double, dtype.Int, dtype.Index, dtype.UInt64, dtype.ComplexDouble:
		return true
	}
	return false
}

// put stores v, a value of a dtype of domain d, at p.
func (d domain) put(p unsafe.Pointer, v scalar.Value) {
	switch d {
	case inBool:
		*(*uint8)(p) = uint8(v.I)
	case inFloat32:
		*(*float32)(p) = float32(v.Re)
	case inFloat64:
		*(*float64)(p) = v.Re
	case inInt:
		*(*int64)(p) = v.I
	case inComplex:
		*(*complex128)(p) = complex(v.Re, v.Im)
	}
}

// get returns element i at p as a value of t, which is of domain d.
func (d domain) get(p unsafe.Pointer, i int, t dtype.Type) scalar.Value {
	v := scalar.Value{Type: t}
	p = unsafe.Add(p, i*domainSize[d])
	switch d {
	case inBool:
		v.I = int64(*(*uint8)(p))
	case inFloat32:
		v.Re = float64(*(*float32)(p))
	case inFloat64:
		v.Re = *(*float64)(p)
	case inInt:
		v.I = *(*int64)(p)
	case inComplex:
		c := *(*complex128)(p)
		v.Re, v.Im = real(c), imag(c)
	}
	return v
}

// elements is n elements of T at p.
func elements[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }
