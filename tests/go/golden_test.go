package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/internal/golden"
)

// TestGoldenPrint parses the section "fusion" of each archive and compares the
// forms that it prints in: "text" (canonical), "python" (repr) and "math".
func TestGoldenPrint(t *testing.T) {
	golden.Run(t, "testdata/print/*.txtar", "fusion", func(t *testing.T, in, section string) string {
		f, err := core.Parse(in)
		require.NoError(t, err)
		require.NoError(t, f.Verify())
		switch section {
		case "text":
			return f.String()
		case "python":
			return f.Python("nvfuser_fusion")
		case "math":
			return f.Math(true)
		}
		t.Fatalf("there is no form %q", section)
		return ""
	})
}

// TestGoldenError compares the text of the mistake that each archive contains.
func TestGoldenError(t *testing.T) {
	golden.Run(t, "testdata/error/*.txtar", "fusion", func(t *testing.T, in, _ string) string {
		_, err := core.Parse(in)
		require.Error(t, err)
		return err.Error()
	})
}

// TestGoldenCUDA compares the text of the first kernel of an entry of the corpus.
func TestGoldenCUDA(t *testing.T) {
	golden.Run(t, "testdata/cuda/*.txtar", "entry", func(t *testing.T, in, section string) string {
		entries, err := readEntries(filepath.Join("testdata/corpus", strings.TrimSpace(in)+".txtar"))
		require.NoError(t, err)
		subjects, err := entries[0].subjects()
		require.NoError(t, err)
		for _, arch := range architectures {
			if arch.name == section {
				text, err := cuda.Print(subjects[0].Kernel, cuda.Options{Arch: arch.sm})
				require.NoError(t, err)
				return text.Text
			}
		}
		t.Fatalf("there is no architecture %q", section)
		return ""
	})
}

// TestGoldenEval compares what the evaluator makes of small inputs: element i
// of each input is i, so that a reader can follow every number.
func TestGoldenEval(t *testing.T) {
	golden.Run(t, "testdata/eval/*.txtar", "fusion", func(t *testing.T, in, _ string) string {
		f, err := core.Parse(in)
		require.NoError(t, err)
		var inputs []*core.Array
		for _, v := range f.Inputs() {
			d := f.Describe(v)
			a := core.NewArray(d.DType, d.Shape)
			for i := range a.Len() {
				a.Set(int64(i), core.ConvertScalar(d.DType, scalar.Value{Type: dtype.Int, I: int64(i)}))
			}
			inputs = append(inputs, a)
		}
		outputs, err := f.Eval(inputs, make([]scalar.Value, len(inputs)), core.RandomState{})
		require.NoError(t, err)
		var b strings.Builder
		for k, a := range outputs {
			fmt.Fprintf(&b, "output %d: %s %v:", k, a.Type.Text(), a.Shape)
			for i := range a.Len() {
				b.WriteString(" " + core.PythonLiteral(a.At(int64(i))))
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

// TestTextIsCanonical: random fusions print the same text after a round trip
// through it, and verify before and after.
func TestTextIsCanonical(t *testing.T) {
	for seed := range 300 {
		checkCanonical(t, fmt.Appendf(nil, "%d:%s", seed, strings.Repeat(fmt.Sprint(seed*7919), 8)))
	}
}

// FuzzText is TestTextIsCanonical on any bytes.
func FuzzText(f *testing.F) {
	f.Add([]byte("a fusion of some kind, whatever these bytes say"))
	f.Fuzz(func(t *testing.T, data []byte) { checkCanonical(t, data) })
}

func checkCanonical(t *testing.T, data []byte) {
	f := fusionfuzz.Decode(data).Fusion
	require.NoError(t, f.Verify())
	text := f.String()
	g, err := core.Parse(text)
	require.NoError(t, err, "%s", text)
	g.Freeze()
	require.NoError(t, g.Verify(), "%s", text)
	require.Equal(t, text, g.String())
}
