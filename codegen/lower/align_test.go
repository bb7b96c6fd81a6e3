package lower

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A rowLoops are loops over rows that begin where memory is aligned.
type rowLoops struct{ width, threads, rows, each, capacity int64 }

const rowsLessMean = `%0 = tensor DTYPE [-1, -1] contiguity=[yes, CONTIGUOUS]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = cast %0 dtype=f32
%3 = max %2 dims=[1] keepdim=false
%4 = broadcast %3 is_broadcast_dim=[false, true]
%5 = sub %2, %4
%6 = broadcast %1 is_broadcast_dim=[true, false]
%7 = mul %5, %6
%8 = cast %7 dtype=DTYPE
output %8
`

// alignedRows returns a schedule of rows with loops c, of vectors of so many elements.
func alignedRows(t *testing.T, text string, c rowLoops, vector int64) (*schedule.Scheduled, *core.Fusion) {
	s := parsed(t, text)
	f := s.Fusion().Clone()
	loaded, err := s.CacheAfter(tv(s, 0), nil)
	must(t, err)
	weights, err := s.CacheAfter(tv(s, 1), nil)
	must(t, err)
	_, err = s.CacheBefore(tv(s, 8))
	sum := tv(s, 3)
	must(t, err, s.AlignRows(sum, 0, 1, c.width), s.SplitWhole(sum, 1, c.capacity+c.width-1), s.Split(sum, 2, c.width, true), s.Split(sum, 2, c.threads, true))
	rows := schedule.TIDy
	if c.each > 1 {
		must(t, s.Split(sum, 0, c.width, true), s.Split(sum, 0, c.each, true), s.Reorder(sum, map[int]int{1: 5}))
	} else {
		must(t, s.Split(sum, 0, c.rows, true))
	}
	refusals, err := s.TransformLike(sum, nil)
	must(t, err)
	require.Empty(t, refusals)
	at := len(s.Loop(sum)) - 1
	partial, err := s.RFactor(sum, []int{2, 3, at})
	must(t, err, s.Parallelize(partial[0], 0, schedule.BIDx), s.Parallelize(partial[0], 1, rows), s.Parallelize(partial[0], 4, schedule.TIDx), s.ParallelizeLike(partial[0], -1, nil, nil))
	for _, v := range []core.ValID{loaded, tv(s, 8)} {
		if vector < c.width {
			must(t, s.Split(v, -1, vector, true))
		}
		if vector > 1 {
			must(t, s.Parallelize(v, -1, schedule.Vectorize))
		}
	}
	tensors := s.Tensors()
	if c.each > 1 { // once for all rows of a thread
		for i, v := range tensors {
			if v == weights {
				tensors = append(tensors[:i:i], tensors[i+1:]...)
				break
			}
		}
	}
	must(t, s.InlineMost(tensors, nil), s.Verify())
	return s, f
}

func aligned16(core.ValID) int { return 16 }

// widest returns the elements of the widest access to a tensor in global memory.
func widest(k *kir.Kernel) int {
	n := 0
	k.Body.Walk(func(s kir.Statement) {
		eachAccess(k, s, func(a *kir.Access, _ bool) {
			if k.Buffers[a.Buffer].Space == kir.Global {
				n = max(n, a.Width)
			}
		})
	})
	return n
}

// Rows of all lengths, each with NaNs and infinities in the rows beside it, are in vectors that
// are aligned, as the simulator checks, and have no element of another row.
func TestAlignedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, dtype := range []string{"bf16", "f32"} {
		text := strings.NewReplacer("DTYPE", dtype, "CONTIGUOUS", "yes").Replace(rowsLessMean)
		for _, c := range []rowLoops{{2, 4, 2, 1, 40}, {4, 2, 3, 1, 40}, {8, 4, 1, 1, 40}, {2, 3, 2, 3, 40}, {4, 4, 4, 2, 40}, {32, 2, 2, 1, 40}} {
			vector := min(c.width, map[string]int64{"bf16": 8, "f32": 4}[dtype])
			s, f := alignedRows(t, text, c, vector)
			for columns := int64(0); columns <= 40; columns += 1 + rng.Int64N(3) {
				rows := 1 + rng.Int64N(13)
				inputs := fusionfuzz.Inputs(f, uint64(columns), []int64{rows, columns}, []int64{columns})
				for i := range inputs[0].Array.F {
					if row := int64(i) / max(columns, 1); row%3 == 1 {
						inputs[0].Array.F[i] = []float64{math.NaN(), math.Inf(1)}[row/3%2]
					}
				}
				k, err := checkWith(s, f, inputs, Options{Alignment: aligned16})
				require.NoError(t, err, "%s, %v, %d rows of %d", dtype, c, rows, columns)
				require.Equal(t, int(vector), widest(k))
			}
		}
	}
}

// Vectors are refused where memory begins anywhere, and read from any address where rows do not
// follow each other; single elements are moved in all of those.
func TestAlignedRowsOfOtherMemory(t *testing.T) {
	dense := strings.NewReplacer("DTYPE", "bf16", "CONTIGUOUS", "yes").Replace(rowsLessMean)
	gaps := strings.Replace(dense, "contiguity=[yes, yes]", "contiguity=[no, yes]", 1)
	c := rowLoops{4, 2, 2, 1, 24}
	for _, x := range []struct {
		text      string
		alignment func(core.ValID) int
	}{{gaps, aligned16}, {dense, nil}, {dense, func(core.ValID) int { return 4 }}} {
		s, f := alignedRows(t, x.text, c, 4)
		inputs := fusionfuzz.Inputs(f, 5, []int64{5, 19}, []int64{19})
		if x.text == gaps {
			inputs[0].Strides[0] = 21
		}
		_, err := checkWith(s, f, inputs, Options{Alignment: x.alignment})
		if x.text == gaps { // what is read may lie anywhere
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "is not known to be a multiple of 8 bytes")
		}
		s, f = alignedRows(t, x.text, c, 1)
		_, err = checkWith(s, f, inputs, Options{Alignment: x.alignment})
		require.NoError(t, err)
	}
	s, f := alignedRows(t, dense, c, 2) // narrower ones of aligned loops
	_, err := checkWith(s, f, fusionfuzz.Inputs(f, 5, []int64{5, 19}, []int64{19}), Options{Alignment: func(core.ValID) int { return 4 }})
	require.NoError(t, err)
}

// All loads of a thread, those of a second input among them, come before what is done where not
// all elements of a vector exist.
func TestFetchFirst(t *testing.T) {
	s := parsed(t, `%0 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = cast %0 dtype=f32
%3 = add %2, %1
output %3
`)
	f, out := s.Fusion().Clone(), tv(s, 3)
	for _, v := range []int{0, 1} {
		_, err := s.CacheAfter(tv(s, v), nil)
		must(t, err)
	}
	must(t, s.AlignRows(out, 0, 1, 2), s.SplitWhole(out, 1, 48), s.Split(out, 2, 2, true), s.Split(out, 2, 8, true))
	_, err := s.TransformLike(out, nil)
	must(t, err)
	for _, v := range s.Tensors() {
		if !s.Fusion().Val(v).Input {
			must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 3, schedule.TIDx))
		}
		if d := s.Fusion().Val(v).Def; d != core.NoExpr && s.Fusion().Expr(d).Op == core.SetOp {
			must(t, s.Parallelize(v, 4, schedule.Vectorize))
		}
	}
	must(t, s.InlineMost([]core.ValID{tv(s, 2)}, nil))
	for columns := int64(1); columns < 48; columns += 5 {
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 3, []int64{5, columns}, []int64{5, columns}), Options{Alignment: aligned16})
		require.NoError(t, err)
		fetched, settled := 0, 0
		k.Body.Walk(func(x kir.Statement) {
			switch x := x.(type) {
			case kir.Move:
				if isFetch(x) {
					fetched++
					require.Zero(t, settled)
				}
			case kir.Assign:
				settled++
			}
		})
		require.Equal(t, 2, fetched)
		require.Positive(t, settled)
	}
}

// What rows have in common and loops before load one by one is under way, with the rows, before anything waits for a
// load, and in words. Where nothing else is loaded before, nothing is done about it.
func TestLoadsUnderWay(t *testing.T) {
	for _, x := range []struct {
		weights         string
		isCopied        bool
		underWay, words int
	}{{"f32", false, 0, 0}, {"f32", true, 1, 0}, {"bf16", true, 1, 1}} {
		s := parsed(t, strings.ReplaceAll(`%0 = tensor WEIGHTS [-1] contiguity=[yes]
%1 = tensor bf16 [-1, -1] contiguity=[yes, yes]
%2 = cast %1 dtype=f32
%3 = cast %0 dtype=f32
%4 = broadcast %3 is_broadcast_dim=[true, false]
%5 = add %2, %4
output %5
`, "WEIGHTS", x.weights))
		f, out := s.Fusion().Clone(), tv(s, len(s.Tensors())-1)
		var apart []core.ValID
		if x.isCopied {
			weights, err := s.CacheAfter(tv(s, 0), nil)
			must(t, err)
			apart = append(apart, weights)
		}
		rows, err := s.CacheAfter(tv(s, 1), nil)
		must(t, err, s.AlignRows(out, 0, 1, 2), s.SplitWhole(out, 1, 48), s.Split(out, 2, 2, true), s.Split(out, 2, 8, true))
		_, err = s.TransformLike(out, nil)
		must(t, err, s.Parallelize(out, 0, schedule.BIDx), s.Parallelize(out, 3, schedule.TIDx), s.ParallelizeLike(out, -1, nil, nil), s.Parallelize(rows, -1, schedule.Vectorize))
		inlined := slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return v == rows || slices.Contains(apart, v) })
		must(t, s.InlineMost(inlined, nil))
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 3, []int64{37}, []int64{9, 37}), Options{Alignment: aligned16})
		require.NoError(t, err)
		fetched, underWay, words := 0, 0, 0
		k.Body.Walk(func(s kir.Statement) {
			switch s := s.(type) {
			case kir.Move:
				if isFetch(s) {
					fetched++
					require.Zero(t, underWay)
				}
			case kir.Opaque:
				words++
				require.Zero(t, underWay)
			case kir.UnderWay:
				underWay++
				require.Positive(t, fetched)
			}
		})
		require.Equal(t, []int{1, x.underWay, x.words}, []int{fetched, underWay, words}, x)
	}
}

// A thread whose rows have several phases has no phase.
func TestRowsOfSeveralPhases(t *testing.T) {
	for each, want := range map[int64]string{2: "does not follow from the indices of blocks and threads alone", 4: ""} {
		s := parsed(t, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = neg %0\noutput %1\n")
		f, out := s.Fusion().Clone(), tv(s, 1)
		must(t, s.AlignRows(out, 0, 1, 4), s.Split(out, 0, each, true), s.Parallelize(out, 1, schedule.TIDx))
		_, err := checkWith(s, f, fusionfuzz.Inputs(f, 1, []int64{9, 7}), Options{})
		var unsupported *core.Unsupported
		if want != "" {
			require.True(t, errors.As(err, &unsupported), "%v", err)
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err, fmt.Sprint(each))
		}
	}
}
