package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// randomTranspose returns a fusion that adds up tensors of one shape that lie in memory in
// several orders, some with gaps, and stores the sum in some orders.
func randomTranspose(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	sizes := make([]int64, 2+r.IntN(3))
	most := int64(30000)
	for d := range sizes {
		sizes[d] = min([]int64{1, 2, 3, 3, 4, 5, 7, 8, 16, 20, 31, 33, 40, 64, 77, 128, 131, 160}[r.IntN(18)], most)
		most /= sizes[d]
	}
	if most > 8 {
		sizes[r.IntN(len(sizes))] *= 1 + r.Int64N(min(most, 12))
	}
	if r.IntN(5) == 0 { // a matrix of which the rows begin anywhere, mostly
		sizes = []int64{128 + r.Int64N(44), 128 + r.Int64N(38)}
	} else if r.IntN(8) == 0 { // several of them, or images
		sizes = []int64{1 + r.Int64N(2), 128 + r.Int64N(20), 128 + r.Int64N(20)}
		if r.IntN(2) == 0 {
			sizes = []int64{1 + r.Int64N(2), 128 + r.Int64N(10), 9 + r.Int64N(3), 13 + r.Int64N(4)}
		}
	} else if r.IntN(20) == 0 { // one of large tiles
		sizes = []int64{385 + r.Int64N(90), 400 + r.Int64N(90)}
	}
	types := []string{"bf16", "f32", "bf16", "f32", "f16", "f64", "i64", "c64", "bool", "i32", "c128"}
	type tensor struct {
		dtype string
		order []int // of its dimensions in the common shape
	}
	var inputs []tensor
	b := &strings.Builder{}
	kind := types[r.IntN(len(types))]
	isStatic, next := r.IntN(2) == 0, 0
	var given [][]int64
	var gaps []bool
	for range 1 + r.IntN(3) {
		x := tensor{kind, r.Perm(len(sizes))}
		if r.IntN(5) == 0 {
			x.dtype = types[r.IntN(5)]
		}
		hasGaps := r.IntN(5) == 0
		var dims, contiguity []string
		var shape []int64
		for _, d := range x.order {
			if len(inputs) > 0 && r.IntN(10) == 0 { // the first one has all
				shape, dims, contiguity = append(shape, 1), append(dims, "1"), append(contiguity, "none")
				continue
			}
			shape = append(shape, sizes[d])
			n, c := "-1", "yes"
			if isStatic {
				n = fmt.Sprint(sizes[d])
			}
			if hasGaps {
				c = "no"
			}
			if sizes[d] == 1 {
				n, c = "1", "none"
			}
			dims, contiguity = append(dims, n), append(contiguity, c)
		}
		fmt.Fprintf(b, "%%%d = tensor %s [%s] contiguity=[%s]\n", next, x.dtype, strings.Join(dims, ", "), strings.Join(contiguity, ", "))
		next++
		inputs, given, gaps = append(inputs, x), append(given, shape), append(gaps, hasGaps)
	}
	add := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = "+format+"\n", append([]any{next}, args...)...)
		next++
		return next - 1
	}
	ints := func(x []int) string { return strings.ReplaceAll(fmt.Sprint(x), " ", ", ") }
	sum := -1
	for i, x := range inputs {
		v := i
		if r.IntN(2) == 0 && len(inputs) > 1 {
			v = add("neg %%%d", add("cast %%%d dtype=f32", v))
		}
		back := make([]int, len(x.order))
		for k, d := range x.order {
			back[d] = k
		}
		if !slices.IsSorted(back) {
			v = add("permute %%%d dims=%s", v, ints(back))
		}
		if len(inputs) > 1 {
			v = add("cast %%%d dtype=f32", v)
		}
		if sum >= 0 {
			v = add("add %%%d, %%%d", sum, v)
		}
		sum = v
	}
	if r.IntN(3) == 0 && len(inputs) > 1 {
		sum = add("cast %%%d dtype=%s", sum, types[r.IntN(5)])
	}
	outputs := []int{add("set %%%d", sum)}
	for range r.IntN(3) {
		outputs = append(outputs, add("set %%%d", add("permute %%%d dims=%s", sum, ints(r.Perm(len(sizes))))))
	}
	for _, o := range outputs {
		fmt.Fprintf(b, "output %%%d\n", o)
	}
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
	for i := range c.Inputs {
		if !gaps[i] {
			continue
		}
		in := &c.Inputs[i]
		in.Storage = widen(r, in) + 1
		in.Offset = r.Int64N(2)
	}
	return c
}

// widen leaves gaps of 0, 1 or 8 elements behind each dimension of in, and returns how many it has with them.
func widen(r *rand.Rand, in *fusionfuzz.Input) int64 {
	step := int64(1)
	for d := len(in.Strides) - 1; d >= 0; d-- {
		in.Strides[d] = step
		step *= in.Array.Shape[d] + []int64{0, 1, 8}[r.IntN(3)]
	}
	return step
}

// TestDeviceTransposes has random transposes planned for a device of one processor, for which
// tiles are worth it soon.
func TestDeviceTransposes(t *testing.T) {
	n := setting("DEVICE_TRANSPOSES", 100)
	seed := uint64(setting("DEVICE_SEED", 5))
	right, chosen := 0, map[string]int{}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomTranspose(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		e := s.executor(c.Fusion)
		if ok, err := s.check(e, c, []int{0, 0, 0, 1}[r.IntN(4)], never); ok {
			right++
			if s.plan != nil {
				choice, _ := s.plan.Inspection().Show("scheduler_verbose") // an error: there is no kernel
				_, choice, _ = strings.Cut(choice, "chosen: ")
				choice, _, _ = strings.Cut(choice, "\n")
				chosen[choice]++
				for _, kind := range []string{"transpose", "pointwise", "all", "windows", "128 by 128, 256 threads, steps of 8 elements, cells of 1 by 1, windows"} {
					if strings.Contains(choice, kind) {
						chosen[kind]++
					}
				}
			}
		} else {
			t.Log(err)
		}
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
	}
	for _, kind := range []string{"transpose", "pointwise", "all", "windows", "128 by 128, 256 threads, steps of 8 elements, cells of 1 by 1, windows"} {
		t.Log(kind, chosen[kind])
	}
	t.Log(chosen)
	require.Equal(t, n, right)
}

// TestDeviceLargeTransposes has matrices with rows of any length transposed by large tiles, and added
// to others.
func TestDeviceLargeTransposes(t *testing.T) {
	const transposed = "%%0 = tensor %s [-1, -1] contiguity=[yes, yes]\n%%1 = permute %%0 dims=[1, 0]\n"
	const alone = transposed + "%%2 = set %%1\noutput %%2\n"
	const added = transposed + "%%2 = tensor %[1]s [-1, -1] contiguity=[yes, yes]\n%%3 = add %%1, %%2\noutput %%3\n"
	const addedNarrow = transposed + "%%2 = tensor %[1]s [-1, -1] contiguity=[yes, yes]\n%%3 = cast %%1 dtype=f32\n%%4 = cast %%2 dtype=f32\n" +
		"%%5 = add %%3, %%4\n%%6 = cast %%5 dtype=%[1]s\noutput %%6\n"
	const reversed = "%%0 = tensor %s [-1, -1, -1] contiguity=[yes, yes, yes]\n%%1 = permute %%0 dims=[2, 1, 0]\n%%2 = set %%1\noutput %%2\n"
	const images = "%%0 = tensor %s [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]\n%%1 = permute %%0 dims=[0, 2, 3, 1]\n%%2 = set %%1\noutput %%2\n"
	const batched = "%%0 = tensor %s [-1, -1, -1] contiguity=[yes, yes, yes]\n%%1 = permute %%0 dims=[0, 2, 1]\n%%2 = set %%1\noutput %%2\n"
	odd := [][]int64{{497, 507}, {481, 505}, {496, 385}}
	for _, x := range []struct {
		kind, text, choice string
		shapes             [][]int64
	}{
		{"bf16", alone, "tiles of 128 by 128, 256 threads", odd},
		{"bool", alone, "tiles of 128 by 128, 256 threads", odd},
		{"f32", alone, "tiles of 64 by 128, 256 threads", odd},
		{"f64", alone, "tiles of 64 by 64, 256 threads", odd},
		{"bf16", addedNarrow, "tiles of 64 by 64, 256 threads", odd},
		{"f32", added, "tiles of 64 by 64, 256 threads", odd},
		{"bf16", alone, "tiles of 128 by 128, 256 threads", [][]int64{{488, 512}, {504, 384}}}, // rows written from within sectors
		{"f32", alone, "tiles of 64 by 128, 256 threads", [][]int64{{492, 504}, {500, 388}}},
		{"bf16", alone, "swizzled, given up last, rows aligned by 16", [][]int64{{497, 513}, {387, 499}}},
		{"bool", alone, "tiles of 128 by 128, 256 threads, steps of 16 elements, cells of 1 by 1, windows, 8 lanes, swizzled, given up last, rows aligned by 32", [][]int64{{481, 505}}},
		{"f32", alone, "swizzled, given up last, rows aligned by 8", [][]int64{{497, 507}}},
		{"bf16", reversed, "rows aligned by 16", [][]int64{{131, 3, 131}, {141, 2, 130}}},
		{"f32", reversed, "rows aligned by 8", [][]int64{{131, 3, 131}}},
		{"bf16", images, "swizzled, given up last, rows aligned by 16", [][]int64{{2, 129, 15, 15}}},
		{"bf16", images, "tiles of 144 by 64, 192 threads", [][]int64{{5, 129, 21, 21}}},
		{"bf16", batched, "tiles of 64 by 160, 256 threads", [][]int64{{11, 173, 157}}},
		{"bf16", batched, "tiles of 96 by 96, 192 threads", [][]int64{{16, 177, 80}}},
		{"bf16", batched, "tiles of 64 by 128, 256 threads", [][]int64{{20, 64, 250}}},
		{"bf16", batched, "tiles of 128 by 64, 256 threads", [][]int64{{20, 241, 64}}},
		{"bool", batched, "tiles of 64 by 128, 256 threads", [][]int64{{20, 64, 251}}},
		{"bool", batched, "tiles of 128 by 64, 256 threads", [][]int64{{20, 223, 64}}},
	} {
		for _, sizes := range x.shapes {
			f, err := core.Parse(fmt.Sprintf(x.text, x.kind))
			require.NoError(t, err)
			f.Freeze()
			given := [][]int64{sizes, {sizes[1], sizes[0]}}
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, given[:len(f.Inputs())]...)}
			s := newStage(t)
			s.driver.Present[0].Processors = 1
			ok, err := s.check(s.executor(f), c, 0, never)
			require.NoError(t, err)
			require.True(t, ok)
			text, err := s.plan.Inspection().Show("scheduler_params")
			require.NoError(t, err)
			require.Contains(t, text, x.choice, "%s %v", x.kind, sizes)
			require.Contains(t, text, "windows", "%s %v", x.kind, sizes)
		}
	}
}
