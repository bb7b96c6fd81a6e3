package schedule

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A Parallel says how the iterations of a loop axis run.
type Parallel uint8

const (
	Serial Parallel = iota
	BIDx            // one block each
	BIDy
	BIDz
	TIDx // one thread each
	TIDy
	TIDz
	Unroll    // one after the other, written out
	Unswitch  // as Unroll; the tests of the nest are taken out of it
	Vectorize // one instruction moves all of them
	Group     // as Vectorize, for the calls of a reduction
	Bulk      // one bulk copy moves all of them
	Cluster   // one block of a cluster each
	Stream    // one stream each; data for others
	MeshX     // one device each; data for others
	MeshY
	MeshZ
)

var parallelNames = [...]string{"serial", "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
	"unroll", "unswitch", "vectorize", "group", "bulk", "cluster", "stream", "mesh.x", "mesh.y", "mesh.z"}

func (p Parallel) String() string { return parallelNames[p] }

// IsBlock reports whether blocks differ in the index of such an axis.
func (p Parallel) IsBlock() bool { return p >= BIDx && p <= BIDz || p == Cluster }

// IsThread reports whether threads of a block differ in it.
func (p Parallel) IsThread() bool { return p >= TIDx && p <= TIDz }

// IsWhole reports whether one instruction covers all iterations, so that no
// other statement can be among them.
func (p Parallel) IsWhole() bool { return p == Vectorize || p == Group || p == Bulk }

// A Memory is where a tensor lives.
type Memory uint8

const (
	Local  Memory = iota // registers of a thread
	Shared               // of a block
	Global
)

var memoryNames = [...]string{"local", "shared", "global"}

func (m Memory) String() string { return memoryNames[m] }

// A CopyKind is the instruction that a copy becomes.
type CopyKind uint8

const (
	PlainCopy CopyKind = iota
	LoadMatrix
	AsyncCopy // cp.async, global to shared memory
	BulkCopy  // TMA
)

// A CacheHint tells how a copy uses the caches: at which levels a load is cached, or
// which of the lines that it touches the second level gives up first or last.
type CacheHint uint8

const (
	CacheUnspecified CacheHint = iota
	CacheAllLevels
	CacheStreaming
	CacheGlobal
	CacheEvictFirst // nobody reads it soon
	CacheEvictLast  // it is read again soon
)

// A Swizzle permutes the columns of an allocation domain: element (row, column)
// is stored in column^(row % extent of column), so that neighbouring rows of a
// column lie in different banks. The extent of Column is a power of two.
type Swizzle struct{ Row, Column core.AxisID }

// Buffering is the number of tiles of a circular buffer and how many of them are
// loaded ahead; Stages 0 is none.
type Buffering struct{ Stages, Prefetch int }

// A Keeping says where a copy of a tensor in global memory finds elements: what the copy
// Earlier loaded in the last iterations of its loop at place Loop was kept in shared memory,
// of Kept iterations, and before that by the second cache, of Warm iterations. There is none
// if Kept and Warm are 0. Those that shared memory has come last in the loop of the copy,
// and the others before them, from the last to the first.
type Keeping struct {
	Earlier    core.ValID
	Loop       int
	Kept, Warm int64
}

// A tensor is what is decided about one tensor. Its loop domain is in the
// Fusion's Domain.
type tensor struct {
	alloc         []core.AxisID // nil: as the fusion says
	contig        []core.Tri
	memory        Memory
	position      int // leftmost loop axes that it is computed in together with its consumers
	copyKind      CopyKind
	cacheHint     CacheHint
	swizzle       []Swizzle
	buffering     Buffering
	inFloat       bool          // numbers of elements as float32
	alike         []core.AxisID // along which memory has one element
	packed        bool          // later readers take the elements from where they are held
	window        bool          // its elements are those of a box that a block loads
	windowSwizzle bool          // of which words are permuted
	keeping       Keeping
}

// A Scheduled is a fusion and how it is computed. It is used by one goroutine.
type Scheduled struct {
	f        *core.Fusion
	tensors  []tensor   // by ValID
	parallel []Parallel // by AxisID; what is beyond is Serial
	graph    *graph     // nil after an edit
	script   Script     // calls made by Call

	undone     map[core.TransformID]core.TransformID // transforms of loops, and those of reshapes that they undo
	isPromised bool                                  // some axis was split whole
	least      []least                               // what else was promised of extents
	phases     []Phase                               // how far rows are shifted
	resident   int                                   // blocks that fit a multiprocessor at a time, at least; 0: nothing is asked
	arguments  bool                                  // what is computed has arguments for scalars that are constants by promises
	sideBySide bool                                  // what has nothing in common has blocks of its own
	apart      bool                                  // what follows an exchange of a block's threads is not mixed with what is before it
	first      bool                                  // loops that load inputs stand before reductions

	// verified is a mapping of s as it was, for the next call of Map; nil after an
	// edit. What else may have changed since is compared: see takeMapping.
	verified *Mapping
}

// New returns f, which is frozen, without any scheduling: each tensor is
// computed by serial loops over its logical axes.
func New(f *core.Fusion) *Scheduled {
	if !f.Frozen() {
		panic("schedule: the fusion is not frozen")
	}
	s := &Scheduled{f: f.Clone()}
	s.grow()
	for _, v := range s.f.Inputs() {
		s.tensors[v].memory = Global
	}
	for _, o := range s.f.Outputs() {
		s.tensors[o.Val].memory = Global
	}
	return s
}

// Clone returns a copy that may be changed independently.
func (s *Scheduled) Clone() *Scheduled {
	c := *s
	c.f, c.graph, c.verified = s.f.Clone(), nil, nil
	c.tensors, c.parallel = slices.Clone(s.tensors), slices.Clone(s.parallel)
	for i := range c.tensors {
		c.tensors[i].swizzle = slices.Clip(c.tensors[i].swizzle)
	}
	c.script, c.least = slices.Clip(s.script), slices.Clip(s.least)
	c.phases, c.undone = slices.Clone(s.phases), maps.Clone(s.undone)
	return &c
}

// takeMapping returns the mapping that s was verified with, if it is still that of
// s, and forgets it: a kernel that was made needs it no longer. Else it returns nil.
func (s *Scheduled) takeMapping() *Mapping {
	m := s.verified
	if m == nil {
		return nil
	}
	s.verified = nil
	if s.f.NumVals() != m.f.NumVals() || s.f.NumExprs() != m.f.NumExprs() || s.f.NumAxes() != m.numAxes || !slices.Equal(s.f.Outputs(), m.f.Outputs()) {
		return nil
	}
	for v := range s.tensors {
		if !s.tensors[v].equal(&m.s.tensors[v]) || !slices.Equal(s.Loop(core.ValID(v)), m.s.Loop(core.ValID(v))) {
			return nil
		}
	}
	for a := range m.numAxes {
		if s.Parallel(core.AxisID(a)) != m.s.Parallel(core.AxisID(a)) {
			return nil
		}
	}
	return m
}

func (t *tensor) equal(o *tensor) bool {
	return (t.alloc == nil) == (o.alloc == nil) && slices.Equal(t.alloc, o.alloc) && slices.Equal(t.contig, o.contig) && t.memory == o.memory &&
		t.position == o.position && t.copyKind == o.copyKind && t.cacheHint == o.cacheHint && slices.Equal(t.swizzle, o.swizzle) && t.buffering == o.buffering && t.packed == o.packed && t.inFloat == o.inFloat && slices.Equal(t.alike, o.alike) && t.window == o.window && t.windowSwizzle == o.windowSwizzle && t.keeping == o.keeping
}

// grow makes room for what was added to the fusion.
func (s *Scheduled) grow() {
	for len(s.tensors) < s.f.NumVals() {
		s.tensors = append(s.tensors, tensor{})
	}
}

// Fusion returns the scheduled copy of the fusion. Its tables may be read; its
// scalar table may also be extended.
func (s *Scheduled) Fusion() *core.Fusion { return s.f }

// SetResidentBlocks asks for so many blocks to fit a multiprocessor at a time, at least;
// 0 asks for nothing. It bounds the registers of a thread, and lets a compiler use that
// many: without it one may have loads wait for each other to save registers.
func (s *Scheduled) SetResidentBlocks(n int) { s.resident, s.verified = n, nil }

// ResidentBlocks returns what [Scheduled.SetResidentBlocks] set.
func (s *Scheduled) ResidentBlocks() int { return s.resident }

// SetArguments has what is computed take scalars from arguments of the kernel though promises tell their
// values, such as the length of rows that a sum is divided by.
func (s *Scheduled) SetArguments() { s.arguments, s.verified = true, nil }

// HasArguments reports whether [Scheduled.SetArguments] was called.
func (s *Scheduled) HasArguments() bool { return s.arguments }

// SetApart keeps a compiler from mixing what follows an exchange of a block's threads with what is before it:
// it would take registers for loads long before they are needed.
func (s *Scheduled) SetApart() { s.apart, s.verified = true, nil }

// IsApart reports whether [Scheduled.SetApart] was called.
func (s *Scheduled) IsApart() bool { return s.apart }

// SetFirst has loops that do nothing but load inputs to registers stand before the first reduction that is in the same loops
// as they are, rather than before what reads them.
func (s *Scheduled) SetFirst() { s.first, s.verified = true, nil }

// LoadsFirst reports whether [Scheduled.SetFirst] was called.
func (s *Scheduled) LoadsFirst() bool { return s.first }

// SetSideBySide has tensors that have nothing in common computed by blocks of their own: those of one set of tensors follow
// those of another, and each set has as many as its loops say.
func (s *Scheduled) SetSideBySide() { s.sideBySide, s.verified = true, nil }

// IsSideBySide reports whether [Scheduled.SetSideBySide] was called.
func (s *Scheduled) IsSideBySide() bool { return s.sideBySide }

// Loop returns the loop domain of v.
func (s *Scheduled) Loop(v core.ValID) []core.AxisID {
	d := &s.f.Val(v).Domain
	if d.Loop == nil {
		return d.Logical
	}
	return d.Loop
}

func (s *Scheduled) setLoop(v core.ValID, axes []core.AxisID) { s.f.Val(v).Domain.Loop = axes }

// Allocation returns the axes of v in memory order, and whether a schedule set
// them.
func (s *Scheduled) Allocation(v core.ValID) ([]core.AxisID, bool) {
	if t := &s.tensors[v]; t.alloc != nil {
		return t.alloc, true
	}
	return s.f.Val(v).Domain.Allocation(), false
}

// Contiguity returns a promise per axis of [Scheduled.Allocation].
func (s *Scheduled) Contiguity(v core.ValID) []core.Tri {
	if t := &s.tensors[v]; t.alloc != nil {
		return t.contig
	}
	return s.f.Val(v).Domain.Contig
}

// Parallel returns how axis a runs.
func (s *Scheduled) Parallel(a core.AxisID) Parallel {
	if int(a) < len(s.parallel) {
		return s.parallel[a]
	}
	return Serial
}

func (s *Scheduled) setParallel(a core.AxisID, p Parallel) {
	for len(s.parallel) <= int(a) {
		s.parallel = append(s.parallel, Serial)
	}
	s.parallel[a] = p
}

func (s *Scheduled) Memory(v core.ValID) Memory       { return s.tensors[v].memory }
func (s *Scheduled) Position(v core.ValID) int        { return s.tensors[v].position }
func (s *Scheduled) CopyKind(v core.ValID) CopyKind   { return s.tensors[v].copyKind }
func (s *Scheduled) CacheHint(v core.ValID) CacheHint { return s.tensors[v].cacheHint }
func (s *Scheduled) Swizzles(v core.ValID) []Swizzle  { return s.tensors[v].swizzle }
func (s *Scheduled) Buffering(v core.ValID) Buffering { return s.tensors[v].buffering }
func (s *Scheduled) Keeping(v core.ValID) Keeping     { return s.tensors[v].keeping }
func (s *Scheduled) HoldsPacked(v core.ValID) bool    { return s.tensors[v].packed }
func (s *Scheduled) HoldsWindow(v core.ValID) bool    { return s.tensors[v].window }
func (s *Scheduled) SwizzlesWindow(v core.ValID) bool { return s.tensors[v].windowSwizzle }
func (s *Scheduled) kind(a core.AxisID) core.AxisKind { return s.f.Axis(a).Kind }
func (s *Scheduled) extent(a core.AxisID) scalar.ID   { return s.f.Axis(a).Extent }
func (s *Scheduled) isInput(v core.ValID) bool        { return s.f.Val(v).Input }
func (s *Scheduled) name(v core.ValID) string         { return s.f.Name(v) }
func (s *Scheduled) isBroadcast(a core.AxisID) bool   { return s.kind(a) == core.Broadcast }
func (s *Scheduled) consumers(v core.ValID) []*edge   { return s.analysis().out[v] }
func (s *Scheduled) producers(v core.ValID) []*edge   { return s.analysis().in[v] }

func (s *Scheduled) isOutput(v core.ValID) bool {
	return slices.ContainsFunc(s.f.Outputs(), func(o core.Output) bool { return o.Val == v })
}

// axisText names axis k of v for an error: "axis 1 of tv3".
func (s *Scheduled) axisText(v core.ValID, k int) string {
	return fmt.Sprintf("axis %d of %s", k, s.name(v))
}
