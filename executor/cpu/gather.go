package cpu

import (
	"math"
	"slices"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A space is the indices that an operation goes over, and the strides of its
// tensors there.
type space struct {
	sizes   []int64
	strides [][]int64 // by tensor
}

// merged returns the space of sizes with fewest dimensions: without those of
// one element, and with neighbours that every tensor walks as one joined.
func merged(sizes []int64, strides ...[]int64) space {
	s := space{strides: make([][]int64, len(strides))}
	for d, n := range sizes {
		if n == 1 {
			continue
		}
		last := len(s.sizes) - 1
		joins := last >= 0
		for k := range strides {
			joins = joins && s.strides[k][last] == strides[k][d]*n
		}
		if joins {
			s.sizes[last] *= n
		} else {
			s.sizes = append(s.sizes, n)
		}
		for k := range strides {
			if joins {
				s.strides[k][last] = strides[k][d]
			} else {
				s.strides[k] = append(s.strides[k], strides[k][d])
			}
		}
	}
	return s
}

// cut removes the last dimension of s and returns its size and strides; if there
// is none, or it is not wanted, those of a dimension of one element.
func (s *space) cut(wanted bool) (size int64, strides []int64) {
	last := len(s.sizes) - 1
	strides = make([]int64, len(s.strides))
	if last < 0 || !wanted {
		return 1, strides
	}
	size, s.sizes = s.sizes[last], s.sizes[:last]
	for k := range strides {
		strides[k], s.strides[k] = s.strides[k][last], s.strides[k][:last]
	}
	return size, strides
}

// lineElements are the elements that a gather or scatter works on at once, so
// that positions stay in the first-level cache and long lines are shared.
const lineElements = 4096

// gather copies elements of operand 0 from the positions along dim that operand
// 1 lists. The dimensions of the operands that are broadcast have stride 0.
func gather(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[2].Int)
	x, index, out := &s.in[0], &s.in[1], &s.out[0]
	rest := slices.Clone(x.strides)
	rest[dim] = 0
	return gatherRows(out, x, index, merged(out.sizes, out.strides, rest, index.strides), x.sizes[dim], x.strides[dim]), nil
}

// gatherRows returns the function that sets out to the elements of x at the
// positions of index, from 0 to size-1, that are stride apart. s is the space of
// out, of x at position 0 and of index. Where index does not vary along the last
// dimension, elements are copied in rows.
func gatherRows(out, x, index *tensor, s space, size, stride int64) func(r *run) error {
	last := len(s.sizes) - 1
	width, row := s.cut(last >= 0 && s.strides[2][last] == 0)
	length, step := s.cut(true)
	each := max(lineElements/max(width, 1), 1)
	lines := append(s.sizes, ceilDiv(length, each))
	move, elementwise := copyBits(out.dtype), gathersOf(out.dtype)
	bytes := int64(out.dtype.Size())
	return func(r *run) error {
		if out.empty {
			return nil
		}
		return r.eachLine(lines, each*width, func(l *line) {
			index0 := l.index[:len(l.index)-1]
			begin := l.index[len(index0)] * each
			n := min(each, length-begin)
			to := out.at(r, offsetOf(s.strides[0], index0)+begin*step[0])
			from := x.at(r, offsetOf(s.strides[1], index0)+begin*step[1])
			positions := l.integers(r, index, offsetOf(s.strides[2], index0)+begin*step[2], step[2], n)
			if width == 1 {
				elementwise(to, step[0], from, step[1], positions, size, stride)
				return
			}
			for j, p := range positions {
				at := unsafe.Add(to, int64(j)*step[0]*bytes)
				if uint64(p) < uint64(size) {
					move(at, int(row[0]), unsafe.Add(from, (int64(j)*step[1]+p*stride)*bytes), int(row[1]), int(width))
				} else {
					move(at, int(row[0]), unsafe.Pointer(&zeroBits), 0, int(width))
				}
			}
		})
	}
}

// zeroBits are those of the element of every type that is nearest to 0.
var zeroBits [2]uint64

// A gathers sets the elements of dst to those of src at positions, which are
// stride apart, and to [zeroBits] where a position is not one of size. Steps are
// in elements.
type gathers func(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64, positions []int64, size, stride int64)

func gathersOf(t dtype.Type) gathers {
	switch t.Size() {
	case 1:
		return gatherElements[uint8]
	case 2:
		return gatherElements[uint16]
	case 4:
		return gatherElements[uint32]
	case 8:
		return gatherElements[uint64]
	}
	return gatherElements[complex128]
}

func gatherElements[T any](dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64, positions []int64, size, stride int64) {
	bytes := int64(unsafe.Sizeof(*(*T)(dst)))
	dstStep, srcStep, stride = dstStep*bytes, srcStep*bytes, stride*bytes
	to, from := int64(0), int64(0)
	for _, p := range positions {
		var v T
		if uint64(p) < uint64(size) {
			v = *(*T)(unsafe.Add(src, from+p*stride))
		}
		*(*T)(unsafe.Add(dst, to)) = v
		to, from = to+dstStep, from+srcStep
	}
}

// A scatters writes the elements of src to the positions of dst, which are
// stride apart, in order; not where a position is not one of size. Steps are in
// elements.
type scatters func(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64, positions []int64, size, stride int64)

func scattersOf(t dtype.Type) scatters {
	switch t.Size() {
	case 1:
		return scatterElements[uint8]
	case 2:
		return scatterElements[uint16]
	case 4:
		return scatterElements[uint32]
	case 8:
		return scatterElements[uint64]
	}
	return scatterElements[complex128]
}

func scatterElements[T any](dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64, positions []int64, size, stride int64) {
	bytes := int64(unsafe.Sizeof(*(*T)(dst)))
	dstStep, srcStep, stride = dstStep*bytes, srcStep*bytes, stride*bytes
	to, from := int64(0), int64(0)
	for _, p := range positions {
		if uint64(p) < uint64(size) {
			*(*T)(unsafe.Add(dst, to+p*stride)) = *(*T)(unsafe.Add(src, from))
		}
		to, from = to+dstStep, from+srcStep
	}
}

// A scattering is a scatter of src, or of a constant. Its space is that of out
// at position 0, src and index, without dim.
type scattering struct {
	out, src, index *tensor
	space
	constant     [2]uint64 // if src is nil
	length, size int64     // of dim in index and out
	step         [3]int64  // along dim, of out, src and index
	move         mover
	elementwise  scatters
	width        int64 // of the rows that are written at once along a dimension
	row          []int64
	each         int64 // elements of a row that a task writes
}

// scatter copies operand 0, then writes the elements of src. Writes to one place
// are of one task, which goes along dim in order.
func scatter(b *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[3].Int)
	x, index, out := &s.in[0], &s.in[1], &s.out[0]
	c := &scattering{out: out, index: index, length: index.sizes[dim], size: out.sizes[dim], move: copyBits(out.dtype), elementwise: scattersOf(out.dtype)}
	strides := make([]int64, len(out.sizes)) // of a constant
	if k, ok := s.operand[2]; ok {
		c.src = &s.in[k]
		strides = c.src.strides
	} else {
		v, err := b.argument(s, 2, out.dtype, scalar.Value{})
		if err != nil {
			return nil, err
		}
		var one complex128
		domainOf(out.dtype).put(unsafe.Pointer(&one), v)
		storers[out.dtype](unsafe.Pointer(&c.constant), 1, unsafe.Pointer(&one), 1, 1)
	}
	c.step = [3]int64{out.strides[dim], strides[dim], index.strides[dim]}
	without := func(list []int64) []int64 { return slices.Delete(slices.Clone(list), dim, dim+1) }
	c.space = merged(without(index.sizes), without(out.strides), without(strides), without(index.strides))
	// Rows shorter than shortRow are not worth a call each.
	const shortRow = 8
	last := len(c.sizes) - 1
	c.width, c.row = c.cut(last >= 0 && c.sizes[last] >= shortRow && c.strides[0][last] < out.strides[dim])
	c.each = min(c.width, lineElements)
	lines := append(c.sizes, ceilDiv(c.width, max(c.each, 1)))
	return func(r *run) error {
		if err := copyTensor(r, out, x); err != nil {
			return err
		}
		return r.eachLine(lines, c.length*c.each, func(l *line) { c.line(r, l) })
	}, nil
}

// line writes a part of a row at every position of dim.
func (c *scattering) line(r *run, l *line) {
	index := l.index[:len(l.index)-1]
	begin := l.index[len(index)] * c.each
	n := min(c.each, c.width-begin)
	bytes := int64(c.out.dtype.Size())
	to := c.out.at(r, offsetOf(c.strides[0], index)+begin*c.row[0])
	from := unsafe.Pointer(&c.constant)
	if c.src != nil {
		from = c.src.at(r, offsetOf(c.strides[1], index)+begin*c.row[1])
	}
	at := offsetOf(c.strides[2], index) + begin*c.row[2]
	if c.width > 1 && c.row[2] != 0 {
		for j := range c.length {
			positions := l.integers(r, c.index, at+j*c.step[2], c.row[2], n)
			c.elementwise(to, c.row[0], unsafe.Add(from, j*c.step[1]*bytes), c.row[1], positions, c.size, c.step[0])
		}
		return
	}
	positions := l.integers(r, c.index, at, c.step[2], c.length)
	if c.width == 1 {
		c.elementwise(to, 0, from, c.step[1], positions, c.size, c.step[0])
		return
	}
	for j, p := range positions {
		if uint64(p) < uint64(c.size) {
			c.move(unsafe.Add(to, p*c.step[0]*bytes), int(c.row[0]), unsafe.Add(from, int64(j)*c.step[1]*bytes), int(c.row[1]), int(n))
		}
	}
}

// embedding gathers rows of the weight, and scales them if there is a max_norm.
func embedding(b *builder, s *opaqueStep) (func(r *run) error, error) {
	input, weight, out := &s.in[0], &s.in[1], &s.out[0]
	limit, err := b.argument(s, 3, dtype.Double, scalar.Value{Re: math.Inf(1)})
	if err != nil {
		return nil, err
	}
	norm, err := b.argument(s, 4, dtype.Double, scalar.Value{Re: 2})
	if err != nil {
		return nil, err
	}
	last := len(out.sizes) - 1
	rest := make([]int64, last+1)
	rest[last] = weight.strides[1]
	index := append(slices.Clone(input.strides), 0)
	copyRows := gatherRows(out, weight, input, merged(out.sizes, out.strides, rest, index), weight.sizes[0], weight.strides[0])
	if s.e.Args[3].Kind == core.NoArg {
		return copyRows, nil
	}
	lines, n := along(out.sizes, last)
	return func(r *run) error {
		if err := copyRows(r); err != nil {
			return err
		}
		return r.eachLine(lines, n, func(l *line) {
			row := l.integers(r, input, offsetOf(input.strides, l.index), 1, 1)[0]
			if row < 0 || row >= weight.sizes[0] || n == 0 {
				return
			}
			to, step, size := out.at(r, out.lineAt(l.index, last)), int(out.strides[last]), out.dtype.Size()
			values := loadFloats(out.dtype, to, step, n)
			if scale := core.Renormalisation(values, limit.Re, norm.Re); scale != 1 {
				for k, v := range values {
					dtype.StoreFloat(out.dtype, elements[byte](unsafe.Add(to, k*step*size), size), v*scale)
				}
			}
		})
	}, nil
}
