package cpu

import (
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
)

// A number is a type that the quick loops are written for. Float32 stands for
// compute type Float only: narrower types need a rounding that the loops of the
// rows do.
type number interface{ float32 | float64 | int64 }

// quick lists the loops written for the operations that are cheaper than a call
// of a function. A nil entry, or a missing one, means the loop over the row's
// function. They give the bits that the row gives; a test compares them.
var quick = map[*core.OpInfo]struct{ float32, float64, int64, uint64 kernel }{
	core.AddOp:     {add[float32], add[float64], add[int64], add[int64]},
	core.SubOp:     {sub[float32], sub[float64], sub[int64], sub[int64]},
	core.MulOp:     {mul[float32], mul[float64], mul[int64], mul[int64]},
	core.DivOp:     {float32: quotient[float32], float64: quotient[float64]},
	core.TrueDivOp: {float32: quotient[float32], float64: quotient[float64]},
	core.NegOp:     {neg[float32], neg[float64], neg[int64], neg[int64]},
	core.AbsOp:     {float32: magnitude[uint32], float64: magnitude[uint64]},
	core.MaximumOp: {float32: maximum[float32], float64: maximum[float64], int64: maximum[int64]},
	core.MinimumOp: {float32: minimum[float32], float64: minimum[float64], int64: minimum[int64]},
	core.EqOp:      {equal[float32], equal[float64], equal[int64], equal[int64]},
	core.NeOp:      {differ[float32], differ[float64], differ[int64], differ[int64]},
	core.LtOp:      {float32: less[float32], float64: less[float64], int64: less[int64]},
	core.LeOp:      {float32: notMore[float32], float64: notMore[float64], int64: notMore[int64]},
	core.GtOp:      {float32: greater[float32], float64: greater[float64], int64: greater[int64]},
	core.GeOp:      {float32: notLess[float32], float64: notLess[float64], int64: notLess[int64]},
}

// quickKernel returns the loop written for an op, or nil.
func quickKernel(op *core.OpInfo, types []dtype.Type, compute, result dtype.Type) kernel {
	switch op {
	case core.CastOp:
		return castKernel(types[0], result)
	case core.SetOp, core.SegmentSetOp:
		return copyKernel(domainOf(result))
	case core.WhereOp:
		if types[1] != types[2] || types[0] != dtype.Bool {
			return nil
		}
		return [...]kernel{choose[uint8], choose[uint32], choose[uint64], choose[uint64], choose[complex128]}[domainOf(result)]
	}
	q := quick[op]
	switch compute {
	case dtype.Float:
		return q.float32
	case dtype.Double:
		return q.float64
	case dtype.Int, dtype.Index:
		return q.int64
	case dtype.UInt64:
		return q.uint64
	}
	return nil
}

// pair returns the operands of a loop of two over n elements, n > 0: slices of
// n elements, or of one where the operand does not advance.
func pair[T any](src []unsafe.Pointer, step []int, n int) (a, b []T) {
	return operandOf[T](src, step, 0, n), operandOf[T](src, step, 1, n)
}

func add[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = x + b[i]
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = x + y
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = x + y
		}
	default:
		r := a[0] + b[0]
		for i := range d {
			d[i] = r
		}
	}
}

func sub[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = x - b[i]
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = x - y
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = x - y
		}
	default:
		r := a[0] - b[0]
		for i := range d {
			d[i] = r
		}
	}
}

func mul[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = x * b[i]
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = x * y
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = x * y
		}
	default:
		r := a[0] * b[0]
		for i := range d {
			d[i] = r
		}
	}
}

func quotient[T float32 | float64](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = x / b[i]
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = x / y
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = x / y
		}
	default:
		r := a[0] / b[0]
		for i := range d {
			d[i] = r
		}
	}
}

func maximum[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = numerics.MaximumNaN(x, b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = numerics.MaximumNaN(x, y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = numerics.MaximumNaN(x, y)
		}
	default:
		r := numerics.MaximumNaN(a[0], b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func minimum[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[T](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = numerics.MinimumNaN(x, b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = numerics.MinimumNaN(x, y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = numerics.MinimumNaN(x, y)
		}
	default:
		r := numerics.MinimumNaN(a[0], b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func equal[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x == b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x == y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x == y)
		}
	default:
		r := fromBool(a[0] == b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func differ[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x != b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x != y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x != y)
		}
	default:
		r := fromBool(a[0] != b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func less[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x < b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x < y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x < y)
		}
	default:
		r := fromBool(a[0] < b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func notMore[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x <= b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x <= y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x <= y)
		}
	default:
		r := fromBool(a[0] <= b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func greater[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x > b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x > y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x > y)
		}
	default:
		r := fromBool(a[0] > b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func notLess[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d := elements[uint8](dst, n)
	a, b := pair[T](src, step, n)
	switch {
	case n == 0:
	case len(a) == n && len(b) == n:
		for i, x := range a {
			d[i] = fromBool(x >= b[i])
		}
	case len(a) == n:
		y := b[0]
		for i, x := range a {
			d[i] = fromBool(x >= y)
		}
	case len(b) == n:
		x := a[0]
		for i, y := range b {
			d[i] = fromBool(x >= y)
		}
	default:
		r := fromBool(a[0] >= b[0])
		for i := range d {
			d[i] = r
		}
	}
}

func neg[T number](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d, a := elements[T](dst, n), operandOf[T](src, step, 0, n)
	if len(a) == n {
		for i, x := range a {
			d[i] = -x
		}
		return
	}
	for i := range d {
		d[i] = -a[0]
	}
}

// magnitude clears the sign of floats, given as their bits.
func magnitude[T uint32 | uint64](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d, a := elements[T](dst, n), operandOf[T](src, step, 0, n)
	mask := ^T(0) >> 1
	for i := range d {
		d[i] = a[i*step[0]] & mask
	}
}

func choose[T any](dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
	d, c := elements[T](dst, n), operandOf[uint8](src, step, 0, n)
	x, y := operandOf[T](src, step, 1, n), operandOf[T](src, step, 2, n)
	for i := range d {
		if c[i*step[0]] != 0 {
			d[i] = x[i*step[1]]
		} else {
			d[i] = y[i*step[2]]
		}
	}
}

// copyKernel returns the identity on domain d.
func copyKernel(d domain) kernel {
	move := [...]mover{moveBits[uint8], moveBits[uint32], moveBits[uint64], moveBits[uint64], moveBits[complex128]}[d]
	return moving(move)
}

// moving makes a kernel of a mover.
func moving(move mover) kernel {
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		if dst != src[0] {
			move(dst, 1, src[0], step[0], n)
		}
	}
}

// castKernel returns the loop of a common conversion, or nil.
func castKernel(from, to dtype.Type) kernel {
	a, b := domainOf(from), domainOf(to)
	switch {
	case from == to, a == inFloat32 && to == dtype.Float:
		return copyKernel(a)
	case a == inFloat32 && b == inFloat32:
		return narrowing(to)
	case a == inFloat32 && b == inFloat64:
		return convert(func(x float32) float64 { return float64(x) })
	case a == inFloat64 && to == dtype.Float:
		return convert(func(x float64) float32 { return float32(x) })
	case a == inInt && b == inInt && to != dtype.Int32:
		return copyKernel(a)
	case a == inInt && from != dtype.UInt64 && b == inFloat64:
		return convert(func(x int64) float64 { return float64(x) })
	case a == inInt && from != dtype.UInt64 && to == dtype.Float:
		return convert(func(x int64) float32 { return float32(x) })
	case a == inBool && b == inInt:
		return convert(func(x uint8) int64 { return int64(x) })
	case a == inBool && b == inFloat32 && to != dtype.Float8E8M0FNU:
		return convert(func(x uint8) float32 { return float32(x) })
	}
	return nil
}

func convert[S, D any](f func(S) D) kernel {
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		d, a := elements[D](dst, n), operandOf[S](src, step, 0, n)
		for i := range d {
			d[i] = f(a[i*step[0]])
		}
	}
}

// narrowing returns the rounding of float32s to the values of a narrower type:
// a conversion to its bits and back.
func narrowing(to dtype.Type) kernel {
	narrow, widen := storers[to], loaders[to]
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		room := scratches.Get().(*scratch)
		defer scratches.Put(room)
		bits, _ := room.halves()
		for i := 0; i < n; i += scratchElements {
			m := min(n-i, scratchElements)
			narrow(bits, 1, unsafe.Add(src[0], 4*i*step[0]), step[0], m)
			widen(unsafe.Add(dst, 4*i), 1, bits, 1, m)
		}
	}
}
