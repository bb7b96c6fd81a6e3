package executor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
)

// An inPlace builds a random fusion that writes some of its inputs, which it also reads:
// at the same element, at others, or all of them.
type inPlace struct {
	program
	r      *rand.Rand
	sizes  []int64
	inputs []target
	full   []core.ValID // of these sizes, in Float
}

// A target is an input that may be written.
type target struct {
	val     core.ValID
	dtype   dtype.Type
	dims    []int // of the sizes, that it has
	shape   []int64
	strides []int64
	offset  int64
}

// sizesOfInPlace are small, with some that are equal, so that tensors can be turned.
func sizesOfInPlace(r *rand.Rand) []int64 {
	sizes, most := make([]int64, 1+r.IntN(4)), int64(6000)
	for d := range sizes {
		sizes[d] = []int64{2, 3, 4, 5, 7, 8, 16, 33, 64, 130, 1, 256}[r.IntN(12)]
		if d > 0 && r.IntN(3) == 0 {
			sizes[d] = sizes[d-1]
		}
		sizes[d] = min(sizes[d], most)
		most /= sizes[d]
	}
	if r.IntN(40) == 0 {
		sizes[r.IntN(len(sizes))] = 0
	}
	return sizes
}

// input defines a tensor that has the given dimensions, in an order of its own and with gaps
// now and then. What lies behind another one is contiguous as it says.
func (p *inPlace) input(dims []int) *target {
	x := target{dims: dims, dtype: []dtype.Type{dtype.Float, dtype.Float, dtype.BFloat16}[p.r.IntN(3)], strides: make([]int64, len(dims))}
	description := core.TensorDescription{DType: x.dtype, StrideOrder: make([]int64, len(dims)), Contiguity: make([]core.Tri, len(dims)), Shape: make([]int64, len(dims))}
	order := make([]int, len(dims))
	for i := range order {
		order[i] = i
	}
	if p.r.IntN(3) == 0 {
		order = p.r.Perm(len(dims))
	}
	isStatic, hasGaps, step, dense := p.r.IntN(2) == 0, p.r.IntN(4) == 0, int64(1), int64(1)
	for _, d := range dims {
		x.shape = append(x.shape, p.sizes[d])
	}
	for k := len(order) - 1; k >= 0; k-- {
		d, n := order[k], x.shape[order[k]]
		if hasGaps && p.r.IntN(2) == 0 {
			step += []int64{1, 2, 8}[p.r.IntN(3)]
		}
		x.strides[d], description.StrideOrder[d] = step, int64(len(order)-1-k)
		if description.Contiguity[k] = core.Yes; step != dense {
			description.Contiguity[k] = core.No
		}
		if description.Shape[d] = -1; isStatic || n == 1 {
			description.Shape[d] = n
		}
		if n == 1 {
			description.Contiguity[k] = core.NotApplicable
			continue
		}
		step *= max(n, 1)
		dense = step
	}
	if p.r.IntN(4) == 0 {
		x.offset = p.r.Int64N(4)
	}
	var err error
	x.val, err = p.f.DefineTensor(description)
	require.NoError(p.t, err)
	p.inputs = append(p.inputs, x)
	return &p.inputs[len(p.inputs)-1]
}

// some are the dimensions of the sizes that r picks, at least one.
func (p *inPlace) some() (dims []int, isPicked []bool) {
	isPicked = make([]bool, len(p.sizes))
	isPicked[p.r.IntN(len(p.sizes))] = true
	for d := range isPicked {
		isPicked[d] = isPicked[d] || p.r.IntN(3) == 0
		if isPicked[d] {
			dims = append(dims, d)
		}
	}
	return dims, isPicked
}

func (p *inPlace) pick() core.ValID { return p.full[p.r.IntN(len(p.full))] }

// step computes one more tensor of the sizes.
func (p *inPlace) step() core.ValID {
	x, rank := p.pick(), len(p.sizes)
	dims, isPicked := p.some()
	d := dims[0]
	numbers := func(n int64) []int {
		all := make([]int, rank)
		for i := range all {
			all[i] = int(p.sizes[i] * n)
		}
		return all
	}
	switch p.r.IntN(8) {
	case 0:
		return p.call([]string{"neg", "relu", "sin"}[p.r.IntN(3)], x)
	case 1, 2:
		return p.call([]string{"add", "sub", "maximum"}[p.r.IntN(3)], x, p.pick())
	case 3: // all elements along some dimensions
		return p.call("sub", x, p.spread(p.call([]string{"sum", "max"}[p.r.IntN(2)], p.pick(), dims), isPicked))
	case 4: // turned, if two dimensions are equal
		order := make([]int, rank)
		for i := range order {
			order[i] = i
		}
		for e := range rank {
			if e != d && p.sizes[e] == p.sizes[d] {
				order[d], order[e] = e, d
				break
			}
		}
		return p.call("permute", x, order)
	case 5: // moved by one
		if p.sizes[d] < 2 {
			return p.call("neg", x)
		}
		from, end := numbers(0), numbers(1)
		from[d] = 1
		rest := p.call("slice", x, from, end)
		from[d], end[d] = 0, 1
		return p.call("cat", []core.ValID{rest, p.call("slice", x, from, end)}, d)
	case 6: // one element along a dimension
		if p.sizes[d] < 2 {
			return p.call("neg", x)
		}
		from, end := numbers(0), numbers(1)
		at := p.r.IntN(int(p.sizes[d]))
		from[d], end[d] = at, at+1
		return p.call("add", x, p.call("slice", x, from, end))
	}
	if x := &p.inputs[p.r.IntN(len(p.inputs))]; len(x.dims) < rank { // what lacks some dimensions
		return p.call("add", p.pick(), p.widened(x))
	}
	return p.call("cumsum", x, d)
}

// spread gives v the dimensions that were reduced.
func (p *inPlace) spread(v core.ValID, isReduced []bool) core.ValID {
	return p.call("broadcast", v, isReduced)
}

// widened is x in Float with one element along the dimensions that it lacks.
func (p *inPlace) widened(x *target) core.ValID {
	isNew := make([]bool, len(p.sizes))
	for d := range isNew {
		isNew[d] = true
	}
	for _, d := range x.dims {
		isNew[d] = false
	}
	return p.spread(p.call("cast", x.val, dtype.Float), isNew)
}

// write stores something in the memory of x.
func (p *inPlace) write(x *target) {
	v := p.pick()
	if len(x.dims) < len(p.sizes) { // as running statistics are
		var dims []int
		for d := range p.sizes {
			if !slices.Contains(x.dims, d) {
				dims = append(dims, d)
			}
		}
		v = p.call([]string{"sum", "max"}[p.r.IntN(2)], v, dims)
		if p.r.IntN(3) > 0 {
			v = p.call("add", p.call("mul", p.call("cast", x.val, dtype.Float), 0.9), p.call("mul", v, 0.1))
		}
	}
	v = p.call("cast", p.call("set", v), x.dtype)
	p.alias(v, x.val)
	if p.r.IntN(3) == 0 {
		p.output(p.call("neg", v))
	}
}

// randomInPlace returns a fusion that r describes, and inputs.
func randomInPlace(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	p := &inPlace{program: program{t, core.NewFusion()}, r: r, sizes: sizesOfInPlace(r)}
	all := make([]int, len(p.sizes))
	for d := range all {
		all[d] = d
	}
	for range 1 + r.IntN(2) {
		p.input(all)
	}
	for range r.IntN(3) {
		if dims, _ := p.some(); len(dims) < len(all) {
			p.input(dims)
		}
	}
	for i := range p.inputs {
		if x := &p.inputs[i]; len(x.dims) == len(all) {
			p.full = append(p.full, p.call("cast", x.val, dtype.Float))
		}
	}
	for range 1 + r.IntN(5) {
		p.full = append(p.full, p.step())
	}
	written := false
	for i := range p.inputs {
		if r.IntN(2) == 0 || !written && i == len(p.inputs)-1 {
			p.write(&p.inputs[i])
			written = true
		}
	}
	for range r.IntN(3) {
		p.output(p.call("set", p.pick()))
	}
	p.f.Freeze()
	var given [][]int64
	for i := range p.inputs {
		given = append(given, p.inputs[i].shape)
	}
	c := &fusionfuzz.Case{Fusion: p.f, Inputs: fusionfuzz.Inputs(p.f, r.Uint64(), given...)}
	for i := range c.Inputs {
		c.Inputs[i].Strides, c.Inputs[i].Offset = p.inputs[i].strides, p.inputs[i].offset
	}
	return c
}

// TestDeviceInPlace has random fusions that write what they read planned for devices of one
// processor or many, and on the CPU. DEVICE_IN_PLACE is how many, DEVICE_SEED says which.
func TestDeviceInPlace(t *testing.T) {
	n, seed := setting("DEVICE_IN_PLACE", 150), uint64(setting("DEVICE_SEED", 5))
	right, kernels, copied := 0, 0, 0
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomInPlace(t, r)
		checkCase(t, c)
		s := newStage(t)
		s.driver.Present[0].Processors = []int{1, 4, 132}[r.IntN(3)]
		ok, err := s.check(s.executor(c.Fusion), c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		if !ok {
			t.Log(err)
			continue
		}
		right++
		if s.plan == nil {
			continue
		}
		text, err := s.plan.Inspection().Show("explain")
		require.NoError(t, err)
		kernels += len(s.plan.Device.Launches)
		for i, o := range c.Fusion.Outputs() {
			if o.Alias != core.NoVal && strings.Contains(text, fmt.Sprintf("output %d from", i)) {
				copied++
			}
		}
	}
	t.Logf("%d of %d right, %d launches, %d outputs copied to their inputs", right, n, kernels, copied)
	require.Equal(t, n, right)
}

// TestDeviceInPlaceExpanded refuses to write what several elements share.
func TestDeviceInPlaceExpanded(t *testing.T) {
	refused := 0
	for k := range 60 {
		r := rand.New(rand.NewPCG(9, uint64(k)))
		c := randomInPlace(t, r)
		p := prepare(c)
		toDevice(p.inputs, never)
		for _, o := range c.Fusion.Outputs() {
			if o.Alias == core.NoVal {
				continue
			}
			for i, v := range c.Fusion.Inputs() {
				for d, n := range p.inputs[i].Sizes {
					if v != o.Alias || n < 2 {
						continue
					}
					strides := p.inputs[i].Strides
					p.inputs[i].Strides = slices.Clone(strides)
					p.inputs[i].Strides[d] = 0
					_, err := newStage(t).executor(c.Fusion).Plan(p.inputs)
					if core.NumElements(p.inputs[i].Sizes) > 0 {
						var mistake *core.InvalidArgument
						require.ErrorAs(t, err, &mistake, "%s", c.Fusion)
						refused++
					}
					p.inputs[i].Strides = strides
				}
			}
		}
	}
	require.NotZero(t, refused)
}
