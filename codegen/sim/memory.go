package sim

import (
	"bytes"

	"nvfuser_go/codegen/kir"
)

// A cell is the shadow of the smallest piece of memory that a buffer over it
// has as an element: what was last done to it, and by whom.
type cell struct {
	writeSpan, readSpan uint32 // when; 0: never
	writeAt, readAt     int32  // statements
	readers             uint32 // warps that read since the last write, in the time between barriers of readSpan
	earlier             int32  // 1 + the number of a list of reads by other blocks; 0: none
	writer              uint16 // threads
	reader, other       uint16 // the first of readSpan and the last other one, noThread if there is none
	owner               uint16 // 1 + the buffer through which it was declared or written
	user                uint16 // 1 + the buffer through which it was last written
	flags               uint8
}

const noThread = 1<<16 - 1

// Flags of a cell.
const (
	valid     = 1 << iota // something wrote it
	inFlight              // an asynchronous copy will write it
	copied                // an asynchronous copy was the last to write it
	atomic                // the last write was atomic
	redundant             // the last write may be one of several that agree
	outlived              // of inFlight: the bytes have been declared anew since
)

// An earlierRead is what a cell said of its reads by a block before another
// block read it.
type earlierRead struct {
	span, readers uint32
	reader, other uint16
	at, next      int32
}

// A memory is what one argument points to, or the shared memory of a block.
type memory struct {
	data  []byte
	cells []cell // nil: it is only read, and all of it is defined
	shift int    // 1<<shift bytes have a cell
}

// cellsOf returns the cells of n bytes from an address on.
func (m *memory) cellsOf(address int64, n int) []cell {
	return m.cells[address>>m.shift : (address+int64(n))>>m.shift]
}

// read notes that a thread reads n bytes at an address through a buffer, and
// returns the taint of what it gets.
func (b *block) read(a *access, m *memory, address int64, n int, lane int32) uint8 {
	if m.cells == nil {
		return 0
	}
	var taint uint8
	cells := m.cellsOf(address, n)
	for i := range cells {
		c := &cells[i]
		switch {
		case c.flags&inFlight != 0:
			b.conflict(AsyncUse, a, c.writeAt, c.writeSpan, c.writer, address, lane)
			continue
		case a.buffer.Space == kir.Shared && c.owner != a.owner && c.owner != 0:
			b.conflict(StaleOwner, a, c.writeAt, c.writeSpan, c.writer, address, lane)
			continue
		case c.flags&valid == 0:
			taint = undefined
		}
		if c.writeSpan != 0 && !b.ordered(c.writeSpan, c.writer, lane) {
			kind := Race
			if c.flags&copied != 0 {
				kind = AsyncUse
			}
			b.conflict(kind, a, c.writeAt, c.writeSpan, c.writer, address, lane)
		}
		b.noteRead(c, a.at.number, lane)
	}
	return taint
}

// noteRead keeps of the reads of a cell what later writes need.
func (b *block) noteRead(c *cell, at int32, lane int32) {
	warp := lane >> 5
	now := b.span[warp]
	if c.readSpan == now {
		if c.reader != uint16(lane) {
			c.other = uint16(lane)
		}
		return
	}
	bits := uint32(1) << warp
	if c.readSpan != 0 {
		old := &b.m.spans[c.readSpan]
		switch {
		case old.block != b.number:
			if !b.orderedReads(c.readSpan, c.readers, c.reader, c.other, lane) {
				b.m.earlier = append(b.m.earlier, earlierRead{c.readSpan, c.readers, c.reader, c.other, c.readAt, c.earlier})
				c.earlier = int32(len(b.m.earlier))
			}
		case old.epoch == b.epoch:
			bits |= c.readers
			if old.warp == warp && old.turn == b.turn[warp] { // only a fence between
				if c.reader != uint16(lane) {
					c.other = uint16(lane)
				}
				c.readSpan, c.readAt = now, at
				return
			}
		}
	}
	c.readSpan, c.readAt, c.readers, c.reader, c.other = now, at, bits, uint16(lane), noThread
}

// write notes that a thread writes n bytes at an address through a buffer.
// data is what it writes, nil if that is not known yet.
func (b *block) write(a *access, m *memory, address int64, n int, lane int32, data []byte, taint uint8, flags uint8) {
	cells := m.cellsOf(address, n)
	for i := range cells {
		c := &cells[i]
		b.checkWrite(a, m, c, address, n, lane, data, flags)
		if flags&atomic != 0 && c.flags&atomic == 0 {
			b.m.plain[c] = plainWrite{c.writeSpan, c.writer, c.writeAt}
		}
		c.writeSpan, c.writer, c.writeAt = b.span[lane>>5], uint16(lane), a.at.number
		c.readSpan, c.readers, c.earlier, c.owner, c.user = 0, 0, 0, a.owner, a.owner
		c.flags = flags
		if taint == 0 && flags&inFlight == 0 {
			c.flags |= valid
		}
	}
	if data != nil {
		copy(m.data[address:], data)
	}
}

// invalidate says of n bytes that nothing that can be relied on was written there.
func (m *memory) invalidate(address int64, n int) {
	cells := m.cellsOf(address, n)
	for i := range cells {
		cells[i].flags &^= valid
	}
}

// A plainWrite is the last write of a cell before atomic ones.
type plainWrite struct {
	span   uint32
	writer uint16
	at     int32
}

// checkWrite reports what a write to a cell conflicts with.
func (b *block) checkWrite(a *access, m *memory, c *cell, address int64, n int, lane int32, data []byte, flags uint8) {
	reuse := a.buffer.Space == kir.Shared && c.user != a.owner && c.user != 0
	report := func(kind Kind, at int32, span uint32, thread uint16) {
		if kind == Race && reuse {
			kind = Reuse
		}
		b.conflict(kind, a, at, span, thread, address, lane)
	}
	switch {
	case c.flags&inFlight != 0:
		report(AsyncReuse, c.writeAt, c.writeSpan, c.writer)
		return
	case c.flags&atomic != 0 && flags&atomic != 0:
		// The atomics agree on an order; a plain write before them may not.
		if w := b.m.plain[c]; w.span != 0 && !b.ordered(w.span, w.writer, lane) {
			report(Race, w.at, w.span, w.writer)
		}
	case c.writeSpan == 0 || b.ordered(c.writeSpan, c.writer, lane):
	case c.flags&copied != 0:
		report(AsyncReuse, c.writeAt, c.writeSpan, c.writer)
	case data != nil && !reuse && c.writeAt == a.at.number && bytes.Equal(data, m.data[address:address+int64(n)]):
		if flags&redundant == 0 {
			report(Duplicate, c.writeAt, c.writeSpan, c.writer)
		}
	default:
		report(Race, c.writeAt, c.writeSpan, c.writer)
	}
	if c.readSpan != 0 && !b.orderedReads(c.readSpan, c.readers, c.reader, c.other, lane) {
		thread := c.reader
		if thread == uint16(lane) && c.other != noThread {
			thread = c.other
		}
		report(Race, c.readAt, c.readSpan, thread)
	}
	for i := c.earlier; i != 0; {
		e := &b.m.earlier[i-1]
		if !b.orderedReads(e.span, e.readers, e.reader, e.other, lane) {
			report(Race, e.at, e.span, e.reader)
		}
		i = e.next
	}
}

// orderedReads reports whether the reads of a cell that it keeps are ordered
// before what a thread of this block does now.
func (b *block) orderedReads(at, readers uint32, reader, other uint16, lane int32) bool {
	old := &b.m.spans[at]
	switch {
	case old.block == b.number && (old.epoch != b.epoch || old.phase != b.phase && b.inGroup(readers, lane>>5)):
		return true
	case old.block == b.number && readers&^(1<<(lane>>5)) != 0:
		return false
	case old.block != b.number && readers&(readers-1) != 0: // of several warps
		return b.knows(lane, old.block) > old.epoch
	}
	return b.ordered(at, reader, lane) && b.ordered(at, other, lane)
}

// declare begins the life of the elements of a Shared buffer. A copy that is under way there lands
// in it, as pipelines copy past their last tile, and leaves nothing that can be relied on.
func (m *memory) declare(address, n int64, owner uint16) {
	cells := m.cells[address>>m.shift : (address+n)>>m.shift]
	for i := range cells {
		c := &cells[i]
		c.flags &^= valid
		c.owner = owner
		if c.flags&inFlight != 0 {
			c.flags |= outlived
		}
	}
}
