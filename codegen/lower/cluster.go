package lower

import (
	"maps"
	"math/bits"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/memory"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/schedule"
)

// maxCluster is how many blocks a cluster may have on some device: more than 8
// need one that takes them.
const maxCluster = 16

// bindCluster gives an axis that is spread over a cluster the blocks that follow
// each other along x: the rank is the remainder of a block's number.
func (l *lowering) bindCluster() error {
	d, x := l.dimension(schedule.Cluster), l.dimension(schedule.BIDx)
	if !d.used {
		return nil
	}
	n, ok := l.t.ConstInt(d.extent)
	if !ok || n > maxCluster || bits.OnesCount64(uint64(n)) != 1 {
		return l.refuse("cluster size", l.clustered(), "%s runs over the blocks of a cluster, of which there are %s: there must be 2, 4, 8 or 16",
			l.f.Name(l.clustered()), l.b.Kernel().Expr(d.extent))
	}
	k, blocks := l.b.Kernel(), d.extent
	if x.used {
		blocks = l.t.Mul(x.extent, d.extent)
	}
	k.Launch.Cluster[0], k.Launch.Grid[0] = n, blocks
	bx := l.b.Symbol("bx", kir.BlockIdx, 0, dtype.Index, below(l.t.Facts(blocks)))
	x.symbol, d.symbol = l.t.FloorDiv(bx, d.extent), l.t.Mod(bx, d.extent)
	return nil
}

// clustered returns a tensor that runs over the blocks of a cluster.
func (l *lowering) clustered() core.ValID {
	for _, v := range l.s.Tensors() {
		for _, a := range l.tensors[v].loop {
			if l.parallel(a) == schedule.Cluster {
				return v
			}
		}
	}
	return core.NoVal
}

// send leaves the parts of groups of lanes in a row of scratch memory of every
// block of the cluster: each lane does it for some of the blocks. What arrives is
// counted and waited for, where that is done once: a barrier of the cluster would wait for
// all that its threads have stored anywhere. A softmax of 2048 x 131072 bfloat16 takes
// 261 us on an H200 so, and 287 with barriers.
func (m *meeting) send(scratch map[*exchange]scratch, lane index, lanes int64, row, column index, columns int64) {
	arrivals, isCounted := m.expect(lanes)
	for first := int64(0); first < m.ranks; first += lanes {
		to := m.t.Add(lane, m.t.Int(first))
		m.whenever(m.t.Lt(to, m.t.Int(m.ranks)), func() {
			m.eachPart(m.list, func(x *exchange, i index) {
				for k, v := range m.state(x, i) {
					if !x.isShared(k) {
						continue
					}
					dst := scratch[x].at(m, k, row, m.t.Add(m.t.Mul(i, m.t.Int(columns)), column))
					m.b.Add(kir.Send{Dst: dst, Rank: to, Value: v, Counted: isCounted, Arrivals: arrivals})
				}
			})
		})
	}
	if isCounted {
		m.b.Add(kir.Arrived{Arrivals: arrivals})
	}
}

// expect returns a word that counts what each block is sent by groups of so many lanes, if it
// can be counted: a word counts once.
func (m *meeting) expect(lanes int64) (kir.BufferID, bool) {
	bytes := int64(0)
	for _, x := range m.list {
		for k := range x.parts {
			if !x.isShared(k) {
				continue
			}
			n := int64(x.fold.types[k].Size())
			if n != 4 && n != 8 {
				return 0, false
			}
			bytes += x.count * n
		}
	}
	threads := m.size[0] * m.size[1] * m.size[2]
	if m.serial != nil || threads%lanes != 0 {
		return 0, false
	}
	word := m.sharedBuffer(m.name("arrivals"), dtype.Int, m.t.Int(1))
	m.starting.Then = append(m.starting.Then, kir.Expect{Arrivals: word, Bytes: bytes * m.ranks * threads / lanes})
	return word, true
}

// acrossCluster combines what the blocks of a cluster have, each in all its threads.
func (m *meeting) acrossCluster() {
	if m.ranks == 1 {
		return
	}
	at, n := m.linear(m.dims)
	column, columns := m.linear(m.kept)
	scratch := m.scratch(m.ranks, columns, false)
	m.send(scratch, at, n, m.dimension(schedule.Cluster).symbol, column, columns)
	m.eachPart(m.list, func(x *exchange, i index) {
		var states [][]kir.ValueID
		for rank := range m.ranks {
			states = append(states, m.read(x, scratch, m.t.Bool(true), m.t.Int(rank), m.t.Add(m.t.Mul(i, m.t.Int(columns)), column)))
		}
		m.set(x, i, m.combineAll(x.fold, states))
	})
	m.multiply(m.ranks)
}

// countArrivals decides which sends are counted: what all threads send once. What is sent in a
// loop or on a condition is ordered by barriers, and so is all if the words that count cost a
// multiprocessor one of its blocks, or are too much for one: rows in shared memory take all
// that there is. The backward of a batch norm of 64 x 256 x 56 x 56 took 104 us with one block
// and 94 with two.
func (l *lowering) countArrivals() {
	k, times := l.b.Kernel(), map[kir.BufferID]int{}
	for _, s := range k.Body {
		if s, ok := s.(kir.Arrived); ok {
			times[s.Arrivals]++
		}
	}
	maps.DeleteFunc(times, func(_ kir.BufferID, n int) bool { return n > 1 })
	l.count(times)
	if len(times) == 0 {
		return
	}
	threads := int64(1)
	for _, n := range k.Launch.Block {
		n, _ := l.t.ConstInt(n)
		threads *= max(n, 1)
	}
	bytes, err := memory.Shared(k, memory.Options{})
	if err != nil || memory.Hopper(threads, bytes) < memory.Hopper(threads, bytes-int64(len(times))*wordBytes) {
		l.count(nil)
	}
}

// wordBytes are those that a word takes, with what aligns it.
const wordBytes = 16

// count leaves those words that count what is sent, and barriers to the rest.
func (l *lowering) count(words map[kir.BufferID]int) {
	k, all := l.b.Kernel(), map[kir.BufferID]bool{}
	k.Body.Walk(func(s kir.Statement) {
		if s, ok := s.(kir.Expect); ok {
			all[s.Arrivals] = true
		}
	})
	var settle func(b kir.Block) kir.Block
	settle = func(b kir.Block) kir.Block {
		var out kir.Block
		for _, s := range b {
			switch x := s.(type) {
			case *kir.For:
				x.Body = settle(x.Body)
			case *kir.If:
				x.Then, x.Else = settle(x.Then), settle(x.Else)
			case kir.Send:
				if x.Counted = x.Counted && words[x.Arrivals] > 0; !x.Counted {
					x.Arrivals = 0
				}
				s = x
			case kir.Arrived:
				if words[x.Arrivals] == 0 {
					continue
				}
			case kir.Declare:
				if all[x.Buffer] {
					continue
				}
			case kir.Expect:
				if words[x.Arrivals] == 0 {
					continue
				}
				out = append(out, kir.Declare{Buffer: x.Arrivals})
			}
			out = append(out, s)
		}
		return out
	}
	k.Body = settle(k.Body)
}
