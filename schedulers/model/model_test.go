package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/model"
)

func TestTime(t *testing.T) {
	h := &model.H100
	require.InDelta(t, h.Launch, h.InChain(model.Kernel{}), 1e-9)
	require.InDelta(t, 3*h.Launch, h.InChain(model.Kernel{Launches: 3}), 1e-9)
	require.InDelta(t, h.Alone, h.Time(model.Kernel{}, model.Dirty), 1e-9)
	require.InDelta(t, h.Launch+2e9/h.Copy, h.InChain(model.Kernel{Read: 1e9, Written: 1e9}), 1e-6)
	require.InDelta(t, h.Launch+1e9/h.Write, h.InChain(model.Kernel{Written: 1e9}), 1e-6)
	require.InDelta(t, h.Launch+1e9/h.Read, h.InChain(model.Kernel{Read: 1e9}), 1e-6)
	require.InDelta(t, h.Launch+1e9/h.Issue, h.InChain(model.Kernel{Read: 1, Instructions: 1e9}), 1e-6, "what takes longer")
	require.InDelta(t, h.Launch+1e9/h.Issue/0.25, h.InChain(model.Kernel{Read: 1, Instructions: 1e9, Part: 0.25}), 1e-6)
	require.InDelta(t, h.Launch+1e9/(h.Cache/8), h.InChain(model.Kernel{Read: 1e9, Part: 0.125}), 1e-6)
	require.InDelta(t, h.Alone+2*h.Code, h.Time(model.Kernel{Code: 2048}, model.Clean), 1e-9)
	require.InDelta(t, 1.25, (h.InChain(model.Kernel{Read: 1e9, Waves: 1 + 1e-9})-h.Launch)/(1e9/h.Read), 1e-6, "the second of two waves is all but empty")
	require.InDelta(t, h.Launch+h.Block+2*h.Cluster+3*h.Grid+4*h.Ticket, h.InChain(model.Kernel{Waits: model.Waits{Block: 1, Cluster: 2, Grid: 3, Tickets: 4}}), 1e-9)
}

// TestMore adds bytes, instructions and launches to kernels of all kinds.
func TestMore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	size := func() float64 { return math.Exp(r.Float64()*25) - 1 }
	for range 20000 {
		k := model.Kernel{Read: size(), Written: size(), Instructions: size(), Part: r.Float64(), Waves: 3 * r.Float64(), Launches: r.IntN(3)}
		more := k
		switch r.IntN(4) {
		case 0:
			more.Read += size()
		case 1:
			more.Written += size()
		case 2:
			more.Instructions += size()
		case 3:
			more.Launches += 1 + r.IntN(2)
		}
		for _, m := range []model.Machine{model.H100, model.H200, model.Derived("L4", 58, 3e5, 48<<20), model.Derived("?", 1, 0, 1<<20)} {
			for _, time := range []func(model.Kernel) float64{m.InChain, func(k model.Kernel) float64 { return m.Time(k, model.Clean) }, func(k model.Kernel) float64 { return m.Time(k, model.Dirty) }} {
				require.GreaterOrEqual(t, time(more), time(k)*(1-1e-9), "%s: %+v and %+v", m.Device, k, more)
			}
		}
	}
}

// TestMeasured compares with what kernels took. Those that reach 90 % of a copy of as many
// bytes are bound by the memory; some that read twice are quicker, by the second cache.
func TestMeasured(t *testing.T) {
	for file, machine := range map[string]model.Machine{"h100": model.H100, "h200": model.H200} {
		golden.Run(t, "testdata/"+file+".txtar", "measured", func(t *testing.T, in, _ string) string { return estimated(t, machine, in) })
	}
}

// estimated compares m with the lines of measured times.
func estimated(t *testing.T, m model.Machine, in string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dirty: us, measured, %%; clean: us, measured, %%\n")
	bound := 0
	for line := range strings.Lines(in) {
		var k model.Kernel
		words := strings.Fields(line)
		name := strings.Join(words[4:], " ")
		_, err := fmt.Sscan(line, &k.Read, &k.Written)
		require.NoError(t, err)
		measured := map[model.State]float64{}
		for s, word := range map[model.State]string{model.Dirty: words[2], model.Clean: words[3]} {
			if word != "-" {
				measured[s], err = strconv.ParseFloat(word, 64)
				require.NoError(t, err)
			}
		}
		for _, s := range []model.State{model.Dirty, model.Clean} {
			us := m.Time(k, s)
			if measured[s] == 0 {
				fmt.Fprintf(&b, "%6.1f      -     -   ", us)
				continue
			}
			percent := 100 * (us/measured[s] - 1)
			fmt.Fprintf(&b, "%6.1f %6.1f %5.1f   ", us, measured[s], percent)
			copied := model.Kernel{Read: (k.Read + k.Written) / 2, Written: (k.Read + k.Written) / 2}
			if share := m.Time(copied, s) / measured[s]; share > 0.9 && share < 1.05 {
				bound++
				require.Less(t, math.Abs(percent), 15.0, "%s", name)
			}
		}
		fmt.Fprintln(&b, name)
	}
	require.Greater(t, bound, 110)
	return b.String()
}

func TestText(t *testing.T) {
	read, err := model.Parse([]byte(model.H100.Text()))
	require.NoError(t, err)
	require.Equal(t, model.H100, read)
	require.Len(t, read.Numbers(), 16)
	change := func(what string, to any) string {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(model.H100.Text()), &fields))
		fields[what] = to
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(text)
	}
	for text, problem := range map[string]string{
		"":                                "EOF",
		"[]":                              "not JSON of a calibration",
		"{}":                              "its format is 0",
		model.H100.Text()[:60]:            "EOF",
		model.H100.Text() + "{}":          "something follows",
		change("format", 2):               "its format is 2, and this version reads 1",
		change("device", ""):              "device is missing",
		change("launch_us", -1):           "launch_us is -1; it must be from 0 to 10000 us",
		change("copy_rate", 0):            "copy_rate is 0; it must be from 1 to 1e+12 in a us",
		change("copy_rate", "quick"):      "string",
		change("colour", 1):               "colour",
		change("kept", 1e300):             "kept is 1e+300",
		change("dirty_from", 0):           "dirty_from is 0",
		change("issue_rate", nil):         "",
		"{\"format\":1e999}":              "1e999",
		strings.Repeat("[", 1<<20):        "",
		"{\"format\":1,\"device\":\"x\"}": "read_rate is 0",
	} {
		_, err := model.Parse([]byte(text))
		if problem != "" {
			require.ErrorContains(t, err, problem, "%.80s", text)
		}
	}
}

func TestDerived(t *testing.T) {
	same := model.Derived("x", 132, 3.352e6, 50<<20)
	same.Device = model.H100.Device
	require.Equal(t, model.H100, same)
	h200 := model.Derived("H200", 132, 4.8e6, 50<<20)
	require.InDelta(t, 4.35e6, h200.Copy, 0.01e6)
	require.Equal(t, model.H100.Issue, h200.Issue)
	require.Less(t, h200.Time(model.Kernel{Read: 1e9}, model.Dirty), model.H100.Time(model.Kernel{Read: 1e9}, model.Dirty))
	for _, m := range []model.Machine{h200, model.Derived("?", 0, 0, 0), model.Derived("?", 10, 0, 1<<20)} {
		if m.DirtyFrom > 0 {
			require.NoError(t, m.Check())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(model.H100.Text()))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := model.Parse(text)
		if err == nil {
			again, err := model.Parse([]byte(m.Text()))
			require.NoError(t, err)
			require.Equal(t, m, again)
			us := m.Time(model.Kernel{Read: 1e9, Written: 1e6, Instructions: 1e6}, model.Dirty)
			require.False(t, math.IsNaN(us) || math.IsInf(us, 0) || us < 0)
		}
	})
}

func BenchmarkTime(b *testing.B) {
	for b.Loop() {
		model.H100.Time(model.Kernel{Read: 1e9, Written: 1e9, Instructions: 1e9}, model.Dirty)
	}
}
