// Package pointwise schedules segments in which every element of an output comes
// from a fixed number of elements of the inputs: elementwise operations,
// broadcasts, permutes, reshapes, and tensors that are made from nothing.
//
// Its central type is [Params]. One output, the reference, has all axes of the
// segment; they are merged to one, which is split into blocks, elements of a
// thread, and threads. All other tensors follow, and are computed where they are
// used.
//
// Inputs and outputs that lie in memory as the merged axis runs may be moved in
// vectors.
//
// It does not choose the order of axes by how inputs lie in memory.
package pointwise

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// Params are the choices for a segment.
type Params struct {
	Threads int64 // of a block
	Unroll  int64 // elements of a thread, or vectors
	Vector  int64 // elements of a vector; 0 and 1: there are none
}

func (p Params) String() string {
	if p.Vector > 1 {
		return fmt.Sprintf("pointwise: %d threads, %d vectors of %d elements each", p.Threads, p.Unroll, p.Vector)
	}
	return fmt.Sprintf("pointwise: %d threads, %d elements each", p.Threads, p.Unroll)
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return max(p.Vector, 1) }

// Scheduler is the scheduler of this package.
type Scheduler struct{}

const name = "pointwise"

func (Scheduler) Name() string { return name }

func (Scheduler) Accept(g *scheduler.Segment, _ scheduler.Device) []core.Refusal {
	f := g.Fusion
	refusals := scheduler.CheckClasses(f, name, scheduler.Maps)
	if len(refusals) > 0 {
		return refusals
	}
	if refusals = scheduler.CheckSegment(f, name); len(refusals) > 0 {
		return refusals
	}
	_, err := Scheduler{}.Apply(g, Params{Threads: 128, Unroll: 1})
	return scheduler.RefusalsOf(name, err)
}

// fewest is the number of elements for each processor from which threads take
// several: with less, more of them hide more latency.
const fewest = 4096

func (Scheduler) Candidates(g *scheduler.Segment, device scheduler.Device) []scheduler.Params {
	f := g.Fusion
	one := Params{Threads: 128, Unroll: 1}
	all := []scheduler.Params{one}
	sizes, err := g.Shapes.Shape(widest(f)[0])
	if err != nil {
		return all
	}
	n := core.NumElements(sizes)
	isLarge := n >= fewest*int64(device.Processors)
	if isLarge {
		all = []scheduler.Params{Params{Threads: 128, Unroll: 4}, one}
	}
	if width := width(f); width > 1 && n > 0 && len(sizes) > 0 && sizes[len(sizes)-1]%width == 0 {
		p := Params{Threads: 128, Unroll: 1, Vector: width}
		if s, err := (Scheduler{}).Apply(g, p); err == nil && hasVectors(s) {
			if isLarge {
				return slices.Insert(all, 0, scheduler.Params(p))
			}
			return append(all, p)
		}
	}
	return all
}

// widest returns the outputs, those with most axes that are not broadcast first.
func widest(f *core.Fusion) []core.ValID {
	axes := func(v core.ValID) (n int) {
		for _, a := range f.Axes(v) {
			if f.Axis(a).Kind != core.Broadcast {
				n++
			}
		}
		return n
	}
	var outputs []core.ValID
	for _, o := range f.Outputs() {
		outputs = append(outputs, o.Val)
	}
	slices.SortStableFunc(outputs, func(v, w core.ValID) int { return axes(w) - axes(v) })
	return outputs
}

// reference returns an output from which all axes of f can be reached.
func reference(f *core.Fusion) (core.ValID, error) {
	outputs := widest(f)
	missing := core.NoVal
	for i, v := range outputs {
		u, err := scheduler.Uncovered(f, v)
		if err != nil {
			return v, err
		}
		if u == core.NoVal {
			return v, nil
		}
		if i == 0 {
			missing = u
		}
	}
	return core.NoVal, &scheduler.Refusals{List: []core.Refusal{scheduler.Refuse(f, name, "reference", missing,
		"%s has dimensions that output %s has not, and no other output has those of all tensors", f.Name(missing), f.Name(outputs[0]))}}
}

func (Scheduler) Apply(g *scheduler.Segment, params scheduler.Params) (*schedule.Scheduled, error) {
	f := g.Fusion
	p := params.(Params)
	ref, err := reference(f)
	if err != nil {
		return nil, err
	}
	return scheduler.Build(f, func(s *schedule.Scheduled) error { return p.schedule(s, ref) })
}

func (p Params) schedule(s *schedule.Scheduled, ref core.ValID) error {
	if _, err := scheduler.CacheOutputs(s); err != nil {
		return err
	}
	if len(s.Loop(ref)) > 0 {
		if err := p.loops(s, ref); err != nil {
			return err
		}
		if err := scheduler.Spread(s, name, ref); err != nil {
			return err
		}
		if p.Vector > 1 {
			if err := vectorize(s, ref); err != nil {
				return err
			}
		}
	}
	return scheduler.Finish(s, ref)
}

// loops gives the reference its loops: blocks, elements of a thread, threads, and
// elements of a vector.
func (p Params) loops(s *schedule.Scheduled, ref core.ValID) error {
	if err := scheduler.MergeAll(s, ref, 0, len(s.Loop(ref))); err != nil {
		return err
	}
	if p.Vector > 1 {
		if err := s.Split(ref, 0, p.Vector, true); err != nil {
			return err
		}
	}
	if err := s.Split(ref, 0, p.Threads, true); err != nil {
		return err
	}
	types := []schedule.Parallel{schedule.BIDx, schedule.TIDx}
	if p.Unroll > 1 {
		if err := s.Split(ref, 0, p.Unroll, true); err != nil {
			return err
		}
		types = []schedule.Parallel{schedule.BIDx, schedule.Unroll, schedule.TIDx}
	}
	for k, t := range types {
		if err := s.Parallelize(ref, k, t); err != nil {
			return err
		}
	}
	return nil
}
