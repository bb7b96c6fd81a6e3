package transpose

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

func (a *analysis) build(q Params) (*schedule.Scheduled, error) {
	if q.Near < 1 || q.Far < 1 || q.Threads < 1 || q.Vector < 1 || q.Cell < 1 || q.Near*q.Far%(q.Threads*q.Vector) != 0 {
		return nil, core.InvalidArgumentf("schedule(): %v is not possible", q)
	}
	return scheduler.Build(a.Segment.Fusion, func(s *schedule.Scheduled) error {
		b := &builder{Params: q, layout: a.layout, s: s}
		if err := b.schedule(); err != nil {
			return err
		}
		if q.Window && !q.Last {
			return nil // smaller windows gain nothing
		}
		return a.Segment.Stream(s)
	})
}

// A builder makes the schedule of a segment with its parameters.
type builder struct {
	Params
	*layout
	s         *schedule.Scheduled
	exchanges []exchange
}

// An exchange is the copies by which a far tensor gets to near loops, or what they compute
// to a far tensor.
type exchange struct {
	moved  core.ValID // loaded from memory, or stored to it, along the memory of the far tensor
	turned core.ValID // the same in registers, transposed
	tile   core.ValID // in shared memory
	read   core.ValID // from the tile: in near loops of an input, in far ones of an output

	isOutput bool
	bytes    int64 // of an element
}

func (b *builder) schedule() error {
	s := b.s
	if _, err := scheduler.CacheOutputs(s); err != nil {
		return err
	}
	for k := range b.far.Tensors {
		if err := b.exchange(&b.far.Tensors[k]); err != nil {
			return err
		}
	}
	reference := b.referenceLoops()
	if err := b.tiles(reference); err != nil {
		return err
	}
	if err := scheduler.Spread(s, name, reference); err != nil {
		return err
	}
	if err := b.steps(reference); err != nil {
		return err
	}
	if err := b.near.Vectorize(s, b.nearPitch(b.Params)); err != nil {
		return err
	}
	for _, x := range b.exchanges {
		if err := b.access(x); err != nil {
			return err
		}
	}
	return b.parallelize(reference)
}

// parallelize says how near loops run, and finishes the schedule. Copies from and to memory
// are unswitched if the parameters say so.
func (b *builder) parallelize(reference core.ValID) error {
	s, f := b.s, b.s.Fusion()
	if d := f.Val(reference).Def; f.Expr(d).Op == core.SetOp && s.Memory(reference) == schedule.Global {
		reference = f.TensorArgs(f.Expr(d))[0]
	}
	run := func(v core.ValID, isCopy bool) error {
		n := &nest{scheduler.Nest{Schedule: s, Tensor: v}, []string{"block"}}
		if b.Window {
			n.names = b.windowLoops()
		} else {
			if steps := b.Near * b.Far / (b.Vector * b.Threads); steps > 1 {
				n.names = append(n.names, "step")
				if isCopy && b.Unswitch {
					n.unswitch("step", steps)
				}
			}
			n.names = append(n.names, "lane")
		}
		n.run("block", schedule.BIDx)
		n.run("part", schedule.Serial) // registers have those of one part at a time
		if b.Window && b.Vector > mostCell {
			n.run("step", schedule.Serial) // each byte is in a register until it is stored: 8197 x 8195 took 51 / 49 us, and 47 / 44 so
		} else {
			n.run("step", schedule.Unroll)
		}
		n.run("row", schedule.TIDy)
		n.run("lane", schedule.TIDx)
		return n.Err
	}
	if err := run(reference, false); err != nil {
		return err
	}
	loops := len(s.Loop(reference))
	for _, v := range s.Tensors() {
		d := f.Val(v).Def
		if d == core.NoExpr || f.Expr(d).Op != core.SetOp || len(s.Loop(v)) < loops || b.isFar(v) {
			continue
		}
		from := f.TensorArgs(f.Expr(d))[0]
		isLoad := f.Val(from).Input && s.Memory(v) == schedule.Local
		isStore := s.Memory(from) == schedule.Local && s.Memory(v) == schedule.Global
		if isLoad || isStore {
			if err := run(v, true); err != nil {
				return err
			}
		}
	}
	if b.Resident > 0 {
		s.SetResidentBlocks(int(b.Resident))
	}
	if err := scheduler.ParallelizeLike(s, reference, nil); err != nil {
		return err
	}
	var inside []core.AxisID
	for _, x := range b.exchanges {
		if b.Window { // it is loaded once in a block
			inside = append(inside, s.Loop(x.tile)[1])
		}
	}
	return s.InlineMost(nil, inside)
}

// isFar reports whether v is in loops along the memory of a far tensor.
func (b *builder) isFar(v core.ValID) bool {
	return slices.ContainsFunc(b.exchanges, func(x exchange) bool { return slices.Contains(x.far(), v) })
}

// exchange makes the copies of the far tensor t.
func (b *builder) exchange(t *space.Tensor) error {
	f := b.s.Fusion()
	if b.Window {
		return b.window(f.Inputs()[t.Place])
	}
	x := exchange{isOutput: t.IsOutput, bytes: t.Bytes}
	var err error
	after := func(v core.ValID, uses ...core.ValID) core.ValID {
		if err != nil {
			return v
		}
		v, err = b.s.CacheAfter(v, uses)
		return v
	}
	if t.IsOutput {
		x.moved = f.Outputs()[t.Place].Val
		x.tile = after(f.TensorArgs(f.Expr(f.Val(x.moved).Def))[0], x.moved)
		x.read = after(x.tile)
		x.turned = after(x.read)
	} else {
		if x.moved = t.ResizeIn(b.s); !t.IsResized() {
			x.moved = after(f.Inputs()[t.Place])
		}
		if slices.ContainsFunc(b.exchanges, func(other exchange) bool { return other.moved == x.moved }) {
			return nil // another one that a cat joins
		}
		x.turned = after(x.moved)
		x.tile = after(x.turned)
		x.read = after(x.tile)
	}
	if err == nil {
		err = b.s.SetMemory(x.tile, schedule.Shared)
	}
	b.exchanges = append(b.exchanges, x)
	return err
}

// window makes the copies of the far input v, of which a block has a window.
func (b *builder) window(v core.ValID) error {
	tile, err := b.s.CacheAfter(v, nil)
	if err != nil {
		return err
	}
	read, err := b.s.CacheAfter(tile, nil)
	if err != nil {
		return err
	}
	if err := b.s.SetMemory(tile, schedule.Shared); err != nil {
		return err
	}
	if b.Last {
		if err := b.s.SetCopy(tile, schedule.PlainCopy, schedule.CacheEvictLast); err != nil {
			return err
		}
	}
	b.exchanges = append(b.exchanges, exchange{moved: core.NoVal, turned: core.NoVal, tile: tile, read: read})
	return b.s.HoldWindow(tile, b.Swizzle)
}

// referenceLoops returns the tensor of near loops that has all axes of the space.
func (b *builder) referenceLoops() core.ValID {
	f := b.s.Fusion()
	if b.place < 0 {
		return b.near.Reference
	}
	v := f.Outputs()[b.place].Val
	for _, x := range b.exchanges {
		if x.moved == v {
			return f.TensorArgs(f.Expr(f.Val(x.tile).Def))[0]
		}
	}
	return v
}

// tiles gives v loops of blocks, of the far run in a tile and of the near one.
func (b *builder) tiles(v core.ValID) error {
	moves := map[int]int{}
	for k, d := range b.near.Order {
		moves[d] = k
	}
	n := scheduler.Nest{Schedule: b.s, Tensor: v}
	n.Reorder(moves)
	n.Merge(b.nearAt, len(b.near.Order)-b.nearAt)
	n.Merge(b.farAt, b.nearAt-b.farAt)
	if b.Align > 0 && n.Err == nil {
		rows := b.rowLoops()
		last := len(rows) - 1
		n.Err = b.s.AlignRows(v, rows[last], b.farAt+1, b.Align, rows[:last]...)
	}
	if b.Whole && n.Err == nil {
		if n.Err = b.s.PromiseLeast(v, b.farAt+1, b.Near); n.Err == nil {
			n.Err = b.s.SplitWhole(v, b.farAt+1, b.Near)
		}
	} else if n.Err == nil {
		n.Err = b.s.Split(v, b.farAt+1, b.Near, true)
	}
	if n.Err == nil {
		n.Err = b.s.Split(v, b.farAt, b.Far, true)
	}
	// Blocks of a near run come first, then those of the far one: what they share of far rows is there. 512 x 520 x 520 by 210, where near
	// memory goes on along the middle dimension first, took 167.3 / 162.7 us of an H200 in the order of that, and takes 150.3 / 145.9.
	n.Reorder(map[int]int{b.farAt + 1: b.farAt + 2})
	n.Merge(0, b.farAt+2)
	return n.Err
}

// rowLoops returns the loops of tiles that count rows along the near run as near tensors lie in memory, while all
// of the far run are one.
func (b *builder) rowLoops() []int {
	var loops []int
	for k := range b.farAt {
		if k == b.between {
			loops = append(loops, b.farAt)
		}
		loops = append(loops, k)
	}
	if b.between == b.farAt {
		loops = append(loops, b.farAt)
	}
	return loops
}

// steps gives all tensors their loops within a tile.
func (b *builder) steps(reference core.ValID) error {
	near := slices.DeleteFunc(slices.Clone(b.s.Tensors()), func(v core.ValID) bool {
		return b.isFar(v) || slices.ContainsFunc(b.exchanges, func(x exchange) bool { return x.tile == v })
	})
	if err := b.nearLoops(reference, false); err != nil {
		return err
	}
	if refusals, err := b.s.TransformLike(reference, near); err != nil || len(refusals) > 0 {
		return scheduler.Follow(name, refusals, err)
	}
	for _, x := range b.exchanges {
		for _, v := range x.far() {
			isTurned := v == x.read || !x.isOutput && v != x.moved
			if err := b.farLoops(&x, v, isTurned); err != nil {
				return err
			}
		}
		if x.isOutput {
			if err := b.nearLoops(x.tile, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// far returns the tensors of x that are in loops along the memory of the far tensor.
func (x *exchange) far() []core.ValID {
	switch {
	case x.moved == core.NoVal:
		return nil
	case x.isOutput:
		return []core.ValID{x.read, x.turned, x.moved}
	}
	return []core.ValID{x.moved, x.turned, x.tile}
}

// nearLoops gives v blocks, steps of a thread, threads, and elements of a step, along the
// memory of near tensors.
func (b *builder) nearLoops(v core.ValID, isTile bool) error {
	n := b.pieces(v)
	if b.Window {
		n.split("far", b.Far, b.Threads/b.Lanes, "step", "row")
		n.split("near", b.Near, b.Vector, "lane", "vector")
		n.split("lane", b.Near/b.Vector, b.Lanes, "part", "lane")
		n.order(append(b.windowLoops(), "vector")...)
		return n.Err
	}
	if isTile {
		b.lay(n)
	}
	n.Merge(1, len(n.names)-1)
	n.names = []string{"block", "all"}
	n.split("all", b.Near*b.Far, b.Vector, "step", "vector")
	n.split("step", b.Near*b.Far/b.Vector, b.Threads, "step", "thread")
	return n.Err
}

// windowLoops returns the names of the loops of near tensors over windows, but for vectors.
func (b *builder) windowLoops() []string {
	names := []string{"block"}
	if b.Lanes < b.Near/b.Vector {
		names = append(names, "part")
	}
	if b.Threads/b.Lanes < b.Far {
		names = append(names, "step")
	}
	return append(names, "row", "lane")
}

// pieces returns the loops of v in a tile split as cells are: the far run into accesses of
// columns, the near one into rows of a cell, unless that is whole.
func (b *builder) pieces(v core.ValID) *nest {
	n := &nest{scheduler.Nest{Schedule: b.s, Tensor: v}, []string{"block", "far", "near"}}
	if !b.Whole && !b.Window {
		n.split("near", b.Near, b.Cell, "cell", "row")
		n.split("far", b.Far, b.Access, "access", "column")
	}
	return n
}

// farLoops gives v, of x, blocks, steps of a thread, threads, and a cell. Its innermost loop is
// along the memory of the far tensor, or that of the near ones if it isTurned.
func (b *builder) farLoops(x *exchange, v core.ValID, isTurned bool) error {
	n := b.pieces(v)
	if v == x.tile {
		b.lay(n)
	}
	var inner, steps int64
	var outer string
	if b.Whole {
		n.split("far", b.Far, b.Access, "access", "column")
		if inner = b.Access; isTurned {
			n.merge("column", "near", "row")
			inner = b.rowOfWhole()
			n.split("row", b.Access*b.Near, inner, "near", "column")
		}
		n.order("block", "access", "near", "column")
		outer, steps = "near", b.Far/b.Access
	} else {
		innermost := "column"
		outer = "row"
		if inner = b.Access; isTurned {
			outer, innermost = innermost, outer
			inner = b.Cell
		}
		n.order("block", "cell", "access", outer, innermost)
		n.merge("cell", "access", "access")
		steps = b.Near * b.Far / (b.Cell * b.Access)
	}
	n.split("access", steps, b.Threads, "access", "thread")
	if v == x.moved && b.Unswitch && steps > b.Threads {
		n.unswitch("access", scheduler.CeilDiv(steps, b.Threads))
	}
	n.run("block", schedule.BIDx)
	n.run("access", schedule.Unroll)
	n.run("thread", schedule.TIDx)
	n.run(outer, schedule.Unroll)
	switch {
	case inner == 1:
	case v == x.turned:
		n.run(n.names[len(n.names)-1], schedule.Unroll)
	default:
		n.run(n.names[len(n.names)-1], schedule.Vectorize)
	}
	return n.Err
}

// rowOfWhole returns the elements of an access to the tile in far loops that have all of near
// runs.
func (b *builder) rowOfWhole() int64 {
	w := int64(1)
	for 2*w <= b.Cell && b.Access*b.Near%(2*w) == 0 {
		w *= 2
	}
	return w
}

// lay lays out n, a tile, as near tensors lie in memory: in vectors of the rows of cells, of which
// the column is permuted by the access of far tensors that they belong to.
func (b *builder) lay(n *nest) {
	if n.Err == nil {
		n.Err = b.s.SetAllocation(n.Tensor, n.loop("block", "access", "far", "column", "cell", "near", "row"), nil)
	}
	row, column := n.at("access"), len(n.loop("block", "access", "column"))
	if n.Err == nil && row > 0 && n.at("cell") > 0 {
		n.Err = b.s.SwizzleXOR(n.Tensor, row, column)
	}
}

// access gives the copies between registers and a tile in near loops the accesses that
// vectors of the tile allow.
func (b *builder) access(x exchange) error {
	v := x.read
	if x.isOutput {
		v = x.tile
	}
	w := b.Vector
	if !b.Whole {
		w = min(w, b.Cell)
	}
	if b.Window {
		w = 1
	}
	for w*x.bytes > accessBytes {
		w /= 2
	}
	return space.Widen(b.s, v, b.Vector, w)
}
