package cpu

import (
	"math"
	"slices"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// pad fills the result and copies the part of the operand that it shows.
func pad(b *builder, s *opaqueStep) (func(r *run) error, error) {
	widths, err := b.ints(s.e.Args[1])
	if err != nil {
		return nil, err
	}
	out, from := s.out[0], s.in[0]
	value, err := b.argument(s, 2, out.dtype, scalar.Value{})
	if err != nil {
		return nil, err
	}
	to := out
	to.sizes, from.sizes = slices.Clone(out.sizes), slices.Clone(from.sizes)
	rank, covered := len(to.sizes), true
	for d := range to.sizes {
		left := widths[2*(rank-1-d)]
		if out.sizes[d] == 1 && out.strides[d] == 0 && left == 0 && from.sizes[d] > 0 {
			continue // a broadcast that is not padded
		}
		begin, end := max(left, 0), min(left+from.sizes[d], out.sizes[d])
		to.offset += begin * to.strides[d]
		from.offset += (begin - left) * from.strides[d]
		to.sizes[d] = max(end-begin, 0)
		covered = covered && to.sizes[d] == out.sizes[d]
	}
	return func(r *run) error {
		if !covered {
			if err := fill(r, &out, value); err != nil {
				return err
			}
		}
		if core.NumElements(to.sizes) == 0 {
			return nil
		}
		return copyTensor(r, &to, &from)
	}, nil
}

// cat copies each operand to its range of the result.
func cat(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[1].Int)
	parts := make([]tensor, len(s.in))
	at := int64(0)
	for k := range s.in {
		p := s.out[0]
		p.sizes = slices.Clone(p.sizes)
		if p.strides[dim] != 0 || s.in[k].sizes[dim] != 1 {
			p.sizes[dim] = s.in[k].sizes[dim]
		}
		p.offset += at * p.strides[dim]
		at += s.in[k].sizes[dim]
		parts[k] = p
	}
	return func(r *run) error {
		for k := range parts {
			if err := copyTensor(r, &parts[k], &s.in[k]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// gather copies elements of operand 0 from the positions along dim that operand
// 1 lists. The dimensions of the operands that are broadcast have stride 0.
func gather(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[2].Int)
	x, index, out := &s.in[0], &s.in[1], &s.out[0]
	size := x.sizes[dim]
	last := len(out.sizes) - 1
	lines, n := along(out.sizes, last)
	step := x.strides[last]
	if dim == last {
		step = 0
	}
	move := copyBits(out.dtype)
	return func(r *run) error {
		var zero complex128
		storeZero(out.dtype, unsafe.Pointer(&zero))
		return r.eachLine(lines, n, func(l *line) {
			from := int64(0)
			for d, i := range l.index {
				if d != dim {
					from += i * x.strides[d]
				}
			}
			to := out.lineAt(l.index, last)
			positions := l.integers(r, index, index.lineAt(l.index, last), index.strides[last], n)
			for j, p := range positions {
				at := out.at(r, to+int64(j)*out.strides[last])
				if p < 0 || p >= size {
					move(at, 1, unsafe.Pointer(&zero), 1, 1)
					continue
				}
				move(at, 1, x.at(r, from+int64(j)*step+p*x.strides[dim]), 1, 1)
			}
		})
	}, nil
}

// storeZero writes the element of t nearest to 0.
func storeZero(t dtype.Type, p unsafe.Pointer) {
	var zero complex128
	storers[t](p, 1, unsafe.Pointer(&zero), 1, 1)
}

// scatter copies operand 0, then writes the elements of src line by line along
// dim: writes to one place are of one line, and happen in order.
func scatter(b *builder, s *opaqueStep) (func(r *run) error, error) {
	dim := int(s.e.Args[3].Int)
	x, index, out := &s.in[0], &s.in[1], &s.out[0]
	var constant [2]uint64
	src := tensor{dtype: out.dtype, strides: make([]int64, len(out.sizes))}
	if k, ok := s.operand[2]; ok {
		src = s.in[k]
	} else {
		v, err := b.argument(s, 2, out.dtype, scalar.Value{})
		if err != nil {
			return nil, err
		}
		var one complex128
		domainOf(out.dtype).put(unsafe.Pointer(&one), v)
		storers[out.dtype](unsafe.Pointer(&constant), 1, unsafe.Pointer(&one), 1, 1)
	}
	lines, n := along(index.sizes, dim)
	move := copyBits(out.dtype)
	return func(r *run) error {
		if err := copyTensor(r, out, x); err != nil {
			return err
		}
		_, tensorSource := s.operand[2]
		return r.eachLine(lines, n, func(l *line) {
			to, from := out.lineAt(l.index, dim), src.lineAt(l.index, dim)
			for j, p := range l.integers(r, index, index.lineAt(l.index, dim), index.strides[dim], n) {
				if p < 0 || p >= out.sizes[dim] {
					continue
				}
				value := unsafe.Pointer(&constant)
				if tensorSource {
					value = src.at(r, from+int64(j)*src.strides[dim])
				}
				move(out.at(r, to+p*out.strides[dim]), 1, value, 1, 1)
			}
		})
	}, nil
}

// embedding copies rows of the weight, and scales them if there is a max_norm.
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
	scaled := s.e.Args[3].Kind != core.NoArg
	last := len(out.sizes) - 1
	lines, n := along(out.sizes, last)
	move := copyBits(out.dtype)
	return func(r *run) error {
		var zero complex128
		storeZero(out.dtype, unsafe.Pointer(&zero))
		return r.eachLine(lines, n, func(l *line) {
			if n == 0 {
				return
			}
			row := l.integers(r, input, offsetOf(input.strides, l.index), 1, 1)[0]
			to := out.at(r, out.lineAt(l.index, last))
			step := int(out.strides[last])
			if row < 0 || row >= weight.sizes[0] {
				move(to, step, unsafe.Pointer(&zero), 0, int(n))
				return
			}
			from := weight.at(r, row*weight.strides[0])
			move(to, step, from, int(weight.strides[1]), int(n))
			if !scaled {
				return
			}
			values := loadFloats(out.dtype, from, int(weight.strides[1]), n)
			if scale := core.Renormalisation(values, limit.Re, norm.Re); scale != 1 {
				size := out.dtype.Size()
				for k, v := range values {
					dtype.StoreFloat(out.dtype, elements[byte](unsafe.Add(to, k*step*size), size), v*scale)
				}
			}
		})
	}, nil
}

// loadFloats returns n elements of floating type t, step apart, in float64.
func loadFloats(t dtype.Type, p unsafe.Pointer, step int, n int64) []float64 {
	out := make([]float64, n)
	readFloats(out, t, p, step)
	return out
}

// readFloats fills out with elements of floating type t, step apart.
func readFloats(out []float64, t dtype.Type, p unsafe.Pointer, step int) {
	if len(out) == 0 {
		return
	}
	if t == dtype.Double {
		moveBits[uint64](unsafe.Pointer(&out[0]), 1, p, step, len(out))
		return
	}
	room := scratches.Get().(*scratch)
	defer scratches.Put(room)
	narrow, _ := room.halves()
	for i := 0; i < len(out); i += scratchElements {
		m := min(scratchElements, len(out)-i)
		loaders[t](narrow, 1, unsafe.Add(p, i*step*t.Size()), step, m)
		for k, x := range elements[float32](narrow, m) {
			out[i+k] = float64(x)
		}
	}
}
