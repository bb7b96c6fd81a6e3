package sim

import (
	"encoding/binary"
	"math"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A domain is the Go type that elements of a dtype are held in.
type domain uint8

const (
	singles  domain = iota // float32: Float
	doubles                // float64: every other floating type
	integers               // int64: integers and Bool
	complexes
)

func domainOf(t dtype.Type) domain {
	switch {
	case t == dtype.Float:
		return singles
	case t.IsFloat():
		return doubles
	case t.IsComplex():
		return complexes
	}
	return integers
}

// A lanes is an array of elements, one for each thread of a block or several.
// Only the slice of its domain is set. Where tainted is false the taints are
// not up to date, and all 0.
type lanes struct {
	t       dtype.Type
	f       []float32
	d       []float64
	i       []int64
	c       []complex128
	taint   []uint8
	tainted bool
}

func makeLanes(t dtype.Type, n int) *lanes {
	x := &lanes{t: t, taint: make([]uint8, n)}
	switch domainOf(t) {
	case singles:
		x.f = make([]float32, n)
	case doubles:
		x.d = make([]float64, n)
	case complexes:
		x.c = make([]complex128, n)
	default:
		x.i = make([]int64, n)
	}
	return x
}

// get returns element p.
func (x *lanes) get(p int) scalar.Value {
	v := scalar.Value{Type: x.t}
	switch domainOf(x.t) {
	case singles:
		v.Re = float64(x.f[p])
	case doubles:
		v.Re = x.d[p]
	case complexes:
		v.Re, v.Im = real(x.c[p]), imag(x.c[p])
	default:
		v.I = x.i[p]
	}
	return v
}

func (x *lanes) set(p int, v scalar.Value) {
	switch domainOf(x.t) {
	case singles:
		x.f[p] = float32(v.Re)
	case doubles:
		x.d[p] = v.Re
	case complexes:
		x.c[p] = complex(v.Re, v.Im)
	default:
		x.i[p] = v.I
	}
}

// load sets element p to the one in memory at the start of b.
func (x *lanes) load(p int, b []byte) {
	switch domainOf(x.t) {
	case singles:
		x.f[p] = math.Float32frombits(binary.LittleEndian.Uint32(b))
	case doubles:
		x.d[p] = dtype.LoadFloat(x.t, b)
	case complexes:
		x.c[p] = dtype.LoadComplex(x.t, b)
	default:
		x.i[p] = dtype.LoadInt(x.t, b)
	}
}

// store writes element p to memory at the start of b.
func (x *lanes) store(p int, b []byte) {
	switch domainOf(x.t) {
	case singles:
		binary.LittleEndian.PutUint32(b, math.Float32bits(x.f[p]))
	case doubles:
		dtype.StoreFloat(x.t, b, x.d[p])
	case complexes:
		dtype.StoreComplex(x.t, b, x.c[p])
	default:
		dtype.StoreInt(x.t, b, x.i[p])
	}
}

// copyElement sets element p of x to element q of y, of the same type.
func (x *lanes) copyElement(p int, y *lanes, q int) {
	switch domainOf(x.t) {
	case singles:
		x.f[p] = y.f[q]
	case doubles:
		x.d[p] = y.d[q]
	case complexes:
		x.c[p] = y.c[q]
	default:
		x.i[p] = y.i[q]
	}
}

// merge sets the taints of the active threads of x to what its operands have.
func (b *block) merge(x *lanes, operands ...*lanes) {
	x.tainted = false
	for _, y := range operands {
		x.tainted = x.tainted || y.tainted
	}
	if !x.tainted {
		return
	}
	x.tainted = false
	for _, l := range b.lanes {
		var t uint8
		for _, y := range operands {
			if y.tainted {
				t |= y.taint[l]
			}
		}
		x.taint[l] = t
		x.tainted = x.tainted || t != 0
	}
}

func (x *lanes) flawAt(lane int32) uint8 {
	if x.tainted {
		return x.taint[lane]
	}
	return 0
}
