package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
	"nvfuser_go/executor/calibration"
	"nvfuser_go/schedulers/model"
)

// explained returns the explanation of a definition in which kernels were timed.
func explained(t *testing.T, driver cudadrv.Driver, text string, inputs ...executor.Input) executor.Explanation {
	t.Helper()
	stream := uintptr(5)
	e, err := deviceExecutor(t, driver, text).Explain(inputs, executor.Options{}, &stream)
	requireNoError(t, err)
	return e
}

const twoSumsText = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = sum %0 dims=[0] keepdim=false dtype=f32
%3 = neg %1
output %2
output %3
`

// TestMeasured times kernels on memory that nobody else sees.
func TestMeasured(t *testing.T) {
	driver := h100s(1)
	driver.Microseconds = func(round int, _, timed []cudadrv.Work) float64 {
		if len(timed) > 1 {
			return 1e6 // the whole program, once
		}
		return float64(10*timed[0].Launch.Blocks()) + float64(round%3) // the median is in the middle
	}
	e := explained(t, driver, twoSumsText, vector(0x1000, 1<<20), vector(0x800000, 100))
	require.Empty(t, e.NotMeasured)
	require.Equal(t, "NVIDIA H100 80GB HBM3", e.Device)
	plan, err := deviceExecutor(t, driver, twoSumsText).Plan([]executor.Input{vector(0x1000, 1<<20), vector(0x800000, 100)})
	requireNoError(t, err)
	require.Len(t, plan.Device.Launches, 2)
	launch := 0
	for _, s := range e.Segments {
		if s.Memory != nil {
			require.NotNil(t, s.Memory.Measured, s.About)
			require.Equal(t, float64(10*plan.Device.Launches[launch].Blocks()+1), *s.Memory.Measured, s.About)
			require.Contains(t, e.String(), "us, measured ")
			launch++
		}
	}
	require.Equal(t, 2, launch)
	require.Equal(t, []int64{4 << 20, 400}, []int64{driver.Copies()[0].Bytes, driver.Copies()[1].Bytes})
	require.Empty(t, driver.Launches(), "but on a bench nothing was launched")
	requireHidden(t, driver)
}

// requireHidden: all that was measured was in memory of a bench, which was given back.
func requireHidden(t *testing.T, driver *fake.Driver) {
	t.Helper()
	for _, timing := range driver.Timings() {
		for _, w := range append(timing.Before, timing.Timed...) {
			for _, list := range [][]uintptr{w.Values.Inputs, w.Values.Outputs, w.Values.Workspaces} {
				for _, address := range list {
					require.True(t, address == 0 || fake.OfBench(address), "%#x", address)
				}
			}
		}
	}
	now, most := driver.Held()
	require.Zero(t, now)
	require.Positive(t, most)
}

// TestMeasuredInPlace writes to the copy of what a run would write to.
func TestMeasuredInPlace(t *testing.T) {
	driver := h100s(1)
	e := explained(t, driver, updateText, vector(0x1000, 1000), vector(0x8000, 1000))
	require.Empty(t, e.NotMeasured)
	copies := driver.Copies()
	require.Len(t, copies, 2)
	last := driver.Timings()[len(driver.Timings())-1].Timed[0].Values
	require.Equal(t, []uintptr{copies[0].To, copies[1].To}, last.Inputs)
	require.Equal(t, []uintptr{copies[0].To}, last.Outputs)
	requireHidden(t, driver)
}

// TestMeasuredAll explains programs of all kinds.
func TestMeasuredAll(t *testing.T) {
	x := float32(1.5)
	for text, inputs := range map[string][]executor.Input{
		scaledText: {vector(0x1000, 1000), number(0.5)},
		"%0 = tensor f32 [-1] contiguity=[yes]\n%1 = tensor f32 [] contiguity=[]\n%2 = broadcast %1 is_broadcast_dim=[true]\n%3 = mul %0, %2\noutput %3\noutput %1\n": {vector(0x1000, 1000), hostScalar(&x)},
		"%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = exp %0\n%2 = cumsum %1 dim=1\n%3 = neg %2\noutput %3\n":                                                 {onDevice(0, 0x1000, []int64{30, 40}, []int64{40, 1})},
		"%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = permute %0 dims=[1, 0]\noutput %1\n":                                                                    {onDevice(0, 0x1000, []int64{30, 40}, []int64{40, 1})},
		reluText: {vector(0, 0)},
	} {
		driver := h100s(1)
		e := explained(t, driver, text, inputs...)
		require.Empty(t, e.NotMeasured, text)
		for _, s := range e.Segments {
			require.True(t, s.Memory == nil || s.Memory.Measured != nil, "%s of\n%s", s.About, text)
		}
		requireHidden(t, driver)
	}
}

func TestNotMeasured(t *testing.T) {
	inputs := []executor.Input{vector(0x1000, 1000)}
	e, err := deviceExecutor(t, h100s(1), reluText).Explain(inputs, executor.Options{}, nil)
	requireNoError(t, err)
	require.Equal(t, "it was not asked for", e.NotMeasured)
	require.Nil(t, e.Segments[0].Memory.Measured)
	for _, call := range []string{"Bench", "Memory", "Copy", "Time"} {
		driver := h100s(1)
		driver.Fail = func(c string) error {
			if c == call {
				return errors.New("no\n" + call)
			}
			return nil
		}
		e := explained(t, driver, reluText, inputs...)
		require.Equal(t, "no "+call, e.NotMeasured)
		require.Contains(t, e.String(), "us, not measured\n")
		require.True(t, strings.HasSuffix(e.String(), "times of NVIDIA H100 80GB HBM3, not measured: no "+call+"\n"), e.String())
		now, _ := driver.Held()
		require.Zero(t, now)
	}
	var mistake *core.InvalidArgument
	stream := uintptr(0)
	_, err = deviceExecutor(t, h100s(1), reluText).Explain(nil, executor.Options{}, &stream)
	require.ErrorAs(t, err, &mistake)
}

// TestCalibrated has plans depend on the file of a calibration.
func TestCalibrated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	plan := func(folder string) (*process, error) {
		p := newProcess(h100s(1), folder)
		c := executor.NewCache(1, p)
		c.UseModels(calibration.Models(file, ""))
		e, err := c.Executor(parsed(t, reluText))
		require.NoError(t, err)
		_, err = e.Plan([]executor.Input{vector(0x1000, 1000)})
		return p, err
	}
	folder := keptFolder(t)
	slow := model.H100
	slow.Launch *= 3
	for i, x := range []struct {
		m     model.Machine
		found bool
	}{{model.H100, false}, {model.H100, true}, {slow, false}, {slow, true}, {model.H100, true}} {
		require.NoError(t, calibration.Write(file, x.m))
		p, err := plan(folder)
		requireNoError(t, err)
		require.Equal(t, x.found, p.found(), "%d", i)
	}
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err := plan(folder)
	var mistake *core.InvalidArgument
	require.ErrorAs(t, err, &mistake)
	require.ErrorContains(t, err, "the calibration "+file+": ")
}

// TestEstimated: what a kernel moves, and how long that takes.
func TestEstimated(t *testing.T) {
	const n = 1 << 26
	dirty := func(k model.Kernel) float64 { return model.H100.Time(k, model.Dirty) }
	matrix := func(strides ...int64) executor.Input { return onDevice(0, 0x1000, []int64{1 << 13, 1 << 13}, strides) }
	const sumText = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = sum %0 dims=[1] keepdim=false dtype=f32\noutput %1\n"
	const rowsText = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = tensor i64 [-1] contiguity=[yes]\n%2 = embedding_fwd %1, %0\noutput %2\n"
	integers := func(x executor.Input) executor.Input {
		x.DType = dtype.Int
		return x
	}
	for _, x := range []struct {
		text          string
		inputs        []executor.Input
		read, written int64
		us            float64
	}{
		{reluText, []executor.Input{vector(0x1000, n)}, 4 * n, 4 * n, dirty(model.Kernel{Read: 4 * n, Written: 4 * n})},
		{updateText, []executor.Input{vector(0x1000, n), vector(0x80000000, n)}, 8 * n, 4 * n, dirty(model.Kernel{Read: 8 * n, Written: 4 * n})},
		{"%0 = tensor f32 [-1] contiguity=[yes]\noutput %0\n", []executor.Input{vector(0x1000, n)}, 4 * n, 4 * n, dirty(model.Kernel{Read: 4 * n, Written: 4 * n})},
		{sumText, []executor.Input{matrix(1<<13, 1)}, 4 * n, 4 << 13, dirty(model.Kernel{Read: 4 * n})},
		{strings.Replace(sumText, "yes, yes", "no, yes", 1), []executor.Input{matrix(0, 1)}, 4 << 13, 4 << 13, 0}, // rows that are one
		{rowsText, []executor.Input{matrix(1<<13, 1), integers(vector(0x80000000, 1000))}, 4*1000<<13 + 8000, 4 * 1000 << 13, dirty(model.Kernel{Read: 4 * 1000 << 13, Written: 4 * 1000 << 13})},
		{rowsText, []executor.Input{matrix(1<<13, 1), integers(vector(0x80000000, 1<<14))}, 4*n + 8<<14, 8 * n, dirty(model.Kernel{Read: 4 * n, Written: 8 * n})}, // most rows twice
		{reluText, []executor.Input{vector(0x1000, 1)}, 4, 4, dirty(model.Kernel{Read: 4, Written: 4})},
	} {
		e, err := deviceExecutor(t, h100s(1), x.text).Explain(x.inputs, executor.Options{}, nil)
		requireNoError(t, err)
		require.Len(t, e.Segments, 1, x.text)
		m := e.Segments[0].Memory
		require.Equal(t, [2]int64{x.read, x.written}, [2]int64{m.Read, m.Written}, x.text)
		if x.us > 0 {
			require.InEpsilon(t, x.us, m.Estimated, 0.05, x.text)
		}
	}
}
