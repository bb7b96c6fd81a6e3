package tests

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/passes"
	"nvfuser_go/segmenter"
)

// rowPrograms are fusions over rows whose elements are needed after they are reduced. T
// is the type of what lies in memory. The first input has the rows.
var rowPrograms = []struct {
	name, text string
	inputs     string // for each tensor: x has rows, w one row, m a number a row
}{
	{"softmax", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = max %1 dims=[1] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
%5 = exp %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true]
%8 = truediv %5, %7
%9 = cast %8 dtype=T
output %9
`, "x"},
	{"log softmax", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = max %1 dims=[1] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
%5 = exp %4
%6 = sum %5 dims=[1] keepdim=false dtype=f32
%7 = log %6
%8 = broadcast %7 is_broadcast_dim=[false, true]
%9 = sub %4, %8
%10 = cast %9 dtype=T
output %10
`, "x"},
	{"layer norm", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1] contiguity=[yes]
%2 = tensor T [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4, %5, %6 = welford %3 dims=[1]
%7 = broadcast %4 is_broadcast_dim=[false, true]
%8 = sub %3, %7
%9 = mul %5, 0.125:f64
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[false, true]
%13 = mul %8, %12
%14 = broadcast %1 is_broadcast_dim=[true, false]
%15 = cast %14 dtype=f32
%16 = mul %13, %15
%17 = broadcast %2 is_broadcast_dim=[true, false]
%18 = cast %17 dtype=f32
%19 = add %16, %18
%20 = cast %19 dtype=T
output %20
output %4
output %11
`, "xww"},
	{"RMS norm of a sum", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1, -1] contiguity=[yes, yes]
%2 = tensor T [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4 = cast %1 dtype=f32
%5 = add %3, %4
%6 = cast %5 dtype=T
%7 = mul %5, %5
%8 = sum %7 dims=[1] keepdim=false dtype=f32
%9 = mul %8, 0.125:f64
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[false, true]
%13 = mul %5, %12
%14 = broadcast %2 is_broadcast_dim=[true, false]
%15 = cast %14 dtype=f32
%16 = mul %13, %15
%17 = cast %16 dtype=T
output %6
output %17
`, "xxw"},
	{"softmax backward", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1, -1] contiguity=[yes, yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
%4 = mul %2, %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = sub %2, %6
%8 = mul %7, %3
%9 = cast %8 dtype=T
output %9
`, "xx"},
	{"layer norm backward", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1, -1] contiguity=[yes, yes]
%2 = tensor T [-1] contiguity=[yes]
%3 = tensor f32 [-1] contiguity=[yes]
%4 = tensor f32 [-1] contiguity=[yes]
%5 = cast %0 dtype=f32
%6 = cast %1 dtype=f32
%7 = broadcast %3 is_broadcast_dim=[false, true]
%8 = sub %6, %7
%9 = broadcast %4 is_broadcast_dim=[false, true]
%10 = mul %8, %9
%11 = broadcast %2 is_broadcast_dim=[true, false]
%12 = cast %11 dtype=f32
%13 = mul %5, %12
%14 = mul %13, %10
%15 = sum %14 dims=[1] keepdim=false dtype=f32
%16 = sum %13 dims=[1] keepdim=false dtype=f32
%17 = mul %15, 0.125:f64
%18 = mul %16, 0.125:f64
%19 = broadcast %17 is_broadcast_dim=[false, true]
%20 = mul %10, %19
%21 = sub %13, %20
%22 = broadcast %18 is_broadcast_dim=[false, true]
%23 = sub %21, %22
%24 = broadcast %4 is_broadcast_dim=[false, true]
%25 = mul %23, %24
%26 = cast %25 dtype=T
output %26
`, "xxwmm"},
	{"dropout and norm", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0, %0.1] dtype=f32
%2 = lt %1, 0.75:f64
%3 = cast %0 dtype=f32
%4 = where %2, %3, 0.0:f32
%5 = sum %4 dims=[1] keepdim=false dtype=f32
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = sub %4, %6
%8 = cast %7 dtype=T
output %8
`, "x"},
	{"gelu and softmax", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = erf %1
%3 = add %2, 1.0:f64
%4 = mul %1, %3
%5 = max %4 dims=[1] keepdim=false dtype=null
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = sub %4, %6
%8 = exp %7
%9 = sum %8 dims=[1] keepdim=false dtype=f32
%10 = broadcast %9 is_broadcast_dim=[false, true]
%11 = truediv %8, %10
%12 = cast %11 dtype=T
output %12
`, "x"},
}

// rowText returns a program for a type in memory, of rows of a length. What long rows of
// narrow types add up to is stored as it is: rounded, it may differ in the last digit.
func rowText(text, t string, length int64) string {
	if length > 33 {
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			if strings.Contains(line, "= cast ") && strings.HasSuffix(line, " dtype=T\n") {
				lines[i] = strings.Replace(strings.TrimSuffix(line, " dtype=T\n"), "= cast ", "= set ", 1) + "\n"
			}
		}
		text = strings.Join(lines, "")
	}
	if t == "f32" { // which needs no cast
		var b strings.Builder
		for _, line := range strings.SplitAfter(text, "\n") {
			b.WriteString(strings.Replace(line, "= cast ", "= set ", 1))
		}
		text = strings.ReplaceAll(b.String(), " dtype=f32\n", "\n")
		text = strings.ReplaceAll(text, " dtype=T\n", "\n")
		text = strings.ReplaceAll(text, "keepdim=false\n", "keepdim=false dtype=f32\n")
		text = strings.ReplaceAll(text, "shape=[%0.0, %0.1]\n", "shape=[%0.0, %0.1] dtype=f32\n")
	}
	return strings.ReplaceAll(text, "T", t)
}

// rowKernel returns the one kernel of a program for so many rows of a length.
func rowKernel(t *testing.T, text, inputs, dtypeName string, rows, length int64) []*blockKernel {
	f, err := core.Parse(rowText(text, dtypeName, length))
	require.NoError(t, err)
	f.Freeze()
	if f, _, err = passes.Run(f, false); err != nil {
		t.Fatal(err)
	}
	var values []core.InputValue
	for i, v := range f.Inputs() {
		sizes := map[byte][]int64{'x': {rows, length}, 'w': {length}, 'm': {rows}}[inputs[i]]
		values = append(values, core.InputValue{Tensor: true, DType: f.Val(v).DType, Sizes: sizes})
	}
	return blockKernels(t, f, values)
}

// TestRows: what is computed over rows is one kernel, which is right for rows of all
// lengths that threads hold.
func TestRows(t *testing.T) {
	lengths := []int64{1, 2, 3, 7, 32, 33, 127, 256, 1000, 1023}
	if !testing.Short() {
		lengths = append(lengths, 8, 64, 130, 1024, 2048, 2050, 4096, 4098, 5000, 8192)
	}
	for _, p := range rowPrograms {
		for k, length := range lengths {
			for j, name := range []string{"bf16", "f32", "f16"} {
				if testing.Short() && (k+j)%3 != 0 {
					continue
				}
				rows := []int64{3, 7, 1}[(k+j)%3]
				t.Run(fmt.Sprintf("%s %d %s", p.name, length, name), func(t *testing.T) {
					kernels := rowKernel(t, p.text, p.inputs, name, rows, length)
					if length > 1 {
						require.Len(t, kernels, 1)
						require.Equal(t, "inner_persistent", kernels[0].Scheduler)
					}
					for _, c := range kernels {
						require.Equal(t, segmenter.Kernel, c.Kind)
						c.check(t)
					}
				})
			}
		}
	}
}

// TestOneRow: a definition that says that there is one row has one kernel as well, whose
// threads share it.
func TestOneRow(t *testing.T) {
	for k, p := range rowPrograms {
		text := strings.ReplaceAll(p.text, "[-1, -1] contiguity=[yes, yes]", "[1, -1] contiguity=[none, yes]")
		name := []string{"bf16", "f32", "f16"}[k%3]
		for _, length := range []int64{2, 33, 1000, 4096, 20001} {
			t.Run(fmt.Sprintf("%s %d %s", p.name, length, name), func(t *testing.T) {
				kernels := rowKernel(t, text, p.inputs, name, 1, length)
				require.Len(t, kernels, 1)
				require.Equal(t, "inner_persistent", kernels[0].Scheduler)
				kernels[0].check(t)
			})
		}
	}
}

// TestRowsOfSpecialNumbers: rows with NaN and infinities are those that the evaluator says.
func TestRowsOfSpecialNumbers(t *testing.T) {
	for _, p := range rowPrograms {
		for _, c := range rowKernel(t, p.text, p.inputs, "f32", 6, 37) {
			x := c.inputs[slices.IndexFunc(c.inputs, func(in fusionfuzz.Input) bool { return in.Array != nil && in.Array.Len() == 6*37 })].Array
			for i, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x.F[37*(i+1)+5*i] = special
			}
			for i := range 37 {
				x.F[37*4+i] = math.Inf(-1)
			}
			x.F[37*5], x.F[37*5+1] = math.Inf(1), math.Inf(-1)
			c.evaluate(t)
			t.Run(p.name, c.check)
		}
	}
}
