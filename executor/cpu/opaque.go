package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A tensor is an operand or result of an opaque node, in memory. The sizes of a
// result are its span.
type tensor struct {
	dtype          dtype.Type
	sizes, strides []int64 // stride 0 along dimensions of which one element exists
	buffer         int
	offset         int64
	empty          bool
}

// An opaqueStep is a node that reads and writes whole tensors.
type opaqueStep struct {
	e       *core.Expr
	in, out []tensor
	operand map[int]int // argument of e to its first operand in in
	run     func(r *run) error
}

// An opaqueOp prepares a step: it returns the function that runs it.
type opaqueOp func(b *builder, s *opaqueStep) (func(r *run) error, error)

// opaqueOps lists how the operations that work on memory are done.
var opaqueOps = map[*core.OpInfo]opaqueOp{
	core.PadOp:                pad,
	core.CatOp:                cat,
	core.SelectOp:             nil, // always a view, see addSlice
	core.SliceOp:              nil,
	core.GatherOp:             gather,
	core.TakeAlongAxisOp:      gather,
	core.IndexSelectOp:        gather,
	core.ScatterOp:            scatter,
	core.EmbeddingFwdOp:       embedding,
	core.IndexPutAccumulateOp: accumulate,
	core.GroupPositionsOp:     groupPositions,
	core.SumSlicesOp:          sumSlices,
	core.SumPartsOp:           sumParts,
	core.ArgsortOp:            argsort,
	core.TopkOp:               topk,
	core.MatmulOp:             matmul,
	core.LinearOp:             linear,
	core.GroupedMmOp:          groupedMatmul,
	core.SdpfaFwdOp:           attentionForward,
	core.SdpfaBwdOp:           attentionBackward,
}

// lowerOpaque makes the step of n.
func (b *builder) lowerOpaque(n *node) (*opaqueStep, error) {
	s := &opaqueStep{e: n.expr, operand: map[int]int{}}
	for _, v := range n.in {
		x := &b.values[v]
		s.in = append(s.in, tensor{x.dtype, x.sizes, x.place.strides, x.place.buffer, x.place.offset, core.NumElements(x.sizes) == 0})
	}
	for _, v := range n.out {
		x := &b.values[v]
		s.out = append(s.out, tensor{x.dtype, x.span, x.place.strides, x.place.buffer, x.place.offset, core.NumElements(x.span) == 0})
	}
	next := 0
	for i, a := range n.expr.Args {
		switch a.Kind {
		case core.TensorArg:
			s.operand[i] = next
			next++
		case core.TensorsArg:
			s.operand[i] = next
			next += len(a.Tensors)
		}
	}
	prepare := opaqueOps[n.expr.Op]
	if prepare == nil {
		return nil, fmt.Errorf("op %s is not implemented on the CPU", n.expr.Op.Name)
	}
	if !slices.ContainsFunc(s.out, func(t tensor) bool { return !t.empty }) {
		// Loops over the other dimensions would still take time.
		s.run = func(*run) error { return nil }
		return s, nil
	}
	var err error
	s.run, err = prepare(b, s)
	return s, err
}

// scalar returns the value of scalar argument i of s converted to t, or
// otherwise if it was not given. It is the same in every run: plans are made
// for it.
func (b *builder) argument(s *opaqueStep, i int, t dtype.Type, otherwise scalar.Value) (scalar.Value, error) {
	a := s.e.Args[i]
	if a.Kind != core.ScalarArg {
		return otherwise, nil
	}
	v, err := b.b.Value(a.Scalar)
	return core.ConvertScalar(t, v), err
}

// at returns a pointer to the element at offset of t; of an empty tensor, which
// has no such element, one that is not to be followed.
func (t *tensor) at(r *run, offset int64) unsafe.Pointer {
	if t.empty {
		return r.memory[t.buffer]
	}
	return unsafe.Add(r.memory[t.buffer], (t.offset+offset)*int64(t.dtype.Size()))
}

// copyBits returns the mover that copies elements of t as they are.
func copyBits(t dtype.Type) mover {
	switch t.Size() {
	case 1:
		return moveBits[uint8]
	case 2:
		return moveBits[uint16]
	case 4:
		return moveBits[uint32]
	case 8:
		return moveBits[uint64]
	}
	return moveBits[complex128]
}

// A line is what eachLine gives its function: the index of a line, and memory
// to work in.
type line struct {
	index []int64
	ints  []int64
}

// integers returns n elements of t from offset on, stride apart.
func (l *line) integers(r *run, t *tensor, offset, stride, n int64) []int64 {
	if int64(len(l.ints)) < n {
		l.ints = make([]int64, n)
	}
	if n > 0 {
		loaders[t.dtype](unsafe.Pointer(&l.ints[0]), 1, t.at(r, offset), int(stride), int(n))
	}
	return l.ints[:n]
}

// eachLine calls f for every index of sizes, in any order and on many
// goroutines. cost is that of a call in element operations.
func (r *run) eachLine(sizes []int64, cost int64, f func(l *line)) error {
	const block = 4096 // element operations that a task is worth
	n := core.NumElements(sizes)
	each := max(1, block/max(cost, 1))
	return r.parallel(ceilDiv(n, each), n*max(cost, 1), func(next func() (int64, bool)) error {
		l := &line{index: make([]int64, len(sizes))}
		for k, ok := next(); ok; k, ok = next() {
			for i := k * each; i < min((k+1)*each, n); i++ {
				rest := i
				for d := len(sizes) - 1; d >= 0; d-- {
					l.index[d] = rest % sizes[d]
					rest /= sizes[d]
				}
				f(l)
			}
		}
		return nil
	})
}

// along splits sizes into those without dimension dim and that of dim.
func along(sizes []int64, dim int) (lines []int64, length int64) {
	lines = append(append(lines, sizes[:dim]...), sizes[dim+1:]...)
	return lines, sizes[dim]
}

// lineAt returns the offset of the line along dim of t with index, which has no
// entry for dim.
func (t *tensor) lineAt(index []int64, dim int) int64 {
	return offsetOf(t.strides[:dim], index[:dim]) + offsetOf(t.strides[dim+1:], index[dim:])
}

// offsetOf is the offset of index.
func offsetOf(strides, index []int64) int64 {
	o := int64(0)
	for d, x := range index {
		o += x * strides[d]
	}
	return o
}

// longest returns the dimension of t whose elements are closest, to walk along.
func (t *tensor) longest() int {
	best := len(t.sizes) - 1
	for d, s := range t.strides {
		if t.sizes[d] > 1 && (t.sizes[best] <= 1 || s < t.strides[best]) {
			best = d
		}
	}
	return best
}

// copyTensor copies from, of the sizes of to or with stride 0, to to.
func copyTensor(r *run, to, from *tensor) error {
	move := copyBits(to.dtype)
	if len(to.sizes) == 0 {
		move(to.at(r, 0), 1, from.at(r, 0), 1, 1)
		return nil
	}
	dim := to.longest()
	lines, n := along(to.sizes, dim)
	return r.eachLine(lines, n, func(l *line) {
		if n > 0 {
			move(to.at(r, to.lineAt(l.index, dim)), int(to.strides[dim]), from.at(r, from.lineAt(l.index, dim)), int(from.strides[dim]), int(n))
		}
	})
}

// fill sets all elements of t to v.
func fill(r *run, t *tensor, v scalar.Value) error {
	d := domainOf(t.dtype)
	store := storers[t.dtype]
	var one complex128
	d.put(unsafe.Pointer(&one), v)
	if len(t.sizes) == 0 {
		store(t.at(r, 0), 1, unsafe.Pointer(&one), 0, 1)
		return nil
	}
	dim := t.longest()
	lines, n := along(t.sizes, dim)
	return r.eachLine(lines, n, func(l *line) {
		if n > 0 {
			store(t.at(r, t.lineAt(l.index, dim)), int(t.strides[dim]), unsafe.Pointer(&one), 0, int(n))
		}
	})
}
