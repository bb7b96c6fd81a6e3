package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

func TestRefusals(t *testing.T) {
	for _, x := range []struct {
		name, text string
		schedule   func(t *testing.T, s *schedule.Scheduled)
		sentence   string
	}{
		{"registers of unknown size", bias, func(*testing.T, *schedule.Scheduled) {},
			"tv2 is kept in registers and has tv0_n0 elements along an axis, which is not a constant: inline it further, or keep it in shared or global memory"},
		{"vector that does not divide a row", addText, func(t *testing.T, s *schedule.Scheduled) { scheduleCached(t, s, schedule.Vectorize) },
			"tv3 is vectorized by 4, and the address of tv0 is not known to be a multiple of 16 bytes"},
		{"vector of a sum", addText, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Split(tv(s, 2), 0, 4, true), s.Parallelize(tv(s, 2), 1, schedule.Vectorize))
		}, "tv2 is vectorized and is the result of add(): only a copy moves several elements at once; cache it"},
		{"vector of a reduction", `%0 = tensor f32 [4, 8] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
%2 = set %1
output %2
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Reorder(tv(s, 1), map[int]int{0: 1}), s.Parallelize(tv(s, 1), 1, schedule.Vectorize))
		}, "tv1 is vectorized and is the result of sum(): only a copy moves several elements at once; cache it"},
		{"a loop of one reader that may be empty", `%0 = tensor f32 [-1, 4, -1] contiguity=[yes, yes, yes]
%1 = tensor f32 [-1, 4] contiguity=[yes, yes]
%2 = broadcast %1 is_broadcast_dim=[false, false, true]
%3 = set %2
%4 = pad %3 pad_widths=[0, 0, 1, -2, 0, 0] value=7:f64
%5 = add %0, %2
output %4
output %5
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) },
			"tv3 is computed in a loop of a reader, which may have no iteration, and tv4 reads it outside of that loop: compute it outside of that loop"},
		{"a sum in the memory of what it reads", `%0 = tensor i64 [2] contiguity=[yes]
%1 = broadcast %0 is_broadcast_dim=[true, false]
%2 = sum %1 dims=[0] keepdim=false dtype=i64
output %2 alias %0
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) },
			"tv2 is reduced in the memory of tv0, where the first step would overwrite what is read: cache it before"},
		{"registers of another thread", `%0 = tensor f32 [8] contiguity=[yes]
%1 = neg %0
%2 = add %1, 1:f64
output %2
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 1), 0, schedule.TIDx)) },
			"tv2 reads an element of tv1 that another thread or block has: tv1 is in local memory and computed at index i0 by the one at tx"},
		{"global memory of another block", `%0 = tensor f32 [8] contiguity=[yes]
%1 = neg %0
%2 = add %1, 1:f64
output %1
output %2
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 2), 0, schedule.BIDx)) },
			"tv2 reads tv1 in global memory, which another block along blockIdx.x writes: this needs a kernel of its own"},
		{"sum of halves in global memory", `%0 = tensor f16 [8, 8] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f16
output %1
`, func(*testing.T, *schedule.Scheduled) {}, "tv1 is folded in global memory in Half, which would round each step: cache it before"},
		{"clusters of three", addText, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Split(tv(s, 2), 0, 3, true), s.Parallelize(tv(s, 2), 1, schedule.Cluster))
		}, "tv2 runs over the blocks of a cluster, of which there are 3: there must be 2, 4, 8 or 16"},
		{"clusters in an unknown number", addText, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Split(tv(s, 2), 0, 2, true), s.Parallelize(tv(s, 2), 0, schedule.Cluster))
		}, "tv2 runs over the blocks of a cluster, of which there are ceilDiv(tv0_n0, 2): there must be 2, 4, 8 or 16"},
		{"a reduction across a cluster and the grid", `%0 = tensor f32 [8, 64] contiguity=[yes, yes]
%1 = sum %0 dims=[0, 1] keepdim=false dtype=f32
output %1
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Parallelize(tv(s, 1), 0, schedule.Cluster), s.Parallelize(tv(s, 1), 1, schedule.BIDx))
		}, "tv1 is reduced across the blocks of a cluster and across blockIdx.x: reduce one of the two first by rfactor()"},
		{"shared memory of another block of the cluster", `%0 = tensor f32 [4] contiguity=[yes]
%1 = neg %0
%2 = sum %1 dims=[0] keepdim=false dtype=f32
output %2
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.SetMemory(tv(s, 1), schedule.Shared), s.Parallelize(tv(s, 1), 0, schedule.Cluster))
		}, "tv2 reads an element of tv1 that another thread or block has"},
		{"sorting", `%0 = tensor f32 [8] contiguity=[yes]
%1 = argsort %0 dim=0 descending=false stable=false
output %1
`, func(*testing.T, *schedule.Scheduled) {}, "tv0 is sorted, which threads do that read elements of each other: keep it in shared memory"},
		{"threads in an unknown number", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
output %1
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.Parallelize(tv(s, 1), 1, schedule.TIDx)) },
			"tv1 is reduced across threads and the block has max(1, tv0_n1) of them along threadIdx.x, which is not a constant"},
		{"an output that overwrites what it reads again", `%0 = tensor f32 [3] contiguity=[yes]
%1 = tensor f32 [2, 3] contiguity=[yes, yes]
%2 = add %0, 1:f64
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %2 alias %0
output %4
`, func(t *testing.T, s *schedule.Scheduled) {
			merged(t, s, 3, 4)
			must(t, s.InlineAt(tv(s, 3), 1, false), s.InlineAt(tv(s, 2), 1, false))
		}, "tv2 is written to the memory of tv0, of which an element may be read after that"},
		{"an output that overwrites what is read later", `%0 = tensor f32 [8] contiguity=[yes]
%1 = neg %0
%2 = add %0, %1
output %1 alias %0
output %2
`, func(*testing.T, *schedule.Scheduled) {}, "tv1 is written to the memory of tv0, of which an element may be read after that"},
		{"an output that overwrites what the same iteration reads later", `%0 = tensor f32 [8] contiguity=[yes]
%1 = neg %0
%2 = add %0, %1
output %1 alias %0
output %2
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineAt(tv(s, 1), 1, false)) },
			"tv1 is written to the memory of tv0, of which an element may be read after that"},
		{"a block that reads while the first one overwrites", `%0 = tensor f32 [8] contiguity=[yes]
%1 = tensor f32 [-1, 8] contiguity=[yes, yes]
%2 = neg %0
%3 = exp %1
output %2 alias %0
output %3
`, func(t *testing.T, s *schedule.Scheduled) {
			_, err := s.CacheAfter(tv(s, 0), nil)
			must(t, err, s.Parallelize(tv(s, 3), 0, schedule.BIDx), s.InlineMost(nil, nil))
		}, "tv2 is written to the memory of tv0, of which an element may be read after that"},
		{"a block that reads what the first one writes", `%0 = tensor f32 [8] contiguity=[yes]
%1 = tensor f32 [-1, 8] contiguity=[yes, yes]
%2 = exp %0
%3 = neg %2
%4 = broadcast %3 is_broadcast_dim=[true, false]
%5 = add %4, %1
output %5
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.SetMemory(tv(s, 2), schedule.Global), s.Parallelize(tv(s, 5), 0, schedule.BIDx), s.InlineAt(tv(s, 4), 2, false))
		}, "tv3 reads tv2 in global memory, which another block along blockIdx.x writes: this needs a kernel of its own"},
		{"a last block that reads what the first one writes", `%0 = tensor f32 [8] contiguity=[yes]
%1 = tensor f32 [-1, 8] contiguity=[yes, yes]
%2 = exp %0
%3 = sum %1 dims=[0] keepdim=false dtype=f32
%4 = add %3, %2
output %4
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.SetMemory(tv(s, 2), schedule.Global), s.Parallelize(tv(s, 3), 0, schedule.BIDx), s.Parallelize(tv(s, 3), 1, schedule.TIDx), s.Parallelize(tv(s, 4), 0, schedule.TIDx))
		}, "tv4 is computed by the last block along blockIdx.x and reads tv2 in global memory, which another one writes"},
		{"results in different memory", `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
%4 = neg %2
%5 = exp %0
output %1
output %4
output %5
`, func(t *testing.T, s *schedule.Scheduled) {
			must(t, s.Parallelize(tv(s, 5), 1, schedule.TIDx), s.InlineMost(nil, nil))
		}, "are results of one reduction and not in the same memory, and several threads compute them: cache them before"},
		{"the last blocks of two reductions", `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = mul %0, %0
%2 = sum %0 dims=[0] keepdim=false dtype=f32
%3 = sum %1 dims=[0] keepdim=false dtype=f32
%4 = add %2, %3
output %4
`, func(t *testing.T, s *schedule.Scheduled) {
			for _, n := range []int{1, 2, 3} {
				must(t, s.Parallelize(tv(s, n), 0, schedule.BIDx), s.Parallelize(tv(s, n), 1, schedule.TIDx))
			}
			must(t, s.Parallelize(tv(s, 4), 0, schedule.TIDx))
		}, "tv4 reads tv2 and tv3, which stem from different reductions across blocks: the last block to arrive at one, which has its result, need not be that of the other"},
		{"a block that reads before the last one overwrites", `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = tensor f32 [8] contiguity=[yes]
%2 = sum %0 dims=[0] keepdim=false dtype=f32
%3 = add %2, %1
output %3 alias %1
`, func(t *testing.T, s *schedule.Scheduled) {
			old, err := s.CacheAfter(tv(s, 1), nil)
			must(t, err, s.Parallelize(tv(s, 2), 0, schedule.BIDx), s.Parallelize(tv(s, 2), 1, schedule.TIDx))
			must(t, s.Parallelize(tv(s, 3), 0, schedule.TIDx), s.Parallelize(old, 0, schedule.TIDx), s.InlineAt(old, 1, false))
		}, "tv3 is written to the memory of tv1, of which an element may be read after that"},
		{"a reduction that overwrites what it reads", `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true]
%3 = mul %2, %1
%4 = sum %3 dims=[1] keepdim=false dtype=f32
output %4 alias %0
`, func(t *testing.T, s *schedule.Scheduled) { must(t, s.InlineMost(nil, nil)) },
			"tv4 is reduced in the memory of tv0, where the first step would overwrite what is read: cache it before"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			x.schedule(t, s)
			_, err := lowered(s, Options{})
			require.ErrorContains(t, err, x.sentence)
		})
	}
}

// Every pass says what it does and why it is where it is, and the kernel is
// complete from some pass on.
func TestPasses(t *testing.T) {
	complete := false
	for _, p := range Passes() {
		require.NotEmpty(t, p.Does)
		require.NotEmpty(t, p.Why)
		require.True(t, p.Complete || !complete, p.Name)
		complete = p.Complete
	}
	require.True(t, complete)
}

// The parts of a sum of halves are not rounded: each would be within an error of
// the result that a comparison allows.
func TestPartsAreNotRounded(t *testing.T) {
	s := parsed(t, "%0 = tensor f16 [4, 64] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=f16\noutput %1\n")
	sum, err := s.CacheBefore(tv(s, 1))
	must(t, err, s.Split(sum, 1, 8, true))
	_, err = s.RFactor(sum, []int{1})
	must(t, err)
	k, err := lowered(s, Options{})
	must(t, err)
	require.Contains(t, k.String(), "f16(")
	require.NotContains(t, k.String(), "f32(f16(")
}

// Each parallel type is lowered, or the refusal says what to use instead.
func TestParallelTypes(t *testing.T) {
	for p := schedule.Serial; p <= schedule.MeshZ; p++ {
		s := parsed(t, addText)
		if err := s.Split(tv(s, 2), 0, 2, true); err != nil {
			t.Fatal(err)
		}
		if err := s.Parallelize(tv(s, 2), 1, p); err != nil {
			continue
		}
		if _, err := lowered(s, Options{}); err != nil && p != schedule.Vectorize {
			require.NotEmpty(t, instead[p], "%v", err)
			require.ErrorContains(t, err, instead[p])
		}
	}
}

// A loop around something that all threads of a block do together is not
// unswitched: they would come to barriers of different copies.
func TestUnswitchAroundBarriers(t *testing.T) {
	for _, x := range []struct {
		name, text string
		sizes      [][]int64
		schedule   func(t *testing.T, s *schedule.Scheduled)
	}{
		{"reduction across threads", "%0 = tensor f32 [6, 256] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=f32\noutput %1\n", [][]int64{{6, 256}}, func(t *testing.T, s *schedule.Scheduled) {
			cache, err := s.CacheBefore(tv(s, 1))
			must(t, err, s.Split(cache, 1, 64, true))
			partial, err := s.RFactor(cache, []int{1})
			must(t, err, s.Parallelize(cache, 1, schedule.TIDx), s.Parallelize(partial[0], 2, schedule.TIDx))
			for _, v := range s.Tensors() {
				if !s.Fusion().Val(v).Input {
					must(t, s.Split(v, 0, 4, true), s.Parallelize(v, 1, schedule.Unswitch), s.Parallelize(v, 0, schedule.BIDx))
				}
			}
			must(t, s.InlineMost(nil, nil))
		}},
		{"tile", "%0 = tensor f32 [-1, 37] contiguity=[yes, yes]\n%1 = set %0\n%2 = neg %1\noutput %2\n", [][]int64{{3, 37}}, func(t *testing.T, s *schedule.Scheduled) {
			for _, n := range []int{1, 2} {
				must(t, s.Split(tv(s, n), 1, 32, true), s.Parallelize(tv(s, n), 2, schedule.TIDx), s.Parallelize(tv(s, n), 1, schedule.Unswitch))
			}
			must(t, s.SetMemory(tv(s, 1), schedule.Shared), s.InlineMost(nil, nil))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), Options{})
			require.NoError(t, err)
			k.Body.Walk(func(s kir.Statement) {
				if i, ok := s.(*kir.If); ok {
					for _, side := range []kir.Block{i.Then, i.Else} {
						side.Walk(func(s kir.Statement) {
							_, isBarrier := s.(kir.Barrier)
							require.False(t, isBarrier, "%v", k)
						})
					}
				}
			})
		})
	}
}

// A product of a narrow type is held in Float while it is made, and rounded where it is stored.
func TestVectorOfAnotherType(t *testing.T) {
	s := parsed(t, `%0 = tensor f8e8m0 [3, 8] contiguity=[yes, yes]
%1 = prod %0 dims=[0] keepdim=false dtype=f8e8m0
output %1
`)
	script, err := schedule.ParseScript("tv2 = tv1.cache_before()\ntv1.split(0, 2)\ntv1.parallelize(-1, vectorize)\n")
	require.NoError(t, err)
	require.NoError(t, s.Run(script))
	k, err := lowered(s, Options{Alignment: func(core.ValID) int { return 16 }})
	require.NoError(t, err)
	require.NoError(t, k.Verify())
	require.Contains(t, k.String(), "rounded1[1] = f8e8m0(tv2[i3*2 + 1])")
}
