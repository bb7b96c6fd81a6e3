package executor

import (
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
)

// eachStatement calls see with each statement of a block and of the blocks in
// it, in order, and the conditions that hold there.
func eachStatement(k *kir.Kernel, block kir.Block, conditions []string, see func(s kir.Statement, conditions []string)) {
	for _, s := range block {
		see(s, conditions)
		switch s := s.(type) {
		case *kir.For:
			eachStatement(k, s.Body, conditions, see)
		case *kir.If:
			inside := conditions[:len(conditions):len(conditions)]
			eachStatement(k, s.Then, append(inside, k.Expr(s.Cond)), see)
			eachStatement(k, s.Else, append(inside, "not ("+k.Expr(s.Cond)+")"), see)
		}
	}
}

// showOrder shows what the memory plan decided.
func showOrder(p *part, _ []string) (string, error) {
	k := p.c.kernel
	var b strings.Builder
	fmt.Fprintf(&b, "%s bytes of shared memory\n", k.Expr(k.Launch.Shared))
	for i := range k.Buffers {
		if s := &k.Buffers[i]; s.Space == kir.Shared {
			fmt.Fprintf(&b, "  %s: %s elements of %s at byte %s\n", s.Name, k.Expr(s.Size), s.DType.Text(), k.Expr(s.Offset))
		}
	}
	o := orderPrinter{k: k, b: &b}
	o.block(k.Body)
	o.next("the end")
	return b.String(), nil
}

type orderPrinter struct {
	k       *kir.Kernel
	b       *strings.Builder
	waiting []kir.Statement // that order, and nothing followed yet
}

func (o *orderPrinter) next(text string) {
	for _, w := range o.waiting {
		fmt.Fprintf(o.b, "%s before %s\n", o.k.Text(w), text)
	}
	o.waiting = nil
}

func (o *orderPrinter) block(block kir.Block) {
	for _, s := range block {
		switch s := s.(type) {
		case kir.Barrier, kir.Fence, kir.AsyncWait, kir.AsyncCommit, kir.Arrived:
			o.waiting = append(o.waiting, s)
		case kir.Hoist: // a name
		case *kir.For:
			o.next("`" + o.k.Text(s) + "`")
			o.block(s.Body)
			o.next("the next iteration of " + o.k.Symbols[s.Symbol].Name)
		case *kir.If:
			o.next("`" + o.k.Text(s) + "`")
			o.block(s.Then)
			o.block(s.Else)
		default:
			o.next("`" + o.k.Text(s) + "`")
		}
	}
}

// showTests shows what is left of the tests that keep accesses in bounds.
func showTests(p *part, _ []string) (string, error) {
	k := p.c.kernel
	var b strings.Builder
	o := p.c.options
	o.Decided = func(d lower.Decision) { b.WriteString(d.String() + "\n") }
	if _, err := lower.Lower(p.c.s, o); err != nil {
		return "", err
	}
	eachStatement(k, k.Body, nil, func(s kir.Statement, conditions []string) {
		switch s := s.(type) {
		case kir.Assign:
			if len(conditions) == 0 && k.Buffers[s.Dst.Buffer].Space == kir.Local && !readsMemory(k, s.Value, map[kir.ValueID]bool{}) {
				return
			}
		case kir.Move, kir.AsyncCopy, kir.AtomicAdd:
		default:
			return
		}
		fmt.Fprintf(&b, "`%s`", k.Text(s))
		for i, c := range conditions {
			fmt.Fprintf(&b, "%s %s", []string{" if", " and"}[min(i, 1)], c)
		}
		b.WriteString("\n")
	})
	return b.String(), nil
}

// readsMemory reports whether a value that was not seen has elements of shared or
// global memory.
func readsMemory(k *kir.Kernel, id kir.ValueID, seen map[kir.ValueID]bool) bool {
	v := &k.Values[id]
	if v.Kind == kir.Load && k.Buffers[v.Access.Buffer].Space != kir.Local {
		return true
	}
	seen[id] = true
	return slices.ContainsFunc(v.Args, func(a kir.ValueID) bool { return !seen[a] && readsMemory(k, a, seen) })
}
