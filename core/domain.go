package core

import (
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An AxisKind is what an axis iterates over.
type AxisKind uint8

const (
	Iter      AxisKind = iota // Extent elements
	Broadcast                 // one element, read at every position of Expanded
	Reduce                    // folded by the expression that defines the tensor
	Symbolic                  // Iter or Broadcast, known when the sizes are
)

// An Axis is one dimension; nvFuser calls it IterDomain.
type Axis struct {
	Extent   scalar.ID // Index; 1 for Broadcast
	Expanded scalar.ID // of a Broadcast: the extent it shows, or None
	Kind     AxisKind
	Def      TransformID // that made it; NoTransform for a root axis
}

// A TransformKind is a relation between axes.
type TransformKind uint8

const (
	Split      TransformKind = iota // N -> (ceil(N/Factor), Factor); the factor is inner if Inner. N -> (1, Factor) if Whole: N <= Factor
	Merge                           // (A, B) -> A*B, B inner
	ResizeAxis                      // N -> Left + N + Right; Left and Right may be negative
	Shift                           // N -> N + Factor - 1: all is moved by Left, 0 <= Left < Factor, which each thread has its own value of
)

// A Transform makes axes from axes. Index relations: lowering reads them in
// both directions.
type Transform struct {
	Kind        TransformKind
	In, Out     [2]AxisID // NoAxis where there is none
	Factor      scalar.ID
	Inner       bool
	Whole       bool // it was promised that the factor is no less than N, which may be no constant
	Left, Right scalar.ID
}

// Inputs returns the axes that t is applied to: one or two.
func (t *Transform) Inputs() []AxisID { return present(&t.In) }

// Results returns the axes that t makes: one or two.
func (t *Transform) Results() []AxisID { return present(&t.Out) }

func present(axes *[2]AxisID) []AxisID {
	if axes[1] == NoAxis {
		return axes[:1]
	}
	return axes[:]
}

// TransformsTo returns the transforms on the way to axes, ascending, which is a
// topological order.
func (f *Fusion) TransformsTo(axes ...[]AxisID) []TransformID {
	seen := map[TransformID]bool{}
	var found []TransformID
	stack := slices.Concat(axes...)
	for len(stack) > 0 {
		a := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if t := f.axes[a].Def; t != NoTransform && !seen[t] {
			seen[t] = true
			found = append(found, t)
			stack = append(stack, f.transforms[t].Inputs()...)
		}
	}
	slices.Sort(found)
	return found
}

// A Tri is a promise about memory: of an axis of the allocation domain, whether
// its stride is that of a dense layout over the axes inside it.
type Tri uint8

const (
	NotApplicable Tri = iota // broadcast and reduction axes
	No
	Yes
)

// A Domain is the axes of a tensor. Slices are immutable once the tensor is
// made, so copies share them.
type Domain struct {
	Root    []AxisID // as the defining expression maps them
	Logical []AxisID // as the user sees them; Root, or made from it by transforms
	Alloc   []AxisID // in memory order, outermost first; nil: as Logical
	Contig  []Tri    // per axis of Alloc (of Logical if Alloc is nil)
	Loop    []AxisID // nil: as Logical; schedules set it
	CPU     bool     // a 0-dimensional tensor in host memory, passed by value
}

// Allocation returns the axes in memory order.
func (d *Domain) Allocation() []AxisID {
	if d.Alloc == nil {
		return d.Logical
	}
	return d.Alloc
}

// maxExtent bounds a size: torch holds no tensor beyond it.
const maxExtent = 1<<63 - 1

func scalarFacts(t dtype.Type) scalar.Facts {
	if t == dtype.Bool {
		return scalar.Facts{Lo: 0, Hi: 1, Divisor: 1}
	}
	return scalar.Facts{Lo: -1 << 63, Hi: maxExtent, Divisor: 1}
}

func (f *Fusion) newAxis(a Axis) AxisID {
	f.axes = append(f.axes, a)
	return AxisID(len(f.axes) - 1)
}

// iterAxis makes an axis of extent e: Broadcast would be wrong even for 1,
// because only the definition says what broadcasts.
func (f *Fusion) iterAxis(e scalar.ID) AxisID {
	return f.newAxis(Axis{Extent: e, Expanded: scalar.None, Kind: Iter, Def: NoTransform})
}

func (f *Fusion) broadcastAxis(expanded scalar.ID) AxisID {
	return f.newAxis(Axis{Extent: f.scalars.Int(1), Expanded: expanded, Kind: Broadcast, Def: NoTransform})
}

// copyAxis makes a new root axis like a.
func (f *Fusion) copyAxis(a AxisID) AxisID {
	x := f.axes[a]
	x.Def = NoTransform
	return f.newAxis(x)
}

// Axes returns the logical axes of v without reduction axes: its dimensions.
func (f *Fusion) Axes(v ValID) []AxisID {
	l := f.vals[v].Domain.Logical
	for i, a := range l {
		if f.axes[a].Kind == Reduce {
			dims := slices.Clone(l[:i])
			for _, a := range l[i:] {
				if f.axes[a].Kind != Reduce {
					dims = append(dims, a)
				}
			}
			return dims
		}
	}
	return l
}

// Rank returns the number of dimensions of v.
func (f *Fusion) Rank(v ValID) int { return len(f.Axes(v)) }

// Dimensions returns those of v whose axes are in list, in its order.
func (f *Fusion) Dimensions(v ValID, list []AxisID) []int {
	var order []int
	axes := f.Axes(v)
	for _, a := range list {
		if d := slices.Index(axes, a); d >= 0 {
			order = append(order, d)
		}
	}
	return order
}

// DeclaredOrder returns the dimensions of v from the outermost in memory to the
// innermost, as its allocation domain fixes them; nil if it has none.
func (f *Fusion) DeclaredOrder(v ValID) []int {
	alloc := f.vals[v].Domain.Alloc
	if alloc == nil {
		return nil
	}
	return f.Dimensions(v, alloc)
}

// LeadingOperand returns the first tensor operand of an elementwise e that has an
// element for each of the result, or NoVal: in its memory order the result lies.
func (f *Fusion) LeadingOperand(e *Expr) ValID {
	for _, a := range e.Args {
		if a.Kind == TensorArg && f.IsWhole(a.Tensor, e.Out[0]) {
			return a.Tensor
		}
	}
	return NoVal
}

// IsWhole reports whether u, of the same dimensions, has an element for each of v:
// is broadcast along none that v is not.
func (f *Fusion) IsWhole(u, v ValID) bool {
	result := f.Axes(v)
	for d, a := range f.Axes(u) {
		if f.axes[a].Kind == Broadcast && f.axes[result[d]].Kind != Broadcast {
			return false
		}
	}
	return true
}

// Size returns the extent that a shows to the user.
func (f *Fusion) Size(a AxisID) scalar.ID {
	if x := &f.axes[a]; x.Expanded != scalar.None {
		return x.Expanded
	}
	return f.axes[a].Extent
}

// Shape returns the sizes of v, expanded extents included.
func (f *Fusion) Shape(v ValID) []scalar.ID {
	axes := f.Axes(v)
	s := make([]scalar.ID, len(axes))
	for i, a := range axes {
		s[i] = f.Size(a)
	}
	return s
}

// A TensorDescription is what define_tensor takes.
type TensorDescription struct {
	Shape       []int64 // -1 symbolic, 0, 1 broadcast, or more
	Contiguity  []Tri   // in memory order, outermost first
	DType       dtype.Type
	CPU         bool
	StrideOrder []int64 // rank of each dimension's stride, 0 the smallest; nil: row-major
}

// DefineTensor adds an input tensor. A dimension of size 1 is a broadcast; one
// whose contiguity does not apply and whose size is not 1 is an expanded
// broadcast.
func (f *Fusion) DefineTensor(t TensorDescription) (ValID, error) {
	if err := f.checkBuilding(); err != nil {
		return NoVal, err
	}
	if err := t.check(); err != nil {
		return NoVal, err
	}
	v := ValID(len(f.vals))
	n := len(t.Shape)
	var d Domain
	d.CPU = t.CPU
	inMemory := t.memoryOrder()
	contigOf := make([]Tri, n) // by dimension
	for k, dim := range inMemory {
		contigOf[dim] = t.Contiguity[k]
	}
	for i, size := range t.Shape {
		extent := scalar.None
		switch {
		case size == -1:
			extent = f.scalars.Symbol(dtype.Index, scalar.Tag{Val: uint32(v), Dim: int32(i)}, scalar.Facts{Lo: 0, Hi: maxExtent, Divisor: 1})
		default:
			extent = f.scalars.Int(size)
		}
		switch {
		case size == 1:
			d.Logical = append(d.Logical, f.broadcastAxis(scalar.None))
		case contigOf[i] == NotApplicable:
			d.Logical = append(d.Logical, f.broadcastAxis(extent))
		default:
			d.Logical = append(d.Logical, f.iterAxis(extent))
		}
	}
	d.Root = d.Logical
	d.Contig = slices.Clone(t.Contiguity)
	if !slices.IsSorted(inMemory) {
		for _, dim := range inMemory {
			d.Alloc = append(d.Alloc, d.Logical[dim])
		}
	}
	f.newTensor(t.DType, d, NoExpr)
	f.vals[v].Input = true
	f.vals[v].Extent = f.numScalars
	f.inputs = append(f.inputs, v)
	f.numScalars += n + 1
	return v, nil
}

// memoryOrder returns the dimensions from the largest stride to the smallest.
func (t *TensorDescription) memoryOrder() []int {
	order := make([]int, len(t.Shape))
	for i := range order {
		order[i] = i
		if t.StrideOrder != nil {
			order[len(order)-1-int(t.StrideOrder[i])] = i
		}
	}
	if t.StrideOrder != nil {
		for i, r := range t.StrideOrder {
			order[len(order)-1-int(r)] = i
		}
	}
	return order
}

func (t *TensorDescription) check() error {
	n := len(t.Shape)
	switch {
	case n > MaxRank:
		return invalidArgument("define_tensor(): shape has %d dimensions; at most %d are supported", n, MaxRank)
	case len(t.Contiguity) != n:
		return invalidArgument("Length of contiguity argument (%d) must match that of shape argument (%d)", len(t.Contiguity), n)
	case t.StrideOrder != nil && len(t.StrideOrder) != n:
		return invalidArgument("define_tensor(): length of stride_order (%d) must match that of shape (%d)", len(t.StrideOrder), n)
	case t.CPU && n != 0:
		return invalidArgument("define_tensor(): is_cpu=True is for tensors of rank 0, and shape has %d dimensions", n)
	case t.DType == dtype.Null || !t.DType.Valid():
		return invalidType("define_tensor(): dtype is %v; a tensor has an element type", t.DType)
	}
	elements := int64(1)
	for i, s := range t.Shape {
		if s < -1 {
			return invalidArgument("The value %d at index %d was neither symbolic(-1), zero_element(0), broadcast(1), or static(>1).", s, i)
		}
		if s > 1 {
			if elements > maxExtent/s {
				return invalidArgument("define_tensor(): shape %v has more than 2^63-1 elements", t.Shape)
			}
			elements *= s
		}
	}
	seen := make([]bool, n)
	for i, r := range t.StrideOrder {
		if r < 0 || r >= int64(n) || seen[r] {
			return invalidArgument("define_tensor(): stride_order %v is not a permutation of 0..%d (index %d)", t.StrideOrder, n-1, i)
		}
		seen[r] = true
	}
	for k, dim := range t.memoryOrder() {
		if t.Shape[dim] == 1 && t.Contiguity[k] != NotApplicable {
			return invalidArgument("define_tensor(): contiguity[%d] must be None, because dimension %d has size 1 and broadcasts", k, dim)
		}
	}
	return nil
}

// DescribeStrides returns the contiguity, in memory order, and the stride order
// of a tensor of the given sizes and strides (in elements): dimensions by
// descending stride, ties in logical order; those of stride 0 stay at their
// logical position. Size 1 and stride 0 have no contiguity.
func DescribeStrides(sizes, strides []int64) ([]Tri, []int64, error) {
	n := len(sizes)
	if len(strides) != n {
		return nil, nil, invalidArgument("compute_tensor_descriptor(): %d sizes but %d strides", n, len(strides))
	}
	var moving []int // dimensions that have a place in memory
	for i, s := range strides {
		if s < 0 {
			return nil, nil, invalidArgument("compute_tensor_descriptor(): strides[%d] is %d; a stride is not negative", i, s)
		}
		if sizes[i] < 0 {
			return nil, nil, invalidArgument("compute_tensor_descriptor(): sizes[%d] is %d; a size is not negative", i, sizes[i])
		}
		if s != 0 {
			moving = append(moving, i)
		}
	}
	slices.SortStableFunc(moving, func(a, b int) int {
		switch {
		case strides[a] > strides[b]:
			return -1
		case strides[a] < strides[b]:
			return 1
		}
		return 0
	})
	order := make([]int, n) // memory position -> dimension
	for i, k := 0, 0; i < n; i++ {
		order[i] = i
		if strides[i] != 0 {
			order[i] = moving[k]
			k++
		}
	}
	contig, strideOrder := make([]Tri, n), make([]int64, n)
	expected := int64(1)
	for k := n - 1; k >= 0; k-- {
		dim := order[k]
		strideOrder[dim] = int64(n - 1 - k)
		if sizes[dim] == 1 || strides[dim] == 0 {
			continue
		}
		contig[k] = No
		if strides[dim] == expected {
			contig[k] = Yes
		}
		expected = strides[dim] * sizes[dim]
	}
	return contig, strideOrder, nil
}
