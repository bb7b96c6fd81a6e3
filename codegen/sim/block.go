package sim

import (
	"fmt"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
)

// A block is a thread block that is executed. Its threads run in lockstep:
// each statement is executed by the active ones, in the order of lanes, before
// the next begins.
type block struct {
	m      *machine
	p      *program
	number int32

	lanes []int32 // active threads, those of a warp together and in order
	masks []mask  // lanes is that of the last one
	newID uint64  // of the next mask

	values []indexValue // by node
	bound  []uint64     // by symbol: when it got its value
	time   uint64       // grows when a symbol gets a value
	loop   []kir.SymbolID

	registers []*lanes // by buffer: element e of thread t is at e*threads + t
	shared    memory
	copies    [][]asyncCopy // by thread, not landed
	groups    []int         // by thread: commits so far

	// See order.go.
	epoch        int32
	turn         []int32  // by warp
	phase        int32    // barriers of groups so far: all groups come to each
	span         []uint32 // by warp
	turnStart    []uint32 // by warp: the first span of turn
	known        *clock
	publications map[int32]*publication

	// Of a launch whose blocks take turns.
	yield   func() bool // lets other blocks go on; false ends the run
	waiting *access     // the grid barrier that it is at
	waitsOn word

	// Of a cluster.
	peers    []*block   // by rank, b among them
	meets    *statement // the barrier that it is at
	starts   starting
	ended    bool
	received []sent                 // by rank: the last element that a block has sent
	expected map[kir.BufferID]int64 // bytes to be sent yet, by what counts them

	bytes [16]byte // scratch
	seen  []int64
}

// A mask is a set of active threads. Its id is not used for another set.
type mask struct {
	id    uint64
	lanes []int32
	warps []uint32 // bits of lanes
}

func newBlock(m *machine) *block {
	p := m.program
	b := &block{m: m, p: p, time: 1, values: make([]indexValue, len(p.nodes)), bound: make([]uint64, len(p.k.Symbols)),
		registers: make([]*lanes, len(p.k.Buffers)), copies: make([][]asyncCopy, m.threads), groups: make([]int, m.threads),
		turn: make([]int32, m.warps), span: make([]uint32, m.warps), turnStart: make([]uint32, m.warps)}
	b.shared = memory{data: make([]byte, m.sharedBytes), cells: make([]cell, m.sharedBytes>>m.sharedShift), shift: m.sharedShift}
	b.push(m.order)
	for i, s := range p.k.Symbols {
		if s.Kind == kir.Parameter {
			b.set(kir.SymbolID(i), m.parameters[kir.SymbolID(i)])
		}
		if s.Kind != kir.ThreadIdx {
			continue
		}
		x := b.bind(kir.SymbolID(i))
		stride := int64(1)
		for d := range s.Dim {
			stride *= m.dim[d]
		}
		for l := range x.v {
			x.v[l] = int64(l) / stride % m.dim[s.Dim]
		}
		b.checkFacts(kir.SymbolID(i), nil)
	}
	return b
}

// start makes b the block with a number, with nothing in its memory.
func (b *block) start(number int32) {
	b.number, b.epoch, b.phase, b.known, b.publications, b.starts = number, 0, 0, nil, nil, untold
	clear(b.shared.cells)
	for l := range b.copies {
		b.copies[l] = b.copies[l][:0]
	}
	for w := range b.span {
		b.startTurn(int32(w))
	}
	n := int64(number)
	position := [3]int64{n % b.m.grid[0], n / b.m.grid[0] % b.m.grid[1], n / b.m.grid[0] / b.m.grid[1]}
	for i, s := range b.p.k.Symbols {
		switch s.Kind {
		case kir.BlockIdx:
			b.set(kir.SymbolID(i), position[s.Dim])
			b.checkFacts(kir.SymbolID(i), nil)
		case kir.ClusterIdx:
			b.set(kir.SymbolID(i), position[s.Dim]%max(b.m.k.Launch.Cluster[s.Dim], 1))
			b.checkFacts(kir.SymbolID(i), nil)
		}
	}
}

// run executes statements. It reports whether to go on.
func (b *block) run(list []*statement) bool {
	if len(b.lanes) == 0 {
		return true
	}
	var warps int64
	for _, bits := range b.masks[len(b.masks)-1].warps {
		warps += truth(bits != 0)
	}
	for _, s := range list {
		b.m.counters.Statements += int64(len(b.lanes))
		b.m.counters.WarpStatements += warps
		b.m.poll()
		if b.m.stopped || !s.run(b) {
			return false
		}
	}
	return true
}

// within executes statements for some of the active threads.
func (b *block) within(lanes []int32, list []*statement) bool {
	switch {
	case len(lanes) == 0 || len(list) == 0:
		return true
	case len(lanes) == len(b.lanes):
		return b.run(list)
	}
	b.push(lanes)
	ok := b.run(list)
	b.pop()
	return ok
}

func (b *block) push(lanes []int32) {
	if len(b.masks) < cap(b.masks) {
		b.masks = b.masks[:len(b.masks)+1] // has room for warps already
	} else {
		b.masks = append(b.masks, mask{})
	}
	top := &b.masks[len(b.masks)-1]
	b.newID++
	top.id, top.lanes = b.newID, lanes
	if top.warps == nil {
		top.warps = make([]uint32, b.m.warps)
	}
	clear(top.warps)
	for _, l := range lanes {
		top.warps[l>>5] |= 1 << (l & 31)
	}
	b.lanes = lanes
}

func (b *block) pop() {
	b.masks = b.masks[:len(b.masks)-1]
	b.lanes = b.masks[len(b.masks)-1].lanes
}

// divide returns those of some active threads for which a condition holds, and
// the others.
func (b *block) divide(cond int32, lanes []int32, at *statement) (yes, no []int32) {
	n, x := &b.p.nodes[cond], b.index(cond)
	tainted := x.tainted || n.uniform && x.flaw != 0
	if n.uniform && !tainted {
		if x.u != 0 {
			return lanes, nil
		}
		return nil, lanes
	}
	count := 0
	for _, l := range lanes {
		if t := x.flawAt(n, l); tainted && t != 0 {
			b.effect(t, Finding{Thread: int(l)}, "the condition", at)
		}
		count += int(truth(x.at(n, l) != 0))
	}
	if count == len(lanes) {
		return lanes, nil
	} else if count == 0 {
		return nil, lanes
	}
	both := make([]int32, len(lanes))
	yes, no = both[:0:count], both[count:count]
	for _, l := range lanes {
		if x.at(n, l) != 0 {
			yes = append(yes, l)
		} else {
			no = append(no, l)
		}
	}
	return yes, no
}

// bind begins a new value of a symbol, and returns where to put it.
func (b *block) bind(s kir.SymbolID) *indexValue {
	node := b.p.nodeOfSymbol[s]
	x := &b.values[node]
	b.time++
	b.bound[s], x.time = b.time, b.time
	x.tainted, x.flaw = false, 0
	if !b.p.nodes[node].uniform && x.v == nil {
		x.v, x.taint = make([]int64, b.m.threads), make([]uint8, b.m.threads)
	}
	return x
}

// give gives a symbol its value in one thread: as a number of the kernel's
// index type.
func (b *block) give(x *indexValue, lane int32, n int64, taint uint8) {
	n, flaw := b.p.wrapped(n)
	x.v[lane], x.taint[lane] = n, taint|flaw
	x.tainted = x.tainted || x.taint[lane] != 0
}

// set gives a symbol that all threads share a value.
func (b *block) set(s kir.SymbolID, n int64) {
	x := b.bind(s)
	x.u, x.flaw = n, 0
	if b.p.k.Scalars.Type(b.p.k.Symbols[s].Expr) == dtype.Index {
		x.u, x.flaw = b.p.wrapped(n)
	}
}

// checkFacts reports a symbol whose value contradicts what the simplifier was
// told.
func (b *block) checkFacts(s kir.SymbolID, at *statement) {
	node := b.p.nodeOfSymbol[s]
	n, x := &b.p.nodes[node], &b.values[node]
	facts := b.p.k.Scalars.Facts(n.id)
	wrong := func(lane int32) {
		f := Finding{Kind: WrongFacts, Block: int(b.number), Thread: int(lane), Detail: fmt.Sprintf("%s is %d, which is not a multiple of %d in [%d, %d]",
			b.p.k.Symbols[s].Name, x.at(n, lane), facts.Divisor, facts.Lo, facts.Hi)}
		if at != nil {
			f.Statement = b.p.text(at.number)
		}
		b.m.add(f, at, int32(s))
	}
	if n.uniform {
		if x.flaw == 0 && !facts.Hold(x.u) {
			wrong(0)
		}
		return
	}
	for _, l := range b.lanes {
		if (!x.tainted || x.taint[l] == 0) && (x.v[l] < facts.Lo || x.v[l] > facts.Hi || facts.Divisor != 1 && !facts.Hold(x.v[l])) {
			wrong(l)
			return
		}
	}
}

// repeat executes a loop over [start, stop).
func (b *block) repeat(at *statement, symbol kir.SymbolID, bounds [3]int32, body []*statement) bool {
	var nodes [3]*indexNode
	var values [3]*indexValue
	uniform, flawed := true, false
	for i, k := range bounds {
		nodes[i], values[i] = &b.p.nodes[k], b.index(k)
		uniform = uniform && nodes[i].uniform
		for _, l := range b.lanes {
			if t := values[i].flawAt(nodes[i], l); t != 0 {
				flawed = true
				b.effect(t, Finding{Thread: int(l)}, "a bound of the loop", at)
			}
			if nodes[i].uniform {
				break
			}
		}
	}
	if flawed {
		return true
	}
	if uniform {
		start, stop, step := values[0].u, values[1].u, values[2].u
		if step < 1 {
			b.found(Finding{Kind: Deadlock, Detail: fmt.Sprintf("the step of the loop is %d", step)}, at)
			return true
		}
		for i := start; i < stop; i += step {
			b.set(symbol, i)
			if b.checkFacts(symbol, at); !b.run(body) {
				return false
			}
			if next, flaw := b.p.wrapped(i + step); flaw != 0 || next < i {
				b.effect(overflowed, Finding{}, "the loop index after the loop", at)
				return true
			}
		}
		return true
	}
	return b.repeatVarying(at, symbol, nodes, values, body)
}

// repeatVarying is repeat where threads have loops of different length.
func (b *block) repeatVarying(at *statement, symbol kir.SymbolID, nodes [3]*indexNode, values [3]*indexValue, body []*statement) bool {
	threads := b.m.threads
	i, stop, step := make([]int64, threads), make([]int64, threads), make([]int64, threads)
	active := make([]int32, 0, len(b.lanes))
	for _, l := range b.lanes {
		i[l], stop[l], step[l] = values[0].at(nodes[0], l), values[1].at(nodes[1], l), max(values[2].at(nodes[2], l), 1)
		if i[l] < stop[l] {
			active = append(active, l)
		}
	}
	ok := true
	for ok && len(active) > 0 {
		whole := len(active) == len(b.lanes)
		if !whole {
			b.push(active)
		}
		if b.p.uniformSymbol[symbol] {
			b.set(symbol, i[active[0]])
		} else {
			x := b.bind(symbol)
			for _, l := range active {
				x.v[l] = i[l]
			}
		}
		b.checkFacts(symbol, at)
		if ok = b.run(body); !whole {
			b.pop()
		}
		next := make([]int32, 0, len(active))
		for _, l := range active {
			if i[l] += step[l]; i[l] < stop[l] {
				next = append(next, l)
			}
		}
		active = next
	}
	return ok
}

// declareLocal begins the life of registers.
func (b *block) declareLocal(id kir.BufferID, size int) {
	r := b.registers[id]
	if r == nil {
		r = makeLanes(b.p.k.Buffers[id].DType, size*b.m.threads)
		b.registers[id] = r
	}
	for e := range size {
		row := r.taint[e*b.m.threads : (e+1)*b.m.threads]
		for _, l := range b.lanes {
			row[l] = undefined
		}
	}
}

// converged reports threads that are not active at a barrier.
func (b *block) converged(at *statement) {
	b.m.counters.Barriers++
	if n := len(b.lanes); n < b.m.threads {
		b.found(Finding{Kind: DivergentBarrier, Thread: int(b.lanes[0]), Detail: fmt.Sprintf("%d of %d threads reach it", n, b.m.threads)}, at)
	}
}

func (b *block) warpBarrier(at *statement) {
	for w, bits := range b.masks[len(b.masks)-1].warps {
		if bits == 0 {
			continue
		}
		if bits != b.m.warpLanes(w) {
			b.found(Finding{Kind: DivergentBarrier, Thread: w * 32, Detail: "some lanes of the warp do not reach it"}, at)
		}
		b.syncWarp(int32(w))
	}
}

// fenceAll executes a fence of grid scope by the active threads.
func (b *block) fenceAll() {
	for _, l := range b.lanes {
		b.fence(l)
	}
	for w, bits := range b.masks[len(b.masks)-1].warps {
		if bits != 0 {
			b.startSpan(int32(w))
		}
	}
}

// gridBarrier waits for all blocks.
func (b *block) gridBarrier(a *access) bool {
	b.converged(a.at)
	w := b.locate(a)
	if len(w.lanes) == 0 {
		return true
	}
	b.waiting, b.waitsOn = a, word{b.memoryOf(a), w.element(w.lanes[0]) * int64(a.element)}
	if !b.m.k.Launch.Cooperative {
		b.found(Finding{Kind: Deadlock, Thread: int(b.lanes[0]), Detail: "blocks of a launch that is not cooperative may not wait for each other"}, a.at)
		b.m.stuck = true
		return false
	}
	return b.yield()
}
