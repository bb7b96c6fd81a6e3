package cpu

import (
	"cmp"
	"slices"
	"unsafe"

	"nvfuser_go/core/dtype"
)

// accumulate copies operand 0 and adds slices of operand 2, in the order of the positions that
// operand 1 gives. Additions to one place are of one task, which makes them in order, in
// float64, int64 or complex128, and rounds once.
func accumulate(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	switch t := s.out[0].dtype; t.Class() {
	case dtype.ClassFloat:
		return accumulateIn(s, func(dst []float64, p unsafe.Pointer, step int) { readFloats(dst, t, p, step) },
			func(p unsafe.Pointer, step int, src []float64) { writeFloats(t, p, step, src) }), nil
	case dtype.ClassComplex:
		return accumulateIn(s, readAs[complex128](t), writeAs[complex128](t)), nil
	default:
		return accumulateIn(s, readAs[int64](t), writeAs[int64](t)), nil
	}
}

// An occupied is a position and where its elements are in a list.
type occupied struct{ position, begin, end int64 }

// grouped returns the numbers of the elements of positions in order of position, those of
// one position in order, and the places of those that are below size.
func grouped(positions []int64, size int64) (order []int64, places []occupied) {
	for i, p := range positions {
		if p >= 0 && p < size {
			order = append(order, int64(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(positions[a], positions[b]) })
	for begin := 0; begin < len(order); {
		end, p := begin, positions[order[begin]]
		for end < len(order) && positions[order[end]] == p {
			end++
		}
		places = append(places, occupied{p, int64(begin), int64(end)})
		begin = end
	}
	return order, places
}

func accumulateIn[T float64 | int64 | complex128](s *opaqueStep, read func(dst []T, p unsafe.Pointer, step int), write func(p unsafe.Pointer, step int, src []T)) func(r *run) error {
	acc, index, value, out := &s.in[0], &s.in[1], &s.in[2], &s.out[0]
	space := merged(out.sizes[1:], out.strides[1:], value.strides[1:])
	width, step := space.cut(true)
	each := max(min(width, lineElements), 1) // elements of a row that a task has
	lines := append(space.sizes, ceilDiv(width, each))
	return func(r *run) error {
		if err := copyTensor(r, out, acc); err != nil {
			return err
		}
		if value.empty {
			return nil
		}
		var all line
		order, places := grouped(all.integers(r, index, 0, index.strides[0], index.sizes[0]), out.sizes[0])
		perLine := int64(len(order)) * each / int64(max(len(places), 1))
		return r.eachLine(append([]int64{int64(len(places))}, lines...), perLine, func(l *line) {
			g, at := places[l.index[0]], l.index[1:len(l.index)-1]
			begin := l.index[len(l.index)-1] * each
			sums, more := make([]T, min(each, width-begin)), make([]T, min(each, width-begin))
			to := out.at(r, g.position*out.strides[0]+offsetOf(space.strides[0], at)+begin*step[0])
			from := offsetOf(space.strides[1], at) + begin*step[1]
			read(sums, to, int(step[0]))
			for _, n := range order[g.begin:g.end] {
				if r.stopped() {
					return
				}
				read(more, value.at(r, from+n*value.strides[0]), int(step[1]))
				for i, x := range more {
					sums[i] += x
				}
			}
			write(to, int(step[0]), sums)
		})
	}
}
