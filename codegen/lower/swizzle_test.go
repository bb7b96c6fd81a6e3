package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

const (
	tileText = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
output %1
`
	chunkText = `%0 = tensor f32 [16, 8, 4] contiguity=[yes, yes, yes]
%1 = permute %0 dims=[1, 0, 2]
output %1
`
)

// transposeTile transposes by tiles of 32x32 in shared memory.
func transposeTile(t *testing.T, s *schedule.Scheduled) core.ValID {
	tile, err := s.CacheAfter(tv(s, 0), nil)
	must(t, err)
	out := tv(s, 1)
	for _, v := range []core.ValID{out, tile} {
		must(t, s.Split(v, 1, 32, true), s.Split(v, 0, 32, true))
	}
	must(t, s.Reorder(out, map[int]int{1: 2, 2: 1}), s.Reorder(tile, map[int]int{0: 1, 1: 2, 2: 0}))
	for _, v := range []core.ValID{out, tile} {
		must(t, s.Split(v, 2, 4, true))
		must(t, s.Parallelize(v, 0, schedule.BIDx), s.Parallelize(v, 1, schedule.BIDy), s.Parallelize(v, 3, schedule.TIDy), s.Parallelize(v, 4, schedule.TIDx))
	}
	must(t, s.SetMemory(tile, schedule.Shared), s.InlineAt(tile, 2, false))
	return tile
}

// swizzleTile stores the tile by its rows and columns, not as its loops run.
func swizzleTile(t *testing.T, s *schedule.Scheduled) {
	tile := transposeTile(t, s)
	loop := s.Loop(tile)
	rows := s.Fusion().Transform(s.Fusion().Axis(loop[2]).Def).In[0]
	must(t, s.SetAllocation(tile, []core.AxisID{loop[0], loop[1], rows, loop[4]}, nil), s.SwizzleXOR(tile, 2, 3))
}

// transposeChunks reads columns of chunks of 16 bytes from shared memory.
func transposeChunks(t *testing.T, s *schedule.Scheduled) core.ValID {
	tile, err := s.CacheAfter(tv(s, 0), nil)
	must(t, err)
	column, err := s.CacheAfter(tile, nil)
	must(t, err)
	out := tv(s, 1)
	before, err := s.CacheBefore(out)
	must(t, err, s.SetMemory(tile, schedule.Shared), s.Reorder(column, map[int]int{0: 1}))
	for _, v := range []core.ValID{tile, column, before, out} {
		must(t, s.Merge(v, 0, 1), s.Parallelize(v, 0, schedule.TIDx))
	}
	for _, v := range []core.ValID{tile, column, out} {
		must(t, s.Parallelize(v, 1, schedule.Vectorize))
	}
	return tile
}

func swizzleChunks(t *testing.T, s *schedule.Scheduled) {
	tile := transposeChunks(t, s)
	must(t, s.SetAllocation(tile, s.Fusion().Val(tile).Domain.Logical, nil), s.SwizzleXOR(tile, 0, 1))
}

var aligned = Options{
	Promise:   func(h kir.HostValue) scalar.Facts { return scalar.Facts{Lo: 0, Hi: 1 << 30, Divisor: 1} },
	Alignment: func(core.ValID) int { return 16 },
}

// A column of a tile lies in one bank, unless the tile is swizzled.
func TestBankConflicts(t *testing.T) {
	plain := func(f func(*testing.T, *schedule.Scheduled) core.ValID) func(*testing.T, *schedule.Scheduled) {
		return func(t *testing.T, s *schedule.Scheduled) { f(t, s) }
	}
	for _, x := range []struct {
		name, text string
		schedule   func(*testing.T, *schedule.Scheduled)
		size       []int64
		degree     int64
	}{
		{"floats", tileText, plain(transposeTile), []int64{40, 70}, 32},
		{"swizzled floats", tileText, swizzleTile, []int64{40, 70}, 1},
		{"vectors", chunkText, plain(transposeChunks), []int64{16, 8, 4}, 8},
		{"swizzled vectors", chunkText, swizzleChunks, []int64{16, 8, 4}, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			x.schedule(t, s)
			require.NoError(t, s.Verify())
			inputs := fusionfuzz.Inputs(f, 7, x.size)
			k, err := checkWith(s, f, inputs, aligned)
			require.NoError(t, err, "%v", k)
			_, report, err := (&trial.Trial{Scheduled: s, Kernel: k, Inputs: inputs}).Simulate(sim.Options{})
			require.NoError(t, err)
			require.Equal(t, x.degree, report.Counters.BankConflicts)
		})
	}
}

// A swizzle must leave what one instruction moves together.
func TestSwizzleOfVectors(t *testing.T) {
	s := parsed(t, chunkText)
	tile := transposeChunks(t, s)
	must(t, s.SetAllocation(tile, s.Fusion().Val(tile).Domain.Logical, nil), s.SwizzleXOR(tile, 0, 2))
	_, err := lowered(s, aligned)
	require.ErrorContains(t, err, "is vectorized, but elements of it or of what it copies are not known to be next to each other in memory")
}
