package kir

import "nvfuser_go/core/scalar"

// An Agreement tells on which values all threads of a block agree.
type Agreement struct{ u *uniformity }

// Agreement returns that of a kernel whose symbols are each bound once. It is
// what [Kernel.Verify] holds barriers against. t is the kernel's table or a
// copy of it, and may grow.
func (k *Kernel) Agreement(t *scalar.Table) Agreement {
	u := newUniformity(k, t)
	var bind func(list Block)
	bind = func(list Block) {
		for _, s := range list {
			switch s := s.(type) {
			case Let:
				u.symbols[s.Symbol] = u.value(s.Value)
			case AtomicAdd:
				if s.Old != NoSymbol {
					u.symbols[s.Old] = threadGranule
				}
			case *For:
				u.symbols[s.Symbol] = min(u.expr(s.Start), u.expr(s.Step))
				bind(s.Body)
			case *If:
				bind(s.Then)
				bind(s.Else)
			}
		}
	}
	bind(k.Body)
	return Agreement{u}
}

// Uniform reports whether an expression of the table is the same for all
// threads of a block that compute it at the same time.
func (a Agreement) Uniform(id scalar.ID) bool { return a.u.expr(id) == blockGranule }
