package sim

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
)

// launchClusters runs one cluster after the other. Its blocks are coroutines that
// go on together at barriers of the cluster.
func (m *machine) launchClusters() {
	size := int32(m.k.Launch.Cluster[0])
	for _, c := range m.permuted(int(m.blocks) / int(size)) {
		if !m.cluster(c*size, size) {
			return
		}
	}
}

// cluster runs size blocks from number first on, which are a cluster: clusters are
// along x, and so are the numbers of blocks. It reports whether to go on.
func (m *machine) cluster(first, size int32) bool {
	var blocks []*block
	var resume []func() (struct{}, bool)
	for rank := range size {
		b, next, stop := m.coroutine(first + rank)
		defer stop()
		b.received, b.expected = make([]sent, size), map[kir.BufferID]int64{}
		blocks, resume = append(blocks, b), append(resume, next)
	}
	for _, b := range blocks {
		b.peers = blocks
	}
	for {
		running := 0
		for _, k := range m.permuted(len(blocks)) {
			b := blocks[k]
			if b.ended || m.stopped {
				continue
			}
			b.meets = nil
			if _, more := resume[k](); more {
				running++
			} else {
				b.ended = true
			}
		}
		switch {
		case m.stopped:
			return false
		case running == 0:
			for _, b := range blocks {
				b.arrived()
			}
			return !m.stopped
		case running < len(blocks):
			m.notMet(blocks)
			return false
		}
		if slices.ContainsFunc(blocks, func(b *block) bool { return b.starts != waitsForStarts }) {
			met(blocks)
		}
		for _, b := range blocks {
			if b.starts == waitsForStarts {
				b.starts = allStarted
			}
		}
	}
}

// A starting is how far a block has come with the others of its cluster.
type starting uint8

const (
	untold starting = iota // it has not said that it has started
	told
	waitsForStarts
	allStarted
)

// clusterStart tells the other blocks of the cluster that b has started, or waits until
// they have.
func (b *block) clusterStart(at *statement, isWait bool) bool {
	b.converged(at)
	switch {
	case isWait && b.starts != told:
		b.found(Finding{Kind: Deadlock, Detail: "the block waits for starts of the cluster and has not told its own, or waited before"}, at)
		b.m.stuck = true
		return false
	case !isWait:
		b.starts = told
		return true
	case b.peers == nil:
		b.starts = allStarted
		return true
	}
	b.starts, b.meets = waitsForStarts, at
	return b.yield()
}

// notMet reports that some blocks of a cluster wait for others that have ended.
func (m *machine) notMet(blocks []*block) {
	var ended *block
	for _, b := range blocks {
		if b.ended {
			ended = b
		}
	}
	for _, b := range blocks {
		if b.meets != nil {
			b.found(Finding{Kind: Deadlock, Detail: fmt.Sprintf("block %d of the cluster has ended", ended.number)}, b.meets)
			break
		}
	}
	m.stuck = true
}

// clusterBarrier waits for the other blocks of the cluster.
func (b *block) clusterBarrier(at *statement) bool {
	b.converged(at)
	if b.starts == told {
		b.found(Finding{Kind: Deadlock, Detail: "a barrier of the cluster comes before the block has waited for starts"}, at)
		b.m.stuck = true
		return false
	}
	if b.peers == nil {
		b.syncBlock()
		return true
	}
	b.meets = at
	return b.yield()
}

// waitForArrivals waits for the other blocks of the cluster, of which this one then must have
// all that it expects. A device waits for that alone: what else the blocks do is less
// ordered there.
func (b *block) waitForArrivals(at *statement, arrivals kir.BufferID) bool {
	if !b.clusterBarrier(at) {
		return false
	}
	if n := b.expected[arrivals]; n != 0 {
		b.found(Finding{Kind: Deadlock, Buffer: b.p.k.Buffers[arrivals].Name, Detail: fmt.Sprintf("the block waits for %d bytes more than it was sent", n)}, at)
		b.m.stuck = true
		return false
	}
	return true
}

// A sent is a thread of another block, when it sent something, and by which
// statement; nothing if the span is 0.
type sent struct {
	span   uint32
	thread uint16
	at     *statement
}

// send stores x in the shared memory of other blocks of the cluster.
func (b *block) send(a *access, rank int32, x *lanes, isCounted bool, arrivals kir.BufferID) {
	w, n, ranks := b.locate(a), &b.p.nodes[rank], b.index(rank)
	data := b.bytes[:a.element]
	for _, l := range w.lanes {
		element, r := w.element(l), ranks.at(n, l)
		f := Finding{Thread: int(l), Buffer: a.buffer.Name, Index: element}
		if t := ranks.flawAt(n, l); t != 0 {
			b.effect(t, f, "the rank of the block", a.at)
			continue
		}
		if r < 0 || r >= int64(len(b.peers)) {
			f.Kind, f.Detail = OutOfBounds, fmt.Sprintf("the rank is %d in a cluster of %d blocks", r, len(b.peers))
			b.found(f, a.at)
			continue
		}
		peer := b.peers[r]
		if f.Kind = NoPeer; peer != b && (peer.ended || b.starts != allStarted && b.knows(l, peer.number) == 0) {
			f.Detail = fmt.Sprintf("block %d of the cluster may not have started", r)
			if peer.ended {
				f.Detail = fmt.Sprintf("block %d of the cluster has ended", r)
			}
			b.found(f, a.at)
			continue
		}
		x.store(int(l), data)
		b.put(a, &peer.shared, w.base+element*int64(a.element), l, data, x.flawAt(l), 0)
		if isCounted {
			peer.expected[arrivals] -= int64(a.element)
		}
		peer.received[b.number-b.peers[0].number] = sent{b.span[l>>5], uint16(l), a.at}
	}
}

// arrived reports what other blocks have sent and nothing orders before the end
// of this one.
func (b *block) arrived() {
	for rank, s := range b.received {
		if b.peers[rank] != b && s.span != 0 && !b.ordered(s.span, s.thread, 0) {
			b.peers[rank].found(Finding{Kind: NoPeer, Thread: int(s.thread), Detail: fmt.Sprintf("block %d of the cluster may have ended", b.number-b.peers[0].number)}, s.at)
		}
	}
}
