package sim

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

type direction uint8

const (
	reads direction = iota
	writes
)

// An access is a kir.Access, compiled.
type access struct {
	at      *statement
	way     direction
	id      kir.BufferID
	owner   uint16 // of cells: 1 + id
	buffer  *kir.Buffer
	element int     // bytes
	width   int     // elements
	step    int     // from one to the next
	index   int32   // node
	coords  []int32 // nodes
	extents []int32 // nodes of the shape
	strides []int32
	size    int32 // node
	// unaligned says that the address of a vector may be any.
	unaligned bool
	offset    int32 // node, of Shared
}

func (p *program) access(at *statement, a *kir.Access, way direction) (*access, error) {
	b := &p.k.Buffers[a.Buffer]
	out := &access{at: at, way: way, id: a.Buffer, owner: uint16(a.Buffer) + 1, buffer: b, element: b.DType.Size(), width: a.Width, step: max(a.Step, 1)}
	var err error
	if out.index, err = p.node(a.Index); err != nil {
		return nil, err
	}
	if out.size, err = p.node(b.Size); err != nil {
		return nil, err
	}
	if b.Space == kir.Shared {
		if out.offset, err = p.node(b.Offset); err != nil {
			return nil, err
		}
	}
	if a.Span == kir.InMemory {
		return out, nil // the index alone is checked
	}
	if out.coords, err = p.nodeList(a.Coords); err != nil {
		return nil, err
	}
	if out.extents, err = p.nodeList(b.Shape); err != nil {
		return nil, err
	}
	out.strides, err = p.nodeList(b.Stride)
	return out, err
}

// located is where the active threads access a buffer: the elements at index,
// by the threads for which it is legal.
type located struct {
	node  *indexNode
	index *indexValue
	lanes []int32
	base  int64 // bytes before element 0 in the memory
}

func (w *located) element(lane int32) int64 { return w.index.at(w.node, lane) }

// locate computes where the active threads access a buffer, and reports the
// accesses that are not legal.
func (b *block) locate(a *access) located {
	w := located{node: &b.p.nodes[a.index], index: b.index(a.index), lanes: b.lanes}
	if a.buffer.Space == kir.Shared {
		w.base = b.index(a.offset).u
	}
	legal := b.bounds(a, &w) && b.inShape(a)
	if a.width > 1 || w.index.tainted || w.node.uniform && w.index.flaw != 0 {
		legal = legal && b.straight(a, &w)
	}
	if !legal {
		w.lanes = b.illegal(a, &w)
	}
	return w
}

// span returns how many elements of the buffer there are from the first one of an access to the last one.
func (a *access) span() int64 { return int64((a.width-1)*a.step + 1) }

// bounds reports whether all active threads access elements that exist.
func (b *block) bounds(a *access, w *located) bool {
	most := b.index(a.size).u - a.span()
	if w.node.uniform {
		return 0 <= w.index.u && w.index.u <= most
	}
	v := w.index.v
	for _, l := range b.lanes {
		if v[l] < 0 || v[l] > most {
			return false
		}
	}
	return true
}

// inShape reports whether the coordinates of all active threads are below the
// extents of the buffer.
func (b *block) inShape(a *access) bool {
	for k, c := range a.coords {
		n, x := &b.p.nodes[c], b.index(c)
		extent := uint64(max(b.index(a.extents[k]).u, 0))
		if n.uniform {
			if uint64(x.u) >= extent {
				return false
			}
			continue
		}
		for _, l := range b.lanes {
			if uint64(x.v[l]) >= extent {
				return false
			}
		}
	}
	return true
}

// straight reports whether all active threads have a defined index and an
// aligned vector that stays in the shape.
func (b *block) straight(a *access, w *located) bool {
	for _, l := range b.lanes {
		if w.index.flawAt(w.node, l) != 0 || !b.aligned(a, w, l) || !b.vectorInShape(a, l) {
			return false
		}
	}
	return true
}

// aligned reports whether the address of a vector is a multiple of its bytes, where it must be.
// Element 0 of a Global or Local buffer is taken to be at an odd multiple of
// the alignment that the buffer claims.
func (b *block) aligned(a *access, w *located, lane int32) bool {
	bytes := int64(a.width * a.element)
	base := w.base
	if a.buffer.Space != kir.Shared {
		base = int64(a.buffer.Align)
	}
	return a.unaligned || a.step > 1 || (base+w.element(lane)*int64(a.element))%bytes == 0
}

// vectorInShape reports whether the elements after the first of a vector are in
// the shape: along the axis of stride 1, or of the step of the access, and beyond its end only where the next
// axis goes on.
func (b *block) vectorInShape(a *access, lane int32) bool {
	if a.width == 1 {
		return true
	}
	for k := len(a.coords) - 1; k >= 0; k-- {
		if b.index(a.strides[k]).u != int64(a.step) {
			continue
		}
		extent := b.index(a.extents[k]).u
		c := b.index(a.coords[k]).at(&b.p.nodes[a.coords[k]], lane)
		if last := c + int64(a.width) - 1; last < extent {
			return true
		}
		// Count positions over all outer axes that continue this one.
		position, count, next := c, extent, extent
		for j := k - 1; j >= 0 && b.index(a.strides[j]).u == next*int64(a.step); j-- {
			position += b.index(a.coords[j]).at(&b.p.nodes[a.coords[j]], lane) * count
			count *= b.index(a.extents[j]).u
			next = count
		}
		return position+int64(a.width)-1 < count
	}
	return len(a.coords) == 0
}

// illegal reports each illegal access and returns the threads with legal ones.
func (b *block) illegal(a *access, w *located) []int32 {
	var legal []int32
	for _, l := range b.lanes {
		if b.accessProblem(a, w, l) {
			continue
		}
		legal = append(legal, l)
	}
	return legal
}

func (b *block) accessProblem(a *access, w *located, lane int32) bool {
	index := w.element(lane)
	report := func(kind Kind, format string, args ...any) bool {
		b.found(Finding{Kind: kind, Thread: int(lane), Buffer: a.buffer.Name, Index: index, Detail: fmt.Sprintf(format, args...)}, a.at)
		return true
	}
	taint := w.index.flawAt(w.node, lane)
	for _, c := range a.coords {
		taint |= b.index(c).flawAt(&b.p.nodes[c], lane)
	}
	if taint != 0 {
		b.effect(taint, Finding{Thread: int(lane), Buffer: a.buffer.Name, Index: index}, "the index", a.at)
		return true
	}
	for k, c := range a.coords {
		x, extent := b.index(c).at(&b.p.nodes[c], lane), b.index(a.extents[k]).u
		if x < 0 || x >= extent {
			return report(OutOfBounds, "coordinate %d is %d and the extent %d", k, x, extent)
		}
	}
	if size := b.index(a.size).u; index < 0 || index+a.span() > size {
		return report(OutOfBounds, "elements [%d, %d) are accessed and the buffer has %d", index, index+a.span(), size)
	}
	if !b.vectorInShape(a, lane) {
		return report(OutOfBounds, "the %d elements of the vector end outside the shape", a.width)
	}
	if a.width > 1 && !b.aligned(a, w, lane) {
		return report(Misaligned, "the address of %d bytes is not a multiple of them", a.width*a.element)
	}
	return false
}

// effect reports that a number with a taint has an effect. what is the number.
func (b *block) effect(taint uint8, f Finding, what string, at *statement) {
	switch {
	case taint&undefined != 0:
		f.Kind, f.Detail = Uninitialised, what+" depends on memory that nothing wrote"
	case taint&divided != 0:
		f.Kind, f.Detail = DivisionByZero, what+" is divided by zero"
	default:
		f.Kind, f.Detail = Overflow, what+" overflows the kernel's index type"
	}
	b.found(f, at)
}

// memoryOf returns the memory that an access is to.
func (b *block) memoryOf(a *access) *memory {
	if a.buffer.Space == kir.Shared {
		return &b.shared
	}
	return b.m.global[a.id]
}

// forget makes out 0 where threads load what they may not.
func (b *block) forget(out *lanes, w *located) {
	out.tainted = false
	if len(w.lanes) < len(b.lanes) {
		for _, l := range b.lanes {
			out.set(int(l), scalar.Value{})
			out.taint[l] = 0
		}
	}
}

// load sets out to elements of Global or Shared memory.
func (b *block) load(a *access, out *lanes) {
	w, m := b.locate(a), b.memoryOf(a)
	b.count(a, &w)
	b.forget(out, &w)
	for _, l := range w.lanes {
		address := w.base + w.element(l)*int64(a.element)
		t := b.read(a, m, address, a.element, l)
		out.load(int(l), m.data[address:])
		out.taint[l] = t
		out.tainted = out.tainted || t != 0
	}
}

// loadLocal sets out to elements of registers.
func (b *block) loadLocal(a *access, out *lanes) {
	w, r := b.locate(a), b.registers[a.id]
	b.forget(out, &w)
	for _, l := range w.lanes {
		p := int(w.element(l))*b.m.threads + int(l)
		out.copyElement(int(l), r, p)
		t := r.taint[p]
		out.taint[l] = t
		out.tainted = out.tainted || t != 0
	}
}

// store writes x to elements of any memory.
func (b *block) store(a *access, x *lanes, flags uint8) {
	w := b.locate(a)
	if a.buffer.Space == kir.Local {
		r := b.registers[a.id]
		for _, l := range w.lanes {
			p := int(w.element(l))*b.m.threads + int(l)
			r.copyElement(p, x, int(l))
			r.taint[p] = x.flawAt(l)
		}
		return
	}
	m := b.memoryOf(a)
	b.count(a, &w)
	data := b.bytes[:a.element]
	for _, l := range w.lanes {
		x.store(int(l), data)
		b.put(a, m, w.base+w.element(l)*int64(a.element), l, data, x.flawAt(l), flags)
	}
}

// put writes data to memory for one thread.
func (b *block) put(a *access, m *memory, address int64, lane int32, data []byte, taint uint8, flags uint8) {
	if taint != 0 && a.buffer.Space == kir.Global {
		b.effect(taint, Finding{Thread: int(lane), Buffer: a.buffer.Name, Index: address / int64(a.element)}, "the value written", a.at)
		taint = 0 // once is enough
	}
	b.write(a, m, address, len(data), lane, data, taint, flags)
}

// move copies vectors between registers and memory.
func (b *block) move(dst, src *access) {
	to, from := b.locate(dst), b.locate(src)
	lanes := b.both(to.lanes, from.lanes)
	if src.buffer.Space == kir.Local {
		r, m := b.registers[src.id], b.memoryOf(dst)
		b.count(dst, &to)
		data := b.bytes[:dst.width*dst.element]
		for _, l := range lanes {
			var taint uint8
			for e := range src.width {
				p := (int(from.element(l))+e)*b.m.threads + int(l)
				r.store(p, data[e*dst.element:])
				taint |= r.taint[p]
			}
			address := to.base + to.element(l)*int64(dst.element)
			if taint == 0 || dst.buffer.Space == kir.Global {
				b.put(dst, m, address, l, data, taint, 0)
				continue
			}
			b.put(dst, m, address, l, data, 0, 0)
			for e := range src.width { // those elements of the vector that are flawed
				if r.taint[(int(from.element(l))+e)*b.m.threads+int(l)] != 0 {
					m.invalidate(address+int64(e*dst.element), dst.element)
				}
			}
		}
		return
	}
	b.count(src, &from)
	if len(lanes) < len(to.lanes) {
		b.untaint(dst, &to, to.lanes)
	}
	b.loadLanes(dst, src, &to, &from, lanes)
}

// untaint lets the elements of dst of some threads be defined.
func (b *block) untaint(dst *access, to *located, lanes []int32) {
	r := b.registers[dst.id]
	for _, l := range lanes {
		for e := range dst.width {
			r.taint[(int(to.element(l))+e)*b.m.threads+int(l)] = 0
		}
	}
}

// loadLanes moves elements from memory to the registers of some threads.
func (b *block) loadLanes(dst, src *access, to, from *located, lanes []int32) {
	r, m := b.registers[dst.id], b.memoryOf(src)
	for _, l := range lanes {
		address := from.base + from.element(l)*int64(src.element)
		for e := range src.width {
			p := (int(to.element(l))+e)*b.m.threads + int(l)
			r.taint[p] = b.read(src, m, address, src.element, l)
			r.load(p, m.data[address:])
			address += int64(src.element * src.step)
		}
	}
}

// guardedMove is a move to registers, of zeros in threads where the node guard is false.
func (b *block) guardedMove(dst, src *access, guard int32) {
	to := b.locate(dst)
	reading, zeros := b.divide(guard, to.lanes, dst.at)
	b.push(reading)
	from := b.locate(src)
	b.pop()
	b.count(src, &from)
	b.untaint(dst, &to, to.lanes)
	r, zero := b.registers[dst.id], make([]byte, dst.element)
	for _, l := range zeros {
		for e := range dst.width {
			r.load((int(to.element(l))+e)*b.m.threads+int(l), zero)
		}
	}
	b.loadLanes(dst, src, &to, &from, from.lanes)
}

// both returns the threads of two sublists of the active threads.
func (b *block) both(x, y []int32) []int32 {
	switch {
	case len(x) == len(b.lanes):
		return y
	case len(y) == len(b.lanes):
		return x
	}
	var out []int32
	for _, l := range x {
		if slices.Contains(y, l) {
			out = append(out, l)
		}
	}
	return out
}

// An asyncCopy is under way from Global to Shared memory.
type asyncCopy struct {
	a       *access
	address int64 // of the target
	data    []byte
	taint   uint8
	group   int // -1: not committed
	source  int64
	from    *access
	writes  []uint32 // spans of the writes of the source's cells at issue
}

// asyncCopy issues a copy for each active thread. guard is a node, -1 for none.
func (b *block) asyncCopy(dst, src *access, guard int32) {
	to := b.locate(dst)
	reading, zeros := to.lanes, []int32(nil)
	if guard >= 0 {
		reading, zeros = b.divide(guard, to.lanes, dst.at)
	}
	b.push(reading)
	from := b.locate(src)
	b.pop()
	b.count(src, &from)
	b.count(dst, &to)
	m := b.m.global[src.id]
	n := dst.width * dst.element
	issue := func(l int32, c asyncCopy) {
		c.a, c.group, c.address = dst, -1, to.base+to.element(l)*int64(dst.element)
		b.write(dst, &b.shared, c.address, n, l, nil, 0, inFlight)
		b.copies[l] = append(b.copies[l], c)
	}
	for _, l := range from.lanes {
		address := from.element(l) * int64(src.element)
		taint := b.read(src, m, address, n, l)
		c := asyncCopy{data: slices.Clone(m.data[address : address+int64(n)]), taint: taint, source: address, from: src}
		if m.cells != nil {
			for _, x := range m.cellsOf(address, n) {
				c.writes = append(c.writes, x.writeSpan)
			}
		}
		issue(l, c)
	}
	for _, l := range zeros {
		issue(l, asyncCopy{data: make([]byte, n)})
	}
}

// asyncWait lets all but the last pending groups of each active thread land.
func (b *block) asyncWait(pending int) {
	for _, l := range b.lanes {
		kept := b.copies[l][:0]
		for _, c := range b.copies[l] {
			if c.group < 0 || c.group >= b.groups[l]-pending {
				kept = append(kept, c)
				continue
			}
			b.land(l, &c)
		}
		b.copies[l] = kept
	}
}

func (b *block) land(lane int32, c *asyncCopy) {
	for i, s := range c.writes {
		if x := &b.m.global[c.from.id].cellsOf(c.source, len(c.data))[i]; x.writeSpan != s {
			b.conflict(AsyncReuse, c.from, x.writeAt, x.writeSpan, x.writer, c.source, lane)
		}
	}
	cells := b.shared.cellsOf(c.address, len(c.data))
	for i := range cells {
		x := &cells[i]
		flags := uint8(copied)
		if c.taint == 0 && x.flags&outlived == 0 {
			flags |= valid
		}
		x.flags = flags
		x.writeSpan, x.writer, x.writeAt = b.span[lane>>5], uint16(lane), c.a.at.number
	}
	copy(b.shared.data[c.address:], c.data)
}

// commit closes the group of each active thread.
func (b *block) commit() {
	for _, l := range b.lanes {
		for i := range b.copies[l] {
			if c := &b.copies[l][i]; c.group < 0 {
				c.group = b.groups[l]
			}
		}
		b.groups[l]++
	}
}

// atomicAdd adds x to elements one thread after the other, and binds old, if
// it is not kir.NoSymbol.
func (b *block) atomicAdd(a *access, x *lanes, old kir.SymbolID) {
	w, m := b.locate(a), b.memoryOf(a)
	b.count(a, &w)
	sum := makeLanes(a.buffer.DType, 1)
	data := b.bytes[:a.element]
	var bound *indexValue
	if old != kir.NoSymbol {
		bound = b.bind(old)
	}
	for _, l := range w.lanes {
		address := w.base + w.element(l)*int64(a.element)
		if t := x.flawAt(l); t != 0 {
			b.effect(t, Finding{Thread: int(l), Buffer: a.buffer.Name, Index: w.element(l)}, "the value added", a.at)
		}
		b.atomicRead(a, m, address, l)
		sum.load(0, m.data[address:])
		before := sum.get(0)
		after, err := core.EvalScalar(core.AddOp, before.Type, []scalar.Value{before, x.get(int(l))})
		if err != nil {
			panic(err) // excluded by the kernel's Verify
		}
		sum.set(0, after)
		sum.store(0, data)
		b.write(a, m, address, a.element, l, data, 0, atomic)
		if a.buffer.Space == kir.Global {
			b.exchange(l, m, address)
		}
		if bound != nil {
			b.give(bound, l, before.I, 0)
		}
	}
	if bound != nil {
		b.checkFacts(old, a.at)
	}
}

// atomicRead reports that nothing wrote the element before an atomic operation.
func (b *block) atomicRead(a *access, m *memory, address int64, lane int32) {
	for _, c := range m.cellsOf(address, a.element) {
		if c.flags&valid == 0 && c.flags&inFlight == 0 {
			b.effect(undefined, Finding{Thread: int(lane), Buffer: a.buffer.Name, Index: b.elementAt(a, address)}, "the element added to", a.at)
			return
		}
	}
}

// nodeList compiles several index expressions.
func (p *program) nodeList(ids []scalar.ID) ([]int32, error) {
	out := make([]int32, len(ids))
	for i, id := range ids {
		var err error
		if out[i], err = p.node(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}
