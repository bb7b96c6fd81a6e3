package lower

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// The mean of infinities of one sign and numbers is that infinity, wherever they
// stand, and the mean of both signs is NaN, as is the sum of squares. Large
// numbers whose difference overflows have a mean.
func TestWelfordOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	rows := [][]float64{{inf}, {1, inf}, {inf, 1}, {2, inf, 1, 3, 4}, {inf, 2, inf}, {-inf, 5}, {inf, -inf}, {-inf, 1, inf}, {inf, math.NaN()}, {3e38, 3e38, -3e38, -3e38, 1e38}}
	const text = `%0 = tensor f32 [10, 40] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
output %1
output %2
output %3
`
	serial := func(*testing.T, *schedule.Scheduled) {}
	merged := func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 1, 4, true))
		_, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err)
	}
	threads := func(t *testing.T, s *schedule.Scheduled) {
		must(t, s.Split(tv(s, 1), 1, 8, true))
		partial, err := s.RFactor(tv(s, 1), []int{1})
		must(t, err)
		for k, p := range partial {
			must(t, s.Parallelize(p, 2, schedule.TIDx), s.Parallelize(s.Fusion().Expr(s.Fusion().Val(tv(s, 1)).Def).Out[k], 1, schedule.TIDx))
		}
		must(t, s.InlineMost(nil, nil))
	}
	for name, scheduled := range map[string]func(*testing.T, *schedule.Scheduled){"serial": serial, "merged": merged, "threads": threads,
		"groups": groupsOfRows(2, 2, 4), "groups of 7": groupsOfRows(1, 2, 7), "groups of 20": groupsOfRows(4, 1, 5), "a group": groupsOfRows(1, 1, 32)} {
		for _, at := range []int{0, 17, 35} {
			t.Run(name, func(t *testing.T) {
				s := parsed(t, text)
				f := frozen(s)
				scheduled(t, s)
				inputs := fusionfuzz.Inputs(f, 7, []int64{10, 40})
				x := inputs[0].Array
				for i, row := range rows {
					copy(x.F[i*40+at:], row)
				}
				_, err := checkWith(s, f, inputs, Options{})
				require.NoError(t, err)
			})
		}
	}
	f := frozen(parsed(t, text))
	inputs := fusionfuzz.Inputs(f, 7, []int64{10, 40})
	inputs[0].Array.F[3] = inf
	want, err := f.Eval([]*core.Array{inputs[0].Array}, nil, core.RandomState{})
	require.NoError(t, err)
	require.True(t, math.IsInf(want[0].F[0], 1) && math.IsNaN(want[1].F[0]))
}

// groupsOfRows schedules rows of which a thread adds unrolled vectors at a time, which end
// where they may.
func groupsOfRows(unrolled, threads, vector int64) func(*testing.T, *schedule.Scheduled) {
	return func(t *testing.T, s *schedule.Scheduled) {
		v := s.Fusion().Outputs()[0].Val
		load, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.Split(v, 1, vector, true), s.Split(v, 1, threads, true), s.Split(v, 1, unrolled, true))
		if threads > 1 {
			partial, err := s.RFactor(v, []int{1, 2, 4})
			must(t, err)
			for k, p := range partial {
				must(t, s.Parallelize(p, 3, schedule.TIDx), s.Parallelize(s.Fusion().Expr(s.Fusion().Val(v).Def).Out[k], 1, schedule.TIDx))
			}
			v = partial[0]
		}
		_, err = s.TransformLike(v, nil)
		must(t, err, s.Parallelize(load, 3, schedule.TIDx))
		must(t, s.InlineAllAt(v, 1, true, nil), s.InlineAt(load, 2, false))
		for _, read := range s.Fusion().TensorArgs(s.Fusion().Expr(s.Fusion().Val(v).Def)) {
			if read != load {
				must(t, s.Parallelize(read, 3, schedule.TIDx), s.InlineMost([]core.ValID{read}, nil))
			}
		}
	}
}

// groupsOfColumns schedules columns of which a thread has four, and adds rows of each at a time.
func groupsOfColumns(rows int64) func(*testing.T, *schedule.Scheduled) {
	return func(t *testing.T, s *schedule.Scheduled) {
		v := s.Fusion().Outputs()[0].Val
		load, err := s.CacheAfter(tv(s, 0), nil)
		must(t, err, s.Split(v, 1, 4, true), s.Split(v, 0, rows, true), s.Reorder(v, map[int]int{2: 0}))
		_, err = s.TransformLike(v, []core.ValID{load})
		must(t, err)
		for _, out := range s.Fusion().Expr(s.Fusion().Val(v).Def).Out {
			must(t, s.Parallelize(out, 0, schedule.TIDx))
		}
		must(t, s.Parallelize(load, 0, schedule.TIDx), s.InlineAllAt(v, 1, true, nil), s.InlineAt(load, 2, false))
	}
}

// What a thread has of an element of the state is added at once, with one division; what
// is missing at the end of a row or column does not count.
func TestMomentsOfGroups(t *testing.T) {
	const (
		rows    = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[1]\noutput %1\noutput %2\noutput %3\n"
		columns = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[0]\noutput %1\noutput %2\noutput %3\n"
		double  = "%0 = tensor f64 [-1, -1] contiguity=[yes, yes]\n%1, %2, %3 = welford %0 dims=[1]\noutput %1\noutput %2\noutput %3\n"
	)
	computed := strings.Replace(rows, "%1, %2, %3 = welford %0", "%4 = neg %0\n%1, %2, %3 = welford %4", 1)
	for _, x := range []struct {
		name, text string
		schedule   func(*testing.T, *schedule.Scheduled)
		divisions  int // in the text of the kernel: by 2 groups or one, its parts at an end, and the threads
	}{
		{"rows", rows, groupsOfRows(2, 2, 4), 1 + 1 + 1},
		{"rows of what each iteration computes", computed, groupsOfRows(2, 2, 4), 1 + 1 + 1},
		{"rows of doubles", double, groupsOfRows(4, 4, 2), 1 + 1 + 1},
		{"an odd number", rows, groupsOfRows(1, 1, 7), 3 + 1},
		{"columns", columns, groupsOfColumns(4), 1 + 1},
		{"two rows of columns", columns, groupsOfColumns(2), 1 + 1},
	} {
		for _, shape := range [][]int64{{3, 40}, {5, 33}, {48, 16}, {1, 1}, {7, 2}, {50, 5}, {0, 3}, {3, 0}, {2, 1000}} {
			t.Run(fmt.Sprint(x.name, shape), func(t *testing.T) {
				s := parsed(t, x.text)
				f := frozen(s)
				x.schedule(t, s)
				k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, shape), Options{})
				require.NoError(t, err)
				require.Equal(t, x.divisions, divisions(k))
			})
		}
	}
}

// Where every thread adds as many elements, which is known, no lane is told how many another one
// has, and nothing is divided by sums of them.
func TestMomentsOfKnownNumbers(t *testing.T) {
	const text = "%%0 = tensor f32 [3, %d] contiguity=[yes, yes]\n%%1, %%2, %%3 = welford %%0 dims=[1]\noutput %%1\noutput %%2\noutput %%3\n"
	for _, x := range []struct {
		name              string
		length            int64
		threads, each     int64
		cluster           bool
		isKnown, isShared bool // the numbers; whether warps exchange anything
	}{
		{"a warp", 128, 32, 4, false, true, false},
		{"lanes", 24, 8, 3, false, true, false},
		{"warps", 512, 128, 4, false, true, true},
		{"three warps", 96 * 5, 96, 5, false, false, true}, // a lane of four has nothing
		{"an end", 510, 128, 4, false, false, true},
		{"elements", 64, 64, 1, false, true, true},
		{"a cluster", 1024, 64, 8, true, true, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, fmt.Sprintf(text, x.length))
			f := frozen(s)
			v := tv(s, 1)
			must(t, s.Split(v, 1, x.threads, true))
			if x.cluster {
				must(t, s.Split(v, 1, 2, false))
			}
			last := len(s.Loop(v)) - 1
			partial, err := s.RFactor(v, []int{last - 1})
			must(t, err)
			for k, p := range partial {
				out := s.Fusion().Expr(s.Fusion().Val(tv(s, 1)).Def).Out[k]
				must(t, s.Parallelize(p, last, schedule.TIDx), s.Parallelize(out, last-1, schedule.TIDx))
				if x.cluster {
					must(t, s.Parallelize(p, 1, schedule.Cluster), s.Parallelize(out, 1, schedule.Cluster))
				}
			}
			must(t, s.InlineMost(nil, nil))
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{3, x.length}), Options{})
			require.NoError(t, err)
			numbers, others := exchanged(k)
			require.Equal(t, x.isKnown, numbers == 0)
			require.Equal(t, x.isShared, others > 0)
		})
	}
}

// exchanged returns how many buffers of numbers of elements the threads of a kernel share, and of
// other values; lanes that shuffle numbers count as one.
func exchanged(k *kir.Kernel) (numbers, others int) {
	for _, b := range k.Buffers {
		switch {
		case b.Space != kir.Shared || strings.HasPrefix(b.Name, "arrivals"):
		case b.DType == dtype.Int:
			numbers++
		default:
			others++
		}
	}
	for _, v := range k.Values {
		if v.Kind == kir.Shuffle && v.DType == dtype.Int {
			return numbers + 1, others
		}
	}
	return numbers, others
}

// divisions returns how many divisions by a number of elements the statements of a kernel have.
func divisions(k *kir.Kernel) int {
	n := 0
	var count func(kir.ValueID)
	count = func(v kir.ValueID) {
		if k.Values[v].Op == core.ReciprocalOfCountOp {
			n++
		}
		for _, a := range k.Values[v].Args {
			count(a)
		}
	}
	k.Body.Walk(func(s kir.Statement) {
		if s, ok := s.(kir.Assign); ok {
			count(s.Value)
		}
	})
	return n
}
