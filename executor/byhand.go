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
)

// A Launch is a number of blocks and of threads along x, y and z; -1: any.
type Launch struct{ Grid, Block [3]int64 }

// AnyLaunch demands nothing.
var AnyLaunch = Launch{Grid: [3]int64{-1, -1, -1}, Block: [3]int64{-1, -1, -1}}

// simulationByHand returns the plan that simulates the schedule made by hand.
func (e *Executor) simulationByHand(b *core.Binding, inputs []Input) (*Plan, error) {
	outputs, err := describeOutputs(e.f, b, inputs)
	if err != nil {
		return nil, err
	}
	c, err := e.compileByHand(b, inputs, alignments(inputs), outputs, kir.Hopper)
	if err != nil {
		return nil, err
	}
	return e.simulated(inputs, outputs, c), nil
}

// compileByHand returns the kernel of the schedule made by hand, for a device with
// the given limits. Outputs that the schedule lays out get its strides.
func (e *Executor) compileByHand(b *core.Binding, inputs []Input, aligned []int, outputs []OutputDescription, limits kir.Limits) (*compiled, error) {
	s := e.byHand
	if err := checkSchedule(s); err != nil {
		return nil, err
	}
	placeOutputs(outputs, s)
	t := &task{f: e.f, b: b, inputs: described(inputs)}
	for k := range e.f.Outputs() {
		t.outputs = append(t.outputs, k)
	}
	c := &compiled{task: t, s: s.Clone()}
	c.options.Alignment = func(v core.ValID) int { return alignmentOf(c.s.Fusion(), v, aligned) }
	err := c.lowerTo(outputs)
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

// alignments returns the bytes, 16 at most, that divide the address of the first
// element of each input.
func alignments(inputs []Input) []int {
	aligned := make([]int, len(inputs))
	for i := range inputs {
		aligned[i] = 1 << AlignmentOf(inputs[i].Data)
	}
	return aligned
}

// alignmentOf returns the bytes that divide the address of the first element of v
// in global memory: of an input what its data say, and of the output that is
// written there; torch and we allocate others at multiples of 16.
func alignmentOf(f *core.Fusion, v core.ValID, aligned []int) int {
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
	h, err := c.host(inputs, core.RandomState{})
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
