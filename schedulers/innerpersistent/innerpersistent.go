// Package innerpersistent schedules segments that reduce rows along their innermost
// dimensions and need the elements of the rows again: softmax, layer norm, what is
// computed backward of those along rows, and variances of short rows.
//
// Its central type is [Params]. All threads of a row have the same number of elements of
// it in registers, in steps of a vector each; loops over them have constant extents, which
// a row must not exceed ([schedule.Scheduled.SplitWhole]), so that a kernel serves rows of
// many lengths and any number of them. Threads of a row exchange what they reduce within a
// warp, a block or, of rows too long for that, a cluster of blocks. What is held between
// the phases of a row is found by package persistence. Means and variances are computed in
// two passes over what is held in registers, and in one where threads have long parts of a
// row, if they are few: blocks of a cluster exchange once then.
//
// Rows that have as many elements as the steps of their threads have a kernel of their own, which
// tests nothing for the end of a row: a compiler keeps a load under a condition behind others,
// and registers for the conditions.
//
// Rows whose elements are loaded one by one take many instructions for few bytes. How many
// elements a row has at least is promised ([schedule.Scheduled.PromiseLeast]), so that the
// last steps alone are tested for its end, and where rows have inputs in common a thread has
// two rows at a time, and loads those once.
//
// Rows of an odd number of elements of 2 bytes or less are in pairs that begin where memory is
// aligned, in another place of every second row ([schedule.Scheduled.AlignRows]), if all
// tensors with an element for each point lie so and a block, or a cluster, has registers for a
// row. The rows of a thread, if it has two, have the same place. Blocks of a cluster take steps
// of a row in turn then, so that what is beyond its end is in the last steps alone: a
// layer norm of 2048 x 65537 takes 621 instructions a thread so, 840 in single elements of parts of a
// row that each block has in one piece.
//
// Where accesses are narrow and rows do not begin with a sector of memory, the steps of a block do, in
// another place of each row: no sector is read or written by two warps then. What that leaves
// idle is a sector of the first step at most, so rows that are short, or whose threads have no
// step to spare, begin where they do.
//
// Of rows of a cluster, or of a block that would need more than 512 threads, each thread
// copies its elements of the inputs that are needed again to shared memory, asynchronously,
// and reads them from there in each phase: that leaves registers for more blocks, of which
// some load while others compute. Where elements lie so that copies would have less than 4
// bytes, and where a device has no clusters, they are in registers. What such rows have in
// common, as the weights of a norm, is loaded for two steps at a time, and for two rows of a
// thread where it takes several loads. The first phase begins with the steps that have landed,
// if they are few enough.
//
// Where such rows do not have all elements of their steps, blocks of a cluster take steps in turn, and where rows do not
// begin with a line of the second cache steps do, in another place of each row: the first and the last steps alone are
// tested then for what is before a row and beyond it.
//
// Clusters have 16 blocks where 8 would have more than 64 KB of a row each, or no room for it.
// A function must opt in to more than 8, and a device may have no room for any such cluster:
// what 8 blocks can do is the next choice, which the executor takes then.
//
// Short rows, if there are many, are reduced to a mean and a variance alone here too: the moments of parts that threads
// have take more instructions to merge than two sums. A thread has several of those next to each other, and stores
// their results at once. Short rows have as many threads as leave few without work, down to one, see short.go.
//
// Where the threads of short rows would move parts of sectors, or have nothing to do in many steps, the rows of a block get
// to and from memory as the one piece that they are there, by way of shared memory, see piece.go. Exponentials and their sums
// are two reductions then: a thread has most of a row, so that it exchanges little, and takes each exponential once.
//
// What rows read after they are reduced, and do not all have in common, as a residual or what images modulate a norm by, is loaded
// before where there are registers, or a thread would wait for memory a second time.
//
// Rows that do not fit in a block, or a cluster where there are, are refused.
//
// # Choices
//
// Their numbers come from an H100 (80GB HBM3); times are in microseconds, after a second
// cache full of modified lines and of lines that were read.
//
//   - Vectors a thread: a layer norm of 16384 x 4096 bfloat16 takes 93.5 / 87.9 with two,
//     95.3 / 89.2 with four and 98.3 / 92.6 with one, a log-softmax 93.6 / 87.5 with two,
//     94.7 / 88.9 with four and 96.0 / 90.5 with eight; an RMS norm of 16384 x 8192
//     182.0 / 175.9 with two and 183.8 / 178.2 with four, a softmax of 8192 x 8192 93.7 / 87.7
//     with both. Of an RMS norm of 16384 x 4096 four are faster: 93.1 / 87.1, two 94.0 / 87.5.
//     Rows of 16384 take as long as a copy with four of 512 threads.
//   - Rows of a warp: a softmax of 131072 x 1024 bfloat16 takes 129.6 / 126.6 on an H200 with
//     two rows a block, 132.2 / 128.6 with four; those of 2048 are blocks of their own, see isAlone.
//   - Single elements of 4 bytes: a softmax of 65536 x 1023 float32 takes 185.0 / 180.0 with
//     8 of a thread, 187.1 / 182.2 with 16, 195.1 / 191.0 with 32, 195.3 / 191.1 with 4.
//   - Single elements of 2 bytes: a softmax of 65536 x 1023 bfloat16 takes 96.0 / 90.7 with a
//     warp a row and 97.2 / 92.5 with two. A layer norm takes 98.7 / 94.4 with two warps for
//     two rows and the weights loaded first, 101.9 / 97.7 with them loaded last, 102.0 / 97.3
//     so with one row, and 105.2 / 101.6 with a warp a row.
//   - Pairs that begin where memory is aligned, on an H200, where a copy takes 67.5 / 64.0: the
//     softmax 68.8 / 65.5 with a warp a row, 71.5 / 69.0 with two, in vectors of 4 elements
//     72.0 / 68.8, of 8 89 / 85, and 74.8 / 71.2 in single elements. The layer norm 70.8 / 67.8
//     with a warp for two rows and the weights loaded first, 73.5 / 71.3 with two warps,
//     83.6 / 80.9 with two for four rows, 75.9 / 72.7 with a warp a row and the weights loaded
//     last, and 79.3 / 76.6 in single elements; by hand with two warps for four rows 71.2 / 68.1,
//     with eight rows copied to shared memory as one 74.6 / 71.3. A layer norm of 8192 x 8191
//     takes 80.7 / 77.1, in single elements 139.8 / 133.9, a softmax of 16384 x 4097 70.0 / 68.9
//     and 88.1 / 86.0.
//   - Steps that begin with a sector, on an H200, where a copy takes 67.2 / 64.1: a softmax of
//     16384 x 4098 bfloat16 68.9 / 65.9, from where rows begin 70.8 / 68.7, with half the threads
//     71.5 / 68.6, in vectors of 8 elements 72.2 / 69.0, and by hand in such 69.4 / 65.6; an RMS norm
//     70.2 / 66.3, from where rows begin 72.3 / 69.1; a layer norm with 128 threads 70.4 / 67.3,
//     with 256 72.9 / 70.4, from where rows begin 72.7 / 69.5. Steps that begin with a line of 128
//     bytes take as long. Of 65536 rows of 1022 an RMS norm takes 69.4 / 65.8, a layer norm
//     69.6 / 66.4, else 72.1 / 69.2 and 72.9 / 69.9. With a copy of 128.6 / 125.6 a
//     softmax of 65536 x 1023 float32 takes 132.6 / 130.2, else 133.8 / 131.3 and by hand
//     130.4 / 127.7; a layer norm with a row a thread 132.4 / 128.8, else with two 134.8 / 132.4; a
//     softmax of 16384 x 4097 float32 with 256 threads 133.7 / 130.1, with 512 138.5 / 136.0, else
//     136.3 / 134.0.
//   - Held packed, as the RMS norm takes 185.9 / 181.1 with what the compiler keeps unpacked,
//     and spills.
//   - Long rows with weights: an RMS norm of 2048 x 131072 bfloat16 takes 263.1 / 260.3 on an
//     H200 with loads of two steps at a time, 269.8 / 264.9 with those of one and 267.0 / 264.0
//     of four; a layer norm of 4096 x 65536 267.5 / 263.0 with two of 512 threads,
//     283.2 / 279.1 with two of 256 and 270.9 / 268.2 with four of 256.
//   - Long rows that are tested for their end, on an H200, in turn and with one step at a time, and as whole rows are, and a copy: a layer
//     norm of 5363 x 50048 282.5 / 278.4, 300.3 / 297.9 and 254.1 / 251.8, of 2681 x 100096 292.6 / 290.3, 307.1 /
//     304.8 and 256.1 / 251.8, of 8128 x 33024 with 256 threads 278.5 / 275.0, with 512 297.7 / 294.4, else 296.1 /
//     292.0, of 1490 x 180096 295.5 / 291.7, 328.9 / 323.6 and 347.6 / 347.0; a softmax of 2681 x 100096 252.5 / 250.0, else 256.3 / 254.7.
//   - Long rows that do not begin with lines, on an H200, with steps that do, with steps that begin with sectors, with rows, and a copy:
//     a softmax of 4096 x 65528 254.6 / 252.2, 255.0 / 253.6, 261.2 / 258.9 and 255.2 / 251.5, an RMS norm 260.0 / 257.1,
//     265.8 / 263.1, 270.1 / 267.9 and 255.6 / 251.0, a layer norm of 5368 x 50000 290.9 / 286.4, 297.6 / 293.6, 300.0 / 299.6
//     and 254.6 / 251.6; of float32 an RMS norm of 1342 x 50000 133.4 / 130.3, with rows 148.2 / 144.1, and a copy 131.0 / 127.5.
//   - Rows of 1 MB: a softmax of 512 x 262144 float32 takes 367.7 / 364.2 with 16 blocks of 256
//     threads, 428.9 / 423.7 with 16 of 512, 410.1 / 409.3 with 8 of 512; a copy 358.2 / 352.6.
//   - Means and variances alone, on an H200, and by merges of moments, and a copy of as many bytes: of 4194304 x 64
//     bfloat16 138.0 / 126.6, 182.4 / 178.4 and 137.7 / 133.6, of 2097152 x 128 135.8 / 119.7, 151.6 / 146.3 and
//     132.3 / 129.0, of 262401 x 1023 132.3 / 125.5, 179.8 / 171.8 and 131.5 / 129.1, of 65536 x 4096 129.1 / 122.0,
//     132.5 / 126.4 and 129.0 / 125.6, of 4194304 x 32 float32 140.3 / 127.7, 168.3 / 163.5 and 136.0 / 133.1.
//   - Few rows: an RMS norm of 64 x 8192 takes 5.3 / 5.1 with two vectors of each of 512
//     threads and the weight loaded first, 5.3 / 5.1 with four of 256, 5.5 / 5.4 with one of
//     1024; with four and the weight loaded last it took 6.1 / 6.1 where one of 1024 took
//     5.1 / 5.1. A layer norm of 256 x 1024 takes 4.6 / 4.7 with one, two or four. A softmax
//     of 64 x 8192 takes no less with more threads.
package innerpersistent

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment.
type Params struct {
	Vector  int64             // elements of a step
	Aligned int64             // elements that steps begin at a multiple of in memory, in another place of each row; 0: at that of the row
	Steps   int64             // of a thread along its row
	Threads int64             // of a row, in a block
	Cluster int64             // blocks of a row
	Rows    int64             // of a block, of threads of their own
	Each    int64             // rows that a thread has at a time
	Shared  bool              // inputs that are needed again are in shared memory
	Ahead   int64             // steps then whose other loads are under way at a time; 0 is 1
	Whole   bool              // a row has all elements of all steps
	Piece   int64             // elements of a row, if the rows of a block get to and from memory as one piece, by way of shared memory; else 0
	Price   persistence.Price // of what is held in registers
	Early   bool              // what all rows have in common is loaded before they are reduced
	Soon    bool              // what is read after rows are reduced, and not common to all, is loaded before
	Across  bool              // rows that share elements come one after another, not those next to each other in memory
	Once    bool              // loads take no place in the first cache
	Apart   bool              // what rows have in common is not loaded before they are reduced

	Resident int64 // blocks of a processor that registers are to leave room for; 0: any number
}

func (p Params) String() string {
	blocks := ""
	if p.Cluster > 1 {
		blocks = fmt.Sprintf(" in each of %d blocks", p.Cluster)
	}
	memory, early, each, ahead, aligned, whole := "", "", "", "", "", ""
	if p.Ahead > 1 {
		ahead = fmt.Sprintf(", %d at a time", p.Ahead)
	}
	switch {
	case p.isInSectors() && p.Shared:
		aligned = fmt.Sprintf(" from where lines of %d elements begin", p.Aligned)
	case p.isInSectors():
		aligned = fmt.Sprintf(" from where sectors of %d elements begin", p.Aligned)
	case p.Aligned > 1:
		aligned = " from where memory is aligned"
	}
	if p.Whole {
		whole = ", all whole"
	}
	if p.Each > 1 {
		each = fmt.Sprintf(", %d a thread", p.Each)
	}
	if p.Shared {
		memory = " in shared memory"
	}
	if p.Early {
		early = ", what rows have in common loaded first"
	}
	if p.Soon {
		early += ", what is read after they are reduced loaded first"
	}
	if p.Across {
		early += ", rows that share elements one after another"
	}
	if p.Once {
		early += ", past the first cache"
	}
	if p.Apart {
		early += ", what rows have in common loaded last"
	}
	if p.Piece > 0 {
		memory = fmt.Sprintf(" of %d elements as one piece by way of shared memory", p.Piece)
	}
	resident := ""
	if p.Resident > 0 {
		resident = fmt.Sprintf(", room for %d blocks", p.Resident)
	}
	return fmt.Sprintf("inner persistent: %d rows a block%s%s, %d threads a row%s, %d steps of %d elements each%s%s%s, a held byte at %d%s%s", p.Rows*p.Each, each, memory, p.Threads, blocks, p.Steps, p.Vector, whole, aligned, ahead, p.Price, early, resident)
}

// Width is that of [scheduler.Vectorized]. Where it is known that blocks have as many rows
// each, no access is tested for the row.
func (p Params) Width() int64 {
	if p.Piece > 0 {
		return accessBytes
	}
	if p.Rows*p.Each > mostRows {
		return max(p.Vector, p.Each) // results of the rows of a thread may be stored at once
	}
	return max(p.Vector, p.Rows*p.Each)
}

// holding is what p's plan of what is held depends on.
func (p Params) holding() holding { return holding{p.Price, p.Vector > 1, p.Shared} }

// capacity is how many elements a row may have.
func (p Params) capacity() int64 {
	if p.Piece > 0 {
		return p.Piece
	}
	return p.Threads*p.Cluster*p.Steps*p.Vector - p.before()
}

// before is how many elements the first step has before its row, at most.
func (p Params) before() int64 {
	return max(p.Aligned-1, 0)
}

// isInSectors reports whether steps begin with the sectors or lines of memory, which vectors alone need not.
func (p Params) isInSectors() bool { return p.Aligned > p.Vector }

// inOnePiece reports whether each block of a cluster has a part of the row that is in one piece. Else blocks take steps of it in turn:
// what is beyond the end of a row, or before it, is in the last steps of all blocks, or the first, and the others are not
// tested for it. Where loads of several steps are under way that gains less than it costs: in us on an H200, in turn and in
// pieces, an RMS norm of 1490 x 180096 bfloat16 takes 266.9 / 263.6 and 260.2 / 257.9, of 4096 x 65528 270.4 / 267.7 and 270.1 / 268.0.
func (p Params) inOnePiece() bool {
	return p.Shared && (p.Whole || p.Ahead > 1 && p.Aligned == 0)
}

// least is how many elements a row has at least that has these parameters: all but the
// last steps of a thread are whole then. 0: it may be empty.
func (p Params) least() int64 {
	if p.Whole || p.Piece > 0 {
		return p.capacity()
	}
	below := bucketsOf(p.Ahead).Below(p.Steps)
	if below == 0 {
		return 0
	}
	return max(below*p.Threads*p.Cluster*p.Vector+1-p.before(), 0)
}

const name = "inner_persistent" // as the enumeration SchedulerType of Python has it

// Scheduler is the scheduler of this package.
type Scheduler = scheduler.Planned[Params, kind]

type kind struct{}

func (kind) Name() string { return name }

// Find is that of [scheduler.Kind].
func (kind) Find(g *scheduler.Segment) scheduler.Finding[Params] {
	a := analyse(g)
	return scheduler.Finding[Params]{Attempts: &a.attempts, Choose: a.choose, Err: a.err}
}

// An analysis is what is found out about a segment when it is accepted.
type analysis struct {
	g        *scheduler.Segment
	facts    facts
	rows     *space.Rows
	attempts scheduler.Attempts[Params]
	err      error // why it is not accepted
}

// Facts are what is known of a fusion, whatever the sizes.
type facts struct {
	reference  core.ValID // the first reduction
	held       map[holding]held
	isOnline   bool  // some reduction keeps several values for a result
	isMoments  bool  // no element is needed after its row is reduced, but for a variance
	shared     int64 // bytes for each element of a row of the inputs that all rows have in common
	widest     int64 // of one of these
	soon       int64 // the same of those that not all have in common, which are read after rows are reduced
	isRepeated bool  // some of these are common to some rows
	err        error
}

// A holding is what a plan of what is held depends on.
type holding struct {
	price    persistence.Price
	isPacked bool
	isShared bool
}

// Held is what is kept for each element of a row from one phase to another.
type held struct {
	bytes, registers int64 // in registers
	again            []int // the inputs, by place, that are in shared memory if some are
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{g: g}
		a.attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		a.facts = scheduler.Recall(g, Scheduler{}, func() facts { return find(g) })
		if a.err = a.facts.err; a.err == nil {
			a.rows, a.err = space.NewRows(a.g, a.facts.reference, name)
		}
		return a
	})
}

// find returns the facts of the fusion of g.
func find(g *scheduler.Segment) (x facts) {
	f := g.Fusion
	refuse := func(rule string, v core.ValID, format string, args ...any) facts {
		return facts{err: scheduler.Refused(f, name, rule, v, format, args...)}
	}
	if err := scheduler.Check(f, name, func(c core.Class) bool { return scheduler.Maps(c) || c == core.Reduction }); err != nil {
		return facts{err: err}
	}
	s := schedule.New(f)
	once, err := persistence.Sort(s)
	if err != nil {
		return facts{err: err}
	}
	if err := twoPass(s, nil); err != nil {
		return facts{err: err}
	}
	phases, err := persistence.Sort(s)
	switch {
	case err != nil:
		return facts{err: err}
	case len(phases.Reductions) == 0:
		return refuse("operation", core.NoVal, "nothing is reduced")
	case phases.Last == 0:
		return refuse("persistence", core.NoVal, "no element is needed after its row is reduced")
	}
	if err := scheduler.CheckSteps(s.Fusion(), name, phases.Reductions); err != nil {
		return facts{err: err}
	}
	x.isMoments = once.Last == 0
	x.isOnline = slices.ContainsFunc(phases.Reductions, func(v core.ValID) bool { return len(s.Fusion().Expr(s.Fusion().Val(v).Def).Out) > 1 })
	x.reference = scheduler.Reductions(f)[0]
	switch u, err := g.Uncovered(x.reference); {
	case err != nil:
		return facts{err: err}
	case u != core.NoVal:
		return refuse("reference", u, "%s has dimensions that are not those of the rows that are reduced to %s", f.Name(u), f.Name(x.reference))
	}
	for _, v := range s.Fusion().Inputs() {
		if t := s.Fusion().Val(v); t.Tensor && phases.LoadsFirst(v) {
			x.shared += int64(t.DType.Size())
			x.widest = max(x.widest, int64(t.DType.Size()))
		}
	}
	for _, v := range s.Fusion().Inputs() {
		if t := s.Fusion().Val(v); t.Tensor && phases.LoadsSoon(v) {
			x.soon += int64(t.DType.Size())
			x.isRepeated = x.isRepeated || phases.IsRepeated(v)
		}
	}
	x.held = map[holding]held{}
	for _, price := range persistence.Prices {
		for _, isPacked := range []bool{false, true} {
			for _, phases.Reload = range []bool{false, true} {
				plan := phases.Choose(price, isPacked)
				h := held{bytes: plan.Bytes, registers: plan.Registers}
				for i, v := range f.Inputs() {
					if phases.Reload && slices.Contains(plan.Reread(), v) {
						h.again = append(h.again, i)
					}
				}
				x.held[holding{price, isPacked, phases.Reload}] = h
			}
		}
	}
	return x
}

// twoPass lets s compute means and variances in two passes. sums, if any, gets what is
// summed instead, by mean.
func twoPass(s *schedule.Scheduled, sums *map[core.ValID]core.ValID) error {
	return s.Rewrite(func(f *core.Fusion) error {
		instead, err := f.TwoPassWelford(nil)
		if sums != nil {
			*sums = instead
		}
		return err
	})
}

// apartExponentials lets s compute the largest elements of rows and then the sums of the exponentials that are needed anyway. It adds
// to sums the maximum that is computed instead of each.
func apartExponentials(s *schedule.Scheduled, sums map[core.ValID]core.ValID) error {
	return s.Rewrite(func(f *core.Fusion) error {
		instead, err := f.TwoPassExponentials()
		maps.Copy(sums, instead)
		return err
	})
}

// recipe has p and what build reads of the segment.
func (a *analysis) recipe(p Params) string {
	return fmt.Sprint(p, a.dimensions(p), a.rows.KeptDimensions, a.pitch(p).Widths, a.beside(p))
}

// across is [space.Rows.Across].
func (a *analysis) across() []int { return a.rows.Across(a.g.Cache) }

// dimensions are those of the rows in the order of the loops of p, those that are kept first.
func (a *analysis) dimensions(p Params) []int {
	if !p.Across {
		return a.rows.Dimensions
	}
	return slices.Concat(a.across(), a.rows.Dimensions[a.rows.KeptDimensions:])
}

// pitch is that of the accesses of p.
func (a *analysis) pitch(p Params) space.Pitch {
	if p.Aligned > 1 {
		return a.rows.AlignedPitch(a.rows.Kept, p.Vector)
	}
	return a.rows.Pitch(p.Vector)
}
