// Package pointwise schedules segments in which every element of an output comes
// from a fixed number of elements of the inputs: elementwise operations,
// broadcasts, permutes, reshapes, and tensors that are made from nothing.
//
// Its central types are [Params] and [space.Space]. One output, the
// reference, has all axes of the segment; they are put in the order in which most
// bytes lie in memory. Loops of one dimension have all of them merged, which is
// split into blocks, steps of a thread, threads, and elements of a step. Where
// tensors have the same elements for all rows, or one for each row, loops of two
// dimensions keep those in registers for several rows. Where tensors with the same
// elements for all rows are large, blocks go along rows first. All other tensors follow,
// and are computed where they are used.
//
// What has nothing in common, such as functions of three parts of a tensor, has loops of its
// own each, over as many elements: a thread runs one after another.
//
// Each input and output is moved by accesses as wide as its own strides and
// address allow, several for a step if need be.
//
// It does not exchange elements between threads: a transposed input is read in
// pieces as narrow as they come.
package pointwise

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment.
type Params struct {
	Threads int64 // of a block; along the columns if there is a break
	Unroll  int64 // steps of a thread
	Vector  int64 // elements of a step; 0 is 1
	Break   int   // axes in the order of loops that are rows, the others being columns; 0: there is one dimension
	Rows    int64 // threads of a block along the rows
	Across  bool  // blocks go along rows first, then along columns
	Before  int   // axes in the order of loops that are before the rows, and are columns
}

func (p Params) String() string {
	threads, step := fmt.Sprintf("%d threads", p.Threads), "elements"
	if p.Break > 0 {
		threads = fmt.Sprintf("%d rows of %d threads, columns from axis %d on", p.Rows, p.Threads, p.Before+p.Break)
		if p.Before > 0 {
			threads += fmt.Sprintf(" and before axis %d", p.Before)
		}
		if p.Across {
			threads += ", blocks along rows first"
		}
	}
	if p.Vector > 1 {
		step = fmt.Sprintf("vectors of %d elements", p.Vector)
	}
	return fmt.Sprintf("pointwise: %s, %d %s each", threads, p.Unroll, step)
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return max(p.Vector, 1) }

const name = "pointwise"

// Scheduler is the scheduler of this package.
type Scheduler = scheduler.Planned[Params, kind]

type kind struct{}

func (kind) Name() string { return name }

// Find is that of [scheduler.Kind].
func (kind) Find(g *scheduler.Segment) scheduler.Finding[Params] {
	a := analyse(g)
	return scheduler.Finding[Params]{Attempts: &a.Attempts, Choose: a.choose, Err: a.err}
}

// simplest are parameters that serve every segment.
var simplest = Params{Threads: smallBlock, Unroll: 1, Vector: 1}

// An analysis is what is found out about a segment when it is accepted.
type analysis struct {
	scheduler.Attempts[Params]
	space  *space.Space   // of all tensors
	spaces []*space.Space // of the references, all of the same extents
	err    error          // why it is not accepted
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{}
		a.Attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		if a.err = scheduler.Check(g.Fusion, name, scheduler.Maps); a.err != nil {
			return a
		}
		if a.spaces, a.err = space.Coverings(g, name); a.err != nil {
			return a
		}
		for _, p := range a.spaces {
			p.Unaligned = true
		}
		a.space = space.Joined(a.spaces)
		if !slices.ContainsFunc(a.spaces, func(p *space.Space) bool { return !slices.IsSorted(p.Order) }) {
			return a
		}
		if a.Try(simplest) != nil { // some tensor cannot follow in this order
			for k, p := range a.spaces {
				a.spaces[k] = p.AsDefined()
			}
			a.space = space.Joined(a.spaces)
		}
		return a
	})
}

// recipe has q and what build reads of the space.
func (a *analysis) recipe(q Params) string {
	var widths []int64
	if q.Vector > 1 {
		widths = q.arrange(a.space).PitchOf(q.Break, q.Vector, 1).Widths
	}
	text := fmt.Sprint(q, widths)
	for _, p := range a.spaces {
		place := slices.IndexFunc(a.Segment.Fusion.Outputs(), func(o core.Output) bool { return o.Val == p.Reference })
		text += fmt.Sprint(" ", place, p.Order)
	}
	return text
}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	var all []Params
	if p := a.space; p.Size(0, len(p.Extents)) > 0 {
		work, err := scheduler.Work(a.Segment.Fusion, a.Segment.Shapes)
		if err != nil {
			return nil, err
		}
		all = planner{p, work / float64(p.Size(0, len(p.Extents))), device, a.Segment.Cache}.choose()
	}
	return a.First(all, simplest)
}

func (a *analysis) build(q Params) (*schedule.Scheduled, error) {
	p := a.space
	if q.Threads < 1 || q.Unroll < 1 || q.Break < 0 || q.Before < 0 || q.Break == 0 && q.Before > 0 || q.Break > 0 && (q.Before+q.Break >= len(p.Order) || q.Rows < 1) {
		return nil, core.InvalidArgumentf("schedule(): %v is not possible for %d dimensions", q, len(p.Order))
	}
	return scheduler.Build(a.Segment.Fusion, func(s *schedule.Scheduled) error { return q.schedule(s, a) })
}

func (q Params) schedule(s *schedule.Scheduled, a *analysis) error {
	if _, err := scheduler.CacheOutputs(s); err != nil {
		return err
	}
	if len(a.space.Order) > 0 {
		for _, p := range a.spaces {
			if err := q.loops(s, q.arrange(p)); err != nil {
				return err
			}
			if err := scheduler.Spread(s, name, p.Reference); err != nil {
				return err
			}
		}
		arranged := q.arrange(a.space)
		if err := arranged.Vectorize(s, arranged.PitchOf(q.Break, q.Width(), 1)); err != nil {
			return err
		}
	}
	for _, p := range a.spaces {
		if err := scheduler.ParallelizeLike(s, p.Reference, nil); err != nil {
			return err
		}
	}
	if err := a.Segment.Stream(s); err != nil {
		return err
	}
	return s.InlineMost(nil, nil)
}
