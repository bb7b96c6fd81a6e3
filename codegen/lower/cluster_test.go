package lower

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// TestClusters reduces rows across clusters of every size that all devices take, and blocks with whole
// warps, partial ones and one thread, whether rows are blocks, threads or a loop: what is sent once is counted.
func TestClusters(t *testing.T) {
	const text = `%0 = tensor f32 [3, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
output %3
`
	for _, blocks := range []int64{2, 4, 8} {
		for _, threads := range []int64{1, 6, 32, 48, 64} {
			for _, rows := range []schedule.Parallel{schedule.Serial, schedule.BIDx, schedule.TIDy} {
				t.Run(fmt.Sprintf("%d of %d, rows %v", blocks, threads, rows), func(t *testing.T) {
					s := parsed(t, text)
					f := s.Fusion().Clone()
					// A row is blocks * threads * 2 elements, the last ones missing.
					out := tv(s, 3)
					_, err := s.CacheAfter(tv(s, 0), nil)
					must(t, err, s.SplitWhole(out, 1, blocks*threads*2), s.Split(out, 2, threads, true), s.Split(out, 2, blocks, false))
					refusals, err := s.TransformLike(out, nil)
					must(t, err)
					require.Empty(t, refusals)
					partial, err := s.RFactor(tv(s, 1), []int{1, 3})
					must(t, err)
					must(t, s.Parallelize(partial[0], 0, rows), s.Parallelize(partial[0], 2, schedule.Cluster), s.Parallelize(partial[0], 4, schedule.TIDx))
					must(t, s.ParallelizeLike(partial[0], -1, nil, nil), s.InlineMost(nil, nil), s.Verify())
					for _, columns := range []int64{1, blocks*threads*2 - 1} {
						k, err := checkWith(s, f, fusionfuzz.Inputs(f, uint64(columns), []int64{3, columns}), Options{})
						must(t, err)
						require.Equal(t, [3]int64{blocks, 1, 1}, k.Launch.Cluster)
						if rows == schedule.Serial && threads != 6 { // of which two threads send twice
							require.Equal(t, 1, clusterBarriers(k.Body, true), "%v", k) // of an iteration
						}
						if rows != schedule.Serial && threads != 6 {
							require.Equal(t, 0, clusterBarriers(k.Body, false), "%v", k)
						}
					}
				})
			}
		}
	}
}

// TestWeighedArrivals has rows in shared memory that leave room for two blocks, and for a word
// that counts or not.
func TestWeighedArrivals(t *testing.T) {
	for _, c := range []struct{ elements, barriers int64 }{{7230, 0}, {7231, 1}} { // of each of 4 threads: 115,680 and 115,696 bytes
		s := parsed(t, `%0 = tensor f32 [3, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
output %3
`)
		out := tv(s, 3)
		cache, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.SetMemory(cache, schedule.Shared), s.SplitWhole(out, 1, 2*4*c.elements), s.Split(out, 2, 4, true), s.Split(out, 2, c.elements, true))
		_, err = s.TransformLike(out, nil)
		must(t, err)
		partial, err := s.RFactor(tv(s, 1), []int{1, 3})
		must(t, err)
		must(t, s.Parallelize(partial[0], 0, schedule.BIDx), s.Parallelize(partial[0], 2, schedule.Cluster), s.Parallelize(partial[0], 4, schedule.TIDx))
		must(t, s.ParallelizeLike(partial[0], -1, nil, nil), s.InlineMost(nil, nil), s.Verify())
		k, err := Lower(s, Options{})
		must(t, err, k.Verify())
		counted := int64(0)
		k.Body.Walk(func(s kir.Statement) {
			if _, ok := s.(kir.Arrived); ok {
				counted++
			}
		})
		require.Equal(t, []int64{1 - c.barriers, c.barriers}, []int64{counted, int64(clusterBarriers(k.Body, false))}, "%v", k)
	}
}

// clusterBarriers counts the barriers of clusters, those in loops only or the others.
func clusterBarriers(b kir.Block, inLoops bool) (n int) {
	for _, s := range b {
		switch s := s.(type) {
		case kir.Barrier:
			if s.Scope == kir.ClusterScope && !inLoops {
				n++
			}
		case *kir.For:
			if inLoops {
				n += clusterBarriers(s.Body, false)
			}
		}
	}
	return n
}
