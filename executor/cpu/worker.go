package cpu

import (
	"sync"
	"unsafe"
)

// A worker runs the program of a group tile by tile. It belongs to one
// goroutine.
type worker struct {
	t      *tiles
	r      *run
	memory []unsafe.Pointer // by buffer
	accus  []unsafe.Pointer // states of the accumulations: by segment, then by outer position
	ptr    []unsafe.Pointer // by register: its elements of the tile

	o, i       int64 // the first outer and inner position of the tile
	rows, cols int
	segment    int64

	arena     *[]uint64
	dst, src  []unsafe.Pointer // of the instruction at hand
	step, row []int
	state     [3]float64
}

// arenas recycles tile memory, which is a megabyte at most but for groups of
// very many values.
var arenas sync.Pool

func (r *run) newWorker(t *tiles, accus []unsafe.Pointer) *worker {
	w := &worker{t: t, r: r, memory: r.memory, accus: accus, ptr: make([]unsafe.Pointer, len(t.regs)),
		dst: make([]unsafe.Pointer, 0, 3), src: make([]unsafe.Pointer, 0, 5), step: make([]int, 0, 5), row: make([]int, 0, 5)}
	words := t.tileBytes/8 + 1
	w.arena, _ = arenas.Get().(*[]uint64)
	if w.arena == nil || len(*w.arena) < words {
		arena := make([]uint64, words)
		w.arena = &arena
	}
	base := unsafe.Pointer(unsafe.SliceData(*w.arena))
	for i := range t.regs {
		if x := &t.regs[i]; x.slot >= 0 {
			w.ptr[i] = unsafe.Add(base, t.slots[x.slot].offset)
		}
	}
	for _, i := range t.scalars {
		x := &t.regs[i]
		x.domain.put(w.ptr[i], r.scalars[x.scalar])
	}
	return w
}

func (w *worker) release() { arenas.Put(w.arena) }

// tile runs the program on one tile.
func (w *worker) tile(o int64, rows int, i int64, cols int) {
	w.o, w.rows, w.i, w.cols = o, rows, i, cols
	for _, d := range w.t.directs {
		a := d.access
		at := a.offset
		if len(a.outer) == 1 {
			at += o * a.outer[0]
		}
		if len(a.inner) == 1 {
			at += i * a.inner[0]
		}
		w.ptr[d.register] = unsafe.Add(w.memory[a.buffer], at*int64(a.size))
	}
	w.do(w.t.code)
}

func (w *worker) do(code []instruction) {
	for k := range code {
		switch i := &code[k]; i.code {
		case opLoad:
			r := i.dst[0]
			i.access.transfer(w, &w.t.regs[r], w.ptr[r])
		case opStore:
			r := i.src[0]
			i.access.transfer(w, &w.t.regs[r], w.ptr[r])
		case opApply:
			w.apply(i)
		case opFold:
			w.fold(i)
		case opAccumulate:
			w.accumulate(i)
		case opScan:
			w.scan(i)
		}
	}
}

// apply calls the kernel of i on all elements of its result: at once if its
// operands have the result's form or are scalars, else row by row.
func (w *worker) apply(i *instruction) {
	d := &w.t.regs[i.dst[0]]
	dst := w.ptr[i.dst[0]]
	w.src, w.step, w.row = w.src[:0], w.step[:0], w.row[:0]
	whole := true
	for _, r := range i.src {
		x := &w.t.regs[r]
		step, row := 0, 0
		if x.form&alongCols != 0 || d.form == alongRows && x.form == alongRows {
			step = 1
		}
		if x.form&alongRows != 0 {
			if row = domainSize[x.domain]; x.form == full {
				row *= w.cols
			}
		}
		whole = whole && (x.form == d.form || x.form == 0)
		w.src, w.step, w.row = append(w.src, w.ptr[r]), append(w.step, step), append(w.row, row)
	}
	switch {
	case whole || d.form != full:
		i.kernel(dst, w.src, w.step, w.count(d.form))
	default:
		next := w.cols * domainSize[d.domain]
		for r := range w.rows {
			for k, s := range i.src {
				w.src[k] = unsafe.Add(w.ptr[s], r*w.row[k])
			}
			i.kernel(unsafe.Add(dst, r*next), w.src, w.step, w.cols)
		}
	}
}

// count returns the elements of a register of form f.
func (w *worker) count(f form) int {
	n := 1
	if f&alongRows != 0 {
		n = w.rows
	}
	if f&alongCols != 0 {
		n *= w.cols
	}
	return n
}

// rowOf returns row r of register x at p, and the step along it.
func (w *worker) rowOf(x *register, p unsafe.Pointer, r int) (unsafe.Pointer, int) {
	size := domainSize[x.domain]
	switch x.form {
	case full:
		return unsafe.Add(p, r*w.cols*size), 1
	case alongRows:
		return unsafe.Add(p, r*size), 0
	case alongCols:
		return p, 1
	}
	return p, 0
}

func (w *worker) fold(i *instruction) {
	x := &w.t.regs[i.src[0]]
	w.dst = w.dst[:0]
	for _, r := range i.dst {
		w.dst = append(w.dst, w.ptr[r])
	}
	state := unsafe.Pointer(&w.state)
	for r := range w.rowsOf(x.form) {
		p, step := w.rowOf(x, w.ptr[i.src[0]], r)
		i.folder.begin(state)
		i.folder.row(state, p, step, w.cols)
		i.folder.finish(state, w.dst, r)
	}
}

func (w *worker) rowsOf(f form) int {
	if f&alongRows != 0 {
		return w.rows
	}
	return 1
}

// accumulator returns the state of accumulation k for row r of the tile.
func (w *worker) accumulator(k int, segment int64, r int) unsafe.Pointer {
	at := segment*w.t.numOuter + w.o + int64(r)
	return unsafe.Add(w.accus[k], at*int64(w.t.accus[k].folder.size))
}

func (w *worker) accumulate(i *instruction) {
	x := &w.t.regs[i.src[0]]
	for r := range w.rows {
		p, step := w.rowOf(x, w.ptr[i.src[0]], r)
		i.folder.row(w.accumulator(i.accu, w.segment, r), p, step, w.cols)
	}
}

func (w *worker) scan(i *instruction) {
	x, d := &w.t.regs[i.src[0]], &w.t.regs[i.dst[0]]
	state := unsafe.Pointer(&w.state)
	for r := range w.rowsOf(d.form) {
		if i.accu >= 0 {
			state = w.accumulator(i.accu, 0, r)
		}
		if w.i == 0 {
			i.folder.begin(state)
			if len(i.src) > 1 {
				i.folder.row(state, w.ptr[i.src[1]], 0, 1)
			}
		}
		p, step := w.rowOf(x, w.ptr[i.src[0]], r)
		out, _ := w.rowOf(d, w.ptr[i.dst[0]], r)
		i.folder.scan(state, out, p, step, w.cols)
	}
}

// finish completes the accumulations of the rows from o on.
func (w *worker) finish(o int64, rows int) {
	w.o, w.rows, w.i, w.cols = o, rows, 0, 1
	for k, a := range w.t.accus {
		if len(a.dst) == 0 {
			continue
		}
		w.dst = w.dst[:0]
		for _, r := range a.dst {
			w.dst = append(w.dst, w.ptr[r])
		}
		for r := range w.rowsOf(w.t.regs[a.dst[0]].form) {
			state := w.accumulator(k, 0, r)
			for s := int64(1); s < w.t.segments; s++ {
				a.folder.merge(state, w.accumulator(k, s, r))
			}
			a.folder.finish(state, w.dst, r)
		}
	}
	w.do(w.t.finish)
}

// run runs the group.
func (t *tiles) run(r *run) error {
	accus := make([]unsafe.Pointer, len(t.accus))
	for k, a := range t.accus {
		n := t.segments * t.numOuter
		states := make([]uint64, int(n)*a.folder.size/8+1)
		accus[k] = unsafe.Pointer(unsafe.SliceData(states))
		for i := range n {
			a.folder.begin(unsafe.Add(accus[k], i*int64(a.folder.size)))
		}
	}
	outer, inner := ceilDiv(t.numOuter, int64(t.rows)), ceilDiv(t.numInner, int64(t.cols))
	if t.numOuter*t.numInner > 0 {
		tasks, parts := outer*inner, inner
		if t.chunked {
			tasks, parts = outer*t.segments, t.segments
		}
		err := r.parallel(tasks, t.numOuter*t.numInner*int64(t.weight), func(next func() (int64, bool)) error {
			w := r.newWorker(t, accus)
			defer w.release()
			for k, ok := next(); ok; k, ok = next() {
				w.task(k/parts, k%parts, inner)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(t.finish) == 0 || t.numOuter == 0 {
		return nil
	}
	return r.parallel(outer, t.numOuter, func(next func() (int64, bool)) error {
		w := r.newWorker(t, accus)
		defer w.release()
		for k, ok := next(); ok; k, ok = next() {
			o := k * int64(t.rows)
			w.finish(o, int(min(int64(t.rows), t.numOuter-o)))
		}
		return nil
	})
}

// task runs the tiles of one outer block: the one at inner block part, or all of
// segment part of a chunked group. The number of segments does not grow with the
// size.
func (w *worker) task(block, part, inner int64) {
	t := w.t
	o := block * int64(t.rows)
	rows := int(min(int64(t.rows), t.numOuter-o))
	from, to := part, part+1
	if t.chunked {
		from, to = part*inner/t.segments, (part+1)*inner/t.segments
		w.segment = part
	}
	for k := from; k < to; k++ {
		if w.r.stopped() {
			return
		}
		i := k * int64(t.cols)
		w.tile(o, rows, i, int(min(int64(t.cols), t.numInner-i)))
	}
}
