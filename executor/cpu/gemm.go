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

const (
	productRows, productCols = 64, 64 // of a task
	productDepth             = 256    // summed elements that are packed at once
)

// multiply computes products of one type, block by block. Elements are summed
// in order, in float64, int64 or complex128, and rounded once.
func multiply(r *run, t dtype.Type, products []product) error {
	switch t.Class() {
	case dtype.ClassFloat:
		return multiplyIn(r, products, func(dst []float64, p unsafe.Pointer, step int) { readFloats(dst, t, p, step) },
			func(p unsafe.Pointer, x float64) { dtype.StoreFloat(t, elements[byte](p, t.Size()), x) })
	case dtype.ClassComplex:
		return multiplyIn(r, products, readAs[complex128](t),
			func(p unsafe.Pointer, x complex128) { dtype.StoreComplex(t, elements[byte](p, t.Size()), x) })
	}
	return multiplyIn(r, products, readAs[int64](t),
		func(p unsafe.Pointer, x int64) { dtype.StoreInt(t, elements[byte](p, t.Size()), x) })
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

// A block is a task of multiply.
type block struct {
	p          *product
	row, col   int64
	rows, cols int64
}

func multiplyIn[T float64 | int64 | complex128](r *run, products []product, read func(dst []T, p unsafe.Pointer, step int), store func(p unsafe.Pointer, x T)) error {
	var blocks []block
	work := int64(0)
	for i := range products {
		p := &products[i]
		work += p.m * p.n * max(p.k, 1)
		for row := int64(0); row < p.m; row += productRows {
			for col := int64(0); col < p.n; col += productCols {
				blocks = append(blocks, block{p, row, col, min(productRows, p.m-row), min(productCols, p.n-col)})
			}
		}
	}
	return r.parallel(int64(len(blocks)), work, func(next func() (int64, bool)) error {
		w := &multiplier[T]{r: r, read: read, a: make([]T, productRows*productDepth), b: make([]T, productCols*productDepth), sums: make([]T, productRows*productCols),
			column: make([]T, productCols), bias: make([]T, productCols)}
		for i, ok := next(); ok; i, ok = next() {
			w.do(&blocks[i], store)
		}
		return nil
	})
}

// A multiplier does blocks on one goroutine. It packs rows of a and columns of b
// so that the summed elements of each lie together.
type multiplier[T float64 | int64 | complex128] struct {
	r          *run
	read       func(dst []T, p unsafe.Pointer, step int)
	a, b, sums []T
	column     []T // of a matrix that is packed column by column
	bias       []T
}

func (w *multiplier[T]) do(x *block, store func(p unsafe.Pointer, x T)) {
	p := x.p
	clear(w.sums)
	for k := int64(0); k < p.k; k += productDepth {
		depth := int(min(productDepth, p.k-k))
		w.pack(w.a, &p.a, x.row, x.rows, k, depth)
		transposed := matrix{t: p.b.t, offset: p.b.offset, rows: p.b.cols, cols: p.b.rows}
		w.pack(w.b, &transposed, x.col, x.cols, k, depth)
		for i := 0; i < int(x.rows); i += 2 {
			for j := 0; j < int(x.cols); j += 4 {
				w.kernel(i, j, depth)
			}
		}
	}
	if p.bias.t != nil {
		w.read(w.bias[:x.cols], p.bias.t.at(w.r, p.bias.offset+x.col*p.bias.cols), int(p.bias.cols))
	}
	for i := range x.rows {
		for j := range x.cols {
			sum := w.sums[i*productCols+j]
			if p.bias.t != nil {
				sum += w.bias[j]
			}
			store(p.c.t.at(w.r, p.c.offset+(x.row+i)*p.c.rows+(x.col+j)*p.c.cols), sum)
		}
	}
}

// pack copies rows of m from k on. It reads along what is closer in memory.
func (w *multiplier[T]) pack(dst []T, m *matrix, row, rows, k int64, depth int) {
	at := func(i, j int64) unsafe.Pointer {
		return m.t.at(w.r, m.offset+(row+i)*m.rows+(k+j)*m.cols)
	}
	if m.cols <= m.rows || rows == 1 {
		for i := range rows {
			w.read(dst[int(i)*productDepth:][:depth], at(i, 0), int(m.cols))
		}
		return
	}
	column := w.column[:rows]
	for j := range depth {
		w.read(column, at(0, int64(j)), int(m.rows))
		for i, x := range column {
			dst[i*productDepth+j] = x
		}
	}
}

// kernel adds the products of rows i, i+1 of a and columns j to j+3 of b. What
// lies beyond the block is added too, and not stored.
func (w *multiplier[T]) kernel(i, j, depth int) {
	a0, a1 := w.a[i*productDepth:][:depth], w.a[(i+1)*productDepth:][:depth]
	b0, b1 := w.b[j*productDepth:][:depth], w.b[(j+1)*productDepth:][:depth]
	b2, b3 := w.b[(j+2)*productDepth:][:depth], w.b[(j+3)*productDepth:][:depth]
	s0, s1 := w.sums[i*productCols+j:][:4], w.sums[(i+1)*productCols+j:][:4]
	c00, c01, c02, c03 := s0[0], s0[1], s0[2], s0[3]
	c10, c11, c12, c13 := s1[0], s1[1], s1[2], s1[3]
	for k, x := range a0 {
		y := a1[k]
		p, q, u, v := b0[k], b1[k], b2[k], b3[k]
		c00 += T(x * p)
		c01 += T(x * q)
		c02 += T(x * u)
		c03 += T(x * v)
		c10 += T(y * p)
		c11 += T(y * q)
		c12 += T(y * u)
		c13 += T(y * v)
	}
	s0[0], s0[1], s0[2], s0[3] = c00, c01, c02, c03
	s1[0], s1[1], s1[2], s1[3] = c10, c11, c12, c13
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
