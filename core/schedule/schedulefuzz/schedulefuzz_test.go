package schedulefuzz_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
	"nvfuser_go/core/schedule/schedulefuzz"
)

// A seed, and any bytes, give one program.
func TestOneProgram(t *testing.T) {
	for _, set := range append(schedulefuzz.Sets(), schedulefuzz.Indexing()) {
		for seed := range uint64(20) {
			make := func() string {
				return schedulefuzz.New(schedulefuzz.Seeded(seed), set, schedulefuzz.All).String()
			}
			require.Equal(t, make(), make())
			decode := func() string {
				rng := schedulefuzz.Decoded([]byte(fmt.Sprint(set.Name, seed)))
				return schedulefuzz.New(rng, set, schedulefuzz.All).String()
			}
			require.Equal(t, decode(), decode())
		}
	}
}

// The text of the fusion and the script are the program.
func TestScriptIsProgram(t *testing.T) {
	for _, set := range append(schedulefuzz.Sets(), schedulefuzz.Indexing()) {
		for seed := range uint64(20) {
			p := schedulefuzz.New(schedulefuzz.Seeded(seed), set, schedulefuzz.All)
			if p == nil {
				continue
			}
			f, err := core.Parse(p.Fusion.String())
			require.NoError(t, err)
			f.Freeze()
			script, err := schedule.ParseScript(p.Schedule.Script().String())
			require.NoError(t, err)
			s := schedule.New(f)
			require.NoError(t, s.Run(script), "seed %d\n%v", seed, p)
			require.Equal(t, p.Schedule.String(), s.String())
		}
	}
}

// What does not matter is left out, and the rest computes what it did.
func TestShrink(t *testing.T) {
	fails := func(p *schedulefuzz.Program) bool {
		return strings.Contains(p.Fusion.String(), "= sum ") && strings.Contains(p.Schedule.Script().String(), ".rfactor(")
	}
	shrunk := 0
	for seed := range uint64(40) {
		p := schedulefuzz.New(schedulefuzz.Seeded(seed), schedulefuzz.Sets()[1], schedulefuzz.All)
		if p == nil || !fails(p) {
			continue
		}
		shrunk++
		small := schedulefuzz.Shrink(p, fails, 500)
		require.True(t, fails(small))
		require.LessOrEqual(t, len(small.Schedule.Script()), 4, "%v", small)
		require.LessOrEqual(t, strings.Count(small.Fusion.String(), "\n"), 7, "%v", small)
		arrays, scalars, _ := fusionfuzz.Arguments(small.Inputs)
		_, err := small.Fusion.Eval(arrays, scalars, core.RandomState{})
		require.NoError(t, err)
	}
	require.Greater(t, shrunk, 5)
}
