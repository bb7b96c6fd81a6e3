package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/segmenter"
)

// A task is what a kernel is made for: a concrete fusion, and inputs of one kind.
type task struct {
	f       *core.Fusion
	b       *core.Binding
	device  scheduler.Device
	inputs  []Input              // descriptions
	aligned []schedule.Alignment // of inputs
	outputs []OutputDescription
	exact   bool // see Options

	follows bool // it reads what the kernel before it computes, and may start before that ends
	leads   bool // the kernel after it may start before it ends

	// What is known of schedulers: what the one that takes it was asked about, and what
	// others said before.
	asked     *scheduler.Segment
	scheduler string
	refusals  []core.Refusal
}

// maxRounds bounds how often a fusion is cut again because a kernel cannot be made.
const maxRounds = 100

// compile makes the kernels of all pieces, side by side. It reports whether the
// fusion must be cut again, because lowering or the device refuses some.
//
// Errors: those of all pieces that fail for other reasons, together.
func (a *assembly) compile(round int) (again bool, err error) {
	a.overlap()
	distinct, first := a.distinct()
	failed := make([]error, len(distinct))
	workers.each(len(distinct), a.options.atOnce(), func(i int) {
		failed[i] = a.p.e.guard(a.p.inputs, func() error { return a.compileOne(distinct[i]) })
	})
	for i, x := range a.pieces {
		if x.task != nil {
			x.c = a.pieces[first[i]].c
		}
	}
	var all []failure
	for i, err := range failed {
		var refused *core.Unsupported
		switch {
		case err == nil:
		case errors.As(err, &refused) && round < maxRounds && a.avoid(distinct[i], refused):
			again = true
		default:
			all = append(all, failure{distinct[i], err})
		}
	}
	if len(all) > 0 {
		return false, a.failed(all)
	}
	return again, nil
}

// distinct returns the pieces that kernels are made for, and for each piece of all
// the number of the one of which the kernel serves it.
func (a *assembly) distinct() (distinct []*piece, first []int) {
	known := map[string]int{}
	first = make([]int, len(a.pieces))
	for i, x := range a.pieces {
		if x.task == nil {
			continue
		}
		key := a.kind(x)
		at, ok := known[key]
		if !ok {
			at = i
			known[key] = at
			distinct = append(distinct, x)
		}
		first[i] = at
	}
	return distinct, first
}

// kind returns a text that is equal for pieces that one kernel serves.
func (a *assembly) kind(x *piece) string {
	var b strings.Builder
	b.WriteString(x.Key)
	for i := range x.task.inputs {
		in := &x.task.inputs[i]
		if in.Tensor {
			fmt.Fprintln(&b, in.DType, in.Device, in.Sizes, in.Strides, x.task.aligned[i])
		} else if !a.differs(x, i) {
			fmt.Fprintln(&b, in.Scalar)
		}
	}
	for i := range x.task.outputs {
		fmt.Fprintln(&b, x.task.outputs[i])
	}
	if a.options.RandomInMemory {
		fmt.Fprintln(&b, x.Draw)
	}
	if x.task.follows || x.task.leads {
		fmt.Fprintln(&b, x.task.follows, x.task.leads)
	}
	return b.String()
}

// differs reports whether input i of a piece, a scalar, differs between calls with
// inputs of the kind of the plan.
func (a *assembly) differs(x *piece, i int) bool {
	from, _ := a.source(x, i)
	return from >= 0
}

// source returns which input of the plan a scalar of a piece is; -1 if it is the same
// in all calls: then value is it.
func (a *assembly) source(x *piece, i int) (input int, value Input) {
	s := x.Inputs[i].Scalar
	if s == scalar.None {
		return -1, x.task.inputs[i]
	}
	if tag := a.f.Scalars().Tag(s); tag.Dim < 0 {
		if at := slices.Index(a.f.Inputs(), core.ValID(tag.Val)); at >= 0 && !a.p.e.key[at] {
			return at, Input{}
		}
	}
	return -1, x.task.inputs[i]
}

// compileOne makes the kernel of a piece and, on a device, loads it.
//
// Errors: Unsupported if the schedulers, the lowering or the device refuse it.
func (a *assembly) compileOne(x *piece) (err error) {
	x.c, err = a.kernelOf(x.task, a.options.Candidate, x.Draw)
	return err
}

// kernelOf returns the kernel of t by candidate number first, made or found, and loaded on
// a device. With an error comes what was made before it.
//
// Errors: as of compileOne.
func (a *assembly) kernelOf(t *task, first, draw int) (*compiled, error) {
	c, by, g, err := t.choose(a.knownOf)
	if err != nil {
		return c, err
	}
	key := ""
	if !a.p.onHost() {
		key = a.kernelKey(c, g, by.Recipe(g, c.take(first)), draw)
		if made := a.p.e.kernels.find(key, c); made != nil {
			return c, a.load(c, made, draw)
		}
	}
	if err := c.compile(by, g, first, func() error { return a.load(c, nil, draw) }); err != nil {
		return c, err
	}
	if key != "" && !a.dry && c.taken == first%len(c.candidates) {
		a.p.e.kernels.keep(key, c)
	}
	return c, nil
}

// knownOf returns what is known of f, of which text has the text form.
func (a *assembly) knownOf(f *core.Fusion, text string) *scheduler.Known {
	return a.p.e.kernels.knownOf(f, text, a.p.Device.Device)
}

// load fits c to the device and, where it is not simulated, compiles and loads it. made is
// what has the same kernel and was loaded, or nil.
func (a *assembly) load(c *compiled, made *loadedKernel, draw int) error {
	if n := cuda.Layout(c.kernel).Size; n > cudadrv.MaxArguments {
		return tooLarge(fmt.Sprintf("the kernel has %d bytes of parameters, and a launch takes %d", n, cudadrv.MaxArguments))
	}
	c.launch, c.minBlocks = cudadrv.LaunchBlock{}, 0 // another candidate may have been refused
	c.lock.Lock()
	h, err := c.host(c.task, core.RandomState{})
	if err == nil {
		err = a.size(h, &c.launch)
	}
	c.lock.Unlock()
	if err != nil || a.p.onHost() {
		return err
	}
	l := &c.launch
	if n := residents(a.properties, l); n > 1 {
		c.minBlocks = int(n)
	}
	if c.arch = a.properties.Major*10 + a.properties.Minor; a.dry {
		return nil
	}
	if made != nil && made.launch.Threads() == l.Threads() && made.launch.Shared == l.Shared && residents(a.properties, &made.launch) == residents(a.properties, l) {
		l.Function, c.key = made.launch.Function, made.key
		return nil
	}
	o := c.printed(c.arch)
	if o.RandomInMemory = a.options.RandomInMemory; o.RandomInMemory {
		o.Drawn = offsetOf(draw)
	}
	source, err := cuda.Print(c.kernel, o)
	if err != nil {
		return &core.Unsupported{What: "execute(): this kernel cannot be written for the device",
			Refusals: []core.Refusal{{By: "cuda", Rule: "text", Sentence: err.Error()}}}
	}
	l.Function, c.key, err = a.p.e.machine.function(a.p.Device.Device, source.Text, source.Kernels[0].Name, l, a.options.onlyKept)
	if err != nil {
		a.unkept.Store(true)
	}
	return err
}

// printed returns the options of the text of c for a compute capability.
func (c *compiled) printed(arch int) cuda.Options {
	o := cuda.Options{Arch: arch, MinBlocks: c.minBlocks}
	if c.task != nil && arch >= 10*overlapMajor { // nil: it is looked at without inputs
		o.Follows, o.Leads = c.follows, c.leads
	}
	return o
}

// size sets how many threads run, and their shared memory.
//
// Errors: Unsupported if the device has less.
func (a *assembly) size(h *host, block *cudadrv.LaunchBlock) error {
	grid, threads, shared, err := h.Launched()
	if err != nil {
		return err
	}
	k, most := h.kernel, limits(a.properties)
	if err := most.Check(grid, threads, k.Launch.Cluster, shared); err != nil {
		return tooLarge(err.Error())
	}
	if err := k.CheckLimits(most); err != nil {
		return tooLarge(err.Error())
	}
	block.Cooperative = k.Launch.Cooperative
	for d := range 3 {
		block.Grid[d], block.Block[d] = uint32(grid[d]), uint32(threads[d])
	}
	if c := k.Launch.Cluster; max(c[0], c[1], c[2]) > 1 {
		block.Cluster = [3]uint32{uint32(max(c[0], 1)), uint32(max(c[1], 1)), uint32(max(c[2], 1))}
	}
	block.Shared = uint32(shared)
	if n := residents(a.properties, block); n > 1 && !hold(a.properties, block, n) {
		return tooLarge(fmt.Sprintf("%d blocks of %d threads and %d bytes of shared memory wait for each other, and the device does not hold so many at once", block.Blocks(), block.Threads(), shared))
	}
	return nil
}

// residents returns how many blocks of a processor must be there at once, since they wait for
// those of other processors: 1 if blocks do not wait.
func residents(p cudadrv.Properties, l *cudadrv.LaunchBlock) int64 {
	if !l.Cooperative {
		return 1
	}
	n := int64(max(p.Processors, 1))
	return max((l.Blocks()+n-1)/n, 1)
}

// hold reports whether a processor has the threads and the shared memory of n blocks, and
// a register at least for each thread.
func hold(p cudadrv.Properties, l *cudadrv.LaunchBlock, n int64) bool {
	const fewestRegisters = 32 // for which no kernel of ours spills beyond measure
	return n*int64(l.Threads()) <= int64(p.ThreadsPerProcessor) && n*(int64(l.Shared)+int64(p.SharedReserved)) <= int64(p.SharedPerProcessor) &&
		n*int64(l.Threads())*fewestRegisters <= int64(p.RegistersPerProcessor)
}

// avoid notes what is to be different when the fusion is cut again: outputs have memory
// of their own, or the segment is no kernel. It reports false if that was noted before.
func (a *assembly) avoid(x *piece, refused *core.Unsupported) bool {
	if slices.ContainsFunc(refused.Refusals, func(r core.Refusal) bool { return r.Rule == "alias" }) {
		noted := false
		for k, o := range x.task.outputs {
			if v := x.Writes[k]; o.Alias >= 0 && !a.apart[v] {
				a.apart[v], noted = true, true
			}
		}
		if noted {
			return true
		}
	}
	if len(a.refused[x.Question]) > 0 || isMissing(refused) || x.Kind != segmenter.Kernel {
		return false
	}
	a.refused[x.Question] = refused.Refusals
	if len(refused.Refusals) == 0 {
		a.refused[x.Question] = []core.Refusal{{By: "executor", Rule: "kernel", Sentence: refused.What}}
	}
	return true
}

// isMissing reports whether it is the machine that lacks something.
func isMissing(refused *core.Unsupported) bool {
	return slices.ContainsFunc(refused.Refusals, func(r core.Refusal) bool { return r.By == "cuda" && r.Rule == "driver" })
}
