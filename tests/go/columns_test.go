package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/segmenter"
)

// columnPrograms are fusions that fold rows and columns of what they read once, as
// rowPrograms are.
var columnPrograms = []struct {
	name, text, inputs string
}{
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
%27 = mul %5, %10
%28 = sum %27 dims=[0] keepdim=false dtype=f32
%29 = cast %28 dtype=T
%30 = sum %5 dims=[0] keepdim=false dtype=f32
%31 = cast %30 dtype=T
output %26
output %29
output %31
`, "xxwmm"},
	{"RMS norm backward", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1, -1] contiguity=[yes, yes]
%2 = tensor T [-1] contiguity=[yes]
%3 = tensor f32 [-1] contiguity=[yes]
%4 = cast %0 dtype=f32
%5 = cast %1 dtype=f32
%6 = broadcast %3 is_broadcast_dim=[false, true]
%7 = mul %5, %6
%8 = broadcast %2 is_broadcast_dim=[true, false]
%9 = cast %8 dtype=f32
%10 = mul %4, %9
%11 = mul %10, %7
%12 = sum %11 dims=[1] keepdim=false dtype=f32
%13 = mul %12, 0.125:f64
%14 = broadcast %13 is_broadcast_dim=[false, true]
%15 = mul %7, %14
%16 = sub %10, %15
%17 = mul %16, %6
%18 = cast %17 dtype=T
%19 = mul %4, %7
%20 = sum %19 dims=[0] keepdim=false dtype=f32
%21 = cast %20 dtype=T
output %18
output %21
`, "xxwm"},
	{"sums both ways", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = max %1 dims=[0] keepdim=false dtype=null
%3 = sum %1 dims=[1] keepdim=false dtype=f32
%4 = sum %1 dims=[0] keepdim=false dtype=f32
%5 = neg %2
output %3
output %4
output %5
`, "x"},
	{"variance of columns of what rows give", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = sum %1 dims=[1] keepdim=false dtype=f32
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
%5, %6, %7 = welford %4 dims=[0]
%8 = cast %4 dtype=T
output %5
output %6
output %8
`, "x"},
}

// TestRowsAndColumns: what is folded along rows and along columns is one kernel, which is
// right for rows of all lengths that threads hold, and for any number of them.
func TestRowsAndColumns(t *testing.T) {
	lengths := []int64{2, 3, 32, 33, 127, 256, 1000}
	if !testing.Short() {
		lengths = append(lengths, 1, 7, 64, 1023, 1024, 2050, 4096, 4098)
	}
	for _, p := range columnPrograms {
		for k, length := range lengths {
			for j, name := range []string{"bf16", "f32", "f16"} {
				if testing.Short() && (k+j)%3 != 0 {
					continue
				}
				rows := []int64{3, 37, 8}[(k+j)%3]
				t.Run(fmt.Sprintf("%s %d %s", p.name, length, name), func(t *testing.T) {
					kernels := rowKernel(t, p.text, p.inputs, name, rows, length)
					if length > 1 {
						require.Len(t, kernels, 1)
						require.Equal(t, "inner_outer_persistent", kernels[0].Scheduler)
					}
					for _, c := range kernels {
						require.Equal(t, segmenter.Kernel, c.Kind)
						if k%2 > 0 { // blocks have several rows at a time where they are few
							c.device.Processors = 2
						}
						c.check(t)
					}
				})
			}
		}
	}
}

// TestRowsAndColumnsOfSpecialNumbers: rows that go through shared memory with NaN and
// infinities, beside a row that ends within a vector, are those that the evaluator says.
func TestRowsAndColumnsOfSpecialNumbers(t *testing.T) {
	const rows, length = 29, 68
	for _, p := range columnPrograms {
		for _, c := range rowKernel(t, p.text, p.inputs, "f32", rows, length) {
			x := c.inputs[slices.IndexFunc(c.inputs, func(in fusionfuzz.Input) bool { return in.Array != nil && in.Array.Len() == rows*length })].Array
			for i, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x.F[length*9*i+5*i] = special
			}
			x.F[length*rows-1], x.F[length*(rows-1)] = math.Inf(1), math.Inf(-1)
			c.evaluate(t)
			t.Run(p.name, c.check)
		}
	}
}

// outerPrograms are fusions over columns whose elements are needed after they are reduced.
var outerPrograms = []struct {
	name, text, inputs string // w: a number a column
}{
	{"softmax of columns", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = cast %0 dtype=f32
%2 = max %1 dims=[0] keepdim=false dtype=null
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = sub %1, %3
%5 = exp %4
%6 = sum %5 dims=[0] keepdim=false dtype=f32
%7 = broadcast %6 is_broadcast_dim=[true, false]
%8 = truediv %5, %7
%9 = cast %8 dtype=T
output %9
`, "x"},
	{"batch norm", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4, %5, %6 = welford %3 dims=[0]
%7 = broadcast %4 is_broadcast_dim=[true, false]
%8 = sub %3, %7
%9 = mul %5, 0.125:f64
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[true, false]
%13 = mul %8, %12
%14 = broadcast %1 is_broadcast_dim=[true, false]
%15 = mul %13, %14
%16 = broadcast %2 is_broadcast_dim=[true, false]
%17 = add %15, %16
%18 = cast %17 dtype=T
%19 = mul %2, 0.75:f64
%20 = add %19, %4
output %18
output %4
output %11
output %20
`, "xww"},
	{"batch norm backward", `%0 = tensor T [-1, -1] contiguity=[yes, yes]
%1 = tensor T [-1, -1] contiguity=[yes, yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = tensor f32 [-1] contiguity=[yes]
%4 = cast %0 dtype=f32
%5 = cast %1 dtype=f32
%6 = broadcast %2 is_broadcast_dim=[true, false]
%7 = sub %5, %6
%8 = broadcast %3 is_broadcast_dim=[true, false]
%9 = mul %7, %8
%10 = mul %4, %9
%11 = sum %10 dims=[0] keepdim=false dtype=f32
%12 = sum %4 dims=[0] keepdim=false dtype=f32
%13 = mul %11, 0.125:f64
%14 = mul %12, 0.125:f64
%15 = broadcast %13 is_broadcast_dim=[true, false]
%16 = mul %9, %15
%17 = sub %4, %16
%18 = broadcast %14 is_broadcast_dim=[true, false]
%19 = sub %17, %18
%20 = broadcast %3 is_broadcast_dim=[true, false]
%21 = mul %19, %20
%22 = cast %21 dtype=T
output %22
output %11
output %12
`, "xxww"},
}

// TestColumns: what is computed over columns is one kernel, which is right for columns of
// all lengths, in registers of a thread, a block and several blocks, and loaded again.
func TestColumns(t *testing.T) {
	shapes := [][2]int64{{1, 8}, {3, 5}, {7, 200}, {16, 64}, {33, 12}, {300, 7}, {200, 66}, {1500, 8}}
	if !testing.Short() {
		shapes = append(shapes, [2]int64{40, 4200}, [2]int64{2500, 10}, [2]int64{0, 6}, [2]int64{60000, 2})
	}
	for _, p := range outerPrograms {
		for k, shape := range shapes {
			for j, name := range []string{"bf16", "f32", "f16"} {
				if (k+j)%3 != 0 && (testing.Short() || shape[0]*shape[1] > 10000) {
					continue
				}
				t.Run(fmt.Sprintf("%s %v %s", p.name, shape, name), func(t *testing.T) {
					kernels := rowKernel(t, rowText(p.text, name, shape[0]), p.inputs, name, shape[0], shape[1])
					if shape[0] > 1 {
						require.Len(t, kernels, 1)
						require.Equal(t, "outer_persistent", kernels[0].Scheduler)
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
