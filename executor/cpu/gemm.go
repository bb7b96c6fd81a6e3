package cpu

import (
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A matrix is a two-dimensional part of a tensor, without its sizes.
type matrix struct {
	t          *tensor
	offset     int64
	rows, cols int64 // strides
}

// A product is c = a b + bias over m rows, n columns and k summed elements.
// bias, if its tensor is not nil, has a stride for columns only.
type product struct {
	m, n, k       int64
	a, b, c, bias matrix
}

// A task is a block of productRows by productCols elements. Its operands are
// packed, productDepth summed elements at a time, in panels of panelRows rows of
// a and panelCols columns of b: what is multiplied at one time lies together.
// The packed operands, 400 KiB of float64, stay in the second-level cache, and a
// panel of each, 10 KiB, in the first-level one.
const (
	productRows, productCols = 64, 129
	productDepth             = 256
	// The compiler keeps the sums of 2 by 3 products in registers, at 0.17 ns a
	// product; of 2 by 4 it spills (0.21 ns), and 2 by 2 wait for loads (0.26 ns).
	panelRows, panelCols = 2, 3
	// The elements of a row or column of a panel. A power of two would put all
	// panels into the same sets of the cache.
	panelDepth = productDepth + 4
)

// multiply computes products of one type, block by block. Elements are summed
// in order, in float64, int64 or complex128, and rounded once.
func multiply(r *run, t dtype.Type, products []product) error {
	switch t.Class() {
	case dtype.ClassFloat:
		return multiplyIn(r, products, func(dst []float64, p unsafe.Pointer, step int) { readFloats(dst, t, p, step) },
			func(p unsafe.Pointer, step int, src []float64) { writeFloats(t, p, step, src) })
	case dtype.ClassComplex:
		return multiplyIn(r, products, readAs[complex128](t), writeAs[complex128](t))
	}
	return multiplyIn(r, products, readAs[int64](t), writeAs[int64](t))
}

// readAs returns the function that reads elements of t, whose domain holds T.
func readAs[T any](t dtype.Type) func(dst []T, p unsafe.Pointer, step int) {
	load := loaders[t]
	return func(dst []T, p unsafe.Pointer, step int) {
		if len(dst) > 0 {
			load(unsafe.Pointer(&dst[0]), 1, p, step, len(dst))
		}
	}
}

// writeAs returns the function that writes elements of t, whose domain holds T.
func writeAs[T any](t dtype.Type) func(p unsafe.Pointer, step int, src []T) {
	store := storers[t]
	return func(p unsafe.Pointer, step int, src []T) {
		if len(src) > 0 {
			store(p, step, unsafe.Pointer(&src[0]), 1, len(src))
		}
	}
}

// A block is a task of multiply.
type block struct {
	p          *product
	row, col   int64
	rows, cols int64
}

func multiplyIn[T float64 | int64 | complex128](r *run, products []product, read func(dst []T, p unsafe.Pointer, step int), write func(p unsafe.Pointer, step int, src []T)) error {
	var blocks []block
	work := int64(0)
	var rows, cols, depth int64 // of the largest block
	for i := range products {
		p := &products[i]
		work += p.m * p.n * max(p.k, 1)
		rows, cols, depth = max(rows, p.m), max(cols, p.n), max(depth, p.k)
		for row := int64(0); row < p.m; row += productRows {
			for col := int64(0); col < p.n; col += productCols {
				blocks = append(blocks, block{p, row, col, min(productRows, p.m-row), min(productCols, p.n-col)})
			}
		}
	}
	rows, cols, depth = roundUp(min(rows, productRows), panelRows), roundUp(min(cols, productCols), panelCols), min(depth, productDepth)
	return r.parallel(int64(len(blocks)), work, func(next func() (int64, bool)) error {
		w := &multiplier[T]{r: r, read: read, write: write, a: make([]T, rows*panelDepth), b: make([]T, cols*panelDepth),
			sums: make([][panelRows][panelCols]T, rows/panelRows*cols/panelCols), line: make([]T, max(rows, cols, depth)), bias: make([]T, cols)}
		for i, ok := next(); ok; i, ok = next() {
			w.do(&blocks[i])
		}
		return nil
	})
}

func roundUp(n, unit int64) int64 { return ceilDiv(n, unit) * unit }

// A multiplier does blocks on one goroutine.
type multiplier[T float64 | int64 | complex128] struct {
	r     *run
	read  func(dst []T, p unsafe.Pointer, step int)
	write func(p unsafe.Pointer, step int, src []T)
	a, b  []T                       // packed
	sums  [][panelRows][panelCols]T // by panel of a, then panel of b
	line  []T                       // on the way from or to memory
	bias  []T
}

func (w *multiplier[T]) do(x *block) {
	p := x.p
	across := int(ceilDiv(x.cols, panelCols))
	sums := w.sums[:int(ceilDiv(x.rows, panelRows))*across]
	clear(sums)
	transposed := matrix{t: p.b.t, offset: p.b.offset, rows: p.b.cols, cols: p.b.rows}
	for k := int64(0); k < p.k && !w.r.stopped(); k += productDepth {
		depth := int(min(productDepth, p.k-k))
		w.pack(w.a, panelRows, &p.a, x.row, x.rows, k, depth)
		w.pack(w.b, panelCols, &transposed, x.col, x.cols, k, depth)
		for j := range across {
			b := w.b[j*panelDepth*panelCols:]
			for i := 0; i*across < len(sums); i++ {
				addProducts(&sums[i*across+j], w.a[i*panelDepth*panelRows:], b, depth)
			}
		}
	}
	w.store(x, sums, across)
}

// store writes the sums, and the bias on top of them, row by row.
func (w *multiplier[T]) store(x *block, sums [][panelRows][panelCols]T, across int) {
	p := x.p
	bias := w.bias[:x.cols]
	if p.bias.t != nil {
		w.read(bias, p.bias.t.at(w.r, p.bias.offset+x.col*p.bias.cols), int(p.bias.cols))
	}
	line := w.line[:x.cols]
	for i := range x.rows {
		panels := sums[int(i)/panelRows*across:][:across]
		for j := range line {
			line[j] = panels[j/panelCols][i%panelRows][j%panelCols]
		}
		if p.bias.t != nil {
			for j, y := range bias {
				line[j] += y
			}
		}
		w.write(p.c.t.at(w.r, p.c.offset+(x.row+i)*p.c.rows+x.col*p.c.cols), int(p.c.cols), line)
	}
}

// pack copies rows of m from k on into panels of width rows. It reads along what
// is closer in memory. What a last panel has more is left as it was: its
// products are added, and not stored.
func (w *multiplier[T]) pack(dst []T, width int, m *matrix, row, rows, k int64, depth int) {
	at := func(i, j int64) unsafe.Pointer {
		return m.t.at(w.r, m.offset+(row+i)*m.rows+(k+j)*m.cols)
	}
	if m.cols <= m.rows || rows == 1 {
		line := w.line[:depth]
		for i := range rows {
			w.read(line, at(i, 0), int(m.cols))
			to := dst[int(i)/width*panelDepth*width+int(i)%width:]
			for j, x := range line {
				to[j*width] = x
			}
		}
		return
	}
	line := w.line[:rows]
	for j := range depth {
		w.read(line, at(0, int64(j)), int(m.rows))
		to, lane := j*width, 0
		for _, x := range line {
			dst[to+lane] = x
			if lane++; lane == width {
				to, lane = to+panelDepth*width, 0
			}
		}
	}
}

// addProducts adds to sums the products of a panel of a and one of b.
func addProducts[T float64 | int64 | complex128](sums *[panelRows][panelCols]T, a, b []T, depth int) {
	left, right := elements[[panelRows]T](unsafe.Pointer(&a[0]), depth), elements[[panelCols]T](unsafe.Pointer(&b[0]), depth)
	c00, c01, c02 := sums[0][0], sums[0][1], sums[0][2]
	c10, c11, c12 := sums[1][0], sums[1][1], sums[1][2]
	for k := range left {
		x, y := left[k][0], left[k][1]
		p, q, u := right[k][0], right[k][1], right[k][2]
		c00 += T(x * p)
		c01 += T(x * q)
		c02 += T(x * u)
		c10 += T(y * p)
		c11 += T(y * q)
		c12 += T(y * u)
	}
	sums[0] = [panelCols]T{c00, c01, c02}
	sums[1] = [panelCols]T{c10, c11, c12}
}

// part returns the matrix of t with the given row and column dimensions, -1 for
// none, at index of the other dimensions counted from the first.
func (t *tensor) part(offset int64, rows, cols int) matrix {
	m := matrix{t: t, offset: offset}
	if rows >= 0 {
		m.rows = t.strides[rows]
	}
	if cols >= 0 {
		m.cols = t.strides[cols]
	}
	return m
}

// matmul is torch.matmul: the last two dimensions are multiplied, those before
// them are broadcast, and an operand of one dimension is a row or a column.
func matmul(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	a, b, c := &s.in[0], &s.in[1], &s.out[0]
	ra, rb := len(a.sizes), len(b.sizes)
	p := product{m: 1, n: 1, k: a.sizes[ra-1]}
	rowC, colC := -1, -1
	if rb > 1 {
		p.n, colC = b.sizes[rb-1], len(c.sizes)-1
	}
	batch := len(c.sizes)
	if rb > 1 {
		batch--
	}
	if ra > 1 {
		batch--
		p.m, rowC = a.sizes[ra-2], batch
	}
	var products []product
	core.EachIndex(c.sizes[:batch], func(index []int64) {
		q := p
		// Batch dimensions are counted from the right.
		q.a = a.part(batchOffset(a, index, max(ra-2, 0)), ra-2, ra-1)
		if rb == 1 {
			q.b = b.part(0, 0, -1)
		} else {
			q.b = b.part(batchOffset(b, index, rb-2), rb-2, rb-1)
		}
		q.c = c.part(offsetOf(c.strides[:batch], index), rowC, colC)
		products = append(products, q)
	})
	return func(r *run) error { return multiply(r, c.dtype, products) }, nil
}

// batchOffset is the offset in t, whose first n dimensions are batch dimensions,
// of the last n entries of index.
func batchOffset(t *tensor, index []int64, n int) int64 {
	n = min(n, len(index))
	return offsetOf(t.strides[:n], index[len(index)-n:])
}

// linear is a product with the rows of the weight, and a bias for each of them.
func linear(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	x, weight, c := &s.in[0], &s.in[1], &s.out[0]
	rank := len(x.sizes)
	p := product{m: 1, n: 1, k: x.sizes[rank-1]}
	colC := -1
	if len(weight.sizes) == 2 {
		p.n, colC = weight.sizes[0], len(c.sizes)-1
		p.b = weight.part(0, 1, 0)
	} else {
		p.b = weight.part(0, 0, -1)
	}
	if len(s.in) > 2 {
		p.bias = s.in[2].part(0, -1, len(s.in[2].sizes)-1)
	}
	batch := max(rank-2, 0)
	row := -1
	if rank > 1 {
		row = rank - 2
		p.m = x.sizes[row]
	}
	var products []product
	core.EachIndex(x.sizes[:batch], func(index []int64) {
		q := p
		q.a = x.part(offsetOf(x.strides[:batch], index), row, rank-1)
		q.c = c.part(offsetOf(c.strides[:batch], index), row, colC)
		products = append(products, q)
	})
	return func(r *run) error { return multiply(r, c.dtype, products) }, nil
}

// groupedMatmul multiplies parts of a dimension, group g of which ends before
// offsets[g], by matrices of their own.
func groupedMatmul(_ *builder, s *opaqueStep) (func(r *run) error, error) {
	a, b, offsets, c := &s.in[0], &s.in[1], &s.in[2], &s.out[0]
	return func(r *run) error {
		ends := load[int64](offsets.dtype, offsets.at(r, 0), int(offsets.strides[0]), offsets.sizes[0])
		if err := fill(r, c, zeroScalar); err != nil {
			return err
		}
		var size int64 // of the dimension that is in groups
		switch {
		case len(b.sizes) == 3:
			size = a.sizes[0]
		case len(a.sizes) == 3:
			size = b.sizes[1]
		default:
			size = a.sizes[1]
		}
		var products []product
		begin := int64(0)
		for g, end := range ends {
			end = min(end, size)
			if end <= begin && (len(a.sizes) == 3 || len(b.sizes) == 3) {
				continue
			}
			n, g := max(end-begin, 0), int64(g)
			var p product
			switch {
			case len(b.sizes) == 3:
				p = product{m: n, n: b.sizes[2], k: b.sizes[1], a: a.part(begin*a.strides[0], 0, 1), b: b.part(g*b.strides[0], 1, 2), c: c.part(begin*c.strides[0], 0, 1)}
			case len(a.sizes) == 3:
				p = product{m: a.sizes[1], n: n, k: a.sizes[2], a: a.part(g*a.strides[0], 1, 2), b: b.part(begin*b.strides[1], 0, 1), c: c.part(begin*c.strides[1], 0, 1)}
			default:
				p = product{m: a.sizes[0], n: b.sizes[1], k: n, a: a.part(begin*a.strides[1], 0, 1), b: b.part(begin*b.strides[0], 0, 1), c: c.part(g*c.strides[0], 1, 2)}
			}
			products = append(products, p)
			begin = max(begin, end)
		}
		return multiply(r, c.dtype, products)
	}, nil
}
