package lower

import (
	"slices"

	"nvfuser_go/codegen/memory"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// synchronise is a pass. What orders the threads that read and write an input in
// place are barriers of a block, or those of the grid in a kernel whose blocks wait
// for each other anyway: a copy is cheaper than to make them.
func (l *lowering) synchronise() error {
	l.countArrivals()
	k := l.b.Kernel()
	err := memory.Plan(k, memory.Options{})
	if len(l.ordered) > 0 && (err != nil || k.Launch.Cooperative && !l.blocksExchange()) {
		return l.refuseOverwriting(l.ordered[0].Val, l.ordered[0].Alias)
	}
	return err
}

// blocksExchange reports whether what some blocks compute is in global memory for others.
func (l *lowering) blocksExchange() bool {
	return slices.ContainsFunc(l.s.Tensors(), func(v core.ValID) bool {
		return l.s.Memory(v) == schedule.Global && !l.f.Val(v).Input && !l.isOutput(v)
	})
}
