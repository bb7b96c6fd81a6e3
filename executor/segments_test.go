package executor_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/segmenter"
)

// TestSegmentsSimulated lowers and simulates the kernels of random programs:
// SEGMENTS_PROGRAMS of them from SEGMENTS_SEED on.
func TestSegmentsSimulated(t *testing.T) {
	setting := func(name string, n int) int {
		if k, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return k
		}
		return n
	}
	programs, seed := setting("SEGMENTS_PROGRAMS", 120), setting("SEGMENTS_SEED", 1)
	ran, refused := 0, map[string]int{}
	for k := range programs {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(k)))
		data := make([]byte, 40+r.IntN(150))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		for _, s := range segmentsOf(t, c) {
			ok, err := checkSimulated(t, s)
			if ok {
				require.NoError(t, err)
				ran++
				continue
			}
			refused[err.Error()]++
			t.Logf("program %d: %v\n%v", k, err, s.Fusion)
		}
	}
	t.Logf("%d kernels, %d refused by the lowering", ran, len(refused))
	require.Greater(t, ran, 50*len(refused))
}

// segmentsOf returns the kernels of c with their inputs, none if sizes do not go together.
func segmentsOf(t *testing.T, c *fusionfuzz.Case) []*fusionfuzz.Case {
	arrays, _, values := fusionfuzz.Arguments(c.Inputs)
	f := c.Fusion
	b, err := f.Bind(slices.Clone(values))
	if err != nil {
		return nil
	}
	f, _, err = f.Concretize(b)
	require.NoError(t, err)
	b, err = f.Bind(values)
	require.NoError(t, err)
	p, err := segmenter.Cut(f, b, scheduler.Hopper, segmenter.Options{})
	require.NoError(t, err)
	at := map[core.ValID]*core.Array{}
	for i, v := range f.Inputs() {
		at[v] = arrays[i]
	}
	for _, v := range p.Empty {
		shape, err := b.Shape(v)
		require.NoError(t, err)
		at[v] = core.NewArray(f.Val(v).DType, shape)
	}
	var all []*fusionfuzz.Case
	for _, s := range p.Segments {
		x := &fusionfuzz.Case{Fusion: s.Fusion, Wild: c.Wild}
		var in []*core.Array
		var numbers []scalar.Value
		for k, source := range s.Inputs {
			input := fusionfuzz.Input{Array: at[source.Val]}
			if source.Val == core.NoVal {
				input.Array = nil
				input.Scalar, err = b.Value(source.Scalar)
				require.NoError(t, err)
			} else {
				input.Strides = fusionfuzz.DenseStrides(s.Fusion, s.Fusion.Inputs()[k], input.Array.Shape)
			}
			x.Inputs, in, numbers = append(x.Inputs, input), append(in, input.Array), append(numbers, input.Scalar)
		}
		out, err := s.Fusion.Eval(in, numbers, random)
		require.NoError(t, err)
		for k, v := range s.Writes {
			at[v] = out[k]
		}
		if s.Kind == segmenter.Kernel && s.Key == s.Fusion.String() {
			all = append(all, x)
		}
	}
	return all
}

// TestCallOfParts has torch read parts of inputs, where they lie.
func TestCallOfParts(t *testing.T) {
	c := newCase(t, func(p *program) {
		x, w := p.tensor(5, 9), p.tensor(4, 8)
		p.output(p.call("linear", p.call("slice", x, []int{1, 3}, []int{4, 7}), p.call("slice", w, []int{0, 2}, []int{4, 6})))
	}, []int64{5, 9}, []int64{4, 8})
	ok, err := checkSimulated(t, c)
	require.True(t, ok, "%v", err)
	ok, err = checkDevice(t, c, 0, never)
	require.True(t, ok, "%v", err)
}
