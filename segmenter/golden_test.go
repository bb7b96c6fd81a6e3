package segmenter

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
)

// TestGolden holds programs of small blocks. The first lines of an input are the sizes of
// its inputs, by which the cut goes; nothing is computed.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "fusion", func(t *testing.T, in, _ string) string {
		x := bound(t, in)
		p, err := Cut(x.f, x.b, scheduler.Hopper, Options{})
		if err != nil {
			return err.Error()
		}
		require.NoError(t, x.sound(p, Options{}))
		return p.Dump()
	})
}

// bound parses a fusion after a line such as "# sizes 4x8 4 0.5", one word an input; a
// tensor without dimensions is "-".
func bound(t testing.TB, text string) *trial {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(line)[2:]
	x := &trial{f: f, values: sizes(t, f, words)}
	x.b, err = f.Bind(x.values)
	require.NoError(t, err)
	x.f, _, err = f.Concretize(x.b)
	require.NoError(t, err)
	x.b, err = x.f.Bind(x.values)
	require.NoError(t, err)
	return x
}

// sizes returns inputs of f as words say.
func sizes(t testing.TB, f *core.Fusion, words []string) []core.InputValue {
	var all []core.InputValue
	for i, v := range f.Inputs() {
		val := f.Val(v)
		if !val.Tensor {
			n, err := strconv.ParseFloat(words[i], 64)
			require.NoError(t, err)
			all = append(all, core.InputValue{Scalar: core.ConvertScalar(val.DType, scalar.Value{Type: dtype.Double, Re: n})})
			continue
		}
		in := core.InputValue{Tensor: true, DType: val.DType}
		for word := range strings.SplitSeq(words[i], "x") {
			if word == "-" {
				continue
			}
			n, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err)
			in.Sizes = append(in.Sizes, n)
		}
		all = append(all, in)
	}
	return all
}
