package executor_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
)

// severalSegments returns random programs of at least two segments, whose inputs are
// small.
func severalSegments(t *testing.T, seed uint64, n int) (all []*fusionfuzz.Case) {
	for k := uint64(0); len(all) < n; k++ {
		r := rand.New(rand.NewPCG(seed, k))
		data := make([]byte, 40+r.IntN(150))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		if len(segmentsOf(t, c)) > 1 && !c.Wild {
			all = append(all, c)
		}
	}
	return all
}

// allShown is all that there is to see of a plan.
func allShown(plan *executor.Plan) (string, error) {
	text := plan.Device.String()
	for _, stage := range []string{"segmented_fusion", "segmenter_logging", "scheduler_verbose", "cuda_full", "launch_param"} {
		of, err := plan.Inspection().Show(stage)
		if err != nil && !isRefused(err) {
			return "", err
		}
		text += fmt.Sprintf("%s %v\n", of, err)
	}
	return text, nil
}

func isRefused(err error) bool {
	_, ok := err.(*core.Unsupported)
	return ok
}

// TestManyPlansAtOnce: ten goroutines plan and simulate the same and other programs of
// several segments, with 8 processors to compile. Each plan is the one that one goroutine
// makes, and each result that of the evaluator.
func TestManyPlansAtOnce(t *testing.T) {
	cases := severalSegments(t, 5, 12)
	if testing.Short() {
		cases = cases[:6]
	}
	want, results := make([]string, len(cases)), make([][]*core.Array, len(cases))
	for i, c := range cases {
		p := prepare(c)
		var err error
		results[i], err = c.Fusion.Eval(p.arrays, p.scalars, random)
		require.NoError(t, err)
		plan, err := executorOf(t, c.Fusion).PlanWith(prepare(c).inputs, executor.Options{Simulate: true})
		requireNoError(t, err)
		want[i], err = allShown(plan)
		requireNoError(t, err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	cache := executor.NewCache(len(cases)/2, nil) // so that plans are made again
	var all sync.WaitGroup
	for g := range 10 {
		all.Go(func() {
			for k := range cases {
				i := (k*7 + g/2) % len(cases) // two goroutines ask for one plan at a time
				e, err := cache.Executor(cases[i].Fusion)
				if err != nil {
					t.Error(err)
					return
				}
				p := prepare(cases[i])
				plan, err := e.PlanWith(p.inputs, executor.Options{Simulate: true})
				if err != nil {
					t.Errorf("%v\n%v", err, cases[i].Fusion)
					return
				}
				if got, err := allShown(plan); err != nil || got != want[i] {
					t.Errorf("%v: %s\nis not\n%s", err, got, want[i])
				}
				result, _, err := p.runPlan(t, plan, random)
				if err != nil {
					t.Errorf("%v\n%v", err, cases[i].Fusion)
					continue
				}
				if d := cases[i].Check(results[i], result); d != "" {
					t.Error(d)
				}
			}
		})
	}
	all.Wait()
}

// TestPlansAreEqual: a program that is planned twenty times, with one processor and with
// eight, is the same each time.
func TestPlansAreEqual(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cases := severalSegments(t, 6, 4)
	for text, sizes := range map[string][][]int64{
		blockText: {{16, 300}, {300, 8}},
		layers("exp", "abs", "sin", "neg", "cos", "abs", "exp", "tanh"): {{1000}},
	} {
		f := parsed(t, text)
		cases = append(cases, &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes...)})
	}
	for _, c := range cases {
		want := ""
		for k := range 20 {
			runtime.GOMAXPROCS([]int{1, 8}[k%2])
			plan, err := executorOf(t, c.Fusion).PlanWith(prepare(c).inputs, executor.Options{Simulate: true})
			requireNoError(t, err)
			got, err := allShown(plan)
			requireNoError(t, err)
			if k == 0 {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
}
