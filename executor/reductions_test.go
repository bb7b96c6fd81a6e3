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

// randomReductions returns a fusion that reduces a sum of random tensors, in some order
// in memory, with gaps and broadcasts, along some dimensions.
func randomReductions(t testing.TB, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	sizes := make([]int64, 1+r.IntN(4))
	most := int64(1 << (4 + r.IntN(12)))
	for d := range sizes {
		sizes[d] = []int64{0, 1, 2, 3, 5, 7, 8, 16, 31, 33, 64, 100, 129, 256, 500, 1024, 4098}[r.IntN(16)+min(1, r.IntN(40))]
		sizes[d] = min(sizes[d], max(most, 1))
		most /= max(sizes[d], 1)
	}
	if r.IntN(2) == 0 { // enough for several blocks
		small := 1 + r.Int64N(80)
		sizes = []int64{small, 64 + r.Int64N(60000/small)}
	}
	r.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	c := fusionfuzz.Strided(r, sizes, 1+r.IntN(3))
	text := c.Fusion.String()
	at := strings.LastIndex(text, "output %")
	var last int
	_, err := fmt.Sscanf(text[at:], "output %%%d", &last)
	require.NoError(t, err)
	var dims []string
	for d := range c.Fusion.Rank(c.Fusion.Outputs()[0].Val) {
		if r.IntN(2) == 0 {
			dims = append(dims, fmt.Sprint(d))
		}
	}
	if len(dims) == 0 {
		dims = append(dims, "0")
	}
	b := &strings.Builder{}
	b.WriteString(text[:at])
	next := last
	add := func(format string, args ...any) int {
		next++
		fmt.Fprintf(b, "%%%d = "+format+"\n", append([]any{next}, args...)...)
		return next
	}
	var outputs []int
	along := "[" + strings.Join(dims, ", ") + "]"
	for range 1 + r.IntN(3) {
		x := last
		switch r.IntN(8) {
		case 0:
			x = add("mul %%%d, %%%d", last, last)
		case 1:
			x = add("abs %%%d", last)
		}
		switch r.IntN(10) {
		case 0:
			outputs = append(outputs, add("max %%%d dims=%s keepdim=false dtype=null", x, along))
		case 1:
			x = add("cast %%%d dtype=f16", x)
			outputs = append(outputs, add("min %%%d dims=%s keepdim=false dtype=null", x, along))
		case 2:
			x = add("cast %%%d dtype=f64", x)
			outputs = append(outputs, add("sum %%%d dims=%s keepdim=false dtype=f64", x, along))
		case 3:
			x = add("cast %%%d dtype=i64", x)
			outputs = append(outputs, add("sum %%%d dims=%s keepdim=false dtype=i64", x, along))
		case 4:
			x = add("cast %%%d dtype=c64", x)
			outputs = append(outputs, add("sum %%%d dims=%s keepdim=false dtype=c64", x, along))
		case 5:
			next += 3
			fmt.Fprintf(b, "%%%d, %%%d, %%%d = welford %%%d dims=%s\n", next-2, next-1, next, x, along)
			outputs = append(outputs, next-2, next-1)
		case 6:
			x = add("cast %%%d dtype=i64", x)
			outputs = append(outputs, add("prod %%%d dims=%s keepdim=false dtype=i64", x, along))
		default:
			y := add("sum %%%d dims=%s keepdim=false dtype=f32", x, along)
			if r.IntN(2) == 0 {
				y = add("cast %%%d dtype=bf16", add("tanh %%%d", y))
			}
			outputs = append(outputs, y)
		}
	}
	for _, o := range outputs {
		fmt.Fprintf(b, "output %%%d\n", o)
	}
	f, err := core.Parse(b.String())
	require.NoError(t, err, b.String())
	f.Freeze()
	return &fusionfuzz.Case{Fusion: f, Inputs: c.Inputs, Wild: c.Wild}
}

// TestDeviceReductions has random reductions planned for a device of few processors,
// so that blocks share what is not large, by one of the candidates.
func TestDeviceReductions(t *testing.T) {
	n := setting("DEVICE_REDUCTIONS", 150)
	seed := uint64(setting("DEVICE_SEED", 5))
	right, chosen := 0, map[string]int{}
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomReductions(t, r)
		s := newStage(t)
		s.driver.Present[0].Processors = 40
		e := s.executor(c.Fusion)
		if ok, err := s.check(e, c, []int{0, 0, 1, 2}[r.IntN(4)], never); ok {
			right++
			if s.plan != nil {
				choice, _ := s.plan.Inspection().Show("scheduler_verbose") // an error: there is no kernel
				_, choice, _ = strings.Cut(choice, "chosen: ")
				choice, _, _ = strings.Cut(choice, "\n")
				for _, kind := range []string{"inner", "outer", "vectors", "through shared memory", "blocks"} {
					if strings.Contains(choice, kind) {
						chosen[kind]++
					}
				}
				if strings.Contains(choice, "through shared memory, in") {
					chosen["both"]++
				}
			}
		} else {
			t.Log(err)
		}
		if t.Failed() {
			t.Fatalf("program %d", k)
		}
	}
	t.Log(chosen)
	require.Equal(t, n, right)
	for _, kind := range []string{"inner", "outer", "vectors", "through shared memory", "blocks", "both"} {
		require.Greater(t, chosen[kind], n/400, kind) // 3 to 7 of 600 are of the rarest
	}
}
