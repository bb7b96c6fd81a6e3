package memory_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/memory"
	"nvfuser_go/codegen/sim"
)

var orders = []sim.Options{{}, {Order: sim.Reverse}, {Order: sim.Random, Seed: 1}, {Order: sim.Random, Seed: 2}, {Order: sim.Random, Seed: 3}}

// run executes the kernel of a launch, with memory for what Plan added.
func (l *launch) run(t *testing.T, o sim.Options) *sim.Report {
	t.Helper()
	for len(l.arguments) < len(l.k.Arguments) {
		l.arguments = append(l.arguments, sim.Argument{Memory: &sim.Memory{Data: make([]byte, 8)}})
	}
	o.Outputs = l.outputs
	report, err := sim.Run(l.k, l.arguments, o)
	require.NoError(t, err)
	return report
}

func TestPlannedKernels(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kernels)) {
		t.Run(name, func(t *testing.T) {
			for _, o := range orders {
				l := kernels[name]()
				require.NoError(t, memory.Plan(l.k, memory.Options{}))
				require.NoError(t, l.k.Verify())
				report := l.run(t, o)
				require.NoError(t, report.Err(), "%v", l.k)
				l.check(t)
			}
		})
	}
}

// tokens returns what orders threads in a kernel, in order of the text.
func tokens(b kir.Block) []kir.Statement {
	var out []kir.Statement
	b.Walk(func(s kir.Statement) {
		switch s.(type) {
		case kir.AsyncCommit, kir.AsyncWait, kir.Barrier, kir.Arrived:
			out = append(out, s)
		}
	})
	return out
}

// without returns a block without token number n of all.
func without(b kir.Block, n *int) kir.Block {
	var out kir.Block
	for _, s := range b {
		switch x := s.(type) {
		case kir.AsyncCommit, kir.AsyncWait, kir.Barrier, kir.Arrived:
			if *n--; *n == -1 {
				continue
			}
		case *kir.For:
			c := *x
			c.Body = without(x.Body, n)
			s = &c
		case *kir.If:
			then := without(x.Then, n)
			s = &kir.If{Cond: x.Cond, Then: then, Else: without(x.Else, n)}
		}
		out = append(out, s)
	}
	return out
}

// redundant are the tokens that can go without a report of the simulator, and
// why they are there.
var redundant = map[string]string{
	"arrivals 2 barrier block":            "the simulator takes what waits for arrivals for a barrier",
	"cluster, one slot 0 barrier cluster": "it is given, and the first of the loop is another one",
	"halfWaited 1 wait 0":                 "it is given",
	"pipeline again 2 barrier block":      "with no tiles it is the only one between two rounds, and here are some",
	"sometimes 0 barrier block":           "it is for the ticket, which is not taken here",
}

// TestEveryTokenCounts removes one token at a time: the simulator reports
// something in at least one order, or the token is not needed.
func TestEveryTokenCounts(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kernels)) {
		t.Run(name, func(t *testing.T) {
			l := kernels[name]()
			require.NoError(t, memory.Plan(l.k, memory.Options{}))
			list := tokens(l.k.Body)
			for i, s := range list {
				found := false
				for _, o := range orders[:3] {
					m := kernels[name]()
					require.NoError(t, memory.Plan(m.k, memory.Options{}))
					n := i
					m.k.Body = without(m.k.Body, &n)
					found = found || m.run(t, o).Err() != nil
				}
				key := fmt.Sprintf("%s %d %s", name, i, l.k.Text(s))
				if _, known := redundant[key]; found == known {
					t.Errorf("%s: reported %v\n%v", key, found, l.k)
				}
			}
		})
	}
}
