package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/segmenter"
)

// A Launch is a number of blocks and of threads along x, y and z; -1: any.
type Launch struct{ Grid, Block [3]int64 }

// AnyLaunch demands nothing.
var AnyLaunch = Launch{Grid: [3]int64{-1, -1, -1}, Block: [3]int64{-1, -1, -1}}

// assembleByHand makes the program of the schedule made by hand: one kernel, which
// cannot be made to write elsewhere than to inputs which it says receive outputs.
func (a *assembly) assembleByHand() error {
	e, b := a.p.e, a.b
	for i, v := range e.f.Inputs() {
		if x := &a.inputs[i]; !a.p.onHost() && x.Tensor && len(x.Sizes) == 0 && e.f.Val(v).Domain.CPU != (x.Device.Type == CPU) {
			return core.InvalidArgumentf("execute(): input %d (%s) is on %v, and the schedule was made for a definition with is_cpu=%v", i, e.f.Name(v), x.Device, e.f.Val(v).Domain.CPU)
		}
	}
	if a.overlaps {
		return core.InvalidArgumentf("execute(): an input that receives an output shares memory with another input, and the kernel of a schedule made by hand cannot save it before")
	}
	c, err := e.compileByHand(b, a.inputs, a.aligned, a.p.Outputs, a.options.Exact, limits(a.properties))
	if err != nil {
		return err
	}
	a.f = e.f
	hasElements := func(o OutputDescription) bool { return core.NumElements(o.Sizes) > 0 }
	if !slices.ContainsFunc(a.p.Outputs, hasElements) {
		return a.emit()
	}
	if err := a.load(c, nil, 0); err != nil {
		return err
	}
	return a.placeByHand(c)
}

// placeByHand has the one kernel write outputs where they belong, or to a workspace if
// that is the memory of an input which it does not know of, or has elements where it
// knows of repetitions.
func (a *assembly) placeByHand(c *compiled) error {
	s := &segmenter.Segment{Kind: segmenter.Kernel, Fusion: c.s.Fusion()}
	a.at = map[core.ValID]*located{}
	for i, v := range a.f.Inputs() {
		in := segmenter.Source{Val: v, Scalar: scalar.None}
		if a.inputs[i].Tensor {
			a.at[v] = a.input(i)
		} else {
			in = segmenter.Source{Val: core.NoVal, Scalar: a.f.Val(v).Scalar}
		}
		s.Inputs = append(s.Inputs, in)
	}
	for k, o := range c.s.Fusion().Outputs() {
		d, v := &a.p.Outputs[k], a.f.Outputs()[k].Val // which may be computed as another tensor
		s.Writes = append(s.Writes, v)
		if a.at[v] != nil {
			continue
		}
		written := denseStrides(c.s.Fusion(), o.Val, d.Sizes, d.order())
		if o.Alias != core.NoVal || core.NumElements(d.Sizes) == 0 || d.Alias < 0 && slices.Equal(d.Strides, written) {
			a.at[v] = a.output(k)
			continue
		}
		a.at[v] = a.tensor(d.DType, d.Sizes, written, false)
	}
	a.pieces = []*piece{{Segment: s, task: c.task, c: c}}
	return a.emit()
}

// compileByHand returns the kernel of the schedule made by hand, for a device with
// the given limits. Outputs that the schedule lays out get its strides.
func (e *Executor) compileByHand(b *core.Binding, inputs []Input, aligned []schedule.Alignment, outputs []OutputDescription, exact bool, limits kir.Limits) (*compiled, error) {
	s := e.byHand
	if err := checkSchedule(s); err != nil {
		return nil, err
	}
	placeOutputs(outputs, s)
	t := &task{f: e.f, b: b, inputs: inputs, outputs: outputs, exact: exact}
	c := &compiled{task: t, lowered: &lowered{s: s.Clone()}}
	c.options.Alignment = func(v core.ValID) int { return int(alignmentOf(c.s.Fusion(), v, aligned)) }
	err := c.lowerTo()
	if err == nil {
		err = e.checkLaunch(c, inputs, limits)
	}
	if errors.Is(err, scalar.ErrOverflow) {
		return nil, core.InvalidArgumentf("the schedule cannot be launched: %v", err)
	}
	return c, err
}

// placeOutputs gives outputs that s lays out the strides that follow from that.
func placeOutputs(outputs []OutputDescription, s *schedule.Scheduled) {
	f := s.Fusion()
	for k, o := range f.Outputs() {
		if alloc, set := s.Allocation(o.Val); set && o.Alias == core.NoVal {
			// Lowering refuses axes that are made from dimensions.
			if order := f.Dimensions(o.Val, alloc); len(order) == len(outputs[k].Sizes) {
				outputs[k].Strides = denseStrides(f, o.Val, outputs[k].Sizes, order)
			}
		}
	}
}

// alignments returns what plans rely on of the address of the first element of each input.
func alignments(inputs []Input) []schedule.Alignment {
	aligned := make([]schedule.Alignment, len(inputs))
	for i := range inputs {
		aligned[i] = 1 << AlignmentOf(inputs[i].Data)
	}
	return aligned
}

// alignmentOf returns what is known of the address of the first element of v
// in global memory: of an input what its data say, and of the output that is
// written there; torch and we allocate others at multiples of 16.
func alignmentOf(f *core.Fusion, v core.ValID, aligned []schedule.Alignment) schedule.Alignment {
	for _, o := range f.Outputs() {
		if o.Val == v && o.Alias != core.NoVal {
			v = o.Alias
		}
	}
	if at := slices.Index(f.Inputs(), v); at >= 0 {
		return aligned[at]
	}
	return 16
}

// checkSchedule fails unless s can be lowered, as far as the schedule tells. The
// error is the user's mistake.
func checkSchedule(s *schedule.Scheduled) error {
	err := s.Verify()
	if err == nil {
		return nil
	}
	if refused := (*schedule.Refused)(nil); errors.As(err, &refused) {
		return &core.Unsupported{What: "the schedule cannot be computed", Refusals: []core.Refusal{refused.Refusal}}
	}
	return core.InvalidArgumentf("the schedule cannot be computed: %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

// checkLaunch fails if the launch of c on inputs exceeds the limits, or is not as
// demanded.
func (e *Executor) checkLaunch(c *compiled, inputs []Input, limits kir.Limits) error {
	h, err := c.host(c.task, core.RandomState{})
	if err != nil {
		return err
	}
	var is Launch
	var shared int64
	if is.Grid, is.Block, shared, err = h.Launched(); err != nil {
		return err
	}
	if err = limits.Check(is.Grid, is.Block, c.kernel.Launch.Cluster, shared); err == nil {
		err = c.kernel.CheckLimits(limits)
	}
	if err != nil {
		return core.InvalidArgumentf("the schedule cannot be launched: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for i, axis := range "xyz" {
		for _, x := range []struct {
			name     string
			is, want int64
		}{{"bdim", is.Block[i], e.demands.Block[i]}, {"gdim", is.Grid[i], e.demands.Grid[i]}} {
			if x.want >= 0 && x.want != x.is {
				return core.InvalidArgumentf("the launch parameter %s is %d, but the schedule makes it %d", fmt.Sprintf("%s%c", x.name, axis), x.want, x.is)
			}
		}
	}
	return nil
}
