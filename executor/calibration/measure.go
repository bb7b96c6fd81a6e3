package calibration

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/model"
)

// rounds is how often each work is timed: its time is the median.
const rounds = 21

// threads is how many a block of each kernel has.
const threads = 256

// reachable is the share of the instructions of a loop of multiplications that a kernel which
// loads, stores and computes addresses reaches.
const reachable = 0.65

// A measurer times kernels on a bench. After its first error it does nothing.
type measurer struct {
	bench     cudadrv.Bench
	p         cudadrv.Properties
	functions map[string]cudadrv.Function
	unit      int64          // bytes: enough to fill the second cache several times
	x, y      uintptr        // 2*unit each; x holds zeros
	flush     []cudadrv.Work // leaves the second cache clean, full of what others read
	soil      []cudadrv.Work // dirty
	err       error
}

// Measure returns what was measured of a device. It takes less than a second, and memory of
// at most twelve second caches and a few kernels, which it gives back.
//
// Errors: those of the driver; one that says what came out, if that is nothing that a device
// can do.
func Measure(d cudadrv.Driver, device int) (m model.Machine, err error) {
	p, err := d.Properties(device)
	if err != nil {
		return m, err
	}
	bench, err := d.Bench(device, 0)
	if err != nil {
		return m, err
	}
	defer func() {
		if closed := bench.Close(); err == nil {
			err = closed
		}
	}()
	x := &measurer{bench: bench, p: p, functions: map[string]cudadrv.Function{}, unit: min(max(3*p.L2, 1<<24), p.Memory/16) / 4096 * 4096}
	if err := x.load(d, device); err != nil {
		return m, err
	}
	m = x.machine()
	if x.err != nil {
		return m, x.err
	}
	if err := m.Check(); err != nil {
		return m, fmt.Errorf("the times of %s make no sense, as if others used it: %w", p.Name, err)
	}
	return m, nil
}

// load compiles the kernels, and takes memory.
func (x *measurer) load(d cudadrv.Driver, device int) error {
	code, err := d.Compile(source, cudadrv.CompileOptions{Arch: x.p.Arch()})
	if err != nil {
		return err
	}
	for _, name := range names {
		if x.functions[name], err = d.Load(device, code.Cubin, name, cudadrv.LoadOptions{}); err != nil {
			return err
		}
	}
	for _, at := range []*uintptr{&x.x, &x.y} {
		if *at, err = x.bench.Memory(2 * x.unit); err != nil {
			return err
		}
	}
	zero := cudadrv.Work{Zero: x.x, Bytes: 2 * x.unit}
	x.soil = []cudadrv.Work{zero}
	x.flush = []cudadrv.Work{zero, x.over("reads", 2*x.unit)}
	return nil
}

// work is a launch of so many blocks; arguments are those of the kernels' structure.
func (x *measurer) work(kernel string, blocks int64, n int64, repeat int) cudadrv.Work {
	arguments := make([]byte, 32)
	for i, word := range []uint64{uint64(x.x), uint64(x.y), uint64(n), uint64(repeat)} {
		binary.LittleEndian.PutUint64(arguments[8*i:], word)
	}
	return cudadrv.Work{Launch: &cudadrv.LaunchBlock{Function: x.functions[kernel], Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{threads, 1, 1}, Arguments: arguments}}
}

// over is a launch of a kernel that goes over so many bytes, a thread an element, or four.
func (x *measurer) over(kernel string, bytes int64) cudadrv.Work {
	n, each := bytes/16, int64(threads)
	if kernel == "reads" {
		each *= 4
	}
	return x.work(kernel, (n+each-1)/each, n, 1)
}

// time returns the us of work after what is done before.
func (x *measurer) time(before []cudadrv.Work, timed ...cudadrv.Work) float64 {
	if x.err != nil {
		return 0
	}
	us, err := x.bench.Time(rounds, before, timed)
	if err != nil {
		x.err = err
		return 0
	}
	slices.Sort(us)
	return us[len(us)/2]
}

// each returns the us that a repetition of what a kernel repeats takes.
func (x *measurer) each(repeats int, launch func(repeat int) cudadrv.Work) float64 {
	const few = 1
	return max(x.time(x.flush, launch(few+repeats))-x.time(x.flush, launch(few)), 0) / float64(repeats)
}

// machine measures everything.
func (x *measurer) machine() model.Machine {
	m := model.Machine{Device: x.p.Name}
	nothing := x.work("nothing", 1, 0, 0)
	const launches = 20
	m.Launch = (x.time(x.flush, slices.Repeat([]cudadrv.Work{nothing}, 1+launches)...) - x.time(x.flush, nothing)) / launches
	m.Alone = x.time(x.flush, x.over("copies", 1<<15))
	x.memory(&m)
	processors := int64(max(x.p.Processors, 1))

	cached := x.p.L2 / 4 / 4096 * 4096
	m.Cache = float64(cached) / x.each(8, func(repeat int) cudadrv.Work { return x.work("rereads", 4*processors, cached/16, repeat) })
	const multiplications = 4
	m.Issue = reachable * multiplications * float64(8*processors*threads) / x.each(4096, func(repeat int) cudadrv.Work { return x.work("multiplies", 8*processors, 0, repeat) })

	if bytes := x.functions["chain"].CodeBytes; bytes > 0 {
		warp := func(kernel string) cudadrv.Work { // alone on a multiprocessor
			w := x.work(kernel, processors, 0, 0)
			w.Launch.Block[0] = 32
			return w
		}
		m.Code = max(x.time(x.flush, warp("chain"))-x.time(x.flush, warp("nothing")), 0) / (float64(bytes) / 1024)
	}

	// An exchange is more than its barrier: what threads wait for each other with, of rows
	// that nothing else overlaps.
	rows := processors / 2
	m.Block = max(x.time(x.flush, x.work("exchanges", rows, rows*threads, 1))-x.time(x.flush, x.over("copies", rows*threads*16)), 0)
	if x.p.Major >= 9 {
		m.Cluster = x.each(16, func(repeat int) cudadrv.Work {
			w := x.work("clusters", processors/8*8, 0, repeat)
			w.Launch.Cluster = [3]uint32{8, 1, 1}
			return w
		})
	}
	counter := cudadrv.Work{Zero: x.y, Bytes: 16}
	waiting := func(repeat int) float64 {
		w := x.work("waits", processors, 0, repeat)
		w.Launch.Cooperative = true
		return x.time(append([]cudadrv.Work{counter}, x.flush...), w)
	}
	m.Grid = max(waiting(17)-waiting(1), 0) / 16
	m.Ticket = max(x.time(append([]cudadrv.Work{counter}, x.flush...), x.work("tickets", 2*processors, 0, 1))-x.time(x.flush, x.work("tickets", 2*processors, 0, 0)), 0)
	return rounded(m)
}

// memory measures what goes to memory and back. Rates are slopes, so that what is the same
// for one unit and two falls out.
func (x *measurer) memory(m *model.Machine) {
	one, two, some := x.unit, 2*x.unit, x.p.L2/4/4096*4096
	slope := func(kernel string, factor float64, before []cudadrv.Work) (rate, us float64) {
		us = x.time(before, x.over(kernel, two))
		return factor * float64(two-one) / (us - x.time(before, x.over(kernel, one))), us
	}
	var clean, read float64
	m.Copy, clean = slope("copies", 2, x.flush)
	m.Read, read = slope("reads", 1, x.flush)
	m.Write, _ = slope("writes", 1, x.soil)
	m.Kept = min(max(2*float64(two)-(clean-m.Alone)*m.Copy, 0), float64(x.p.L2))
	m.DirtyCopy = max(x.time(x.soil, x.over("copies", two))-clean, 0)
	m.DirtyRead = max(x.time(x.soil, x.over("reads", two))-read, 0)
	m.DirtyFrom = 2 * float64(some)
	if less := x.time(x.soil, x.over("copies", some)) - x.time(x.flush, x.over("copies", some)); less > 0 {
		m.DirtyFrom *= max(m.DirtyCopy/less, 1)
	}
	m.DirtyFrom = min(m.DirtyFrom, float64(4*two))
}

// rounded returns m with as many digits as are measured.
func rounded(m model.Machine) model.Machine {
	for _, x := range m.Numbers() {
		if !math.IsInf(*x, 0) && !math.IsNaN(*x) {
			*x, _ = strconv.ParseFloat(strconv.FormatFloat(*x, 'g', 3, 64), 64)
		}
	}
	return m
}
