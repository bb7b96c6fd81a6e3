package cpu

import (
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// isGenerator reports whether an element of op's result depends on its position
// and on scalars alone.
func isGenerator(op *core.OpInfo) bool {
	return op == core.FullOp || op == core.IotaOp || op == core.UniformOp || op == core.NormalOp
}

// generate emits a node that makes elements from their position in row-major
// order.
func (l *lowering) generate(n *node) error {
	e, v := n.expr, n.out[0]
	t := l.b.values[v].dtype
	switch e.Op {
	case core.FullOp:
		r, err := l.scalar(e.Args[1].Scalar, t)
		l.of[v] = r
		return err
	case core.IotaOp:
		compute := t
		if t.IsFloat() {
			compute = dtype.Double
		}
		return l.fromPosition(v, iotaKernel(t), []core.Arg{e.Args[1], e.Args[2]}, []dtype.Type{compute, compute})
	}
	if e.Args[3].Kind != core.NoArg {
		return l.fromPosition(v, randomKernel(e.Op, t), e.Args[:2:2], []dtype.Type{dtype.Double, dtype.Double}, e.Args[3], e.Args[4])
	}
	err := l.fromPosition(v, randomKernel(e.Op, t), e.Args[:2], []dtype.Type{dtype.Double, dtype.Double})
	i := &l.t.code[len(l.t.code)-1]
	i.src = append(i.src, l.random(randomSeed, 0), l.random(randomOffset, e.Stream))
	return err
}

// fromPosition emits kernel k on the positions of v, scalars of the given types
// and scalars of type Index.
func (l *lowering) fromPosition(v int, k kernel, args []core.Arg, types []dtype.Type, indices ...core.Arg) error {
	x := &l.b.values[v]
	a := &access{buffer: -1, strides: make([]int64, len(l.g.sizes))}
	var varies uint64
	step := int64(1)
	for d := len(x.sizes) - 1; d >= 0; d-- {
		if axis := x.mapping[d]; axis >= 0 {
			a.strides[axis] = step
			varies |= 1 << axis
		}
		step *= x.sizes[d]
	}
	position := l.newRegister(dtype.Index, varies)
	l.emit(instruction{code: opLoad, dst: []int{position}, access: a})
	src := []int{position}
	for i, arg := range append(args[:len(args):len(args)], indices...) {
		t := dtype.Index
		if i < len(types) {
			t = types[i]
		}
		r, err := l.scalar(arg.Scalar, t)
		if err != nil {
			return err
		}
		src = append(src, r)
	}
	dst := l.newRegister(x.dtype, varies)
	l.emit(instruction{code: opApply, dst: []int{dst}, src: src, kernel: k})
	l.of[v] = dst
	return nil
}

// random returns the register of the seed or offset of the run.
func (l *lowering) random(what randomScalar, stream int) int {
	r := l.newRegister(dtype.UInt64, 0)
	l.t.regs[r].scalar = len(l.b.prog.scalars)
	l.b.prog.scalars = append(l.b.prog.scalars, scalarValue{dtype: dtype.UInt64, random: what, stream: stream})
	l.t.scalars = append(l.t.scalars, r)
	return r
}

func iotaKernel(t dtype.Type) kernel {
	if t.IsFloat() {
		d := domainOf(t)
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			start, by := *(*float64)(src[1]), *(*float64)(src[2])
			for i := range n {
				at := elements[int64](src[0], i*step[0]+1)[i*step[0]]
				x := dtype.Round(t, start+float64(at)*by)
				if d == inFloat32 {
					elements[float32](dst, n)[i] = float32(x)
				} else {
					elements[float64](dst, n)[i] = x
				}
			}
		}
	}
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		start, by := *(*int64)(src[1]), *(*int64)(src[2])
		d := elements[int64](dst, n)
		for i := range d {
			at := elements[int64](src[0], i*step[0]+1)[i*step[0]]
			d[i] = dtype.WrapInt(t, start+at*by)
		}
	}
}

// randomKernel returns the loop of a Random op: src are the position, the two
// parameters, the seed and the offset. Elements at consecutive positions are
// made together, because several are of one block of random words.
func randomKernel(op *core.OpInfo, t dtype.Type) kernel {
	d := domainOf(t)
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		a, b := *(*float64)(src[1]), *(*float64)(src[2])
		seed, offset := *(*uint64)(src[3]), *(*uint64)(src[4])
		positions := operandOf[int64](src, step, 0, n)
		var room [128]float64
		for i := 0; i < n; {
			values := room[:consecutive(positions[i*step[0]:], len(room))]
			core.RandomValues(values, op, t, a, b, seed, offset, positions[i*step[0]])
			if d == inFloat32 {
				to := elements[float32](dst, n)[i:]
				for k, x := range values {
					to[k] = float32(x)
				}
			} else {
				copy(elements[float64](dst, n)[i:], values)
			}
			i += len(values)
		}
	}
}

// consecutive returns how many positions, of which there is one, follow each
// other at the beginning, at most limit.
func consecutive(positions []int64, limit int) int {
	for k, p := range positions[:min(len(positions), limit)] {
		if p != positions[0]+int64(k) {
			return k
		}
	}
	return min(len(positions), limit)
}
