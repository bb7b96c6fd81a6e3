package cpu

import (
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A grouping is the numbers of slices by the position that they are added at, and where those
// of each position begin and end in them; see [core.GroupPositions].
type grouping struct{ order, begin []int64 }

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
	return addSlices(s, 2, func(r *run) grouping {
		begin := make([]int64, s.out[0].sizes[0]+1)
		return grouping{core.GroupPositions(s.numbers(r, 1), begin), begin}
	}), nil
}

// sumSlices is accumulate with the grouping of operands 1 and 2.
func sumSlices(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	return addSlices(s, 3, func(r *run) grouping { return grouping{s.numbers(r, 1), s.numbers(r, 2)} }), nil
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

// addSlices copies operand 0 and adds slices of operand from. Additions at one place are of one
// task, which makes them in order, in float64, int64 or complex128, and rounds once.
func addSlices(s *opaqueStep, from int, group func(r *run) grouping) func(r *run) error {
	switch t := s.out[0].dtype; t.Class() {
	case dtype.ClassFloat:
		return addSlicesIn(s, from, group, func(dst []float64, p unsafe.Pointer, step int) { readFloats(dst, t, p, step) },
			func(p unsafe.Pointer, step int, src []float64) { writeFloats(t, p, step, src) })
	case dtype.ClassComplex:
		return addSlicesIn(s, from, group, readAs[complex128](t), writeAs[complex128](t))
	default:
		return addSlicesIn(s, from, group, readAs[int64](t), writeAs[int64](t))
	}
}

func addSlicesIn[T float64 | int64 | complex128](s *opaqueStep, from int, group func(r *run) grouping,
	read func(dst []T, p unsafe.Pointer, step int), write func(p unsafe.Pointer, step int, src []T)) func(r *run) error {
	acc, value, out := &s.in[0], &s.in[from], &s.out[0]
	space := merged(out.sizes[1:], out.strides[1:], value.strides[1:])
	width, step := space.cut(true)
	each := max(min(width, lineElements), 1) // elements of a slice that a task has
	lines := append([]int64{out.sizes[0]}, append(space.sizes, ceilDiv(width, each))...)
	return func(r *run) error {
		if err := copyTensor(r, out, acc); err != nil || value.empty {
			return err
		}
		g := group(r)
		return r.eachLine(lines, 1+int64(len(g.order))*each/out.sizes[0], func(l *line) {
			place, at, begin := l.index[0], l.index[1:len(l.index)-1], l.index[len(l.index)-1]*each
			slices := core.SlicesOf(g.order, g.begin[place], g.begin[place+1])
			if len(slices) == 0 {
				return
			}
			sums, more := make([]T, min(each, width-begin)), make([]T, min(each, width-begin))
			to := out.at(r, place*out.strides[0]+offsetOf(space.strides[0], at)+begin*step[0])
			first := offsetOf(space.strides[1], at) + begin*step[1]
			read(sums, to, int(step[0]))
			for _, n := range slices {
				if r.stopped() {
					return
				}
				if n < 0 || n >= value.sizes[0] {
					continue
				}
				read(more, value.at(r, first+n*value.strides[0]), int(step[1]))
				for i, x := range more {
					sums[i] += x
				}
			}
			write(to, int(step[0]), sums)
		})
	}
}
