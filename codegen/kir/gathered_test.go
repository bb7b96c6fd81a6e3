package kir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// Vectors have an element of those that are read each, and begin less than a step before the first one.
func TestGatheredBy(t *testing.T) {
	taken := 0
	for _, dt := range []dtype.Type{dtype.Bool, dtype.BFloat16, dtype.Float, dtype.Double} {
		size := dt.Size()
		for width := 1; width*size <= maxVectorBytes; width *= 2 {
			for step := 0; step <= MaxStep+1; step++ {
				for past := 0; past < maxVectorBytes; past++ {
					b := &Buffer{DType: dt, Align: max(past&-past, size), Past: past}
					if past == 0 {
						b.Align = maxVectorBytes
					}
					g, ok := GatheredBy(b, width, step)
					if !ok {
						continue
					}
					taken++
					require.Equal(t, width*step*size, g.Count*g.Vector)
					require.Zero(t, past%size)
					require.Equal(t, past/size, g.Past)
					begins, inside := (past-g.Past*size)%g.Vector, map[int]bool{}
					require.Zero(t, begins, "%v past %d", dt, past)
					for i := range width {
						first := (g.Past + i*step) * size
						require.Equal(t, first/g.Vector, (first+size-1)/g.Vector)
						inside[first/g.Vector] = true
					}
					require.Len(t, inside, g.Count)
				}
			}
		}
	}
	require.Greater(t, taken, 40)
	_, ok := GatheredBy(&Buffer{DType: dtype.BFloat16, Align: 2}, 8, 2)
	require.False(t, ok, "it may begin anywhere")
}
