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

// scanTypes are types of what is scanned, and of numbers that a scan may begin with.
var scanTypes = []string{"bf16", "f32", "f16", "f32", "bf16", "f64", "i64", "i32", "c64"}

// randomScan returns a program that scans a tensor along any of its dimensions, with what is computed
// element by element before and after, and what has one element along some dimensions.
func randomScan(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	rank := 2 + r.IntN(3)
	sizes, most := make([]int64, rank), int64(20000)
	for d := range sizes {
		sizes[d] = min([]int64{1, 2, 3, 4, 7, 8, 16, 24, 33, 64, 100, 128}[r.IntN(12)], most)
		most /= sizes[d]
	}
	dim := r.IntN(rank)
	if most > 1 {
		sizes[dim] *= 1 + r.Int64N(most)
	}
	kind := scanTypes[r.IntN(len(scanTypes))]
	other := make([]int64, rank) // of an operand that has one element along some dimensions
	var dims, contiguity, otherDims, otherContiguity []string
	hasGaps := r.IntN(5) == 0
	for d, n := range sizes {
		size, c := fmt.Sprint(n), "yes"
		if n > 1 && r.IntN(3) > 0 {
			size = "-1"
		}
		if n == 1 {
			c = "none"
		} else if hasGaps {
			c = "no"
		}
		dims, contiguity = append(dims, size), append(contiguity, c)
		if other[d] = n; r.IntN(2) == 0 {
			other[d], size, c = 1, "1", "none"
		} else if n > 1 {
			c = "yes"
		}
		otherDims, otherContiguity = append(otherDims, size), append(otherContiguity, c)
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%%0 = tensor %s [%s] contiguity=[%s]\n", kind, strings.Join(dims, ", "), strings.Join(contiguity, ", "))
	fmt.Fprintf(b, "%%1 = tensor %s [%s] contiguity=[%s]\n", kind, strings.Join(otherDims, ", "), strings.Join(otherContiguity, ", "))
	next := 2
	add := func(format string, args ...any) int {
		fmt.Fprintf(b, "%%%d = "+format+"\n", append([]any{next}, args...)...)
		next++
		return next - 1
	}
	wide := kind
	x, y := 0, 1
	if kind == "bf16" || kind == "f16" {
		wide = "f32"
		x, y = add("cast %%0 dtype=f32"), add("cast %%1 dtype=f32")
	}
	if r.IntN(2) == 0 {
		x = add("add %%%d, %%%d", x, y)
	}
	if rank > 2 && r.IntN(4) == 0 { // its dimensions in another order
		order := r.Perm(rank)
		x = add("permute %%%d dims=%s", x, strings.ReplaceAll(fmt.Sprint(order), " ", ", "))
		for k, d := range order {
			if d == dim {
				dim = k
				break
			}
		}
		y = -1
	}
	ops := []string{"cumsum", "cummax", "cummin"}
	switch kind {
	case "c64":
		ops = ops[:1]
	case "i32": // whose sums are wider
		ops = ops[1:]
	}
	for range 1 + r.IntN(2) {
		init := ""
		if r.IntN(4) == 0 {
			init = map[string]string{"f32": " init=2.5:f32", "f64": " init=2.5:f64", "i64": " init=3:i64", "i32": " init=3:i32", "c64": " init=(2,1):c64"}[wide]
		}
		op := ops[r.IntN(len(ops))]
		wasScanned := x
		x = add("%s %%%d dim=%d%s", op, x, dim, init)
		if r.IntN(3) == 0 && op == "cumsum" {
			x = add("sub %%%d, %%%d", x, wasScanned)
		}
	}
	if y >= 0 && r.IntN(3) == 0 {
		x = add("sub %%%d, %%%d", x, y)
	}
	if r.IntN(4) == 0 {
		fmt.Fprintf(b, "output %%%d\n", x)
	}
	switch last := add("neg %%%d", x); {
	case kind == wide:
		fmt.Fprintf(b, "output %%%d\n", last)
	default:
		fmt.Fprintf(b, "output %%%d\n", add("cast %%%d dtype=%s", last, kind))
	}
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), sizes, other)}
	if hasGaps {
		in := &c.Inputs[0]
		in.Storage = widen(r, in)
	}
	return c
}

// TestDeviceScans has random scans planned for devices of few processors, which take wide blocks of
// columns, and of many. DEVICE_SCANS is how many, DEVICE_SEED says which.
func TestDeviceScans(t *testing.T) {
	n := setting("DEVICE_SCANS", 150)
	seed := uint64(setting("DEVICE_SEED", 5))
	chosen := map[string]int{}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomScan(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = []int{1, 2, 132}[r.IntN(3)]
		ok, err := s.check(s.executor(c.Fusion), c, []int{0, 0, 0, 1}[r.IntN(4)], never)
		require.True(t, ok, "program %d: %v\n%s", k, err, c.Fusion)
		if s.plan == nil {
			continue
		}
		choice, _ := s.plan.Inspection().Show("scheduler_verbose") // an error: there is no kernel
		_, choice, _ = strings.Cut(choice, "chosen: ")
		choice, _, _ = strings.Cut(choice, "\n")
		for _, kind := range []string{"threads a row", "threads a column", ", 1 threads a column", "with 1 columns each"} {
			if strings.Contains(choice, kind) {
				chosen[kind]++
			}
		}
	}
	t.Log(chosen)
	require.Greater(t, chosen["threads a column"], n/5)
}
