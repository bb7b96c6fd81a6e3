// Package transpose schedules segments of which inputs and outputs lie along different
// dimensions in memory: permutes, and elementwise operations before and after.
//
// Its central types are [Params] and tile. The inputs and outputs that have an element
// for each point are in two groups, by the dimension that lies innermost in memory. The
// group with more bytes is the near one: all operations run in loops along its memory.
// Each tensor of the other, far group is exchanged by way of a tile in shared memory, as
// large as what a block has of it: an input is read along its own memory, and an output
// written so. Both sides of the tile are moved by accesses as wide as memory allows: what
// threads hold between memory of a far tensor and its tile they transpose in registers.
//
// # Invariants
//
//   - The tile of a far tensor lies as the near group does in memory, in vectors that no
//     swizzle tears apart.
//   - Where rows of a matrix begin anywhere in memory, or within sectors, the tile of a far input is a window of
//     it ([schedule.Scheduled.HoldWindow]), and steps along near rows begin where memory is
//     aligned ([schedule.Scheduled.AlignRows]): no block writes a part of a sector. So it is for
//     several matrices, and for images, whose pixels are one run. Words of a window are swizzled where threads
//     would read few banks of it, and its lengths are those that both runs fill best.
//   - Tensors that have not an element for each point, or that lie along a third
//     dimension, are read and written in the loops of the near group, element by element.
//   - An input that is padded or joined where it is read is exchanged as that: the tile has what is read, zeros too.
//
// It does not take reductions or gathers.
package transpose

import (
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment.
type Params struct {
	Near, Far int64 // elements of a tile along the innermost dimensions of either group
	Whole     bool  // the near one of these is all there is of it
	Threads   int64 // of a block
	Vector    int64 // elements of a step along the memory of the near group
	Access    int64 // elements of an access along the memory of the far group
	Unswitch  bool  // threads test once whether all that they move is there
	Cell      int64 // elements of a vector of the tile, along the memory of the near group
	Window    bool  // tiles are windows of inputs, which lie as those do
	Last      bool  // of windows: the second cache gives them up last
	Swizzle   bool  // of windows: words are permuted by their row
	Lanes     int64 // of windows: threads next to each other along the near run, which is in parts if they are fewer
	// Align is how many elements there are from one place to the next where steps along the memory
	// of the near group begin, which is in another place of each row; 0: they begin where rows do.
	Align    int64
	Resident int64 // blocks that fit a processor at a time, at least; 0: nothing is asked
}

func (p Params) String() string {
	near := fmt.Sprint(p.Near)
	if p.Whole {
		near = "all " + near
	}
	text := fmt.Sprintf("transpose: tiles of %s by %d, %d threads, steps of %d elements, cells of %d by %d", near, p.Far, p.Threads, p.Vector, p.Cell, p.Access)
	if p.Window {
		text += fmt.Sprintf(", windows, %d lanes", p.Lanes)
		if p.Swizzle {
			text += ", swizzled"
		}
		if p.Last {
			text += ", given up last"
		}
	}
	if p.Align > 0 {
		text += fmt.Sprintf(", rows aligned by %d", p.Align)
	}
	if p.Unswitch {
		text += ", unswitched"
	}
	return text
}

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 {
	if p.Window {
		return accessBytes
	}
	return max(p.Vector, p.Access, p.Cell)
}

const name = "transpose"

// Scheduler is the scheduler of this package.
type Scheduler = scheduler.Planned[Params, kind]

type kind struct{}

func (kind) Name() string { return name }

// Find is that of [scheduler.Kind].
func (kind) Find(g *scheduler.Segment) scheduler.Finding[Params] {
	a := analyse(g)
	return scheduler.Finding[Params]{Attempts: &a.Attempts, Choose: a.choose, Err: a.err}
}

// exchanges reports whether operations of class c have an element of the result for each of
// the operands, at the same point, or, as pads and joins of inputs, at one that lies apart from it.
func exchanges(c core.Class) bool {
	return scheduler.Maps(c) && c != core.Gather
}

// An analysis is what is found out about a segment when it is accepted.
type analysis struct {
	scheduler.Attempts[Params]
	layout *layout
	err    error // why it is not accepted
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{}
		a.Attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		if a.err = scheduler.Check(g.Fusion, name, exchanges); a.err != nil {
			return a
		}
		p, err := space.Covering(g, name)
		if err == nil {
			a.layout, err = a.newLayout(p)
		}
		a.err = err
		return a
	})
}

// newLayout returns the layout with dimensions as fine as those that tensors of p go through in equal steps, if it has two
// groups, else that with p.
func (a *analysis) newLayout(p *space.Space) (*layout, error) {
	fine, err := space.Finer(a.Segment, p)
	if err != nil {
		return nil, err
	}
	if fine != nil {
		if l, err := newLayout(a.Segment.Fusion, fine); err == nil {
			return l, nil
		}
	}
	return newLayout(a.Segment.Fusion, p)
}

// recipe has q and what build reads of the layout.
func (a *analysis) recipe(q Params) string {
	l := a.layout
	var far []core.ValID
	for i := range l.far.Tensors {
		far = append(far, l.far.Tensors[i].Val)
	}
	return fmt.Sprint(q, l.near.Reference, l.near.Order, l.nearAt, l.farAt, l.between, l.place, far, l.nearPitch(q).Widths)
}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	f, p := a.Segment.Fusion, a.layout.near
	if n, least := p.Size(0, len(p.Extents)), int64(fewest*device.Processors); n < least {
		return nil, scheduler.Refused(f, name, "few elements", p.Reference,
			"%s has %d elements, and tiles are worth it from %d on", f.Name(p.Reference), n, least)
	}
	all := a.layout.choose(device)
	return a.First(all, all[len(all)-1])
}
