package executor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/passes"
)

// A Stage is one way to look at a fusion between its definition and its kernel.
type Stage struct {
	Name  string // that of NVFUSER_DUMP
	Does  string // what it shows
	Takes string // what its arguments are, but for segment=N; "": it takes none
	needs need

	// One of them: of the whole fusion, or of each part of a program.
	whole func(x *Inspection, arguments []string) (string, error)
	part  func(p *part, arguments []string) (string, error)
}

// OfParts reports whether a stage shows each segment, or the one that the argument
// segment=N names.
func (s *Stage) OfParts() bool { return s.part != nil }

// Arguments says what arguments a stage takes, all of which may be left out; "": none.
func (s *Stage) Arguments() string {
	switch {
	case !s.OfParts():
		return s.Takes
	case s.Takes == "":
		return "segment=N: segment N alone"
	}
	return s.Takes + "; segment=N: segment N alone"
}

// OfDefinition reports whether a stage can be shown without inputs.
func (s *Stage) OfDefinition() bool { return s.needs == aDefinition }

// A need is what a stage shows.
type need uint8

const (
	aDefinition need = iota
	theInputs
	aConcrete // the fusion that is cut
	aProgram  // of segments
	aPlan
	aSegment
	aChoice // of a scheduler, or why there is none
	aSchedule
	aKernel
	aLaunch // of a kernel, on inputs
)

// Stages returns all stages, in the order in which a fusion passes them.
func Stages() []Stage { return slices.Clone(stages) }

var stages = []Stage{
	{Name: "python_definition", Does: "Python source that defines the fusion again",
		whole: ofFusion(func(f *core.Fusion) string { return f.Python("nvfuser_fusion") })},
	{Name: "fusion_ir_original", Does: "the canonical text of the fusion, as it was defined", whole: ofFusion((*core.Fusion).String)},
	{Name: "fusion_ir_math", Does: "inputs, outputs and operations with their axes, for reading",
		whole: ofFusion(func(f *core.Fusion) string { return f.Math(true) })},
	{Name: "fusion_args", Does: "types, sizes, strides and devices of the inputs", needs: theInputs, whole: showInputs},
	{Name: "fusion_ir_concretized", Does: "the fusion for the inputs, with the axes that are broadcast known", needs: theInputs, whole: showConcretized},
	{Name: "pre_segmenter_logging", Does: "the passes that change the fusion before it is cut, and how many expressions", needs: theInputs, whole: showRewriting},
	{Name: "fusion_ir_preseg", Does: "the fusion after these passes, for the inputs: what is cut into segments", needs: aConcrete,
		whole: func(x *Inspection, _ []string) (string, error) { return x.made.f.String(), nil }},
	{Name: "segmenter_logging", Does: "why expressions are computed by different kernels, or by torch", needs: aProgram, whole: showCutting},
	{Name: "segmented_fusion", Does: "the segments in the order in which they run: who computes them and who refuses to, what they read and write",
		needs: aProgram, whole: func(x *Inspection, _ []string) (string, error) { return x.made.program.Dump(), nil }},
	{Name: "explain", Does: "of each segment who computes it, what each scheduler says to it, the parameters that were chosen, the others, and how long its kernel is thought to take", Takes: "json: the same as data",
		needs: aProgram, whole: showExplanation},
	{Name: "python_definition_segments", Does: "Python source that defines each segment", needs: aSegment, part: showPython},
	{Name: "fusion_ir_presched", Does: "the canonical text of each segment, before it is scheduled", needs: aSegment,
		part: func(p *part, _ []string) (string, error) { return p.fusion().String(), nil }},
	{Name: "scheduler_verbose", Does: "what each scheduler says to the fusion, and the candidates of the one that takes it", needs: aChoice, part: showChoice},
	{Name: "scheduler_params", Does: "the parameters that the scheduler chose", needs: aSchedule, part: showParams},
	{Name: "fusion_ir", Does: "the schedule: loops, memory and position of each tensor", Takes: "transforms: also how the loops stem from the dimensions",
		needs: aSchedule, part: showSchedule},
	{Name: "inlining", Does: "how many of its loops each tensor shares with what reads it", needs: aSchedule, part: showPositions},
	{Name: "ca_map", Does: "the loops of the kernel, each with the axes that run in it", needs: aSchedule, part: showLoops},
	{Name: "lower_verbose", Does: "the kernel after each pass of lowering", Takes: "names of passes, instead of all", needs: aKernel, part: showPasses},
	{Name: "sync_map", Does: "places in shared memory, and each barrier and wait with what comes next", needs: aKernel, part: showOrder},
	{Name: "predicate_elimination", Does: "which statements lost their index tests, and the tests that are left around accesses of memory", needs: aKernel, part: showTests},
	{Name: "parallel_dimensions", Does: "blocks and threads in terms of the kernel's arguments", needs: aKernel, part: showDimensions},
	{Name: "kernel_ir", Does: "the kernel before it becomes CUDA", needs: aKernel,
		part: func(p *part, _ []string) (string, error) { return p.c.kernel.String(), nil }},
	{Name: "index_type", Does: "the type of index arithmetic", needs: aKernel,
		part: func(p *part, _ []string) (string, error) { return p.c.kernel.Index.Text() + "\n", nil }},
	{Name: "cuda_kernel", Does: "the kernel as CUDA, without device functions", Takes: "the compute capability, as in 80, instead of that of the device", needs: aKernel,
		part: ofSource(cuda.Source.KernelText)},
	{Name: "cuda_full", Does: "the whole text that is compiled", Takes: "the compute capability, as in 80, instead of that of the device", needs: aKernel,
		part: ofSource(func(s cuda.Source) string { return s.Text })},
	{Name: "kernel_args", Does: "the arguments of the kernel", needs: aLaunch, part: showArguments},
	{Name: "launch_param", Does: "the numbers of blocks and threads, and the shared memory; on a CUDA device also registers of a thread and bytes of its local memory, where registers are spilled", needs: aLaunch, part: showLaunch},
	{Name: "dynamic_shared_memory", Does: "the shared memory of a block in bytes", needs: aLaunch, part: showShared},
	{Name: "plan", Does: "what a call does: memory, launches with their arguments, calls of torch", needs: aPlan,
		whole: func(x *Inspection, _ []string) (string, error) { return x.plan.Device.String(), nil }},
	{Name: "plan_memory", Does: "what a call allocates and gives back, phase by phase, and the calls of torch between, as JSON", needs: aPlan, whole: showMemory},
}

func ofFusion(text func(*core.Fusion) string) func(*Inspection, []string) (string, error) {
	return func(x *Inspection, _ []string) (string, error) { return text(x.f), nil }
}

func ofSource(text func(cuda.Source) string) func(*part, []string) (string, error) {
	return func(p *part, arguments []string) (string, error) {
		arch := p.c.arch
		if arch == 0 {
			arch = 90
		}
		if len(arguments) > 0 {
			n, err := strconv.Atoi(arguments[0])
			if err != nil || n < 70 || n > 999 || len(arguments) > 1 {
				return "", core.InvalidArgumentf("the compute capability must be one number such as 80 or 90, got %s", strings.Join(arguments, ", "))
			}
			arch = n
		}
		source, err := cuda.Print(p.c.kernel, p.c.printed(arch))
		return text(source), err
	}
}

func showConcretized(x *Inspection, _ []string) (string, error) {
	b, err := x.f.Bind(valuesOf(x.inputs))
	if err != nil {
		return "", err
	}
	f, _, err := x.f.Concretize(b)
	if err != nil {
		return "", err
	}
	return f.String(), nil
}

func showRewriting(x *Inspection, _ []string) (string, error) {
	_, applied, err := passes.Run(x.f, false)
	var b strings.Builder
	for _, a := range applied {
		fmt.Fprintf(&b, "%s: %d\n", a.Pass, a.Changes)
	}
	if len(applied) == 0 {
		b.WriteString("nothing changes\n")
	}
	return b.String(), err
}

// showCutting makes the program again.
func showCutting(x *Inspection, _ []string) (string, error) {
	var log strings.Builder
	a, err := x.made.of.again()
	if err != nil {
		return "", err
	}
	a.log = func(line string) { log.WriteString(line + "\n") }
	if err := a.assemble(); err != nil && x.failed == nil {
		return "", err
	}
	if log.Len() == 0 {
		log.WriteString("nothing is parted\n")
	}
	return log.String(), nil
}

// fusion returns what is scheduled.
func (p *part) fusion() *core.Fusion {
	switch {
	case p.c != nil && p.c.task != nil && p.c.task.f != nil:
		return p.c.task.f
	case p.f != nil:
		return p.f
	}
	return p.c.s.Fusion()
}

func showPython(p *part, _ []string) (string, error) {
	return p.fusion().Python(fmt.Sprintf("nvfuser_fusion_%d", p.segment)), nil
}

func showInputs(x *Inspection, _ []string) (string, error) {
	var b strings.Builder
	for i := range x.inputs {
		in, name := &x.inputs[i], x.f.Name(x.f.Inputs()[i])
		if in.Tensor {
			fmt.Fprintf(&b, "input %d (%s): %s sizes %s strides %s on %v\n", i, name, in.DType.Text(), listed(in.Sizes), listed(in.Strides), in.Device)
		} else {
			fmt.Fprintf(&b, "input %d (%s): %s of type %s\n", i, name, core.PythonLiteral(in.Scalar), in.Scalar.Type.Text())
		}
	}
	return b.String(), nil
}

// listed shows numbers as Python shows a list.
func listed(n []int64) string { return strings.ReplaceAll(fmt.Sprint(n), " ", ", ") }

func showChoice(p *part, _ []string) (string, error) {
	var b strings.Builder
	for _, r := range p.c.refusals {
		fmt.Fprintf(&b, "%s refuses: %s (%s)\n", r.By, r.Sentence, r.Rule)
	}
	for i, params := range p.c.candidates {
		if i == 0 {
			fmt.Fprintf(&b, "%s takes it\n", p.c.scheduler)
		}
		role := "other"
		if i == p.c.taken {
			role = "chosen"
		}
		fmt.Fprintf(&b, "  %s: %v\n", role, params)
	}
	if p.c.scheduler == "" && p.c.s != nil {
		b.WriteString("scheduled by hand\n")
	}
	return b.String(), nil
}

func showParams(p *part, _ []string) (string, error) {
	if len(p.c.candidates) == 0 {
		return "scheduled by hand\n", nil
	}
	return p.c.candidates[p.c.taken].String() + "\n", nil
}

func showSchedule(p *part, arguments []string) (string, error) {
	if len(arguments) > 0 && !slices.Equal(arguments, []string{"transforms"}) {
		return "", core.InvalidArgumentf("fusion_ir takes transforms or nothing, got %s", strings.Join(arguments, ", "))
	}
	return p.c.s.Text(len(arguments) > 0), nil
}

func showPositions(p *part, _ []string) (string, error) {
	var b strings.Builder
	for _, v := range p.c.s.Tensors() {
		fmt.Fprintf(&b, "%s: %d of %d\n", p.c.s.Fusion().Name(v), p.c.s.Position(v), len(p.c.s.Loop(v)))
	}
	return b.String(), nil
}

func showLoops(p *part, _ []string) (string, error) {
	m, err := schedule.Map(p.c.s)
	if err != nil {
		return "", err
	}
	return m.LoopClasses(), nil
}

// showPasses lowers again.
func showPasses(of *part, names []string) (string, error) {
	var all []string
	for _, p := range lower.Passes() {
		all = append(all, p.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return "", core.InvalidArgumentf("there is no pass %q; the passes are %s", name, strings.Join(all, ", "))
		}
	}
	var b strings.Builder
	o := of.c.options
	o.After = func(p lower.Pass, k *kir.Kernel) error {
		if len(names) == 0 || slices.Contains(names, p.Name) {
			fmt.Fprintf(&b, "after %q, which %s:\n%v", p.Name, p.Does, k)
		}
		return nil
	}
	_, err := lower.Lower(of.c.s, o)
	return b.String(), err
}

func showDimensions(p *part, _ []string) (string, error) {
	k := p.c.kernel
	var b strings.Builder
	for _, of := range []struct {
		name  string
		sizes [3]scalar.ID
	}{{"gridDim", k.Launch.Grid}, {"blockDim", k.Launch.Block}} {
		for i, size := range of.sizes {
			fmt.Fprintf(&b, "%s.%c = %s\n", of.name, "xyz"[i], k.Expr(size))
		}
	}
	return b.String(), nil
}

func showArguments(p *part, _ []string) (string, error) {
	h, err := p.c.host(p.task, core.RandomState{})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, a := range p.c.kernel.Arguments {
		text, err := h.text(a)
		if err != nil {
			return "", err
		}
		b.WriteString(a.Name + ": " + text + "\n")
	}
	return b.String(), nil
}

// text shows an argument without what differs from run to run.
func (h *host) text(a kir.Argument) (string, error) {
	switch {
	case a.Kind == kir.Pointer:
		buffer := &h.kernel.Buffers[a.Buffer]
		n, err := h.Eval(buffer.Size)
		return fmt.Sprintf("pointer to %d elements of %s", max(n, 0), buffer.DType.Text()), err
	case a.Kind == kir.RandomSeed:
		return "the seed of the run", nil
	case a.Kind == kir.RandomOffset:
		return "the offset of the run", nil
	case a.Kind == kir.Divisor:
		n, err := h.Eval(a.Expr)
		return fmt.Sprintf("a divider by %d", n), err
	case a.Kind == kir.ValueScalar && a.Host.Tensor != core.NoVal:
		return "the element of " + h.s.Fusion().Name(a.Host.Tensor) + " as " + a.DType.Text(), nil
	}
	v, err := h.number(a)
	if err != nil {
		return "", err
	}
	if a.Kind == kir.IndexScalar {
		return fmt.Sprint(v.I), nil
	}
	return core.PythonLiteral(v) + " as " + a.DType.Text(), nil
}

func showLaunch(p *part, _ []string) (string, error) {
	h, err := p.c.host(p.task, core.RandomState{})
	if err != nil {
		return "", err
	}
	grid, block, shared, err := h.Launched()
	cooperative := ""
	if p.c.kernel.Launch.Cooperative {
		cooperative = ", all resident at once"
	}
	text := fmt.Sprintf("grid %s%s\nblock %s\ncluster %s\nshared memory %d\n",
		listed(grid[:]), cooperative, listed(block[:]), listed(p.c.kernel.Launch.Cluster[:]), shared)
	if f := &p.c.launch.Function; f.Handle != 0 {
		text += fmt.Sprintf("registers %d\nlocal memory %d\nstatic shared memory %d\n", f.Registers, f.LocalBytes, f.SharedBytes)
	}
	return text, err
}

func showShared(p *part, _ []string) (string, error) {
	h, err := p.c.host(p.task, core.RandomState{})
	if err != nil {
		return "", err
	}
	_, _, shared, err := h.Launched()
	return fmt.Sprintln(shared), err
}
