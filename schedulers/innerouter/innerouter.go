// Package innerouter schedules segments that reduce rows along their innermost dimensions
// and also fold columns: each element of a row is added to what is kept for its column
// meanwhile, so that rows are read once. The backward of layer norm and RMS norm is one:
// the gradient of the input needs sums of each row, those of weights and biases are sums
// of columns.
//
// Its central type is [Params]. As many blocks as a device holds at once are dealt the
// rows, and each goes through its own one after the other. A thread has the same columns
// of all of them: it keeps what rows need until they are reduced, as package
// innerpersistent does, and what it has folded of its columns, in registers. Rows that can
// be copied asynchronously are copied to shared memory while those before them are computed
// with, and each phase reads them there. At the end
// blocks leave that in global memory and wait for each other; then each folds some columns
// of all blocks, in an order that is always the same.
//
// # Invariants
//
//   - The number of blocks is a constant that all fit a device at once: the launch is
//     cooperative.
//   - Loops over a row have constant extents, which a row must not exceed
//     ([schedule.Scheduled.SplitWhole]), so that a kernel serves rows of many lengths and
//     any number of them. Rows of that very length have a kernel without tests for their end.
//
// What is made of columns is computed from that alone; anything else is refused.
package innerouter

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
	Vector int64 // elements of a step
	Steps  int64 // of a thread along its row
	Warps  int64 // of a row, of 32 threads each
	Rows   int64 // that a block has at a time
	Blocks int64 // that are dealt the rows
	Stages int64 // of circular buffers in shared memory that rows go through, 0 if there are none
	Whole  bool  // a row has all elements of all steps

	IsResident bool              // what all rows share is held for all of them
	Price      persistence.Price // of what is held
}

func (p Params) String() string {
	whole := ""
	if p.Whole {
		whole = ", all whole"
	}
	text := fmt.Sprintf("inner outer: %d blocks with %d rows at a time, %d warps a row, %d steps of %d elements each%s, a held byte at %d", p.Blocks, p.Rows, p.Warps, p.Steps, p.Vector, whole, p.Price)
	if p.IsResident {
		text += ", beside what all rows share"
	}
	if p.Stages > 0 {
		text += fmt.Sprintf(", through shared memory in %d stages", p.Stages)
	}
	return text
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return p.Vector }

// capacity is how many elements a row may have.
func (p Params) capacity() int64 { return warp * p.Warps * p.Steps * p.Vector }

const name = "inner_outer_persistent" // as the enumeration SchedulerType of Python has it

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
	rows     *space.Rows
	attempts scheduler.Attempts[Params]
	err      error // why it is not accepted
}

// Facts are what is known of a fusion with one of its reductions along rows.
type facts struct {
	reference core.ValID
	columns   int64 // registers of an element of a column that is folded
	held      map[holding]held
	rowInputs []core.ValID // that have elements of their own for each row
	bytes     int64        // of an element of all of those
	err       error
}

// held is what is held for each element of a row.
type held struct{ bytes, registers int64 }

// A holding is what a plan of what is held depends on.
type holding struct {
	price                          persistence.Price
	isPacked, isStaged, isResident bool
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{g: g}
		a.attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		for k, x := range scheduler.Recall(g, Scheduler{}, func() []facts { return find(g) }) {
			b := &analysis{g: g, facts: x, err: x.err}
			if b.err == nil {
				if b.rows, b.err = space.NewRows(b.g, b.reference, name); b.err == nil && b.rows.Piece < b.rows.Length {
					b.err = scheduler.Refused(g.Fusion, name, "outer reduction", b.reference,
						"%s is reduced along dimensions on both sides of one that is kept", g.Fusion.Name(b.reference))
				}
			}
			if k == 0 || b.err == nil {
				b.attempts = a.attempts
				*a = *b
			}
			if a.err == nil {
				break
			}
		}
		return a
	})
}

// find returns the facts of the fusion of g, for each way to take its reductions for
// those along rows.
func find(g *scheduler.Segment) (all []facts) {
	f := g.Fusion
	refuse := func(rule string, v core.ValID, format string, args ...any) []facts {
		return []facts{{err: scheduler.Refused(f, name, rule, v, format, args...)}}
	}
	if err := scheduler.Check(f, name, func(c core.Class) bool { return scheduler.Maps(c) || c == core.Reduction }); err != nil {
		return []facts{{err: err}}
	}
	reductions := scheduler.Reductions(f)
	if len(reductions) < 2 {
		return refuse("operation", core.NoVal, "not both rows and columns are reduced")
	}
	if err := scheduler.CheckSteps(f, name, reductions); err != nil {
		return []facts{{err: err}}
	}
	switch u, err := g.Uncovered(reductions[0]); {
	case err != nil:
		return []facts{{err: err}}
	case u != core.NoVal:
		return refuse("reference", u, "%s has dimensions that are not those of the rows that are reduced to %s", f.Name(u), f.Name(reductions[0]))
	}
	known := map[core.ValID]bool{}
	for _, v := range reductions {
		if known[v] {
			continue
		}
		x, same := factsOf(f, v)
		for _, w := range same {
			known[w] = true
		}
		if all = append(all, x); len(all) == 2 || len(same) == 0 {
			break
		}
	}
	return all
}

// factsOf returns the facts of f with the rows that are reduced to reference, and the
// reductions along those.
func factsOf(f *core.Fusion, reference core.ValID) (x facts, rows []core.ValID) {
	s := schedule.New(f)
	sums, err := twoPass(s, reference)
	if err != nil {
		return facts{err: err}, nil
	}
	x.reference = reference
	if v, ok := sums[reference]; ok {
		reference = v
	}
	phases, err := persistence.SortRows(s, reference)
	if err != nil {
		return facts{err: err}, nil
	}
	rows = slices.Clone(phases.Reductions)
	for mean, sum := range sums {
		if slices.Contains(rows, sum) {
			rows = append(rows, mean)
		}
	}
	if len(phases.Columns) == 0 {
		x.err = scheduler.Refused(f, name, "operation", core.NoVal, "no columns are reduced")
		return x, rows
	}
	sf := s.Fusion()
	for _, v := range phases.Columns {
		for _, w := range sf.Expr(sf.Val(v).Def).Out {
			x.columns += int64(sf.Val(w).DType.Size()+3) / 4
		}
	}
	x.held = map[holding]held{}
	measure := func(phases *persistence.Phases, isStaged bool) {
		for _, price := range persistence.Prices {
			for k := range 4 {
				isPacked, isResident := k&1 > 0, k&2 > 0
				phases.Resident = isResident
				q := phases.Choose(price, isPacked)
				x.held[holding{price, isPacked, isStaged, isResident}] = held{q.Bytes, q.Registers}
			}
		}
	}
	measure(phases, false)
	x.rowInputs = rowInputs(s, phases)
	for _, v := range x.rowInputs {
		x.bytes += int64(sf.Val(v).DType.Size())
		if _, err := s.CacheAfter(v, nil); err != nil {
			return facts{err: err}, nil
		}
	}
	if _, err := stage(s, phases); err != nil {
		return facts{err: err}, nil
	}
	if phases, err = persistence.SortRows(s, reference); err != nil {
		return facts{err: err}, nil
	}
	measure(phases, true)
	return x, rows
}

// twoPass lets s compute means and variances of the rows that are reduced to reference in
// two passes. It returns what is summed instead, by mean.
func twoPass(s *schedule.Scheduled, reference core.ValID) (sums map[core.ValID]core.ValID, err error) {
	phases, err := persistence.SortRows(s, reference)
	if err != nil {
		return nil, err
	}
	err = s.Rewrite(func(f *core.Fusion) (err error) {
		sums, err = f.TwoPassWelford(func(mean core.ValID) bool { return slices.Contains(phases.Columns, mean) })
		return err
	})
	return sums, err
}

// recipe has p and what build reads of the segment.
func (a *analysis) recipe(p Params) string {
	return fmt.Sprint(p, a.reference, a.rows.Dimensions, a.rows.KeptDimensions, a.rows.Pitch(p.Vector).Widths)
}
