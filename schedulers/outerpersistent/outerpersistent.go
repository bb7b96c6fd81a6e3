// Package outerpersistent schedules segments that reduce columns, along dimensions outside
// of others in memory, and need the elements of the columns again: batch norm of tensors
// with the channels last, softmax along the first dimension.
//
// Its central type is [Params]. A block has a few columns next to each other: its threads
// along x lie along them, with a vector each, those along y along what is reduced. A column
// is in one of these places between the phases, the first that has room:
//
//   - in registers of one block: loops along it have constant extents, which it must not
//     exceed ([schedule.Scheduled.SplitWhole]);
//   - in registers of several blocks, where there are few columns: each block leaves what
//     it has reduced in global memory, and reads what all have left once all have, for
//     which all must be on the device at once: the launch is cooperative;
//   - in global memory, from where each phase loads it again, in one block or several: but
//     for its last elements, which stay in shared memory, where the first phase copies all
//     to circular buffers ahead, and those before, in the second cache, as the next phase
//     begins with them;
//   - in shared memory of all blocks together, a tile of columns after the other, where what a phase loads again would
//     take longer than to wait for all blocks in each round: the last phase of a round loads the next one's columns as it
//     takes its own (package lower, refill).
//
// What blocks that share a column leave in global memory each thread folds for one column of
// the block, or few, together with neighbouring lanes, and all read it from shared memory.
//
// Where some tensors lie along the columns and others across them, as those of a layer norm of images that are read with the
// channels first and written with the channels last, a thread has elements that follow each other along its columns, and
// moves the former in vectors along those, transposed in registers.
//
// Package persistence finds what is held and what is computed again. Means and variances
// are computed in two passes over what is held, and in one where that is loaded again.
package outerpersistent

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment.
type Params struct {
	Vector int64             // neighbouring columns of a thread
	Lanes  int64             // threads of a block along the columns
	Steps  int64             // of a thread along what is reduced, side by side
	Rows   int64             // threads of a block along what is reduced
	Blocks int64             // that share a column
	Reload bool              // columns are loaded again in each phase, and have any length
	Near   bool              // the steps of a block are next to each other, not those of all blocks
	Kept   int64             // last iterations of a thread, of Steps, that shared memory has for the next phase
	Warm   int64             // those before, that the second cache is to have
	Once   bool              // shared memory has all: what is copied there is not read again
	Rounds bool              // all blocks together have a tile of columns after the other, in shared memory
	Price  persistence.Price // of what is held
	Turn   int64             // steps of a thread that follow each other, as tensors have vectors along them; 0: none has
}

func (p Params) String() string {
	text := fmt.Sprintf("outer persistent: %dx%d threads, %d steps of %d columns each, a held byte at %d", p.Lanes, p.Rows, p.Steps, p.Vector, p.Price)
	if p.Turn > 0 {
		text += fmt.Sprintf(", %d of them turned", p.Turn)
	}
	if p.Blocks > 1 {
		text += fmt.Sprintf(", %d blocks a column", p.Blocks)
	}
	if p.Rounds {
		return text + fmt.Sprintf(", in rounds of %d iterations in shared memory", p.Kept)
	}
	if p.Reload {
		text += ", loaded again"
	}
	if p.Near {
		text += " in tiles of a block"
	}
	if p.Kept+p.Warm > 0 {
		text += fmt.Sprintf(" but for %d iterations in shared memory and %d in the second cache", p.Kept, p.Warm)
	}
	if p.Once {
		text += ", which is all"
	}
	return text
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return p.Vector }

// capacity is how many elements a column has in the steps of all its threads.
func (p Params) capacity() int64 { return p.Steps * p.Blocks * p.Rows }

// iteration is how many elements a block has in an iteration of its threads.
func (p Params) iteration() int64 { return p.Lanes * p.Rows * p.Steps * p.Vector }

const name = "outer_persistent" // as the enumeration SchedulerType of Python has it

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
	g *scheduler.Segment
	facts
	space    *space.Space
	inner    int   // from this place of the space on are the columns that lie next to each other
	columns  int64 // those
	outside  int64 // how often there are such
	length   int64 // of a column
	turnings []turning
	turned   Params // with which these are moved in vectors; with a turn of 0: they are not
	attempts scheduler.Attempts[Params]
	err      error // why it is not accepted
}

// Facts are what is known of a fusion, whatever the sizes.
type facts struct {
	reference core.ValID // the first reduction
	held      map[holding]int64
	reloads   []int // inputs, by place, that are loaded in more than one phase, where they are not held
	reloaded  int64 // bytes for each element of those
	states    int64 // bytes of what all reductions together have for a column
	err       error
}

// A holding is what a plan of what is held depends on.
type holding struct {
	price            persistence.Price
	isPacked, reload bool
}

func (p Params) holding() holding { return holding{p.Price, p.Vector > 1, p.Reload} }

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{g: g}
		a.attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		a.facts = scheduler.Recall(g, Scheduler{}, func() facts { return find(g) })
		if a.err = a.facts.err; a.err == nil {
			a.err = a.measure()
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
	x = facts{held: map[holding]int64{}}
	for _, reload := range []bool{false, true} {
		s := schedule.New(f)
		if _, err := passes(s, reload); err != nil {
			return facts{err: err}
		}
		phases, err := persistence.Sort(s)
		switch {
		case err != nil:
			return facts{err: err}
		case len(phases.Reductions) == 0:
			return refuse("operation", core.NoVal, "nothing is reduced")
		case phases.Last == 0:
			return refuse("persistence", core.NoVal, "no element is needed after its column is reduced")
		}
		phases.Reload = reload
		if err := scheduler.CheckSteps(s.Fusion(), name, phases.Reductions); err != nil {
			return facts{err: err}
		}
		for _, price := range persistence.Prices {
			for _, isPacked := range []bool{false, true} {
				plan := phases.Choose(price, isPacked)
				x.held[holding{price, isPacked, reload}] = plan.Registers
				if h := (holding{price, isPacked, reload}); h == (holding{persistence.Tight, true, true}) {
					for _, v := range plan.LoadedAgain() {
						x.reloads = append(x.reloads, slices.Index(s.Fusion().Inputs(), v))
						x.reloaded += int64(f.Val(v).DType.Size())
					}
				}
			}
		}
		if reload {
			for _, v := range phases.Reductions {
				for _, w := range s.Fusion().Expr(s.Fusion().Val(v).Def).Out {
					x.states += int64(s.Fusion().Val(w).DType.Size())
				}
			}
		}
	}
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Reduction {
			x.reference = e.Out[0]
			break
		}
	}
	switch u, err := g.Uncovered(x.reference); {
	case err != nil:
		return facts{err: err}
	case u != core.NoVal:
		return refuse("reference", u, "%s has dimensions that are not those of the columns that are reduced to %s", f.Name(u), f.Name(x.reference))
	}
	return x
}

// passes lets s compute means and variances in two passes, but where elements are loaded
// again for each. It returns what is summed instead, by mean.
func passes(s *schedule.Scheduled, reload bool) (sums map[core.ValID]core.ValID, err error) {
	if reload {
		return nil, nil
	}
	err = s.Rewrite(func(f *core.Fusion) (err error) {
		sums, err = f.TwoPassWelford(nil)
		return err
	})
	return sums, err
}

// measure finds how the columns lie in memory: their innermost dimensions are kept.
func (a *analysis) measure() (err error) {
	if a.space, err = space.New(a.g, a.reference); err != nil {
		return err
	}
	if a.findTurned(); a.turned.Turn == 0 && !a.measureColumns() {
		return scheduler.Refused(a.g.Fusion, name, "inner reduction", a.reference,
			"%s is reduced along the innermost dimension in memory", a.g.Fusion.Name(a.reference))
	}
	return nil
}

// isReduced reports whether the reference is reduced along a dimension.
func (a *analysis) isReduced(dimension int) bool {
	f := a.g.Fusion
	return f.Axis(f.Val(a.reference).Domain.Logical[dimension]).Kind == core.Reduce
}

// measureColumns finds the columns in the space, and reports whether there are several next to each other.
func (a *analysis) measureColumns() bool {
	a.length, a.columns, a.outside, a.inner = 1, 1, 1, len(a.space.Order)
	isInside := true
	for k, d := range slices.Backward(a.space.Order) {
		n := a.space.Extents[k]
		switch isReduced := a.isReduced(d); {
		case isReduced:
			a.length *= n
			isInside = isInside && n == 1
		case isInside:
			a.columns *= n
			a.inner = k
		default:
			a.outside *= n
		}
	}
	return a.columns > 1
}

// order returns the dimensions of the reference: those that are kept outside, those that
// are reduced, and the columns.
func (a *analysis) order() (order []int, outside, reduced int) {
	f := a.g.Fusion
	axes := f.Val(a.reference).Domain.Logical
	isReduced := func(d int) bool { return f.Axis(axes[d]).Kind == core.Reduce }
	for k, d := range a.space.Order {
		if k < a.inner && !isReduced(d) {
			order = append(order, d)
		}
	}
	outside = len(order)
	for _, d := range a.space.Order {
		if isReduced(d) {
			order = append(order, d)
		}
	}
	reduced = len(order) - outside
	for k, d := range a.space.Order {
		if k >= a.inner && !isReduced(d) {
			order = append(order, d)
		}
	}
	return order, outside, reduced
}

// recipe has p and what build reads of the segment.
func (a *analysis) recipe(p Params) string {
	order, outside, reduced := a.order()
	return fmt.Sprint(p, order, outside, reduced, a.pitch(p.Vector).Widths, a.turnings)
}

func (a *analysis) pitch(elements int64) space.Pitch { return a.space.PitchOf(a.inner, elements, 1) }
