package tests

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
)

const corpusArchives = "testdata/corpus/*.txtar"

var (
	archives = flag.String("corpus", corpusArchives, "the archives that TestCorpus takes")
	onGPU    = flag.Bool("gpu", false, "run the corpus on the first GPU as well, one of compute capability 9.0")

	// For a GPU, and for compute-sanitizer around the program of the tests.
	cubinFolder = flag.String("cubins", "", "with -gpu, a folder that keeps machine code between runs")
	sanitized   = flag.Bool("sanitized", false, "with -gpu, memory without margins, and without contents where a kernel must not need them")
	every       = flag.Int("every", 1, "with -gpu, run one of so many launches")
)

// A corpus is the entries and what became of them.
type corpus struct {
	entries  []*entry
	subjects []*subject
	kernels  []*uniqueKernel // those that differ
	of       map[*subject]*uniqueKernel
	costs    map[*subject]*cost
	lock     sync.Mutex // of costs
}

// A cost is what a simulated run took, and what a device would have to do.
type cost struct {
	milliseconds float64
	counters     sim.Counters
}

// TestCorpus takes every kernel of every entry through the simulator, the
// compiler of the host and NVRTC, without each of its protections through the
// simulator again, and, with -gpu, through a GPU. With -v it prints a table of
// costs, which is also in build/corpus.json.
func TestCorpus(t *testing.T) {
	c := &corpus{of: map[*subject]*uniqueKernel{}, costs: map[*subject]*cost{}}
	var err error
	c.entries, err = readEntries(*archives)
	require.NoError(t, err)
	if testing.Short() && *archives == corpusArchives { // every sixth
		n := 0
		c.entries = slices.DeleteFunc(c.entries, func(*entry) bool { n++; return n%6 != 1 })
	}
	lowered := make([][]*subject, len(c.entries))
	inParallel(len(c.entries), func(i int) {
		var err error
		if lowered[i], err = c.entries[i].subjects(); err != nil {
			t.Errorf("%s: %v", c.entries[i].name, err)
		}
	})
	c.subjects = slices.Concat(lowered...)
	require.NoError(t, c.findUnique())
	t.Run("simulate", func(t *testing.T) { c.each(t, c.simulate) })
	t.Run("features", func(t *testing.T) { c.expectations(t) })
	t.Run("mutate", func(t *testing.T) { c.mutate(t) })
	t.Run("host", func(t *testing.T) { c.runOnHost(t) })
	t.Run("compile", func(t *testing.T) { c.compile(t) })
	if *onGPU {
		t.Run("gpu", func(t *testing.T) { c.runOnGPU(t) })
	}
	if len(c.costs) > 0 {
		c.report(t)
	}
}

// inParallel calls f with the numbers below n, on all processors.
func inParallel(n int, f func(i int)) {
	var group sync.WaitGroup
	numbers := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range numbers {
				f(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
}

// each calls f for the subjects, those of an entry one after the other.
func (c *corpus) each(t *testing.T, f func(*subject) error) {
	inParallel(len(c.entries), func(i int) {
		for _, x := range c.subjects {
			if x.entry != c.entries[i] {
				continue
			}
			if err := f(x); err != nil {
				t.Errorf("%v: %v", x, err)
			}
		}
	})
}

// simulate runs x in several orders of blocks and threads.
func (c *corpus) simulate(x *subject) error {
	for _, o := range []sim.Options{{Order: sim.Forward}, {Order: sim.Reverse}, {Order: sim.Random, Seed: 3}} {
		start := time.Now()
		got, report, err := x.Simulate(o)
		took := time.Since(start)
		if err == nil {
			err = report.Err()
		}
		if err != nil {
			return fmt.Errorf("%w\n%v", err, x.Kernel)
		}
		if text := x.differs(got); text != "" {
			return fmt.Errorf("%s\n%v", text, x.Kernel)
		}
		c.lock.Lock()
		if c.costs[x] == nil {
			c.costs[x] = &cost{took.Seconds() * 1e3, report.Counters}
		}
		c.lock.Unlock()
	}
	return nil
}

// differs describes how got is not what the evaluator says, or is "". Integers
// must be equal. Other numbers may be apart by 1e-5 of the largest in the output,
// or the precision of their type, for sums in another order and functions in
// another precision.
func (x *subject) differs(got []*core.Array) string {
	for i, want := range x.inputs.want {
		tolerance := 0.0
		if t := want.Type; t.IsFloat() || t.IsComplex() {
			tolerance = max(1e-5, epsilon(t))
		}
		if text := fusionfuzz.Difference(want, got[i], tolerance); text != "" {
			return fmt.Sprintf("output %d: %s", i, text)
		}
	}
	return ""
}

// epsilon returns the distance of 1 from the next number of a type of fewer
// bits than Float, else 0.
func epsilon(t dtype.Type) float64 {
	if !t.IsFloat() || t.Size() > 2 {
		return 0
	}
	e := 1.0
	for dtype.Round(t, 1+e/2) != 1 && e > 1e-5 {
		e /= 2
	}
	return e
}

// expectations checks that each word of a section "expect" holds of a kernel,
// and that the corpus has every feature and class of operation.
func (c *corpus) expectations(t *testing.T) {
	all, classes := map[string]bool{}, map[core.Class]bool{}
	for _, e := range c.entries {
		has := c.featuresOf(e)
		for _, word := range e.missing(has) {
			t.Errorf("%s: no kernel has %q (%s)", e.name, word, featureNames[word])
		}
		maps.Copy(all, has)
		for _, class := range e.classes() {
			classes[class] = true
		}
	}
	if testing.Short() || *archives != corpusArchives {
		return
	}
	for _, word := range slices.Sorted(maps.Keys(featureNames)) {
		if !all[word] && !missingFeatures[word] {
			t.Errorf("no entry has %q: %s", word, featureNames[word])
		}
	}
	for class := core.Elementwise; class <= core.Random; class++ {
		if !classes[class] && class != core.Scan && class != core.Sort {
			t.Errorf("no entry has an operation of class %v", class)
		}
	}
}

// featuresOf returns the words that hold of a kernel of an entry.
func (c *corpus) featuresOf(e *entry) map[string]bool {
	has := map[string]bool{}
	for _, x := range c.subjects {
		if x.entry != e {
			continue
		}
		for word, ok := range features(x) {
			if ok {
				has[word] = true
			}
		}
		if made := c.costs[x]; made != nil {
			has[fmt.Sprintf("conflicts=%d", made.counters.BankConflicts)] = true
		}
	}
	return has
}

// missing returns the words of the section "expect" that are not in has.
func (e *entry) missing(has map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(e.expect), func(word string) bool { return has[word] || word == "spills" || word == "stack" })
}

// missingFeatures are those that no kernel has yet.
var missingFeatures = map[string]bool{"atomic": true}

// A uniqueKernel is a kernel and its names in texts.
type uniqueKernel struct {
	name     string
	kernel   *kir.Kernel
	subjects []*subject
	compiled [len(architectures)]nvrtc.Result
}
