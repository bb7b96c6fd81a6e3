package memory

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// committed returns the kernel's body with commits where the copies of a stage
// end, if it has none of its own. A stage is what one iteration copies into one
// slot of a circular buffer: the innermost loop that the slot depends on has a
// commit after the last statement with copies. Other copies get theirs where
// they are waited for.
func (p *plan) committed() kir.Block {
	c := committer{p: p, slots: map[kir.BufferID]int{}}
	if c.survey(p.k.Body); c.found {
		return p.k.Body
	}
	out, _ := c.block(p.k.Body, nil)
	return out
}

type committer struct {
	p     *plan
	found bool                 // a commit
	slots map[kir.BufferID]int // the coordinate that is taken modulo the number of slots
	loops []*kir.For
}

// survey finds commits, and circular buffers by their accesses.
func (c *committer) survey(list kir.Block) {
	access := func(a *kir.Access) {
		for i, x := range a.Coords {
			if c.p.t.Op(x) == scalar.Mod && c.p.t.Args(x)[1] == c.p.k.Buffers[a.Buffer].Shape[i] {
				if _, ok := c.slots[a.Buffer]; !ok {
					c.slots[a.Buffer] = i
				}
			}
		}
	}
	for i := range c.p.k.Values {
		if v := &c.p.k.Values[i]; v.Kind == kir.Load {
			access(&v.Access)
		}
	}
	var walk func(list kir.Block)
	walk = func(list kir.Block) {
		for _, s := range list {
			switch s := s.(type) {
			case kir.AsyncCommit:
				c.found = true
			case kir.AsyncCopy:
				access(&s.Dst)
			case kir.Move:
				access(&s.Src)
			case *kir.For:
				walk(s.Body)
			case *kir.If:
				walk(s.Then)
				walk(s.Else)
			}
		}
	}
	walk(list)
}

// stage returns the loop whose iterations are the stages of a copy, nil if none.
func (c *committer) stage(s kir.AsyncCopy) *kir.For {
	axis, ok := c.slots[s.Dst.Buffer]
	if !ok {
		return nil
	}
	for _, l := range slices.Backward(c.loops) {
		found := false
		c.p.t.Symbols(s.Dst.Coords[axis], func(id scalar.ID) { found = found || id == c.p.k.Symbols[l.Symbol].Expr })
		if found {
			return l
		}
	}
	return nil
}

// block returns the statements of a block of a loop with commits, and the loops
// whose stages have copies in it.
func (c *committer) block(list kir.Block, loop *kir.For) (kir.Block, []*kir.For) {
	body := make(kir.Block, len(list))
	stages := make([][]*kir.For, len(list))
	var all []*kir.For
	for i, s := range list {
		body[i] = s
		switch s := s.(type) {
		case kir.AsyncCopy:
			if l := c.stage(s); l != nil {
				stages[i] = []*kir.For{l}
			}
		case *kir.For:
			x := *s
			c.loops = append(c.loops, s)
			x.Body, stages[i] = c.block(s.Body, s)
			c.loops = c.loops[:len(c.loops)-1]
			body[i] = &x
		case *kir.If:
			then, a := c.block(s.Then, nil)
			otherwise, b := c.block(s.Else, nil)
			stages[i] = append(a, b...)
			body[i] = &kir.If{Cond: s.Cond, Then: then, Else: otherwise}
		}
		all = append(all, stages[i]...)
	}
	var out kir.Block
	ends := func(i int) bool { return loop != nil && i < len(list) && slices.Contains(stages[i], loop) }
	for i, s := range body {
		if out = append(out, s); ends(i) && !ends(i+1) {
			out = append(out, kir.AsyncCommit{})
		}
	}
	return out, all
}
