package cpu

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A form tells along which sides of a tile a value varies: it is the shape of
// its register.
type form uint8

const (
	alongCols form = 1 << iota // the inner axes
	alongRows                  // the outer axes
	full      = alongCols | alongRows
)

// A register holds a value of a group for one tile: rows*cols elements if it is
// full, one row, one column, or one element.
type register struct {
	dtype  dtype.Type
	domain domain
	varies uint64 // axes
	form   form
	scalar int // index of the scalar that it holds, or -1
	slot   int // of the tile memory; -1: none
	direct bool
}

// An opcode is what an instruction does.
type opcode uint8

const (
	opLoad       opcode = iota // memory to dst
	opStore                    // src to memory
	opApply                    // kernel, element by element
	opFold                     // folds rows of src
	opAccumulate               // folds rows of src into the accumulators of the run
	opScan                     // folds prefixes of rows of src[0], from src[1] on if there is one
)

// An instruction is a step of the program of a group, done for each tile.
type instruction struct {
	code   opcode
	dst    []int // registers
	src    []int
	kernel kernel  // of opApply
	folder *folder // of the folding codes
	accu   int     // of opAccumulate, and of opScan in chunks: index of the accumulators; else -1
	access *access // of opLoad and opStore
}

// An accumulation is a fold over more elements than a tile holds.
type accumulation struct {
	folder *folder
	dst    []int // registers of the results
}

// tiles is a group made ready to run.
type tiles struct {
	outer, inner []int64 // the sizes of the axes in order, joined where all accesses allow
	numOuter     int64
	numInner     int64
	rows, cols   int  // of a tile
	chunked      bool // accumulates
	segments     int64
	code         []instruction
	finish       []instruction // after the accumulations, with a tile of one column
	regs         []register
	directs      []direct
	slots        []slot
	tileBytes    int
	accus        []accumulation
	scalars      []int // registers that hold scalars
	weight       int   // instructions, as a measure of the work of an element
}

// A direct says that a register lies in memory where its value does.
type direct struct {
	register int
	access   *access
}

// A slot is a part of the tile memory that registers take turns in.
type slot struct {
	class  slotClass
	offset int
}

type slotClass struct {
	size int // bytes of an element
	form form
}

// A scalarValue is a scalar that a program reads: converted to dtype, and
// computed when the program runs unless it is fixed by the plan.
type scalarValue struct {
	id    scalar.ID
	dtype dtype.Type
	fixed bool
	value scalar.Value

	random randomScalar // instead of id: a part of the random state
	stream int
}

// A randomScalar is a part of the random state of a run.
type randomScalar uint8

const (
	notRandom randomScalar = iota
	randomSeed
	randomOffset // of the given stream
)

// A lowering makes the tiles of one group.
type lowering struct {
	b     *builder
	g     *group
	index int
	t     *tiles
	of    map[int]int     // value to register
	loads map[loadKey]int // register
	lits  map[literal]int // register

	ordered bool // a fold of the group depends on the order of elements beyond rounding
}

type loadKey struct {
	value   int
	mapping string
}

type literal struct {
	id    scalar.ID
	dtype dtype.Type
}

func (l *lowering) newRegister(t dtype.Type, varies uint64) int {
	l.t.regs = append(l.t.regs, register{dtype: t, domain: domainOf(t), varies: varies, scalar: -1, slot: -1})
	return len(l.t.regs) - 1
}

// scalar returns the register of scalar id converted to t.
func (l *lowering) scalar(id scalar.ID, t dtype.Type) (int, error) {
	key := literal{id, t}
	if r, ok := l.lits[key]; ok {
		return r, nil
	}
	n, err := l.b.scalar(id, t)
	if err != nil {
		return 0, err
	}
	r := l.newRegister(t, 0)
	l.t.regs[r].scalar = n
	l.t.scalars = append(l.t.scalars, r)
	l.lits[key] = r
	return r, nil
}

// scalar adds a scalar to the program and returns its index.
func (b *builder) scalar(id scalar.ID, t dtype.Type) (int, error) {
	s := scalarValue{id: id, dtype: t}
	if s.fixed = !b.prog.runtime.depends(id); s.fixed {
		v, err := b.b.Value(id)
		if err != nil {
			return 0, err
		}
		s.value = core.ConvertScalar(t, v)
	}
	b.prog.scalars = append(b.prog.scalars, s)
	return len(b.prog.scalars) - 1, nil
}

// operand returns the register of value v as seen through mapping, and loads it
// if the group does not compute it.
func (l *lowering) operand(v int, mapping []int) int {
	x := &l.b.values[v]
	if !x.memory && x.group == l.index {
		return l.of[v]
	}
	key := loadKey{v, mappingKey(mapping)}
	if r, ok := l.loads[key]; ok {
		return r
	}
	p := l.b.placeOf(v)
	a := &access{buffer: p.buffer, offset: p.offset, strides: make([]int64, len(l.g.sizes)),
		size: x.dtype.Size(), move: loaders[x.dtype]}
	var varies uint64
	for d, axis := range mapping {
		if axis >= 0 && p.strides[d] != 0 {
			a.strides[axis] = p.strides[d]
			varies |= 1 << axis
		}
	}
	r := l.newRegister(x.dtype, varies)
	l.emit(instruction{code: opLoad, dst: []int{r}, access: a})
	l.loads[key] = r
	return r
}

func mappingKey(mapping []int) string {
	b := make([]byte, len(mapping))
	for d, a := range mapping {
		b[d] = byte(a + 1)
	}
	return string(b)
}

func (l *lowering) emit(i instruction) { l.t.code = append(l.t.code, i) }

func (l *lowering) varies(regs []int) uint64 {
	var v uint64
	for _, r := range regs {
		v |= l.t.regs[r].varies
	}
	return v
}

// storeOf returns the access that writes value v at p.
func (l *lowering) storeOf(v int, p place) *access {
	x := &l.b.values[v]
	a := &access{buffer: p.buffer, offset: p.offset, strides: make([]int64, len(l.g.sizes)),
		size: x.dtype.Size(), move: storers[x.dtype], store: true, absent: 1<<len(l.g.sizes) - 1}
	for d, axis := range x.mapping {
		if axis >= 0 {
			a.strides[axis] = p.strides[d]
			a.absent &^= 1 << axis
		}
	}
	return a
}

// body emits the nodes of the group.
func (l *lowering) body() error {
	for _, i := range l.g.members {
		if err := l.node(&l.b.nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *lowering) node(n *node) error {
	switch n.kind {
	case pointwise:
		return l.pointwise(n)
	case remap:
		l.of[n.out[0]] = l.operand(n.in[0], n.reads[0])
	case reduce:
		return l.reduce(n)
	case scan:
		return l.scan(n)
	case generate:
		return l.generate(n)
	}
	return nil
}

func (l *lowering) pointwise(n *node) error {
	compute := computeType(l.b.f, n.expr)
	var src []int
	var types []dtype.Type
	tensor := 0
	for i, a := range n.expr.Args {
		switch a.Kind {
		case core.TensorArg:
			src = append(src, l.operand(n.in[tensor], n.reads[tensor]))
			tensor++
		case core.ScalarArg:
			t := compute
			if i < n.expr.Op.Promote.Skip {
				t = dtype.Bool
			}
			r, err := l.scalar(a.Scalar, t)
			if err != nil {
				return err
			}
			src = append(src, r)
		default:
			continue
		}
		types = append(types, l.t.regs[src[len(src)-1]].dtype)
	}
	result := l.b.values[n.out[0]].dtype
	k, err := kernelOf(n.expr.Op, types, compute, result)
	if err != nil {
		return err
	}
	dst := l.newRegister(result, l.varies(src))
	l.emit(instruction{code: opApply, dst: []int{dst}, src: src, kernel: k})
	l.of[n.out[0]] = dst
	return nil
}

// computeType returns the type that the operands of an elementwise expression
// have, the leading ones that promotion skips apart.
func computeType(f *core.Fusion, e *core.Expr) dtype.Type {
	for i, a := range e.Args {
		if i >= e.Op.Promote.Skip && a.Kind == core.TensorArg {
			return f.Val(a.Tensor).DType
		}
	}
	return f.Val(e.Out[0]).DType
}

func (l *lowering) reduce(n *node) error {
	src := l.operand(n.in[0], n.reads[0])
	l.ordered = l.ordered || n.expr.Op != core.SumOp && n.expr.Op != core.WelfordOp
	fold, err := folderOf(n.expr.Op, l.t.regs[src].dtype)
	if err != nil {
		return err
	}
	total := int64(1)
	for _, d := range n.dims {
		total *= l.b.values[n.in[0]].sizes[d]
	}
	inner := l.g.inner
	if total == 1 {
		inner = 0
	}
	i := instruction{code: opFold, src: []int{src}, folder: fold}
	for _, v := range n.out {
		r := l.newRegister(l.b.values[v].dtype, l.t.regs[src].varies&^inner)
		l.of[v] = r
		i.dst = append(i.dst, r)
	}
	switch {
	case total == 1:
		for k, dst := range i.dst {
			l.emit(instruction{code: opApply, dst: []int{dst}, src: i.src, kernel: fold.singles[k]})
		}
		return nil
	case l.g.chunked:
		l.t.accus = append(l.t.accus, accumulation{fold, i.dst})
		i.code, i.dst, i.accu = opAccumulate, nil, len(l.t.accus)-1
	}
	l.emit(i)
	return nil
}

func (l *lowering) scan(n *node) error {
	src := l.operand(n.in[0], n.reads[0])
	x := &l.b.values[n.in[0]]
	fold, err := folderOf(n.expr.Op, x.dtype)
	if err != nil {
		return err
	}
	i := instruction{code: opScan, src: []int{src}, folder: fold, accu: -1}
	if a := n.expr.Args[2]; a.Kind == core.ScalarArg {
		r, err := l.scalar(a.Scalar, x.dtype)
		if err != nil {
			return err
		}
		i.src = append(i.src, r)
	}
	varies := l.t.regs[src].varies
	if x.sizes[n.dims[0]] == 1 {
		i.code, i.kernel = opApply, fold.singles[0]
	} else {
		varies |= l.g.inner
		if l.g.chunked {
			l.t.accus = append(l.t.accus, accumulation{folder: fold})
			i.accu = len(l.t.accus) - 1
		}
	}
	i.dst = []int{l.newRegister(x.dtype, varies)}
	l.emit(i)
	l.of[n.out[0]] = i.dst[0]
	return nil
}

// stores adds the stores of what the group computes: as soon as it is computed,
// but those into the memory of an input last, when all loads of the tile are done.
func (l *lowering) stores() {
	writes := map[int][]int{} // register to values
	for _, i := range l.g.members {
		for _, v := range l.b.nodes[i].out {
			if len(l.b.values[v].stores) > 0 {
				r := l.of[v]
				writes[r] = append(writes[r], v)
			}
		}
	}
	var code, last []instruction
	write := func(to []instruction, r int) []instruction {
		for _, v := range writes[r] {
			for _, p := range l.b.values[v].stores {
				i := instruction{code: opStore, src: []int{r}, access: l.storeOf(v, p)}
				if l.b.buffers[p.buffer].kind == inputBuffer {
					last = append(last, i)
				} else {
					to = append(to, i)
				}
			}
		}
		return to
	}
	for _, i := range l.t.code {
		code = append(code, i)
		for _, r := range i.dst {
			code = write(code, r)
		}
	}
	for _, r := range l.t.scalars {
		code = write(code, r)
	}
	l.t.code = append(code, last...)
	last = nil
	for _, a := range l.t.accus {
		for _, r := range a.dst {
			l.t.finish = write(l.t.finish, r)
		}
	}
	l.t.finish = append(l.t.finish, last...)
}

// axisOrder returns the outer and inner axes from the outermost to the
// innermost: by falling strides of the access that moves the most memory. Folds
// other than sums keep the row-major order: a product may overflow on the way,
// and of equal zeros the first is the largest.
func (l *lowering) axisOrder() (outer, inner []int) {
	var main *access
	count := -1
	for _, code := range [][]instruction{l.t.code, l.t.finish} {
		for i := range code {
			a := code[i].access
			if a == nil || a.move == nil {
				continue
			}
			n := 0
			for _, s := range a.strides {
				if s != 0 {
					n += 2
				}
			}
			if a.store {
				n++ // of two that move as much, the one that writes
			}
			if n > count {
				main, count = a, n
			}
		}
	}
	axes := make([]int, len(l.g.sizes))
	for i := range axes {
		axes[i] = i
	}
	if main != nil {
		slices.SortStableFunc(axes, func(a, b int) int { return cmp.Compare(main.strides[b], main.strides[a]) })
	}
	for _, a := range axes {
		if l.g.inner>>a&1 != 0 {
			inner = append(inner, a)
		} else {
			outer = append(outer, a)
		}
	}
	if l.ordered {
		inner = l.g.folded
	}
	return outer, inner
}
