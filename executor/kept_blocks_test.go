package executor_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor"
)

// cacheOf returns a cache with an executor for f, as a new process has them.
func cacheOf(t testing.TB, driver cudadrv.Driver, f *core.Fusion) (*executor.Cache, *executor.Executor) {
	cache := executor.NewCache(1, driver)
	e, err := cache.Executor(f)
	require.NoError(t, err)
	return cache, e
}

// TestKeptBlocks has the blocks of the corpus, for all their sizes, planned in one process:
// another one compiles, lowers and schedules nothing.
func TestKeptBlocks(t *testing.T) {
	files, err := filepath.Glob("../tests/go/testdata/corpus/blocks/*.fusion")
	require.NoError(t, err)
	calls, folder := 0, keptFolder(t)
	for _, file := range files {
		b := readBlock(t, file)
		if b.f.NumExprs() > 1000 {
			b.names = b.names[:1]
		}
		for _, name := range b.names {
			first, second := newProcess(h100s(1), folder), newProcess(h100s(1), folder)
			_, e := cacheOf(t, first, b.f)
			made, err := e.Plan(b.inputs[name])
			requireNoError(t, err)
			require.EqualValues(t, 1, first.keeps.Load(), "%s %s\n%v", file, name, made.Device)
			cache, e := cacheOf(t, second, b.f)
			kept, err := e.Plan(b.inputs[name])
			requireNoError(t, err)
			require.True(t, second.found())
			require.Empty(t, second.below.Compiles())
			require.Zero(t, cache.Kernels())
			require.Zero(t, cache.Known())
			requireSame(t, made, kept)
			calls += len(kept.Device.Calls)
		}
	}
	require.Greater(t, calls, 200)
}

// BenchmarkKept times a plan that is made, and one that is read, in a new process each: the driver
// compiles and loads nothing.
func BenchmarkKept(b *testing.B) {
	block := readBlock(b, "../tests/go/testdata/corpus/blocks/gpt2_model.fusion")
	f, inputs := planFusion(b, planShapes[3].define, 12)
	for _, of := range []struct {
		name   string
		f      *core.Fusion
		inputs []executor.Input
	}{{"gpt2_model", block.f, block.inputs["small"]}, {"12 segments", f, inputs}} {
		folder := keptFolder(b)
		for _, isKept := range []bool{false, true} {
			name := of.name + "/made"
			if isKept {
				name = of.name + "/kept"
			}
			b.Run(name, func(b *testing.B) {
				before := processorTime()
				for b.Loop() {
					p := newProcess(h100s(1), folder)
					var driver cudadrv.Driver = p
					if !isKept {
						driver = p.below
					}
					_, e := cacheOf(b, driver, of.f)
					_, err := e.Plan(of.inputs)
					requireNoError(b, err)
				}
				b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N)/1000, "cpu-ms/plan")
			})
			newProcess(h100s(1), folder).planOf(b, of.f, of.inputs)
		}
	}
}
