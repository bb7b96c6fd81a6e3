package executor_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// readings are fusions of KIND that read an input in several ways, or parts of one, with sizes of the inputs.
var readings = []struct {
	name, text string
	sizes      func(r *rand.Rand) [][]int64
}{
	{"a token beside the one before it", `%0 = tensor KIND [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor KIND [-1] contiguity=[yes]
%2 = cast %0 dtype=f32
%3 = pad %2 pad_widths=[0, 0, 1, 0, 0, 0] value=0:f64
%4 = slice %3 start_indices=[0, 0, 0] end_indices=[%0.0, %0.1, %0.2] strides=[1, 1, 1] manual_normalization=true
%5 = sub %4, %2
%6 = cast %1 dtype=f32
%7 = broadcast %6 is_broadcast_dim=[true, true, false]
%8 = mul %5, %7
%9 = add %2, %8
%10 = cast %9 dtype=KIND
output %10
`, func(r *rand.Rand) [][]int64 {
		a, b, n := below(r, 4), below(r, 9), columns(r)
		return [][]int64{{a, b, n}, {n}}
	}},
	{"gradients of halves", `%0 = tensor KIND [-1, -1] contiguity=[yes, yes]
%1 = tensor KIND [-1, -1] contiguity=[yes, yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
$0 = i.floordiv %1.1, 2 : index
$1 = i.min %1.1, $0 : index
%4 = slice %3 start_indices=[0, $1] end_indices=[%1.0, %1.1] strides=[1, 1] manual_normalization=true
%5 = mul %2, %4
%6 = slice %3 start_indices=[0, 0] end_indices=[%1.0, $1] strides=[1, 1] manual_normalization=true
%7 = sigmoid %6
%8 = sub 1:f64, %7
%9 = mul %6, %8
%10 = add 1:f64, %9
%11 = mul %7, %10
%12 = mul %5, %11
%13 = mul %2, %6
%14 = mul %13, %7
%15 = cat [%12, %14] dim=1 manual_padding=false
%16 = cast %15 dtype=KIND
output %16
`, func(r *rand.Rand) [][]int64 {
		m, n := below(r, 9), columns(r)
		return [][]int64{{m, n}, {m, 2 * n}}
	}},
	{"a causal convolution", `%0 = tensor KIND [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = tensor KIND [-1, -1] contiguity=[yes, yes]
%2 = cast %0 dtype=f32
%3 = pad %2 pad_widths=[0, 0, 3, 0, 0, 0] value=0:f64
%4 = slice %3 start_indices=[0, 0, 0] end_indices=[%0.0, %0.1, %0.2] strides=[1, 1, 1] manual_normalization=true
%5 = cast %1 dtype=f32
%6 = select %5 index=0 dim=0
%7 = broadcast %6 is_broadcast_dim=[true, true, false]
%8 = mul %4, %7
$0 = i.add 1, %0.1 : index
%9 = slice %3 start_indices=[0, 1, 0] end_indices=[%0.0, $0, %0.2] strides=[1, 1, 1] manual_normalization=true
%10 = select %5 index=1 dim=0
%11 = broadcast %10 is_broadcast_dim=[true, true, false]
%12 = mul %9, %11
%13 = add %8, %12
$1 = i.add %0.1, 2 : index
%14 = slice %3 start_indices=[0, 2, 0] end_indices=[%0.0, $1, %0.2] strides=[1, 1, 1] manual_normalization=true
%15 = select %5 index=2 dim=0
%16 = broadcast %15 is_broadcast_dim=[true, true, false]
%17 = mul %14, %16
%18 = add %13, %17
$2 = i.add %0.1, 3 : index
%19 = slice %3 start_indices=[0, 3, 0] end_indices=[%0.0, $2, %0.2] strides=[1, 1, 1] manual_normalization=true
%20 = select %5 index=3 dim=0
%21 = broadcast %20 is_broadcast_dim=[true, true, false]
%22 = mul %19, %21
%23 = add %18, %22
%24 = silu %23
%25 = cast %24 dtype=KIND
output %25
`, func(r *rand.Rand) [][]int64 {
		a, b, n := below(r, 4), 3+below(r, 9), columns(r)
		return [][]int64{{a, b, n}, {4, n}}
	}},
	{"turned pairs", `%0 = tensor KIND [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%1 = tensor KIND [-1, -1] contiguity=[yes, yes]
%2 = tensor KIND [-1, -1] contiguity=[yes, yes]
%3 = cast %0 dtype=f32
$0 = i.floordiv %0.3, 2 : index
%4 = reshape %3 new_shape=[%0.0, %0.1, %0.2, $0, 2]
%5 = select %4 index=0 dim=4
%6 = cast %1 dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true, false]
%8 = broadcast %7 is_broadcast_dim=[true, false, false, false]
%9 = mul %5, %8
%10 = select %4 index=1 dim=4
%11 = cast %2 dtype=f32
%12 = broadcast %11 is_broadcast_dim=[false, true, false]
%13 = broadcast %12 is_broadcast_dim=[true, false, false, false]
%14 = mul %10, %13
%15 = sub %9, %14
%16 = broadcast %15 is_broadcast_dim=[false, false, false, false, true]
%17 = broadcast %12 is_broadcast_dim=[true, false, false, false]
%18 = mul %5, %17
%19 = broadcast %7 is_broadcast_dim=[true, false, false, false]
%20 = mul %10, %19
%21 = add %18, %20
%22 = broadcast %21 is_broadcast_dim=[false, false, false, false, true]
%23 = cat [%16, %22] dim=4 manual_padding=false
%24 = reshape %23 new_shape=[%0.0, %0.1, %0.2, %0.3]
%25 = cast %24 dtype=KIND
output %25
`, func(r *rand.Rand) [][]int64 {
		a, b, c, n := below(r, 3), below(r, 5), below(r, 3), columns(r)
		return [][]int64{{a, b, c, 2 * n}, {b, n}, {b, n}}
	}},
	{"turned heads that are normalised", `%0 = tensor KIND [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%1 = tensor KIND [-1] contiguity=[yes]
%2 = tensor KIND [-1, -1] contiguity=[yes, yes]
%3 = tensor KIND [-1, -1] contiguity=[yes, yes]
%4 = cast %0 dtype=f32
%5 = mul %4, %4
%6 = sum %5 dims=[3] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, false, false, true]
%8 = truediv %7, %0.3
%9 = add %8, 1e-06:f64
%10 = rsqrt %9
%11 = mul %4, %10
%12 = cast %1 dtype=f32
%13 = broadcast %12 is_broadcast_dim=[true, true, true, false]
%14 = mul %11, %13
%15 = permute %14 dims=[0, 2, 1, 3]
%16 = cast %2 dtype=f32
%17 = broadcast %16 is_broadcast_dim=[true, true, false, false]
%18 = mul %15, %17
$0 = i.floordiv %0.3, 2 : index
$1 = i.min %0.3, $0 : index
%19 = slice %15 start_indices=[0, 0, 0, $1] end_indices=[%0.0, %0.2, %0.1, %0.3] strides=[1, 1, 1, 1] manual_normalization=true
%20 = neg %19
%21 = slice %15 start_indices=[0, 0, 0, 0] end_indices=[%0.0, %0.2, %0.1, $1] strides=[1, 1, 1, 1] manual_normalization=true
%22 = cat [%20, %21] dim=3 manual_padding=false
%23 = cast %3 dtype=f32
%24 = broadcast %23 is_broadcast_dim=[true, true, false, false]
%25 = mul %22, %24
%26 = add %18, %25
%27 = cast %26 dtype=KIND
output %27
`, func(r *rand.Rand) [][]int64 {
		a, b, c, n := below(r, 3), below(r, 5), below(r, 3), 2*columns(r)
		return [][]int64{{a, b, c, n}, {n}, {b, n}, {b, n}}
	}},
	{"softmax of short columns", `%0 = tensor KIND [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%1 = cast %0 dtype=f32
%2 = max %1 dims=[1] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[false, true, false, false]
%4 = sub %1, %3
%5 = exp %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true, false, false]
%8 = truediv %5, %7
%9 = cast %8 dtype=KIND
output %9
`, func(r *rand.Rand) [][]int64 {
		return [][]int64{{below(r, 3), 15 + below(r, 20), below(r, 5), columns(r)}}
	}},
	{"pools of pixels", `%0 = tensor KIND [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes] stride_order=[3, 0, 2, 1]
%1 = cast %0 dtype=f32
$0 = i.floordiv %0.2, 2 : index
$1 = i.floordiv %0.3, 2 : index
%2 = reshape %1 new_shape=[%0.0, %0.1, $0, 2, $1, 2]
%3 = sum %2 dims=[3, 5] keepdim=false dtype=f32
%4 = mul %3, 0.25:f64
%5 = cast %4 dtype=KIND
%6 = stride_order %5 stride_order=[3, 0, 2, 1]
output %6
`, func(r *rand.Rand) [][]int64 {
		return [][]int64{{below(r, 4), columns(r), 2 * below(r, 9), 2 * below(r, 9)}}
	}},
	{"a unit of pairs", `%0 = tensor KIND [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
$0 = i.floordiv %0.1, 2 : index
%2 = reshape %1 new_shape=[%0.0, $0, 2]
%3 = select %2 index=0 dim=2
%4 = minimum %3, 7:f64
%5 = silu %4
%6 = select %2 index=1 dim=2
%7 = clamp %6, -7:f64, 7:f64
%8 = add %7, 1:f64
%9 = mul %5, %8
%10 = cast %9 dtype=KIND
output %10
`, func(r *rand.Rand) [][]int64 {
		return [][]int64{{below(r, 9), 2 * columns(r)}}
	}},
}

func below(r *rand.Rand, n int64) int64 { return 1 + r.Int64N(n) }

// columns is how many elements lie next to each other: mostly whole vectors of them.
func columns(r *rand.Rand) int64 {
	return []int64{1, 5, 8, 16, 24, 32, 33, 64, 130, 256}[r.IntN(10)]
}

// TestDeviceReadings compares kernels of such fusions with the evaluator. DEVICE_READINGS is how many programs, DEVICE_SEED says which.
func TestDeviceReadings(t *testing.T) {
	n := setting("DEVICE_READINGS", 48)
	seed := uint64(setting("DEVICE_SEED", 5))
	chosen := map[string]int{" tiles\n": 0, "x1 threads, 24 steps": 0}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		of := readings[k%len(readings)]
		f, err := core.Parse(strings.ReplaceAll(of.text, "KIND", []string{"bf16", "f32", "f16"}[r.IntN(3)]))
		require.NoError(t, err)
		f.Freeze()
		sizes := of.sizes(r)
		c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), sizes...)}
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		ok, err := s.check(s.executor(f), c, 0, never)
		require.True(t, ok, "program %d, %s %v: %v", k, of.name, sizes, err)
		if t.Failed() {
			t.Fatalf("program %d, %s %v", k, of.name, sizes)
		}
		s.tally(chosen)
	}
	t.Log(chosen)
	for kind, count := range chosen {
		require.Positive(t, count, kind)
	}
}

// TestReadingsInVectors: what is read in several ways, in parts, or from rows that its readers squeeze, and what is stored
// in an order that the definition says, moves in vectors, each reading in those of its own.
func TestReadingsInVectors(t *testing.T) {
	for _, test := range []struct {
		of     int // of readings
		sizes  [][]int64
		moves  string
		number int
	}{
		{0, [][]int64{{2, 8, 64}, {64}}, "moveReadOnly<16>(", 3},
		{1, [][]int64{{4, 64}, {4, 128}}, "moveReadOnly<4>(", 4},
		{2, [][]int64{{2, 8, 64}, {4, 64}}, "moveReadOnly<16>(", 8},
		{6, [][]int64{{2, 64, 8, 8}}, "move<16>(&p.", 1},
	} {
		of := readings[test.of]
		t.Run(of.name, func(t *testing.T) {
			s, f := newStage(t), parsed(t, strings.ReplaceAll(of.text, "KIND", "bf16"))
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 3, test.sizes...)}
			ok, err := s.check(s.executor(f), c, 0, never)
			require.True(t, ok, "%v", err)
			require.Len(t, s.driver.Compiles(), 1)
			source := s.driver.Compiles()[0].Source
			source = source[strings.Index(source, "__global__"):]
			require.Equal(t, test.number, strings.Count(source, test.moves), source)
			require.NotContains(t, source, "= readOnly(&")
		})
	}
}
