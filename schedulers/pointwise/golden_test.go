package pointwise

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
)

// TestChoices compares what is chosen for whole segments. The input is a fusion,
// an empty line, and a line "[sizes]" for each input, with "strides=[..]" where it
// is not dense and "aligned=n" where its address is no multiple of 16; lines
// "output" say the same of outputs, which the executor lays out.
func TestChoices(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := readSegment(t, in)
		require.Empty(t, Scheduler{}.Accept(g, scheduler.Hopper))
		candidates := Scheduler{}.Candidates(g, scheduler.Hopper)
		require.LessOrEqual(t, len(candidates), 4)
		first := candidates[0].(Params)
		p := analyse(g).space
		switch section {
		case "choice":
			var b strings.Builder
			for _, q := range candidates {
				fmt.Fprintln(&b, q)
			}
			return b.String()
		case "accesses":
			var b strings.Builder
			fmt.Fprintf(&b, "dimensions %v of %v\n", p.order, p.extents)
			for k, w := range p.pitchOf(first.Break, first.Vector, 1).widths {
				x := &p.tensors[k]
				if first.Break > 0 && x.isConstant(first.Break, len(p.order)) {
					fmt.Fprintf(&b, "%s: one of %d bytes a row\n", g.Fusion.Name(x.val), x.bytes)
					continue
				}
				fmt.Fprintf(&b, "%s: %d of %d bytes\n", g.Fusion.Name(x.val), first.Vector/w, w*x.bytes)
			}
			return b.String()
		}
		s, err := Scheduler{}.Apply(g, first)
		require.NoError(t, err)
		for _, line := range strings.Split(s.Text(false), "\n") {
			if strings.HasPrefix(line, s.Fusion().Name(p.reference)+" ") {
				return line
			}
		}
		return ""
	})
}

// readSegment reads the input of TestChoices.
func readSegment(t *testing.T, in string) *scheduler.Segment {
	t.Helper()
	text, given, _ := strings.Cut(in, "\n\n")
	f, err := core.Parse(text + "\n")
	require.NoError(t, err)
	f.Freeze()
	var values []core.InputValue
	var lines [][]string
	for _, line := range strings.Split(strings.TrimSpace(given), "\n") {
		if fields := strings.Fields(strings.ReplaceAll(line, ", ", ",")); len(fields) > 0 {
			lines = append(lines, fields)
		}
	}
	for k, v := range f.Inputs() {
		values = append(values, core.InputValue{Tensor: true, DType: f.Val(v).DType, Sizes: readList(t, lines[k][0])})
	}
	bind, err := f.Bind(values)
	require.NoError(t, err)
	g, err := scheduler.Dense(f, bind)
	require.NoError(t, err)
	outputs := 0
	for k, fields := range lines {
		var at *scheduler.Placement
		if fields[0] == "output" {
			at = &g.Outputs[outputs]
			outputs++
		} else {
			at = &g.Inputs[k]
		}
		for _, field := range fields[1:] {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "strides":
				at.Strides = readList(t, value)
			case "aligned":
				at.Aligned = int(readList(t, "["+value+"]")[0])
			default:
				t.Fatal(field)
			}
		}
	}
	return g
}

func readList(t *testing.T, text string) (list []int64) {
	t.Helper()
	for _, field := range strings.Split(strings.Trim(text, "[]"), ",") {
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(t, err)
		list = append(list, n)
	}
	return list
}
