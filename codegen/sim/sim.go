// Package sim executes kernels on the CPU and reports what a device would
// leave undefined.
//
// Its central function is [Run], and its result a [Report]. The values that it
// computes are those of core.EvalScalar, rounded as the kernel says; the
// findings are mistakes of the kernel, even those that do no harm in this run.
//
// # How
//
//   - The threads of a block run in lockstep, statement by statement, under a
//     mask of active threads (block.go). A kernel is compiled to closures over
//     arrays with an element per thread (program.go, value.go, operation.go);
//     index expressions are computed again only when a symbol in them has
//     changed (index.go).
//   - Every element of memory has a shadow (memory.go): whether something wrote
//     it, through which buffer, and the last accesses.
//   - Order between threads comes from barriers, waits, fences and atomics
//     alone, never from the order in which the simulator executes them
//     (order.go).
//   - What nothing wrote is carried along like a value and reported where it
//     has an effect: a write to Global memory, an address, a condition, an
//     atomic. Kernels may compute with it and throw the result away.
//   - Blocks run one after another, in a chosen order; those of a cooperative
//     launch are coroutines that take turns at grid barriers (grid.go), and so
//     are those of a cluster at its barriers (cluster.go).
//
// # Invariants
//
//   - The result depends on the arguments alone, the seed among them.
//   - A kernel that [kir.Kernel.Verify] accepts does not make Run panic,
//     whatever its arguments.
//
// It does not model time, caches, clusters along y or z or of a cooperative
// launch, or several kernels.
package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A Memory is what a pointer argument points to. Two arguments may have the
// same one.
type Memory struct {
	Data []byte
	// Undefined says that Data holds nothing yet: to read it before the kernel
	// writes it is a mistake.
	Undefined bool
}

// An Argument is what the host passes.
type Argument struct {
	Memory *Memory      // of a Pointer
	Number scalar.Value // of any other
}

// An Order is one in which blocks, and the warps of a block, are executed.
type Order uint8

const (
	Forward Order = iota
	Reverse
	Random // by Options.Seed; few blocks take turns, at atomics
)

// Options choose how a kernel is run.
type Options struct {
	Order Order
	Seed  uint64
	// Outputs are buffers of which every element must be written.
	Outputs []kir.BufferID
	// Limits are those of the device; nil: kir.Hopper.
	Limits *kir.Limits
	// Stop is polled, from the goroutine that calls Run, every few milliseconds
	// at most; once it says true Run returns ErrStopped. Nil: never.
	Stop func() bool
}

// ErrStopped is the error of a run that Options.Stop ended. What its outputs
// hold is undefined.
var ErrStopped = errors.New("the simulation was stopped")

// statementsPerPoll is how many statements of threads are executed between two
// polls of Options.Stop: about a millisecond of them.
const statementsPerPoll = 1 << 15

// A machine is a launch that is executed.
type machine struct {
	k           *kir.Kernel
	program     *program
	options     Options
	random      *rand.Rand
	parameters  map[kir.SymbolID]int64
	grid, dim   [3]int64
	blocks      int64
	threads     int
	warps       int
	order       []int32   // threads of a block
	global      []*memory // by buffer
	sharedBytes int64
	sharedShift int
	spans       []span // 0 is unused
	earlier     []earlierRead
	published   map[word]*clock
	plain       map[*cell]plainWrite
	counters    Counters
	reporter    reporter
	interleaved bool // blocks take turns at atomics
	stopped     bool // by too many findings, or by Options.Stop
	interrupted bool // by Options.Stop
	polled      int64
	stuck       bool // in a deadlock
}

// Run executes a launch of k, which k.Verify accepts, with one argument for
// each of k's. It writes to the memory of the arguments. It returns an error if
// the arguments do not fit the kernel: a wrong number of them, memory that is
// too small, an integer that contradicts its facts, a Zeroed buffer that is not
// zero; and ErrStopped.
func Run(k *kir.Kernel, arguments []Argument, options Options) (*Report, error) {
	m := &machine{k: k, options: options, random: rand.New(rand.NewPCG(options.Seed, 0)), spans: make([]span, 1), published: map[word]*clock{}, plain: map[*cell]plainWrite{},
		reporter: reporter{known: map[findingKey]int{}}}
	if err := m.bind(arguments); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	if fits, err := m.dimensions(); err != nil || !fits {
		return m.report(), err
	}
	if err := m.memories(arguments); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	var err error
	if m.program, err = compile(k, m.threads, arguments); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	m.launch()
	if m.interrupted {
		return nil, ErrStopped
	}
	if !m.stopped && !m.stuck {
		m.finish()
	}
	return m.report(), nil
}

// poll asks Options.Stop, from time to time.
func (m *machine) poll() {
	if m.options.Stop == nil || m.counters.Statements-m.polled < statementsPerPoll {
		return
	}
	m.polled = m.counters.Statements
	if m.options.Stop() {
		m.interrupted, m.stopped = true, true
	}
}

// bind takes the integers among the arguments.
func (m *machine) bind(arguments []Argument) error {
	if len(arguments) != len(m.k.Arguments) {
		return fmt.Errorf("%d arguments for %d parameters", len(arguments), len(m.k.Arguments))
	}
	m.parameters = map[kir.SymbolID]int64{}
	for i, a := range m.k.Arguments {
		if (a.Kind == kir.Pointer) != (arguments[i].Memory != nil) {
			return fmt.Errorf("argument %s is given by the wrong kind of value", a.Name)
		}
		if a.Kind != kir.IndexScalar {
			continue
		}
		n := arguments[i].Number.I
		if f := m.k.Scalars.Facts(m.k.Symbols[a.Symbol].Expr); !f.Hold(n) {
			return fmt.Errorf("argument %s is %d, not a multiple of %d between %d and %d", a.Name, n, f.Divisor, f.Lo, f.Hi)
		}
		m.parameters[a.Symbol] = n
	}
	return nil
}

// evaluate computes an expression of the host.
func (m *machine) evaluate(id scalar.ID) (int64, error) {
	t := m.k.Scalars
	v, err := t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
		n, ok := m.parameters[kir.SymbolID(t.Tag(s).Val)]
		if !ok {
			return scalar.Value{}, fmt.Errorf("%s is not known on the host", m.k.Expr(s))
		}
		return scalar.Value{Type: t.Type(s), I: n}, nil
	}, core.EvalOpaque, nil)
	return v.I, err
}

// refused is the error of a launch that a device takes and the simulator does not.
func refused(format string, arguments ...any) error {
	return &core.Unsupported{What: "the kernel cannot be simulated",
		Refusals: []core.Refusal{{By: "simulator", Rule: "launch", Sentence: fmt.Sprintf(format, arguments...)}}}
}

// dimensions evaluates the launch. It reports false if the device does not take
// it.
func (m *machine) dimensions() (bool, error) {
	shared, err := m.evaluate(m.k.Launch.Shared)
	for i := range 3 {
		var errGrid, errBlock error
		m.grid[i], errGrid = m.evaluate(m.k.Launch.Grid[i])
		m.dim[i], errBlock = m.evaluate(m.k.Launch.Block[i])
		err = errors.Join(err, errGrid, errBlock)
	}
	if err != nil {
		return false, err
	}
	limits := m.options.Limits
	if limits == nil {
		limits = &kir.Hopper
	}
	if err := errors.Join(m.k.CheckLimits(*limits), limits.Check(m.grid, m.dim, m.k.Launch.Cluster, shared)); err != nil {
		m.add(Finding{Kind: OverLimit, Detail: err.Error()}, nil, -1)
		return false, nil
	}
	switch c := m.k.Launch.Cluster; {
	case max(c[1], c[2]) > 1:
		return false, refused("clusters of %d x %d x %d blocks are not simulated; those along x are", c[0], c[1], c[2])
	case c[0] > 1 && m.k.Launch.Cooperative:
		return false, refused("a cooperative launch of clusters is not simulated")
	}
	m.blocks = max(m.grid[0], 0) * max(m.grid[1], 0) * max(m.grid[2], 0)
	m.threads = int(m.dim[0] * m.dim[1] * m.dim[2])
	most := int64(1 << 24)
	if m.k.Launch.Cooperative {
		most = 1 << 13 // more are never resident
	}
	if m.threads < 1 {
		return false, refused("a launch of %d x %d x %d threads a block is not simulated", m.dim[0], m.dim[1], m.dim[2])
	}
	if m.blocks > most {
		return false, refused("a launch of %d x %d x %d blocks is not simulated; at most %d blocks are", m.grid[0], m.grid[1], m.grid[2], most)
	}
	m.warps = (m.threads + 31) / 32
	m.sharedBytes = shared
	for _, w := range m.permuted(m.warps) {
		for l := w * 32; l < min(w*32+32, int32(m.threads)); l++ {
			m.order = append(m.order, l)
		}
	}
	return true, nil
}

// permuted returns the numbers below n in the order of the run.
func (m *machine) permuted(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	switch m.options.Order {
	case Reverse:
		slices.Reverse(list)
	case Random:
		m.random.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// warpLanes returns the bits of the lanes that a warp has.
func (m *machine) warpLanes(warp int) uint32 {
	if n := m.threads - warp*32; n < 32 {
		return 1<<n - 1
	}
	return 1<<32 - 1
}

// memories makes the shadows.
func (m *machine) memories(arguments []Argument) error {
	m.global = make([]*memory, len(m.k.Buffers))
	made := map[*Memory]*memory{}
	readOnly := map[*Memory]bool{}
	granule := map[*Memory]int{}
	for i, a := range m.k.Arguments {
		if a.Kind != kir.Pointer {
			continue
		}
		b, given := &m.k.Buffers[a.Buffer], arguments[i].Memory
		size, err := m.evaluate(b.Size)
		if err != nil {
			return err
		}
		if size*int64(b.DType.Size()) > int64(len(given.Data)) {
			return fmt.Errorf("%s has %d bytes and needs %d elements of %v", a.Name, len(given.Data), size, b.DType)
		}
		if was, ok := readOnly[given]; ok && was != b.ReadOnly {
			return fmt.Errorf("%s is read-only, and its memory is that of an argument which is not", a.Name)
		}
		if b.Zeroed && nonzero(m.k, a.Buffer, given.Data) >= 0 {
			return fmt.Errorf("%s must be zero and is not", a.Name)
		}
		readOnly[given] = b.ReadOnly
		if g := granule[given]; g == 0 || b.DType.Size() < g {
			granule[given] = b.DType.Size()
		}
	}
	for i, a := range m.k.Arguments {
		if a.Kind != kir.Pointer {
			continue
		}
		given := arguments[i].Memory
		if made[given] == nil {
			made[given] = newMemory(given, readOnly[given], granule[given])
		}
		m.global[a.Buffer] = made[given]
	}
	return m.sharedMemory()
}

func newMemory(given *Memory, readOnly bool, granule int) *memory {
	s := &memory{data: given.Data, shift: bits.TrailingZeros(uint(granule))}
	if readOnly && !given.Undefined {
		return s
	}
	s.cells = make([]cell, len(given.Data)>>s.shift)
	for i := range s.cells {
		if !given.Undefined {
			s.cells[i].flags = valid
		}
	}
	return s
}

// sharedMemory checks the places of Shared buffers, and finds the granule of
// their memory.
func (m *machine) sharedMemory() error {
	granule, end := int64(16), m.sharedBytes
	for i := range m.k.Buffers {
		b := &m.k.Buffers[i]
		if b.Space != kir.Shared {
			continue
		}
		offset, err := m.evaluate(b.Offset)
		if err != nil {
			return err
		}
		size, err := m.evaluate(b.Size)
		if err != nil {
			return err
		}
		if offset < 0 || size < 0 {
			return fmt.Errorf("%s has %d elements at byte %d of the block's memory", b.Name, size, offset)
		}
		for offset%granule != 0 || int64(b.DType.Size())%granule != 0 {
			granule /= 2
		}
		if last := offset + size*int64(b.DType.Size()); last > m.sharedBytes {
			m.add(Finding{Kind: OutOfBounds, Buffer: b.Name,
				Detail: fmt.Sprintf("it is at bytes [%d, %d) of the block's memory, which has %d", offset, last, m.sharedBytes)}, nil, int32(i))
			end = max(end, last)
		}
	}
	m.sharedBytes = (end + 15) &^ 15
	m.sharedShift = bits.TrailingZeros64(uint64(granule))
	return nil
}
