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
// elements for all rows are large, blocks go through all rows with what they have of them
// (through.go). Where inputs are constant along short innermost axes, as where
// pairs are stacked, each step has those whole. All other tensors follow, and are computed where they are used.
//
// What has nothing in common, such as functions of three parts of a tensor, has loops of its
// own each, in blocks of its own, which follow each other: three parts of a tensor of 8192 x 6144 bfloat16 that
// are scaled take 53.0 / 49.8 us on an H200 so, of equal or of other sizes, 54.9 / 51.4 if a thread has elements of
// each, 60.2 / 56.9 as kernels, and a copy 52.8 / 49.1; of 64 rows 5.9, 5.9 to 6.1 and 11.4.
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
	Groups  int64 // of rows that blocks of columns go through; 0: a block has its own rows
	Before  int   // axes in the order of loops that are before the rows, and are columns
	Whole   int   // innermost axes in the order of loops that each step has whole, if there is no break
	Others  [mostSides - 1]Steps
}

// mostSides is how many sets of tensors a kernel computes that have nothing in common.
const mostSides = 8

// Steps are those of a thread for tensors that have nothing in common with others.
type Steps struct{ Unroll, Vector int64 }

// of returns the choices for set k of the tensors that have nothing in common.
func (p Params) of(k int) Params {
	if k > 0 {
		p.Unroll, p.Vector = p.Others[k-1].Unroll, p.Others[k-1].Vector
	}
	p.Others = [mostSides - 1]Steps{}
	return p
}

func (p Params) String() string {
	threads := fmt.Sprintf("%d threads", p.Threads)
	if p.Break > 0 {
		threads = fmt.Sprintf("%d rows of %d threads, columns from axis %d on", p.Rows, p.Threads, p.Before+p.Break)
		if p.Before > 0 {
			threads += fmt.Sprintf(" and before axis %d", p.Before)
		}
		switch {
		case p.Groups == 1:
			threads += ", through all rows"
		case p.Groups > 1:
			threads += fmt.Sprintf(", through the rows of %d groups", p.Groups)
		}
	}
	if p.Whole > 0 {
		threads += fmt.Sprintf(", innermost axes whole: %d", p.Whole)
	}
	text := fmt.Sprintf("pointwise: %s, %v each", threads, Steps{p.Unroll, p.Vector})
	for _, x := range p.Others {
		if x.Unroll > 0 {
			text += fmt.Sprintf("; beside that %v each", x)
		}
	}
	return text
}

func (x Steps) String() string {
	if x.Vector > 1 {
		return fmt.Sprintf("%d vectors of %d elements", x.Unroll, x.Vector)
	}
	return fmt.Sprintf("%d elements", x.Unroll)
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 {
	w := max(p.Vector, 1)
	for _, x := range p.Others {
		w = max(w, x.Vector)
	}
	return w
}

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

// pitch returns that of the loops of q, of which p has the order.
func (q Params) pitch(p *space.Space) space.Pitch {
	if q.Whole > 0 {
		return p.WholePitch(len(p.Order)-q.Whole, q.Width())
	}
	return p.PitchOf(q.Break, q.Width(), 1)
}

// simplest are parameters that serve every segment.
var simplest = Params{Threads: smallBlock, Unroll: 1, Vector: 1}

// An analysis is what is found out about a segment when it is accepted.
type analysis struct {
	scheduler.Attempts[Params]
	spaces []*space.Space // of tensors that have nothing in common
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
		if len(a.spaces) > mostSides {
			f := g.Fusion
			a.err = scheduler.Refused(f, name, "sides", a.spaces[mostSides].Reference, "%s is one of %d tensors that have nothing in common, of which a kernel has %d at most",
				f.Name(a.spaces[mostSides].Reference), len(a.spaces), mostSides)
			return a
		}
		for _, p := range a.spaces {
			p.Unaligned = true
		}
		if !slices.ContainsFunc(a.spaces, func(p *space.Space) bool { return !slices.IsSorted(p.Order) }) {
			return a
		}
		if a.Try(a.simplest()) != nil { // some tensor cannot follow in this order
			for k, p := range a.spaces {
				a.spaces[k] = p.AsDefined()
			}
		}
		return a
	})
}

// simplest returns [simplest] for all sets of tensors.
func (a *analysis) simplest() Params {
	q := simplest
	for k := range a.spaces[1:] {
		q.Others[k] = Steps{simplest.Unroll, simplest.Vector}
	}
	return q
}

// recipe has q and what build reads of the space.
func (a *analysis) recipe(q Params) string {
	text := fmt.Sprint(q)
	for k, p := range a.spaces {
		var widths []int64
		if x := q.of(k); x.Vector > 1 {
			widths = x.pitch(x.arrange(p)).Widths
		}
		place := slices.IndexFunc(a.Segment.Fusion.Outputs(), func(o core.Output) bool { return o.Val == p.Reference })
		text += fmt.Sprint(" ", widths, place, p.Order)
	}
	return text
}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	var all []Params
	points := int64(0)
	for _, p := range a.spaces {
		points += p.Size(0, len(p.Extents))
	}
	if points > 0 {
		work, err := scheduler.Work(a.Segment.Fusion, a.Segment.Shapes)
		if err != nil {
			return nil, err
		}
		var each []planner
		for _, p := range a.spaces {
			each = append(each, planner{p, work / float64(points), points, device, a.Segment.Cache, a.wholes()})
		}
		if all = each[0].choose(); len(each) > 1 {
			all = beside(each)
		}
	}
	return a.First(all, a.simplest())
}

// wholes returns the places from which on steps may have all, if all loops are those of one space.
func (a *analysis) wholes() []int {
	if len(a.spaces) > 1 {
		return nil
	}
	return a.spaces[0].Wholes(a.Segment.Fusion)
}

func (a *analysis) build(q Params) (*schedule.Scheduled, error) {
	parts := make([]map[core.ValID]bool, len(a.spaces))
	for k, p := range a.spaces {
		x := q.of(k)
		if parts[k] = p.Among(); !x.isPossible(p) || len(a.spaces) > 1 && x.Break > 0 {
			return nil, core.InvalidArgumentf("schedule(): %v is not possible for %d dimensions", q, len(p.Order))
		}
	}
	return scheduler.BuildParts(a.Segment.Fusion, parts, func(s *schedule.Scheduled) error { return q.schedule(s, a) })
}

// isPossible reports whether tensors of the space p can have loops as q says.
func (p Params) isPossible(of *space.Space) bool {
	switch {
	case p.Threads < 1 || p.Unroll < 1 || p.Break < 0 || p.Before < 0 || p.Groups < 0:
		return false
	case p.Break > 0:
		return p.Whole == 0 && p.Before+p.Break < len(of.Order) && p.Rows > 0
	}
	n := len(of.Order)
	return p.Before == 0 && p.Groups == 0 && p.Whole >= 0 && p.Whole < max(n, 1) && p.Width()%of.Size(n-p.Whole, n) == 0
}

func (p Params) schedule(s *schedule.Scheduled, a *analysis) error {
	if _, err := scheduler.CacheOutputs(s); err != nil {
		return err
	}
	for k, in := range a.spaces {
		x := p.of(k)
		arranged := x.arrange(in)
		if len(in.Order) > 0 {
			if err := x.loops(s, arranged); err != nil {
				return err
			}
			if err := scheduler.Spread(s, name, in.Reference); err != nil {
				return err
			}
			if err := arranged.Vectorize(s, x.pitch(arranged)); err != nil {
				return err
			}
		}
	}
	for _, in := range a.spaces {
		if err := scheduler.ParallelizeLike(s, in.Reference, nil); err != nil {
			return err
		}
	}
	if len(a.spaces) > 1 {
		s.SetSideBySide()
	}
	if err := a.Segment.Stream(s); err != nil {
		return err
	}
	if err := s.InlineMost(nil, nil); err != nil || p.Groups == 0 {
		return err
	}
	return s.InlineWithin(computed(s))
}
