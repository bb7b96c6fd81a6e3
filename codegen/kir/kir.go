// Package kir is the kernel IR: one GPU kernel as structured statements over
// buffers, with exact index expressions.
//
// # Data flow
//
//	Scheduled -> lower -> kir -> {verify, simulate, print as CUDA}
//
// Its central type is [Kernel]. Index arithmetic is in package scalar (a table
// of the kernel's own, with facts); arithmetic on elements is in [Value] nodes
// that name rows of the op table. A kernel is built once by package lower and
// not changed after [Kernel.Verify] has seen it.
//
// # Invariants
//
//   - Loops and conditions are structured; there is no other control flow.
//   - A thread or block index is a symbol, never a loop: what runs in parallel
//     is in Launch.
//   - An [Access] has the coordinates along each axis of its buffer's shape and
//     the element offset that they give. The simulator checks both.
//   - Reductions over warps, blocks and grids are expanded: only shuffles,
//     atomics, asynchronous copies and barriers are primitive.
//   - Everything that orders threads is a statement ([Barrier], [AsyncWait],
//     [Fence]): order is never assumed from the order of statements of two
//     threads.
//   - A buffer has one declaration, and each of its accesses is in the block of
//     that declaration or inside it.
//
// [Kernel.Verify] lists what the consumers rely on and checks it. A [Builder]
// makes kernels in few lines; [Kernel.String] shows them.
//
// It does not know about schedules, devices or C++.
package kir

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

type (
	BufferID uint32 // index into Kernel.Buffers
	SymbolID uint32 // index into Kernel.Symbols; Tag.Val of its scalar.Symbol, whose Dim is -1
	ValueID  uint32 // index into Kernel.Values
)

// Absent ids.
const (
	NoSymbol = SymbolID(1<<32 - 1)
	NoValue  = ValueID(1<<32 - 1)
)

// A Space is where a buffer lives.
type Space uint8

const (
	Local  Space = iota // registers of one thread
	Shared              // of one block
	Global              // of the device; an argument of the kernel
)

// A Buffer is an array of elements.
type Buffer struct {
	Name   string // of the user's tensor, made unique
	Space  Space
	DType  dtype.Type
	Shape  []scalar.ID // coordinates of accesses are below these
	Stride []scalar.ID // in elements, per coordinate
	Size   scalar.ID   // elements that exist from offset 0; of Local: a constant
	Align  int         // bytes, of offset 0; a power of two, at least that of an element
	Past   int         // bytes that offset 0 is past a multiple of 16, if that is known and Align does not say so; else 0
	Offset scalar.ID   // of Shared: bytes from the start of the block's memory
	// ReadOnly says that no thread writes it during the kernel, so that loads
	// may take the non-coherent path.
	ReadOnly bool
	// Registers says of a Local buffer that it must not take memory: it is
	// indexed by constants and by loops with UnrollFull.
	Registers bool
	// Distinct says of a Shared buffer that whoever writes an element by the same
	// statement as another thread, or in another iteration of loops, does so after that
	// was read: barriers for the sake of readers are enough for writers.
	Distinct bool
	// Once says of a Shared buffer that between barriers each element is written by one
	// thread: barriers for the sake of readers are enough for all writers.
	Once bool
	// Zeroed says that it holds zeros when the kernel starts and must again
	// when it ends: arrival counters and semaphores, of which the top bit may be
	// set both times. So kernels that run one after another can have one memory for it.
	Zeroed bool
}

// A SymbolKind is what gives a symbol its value.
type SymbolKind uint8

const (
	Parameter    SymbolKind = iota // an argument of the kernel
	ThreadIdx                      // Dim 0, 1, 2
	BlockIdx                       // Dim
	LoopIndex                      // of a For
	LetIndex                       // of a Let: a value computed by the thread
	ClusterIdx                     // rank in the cluster, along Dim: BlockIdx modulo Launch.Cluster
	HoistedIndex                   // of a Hoist: a name for Expr, which is not a symbol
)

// A Symbol is a variable of index expressions.
type Symbol struct {
	Name string
	Kind SymbolKind
	Dim  int
	Expr scalar.ID // its expression in Kernel.Scalars
}

// A ParameterKind is what the host passes.
type ParameterKind uint8

const (
	Pointer     ParameterKind = iota // the memory of a Global buffer
	IndexScalar                      // a size, stride or other integer: Symbol
	ValueScalar                      // a number used in arithmetic: Host, of type DType
	RandomSeed                       // of the run
	RandomOffset
	Divisor // a [Divider] by Expr; only of kernels with an Index of Int32
)

// An Argument is a parameter of the kernel, in order.
type Argument struct {
	Name   string
	Kind   ParameterKind
	Buffer BufferID   // of Pointer
	Symbol SymbolID   // of IndexScalar
	DType  dtype.Type // of ValueScalar
	Expr   scalar.ID  // of Divisor, of Parameter symbols: divisions by it go by this argument
	Host   HostValue  // what the host evaluates to pass it
}

// A HostValue is an expression of the fusion that the host evaluates at launch.
type HostValue struct {
	Tensor core.ValID // of Pointer: the tensor; NoVal for workspace
	Scalar scalar.ID  // of the fusion's table, for IndexScalar and ValueScalar
	// Stride, where >= 0, asks for the stride of Tensor along that axis of its
	// allocation domain instead of Scalar.
	Stride int
}

// A Launch is how many threads run. The expressions are over Parameter symbols.
type Launch struct {
	Grid, Block [3]scalar.ID
	Cluster     [3]int64
	Shared      scalar.ID // bytes of the block's memory
	Cooperative bool      // all blocks must be resident: a grid barrier is used
	Resident    int       // blocks that registers are left for on a multiprocessor; 0: the compiler's choice
}

// A Kernel is a function that every thread of a launch runs.
type Kernel struct {
	Name      string
	Index     dtype.Type // Int32 or Int: the type of index arithmetic
	Arguments []Argument
	Launch    Launch
	Buffers   []Buffer
	Symbols   []Symbol
	Values    []Value
	Scalars   *scalar.Table
	Body      Block
}

// An Access is one element of a buffer, or Width consecutive ones.
type Access struct {
	Buffer BufferID
	Coords []scalar.ID // one per axis of the buffer's Shape, of the first element
	Index  scalar.ID   // element offset: the sum of Coords[i]*Stride[i]
	Width  int         // 1, 2, 4, 8, 16
	Step   int         // elements in memory from one of several to the next; 0 is 1
	Span   Span        // of several elements
}

// A Span says where the elements of an access lie beside the first one.
type Span uint8

const (
	AnySpan  Span = iota // wherever the index leads, in the shape
	InRow                // along the last axis, which has them all
	InMemory             // in the buffer, as the index says: the first one, too, may have coordinates that are out of range
)

// A ValueKind is the kind of a [Value].
type ValueKind uint8

const (
	Constant   ValueKind = iota // Const
	HostScalar                  // argument number Int
	IndexValue                  // Index, an expression, converted to DType
	Load                        // Access, of Width 1
	Operation                   // Op of Args, computed in the row's compute type; result of DType
	Shuffle                     // Args[0] as held by other lanes: see Mode, Index
	Random                      // element Index of the stream of Op; Args are its two parameters
	Order                       // an integer that is greater where Args[0], a real number, is: see [OrderType]
)

// A ShuffleMode tells which lane a Shuffle reads.
type ShuffleMode uint8

const (
	ShuffleXor  ShuffleMode = iota // lane ^ Int
	ShuffleDown                    // lane + Int, itself beyond the group
	ShuffleUp                      // lane - Int, itself before the group
	ShuffleAt                      // lane Index
	WarpMaximum                    // the largest of all lanes, which are 32, of a Float: NaN if one is, of zeros a positive one
)

// A Value is an element computed by a thread. Values are trees by id: an id is
// below those that use it. A statement computes each value that it reads once,
// when it is executed; another statement that reads it computes it again.
type Value struct {
	Kind   ValueKind
	DType  dtype.Type
	Const  scalar.Value
	Access Access
	Op     *core.OpInfo
	Args   []ValueID
	Index  scalar.ID
	Int    int64
	Mode   ShuffleMode
	Width  int // lanes of a Shuffle's group: 2 to 32
	// Stream, Seed and Offset of Random: the numbers of the run (Stream >= 0),
	// or explicit ones.
	Stream       int
	Seed, Offset ValueID
	// Approximate says of an Operation in Float that the approximation of its row
	// will do: [core.OpInfo].Approx.
	Approximate bool
}

// A Block is statements in order.
type Block []Statement

// Walk calls yield for each statement of b and of the blocks in it, those around
// others first.
func (b Block) Walk(yield func(Statement)) {
	for _, s := range b {
		yield(s)
		switch s := s.(type) {
		case *For:
			s.Body.Walk(yield)
		case *If:
			s.Then.Walk(yield)
			s.Else.Walk(yield)
		}
	}
}

// IsSemaphore reports whether barriers of the grid meet at words of a buffer.
func (k *Kernel) IsSemaphore(id BufferID) (is bool) {
	k.Body.Walk(func(s Statement) {
		if b, ok := s.(Barrier); ok && b.Scope == GridScope {
			is = is || b.Semaphore.Buffer == id
		}
	})
	return is
}

// A Statement is one of the types below.
type Statement interface{ statement() }

type (
	// Declare begins the life of a Local or Shared buffer. Its elements are
	// undefined.
	Declare struct{ Buffer BufferID }

	// Assign stores one element.
	Assign struct {
		Dst   Access
		Value ValueID
		// Redundant says that several threads may store the same value.
		Redundant bool
	}

	// Send stores one element in the Shared memory of a block of the cluster, the
	// one with index Rank along x in it. That block must have started, and must not
	// end before the element is there: both follow from a Barrier of the cluster,
	// one before the first Send and one after the last; the second also from an
	// Arrived there, if the Send is counted.
	Send struct {
		Dst   Access
		Rank  scalar.ID
		Value ValueID
		// Counted says that the element, of 4 or 8 bytes, is counted when it arrives, by the
		// word Arrivals of that block.
		Counted  bool
		Arrivals BufferID
	}

	// Expect lets Arrivals, a word of 64 bits in Shared memory that nothing else accesses,
	// count what is sent to the block, of which there are Bytes. It comes once, before the
	// ClusterStart that tells the other blocks.
	Expect struct {
		Arrivals BufferID
		Bytes    int64
	}

	// Arrived waits until all that Arrivals is to count is there: all threads of the block
	// see those elements then. It orders nothing else.
	Arrived struct{ Arrivals BufferID }

	// Move copies Width elements by one instruction each side; one side is
	// Local. One that is guarded is from Global: where Guard is false it reads
	// nothing and writes zeros. One that is unaligned is from Global to Local, of
	// elements smaller than a word of 4 bytes: it reads all words that have one of
	// them, and shifts. One whose Src has a Step is from Global to Local: it reads
	// vectors that have elements between those that it copies, see [Gathered].
	Move struct {
		Dst, Src  Access
		Unaligned bool // the address of Src may be any
		Cache     CacheHint
		Last      scalar.ID // of CacheEvictLastIf
		Guarded   bool
		Guard     scalar.ID // a Bool, if it is guarded
	}

	// AsyncCopy is cp.async: Src (Global) to Dst (Shared), Width elements. Its
	// elements are undefined until waited for. Where Guard is false it reads
	// nothing and writes zeros.
	AsyncCopy struct {
		Dst, Src Access
		Guard    scalar.ID // a Bool; scalar.None: always
		Cache    CacheHint // default, or a policy of the second cache
		Last     scalar.ID // of CacheEvictLastIf
	}

	// Opaque hides from a compiler what the elements of a Local buffer in registers
	// are: what is computed from them again is computed, not remembered. It does
	// nothing else.
	Opaque struct{ Buffer BufferID }

	// UnderWay has all loads before it under way before what follows waits for one of
	// them, and none that follows before. Buffer is any one in global memory. It does nothing else.
	UnderWay struct{ Buffer BufferID }

	// AsyncCommit closes the group of the thread's copies since the last one.
	AsyncCommit struct{}

	// AsyncWait waits until at most Pending of the thread's groups have not
	// landed. Then the thread sees their elements; others do after a Barrier
	// that follows the wait.
	AsyncWait struct{ Pending int }

	// Barrier waits for all threads of its scope, and orders their accesses. A
	// shuffle orders nothing.
	Barrier struct {
		Scope Scope
		// Semaphore is the word of a Grid barrier: 64 bits, all but the top one
		// zero before and after. Each barrier flips the top one.
		Semaphore Access
	}

	// ClusterStart tells the other blocks of the cluster that this one has started, or
	// with Wait waits until all of them have, which a block does once, after the other
	// and before it first sends something. No Barrier of the cluster comes between the
	// two. It orders no accesses.
	ClusterStart struct{ Wait bool }

	// Fence orders the thread's accesses before and after it, as seen by Scope.
	// What a Barrier ordered before it counts as the thread's own. A thread that
	// publishes by an AtomicAdd needs one between its block's last Barrier and
	// the AtomicAdd; one that reads what others published, one after it.
	Fence struct{ Scope Scope }

	// AtomicAdd adds Value to an element and binds Old, unless it is NoSymbol,
	// to what the element held, an integer. It is relaxed: order comes from
	// Fence and Barrier.
	AtomicAdd struct {
		Dst   Access
		Value ValueID
		Old   SymbolID
	}

	// Let binds a LetIndex symbol to an integer or Bool value. The symbol is a
	// number of the kernel's index type: a value beyond it is a mistake, so a
	// wider one is compared with its bounds first.
	Let struct {
		Symbol SymbolID
		Value  ValueID
	}

	// Hoist names an index expression that is used below: same value, computed
	// once. Symbol is a HoistedIndex. Only the printer and the cost counters see
	// it.
	Hoist struct {
		Symbol SymbolID
		Expr   scalar.ID
	}

	// For runs Body with Symbol = Start, Start+Step, ... below Stop.
	For struct {
		Symbol            SymbolID
		Start, Stop, Step scalar.ID
		Unroll            UnrollMode
		Body              Block
	}

	// If runs Then where Cond, a Bool, holds, else Else. Whether barriers may
	// be inside follows from Cond: see Verify.
	If struct {
		Cond       scalar.ID
		Then, Else Block
	}
)

// A Scope is a set of threads.
type Scope uint8

const (
	WarpScope  Scope = iota
	GroupScope       // the threads of a block with the same index along z: whole warps
	BlockScope
	ClusterScope
	GridScope
)

// maxGroups is how many groups of threads a block has at most that wait apart: a block has 16
// barriers, of which the first is that of all.
const maxGroups = 15

// HasGroups reports whether threads of a block may wait for those with the same index along z.
func (k *Kernel) HasGroups() bool {
	n := [3]int64{}
	for i, extent := range k.Launch.Block {
		ok := false
		if n[i], ok = k.Scalars.ConstInt(extent); !ok {
			return false
		}
	}
	return n[2] > 1 && n[2] <= maxGroups && n[0]*n[1]%32 == 0
}

// A CacheHint says how a global access uses the caches.
type CacheHint uint8

const (
	CacheDefault     CacheHint = iota
	CacheStreaming             // read or written once
	CacheEvictFirst            // given up first by the second cache
	CacheEvictLast             // and last
	CacheEvictLastIf           // last where Last of the copy holds, else first; of what is loaded
)

// IsPlain reports whether loads under a condition, or from any address, may have the hint.
func (h CacheHint) IsPlain() bool { return h == CacheDefault || h == CacheEvictLast }

var cacheNames = [...]string{"", " (streaming)", " (evict first)", " (evict last)", " (evict last if "}

// An UnrollMode is what the compiler is told of a loop.
type UnrollMode uint8

const (
	UnrollAuto UnrollMode = iota
	UnrollFull            // required: register arrays are indexed by the loop
	UnrollNone
)

func (Declare) statement()      {}
func (Assign) statement()       {}
func (Send) statement()         {}
func (Move) statement()         {}
func (AsyncCopy) statement()    {}
func (Opaque) statement()       {}
func (UnderWay) statement()     {}
func (AsyncCommit) statement()  {}
func (AsyncWait) statement()    {}
func (Expect) statement()       {}
func (Arrived) statement()      {}
func (ClusterStart) statement() {}
func (Barrier) statement()      {}
func (Fence) statement()        {}
func (AtomicAdd) statement()    {}
func (Let) statement()          {}
func (Hoist) statement()        {}
func (*For) statement()         {}
func (*If) statement()          {}
