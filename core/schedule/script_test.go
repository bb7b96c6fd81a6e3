package schedule

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

const rowSum = `%0 = tensor f32 [64, 128] contiguity=[yes, yes]
%1 = neg %0
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = add %1, %3
output %4
`

func TestScript(t *testing.T) {
	for _, c := range []struct{ name, text, script, want string }{
		{"split", rowSum, "tv4.split(1, 32)\ntv4.inner_split(0, 4)\ntv4.outer_split(-1, 2)", "[i12{16}, i13{4}, i10{4}, i14{2}, i15{16}]"},
		{"split named", rowSum, "tv4.split(axis=1, factor=2, inner_split=False)", "[i8{64}, i10{2}, i11{64}]"},
		{"split whole", rowSum, "tv4.split_whole(1, 200)", "[i8{64}, i10{1}, i11{200}]"},
		{"align rows", rowSum, "tv4.align_rows(0, 1, 4)\ntv4.split(-1, 4)", "[i8{64}, i11{33}, i12{4}]"},
		{"recompute", rowSum, "tv5 = tv1.recompute(uses=[tv4])\ntv6 = tv3.recompute()", "[i8{64}, i9{128}]"},
		{"merge", rowSum, "tv4.merge(0)", "[i10{8192}]"},
		{"merge two", rowSum, "tv4.merge(1, 0)", "[i10{8192}]"},
		{"reorder", rowSum, "tv4.reorder({0: -1})", "[i9{128}, i8{64}]"},
		{"parallelize", rowSum, "tv4.parallelize(0, grid_x)\ntv4.parallelize(-1, block_y)", "[i8{64} blockIdx.x, i9{128} threadIdx.y]"},
		{"loop domain", rowSum, "tv4.split(0, 2)\ntv4.set_loop_domain([tv4.logical[1], tv4.logical[0]])", "[i9{128}, i8{64}]"},
		{"like", rowSum, "tv1.split(1, 32)\ntransform_like(tv1)\ntv1.parallelize(0, grid_x)\nparallelize_like(tv1, selected_parallel_types=[grid_x])", "[i8{64} blockIdx.x, i14{4}, i15{32}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, c.text)
			script, err := ParseScript(c.script)
			require.NoError(t, err)
			require.NoError(t, s.Run(script))
			require.Equal(t, c.want, s.domainText(s.Loop(tv(s, 4))))
			require.NoError(t, s.Verify())
			requireReplays(t, c.text, s)
		})
	}
}

// requireReplays holds the script of s against the schedule that it makes.
func requireReplays(t testing.TB, text string, s *Scheduled) {
	t.Helper()
	again, err := ParseScript(s.Script().String())
	require.NoError(t, err)
	r := parsed(t, text)
	require.NoError(t, r.Run(again), "%s", s.Script())
	require.Equal(t, s.String(), r.String())
	require.Equal(t, s.Script().String(), r.Script().String())
}

func TestScriptOfAll(t *testing.T) {
	const text = `# a block a row
tv5 = tv0.cache_after(cp_async, all_levels, cached_uses=[tv1])
tv5.set_memory_type(shared)
tv5.set_allocation_domain([tv5.loop[0], tv5.loop[1]], [True, True])
tv5.swizzle(0, 1)
tv5.circular_buffer(3)
tv6 = tv4.cache_before()
tv6.hold_packed()
tv4.split(1, 4)
tv4.split(1, 8)
transform_like(tv4)
tv7 = tv2.rfactor([1, 3])
bounded_transform_backward(tv4, 2, [tv5], True)
parallelize_like(tv4, -1, [tv6], [block_x, vectorize], False)
inline_at(tv4, 1, True)
inline_most()
`
	s := parsed(t, rowSum)
	script, err := ParseScript(text)
	require.NoError(t, err)
	require.NoError(t, s.Run(script))
	requireReplays(t, rowSum, s)
	require.Equal(t, Shared, s.Memory(tv(s, 5)))
	require.Equal(t, Buffering{3, 2}, s.Buffering(tv(s, 5)))
	require.Equal(t, AsyncCopy, s.CopyKind(tv(s, 5)))
	require.Equal(t, CacheAllLevels, s.CacheHint(tv(s, 5)))
	require.Equal(t, strings.TrimPrefix(text, "# a block a row\n"), s.Script().String())
}

func TestReproducer(t *testing.T) {
	f := core.NewFusion()
	x, err := f.DefineTensor(core.TensorDescription{Shape: []int64{6, 4}, Contiguity: []core.Tri{core.Yes, core.Yes}, DType: dtype.Float})
	require.NoError(t, err)
	apply := func(name string, v core.ValID) core.ValID {
		out, err := f.Apply(core.Lookup(name), core.TensorOf(v))
		require.NoError(t, err)
		return out[0]
	}
	apply("exp", x) // unused, and not in the text
	y := apply("neg", x)
	z := apply("exp", y)
	require.NoError(t, f.AddOutput(z, core.NoVal))
	f.Freeze()
	s := New(f)
	require.NoError(t, s.Run(done[Script](t)(ParseScript("tv4 = tv0.cache_after(cached_uses=[tv2])\ntv3.split(tv3.logical[1], 2)\ntransform_like(tv3, [tv2, tv4])\ntv4.set_memory_type(shared)"))))
	require.Equal(t, "tv3 = tv0.cache_after(cached_uses=[tv1])\ntv2.split(1, 2)\ntransform_like(tv2, [tv1, tv3])\ntv3.set_memory_type(shared)\n",
		done[Script](t)(s.Reproducer(f)).String())
}

func TestScriptErrors(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"tv4.split", "line 1: ( expected at the end"},
		{"\ntv4.split(1 2)", `line 2: , or ) expected at "2)"`},
		{"tv4.split(1, 2) x", `line 1: the end of the line expected at "x"`},
		{"tv4.halve(1)", "line 1: there is no primitive halve"},
		{"split(1, 2)", "line 1: split(): it is called on a tensor, as tv1.split()"},
		{"tv4.inline_most()", "line 1: inline_most(): it is not called on a tensor"},
		{"a, b", `line 1: = after names expected at the end`},
		{"tv4.reorder({1})", `line 1: : expected at "})"`},
		{"tv4.split(99999999999999999999, 1)", `line 1: an int of 64 bits expected at "99999999999999999999..."`},
		{"tv4.split([[[[[[1]]]]]], 1)", "line 1: lists are more than 4 deep"},
		{"tv4.split(tv4.loops[0], 1)", `line 1: "loops" is not a domain of tv4: it has loop, logical, root, allocation, axes`},
		{"tv4.split(tv4.loop[2], 1)", "line 1: split(): tv4.loop[2] does not exist: there are 2 axes"},
		{"tv4.split(tv3.loop[0], 2)", "line 1: split(): the axis is not in the loop domain of tv4, [i8{64}, i9{128}]: it was split or merged, or is of another tensor"},
		{"tv9.split(0, 1)", "line 1: split(): there is no tensor tv9"},
		{"tv4.split(0, tv3)", "line 1: split(): factor must be an int, got a tensor (tv3, Float)"},
		{"tv4.split(0)", `line 1: split() needs argument "factor"; its arguments are axis, factor, inner_split`},
		{"tv4.split(axis=0, 1)", "line 1: split(): an argument without a name follows one with a name"},
		{"tv4.split(0, 4, inner=True)", `line 1: split() has no argument "inner"; its arguments are axis, factor, inner_split`},
		{"tv4.parallelize(0, grid)", "line 1: parallelize(): parallel_type is grid, which is not a member of ParallelType"},
		{"tv4.parallelize(0, mma)", "line 1: parallelize() is not supported\n  schedule: ParallelType.mma has no meaning in this build"},
		{"tv1.set_memory_type(tensor)", "line 1: set_memory_type() is not supported\n  schedule: MemoryType.tensor has no meaning in this build"},
		{"tv4.swizzle1d(0, mesh_x)", "line 1: swizzle1d() is not supported\n  schedule: axis 0 of tv4 would be permuted by mesh_x: only storage in shared memory is permuted, by swizzle()"},
		{"warp_specialize(tv1, 2, 1, block_y)", "line 1: warp_specialize() is not supported\n  schedule: tv1 would be loaded by warps of its own: all warps of a block run one program; circular_buffer() lets every warp load ahead"},
		{"tv7 = tv0.cache_after()", "line 1: cache_after(): the results are called [tv7] on the left, but their names are [tv5]"},
		{"tv4.merge(1)", "line 1: merge(): axis 1 is the last of tv4; there is none after it to merge with"},
		{"tv4.reorder({0: 1, 0: 0})", "line 1: reorder(): axis 0 of tv4 is moved twice"},
		{"tv4.reorder({0: 1, 1: 1})", "line 1: reorder(): two axes of tv4 are moved to position 1"},
		{"tv4.reorder({0: 2})", "line 1: reorder(): axis 2 is out of range for tv4, which has 2 axes"},
		{"tv2.rfactor([0])", "line 1: rfactor(): axis 0 of tv2 is not reduced"},
		{"tv4.rfactor([0])", "line 1: rfactor(): tv4 is the result of add(), which cannot be computed in two steps"},
		{"tv0.split(0, 2)", "line 1: split(): tv0 is an input of the fusion and has no loops; cache_after() makes a copy that has"},
		{"tv4.set_memory_type(shared)", "line 1: set_memory_type(): tv4 is an output of the fusion, which lives in global memory; cache it to have a copy in shared memory"},
		{"tv1.split(1, 8)\ntv1.parallelize(2, vectorize)", "line 2: parallelize(): axis 2 of tv1 cannot be vectorize, because 8 elements of Float have not 1, 2, 4, 8 or 16 bytes"},
		{"tv2.parallelize(1, vectorize)", "line 1: parallelize(): axis 1 of tv2 cannot be vectorize, because it is reduced"},
		{"tv4.parallelize(0, block_x)\ntv4.parallelize(1, block_x)", "line 2: parallelize(): axes 0 and 1 of tv4 cannot both be threadIdx.x"},
		{"tv1.parallelize(0, block_x)\ntv4.parallelize(0, block_y)\ninline_at(tv4, 1)",
			"line 3: inline_at(): position 1 is not possible for tv1: axis 0 of tv1 and axis 0 of tv4 share a loop that is threadIdx.x for one and threadIdx.y for the other; give it one parallel type"},
		{"inline_at(tv4, 1)\ntv1.parallelize(0, block_x)\ntv4.parallelize(0, block_y)",
			"line 3: parallelize(): axis 0 of tv1 and axis 0 of tv4 share a loop that is threadIdx.x for one and threadIdx.y for the other; give it one parallel type"},
		{"inline_at(tv4, 2)", "line 1: inline_at(): position 2 is too far for tv2: axis 1 of tv2 is reduced: its result is complete only after the loop"},
		{"inline_most()\ntv3.split(0, 2)", "line 2: split(): axis 0 of tv3 is left of position 2, where tv3 is computed inside its consumer; transform before inlining"},
		{"tv1.set_allocation_domain([tv1.loop[0]], True)", "line 1: set_allocation_domain(): the domain for tv1 is not made from all of its axes by splits and merges"},
		{"tv1.set_allocation_domain([tv3.loop[0]], True)", "line 1: set_allocation_domain(): new_allocation_domain[0] is not an axis of tv1"},
		{"tv1.set_allocation_domain([tv1.loop[0], tv1.loop[1]], [True])", "line 1: set_allocation_domain(): 1 contiguity flags for 2 axes of tv1"},
		{"tv1.circular_buffer(1)", "line 1: circular_buffer(): 1 stages with a prefetch distance of 0; 1 <= distance < stages must hold"},
		{"tv0.hold_packed()", "line 1: hold_packed(): tv0 is in global or shared memory, not in registers"},
		{"tv1.hold_window()", "line 1: hold_window(): tv1 is not a copy of an input in shared memory"},
		{"tv5 = tv0.cache_after()\ntv5.set_memory_type(shared)\ntv5.hold_window()\ntv5.circular_buffer(2)", "line 4: circular_buffer(): tv5 holds a window, of which there is one"},
		{"tv5 = tv0.cache_after()\ntv5.set_memory_type(shared)\ntv5.circular_buffer(2)\ntv5.hold_window()", "line 4: hold_window(): tv5 has an allocation domain, a swizzle or a circular buffer of its own: a window lies as the input does"},
		{"tv1.hold_window(swizzled=1)", "line 1: hold_window(): swizzled must be a bool, got 1"},
		{"tv5 = tv0.cache_after()\ntv5.set_memory_type(shared)\ntv5.hold_window()\ntv5.set_memory_type(local)", "line 4: set_memory_type(): tv5 holds a window, which is in shared memory"},
		{"tv5 = tv0.cache_after()\ntv5.set_memory_type(shared)\ntv5.hold_window()\ntv5.set_allocation_domain([tv5.loop[0], tv5.loop[1]], [True, True])", "line 4: set_allocation_domain(): tv5 holds a window, which lies as the input does"},
		{"tv1.hold_packed()\ntv1.set_memory_type(shared)", "line 2: set_memory_type(): tv1 is held packed in registers"},
		{"bounded_transform_backward(tv1, 1, [tv4])", "line 1: bounded_transform_backward(): tv1 is not computed from tv4"},
	} {
		t.Run(c.script, func(t *testing.T) {
			s := parsed(t, rowSum)
			before := s.String()
			script, err := ParseScript(c.script)
			if err == nil {
				err = s.Run(script)
			}
			require.EqualError(t, err, c.want)
			require.Equal(t, before, s.String())
			require.Empty(t, s.Script())
			requireUserError(t, err)
		})
	}
}

func requireUserError(t testing.TB, err error) {
	t.Helper()
	var argument *core.InvalidArgument
	var kind *core.InvalidType
	var lacks *core.Unsupported
	require.True(t, errors.As(err, &argument) || errors.As(err, &kind) || errors.As(err, &lacks), "%T: %v", err, err)
}

func TestCallChangesNothingOnError(t *testing.T) {
	for _, c := range []struct{ before, call string }{
		{"tv4.split(1, 32)\ntransform_like(tv4)\ntv4.parallelize(1, block_x)\ntv3.parallelize(2, block_x)", "parallelize_like(tv4)"},
		{"tv4.split(1, 32)\ntv4.parallelize(1, block_x)\ntv1.parallelize(0, block_x)", "bounded_transform_backward(tv4, -1, [tv1], True)"},
	} {
		t.Run(c.call, func(t *testing.T) {
			s := parsed(t, rowSum)
			script, err := ParseScript(c.before)
			require.NoError(t, err)
			require.NoError(t, s.Run(script))
			before, calls := s.String(), s.Script().String()
			if script, err = ParseScript(c.call); err != nil {
				t.Fatal(err)
			}
			// Not by Run, which works on a copy.
			require.ErrorContains(t, s.runCall(&script[0], map[string]core.ValID{"tv4": tv(s, 4), "tv1": tv(s, 1)}), "cannot both be threadIdx.x")
			require.Equal(t, before, s.String())
			require.Equal(t, calls, s.Script().String())
		})
	}
}

func TestPrimitives(t *testing.T) {
	for i := range table {
		p := &table[i]
		require.Same(t, p, Lookup(p.Name))
		require.Regexp(t, `^[A-Z].*[^ ]$|^split\(\)`, p.Does, p.Name)
		require.True(t, strings.HasSuffix(p.Does, "."), p.Name)
		seen := false
		for _, a := range p.Parameters {
			require.False(t, seen && !a.Optional, "%s: %s follows an optional parameter", p.Name, a.Name)
			seen = seen || a.Optional
		}
	}
	require.Nil(t, Lookup("nothing"))
}

func FuzzScript(f *testing.F) {
	texts := []string{rowSum, softmaxLike,
		"%0 = tensor f32 [6, 4] contiguity=[yes, yes]\n%1 = tensor f32 [1, 4] contiguity=[none, yes]\n%2 = neg %0\n%3 = add %2, %1\n%4 = reshape %3 new_shape=[24]\n%5 = sum %3 dims=[0] keepdim=false dtype=f32\noutput %4\noutput %5\noutput %3\n",
		"%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[1]\n%4 = permute %0 dims=[1, 0]\noutput %1\noutput %2\noutput %4\n",
	}
	for _, seed := range []string{
		"tv4.split(1, 32)\ntv4.reorder({0: 1})\ntransform_like(tv4)\ninline_most()",
		"tv5 = tv0.cache_after(cp_async, streaming, False, [tv1])\ntv5.set_memory_type(shared)\ntv5.circular_buffer(2, 1)",
		"tv2.split(1, 4)\ntv5 = tv2.rfactor([2])\ntv2.parallelize(1, block_x)\nparallelize_like(tv2, 1, [], [block_x])\ninline_at(tv4, 1, True)",
		"tv1.set_allocation_domain([tv1.loop[1], tv1.logical[0]], [True, None])\ntv1.set_memory_type(shared)\ntv1.swizzle(0, 1)\ntv4.parallelize(tv4.loop[0], mesh_x)",
		"tv3.cache_fork()\ntv3.merge(0)\nbounded_transform_backward(tv4, 1, [tv1, tv2], True)\ntv3.cache_before(load_matrix)",
	} {
		for i := range texts {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		script, err := ParseScript(text)
		if err != nil {
			requireUserError(t, err)
			return
		}
		if len(script) > 40 {
			return
		}
		source := texts[int(which)%len(texts)]
		s := parsed(t, source)
		for i := range script { // one at a time, so that what goes before a failure stays
			before := s.String() + s.Script().String()
			if err := s.Run(script[i : i+1]); err != nil {
				requireUserError(t, err)
				require.Equal(t, before, s.String()+s.Script().String(), "%v", err)
			}
		}
		_ = s.Verify() // an error, not a crash
		requireReplays(t, source, s)
	})
}
