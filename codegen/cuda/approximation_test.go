package cuda_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// instructions is what the instructions of an approximation may add on a device to
// its error on the CPU, where they are exact.
const instructions = 0x1p-20

// belowNormal is what a factor below the normal numbers, which has less digits, adds to
// the error of a product: half its step times what is at most 128.
const belowNormal = 0x1p-143

// TestApproximations has all numbers of 16 bits go through each approximation of a
// function of one number, and compares with the function in double precision.
func TestApproximations(t *testing.T) {
	cuda.Slow(t)
	var numbers []float64
	for _, narrow := range []dtype.Type{dtype.BFloat16, dtype.Half} {
		for code := range 1 << 16 {
			numbers = append(numbers, dtype.LoadFloat(narrow, []byte{byte(code), byte(code >> 8)}))
		}
	}
	memory := make([]byte, 4*len(numbers))
	for i, x := range numbers {
		store(memory, i, scalar.Value{Type: dtype.Float, Re: x})
	}
	var rows []cuda.Row
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	for _, x := range cuda.Rows() {
		if x.Approximate() && len(x.Operands()) == 1 {
			k := x.Kernel()
			rows, kernels = append(rows, x), append(kernels, k)
			launches = append(launches, launchOf(t, k, len(numbers), memory, make([]byte, len(memory))))
		}
	}
	require.Len(t, rows, 8)
	require.NoError(t, build(t, kernels...).Run(launches...))
	for i, x := range rows {
		worst, at, out := 0.0, 0.0, launches[i].Buffers[1].Bytes
		for j, number := range numbers {
			want, got := x.Op().Meaning.Float.F1(number), load(dtype.Float, out, j).Re
			switch rounded := dtype.Round(dtype.Float, want); {
			case math.IsNaN(rounded) || math.IsInf(rounded, 0) || math.IsInf(got, 0):
				require.True(t, math.IsNaN(rounded) && math.IsNaN(got) || rounded == got, "%s(%v): %v, want %v", x.Op().Name, number, got, want)
			case math.Abs(want) < 0x1p-126:
				require.LessOrEqual(t, math.Abs(got-want), 0x1p-126, "%s(%v)", x.Op().Name, number)
			default:
				if e := max(math.Abs(got-want)-belowNormal, 0) / math.Abs(want); !(e <= worst) {
					worst, at = e, number
				}
			}
		}
		t.Logf("%s: 2^%.2f at %v, at most 2^%.2f", x.Op().Name, math.Log2(worst), at, math.Log2(x.Op().Approx.Error))
		require.LessOrEqual(t, worst, max(x.Op().Approx.Error-instructions, 0x1p-22), "%s(%v)", x.Op().Name, at)
	}
}
