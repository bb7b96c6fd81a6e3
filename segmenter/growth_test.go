package segmenter

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/scheduler"
)

// shapes are families of fusions, by a number of operations, with the sizes of the inputs.
var shapes = []struct {
	name string
	text func(n int) string
}{
	{"layers", layers},
	{"chain", chain},
	{"norms", func(n int) string { // a sum, a difference, a product with rows
		b := text("# sizes 256x512 512\n%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = tensor f32 [-1] contiguity=[yes]\n")
		x, next := 0, 2
		for range n / 5 {
			b.add("%%%d = sum %%%d dims=[1] keepdim=false dtype=f32\n", next, x)
			b.add("%%%d = broadcast %%%d is_broadcast_dim=[false, true]\n", next+1, next)
			b.add("%%%d = sub %%%d, %%%d\n", next+2, x, next+1)
			b.add("%%%d = broadcast %%1 is_broadcast_dim=[true, false]\n", next+3)
			b.add("%%%d = mul %%%d, %%%d\n", next+4, next+2, next+3)
			x, next = next+4, next+5
		}
		b.add("output %%%d\n", x)
		return b.String()
	}},
	{"readers", func(n int) string { // of one tensor, each an output of a product
		b := text("# sizes 64x64\n%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = exp %0\n")
		for i := range n / 2 {
			b.add("%%%d = mul %%1, %d.0:f64\n%%%d = matmul %%%d, %%0\n", 2*i+2, i+2, 2*i+3, 2*i+2)
		}
		for i := range n / 2 {
			b.add("output %%%d\n", 2*i+3)
		}
		return b.String()
	}},
	{"sums", func(n int) string { // each of a product of the same input, added up along a chain that is cut
		b := text("# sizes 64x64 64x64\n%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = tensor f32 [-1, -1] contiguity=[yes, yes]\n")
		y, next := 1, 2
		for i := range n / 5 {
			b.add("%%%d = mul %%0, %d.0:f64\n%%%d = sum %%%d dims=[1] keepdim=false dtype=f32\n", next, i+2, next+1, next)
			b.add("%%%d = broadcast %%%d is_broadcast_dim=[false, true]\n%%%d = add %%%d, %%%d\n", next+2, next+1, next+3, next+2, y)
			b.add("%%%d = segment_set %%%d\n", next+4, next+3)
			y, next = next+4, next+5
		}
		b.add("output %%%d\n", y)
		return b.String()
	}},
	{"siblings", func(n int) string { // all read the same input
		b := text("# sizes 64x64\n%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n")
		for i := range n {
			b.add("%%%d = mul %%0, %d.0:f64\n", i+1, i+2)
		}
		for i := range n {
			b.add("output %%%d\n", i+1)
		}
		return b.String()
	}},
}

type builder struct{ strings.Builder }

func text(s string) *builder {
	b := &builder{}
	b.WriteString(s)
	return b
}

func (b *builder) add(format string, args ...any) { fmt.Fprintf(b, format, args...) }

// chain is n pointwise operations one after the other.
func chain(n int) string {
	b := text("# sizes 1024x1024\n%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n")
	for i := range n {
		b.add("%%%d = %s %%%d\n", i+1, []string{"relu", "neg", "abs"}[i%3], i)
	}
	b.add("output %%%d\n", n)
	return b.String()
}

// layers are linear and relu, n / 2 of each.
func layers(n int) string {
	b := text("# sizes 16x16")
	for range n / 2 {
		b.add(" 16x16")
	}
	b.add("\n%%0 = tensor f32 [16, 16] contiguity=[yes, yes]\n")
	for i := range n / 2 {
		b.add("%%%d = tensor f32 [16, 16] contiguity=[yes, yes]\n", i+1)
	}
	x, next := 0, n/2+1
	for i := range n / 2 {
		b.add("%%%d = linear %%%d, %%%d, none\n%%%d = relu %%%d\n", next, x, i+1, next+1, next)
		x, next = next+1, next+2
	}
	b.add("output %%%d\n", x)
	return b.String()
}

// TestGrowth holds the work of a cut to be near linear in the operations.
func TestGrowth(t *testing.T) {
	small, large := 500, 4000
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			var work [2]Work
			for i, n := range []int{small, large} {
				x := bound(t, s.text(n))
				p, err := Cut(x.f, x.b, scheduler.Hopper, Options{})
				require.NoError(t, err)
				work[i] = p.Work
			}
			t.Logf("%+v, %+v", work[0], work[1])
			grows := func(a, b int) float64 {
				return math.Log(float64(b+1)/float64(a+1)) / math.Log(float64(large)/float64(small))
			}
			require.LessOrEqual(t, grows(work[0].Visits, work[1].Visits), 1.15)
			require.LessOrEqual(t, grows(work[0].Extracted, work[1].Extracted), 1.15)
			require.LessOrEqual(t, grows(work[0].Asked, work[1].Asked), 1.15)
			require.Equal(t, work[0].Rounds, work[1].Rounds)
		})
	}
}

// TestEqualLayers asks about equal layers once.
func TestEqualLayers(t *testing.T) {
	x := bound(t, layers(60))
	p, err := Cut(x.f, x.b, scheduler.Hopper, Options{})
	require.NoError(t, err)
	require.Len(t, p.Segments, 60)
	require.Equal(t, 2, p.Work.Asked)
	keys := map[string]bool{}
	for _, s := range p.Segments {
		keys[s.Key] = true
	}
	require.Len(t, keys, 2)
}

func BenchmarkCut(b *testing.B) {
	for _, s := range shapes {
		for _, n := range []int{60, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				x := bound(b, s.text(n))
				b.ReportAllocs()
				for b.Loop() {
					binding, err := x.f.Bind(x.values)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := Cut(x.f, binding, scheduler.Hopper, Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/op_of_fusion")
			})
		}
	}
}
