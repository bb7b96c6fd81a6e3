package executor_test

import (
	"fmt"
	"math"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// TestRowsOfGathers runs gathers and scatters whose rows and lines end at odd
// places: around the 4096 elements of a task, and the 8 of the shortest row that
// is written at once.
func TestRowsOfGathers(t *testing.T) {
	// over returns a vector of indices as one of rank 3 along dim, of the given sizes.
	over := func(p *program, i core.ValID, dim int, sizes ...int) core.ValID {
		flags := []bool{true, true, true}
		flags[dim] = false
		return p.call("expand", p.call("broadcast", i, flags), sizes)
	}
	types := []dtype.Type{dtype.Bool, dtype.BFloat16, dtype.Float, dtype.Int, dtype.ComplexDouble, dtype.Float8E8M0FNU}
	for _, inner := range []int64{1, 2, 7, 8, 9, 70, 4095, 4097} {
		rows := max(3, 9000/inner)
		for k, d := range types {
			if k > 1 && inner > 70 {
				break
			}
			t.Run(fmt.Sprint(inner, d), func(t *testing.T) {
				checkCase(t, newCase(t, func(p *program) {
					x, i, w := p.tensorOf(d, -1, -1), p.tensorOf(dtype.Int, -1), p.tensorOf(d, -1, -1)
					p.output(p.call("index_select", x, i, 0))
					p.output(p.call("index_select", w, i, 1))
					p.output(p.call("index_select", p.call("permute", w, []int{1, 0}), i, 0)) // strided
					if d.IsFloat() {
						p.output(p.call("embedding_fwd", i, x))
					}
				}, []int64{6, inner}, []int64{rows}, []int64{inner, 6}))
			})
		}
		t.Run(fmt.Sprint("scatter ", inner), func(t *testing.T) {
			n := int(inner)
			checkCase(t, newCase(t, func(p *program) {
				x, i, src := p.tensor(-1, 5, -1), p.tensorOf(dtype.Int, -1), p.tensor(-1, 5, -1)
				each := p.tensorOf(dtype.Int32, -1, 5, -1)
				wide := over(p, i, 0, 9, 5, n)
				p.output(p.call("scatter", x, wide, src, 0))
				p.output(p.call("scatter", x, wide, 1.5, 0))
				p.output(p.call("scatter", x, each, src, 0))
				p.output(p.call("scatter", x, each, src, 1))
				p.output(p.call("scatter", x, each, -2.5, 2))
				p.output(p.call("gather", x, each, 1))
				p.output(p.call("gather", x, each, 2))
				p.output(p.call("take_along_axis", x, over(p, i, 0, 9, 5, n), 0))
			}, []int64{7, 5, inner}, []int64{9}, []int64{9, 5, inner}, []int64{7, 5, inner}))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		checkCase(t, newCase(t, func(p *program) {
			x, y, i := p.tensor(-1, -1), p.tensor(-1, -1), p.tensorOf(dtype.Int, -1)
			p.output(p.call("index_select", x, i, 0))
			p.output(p.call("index_select", y, i, 0))
		}, []int64{4, 0}, []int64{0, 4}, []int64{6}))
	})
}

// TestEdgesOfProducts runs products one smaller and one larger than the blocks,
// 64 by 129 with 256 summed elements, and the panels, 2 by 3, that they are cut
// into.
func TestEdgesOfProducts(t *testing.T) {
	for _, s := range [][3]int64{{1, 1, 0}, {1, 1, 1}, {2, 3, 5}, {3, 4, 255}, {1, 130, 257}, {65, 2, 256}, {63, 128, 3}, {64, 129, 17}, {65, 130, 2}, {129, 259, 1}} {
		m, n, k := s[0], s[1], s[2]
		for _, d := range []dtype.Type{dtype.Float, dtype.Int, dtype.ComplexFloat} {
			t.Run(fmt.Sprint(s, d), func(t *testing.T) {
				checkCase(t, newCase(t, func(p *program) {
					a, b, bias := p.tensorOf(d, -1, -1), p.tensorOf(d, -1, -1), p.tensorOf(d, -1)
					turned := func(x core.ValID) core.ValID { return p.call("permute", x, []int{1, 0}) }
					p.output(p.call("matmul", a, b))
					p.output(p.call("matmul", turned(b), turned(a)))
					p.output(p.call("linear", a, turned(b), bias))
				}, []int64{m, k}, []int64{k, n}, []int64{n}))
			})
		}
	}
}

// TestEdgesOfAttention runs attentions with every rest of keys that is left of
// four at a time, and with keys that are not seen among those that are.
func TestEdgesOfAttention(t *testing.T) {
	for keys := int64(1); keys < 10; keys++ {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			checkCase(t, newCase(t, func(p *program) {
				q, k, v, mask := p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1), p.tensor(-1, -1, -1, -1), p.tensorOf(dtype.Bool, -1, -1)
				g := p.tensor(-1, -1, -1, -1)
				for _, causal := range []bool{false, true} {
					o := p.calls("sdpfa_fwd", q, k, v, nil, nil, nil, causal)
					p.output(o[0])
					for _, d := range p.calls("sdpfa_bwd", g, q, k, v, o[0], o[1], nil, causal, o[2], o[3]) {
						p.output(d)
					}
					p.output(p.call("sdpfa_fwd", q, k, v, nil, mask, nil, causal))
					// Six queries see six keys at most: what lies behind is not read.
					more := []int{0, 0, 0, 4}
					p.output(p.call("sdpfa_fwd", q, p.call("pad", k, more), p.call("pad", v, more, math.Inf(1)), nil, nil, nil, causal))
				}
			}, []int64{2, 2, 6, 5}, []int64{2, 1, keys, 5}, []int64{2, 1, keys, 3}, []int64{6, keys}, []int64{2, 2, 6, 3}))
		})
	}
}

// TestRunsOfRandomNumbers makes random numbers in rows that begin everywhere in
// a block, and in columns.
func TestRunsOfRandomNumbers(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float, dtype.BFloat16, dtype.Double} {
		for _, columns := range []int64{1, 3, 131, 257} {
			t.Run(fmt.Sprint(d, columns), func(t *testing.T) {
				checkCase(t, newCase(t, func(p *program) {
					x, y := p.tensorOf(d, -1, -1), p.tensorOf(d, -1, -1)
					p.output(p.call("rand_like", x))
					p.output(p.call("randn_like", x))
					p.output(p.call("add", p.call("permute", p.call("rand_like", x), []int{1, 0}), y))
				}, []int64{67, columns}, []int64{columns, 67}))
			})
		}
	}
}

// TestMomentsOfInfinities: wherever infinities stand, and however the row is cut
// into parts, the mean is their sum and the variance is NaN.
func TestMomentsOfInfinities(t *testing.T) {
	for _, n := range []int64{1, 3, 100, 5000} {
		c := newCase(t, func(p *program) {
			x := p.tensor(-1, -1)
			w := p.calls("var_mean", x, []int{1})
			p.output(w[0])
			p.output(w[1])
		}, []int64{6, n})
		x := c.Inputs[0].Array.F
		inf := math.Inf(1)
		for row, values := range [][2]float64{{inf, inf}, {-inf, -inf}, {inf, -inf}, {inf, math.NaN()}} {
			x[int64(row)*n+n/2], x[int64(row)*n+n-1] = values[0], values[1]
		}
		checkCase(t, c)
		if ok, err := checkSimulated(t, c); !ok {
			t.Fatal(err)
		}
	}
}
