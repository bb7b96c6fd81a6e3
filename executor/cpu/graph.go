package cpu

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A Layout is a tensor in memory; strides are in elements.
type Layout struct {
	DType          dtype.Type
	Sizes, Strides []int64
}

// A bufferKind says who owns a buffer.
type bufferKind uint8

const (
	inputBuffer  bufferKind = iota // of the caller
	outputBuffer                   // of the caller
	tempBuffer                     // of the run
)

type buffer struct {
	kind     bufferKind
	index    int // of the input or output
	dtype    dtype.Type
	elements int64 // of a temporary
}

// A place is where the elements of a value lie in a buffer.
type place struct {
	buffer  int
	offset  int64
	strides []int64 // 0 along dimensions of span 1
	owner   int     // the value whose group writes the buffer; -1: an input
}

// A value is a tensor of the fusion for the sizes at hand.
//
// Its span is its sizes with 1 along the axes that are broadcast, expanded or
// not: the elements that exist. A value is either in memory from the start (an
// input, the result of an opaque node, a view of those) or computed in tiles by
// a group, and then stored where something else needs it.
type value struct {
	dtype       dtype.Type
	sizes, span []int64
	memory      bool
	placed      bool
	place       place
	stores      []place // of a computed value, place included

	group   int   // that computes it
	lowest  int   // the least group that may compute it
	mapping []int // dimension to axis in group lowest, as its readers there have it; nil: none has
}

// A nodeKind is how a node computes.
type nodeKind uint8

const (
	pointwise nodeKind = iota // an element from the same element of each operand
	remap                     // the operand under other dimensions
	reduce                    // folds dimensions
	scan                      // folds prefixes of a dimension
	generate                  // an element from its position
	opaque                    // reads and writes memory
)

// A node computes values from values.
type node struct {
	kind    nodeKind
	expr    *core.Expr // nil for a copy, which is a remap
	in, out []int
	axisMap []int   // of a remap: dimension of the result to that of the operand, or -1
	dims    []int64 // of a reduction or scan
	reads   [][]int // per operand: dimension to axis of the group
}

// A builder makes a [Program].
type builder struct {
	f       *core.Fusion
	b       *core.Binding
	prog    *Program
	values  []value // by ValID, then those of copies
	buffers []buffer
	nodes   []node // operands first
	groups  []*group
	results [][]int // by ValID: the outputs that it is
	outputs []Layout
	late    []late
}

// denseStrides returns the row-major strides of span, 0 along size 1.
func denseStrides(span []int64) []int64 {
	strides := make([]int64, len(span))
	step := int64(1)
	for i := len(span) - 1; i >= 0; i-- {
		if span[i] != 1 {
			strides[i] = step
			step *= span[i]
		}
	}
	return strides
}

// describe fills in the sizes of tensor v.
func (b *builder) describe(v core.ValID) error {
	sizes, err := b.b.Shape(v)
	if err != nil {
		return err
	}
	x := &b.values[v]
	*x = value{dtype: b.f.Val(v).DType, sizes: sizes, span: slices.Clone(sizes)}
	for d, a := range b.f.Axes(v) {
		if b.f.Axis(a).Kind == core.Broadcast {
			x.span[d] = min(sizes[d], 1) // it may be expanded to nothing
		}
	}
	return nil
}

func (b *builder) addBuffer(x buffer) int {
	b.buffers = append(b.buffers, x)
	return len(b.buffers) - 1
}

// temporary returns the place of a new dense buffer for the span of value v.
func (b *builder) temporary(v int, span []int64) place {
	n := b.addBuffer(buffer{kind: tempBuffer, dtype: b.values[v].dtype, elements: core.NumElements(span)})
	return place{buffer: n, strides: denseStrides(span), owner: v}
}

// within returns strides with 0 along dimensions of span 1, of which only
// index 0 is read or written.
func within(strides, span []int64) []int64 {
	out := slices.Clone(strides)
	for d := range out {
		if span[d] == 1 {
			out[d] = 0
		}
	}
	return out
}

// placeOf returns where value v can be read in memory, and arranges that it is
// stored if it is computed.
func (b *builder) placeOf(v int) place {
	x := &b.values[v]
	if x.placed {
		return x.place
	}
	x.place, x.placed = b.temporary(v, x.span), true
	x.stores = append(x.stores, x.place)
	return x.place
}

// copyOf returns a new value: v stored at the place that at gives, with span.
func (b *builder) copyOf(v int, span []int64, at func(copied int) place) int {
	n := len(b.values)
	x := b.values[v]
	b.values = append(b.values, value{dtype: x.dtype, sizes: x.sizes, span: span})
	p := at(n)
	c := &b.values[n]
	c.place, c.placed, c.stores = p, true, []place{p}
	b.nodes = append(b.nodes, node{kind: remap, in: []int{v}, out: []int{n}, axisMap: identityMap(len(span))})
	return n
}

// graph turns the inputs, expressions and outputs of the fusion into values and
// nodes.
func (b *builder) graph(inputs []Layout) error {
	b.values = make([]value, b.f.NumVals())
	for i, v := range b.f.Inputs() {
		n := b.addBuffer(buffer{kind: inputBuffer, index: i, dtype: inputs[i].DType})
		if !b.f.Val(v).Tensor {
			continue
		}
		if err := b.describe(v); err != nil {
			return err
		}
		x := &b.values[v]
		x.memory, x.placed = true, true
		x.place = place{buffer: n, strides: within(inputs[i].Strides, x.span), owner: -1}
	}
	b.results = make([][]int, b.f.NumVals())
	for k, o := range b.f.Outputs() {
		b.results[o.Val] = append(b.results[o.Val], k)
	}
	for _, id := range b.f.Order() {
		e := b.f.Expr(id)
		for _, v := range e.Out {
			if err := b.describe(v); err != nil {
				return err
			}
		}
		if err := b.addExpr(e); err != nil {
			return err
		}
	}
	b.placeOutputs()
	return nil
}

// addExpr adds the node of e, or a view if e only looks at memory.
func (b *builder) addExpr(e *core.Expr) error {
	n := node{expr: e}
	for _, v := range b.f.TensorArgs(e) {
		n.in = append(n.in, int(v))
	}
	for _, v := range e.Out {
		n.out = append(n.out, int(v))
	}
	switch {
	case e.Op.Class == core.Elementwise:
		n.kind = pointwise
	case e.Op.Class == core.View:
		return b.addView(n)
	case e.Op.Class == core.Reduction:
		n.kind, n.dims = reduce, e.Args[1].Ints
	case e.Op.Class == core.Scan:
		n.kind, n.dims = scan, []int64{e.Args[1].Int}
	case isGenerator(e.Op):
		n.kind = generate
	default:
		if done, err := b.addSlice(n); done || err != nil {
			return err
		}
		n.kind = opaque
	}
	b.addNode(n)
	return nil
}

// addNode appends n. The results of computed nodes that are outputs are placed
// in the memory of the first.
func (b *builder) addNode(n node) {
	b.nodes = append(b.nodes, n)
	for _, v := range n.out {
		x := &b.values[v]
		if n.kind == opaque {
			x.memory, x.placed = true, true
			x.place = b.temporary(v, x.span)
			if k := b.denseResult(v); k >= 0 {
				b.buffers[x.place.buffer] = buffer{kind: outputBuffer, index: k, dtype: x.dtype}
			}
			continue
		}
		for _, k := range b.results[v] {
			if b.f.Outputs()[k].Alias == core.NoVal && !x.placed {
				at := b.addBuffer(buffer{kind: outputBuffer, index: k, dtype: x.dtype})
				x.place, x.placed = place{buffer: at, strides: within(b.outputs[k].Strides, x.span), owner: v}, true
				x.stores = append(x.stores, x.place)
			}
		}
	}
	if n.kind == opaque {
		for _, v := range n.in {
			b.placeOf(v)
		}
	}
}

// denseResult returns an output that value v can be computed into by a node
// that writes dense memory, or -1.
func (b *builder) denseResult(v int) int {
	x := &b.values[v]
	for _, k := range b.results[v] {
		if b.f.Outputs()[k].Alias == core.NoVal && slices.Equal(within(b.outputs[k].Strides, x.span), denseStrides(x.span)) {
			return k
		}
	}
	return -1
}

// A late is an output in the memory of an input, written once nothing reads the
// input any more.
type late struct {
	value int
	span  []int64 // that of the input
	to    place
}

// placeOutputs adds the copies of outputs that are in memory elsewhere, and
// lists those that are written in the memory of an input.
func (b *builder) placeOutputs() {
	for k, o := range b.f.Outputs() {
		v := int(o.Val)
		x := b.values[v]
		if o.Alias != core.NoVal {
			span := b.values[o.Alias].span
			at := slices.Index(b.f.Inputs(), o.Alias)
			if x.memory && b.buffers[x.place.buffer].kind == inputBuffer {
				v = b.copyOf(v, x.span, func(n int) place { return b.temporary(n, x.span) })
			}
			b.late = append(b.late, late{v, span, place{buffer: at, strides: within(b.outputs[k].Strides, span)}})
			continue
		}
		if b.firstOutput(k) != k || x.placed && b.isOutput(x.place, k) {
			continue
		}
		b.copyOf(v, x.span, func(n int) place {
			at := b.addBuffer(buffer{kind: outputBuffer, index: k, dtype: x.dtype})
			return place{buffer: at, strides: within(b.outputs[k].Strides, x.span), owner: n}
		})
	}
}

// isOutput reports whether a value at p is written as output k.
func (b *builder) isOutput(p place, k int) bool {
	x := b.buffers[p.buffer]
	return x.kind == outputBuffer && x.index == k && p.owner == int(b.f.Outputs()[k].Val)
}

// firstOutput returns the first of the outputs that are returned and are the
// value of output k.
func (b *builder) firstOutput(k int) int {
	for _, j := range b.results[b.f.Outputs()[k].Val] {
		if b.f.Outputs()[j].Alias == core.NoVal {
			return j
		}
	}
	return k
}
