// Package memory decides where a kernel's shared memory lies and where its
// threads wait for each other.
//
// Its central function is [Plan]. It takes a kernel whose accesses have exact
// indices and in which no barrier, wait for asynchronous copies or place of a
// shared buffer has been decided, and adds all three.
//
// # How
//
//   - The statements become a tree with a gap before each, and their accesses to
//     shared memory, and to global memory that the kernel writes, a list
//     (tree.go).
//   - One walk over the tree (scan.go) carries the accesses that nothing has
//     ordered yet (state.go): an access stays pending until a barrier, an
//     asynchronous copy until a wait and then a barrier. The body of a loop is
//     walked until nothing new is pending at its end, so that what an iteration
//     leaves meets the next.
//   - Where a pending access and the next one may touch the same bytes
//     (overlap.go) and not by the same thread, tokens are put between them: as
//     late as possible, in the outermost block that both are in.
//   - What turns out not to be needed is removed (improve.go): a token is kept
//     only if the walk without it finds a conflict. The walk is not made again
//     from the start but from the token, as far as something is different
//     (record.go).
//   - Shared buffers that are not alive at the same time may share bytes
//     (place.go). The accesses of two such buffers conflict like those of one, so
//     that reuse is ordered by the same walk: a copy that is still under way into
//     reused bytes is waited for before the barrier.
//
// # Invariants
//
//   - Two accesses that may touch the same bytes by different threads of a block,
//     one of them a write, have a barrier between them on every path.
//   - What a block sends to others of its cluster has a barrier of the cluster
//     between it and every access to the same bytes, by whichever block; or if it
//     is counted where it arrives, a [kir.Arrived] that was there, which orders
//     nothing else.
//   - An asynchronous copy has its wait before every access that may touch its
//     target, or write its source; and the wait is before the barrier.
//   - Barriers are where all threads of a block (or of the grid) come by. If there
//     is no such place between two statements, the kernel is refused.
//   - The result depends on the kernel and the options alone.
//
// # What it relies on
//
//   - The threads of one statement do not write the same element of global
//     memory, nor do copies of the statement with the same index expressions and
//     conditions, unless they write the same value: the element of a tensor is
//     computed by one thread.
//
//   - A [kir.Fence] of the grid, a [kir.AtomicAdd] and another fence order what is
//     before them in a block before what follows them in the block that comes
//     last: whoever wrote them made the rest depend on the old value.
//
//   - Every block of a cluster has started before the first [kir.Send], and the
//     threads of a send write different elements of each block.
//
// It places no warp barriers, and no tokens of bulk copies or warp groups: see
// [Token].
package memory

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A Token is a kind of statement that orders accesses. Of those in one place the
// earlier kinds come first.
type Token uint8

const (
	Commit         Token = iota // closes a thread's group of asynchronous copies
	Wait                        // the thread's own groups have landed
	BlockBarrier                // the block's accesses before it are done for all its threads
	ClusterBarrier              // the same for the blocks of a cluster
	GridBarrier                 // the same for the grid

	// The rest is not placed yet.

	ProxyFence    // generic writes before it are seen by bulk copies and matrix units
	BulkCommit    // closes a group of bulk stores
	BulkWait      // bulk stores have read their sources
	MatrixCommit  // closes a group of matrix products of a warp group
	MatrixWait    // the products have read their operands and written their results
	BarrierArrive // of an mbarrier: a thread, or the bytes of a bulk load, has arrived
	BarrierWait   // of an mbarrier: a phase is complete
)

// Options are what a plan may use.
type Options struct {
	// Limit is the shared memory of a block, in bytes; 0: that of kir.Hopper.
	Limit int64
	// Blocks is how many blocks of the given threads and bytes of shared memory
	// run at once on a multiprocessor. Memory is reused at the price of a barrier
	// only where that raises it. Nil: that of compute capability 9.0.
	Blocks func(threads, bytes int64) int64
}

// Hopper is Options.Blocks of compute capability 9.0: CUDA C++ Programming
// Guide 12.9, table 27: 228 KB of shared memory of which a block takes 1 KB more
// than it asks for, 2048 threads, 32 blocks. Registers are not counted.
func Hopper(threads, bytes int64) int64 {
	return min(228*1024/(bytes+1024), 2048/max(threads, 1), 32)
}

// Plan adds to a kernel the places of its shared buffers, the size of a block's
// memory, and the commits, waits and barriers that order its accesses. Commits
// that are there are kept: they say what a wait can tell apart. Copies without
// one get it where they are waited for. Barriers that are there count. A grid
// barrier makes the launch cooperative and adds an argument for its semaphore.
//
// Errors: [core.Unsupported] if two statements must be ordered and no place
// between them is reached by all threads, or if the memory does not fit. Then
// the kernel is as it was.
func Plan(k *kir.Kernel, o Options) error {
	p, err := decide(k, o)
	if err != nil {
		return err
	}
	p.finish()
	return nil
}

// Shared returns the bytes of shared memory that a block has by the plan, as far as their number
// is known.
//
// Errors: those of [Plan].
func Shared(k *kir.Kernel, o Options) (int64, error) {
	p, err := decide(k, o)
	if err != nil {
		return 0, err
	}
	return p.end, nil
}

// decide makes the plan of a kernel and does not change it.
func decide(k *kir.Kernel, o Options) (*plan, error) {
	if o.Limit == 0 {
		o.Limit = kir.Hopper.Shared
	}
	if o.Blocks == nil {
		o.Blocks = Hopper
	}
	p := newPlan(k)
	if err := p.checkStatements(); err != nil {
		return nil, err
	}
	if err := p.synchronise(); err != nil {
		return nil, err
	}
	return p, p.place(o)
}

// A plan is what is known and decided of a kernel.
type plan struct {
	k         *kir.Kernel
	t         *scalar.Table // a copy of k's, that grows
	agreement kir.Agreement
	root      *block
	accesses  []*access
	lets      map[scalar.ID][]*node // the loops around the binding of a symbol
	threads   []position
	groups    []position // of the threads that may wait apart: their index along z, if any
	blocks    []position
	// sharedLoops has the symbols of loops that all threads of the grid share,
	// clusterLoops of those that all of a cluster do.
	sharedLoops, clusterLoops map[scalar.ID]bool
	sends                     bool // blocks of a cluster store in each other's memory

	shared   []*buffer       // in order of their declarations
	overlaps map[[2]int]bool // pairs of shared, by number, that have bytes in common; smaller first
	// neighbours has, by number, a buffer and those that overlap it; nil: none.
	neighbours [][]kir.BufferID
	walked     *visit // the record of a walk over the kernel, while it is improved
	number     map[kir.BufferID]int
	free       map[[2]int]bool // pairs of shared that need no token to share bytes

	freshSymbols map[freshKey]scalar.ID
	memoMeets    map[meetKey]bool
	memoResolved map[resolvedKey]footprint
	memoRenamed  map[renamedKey]scalar.ID
	steps        int // of the walks: a measure of the work

	end  int64       // of the shared buffers of known size, in bytes
	word *kir.Access // the semaphore of grid barriers
}

// A position is a thread or block index, and the name that it has for the
// other one of two threads.
type position struct{ own, other scalar.ID }

// A freshRole tells apart the symbols that stand for one of the kernel.
type freshRole uint8

const (
	otherRole   freshRole = iota // of another thread
	anyRole                      // of any iteration
	beforeRole                   // number of iterations ago, at least n
	formRole                     // of the loop at depth n
	phantomRole                  // a dimension of the launch that no expression reads
	targetRole                   // the rank of a block that is sent something
)

type freshKey struct {
	role   freshRole
	symbol scalar.ID
	n      int64
	facts  scalar.Facts
}

// fresh returns a symbol that the kernel does not have.
func (p *plan) fresh(key freshKey) scalar.ID {
	id, ok := p.freshSymbols[key]
	if !ok {
		t := dtype.Index
		if key.symbol != scalar.None {
			t = p.t.Type(key.symbol)
		}
		id = p.t.Symbol(t, scalar.Tag{Val: uint32(len(p.k.Symbols) + len(p.freshSymbols)), Dim: -1}, key.facts)
		p.freshSymbols[key] = id
	}
	return id
}

// copyOf returns a symbol in the place of s.
func (p *plan) copyOf(role freshRole, s scalar.ID) scalar.ID {
	return p.fresh(freshKey{role: role, symbol: s, facts: p.t.Facts(s)})
}

// symbol returns the kernel's symbol that an expression is.
func (p *plan) symbol(id scalar.ID) *kir.Symbol { return &p.k.Symbols[p.t.Tag(id).Val] }

func newPlan(k *kir.Kernel) *plan {
	t := k.Scalars.Clone()
	p := &plan{k: k, t: t, freshSymbols: map[freshKey]scalar.ID{}, memoMeets: map[meetKey]bool{},
		memoResolved: map[resolvedKey]footprint{}, memoRenamed: map[renamedKey]scalar.ID{}, number: map[kir.BufferID]int{}}
	p.agreement = k.Agreement(t)
	p.threads = p.positions(kir.ThreadIdx, k.Launch.Block)
	if k.HasGroups() {
		p.groups = p.threads[len(p.threads)-1:]
	}
	p.blocks = p.positions(kir.BlockIdx, k.Launch.Grid)
	b := tree{p: p, grid: map[scalar.ID]bool{}, cluster: map[scalar.ID]bool{}, lets: map[scalar.ID][]*node{}}
	p.root = b.block(k.Body, nil, nil, nil, true, true, true)
	p.lets, p.sharedLoops, p.clusterLoops = b.lets, b.grid, b.cluster
	p.track(p.root)
	p.findShared()
	return p
}

// positions returns the dimensions along which threads or blocks differ.
func (p *plan) positions(kind kir.SymbolKind, extents [3]scalar.ID) []position {
	var out []position
	for dim, extent := range extents {
		if n, ok := p.t.ConstInt(extent); ok && n <= 1 {
			continue
		}
		own := scalar.None
		for _, s := range p.k.Symbols {
			if s.Kind == kind && s.Dim == dim {
				own = s.Expr
			}
		}
		if own == scalar.None {
			own = p.fresh(freshKey{role: phantomRole, symbol: scalar.None, n: int64(kind)*4 + int64(dim), facts: scalar.Range(0, 1<<31)})
		}
		out = append(out, position{own, p.copyOf(otherRole, own)})
	}
	return out
}

// refuse returns the error that nothing can order two statements.
func (p *plan) refuse(rule string, buffer kir.BufferID, before, after *node, why string) error {
	sentence := fmt.Sprintf("`%s` must come before `%s` for all threads: %s", p.k.Text(before.s), p.k.Text(after.s), why)
	if before == after {
		sentence = fmt.Sprintf("`%s`: %s", p.k.Text(after.s), why)
	}
	return p.unsupported(rule, p.k.Buffers[buffer].Name, sentence)
}

func (p *plan) unsupported(rule, tensor, sentence string) error {
	return &core.Unsupported{What: fmt.Sprintf("kernel %s cannot be synchronised", p.k.Name),
		Refusals: []core.Refusal{{By: "memory plan", Rule: rule, Tensor: tensor, Sentence: sentence}}}
}

// checkStatements refuses statements that read elements which other threads
// write by the same one: nothing can be put in between.
func (p *plan) checkStatements() error {
	for _, b := range p.accesses {
		for _, a := range b.at.accesses {
			if a.way != read || b.way != written || a.buffer != b.buffer {
				continue
			}
			global := p.k.Buffers[a.buffer].Space == kir.Global
			if global && p.isOwn(a, b) {
				continue
			}
			if p.meets(a.footprint, b.footprint, otherThread) || global && p.meets(a.footprint, b.footprint, otherBlock) {
				return p.refuse("statement", a.buffer, b.at, b.at, "it may read elements that other threads write by it")
			}
		}
	}
	return nil
}

// semaphore returns the word of grid barriers, and makes it at the first call.
func (p *plan) semaphore() kir.Access {
	if p.word == nil {
		k := p.k
		t := k.Scalars
		zero, one := t.Int(0), t.Int(1)
		name := "semaphore"
		for slices.ContainsFunc(k.Buffers, func(b kir.Buffer) bool { return b.Name == name }) {
			name += "_"
		}
		k.Buffers = append(k.Buffers, kir.Buffer{Name: name, Space: kir.Global, DType: dtype.Int, Shape: []scalar.ID{one}, Stride: []scalar.ID{one},
			Size: one, Align: dtype.Int.Size(), Offset: scalar.None, Zeroed: true})
		id := kir.BufferID(len(k.Buffers) - 1)
		k.Arguments = append(k.Arguments, kir.Argument{Name: name, Kind: kir.Pointer, Buffer: id, Host: kir.HostValue{Tensor: core.NoVal, Scalar: scalar.None, Stride: -1}})
		k.Launch.Cooperative = true
		p.word = &kir.Access{Buffer: id, Coords: []scalar.ID{zero}, Index: zero, Width: 1}
	}
	return *p.word
}

// finish changes the kernel.
func (p *plan) finish() {
	p.offsets()
	p.k.Body = p.statements(p.root)
}
