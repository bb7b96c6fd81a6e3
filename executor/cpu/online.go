package cpu

import (
	"math"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// exponentials is the state of [core.MaxExpSumOp]: the largest element, and the
// sum of the exponentials of the distances from it.
type exponentials struct{ largest, sum float64 }

// rescale makes largest at least as large as x. The sum of a part of minus
// infinities, which is NaN, does not count beside what is larger.
func (e *exponentials) rescale(x float64) {
	old := e.largest
	e.largest = core.MaximumOp.Meaning.Float.F2(old, x)
	if old == e.largest {
		return
	}
	factor := math.Exp(old - e.largest)
	if e.sum *= factor; factor == 0 {
		e.sum = 0
	}
}

// maxExpSum returns the folder to the largest of elements of Float or Double and
// the sum of exponentials. A row is folded in two passes.
func maxExpSum(t dtype.Type) *folder {
	d := domainOf(t)
	set := func(dst []unsafe.Pointer, i int, e exponentials) {
		d.put(unsafe.Add(dst[0], i*domainSize[d]), scalar.Value{Type: t, Re: e.largest})
		d.put(unsafe.Add(dst[1], i*domainSize[d]), scalar.Value{Type: t, Re: dtype.Round(t, e.sum)})
	}
	f := &folder{size: int(unsafe.Sizeof(exponentials{})),
		begin: func(state unsafe.Pointer) { *(*exponentials)(state) = exponentials{largest: math.Inf(-1)} },
		row:   exponentialsRow[float32],
		merge: func(state, later unsafe.Pointer) {
			a, b := (*exponentials)(state), *(*exponentials)(later)
			a.rescale(b.largest)
			b.rescale(a.largest)
			a.sum += b.sum
		},
		finish: func(state unsafe.Pointer, dst []unsafe.Pointer, i int) { set(dst, i, *(*exponentials)(state)) },
	}
	if t == dtype.Double {
		f.row = exponentialsRow[float64]
	}
	for k := range 2 {
		f.singles = append(f.singles, func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			for i := range n {
				x := d.get(src[0], i*step[0], t)
				if k == 1 {
					x.Re = math.Exp(x.Re - x.Re) // 1, or NaN
				}
				d.put(unsafe.Add(dst, i*domainSize[d]), x)
			}
		})
	}
	return f
}

func exponentialsRow[T float32 | float64](state, src unsafe.Pointer, step, n int) {
	if n == 0 {
		return
	}
	e := (*exponentials)(state)
	x := elements[T](src, rowLength(step, n))
	row := math.Inf(-1)
	if unsafe.Sizeof(T(0)) == 4 {
		largest[float32](unsafe.Pointer(&row), src, step, n)
	} else {
		largest[float64](unsafe.Pointer(&row), src, step, n)
	}
	e.rescale(row)
	m, sum := T(e.largest), 0.0
	for _, y := range x {
		sum += math.Exp(float64(y - m))
	}
	if step == 0 {
		sum *= float64(n)
	}
	e.sum += sum
}
