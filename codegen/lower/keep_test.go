package lower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

const (
	keptText = `%0 = tensor f32 [-1, 24] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = sub %0, %2
output %3
`
	keptScript = `tv4 = tv0.cache_after()
tv5 = tv3.cache_before()
tv3.split(0, 8)
tv3.split(2, 4)
tv3.reorder({2: 0})
transform_like(tv3)
tv6 = tv4.recompute([tv5])
transform_like(tv5, [tv6])
tv3.parallelize(0, block_x)
tv3.parallelize(2, unroll)
parallelize_like(tv3, -1, [tv2, tv5, tv6])
tv1.parallelize(0, block_x)
tv1.parallelize(2, unroll)
parallelize_like(tv1, -1, [tv4])
tv3.parallelize(-1, vectorize)
tv4.parallelize(-1, vectorize)
tv6.parallelize(-1, vectorize)
tv6.keep(tv4, 1, 2, 1)
inline_most()
`
)

// keptSchedule runs a script on the fusion of text.
func keptSchedule(t *testing.T, text, script string) (*schedule.Scheduled, error) {
	t.Helper()
	s := parsed(t, text)
	calls, err := schedule.ParseScript(script)
	require.NoError(t, err)
	return s, s.Run(calls)
}

// TestKept loads columns again, but for the last iterations, in one block.
func TestKept(t *testing.T) {
	for _, rows := range []int64{0, 1, 8, 16, 17, 40} {
		s, err := keptSchedule(t, keptText, keptScript)
		require.NoError(t, err)
		f := frozen(s)
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{rows, 24}), Options{Alignment: func(core.ValID) int { return 16 }})
		require.NoError(t, err, rows)
		require.Contains(t, k.String(), "kept")
	}
}

// keptAhead is keptScript with a circular buffer of some tiles for the first copies.
func keptAhead(tiles, kept string) string {
	return strings.NewReplacer(
		"transform_like(tv5, [tv6])\n", "transform_like(tv5, [tv6])\ntv7 = tv0.cache_after(cp_async, cached_uses=[tv4])\ntv7.set_memory_type(shared)\ntv7.circular_buffer("+tiles+")\ntransform_like(tv4, [tv7])\n",
		"parallelize_like(tv1, -1, [tv4])", "parallelize_like(tv1, -1, [tv4, tv7])",
		"tv4.parallelize(-1, vectorize)\n", "tv4.parallelize(-1, vectorize)\ntv7.parallelize(-1, vectorize)\n",
		"tv6.keep(tv4, 1, 2, 1)", "tv6.keep(tv7, 1, "+kept+", 1)",
		"inline_most()\n", "inline_most()\ninline_at(tv7, 2, selected_tensors=[tv7])\n",
	).Replace(keptScript)
}

// TestKeptAhead loads columns again of which a circular buffer has the last iterations: all
// of its tiles, or fewer.
func TestKeptAhead(t *testing.T) {
	for _, c := range [][2]string{{"2", "2"}, {"4", "4"}, {"4", "1"}, {"5, 2", "3"}} {
		for _, rows := range []int64{0, 1, 8, 16, 17, 40} {
			s, err := keptSchedule(t, keptText, keptAhead(c[0], c[1]))
			require.NoError(t, err)
			f := frozen(s)
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{rows, 24}), Options{Alignment: func(core.ValID) int { return 16 }})
			require.NoError(t, err, rows)
			require.NotContains(t, k.String(), "kept")
			require.Contains(t, k.String(), "async tv7")
		}
	}
	_, err := keptSchedule(t, keptText, keptAhead("2", "3"))
	require.ErrorContains(t, err, "3 iterations are kept of tv7, which has 2 tiles")
}

// TestKeptRefused says why nothing can be kept.
func TestKeptRefused(t *testing.T) {
	for _, c := range []struct{ name, text, old, new, want string }{
		{"written in place", strings.Replace(keptText, "output %3", "output %3 alias %0", 1), "", "", "tv6 and tv4 copy tv0, which the kernel writes"},
		{"a loop outside", keptText, "tv6.keep(tv4, 1, 2, 1)", "tv6.keep(tv4, 2, 2, 1)", "axis 1 of tv6 is serial"},
		{"one by one", keptText, "tv6.parallelize(-1, vectorize)\n", "", "tv6 or tv4 is not moved by vectors"},
		{"a loop of threads", keptText, "tv6.keep(tv4, 1, 2, 1)", "tv6.keep(tv4, 0, 2, 1)", "axis 0 of tv6 is threadIdx.x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := keptSchedule(t, c.text, strings.Replace(keptScript, c.old, c.new, 1))
			require.NoError(t, err)
			_, err = Lower(s, Options{Alignment: func(core.ValID) int { return 16 }})
			require.ErrorContains(t, err, c.want)
		})
	}
	for call, want := range map[string]string{
		"tv6.keep(tv4, 1, 0)":     "0 iterations in shared memory and 0 in a cache are kept",
		"tv6.keep(tv4, 1, -1, 2)": "-1 iterations in shared memory",
		"tv6.keep(tv4, 4, 1)":     "tv6 and tv4 have no loop at place 4",
		"tv6.keep(tv6, 1, 1)":     "tv6 and tv6 are not copies of one tensor",
		"tv5.keep(tv4, 1, 1)":     "tv5 and tv4 are not copies of one tensor",
	} {
		_, err := keptSchedule(t, keptText, strings.Replace(keptScript, "tv6.keep(tv4, 1, 2, 1)", call, 1))
		require.ErrorContains(t, err, want)
	}
}
