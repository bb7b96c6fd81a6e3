package segmenter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
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

// bound parses a fusion after a line such as "# sizes 4x8 4 0.5".
func bound(t testing.TB, text string) *trial {
	f, inputs, err := fusionfuzz.ParseSized(text)
	require.NoError(t, err)
	x := &trial{f: f, values: inputs["sizes"]}
	x.b, err = f.Bind(x.values)
	require.NoError(t, err)
	x.f, _, err = f.Concretize(x.b)
	require.NoError(t, err)
	x.b, err = x.f.Bind(x.values)
	require.NoError(t, err)
	return x
}
