package executor

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
)

// overlapsItself reports whether two elements of a tensor may share memory:
// whether, from the smallest stride up, a step is less than the extent of what
// it steps over.
func overlapsItself(sizes, strides []int64) bool {
	if core.NumElements(sizes) == 0 {
		return false
	}
	var dims []int
	for d, n := range sizes {
		if n != 1 {
			dims = append(dims, d)
		}
	}
	slices.SortFunc(dims, func(a, b int) int { return cmp.Compare(strides[a], strides[b]) })
	extent := int64(1)
	for _, d := range dims {
		if strides[d] < extent {
			return true
		}
		extent += strides[d] * (sizes[d] - 1)
	}
	return false
}

// extent returns the addresses that x's elements lie between.
func (x *Input) extent() (from, to uintptr) {
	from = uintptr(x.Data)
	if core.NumElements(x.Sizes) == 0 {
		return from, from
	}
	last := int64(0)
	for d, n := range x.Sizes {
		last += (n - 1) * x.Strides[d]
	}
	return from, from + uintptr((last+1)*int64(x.DType.Size()))
}

// A span is the memory that an input lies in.
type span struct {
	from, to uintptr
	input    int
	written  bool
}

// spans returns the memory of those inputs that have some, in the order of addresses. It
// appends to room.
func spans(room []span, written []int, inputs []Input) []span {
	for i := range inputs {
		s := span{input: i}
		if inputs[i].Tensor {
			s.from, s.to = inputs[i].extent()
		}
		room = append(room, s)
	}
	for _, w := range written {
		room[w].written = true
	}
	room = slices.DeleteFunc(room, func(s span) bool { return s.from == s.to })
	slices.SortFunc(room, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return room
}

// sharesMemory reports whether one of the inputs that are written may overlap another
// input.
func sharesMemory(written []int, inputs []Input) bool {
	var room [16]span
	var end, endWritten uintptr // of all so far, and of those that are written
	for _, s := range spans(room[:0], written, inputs) {
		if s.from < endWritten || s.written && s.from < end {
			return true
		}
		end = max(end, s.to)
		if s.written {
			endWritten = max(endWritten, s.to)
		}
	}
	return false
}

// bothWritten returns the first two inputs that are written and have memory in common.
func bothWritten(written []int, inputs []Input) (one, other int, found bool) {
	if len(written) < 2 {
		return 0, 0, false
	}
	var room [16]span
	list := slices.DeleteFunc(spans(room[:0], written, inputs), func(s span) bool { return !s.written })
	for k, s := range list {
		for _, t := range list[k+1:] {
			if t.from >= s.to {
				break
			}
			i, j := min(s.input, t.input), max(s.input, t.input)
			if (!found || i < one || i == one && j < other) && overlap(&inputs[i], &inputs[j]) {
				one, other, found = i, j, true
			}
		}
	}
	return one, other, found
}

// A stretch is a number of equal steps through memory, in bytes.
type stretch struct{ step, most int64 }

// overlap reports whether an element of a and one of b have a byte in common, as columns
// of one matrix have not. Both have elements. Where strides are such that this takes long
// to find out it is true.
func overlap(a, b *Input) bool {
	// Bytes are Σ step·n from where a begins, and from where b ends down.
	small := stretch{1, int64(a.DType.Size()) + int64(b.DType.Size()) - 2}
	_, end := b.extent()
	distance := int64(end) - 1 - int64(uintptr(a.Data))
	stretches := []stretch{small}
	for _, x := range []*Input{a, b} {
		for d, n := range x.Sizes {
			step := x.Strides[d] * int64(x.DType.Size())
			k := slices.IndexFunc(stretches, func(s stretch) bool { return s.step == step })
			switch {
			case step == 0 || n == 1:
			case k >= 0:
				stretches[k].most += n - 1
			default:
				stretches = append(stretches, stretch{step, n - 1})
			}
		}
	}
	slices.SortFunc(stretches, func(a, b stretch) int { return cmp.Compare(b.step, a.step) })
	tries := 10000
	return reaches(stretches, distance, &tries)
}

// reaches reports whether the distance is a sum of steps, which are in descending order.
// It is true when there are no more tries.
func reaches(stretches []stretch, distance int64, tries *int) bool {
	if len(stretches) == 0 {
		return distance == 0
	}
	rest := int64(0)
	for _, s := range stretches[1:] {
		rest += s.step * s.most
	}
	s := stretches[0]
	for n := min(s.most, distance/s.step); n >= 0 && distance-n*s.step <= rest; n-- {
		if *tries--; *tries < 0 || reaches(stretches[1:], distance-n*s.step, tries) {
			return true
		}
	}
	return false
}
