package transpose

// Banks of shared memory, of 4 bytes each, and threads of a warp.
const (
	banks     = 32
	bankBytes = 4
	warp      = 32
)

// swizzles reports whether threads read windows of w in fewer cycles of banks where words are swizzled, of bytes in half of them, as
// they take more registers then.
//
// A window lies in vectors that are aligned in memory, and threads store vectors that are aligned there: where the pitches
// of rows on both sides, in elements, come to 1 modulo the width of a vector when they are multiplied, elements that threads
// next to each other read lie in the same word of such vectors, so in one bank of four. Of an H200 64 x 129 x 113 x 113
// from NCHW to NHWC took 193.9 / 191.2 us (second cache dirty / clean) and takes 154.2 / 152.4 (a copy 106.7 / 102.4), 512 x 257 x 513
// by 021 110.5 / 107.9 and 94.1 / 91.3 (71.6 / 68.0), 16387 x 2051 46.2 / 43.7 and 43.0 / 38.9 (40.2 / 36.7). Of
// bytes 16385 x 4097 68.2 / 65.9 and 49.2 / 46.1 (37.6 / 34.4), but 8197 x 8195, of an eighth fewer cycles, 47.0 / 43.7 and 51.1 / 48.2.
func (p *planner) swizzles(w *Params) bool {
	if p.size > bankBytes {
		return false
	}
	plain, swizzled := p.cycles(w, false), p.cycles(w, true)
	return swizzled < plain && (p.size > 1 || 2*swizzled <= plain)
}

// swizzle has words of w swizzled if that is of use. Bytes have blocks with more registers then: 512 matrices of 1023 x 64 took 86.9 us by
// five blocks of a processor, which spill, and 31.9 by three.
func (p *planner) swizzle(w *Params) {
	if w.Swizzle = p.swizzles(w); w.Swizzle && p.size == 1 {
		w.Resident = largeBlocks
	}
}

// cycles returns how many cycles of banks a warp takes for the elements of a step of w, of the widest far tensor.
func (p *planner) cycles(w *Params, isSwizzled bool) (total int64) {
	width, word := accessBytes/p.size, bankBytes/p.size
	in, out := p.pitches()
	pitch, gap := (w.Far+2*width-2)/width*width+in%width, int64(0)
	if in%width == 0 {
		gap = width
	}
	for i := range w.Vector {
		words := map[int64]map[int64]bool{} // by bank
		for thread := range int64(warp) {
			column := thread / w.Lanes // of the window
			row := thread%w.Lanes*w.Vector + i
			if w.Align > 0 {
				row += w.Align - column*out%w.Align
			}
			at := row*pitch + row/width*gap + column
			if isSwizzled {
				at ^= word * (row % (width / word))
			}
			bank := at / word % banks
			if words[bank] == nil {
				words[bank] = map[int64]bool{}
			}
			words[bank][at/word] = true
		}
		most := 0
		for _, x := range words {
			most = max(most, len(x))
		}
		total += int64(most)
	}
	return total
}

// pitches returns how far rows are apart, in elements: those of the first far tensor, along the near run, and those of the first
// near tensor with all elements, along the far run.
func (p *planner) pitches() (in, out int64) {
	in = p.layout.far.Tensors[0].Step(p.farAt + len(p.near.Extents) - p.nearAt - 1)
	for k := range p.near.Tensors {
		if t := &p.near.Tensors[k]; p.near.IsFull(t) {
			return in, t.Step(p.nearAt - 1)
		}
	}
	return in, 0
}
