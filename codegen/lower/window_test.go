package lower

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A turn is a transpose by way of a window.
type turn struct {
	near, far, rows, vector int64 // of a tile; rows of the result that threads have at a time; elements of a step
	width                   int64 // of the phase that rows of the result are shifted by; 1: none
	isAsync, isSwizzled     bool
	merged                  int // axis of the result that is merged with the next one, before all else; -1: none
}

func (x turn) schedule(t *testing.T, s *schedule.Scheduled) {
	out := tv(s, 1)
	tile, err := s.CacheAfter(tv(s, 0), nil)
	must(t, err)
	read, err := s.CacheAfter(tile, nil)
	must(t, err, s.SetMemory(tile, schedule.Shared), s.HoldWindow(tile, x.isSwizzled))
	if x.isAsync {
		must(t, s.SetCopy(tile, schedule.AsyncCopy, schedule.CacheUnspecified))
	}
	if x.merged >= 0 {
		must(t, s.Merge(out, x.merged, x.merged+1))
	}
	last := len(s.Loop(out)) - 1
	if x.width > 1 {
		must(t, s.AlignRows(out, last-1, last, x.width, []int{0, 1}[:last-1]...))
	}
	must(t, s.Split(out, last, x.near, true), s.Split(out, last-1, x.far, true), s.Reorder(out, map[int]int{last: last + 1}))
	for last > 0 {
		must(t, s.Merge(out, 0, 1))
		last--
	}
	_, err = s.TransformLike(out, nil)
	must(t, err)
	must(t, s.Split(out, 2, x.vector, true), s.Split(out, 1, x.rows, true))
	_, err = s.TransformLike(out, []core.ValID{read})
	must(t, err)
	for _, v := range []core.ValID{out, read, tile} {
		must(t, s.Parallelize(v, 0, schedule.BIDx))
		if v != tile {
			must(t, s.Parallelize(v, 2, schedule.TIDy), s.Parallelize(v, 3, schedule.TIDx))
		}
	}
	must(t, s.InlineMost(nil, nil))
}

// TestTurnsOfWindows checks that a thread is in one column of a window in all its turns but the last ones, where
// its block has whole rows then, so that it divides by no length of a row.
func TestTurnsOfWindows(t *testing.T) {
	for _, test := range []struct {
		rows    int64
		divides bool
	}{{8, false}, {1, true}} { // of 4 + 1 vectors; 16 threads and 2
		s := parsed(t, "%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]\n%1 = permute %0 dims=[1, 0]\noutput %1\n")
		turn{near: 8, far: 32, rows: test.rows, vector: 4, width: 1, merged: -1}.schedule(t, s)
		k, err := lowered(s, Options{Alignment: aligned16})
		require.NoError(t, err)
		require.Equal(t, test.divides, strings.Contains(k.String(), "/ 5"))
	}
	for _, test := range []struct {
		w       window
		threads int64
		want    int64
	}{
		{window{rows: 144, vectors: 17}, 256, 144 * 16},
		{window{rows: 80, vectors: 9}, 256, 0}, // half of a turn
		{window{rows: 80, vectors: 9, isAlone: true}, 256, 80 * 8},
		{window{rows: 80, vectors: 6, isAlone: true}, 256, 0},
		{window{rows: 80, vectors: 1, isAlone: true}, 256, 0},
	} {
		require.Equal(t, test.want, test.w.body(test.threads), "%+v", test.w)
	}
}

func TestWindows(t *testing.T) {
	n := number("LOWER_WINDOWS", 150)
	seed := number("LOWER_SEED", 3)
	refused := 0 // a shift of columns by numbers that are reduced already
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
		kind := []string{"bf16", "f32", "f64", "bool", "c128"}[r.IntN(5)]
		x := turn{near: pick(8, 16, 20, 32), far: pick(8, 16, 32, 5), rows: pick(1, 2, 4, 8), vector: pick(1, 2, 4), width: 1, isAsync: r.IntN(2) == 0, merged: -1}
		x.isSwizzled = !x.isAsync && kind != "f64" && kind != "c128" && k%2 == 0
		sizes := []int64{pick(0, 1, 7, 16, 33, 40, 71), pick(0, 1, 5, 8, 19, 32, 63)}
		contiguity, order, dims := "yes, yes", "1, 0", "-1, -1"
		if r.IntN(4) == 0 { // images, with channels last or first in the result
			sizes, dims, contiguity = []int64{pick(1, 2, 3), pick(0, 1, 5, 16, 40), pick(1, 3, 7), pick(1, 2, 9, 11)}, "-1, -1, -1, -1", "yes, yes, yes, yes"
			if order, x.merged = "0, 2, 3, 1", 1; r.IntN(2) == 0 {
				sizes[1], sizes[3] = sizes[3], sizes[1]
				order, x.merged = "0, 3, 1, 2", 2
			}
		} else if r.IntN(3) == 0 {
			sizes, order, dims = append([]int64{pick(1, 2, 3)}, sizes...), "0, 2, 1", "-1, -1, -1"
			contiguity = "yes, " + contiguity
		}
		if r.IntN(2) == 0 && kind != "c128" {
			x.width = pick(2, 4, 8, 16)
			x.rows = x.width
			x.far = max(x.far/x.width, 1) * x.width
		}
		hasGaps := r.IntN(3) == 0 && x.merged < 0
		if hasGaps {
			contiguity = strings.TrimSuffix(contiguity, "yes, yes") + "no, yes"
		}
		isStatic := false
		if r.IntN(2) == 0 && slices.Min(sizes) > 2 && !hasGaps { // so that rows may be known to be of whole vectors
			isStatic = true
			dims = strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ", "), "[]")
		}
		text := fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]\n%%1 = permute %%0 dims=[%s]\noutput %%1\n", kind, dims, contiguity, order)
		s := parsed(t, text)
		f := s.Fusion().Clone()
		x.schedule(t, s)
		inputs := fusionfuzz.Inputs(f, r.Uint64(), sizes)
		if hasGaps {
			in, step := &inputs[0], int64(1)
			for d := len(in.Strides) - 1; d >= 0; d-- {
				in.Strides[d] = step
				if step *= in.Array.Shape[d]; d == len(in.Strides)-1 {
					step += pick(0, 1, 3, 8)
				}
			}
			in.Storage = step + 1
		}
		_, err := checkWith(s, f, inputs, Options{Alignment: aligned16})
		if isStatic && err != nil && strings.Contains(err.Error(), "of tiles that are no multiple of") {
			refused++
			continue
		}
		require.NoError(t, err, "program %d: %+v %v %v\n%s", k, x, sizes, inputs[0].Strides, text)
	}
	require.LessOrEqual(t, refused, int(n)/20)
}
