package sim

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"nvfuser_go/codegen/kir"
)

// launch runs all blocks.
func (m *machine) launch() {
	if m.k.Launch.Cooperative {
		m.launchCooperative()
		return
	}
	if m.blocks == 0 {
		return
	}
	if m.k.Launch.Cluster[0] > 1 {
		m.launchClusters()
		return
	}
	if m.options.Order == Random && m.blocks <= maxInterleaved && m.program.hasAtomics() {
		m.launchInterleaved()
		return
	}
	b := newBlock(m)
	for _, number := range m.permuted(int(m.blocks)) {
		if b.start(number); !b.run(m.program.body) {
			return
		}
	}
}

// maxInterleaved bounds the blocks of a launch that take turns at atomics.
const maxInterleaved = 32

// launchInterleaved runs blocks that take turns: after an atomic any of them may
// go on. Which block is the last to arrive somewhere says nothing then of which is
// the last elsewhere.
func (m *machine) launchInterleaved() {
	m.interleaved = true
	var running []func() (struct{}, bool)
	for number := range int32(m.blocks) {
		_, next, stop := m.coroutine(number)
		defer stop()
		running = append(running, next)
	}
	for len(running) > 0 && !m.stopped && !m.stuck {
		k := m.random.IntN(len(running))
		if _, more := running[k](); !more {
			running = slices.Delete(running, k, k+1)
		}
	}
}

// coroutine returns a block that gives way to others where it calls its yield.
func (m *machine) coroutine(number int32) (b *block, next func() (struct{}, bool), stop func()) {
	b = newBlock(m)
	b.start(number)
	next, stop = iter.Pull(func(yield func(struct{}) bool) {
		b.yield = func() bool { return yield(struct{}{}) }
		b.run(m.program.body)
	})
	return b, next, stop
}

// launchCooperative runs each block up to a grid barrier, until all have ended.
func (m *machine) launchCooperative() {
	var blocks []*block
	var resume []func() (struct{}, bool)
	for number := range int32(m.blocks) {
		b, next, stop := m.coroutine(number)
		defer stop()
		blocks, resume = append(blocks, b), append(resume, next)
	}
	for !m.stopped {
		ended := 0
		for _, k := range m.permuted(len(blocks)) {
			if blocks[k].waiting = nil; !m.stopped {
				if _, more := resume[k](); !more {
					ended++
				}
			}
		}
		if m.stopped || ended == len(blocks) {
			return
		}
		if !m.release(blocks) {
			return
		}
	}
}

// release ends a grid barrier at which all blocks are. If some are elsewhere,
// it reports that the others wait for ever.
func (m *machine) release(blocks []*block) bool {
	first := slices.IndexFunc(blocks, func(b *block) bool { return b.waiting != nil })
	waits := blocks[first]
	for _, b := range blocks {
		if b.waiting != nil && b.waitsOn == waits.waitsOn {
			continue
		}
		detail := fmt.Sprintf("block %d has ended", b.number)
		if b.waiting != nil {
			detail = fmt.Sprintf("block %d waits at %s", b.number, b.p.text(b.waiting.at.number))
		}
		waits.found(Finding{Kind: Deadlock, Buffer: waits.waiting.buffer.Name, Index: waits.waitsOn.address / 8, Detail: detail}, waits.waiting.at)
		waits.m.stuck = true
		return false
	}
	memory := waits.waitsOn.m.data[waits.waitsOn.address:]
	binary.LittleEndian.PutUint64(memory, binary.LittleEndian.Uint64(memory)^1<<63)
	met(blocks)
	return true
}

// met orders what blocks have done before a barrier of theirs before what they do
// after it.
func met(blocks []*block) {
	known := &clock{map[int32]int32{}, map[blockThread]uint32{}}
	var last *clock // most have one from the barrier before
	for _, b := range blocks {
		b.syncBlock()
		if b.known != last && b.known != nil {
			known.add(b.known)
		}
		last = b.known
	}
	for _, b := range blocks {
		known.epochs[b.number] = b.epoch
	}
	for _, b := range blocks {
		b.known, b.publications = known, nil
	}
}

// finish checks what must hold when all blocks have ended.
func (m *machine) finish() {
	for i := range m.k.Buffers {
		b := &m.k.Buffers[i]
		if !b.Zeroed {
			continue
		}
		if e := nonzero(m.k, kir.BufferID(i), m.global[i].data); e >= 0 {
			m.add(Finding{Kind: NotZero, Buffer: b.Name, Index: int64(e), Detail: "it must be zero when the kernel ends"}, nil, int32(i))
		}
	}
	for _, id := range m.options.Outputs {
		m.checkWritten(id)
	}
}

// nonzero returns the first element of a Zeroed buffer that is not zero, but for what is
// allowed of a semaphore, or -1.
func nonzero(k *kir.Kernel, id kir.BufferID, data []byte) int {
	element, semaphore := k.Buffers[id].DType.Size(), k.IsSemaphore(id)
	for i, x := range data {
		if semaphore && i%element == element-1 {
			x &= 0x7f // the sense: see kir.Barrier
		}
		if x != 0 {
			return i / element
		}
	}
	return -1
}

// checkWritten reports elements of an output that nothing wrote. Elements
// between those that its strides reach are not part of it.
func (m *machine) checkWritten(id kir.BufferID) {
	b := &m.k.Buffers[id]
	shape, stride := make([]int64, len(b.Shape)), make([]int64, len(b.Shape))
	count := int64(1)
	for i := range shape {
		shape[i], _ = m.evaluate(b.Shape[i]) // evaluated before: it is what accesses are held against
		stride[i], _ = m.evaluate(b.Stride[i])
		count *= max(shape[i], 0)
	}
	memory := m.global[id]
	size, _ := m.evaluate(b.Size)
	if memory.cells == nil {
		count = 0 // an input
	}
	for n := range count {
		rest, element := n, int64(0)
		for i := len(shape) - 1; i >= 0; i-- {
			element += rest % shape[i] * stride[i]
			rest /= shape[i]
		}
		written := 0 <= element && element < size
		if written {
			written = memory.cellsOf(element*int64(b.DType.Size()), b.DType.Size())[0].writeSpan != 0
		}
		if !written {
			m.add(Finding{Kind: NotWritten, Buffer: b.Name, Index: element, Detail: "nothing wrote this element of an output"}, nil, int32(id))
		}
	}
}
