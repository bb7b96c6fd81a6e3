package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

const sizesHelp = "sizes of the input tensors in order, as in 37x5,5, or - for one without dimensions; as defined if not given"

func runFlags(o *options, set *flag.FlagSet) {
	set.StringVar(&o.sizes, "sizes", "", sizesHelp)
	set.Uint64Var(&o.seed, "seed", 1, "of the elements of the inputs, and of random operations")
}

func simulateFlags(o *options, set *flag.FlagSet) {
	runFlags(o, set)
	scheduleFlag(o, set)
}

// sizesOf returns the sizes of the input tensors.
func sizesOf(o *options) ([][]int64, error) {
	var given []string
	if o.sizes != "" {
		given = strings.Split(o.sizes, ",")
	}
	var all [][]int64
	for _, v := range o.fusion.Inputs() {
		if !o.fusion.Val(v).Tensor {
			continue
		}
		sizes := o.fusion.Describe(v).Shape
		if o.sizes != "" {
			if len(all) == len(given) {
				return nil, usagef("-sizes %s has sizes of %d tensors, and the fusion has more inputs", o.sizes, len(given))
			}
			var err error
			if sizes, err = parseSizes(given[len(all)], len(sizes)); err != nil {
				return nil, err
			}
		}
		for d, n := range sizes {
			if n < 0 {
				return nil, usagef("the size of dimension %d of %s is known only when the fusion runs: give -sizes", d, o.fusion.Name(v))
			}
		}
		all = append(all, sizes)
	}
	if len(given) > len(all) {
		return nil, usagef("-sizes %s has sizes of %d tensors, and the fusion has %d as inputs", o.sizes, len(given), len(all))
	}
	return all, nil
}

// maxElements bounds the sizes of a tensor, so that no product of them overflows.
const maxElements = 1 << 40

func parseSizes(text string, rank int) ([]int64, error) {
	sizes, elements := []int64{}, int64(1)
	if text != "-" {
		for word := range strings.SplitSeq(text, "x") {
			n, err := strconv.ParseInt(word, 10, 64)
			switch {
			case err != nil && !errors.Is(err, strconv.ErrRange) || n < 0:
				return nil, usagef("-sizes: cannot read %q: sizes are numbers with x between them", text)
			case err != nil || max(n, 1) > maxElements/elements:
				return nil, usagef("-sizes: %s is more than %d elements", text, int64(maxElements))
			}
			elements *= max(n, 1)
			sizes = append(sizes, n)
		}
	}
	if len(sizes) != rank {
		return nil, usagef("-sizes: %s has %d sizes, and the tensor has %d dimensions", text, len(sizes), rank)
	}
	return sizes, nil
}

// describedInputs returns inputs that can be planned for and not run: they have
// no elements.
func describedInputs(o *options) ([]executor.Input, error) {
	sizes, err := sizesOf(o)
	if err != nil {
		return nil, err
	}
	var inputs []executor.Input
	for _, v := range o.fusion.Inputs() {
		x := o.fusion.Val(v)
		if !x.Tensor {
			inputs = append(inputs, executor.Input{Scalar: core.ConvertScalar(x.DType, scalar.Value{Type: dtype.Int, I: 1})})
			continue
		}
		inputs = append(inputs, executor.Input{Tensor: true, DType: x.DType, Data: unread(), Sizes: sizes[0],
			Strides: fusionfuzz.DenseStrides(o.fusion, v, sizes[0])})
		sizes = sizes[1:]
	}
	return inputs, nil
}

// unread is where inputs lie that nobody reads: at a multiple of 16 bytes, as
// those of torch do, since vectors depend on that.
func unread() unsafe.Pointer {
	memory := make([]byte, 32)
	at := unsafe.Pointer(unsafe.SliceData(memory))
	return unsafe.Add(at, -uintptr(at)&15)
}

// maxRun bounds the elements of an input that is made.
const maxRun = 1 << 24

// A trial is a fusion and inputs for it.
type trial struct {
	*fusionfuzz.Case
	arrays  []*core.Array
	scalars []scalar.Value
	inputs  []executor.Input
	memory  []*fusionfuzz.Memory
}

// trialOf makes the inputs that the options describe.
func trialOf(o *options) (*trial, error) {
	sizes, err := sizesOf(o)
	if err != nil {
		return nil, err
	}
	for i := range sizes {
		if n := core.NumElements(sizes[i]); n > maxRun {
			return nil, usagef("-sizes: a tensor has %d elements; at most %d are made to run a fusion", n, maxRun)
		}
	}
	t := &trial{Case: &fusionfuzz.Case{Fusion: o.fusion, Inputs: fusionfuzz.Inputs(o.fusion, o.seed, sizes...)}}
	for i := range t.Inputs {
		in := &t.Inputs[i]
		t.arrays, t.scalars = append(t.arrays, in.Array), append(t.scalars, in.Scalar)
		if in.Array == nil {
			t.inputs, t.memory = append(t.inputs, executor.Input{Scalar: in.Scalar}), append(t.memory, nil)
			continue
		}
		m := in.Memory()
		t.memory = append(t.memory, m)
		t.inputs = append(t.inputs, executor.Input{Tensor: true, DType: m.DType, Data: m.Data(), Sizes: m.Sizes, Strides: m.Strides})
	}
	return t, nil
}

// planFor plans the fusion for inputs: by a kernel that is simulated, or on the
// CPU. If there is a script, it is its kernel that is simulated.
func planFor(o *options, inputs []executor.Input, simulate bool) (*executor.Plan, error) {
	if o.schedule != "" {
		s, err := scheduled(o)
		if err != nil {
			return nil, err
		}
		return executor.NewCache(1, nil).Scheduled(o.fusion, s, executor.AnyLaunch).Plan(inputs)
	}
	e, err := executor.NewCache(1, nil).Executor(o.fusion)
	if err != nil {
		return nil, err
	}
	return e.PlanWith(inputs, executor.Options{Simulate: simulate})
}

func runFusion(o *options, out io.Writer) error { return compare(o, out, nil) }

func simulateFusion(o *options, out io.Writer) error { return compare(o, out, &sim.Counters{}) }

// compare runs the fusion, in the simulator if there are counters, shows the
// outputs, and fails if they are not the evaluator's.
func compare(o *options, out io.Writer, counters *sim.Counters) error {
	t, err := trialOf(o)
	if err != nil {
		return err
	}
	random := core.RandomState{Seed: o.seed}
	want, err := o.fusion.Eval(t.arrays, t.scalars, random)
	if err != nil {
		return err
	}
	plan, err := planFor(o, t.inputs, counters != nil)
	if err != nil {
		return err
	}
	got, err := t.run(plan, &executor.Call{Inputs: t.inputs, Random: random, Counters: counters})
	if err != nil {
		return err
	}
	for k, a := range got {
		fmt.Fprintf(out, "output %d (%s): %s\n", k, o.fusion.Name(o.fusion.Outputs()[k].Val), summary(a))
	}
	if counters != nil {
		printCounters(out, counters)
	}
	if difference := t.Check(want, got); difference != "" {
		first, _, _ := strings.Cut(difference, "\n")
		return fmt.Errorf("the evaluator has another result: %s", first)
	}
	fmt.Fprintln(out, "as the evaluator says")
	return nil
}

// run runs a plan and returns its outputs.
func (t *trial) run(plan *executor.Plan, c *executor.Call) ([]*core.Array, error) {
	outputs := make([]*fusionfuzz.Memory, len(plan.Outputs))
	c.Outputs = make([]unsafe.Pointer, len(plan.Outputs))
	for k, d := range plan.Outputs {
		switch {
		case d.Alias >= 0:
			outputs[k] = t.memory[d.Alias]
		case d.SameAs >= 0:
			outputs[k] = outputs[d.SameAs]
		default:
			outputs[k] = fusionfuzz.NewMemory(d.DType, d.Sizes, d.Strides, 0)
			c.Outputs[k] = outputs[k].Data()
		}
	}
	if err := plan.Do(c); err != nil {
		return nil, err
	}
	arrays := make([]*core.Array, len(outputs))
	for k, m := range outputs {
		arrays[k] = m.Read()
	}
	return arrays, nil
}

// summary is the type, the sizes and the first elements of an array.
func summary(a *core.Array) string {
	const most = 6
	text := fmt.Sprintf("%s [", a.Type.Text())
	for d, n := range a.Shape {
		text += []string{"", ", "}[min(d, 1)] + fmt.Sprint(n)
	}
	text += "]"
	for i := range min(a.Len(), most) {
		text += " " + core.PythonLiteral(a.At(int64(i)))
	}
	if a.Len() > most {
		text += " ..."
	}
	return text
}

func printCounters(out io.Writer, c *sim.Counters) {
	for _, line := range []struct {
		name string
		n    int64
	}{
		{"statements of threads", c.Statements}, {"statements of warps", c.WarpStatements}, {"barriers of blocks", c.Barriers},
		{"requests to global memory", c.GlobalRequests}, {"sectors of 32 bytes in them", c.GlobalSectors},
		{"bytes read", c.GlobalRead}, {"bytes written", c.GlobalWritten},
		{"requests to shared memory", c.SharedRequests}, {"cycles of banks in them", c.SharedWavefronts},
		{"most words of one bank", c.BankConflicts},
	} {
		fmt.Fprintf(out, "%-28s%d\n", line.name, line.n)
	}
}
