package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"nvfuser_go/core/dtype"
)

// argsort stores the positions of the elements of each line along dim in order.
func argsort(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[1].Int)
	out := &s.out[0]
	store := storers[dtype.Int]
	return sortLines(s, dim, s.e.Args[2].Bool(), func(r *run, index, order []int64) {
		if len(order) > 0 {
			store(out.at(r, out.lineAt(index, dim)), int(out.strides[dim]), unsafe.Pointer(&order[0]), 1, min(len(order), int(out.sizes[dim])))
		}
	}), nil
}

// topk stores the first k elements of each sorted line and their positions.
func topk(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[2].Int)
	x, values, indices := &s.in[0], &s.out[0], &s.out[1]
	move := copyBits(x.dtype)
	return sortLines(s, dim, s.e.Args[3].Bool(), func(r *run, index, order []int64) {
		from, to, at := x.lineAt(index, dim), values.lineAt(index, dim), indices.lineAt(index, dim)
		for i := range values.sizes[dim] {
			p := order[i]
			move(values.at(r, to+i*values.strides[dim]), 1, x.at(r, from+p*x.strides[dim]), 1, 1)
			*(*int64)(indices.at(r, at+i*indices.strides[dim])) = p
		}
	}), nil
}

// sortLines calls yield with the index of each line along dim of operand 0 that
// the results have, and the positions of its elements in order. Equal elements
// keep their order; NaN is larger than every number.
func sortLines(s *opaqueStep, dim int, descending bool, yield func(r *run, index, order []int64)) func(r *run) error {
	x := &s.in[0]
	lines, _ := along(s.out[0].sizes, dim)
	n := x.sizes[dim]
	return func(r *run) error {
		return r.eachLine(lines, 16*n, func(l *line) {
			p, step := x.at(r, x.lineAt(l.index, dim)), int(x.strides[dim])
			var order []int64
			switch {
			case x.dtype.IsFloat():
				order = sortFloats(r, loadFloats(x.dtype, p, step, n), descending)
			case x.dtype == dtype.UInt64:
				order = sortNumbers(r, load[uint64](x.dtype, p, step, n), descending)
			case x.dtype.IsBool():
				order = sortNumbers(r, load[uint8](x.dtype, p, step, n), descending)
			default:
				order = sortNumbers(r, load[int64](x.dtype, p, step, n), descending)
			}
			yield(r, l.index, order)
		})
	}
}

// load returns n elements of t, whose domain holds T, step apart.
func load[T any](t dtype.Type, p unsafe.Pointer, step int, n int64) []T {
	out := make([]T, n)
	if n > 0 {
		loaders[t](unsafe.Pointer(&out[0]), 1, p, step, int(n))
	}
	return out
}

// A keyed is an element and its position.
type keyed[T any] struct {
	key T
	at  int64
}

// sortFloats returns the positions of values in order. [cmp.Compare] puts NaN
// first.
func sortFloats(r *run, values []float64, descending bool) []int64 {
	return positionsInOrder(r, values, descending, func(a, b float64) int {
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		case a == b:
			return 0
		}
		return -cmp.Compare(a, b)
	})
}

func sortNumbers[T cmp.Ordered](r *run, values []T, descending bool) []int64 {
	return positionsInOrder(r, values, descending, cmp.Compare[T])
}

func positionsInOrder[T any](r *run, values []T, descending bool, compare func(a, b T) int) []int64 {
	all := make([]keyed[T], len(values))
	for i, v := range values {
		all[i] = keyed[T]{v, int64(i)}
	}
	all = sorted(r, all, func(a, b keyed[T]) int {
		c := compare(a.key, b.key)
		if descending {
			c = -c
		}
		if c == 0 {
			c = cmp.Compare(a.at, b.at)
		}
		return c
	})
	order := make([]int64, len(all))
	for i, k := range all {
		order[i] = k.at
	}
	return order
}

// sorted returns the elements in order, in all or in new memory: stretches of
// sortStretch are sorted and then merged, so that between them the run can be
// stopped. The elements are not in order then.
func sorted[T any](r *run, all []T, compare func(a, b T) int) []T {
	n := len(all)
	for from := 0; from < n; from += sortStretch {
		if r.stopped() {
			return all
		}
		slices.SortFunc(all[from:min(from+sortStretch, n)], compare)
	}
	if n <= sortStretch {
		return all
	}
	into := make([]T, n)
	for width := sortStretch; width < n; width *= 2 {
		for from := 0; from < n; from += 2 * width {
			middle, to := min(from+width, n), min(from+2*width, n)
			if !merge(r, into[from:to], all[from:middle], all[middle:to], compare) {
				return all
			}
		}
		all, into = into, all
	}
	return all
}

// sortStretch is the number of elements that are sorted in some tens of milliseconds.
const sortStretch = 1 << 18

// merge fills into with the elements of a and b in order, and reports whether it
// did so: not if the run is stopped.
func merge[T any](r *run, into, a, b []T, compare func(a, b T) int) bool {
	if len(b) == 0 || compare(a[len(a)-1], b[0]) <= 0 { // as where they were in order from the start
		copy(into[copy(into, a):], b)
		return true
	}
	for k := range into {
		if k%sortStretch == 0 && r.stopped() {
			return false
		}
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			into[k], a = a[0], a[1:]
		} else {
			into[k], b = b[0], b[1:]
		}
	}
	return true
}
