package lower

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A lineCase is how a line is cut: steps of threads with so many elements each, for so many
// rows of a block.
type lineCase struct{ steps, threads, each, rows int64 }

func (c lineCase) capacity() int64 { return c.steps * c.threads * c.each }

// scheduleLine gives tensor reference, of rows, loops of blocks of rows, rows, steps, threads and
// elements, and all others the same.
func scheduleLine(s *schedule.Scheduled, reference core.ValID, c lineCase) error {
	return scheduleAlike(s, reference, func(v core.ValID) error {
		return errors.Join(s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDy), s.Parallelize(v, -2, schedule.TIDx))
	},
		func() error { return s.SplitWhole(reference, 1, c.capacity()) },
		func() error { return s.Split(reference, 2, c.each, true) },
		func() error { return s.Split(reference, 2, c.threads, true) },
		func() error { return s.Split(reference, 0, c.rows, true) })
}

// scheduleAlike makes the loops of tensor reference by steps, gives those of all others the same, and
// parallelizes them as those of reference and of what it is computed from.
func scheduleAlike(s *schedule.Scheduled, reference core.ValID, parallelize func(core.ValID) error, steps ...func() error) error {
	operand := s.Fusion().TensorArgs(s.Fusion().Expr(s.Fusion().Val(reference).Def))[0]
	for _, step := range append(steps,
		func() error { _, err := s.TransformLike(reference, nil); return err },
		func() error { return parallelize(reference) },
		func() error { return parallelize(operand) },
		func() error { return s.ParallelizeLike(reference, -1, nil, nil) },
		func() error { return s.InlineMost(nil, nil) },
	) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestScans(t *testing.T) {
	for _, x := range []struct{ op, dtype, init string }{{"cumsum", "f32", " init=2.5:f32"}, {"cumprod", "c64", " init=(2,1):c64"}, {"cummax", "bf16", " init=2.5:bf16"}, {"cummin", "i32", " init=2:i32"}, {"cumsum", "f16", " init=2.5:f16"}, {"cumprod", "i64", " init=2:i64"}, {"cummax", "f64", " init=2.5:f64"}} {
		for _, init := range []string{"", x.init} {
			for _, c := range []lineCase{{1, 1, 8, 4}, {1, 4, 2, 8}, {3, 8, 2, 2}, {2, 32, 1, 1}, {1, 64, 4, 2}, {5, 128, 2, 1}, {40, 64, 1, 1}} {
				most := c.capacity()
				if x.op == "cumprod" && x.dtype != "i64" {
					most = min(most, 24) // products of more overflow in one order and not in another
				}
				for k, n := range []int64{0, 1, min(c.each+1, most), most - 1, most} {
					if testing.Short() && (int(c.threads)+k+len(init))%4 != 0 {
						continue
					}
					text := fmt.Sprintf("%%0 = tensor %s [-1, -1] contiguity=[yes, yes]\n%%1 = set %%0\n%%2 = %s %%1 dim=1%s\n%%3 = set %%2\noutput %%3\n", x.dtype, x.op, init)
					s := parsed(t, text)
					f := frozen(s)
					require.NoError(t, scheduleLine(s, tv(s, 2), c))
					_, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{5, n}), Options{})
					require.NoError(t, err, "%v %v init %s, %d elements", x, c, init, n)
				}
			}
		}
	}
}

// scheduleSort keeps the operand of what defines reference in shared memory, and gives it
// and the results the loops of c.
func scheduleSort(s *schedule.Scheduled, reference core.ValID, c lineCase) error {
	f := s.Fusion()
	e := f.Expr(f.Val(reference).Def)
	cache, err := s.CacheAfter(f.TensorArgs(e)[0], []core.ValID{reference})
	if err == nil {
		err = s.SetMemory(cache, schedule.Shared)
	}
	tensors := append(slices.Clone(e.Out), cache)
	for _, o := range f.Outputs() {
		v, e := s.CacheBefore(o.Val)
		tensors, err = append(tensors, v, o.Val), errors.Join(err, e)
	}
	for _, v := range tensors {
		if len(s.Loop(v)) > 2 || err != nil { // with the other result
			continue
		}
		err = errors.Join(s.SplitWhole(v, 1, c.capacity()), s.Split(v, 2, c.each, true), s.Split(v, 2, c.threads, true), s.Split(v, 0, c.rows, true),
			s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDy), s.Parallelize(v, -2, schedule.TIDx))
	}
	return errors.Join(err, s.InlineMost(nil, nil))
}

// TestSorts sorts rows of each kind of record, by one thread, lanes and warps.
func TestSorts(t *testing.T) {
	for _, dtype := range []string{"bf16", "f32", "f64", "i64", "bool", "u64"} {
		for i, c := range []lineCase{{1, 1, 8, 4}, {1, 4, 2, 8}, {1, 8, 1, 4}, {1, 32, 4, 1}, {1, 64, 4, 2}, {1, 128, 1, 1}, {1, 256, 1, 1}} {
			for j, n := range []int64{0, 1, min(c.each+1, c.capacity()), c.capacity() - 1, c.capacity()} {
				texts := []string{fmt.Sprintf("%%1 = argsort %%0 dim=1 descending=%t stable=true\noutput %%1\n", (i+j)%2 == 0)}
				for _, k := range []int64{2, 3, 10, n} { // one would be a broadcast, along which there are no threads
					if k <= n && k > 1 {
						texts = append(texts, fmt.Sprintf("%%1, %%2 = topk %%0 k=%d dim=1 largest=%t sorted=true\noutput %%1\noutput %%2\n", k, (i+j)%2 == 0))
					}
				}
				for k, text := range texts {
					if testing.Short() && (i+j+k)%4 != 0 {
						continue
					}
					s := parsed(t, fmt.Sprintf("%%0 = tensor %s [-1, -1] contiguity=[yes, yes]\n", dtype)+text)
					f := frozen(s)
					require.NoError(t, scheduleSort(s, tv(s, 1), c))
					_, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{5, n}), Options{})
					require.NoError(t, err, "%s %v, %d elements: %s", dtype, c, n, text)
				}
			}
		}
	}
}

// A columnCase is how columns are cut: so many side by side of a thread, of threads next to each
// other, and of each column parts of threads with so many elements.
type columnCase struct{ beside, lanes, threads, each int64 }

// scheduleColumns gives tensor reference, of columns, loops of blocks and threads of columns,
// threads along them, elements, and columns of a thread.
func scheduleColumns(s *schedule.Scheduled, reference core.ValID, c columnCase) error {
	return scheduleAlike(s, reference, func(v core.ValID) error {
		return errors.Join(s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.TIDx), s.Parallelize(v, 3, schedule.TIDy))
	},
		func() error { return s.Reorder(reference, map[int]int{0: 1}) },
		func() error { return s.SplitWhole(reference, 1, c.threads*c.each) },
		func() error { return s.Split(reference, 2, c.each, true) },
		func() error { return s.Split(reference, 0, c.beside, true) },
		func() error { return s.Split(reference, 0, c.lanes, true) },
		func() error { return s.Reorder(reference, map[int]int{2: 5}) })
}

// TestColumns scans columns by one thread, by threads of one warp, and of several whose lanes
// have one column or more.
func TestColumns(t *testing.T) {
	for i, x := range []struct{ op, dtype, init string }{{"cumsum", "f32", " init=2.5:f32"}, {"cumprod", "c64", " init=(2,1):c64"}, {"cummax", "bf16", " init=2.5:bf16"}, {"cummin", "i32", " init=2:i32"}, {"cumsum", "f64", " init=2.5:f64"}, {"cumprod", "i64", " init=2:i64"}} {
		for j, init := range []string{"", x.init} {
			for k, c := range []columnCase{{1, 32, 1, 5}, {4, 8, 1, 3}, {1, 8, 4, 3}, {2, 4, 2, 2}, {1, 32, 16, 2}, {2, 8, 32, 1}, {4, 4, 64, 1}, {1, 2, 128, 2}} {
				most := c.threads * c.each
				if x.op == "cumprod" && x.dtype != "i64" {
					most = min(most, 24) // products of more overflow in one order and not in another
				}
				for l, n := range []int64{0, 1, min(c.each+1, most), most - 1, most} {
					if testing.Short() && (i+j+k+l)%4 != 0 {
						continue
					}
					text := fmt.Sprintf("%%0 = tensor %s [-1, -1] contiguity=[yes, yes]\n%%1 = set %%0\n%%2 = %s %%1 dim=0%s\n%%3 = set %%2\noutput %%3\n", x.dtype, x.op, init)
					s := parsed(t, text)
					f := frozen(s)
					require.NoError(t, scheduleColumns(s, tv(s, 2), c))
					_, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{n, 37}), Options{})
					require.NoError(t, err, "%v %v init %s, %d elements", x, c, init, n)
				}
			}
		}
	}
}

// TestColumnsRefused has loops in which threads do not have columns as they exchange them.
func TestColumnsRefused(t *testing.T) {
	for _, x := range []struct {
		name, refusal string
		place         int // of the columns of a thread
		parallel      []schedule.Parallel
	}{
		{"along x and y", "by threads along x and y", 4, []schedule.Parallel{schedule.TIDx, schedule.TIDy}},
		{"columns of threads along x", "around one over others", 4, []schedule.Parallel{schedule.TIDx, schedule.Serial}},
		{"steps of threads along y", "in steps of threads along y", 4, []schedule.Parallel{schedule.Serial, schedule.TIDy}},
		{"columns around elements", "within one over others", 3, []schedule.Parallel{schedule.TIDy, schedule.Serial}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = set %0\n%2 = cumsum %1 dim=0\n%3 = set %2\noutput %3\n")
			v := tv(s, 2)
			must(t, s.Reorder(v, map[int]int{0: 1}), s.SplitWhole(v, 1, 16), s.Split(v, 2, 4, true), s.Split(v, 0, 2, true))
			must(t, s.Reorder(v, map[int]int{2: 1, 1: x.place})) // columns, what is one, and the three
			_, err := s.TransformLike(v, nil)
			must(t, err)
			for _, w := range []core.ValID{v, tv(s, 1)} {
				must(t, s.Parallelize(w, 0, schedule.BIDx))
				at := 2
				for _, p := range x.parallel {
					if at == x.place {
						at++
					}
					must(t, s.Parallelize(w, at, p))
					at++
				}
			}
			must(t, s.ParallelizeLike(v, -1, nil, nil), s.InlineMost(nil, nil))
			_, err = lowered(s, Options{})
			require.ErrorContains(t, err, x.refusal)
		})
	}
}
