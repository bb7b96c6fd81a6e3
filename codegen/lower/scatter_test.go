package lower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// scatterText scatters tv2 into tv0 along dimension 1; positions are tv1, or
// tv3, computed from it.
const scatterText = `%0 = tensor f32 [5, 4] contiguity=[yes, yes]
%1 = tensor i32 [3, 6] contiguity=[yes, yes]
%2 = tensor f32 [4, 7] contiguity=[yes, yes]
%3 = set %1
%4 = scatter %0, %3, %2 dim=1
output %4
`

// A scatter equals the evaluator, which lets the last of several writes hold,
// for any sizes, places of its operands and loops. Positions are from -2 to 7,
// some of them twice.
func TestScatter(t *testing.T) {
	sizes := [][]int64{{5, 4}, {3, 6}, {4, 7}}
	for _, x := range []struct {
		name, text string
		sizes      [][]int64
		schedule   func(t *testing.T, s *schedule.Scheduled)
	}{
		{"positions in registers", scatterText, sizes, func(*testing.T, *schedule.Scheduled) {}},
		{"positions in registers of a thread", strings.NewReplacer("[5, 4]", "[3, 4]", "[4, 7]", "[3, 7]").Replace(scatterText), [][]int64{{3, 4}, {3, 6}, {3, 7}}, func(t *testing.T, s *schedule.Scheduled) {
			parallelised(t, s, 0, schedule.TIDx)
		}},
		{"positions in shared memory", scatterText, sizes, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.SetMemory(tv(s, 3), schedule.Shared))
			parallelised(t, s, 0, schedule.TIDx)
			parallelised(t, s, 1, schedule.TIDy)
		}},
		{"positions in global memory", scatterText, sizes, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.SetMemory(tv(s, 3), schedule.Global))
			parallelised(t, s, 1, schedule.TIDx)
		}},
		{"one number", `%0 = tensor f16 [-1] contiguity=[yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = scatter %0, %1, 2.5:f16 dim=0
output %2
`, [][]int64{{9}, {7}}, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 2), 0, schedule.TIDx)) }},
		{"no positions", `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = scatter %0, %1, 2:f32 dim=0
output %2
`, [][]int64{{9}, {0}}, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 2), 0, schedule.BIDx)) }},
		{"one position a line", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor i64 [1, -1] contiguity=[none, yes]
%2 = tensor f32 [1, -1] contiguity=[none, yes]
%3 = scatter %0, %1, %2 dim=0
output %3
`, [][]int64{{6, 9}, {1, 9}, {1, 9}}, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Merge(tv(s, 3), 0, 1), s.Split(tv(s, 3), 0, 4, true), s.Parallelize(tv(s, 3), 0, schedule.BIDx), s.Parallelize(tv(s, 3), 1, schedule.TIDx))
		}},
		{"into itself", `%0 = tensor f32 [6, 5] contiguity=[yes, yes]
%1 = tensor i64 [6, 3] contiguity=[yes, yes]
%2 = tensor f32 [6, 3] contiguity=[yes, yes]
%3 = scatter %0, %1, %2 dim=1
output %3 alias %0
`, [][]int64{{6, 5}, {6, 3}, {6, 3}}, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Parallelize(tv(s, 3), 0, schedule.BIDx), s.Parallelize(tv(s, 3), 1, schedule.TIDx))
		}},
		{"expanded positions", `%0 = tensor f32 [6, 5] contiguity=[yes, yes]
%1 = tensor i64 [6] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = expand %2 shape=[6, 5]
%4 = tensor f32 [6, 5] contiguity=[yes, yes]
%5 = scatter %0, %3, %4 dim=0
%6 = neg %5
output %6
`, [][]int64{{6, 5}, {6}, {6, 5}}, func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			require.NoError(t, s.Verify())
			for seed := range uint64(3) {
				k, err := checkWith(s, f, fusionfuzz.Inputs(f, seed, x.sizes...), Options{})
				require.NoError(t, err, "%v", k)
			}
		})
	}
}

func TestScatterRefusals(t *testing.T) {
	for _, x := range []struct {
		name, text string
		schedule   func(t *testing.T, s *schedule.Scheduled)
		sentence   string
	}{
		{"positions of other threads", scatterText, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 3), 1, schedule.TIDx)) },
			"tv4 reads an element of tv3 that another thread or block has"},
		{"over its source", `%0 = tensor f32 [6] contiguity=[yes]
%1 = tensor i64 [6] contiguity=[yes]
%2 = tensor f32 [6] contiguity=[yes]
%3 = scatter %0, %1, %2 dim=0
output %3 alias %2
`, func(*testing.T, *schedule.Scheduled) {}, "tv3 is written to the memory of tv2, of which an element may be read after that"},
		{"norm of an embedding", `%0 = tensor i64 [4] contiguity=[yes]
%1 = tensor f32 [5, 3] contiguity=[yes, yes]
%2 = embedding_fwd %0, %1 max_norm=1:f64
output %2
`, func(*testing.T, *schedule.Scheduled) {}, "tv2 is the result of embedding_fwd() with max_norm, which this build does not compute in a kernel"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			x.schedule(t, s)
			_, err := lowered(s, Options{})
			var unsupported *core.Unsupported
			require.ErrorAs(t, err, &unsupported)
			require.ErrorContains(t, err, x.sentence)
		})
	}
}

// Loops over what a broadcast was cut from write its element once, of the place
// that it has there.
func TestCutToOneElement(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [4, 5] contiguity=[yes, yes]
%1 = slice %0 start_indices=[0, 3] end_indices=[4, 4] strides=[1, 1] manual_normalization=true
output %1
`)
	f, v := frozen(s), tv(s, 1)
	must(t, s.SetLoop(v, s.Fusion().Val(v).Domain.Root), s.Merge(v, 0, 1))
	k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{4, 5}), Options{})
	require.NoError(t, err, "%v", k)
}
