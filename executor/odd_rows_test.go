package executor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// rowPrograms reduce rows of x, %0, and most need them whole for each element of the result: D is the type of x, O that
// of the result. Those of one operand more have y, %1, of one element for each, or weights.
var rowPrograms = []struct{ name, inputs, text string }{
	{"softmax", "", "%2 = cast %0 dtype=f32\n%31 = max %2 dims=[DIM] keepdim=false\n%3 = broadcast %31 is_broadcast_dim=[LAST]\n%4 = sub %2, %3\n%5 = exp %4\n%32 = sum %5 dims=[DIM] keepdim=false dtype=f32\n%6 = broadcast %32 is_broadcast_dim=[LAST]\n%7 = truediv %5, %6\n%8 = cast %7 dtype=O\n"},
	{"norm", "weights", "%2 = cast %0 dtype=f32\n%3, %4, %20 = welford %2 dims=[DIM]\n%5 = broadcast %3 is_broadcast_dim=[LAST]\n%6 = sub %2, %5\n%18 = cast %1 dtype=f32\n%9 = broadcast %18 is_broadcast_dim=[FIRST]\n%10 = mul %6, %9\n%8 = cast %10 dtype=O\n"},
	{"norm of a sum", "y", "%2 = cast %0 dtype=f32\n%18 = cast %1 dtype=f32\n%3 = add %2, %18\n%4 = mul %3, %3\n%31 = sum %4 dims=[DIM] keepdim=false dtype=f32\n%5 = broadcast %31 is_broadcast_dim=[LAST]\n%6 = add %5, 0.5:f64\n%7 = rsqrt %6\n%9 = mul %3, %7\n%8 = cast %9 dtype=O\n"},
	{"backward of softmax", "y", "%2 = cast %0 dtype=f32\n%18 = cast %1 dtype=f32\n%3 = mul %2, %18\n%31 = sum %3 dims=[DIM] keepdim=false dtype=f32\n%4 = broadcast %31 is_broadcast_dim=[LAST]\n%5 = sub %18, %4\n%6 = mul %5, %2\n%8 = cast %6 dtype=O\n"},
	{"sum", "", "%2 = cast %0 dtype=f32\n%3 = abs %2\n%4 = sum %3 dims=[DIM] keepdim=false dtype=f32\n%8 = cast %4 dtype=O\n"},
	{"largest of a product", "y", "%2 = cast %0 dtype=f32\n%18 = cast %1 dtype=f32\n%3 = mul %2, %18\n%4 = max %3 dims=[DIM] keepdim=false\n%8 = cast %4 dtype=O\n"},
	{"variance", "", "%2 = cast %0 dtype=f32\n%3, %4, %20 = welford %2 dims=[DIM]\n%5 = add %3, %4\n%8 = cast %5 dtype=O\n"},
	{"scan", "", "%2 = cast %0 dtype=f32\n%3 = abs %2\n%4 = cumsum %3 dim=DIM\n%8 = cast %4 dtype=O\n"},
	{"scan of a product", "weights", "%2 = cast %0 dtype=f32\n%18 = cast %1 dtype=f32\n%9 = broadcast %18 is_broadcast_dim=[FIRST]\n%3 = mul %2, %9\n%4 = cummax %3 dim=DIM\n%8 = cast %4 dtype=O\n"},
}

// randomRows returns a program on rows of any length, most of them odd, with NaNs and infinities
// in some, that begin anywhere in memory, or are written to the memory of the input. Those with as many columns as long
// says, if it is not nil, are of a cluster on a device with small blocks.
func randomRows(t testing.TB, r *rand.Rand, long func(*rand.Rand) int64) *fusionfuzz.Case {
	t.Helper()
	p := rowPrograms[r.IntN(len(rowPrograms))]
	types := []string{"bf16", "f16", "bf16", "f32"}
	in, out := types[r.IntN(4)], types[r.IntN(4)]
	columns := []int64{1 + r.Int64N(40), 1 + 2*r.Int64N(70), 1 + r.Int64N(700), 512 + r.Int64N(300)}[r.IntN(4)]
	shape := []int64{1 + r.Int64N(30), columns}
	if r.IntN(3) == 0 {
		shape = []int64{1 + r.Int64N(5), 1 + r.Int64N(6), columns}
	}
	if long != nil {
		shape = []int64{1 + r.Int64N(4), long(r)}
		columns = shape[1]
	}
	gap, offset := int64(0), int64(0)
	if r.IntN(5) == 0 {
		gap = 1 + r.Int64N(2)
	}
	if r.IntN(5) == 0 {
		offset = 1 + r.Int64N(3)
	}
	dims, contiguity := strings.TrimSuffix(strings.Repeat("-1, ", len(shape)), ", "), strings.Repeat("yes, ", len(shape)-1)+"yes"
	if gap > 0 {
		contiguity = strings.Repeat("no, ", len(shape)-1) + "yes"
	}
	given := [][]int64{shape}
	text := fmt.Sprintf("%%0 = tensor D [%s] contiguity=[%s]\n", dims, contiguity)
	switch p.inputs {
	case "weights":
		text += "%1 = tensor bf16 [-1] contiguity=[yes]\n"
		given = append(given, shape[len(shape)-1:])
	case "y":
		text += fmt.Sprintf("%%1 = tensor %s [%s] contiguity=[%s]\n", types[r.IntN(4)], dims, strings.Repeat("yes, ", len(shape)-1)+"yes")
		given = append(given, shape)
	}
	text += p.text
	if in == out && strings.Contains(p.text, "LAST") && r.IntN(4) == 0 {
		text += "output %8 alias %0\n"
	} else {
		text += "output %8\n"
	}
	last, first := strings.Repeat("false, ", len(shape)-1)+"true", strings.Repeat("true, ", len(shape)-1)+"false"
	text = strings.NewReplacer("=O\n", "="+out+"\n", " D ", " "+in+" ", "LAST", last, "FIRST", first, "DIM", fmt.Sprint(len(shape)-1)).Replace(text)
	f, err := core.Parse(text)
	require.NoError(t, err, text)
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
	x := &c.Inputs[0]
	for i := range x.Array.F {
		if row := int64(i) / columns; row%4 == 2 && p.inputs != "" {
			x.Array.F[i] = []float64{math.NaN(), math.Inf(1)}[row/4%2]
		}
	}
	step := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		x.Strides[d] = step
		if step *= shape[d]; d == len(shape)-1 {
			step += gap
		}
	}
	x.Storage, x.Offset = step+offset, offset
	return c
}

// TestDeviceRows has random programs on rows planned for a device: those that begin where memory
// is aligned, in another place of each row, and those that begin with a sector of it, among them. DEVICE_ROWS is how many, DEVICE_SEED says which.
func TestDeviceRows(t *testing.T) {
	n, sectors := setting("DEVICE_ROWS", 150), 0
	aligned := checkRows(t, n, nil, "scheduler_verbose", func(s *stage, r *rand.Rand) (candidate int) {
		s.driver.Present[0].Processors = 1 + r.IntN(3)
		return []int{0, 0, 0, 1}[r.IntN(4)]
	}, func(choice string) bool {
		if strings.Contains(choice, "from where sectors") {
			sectors++
		}
		return strings.Contains(choice, "from where memory is aligned")
	})
	require.Greater(t, aligned, n/6)
	t.Log(sectors)
	require.Greater(t, sectors, n/50)
}

// TestDeviceLongRows is the same of rows that are in registers of clusters. DEVICE_LONG_ROWS is how many.
func TestDeviceLongRows(t *testing.T) {
	columns := func(r *rand.Rand) int64 { return 8192 + r.Int64N(16384) }
	aligned := checkRows(t, setting("DEVICE_LONG_ROWS", 12), columns, "scheduler_params", smallBlocks, func(choice string) bool {
		return strings.Contains(choice, "from where memory is aligned") && strings.Contains(choice, "in each of")
	})
	require.Positive(t, aligned)
}

// TestDeviceSharedRows is the same of rows of whole vectors that are in shared memory, where steps begin with lines of the
// second cache, or with rows that do. DEVICE_SHARED_ROWS is how many.
func TestDeviceSharedRows(t *testing.T) {
	shared, columns := 0, func(r *rand.Rand) int64 {
		whole := []int64{8, 64}[r.IntN(2)]
		return (8200 + r.Int64N(16384)) / whole * whole
	}
	lines := checkRows(t, setting("DEVICE_SHARED_ROWS", 12), columns, "scheduler_params", smallBlocks, func(choice string) bool {
		if strings.Contains(choice, "in shared memory") {
			shared++
		}
		return strings.Contains(choice, "from where lines")
	})
	require.Positive(t, lines)
	require.Greater(t, shared, lines)
}

func smallBlocks(s *stage, r *rand.Rand) (candidate int) {
	s.driver.Present[0].Processors = 1 + r.IntN(3)
	s.driver.Present[0].ThreadsPerBlock = 256
	return 0
}

// checkRows checks n random programs, each on a device that prepare sets up and by the candidate that
// it returns, and returns how many are of those whose choice, as it is shown, is counted.
func checkRows(t *testing.T, n int, long func(*rand.Rand) int64, shown string, prepare func(s *stage, r *rand.Rand) (candidate int), isCounted func(choice string) bool) (counted int) {
	seed := uint64(setting("DEVICE_SEED", 5))
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomRows(t, r, long)
		s := newStage(t)
		candidate := prepare(s, r)
		ok, err := s.check(s.executor(c.Fusion), c, candidate, never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if s.plan != nil {
			if choice, _ := s.plan.Inspection().Show(shown); isCounted(choice) {
				counted++
			}
		}
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
	}
	t.Log(counted)
	return counted
}
