package lower

import (
	"math/bits"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// warp is the number of lanes that shuffle.
const warp = 32

// A meeting combines the parts of exchanges over the same threads and blocks.
type meeting struct {
	*lowering
	v      core.ValID // of which a refusal speaks
	list   []*exchange
	dims   []int // of the block, reduced
	kept   []int
	blocks []schedule.Parallel // of the grid, reduced
	ranks  int64               // blocks of the cluster that have parts: 1 if it is not reduced
	size   [3]int64            // of the block
	lanes  [3]int64            // of a dimension in a warp, if whole is set
	stride [3]int64            // in lanes, along a dimension
	whole  bool                // a warp has the same shape everywhere
}

// combineParts emits what gives every thread of the block the results of the
// block, or of its cluster; of several blocks of the grid, the last one to arrive
// gets those of all.
func (l *lowering) combineParts(list []*exchange) error {
	m := &meeting{lowering: l, v: l.f.Expr(list[0].id).Out[0], list: list, ranks: 1}
	if err := m.split(list[0].across); err != nil {
		return err
	}
	m.block()
	if l.s.IsApart() {
		isGlobal := func(b kir.Buffer) bool { return b.Space == kir.Global }
		l.b.Add(kir.UnderWay{Buffer: kir.BufferID(slices.IndexFunc(l.b.Kernel().Buffers, isGlobal))})
	}
	m.forget()
	if len(m.blocks) == 0 {
		return nil
	}
	return m.grid()
}

// split sorts the dimensions. Those of the block must be constants: scratch
// memory and shuffles depend on them.
func (m *meeting) split(across []schedule.Parallel) error {
	stride := int64(1)
	m.whole = true
	for i := range 3 {
		d := m.dimension(schedule.TIDx + schedule.Parallel(i))
		m.size[i] = 1
		if d.used {
			n, ok := m.t.ConstInt(d.extent)
			if !ok {
				return m.refuse("block size", m.v, "%s is reduced across threads and the block has %s of them along %v, which is not a constant",
					m.f.Name(m.v), m.b.Kernel().Expr(d.extent), d.parallel)
			}
			if m.size[i] = n; slices.Contains(across, d.parallel) {
				m.dims = append(m.dims, i)
			} else {
				m.kept = append(m.kept, i)
			}
		}
		room := warp / stride
		m.lanes[i], m.stride[i] = min(m.size[i], room), stride
		m.whole = m.whole && m.size[i]%m.lanes[i] == 0 && bits.OnesCount64(uint64(m.lanes[i])) == 1
		stride *= m.lanes[i]
	}
	for _, p := range across {
		switch {
		case byTicket(p):
			m.blocks = append(m.blocks, p)
		case p == schedule.Cluster:
			m.ranks, _ = m.t.ConstInt(m.dimension(p).extent)
		}
	}
	if len(m.blocks) > 0 && m.ranks > 1 {
		return m.refuse("cluster reduction", m.v, "%s is reduced across the blocks of a cluster and across %v: reduce one of the two first by rfactor()", m.f.Name(m.v), m.blocks[0])
	}
	return nil
}

// thread returns the index of the thread.
func (m *meeting) thread(dim int) index {
	if d := m.dimension(schedule.TIDx + schedule.Parallel(dim)); d.used {
		return d.symbol
	}
	return m.t.Int(0)
}

// linear returns the row-major number of the thread among those that differ in
// dims, the last dimension first, and how many they are.
func (m *meeting) linear(dims []int) (index, int64) {
	return m.number(dims, func(i int) (index, int64) { return m.thread(i), m.size[i] })
}

// lane returns the number of the lane among those of a warp that differ in dims.
func (m *meeting) lane(dims []int) (index, int64) {
	return m.number(dims, func(i int) (index, int64) { return m.t.Mod(m.thread(i), m.t.Int(m.lanes[i])), m.lanes[i] })
}

// warps returns the number of the warp among those that differ in dims.
func (m *meeting) warps(dims []int) (index, int64) {
	return m.number(dims, func(i int) (index, int64) {
		return m.t.FloorDiv(m.thread(i), m.t.Int(m.lanes[i])), m.size[i] / m.lanes[i]
	})
}

func (m *meeting) number(dims []int, along func(dim int) (index, int64)) (index, int64) {
	at, n := m.t.Int(0), int64(1)
	for _, i := range slices.Backward(dims) {
		x, size := along(i)
		at = m.t.Add(m.t.Mul(at, m.t.Int(size)), x)
		n *= size
	}
	return at, n
}

// each emits body for each part of x, with the number of the part.
func (m *meeting) each(x *exchange, body func(i index)) {
	if x.count == 1 {
		body(m.t.Int(0))
		return
	}
	m.b.Repeat(m.loopName(), x.count, kir.UnrollFull, body)
}

// eachPart emits body for each part of each exchange of a list.
func (m *meeting) eachPart(list []*exchange, body func(x *exchange, i index)) {
	for _, x := range list {
		m.each(x, func(i index) { body(x, i) })
	}
}

func (m *meeting) access(x *exchange, k int, i index) kir.Access {
	if x.count == 1 {
		return m.b.At(x.parts[k])
	}
	return m.b.At(x.parts[k], i)
}

func (m *meeting) state(x *exchange, i index) []kir.ValueID {
	state := make([]kir.ValueID, len(x.parts))
	for k := range state {
		state[k] = m.partOf(x, k, func() kir.ValueID { return m.loadFrom(m.access(x, k, i)) })
	}
	return state
}

// partOf returns value k of a part of x: a number of elements that is known, or what load returns.
func (m *meeting) partOf(x *exchange, k int, load func() kir.ValueID) kir.ValueID {
	if !x.isShared(k) {
		return m.b.Number(x.fold.types[k], x.number)
	}
	return load()
}

func (m *meeting) set(x *exchange, i index, state []kir.ValueID) {
	for k, v := range state {
		if x.isShared(k) {
			m.b.Add(kir.Assign{Dst: m.access(x, k, i), Value: v})
		}
	}
}

func (m *meeting) nothing(x *exchange) []kir.ValueID {
	state := make([]kir.ValueID, len(x.parts))
	for k := range state {
		state[k] = m.b.Const(x.fold.identity(k))
	}
	return state
}

// block gives every thread the combinations of the block.
func (m *meeting) block() {
	switch {
	case len(m.dims) == 0 && m.ranks == 1:
	case !m.whole:
		if len(m.dims) > 0 {
			m.unequalWarps()
		}
		m.acrossCluster()
	default:
		_, n := m.lane(m.dims)
		_, rows := m.warps(m.dims)
		share := int64(1) // lanes that have a share of the parts each
		if m.scatters(n, rows) {
			share = n
			for _, x := range m.list {
				m.scatter(x, n)
			}
		} else {
			m.butterfly(n)
		}
		if rows*m.ranks > 1 {
			m.acrossWarps(rows, share)
		} else {
			m.equal(n)
		}
	}
}

// masks returns what the numbers of lanes are xored with to reach the other lanes
// of a group of n, of those that differ in the reduced dimensions: the greatest
// first.
func (m *meeting) masks(n int64) []int64 {
	var list []int64
	for _, i := range m.dims {
		for lane := int64(1); lane < m.lanes[i]; lane *= 2 {
			list = append(list, lane*m.stride[i])
		}
	}
	list = list[:bits.Len64(uint64(n))-1]
	slices.Reverse(list)
	return list
}

// butterfly gives each lane the combination of its group of n, in the bits of some
// order.
func (m *meeting) butterfly(n int64) {
	masks := m.masks(n)
	if len(masks) == 0 {
		return
	}
	_, lanes := m.lane(m.dims)
	_, rows := m.warps(m.dims)
	atOnce := lanes == warp && rows*m.ranks > 1 // a smaller group has the parts that others of its warp have
	var inPairs []*exchange
	for _, x := range m.list {
		if atOnce && x.fold.state == nil && hasWarpMaximum(x.fold.op.Combine().Info(), x.fold.types[0]) {
			m.each(x, func(i index) { m.set(x, i, []kir.ValueID{m.b.WarpMaximum(m.state(x, i)[0])}) })
			continue
		}
		if x.fold.state == nil || x.fold.state.mergeAll == nil {
			inPairs = append(inPairs, x)
			continue
		}
		m.each(x, func(i index) {
			m.set(x, i, x.fold.state.mergeAll(m.lowering, x.fold, [][]kir.ValueID{m.state(x, i)}, m.lanesBy(masks, atOnce)))
		})
		x.number *= 1 << len(masks)
	}
	for _, mask := range masks {
		m.eachPart(inPairs, func(x *exchange, i index) {
			own := m.state(x, i)
			other := make([]kir.ValueID, len(own))
			for k, v := range own {
				other[k] = m.temporary("other", m.b.Shuffle(kir.ShuffleXor, v, mask, int(2*masks[0])))
			}
			m.set(x, i, m.combine(x.fold, own, other))
		})
	}
}

// hasWarpMaximum reports whether one instruction folds what all lanes of a warp have by a row.
// It takes less time than five shuffles, and more of the pipe that they take: where a warp is
// all that has parts, so that nothing waits for the slowest one, a softmax of 65536 x 1023
// bfloat16 took 95.6 us with it and 94.7 without; one of 64 x 8192, of 16 warps a row, 5.9 and
// 6.0.
func hasWarpMaximum(by *core.OpInfo, t dtype.Type) bool {
	return by == core.MaximumOp && t == dtype.Float
}

// lanesBy returns the lanes that masks lead to; atOnce, they may as well be all of the warp.
func (m *meeting) lanesBy(masks []int64, atOnce bool) lanes {
	width := int(2 * masks[0])
	return lanes{1 << len(masks), func(by *core.OpInfo, v kir.ValueID) kir.ValueID {
		if atOnce && hasWarpMaximum(by, m.b.Kernel().Values[v].DType) {
			return m.b.WarpMaximum(v)
		}
		for _, mask := range masks {
			own := m.temporary("own", v)
			v = m.b.Op(by, own, m.temporary("other", m.b.Shuffle(kir.ShuffleXor, own, mask, width)))
		}
		return v
	}}
}

// firstLane returns the number of the first of the lanes that masks lead to.
func (m *meeting) firstLane(masks []int64) index {
	first := m.t.Int(0)
	for _, i := range m.kept {
		if m.stride[i] < 2*masks[0] {
			first = m.t.Add(first, m.t.Mul(m.t.Mod(m.thread(i), m.t.Int(m.lanes[i])), m.t.Int(m.stride[i])))
		}
	}
	return first
}

// equal gives the lanes of a group of n the bits of the first of them.
func (m *meeting) equal(n int64) {
	masks := m.masks(n)
	if len(masks) == 0 {
		return
	}
	first := m.firstLane(masks)
	for _, x := range m.list {
		if x.fold.isSymmetric() {
			continue
		}
		m.each(x, func(i index) {
			state := m.state(x, i)
			for k, v := range state {
				state[k] = m.temporary("first", m.b.ShuffleAt(v, first, int(2*masks[0])))
			}
			m.set(x, i, state)
		})
	}
}

// maxReads bounds what the warps of a block together read of the parts of its
// warps, in instructions. Beyond it a barrier more costs less.
const maxReads = 128

// isByColumns reports whether that is so where warps have the parts of so many lanes each.
func (m *meeting) isByColumns(rows, lanes int64) bool {
	var parts int64
	for _, x := range m.list {
		for k := range x.parts {
			if x.isShared(k) {
				parts += x.count
			}
		}
	}
	threads := m.size[0] * m.size[1] * m.size[2]
	return ((rows*m.ranks+lanes-1)/lanes)*parts*threads/warp > maxReads
}

// acrossWarps combines what groups of lanes have, in rows warps of each block of
// the cluster: they write it to shared memory, each of share lanes its own parts.
func (m *meeting) acrossWarps(rows, share int64) {
	lane, lanes := m.lane(m.dims)
	row, _ := m.warps(m.dims)
	column, columns := m.linear(m.kept)
	perLane := (rows*m.ranks + lanes - 1) / lanes
	isByColumns := m.isByColumns(rows, lanes)
	group := int64(1)
	for group < min(rows*m.ranks, lanes) {
		group *= 2
	}
	if isByColumns || group*perLane != rows*m.ranks {
		m.forget()
	}
	scratch := m.scratch(rows*m.ranks, columns, isByColumns)
	if m.ranks > 1 {
		m.equal(lanes)
		m.send(scratch, lane, lanes, m.t.Add(m.t.Mul(m.dimension(schedule.Cluster).symbol, m.t.Int(rows)), row), column, columns)
		rows *= m.ranks
	} else if share > 1 {
		m.leave(scratch, row, column, columns, share)
	} else {
		m.whenever(m.t.Eq(lane, m.t.Int(0)), func() { m.leave(scratch, row, column, columns, 1) })
	}
	if isByColumns {
		m.byColumns(scratch, rows, column, columns)
		return
	}
	at := m.t.Mod(lane, m.t.Int(group))
	m.eachPart(m.list, func(x *exchange, i index) {
		var states [][]kir.ValueID
		for j := range perLane {
			row := m.t.Add(at, m.t.Int(j*group))
			states = append(states, m.read(x, scratch, m.t.Lt(row, m.t.Int(rows)), row, m.t.Add(m.t.Mul(i, m.t.Int(columns)), column)))
		}
		m.set(x, i, m.combineAll(x.fold, states))
	})
	m.multiply(perLane)
	m.butterfly(group)
	m.equal(group)
}

// leave writes the parts of the thread to a row of scratch memory, or what it has of them as one
// of share lanes.
func (m *meeting) leave(scratch map[*exchange]scratch, row, column index, columns, share int64) {
	for _, x := range m.list {
		first := m.t.Int(0)
		if share > 1 {
			first = m.firstOfShare(x, share)
		}
		m.each(&exchange{count: x.count / share}, func(i index) {
			at := m.t.Add(m.t.Mul(m.t.Add(first, i), m.t.Int(columns)), column)
			for k, v := range m.state(x, i) {
				if x.isShared(k) {
					m.b.Add(kir.Assign{Dst: scratch[x].at(m, k, row, at), Value: v})
				}
			}
		})
	}
}

// read returns a state in scratch memory, that of nothing where it does not exist.
func (m *meeting) read(x *exchange, scratch map[*exchange]scratch, exists scalar.ID, row, column index) []kir.ValueID {
	state := make([]kir.ValueID, len(x.parts))
	own := make([]kir.BufferID, len(x.parts))
	for k := range state {
		state[k] = m.partOf(x, k, func() kir.ValueID { return m.loadFrom(scratch[x].at(m, k, row, column)) })
	}
	if n, ok := m.t.ConstInt(exists); ok && n != 0 {
		for k, v := range state {
			if len(state) > 1 && x.isShared(k) { // each is used several times
				state[k] = m.temporary("row", v)
			}
		}
		return state
	}
	for k, t := range x.fold.types {
		own[k] = m.b.Local(m.name("row"), t)
	}
	m.b.If(exists, func() {
		for k, v := range state {
			m.b.Store(v, own[k])
		}
	}, func() {
		for k, v := range m.nothing(x) {
			m.b.Store(v, own[k])
		}
	})
	for k := range state {
		state[k] = m.b.Load(own[k])
	}
	return state
}

// byColumns has each thread fold the rows of some columns, which all threads read
// after another barrier.
func (m *meeting) byColumns(scratch map[*exchange]scratch, rows int64, column index, columns int64) {
	thread, threads := m.linear([]int{0, 1, 2})
	for _, x := range m.list {
		all := columns * x.count
		if group := m.groupOf(x, all); group > 1 {
			m.byGroups(x, scratch, rows, all, group)
			continue
		}
		m.each(&exchange{count: (all + threads - 1) / threads}, func(i index) {
			at := m.t.Add(thread, m.t.Mul(i, m.t.Int(threads)))
			m.whenever(m.t.Lt(at, m.t.Int(all)), func() {
				for k, v := range m.column(x, scratch, rows, at) {
					m.b.Add(kir.Assign{Dst: scratch[x].at(m, k, m.t.Int(0), at), Value: v})
				}
			})
		})
	}
	m.fetch(scratch, column, columns)
}

// groupOf returns how many lanes of a warp next to each other fold each of all columns
// together: those that there are, of what takes many statements.
func (m *meeting) groupOf(x *exchange, all int64) int64 {
	threads := m.size[0] * m.size[1] * m.size[2]
	group := threads / all
	if x.fold.state == nil || x.fold.state.mergeAll == nil || !m.whole || group*all != threads || group > warp || threads%warp != 0 || bits.OnesCount64(uint64(group)) != 1 {
		return 1
	}
	return group
}

// byGroups has each group of lanes fold the rows of a column.
func (m *meeting) byGroups(x *exchange, scratch map[*exchange]scratch, rows, all, group int64) {
	thread, _ := m.linear([]int{0, 1, 2})
	at, lane := m.t.FloorDiv(thread, m.t.Int(group)), m.t.Mod(thread, m.t.Int(group))
	var masks []int64
	for mask := group / 2; mask > 0; mask /= 2 {
		masks = append(masks, mask)
	}
	var states [][]kir.ValueID
	for i := int64(0); i < rows; i += group {
		row := m.t.Add(lane, m.t.Int(i))
		exists := m.t.Bool(true)
		if i+group > rows {
			exists = m.t.Lt(row, m.t.Int(rows))
		}
		states = append(states, m.read(x, scratch, exists, row, at))
	}
	state := x.fold.state.mergeAll(m.lowering, x.fold, states, m.lanesBy(masks, false))
	m.whenever(m.t.Eq(lane, m.t.Int(0)), func() {
		for k, v := range state {
			m.b.Add(kir.Assign{Dst: scratch[x].at(m, k, m.t.Int(0), at), Value: v})
		}
	})
}

// maxAtOnce bounds the rows of states that a thread has in registers.
const maxAtOnce = 8

// column returns the combination of the rows of a column: all at once, or, what takes
// many statements, in a loop.
func (m *meeting) column(x *exchange, scratch map[*exchange]scratch, rows int64, at index) []kir.ValueID {
	row := func(i index) []kir.ValueID { return m.read(x, scratch, m.t.Bool(true), i, at) }
	some := func(states [][]kir.ValueID, from index, n int64) [][]kir.ValueID {
		for i := range n {
			states = append(states, row(m.t.Add(from, m.t.Int(i))))
		}
		return states
	}
	if len(x.parts) == 1 {
		return m.combineAll(x.fold, some(nil, m.t.Int(0), rows))
	}
	size := int64(1) // of those that are combined at once
	if x.fold.state.mergeAll != nil {
		size = min(rows, maxAtOnce)
	}
	first := m.combineAll(x.fold, some(nil, m.t.Int(0), size))
	if size == rows {
		return first
	}
	own, state := make([]kir.BufferID, len(x.parts)), make([]kir.ValueID, len(x.parts))
	for k, t := range x.fold.types {
		own[k] = m.b.Local(m.name("column"), t)
		state[k] = m.b.Load(own[k])
	}
	set := func(state []kir.ValueID) {
		for k, v := range state {
			m.b.Store(v, own[k])
		}
	}
	set(first)
	add := func(from index, n int64) { set(m.combineAll(x.fold, some([][]kir.ValueID{state}, from, n))) }
	whole := rows / size * size
	m.b.For(m.loopName(), m.t.Int(size), m.t.Int(whole), m.t.Int(size), kir.UnrollAuto, func(i index) { add(i, size) })
	if rest := rows - whole; rest > 0 {
		add(m.t.Int(whole), rest)
	}
	return state
}

// fetch reads the parts of the thread from the first row of scratch memory.
func (m *meeting) fetch(scratch map[*exchange]scratch, column index, columns int64) {
	m.eachPart(m.list, func(x *exchange, i index) {
		m.set(x, i, m.read(x, scratch, m.t.Bool(true), m.t.Int(0), m.t.Add(m.t.Mul(i, m.t.Int(columns)), column)))
	})
}

// maxRows bounds the rows that one thread folds where warps differ.
const maxRows = 64

// unequalWarps combines the parts of a block of which warps differ: by columns, or,
// if they are long, by folding the upper half of the threads onto the lower until
// one is left.
func (m *meeting) unequalWarps() {
	m.forget()
	column, columns := m.linear(m.kept)
	at, n := m.linear(m.dims)
	scratch := m.scratch(n, columns, false)
	m.leave(scratch, at, column, columns, 1)
	if n <= maxRows {
		m.byColumns(scratch, n, column, columns)
		return
	}
	half := int64(1)
	for half*2 < n {
		half *= 2
	}
	for ; half > 0; half /= 2 {
		upper := m.t.Add(at, m.t.Int(half))
		mask := m.t.Lt(at, m.t.Int(half))
		if 2*half > n {
			mask = m.t.And(mask, m.t.Lt(upper, m.t.Int(n)))
		}
		// Reads and writes are statements of their own: between the two of
		// different threads there is a barrier.
		m.b.If(mask, func() {
			m.eachPart(m.list, func(x *exchange, i index) {
				other := m.read(x, scratch, m.t.Bool(true), upper, m.t.Add(m.t.Mul(i, m.t.Int(columns)), column))
				m.set(x, i, m.combine(x.fold, m.state(x, i), other))
			})
		}, nil)
		m.b.If(mask, func() { m.leave(scratch, at, column, columns, 1) }, nil)
		n = half
	}
	m.fetch(scratch, column, columns)
}

// whenever emits body where cond holds.
func (l *lowering) whenever(cond scalar.ID, body func()) {
	_ = l.conditional(cond, func() error { body(); return nil })
}

// A scratch is shared memory with a state for each row and column: with those of its values that are shared.
type scratch struct {
	buffers []kir.BufferID
	turn    []index // which of two, in a loop
}

func (s scratch) at(m *meeting, k int, row, column index) kir.Access {
	return m.b.At(s.buffers[k], append(slices.Clip(s.turn), row, column)...)
}

// scratch declares shared memory for rows of the parts of columns threads. In a
// loop there are two in turn, so that what an iteration reads need not wait for
// the next one to write, unless that waits for other blocks anyway. Rows that the lanes of a group read are apart, so that they lie in
// different banks.
func (m *meeting) scratch(rows, columns int64, isByColumns bool) map[*exchange]scratch {
	out := map[*exchange]scratch{}
	for _, x := range m.list {
		var s scratch
		all := columns * x.count
		if group := m.groupOf(x, all); isByColumns && group > 1 {
			all += warp / group
		}
		shape := []index{m.t.Int(rows), m.t.Int(all)}
		isInTurn := m.serial != nil && !m.serial.waits
		if isInTurn {
			shape = append([]index{m.t.Int(2)}, shape...)
			s.turn = []index{m.t.Mod(m.serial.value, m.t.Int(2))}
		}
		for k, t := range x.fold.types {
			if !x.isShared(k) {
				s.buffers = append(s.buffers, 0)
				continue
			}
			id := m.sharedBuffer(m.name("scratch"), t, shape...)
			s.buffers = append(s.buffers, id)
			switch {
			case m.ranks > 1: // other blocks may send as soon as all have started
				m.starting.Then = append(m.starting.Then, kir.Declare{Buffer: id})
			case isInTurn:
				m.serial.before.Then = append(m.serial.before.Then, kir.Declare{Buffer: id})
			default:
				m.b.Add(kir.Declare{Buffer: id})
			}
		}
		out[x] = s
	}
	return out
}

// A serialLoop is a loop around what is being emitted.
type serialLoop struct {
	value  index
	before *kir.If // holds always; declares what outlives an iteration
	waits  bool    // each iteration waits for all blocks
}

// sharedBuffer adds a buffer that synchronise places.
func (l *lowering) sharedBuffer(name string, t dtype.Type, shape ...index) kir.BufferID {
	id := l.b.Buffer(name, kir.Shared, t, shape...)
	buffer := &l.b.Kernel().Buffers[id]
	buffer.Align, buffer.Offset = 16, l.t.Int(0)
	return id
}
