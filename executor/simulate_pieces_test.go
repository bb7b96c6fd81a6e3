package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
)

// batchNorm and batchNormBackward are of images whose channels lie outside of the dimensions
// of an image in memory, and inside of the images.
const (
	batchNorm = `%0 = tensor bf16 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = cast %0 dtype=f32
%4, %5, %6 = welford %3 dims=[0, 2, 3]
%7 = broadcast %4 is_broadcast_dim=[true, false, true, true]
%8 = sub %3, %7
$0 = i.mul %0.2, %0.3, %0.0 : index
$1 = cast $0 : f64
$2 = sub $1, 0:f64 : f64
$3 = maximum $2, 0:f64 : f64
$4 = reciprocal $3 : f64
%9 = mul %5, $4
%10 = add %9, 1e-05:f64
%11 = rsqrt %10
%12 = broadcast %11 is_broadcast_dim=[true, false, true, true]
%13 = mul %8, %12
%14 = cast %1 dtype=f32
%15 = broadcast %14 is_broadcast_dim=[true, false, true, true]
%16 = mul %13, %15
%17 = cast %2 dtype=f32
%18 = broadcast %17 is_broadcast_dim=[true, false, true, true]
%19 = add %16, %18
%20 = cast %19 dtype=bf16
output %20
`
	batchNormBackward = `%0 = tensor bf16 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%1 = tensor bf16 [-1, -1, -1, -1] contiguity=[yes, yes, yes, yes]
%2 = tensor f32 [-1] contiguity=[yes]
%3 = tensor f32 [-1] contiguity=[yes]
%4 = tensor f32 [-1] contiguity=[yes]
%5 = mul %2, %4
%6 = broadcast %5 is_broadcast_dim=[true, false, true, true]
%7 = cast %0 dtype=f32
%8 = sum %7 dims=[0, 2, 3] keepdim=false dtype=f32
$0 = i.mul %1.3, %1.2, %1.0 : index
%9 = div %8, $0
%10 = broadcast %9 is_broadcast_dim=[true, false, true, true]
%11 = sub %7, %10
%12 = cast %1 dtype=f32
%13 = broadcast %3 is_broadcast_dim=[true, false, true, true]
%14 = sub %12, %13
%15 = broadcast %4 is_broadcast_dim=[true, false, true, true]
%16 = mul %14, %15
%17 = mul %7, %16
%18 = sum %17 dims=[0, 2, 3] keepdim=false dtype=f32
%19 = div %18, $0
%20 = broadcast %19 is_broadcast_dim=[true, false, true, true]
%21 = mul %16, %20
%22 = sub %11, %21
%23 = mul %6, %22
%24 = cast %23 dtype=bf16
output %24
output %18
output %8
`
)

// TestSimulatePieces reduces rows of pieces, of which each image has one: lengths that vectors
// divide or not, single pieces, and rows without elements.
func TestSimulatePieces(t *testing.T) {
	for _, images := range [][]int64{{2, 3, 4, 4}, {5, 2, 7, 7}, {3, 4, 1, 9}, {1, 5, 8, 8}, {6, 1, 4, 4}, {40, 2, 16, 18}, {70, 2, 14, 14}, {9, 3, 1, 1}, {0, 3, 4, 4}, {3, 2, 0, 4}, {700, 2, 6, 6}, {300, 1, 12, 12}} {
		channels := []int64{images[1]}
		for text, sizes := range map[string][][]int64{batchNorm: {images, channels, channels}, batchNormBackward: {images, images, channels, channels, channels}} {
			f, err := core.Parse(text)
			require.NoError(t, err)
			f.Freeze()
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes...)}
			p := prepare(c)
			want, wantErr := f.Eval(p.arrays, p.scalars, random)
			e := executorOf(t, f)
			for candidate := range 2 {
				got, _, err := p.runWith(t, e, executor.Options{Simulate: true, Candidate: candidate}, random)
				ok, err := judge(t, c, want, wantErr, got, err)
				require.NoError(t, err, images)
				require.True(t, ok)
			}
		}
	}
}
