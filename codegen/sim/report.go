package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/codegen/kir"
)

// A Kind is what is wrong.
type Kind uint8

const (
	OutOfBounds      Kind = iota // an access outside the shape or the size of a buffer
	Uninitialised                // what nothing wrote reaches an effect
	Misaligned                   // a vector at an address that is not a multiple of its bytes
	Race                         // two accesses, one of them a write, that nothing orders
	Duplicate                    // several threads write the same value, not marked Redundant
	AsyncUse                     // a read of an asynchronous copy's target that its wait does not precede
	AsyncReuse                   // a write that may meet an asynchronous copy
	Reuse                        // a write to shared memory that another buffer still uses
	StaleOwner                   // a read of shared memory that now belongs to another buffer
	DivergentBarrier             // a barrier or shuffle that some threads do not reach
	InactiveLane                 // a shuffle from a lane that does not take part
	Deadlock                     // blocks wait for blocks that do not come
	NotZero                      // a Zeroed buffer that is not zero in the end
	NotWritten                   // an element of an output that nothing wrote
	Overflow                     // an index that the kernel's index type does not hold
	DivisionByZero               // of an index
	WrongFacts                   // a symbol whose value contradicts its facts
	OverLimit                    // a launch that the device does not take
	NoPeer                       // a store in the memory of a block that may not have started, or may have ended

	NumKinds
)

var kindNames = [...]string{"out of bounds", "uninitialised", "misaligned", "race", "duplicate write", "use of an asynchronous copy",
	"write under an asynchronous copy", "reuse", "stale owner", "divergent barrier", "inactive lane", "deadlock", "not zero",
	"not written", "overflow", "division by zero", "wrong facts", "over the limit", "no peer"}

func (k Kind) String() string { return kindNames[k] }

// A Finding is something that a device would leave undefined, or that breaks
// what the kernel promises.
type Finding struct {
	Kind      Kind
	Block     int // x first
	Thread    int // of the block, x first
	Buffer    string
	Index     int64  // element of Buffer
	Statement string // its number, in order of the text, and its text; "" outside the kernel
	Detail    string

	// The other access of two. OtherBlock is -1 if there is none.
	OtherBlock, OtherThread int
	OtherStatement          string

	Count int // times that it occurred at these statements
}

func (f Finding) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v: ", f.Kind)
	if f.Buffer != "" {
		fmt.Fprintf(&s, "%s[%d] ", f.Buffer, f.Index)
	}
	if f.Statement != "" {
		fmt.Fprintf(&s, "by block %d thread %d at %s", f.Block, f.Thread, f.Statement)
	}
	if f.OtherBlock >= 0 {
		fmt.Fprintf(&s, " and by block %d thread %d at %s", f.OtherBlock, f.OtherThread, f.OtherStatement)
	}
	if f.Detail != "" {
		fmt.Fprintf(&s, ": %s", f.Detail)
	}
	if f.Count > 1 {
		fmt.Fprintf(&s, " (%d times)", f.Count)
	}
	return s.String()
}

// Counters is the work of a launch. A request is one statement's accesses to a
// buffer by one warp.
type Counters struct {
	Statements       int64 // executed, summed over threads
	WarpStatements   int64 // summed over warps
	Barriers         int64 // of a block or larger, summed over blocks
	GlobalRequests   int64
	GlobalSectors    int64 // of 32 bytes, summed over requests
	GlobalRead       int64 // bytes
	GlobalWritten    int64
	SharedRequests   int64
	SharedWavefronts int64 // cycles that banks need, summed over requests; equal to requests of 4 bytes a lane without conflicts
	BankConflicts    int64 // the largest number of words that a request needs from one bank in one phase
}

// A Report is what a run found.
type Report struct {
	Findings []Finding // by statement, then kind; one per kind and pair of statements
	Stopped  bool      // there were too many kinds of findings to go on
	Counters Counters
}

// Err returns an error with the findings, nil if there are none.
func (r *Report) Err() error {
	if len(r.Findings) == 0 {
		return nil
	}
	lines := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		lines[i] = f.String()
	}
	return errors.New(strings.Join(lines, "\n"))
}

// maxFindings ends a run: what follows from the first mistakes is of no use.
const maxFindings = 20

// A findingKey tells findings apart.
type findingKey struct {
	kind      Kind
	at, other int32
}

type reporter struct {
	findings []Finding
	keys     []findingKey
	known    map[findingKey]int
}

// add notes a finding at a statement, and perhaps of another one.
func (m *machine) add(f Finding, at *statement, other int32) {
	key := findingKey{f.Kind, -1, other}
	if at != nil {
		key.at = at.number
	}
	if i, ok := m.reporter.known[key]; ok {
		m.reporter.findings[i].Count++
		return
	}
	f.Count, f.OtherBlock = 1, -1
	m.reporter.known[key] = len(m.reporter.findings)
	m.reporter.findings = append(m.reporter.findings, f)
	m.reporter.keys = append(m.reporter.keys, key)
	m.stopped = m.stopped || len(m.reporter.findings) >= maxFindings
}

// found reports something at a statement of this block.
func (b *block) found(f Finding, at *statement) {
	f.Block, f.Statement = int(b.number), b.p.text(at.number)
	b.m.add(f, at, -1)
}

// conflict reports that an access of a thread meets an earlier one.
func (b *block) conflict(kind Kind, a *access, at int32, when uint32, thread uint16, address int64, lane int32) {
	key := findingKey{kind, a.at.number, at}
	if i, ok := b.m.reporter.known[key]; ok {
		b.m.reporter.findings[i].Count++
		return
	}
	b.m.add(Finding{Kind: kind, Block: int(b.number), Thread: int(lane), Buffer: a.buffer.Name, Index: b.elementAt(a, address),
		Statement: b.p.text(a.at.number), Detail: b.loops()}, a.at, at)
	f := &b.m.reporter.findings[len(b.m.reporter.findings)-1]
	f.OtherBlock, f.OtherThread, f.OtherStatement = int(b.m.spans[when].block), int(thread), b.p.text(at)
}

// elementAt returns the element of a buffer at an address of its memory.
func (b *block) elementAt(a *access, address int64) int64 {
	if a.buffer.Space == kir.Shared {
		address -= b.index(a.offset).u
	}
	return address / int64(a.element)
}

// loops returns the loop indices that all threads share.
func (b *block) loops() string {
	var parts []string
	for _, s := range b.loop {
		if n := b.p.nodeOfSymbol[s]; b.p.nodes[n].uniform {
			parts = append(parts, fmt.Sprintf("%s = %d", b.p.k.Symbols[s].Name, b.values[n].u))
		}
	}
	return strings.Join(parts, ", ")
}

// report returns the findings in order.
func (m *machine) report() *Report {
	order := make([]int, len(m.reporter.findings))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := m.reporter.keys[i], m.reporter.keys[j]
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.other, b.other))
	})
	r := &Report{Stopped: m.stopped, Counters: m.counters}
	for _, i := range order {
		r.Findings = append(r.Findings, m.reporter.findings[i])
	}
	return r
}

// Add adds the counts of another run.
func (c *Counters) Add(o *Counters) {
	c.Statements += o.Statements
	c.WarpStatements += o.WarpStatements
	c.Barriers += o.Barriers
	c.GlobalRequests += o.GlobalRequests
	c.GlobalSectors += o.GlobalSectors
	c.GlobalRead += o.GlobalRead
	c.GlobalWritten += o.GlobalWritten
	c.SharedRequests += o.SharedRequests
	c.SharedWavefronts += o.SharedWavefronts
	c.BankConflicts = max(c.BankConflicts, o.BankConflicts)
}
