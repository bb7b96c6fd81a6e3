package passes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// programs are families of n operations or so that passes look at.
var programs = map[string]func(n int) string{
	"casts": func(n int) string {
		var b strings.Builder
		b.WriteString("%0 = tensor bf16 [-1] contiguity=[yes]\n")
		for i := range n {
			fmt.Fprintf(&b, "%%%d = cast %%%d dtype=%s\n", i+1, i, []string{"f32", "f64", "f16", "bf16"}[i%4])
		}
		fmt.Fprintf(&b, "output %%%d\n", n)
		return b.String()
	},
	"views": func(n int) string {
		var b strings.Builder
		b.WriteString("%0 = tensor f32 [-1, 3] contiguity=[yes, yes]\n")
		for i := range n {
			fmt.Fprintf(&b, "%%%d = %s\n", i+1, fmt.Sprintf([]string{"permute %%%d dims=[1, 0]", "permute %%%d dims=[1, 0]",
				"broadcast %%%d is_broadcast_dim=[false, true, false]", "squeeze %%%d dims=[1] squeeze_expanded=false", "neg %%%d"}[i%5], i))
		}
		fmt.Fprintf(&b, "output %%%d\n", n)
		return b.String()
	},
	"equal": func(n int) string { // each of two equal ones, summed
		var b strings.Builder
		b.WriteString("%0 = tensor f32 [-1] contiguity=[yes]\n")
		for i := 0; i < n; i += 3 {
			fmt.Fprintf(&b, "%%%d = exp %%%d\n%%%d = exp %%%d\n%%%d = add %%%d, %%%d\n", i+1, i, i+2, i, i+3, i+1, i+2)
		}
		fmt.Fprintf(&b, "output %%%d\n", (n+2)/3*3)
		return b.String()
	},
	"split and cat": func(n int) string { // one cat of n slices, each with an operation
		var b strings.Builder
		fmt.Fprintf(&b, "%%0 = tensor f32 [%d] contiguity=[yes]\n", 2*n)
		parts := make([]string, n)
		for i := range n {
			fmt.Fprintf(&b, "%%%d = slice %%0 start_indices=[%d] end_indices=[%d] strides=[1] manual_normalization=true\n%%%d = neg %%%d\n", 2*i+1, 2*i, 2*i+2, 2*i+2, 2*i+1)
			parts[i] = fmt.Sprintf("%%%d", 2*i+2)
		}
		fmt.Fprintf(&b, "%%%d = cat [%s] dim=0 manual_padding=false\noutput %%%d\n", 2*n+1, strings.Join(parts, ", "), 2*n+1)
		return b.String()
	},
	"cat and split": func(n int) string { // n slices of one cat
		var b strings.Builder
		b.WriteString("%0 = tensor f32 [2] contiguity=[yes]\n%1 = tensor f32 [2] contiguity=[yes]\n")
		parts := make([]string, n)
		for i := range n {
			parts[i] = fmt.Sprintf("%%%d", i%2)
		}
		fmt.Fprintf(&b, "%%2 = cat [%s] dim=0 manual_padding=false\n%%3 = neg %%0\n", strings.Join(parts, ", "))
		for i := range n {
			fmt.Fprintf(&b, "%%%d = slice %%2 start_indices=[%d] end_indices=[%d] strides=[1] manual_normalization=true\n%%%d = add %%%d, %%%d\n", 2*i+4, 2*i, 2*i+2, 2*i+5, 2*i+4, 2*i+3)
		}
		fmt.Fprintf(&b, "output %%%d\n", 2*n+3)
		return b.String()
	},
}

// What the passes append grows no faster than the program.
func TestWorkIsLinear(t *testing.T) {
	for name, program := range programs {
		for _, n := range []int{10, 100, 1000, 10000} {
			f := parse(t, program(n))
			size, work := f.NumExprs(), 0
			for _, p := range Passes() {
				g, _, err := p.Run(f)
				require.NoError(t, err)
				if g != f {
					work += g.NumExprs() + g.NumAxes()
				}
				f = g
			}
			require.LessOrEqual(t, work, 40*size+100, "%s of %d", name, n)
		}
	}
}

func BenchmarkPasses(b *testing.B) {
	for _, name := range []string{"casts", "views", "equal", "split and cat", "cat and split"} {
		for _, n := range []int{1000, 10000} {
			f, err := core.Parse(programs[name](n))
			if err != nil {
				b.Fatal(err)
			}
			f.Freeze()
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := Run(f, false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(f.NumExprs()), "ns/expr")
			})
		}
	}
}
