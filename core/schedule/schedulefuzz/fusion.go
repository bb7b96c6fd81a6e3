package schedulefuzz

import (
	"math/rand/v2"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
)

// A builder makes a random fusion of Int or, of which more are in a vector, Int32
// tensors.
type builder struct {
	*rand.Rand
	f          *core.Fusion
	dtype      dtype.Type // of inputs
	tensors    []core.ValID
	inputs     []fusionfuzz.Input
	operations []string
}

var sizes = []int64{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 33}

const maxElements = 300 // of a tensor

func (b *builder) chance(p float64) bool { return b.Float64() < p }

func (b *builder) size() int64 {
	if b.chance(0.005) {
		return 0
	}
	return sizes[b.IntN(len(sizes))]
}

func (b *builder) shape(v core.ValID) []int64 {
	out := []int64{}
	for _, e := range b.f.Shape(v) {
		n, _ := b.f.Scalars().ConstInt(e)
		out = append(out, n)
	}
	return out
}

// input adds an input: dense, or now and then permuted or with gaps.
func (b *builder) input(shape []int64) core.ValID {
	order := b.Perm(len(shape)) // outermost in memory first
	if b.chance(0.8) {
		slices.Sort(order)
	}
	gaps := b.chance(0.1)
	in := fusionfuzz.Input{Array: core.NewArray(b.dtype, shape), Strides: make([]int64, len(shape))}
	step := int64(1)
	for _, dim := range slices.Backward(order) {
		if gaps && b.chance(0.5) {
			step += int64(b.IntN(3))
		}
		in.Strides[dim] = step
		step *= max(shape[dim], 1)
	}
	contiguity, strideOrder, err := core.DescribeStrides(shape, in.Strides)
	if err != nil {
		panic(err)
	}
	v, err := b.f.DefineTensor(core.TensorDescription{Shape: shape, Contiguity: contiguity, StrideOrder: strideOrder, DType: b.dtype})
	if err != nil {
		panic(err)
	}
	for i := range in.Array.I {
		in.Array.I[i] = int64(b.IntN(9)) - 4
	}
	b.inputs = append(b.inputs, in)
	return b.add(v)
}

func (b *builder) add(v core.ValID) core.ValID {
	b.tensors = append(b.tensors, v)
	return v
}

// apply adds an op, if the definition takes it and the result is small.
func (b *builder) apply(name string, args ...core.Arg) (core.ValID, bool) {
	out, err := b.f.Apply(core.Lookup(name), args...)
	if err != nil || core.NumElements(b.shape(out[0])) > maxElements {
		return 0, false
	}
	return b.add(out[0]), true
}

func (b *builder) fusion() {
	if b.dtype = dtype.Int; b.chance(0.3) {
		b.dtype = dtype.Int32
	}
	var shape []int64
	for n := int64(1); len(shape) < 1+b.IntN(3); {
		if e := b.size(); n*e <= 200 {
			shape, n = append(shape, e), n*e
		}
	}
	b.input(shape)
	for range 2 + b.IntN(7) {
		recent := b.tensors[max(0, len(b.tensors)-4):]
		b.operation(b.operations[b.IntN(len(b.operations))], recent[b.IntN(len(recent))])
	}
	for _, v := range b.tensors {
		if x := b.f.Val(v); !x.Input && (x.Uses == 0 || b.chance(0.12)) {
			if alias := b.overwritten(v); alias != core.NoVal && b.f.AddOutput(v, alias) == nil {
				continue
			}
			if err := b.f.AddOutput(v, core.NoVal); err != nil {
				panic(err)
			}
		}
	}
	b.f.Freeze()
}

// overwritten returns an input whose memory output v is to get, or most often
// none.
func (b *builder) overwritten(v core.ValID) core.ValID {
	for _, in := range b.f.Inputs() {
		if slices.Equal(b.shape(in), b.shape(v)) && b.chance(0.03) {
			return in
		}
	}
	return core.NoVal
}

func (b *builder) operation(kind string, v core.ValID) {
	shape := b.shape(v)
	flags := make([]bool, len(shape))
	for i := range flags {
		flags[i] = b.chance(0.5)
	}
	switch kind {
	case "unary":
		b.unary(v)
	case "binary":
		b.binary(v, b.tensors[b.IntN(len(b.tensors))])
	case "row":
		b.row(v, shape, flags)
	case "grow":
		b.grow(v, shape)
	case "reduce":
		b.reduce(v, flags)
	case "permute":
		var order []int64
		for _, i := range b.Perm(len(shape)) {
			order = append(order, int64(i))
		}
		b.apply("permute", core.TensorOf(v), core.IntsOf(order...))
	case "squeeze", "expand":
		b.one(kind, v, shape)
	case "reshape":
		b.apply("reshape", core.TensorOf(v), b.literals(b.regrouped(shape)))
	case "back":
		b.back(v)
	case "resize":
		b.pad(v, shape)
	case "slice", "cat", "select", "index_select", "gather", "take_along_axis", "scatter":
		b.indexing(kind, v, shape)
	default:
		panic("schedulefuzz: no operations of kind " + kind)
	}
}

func (b *builder) unary(v core.ValID) {
	literal := core.ScalarOf(b.f.Scalars().Value(scalar.Value{Type: dtype.Int, I: int64(b.IntN(5)) - 2}))
	switch b.IntN(4) {
	case 0:
		b.apply("neg", core.TensorOf(v))
	case 1:
		b.apply("set", core.TensorOf(v))
	default:
		b.apply([]string{"add", "mul"}[b.IntN(2)], core.TensorOf(v), literal)
	}
}

func (b *builder) binary(v, w core.ValID) {
	x, y := b.shape(v), b.shape(w)
	if v == w || len(x) != len(y) || len(x) == 0 {
		return
	}
	if b.chance(0.3) {
		v, w = w, v
	}
	b.apply([]string{"add", "sub", "mul"}[b.IntN(3)], core.TensorOf(v), core.TensorOf(w))
}

// row combines v with an input of fewer axes.
func (b *builder) row(v core.ValID, shape []int64, broadcast []bool) {
	var short []int64
	for i, n := range shape {
		if !broadcast[i] {
			short = append(short, n)
		}
	}
	if w, ok := b.apply("broadcast", core.TensorOf(b.input(short)), core.BoolsOf(broadcast...)); ok {
		if b.chance(0.4) {
			w, _ = b.apply("neg", core.TensorOf(w))
		}
		b.binary(v, w)
	}
}

// grow combines v with an input of more axes.
func (b *builder) grow(v core.ValID, shape []int64) {
	at := b.IntN(len(shape) + 1)
	broadcast := make([]bool, len(shape)+1)
	broadcast[at] = true
	bigger := slices.Insert(slices.Clone(shape), at, b.size())
	if len(shape) >= 3 || core.NumElements(bigger) > maxElements {
		return
	}
	w, _ := b.apply("broadcast", core.TensorOf(v), core.BoolsOf(broadcast...))
	if b.chance(0.3) {
		w, _ = b.apply("neg", core.TensorOf(w))
	}
	b.binary(w, b.input(bigger))
}

// reduce folds v along the flagged axes, and may combine it with the result.
func (b *builder) reduce(v core.ValID, flags []bool) {
	var dims []int64
	for i, flag := range flags {
		if flag {
			dims = append(dims, int64(i))
		}
	}
	if len(dims) == 0 {
		return
	}
	op, accumulated := "sum", b.dtype // of 32 bits, where sum would make 64 of it by a cast
	if b.IntN(2) == 1 {
		op, accumulated = "max", dtype.Null
	}
	s, ok := b.apply(op, core.TensorOf(v), core.IntsOf(dims...), core.BoolOf(false), core.DTypeOf(accumulated))
	if ok && b.chance(0.6) {
		if w, ok := b.apply("broadcast", core.TensorOf(s), core.BoolsOf(flags...)); ok {
			b.binary(v, w)
		}
	}
}

// one squeezes or expands an axis of extent 1.
func (b *builder) one(kind string, v core.ValID, shape []int64) {
	for i, n := range shape {
		if n != 1 || !b.chance(0.7) {
			continue
		}
		if kind == "squeeze" {
			b.apply("squeeze", core.TensorOf(v), core.IntsOf(int64(i)), core.BoolOf(false))
		} else {
			shape[i] = b.size()
			b.apply("expand", core.TensorOf(v), b.literals(shape))
		}
		return
	}
}

// back reshapes v to the shape of a tensor before it and combines the two.
func (b *builder) back(v core.ValID) {
	w := b.tensors[b.IntN(len(b.tensors))]
	if shape := b.shape(w); core.NumElements(shape) == core.NumElements(b.shape(v)) {
		if r, ok := b.apply("reshape", core.TensorOf(v), b.literals(shape)); ok {
			b.binary(r, w)
		}
	}
}

// pad widens or cuts an axis on both sides.
func (b *builder) pad(v core.ValID, shape []int64) {
	if len(shape) == 0 {
		return
	}
	i := b.IntN(len(shape))
	left, right := int64(b.IntN(5))-2, int64(b.IntN(5))-2
	if shape[i]+left+right < 1 || shape[i]+min(left, 0)+min(right, 0) < 1 {
		return
	}
	widths := make([]int64, 2*len(shape))
	widths[2*(len(shape)-1-i)], widths[2*(len(shape)-1-i)+1] = left, right
	b.apply("pad", core.TensorOf(v), b.literals(widths), core.ScalarOf(b.f.Scalars().Value(scalar.Value{Type: dtype.Int, I: 7})))
}

func (b *builder) literals(n []int64) core.Arg {
	ids := make([]scalar.ID, len(n))
	for i := range n {
		ids[i] = b.f.Scalars().Int(n[i])
	}
	return core.ScalarsOf(ids...)
}

// regrouped merges or splits sizes.
func (b *builder) regrouped(shape []int64) []int64 {
	shape = slices.Clone(shape)
	for range 1 + b.IntN(2) {
		if len(shape) == 0 {
			break
		}
		i := b.IntN(len(shape))
		if b.chance(0.5) && i+1 < len(shape) {
			shape[i] *= shape[i+1]
			shape = slices.Delete(shape, i+1, i+2)
		} else if k := int64(2 + b.IntN(3)); shape[i]%k == 0 && len(shape) < 4 {
			shape = slices.Insert(shape, i+1, k)
			shape[i] /= k
		}
	}
	return shape
}

// symbolic returns f with unknown sizes of inputs in place of all but 1.
func symbolic(f *core.Fusion) *core.Fusion {
	lines := strings.Split(f.String(), "\n")
	for i, line := range lines {
		open, end := strings.Index(line, "["), strings.Index(line, "]")
		if !strings.Contains(line, " = tensor ") {
			continue
		}
		dims := strings.Split(line[open+1:end], ", ")
		for k, d := range dims {
			if d != "1" && d != "" {
				dims[k] = "-1"
			}
		}
		lines[i] = line[:open+1] + strings.Join(dims, ", ") + line[end:]
	}
	g, err := core.Parse(strings.Join(lines, "\n"))
	if err != nil {
		panic(err)
	}
	g.Freeze()
	return g
}
