// Package space finds what the loops of a segment run over, and how each input and
// output lies in memory along them.
//
// Its central type is [Space]: the dimensions of one tensor, the reference, which
// has those of all others, put in the order in which most bytes lie in memory.
// An input that is padded or joined where it is read lies along the loops of the result,
// and so do the rows of a table that an index lists.
// From it follow the widths of accesses and what they cost ([Space.PitchOf]), and
// the copies of a schedule are split into accesses by [Space.Vectorize].
//
// # Invariants
//
//   - A space depends on its arguments alone, and on sizes, strides and alignments
//     of the segment.
//   - An access of a [Pitch] is of consecutive elements that all loops of its nest
//     have next to each other, and aligned, for every address that the segment allows.
//
// It does not choose loops: schedulers do.
package space

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// A Space is what the loops of a segment run over: the dimensions of a reference
// that has those of all tensors, from the outermost to the innermost, and how
// inputs and outputs lie in memory along them. Dimensions that the reference is the
// reduction along are dimensions of the space.
type Space struct {
	Reference core.ValID
	Order     []int   // dimensions of the reference, with those that it reduces; those of size 1 come first
	Extents   []int64 // by place in Order
	Tensors   []Tensor

	Unaligned bool // accesses to inputs may be wider than their addresses allow: lowering reads words and shifts

	among  map[core.ValID]bool // the tensors of the segment that it is the space of; nil: all
	places []int               // of outputs among these
	piece  int64               // elements that no access goes beyond a multiple of; 0: any may
}

// A Tensor is an input or output in memory of the device. An input that is sliced, padded or
// joined where it is read is one for each of these operations, and one for all others that
// read it: each reads it along its own loops. The gradient of a gated unit of 8192 x 4096 bfloat16, which reads it for
// both of the halves that it joins, takes 87.9 / 84.9 us on an H200 so, and 137.7 / 136.0 in single elements; a copy 83.5 / 80.0.
type Tensor struct {
	Val       core.ValID
	Bytes     int64 // of an element
	IsOutput  bool
	Place     int        // among the inputs or outputs
	Aligned   int64      // bytes that divide the address of its first element
	past      int64      // bytes that it is past a multiple of vectorBytes, if that is known; else -1
	along     [][]piece  // by place in the order of the space: outermost piece first
	isOpaque  bool       // its elements are not those of the space one by one
	shift     int64      // divides how far in memory an element lies from where those steps say
	isPart    bool       // there are points without an element
	isShifted bool       // along a dimension that is not the innermost in memory, at other places there
	isTable   bool       // it is read at positions that an index says, by one operation
	resized   core.ValID // the result of the slice, pad or cat that reads it; [core.NoVal]: all else does
	how       string     // what that does, which tells it from others in a schedule too
}

// A piece is a part of a dimension along which memory goes in equal steps.
type piece struct {
	extent, stride int64 // of elements; stride 0: it has the same element all along
	isDense        bool  // the stride is a product of extents, for all inputs that the definition takes
}

// New returns the space of the segment g, which reference has all axes of.
func New(g *scheduler.Segment, reference core.ValID) (*Space, error) {
	return newAmong(g, reference, func(core.ValID) bool { return true })
}

// newAmong is New with inputs as those operations read them whose results among holds of.
func newAmong(g *scheduler.Segment, reference core.ValID, among func(core.ValID) bool) (*Space, error) {
	m, err := g.Mapping()
	if err != nil {
		return nil, err
	}
	w := &walker{g: g, f: g.Fusion, s: m.Scheduled(), m: m}
	for _, id := range w.f.Order() {
		if among(w.f.Expr(id).Out[0]) {
			w.order = append(w.order, id)
		}
	}
	p := &Space{Reference: reference}
	if p.Extents, err = w.sizes(w.f.Val(reference).Domain.Logical); err != nil {
		return nil, err
	}
	if err := w.relate(); err != nil {
		return nil, err
	}
	for i, v := range w.f.Inputs() {
		x := w.f.Val(v)
		if !x.Tensor || x.Domain.CPU {
			continue
		}
		if tables := w.tables(v); len(tables) > 0 {
			for _, t := range tables {
				if err := w.addTable(p, Tensor{Val: v, Place: i, isTable: true, resized: core.NoVal}, t, g.Inputs[i]); err != nil {
					return nil, err
				}
			}
			continue
		}
		for _, by := range w.resizesOf(v) {
			if err := w.add(p, Tensor{Val: v, Place: i, resized: by}, v, g.Inputs[i]); err != nil {
				return nil, err
			}
		}
	}
	for k, o := range w.f.Outputs() {
		laidOutAs := o.Val
		if o.Alias != core.NoVal {
			laidOutAs = o.Alias
		}
		if err := w.add(p, Tensor{Val: o.Val, IsOutput: true, Place: k, resized: core.NoVal}, laidOutAs, g.Outputs[k]); err != nil {
			return nil, err
		}
	}
	p.sort()
	return p, nil
}

// A walker follows axes through reshapes.
type walker struct {
	g         *scheduler.Segment
	f         *core.Fusion
	s         *schedule.Scheduled
	m         *schedule.Mapping
	order     []core.ExprID // operations that count
	relations []relation
}

// A relation says that a dimension is two others, one inside the other.
type relation struct {
	whole, outer, inner core.AxisID // exact classes
	extents             [2]int64    // of outer and inner
}

func (w *walker) sizes(axes []core.AxisID) ([]int64, error) {
	var sizes []int64
	for _, a := range axes {
		n, err := w.g.Shapes.Int(w.f.Axis(a).Extent)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// relate finds what merges and splits without a remainder say.
func (w *walker) relate() error {
	f := w.m.Fusion()
	for _, id := range w.m.Transforms() {
		t := f.Transform(id)
		r := relation{w.m.Exact(t.In[0]), core.NoAxis, core.NoAxis, [2]int64{}}
		parts := t.Out
		switch t.Kind {
		case core.ResizeAxis, core.Shift:
			continue
		case core.Merge:
			r.whole, parts = w.m.Exact(t.Out[0]), t.In
		}
		r.outer, r.inner = w.m.Exact(parts[0]), w.m.Exact(parts[1])
		var err error
		for k, a := range parts {
			if r.extents[k], err = w.g.Shapes.Int(f.Axis(a).Extent); err != nil {
				return err
			}
		}
		n, err := w.g.Shapes.Int(f.Axis(r.whole).Extent)
		if err != nil {
			return err
		}
		if r.extents[0]*r.extents[1] == n {
			w.relations = append(w.relations, r)
		}
	}
	return nil
}

// add appends t, which lies in memory as at says, dense where the definition says
// so of laidOutAs.
func (w *walker) add(p *Space, t Tensor, laidOutAs core.ValID, at scheduler.Placement) error {
	v := t.Val
	sizes, err := w.sizes(w.f.Axes(v))
	if err != nil {
		return err
	}
	t.Bytes = int64(w.f.Val(v).DType.Size())
	t.lie(at.Aligned)
	dense := w.dense(laidOutAs)
	known := map[core.AxisID][]piece{}
	elements := int64(1)
	resized, err := w.resizedAxes(&t)
	if err != nil {
		return err
	}
	axes := w.readAlong(&t)
	for d, a := range w.f.Axes(v) {
		if w.f.Axis(a).Kind == core.Broadcast {
			continue
		}
		c := w.m.Exact(axes[d])
		if r, ok := resized[d]; ok {
			t.isShifted = t.isShifted || at.Strides[d] > 1
			t.isPart, t.shift = true, gcd(t.shift, r.left*at.Strides[d])
			c, sizes[d] = w.m.Exact(r.axis), r.extent
		}
		_, isTwice := known[c]
		t.isOpaque = t.isOpaque || isTwice
		x := piece{sizes[d], at.Strides[d], dense[d]}
		if x.extent == 1 {
			x.stride = 0
		}
		if x.stride != 0 {
			elements *= x.extent
		}
		known[c] = []piece{x}
	}
	w.put(p, t, known, elements)
	return nil
}

// lie sets what is known of the address of t.
func (t *Tensor) lie(at schedule.Alignment) {
	t.Aligned, t.past = int64(at.Divisor()), -1
	if past, ok := at.Past(); ok {
		t.past = int64(past)
	}
}

// put appends t, of so many elements, of which known has the pieces by exact class.
func (w *walker) put(p *Space, t Tensor, known map[core.AxisID][]piece, elements int64) {
	w.follow(known)
	for d, a := range w.f.Val(p.Reference).Domain.Logical {
		pieces, ok := known[w.m.Exact(a)]
		if !ok {
			pieces = []piece{{p.Extents[d], 0, false}}
		}
		t.along = append(t.along, pieces)
	}
	t.isOpaque = t.isOpaque || t.Elements() != elements
	p.Tensors = append(p.Tensors, t)
}

// dense returns for each dimension of v whether its stride is the product of the
// extents of those that lie inside it. Dimensions of outputs that are not laid
// out are.
func (w *walker) dense(v core.ValID) []bool {
	axes := w.f.Axes(v)
	isDense := make([]bool, len(axes))
	alloc, _ := w.s.Allocation(v)
	contiguity := w.s.Contiguity(v)
	for k := len(alloc) - 1; k >= 0; k-- {
		if contiguity[k] == core.No {
			break
		}
		if d := slices.Index(axes, alloc[k]); d >= 0 {
			isDense[d] = true
		}
	}
	return isDense
}

// follow adds to known the pieces of what is made from known axes, or what those
// are made from.
func (w *walker) follow(known map[core.AxisID][]piece) {
	for changed := true; changed; {
		changed = false
		for _, r := range w.relations {
			whole, isWhole := known[r.whole]
			outer, isOuter := known[r.outer]
			inner, isInner := known[r.inner]
			switch {
			case isOuter && isInner && !isWhole:
				known[r.whole] = slices.Concat(outer, inner)
			case isWhole && !isOuter && !isInner:
				var ok bool
				if outer, inner, ok = cut(whole, r.extents[1]); !ok {
					continue
				}
				known[r.outer], known[r.inner] = outer, inner
			default:
				continue
			}
			changed = true
		}
	}
}

// cut returns the pieces of which the inner ones have n elements together.
func cut(pieces []piece, n int64) (outer, inner []piece, ok bool) {
	k := len(pieces)
	for k > 0 && n > 1 && n%max(pieces[k-1].extent, 1) == 0 {
		k--
		n /= max(pieces[k].extent, 1)
	}
	outer, inner = slices.Clone(pieces[:k]), slices.Clone(pieces[k:])
	if n == 1 {
		return orOne(outer), orOne(inner), true
	}
	if k == 0 || pieces[k-1].extent%n != 0 {
		return nil, nil, false
	}
	x := pieces[k-1]
	outer[k-1] = piece{x.extent / n, x.stride * n, x.isDense}
	return outer, append([]piece{{n, x.stride, x.isDense}}, inner...), true
}

func orOne(pieces []piece) []piece {
	if len(pieces) == 0 {
		return []piece{{1, 0, true}}
	}
	return pieces
}

// IsResized reports whether t is an input as a slice, a pad or a cat reads it, which makes no copy of
// it for others.
func (t *Tensor) IsResized() bool { return t.resized != core.NoVal }

// ReadBy returns the result of the slice, pad or join that reads t, which has one element of all that are joined at
// each place; [core.NoVal] if all else does.
func (t *Tensor) ReadBy() core.ValID { return t.resized }

// IsTable reports whether t is an input as one operation reads it at positions that an index says.
func (t *Tensor) IsTable() bool { return t.isTable }

// Step returns the distance of neighbours along place k, 0 if they are one.
func (t *Tensor) Step(k int) int64 {
	for i := len(t.along[k]) - 1; i >= 0; i-- {
		if x := t.along[k][i]; x.extent > 1 {
			return x.stride
		}
	}
	return 0
}

// Elements returns how many elements t has.
func (t *Tensor) Elements() int64 { return t.within(0) }

// within returns how many elements t has along the places from k on.
func (t *Tensor) within(k int) int64 {
	n := int64(1)
	for _, pieces := range t.along[k:] {
		for _, x := range pieces {
			if x.stride != 0 {
				n *= x.extent
			}
		}
	}
	return n
}

// sort finds the order of dimensions: that of most bytes in memory, by pairs.
// Where those are equal it is the order of the reference in memory.
func (p *Space) sort() {
	n := len(p.Extents)
	votes := make([][]int64, n) // bytes of tensors that have one outside another
	for i := range votes {
		votes[i] = make([]int64, n)
		for j := range n {
			for k := range p.Tensors {
				if t := &p.Tensors[k]; !t.isOpaque && t.Step(i) > t.Step(j) && t.Step(j) > 0 {
					votes[i][j] += t.Elements() * t.Bytes
				}
			}
		}
	}
	left := make([]int, n)
	for d := range left {
		left[d] = d
	}
	for k := range p.Tensors {
		if t := &p.Tensors[k]; t.Val == p.Reference && t.IsOutput {
			slices.SortStableFunc(left, func(i, j int) int {
				if t.Step(i) == 0 || t.Step(j) == 0 {
					return 0
				}
				return cmp.Compare(t.Step(j), t.Step(i))
			})
		}
	}
	slices.SortStableFunc(left, func(i, j int) int {
		switch isOne := p.Extents[i] == 1; {
		case isOne == (p.Extents[j] == 1):
			return 0
		case isOne:
			return -1
		}
		return 1
	})
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(i int) bool {
			return p.Extents[i] == 1 || !slices.ContainsFunc(left, func(j int) bool { return votes[j][i] > votes[i][j] })
		})
		at = max(at, 0)
		p.Order = append(p.Order, left[at])
		left = slices.Delete(left, at, at+1)
	}
	p.reorder(p.Order)
}

// reorder puts at each place what is at the place that from says.
func (p *Space) reorder(from []int) {
	extents := p.Extents
	p.Extents = make([]int64, len(from))
	for k, i := range from {
		p.Extents[k] = extents[i]
	}
	for n := range p.Tensors {
		along := p.Tensors[n].along
		p.Tensors[n].along = make([][]piece, len(from))
		for k, i := range from {
			p.Tensors[n].along[k] = along[i]
		}
	}
}

// Size returns the number of points at the places from to before end.
func (p *Space) Size(from, end int) int64 {
	return core.NumElements(p.Extents[from:end])
}

// Breaks returns the places that do not go on in memory, for all tensors, from
// the place before: where nests of two dimensions may be cut.
func (p *Space) Breaks() []int {
	var places []int
	for k := 1; k < len(p.Order); k++ {
		if p.Extents[k-1] > 1 && slices.ContainsFunc(p.Tensors, func(t Tensor) bool { return !t.isOpaque && !t.isLinear(k-1, k+1, false) }) {
			places = append(places, k)
		}
	}
	return places
}
