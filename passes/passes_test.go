package passes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/internal/golden"
)

// Each pass has a reason and comes after those that it names.
func TestOrder(t *testing.T) {
	before := map[string]bool{}
	for _, p := range Passes() {
		require.NotEmpty(t, p.Why, p.Name)
		require.False(t, before[p.Name], "%s is there twice", p.Name)
		for _, name := range p.After {
			require.True(t, before[name], "%s comes after %s", p.Name, name)
		}
		before[p.Name] = true
	}
}

func parse(t testing.TB, text string) *core.Fusion {
	f, err := core.Parse(text)
	require.NoError(t, err, text)
	f.Freeze()
	return f
}

// TestGolden runs on the section "fusion" what another section is named: a pass,
// or "all passes". The first line of a result tells the changes. Symbolic sizes
// are 6 where the result is compared with the fusion.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", "fusion", func(t *testing.T, in, section string) string {
		f := parse(t, in)
		if say, ok := facts[section]; ok {
			return say(f)
		}
		g, applied := run(t, f, section)
		compare(t, f, g, defaultInputs(f))
		if g == f {
			return "unchanged\n"
		}
		var b strings.Builder
		for _, a := range applied {
			fmt.Fprintf(&b, "# %s: %d\n", a.Pass, a.Changes)
		}
		return b.String() + g.String()
	})
}

func run(t testing.TB, f *core.Fusion, name string) (*core.Fusion, []Applied) {
	if name == "all passes" {
		g, applied, err := Run(f, true)
		require.NoError(t, err)
		return g, applied
	}
	for _, p := range Passes() {
		if p.Name == name {
			return one(t, f, p)
		}
	}
	t.Fatalf("there is no pass %q", name)
	return nil, nil
}

// one runs a pass, and verifies what it makes.
func one(t testing.TB, f *core.Fusion, p Pass) (*core.Fusion, []Applied) {
	g, n, err := p.Run(f)
	require.NoError(t, err, "%s of\n%s", p.Name, f)
	if g == f {
		return f, nil
	}
	require.NoError(t, g.Verify(), "%s of\n%s gave\n%s", p.Name, f, g)
	return g, []Applied{{p.Name, n}}
}

// defaultInputs are inputs of f whose symbolic sizes are 6.
func defaultInputs(f *core.Fusion) []fusionfuzz.Input {
	var sizes [][]int64
	for _, v := range f.Inputs() {
		if !f.Val(v).Tensor {
			continue
		}
		shape := f.Describe(v).Shape
		for i, n := range shape {
			if n < 0 {
				shape[i] = 6
			}
		}
		sizes = append(sizes, shape)
	}
	return fusionfuzz.Inputs(f, 1, sizes...)
}

var random = core.RandomState{Seed: 11, Offset: 8}

// compare fails unless g gives the bits that f gives, if f takes the inputs, has
// its interface, and a text that parses back. It reports whether f takes them.
func compare(t testing.TB, f, g *core.Fusion, inputs []fusionfuzz.Input) bool {
	require.True(t, g.Frozen())
	require.Len(t, g.Inputs(), len(f.Inputs()))
	for i, v := range f.Inputs() {
		require.Equal(t, f.Name(v), g.Name(g.Inputs()[i]))
	}
	require.Len(t, g.Outputs(), len(f.Outputs()))
	for i, o := range f.Outputs() {
		p := g.Outputs()[i]
		require.Equal(t, slices.Index(f.Inputs(), o.Alias), slices.Index(g.Inputs(), p.Alias))
		for j := range i {
			require.Equal(t, f.Outputs()[j].Val == o.Val, g.Outputs()[j].Val == p.Val, "outputs %d and %d of\n%s\n%s", j, i, f, g)
		}
		require.Equal(t, f.Val(o.Val).Input, g.Val(p.Val).Input, "output %d of\n%s\n%s", i, f, g)
	}
	arrays, scalars, _ := fusionfuzz.Arguments(inputs)
	want, err := f.Eval(arrays, scalars, random)
	if err != nil {
		return false // so nothing need come of it: sizes may contradict each other in the open
	}
	again, err := core.Parse(g.String())
	require.NoError(t, err)
	again.Freeze()
	require.Equal(t, g.String(), again.String())
	got, err := g.Eval(arrays, scalars, random)
	require.NoError(t, err, "%s\n%s", f, g)
	for i := range want {
		require.Empty(t, fusionfuzz.Difference(want[i], got[i], 0), "output %d of\n%s\n%s", i, f, g)
	}
	return true
}

// check runs each pass alone, and each after those before it.
func check(t testing.TB, data []byte, changes map[string]int) {
	c := fusionfuzz.Decode(data)
	text := c.Fusion.String()
	f := c.Fusion
	for _, p := range Passes() {
		alone, _ := one(t, c.Fusion, p)
		if alone != c.Fusion && f != c.Fusion {
			compare(t, c.Fusion, alone, c.Inputs)
		}
		g, applied := one(t, f, p)
		if g != f {
			changes[p.Name] += applied[0].Changes
			if compare(t, c.Fusion, g, c.Inputs) {
				changes["compared"]++
			}
		}
		f = g
	}
	require.Equal(t, text, c.Fusion.String())
	all, _, err := Run(c.Fusion, true)
	require.NoError(t, err)
	require.Equal(t, f.String(), all.String())
	for _, say := range facts {
		say(c.Fusion)
	}
}

func number(t testing.TB, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestRandom needs every pass to have changed something in 3000 programs.
// PASSES_PROGRAMS and PASSES_SEED say how many there are, and which.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(number(t, "PASSES_SEED", 1)), 0))
	enough := 3000
	if testing.Short() {
		enough = 600
	}
	programs := number(t, "PASSES_PROGRAMS", enough)
	changes := map[string]int{}
	for range programs {
		data := make([]byte, 64+r.IntN(400))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		check(t, data, changes)
	}
	t.Log(changes)
	for _, p := range Passes() {
		// Programs of any bytes hardly have a softmax, an embedding, a gather of what is computed or a row that is scaled
		// after a reshape, or pairs of what is computed: TestExponentialsRandom, TestEmbeddingsRandom, TestGathersRandom and TestLookupsRandom draw
		// the first, the chains of tests/python rows, TestDeviceGathered of the executor pairs.
		isRare := p.Name == "sum of exponentials" || p.Name == "embeddings" || strings.HasPrefix(p.Name, "gathers") || p.Name == "arithmetic before reshapes" || p.Name == "what is taken apart"
		require.True(t, programs < 3000 || changes[p.Name] > 0 || isRare, p.Name)
	}
}

func FuzzPasses(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data, map[string]int{}) })
}

// Passes share nothing: eight goroutines on one fusion, and on others.
func TestConcurrent(t *testing.T) {
	archives := []string{}
	r := rand.New(rand.NewPCG(5, 0))
	for range 20 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		archives = append(archives, fusionfuzz.Decode(data).Fusion.String())
	}
	for _, text := range archives {
		f := parse(t, text)
		want, _, err := Run(f, true)
		require.NoError(t, err)
		var all sync.WaitGroup
		for k := range 8 {
			all.Go(func() {
				mine := f
				if k%2 == 1 {
					mine = parse(t, text)
				}
				got, _, err := Run(mine, true)
				if err != nil || got.String() != want.String() {
					t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
				}
			})
		}
		all.Wait()
	}
}
