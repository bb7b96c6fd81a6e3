package space

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/schedulers/scheduler"
)

// segmentOf returns c as a segment.
func segmentOf(t *testing.T, c *fusionfuzz.Case) *scheduler.Segment {
	t.Helper()
	_, _, values := fusionfuzz.Arguments(c.Inputs)
	bind, err := c.Fusion.Bind(values)
	require.NoError(t, err)
	g, err := scheduler.Dense(c.Fusion, bind)
	require.NoError(t, err)
	for k := range c.Inputs {
		bytes := c.Inputs[k].Offset * int64(c.Inputs[k].Array.Type.Size())
		g.Inputs[k] = scheduler.Placement{Strides: c.Inputs[k].Strides, Aligned: 1 << min(bits.TrailingZeros64(uint64(bytes)), 4)}
	}
	return g
}

// TestWidths compares the widths of random tensors with every address that their
// accesses have.
func TestWidths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide := [2]int{}
	for range 400 {
		sizes := make([]int64, 1+r.IntN(4))
		for d := range sizes {
			sizes[d] = []int64{1, 2, 3, 4, 5, 6, 8, 12, 16}[r.IntN(9)]
		}
		c := fusionfuzz.Strided(r, sizes, 1+r.IntN(3))
		g := segmentOf(t, c)
		p, err := New(g, c.Fusion.Outputs()[0].Val)
		require.NoError(t, err)
		for _, from := range append([]int{0}, p.Breaks()...) {
			for e := int64(1); e <= 16; e *= 2 {
				for isAligned, h := range []Pitch{p.PitchOf(from, e, 1), p.AlignedPitch(from, e)} {
					for k, w := range h.Widths {
						x := &p.Tensors[k]
						if w > 1 {
							wide[isAligned]++
						}
						require.LessOrEqual(t, w, e)
						if x.IsOutput || w == 1 {
							continue
						}
						checkAccesses(t, g, p, from, w, &c.Inputs[x.Place], isAligned == 1)
					}
				}
			}
		}
	}
	require.Greater(t, wide[0], 400)
	require.Greater(t, wide[1], 400)
}

// checkAccesses requires of every w points that the loops have next to each other,
// from multiples of w on, that in has neighbours there, and that the first is
// aligned. Where rows are aligned the multiples are of what is before a point in the space, and
// what is left of a row at its ends is in accesses of single elements.
func checkAccesses(t *testing.T, g *scheduler.Segment, p *Space, from int, w int64, in *fusionfuzz.Input, isAligned bool) {
	t.Helper()
	rows, columns := p.Size(0, from), p.Size(from, len(p.Order))
	for row := range rows {
		first, shift := int64(0), int64(0)
		if isAligned {
			shift = row * columns % w
		}
		for c := range columns {
			if at := (c + shift) / w * w; at < shift || at+w > columns+shift && isAligned {
				continue
			}
			at := address(p, in, row*columns+c)
			if (c+shift)%w == 0 {
				first = at
				require.Zero(t, first%w, "row %d, column %d\n%s, order %v, break %d, width %d", row, c, g.Fusion, p.Order, from, w)
			}
			require.Equal(t, first+(c+shift)%w, at, "row %d, column %d\n%s, order %v, break %d, width %d", row, c, g.Fusion, p.Order, from, w)
		}
	}
}

// address returns the element of memory that a point of the space, counted in the
// order of its loops, has of in.
func address(p *Space, in *fusionfuzz.Input, point int64) int64 {
	at := in.Offset
	for k := len(p.Order) - 1; k >= 0; k-- {
		d := p.Order[k]
		if in.Array.Shape[d] > 1 {
			at += point % p.Extents[k] * in.Strides[d]
		}
		point /= max(p.Extents[k], 1)
	}
	return at
}
