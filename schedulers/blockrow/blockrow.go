// Package blockrow schedules segments that scan or sort rows along the innermost dimension,
// or choose their greatest elements, with what is computed element by element before and
// after.
//
// Its central type is [Params]. A row has threads of its own, a part of a warp, a warp or
// several, which hold all of it in registers: in steps, in each of which every thread has
// the elements of a vector. Loops over them have constant extents, which a row must not
// exceed ([schedule.Scheduled.SplitWhole]), so that a kernel serves rows of many lengths
// and any number of them. What the threads of a row exchange is for lowering to say. Rows
// that are sorted are in shared memory meanwhile, and their threads are a power of two with
// one step of as many elements each.
//
// Rows that would be loaded one by one, of an odd number of elements of 2 bytes or less, are
// in pairs that begin where memory is aligned, in another place of every second row
// ([schedule.Scheduled.AlignRows]). A scan begins with its identity before the row.
//
// Rows along a dimension that is not innermost in memory are columns, which are scanned and not
// sorted. Threads along x have columns next to each other, and so may each of them; threads along y
// have parts of a column, of consecutive elements.
//
// Rows that do not fit in the registers of a block, and those of two dimensions in one segment are
// refused.
//
// # Choices
//
// On an H100 (80GB HBM3), with a dirty and a clean second cache, in microseconds: a cumsum of
// 8192 x 2048 float32 takes 49.2 / 42.7 and a copy 49.2 / 43.1, of 65536 x 2048 bfloat16
// 180.4 / 174.8 and 182 / 175; of rows of 1,023, loaded one by one, 125 / 120 and 93 / 87; on
// an H200 116 / 114 so, in aligned pairs 69.5 / 67.1, and a copy 68.3 / 65.2. All pairs are loaded before any is set right: of
// 131200 x 1023 bfloat16 it takes 137.8 / 137.8 so, 177.0 / 175.7 with each on its own, of products with a row
// 168.3 / 165.4 and 216.5 / 212.5, of 65568 x 2047 137.4 / 134.9 and 172.2 / 166.8, and a copy 130.7 / 126.6. With 8 elements of a thread that sorts, argsort takes 73 for 4096 x 1024 float32
// and 405 for 4096 x 4096, with 4 71 and 399, with 16 88 and 417; the 8 greatest of 16384 x
// 256 bfloat16 16.7, with 4 17.6, with 16 14.5, the 50 greatest of 4096 x 4096 float32 194,
// with 4 194, with 16 227.
//
// On an H200, a cumsum of columns, 1024 next to each other, that reads 537 MB of float32, takes 262 /
// 258 where they have 256 elements, 263 / 259 of 512, 271 / 268 of 1024 and 285 / 282 of 2048, and a copy
// 260 / 257; of half as much bfloat16 132 / 129, 144 / 140, 150 / 146 and 194 / 191, and a copy 130 / 127.
// Less memory next to each other costs most: columns of 2048 float32 take 371 / 371 by pieces of 32
// bytes, and those are of 64. More elements of a thread are more instructions: columns of 1024 take
// 314 / 313 with 32 of each of two columns, and those have 16. That threads have no elements beyond
// the end, and no tests for it, saves two fifths of the instructions and no time.
package blockrow

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment.
type Params struct {
	Columns bool  // rows lie across memory: a thread has some next to each other, in one step
	Vector  int64 // elements of a step; of columns, those next to each other
	Aligned bool  // steps begin where memory is aligned, in another place of each row
	Steps   int64 // of a thread along its row
	Threads int64 // of a row; a power of two
	Rows    int64 // of a block; of columns, the threads next to each other
}

func (p Params) String() string {
	if p.Columns {
		return fmt.Sprintf("block row: %d threads next to each other with %d columns each, %d threads a column with %d elements each", p.Rows, p.Vector, p.Threads, p.Steps)
	}
	aligned := ""
	if p.Aligned {
		aligned = " from where memory is aligned"
	}
	return fmt.Sprintf("block row: %d rows a block, %d threads a row, %d steps of %d elements each%s", p.Rows, p.Threads, p.Steps, p.Vector, aligned)
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return p.Vector }

// capacity is how many elements a row may have.
func (p Params) capacity() int64 {
	if p.Columns {
		return p.Threads * p.Steps
	}
	return p.Threads*p.Steps*p.Vector - p.before()
}

// before is how many elements the first step has before its row, at most.
func (p Params) before() int64 {
	if p.Aligned {
		return p.Vector - 1
	}
	return 0
}

// least is how many elements a row has at least that has these parameters: all but the
// last steps of a thread are whole then. 0: it may be empty.
func (p Params) least() int64 {
	below := buckets.Below(p.Steps)
	if below == 0 || p.Columns {
		return 0
	}
	return max(below*p.Threads*p.Vector+1-p.before(), 0)
}

const name = "block_row"

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
	space    *space.Space // the row is last in its order, or columns are
	inner    int          // place in it from where columns are next to each other in memory; 0: they are rows
	attempts scheduler.Attempts[Params]
	err      error // why it is not accepted
}

// Facts are what is known of a fusion, whatever the sizes.
type facts struct {
	reference core.ValID // has the rows: the first result that needs all of one, or what topk reads
	dim       int        // of it, along the rows
	words     int64      // registers of an element of the widest type
	live      int64      // the same of all that a scan and what is read after it have
	record    int64      // bytes of what is sorted for an element; 0: nothing is sorted
	err       error
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{g: g}
		a.attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		a.facts = scheduler.Recall(g, Scheduler{}, func() facts { return find(g) })
		if a.err = a.facts.err; a.err == nil {
			a.err = a.lie()
		}
		return a
	})
}

// find returns the facts of the fusion of g.
func find(g *scheduler.Segment) facts {
	f := g.Fusion
	refuse := func(rule string, v core.ValID, format string, args ...any) facts {
		return facts{err: scheduler.Refused(f, name, rule, v, format, args...)}
	}
	if err := scheduler.Check(f, name, func(c core.Class) bool { return scheduler.Maps(c) || isTaken(c) }); err != nil {
		return facts{err: err}
	}
	lines := operations(f)
	if len(lines) == 0 {
		return refuse("operation", core.NoVal, "no row is scanned or sorted")
	}
	if err := scheduler.CheckClasses(f, name, isTaken); err != nil {
		return facts{err: err}
	}
	for _, e := range lines {
		if e.Op == core.GroupPositionsOp {
			return refuse("operation", e.Out[0], "%s is the result of %s(), whose results are of two lengths", f.Name(e.Out[0]), e.Op.Name)
		}
	}
	m, err := g.Mapping()
	if err != nil {
		return facts{err: err}
	}
	first := lines[0]
	x := facts{reference: first.Out[0], dim: dimOf(first), words: 1, live: liveWords(f, lines)}
	shorter := shortened(f)
	for _, e := range lines {
		if e.Op == core.TopkOp {
			first, x.reference, x.dim = e, f.TensorArgs(e)[0], dimOf(e)
		}
	}
	row := f.Axes(x.reference)[x.dim]
	for _, e := range lines {
		v, d := f.TensorArgs(e)[0], dimOf(e)
		switch {
		case shorter[v] || m.Exact(f.Axes(v)[d]) != m.Exact(row) || e.Op == core.TopkOp && e != first:
			return refuse("two axes", e.Out[0], "%s and %s need rows along different dimensions", f.Name(first.Out[0]), f.Name(e.Out[0]))
		case e.Op == core.TopkOp && f.Axis(row).Kind == core.Broadcast:
			return refuse("one element", v, "%s has one element in each row, or the same all along", f.Name(v))
		case e.Op == core.TopkOp && f.Axis(f.Axes(e.Out[0])[d]).Kind == core.Broadcast:
			return refuse("one element", e.Out[0], "%s has one element of each row, which is a reduction", f.Name(e.Out[0]))
		case e.Op.Class == core.Sort:
			x.record = max(x.record, recordOf(f.Val(v).DType))
		}
		x.words = max(x.words, wordsOf(f, e.Out[0]))
	}
	for _, side := range []struct {
		reference core.ValID
		isShorter bool
	}{{x.reference, false}, {first.Out[0], true}} {
		switch u, err := g.UncoveredAmong(side.reference, func(v core.ValID) bool { return shorter[v] == side.isShorter }); {
		case err != nil:
			return facts{err: err}
		case u != core.NoVal:
			return refuse("reference", u, "%s has dimensions that are not those of %s", f.Name(u), f.Name(side.reference))
		}
	}
	return x
}

// recordOf returns the bytes of what is sorted for an element of type t: its order and its
// position.
func recordOf(t dtype.Type) int64 {
	switch {
	case t.Size() == 8:
		return 12
	case t.IsBool() || t == dtype.BFloat16:
		return 4
	}
	return 8
}

// shortened returns what is computed from the first elements of rows, of which there are
// fewer than rows have elements.
func shortened(f *core.Fusion) map[core.ValID]bool {
	shorter := map[core.ValID]bool{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		if e.Op == core.TopkOp || slices.ContainsFunc(f.TensorArgs(e), func(v core.ValID) bool { return shorter[v] }) {
			for _, v := range e.Out {
				shorter[v] = true
			}
		}
	}
	return shorter
}

// isTaken reports whether the scheduler takes operations of a class: those by which threads
// need no more than elements of their own, and those that need a row.
func isTaken(c core.Class) bool {
	switch c {
	case core.Elementwise, core.View, core.Factory, core.Random, core.Scan, core.Sort:
		return true
	}
	return false
}

// operations returns the expressions of f that need all of a row, in order.
func operations(f *core.Fusion) []*core.Expr {
	var all []*core.Expr
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Scan || e.Op.Class == core.Sort {
			all = append(all, e)
		}
	}
	return all
}

// dimOf returns the dimension of the rows that e needs.
func dimOf(e *core.Expr) int {
	if e.Op == core.TopkOp {
		return int(e.Args[2].Int)
	}
	return int(e.Args[1].Int)
}

// lie finds how tensors lie in memory along the rows.
func (a *analysis) lie() error {
	p, err := space.New(a.g, a.facts.reference)
	if err != nil {
		return err
	}
	a.space = p
	last := len(p.Order) - 1
	at := slices.Index(p.Order, a.facts.dim)
	if at == last || p.Extents[at] == 1 {
		return nil
	}
	if f := a.g.Fusion; a.facts.record > 0 {
		return scheduler.Refused(f, name, "strided", a.facts.reference,
			"%s has rows along dimension %d, outside of dimension %d in memory", f.Name(a.facts.reference), a.facts.dim, p.Order[last])
	}
	a.inner = at + 1
	return nil
}

// order returns the dimensions of the reference in the order of loops, the row last.
func (a *analysis) order() []int {
	order := slices.DeleteFunc(slices.Clone(a.space.Order), func(d int) bool { return d == a.facts.dim })
	return append(order, a.facts.dim)
}

// recipe has p and what build reads of the segment.
func (a *analysis) recipe(p Params) string {
	return fmt.Sprint(p, a.order(), a.inner, a.pitch(p).Widths)
}

// pitch is that of the accesses of p.
func (a *analysis) pitch(p Params) space.Pitch {
	if p.Columns {
		return a.space.PitchOf(a.inner, p.Vector, 1)
	}
	if from := len(a.space.Order) - 1; !p.Aligned {
		return a.space.PitchOf(from, p.Vector, 1)
	}
	return a.space.AlignedPitch(len(a.space.Order)-1, p.Vector)
}
