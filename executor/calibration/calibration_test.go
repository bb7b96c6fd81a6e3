package calibration_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor/calibration"
	"nvfuser_go/schedulers/model"
)

// pretend returns a driver whose device does what m says. Some rounds are disturbed.
func pretend(p cudadrv.Properties, m model.Machine) *fake.Driver {
	d := &fake.Driver{Present: []cudadrv.Properties{p}, CodeBytes: 16 << 10}
	d.Microseconds = func(round int, before, timed []cudadrv.Work) float64 {
		state := model.Dirty
		if l := before[len(before)-1].Launch; l != nil && l.Function.Name == "reads" {
			state = model.Clean
		}
		us := float64(len(timed)-1) * m.Launch
		for _, w := range timed {
			us = max(us, 0) + takes(&m, w.Launch, state) - m.Alone
		}
		if round%3 == 1 {
			us += 50
		}
		return us + m.Alone
	}
	return d
}

// takes returns how long a kernel takes alone.
func takes(m *model.Machine, l *cudadrv.LaunchBlock, s model.State) float64 {
	bytes := 16 * float64(binary.LittleEndian.Uint64(l.Arguments[16:]))
	repeat := float64(binary.LittleEndian.Uint64(l.Arguments[24:]))
	blocks := float64(l.Blocks())
	switch l.Function.Name {
	case "copies":
		return m.Time(model.Kernel{Read: bytes, Written: bytes}, s)
	case "reads":
		return m.Time(model.Kernel{Read: bytes}, s)
	case "writes":
		return m.Time(model.Kernel{Written: bytes}, s)
	case "rereads":
		return m.Alone + repeat*bytes/m.Cache
	case "multiplies":
		return m.Alone + repeat*4*256*blocks/(m.Issue/0.65)
	case "chain":
		return m.Alone + m.Code*float64(l.Function.CodeBytes)/1024
	case "exchanges":
		return m.Time(model.Kernel{Read: bytes, Written: bytes}, s) + m.Block
	case "clusters":
		return m.Alone + repeat*m.Cluster
	case "waits":
		return m.Alone + repeat*m.Grid
	case "tickets":
		return m.Alone + repeat*m.Ticket
	}
	return m.Alone
}

// TestMeasure measures devices that do what is known.
func TestMeasure(t *testing.T) {
	l4 := fake.H100
	l4.Name, l4.Major, l4.Processors, l4.L2, l4.Memory = "NVIDIA L4", 8, 58, 48<<20, 24e9
	other := calibration.BuiltIn(l4)
	other.Alone, other.Launch, other.Cluster = 5, 1.5, 0
	for _, x := range []struct {
		p cudadrv.Properties
		m model.Machine
	}{{fake.H100, model.H100}, {l4, other}} {
		d := pretend(x.p, x.m)
		m, err := calibration.Measure(d, 0)
		require.NoError(t, err)
		require.Equal(t, x.m.Device, m.Device)
		want, got := x.m.Numbers(), m.Numbers()
		for i := range want {
			require.InEpsilon(t, *want[i]+1e-9, *got[i]+1e-9, 0.03, "number %d of\n%s\n%s", i, x.m.Text(), m.Text())
		}
		now, most := d.Held()
		require.Zero(t, now)
		require.LessOrEqual(t, most, 12*x.p.L2)
		require.Len(t, d.Compiles(), 1)
		for _, timing := range d.Timings() {
			for _, w := range append(timing.Before, timing.Timed...) {
				if w.Launch != nil {
					require.True(t, fake.OfBench(uintptr(binary.LittleEndian.Uint64(w.Launch.Arguments))))
					require.True(t, fake.OfBench(uintptr(binary.LittleEndian.Uint64(w.Launch.Arguments[8:]))))
				}
			}
		}
	}
}

func TestMeasureFails(t *testing.T) {
	for _, call := range []string{"Properties", "Bench", "Compile", "Load", "Memory", "Time"} {
		d := pretend(fake.H100, model.H100)
		d.Fail = func(c string) error {
			if c == call {
				return errors.New("no " + call)
			}
			return nil
		}
		_, err := calibration.Measure(d, 0)
		require.EqualError(t, err, "no "+call)
		now, _ := d.Held()
		require.Zero(t, now, call)
	}
	for _, us := range []float64{10, 0, math.NaN()} {
		d := pretend(fake.H100, model.H100)
		d.Microseconds = func(int, []cudadrv.Work, []cudadrv.Work) float64 { return us }
		_, err := calibration.Measure(d, 0)
		require.ErrorContains(t, err, "the times of NVIDIA H100 80GB HBM3 make no sense")
	}
}

func TestRun(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	d := pretend(fake.H100, model.H100)
	path, m, err := calibration.Run(d, 0, "", kept)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(kept, "calibration", "nvidia-h100-80gb-hbm3.json"), path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, m.Text(), string(text))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left of writing it")
	found, err := calibration.Models("", kept)(fake.H100)
	require.NoError(t, err)
	require.Equal(t, m, found)
	require.Equal(t, "calibrated", calibration.Source(fake.H100, m))

	elsewhere := filepath.Join(t.TempDir(), "a", "b.json")
	path, _, err = calibration.Run(d, 0, elsewhere, "")
	require.NoError(t, err)
	require.Equal(t, elsewhere, path)

	var mistake *core.InvalidArgument
	for device, text := range map[int]string{-1: "there is no device cuda:-1; this machine has 1", 1: "there is no device cuda:1"} {
		_, _, err = calibration.Run(d, device, elsewhere, "")
		require.ErrorAs(t, err, &mistake)
		require.ErrorContains(t, err, text)
	}
	_, _, err = calibration.Run(d, 0, "", "")
	require.ErrorAs(t, err, &mistake)
	_, _, err = calibration.Run(d, 0, filepath.Join(elsewhere, "c.json"), "")
	require.ErrorAs(t, err, &mistake)
	require.ErrorContains(t, err, "c.json: not a directory")
	var unsupported *core.Unsupported
	for _, call := range []string{"Devices", "Properties", "Bench"} {
		d.Fail = func(c string) error {
			if c == call {
				return errors.New("no " + call)
			}
			return nil
		}
		_, _, err = calibration.Run(d, 0, elsewhere, "")
		require.ErrorAs(t, err, &unsupported)
		require.ErrorContains(t, err, "no "+call)
	}
}

func TestModels(t *testing.T) {
	m, err := calibration.Models("", "")(fake.H100)
	require.NoError(t, err)
	require.Equal(t, model.H100, m)
	require.Equal(t, "built in", calibration.Source(fake.H100, m))
	h200 := fake.H100
	h200.Name, h200.MemoryClock, h200.MemoryBus = "NVIDIA H200", 3_201_000, 6144
	m, err = calibration.Models("", t.TempDir())(h200)
	require.NoError(t, err)
	require.Equal(t, model.H200, m)
	require.Equal(t, "built in", calibration.Source(h200, m))
	h200.Name = "NVIDIA GH200"
	m, err = calibration.Models("", t.TempDir())(h200)
	require.NoError(t, err)
	require.Equal(t, "NVIDIA GH200", m.Device)
	require.InDelta(t, 4.46e6, m.Copy, 0.02e6)
	require.Equal(t, "derived from those of an H100", calibration.Source(h200, m))

	file := filepath.Join(t.TempDir(), "x.json")
	var mistake *core.InvalidArgument
	for text, problem := range map[string]string{
		"":                "not JSON",
		"{}":              "its format is 0",
		m.Text():          "it is of NVIDIA GH200, and the device is NVIDIA H100 80GB HBM3; calibrate again, or remove it",
		m.Text() + "more": "something follows",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = calibration.Models(file, "")(fake.H100)
		require.ErrorAs(t, err, &mistake)
		require.ErrorContains(t, err, "the calibration "+file+": ")
		require.ErrorContains(t, err, problem)
	}
	_, err = calibration.Models(filepath.Join(file, "none"), "")(fake.H100)
	require.ErrorAs(t, err, &mistake)
	_, err = calibration.Models(filepath.Dir(file)+"/none", "")(fake.H100)
	require.ErrorContains(t, err, "none: no such file or directory", "one that is named must be there")
	for _, kept := range []string{file, filepath.Join(file, "below"), "/proc/kernels", "/dev/null"} {
		m, err = calibration.Models("", kept)(fake.H100)
		require.NoError(t, err, "nothing is kept in %s", kept)
		require.Equal(t, model.H100, m)
	}
}
