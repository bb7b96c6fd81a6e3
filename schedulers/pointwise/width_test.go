package pointwise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// A layout is an input of a random segment: a tensor of f32, f16 or bool that is
// broadcast along some dimensions of the result, permuted, and has gaps.
type layout struct {
	dtype   string
	bytes   int64
	sizes   []int64 // 1 where it is broadcast
	order   []int   // dimensions, outermost in memory first
	gap     []int64 // elements that are left out behind each dimension
	aligned int
	strides []int64
}

func randomLayout(r *rand.Rand, sizes []int64) layout {
	x := layout{sizes: slices.Clone(sizes), order: r.Perm(len(sizes)), gap: make([]int64, len(sizes)), aligned: 1 << r.IntN(5), strides: make([]int64, len(sizes))}
	switch r.IntN(3) {
	case 0:
		x.dtype, x.bytes = "f32", 4
	case 1:
		x.dtype, x.bytes = "f16", 2
	default:
		x.dtype, x.bytes = "bool", 1
	}
	if r.IntN(2) == 0 {
		slices.Sort(x.order)
	}
	for d := range x.sizes {
		if r.IntN(4) == 0 {
			x.sizes[d] = 1
		}
		if r.IntN(6) == 0 {
			x.gap[d] = []int64{1, 2, 4, 8}[r.IntN(4)]
		}
	}
	x.aligned = max(x.aligned, int(x.bytes))
	step := int64(1)
	for k := len(x.order) - 1; k >= 0; k-- {
		d := x.order[k]
		x.strides[d] = step
		step = step*x.sizes[d] + x.gap[d]
	}
	return x
}

// text defines the input n, with sizes that are symbols and the contiguity that
// it has.
func (x layout) text(n int) string {
	order := make([]string, len(x.sizes))
	contiguity := make([]string, len(x.sizes))
	sizes := make([]string, len(x.sizes))
	for k, d := range x.order { // k from outermost: stride_order counts from the innermost
		order[d] = fmt.Sprint(len(x.order) - 1 - k)
		switch inner := slices.IndexFunc(x.order[k+1:], func(d int) bool { return x.sizes[d] != 1 }); {
		case x.sizes[d] == 1:
			contiguity[k] = "none"
		case inner < 0 && x.strides[d] == 1 || inner >= 0 && x.strides[d] == x.strides[x.order[k+1+inner]]*x.sizes[x.order[k+1+inner]]:
			contiguity[k] = "yes"
		default:
			contiguity[k] = "no"
		}
	}
	for d, n := range x.sizes {
		if sizes[d] = "-1"; n == 1 {
			sizes[d] = "1"
		}
	}
	return fmt.Sprintf("%%%d = tensor %s [%s] contiguity=[%s] stride_order=[%s]\n", n, x.dtype,
		strings.Join(sizes, ", "), strings.Join(contiguity, ", "), strings.Join(order, ", "))
}

// address returns the byte of the element that the point reads.
func (x layout) address(point []int64) int64 {
	at := int64(0)
	for d, i := range point {
		if x.sizes[d] > 1 {
			at += i * x.strides[d]
		}
	}
	return at * x.bytes
}

// segmentOf returns the sum of the inputs as a segment.
func segmentOf(t *testing.T, all []layout, sizes []int64) *scheduler.Segment {
	t.Helper()
	var b strings.Builder
	for n, x := range all {
		b.WriteString(x.text(n))
	}
	n, sum := len(all), ""
	for k := range all {
		fmt.Fprintf(&b, "%%%d = cast %%%d dtype=f32\n", n, k)
		if sum == "" {
			sum = fmt.Sprintf("%%%d", n)
		} else {
			fmt.Fprintf(&b, "%%%d = add %s, %%%d\n", n+1, sum, n)
			n++
			sum = fmt.Sprintf("%%%d", n)
		}
		n++
	}
	// The sum of an input of the whole shape is of that shape.
	fmt.Fprintf(&b, "output %s\n", sum)
	text := strings.ReplaceAll(b.String(), "%0 = cast %0 dtype=f32", "")
	f, err := core.Parse(text)
	require.NoError(t, err, text)
	f.Freeze()
	var values []core.InputValue
	for k, x := range all {
		values = append(values, core.InputValue{Tensor: true, DType: f.Val(f.Inputs()[k]).DType, Sizes: x.sizes})
	}
	bind, err := f.Bind(values)
	require.NoError(t, err, text)
	g, err := scheduler.Dense(f, bind)
	require.NoError(t, err)
	for k, x := range all {
		g.Inputs[k] = scheduler.Placement{Strides: x.strides, Aligned: x.aligned}
	}
	return g
}

// TestWidths compares the widths of random tensors with every address that their
// accesses have.
func TestWidths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide := 0
	for range 400 {
		sizes := make([]int64, 1+r.IntN(4))
		for d := range sizes {
			sizes[d] = []int64{1, 2, 3, 4, 6, 8, 12, 16}[r.IntN(8)]
		}
		all := []layout{randomLayout(r, sizes)}
		for range r.IntN(3) {
			all = append(all, randomLayout(r, sizes))
		}
		all[0].dtype, all[0].bytes, all[0].aligned = "f32", 4, max(all[0].aligned, 4)
		g := segmentOf(t, all, sizes)
		a := analyse(g)
		require.NoError(t, a.err)
		p := a.space
		for _, from := range append([]int{0}, p.breaks()...) {
			for e := int64(1); e <= 16; e *= 2 {
				for k, w := range p.pitchOf(from, e, 1).widths {
					x := &p.tensors[k]
					if w > 1 {
						wide++
					}
					require.LessOrEqual(t, w, e)
					if x.isOutput || w == 1 {
						continue
					}
					checkAccesses(t, g, p, from, w, all[x.place])
				}
			}
		}
	}
	require.Greater(t, wide, 400)
}

// checkAccesses requires of every w points that the loops have next to each other,
// from multiples of w on, that the tensor has neighbours there, and that the first
// is aligned.
func checkAccesses(t *testing.T, g *scheduler.Segment, p *space, from int, w int64, x layout) {
	t.Helper()
	rows, columns := p.size(0, from), p.size(from, len(p.order))
	require.Zero(t, columns%w, "%d columns in accesses of %d", columns, w)
	point := make([]int64, len(p.order))
	for row := range rows {
		for c := range columns {
			rest := c
			for k := len(p.order) - 1; k >= 0; k-- {
				if k == from-1 {
					rest = row
				}
				point[p.order[k]] = rest % p.extents[k]
				rest /= p.extents[k]
			}
			at := x.address(point)
			if c%w == 0 {
				require.Zero(t, at%(w*x.bytes), "%v\n%s, order %v, break %d, width %d, %+v", point, g.Fusion, p.order, from, w, x)
				require.LessOrEqual(t, w*x.bytes, int64(x.aligned))
				continue
			}
			point0 := c - c%w
			first := make([]int64, len(p.order))
			rest = point0
			for k := len(p.order) - 1; k >= 0; k-- {
				if k == from-1 {
					rest = row
				}
				first[p.order[k]] = rest % p.extents[k]
				rest /= p.extents[k]
			}
			require.Equal(t, x.address(first)+c%w*x.bytes, at, "%v\n%s, order %v, break %d, width %d, %+v", point, g.Fusion, p.order, from, w, x)
		}
	}
}
