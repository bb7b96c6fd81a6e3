package cpu

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A Program computes the outputs of a fusion for one set of sizes and strides.
// It never changes, and any number of goroutines may run it.
type Program struct {
	f       *core.Fusion
	inputs  []Layout
	place   map[core.ValID]int // input to position
	buffers []buffer
	scalars []scalarValue
	steps   []step
	runtime influence
}

// A step is a group, ready to run.
type step struct {
	tiles  *tiles
	opaque *opaqueStep
	starts []int // temporaries that it is the first to need
	ends   []int // temporaries that nothing needs after it
}

// An influence tells which scalars depend on values that are known only when a
// program runs.
type influence []bool

func (i influence) depends(id scalar.ID) bool { return i[id] }

// runtimeScalars marks the scalars that depend on an input scalar that is not
// fixed. The operands of an expression come before it.
func runtimeScalars(f *core.Fusion, fixed func(v core.ValID) bool) influence {
	t := f.Scalars()
	depends := make(influence, t.Len())
	for id := range depends {
		if t.Op(scalar.ID(id)) == scalar.Symbol {
			tag := t.Tag(scalar.ID(id))
			depends[id] = tag.Dim < 0 && !fixed(core.ValID(tag.Val))
			continue
		}
		for _, a := range t.Args(scalar.ID(id)) {
			depends[id] = depends[id] || depends[a]
		}
	}
	return depends
}

// Options says what a program may take for granted.
type Options struct {
	// Fixed reports whether the value of an input scalar, by position, is that
	// of the binding in every run.
	Fixed func(input int) bool
	// Apart says that no input overlaps the memory of an input that an output is
	// written to.
	Apart bool
}

// Build returns the program of f, which is frozen, for the sizes and scalars of
// b. inputs and outputs are the layouts of the tensors by position; that of an
// output in the memory of an input is the input's.
func Build(f *core.Fusion, b *core.Binding, inputs, outputs []Layout, o Options) (*Program, error) {
	p := &Program{f: f, inputs: inputs, place: map[core.ValID]int{}}
	for i, v := range f.Inputs() {
		p.place[v] = i
	}
	p.runtime = runtimeScalars(f, func(v core.ValID) bool { return o.Fixed(p.place[v]) })
	bd := &builder{f: f, b: b, prog: p, outputs: outputs}
	if err := bd.graph(inputs); err != nil {
		return nil, err
	}
	bd.partition()
	if err := bd.lower(o.Apart); err != nil {
		return nil, err
	}
	p.buffers = bd.buffers
	p.lifetimes()
	p.runtime = nil
	return p, p.checkMemory()
}

// lower makes the steps of the groups.
func (b *builder) lower(apart bool) error {
	for i := range b.nodes {
		n := &b.nodes[i]
		for _, v := range n.in {
			if x := &b.values[v]; n.kind != opaque && !x.memory && x.group != b.values[n.out[0]].group {
				b.placeOf(v)
			}
		}
	}
	lowerings := make([]*lowering, len(b.groups))
	for i, g := range b.groups {
		if g.opaque {
			continue
		}
		l := &lowering{b: b, g: g, index: i, t: &tiles{}, of: map[int]int{}, loads: map[loadKey]int{}, lits: map[literal]int{}}
		lowerings[i] = l
		if err := l.body(); err != nil {
			return err
		}
	}
	b.settleLate(lowerings, apart)
	for i := len(b.groups) - 1; i >= 0; i-- {
		s := step{}
		if l := lowerings[i]; l != nil {
			l.stores()
			l.settle()
			s.tiles = l.t
		} else {
			var err error
			if s.opaque, err = b.lowerOpaque(&b.nodes[b.groups[i].members[0]]); err != nil {
				return err
			}
		}
		b.prog.steps = append(b.prog.steps, s)
	}
	for _, x := range b.late {
		b.prog.steps = append(b.prog.steps, step{tiles: b.copyTiles(x)})
	}
	return nil
}

// settleLate stores outputs that belong in the memory of an input where their
// group computes them, if nothing reads that memory afterwards, and leaves the
// others in late.
func (b *builder) settleLate(lowerings []*lowering, apart bool) {
	var late []late
	for _, x := range b.late {
		v := &b.values[x.value]
		if apart && !v.memory && slices.Equal(v.span, x.span) && b.lastToRead(lowerings, x) {
			v.stores = append(v.stores, x.to)
			continue
		}
		b.placeOf(x.value)
		late = append(late, x)
	}
	b.late = late
}

// lastToRead reports whether the group of x's value can write it to x.to at
// once: it covers all of the group's axes, no later group reads the memory, and
// the group itself reads each element in the tile that writes it.
func (b *builder) lastToRead(lowerings []*lowering, x late) bool {
	at := b.values[x.value].group
	store := lowerings[at].storeOf(x.value, x.to)
	if store.absent != 0 || slices.Contains(store.strides, 0) || lowerings[at].g.chunked {
		return false
	}
	for i, l := range lowerings {
		if l == nil {
			n := &b.nodes[b.groups[i].members[0]]
			if i < at && slices.ContainsFunc(n.in, func(v int) bool { return b.values[v].place.buffer == x.to.buffer }) {
				return false
			}
			continue
		}
		for _, code := range l.t.code {
			a := code.access
			if a == nil || a.move == nil || a.buffer != x.to.buffer || i > at {
				continue
			}
			if i < at || a.offset != 0 || !slices.Equal(a.strides, store.strides) {
				return false
			}
		}
	}
	for _, y := range b.late { // they read last of all
		if v := &b.values[y.value]; v.memory && v.place.buffer == x.to.buffer {
			return false
		}
	}
	return true
}

// copyTiles returns the tiles that copy a value, which lies in memory, to its
// late place.
func (b *builder) copyTiles(x late) *tiles {
	at, mapping := b.newGroup(x.span)
	l := &lowering{b: b, g: b.groups[at], index: at, t: &tiles{}, of: map[int]int{}, loads: map[loadKey]int{}}
	n := len(b.values)
	v := b.values[x.value]
	b.values = append(b.values, value{dtype: v.dtype, sizes: v.sizes, span: x.span, group: at, mapping: mapping, stores: []place{x.to}})
	b.nodes = append(b.nodes, node{kind: remap, out: []int{n}})
	l.g.members = []int{len(b.nodes) - 1}
	from := slices.Clone(mapping)
	for d, s := range v.span {
		if s == 1 {
			from[d] = -1
		}
	}
	b.values[x.value].memory = true
	l.of[n] = l.operand(x.value, from)
	l.stores()
	l.settle()
	return l.t
}

// lifetimes finds the first and last step of every temporary.
func (p *Program) lifetimes() {
	first, last := make([]int, len(p.buffers)), make([]int, len(p.buffers))
	for i := range first {
		first[i] = -1
	}
	for i := range p.steps {
		p.steps[i].forBuffers(func(n int) {
			if first[n] < 0 {
				first[n] = i
			}
			last[n] = i
		})
	}
	for n := range p.buffers {
		if p.buffers[n].kind == tempBuffer && first[n] >= 0 {
			p.steps[first[n]].starts = append(p.steps[first[n]].starts, n)
			p.steps[last[n]].ends = append(p.steps[last[n]].ends, n)
		}
	}
}

func (s *step) forBuffers(yield func(n int)) {
	if s.opaque != nil {
		for _, x := range s.opaque.in {
			yield(x.buffer)
		}
		for _, x := range s.opaque.out {
			yield(x.buffer)
		}
		return
	}
	for _, code := range [][]instruction{s.tiles.code, s.tiles.finish} {
		for i := range code {
			if a := code[i].access; a != nil && a.buffer >= 0 {
				yield(a.buffer)
			}
		}
	}
	for _, d := range s.tiles.directs {
		yield(d.access.buffer)
	}
}
