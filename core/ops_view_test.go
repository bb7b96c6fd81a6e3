package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A viewProgram builds a fusion by calls and runs it on the inputs 0, 1, 2, ...
// With symbolic set every size of its inputs is -1, those of 1 too.
type viewProgram struct {
	t        *testing.T
	f        *Fusion
	symbolic bool
	arrays   []*Array
	scalars  []scalar.Value
}

// bothModes runs a test with constant and with symbolic sizes.
func bothModes(t *testing.T, test func(t *testing.T, p *viewProgram)) {
	for _, symbolic := range []bool{false, true} {
		t.Run(fmt.Sprintf("symbolic=%v", symbolic), func(t *testing.T) { test(t, newViewProgram(t, symbolic)) })
	}
}

func newViewProgram(t *testing.T, symbolic bool) *viewProgram {
	return &viewProgram{t: t, f: NewFusion(), symbolic: symbolic}
}

// counting is an array of 0, 1, 2, ...
func counting(t dtype.Type, sizes ...int64) *Array {
	a := NewArray(t, sizes)
	for i := range int64(a.Len()) {
		a.Set(i, ConvertScalar(t, scalar.Value{Type: dtype.Int, I: i}))
	}
	return a
}

func (p *viewProgram) tensor(t dtype.Type, sizes ...int64) ValID {
	d := TensorDescription{DType: t, Shape: append([]int64{}, sizes...)}
	for i, n := range sizes {
		if p.symbolic {
			d.Shape[i] = -1
		}
		c := Yes
		if n == 1 && !p.symbolic {
			c = NotApplicable
		}
		d.Contiguity = append(d.Contiguity, c)
	}
	v, err := p.f.DefineTensor(d)
	require.NoError(p.t, err)
	p.arrays, p.scalars = append(p.arrays, counting(t, sizes...)), append(p.scalars, scalar.Value{})
	return v
}

func (p *viewProgram) float(sizes ...int64) ValID { return p.tensor(dtype.Float, sizes...) }

// index is an input scalar of value n; a constant if sizes are.
func (p *viewProgram) index(n int64) Given {
	if !p.symbolic {
		return givenInt(n)
	}
	return givenVal(p.scalar(scalar.Value{Type: dtype.Int, I: n}))
}

func (p *viewProgram) scalar(v scalar.Value) ValID {
	id, err := p.f.DefineScalar(v.Type)
	require.NoError(p.t, err)
	p.arrays, p.scalars = append(p.arrays, nil), append(p.scalars, v)
	return id
}

// given turns a Go value into an argument: int, float64, bool, ValID,
// dtype.Type, Given or a slice of these.
func given(x any) Given {
	switch x := x.(type) {
	case Given:
		return x
	case ValID:
		return givenVal(x)
	case int:
		return givenInt(int64(x))
	case float64:
		return givenFloat(x)
	case bool:
		return givenBool(x)
	case dtype.Type:
		return givenDType(x)
	case []int:
		return givenSlice(x)
	case []bool:
		return givenSlice(x)
	case []ValID:
		return givenSlice(x)
	case []any:
		return givenSlice(x)
	case complex128:
		return Given{Kind: GivenNumber, Num: scalar.Value{Type: dtype.ComplexDouble, Re: real(x), Im: imag(x)}}
	case nil:
		return Given{}
	}
	panic(fmt.Sprintf("given: %T", x))
}

func givenSlice[T any](xs []T) Given {
	g := givenList()
	for _, x := range xs {
		g.List = append(g.List, given(x))
	}
	return g
}

// keywords are arguments by name.
type keywords map[string]any

// try calls op; a last argument of type keywords goes by name.
func (p *viewProgram) try(op string, args ...any) ([]ValID, error) {
	var positional []Given
	var byName []Keyword
	for _, a := range args {
		if k, ok := a.(keywords); ok {
			for _, q := range Lookup(op).Params() {
				if x, ok := k[q.Name]; ok {
					byName = append(byName, named(q.Name, given(x)))
				}
			}
			require.Len(p.t, byName, len(k))
			continue
		}
		positional = append(positional, given(a))
	}
	return p.f.Call(Lookup(op), positional, byName)
}

func (p *viewProgram) call(op string, args ...any) ValID {
	p.t.Helper()
	out, err := p.try(op, args...)
	require.NoError(p.t, err)
	require.Len(p.t, out, 1)
	return out[0]
}

// fails expects an error of the given text at the call.
func (p *viewProgram) fails(want string, op string, args ...any) {
	p.t.Helper()
	_, err := p.try(op, args...)
	require.ErrorContains(p.t, err, want)
	require.NoError(p.t, p.f.Verify())
}

// run evaluates v, after a round trip through the text form.
func (p *viewProgram) run(v ValID) (*Array, error) {
	p.t.Helper()
	g := p.f.Clone()
	require.NoError(p.t, g.AddOutput(v, NoVal))
	require.NoError(p.t, g.Verify())
	parsed, err := Parse(g.String())
	require.NoError(p.t, err, "%s", g)
	require.Equal(p.t, g.String(), parsed.String())
	require.NoError(p.t, parsed.Verify())
	parsed.Freeze()
	out, err := parsed.Eval(p.arrays, p.scalars, RandomState{Seed: 7, Offset: 4})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// gives expects the shape and the values, as floats, of v.
func (p *viewProgram) gives(v ValID, shape []int64, values ...float64) {
	p.t.Helper()
	a, err := p.run(v)
	require.NoError(p.t, err)
	require.Equal(p.t, append([]int64{}, shape...), append([]int64{}, a.Shape...))
	require.Equal(p.t, p.f.Val(v).DType, a.Type)
	require.EqualValues(p.t, NumElements(shape), a.Len())
	got := []float64{}
	for i := range int64(a.Len()) {
		got = append(got, ConvertScalar(dtype.Double, a.At(i)).Re)
	}
	require.Equal(p.t, append([]float64{}, values...), got)
}

func (p *viewProgram) failsAtRun(v ValID, want string) {
	p.t.Helper()
	_, err := p.run(v)
	require.ErrorContains(p.t, err, want)
}

// kinds describes the dimensions of v: i4 and b (a size of 1), b4 expanded, s
// may be either; sizes that are not constant are ?.
func (p *viewProgram) kinds(v ValID) string {
	s := ""
	for i, a := range p.f.Axes(v) {
		if i > 0 {
			s += " "
		}
		x := p.f.Axis(a)
		s += [...]string{Iter: "i", Broadcast: "b", Reduce: "r", Symbolic: "s"}[x.Kind]
		n, isConst := p.f.scalars.ConstInt(p.f.Size(a))
		switch {
		case x.Kind == Broadcast && x.Expanded == scalar.None:
		case isConst:
			s += fmt.Sprint(n)
		default:
			s += "?"
		}
	}
	return s
}

func TestBroadcast(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 3)
		y := p.call("broadcast", x, []bool{true, false, true, false})
		p.gives(y, []int64{1, 2, 1, 3}, 0, 1, 2, 3, 4, 5)
		require.Equal(t, []int{-1, 0, -1, 1}, BroadcastOp.AxisMap(p.f, p.f.Expr(p.f.Val(y).Def), 0, 0))
		p.gives(p.call("broadcast", p.float(), []bool{true}), []int64{1}, 0)
		p.gives(p.call("broadcast", p.float(0), []bool{false, true}), []int64{0, 1})
		p.fails("is_broadcast_dim is False in 1 place, and arg has 2 dimensions", "broadcast", x, []bool{true, false})
		p.fails("is_broadcast_dim is False in 3 places, and arg has 2 dimensions", "broadcast", x, []bool{false, false, false})
		p.fails("the result would have 34 dimensions; at most 32", "broadcast", x, append(make([]bool, 2), givenFlags(32)...))
	})
}

func givenFlags(n int) []bool {
	flags := make([]bool, n)
	for i := range flags {
		flags[i] = true
	}
	return flags
}

func TestExpand(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 1)
		y := p.call("expand", x, []int{-1, 3})
		p.gives(y, []int64{2, 3}, 0, 0, 0, 1, 1, 1)
		p.gives(p.call("expand", y, []any{p.index(2), p.index(3)}), []int64{2, 3}, 0, 0, 0, 1, 1, 1)
		p.gives(p.call("expand", x, []any{2, p.index(0)}), []int64{2, 0})
		p.gives(p.call("expand", x, []int{2, 1}), []int64{2, 1}, 0, 1)
		p.gives(p.call("expand", p.call("broadcast", x, []bool{true, false, false}), []int{2, 2, 1}), []int64{2, 2, 1}, 0, 1, 0, 1)
		p.fails("expand(): shape has 1 entry, and arg has 2 dimensions", "expand", x, []int{3})
		p.fails("dimension 1 of the result would have size -2", "expand", x, []int{2, -2})
		if !p.symbolic {
			require.Equal(t, "i2 b3", p.kinds(y))
			p.fails("the size of dimension 0 must be 1 or that of shape, got 2 and 3", "expand", x, []int{3, 1})
			return
		}
		require.Equal(t, "i? s3", p.kinds(y))
		p.failsAtRun(p.call("expand", x, []int{3, 1}), "expand(): the size of dimension 0 must be 1 or that of shape, got 2 and 3")
		p.failsAtRun(p.call("expand", x, []any{2, p.index(-3)}), "dimension 1 has size -3")
	})
}

// A dimension that cannot have size 1 is not expanded: its kind and the more
// exact of the two sizes stay.
func TestExpandKeepsWhatIsKnown(t *testing.T) {
	p := newViewProgram(t, true)
	x := p.float(3)
	require.Equal(t, "i?", p.kinds(x))
	part := p.call("slice", x, []int{0}, []int{6}) // up to 6 elements, perhaps 1
	require.Equal(t, "s?", p.kinds(part))
	doubled := p.call("cat", []ValID{part, part})
	require.Equal(t, "i?", p.kinds(doubled))
	require.Equal(t, "i6", p.kinds(p.call("expand", doubled, []int{6})))
	require.Equal(t, "s6", p.kinds(p.call("expand", part, []int{6})))
	require.Equal(t, "b", p.kinds(p.call("expand", part, []int{1})))
	p.failsAtRun(p.call("expand", part, []int{1}), "must be 1 or that of shape, got 3 and 1")
	full := p.call("full", []int{6}, 0.0, dtype.Float)
	require.Equal(t, "i6", p.kinds(p.call("expand", full, []any{p.call("size", doubled, 0)})))
	b := p.call("expand", p.call("broadcast", p.float(), []bool{true}), []any{p.call("size", x, 0)})
	require.Equal(t, "b?", p.kinds(b))
	require.Equal(t, "b3", p.kinds(p.call("expand", b, []int{3})))
	require.Equal(t, "b", p.kinds(p.call("slice", b, []int{1}, []int{2}, nil, true)))
	require.Equal(t, "b?", p.kinds(p.call("slice", b, []int{1}, []int{3})))
	require.Equal(t, "i? b", p.kinds(p.call("full", []any{p.call("size", x, 0), 1}, 0.0, dtype.Float)))
}

func TestBroadcastInDim(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(3)
		p.gives(p.call("broadcast_in_dim", x, []int{2, 3}, []int{1}), []int64{2, 3}, 0, 1, 2, 0, 1, 2)
		p.gives(p.call("broadcast_in_dim", x, []int{3, 2}, []int{-2}), []int64{3, 2}, 0, 0, 1, 1, 2, 2)
		p.gives(p.call("broadcast_in_dim", x, []any{-1, p.index(3)}, []int{1}), []int64{1, 3}, 0, 1, 2)
		p.gives(p.call("broadcast_in_dim", x, []any{p.index(0), -1}, []int{1}), []int64{0, 3})
		p.gives(p.call("broadcast_in_dim", p.float(1, 2), []int{2, 2}, []int{0, 1}), []int64{2, 2}, 0, 1, 0, 1)
		p.gives(p.call("broadcast_in_dim", p.float(), []int{2}, []int{}), []int64{2}, 0, 0)
		p.fails("broadcast_dims has 2 entries, and arg has 1 dimension", "broadcast_in_dim", x, []int{2, 3}, []int{0, 1})
		p.fails("broadcast_dims[0] is 2, which is not a dimension of a shape with 2 entries", "broadcast_in_dim", x, []int{2, 3}, []int{2})
		m := p.float(2, 3)
		p.fails("broadcast_dims [1, 0] is not strictly ascending at index 1", "broadcast_in_dim", m, []int{3, 2}, []int{1, 0})
		p.fails("broadcast_dims [1, 1] is not strictly ascending at index 1", "broadcast_in_dim", m, []int{3, 2}, []int{1, 1})
		if !p.symbolic {
			p.fails("the size of dimension 1 must be 1 or that of shape, got 3 and 4", "broadcast_in_dim", x, []int{2, 4}, []int{1})
		} else {
			p.failsAtRun(p.call("broadcast_in_dim", x, []int{2, 4}, []int{1}), "the size of dimension 1 must be 1 or that of shape, got 3 and 4")
		}
	})
}

// The printed form shows broadcast, then expand.
func TestBroadcastInDimText(t *testing.T) {
	p := newViewProgram(t, true)
	a, b := p.float(4, 8), p.float(8)
	shape := []any{p.call("size", a, 0), p.call("size", a, 1)}
	require.NoError(t, p.f.AddOutput(p.call("broadcast_in_dim", b, shape, []int{1}), NoVal))
	require.Equal(t, `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = expand %2 shape=[%0.0, %0.1]
output %3
`, p.f.String())
}

func TestSqueeze(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(1, 2, 1)
		y := p.call("squeeze", x, []int{0, -1})
		p.gives(y, []int64{2}, 0, 1)
		require.Equal(t, []int{1}, SqueezeOp.AxisMap(p.f, p.f.Expr(p.f.Val(y).Def), 0, 0))
		p.gives(p.call("squeeze", x, 2), []int64{1, 2}, 0, 1)
		p.gives(p.call("squeeze", x, []int{}), []int64{1, 2, 1}, 0, 1)
		p.gives(p.call("squeeze", p.float(1), []int{0}), []int64{}, 0)
		p.gives(p.call("squeeze", p.float(0, 1), []int{1}), []int64{0})
		p.fails("squeeze(): dims names dimension 0 twice", "squeeze", x, []int{0, -3})
		p.fails("dims is 3", "squeeze", x, []int{3})

		e := p.call("expand", p.call("broadcast", p.float(2), []bool{false, true}), []any{2, p.index(3)})
		one := p.call("expand", p.call("broadcast", p.float(2), []bool{false, true}), []any{2, p.index(1)})
		p.gives(p.call("squeeze", one, []int{1}), []int64{2}, 0, 1)
		const expanded = "squeeze(): Can not squeeze expanded dimension(s): without squeeze_expanded=True the size of dimension 1 must be 1, got 3"
		p.gives(p.call("squeeze", e, []int{1}, true), []int64{2}, 0, 1)
		none := p.call("expand", p.call("broadcast", p.float(2), []bool{false, true}), []any{2, p.index(0)})
		const empty = "squeeze(): Can not squeeze an expanded dimension without elements: the size of dimension 1 must not be 0"
		if !p.symbolic {
			p.fails("squeeze(): Can not squeeze non-broadcasting dimension(s): the size of dimension 1 must be 1, got 2", "squeeze", x, 1)
			p.fails(empty, "squeeze", none, []int{1}, true)
			p.fails(expanded, "squeeze", e, []int{1})
		} else {
			p.failsAtRun(p.call("squeeze", x, 1), "squeeze(): Can not squeeze non-broadcasting dimension(s): the size of dimension 1 must be 1, got 2")
			p.failsAtRun(p.call("squeeze", none, []int{1}, keywords{"squeeze_expanded": true}), empty)
			p.failsAtRun(p.call("squeeze", e, []int{1}), expanded)
		}
	})
}

func TestPermute(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 1, 3)
		y := p.call("permute", x, []int{-1, 0, 1})
		p.gives(y, []int64{3, 2, 1}, 0, 3, 1, 4, 2, 5)
		require.Equal(t, []int{2, 0, 1}, PermuteOp.AxisMap(p.f, p.f.Expr(p.f.Val(y).Def), 0, 0))
		p.gives(p.call("permute", p.float(), []int{}), []int64{}, 0)
		p.gives(p.call("permute", p.float(0, 2), []int{1, 0}), []int64{2, 0})
		p.gives(p.call("permute", p.call("expand", p.call("broadcast", p.float(2), []bool{true, false}), []int{2, 2}), []int{1, 0}), []int64{2, 2}, 0, 0, 1, 1)
		p.fails("permute(): dims has 2 entries, and arg has 3 dimensions", "permute", x, []int{0, 1})
		p.fails("permute(): Duplicate entries in transformation map: dims has 0 twice", "permute", x, []int{0, -3, 1})
		p.fails("permute(): dims[2] is 3, which is not a dimension of a tensor of rank 3", "permute", x, []int{0, 1, 3})
		p.fails("permute(): dims[0] is -4", "permute", x, []int{-4, 1, 2})
	})
}

// A stride order changes the memory order alone.
func TestStrideOrder(t *testing.T) {
	bothModes(t, func(t *testing.T, p *viewProgram) {
		x := p.float(2, 3, 4)
		y := p.call("stride_order", p.call("slice", x, []int{0, 0, 0}, []int{2, 2, 1}), []int{1, 0, 2})
		p.gives(y, []int64{2, 2, 1}, 0, 4, 12, 16)
		d := &p.f.Val(y).Domain
		require.Equal(t, []AxisID{d.Logical[2], d.Logical[0], d.Logical[1]}, d.Alloc)
		if !p.symbolic {
			require.Equal(t, []Tri{NotApplicable, Yes, Yes}, d.Contig)
		}
		sum := p.call("add", y, y)
		require.Nil(t, p.f.Val(sum).Domain.Alloc)
		p.gives(sum, []int64{2, 2, 1}, 0, 8, 24, 32)
		p.gives(p.call("stride_order", p.float(), []int{}), []int64{}, 0)
		p.fails("stride_order(): stride_order has 2 entries, and arg has 3 dimensions", "stride_order", x, []int{0, 1})
		p.fails("stride_order(): Duplicate entries in transformation map: stride_order has 1 twice", "stride_order", x, []int{0, 1, 1})
		p.fails("stride_order(): stride_order[0] is -1; it must be from 0 to 2", "stride_order", x, []int{-1, 1, 2})
	})
}

func TestSizeAndShape(t *testing.T) {
	p := newViewProgram(t, false)
	x := p.call("expand", p.call("broadcast", p.float(2), []bool{true, false}), []int{5, 2})
	shape, err := p.try("shape", x)
	require.NoError(t, err)
	require.Equal(t, []ValID{p.call("size", x, 0), p.call("size", x, -1)}, shape)
	require.Equal(t, dtype.Index, p.f.Val(shape[0]).DType)
	require.Equal(t, "5", p.f.Name(shape[0]))
	shape, err = p.try("shape", p.float())
	require.NoError(t, err)
	require.Empty(t, shape)
	p.fails("size(): dim is 2", "size", x, 2)
	p.fails("size(): dim is 0", "size", p.float(), 0)

	p = newViewProgram(t, true)
	y := p.float(4, 5)
	p.gives(p.call("full", []any{p.call("size", y, 1)}, p.call("size", y, 0), dtype.Int), []int64{5}, 4, 4, 4, 4, 4)
}

// What a text gives for a shape or dims is checked as a call's arguments are.
func TestExpressionArguments(t *testing.T) {
	const in = "%0 = tensor f32 [3, 1] contiguity=[yes, none]\n$0 = scalar f64\n"
	for line, want := range map[string]string{
		"%1 = full shape=[2, 2:f64] fill_value=1 dtype=f32": "full(): shape[1] must be of dtype Index, got Double",
		"%1 = expand %0 shape=[3, $0]":                      "expand(): shape[1] must be of dtype Index, got Double",
		"%1 = iota length=3:i32 start=0 step=1 dtype=i64":   "iota(): length must be of dtype Index, got Int32",
		"%1 = cat [%0] dim=2 manual_padding=false":          "cat(): dim is 2, which is not a dimension of a tensor of rank 2",
		"%1 = cat [%0] dim=-1 manual_padding=false":         "cat(): dim is -1",
		"%1 = cat [%0] dim=0 manual_padding=true":           "an expression has a dim and manual_padding=False",
		"%1 = cat [%0]":                                              "an expression has a dim",
		"%1 = squeeze %0 dims=[1, 1]":                                "squeeze(): dims must be ascending dimensions of a tensor of rank 2, got [1, 1]",
		"%1 = squeeze %0 dims=[2]":                                   "squeeze(): dims must be ascending",
		"%1 = permute %0 dims=[-1, 0]":                               "permute(): dims[0] is -1; it must be from 0 to 1",
		"%1 = reshape %0 new_shape=[-1]":                             "reshape(): new_shape[0] is -1",
		"%1 = pad %0 pad_widths=[1, 1] value=0:f32":                  "an expression has a value and two widths for each of the 2 dimensions",
		"%1 = pad %0 pad_widths=[0, 0, 0, 0]":                        "an expression has a value",
		"%1 = iota length=3 dtype=i64":                               "iota(): an expression has start and step",
		"%1 = iota length=3 start=0 step=1":                          "iota(): dtype is Null",
		"%1 = uniform minval=0 maxval=1 shape=[2]":                   "uniform(): dtype is Null",
		"%1 = uniform minval=0 maxval=1 shape=[2] rng_seed=1:f32":    "uniform(): rng_seed must be of dtype Index",
		"%1 = slice %0 start_indices=[0] end_indices=[0] strides=[]": "start_indices has 1 entry and strides has 0",
	} {
		_, err := Parse(in + line + "\n")
		require.ErrorContains(t, err, want, line)
	}
}
