package persistence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

const (
	x       = "%0 = tensor bf16 [64, 96] contiguity=[yes, yes]\n%1 = cast %0 dtype=f32\n"
	softmax = x + `%2 = max %1 dims=[1] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
%5 = exp %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true]
%8 = truediv %5, %7
output %8
`
	residual = x + `%2 = tensor bf16 [64, 96] contiguity=[yes, yes]
%3 = cast %2 dtype=f32
%4 = add %1, %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = sub %4, %6
output %7
`
)

// scheduled returns a schedule of text without loops.
func scheduled(t *testing.T, text string) *schedule.Scheduled {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return schedule.New(f)
}

// TestPlans: what is held between phases, at each price, for packed elements.
func TestPlans(t *testing.T) {
	for _, c := range []struct{ name, text, phases, free, fair string }{
		{"softmax", softmax, "tv0:0 tv1:0 tv4:1 tv5:1 tv8:2", "tv0 tv5 (4 bytes, 1 registers)", "tv0 (2 bytes, 1 registers)"},
		{"a residual is not loaded twice", residual, "tv0:0 tv1:0 tv2:0 tv3:0 tv4:0 tv7:1", "tv4 (4 bytes, 1 registers)", "tv4 (4 bytes, 1 registers)"},
		{"what is rounded is held so", x + `%2 = tensor bf16 [64, 96] contiguity=[yes, yes]
%3 = cast %2 dtype=f32
%4 = add %1, %3
%5 = cast %4 dtype=bf16
%6 = cast %5 dtype=f32
%7 = sum %6 dims=[1] keepdim=false dtype=f32
%8 = broadcast %7 is_broadcast_dim=[false, true]
%9 = sub %6, %8
output %5
output %9
`, "tv0:0 tv1:0 tv2:0 tv3:0 tv4:0 tv5:0 tv6:0 tv9:1", "tv5 (2 bytes, 1 registers)", "tv5 (2 bytes, 1 registers)"},
		{"what is needed late is loaded late", x + `%2 = tensor bf16 [96] contiguity=[yes]
%3 = tensor bf16 [64, 96] contiguity=[yes, yes]
%4 = sum %1 dims=[1] keepdim=false dtype=f32
%5 = broadcast %4 is_broadcast_dim=[false, true]
%6 = mul %1, %5
%7 = broadcast %2 is_broadcast_dim=[true, false]
%8 = cast %7 dtype=f32
%9 = mul %6, %8
%10 = cast %3 dtype=f32
%11 = add %9, %10
output %11
`, "tv0:0 tv1:0 tv2:1 tv3:1 tv6:1 tv7:1 tv8:1 tv9:1 tv10:1 tv11:1", "tv0 (2 bytes, 1 registers)", "tv0 (2 bytes, 1 registers)"},
		{"weights are held where that is free", x + `%2 = tensor bf16 [96] contiguity=[yes]
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = cast %3 dtype=f32
%5 = mul %1, %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true]
%8 = sub %1, %7
%9 = mul %8, %4
output %9
`, "tv0:0 tv1:0 tv2:0 tv3:0 tv4:0 tv5:0 tv8:1 tv9:1", "tv0 tv3 (4 bytes, 2 registers)", "tv0 (2 bytes, 1 registers)"},
		{"nothing is needed again", x + "%2 = sum %1 dims=[1] keepdim=false dtype=f32\noutput %2\n", "tv0:0 tv1:0", "(0 bytes, 0 registers)", "(0 bytes, 0 registers)"},
		{"numbers are drawn again", x + `%2 = uniform minval=0:f64 maxval=1:f64 shape=[64, 96] dtype=f32
%3 = mul %2, %1
%4 = sum %3 dims=[1] keepdim=false dtype=f32
%5 = broadcast %4 is_broadcast_dim=[false, true]
%6 = sub %2, %5
output %6
`, "tv0:0 tv1:0 tv2:0 tv3:0 tv6:1", "tv2 (4 bytes, 1 registers)", "tv2 (4 bytes, 1 registers)"},
		{"a view of rows", "%0 = tensor bf16 [64, 8, 12] contiguity=[yes, yes, yes]\n%1 = reshape %0 new_shape=[64, 96]\n%2 = cast %1 dtype=f32\n" +
			"%3 = sum %2 dims=[1] keepdim=false dtype=f32\n%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = sub %2, %4\noutput %5\n",
			"tv0:0 tv1:0 tv2:0 tv5:1", "tv1 (2 bytes, 1 registers)", "tv1 (2 bytes, 1 registers)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scheduled(t, c.text)
			p, err := Sort(s)
			require.NoError(t, err)
			var phases []string
			for _, v := range s.Tensors() {
				if p.IsFull(v) {
					phases = append(phases, fmt.Sprintf("%s:%d", s.Fusion().Name(v), p.at[v]))
				}
			}
			slices.SortFunc(phases, func(a, b string) int {
				return len(a) - len(b) + 2*strings.Compare(a, b)*(1-min(1, max(len(a)-len(b), len(b)-len(a))))
			})
			require.Equal(t, c.phases, strings.Join(phases, " "))
			for price, want := range map[Price]string{Free: c.free, Fair: c.fair} {
				q := p.Choose(price, true)
				var names []string
				for _, v := range q.Held {
					names = append(names, s.Fusion().Name(v))
				}
				require.Equal(t, want, strings.TrimSpace(fmt.Sprintf("%s (%d bytes, %d registers)", strings.Join(names, " "), q.Bytes, q.Registers)), "price %d", price)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{x + "%2 = sum %1 dims=[1] keepdim=false dtype=f32\n%3 = sum %1 dims=[0] keepdim=false dtype=f32\noutput %2\noutput %3\n", "tv3 is reduced along other dimensions than tv2"},
		{x + "%2 = sum %1 dims=[1] keepdim=false dtype=f32\n%3 = sum %2 dims=[0] keepdim=false dtype=f32\noutput %3\n", "tv3 is reduced along other dimensions than tv2"},
		{x + "%2 = sum %1 dims=[1] keepdim=false dtype=f32\n%3 = slice %1 start_indices=[0, 3] end_indices=[64, 4] strides=[1, 1] manual_normalization=true\n%4 = squeeze %3 dims=[1] squeeze_expanded=false\noutput %2\noutput %4\n",
			"tv3, the result of slice(), has single elements of the rows of tv1"},
	} {
		_, err := Sort(scheduled(t, c.text))
		require.EqualError(t, err, c.want)
	}
}

// TestApply: after a plan is applied no later phase reads what is not held, and the outputs
// are what they were.
func TestApply(t *testing.T) {
	for _, text := range []string{softmax, residual} {
		for _, price := range []Price{Free, Fair, Tight} {
			s := scheduled(t, text)
			for _, v := range slices.Clone(s.Fusion().Inputs()) {
				_, err := s.CacheAfter(v, nil)
				require.NoError(t, err)
			}
			p, err := Sort(s)
			require.NoError(t, err)
			q := p.Choose(price, true)
			for _, v := range q.Held {
				require.False(t, s.Fusion().Val(v).Input, "a copy of it is held")
			}
			require.NoError(t, q.Apply())
			require.NoError(t, s.Fusion().Verify())
			again, err := Sort(s)
			require.NoError(t, err)
			isRead := again.readLater()
			for _, v := range s.Tensors() {
				if isRead[v] {
					require.Contains(t, q.Held, v, s.Fusion().Name(v))
				}
			}
			arrays := make([]*core.Array, len(s.Fusion().Inputs()))
			r := rand.New(rand.NewPCG(1, 2))
			for i := range arrays {
				arrays[i] = core.NewArray(s.Fusion().Val(s.Fusion().Inputs()[i]).DType, []int64{64, 96})
				for k := range arrays[i].F {
					arrays[i].F[k] = float64(r.IntN(9)) / 4
				}
			}
			want, err := scheduled(t, text).Fusion().Eval(arrays, nil, core.RandomState{})
			require.NoError(t, err)
			got, err := s.Fusion().Eval(arrays, nil, core.RandomState{})
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

// TestCut compares with the cheapest of all ways to part small networks.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		g := &network{}
		n := 2 + r.IntN(5)
		for len(g.out) < n+2 {
			g.node()
		}
		type edge struct {
			from, to int
			capacity int64
		}
		var edges []edge
		for range r.IntN(14) {
			e := edge{r.IntN(n + 2), r.IntN(n + 2), int64(r.IntN(9))}
			edges = append(edges, e)
			g.edge(e.from, e.to, e.capacity)
		}
		cost := func(isSource func(int) bool) (sum int64) {
			for _, e := range edges {
				if isSource(e.from) && !isSource(e.to) {
					sum += e.capacity
				}
			}
			return sum
		}
		reached := g.cut()
		require.True(t, reached[source])
		require.False(t, reached[sink])
		least := infinite
		for mask := range 1 << n {
			least = min(least, cost(func(v int) bool { return v == source || v > sink && mask>>(v-2)&1 == 1 }))
		}
		require.Equal(t, least, cost(func(v int) bool { return reached[v] }))
	}
}
