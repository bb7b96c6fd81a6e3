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

// randomPad returns a pad, or a join of pads, whose widths often cancel: rows of the result are then as long as those
// of what is padded, and a vector of it goes on where another row begins.
func randomPad(t *testing.T, r *rand.Rand) *fusionfuzz.Case {
	t.Helper()
	sizes := make([]int64, 1+r.IntN(3))
	for d := range sizes {
		sizes[d] = int64(1 + r.IntN(9))
	}
	last := len(sizes) - 1
	sizes[last] = []int64{5, 7, 15, 16, 24, 33, 64, 130, 257}[r.IntN(9)]
	signs, dense := strings.Repeat(", -1", len(sizes))[2:], strings.Repeat(", yes", len(sizes))[2:]
	widths := func() string {
		all := make([]string, 0, 2*len(sizes))
		for d := last; d >= 0; d-- { // of the last dimension first
			k := int64(0)
			if d == last || r.IntN(3) == 0 {
				k = r.Int64N(min(sizes[d], 9)+1) - min(sizes[d], 9)/2
			}
			after := -k
			if r.IntN(3) == 0 {
				after += r.Int64N(3)
			}
			all = append(all, fmt.Sprint(k), fmt.Sprint(after))
		}
		return strings.Join(all, ", ")
	}
	kind := []string{"f32", "bf16", "bool", "f64", "i64"}[r.IntN(5)]
	value := map[string]string{"bool": "true", "i64": "3:i64"}[kind]
	if value == "" {
		value = []string{"0:f64", "2:f64"}[r.IntN(2)]
	}
	text := fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]\n", kind, signs, dense)
	pad := func(of string, to string) {
		text += fmt.Sprintf("%s = pad %s pad_widths=[%s] value=%s\n", to, of, widths(), value)
	}
	switch r.IntN(3) {
	case 0:
		pad("%0", "%1")
		text += "output %1\n"
	case 1:
		text += "%1 = set %0\n"
		pad("%1", "%2")
		text += "%3 = set %2\noutput %3\n"
	case 2:
		pad("%0", "%1")
		text += "%2 = set %0\noutput %1\noutput %2\n"
	}
	f, err := core.Parse(text)
	require.NoError(t, err, text)
	f.Freeze()
	return &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, r.Uint64(), sizes)}
}

// TestDevicePads has random pads. DEVICE_PADS is how many, DEVICE_SEED says which.
func TestDevicePads(t *testing.T) {
	n := setting("DEVICE_PADS", 150)
	seed := uint64(setting("DEVICE_SEED", 6))
	for k := range n {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		c := randomPad(t, r)
		s := newStage(t)
		if r.IntN(2) == 0 {
			s.driver.Present[0].L2 = 50 << 20
		}
		ok, err := s.check(s.executor(c.Fusion), c, 0, never)
		require.True(t, ok, "program %d, %v: %v\n%s", k, c.Inputs[0].Array.Shape, err, c.Fusion)
		if t.Failed() {
			t.Fatalf("program %d, %v\n%s", k, c.Inputs[0].Array.Shape, c.Fusion)
		}
	}
}

// What is cut to one element after it was padded is a broadcast in each kernel, also where the pad reads what another one
// stores: its widths are told by the sizes of another tensor there.
func TestPadsOfStoredTensors(t *testing.T) {
	for _, cut := range []string{"%6 = select %5 index=0 dim=0", "%9 = slice %5 start_indices=[0, 0] end_indices=[1, %0.1] strides=[1, 1] manual_normalization=true\n%6 = squeeze %9 dims=[0]"} {
		f, err := core.Parse(`%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = div %0, %2
%5 = pad %3 pad_widths=[0, 0, 1, 1] value=0
` + cut + `
%7 = broadcast %6 is_broadcast_dim=[true, false]
%8 = sub %5, %7
output %8
`)
		require.NoError(t, err)
		f.Freeze()
		for _, rows := range []int64{1, 3, 5} {
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, uint64(rows), []int64{rows, 16})}
			s := newStage(t)
			ok, err := s.check(s.executor(f), c, 0, never)
			require.True(t, ok, "%s, %d rows: %v", cut, rows, err)
		}
	}
}
