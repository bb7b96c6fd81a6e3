package lower

import (
	"maps"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// maxUnrolled bounds the iterations, of the nested loops that one access to an
// array is indexed by, that are written out to keep the array in registers;
// beyond it the array is in the thread's memory.
const maxUnrolled = 256

// registers is a pass.
func (l *lowering) registers() error {
	k := l.b.Kernel()
	loops := map[kir.SymbolID]*kir.For{}
	uses := make([]map[kir.SymbolID]bool, len(k.Buffers))
	fits := make([]bool, len(k.Buffers)) // all accesses
	k.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			loops[f.Symbol] = f
		}
		eachAccess(k, s, func(a *kir.Access, _ bool) {
			if k.Buffers[a.Buffer].Space != kir.Local {
				return
			}
			if uses[a.Buffer] == nil {
				uses[a.Buffer], fits[a.Buffer] = map[kir.SymbolID]bool{}, true
			}
			mine := map[kir.SymbolID]bool{}
			l.t.Symbols(a.Index, func(s scalar.ID) { mine[kir.SymbolID(l.t.Tag(s).Val)] = true })
			maps.Copy(uses[a.Buffer], mine)
			fits[a.Buffer] = fits[a.Buffer] && l.canUnroll(mine, loops)
		})
	})
	k.Body = without(k.Body, func(s kir.Statement) bool { // what has no element at any point is not computed
		d, ok := s.(kir.Declare)
		return ok && k.Buffers[d.Buffer].Space == kir.Local && uses[d.Buffer] == nil
	})
	for id := range uses {
		b := &k.Buffers[id]
		if b.Space == kir.Local {
			b.Registers = fits[id]
		}
	}
	k.Body = without(k.Body, func(s kir.Statement) bool { // what is in memory is not packed again
		x, ok := s.(kir.Opaque)
		return ok && !k.Buffers[x.Buffer].Registers
	})
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

// without returns b without the statements that have no blocks and are selected.
func without(b kir.Block, selected func(kir.Statement) bool) kir.Block {
	var out kir.Block
	for _, s := range b {
		switch s := s.(type) {
		case *kir.For:
			s.Body = without(s.Body, selected)
		case *kir.If:
			s.Then, s.Else = without(s.Then, selected), without(s.Else, selected)
		}
		if !selected(s) {
			out = append(out, s)
		}
	}
	return out
}
