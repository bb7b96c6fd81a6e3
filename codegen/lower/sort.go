package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A sorting puts the positions of the elements of a line in the order of these, by a bitonic
// network over records of an element's order and its position: no two are equal, so that the
// result is the same however it is computed. The network is the one whose comparisons all
// have the smaller record first: runs of a size are merged by comparing the first of one with
// the last of the other, and so on, then what is half as far apart, and so on.
//
// If the first elements alone are wanted, runs grow to their number; then of two runs the
// smaller half is kept, by both.
type sorting struct {
	*line
	e     *core.Expr
	types []dtype.Type // of the fields of a record, the most significant first
	low   int          // bits of the last field that are the position, below others; 0: all
	keep  int64        // elements of a run, at most

	shared [2][]kir.BufferID // to exchange records between warps, in turn
	turn   int
}

// sort puts records of the line in order.
func (y *line) sort() error {
	s := &sorting{line: y, e: y.f.Expr(y.x.id)}
	y.x.sorted = s
	operand := y.f.TensorArgs(s.e)[0]
	dim, _ := dimOf(s.e)
	if y.steps != 1 || y.each&(y.each-1) != 0 {
		return y.refuse("line", y.v, "%s is sorted by threads that each have a power of two of consecutive elements: its dimension is split otherwise", y.f.Name(y.v))
	}
	capacity := y.threads * y.each
	if n, ok := y.mostAlong(operand, dim); !ok || n > capacity {
		return y.refuse("line", y.v, "%s is sorted by threads that have %d elements together, and there may be more of %s: split its dimension whole", y.f.Name(y.v), capacity, y.f.Name(operand))
	}
	if y.s.Memory(operand) != schedule.Shared {
		return y.refuse("exchange", operand, "%s is sorted, which threads do that read elements of each other: keep it in shared memory", y.f.Name(operand))
	}
	s.keep = capacity
	if n := y.t.Facts(y.extent(y.axis)).Hi; n < capacity {
		for s.keep = 1; s.keep < n; s.keep *= 2 {
		}
	}
	s.setFields(y.f.Val(operand).DType, capacity)
	if err := s.collect(operand, dim); err != nil {
		return err
	}
	s.network(capacity)
	return nil
}

// mostAlong returns how many elements v has along a dimension, at most, by the loops that it
// is computed in.
func (y *line) mostAlong(v core.ValID, dim int) (int64, bool) {
	axis := y.f.Axes(v)[dim]
	if n, ok := y.t.ConstInt(y.extent(axis)); ok {
		return n, true
	}
	most, found := int64(1), false
	for _, a := range y.tensors[v].loop {
		is, isAlone := y.along(a, axis)
		n, isConst := y.t.ConstInt(y.extent(a))
		if is && !(isAlone && isConst) {
			return 0, false
		}
		if is {
			most, found = most*n, true
		}
	}
	return most, found
}

// setFields chooses what records of elements of type t are made of.
func (s *sorting) setFields(t dtype.Type, capacity int64) {
	of, bits := kir.OrderType(t)
	switch {
	case bits <= 16 && capacity <= 1<<16:
		s.types, s.low = []dtype.Type{dtype.Int32}, 16
	case bits <= 32:
		s.types, s.low = []dtype.Type{dtype.Int}, 32
	default:
		s.types = []dtype.Type{of, dtype.Int32}
	}
	for _, t := range s.types {
		s.x.parts = append(s.x.parts, s.b.Local(s.name("record"), t, s.shape()...))
	}
}

// shape is that of what a thread has of records.
func (s *sorting) shape() []int64 {
	if s.x.count == 1 {
		return nil
	}
	return []int64{s.x.count}
}

// collect makes the records of the thread, of elements that are as far apart as there are
// threads: what stands first is of no account.
func (s *sorting) collect(operand core.ValID, dim int) error {
	length := s.lowering.size(s.f.Shape(operand)[dim])
	for _, class := range s.x.loops { // reads are not at their index
		if value, isLoop := s.only(class); isLoop {
			s.loops[class] = s.t.Int(0)
		} else {
			s.loops[class] = value
		}
	}
	c := s.context(s.v, false)
	o := c.operand(s.e, 0)
	descending := s.e.Args[2]
	if s.e.Op == core.TopkOp {
		descending = s.e.Args[3]
	}
	exists, err := c.hasLine(o, dim)
	if err != nil {
		return err
	}
	s.b.Repeat(s.loopName(), s.each, kir.UnrollFull, func(i index) {
		at := s.t.Add(s.t.Mul(i, s.t.Int(s.threads)), s.tid())
		o.at[dim] = at
		s.b.If(s.t.And(exists, s.t.Lt(at, length)), func() {
			var x kir.ValueID
			if x, err = c.loadAt(o); err != nil {
				return
			}
			order := s.b.Order(x)
			if descending.Bool() {
				order = s.b.Op(core.BitwiseNotOp, order)
			}
			s.set(i, s.record(order, at))
		}, func() { s.set(i, s.last()) })
	})
	return err
}

// hasLine returns the condition that o has elements at the indices of its dimensions but dim
// that the statement has: some threads may have none.
func (c *context) hasLine(o operand, dim int) (scalar.ID, error) {
	exists := c.t.Bool(true)
	for i, a := range c.f.Axes(o.v) {
		if i == dim || o.axis[i] == core.NoAxis || c.isBroadcast(a) {
			continue
		}
		at, ok := c.elements(c.start, []core.AxisID{o.axis[i]}, c.tensor.resizes)
		if !ok {
			return exists, c.refuse("index", c.tensor.v, "the loops of %s do not lead to dimension %d of %s, which it reads", c.f.Name(c.tensor.v), i, c.f.Name(o.v))
		}
		exists = c.t.And(exists, c.t.Lt(at[0], c.extent(a)))
	}
	return exists, nil
}

func (s *sorting) tid() index {
	if s.threads == 1 {
		return s.t.Int(0)
	}
	return s.thread(0)
}

// record returns the fields of an element's order and position.
func (s *sorting) record(order kir.ValueID, at index) []kir.ValueID {
	last := s.types[len(s.types)-1]
	position := s.b.Index(last, at)
	if s.low == 0 {
		return []kir.ValueID{order, position}
	}
	high := s.b.Op(core.MulOp, s.b.Cast(last, order), s.b.Number(last, 1<<s.low))
	return []kir.ValueID{s.b.Op(core.AddOp, high, position)}
}

// last returns a record that follows those of all elements.
func (s *sorting) last() []kir.ValueID {
	var fields []kir.ValueID
	for _, t := range s.types {
		most := int64(1<<31 - 1)
		if t == dtype.Int {
			most = 1<<63 - 1
		}
		fields = append(fields, s.b.Number(t, most))
	}
	return fields
}

// positionIn returns the position that a record has.
func (s *sorting) positionIn(fields []kir.ValueID) kir.ValueID {
	last := fields[len(fields)-1]
	if s.low > 0 {
		last = s.b.Op(core.BitwiseAndOp, last, s.b.Number(s.types[0], 1<<s.low-1))
	}
	return s.b.Cast(dtype.Int, last)
}

func (s *sorting) at(i index) []kir.Access {
	all := make([]kir.Access, len(s.types))
	for k := range all {
		all[k] = s.access(s.x, k, i)
	}
	return all
}

func (s *sorting) get(i index) []kir.ValueID {
	var fields []kir.ValueID
	for _, a := range s.at(i) {
		fields = append(fields, s.temporary("field", s.loadFrom(a)))
	}
	return fields
}

func (s *sorting) set(i index, fields []kir.ValueID) {
	for k, a := range s.at(i) {
		s.b.Add(kir.Assign{Dst: a, Value: fields[k]})
	}
}

// network sorts the records of all threads. If a warp keeps few of its records, those are
// all that fewer warps go on with.
func (s *sorting) network(capacity int64) {
	group := warp * s.each // records of a warp
	if capacity <= group || 2*s.keep > group {
		s.merge(2, capacity)
		return
	}
	s.merge(2, group)
	for capacity > group {
		runs := capacity / group
		records := s.collapse(runs)
		capacity = max(group, runs*s.keep)
		s.spread(records, runs*s.keep)
		s.b.If(s.t.Lt(s.tid(), s.t.Int(capacity/s.each)), func() { s.merge(2*s.keep, min(group, runs*s.keep)) }, nil)
	}
}

// merge makes of runs of half of size ones of size, and so on up to most.
func (s *sorting) merge(size, most int64) {
	for ; size <= most; size *= 2 {
		s.compare(size, true, size > s.keep)
		for apart := min(size/4, s.keep/2); apart > 0; apart /= 2 {
			s.compare(apart, false, false)
		}
	}
}

// collapse writes to shared memory what a run of each of so many warps keeps.
func (s *sorting) collapse(warps int64) []kir.BufferID {
	lane, _ := s.lane(s.dims)
	number, _ := s.warps(s.dims)
	row, rows := s.linear(s.kept)
	var records []kir.BufferID
	for _, t := range s.types {
		id := s.sharedBuffer(s.name("kept"), t, s.t.Int(rows), s.t.Int(warps*s.keep))
		s.b.Add(kir.Declare{Buffer: id})
		records = append(records, id)
	}
	each := min(s.each, s.keep)
	s.b.If(s.t.And(s.t.Lt(s.tid(), s.t.Int(warps*warp)), s.t.Lt(lane, s.t.Int(s.keep/each))), func() {
		s.b.Repeat(s.loopName(), each, kir.UnrollFull, func(i index) {
			at := s.t.Add(s.t.Mul(number, s.t.Int(s.keep)), s.t.Add(s.t.Mul(lane, s.t.Int(each)), i))
			for k, a := range s.at(i) {
				s.b.Store(s.loadFrom(a), records[k], row, at)
			}
		})
	}, nil)
	return records
}

// spread gives each thread its part of n records.
func (s *sorting) spread(records []kir.BufferID, n int64) {
	row, _ := s.linear(s.kept)
	s.b.Repeat(s.loopName(), s.each, kir.UnrollFull, func(i index) {
		at := s.t.Add(s.t.Mul(s.tid(), s.t.Int(s.each)), i)
		s.b.If(s.t.Lt(at, s.t.Int(n)), func() {
			for k, a := range s.at(i) {
				s.b.Add(kir.Assign{Dst: a, Value: s.b.Load(records[k], row, at)})
			}
		}, nil)
	})
}

// compare compares each record with the one that is so far apart, or with isMirrored, with the one
// at the same place from the other end of a run of so many. The smaller record goes first,
// or with isBoth to both places.
func (s *sorting) compare(n int64, isMirrored, isBoth bool) {
	inThread := s.each // records from which partners are in other threads
	if isMirrored {
		inThread *= 2
	}
	if n < inThread {
		s.b.Repeat(s.loopName(), s.each/2, kir.UnrollFull, func(j index) {
			half, length := n, 2*n
			if isMirrored {
				half, length = n/2, n
			}
			first := s.t.Add(s.t.Mul(s.t.FloorDiv(j, s.t.Int(half)), s.t.Int(length)), s.t.Mod(j, s.t.Int(half)))
			second := s.t.Add(first, s.t.Int(half))
			if isMirrored {
				second = s.t.Sub(s.t.Add(s.t.Mul(s.t.FloorDiv(j, s.t.Int(half)), s.t.Int(2*length)), s.t.Int(length-1)), first)
			}
			s.exchange(first, second, isBoth)
		})
		return
	}
	threads := n / s.each // apart, or of two runs
	isFirst := kir.NoValue
	if half := threads; !isBoth {
		if isMirrored {
			half /= 2
		}
		isFirst = s.temporary("isFirst", s.b.Index(dtype.Bool, s.t.Lt(s.t.Mod(s.tid(), s.t.Int(2*half)), s.t.Int(half))))
	}
	mask, width := threads, 2*threads
	if isMirrored {
		mask, width = threads-1, threads
	}
	if width <= min(warp, s.threads) {
		s.withLane(mask, width, isMirrored, isFirst)
		return
	}
	s.withWarp(threads, isMirrored, isFirst)
}

// exchange puts the smaller of two records of the thread first.
func (s *sorting) exchange(first, second index, isBoth bool) {
	a, b := s.get(first), s.get(second)
	swap := s.temporary("swap", s.less(b, a))
	s.set(first, s.choose(swap, b, a))
	if isBoth {
		s.set(second, s.choose(swap, b, a))
	} else {
		s.set(second, s.choose(swap, a, b))
	}
}

func (s *sorting) choose(cond kir.ValueID, yes, no []kir.ValueID) []kir.ValueID {
	fields := make([]kir.ValueID, len(yes))
	for k := range fields {
		fields[k] = s.b.Op(core.WhereOp, cond, yes[k], no[k])
	}
	return fields
}

// less reports whether record a is before b.
func (s *sorting) less(a, b []kir.ValueID) kir.ValueID {
	is := s.b.Op(core.LtOp, a[0], b[0])
	if len(a) == 1 {
		return is
	}
	isSame := s.b.Op(core.EqOp, a[0], b[0])
	return s.b.Op(core.LogicalOrOp, is, s.b.Op(core.LogicalAndOp, isSame, s.b.Op(core.LtOp, a[1], b[1])))
}

// take leaves at i the smaller of its record and another one if this thread is first, else
// the greater one; NoValue: the smaller one.
func (s *sorting) take(i index, other []kir.ValueID, isFirst kir.ValueID) {
	own := s.get(i)
	takes := s.less(other, own)
	if isFirst != kir.NoValue {
		takes = s.b.Op(core.EqOp, takes, isFirst)
	}
	s.set(i, s.choose(s.temporary("takes", takes), other, own))
}

// withLane compares with records of the lane whose number differs by mask, in groups of
// width lanes.
func (s *sorting) withLane(mask, width int64, isMirrored bool, isFirst kir.ValueID) {
	from := func(i index) []kir.ValueID {
		var fields []kir.ValueID
		for _, a := range s.at(i) {
			fields = append(fields, s.temporary("other", s.b.Shuffle(kir.ShuffleXor, s.loadFrom(a), mask, int(width))))
		}
		return fields
	}
	if !isMirrored || s.each == 1 {
		s.b.Repeat(s.loopName(), s.each, kir.UnrollFull, func(i index) { s.take(i, from(i), isFirst) })
		return
	}
	s.b.Repeat(s.loopName(), s.each/2, kir.UnrollFull, func(i index) {
		end := s.t.Sub(s.t.Int(s.each-1), i)
		other, ofEnd := from(end), from(i)
		s.take(i, other, isFirst)
		s.take(end, ofEnd, isFirst)
	})
}

// withWarp compares with records of other warps, through shared memory.
func (s *sorting) withWarp(threads int64, isMirrored bool, isFirst kir.ValueID) {
	row, rows := s.linear(s.kept)
	if s.shared[s.turn] == nil {
		for _, t := range s.types {
			id := s.sharedBuffer(s.name("records"), t, s.t.Int(rows), s.t.Int(s.each), s.t.Int(s.threads))
			s.b.Add(kir.Declare{Buffer: id})
			s.shared[s.turn] = append(s.shared[s.turn], id)
		}
	}
	buffers := s.shared[s.turn]
	s.turn = 1 - s.turn
	tid := s.tid()
	s.b.Repeat(s.loopName(), s.each, kir.UnrollFull, func(i index) {
		for k, a := range s.at(i) {
			s.b.Store(s.loadFrom(a), buffers[k], row, i, tid)
		}
	})
	length := 2 * threads
	with := func(i index) index { return s.t.Mod(s.t.Add(tid, s.t.Int(threads)), s.t.Int(length)) }
	if isMirrored {
		length = threads
		with = func(index) index { return s.t.Sub(s.t.Int(length-1), s.t.Mod(tid, s.t.Int(length))) }
	}
	s.b.Repeat(s.loopName(), s.each, kir.UnrollFull, func(i index) {
		from := i
		if isMirrored {
			from = s.t.Sub(s.t.Int(s.each-1), i)
		}
		at := s.t.Add(s.t.Mul(s.t.FloorDiv(tid, s.t.Int(length)), s.t.Int(length)), with(i))
		var other []kir.ValueID
		for _, id := range buffers {
			other = append(other, s.temporary("other", s.b.Load(id, row, from, at)))
		}
		s.take(i, other, isFirst)
	})
}

// storeSorted stores what some results have of the record at one place.
func (c *context) storeSorted(x *exchange, results []core.ValID) error {
	s := x.sorted
	if err := s.inOrder(c); err != nil {
		return err
	}
	dim, _ := dimOf(s.e)
	operand := c.operand(s.e, 0)
	var record []kir.ValueID
	for k := range x.parts {
		record = append(record, c.loadFrom(c.partAt(x, k)))
	}
	position := c.temporary("position", s.positionIn(record))
	for _, w := range results {
		dst, err := c.write(w)
		if err != nil {
			return err
		}
		if w == s.e.Out[len(s.e.Out)-1] {
			c.assign(dst, position)
			continue
		}
		operand.at[dim] = c.position(position, c.size(c.f.Shape(operand.v)[dim]))
		v, err := c.loadAt(operand)
		if err != nil {
			return err
		}
		c.assign(dst, v)
	}
	return nil
}
