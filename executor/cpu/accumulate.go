package cpu

import (
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// numbers returns the elements of operand k, which has one dimension.
func (s *opaqueStep) numbers(r *run, k int) []int64 {
	var l line
	x := &s.in[k]
	if x.empty {
		return nil
	}
	return l.integers(r, x, 0, x.strides[0], x.sizes[0])
}

// accumulate copies operand 0 and adds slices of operand 2, in the order of the positions that
// operand 1 gives.
func accumulate(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	return addSlices(s, addition{acc: &s.in[0], values: s.in[2:], listed: func(r *run) listing {
		begin := make([]int64, s.out[0].sizes[0]+1)
		order := core.GroupPositions(s.numbers(r, 1), begin)
		return func(place int64) [2][]int64 { return [2][]int64{order[begin[place]:begin[place+1]]} }
	}}), nil
}

// sumSlices is accumulate with the grouping of operands 1 and 2, and parts that are summed.
func sumSlices(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	return addSlices(s, addition{acc: &s.in[0], values: s.in[3:], listed: func(r *run) listing {
		order, begin := s.numbers(r, 1), s.numbers(r, 2)
		return func(place int64) [2][]int64 {
			numbers, from, to := core.SlicesOf(order, begin[place], begin[place+1])
			parts := make([]int64, to-from)
			for i := range parts {
				parts[i] = from + int64(i)
			}
			return [2][]int64{numbers, parts}
		}
	}}), nil
}

// sumParts adds slices of operand 2 that operand 1 lists, if operand 0 has them at one position.
func sumParts(b *builder, s *opaqueStep) (func(r *run) error, error) {
	size, err := b.argument(s, 3, dtype.Int, scalar.Value{})
	return addSlices(s, addition{values: s.in[2:], listed: func(r *run) listing {
		index, order := s.numbers(r, 0), s.numbers(r, 1)
		return func(place int64) [2][]int64 {
			return [2][]int64{core.NumbersOfPart(index, order[place*core.PlacesOfPart:][:core.PlacesOfPart], size.I)}
		}
	}}), err
}

// groupPositions makes the grouping of operand 0.
func groupPositions(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	return func(r *run) error {
		begin := make([]int64, s.out[1].sizes[0])
		for k, numbers := range [][]int64{core.GroupPositions(s.numbers(r, 0), begin), begin} {
			if out := &s.out[k]; len(numbers) > 0 && !out.empty {
				storers[dtype.Int](out.at(r, 0), int(out.strides[0]), unsafe.Pointer(&numbers[0]), 1, min(len(numbers), int(out.sizes[0])))
			}
		}
		return nil
	}, nil
}

// An addition is what a step adds to acc, or to zeros: slices of one or two tensors.
type addition struct {
	acc    *tensor
	values []tensor
	listed func(r *run) listing
}

// A listing returns the numbers of the slices of each tensor that are added at a place.
type listing func(place int64) [2][]int64

// addSlices does an addition. What is added at one place is of one task, which does so in
// order, in float64, int64 or complex128, and rounds once.
func addSlices(s *opaqueStep, a addition) func(r *run) error {
	switch t := s.out[0].dtype; t.Class() {
	case dtype.ClassFloat:
		return addSlicesIn(s, a, func(t dtype.Type) func([]float64, unsafe.Pointer, int) {
			return func(dst []float64, p unsafe.Pointer, step int) { readFloats(dst, t, p, step) }
		}, func(p unsafe.Pointer, step int, src []float64) { writeFloats(t, p, step, src) })
	case dtype.ClassComplex:
		return addSlicesIn(s, a, readAs[complex128], writeAs[complex128](t))
	default:
		return addSlicesIn(s, a, readAs[int64], writeAs[int64](t))
	}
}

func addSlicesIn[T float64 | int64 | complex128](s *opaqueStep, a addition,
	reader func(dtype.Type) func(dst []T, p unsafe.Pointer, step int), write func(p unsafe.Pointer, step int, src []T)) func(r *run) error {
	out := &s.out[0]
	all := [][]int64{out.strides[1:]}
	for i := range a.values {
		all = append(all, a.values[i].strides[1:])
	}
	space := merged(out.sizes[1:], all...)
	width, step := space.cut(true)
	each := max(min(width, lineElements), 1) // elements of a slice that a task has
	lines := append([]int64{out.sizes[0]}, append(space.sizes, ceilDiv(width, each))...)
	readOut := reader(out.dtype)
	return func(r *run) error {
		if a.acc != nil {
			if err := copyTensor(r, out, a.acc); err != nil || a.values[0].empty {
				return err
			}
		}
		list := a.listed(r)
		return r.eachLine(lines, 1+a.values[0].sizes[0]*each/out.sizes[0], func(l *line) {
			place, at, begin := l.index[0], l.index[1:len(l.index)-1], l.index[len(l.index)-1]*each
			lists := list(place)
			if len(lists[0])+len(lists[1]) == 0 && a.acc != nil {
				return
			}
			sums, more := make([]T, min(each, width-begin)), make([]T, min(each, width-begin))
			to := out.at(r, place*out.strides[0]+offsetOf(space.strides[0], at)+begin*step[0])
			if a.acc != nil {
				readOut(sums, to, int(step[0]))
			}
			for i := range a.values {
				value, first := &a.values[i], offsetOf(space.strides[1+i], at)+begin*step[1+i]
				read := reader(value.dtype)
				for _, n := range lists[i] {
					if r.stopped() {
						return
					}
					if n < 0 || n >= value.sizes[0] {
						continue
					}
					read(more, value.at(r, first+n*value.strides[0]), int(step[1+i]))
					for i, x := range more {
						sums[i] += x
					}
				}
			}
			write(to, int(step[0]), sums)
		})
	}
}
