package executor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

// randomPaddedTranspose returns a fusion that adds up tensors of one shape that lie in memory in several
// orders, and of which each is padded, joined of two or neither, and stores the sum in some orders.
func randomPaddedTranspose(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	sizes := make([]int64, 2+r.IntN(3))
	most := int64(20000)
	for d := range sizes {
		sizes[d] = max(min([]int64{2, 3, 3, 4, 7, 8, 16, 20, 33, 40, 64, 77, 128, 131, 160}[r.IntN(15)], most), 2)
		most /= sizes[d]
	}
	kind := []string{"bf16", "f32", "f16", "i32", "f64"}[r.IntN(5)]
	b, next := &strings.Builder{}, 0
	var given [][]int64
	line := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = "+format+"\n", append([]any{next}, args...)...)
		next++
		return next - 1
	}
	list := func(x any) string { return strings.ReplaceAll(fmt.Sprint(x), " ", ", ") }
	input := func(shape []int64) int {
		given = append(given, shape)
		contiguity := make([]string, len(shape))
		for d, n := range shape {
			if contiguity[d] = "yes"; n == 1 {
				contiguity[d] = "none"
			}
		}
		return line("tensor %s %s contiguity=[%s]", kind, list(shape), strings.Join(contiguity, ", "))
	}
	type term struct {
		inputs []int
		order  []int
		pads   []int64
		dim    int // that is joined
	}
	var terms []term
	for range 1 + r.IntN(2) {
		x := term{order: r.Perm(len(sizes))}
		var shape []int64
		for _, d := range x.order {
			shape = append(shape, sizes[d])
		}
		switch x.dim = r.IntN(len(sizes)); r.IntN(5) {
		case 0:
			x.inputs = []int{input(shape)}
		case 1, 2:
			x.pads = make([]int64, 2*len(shape))
			for d := range shape {
				for k := range 2 {
					if n := []int64{0, 0, 1, 3, 8, 16, -1, -8}[r.IntN(8)]; shape[d] > n {
						x.pads[2*(len(shape)-1-d)+k] = n
						shape[d] -= n
					}
				}
			}
			x.inputs = []int{input(shape)}
		default:
			first, second := append([]int64{}, shape...), append([]int64{}, shape...)
			first[x.dim] = 1 + r.Int64N(shape[x.dim]-1)
			if r.IntN(2) == 0 {
				first[x.dim] = max(first[x.dim]&^7, 1)
			}
			second[x.dim] -= first[x.dim]
			x.inputs = []int{input(first), input(second)}
		}
		terms = append(terms, x)
	}
	sum := -1
	for _, x := range terms {
		back := make([]int, len(sizes))
		for k, d := range x.order {
			back[d] = k
		}
		turn := func(v int) int { return line("permute %%%d dims=%s", v, list(back)) }
		v := x.inputs[0]
		switch isFirst := r.IntN(2) == 0; {
		case x.pads != nil:
			v = turn(line("pad %%%d pad_widths=%s value=0:f64", v, list(x.pads)))
		case len(x.inputs) == 1:
			v = turn(v)
		case isFirst:
			v = turn(line("cat [%%%d, %%%d] dim=%d manual_padding=false", v, x.inputs[1], x.dim))
		default:
			p, q := turn(v), turn(x.inputs[1])
			v = line("cat [%%%d, %%%d] dim=%d manual_padding=false", p, q, x.order[x.dim])
		}
		if len(terms) > 1 {
			v = line("cast %%%d dtype=f64", v)
		}
		if sum >= 0 {
			v = line("add %%%d, %%%d", sum, v)
		}
		sum = v
	}
	if len(terms) > 1 {
		sum = line("cast %%%d dtype=f32", sum)
	}
	outputs := []int{line("set %%%d", sum)}
	if r.IntN(3) == 0 {
		outputs = append(outputs, line("set %%%d", line("permute %%%d dims=%s", sum, list(r.Perm(len(sizes))))))
	}
	for _, o := range outputs {
		fmt.Fprintf(b, "output %%%d\n", o)
	}
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	return &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), given...)}
}

// TestDevicePaddedTransposes is TestDeviceTransposes of what is padded and joined: tiles have what is read.
func TestDevicePaddedTransposes(t *testing.T) {
	n := setting("DEVICE_TRANSPOSES", 100)
	seed := uint64(setting("DEVICE_SEED", 6))
	const kind = "chosen: transpose:"
	chosen := map[string]int{kind: 0}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomPaddedTranspose(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = 1
		ok, err := s.check(s.executor(c.Fusion), c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		require.NoError(t, err, "program %d\n%s", k, c.Fusion)
		require.True(t, ok)
		if t.Failed() {
			t.Fatalf("program %d\n%s", k, c.Fusion)
		}
		s.tally(chosen)
	}
	t.Log(chosen)
	require.Greater(t, chosen[kind], n/4)
}
