package core

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// upTo is 0, 1, ..., n-1.
func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i)
	}
	return xs
}

func TestReshape(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 3, 4)
		p.gives(p.call("reshape", x, []int{6, 4}), []int64{6, 4}, upTo(24)...)
		p.gives(p.call("reshape", x, []any{p.index(4), 6}), []int64{4, 6}, upTo(24)...)
		p.gives(p.call("reshape", x, []any{-1, p.index(6)}), []int64{4, 6}, upTo(24)...)
		p.gives(p.call("reshape", x, []any{p.index(2), 1, -1, 1}), []int64{2, 1, 12, 1}, upTo(24)...)
		p.gives(p.call("reshape", x, []int{-1}), []int64{24}, upTo(24)...)
		p.gives(p.call("reshape", x, []int{24, -1}), []int64{24, 1}, upTo(24)...)
		p.gives(p.call("reshape", p.float(1, 1), []int{}), []int64{}, 0)
		p.gives(p.call("reshape", p.float(), []int{1, -1}), []int64{1, 1}, 0)
		p.gives(p.call("reshape", p.float(1, 4, 1), []any{2, p.index(2)}), []int64{2, 2}, upTo(4)...)
		p.gives(p.call("reshape", p.float(0, 3), []any{5, p.index(0)}), []int64{5, 0})
		p.gives(p.call("reshape", p.float(0, 3), []any{p.index(7), -1}), []int64{7, 0})
		p.fails("reshape(): new_shape has -1 at 0 and at 2; only one size can be inferred", "reshape", x, []int{-1, 2, -1})
		p.fails("reshape(): new_shape[1] is -2; a size is not negative (one may be -1, to be inferred)", "reshape", x, []int{-1, -2})
		p.fails("reshape(): new_shape is [-1, 0]: -1 is ambiguous, because the other sizes multiply to 0", "reshape", x, []int{-1, 0})
		p.fails("reshape(): new_shape is [-1, 4294967296, 4294967296]: it has more than 2^63-1 elements", "reshape", x, []int{-1, 1 << 32, 1 << 32})
		same := "reshape(): arg and new_shape must have the same number of elements, got 24 and 25"
		if !p.symbolic {
			p.fails(same, "reshape", x, []int{5, 5})
			p.fails("same number of elements, got 0 and 4294967296*4294967296", "reshape", p.float(0), []int{1 << 32, 1 << 32})
			p.fails("new_shape is [5, -1]: the other sizes multiply to 5, which does not divide the 24 elements of arg", "reshape", x, []int{5, -1})
			return
		}
		p.fails("more than 2^63-1 elements", "reshape", p.float(0), []int{1 << 32, 1 << 32})
		p.failsAtRun(p.call("reshape", x, []int{5, 5}), same)
		p.failsAtRun(p.call("reshape", x, []int{5, -1}), "must have the same number of elements, got 24 and 20")
		p.failsAtRun(p.call("reshape", x, []any{p.index(0), -1}), "reshape(): division by zero in ")
		p.failsAtRun(p.call("reshape", x, []any{p.index(-4), p.index(-6)}), "dimension 0 has size -4")
		p.failsAtRun(p.call("reshape", x, []any{p.index(1 << 32), p.index(1 << 32), p.index(3)}), "same number of elements")
		p.failsAtRun(p.call("reshape", p.float(0), []any{p.index(1 << 32), p.index(1 << 32)}), "same number of elements, got 0 and i34*i35")
	})
}

// The inferred size has the factors that the other sizes leave.
func TestReshapeCancelsFactors(t *testing.T) {
	p := newViewProgram(t, true)
	x := p.float(3, 5)
	i0, i1 := p.call("size", x, 0), p.call("size", x, 1)
	index := func(v ValID) scalar.ID { return p.f.Val(v).Scalar }
	sizes := func(shape ...any) []scalar.ID { return p.f.Shape(p.call("reshape", x, shape)) }
	require.Equal(t, index(i0), sizes(-1, i1)[0])
	require.Equal(t, index(i1), sizes(i0, -1)[1])
	require.Equal(t, p.f.scalars.Int(1), sizes(i0, i1, -1)[2])
	require.Equal(t, p.f.scalars.Mul(index(i0), index(i1)), sizes(-1)[0])
	flat := p.call("reshape", x, []int{-1})
	require.Equal(t, index(i0), p.f.Shape(p.call("reshape", flat, []any{-1, i1}))[0])
	doubled := p.call("cat", []ValID{x, x})
	require.Equal(t, p.f.scalars.Int(2), p.f.Shape(p.call("reshape", doubled, []any{-1, i0, i1}))[0])
	pairs := p.call("reshape", doubled, []any{-1, 2, i1})
	require.Equal(t, index(i0), p.f.Shape(pairs)[0])
	require.Empty(t, p.f.Expr(p.f.Val(pairs).Def).Requires, "known whatever the sizes are")
	joined := p.call("cat", []ValID{x, p.float(2, 5)})
	flat = p.call("reshape", joined, []int{-1})
	require.Equal(t, p.f.scalars.Int(1), p.f.Shape(p.call("reshape", flat, []any{p.call("size", joined, 0), i1, -1}))[2])
	back := p.call("reshape", p.call("reshape", joined, []any{-1}), []any{p.call("size", joined, 0), -1})
	p.gives(back, []int64{5, 5}, append(upTo(15), upTo(10)...)...)
}

// Domains of reshapes: each logical axis as the transforms that make it of the
// root axes a, b, c, ...
func TestReshapeTransforms(t *testing.T) {
	p := newViewProgram(t, false)
	s := newViewProgram(t, true)
	i := s.float(6, 4)
	i0, i1 := s.call("size", i, 0), s.call("size", i, 1)
	n := s.index(24)
	for _, c := range []struct {
		p     *viewProgram
		x     ValID
		shape any
		want  []string
		whole []int
	}{
		{p, p.float(2, 3, 4), []int{2, 3, 4}, []string{"a", "b", "c"}, nil},
		{p, p.float(2, 3, 4), []int{6, 4}, []string{"(a*b)", "c"}, nil},
		{p, p.float(6, 4), []int{2, 3, 4}, []string{"a/3", "a%3", "b"}, nil},
		{p, p.float(6, 4), []int{4, 6}, []string{"(a*b)/6", "(a*b)%6"}, nil},
		{p, p.float(2, 6, 5), []int{3, 4, 5}, []string{"(a*b)/4", "(a*b)%4", "c"}, nil},
		{p, p.float(24), []int{2, 3, 4}, []string{"a/4/3", "a/4%3", "a%4"}, nil},
		{p, p.float(4, 1, 6), []int{1, 4, 2, 3, 1}, []string{"new", "a", "c/3", "c%3", "new"}, nil},
		{p, p.float(2, 1), []int{2, 1}, []string{"a", "b"}, nil},
		{p, p.float(0, 6), []int{6, 0}, []string{"new", "new"}, []int{0, 1}},
		{s, i, []any{i0, i1}, []string{"a", "b"}, nil},
		{s, i, []any{i0, 1, i1}, []string{"a", "new", "b"}, nil},
		{s, i, []any{i1, i0}, []string{"(a*b)/?", "(a*b)%?"}, nil},
		{s, i, []any{-1}, []string{"(a*b)"}, nil},
		{s, i, []any{n}, []string{"new"}, []int{0, 1}},
		{s, i, []any{i0, 2, 2}, []string{"a", "new", "new"}, []int{1}},
		{s, s.call("expand", s.call("broadcast", i, []bool{false, false, true}), []any{-1, -1, n}), []int{6, 96}, []string{"new", "new"}, []int{0, 1}},
		{s, i, []any{3, 2, i1}, []string{"new", "new", "b"}, []int{0}},
		{s, s.call("cat", []ValID{i, i}, keywords{"dim": 1}), []any{i0, 2, i1}, []string{"a", "b/?", "b%?"}, nil},
		{s, s.call("reshape", i, []int{-1}), []any{i0, i1}, []string{"a/?", "a%?"}, nil},
	} {
		v := c.p.call("reshape", c.x, c.shape)
		d := &c.p.f.Val(v).Domain
		got := []string{}
		for _, a := range d.Logical {
			got = append(got, c.p.made(d, a))
		}
		require.Equal(t, c.want, got)
		require.Len(t, d.Root, c.p.f.Rank(c.x))
		require.Equal(t, c.whole, ReshapeOp.NeedsWhole(c.p.f, c.p.f.Expr(c.p.f.Val(v).Def)))
	}
}

// made prints how axis a is made of the root axes of d.
func (p *viewProgram) made(d *Domain, a AxisID) string {
	for i, r := range d.Root {
		if r == a {
			return string(rune('a' + i))
		}
	}
	def := p.f.Axis(a).Def
	if def == NoTransform {
		return "new"
	}
	x := p.f.Transform(def)
	in := p.made(d, x.In[0])
	if x.Kind == Merge {
		return "(" + in + "*" + p.made(d, x.In[1]) + ")"
	}
	operator := "/"
	if x.Out[1] == a {
		operator = "%"
	}
	return in + operator + p.f.listText([]scalar.ID{x.Factor})[1:2]
}

// Expanded dimensions stay so where they are not mixed with others.
func TestReshapeOfExpanded(t *testing.T) {
	p := newViewProgram(t, false)
	x := p.call("expand", p.call("broadcast", p.float(3), []bool{true, false, true}), []int{4, 3, 2})
	want := []float64{}
	for range 4 {
		want = append(want, 0, 0, 1, 1, 2, 2)
	}
	for _, c := range []struct {
		shape []int
		kinds string
	}{
		{[]int{4, 3, 2}, "b4 i3 b2"},
		{[]int{4, 3, 1, 2}, "b4 i3 b b2"},
		{[]int{2, 2, 3, 2}, "b2 b2 i3 b2"},
		{[]int{4, 6}, "b4 i6"},
		{[]int{12, 2}, "i12 b2"},
		{[]int{24}, "i24"},
	} {
		y := p.call("reshape", x, c.shape)
		require.Equal(t, c.kinds, p.kinds(y))
		sizes := []int64{}
		for _, n := range c.shape {
			sizes = append(sizes, int64(n))
		}
		p.gives(y, sizes, want...)
	}
}

// Every index of the result of a random reshape, followed back through the
// transforms, is the element of the same position.
func TestReshapeTransformsKeepOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		p := newViewProgram(t, r.IntN(2) == 0)
		factors := []int64{}
		for range r.IntN(6) {
			factors = append(factors, []int64{1, 2, 2, 3, 4, 5}[r.IntN(6)])
		}
		x := p.float(grouped(r, factors)...)
		shape := []any{}
		for _, n := range grouped(r, factors) {
			shape = append(shape, p.index(n))
		}
		for i, n := range p.f.Shape(x) { // some of the sizes in the terms of arg
			if i < len(shape) && r.IntN(2) == 0 && p.arrays[0].Shape[i] == givenValue(p, shape[i].(Given)) {
				shape[i] = p.f.ScalarVal(n)
			}
		}
		v := p.call("reshape", x, shape)
		p.checkTransforms(v)
		a, err := p.run(v)
		require.NoError(t, err)
		require.Equal(t, upTo(a.Len()), append([]float64{}, a.F...))
	}
}

// grouped multiplies neighbouring factors at random, and adds ones.
func grouped(r *rand.Rand, factors []int64) []int64 {
	sizes := []int64{}
	for _, n := range factors {
		switch r.IntN(5) {
		case 0, 1:
			sizes = append(sizes, n)
		case 2:
			sizes = append(sizes, 1, n)
		default:
			if len(sizes) == 0 {
				sizes = append(sizes, 1)
			}
			sizes[len(sizes)-1] *= n
		}
	}
	return sizes
}

func givenValue(p *viewProgram, g Given) int64 {
	if g.Kind == GivenNumber {
		return g.Num.I
	}
	for i, v := range p.f.Inputs() {
		if v == g.Val {
			return p.scalars[i].I
		}
	}
	panic("not an input")
}

// checkTransforms follows each logical index of v back to a root index. Unless
// an axis of the operand is needed whole, its position must be the same.
func (p *viewProgram) checkTransforms(v ValID) {
	f := p.f
	e := f.Expr(f.Val(v).Def)
	if len(e.Op.NeedsWhole(f, e)) > 0 {
		return
	}
	g := f.Clone()
	require.NoError(p.t, g.AddOutput(v, NoVal))
	var values []InputValue
	for i, a := range p.arrays {
		if a == nil {
			values = append(values, InputValue{Scalar: p.scalars[i]})
		} else {
			values = append(values, InputValue{Tensor: true, DType: dtype.Float, Sizes: a.Shape})
		}
	}
	b, err := g.Bind(values)
	require.NoError(p.t, err)
	d := &f.Val(v).Domain
	sizes := func(axes []AxisID) []int64 {
		out := []int64{}
		for _, a := range axes {
			n, err := b.Int(f.Size(a))
			require.NoError(p.t, err)
			out = append(out, n)
		}
		return out
	}
	root, logical := sizes(d.Root), sizes(d.Logical)
	EachIndex(logical, func(index []int64) {
		at := map[AxisID]int64{}
		for i, a := range d.Logical {
			at[a] = index[i]
		}
		position := make([]int64, len(root))
		for i, a := range d.Root {
			position[i] = p.rootIndex(b, at, a)
		}
		require.Equal(p.t, Offset(logical, index), Offset(root, position))
	})
}

// rootIndex is the index of axis a that the indices of other axes, in at, imply.
func (p *viewProgram) rootIndex(b *Binding, at map[AxisID]int64, a AxisID) int64 {
	if n, ok := at[a]; ok {
		return n
	}
	value := func(s scalar.ID) int64 {
		n, err := b.Int(s)
		require.NoError(p.t, err)
		return n
	}
	for i := range p.f.transforms {
		x := &p.f.transforms[i]
		switch {
		case x.Kind == Split && x.In[0] == a:
			return p.rootIndex(b, at, x.Out[0])*value(x.Factor) + p.rootIndex(b, at, x.Out[1])
		case x.Kind == Merge && x.In[0] == a:
			return p.rootIndex(b, at, x.Out[0]) / value(p.f.Axis(x.In[1]).Extent)
		case x.Kind == Merge && x.In[1] == a:
			return p.rootIndex(b, at, x.Out[0]) % value(p.f.Axis(a).Extent)
		case x.Kind == ResizeAxis && x.In[0] == a:
			return p.rootIndex(b, at, x.Out[0]) - value(x.Left)
		}
	}
	require.EqualValues(p.t, 1, value(p.f.Axis(a).Extent)) // dropped, or a broadcast
	return 0
}
