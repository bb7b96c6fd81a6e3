package executor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// randomParts returns a fusion of parts of pairs, triples and so on, which may be stacked to others: the parts
// are views of one input, or inputs of which the elements are apart in memory.
func randomParts(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	rows, columns := []int64{1, 3, 17, 40, 64}[r.IntN(5)], []int64{0, 1, 8, 33, 64, 120, 256, 1000, 1024, 2048}[r.IntN(10)]
	parts := []int64{2, 2, 3, 4, 5}[r.IntN(5)]
	types := []string{"bf16", "f16", "f32", "bool", "f8e4m3", "f64"}
	name := types[r.IntN(len(types))]
	b := &strings.Builder{}
	next := 0
	say := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = %s\n", next, fmt.Sprintf(format, args...))
		next++
		return next - 1
	}
	var given [][]int64
	var inputs []func(*fusionfuzz.Input)
	input := func(of string, sizes []int64, contiguity string, place func(*fusionfuzz.Input)) int {
		given, inputs = append(given, sizes), append(inputs, place)
		return say("tensor %s [%s] contiguity=[%s]", of, strings.TrimSuffix(strings.Repeat("-1, ", len(sizes)), ", "), contiguity)
	}
	dense := func(*fusionfuzz.Input) {}
	var elements []int
	whole := -1 // an input of parts, if it is cast
	if r.IntN(2) == 0 {
		x := input(name, []int64{rows, columns * parts}, "yes, yes", dense)
		row := ""
		if r.IntN(2) == 0 {
			row = fmt.Sprint(input("bf16", []int64{columns}, "yes", dense))
		}
		fmt.Fprintf(b, "$0 = i.floordiv %%%d.1, %d : index\n", x, parts)
		of := x
		if isComputed := r.IntN(2) == 0; isComputed {
			of = say("cast %%%d dtype=f32", x)
			if whole = of; r.IntN(2) == 0 {
				of = say("mul %%%d, %%%d", of, say("broadcast %%%d is_broadcast_dim=[true, false]", say("cast %%%d dtype=f32", input("bf16", []int64{columns * parts}, "yes", dense))))
			}
		}
		y := say("reshape %%%d new_shape=[%%%d.0, $0, %d]", of, x, parts)
		for k := range 1 + r.Int64N(parts) {
			elements = append(elements, say("cast %%%d dtype=f32", say("select %%%d index=%d dim=2", y, k)))
		}
		if row != "" {
			elements = append(elements, say("broadcast %%%d is_broadcast_dim=[true, false]", say("cast %%%s dtype=f32", row)))
		}
	} else {
		var all []int
		for range 1 + r.IntN(3) {
			step, gap, offset := []int64{1, 2, 2, 2, 3, 4, 5}[r.IntN(7)], []int64{0, 0, 1, 16}[r.IntN(4)], []int64{0, 0, 0, 1, 8, 9}[r.IntN(6)]
			all = append(all, input(types[r.IntN(len(types))], []int64{rows, columns}, "no, no", func(in *fusionfuzz.Input) {
				in.Strides = []int64{columns*step + gap, step}
				in.Offset = offset
				in.Storage = offset + rows*(columns*step+gap) + 1
			}))
		}
		for _, x := range all {
			elements = append(elements, say("cast %%%d dtype=f32", x))
		}
	}
	combine := func() int {
		sum := elements[r.IntN(len(elements))]
		for _, x := range elements {
			sum = say("%s %%%d, %%%d", []string{"add", "sub", "mul"}[r.IntN(3)], sum, x)
		}
		return sum
	}
	out := combine()
	if stacked := r.IntN(4); stacked > 0 {
		if whole >= 0 {
			stacked = int(parts) - 1
		}
		var list []string
		for range 1 + stacked {
			list = append(list, fmt.Sprintf("%%%d", say("broadcast %%%d is_broadcast_dim=[false, false, true]", combine())))
		}
		out = say("cat [%s] dim=2 manual_padding=false", strings.Join(list, ", "))
		if whole >= 0 {
			out = say("add %%%d, %%%d", whole, say("reshape %%%d new_shape=[%%%d.0, %%%d.1]", out, whole, whole))
		}
	}
	fmt.Fprintf(b, "output %%%d\n", say("cast %%%d dtype=%s", out, []string{"bf16", "f32", "f16"}[r.IntN(3)]))
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
	for i, place := range inputs {
		place(&c.Inputs[i])
	}
	return c
}

// TestDeviceGathered has random programs on elements that are apart planned for
// a device of one processor, whose threads soon have several elements.
func TestDeviceGathered(t *testing.T) {
	n := setting("DEVICE_GATHERED", 100)
	seed := uint64(setting("DEVICE_SEED", 5))
	gathered := 0
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomParts(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		e := s.executor(c.Fusion)
		ok, err := s.check(e, c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		for _, x := range s.driver.Compiles() {
			if strings.Contains(x.Source, "gatherReadOnly<") {
				gathered++
			}
		}
	}
	t.Log(gathered, "kernels read what is between elements")
	require.Greater(t, gathered, n/15)
}
