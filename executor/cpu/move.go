package cpu

import (
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
	switch t {
	case dtype.Double:
		moveBits[uint64](unsafe.Pointer(&out[0]), 1, p, step, len(out))
		return
	case dtype.Float:
		from := elements[float32](p, (len(out)-1)*step+1)
		for i := range out {
			out[i] = float64(from[i*step])
		}
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

// writeFloats rounds values to elements of floating type t, step apart.
func writeFloats(t dtype.Type, p unsafe.Pointer, step int, values []float64) {
	if len(values) == 0 {
		return
	}
	switch t {
	case dtype.Double:
		moveBits[uint64](p, step, unsafe.Pointer(&values[0]), 1, len(values))
	case dtype.Float:
		to := elements[float32](p, (len(values)-1)*step+1)
		for i, x := range values {
			to[i*step] = float32(x)
		}
	default:
		size := t.Size()
		for i, x := range values {
			dtype.StoreFloat(t, elements[byte](unsafe.Add(p, i*step*size), size), x)
		}
	}
}
