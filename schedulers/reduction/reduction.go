// Package reduction schedules segments with reductions along the same axes and
// operations on what is reduced and on the results, as long as no result is
// needed again with the elements that it was reduced from.
//
// Its central type is [Params]; [space.Space] says how the tensors lie in memory. If
// the innermost dimension there is reduced, threads along x lie along the reduction,
// in vectors, and those along y have results of their own: an inner reduction. Else
// threads along x lie along what is kept, in vectors, and those along y share a
// result: an outer reduction. Reduced dimensions that do not lie together, as those
// of statistics of channels, are one loop around the vectors.
//
// Each thread folds its share, with several loads under way, in a tensor of its own.
// Lanes of an inner reduction exchange what they have by shuffles and shared memory;
// those of an outer one leave all columns of the block in shared memory, from where
// threads fold a column each. Where there is little to keep and much to reduce
// several blocks share a reduction, and the last one to arrive folds what they leave.
//
// Rows that are no multiple of a vector are read in accesses as narrow as that takes,
// more of them at a time, but those of elements of 2 bytes or less in vectors that begin where
// memory is aligned, in another place of each row ([schedule.Scheduled.AlignRows]). What rows have in common is loaded in
// narrow accesses then, once for several rows of a thread, which begin in the same place. What blocks leave is folded by one block, so there are few
// of them: no second kernel takes over.
//
// Where no input has elements for most of what is reduced, as of distances of all pairs of rows, a thread has all of several results
// along axes where inputs have the same elements for all, which are loaded once for these results.
//
// # Choices
//
// Their numbers come from an H100 (80GB HBM3); times are in microseconds, after a second
// cache full of modified lines and of lines that were read.
//
//   - Sums of exponentials: rows of 32768 bfloat16 take 680.0 / 671.6 with blocks of 512
//     threads that load four vectors at a time in 64 registers, 751.6 / 743.9 with 1024
//     threads in 32 registers, where the compiler has loads wait for each other, and
//     882.8 / 876.6 with 1024 threads in 64, of which a processor has room for one block.
//     Rows of 131072 take 354.2 / 345.5, 364.1 / 354.8 and 356.4 / 348.0. On an H200, whose
//     memory is faster, blocks of 256 in 64 registers take 485.3 / 477.8, where others load
//     more while one merges its parts, those of 512 524.6 / 519.4; of 131072 251.9 / 243.9
//     and 251.3 / 243.3.
//   - Var_mean of rows of 4096 bfloat16 takes 132.7 / 126.5 on an H200 with eight vectors of
//     each of 32 threads at a time, 134.2 / 127.9 with four.
//   - Sums of rows of 4096 bfloat16 take 181.0 / 171.9 with two vectors of each of 256
//     threads, 181.7 / 172.5 with four of 128, 206.0 / 197.1 with one of 512.
//   - Short rows of bfloat16 on an H200, several of a thread at a time and one, and a copy of as many bytes: sums of
//     2 columns 259.3 / 253.9, 467.3 / 464.5 and 255.1 / 253.0, of 64 136.1 / 129.1, 182.9 / 177.1 and
//     133.0 / 129.6; var_mean of 64 181.3 / 177.5 and 207.1 / 204.6, which package innerpersistent does faster.
//   - Sums of products with a row on an H200, of odd rows with four rows of a thread that begin in the same place and with one, and a
//     copy of as many bytes: of 131200 x 1023 bfloat16 87.4 / 79.1, 112.0 / 106.0 and 70.6 / 66.9, of 65568 x 2047 87.8 / 81.3,
//     123.8 / 119.0 and 69.7 / 67.2, of 8192 x 16383 with two vectors of each of 32 threads at a time 82.5 / 76.1, 138.4 / 135.7 and 68.0 /
//     64.2; of others with 256 threads and with 1024, of which a processor has registers for one block: of 4067 x 33000
//     74.5 / 67.7, 91.6 / 84.5 and 69.7 / 66.3, of 2684 x 100000 137.7 / 130.1, 146.9 / 139.1 and 131.4 / 128.6, of 2048 x
//     131072 with 512 130.8 / 122.9, 134.9 / 127.6 and 128.6 / 125.7. With eight rows 1023 columns take 92.4 / 85.5, with two
//     90.8 / 86.0, in vectors of two elements with one 263.8 / 257.8.
//   - Distances of all pairs of rows on an H200, with eight results of a thread that share what it loads, and with several threads of each result, and
//     with torch.compile: of 4096 and 4096 rows of 3 float32 26.0 / 26.7, 48.2 / 46.1 and 28.2 / 31.4, of 15 76 / 76, 369 / 366 and 276 / 276,
//     of 16 60.8 / 62.6, 331 / 332 and 113 / 113, of 64 273 / 273, 1970 / 2050 and 458 / 501, of 16 bfloat16 54.4 / 54.6, 374 / 371 and 120 / 120; of 1024 and
//     1024 of 512 float32 173 / 174, 310 / 310 and 204 / 207, of 256 and 256 of 2048 93 / 108, 93 / 92 and 91 / 93. Of 16 float32 with four results 76.0 / 76.0,
//     with sixteen 119.5 / 118.7, where steps have four elements 71.2 / 70.6, and with two steps at a time 130.2 / 128.7. Blocks of 128 threads are
//     the fastest: of 10^6 and 32 rows of 2 41.7 / 41.9, with those of a warp 155 / 155.
//   - Sums of 64 columns of 802816 rows take 48.5 / 39.4 with blocks of 1024 threads,
//     49.3 / 40.0 with 512. A sum of 2^18 float32 takes 6.2 / 6.4 on an H200 with 64 blocks
//     of 512, 6.7 / 6.5 with 32 of 1024.
package reduction

import (
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Params are the choices for a segment. The zero value of a number is 1.
type Params struct {
	Inner   bool        // threads along x lie along what is reduced
	Vector  int64       // elements of a step along x
	Aligned bool        // steps of an inner reduction begin where memory is aligned, in another place of each row
	Lanes   int64       // threads of a block along x
	Rows    int64       // threads of a block along y: results of an inner reduction, steps of an outer one
	Unroll  int64       // steps that a thread loads before it folds them
	Each    int64       // results of an inner reduction whose steps a thread loads at a time
	Shared  space.Range // axes, in the order of the space, that these results lie along, as inputs have the same elements for all of them; none: all that are kept
	Tiles   int64       // that a block has along y: of columns, where threads of an outer reduction have all steps each, or of the results that threads have along Shared
	Blocks  int64       // that share a reduction
	Staged  bool        // an outer reduction in vectors leaves the columns of a block in shared memory
}

func (p Params) String() string {
	kind := "outer"
	if p.Inner {
		kind = "inner"
	}
	q := p.filled()
	text := fmt.Sprintf("%s reduction: %dx%d threads", kind, q.Lanes, q.Rows)
	if q.Vector > 1 {
		text += fmt.Sprintf(", vectors of %d elements", q.Vector)
	}
	if q.Aligned {
		text += " from where memory is aligned"
	}
	if q.Unroll > 1 {
		text += fmt.Sprintf(", %d steps at a time", q.Unroll)
	}
	if q.Each > 1 {
		text += fmt.Sprintf(", of %d rows", q.Each)
		if q.shares() {
			text += fmt.Sprintf(" along axes %d to %d", q.Shared.Begin, q.Shared.End-1)
		}
	}
	if q.Tiles > 1 {
		text += fmt.Sprintf(", of %d tiles", q.Tiles)
	}
	if q.Staged {
		text += ", through shared memory"
	}
	if q.Blocks > 1 {
		text += fmt.Sprintf(", in %d blocks", q.Blocks)
	}
	return text
}

// filled returns p with 1 for numbers that are not given, and without what does not apply.
func (p Params) filled() Params {
	for _, n := range []*int64{&p.Vector, &p.Lanes, &p.Rows, &p.Unroll, &p.Each, &p.Tiles, &p.Blocks} {
		if *n == 0 {
			*n = 1
		}
	}
	if !p.Inner {
		p.Each = 1
	}
	if p.Each == 1 {
		p.Shared = space.Range{}
	}
	if p.Inner && !p.shares() || !p.Inner && p.Rows > 1 {
		p.Tiles = 1
	}
	p.Staged = p.Staged && !p.Inner && p.Vector > 1
	p.Aligned = p.Aligned && p.Inner && p.Vector > 1
	return p
}

// shares reports whether the results of a thread lie along axes of their own.
func (p Params) shares() bool { return p.Shared.End > p.Shared.Begin }

// Width is that of [scheduler.Vectorized].
func (p Params) Width() int64 { return max(p.Vector, 1) }

const name = "reduction"

// Scheduler is the scheduler of this package.
type Scheduler = scheduler.Planned[Params, kind]

type kind struct{}

func (kind) Name() string { return name }

// Find is that of [scheduler.Kind].
func (kind) Find(g *scheduler.Segment) scheduler.Finding[Params] {
	a := analyse(g)
	return scheduler.Finding[Params]{Attempts: &a.Attempts, Choose: a.choose, Err: a.err}
}

// An analysis is what is found out about a segment when it is accepted.
type analysis struct {
	scheduler.Attempts[Params]
	layout layout
	err    error // why there is none
}

// analyse returns the analysis of g, made once.
func analyse(g *scheduler.Segment) *analysis {
	return scheduler.Remember(g, Scheduler{}, func() *analysis {
		a := &analysis{}
		a.Attempts = scheduler.Attempts[Params]{Segment: g, Recipe: a.recipe, Build: a.build}
		refusals := scheduler.Recall(g, Scheduler{}, func() []core.Refusal { return accept(g) })
		if len(refusals) > 0 {
			a.err = &scheduler.Refusals{List: refusals}
			return a
		}
		p, err := space.New(g, scheduler.Reductions(g.Fusion)[0])
		if a.err = err; err != nil {
			return a
		}
		a.layout = newLayout(g.Fusion, p)
		if a.Try(a.layout.simplest()) != nil { // some tensor cannot follow in this order
			a.layout = newLayout(g.Fusion, p.AsDefined())
		}
		if a.Try(a.layout.simplest()) != nil { // or is reshaped from what the loops split
			a.layout.isMerged = true
		}
		return a
	})
}

// choose returns the choices, of which the first can be applied, or why none can.
func (a *analysis) choose(device scheduler.Device) ([]Params, error) {
	return a.First(a.layout.choose(device), a.layout.simplest())
}

// recipe has p and what build reads of the layout.
func (a *analysis) recipe(p Params) string {
	var widths []int64
	if p.Vector > 1 {
		widths = a.layout.pitch(p).Widths
	}
	return fmt.Sprint(p, a.layout.Order, a.layout.columns, a.layout.isMerged, widths)
}

func (a *analysis) build(p Params) (*schedule.Scheduled, error) {
	for _, n := range []int64{p.Vector, p.Lanes, p.Rows, p.Unroll, p.Each, p.Tiles, p.Blocks} {
		if n < 0 {
			return nil, core.InvalidArgumentf("schedule(): %v is not possible", p)
		}
	}
	return scheduler.Build(a.Segment.Fusion, func(s *schedule.Scheduled) error {
		b := &builder{Params: p.filled(), layout: &a.layout, s: s}
		return b.schedule(scheduler.Reductions(a.Segment.Fusion))
	})
}
