package schedule

import (
	"errors"
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// The tests' interpreter runs the loops of a schedule serially, element by
// element, as a generated kernel would: it allocates, finds indices by walking
// transforms and guards statements, with buffers that know which elements were
// written. It is for Int tensors and the ops of the tests' random fusions.

// An expression is the value of an index for the loop variables, by loop class.
type expression func(loops []int64) int64

// A storage is where a tensor lives: an element per point of axes, allocated
// inside its first position loops.
type storage struct {
	axes     []core.AxisID
	position int
	promoted bool // axes are those of promoted loops
	// shared has, for each of axes, the loop that what reads the tensor runs in too;
	// NoAxis: none.
	shared []core.AxisID
	alien  []bool // for each of axes: its loop carries more than the tensor's axis
}

type element struct {
	value   int64
	written bool
}

// An unreachable is a panic of an index that no path leads to.
type unreachable struct {
	what     string
	promoted bool // storage in the shape of promoted loops: such a position is to be refused
}

type interpreter struct {
	m       *Mapping
	s       *Scheduled
	bind    *core.Binding
	storage map[core.ValID]storage
	buffers map[core.ValID][]element
	zero    []core.AxisID // almost-exact classes of broadcasts
	loops   []int64       // values of the loop variables, by loop class
	code    map[core.ExprID]func()
	starts  map[core.ExprID]func()
}

func newInterpreter(m *Mapping, bind *core.Binding) *interpreter {
	p := &interpreter{m: m, s: m.s, bind: bind, storage: map[core.ValID]storage{}, buffers: map[core.ValID][]element{},
		loops: make([]int64, m.f.NumAxes()), code: map[core.ExprID]func(){}, starts: map[core.ExprID]func(){}}
	for _, v := range p.s.Tensors() {
		p.storage[v] = p.allocation(v)
		for _, a := range p.s.axesOf(v) {
			if c := m.AlmostExact(a); p.s.isBroadcast(a) && p.extent(a) == 1 && !slices.Contains(p.zero, c) {
				p.zero = append(p.zero, c)
			}
		}
	}
	return p
}

func (p *interpreter) extent(a core.AxisID) int64 { return p.sizeOf(p.m.f.Axis(a).Extent) }

func (p *interpreter) sizeOf(x scalar.ID) int64 {
	n, err := p.bind.Int(x)
	if err != nil {
		panic(err)
	}
	return n
}

func (p *interpreter) size(axes []core.AxisID) int64 {
	n := int64(1)
	for _, a := range axes {
		n *= p.extent(a)
	}
	return n
}

func (p *interpreter) isBroadcast(a core.AxisID) bool { return p.m.f.Axis(a).Kind == core.Broadcast }

// allocation: global tensors have all their elements. What is computed in
// promoted loops is stored as they run only if a loop left of the allocation is
// promoted; else the tensor's own axes are stored.
func (p *interpreter) allocation(v core.ValID) storage {
	s, loop := p.s, p.s.Loop(v)
	if s.Memory(v) == Global {
		return storage{axes: s.f.Axes(v)}
	}
	st := storage{}
	// A loop is written out if any of the tensors that share it says so.
	writtenOut := func(a core.AxisID) bool { q := p.m.Parallel(a); return q == Unroll || q == Unswitch }
	for st.position < s.Position(v) && !writtenOut(loop[st.position]) {
		st.position++
	}
	own := !slices.ContainsFunc(loop[:st.position], p.m.IsPromoted)
	if own && st.position == 0 && slices.ContainsFunc(loop, p.m.IsPromoted) {
		for _, a := range s.f.Axes(v) {
			if !p.isBroadcast(a) {
				st.axes = append(st.axes, a)
			}
		}
		return st
	}
	st.promoted = !own
	for k, a := range loop {
		q := p.m.Promotion(a)
		if own {
			q = a
		}
		if k < st.position || s.kind(a) == core.Reduce || p.isBroadcast(a) || p.isBroadcast(q) {
			continue
		}
		shared := core.NoAxis
		if k < s.Position(v) && (!own || !p.m.IsPromoted(a)) {
			shared = a
		}
		st.axes, st.shared, st.alien = append(st.axes, q), append(st.shared, shared), append(st.alien, !own && p.m.IsPromoted(a))
	}
	return st
}

// storesPromoted reports whether v is stored in the shape of promoted loops.
func (p *interpreter) storesPromoted(v core.ValID) bool {
	loop := p.s.Loop(v)
	return p.s.Memory(v) == Local && len(loop) > 0 && slices.ContainsFunc(loop[:p.storage[v].position], p.m.IsPromoted)
}

// run executes the nest.
func (p *interpreter) run(body []*Nest, depth int) {
	for _, n := range body {
		for _, id := range statements(n) {
			p.allocate(id, depth)
		}
		if n.Axis == core.NoAxis {
			if p.code[n.Expr] == nil {
				p.code[n.Expr] = p.statement(n.Expr)
			}
			p.code[n.Expr]()
			continue
		}
		class := p.m.LoopClass(n.Axis)
		for i := range p.extent(p.m.Promotion(n.Axis)) {
			p.loops[class] = i
			p.run(n.Body, depth+1)
		}
	}
}

func statements(n *Nest) []core.ExprID {
	if n.Axis == core.NoAxis {
		return []core.ExprID{n.Expr}
	}
	var ids []core.ExprID
	for _, b := range n.Body {
		ids = append(ids, statements(b)...)
	}
	return ids
}

// allocate makes the buffers of the results of id if that is done at depth.
func (p *interpreter) allocate(id core.ExprID, depth int) {
	for _, v := range p.s.f.Expr(id).Out {
		st := p.storage[v]
		if depth != 0 && (st.position == 0 || p.m.nests.of[id][depth-1] != p.m.LoopClass(p.s.Loop(v)[st.position-1])) ||
			depth == 0 && st.position != 0 {
			continue
		}
		p.buffers[v] = make([]element, p.size(st.axes))
		if p.s.f.Expr(id).Op.Class == core.Reduction {
			if p.starts[id] == nil {
				p.starts[id] = p.initialisation(id, v)
			}
			p.starts[id]()
		}
	}
}

// initialisation sets each element of v to the identity of its reduction.
func (p *interpreter) initialisation(id core.ExprID, v core.ValID) func() {
	identity := p.s.f.Expr(id).Op.Identity(p.s.f.Val(v).DType).I
	return func() {
		for i := range p.buffers[v] {
			p.buffers[v][i] = element{identity, true}
		}
	}
}

// statement returns the code of one expression.
func (p *interpreter) statement(id core.ExprID) func() {
	s, e := p.s, p.s.f.Expr(id)
	v := e.Out[0]
	c := p.context(v)
	tests := c.tests()
	if e.Op.Class == core.Reduction {
		tests = append(tests, c.onceAround(id)...)
	}
	var reads []func() int64
	for k, q := range s.f.TensorArgs(e) {
		address, stored := c.operand(id, k, q)
		if e.Op != core.PadOp { // which reads its operand at some of its points only
			tests = append(tests, stored...)
		}
		reads = append(reads, func() int64 { return p.read(q, address) })
	}
	write := c.address(v)
	value := p.value(c, id, reads, write)
	return func() {
		if p.holds(tests) {
			p.write(v, write, value())
		}
	}
}

func (p *interpreter) value(c *context, id core.ExprID, reads []func() int64, self []coordinate) func() int64 {
	e := p.s.f.Expr(id)
	v := e.Out[0]
	switch {
	case e.Op == core.SetOp || e.Op.Class == core.View || e.Op == core.SliceOp:
		return reads[0]
	case e.Op == core.PadOp:
		return p.padded(c, id, reads[0])
	case e.Op.Class == core.Reduction:
		fold := e.Op.Combine().Info().Meaning.Int.F2
		return func() int64 { return fold(p.read(v, self), reads[0]()) }
	}
	for i, a := range e.Args { // literals
		if a.Kind == core.ScalarArg {
			n, _ := p.s.f.Scalars().ConstInt(a.Scalar)
			reads = slices.Insert(reads, i, func() int64 { return n })
		}
	}
	k := e.Op.Meaning.Int
	if len(reads) == 1 {
		return func() int64 { return k.F1(reads[0]()) }
	}
	return func() int64 { return k.F2(reads[0](), reads[1]()) }
}

// padded reads where the root indices are in range.
func (p *interpreter) padded(c *context, id core.ExprID, read func() int64) func() int64 {
	e := p.s.f.Expr(id)
	d := &p.s.f.Val(e.Out[0]).Domain
	value, _ := p.s.f.Scalars().ConstInt(e.Args[2].Scalar)
	index := c.index(d.Root, c.resizes(e.Out[0]), "guard", c.start)
	return func() int64 {
		for k, a := range d.Root {
			if i := index[k](p.loops); d.Root[k] != d.Logical[k] && (i < 0 || i >= p.extent(a)) {
				return value
			}
		}
		return read()
	}
}

// A test is a condition of a statement.
type test struct {
	value expression
	kind  testKind
	below int64 // of inRange
}

type testKind uint8

const (
	inRange     testKind = iota // less than below
	notNegative                 // at least 0
	isFirst                     // 0
)

func (p *interpreter) holds(tests []test) bool {
	for _, t := range tests {
		i := t.value(p.loops)
		if t.kind == inRange && i >= t.below || t.kind == notNegative && i < 0 || t.kind == isFirst && i != 0 {
			return false
		}
	}
	return true
}

// A coordinate is an index and the extent that it must stay below.
type coordinate struct {
	index  expression
	extent int64
}

func (p *interpreter) offset(v core.ValID, at []coordinate) int64 {
	k := int64(0)
	for _, c := range at {
		i := c.index(p.loops)
		if i < 0 || i >= c.extent {
			panic(fmt.Sprintf("%s: index %d is outside of extent %d", p.s.name(v), i, c.extent))
		}
		k = k*c.extent + i
	}
	return k
}

func (p *interpreter) read(v core.ValID, at []coordinate) int64 {
	x := p.buffers[v][p.offset(v, at)]
	if !x.written {
		panic(p.s.name(v) + ": an element is read that was not written")
	}
	return x.value
}

func (p *interpreter) write(v core.ValID, at []coordinate, value int64) {
	p.buffers[v][p.offset(v, at)] = element{dtype.WrapInt(p.s.f.Val(v).DType, value), true}
}

// Why a legal schedule is not run: its sizes break what it was promised, or what
// is needed after a loop of a reader is computed in it, and it has no iteration.
var (
	errPromise = errors.New("a promise of the schedule is broken")
	errEmpty   = errors.New("a loop of a reader has no iteration")
)

// alwaysRuns reports whether each element that is needed outside of loops of
// readers is computed, also if these have no iteration.
func (p *interpreter) alwaysRuns() bool {
	for _, v := range p.s.Tensors() {
		if p.s.isInput(v) {
			continue
		}
		for _, class := range p.m.nests.of[p.s.f.Val(v).Def] {
			q := p.m.Promotion(class)
			own := slices.ContainsFunc(p.s.Loop(v), func(a core.AxisID) bool { return p.m.LoopClass(a) == class && !p.m.IsPromoted(a) })
			outside := func(r *edge) bool { return !slices.Contains(p.m.nests.of[r.expr], class) }
			if !own && (p.extent(q) == 0 || p.isWholeOfNothing(q)) &&
				(p.s.isOutput(v) || slices.ContainsFunc(p.s.consumers(v), outside)) {
				return false
			}
		}
	}
	return true
}

// isWholeOfNothing reports whether a is made by a whole split of what has no element.
func (p *interpreter) isWholeOfNothing(a core.AxisID) bool {
	return slices.ContainsFunc(p.m.f.TransformsTo([]core.AxisID{a}), func(id core.TransformID) bool {
		t := p.m.f.Transform(id)
		return t.Whole && p.extent(t.In[0]) == 0
	})
}

// execute runs m's schedule and compares the outputs with want.
func execute(m *Mapping, inputs, want []*core.Array) error {
	values := make([]core.InputValue, len(inputs))
	for i, a := range inputs {
		values[i] = core.InputValue{Tensor: true, DType: a.Type, Sizes: a.Shape}
	}
	bind, err := m.f.Bind(values)
	if err != nil {
		return err
	}
	if m.s.CheckPromises(bind) != nil {
		return errPromise
	}
	p := newInterpreter(m, bind)
	if !p.alwaysRuns() {
		return errEmpty
	}
	for i, v := range m.f.Inputs() {
		for _, x := range inputs[i].I {
			p.buffers[v] = append(p.buffers[v], element{x, true})
		}
	}
	p.run(m.Tree(), 0)
	for k, o := range m.f.Outputs() {
		if err := p.compare(o.Val, want[k]); err != nil {
			return err
		}
	}
	return nil
}

// compare holds the buffer of an output, in which an expanded axis is stored
// once, against what it must be.
func (p *interpreter) compare(v core.ValID, want *core.Array) error {
	axes := p.s.f.Axes(v)
	var err error
	i := int64(0)
	core.EachIndex(want.Shape, func(index []int64) {
		k := int64(0)
		for d, a := range axes {
			n := p.extent(a)
			k = k*n + min(index[d], n-1)
		}
		x := p.buffers[v][k]
		if w := want.At(i).I; err == nil && (!x.written || x.value != w) {
			err = fmt.Errorf("%s%v is %+v, want %d", p.s.name(v), index, x, w)
		}
		i++
	})
	return err
}
