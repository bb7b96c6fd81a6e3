package core

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

func TestSlice(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(3, 4)
		y := p.call("slice", x, []int{1, 0}, []int{3, 2})
		p.gives(y, []int64{2, 2}, 4, 5, 8, 9)
		p.gives(p.call("slice", x, []any{p.index(1), 0}, []any{9, p.index(1)}, []int{1, 1}), []int64{2, 1}, 4, 8)
		p.gives(p.call("slice", x, []int{0, 0}, []int{3, 4}), []int64{3, 4}, upTo(12)...)
		p.gives(p.call("slice", x, []any{5, p.index(2)}, []any{7, 2}), []int64{0, 0})
		p.gives(p.call("slice", x, []int{1, 1}, []int{2, 2}, keywords{"manual_normalization": true}), []int64{1, 1}, 5)
		p.gives(p.call("slice", p.float(), []int{}, []int{}), []int64{}, 0)
		p.gives(p.call("slice", p.float(0), []int{0}, []int{5}), []int64{0})
		p.gives(p.call("slice", p.float(2, 1), []int{0, 0}, []int{2, 0}), []int64{2, 0})
		p.gives(p.call("slice", p.float(1), []int{0}, []int{3}), []int64{1}, 0)
		p.gives(p.call("slice", p.tensor(dtype.Int, 3), []int{1}, []int{math.MaxInt64}), []int64{2}, 1, 2)

		e := p.call("expand", p.call("broadcast", p.float(2), []bool{false, true}), []any{2, p.index(5)})
		p.gives(p.call("slice", e, []int{1, 2}, []int{2, 4}), []int64{1, 2}, 1, 1)
		p.gives(p.call("slice", e, []int{1, 4}, []int{2, 5}), []int64{1, 1}, 1)

		p.fails("slice(): Slice operation start_indices must be greater than or equal to 0. In dimension 0, got -1", "slice", x, []int{-1, -2}, []int{5, 5})
		p.fails("slice(): Slice operation end_indices must be greater than or equal to start_indices. In dimension 1, got 2 and 1", "slice", x, []int{0, 2}, []int{3, 1})
		p.fails("Slice operation end_indices must be greater than or equal to start_indices. In dimension 0, got 7 and 6", "slice", x, []int{7, 0}, []int{6, 1})
		p.fails("slice(): nvFuser Limitation: All slice operation strides must be of const size 1. strides[1] is 2", "slice", x, []int{0, 0}, []int{2, 2}, []int{1, 2})
		p.fails("slice(): Slice start_indices and strides don't match! start_indices has 2 entries and strides has 1", "slice", x, []int{0, 0}, []int{2, 2}, []int{1})
		p.fails("slice(): Slice indexing attribute dimensions don't match! start_indices has 2 entries and end_indices has 3", "slice", x, []int{0, 0}, []int{2, 2, 2})
		p.fails("slice(): Number of tensor dimensions does not match slice dimensions! arg has 2 dimensions and start_indices has 1 entry", "slice", x, []int{0}, []int{2})
		beyond := "slice(): end_indices must not exceed the size of arg. In dimension 1, got 5 and 4"
		if !p.symbolic {
			require.Equal(t, "i2 i2", p.kinds(y))
			require.Equal(t, "i3 b", p.kinds(p.call("slice", x, []int{0, 1}, []int{3, 2})))
			p.gives(p.call("squeeze", p.call("slice", x, []int{0, 1}, []int{3, 2}), 1), []int64{3}, 1, 5, 9)
			p.fails(beyond, "slice", x, []int{0, 0}, []int{3, 5}, nil, true)
			return
		}
		p.failsAtRun(p.call("slice", x, []int{0, 0}, []int{3, 5}, nil, true), beyond)
		p.failsAtRun(p.call("slice", x, []any{p.index(-1), 0}, []int{3, 5}), "Slice operation start_indices must be greater than or equal to 0. In dimension 0, got -1")
		p.failsAtRun(p.call("slice", x, []any{2, 0}, []any{p.index(1), 4}), "Slice operation end_indices must be greater than or equal to start_indices. In dimension 0, got 2 and 1")
		p.fails("All slice operation strides must be of const size 1. strides[0] is a scalar that is not constant", "slice", x, []int{0, 0}, []int{2, 2}, []any{p.index(1), 1})
	})
}

// An expression has indices within the sizes, and says so.
func TestSliceText(t *testing.T) {
	p := newViewProgram(t, false)
	require.NoError(t, p.f.AddOutput(p.call("slice", p.float(3, 4), []int{1, 0}, []int{9, 2}), NoVal))
	require.Contains(t, p.f.String(), "slice %0 start_indices=[1, 0] end_indices=[3, 2] strides=[1, 1] manual_normalization=true\n")
	_, err := Parse("%0 = tensor f32 [3] contiguity=[yes]\n%1 = slice %0 start_indices=[0] end_indices=[2]\n")
	require.ErrorContains(t, err, "an expression has strides and manual_normalization=True")
}

// A resize says by how much: position i of the operand is i+Left of the result.
func TestResizeTransforms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		p := newViewProgram(t, r.IntN(2) == 0)
		n := 1 + r.Int64N(6)
		x := p.float(n, 2)
		start := r.Int64N(n)
		end := start + r.Int64N(n-start+1)
		v := p.call("slice", x, []any{p.index(start), 0}, []any{p.index(end), 2})
		d := &p.f.Val(v).Domain
		if !p.symbolic {
			require.Equal(t, d.Root[1], d.Logical[1])
		}
		def := p.f.Axis(d.Logical[0]).Def
		if def == NoTransform { // all of it, or a part of a broadcast
			require.Equal(t, d.Root[0], d.Logical[0])
			continue
		}
		require.Equal(t, Transform{Kind: ResizeAxis, In: [2]AxisID{d.Root[0], NoAxis}, Out: [2]AxisID{d.Logical[0], NoAxis},
			Factor: p.f.Transform(def).Factor, Left: p.f.Transform(def).Left, Right: p.f.Transform(def).Right}, *p.f.Transform(def))
		if !p.symbolic {
			require.Equal(t, p.f.scalars.Int(-start), p.f.Transform(def).Left)
			require.Equal(t, p.f.scalars.Int(end-n), p.f.Transform(def).Right)
		}
	}
}

func TestPad(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 2)
		p.gives(p.call("pad", x, []int{1, 2}), []int64{2, 5}, 0, 0, 1, 0, 0, 0, 2, 3, 0, 0)
		p.gives(p.call("pad", x, []any{0, 1, p.index(1), 0}, 9.0), []int64{3, 3}, 9, 9, 9, 0, 1, 9, 2, 3, 9)
		p.gives(p.call("pad", x, []any{p.index(-1), 1}, 9.0), []int64{2, 2}, 1, 9, 3, 9)
		p.gives(p.call("pad", x, []int{-1, -1}, 9.0), []int64{2, 0})
		p.gives(p.call("pad", x, []int{-3, 3}, 9.0), []int64{2, 2}, 9, 9, 9, 9)
		p.gives(p.call("pad", x, []int{3, -3}, 9.0), []int64{2, 2}, 9, 9, 9, 9)
		p.gives(p.call("pad", x, []int{}, 9.0), []int64{2, 2}, 0, 1, 2, 3)
		p.gives(p.call("pad", p.float(), []int{}), []int64{}, 0)
		p.gives(p.call("pad", p.float(0), []any{1, p.index(1)}, 9.0), []int64{2}, 9, 9)
		p.gives(p.call("pad", p.float(1, 2), []int{0, 0, 1, 1}, 9.0), []int64{3, 2}, 9, 9, 0, 1, 9, 9)
		p.gives(p.call("pad", p.tensor(dtype.Int, 2), []int{1, 0}, 2.75), []int64{3}, 2, 0, 1)
		p.gives(p.call("pad", p.tensor(dtype.Bool, 2), []int{1, 0}, 1.0), []int64{3}, 1, 0, 1)
		p.gives(p.call("pad", p.tensor(dtype.Half, 1), []int{1, 0}, 0.1), []int64{2}, dtype.Round(dtype.Half, 0.1), 0)
		p.gives(p.call("pad", x, []int{1, 0, 1, 0}, p.scalar(given(2.5).Num)), []int64{3, 3}, 2.5, 2.5, 2.5, 2.5, 0, 1, 2.5, 2, 3)
		c, err := p.run(p.call("pad", p.tensor(dtype.ComplexFloat, 1), []int{0, 1}, 1+2i))
		require.NoError(t, err)
		require.Equal(t, []complex128{0, 1 + 2i}, c.C)
		e := p.call("expand", p.call("broadcast", p.float(2), []bool{false, true}), []any{2, p.index(2)})
		p.gives(p.call("pad", e, []int{1, -1}, 9.0), []int64{2, 2}, 9, 0, 9, 1)

		const huge = math.MaxInt64
		p.fails("pad(): pad_widths has 3 entries; it must have an even number, at most 4 for an arg with 2 dimensions", "pad", x, []int{1, 1, 1})
		p.fails("pad(): pad_widths has 6 entries", "pad", x, []int{1, 1, 1, 1, 1, 1})
		p.fails("pad(): value is complex, and the elements are Float", "pad", x, []int{1, 1}, 1i)
		p.fails("pad(): pad_widths[1] must lie between -2^62 and 2^62, got 9223372036854775807", "pad", x, []int{1, huge})
		p.fails("pad(): pad_widths[0] must lie between -2^62 and 2^62, got -9223372036854775808", "pad", x, []int{math.MinInt64, 0})
		if !p.symbolic {
			p.fails("pad(): dimension 1 of the result would have size -1", "pad", x, []int{-2, -1})
			p.fails("pad(): ", "pad", x, []int{1 << 62, 1 << 62})
			require.Equal(t, "i2 b", p.kinds(p.call("pad", x, []int{-1, 0})))
			require.Equal(t, "i2 i4", p.kinds(p.call("pad", e, []int{1, 1})))
			return
		}
		p.failsAtRun(p.call("pad", x, []int{-2, -1}), "dimension 1 has size -1")
		p.failsAtRun(p.call("pad", x, []int{1 << 62, 1 << 62}), "pad(): the size i1 + (4611686018427387904 + 4611686018427387904) does not fit in 64 bits")
		p.failsAtRun(p.call("pad", x, []any{p.index(huge), 3}), "pad(): pad_widths[0] must lie between -2^62 and 2^62, got 9223372036854775807")
	})
}

// Padding a broadcast makes elements: the root axis is real.
func TestPadOfBroadcast(t *testing.T) {
	p := newViewProgram(t, false)
	v := p.call("pad", p.call("broadcast", p.float(2), []bool{true, false}), []int{0, 0, 1, 1})
	d := &p.f.Val(v).Domain
	require.Equal(t, Iter, p.f.Axis(d.Root[0]).Kind)
	require.Equal(t, "i3 i2", p.kinds(v))
	require.NotEqual(t, NoTransform, p.f.Axis(d.Logical[0]).Def)
	p.checkResize(v, 0, 1, 1)
}

func (p *viewProgram) checkResize(v ValID, dim int, left, right int64) {
	d := &p.f.Val(v).Domain
	x := p.f.Transform(p.f.Axis(d.Logical[dim]).Def)
	require.Equal(p.t, ResizeAxis, x.Kind)
	require.Equal(p.t, [2]AxisID{d.Root[dim], NoAxis}, x.In)
	require.Equal(p.t, [2]AxisID{d.Logical[dim], NoAxis}, x.Out)
	require.Equal(p.t, p.f.scalars.Int(left), x.Left)
	require.Equal(p.t, p.f.scalars.Int(right), x.Right)
}

func TestCat(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x, y := p.float(2, 2), p.float(2, 1)
		z := p.call("cat", []ValID{x, y}, 1)
		p.gives(z, []int64{2, 3}, 0, 1, 0, 2, 3, 1)
		require.Equal(t, []int{0, -1}, CatOp.AxisMap(p.f, p.f.Expr(p.f.Val(z).Def), 1, 0))
		p.gives(p.call("cat", []ValID{x, p.float(1, 2), p.float(0, 2)}), []int64{3, 2}, 0, 1, 2, 3, 0, 1)
		p.gives(p.call("cat", []ValID{x, x}, -2), []int64{4, 2}, 0, 1, 2, 3, 0, 1, 2, 3)
		p.gives(p.call("cat", []ValID{x}), []int64{2, 2}, 0, 1, 2, 3)
		p.gives(p.call("cat", []ValID{p.float(1, 1), p.float(1, 1)}, 1), []int64{1, 2}, 0, 0)
		e := p.call("expand", p.call("broadcast", p.float(2), []bool{true, false}), []any{p.index(2), 2})
		p.gives(p.call("cat", []ValID{x, e}, 0), []int64{4, 2}, 0, 1, 2, 3, 0, 1, 0, 1)
		p.gives(p.call("cat", []ValID{e, x}, 1), []int64{2, 4}, 0, 1, 0, 1, 0, 1, 2, 3)
		p.gives(p.call("cat", []ValID{e, e}, 1), []int64{2, 4}, 0, 1, 0, 1, 0, 1, 0, 1)
		p.gives(p.call("cat", []ValID{p.tensor(dtype.Bool, 2), p.tensor(dtype.Bool, 1)}), []int64{3}, 0, 1, 0)

		p.fails("cat(): Can't concatenate tensors with different data types: Float, Half", "cat", []ValID{x, p.tensor(dtype.Half, 2, 2)})
		p.fails("cat(): tensors[0] has 2 dimensions and tensors[1] has 1; they must have as many", "cat", []ValID{x, p.float(2)})
		p.fails("cat(): dim is 2", "cat", []ValID{x, x}, 2)
		p.fails("cat(): dim is 0", "cat", []ValID{p.float(), p.float()})
		p.fails("cat(): tensors must be a non-empty list of tensors, got []", "cat", []ValID{})
		if !p.symbolic {
			p.fails("cat(): sizes of dimension 1 must be equal, got 2 and 1", "cat", []ValID{x, y})
		} else {
			p.failsAtRun(p.call("cat", []ValID{x, y}), "cat(): sizes of dimension 1 must be equal, got 2 and 1")
		}
	})
}

// Kinds of cat's dimensions: a broadcast only if all are or the size is 1.
func TestCatKinds(t *testing.T) {
	p := newViewProgram(t, true)
	i := p.float(3, 2)                                         // i? i?
	b := p.call("broadcast", p.float(2), []bool{true, false})  // b i?
	e := p.call("expand", b, []any{p.call("size", i, 0), -1})  // b? i?
	s := p.call("slice", i, []int{0, 0}, []any{p.index(9), 2}) // s? s?
	c := p.call("full", []int{3, 2}, 0.0, dtype.Float)         // i3 i2
	one := p.call("full", []int{1, 2}, 0.0, dtype.Float)       // b i2
	require.Equal(t, "s? s?|b i2", p.kinds(s)+"|"+p.kinds(one))
	for _, c := range []struct {
		tensors []ValID
		want    string
	}{
		{[]ValID{i, i}, "i?"}, {[]ValID{b, b}, "b"}, {[]ValID{e, e}, "b?"}, {[]ValID{e, i}, "i?"}, {[]ValID{s, i}, "i?"},
		{[]ValID{s, e}, "s?"}, {[]ValID{e, s}, "s?"}, {[]ValID{s, s}, "s?"}, {[]ValID{i, c}, "i3"}, {[]ValID{e, c}, "i3"}, {[]ValID{i, b}, "b"}, {[]ValID{one, s}, "b"},
	} {
		v := p.call("cat", c.tensors, 1)
		require.Equal(t, c.want, p.kinds(v)[:len(c.want)], "%s", p.kinds(v))
	}
	p.failsAtRun(p.call("cat", []ValID{i, b}, 1), "sizes of dimension 0 must be equal, got 1 and 3")
}

// With manual padding the operands of the pads are joined.
func TestCatManualPadding(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x, y, z := p.float(2, 2), p.float(2, 1), p.float(2, 3)
		size := func(v ValID) any { return p.call("size", v, 1) }
		add := func(a, b any) any { return p.call("add", a, b) }
		px := p.call("pad", x, []any{0, add(size(y), size(z))})
		py := p.call("pad", y, []any{size(x), size(z)}, 5.0)
		pz := p.call("pad", z, []any{add(size(x), size(y)), 0, 0, 0})
		v := p.call("cat", []ValID{px, py, pz}, 1, true)
		p.gives(v, []int64{2, 6}, 0, 1, 0, 0, 1, 2, 2, 3, 1, 3, 4, 5)
		e := p.f.Expr(p.f.Val(v).Def)
		require.Equal(t, TensorsOf(x, y, z), e.Args[0])
		require.False(t, e.Args[2].Bool())
		p.gives(p.call("cat", []ValID{px}, 1, true), []int64{2, 6}, 0, 1, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0)
		p.gives(p.call("cat", []ValID{x}, 1, true), []int64{2, 2}, 0, 1, 2, 3)
		none := p.call("slice", x, []int{0, 0}, []int{2, 0})
		p.gives(p.call("cat", []ValID{x, p.call("pad", none, []any{size(x), 0})}, 1, true), []int64{2, 2}, 0, 1, 2, 3)

		wrong := "cat(): with manual_padding tensors[1] must be a pad along dimension 1 alone, by "
		p.fails(wrong, "cat", []ValID{px, pz, py}, 1, true)
		p.fails(wrong, "cat", []ValID{px, x}, 1, true)
		p.fails(wrong, "cat", []ValID{px, px, pz}, 1, true)
		p.fails(wrong, "cat", []ValID{px, p.call("pad", y, []any{size(x), 9}), pz}, 1, true)
		p.fails(wrong, "cat", []ValID{px, p.call("pad", y, []any{9, size(z)}), pz}, 1, true)
		p.fails(wrong, "cat", []ValID{px, p.call("pad", y, []any{size(x), size(z), 1, 0}), pz}, 1, true)
		p.fails("cat(): with manual_padding tensors[1] must be a pad along dimension 0 alone", "cat", []ValID{px, py, pz}, 0, true)
		p.fails("cat(): with manual_padding the sizes of the unpadded tensors in dimension 1 must add up", "cat", []ValID{px, py}, 1, true)
		p.fails("Can't concatenate tensors with different data types", "cat", []ValID{px, p.tensor(dtype.Half, 2, 6)}, 1, true)
	})
}

// Sizes that a sum of 64 bits cannot hold are refused, also where it would wrap
// to one.
func TestCatOverflow(t *testing.T) {
	for _, symbolic := range []bool{false, true} {
		p := newViewProgram(t, symbolic)
		const huge = 1 << 62
		x := p.call("expand", p.call("broadcast", p.float(), []bool{true}), []any{p.index(huge)})
		if !symbolic {
			p.fails("cat(): dimension 0 of the result would have size 4611686018427387904 + 4611686018427387904, which does not fit in 64 bits", "cat", []ValID{x, x})
			p.fails("which does not fit in 64 bits", "cat", []ValID{x, x, x, x})
			continue
		}
		p.failsAtRun(p.call("cat", []ValID{x, x}), "cat(): the size i1*2 does not fit in 64 bits")
		p.failsAtRun(p.call("cat", []ValID{x, x, x, x}), "cat(): the size i1*4 does not fit in 64 bits")
	}
}
