package cpu

import (
	"fmt"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A folder folds elements into a state that is wider than they are: float64,
// int64, uint8 or complex128, or the several of welford and the online sum of exponentials. Source operands advance
// by step, 0 or 1, elements.
type folder struct {
	size    int // bytes of a state
	begin   func(state unsafe.Pointer)
	row     func(state, src unsafe.Pointer, step, n int)
	merge   func(state, later unsafe.Pointer)
	finish  func(state unsafe.Pointer, dst []unsafe.Pointer, i int) // writes element i of the results
	scan    func(state, dst, src unsafe.Pointer, step, n int)       // every prefix of a row
	singles []kernel                                                // per result: the fold of one element, after src[1] if given
}

// folderOf returns the folder of a Reduction or Scan over elements of t.
func folderOf(op *core.OpInfo, t dtype.Type) (*folder, error) {
	switch op {
	case core.WelfordOp:
		return welford(t), nil
	case core.MaxExpSumOp:
		return maxExpSum(t), nil
	}
	var fold *folder
	m := &op.Combine().Info().Meaning
	wide := t
	switch t.Class() {
	case dtype.ClassBool:
		fold = foldOf(m.Bool.F2, toBool, fromBool, op.Identity(t).I != 0)
	case dtype.ClassUInt:
		if f := m.UInt.F2; f != nil {
			fold = foldOf(f, id[uint64], id[uint64], uint64(op.Identity(t).I))
			break
		}
		fold = foldOf(m.Int.F2, id[int64], id[int64], op.Identity(t).I)
	case dtype.ClassInt:
		out := id[int64]
		if t == dtype.Int32 {
			out = func(x int64) int64 { return int64(int32(x)) }
		}
		fold = foldOf(m.Int.F2, id[int64], out, op.Identity(t).I)
	case dtype.ClassFloat:
		wide = dtype.Double
		identity := op.Identity(wide).Re
		if t == dtype.Double {
			fold = foldOf(m.Float.F2, id[float64], id[float64], identity)
		} else {
			fold = foldOf(m.Float.F2, func(x float32) float64 { return float64(x) }, rounding(t), identity)
		}
	case dtype.ClassComplex:
		out := id[complex128]
		if t == dtype.ComplexFloat {
			out = func(x complex128) complex128 { return complex128(complex64(x)) }
		}
		identity := op.Identity(dtype.ComplexDouble)
		fold = foldOf(m.Complex.F2, id[complex128], out, complex(identity.Re, identity.Im))
	}
	if fold == nil {
		return nil, fmt.Errorf("op %s: %s has no meaning for %v", op.Name, op.Combine(), t)
	}
	if q := quickRow(op, t); q != nil {
		fold.row = q
	}
	return fold, nil
}

// foldOf returns the folder of f, with state T, over elements of S.
func foldOf[T, S any](f func(a, b T) T, in func(S) T, out func(T) S, identity T) *folder {
	if f == nil {
		return nil
	}
	fold := func(state, src unsafe.Pointer, step, n int) {
		acc := *(*T)(state)
		s := elements[S](src, (n-1)*step+1)
		for i := 0; n > 0; n-- {
			acc = f(acc, in(s[i]))
			i += step
		}
		*(*T)(state) = acc
	}
	single := func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		d := elements[S](dst, n)
		for i := range d {
			acc := identity
			if len(src) > 1 {
				acc = f(acc, in(*(*S)(src[1])))
			}
			d[i] = out(f(acc, in(elements[S](src[0], i*step[0]+1)[i*step[0]])))
		}
	}
	var zero T
	return &folder{
		size:  int(unsafe.Sizeof(zero)),
		begin: func(state unsafe.Pointer) { *(*T)(state) = identity },
		row: func(state, src unsafe.Pointer, step, n int) {
			if n > 0 {
				fold(state, src, step, n)
			}
		},
		merge: func(state, later unsafe.Pointer) { *(*T)(state) = f(*(*T)(state), *(*T)(later)) },
		finish: func(state unsafe.Pointer, dst []unsafe.Pointer, i int) {
			elements[S](dst[0], i+1)[i] = out(*(*T)(state))
		},
		scan: func(state, dst, src unsafe.Pointer, step, n int) {
			acc := *(*T)(state)
			d := elements[S](dst, n)
			for i := range d {
				acc = f(acc, in(*(*S)(unsafe.Add(src, i*step*int(unsafe.Sizeof(d[0]))))))
				d[i] = out(acc)
			}
			*(*T)(state) = acc
		},
		singles: []kernel{single},
	}
}

// quickRow returns the row function written for the common folds of floats, or
// nil.
func quickRow(op *core.OpInfo, t dtype.Type) func(state, src unsafe.Pointer, step, n int) {
	single := domainOf(t) == inFloat32
	switch {
	case op == core.SumOp && single:
		return func(state, src unsafe.Pointer, step, n int) {
			*(*float64)(state) += sumOf[float32](src, step, n)
		}
	case op == core.SumOp && t == dtype.Double:
		return func(state, src unsafe.Pointer, step, n int) {
			*(*float64)(state) += sumOf[float64](src, step, n)
		}
	case op == core.MaxOp && single:
		return largest[float32]
	case op == core.MaxOp && t == dtype.Double:
		return largest[float64]
	case op == core.MinOp && single:
		return smallest[float32]
	case op == core.MinOp && t == dtype.Double:
		return smallest[float64]
	}
	return nil
}

// summedInTurn is how many elements of a row are added one after the other.
// Longer rows are sums of halves, as the error of a double would grow with
// their length: of equal elements each partial sum is rounded the same way.
const summedInTurn = 128

// inHalves is the sum of part over n elements, by so few at a time.
func inHalves(start, n int, part func(start, n int) float64) float64 {
	if n <= summedInTurn {
		return part(start, n)
	}
	half := (n/2 + 7) &^ 7
	return inHalves(start, half, part) + inHalves(start+half, n-half, part)
}

// sumOf adds n elements in float64.
func sumOf[T float32 | float64](src unsafe.Pointer, step, n int) float64 {
	size := int(unsafe.Sizeof(*(*T)(src)))
	return inHalves(0, n, func(start, n int) float64 { return sumInTurn[T](unsafe.Add(src, start*step*size), step, n) })
}

// sumInTurn adds element i to partial sum i mod 8, then the partial sums in
// order. One sum would wait for each addition.
func sumInTurn[T float32 | float64](src unsafe.Pointer, step, n int) float64 {
	var s [8]float64
	if step == 0 {
		if n == 0 {
			return 0
		}
		x := float64(*(*T)(src))
		for i := range n {
			s[i&7] += x
		}
		return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]
	}
	x := elements[T](src, n)
	s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	for len(x) >= 8 {
		s0 += float64(x[0])
		s1 += float64(x[1])
		s2 += float64(x[2])
		s3 += float64(x[3])
		s4 += float64(x[4])
		s5 += float64(x[5])
		s6 += float64(x[6])
		s7 += float64(x[7])
		x = x[8:]
	}
	s = [8]float64{s0, s1, s2, s3, s4, s5, s6, s7}
	for i, y := range x {
		s[i] += float64(y)
	}
	return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]
}

func largest[T float32 | float64](state, src unsafe.Pointer, step, n int) {
	acc := T(*(*float64)(state)) // exact: it was one of the elements, or infinite
	for _, y := range elements[T](src, rowLength(step, n)) {
		if y > acc || y != y {
			acc = y
		}
	}
	*(*float64)(state) = float64(acc)
}

func smallest[T float32 | float64](state, src unsafe.Pointer, step, n int) {
	acc := T(*(*float64)(state))
	for _, y := range elements[T](src, rowLength(step, n)) {
		if y < acc || y != y {
			acc = y
		}
	}
	*(*float64)(state) = float64(acc)
}

// rowLength is the number of distinct elements of a row.
func rowLength(step, n int) int {
	if step == 0 {
		return min(n, 1)
	}
	return n
}

// moments is the state of welford.
type moments struct{ n, sum, squares float64 }

// welford returns the folder to mean, sum of squared distances and count of
// elements of Float or Double. A row is folded in two passes; states merge by
// the formulas of T. Chan, G. Golub, R. LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979.
func welford(t dtype.Type) *folder {
	row := welfordRow[float32]
	put := func(dst unsafe.Pointer, i int, x float64) { elements[float32](dst, i+1)[i] = float32(x) }
	if t == dtype.Double {
		row = welfordRow[float64]
		put = func(dst unsafe.Pointer, i int, x float64) { elements[float64](dst, i+1)[i] = x }
	}
	finish := func(state unsafe.Pointer, dst []unsafe.Pointer, i int) {
		m := (*moments)(state)
		put(dst[0], i, m.sum/m.n) // NaN of none
		put(dst[1], i, m.squares)
		elements[int64](dst[2], i+1)[i] = int64(m.n)
	}
	f := &folder{size: int(unsafe.Sizeof(moments{})), begin: func(state unsafe.Pointer) { *(*moments)(state) = moments{} },
		row: row, merge: mergeMoments, finish: finish}
	d := domainOf(t)
	for k := range 3 {
		f.singles = append(f.singles, func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			for i := range n {
				x := d.get(src[0], i*step[0], t)
				switch k {
				case 0:
					x.Re += 0 // the sum that the mean is made of begins with 0
					d.put(unsafe.Add(dst, i*domainSize[d]), x)
				case 1:
					x.Re -= x.Re // 0, or NaN
					d.put(unsafe.Add(dst, i*domainSize[d]), x)
				case 2:
					inInt.put(unsafe.Add(dst, i*8), scalar.Value{I: 1})
				}
			}
		})
	}
	return f
}

func welfordRow[T float32 | float64](state, src unsafe.Pointer, step, n int) {
	if n == 0 {
		return
	}
	row := moments{n: float64(n)}
	row.sum = sumOf[T](src, step, n)
	mean := row.sum / row.n
	if step == 0 {
		d := float64(*(*T)(src)) - mean
		row.squares = d * d * row.n
	} else {
		x := elements[T](src, n)
		row.squares = inHalves(0, n, func(start, n int) float64 { return squaresOf(x[start:start+n], mean) })
	}
	mergeMoments(state, unsafe.Pointer(&row))
}

// squaresOf adds the squares of the distances from mean, as [sumInTurn] adds.
func squaresOf[T float32 | float64](x []T, mean float64) float64 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		d0, d1, d2, d3 := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
		x = x[4:]
	}
	for _, y := range x {
		d := float64(y) - mean
		s0 += d * d
	}
	return s0 + s1 + s2 + s3
}

func mergeMoments(state, later unsafe.Pointer) {
	a, b := (*moments)(state), (*moments)(later)
	switch {
	case b.n == 0:
	case a.n == 0:
		*a = *b
	default:
		n, d := a.n+b.n, b.sum/b.n-a.sum/a.n
		a.squares += b.squares + d*d*(a.n*b.n/n)
		a.sum += b.sum
		a.n = n
	}
}
