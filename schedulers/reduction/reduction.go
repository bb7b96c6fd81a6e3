// Package reduction schedules segments with reductions along the same axes and
// operations on what is reduced and on the results, as long as no result is
// needed again with the elements that it was reduced from.
//
// Its central type is [Params]. The axes of the reduced tensor are merged to two,
// those that are kept and those that are reduced. If the innermost one is reduced
// its threads lie along it, else along the ones that are kept, so that threads
// of a warp read neighbouring elements. Each thread folds its share serially, in
// a tensor of its own, and the threads of a block fold what is left. Where there
// is little to keep and much to reduce several blocks share a reduction, and the
// last one to arrive folds what they leave.
//
// It does not vectorize.
package reduction

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// Params are the choices for a segment. Kept and Reduced are numbers of threads
// of a block along each kind of axis.
type Params struct {
	Inner         bool // the innermost axis is reduced
	Kept, Reduced int64
	Blocks        int64 // along what is reduced; 0 and 1: a block has all of it
}

func (p Params) String() string {
	kind := "outer"
	if p.Inner {
		kind = "inner"
	}
	text := fmt.Sprintf("%s reduction: %d threads along what is kept, %d along what is reduced", kind, p.Kept, p.Reduced)
	if p.Blocks > 1 {
		text += fmt.Sprintf(", in %d blocks", p.Blocks)
	}
	return text
}

// Scheduler is the scheduler of this package.
type Scheduler struct{}

const name = "reduction"

func (Scheduler) Name() string { return name }

func (Scheduler) Accept(g *scheduler.Segment, _ scheduler.Device) []core.Refusal {
	return scheduler.Recall(g, Scheduler{}, func() []core.Refusal { return accept(g) })
}

// accept is Accept, which depends on the fusion alone.
func accept(g *scheduler.Segment) []core.Refusal {
	f := g.Fusion
	refusals := scheduler.CheckClasses(f, name, func(c core.Class) bool { return scheduler.Maps(c) || c == core.Reduction })
	if len(refusals) > 0 {
		return refusals
	}
	if refusals = scheduler.CheckSegment(f, name); len(refusals) > 0 {
		return refusals
	}
	all := reductions(f)
	if len(all) == 0 {
		return []core.Refusal{scheduler.Refuse(f, name, "operation", core.NoVal, "nothing is reduced")}
	}
	for _, v := range all {
		if e := f.Expr(f.Val(v).Def); core.MergeOp(e.Op) == nil {
			return []core.Refusal{scheduler.Refuse(f, name, "operation", v, "%s is the result of %s(), which cannot be computed in steps", f.Name(v), e.Called.Name)}
		}
	}
	if refusals = dependent(g, all); len(refusals) > 0 {
		return refusals
	}
	_, err := Scheduler{}.Apply(g, choose(f))
	return scheduler.RefusalsOf(name, err)
}

// dependent returns why the reductions cannot be computed in one pass over
// what they reduce: one needs the result of another, or a result is needed
// along the axes that were reduced.
func dependent(g *scheduler.Segment, all []core.ValID) []core.Refusal {
	f := g.Fusion
	from := map[core.ValID]core.ValID{} // the reduction that a tensor is computed from
	for _, id := range f.Order() {
		e := f.Expr(id)
		source := core.NoVal
		for _, v := range f.TensorArgs(e) {
			if r, ok := from[v]; ok {
				source = r
			}
		}
		if e.Op.Class == core.Reduction {
			if source != core.NoVal {
				return []core.Refusal{scheduler.Refuse(f, name, "persistence", e.Out[0], "%s is reduced from what is computed with %s, the result of another reduction", f.Name(e.Out[0]), f.Name(source))}
			}
			source = e.Out[0]
		}
		if source != core.NoVal {
			for _, v := range e.Out {
				from[v] = source
			}
		}
	}
	u, err := g.Uncovered(all[0])
	switch {
	case err != nil:
		return scheduler.RefusalsOf(name, err)
	case u != core.NoVal:
		return []core.Refusal{scheduler.Refuse(f, name, "reference", u, "%s has dimensions that are not those of %s, which is reduced to %s", f.Name(u), f.Name(reduced(f, all[0])), f.Name(all[0]))}
	}
	for _, v := range schedule.New(f).Tensors() {
		if source, ok := from[v]; ok && f.Val(v).Def != f.Val(source).Def && runs(f, v) > runs(f, source) {
			return []core.Refusal{scheduler.Refuse(f, name, "persistence", v, "%s combines %s, the result of a reduction, with elements along what was reduced, which must be kept meanwhile", f.Name(v), f.Name(source))}
		}
	}
	return nil
}

// runs returns the number of axes along which v has elements of its own.
func runs(f *core.Fusion, v core.ValID) (n int) {
	for _, a := range f.Axes(v) {
		if f.Axis(a).Kind != core.Broadcast {
			n++
		}
	}
	return n
}

// reductions returns the first result of each reduction, in order.
func reductions(f *core.Fusion) []core.ValID {
	var all []core.ValID
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Reduction {
			all = append(all, e.Out[0])
		}
	}
	return all
}

// reduced returns the tensor that v is the reduction of.
func reduced(f *core.Fusion, v core.ValID) core.ValID { return f.TensorArgs(f.Expr(f.Val(v).Def))[0] }

// choose returns the parameters of the first choice.
func choose(f *core.Fusion) Params {
	if isInner(f) {
		return Params{Inner: true, Kept: 1, Reduced: 128}
	}
	return Params{Kept: 32, Reduced: 8}
}

// isInner reports whether the innermost axis that is not broadcast is reduced.
func isInner(f *core.Fusion) bool {
	v := reductions(f)[0]
	axes := f.Val(v).Domain.Logical
	for k := len(axes) - 1; k >= 0; k-- {
		if kind := f.Axis(axes[k]).Kind; kind != core.Broadcast {
			return kind == core.Reduce
		}
	}
	return true
}

// share is the number of elements that a thread of a block that shares a
// reduction has at least.
const share = 16

func (Scheduler) Candidates(g *scheduler.Segment, device scheduler.Device) []scheduler.Params {
	f := g.Fusion
	p := choose(f)
	kept, reduced, err := extents(f, g.Shapes)
	if err != nil {
		return []scheduler.Params{p}
	}
	if p.Inner { // short rows: a warp for each
		warp, most := int64(device.Warp), int64(device.Threads)
		for p.Reduced > warp && p.Reduced >= 2*reduced {
			p.Reduced, p.Kept = p.Reduced/2, p.Kept*2
		}
		for p.Reduced < most && p.Kept == 1 && reduced >= 16*p.Reduced {
			p.Reduced *= 2
		}
	}
	all := []scheduler.Params{p}
	blocks := (kept + p.Kept - 1) / p.Kept
	grid := p
	grid.Blocks = min(int64(device.Processors)/max(blocks, 1), reduced/(share*p.Reduced))
	switch {
	case grid.Blocks < 2:
	case 2*blocks <= int64(device.Processors):
		all = slices.Insert(all, 0, scheduler.Params(grid))
	}
	return all
}

// extents returns how many elements are kept and how many are reduced to each, 1
// at least.
func extents(f *core.Fusion, shapes *core.Binding) (kept, reduced int64, err error) {
	kept, reduced = 1, 1
	for _, a := range f.Val(reductions(f)[0]).Domain.Logical {
		n, err := shapes.Int(f.Axis(a).Extent)
		switch {
		case err != nil:
			return kept, reduced, err
		case f.Axis(a).Kind == core.Reduce:
			reduced *= max(n, 1)
		default:
			kept *= max(n, 1)
		}
	}
	return kept, reduced, nil
}

// Recipe is that of [scheduler.Scheduler].
func (Scheduler) Recipe(_ *scheduler.Segment, p scheduler.Params) string { return fmt.Sprint(p) }

func (Scheduler) Apply(g *scheduler.Segment, params scheduler.Params) (*schedule.Scheduled, error) {
	f := g.Fusion
	p := params.(Params)
	return scheduler.Build(f, func(s *schedule.Scheduled) error { return p.schedule(s, reductions(f)) })
}

func (p Params) schedule(s *schedule.Scheduled, all []core.ValID) error {
	instead, err := scheduler.CacheOutputs(s)
	if err != nil {
		return err
	}
	for k, v := range all {
		if cache, ok := instead[v]; ok {
			all[k] = cache
		}
	}
	reference := all[0]
	if err := p.loops(s, reference); err != nil {
		return err
	}
	if err := scheduler.Spread(s, name, reference); err != nil {
		return err
	}
	for k, v := range all {
		partial, err := p.steps(s, v)
		if err != nil {
			return err
		}
		if k == 0 {
			reference = partial
		}
	}
	return scheduler.Finish(s, reference)
}

// loops merges the loops of v to [kept, reduced], either of which may be missing,
// and splits each by its threads.
func (p Params) loops(s *schedule.Scheduled, v core.ValID) error {
	f := s.Fusion()
	isReduced := func(a core.AxisID) bool { return f.Axis(a).Kind == core.Reduce }
	moves, next := map[int]int{}, 0
	for _, wanted := range []bool{false, true} {
		for k, a := range s.Loop(v) {
			if isReduced(a) == wanted {
				moves[k] = next
				next++
			}
		}
	}
	if err := s.Reorder(v, moves); err != nil {
		return err
	}
	kept := slices.IndexFunc(s.Loop(v), isReduced)
	if err := scheduler.MergeAll(s, v, kept, len(s.Loop(v))); err != nil {
		return err
	}
	if err := scheduler.MergeAll(s, v, 0, kept); err != nil {
		return err
	}
	if err := s.Split(v, -1, p.Reduced, true); err != nil {
		return err
	}
	if p.Blocks > 1 {
		if err := s.Split(v, -2, p.Blocks, false); err != nil {
			return err
		}
	}
	if kept == 0 {
		return nil
	}
	return s.Split(v, 0, p.Kept, true)
}

// steps folds the serial share of each thread in a tensor of its own, which it
// returns, parallelized.
func (p Params) steps(s *schedule.Scheduled, v core.ValID) (core.ValID, error) {
	n, shared := len(s.Loop(v)), 0
	if p.Blocks > 1 {
		shared = 1
	}
	if n != 2+shared && n != 4+shared {
		return v, &scheduler.Refusals{List: []core.Refusal{scheduler.Refuse(s.Fusion(), name, "loops", v, "%s is not reduced along the axes of the first reduction", s.Fusion().Name(v))}}
	}
	partial, err := s.RFactor(v, []int{n - 2})
	if err != nil {
		return v, err
	}
	along, across := schedule.TIDx, schedule.TIDy
	if !p.Inner {
		along, across = across, along
	}
	types := map[int]schedule.Parallel{n - 1: along}
	if shared > 0 {
		types[n-3] = schedule.BIDy
	}
	if n == 4+shared {
		types[0], types[1] = schedule.BIDx, across
	}
	for k := range n {
		if t, ok := types[k]; ok {
			if err := s.Parallelize(partial[0], k, t); err != nil {
				return v, err
			}
		}
	}
	return partial[0], nil
}
