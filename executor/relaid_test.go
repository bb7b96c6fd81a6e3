package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// A relaid is a random fusion that normalises or sums rows, or does neither, and writes what comes of it in another shape and
// order: dimensions are split, permuted and joined again before and after.
type relaid struct {
	r     *rand.Rand
	text  strings.Builder
	next  int
	parts []int64 // what dimensions are made of
	sums  []int   // what rows were reduced to
}

func (x *relaid) add(format string, args ...any) int {
	fmt.Fprintf(&x.text, "%%%d = "+format+"\n", append([]any{x.next}, args...)...)
	x.next++
	return x.next - 1
}

func list[T any](of []T) string { return strings.ReplaceAll(fmt.Sprint(of), " ", ", ") }

// joined returns sizes of parts, some joined with those beside them.
func (x *relaid) joined(parts []int64) (sizes []int64) {
	for i, n := range parts {
		if i > 0 && x.r.IntN(2) == 0 {
			sizes[len(sizes)-1] *= n
			continue
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// normalised returns a norm of v, of so many sizes, along some dimensions, or a sum, or v itself, and the sizes.
func (x *relaid) normalised(v int, sizes []int64) (int, []int64) {
	var dims, left []int64
	var isNew []bool
	first := x.r.IntN(len(sizes) + 1)
	for d, n := range sizes {
		isReduced := d >= first || x.r.IntN(6) == 0
		if isNew = append(isNew, isReduced); isReduced {
			dims = append(dims, int64(d))
		} else {
			left = append(left, n)
		}
	}
	back := func(u int) int { return x.add("broadcast %%%d is_broadcast_dim=%s", u, list(isNew)) }
	sum := func(u int) int {
		x.sums = append(x.sums, x.add("sum %%%d dims=%s keepdim=false dtype=f32", u, list(dims)))
		return x.sums[len(x.sums)-1]
	}
	if len(dims) == 0 {
		return x.add("neg %%%d", v), sizes
	}
	switch x.r.IntN(5) {
	case 0:
		if len(left) > 0 {
			return sum(v), left
		}
		fallthrough
	case 1:
		return x.add("div %%%d, %%%d", v, x.add("add %%%d, 1", back(sum(x.add("abs %%%d", v))))), sizes
	case 2:
		top := x.add("max %%%d dims=%s keepdim=false dtype=null", v, list(dims))
		e := x.add("exp %%%d", x.add("sub %%%d, %%%d", v, back(top)))
		return x.add("div %%%d, %%%d", e, back(sum(e))), sizes
	}
	fmt.Fprintf(&x.text, "%%%d, %%%d, %%%d = welford %%%d dims=%s\n", x.next, x.next+1, x.next+2, v, list(dims))
	mean, squares := x.next, x.next+1
	x.sums = append(x.sums, mean, squares)
	x.next += 3
	centred := x.add("sub %%%d, %%%d", v, back(mean))
	return x.add("mul %%%d, %%%d", centred, back(x.add("rsqrt %%%d", x.add("add %%%d, 1", squares)))), sizes
}

// order returns the order of so many dimensions in memory, as stride_order has it, and as their places from the outermost.
func (x *relaid) order(rank int) (strides, places []int) {
	places = x.r.Perm(rank)
	strides = make([]int, rank)
	for k, d := range places {
		strides[d] = rank - 1 - k
	}
	return strides, places
}

// outputs writes v, of some sizes, in another shape and order.
func (x *relaid) output(v int, sizes []int64, kind string) int {
	isNarrow := x.r.IntN(2) == 0 // what is rounded so is compared so
	if isNarrow {
		v = x.add("cast %%%d dtype=%s", v, kind)
	}
	parts := []int64{}
	for _, n := range sizes {
		for _, p := range []int64{2, 7, 8, 3} {
			if n%p == 0 && n > p && x.r.IntN(2) == 0 {
				parts, n = append(parts, p), n/p
			}
		}
		parts = append(parts, n)
	}
	v = x.add("reshape %%%d new_shape=%s", v, list(parts))
	if x.r.IntN(4) > 0 {
		p := x.r.Perm(len(parts))
		v = x.add("permute %%%d dims=%s", v, list(p))
		was := slices.Clone(parts)
		for k, d := range p {
			parts[k] = was[d]
		}
	}
	if x.r.IntN(4) == 0 {
		v = x.add("neg %%%d", x.add("cast %%%d dtype=f32", v))
		if isNarrow {
			v = x.add("cast %%%d dtype=%s", v, kind)
		}
	}
	shape := x.joined(parts)
	v = x.add("set %%%d", x.add("reshape %%%d new_shape=%s", v, list(shape)))
	if x.r.IntN(3) == 0 {
		strides, _ := x.order(len(shape))
		v = x.add("stride_order %%%d stride_order=%s", v, list(strides))
	}
	return v
}

func randomRelaid(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	x := &relaid{r: r, next: 1}
	most := int64(24000)
	for range 2 + r.IntN(4) {
		n := min([]int64{2, 2, 3, 4, 7, 8, 8, 16, 16, 24, 32, 33, 64, 128}[r.IntN(14)], most)
		x.parts = append(x.parts, n)
		most /= n
	}
	sizes := x.joined(x.parts)
	kind := []string{"bf16", "f32", "f16"}[r.IntN(3)]
	isStatic := r.IntN(2) == 0
	var places []int
	for d := range sizes {
		places = append(places, d)
	}
	order := ""
	if r.IntN(2) == 0 {
		var strides []int
		strides, places = x.order(len(sizes))
		order = " stride_order=" + list(strides)
	}
	var dims, contiguity []string
	for k, n := range sizes {
		d, c := "-1", "yes"
		if isStatic || n == 1 {
			d = fmt.Sprint(n)
		}
		if sizes[places[k]] == 1 {
			c = "none"
		}
		dims, contiguity = append(dims, d), append(contiguity, c)
	}
	head := fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]%s", kind, strings.Join(dims, ", "), strings.Join(contiguity, ", "), order)
	v := x.add("cast %%0 dtype=f32")
	shape := sizes
	if r.IntN(2) == 0 {
		v, shape = x.add("reshape %%%d new_shape=%s", v, list(x.parts)), x.parts
	}
	v, shape = x.normalised(v, shape)
	outputs := []int{x.output(v, shape, kind)}
	if r.IntN(5) == 0 {
		outputs = append(outputs, x.output(v, shape, kind))
	}
	if r.IntN(5) == 0 {
		outputs = append(outputs, x.add("cast %%%d dtype=%s", v, kind))
	}
	if len(x.sums) > 0 && r.IntN(3) == 0 {
		outputs = append(outputs, x.add("neg %%%d", x.sums[r.IntN(len(x.sums))]))
	}
	for _, o := range outputs {
		fmt.Fprintf(&x.text, "output %%%d\n", o)
	}
	f, err := core.Parse(head + "\n" + x.text.String())
	require.NoError(t, err, head+"\n"+x.text.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), sizes)}
	in, step := &c.Inputs[0], int64(1)
	for _, d := range slices.Backward(places) {
		in.Strides[d] = step
		step *= sizes[d]
	}
	return c
}

// TestDeviceRelaid has norms, sums and copies written in other shapes and orders. DEVICE_RELAID is how many, DEVICE_SEED says
// which.
func TestDeviceRelaid(t *testing.T) {
	n := setting("DEVICE_RELAID", 150)
	seed := uint64(setting("DEVICE_SEED", 5))
	kernels, by := map[int]int{}, map[string]int{"inner persistent: ": 0, "outer persistent: ": 0, " reduction: ": 0, "transpose: ": 0, " turned": 0}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomRelaid(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = []int{1, 1, 8}[r.IntN(3)]
		ok, err := s.check(s.executor(c.Fusion), c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		s.tally(by)
		if s.plan != nil {
			if text, err := s.plan.Inspection().Show("segmented_fusion"); err == nil {
				kernels[strings.Count(text, "kernel by")]++
			}
		}
	}
	t.Log(kernels, by)
	for kind, count := range by {
		require.Positive(t, count, kind)
	}
}
