package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// maxUnrolled bounds the iterations, of all loops that are nested, that are
// written out to keep an array in registers; beyond it the array is in the
// thread's memory.
const maxUnrolled = 256

// registers is a pass.
func (l *lowering) registers() error {
	k := l.b.Kernel()
	loops := map[kir.SymbolID]*kir.For{}
	uses := make([]map[kir.SymbolID]bool, len(k.Buffers))
	k.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			loops[f.Symbol] = f
		}
		eachAccess(k, s, func(a *kir.Access, _ bool) {
			if k.Buffers[a.Buffer].Space != kir.Local {
				return
			}
			if uses[a.Buffer] == nil {
				uses[a.Buffer] = map[kir.SymbolID]bool{}
			}
			l.t.Symbols(a.Index, func(s scalar.ID) { uses[a.Buffer][kir.SymbolID(l.t.Tag(s).Val)] = true })
		})
	})
	for id := range uses {
		b := &k.Buffers[id]
		if b.Space == kir.Local {
			b.Registers = l.canUnroll(uses[id], loops)
		}
	}
	for id, symbols := range uses {
		if k.Buffers[id].Registers {
			for s := range symbols {
				loops[s].Unroll = kir.UnrollFull
			}
		}
	}
	return nil
}

// canUnroll reports whether symbols are all of loops that can be written out.
func (l *lowering) canUnroll(symbols map[kir.SymbolID]bool, loops map[kir.SymbolID]*kir.For) bool {
	product := int64(1)
	for s := range symbols {
		f := loops[s]
		if f == nil {
			return false
		}
		n, ok := l.t.ConstInt(f.Stop)
		if !ok || n > maxUnrolled {
			return false
		}
		product *= n
	}
	return product <= maxUnrolled
}
