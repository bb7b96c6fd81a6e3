package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A split whole has constant extents for a size that is none, whoever follows it, and
// a broadcast stays one.
func TestSplitWhole(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [-1, -1] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=i64\n%2 = broadcast %1 is_broadcast_dim=[false, true]\n%3 = sub %0, %2\noutput %3\n")
	out := tv(s, 3)
	done[core.ValID](t)(s.CacheAfter(tv(s, 0), nil))
	require.EqualError(t, s.SplitWhole(out, 1, 0), "split_whole(): capacity is 0; it must be positive")
	require.EqualError(t, s.SplitWhole(out, 2, 8), "split_whole(): axis 2 is out of range for tv3, which has 2 axes")
	require.NoError(t, s.SplitWhole(out, 1, 12))
	require.NoError(t, s.Split(out, 2, 4, true))
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(out, nil)))
	require.Equal(t, []int64{1, 3, 4}, extents(s, s.Loop(out)[1:]))
	require.Equal(t, []int64{1, 3, 4}, extents(s, s.Loop(tv(s, 1))[1:]))
	require.Equal(t, []int64{1, 1, 1}, extents(s, s.Loop(tv(s, 2))[1:]))
	require.Contains(t, s.TensorText(out), "split i7 by whole 12\n")
	partial := done[[]core.ValID](t)(s.RFactor(tv(s, 1), []int{1, 2}))[0]
	require.Equal(t, []int64{1, 3, 4}, extents(s, s.Loop(partial)[1:]))
	require.NoError(t, s.InlineMost(nil, nil))
	require.NoError(t, s.Verify())
	for columns := int64(1); columns < 14; columns++ {
		x := core.NewArray(s.f.Val(tv(s, 0)).DType, []int64{3, columns})
		for i := range x.I {
			x.I[i] = int64(i*i%17) - 5
		}
		want := done[[]*core.Array](t)(s.f.Eval([]*core.Array{x}, nil, core.RandomState{}))
		result, err := Interpret(s, []*core.Array{x}, want)
		require.NoError(t, err)
		require.Equal(t, columns <= 12, result == "right", "%d columns: %s", columns, result)
		b := done[*core.Binding](t)(s.f.Bind([]core.InputValue{{Tensor: true, DType: x.Type, Sizes: x.Shape}}))
		if err := s.Clone().CheckPromises(b); columns == 13 {
			require.EqualError(t, err, "split_whole(): tv0.1 is 13, more than the capacity 12 of the schedule")
		} else {
			require.NoError(t, err)
		}
	}
}

// What is promised of the least extent of an axis is checked where sizes are known.
func TestPromiseLeast(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [-1, 7] contiguity=[yes, yes]\n%1 = neg %0\noutput %1\n")
	out := tv(s, 1)
	require.EqualError(t, s.PromiseLeast(out, 2, 3), "promise_least(): axis 2 is out of range for tv1, which has 2 axes")
	require.EqualError(t, s.PromiseLeast(out, 1, 8), "promise_least(): axis 1 of tv1 has 7 elements, fewer than 8")
	require.NoError(t, s.PromiseLeast(out, 0, 5))
	for rows, want := range map[int64]string{4: "promise_least(): tv0.0 is 4, fewer than the 5 that the schedule relies on", 5: ""} {
		b := done[*core.Binding](t)(s.f.Bind([]core.InputValue{{Tensor: true, DType: dtype.Int, Sizes: []int64{rows, 7}}}))
		if err := s.Clone().CheckPromises(b); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

// What exceeds the capacity whatever the sizes is refused, of a tensor that follows too.
func TestCapacities(t *testing.T) {
	s := parsed(t, pointwise)
	out := tv(s, 4)
	require.EqualError(t, s.SplitWhole(out, 0, 9), "split_whole(): axis 0 of tv4 has 10 elements, more than the capacity 9")
	require.NoError(t, s.Merge(tv(s, 3), 0, 1))
	require.NoError(t, s.SplitWhole(tv(s, 3), 0, 10))
	require.NoError(t, s.Verify())
	require.Empty(t, done[[]core.Refusal](t)(s.TransformLike(tv(s, 3), []core.ValID{out})))
	require.EqualError(t, s.Verify(), "an axis of tv4 has 60 elements and is split whole, with a capacity of 10")
}

// What is recomputed is so for the readers that are named, and is drawn alike.
func TestRecompute(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [10, 6] contiguity=[yes, yes]
%1 = uniform minval=0:f64 maxval=1:f64 shape=[10, 6] dtype=f32
%2 = uniform minval=0:f64 maxval=1:f64 shape=[10, 6] dtype=f32
%3 = mul %0, %1
%4 = sum %3 dims=[1] keepdim=false dtype=f32
%5 = broadcast %4 is_broadcast_dim=[false, true]
%6 = sub %3, %5
%7 = mul %6, %2
output %7
`)
	x := core.NewArray(s.f.Val(tv(s, 0)).DType, []int64{10, 6})
	for i := range x.F {
		x.F[i] = float64(i * i % 17)
	}
	eval := func() *core.Array {
		require.NoError(t, s.Verify())
		return done[[]*core.Array](t)(s.f.Eval([]*core.Array{x}, nil, core.RandomState{Seed: 3}))[0]
	}
	want, random := eval(), s.f.NumRandom()
	product := done[core.ValID](t)(s.Recompute(tv(s, 3), []core.ValID{tv(s, 6)}))
	draw := done[core.ValID](t)(s.Recompute(tv(s, 1), []core.ValID{product}))
	require.Equal(t, []core.ValID{tv(s, 0), draw}, []core.ValID{s.producers(product)[0].producer, s.producers(product)[1].producer})
	require.Equal(t, tv(s, 1), s.producers(tv(s, 3))[1].producer)
	require.Equal(t, want, eval())
	require.Equal(t, random, s.f.NumRandom())

	for _, c := range []struct {
		v    int
		uses []core.ValID
		want string
	}{
		{0, nil, "recompute(): tv0 is an input of the fusion and is not computed; use cache_after()"},
		{4, nil, "recompute(): tv4 is the result of sum(), which is not computed element by element"},
		{7, nil, "recompute(): nothing reads tv7"},
		{5, []core.ValID{product}, "recompute(): " + s.name(product) + " does not read tv5"},
	} {
		_, err := s.Recompute(tv(s, c.v), c.uses)
		require.EqualError(t, err, c.want)
	}
	require.NoError(t, s.InlineAt(tv(s, 5), 1, false))
	_, err := s.Recompute(tv(s, 5), nil)
	require.EqualError(t, err, "recompute(): tv5 is inlined; cache before inlining")
}

// What is promised of the most elements of an extent is known of it where memory is aligned before too.
func TestMost(t *testing.T) {
	for width, want := range map[int64]int64{0: 48, 2: 47, 8: 41} {
		s := parsed(t, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = neg %0\noutput %1\n")
		out := tv(s, 1)
		columns := s.Fusion().Axis(s.Loop(out)[1]).Extent
		require.Zero(t, s.Most(columns))
		if width > 0 {
			require.NoError(t, s.AlignRows(out, 0, 1, width))
		}
		require.NoError(t, s.SplitWhole(out, 1, 48))
		require.Equal(t, want, s.Most(columns))
		require.Zero(t, s.Most(s.Fusion().Axis(s.Loop(out)[0]).Extent))
		require.Zero(t, s.Exactly(columns))
	}
}
