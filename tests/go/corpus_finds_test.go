package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// madeOf returns the corpus of one archive.
func madeOf(t *testing.T, archive string) *corpus {
	e, err := parseEntry("entry", txtar.Parse([]byte(archive)))
	require.NoError(t, err)
	c := &corpus{entries: []*entry{e}, of: map[*subject]*uniqueKernel{}, costs: map[*subject]*cost{}}
	c.subjects, err = e.subjects()
	require.NoError(t, err)
	require.NoError(t, c.findUnique())
	return c
}

const negated = `A guard.
-- fusion --
%0 = tensor f32 [-1] contiguity=[yes]
%1 = neg %0
output %1
-- inputs --
%0 [101]
-- expect --
guard warp
`

// TestCorpusFinds shows each check of the corpus to be able to fail.
func TestCorpusFinds(t *testing.T) {
	c := madeOf(t, negated)
	x, u := c.subjects[0], c.kernels[0]
	require.NoError(t, c.simulate(x))
	require.Equal(t, []string{"warp"}, x.entry.missing(c.featuresOf(x.entry)))

	all := mutants(x.Kernel)
	require.Len(t, all, 2) // around the load and the store
	require.Equal(t, sim.OutOfBounds.String(), u.problem(all[0]))
	require.Empty(t, u.problem(mutant{kernel: x.Kernel}))

	right := x.Kernel
	x.Kernel = all[1].kernel
	require.ErrorContains(t, c.simulate(x), "out of bounds")
	s, err := cuda.Print(x.Kernel, cuda.Options{Arch: 90})
	require.NoError(t, err)
	p, err := hostshim.Build(t.TempDir(), s)
	require.NoError(t, err)
	require.ErrorContains(t, c.run(p, c.subjects, false), "beyond the buffer")

	x.Kernel = right
	x.inputs.want[0].Set(3, scalar.Value{Type: dtype.Float, Re: 1e9})
	require.ErrorContains(t, c.simulate(x), "element 3")

	compiled := func(f nvrtc.Function) nvrtc.Result {
		return nvrtc.Result{OK: true, Functions: map[string]nvrtc.Function{u.name: f}}
	}
	require.Empty(t, complaint(u, compiled(nvrtc.Function{Registers: 9})))
	require.Contains(t, complaint(u, compiled(nvrtc.Function{SpillStores: 8, SpillLoads: 16})), "8 bytes spilled and 16 read again")
	require.Contains(t, complaint(u, compiled(nvrtc.Function{Stack: 24})), "24 bytes of stack")
	require.Contains(t, complaint(u, nvrtc.Result{OK: true}), "ptxas does not say")
	require.Equal(t, "warning", complaint(u, nvrtc.Result{OK: true, Log: "warning"}))
	x.entry.expect = []string{"spills"}
	require.Empty(t, complaint(u, compiled(nvrtc.Function{SpillStores: 8})))
}

// TestCorpusEntries shows what archives are refused.
func TestCorpusEntries(t *testing.T) {
	for _, test := range []struct{ from, to, problem string }{
		{"A guard.\n", "", "an entry needs a comment, a fusion and inputs"},
		{"-- inputs --", "-- input --", "there is no section \"input\""},
		{"%0 [101]", "%1 [101]", "\"%1 [101]\" stands where input %0 is expected"},
		{"%0 [101]", "%0 [101]\n%1 [101]", "the fusion has 1 tensors and 0 scalars, and 2 and 0 are given"},
		{"%0 [101]", "%0 101", "\"101]\" is no list"},
		{"%0 [101]", "%0 [x]", "invalid syntax"},
		{"%0 [101]", "%0 [101] dense", "\"dense\" does not say how %0 lies in memory"},
		{"neg", "negate", "negate"},
	} {
		text := strings.Replace(negated, test.from, test.to, 1)
		_, err := parseEntry("entry", txtar.Parse([]byte(text)))
		require.ErrorContains(t, err, test.problem)
	}
}
