package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// load returns element i of memory.
func load(t dtype.Type, memory []byte, i int) scalar.Value {
	b := memory[i*t.Size():]
	v := scalar.Value{Type: t}
	switch {
	case t.IsFloat():
		v.Re = dtype.LoadFloat(t, b)
	case t.IsComplex():
		c := dtype.LoadComplex(t, b)
		v.Re, v.Im = real(c), imag(c)
	default:
		v.I = dtype.LoadInt(t, b)
	}
	return v
}

func store(memory []byte, i int, v scalar.Value) {
	b := memory[i*v.Type.Size():]
	switch t := v.Type; {
	case t.IsFloat():
		dtype.StoreFloat(t, b, v.Re)
	case t.IsComplex():
		dtype.StoreComplex(t, b, complex(v.Re, v.Im))
	default:
		dtype.StoreInt(t, b, v.I)
	}
}

var (
	specialReals = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 1.5, 2.5, -2.5, 3, 100, -100, 0.1, math.Inf(1), math.Inf(-1), math.NaN(),
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 65504, 65520, 448, 464, 465,
		0x1p31, 0x1p63, -0x1p63, 0x1p64, 1 << 24, 1<<24 + 2, 1e-3, 1e10}
	specialParts    = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2, 700, math.Inf(1), math.Inf(-1), math.NaN()}
	specialIntegers = []int64{0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 63, 64, 65, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
		math.MaxInt64 - 1, 1<<24 + 1, 1<<53 + 1, -1<<53 - 1, 1<<40 + 1<<16 + 1}
)

// special returns values of t at which functions have corners.
func special(t dtype.Type) []scalar.Value {
	var all []scalar.Value
	switch {
	case t.IsFloat():
		for _, x := range specialReals {
			all = append(all, scalar.Value{Type: t, Re: dtype.Round(t, x)})
		}
	case t.IsComplex():
		for _, x := range specialParts {
			for _, y := range specialParts {
				all = append(all, scalar.Value{Type: t, Re: x, Im: y})
			}
		}
	case t.IsBool():
		return []scalar.Value{{Type: t}, {Type: t, I: 1}}
	default:
		for _, n := range specialIntegers {
			all = append(all, scalar.Value{Type: t, I: dtype.WrapInt(t, n)})
		}
	}
	return all
}

// draw returns a random value of t in an interval, or any for an empty one.
func draw(r *rand.Rand, t dtype.Type, in core.Interval) scalar.Value {
	v := scalar.Value{Type: t}
	part := func() float64 {
		if in == (core.Interval{}) {
			return dtype.Round(t.Real(), r.NormFloat64()*math.Exp2(float64(r.IntN(40)-20)))
		}
		return dtype.Round(t.Real(), in.Lo+r.Float64()*(in.Hi-in.Lo))
	}
	switch {
	case t.IsFloat():
		v.Re = part()
	case t.IsComplex():
		v.Re, v.Im = part(), part()
	case t.IsBool():
		v.I = int64(r.IntN(2))
	case in != core.Interval{} && r.IntN(4) > 0:
		v.I = dtype.WrapInt(t, int64(math.Floor(in.Lo+r.Float64()*(in.Hi-in.Lo))))
	default:
		v.I = dtype.WrapInt(t, int64(r.Uint64())>>r.IntN(64))
	}
	return v
}

// spacing is a unit of the last place of x in t; of a float that is subnormal,
// that is what instructions that flush it lose.
func spacing(t dtype.Type, x float64) float64 {
	mantissa, least := 52, -1074
	if t == dtype.Float {
		if mantissa, least = 23, -149; x != 0 && math.Abs(x) < 0x1p-126 {
			return 0x1p-126
		}
	}
	if x == 0 {
		return math.Ldexp(1, least)
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1-mantissa, least))
}

// differs tells how got differs from want by more than ulp units of the last
// place; empty if it does not. The parts of a complex number are held against
// its magnitude, unless one is not finite; an infinity has any sign beside a NaN,
// as in the C standard.
func differs(want, got scalar.Value, ulp float64) string {
	problem := fmt.Sprintf("want %v, got %v", want, got)
	t := want.Type
	if !t.IsFloat() && !t.IsComplex() {
		if want.I != got.I {
			return problem
		}
		return ""
	}
	exact := ulp == 0 || t.IsReducedFloat()
	finite := want.Re-want.Re == 0 && want.Im-want.Im == 0
	unit := func(part float64) float64 {
		if finite && t.IsComplex() {
			return spacing(t.Real(), max(math.Abs(want.Re), math.Abs(want.Im)))
		}
		return spacing(t.Real(), part)
	}
	for _, p := range [2][2]float64{{want.Re, got.Re}, {want.Im, got.Im}} {
		switch {
		case p[0] != p[0] && p[1] != p[1] || math.Float64bits(p[0]) == math.Float64bits(p[1]):
		case math.IsInf(p[0], 0) && math.IsInf(p[1], 0) && (want.Re != want.Re || want.Im != want.Im):
		case p[0] != p[0] || p[1] != p[1] || exact || math.IsInf(p[0], 0):
			return problem
		case math.Abs(p[0]-p[1]) > ulp*unit(p[0]):
			return fmt.Sprintf("%s, %.1f ulp", problem, math.Abs(p[0]-p[1])/unit(p[0]))
		}
	}
	return ""
}
