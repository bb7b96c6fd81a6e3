package lower

import (
	"nvfuser_go/codegen/kir"
)

// eachColumn emits body for each column that a thread has.
func (y *line) eachColumn(body func()) {
	if y.columns == 1 {
		body()
		return
	}
	y.b.Repeat(y.loopName(), y.columns, kir.UnrollFull, func(i index) {
		y.column = i
		body()
	})
	y.column = y.t.Int(0)
}

// acrossColumns scans the elements of columns, of which threads along y have parts: their lanes
// are far from each other, or in other warps. What each has of a column goes to shared
// memory, where lanes next to each other scan all of that, and each thread reads what is before
// its own elements. Columns there are as far apart as lanes need to store to different banks.
func (y *line) acrossColumns(carry kir.BufferID) {
	t := y.x.fold.types[0]
	part, parts := y.linear(y.dims)
	column, columns := y.linear(y.kept)
	inWarp := max(warp/columns, 1) // parts of a column that a warp stores
	scratch := y.sharedBuffer(y.name("scratch"), t, y.t.Int(columns*y.columns), y.t.Int(parts+inWarp))
	y.b.Add(kir.Declare{Buffer: scratch})
	number := func() index { return y.t.Add(y.t.Mul(y.column, y.t.Int(columns)), column) }
	y.eachColumn(func() {
		y.inThread(y.t.Int(0), func(total kir.ValueID) kir.ValueID {
			y.b.Store(total, scratch, number(), part)
			return total
		})
	})
	y.scanParts(scratch, columns*y.columns, parts)
	y.eachColumn(func() {
		before := y.upTo(y.b.Load(carry), y.b.Load(scratch, number(), part))
		y.prepend(y.t.Int(0), y.temporary("before", before))
	})
}

// scanParts replaces each of the parts of columns in shared memory by the fold of those before
// it, by groups of lanes that have one column at a time.
func (y *line) scanParts(scratch kir.BufferID, columns, parts int64) {
	thread, threads := y.linear([]int{0, 1, 2})
	lanes := min(parts, warp)
	each := parts / lanes
	lane := y.t.Mod(thread, y.t.Int(lanes))
	y.eachStep(y.t.Int(0), (columns*lanes+threads-1)/threads, func(i index) {
		column := y.t.FloorDiv(y.t.Add(thread, y.t.Mul(i, y.t.Int(threads))), y.t.Int(lanes))
		at := func(j int64) []index { return []index{column, y.t.Add(y.t.Mul(lane, y.t.Int(each)), y.t.Int(j))} }
		isColumn := y.t.Lt(column, y.t.Int(columns))
		own := y.b.Local(y.name("own"), y.x.fold.types[0], each) // the fold of the parts of the lane up to each
		y.whenever(isColumn, func() {                            // lanes of other groups have nothing that counts
			for j := range each {
				v := y.b.Load(scratch, at(j)...)
				if j > 0 {
					v = y.upTo(y.b.Load(own, y.t.Int(j-1)), v)
				}
				y.b.Store(v, own, y.t.Int(j))
			}
		})
		before := y.temporary("others", y.exclusive(y.lanesBefore(y.b.Load(own, y.t.Int(each-1)), lane, lanes), lane, lanes))
		y.whenever(isColumn, func() {
			y.b.Store(before, scratch, at(0)...)
			for j := range each - 1 {
				y.b.Store(y.upTo(before, y.b.Load(own, y.t.Int(j))), scratch, at(j+1)...)
			}
		})
	})
}
