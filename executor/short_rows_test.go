package executor_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// shortRows are fusions of rows of KIND, of which many are short.
var shortRows = []string{
	"%1 = cast %0 dtype=f32\n%2 = sum %1 dims=[1] dtype=f32\noutput %2\n",
	"%1 = cast %0 dtype=f32\n%2 = sum %1 dims=[1] dtype=f32\n%3 = max %0 dims=[1]\noutput %2\noutput %3\n",
	"%1 = cast %0 dtype=f32\n%2, %3, %4 = welford %1 dims=[1]\noutput %2\noutput %3\n",
	"%1 = cast %0 dtype=f32\n%2 = mul %1, %1\n%3 = sum %2 dims=[1] dtype=f32\n%4 = cast %3 dtype=KIND\noutput %4\n",
	"%1 = cast %0 dtype=f32\n%2 = abs %1\n%3 = sum %2 dims=[1] dtype=f32\n%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = add %4, 1\n%6 = div %1, %5\n%7 = cast %6 dtype=KIND\noutput %7\n",
	"%1 = cumsum %0 dim=1\noutput %1\n",
	"%1 = cast %0 dtype=f32\n%2 = max %1 dims=[1]\n%3 = broadcast %2 is_broadcast_dim=[false, true]\n%4 = sub %1, %3\n%5 = exp %4\n%6 = sum %5 dims=[1] dtype=f32\n%7 = broadcast %6 is_broadcast_dim=[false, true]\n%8 = div %5, %7\n%9 = cast %8 dtype=KIND\noutput %9\n",
	"%20 = tensor KIND [-1] contiguity=[yes]\n%1 = cast %0 dtype=f32\n%2, %3, %4 = welford %1 dims=[1]\n%5 = broadcast %3 is_broadcast_dim=[false, true]\n%6 = sub %1, %5\n%7 = cast %20 dtype=f32\n%8 = broadcast %7 is_broadcast_dim=[true, false]\n%9 = mul %6, %8\n%10 = cast %9 dtype=KIND\noutput %10\n",
	"%20 = tensor KIND [-1, -1] contiguity=[yes, yes]\n%1 = cast %0 dtype=f32\n%2 = cast %20 dtype=f32\n%3 = mul %1, %2\n%4 = sum %3 dims=[1] dtype=f32\n%5 = broadcast %4 is_broadcast_dim=[false, true]\n%6 = sub %1, %5\n%7 = mul %6, %2\n%8 = cast %7 dtype=KIND\noutput %8\n",
	"%20 = tensor KIND [-1, -1] contiguity=[yes, yes]\n%21 = tensor f32 [-1] contiguity=[yes]\n%1 = cast %0 dtype=f32\n%2 = cast %20 dtype=f32\n%3 = add %1, %2\n%4 = cast %3 dtype=KIND\n%5 = cast %4 dtype=f32\n%6 = mul %5, %5\n%7 = sum %6 dims=[1] dtype=f32\n%8 = broadcast %7 is_broadcast_dim=[false, true]\n%9 = add %8, 1\n%10 = rsqrt %9\n%11 = mul %5, %10\n%12 = broadcast %21 is_broadcast_dim=[true, false]\n%13 = mul %11, %12\noutput %4\noutput %13\noutput %7\n",
}

// TestDeviceShortRows has many short rows for a device of one processor, for which blocks have more rows, and threads
// several, soon. DEVICE_SHORT_ROWS is how many programs, DEVICE_SEED says which.
func TestDeviceShortRows(t *testing.T) {
	n := setting("DEVICE_SHORT_ROWS", 60)
	seed := uint64(setting("DEVICE_SEED", 5))
	chosen := map[string]int{" rows\n": 0, ": 256 rows a block": 0, ", 1 threads a row, ": 0, ", 3 steps of ": 0, " a thread, 1 threads a row": 0, " as one piece": 0, " as one piece by way of shared memory, 2 threads a row": 0}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		kind := []string{"bf16", "f32", "f16", "f64"}[k%4]
		text := "%0 = tensor KIND [-1, -1] contiguity=[yes, yes]\n" + shortRows[r.IntN(len(shortRows))]
		f, err := core.Parse(strings.ReplaceAll(text, "KIND", kind))
		require.NoError(t, err)
		f.Freeze()
		sizes := []int64{int64(400 + r.IntN(9000)), int64(1 + r.IntN(100))}
		if r.IntN(2) == 0 {
			sizes[1] = []int64{2, 4, 8, 12, 16, 24, 32, 48, 64, int64(1 + r.IntN(20))}[r.IntN(10)]
		}
		if sizes[1] <= 8 {
			sizes[0] *= 4
		}
		given := [][]int64{sizes}
		for _, v := range f.Inputs()[1:] {
			given = append(given, sizes[2-len(f.Val(v).Domain.Logical):])
		}
		c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		ok, err := s.check(s.executor(f), c, 0, never)
		require.True(t, ok, "program %d, %v: %v\n%s", k, sizes, err, f)
		if t.Failed() {
			t.Fatalf("program %d, %v\n%s", k, sizes, f)
		}
		s.tally(chosen)
	}
	t.Log(chosen)
	for kind, count := range chosen {
		require.Positive(t, count, kind)
	}
}
