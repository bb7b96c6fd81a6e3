package cpu

import "unsafe"

// An access is how a group reads or writes a value in memory.
type access struct {
	buffer  int
	offset  int64
	strides []int64 // by axis of the group; 0 where the value does not vary
	store   bool
	absent  uint64 // of a store: axes that the value does not have, written at index 0 only

	// Once the axes of the group are in order:
	outer, inner         []int64 // strides
	noOuter, noInner     bool    // all of them are absent
	skipOuter, skipInner []bool  // some are; nil otherwise
	size                 int     // bytes of an element
	move                 mover   // nil for the positions that generators read
}

// locate returns the offset of position i of the row-major space sizes, and how
// many positions from i on lie along the last axis.
func locate(sizes, strides []int64, i int64) (offset, run int64) {
	n := len(sizes)
	switch {
	case n == 0:
		return 0, 1
	case i == 0: // also where there are no elements: the folds of none
		return 0, max(sizes[n-1], 1)
	case n == 1:
		return i * strides[0], sizes[0] - i
	}
	last := i % sizes[n-1]
	offset, run = last*strides[n-1], sizes[n-1]-last
	i /= sizes[n-1]
	for d := n - 2; d >= 0; d-- {
		offset += i % sizes[d] * strides[d]
		i /= sizes[d]
	}
	return offset, run
}

// atFirst reports whether position i has index 0 along the marked axes.
func atFirst(sizes []int64, marked []bool, i int64) bool {
	for d := len(sizes) - 1; d >= 0; d-- {
		if marked[d] && i%sizes[d] != 0 {
			return false
		}
		i /= sizes[d]
	}
	return true
}

func lastStride(strides []int64) int64 {
	if len(strides) == 0 {
		return 0
	}
	return strides[len(strides)-1]
}

// transfer moves the tile of w between memory and register r: row by row, or
// column by column where the elements of a column are closer in memory.
func (a *access) transfer(w *worker, r *register, tile unsafe.Pointer) {
	rows, cols := w.rows, w.cols
	t := transferring{a: a, w: w, tile: tile, size: domainSize[r.domain]}
	if r.form&alongCols != 0 {
		t.colStep = 1
	}
	if r.form&alongRows != 0 {
		t.rowStep = 1
		if t.colStep == 1 {
			t.rowStep = cols
		}
	}
	switch {
	case !a.store && r.form&alongRows == 0:
		rows = 1
	case a.noOuter:
		if rows = 1; w.o != 0 {
			return
		}
	}
	switch {
	case !a.store && r.form&alongCols == 0:
		cols = 1
	case a.noInner:
		if cols = 1; w.i != 0 {
			return
		}
	}
	if a.skipOuter == nil && a.skipInner == nil && (cols == 1 || rows > 1 && w.t.byColumn(a)) {
		for c := range cols {
			t.column(rows, c)
		}
		return
	}
	for row := range rows {
		t.row(row, cols)
	}
}

// byColumn reports whether elements of a are closer along the last outer axis
// than along the inner axis.
func (t *tiles) byColumn(a *access) bool {
	return len(t.inner) == 1 && len(t.outer) >= 1 && lastStride(a.outer) > 0 && lastStride(a.outer) < a.inner[0]
}

// A transferring is one move of a tile.
type transferring struct {
	a                *access
	w                *worker
	tile             unsafe.Pointer
	size             int // bytes of an element of the tile
	rowStep, colStep int // of the tile, in elements
}

// run moves n elements along one axis.
func (t *transferring) run(tile unsafe.Pointer, step int, offset, stride int64, n int) {
	a := t.a
	offset += a.offset
	if a.move == nil {
		positions(tile, step, offset, stride, n)
		return
	}
	memory := unsafe.Add(t.w.memory[a.buffer], offset*int64(a.size))
	if a.store {
		a.move(memory, int(stride), tile, step, n)
	} else {
		a.move(tile, step, memory, int(stride), n)
	}
}

func (t *transferring) row(row, cols int) {
	a, w := t.a, t.w
	o := w.o + int64(row)
	if a.skipOuter != nil && !atFirst(w.t.outer, a.skipOuter, o) {
		return
	}
	base, _ := locate(w.t.outer, a.outer, o)
	tile := unsafe.Add(t.tile, row*t.rowStep*t.size)
	for c := 0; c < cols; {
		at, run := locate(w.t.inner, a.inner, w.i+int64(c))
		n := int(min(run, int64(cols-c)))
		if a.skipInner != nil {
			n = 1
		}
		if a.skipInner == nil || atFirst(w.t.inner, a.skipInner, w.i+int64(c)) {
			t.run(unsafe.Add(tile, c*t.colStep*t.size), t.colStep, base+at, lastStride(a.inner), n)
		}
		c += n
	}
}

// column moves the elements of the rows at column col.
func (t *transferring) column(rows, col int) {
	a, w := t.a, t.w
	base, _ := locate(w.t.inner, a.inner, w.i+int64(col))
	tile := unsafe.Add(t.tile, col*t.colStep*t.size)
	for r := 0; r < rows; {
		at, run := locate(w.t.outer, a.outer, w.o+int64(r))
		n := int(min(run, int64(rows-r)))
		t.run(unsafe.Add(tile, r*t.rowStep*t.size), t.rowStep, base+at, lastStride(a.outer), n)
		r += n
	}
}

// positions fills a tile with start, start+stride, ...
func positions(tile unsafe.Pointer, step int, start, stride int64, n int) {
	for i := range n {
		*(*int64)(unsafe.Add(tile, i*step*8)) = start + int64(i)*stride
	}
}
