package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
)

func evalCase(f *core.Fusion, c *fusionfuzz.Case) ([]*core.Array, error) {
	arrays, scalars := make([]*core.Array, len(c.Inputs)), make([]scalar.Value, len(c.Inputs))
	for i, in := range c.Inputs {
		arrays[i], scalars[i] = in.Array, in.Scalar
	}
	return f.Eval(arrays, scalars, core.RandomState{Seed: 1})
}

// Copies of any tensors of any fusion change no output, and any fusion can be
// mapped and inlined, or is refused with a reason.
func TestEditsOfAnyFusion(t *testing.T) {
	edited, mapped, refused := 0, 0, map[string]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := make([]byte, 20+r.IntN(150))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		if len(c.Fusion.Outputs()) == 0 {
			continue
		}
		s := New(c.Fusion)
		for range 1 + r.IntN(6) {
			tensors := s.Tensors()
			v := tensors[r.IntN(len(tensors))]
			var err error
			switch r.IntN(4) {
			case 0:
				_, err = s.CacheAfter(v, nil)
			case 1:
				_, err = s.Recompute(v, nil)
			case 2:
				_, err = s.CacheBefore(v)
			default:
				_, err = s.CacheFork(v)
			}
			if err == nil {
				edited++
			}
			require.NoError(t, s.f.Verify())
		}
		if want, err := evalCase(c.Fusion, c); err == nil {
			got := done[[]*core.Array](t)(evalCase(s.f, c))
			for k := range want {
				require.True(t, sameArray(want[k], got[k]), "seed %d, output %d", seed, k)
			}
		}
		require.NoError(t, s.InlineMost(nil, nil))
		_, err := Map(s)
		var why *Refused
		if err == nil {
			mapped++
		} else {
			require.ErrorAs(t, err, &why)
			refused[why.Rule]++
		}
	}
	t.Log(edited, "edits,", mapped, "mapped,", refused)
	require.Greater(t, edited, 400)
	require.Greater(t, mapped, 200)
}

// sameArray compares bits, so that a NaN equals itself.
func sameArray(a, b *core.Array) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range int64(a.Len()) {
		x, y := a.At(i), b.At(i)
		if x != y && !(x.Re != x.Re && y.Re != y.Re || x.Im != x.Im && y.Im != y.Im) {
			return false
		}
	}
	return true
}

func TestCaches(t *testing.T) {
	s := parsed(t, pointwise)
	x, v, out := tv(s, 0), tv(s, 1), tv(s, 4)
	cache := done[core.ValID](t)(s.CacheAfter(x, nil))
	require.Equal(t, "tv0 tv5 tv1 tv2 tv3 tv4 ", names(s))
	require.Equal(t, Local, s.Memory(cache))
	require.NoError(t, s.SetCopy(cache, AsyncCopy, CacheStreaming))

	require.NoError(t, s.Split(out, 1, 2, true))
	require.NoError(t, s.Parallelize(out, 2, Vectorize))
	loop := s.Loop(out)
	before := done[core.ValID](t)(s.CacheBefore(out))
	require.Equal(t, loop, s.Loop(before))
	require.Equal(t, Vectorize, s.Parallel(s.Loop(before)[2]))
	require.Equal(t, []int64{10, 6}, extents(s, s.Loop(out)))
	require.Equal(t, []Memory{Local, Global}, []Memory{s.Memory(before), s.Memory(out)})

	one := done[core.ValID](t)(s.CacheAfter(v, []core.ValID{before}))
	require.Equal(t, []core.ValID{one, tv(s, 2)}, []core.ValID{s.consumers(v)[0].consumer, s.consumers(v)[1].consumer})

	_, err := s.CacheAfter(out, nil)
	require.EqualError(t, err, "cache_after(): nothing reads tv4")
	_, err = s.CacheAfter(x, []core.ValID{out})
	require.EqualError(t, err, "cache_after(): tv4 does not read tv0")
	_, err = s.CacheBefore(x)
	require.EqualError(t, err, "cache_before(): tv0 is an input of the fusion and is not computed; use cache_after()")
	_, err = s.CacheFork(v)
	require.EqualError(t, err, "cache_fork(): tv1 is not an output that is computed")
	_, err = s.CacheFork(out)
	require.EqualError(t, err, "cache_fork(): nothing but the output reads tv4; use cache_before()")
	require.NoError(t, s.InlineAt(cache, 1, false))
	_, err = s.CacheBefore(cache)
	require.EqualError(t, err, "cache_before(): tv5 is inlined; cache before inlining")
}

func TestCacheFork(t *testing.T) {
	s := parsed(t, "%0 = tensor f32 [4] contiguity=[yes]\n%1 = neg %0\n%2 = exp %1\noutput %1\noutput %2\n")
	fork := done[core.ValID](t)(s.CacheFork(tv(s, 1)))
	require.Equal(t, fork, s.f.Outputs()[0].Val)
	require.Equal(t, []Memory{Local, Global}, []Memory{s.Memory(tv(s, 1)), s.Memory(fork)})
	require.NoError(t, s.Verify())
}

func names(s *Scheduled) string {
	text := ""
	for _, v := range s.Tensors() {
		text += s.name(v) + " "
	}
	return text
}

// s[i] = sum of x[i, 1000], 1000 split by 128, the 8 reduced first.
func TestRFactor(t *testing.T) {
	s := parsed(t, "%0 = tensor i64 [3, 1000] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=i64\noutput %1\n")
	v := tv(s, 1)
	require.NoError(t, s.Split(v, 1, 128, true))
	require.NoError(t, s.Parallelize(v, 2, TIDx))
	_, err := s.RFactor(v, []int{0})
	require.EqualError(t, err, "rfactor(): axis 0 of tv1 is not reduced")
	_, err = s.RFactor(v, []int{1, 2})
	require.EqualError(t, err, "rfactor(): axes are all of the reduction axes of tv1; one must be left for the second step")
	_, err = s.RFactor(v, []int{-1, 2})
	require.EqualError(t, err, "rfactor(): axis 2 of tv1 is given twice")
	_, err = s.RFactor(v, nil)
	require.EqualError(t, err, "rfactor(): axes is empty; it must name a reduction axis of tv1")
	p := done[[]core.ValID](t)(s.RFactor(v, []int{1}))[0]
	require.Equal(t, `tv2 local [i6{3}, r8{8}, i9{128} threadIdx.x]
  root [i6{3}, r7{1000}]
  r8, i9 = split r7 by inner 128
tv1 global [i10{3}, r11{128} threadIdx.x]
`, s.TensorText(p)+s.TensorText(v))
	require.NoError(t, s.Verify())
	requireEval(t, s)
	require.NoError(t, s.InlineMost(nil, nil))
	require.Equal(t, 1, s.Position(p))
	requireEval(t, s)
}

// The first step can be the inner part, two parts of a merged axis, and be split
// again; loops over other axes stay.
func TestRFactorShapes(t *testing.T) {
	for _, c := range []struct {
		prepare func(s *Scheduled, v core.ValID) error
		axes    []int
		partial []int64 // logical extents of the first step
		final   []int64 // loop extents of the second
	}{
		{func(s *Scheduled, v core.ValID) error { return s.Split(v, 2, 4, true) }, []int{3}, []int64{6, 5, 2, 4}, []int64{6, 5, 2}},
		{func(s *Scheduled, v core.ValID) error { return nil }, []int{2}, []int64{6, 5, 7}, []int64{6, 5}},
		{func(s *Scheduled, v core.ValID) error { return s.Merge(v, 1, 2) }, nil, nil, nil},
		{func(s *Scheduled, v core.ValID) error {
			_ = s.Split(v, 0, 4, true)
			_ = s.Merge(v, 2, 3)
			return s.Split(v, 2, 8, true)
		}, []int{2}, []int64{6, 5, 8}, []int64{2, 4, 8}},
	} {
		s := parsed(t, "%0 = tensor i64 [6, 5, 7] contiguity=[yes, yes, yes]\n%1 = sum %0 dims=[1, 2] keepdim=false dtype=i64\noutput %1\n")
		v := tv(s, 1)
		require.NoError(t, c.prepare(s, v))
		if c.axes == nil {
			_, err := s.RFactor(v, []int{1})
			require.ErrorContains(t, err, "all of the reduction axes")
			continue
		}
		p := done[[]core.ValID](t)(s.RFactor(v, c.axes))[0]
		require.Equal(t, c.partial, extents(s, s.f.Val(p).Domain.Logical))
		require.Equal(t, c.final, extents(s, s.Loop(v)))
		require.NoError(t, s.Verify())
		requireEval(t, s)
	}
}

// Welford's three results are combined as triples.
func TestRFactorOfWelford(t *testing.T) {
	s := parsed(t, "%0 = tensor f64 [3, 10] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[1]\noutput %1\noutput %2\noutput %3\n")
	x := core.NewArray(s.f.Val(tv(s, 0)).DType, []int64{3, 10})
	for i := range x.F {
		x.F[i] = float64(i * i % 17)
	}
	eval := func() []*core.Array {
		require.NoError(t, s.Verify())
		return done[[]*core.Array](t)(s.f.Eval([]*core.Array{x}, make([]scalar.Value, 1), core.RandomState{}))
	}
	want := eval()
	for _, v := range []int{1, 2, 3} {
		require.NoError(t, s.Split(tv(s, v), 1, 4, true))
	}
	require.Len(t, done[[]core.ValID](t)(s.RFactor(tv(s, 2), []int{1})), 3)
	require.Equal(t, core.WelfordMergeOp, s.f.Expr(s.f.Val(tv(s, 1)).Def).Op)
	got := eval()
	require.InDeltaSlice(t, want[0].F, got[0].F, 1e-12)
	require.InDeltaSlice(t, want[1].F, got[1].F, 1e-9)
	require.Equal(t, want[2].I, got[2].I)
	_, err := parsed(t, "%0 = tensor f32 [4] contiguity=[yes]\n%1 = neg %0\noutput %1\n").RFactor(1, []int{0})
	require.ErrorContains(t, err, "cannot be computed in two steps")
}
