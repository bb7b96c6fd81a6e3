package lower

import "nvfuser_go/codegen/memory"

// synchronise is a pass.
func (l *lowering) synchronise() error { return memory.Plan(l.b.Kernel(), memory.Options{}) }
