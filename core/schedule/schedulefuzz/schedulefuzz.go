// Package schedulefuzz makes random programs for tests: a fusion, inputs for it
// and a schedule of it.
//
// Its central type is [Program]. [New] makes one of integer tensors whose
// operations a test chooses; [Schedule] schedules a fusion from anywhere, such as
// one of package fusionfuzz. What is random comes from a generator that
// [Seeded] or [Decoded] returns, so that a seed, or any bytes, give one program.
//
// The calls on a schedule that a program is made by are legal each, or have been
// refused and have changed nothing; whether the whole can be mapped and lowered is
// for the test to find out. The package runs nothing itself.
package schedulefuzz

import (
	"fmt"
	"math/rand/v2"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A Program is a fusion, inputs for it and a schedule of it.
type Program struct {
	Fusion   *core.Fusion // frozen
	Inputs   []fusionfuzz.Input
	Schedule *schedule.Scheduled
}

// Moves is a set of what a random schedule may consist of.
type Moves uint32

const (
	Caches      Moves = 1 << iota // copies of inputs, of outputs and of what lies between
	RFactors                      // reductions in two steps
	Transforms                    // splits, merges and reorders, of many tensors alike and of few alone
	Tiles                         // tensors computed tile by tile, as pipelines are
	RootLoops                     // loops over root axes
	Inlining                      // positions, most often as far as is legal or at random
	Unrolling                     // unroll
	Unswitches                    // unswitch
	Vectors                       // vectorised copies
	Global                        // intermediates in global memory
	Shared                        // and in shared memory
	Threads                       // axes along threads and blocks; memory that they need
	AsyncCopies                   // cp.async into shared memory
	Layouts                       // allocation domains
	Swizzles                      // of those in shared memory
	Buffers                       // circular buffers
)

// Held are what schedules with held rows have beside: whole splits, and what is
// computed again.
const Held = Buffers << 1

// All are all moves but those.
const All = Buffers<<1 - 1

// Serial are those of a schedule that one thread runs.
const Serial = All &^ (Shared | Threads | AsyncCopies | Layouts | Swizzles | Buffers)

// A Set says of what programs are made.
type Set struct {
	Name       string
	Operations []string // kinds of operations; one that is there twice is as likely again
	Symbolic   bool     // the sizes of inputs, but 1, are unknown to the fusion
}

// Sets are those that tests run.
func Sets() []Set {
	return []Set{
		{Name: "base", Operations: []string{"unary", "binary", "row", "grow"}},
		{Name: "red", Operations: []string{"unary", "binary", "row", "grow", "reduce", "reduce"}},
		{Name: "shape", Operations: []string{"unary", "binary", "row", "grow", "permute", "reshape"}},
		{Name: "all", Operations: []string{"unary", "binary", "row", "grow", "reduce", "permute", "reshape", "resize", "expand", "squeeze"}},
		{Name: "back", Operations: []string{"unary", "row", "grow", "reduce", "permute", "reshape", "reshape", "back", "back", "back"}},
		{Name: "symbolic", Operations: []string{"unary", "binary", "row", "grow", "reduce", "permute"}, Symbolic: true},
	}
}

// Indexing is a set of which programs also read and write at positions that are
// values, and cut and join tensors.
func Indexing() Set {
	return Set{Name: "index", Operations: []string{"unary", "binary", "row", "grow", "permute", "reshape", "resize",
		"slice", "cat", "select", "index_select", "gather", "take_along_axis", "scatter", "scatter"}}
}

// Seeded returns the random numbers of a seed.
func Seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 3)) }

// Decoded returns random numbers that data decides: a byte each, then what
// depends on all of them. A test may so change one decision of a program.
func Decoded(data []byte) *rand.Rand {
	seed := uint64(len(data))
	for _, b := range data {
		seed = seed*1099511628211 + uint64(b)
	}
	return rand.New(&source{data: data, rest: rand.NewPCG(seed, 3)})
}

type source struct {
	data []byte
	rest *rand.PCG
}

func (s *source) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.rest.Uint64()
	}
	b := uint64(s.data[0])
	s.data = s.data[1:]
	return b * 0x0101010101010101 // both its low and its high bits are looked at
}

// New returns a program of integer tensors, or nil if it would have no output.
func New(rng *rand.Rand, set Set, moves Moves) *Program {
	b := &builder{Rand: rng, f: core.NewFusion(), operations: set.Operations}
	b.fusion()
	if len(b.f.Outputs()) == 0 {
		return nil
	}
	f := b.f
	if set.Symbolic {
		f = symbolic(f)
	}
	return Schedule(rng, f, b.inputs, moves)
}

// Schedule returns a program of f, a frozen fusion, with a random schedule.
// Inputs are those that it is to run on: their sizes limit how many points the
// loops have. The program's fusion is what the text of f says, in which tensor %3
// is tv3.
func Schedule(rng *rand.Rand, f *core.Fusion, inputs []fusionfuzz.Input, moves Moves) *Program {
	p, err := parsed(f.String(), inputs)
	if err != nil {
		panic(err)
	}
	_, _, values := fusionfuzz.Arguments(inputs)
	bind, err := p.Schedule.Fusion().Bind(values)
	if err != nil {
		panic(err)
	}
	m := &mover{Rand: rng, Scheduled: p.Schedule, moves: moves, bind: bind}
	m.schedule()
	return p
}

// parsed returns the program of a text without a schedule.
func parsed(text string, inputs []fusionfuzz.Input) (*Program, error) {
	f, err := core.Parse(text)
	if err != nil {
		return nil, err
	}
	f.Freeze()
	return &Program{f, inputs, schedule.New(f)}, nil
}

// String shows p: the fusion, the sizes of its inputs, the script and what it
// comes to.
func (p *Program) String() string {
	if p == nil {
		return "no program"
	}
	text := p.Fusion.String() + "sizes"
	for _, in := range p.Inputs {
		if in.Array != nil {
			text += fmt.Sprint(" ", in.Array.Shape)
		}
	}
	text += fmt.Sprintf("\n\n%v\n%v", p.Schedule.Script(), p.Schedule)
	if m, err := schedule.Map(p.Schedule); err == nil {
		text += "\n" + m.LoopNest()
	}
	return text
}
