package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// mostTurns is how many groups of copies are waited for one after the other at most: of so many
// iterations [memory.Plan] tells which has what in flight.
const mostTurns = 8

// landInTurn is a pass. Asynchronous copies of one tensor that each thread reads again itself, in a loop like that
// which makes them, are a group for each iteration: what is computed of the first does not
// wait for the last. An iteration that reads closes a group too, an empty one, so that all wait for as many.
// In us on an H200, so and with one group: a layer norm of 4096 x 50000 bfloat16 262.6 / 260.3 and 273.2 / 271.2,
// of 4096 x 65528 311.0 / 307.9 and 317.7 / 315.0, of 4096 x 65536 270.5 / 266.8 and 271.5 / 268.1, an RMS norm of
// 4096 x 50000 206.5 / 203.7 and 208.9 / 205.9, a softmax of 4096 x 65528 261.0 / 258.8 and 263.4 / 260.5; of rows
// that fill their steps softmax and RMS norm, of which a step takes few instructions, take as long.
func (l *lowering) landInTurn() error {
	k, others := l.b.Kernel(), 0
	k.Body.Walk(func(s kir.Statement) {
		switch s.(type) {
		case kir.AsyncCommit, kir.AsyncWait: // those of pipelines
			others++
		}
	})
	if others == 0 {
		l.joinCopies(&k.Body)
		l.inTurn(k.Body)
	}
	return nil
}

// joinCopies lets loops of asynchronous copies that follow each other be one, where they have the
// same iterations: what a thread reads together is copied one after the other, by one index
// where the tensors are alike.
func (l *lowering) joinCopies(b *kir.Block) {
	for i := 0; i < len(*b); i++ {
		switch s := (*b)[i].(type) {
		case *kir.If:
			l.joinCopies(&s.Then)
			l.joinCopies(&s.Else)
		case *kir.For:
			if copies, isOnly := l.copiesIn(s); len(copies) == 0 || !isOnly {
				l.joinCopies(&s.Body)
				continue
			}
			for next := l.nextLoop(*b, i); next != nil && l.isLike(s, next); next = l.nextLoop(*b, i) {
				if copies, isOnly := l.copiesIn(next); len(copies) == 0 || !isOnly {
					break
				}
				l.join(s, next)
				at := slices.Index(*b, kir.Statement(next))
				declared := slices.Clone((*b)[i+1 : at])
				*b = slices.Insert(slices.Delete(*b, i+1, at+1), i, declared...)
				i += len(declared)
			}
		}
	}
}

// nextLoop returns the loop that follows the statement at i, with nothing but declarations between; nil: none does.
func (l *lowering) nextLoop(b kir.Block, i int) *kir.For {
	for _, s := range b[i+1:] {
		if f, ok := s.(*kir.For); ok {
			return f
		}
		if _, ok := s.(kir.Declare); !ok {
			return nil
		}
	}
	return nil
}

// join appends what g does to f, which has the same iterations.
func (l *lowering) join(f, g *kir.For) {
	instead := replaced(l.t, map[scalar.ID]scalar.ID{l.symbolOf(g): l.symbolOf(f)})
	var renamed func(b kir.Block) kir.Block
	renamed = func(b kir.Block) kir.Block {
		for i, s := range b {
			switch s := s.(type) {
			case *kir.For:
				s.Start, s.Stop, s.Step, s.Body = instead(s.Start), instead(s.Stop), instead(s.Step), renamed(s.Body)
			case *kir.If:
				s.Cond, s.Then, s.Else = instead(s.Cond), renamed(s.Then), renamed(s.Else)
			case kir.AsyncCopy:
				s.Dst, s.Src = replacedIn(s.Dst, instead), replacedIn(s.Src, instead)
				s.Guard, s.Last = instead(s.Guard), instead(s.Last)
				b[i] = s
			}
		}
		return b
	}
	f.Body = append(f.Body, renamed(g.Body)...)
}

func (l *lowering) inTurn(b kir.Block) {
	for i, s := range b {
		switch s := s.(type) {
		case *kir.If:
			l.inTurn(s.Then)
			l.inTurn(s.Else)
		case *kir.For:
			if !l.landsInTurn(s, b[i+1:]) {
				l.inTurn(s.Body)
			}
		}
	}
}

// landsInTurn makes iterations of f groups of copies that the next loop waits for, if they can be.
func (l *lowering) landsInTurn(f *kir.For, after kir.Block) bool {
	copies, isOnly := l.copiesIn(f)
	turns, isConst := l.t.ConstInt(f.Stop)
	if len(copies) == 0 || !isOnly || !isConst || turns < 2 || turns > mostTurns || f.Start != l.t.Int(0) || f.Step != l.t.Int(1) {
		return false
	}
	buffers := map[kir.BufferID]bool{}
	for _, c := range copies {
		buffers[c.Buffer] = true
	}
	at := slices.IndexFunc(after, func(s kir.Statement) bool { return len(l.readsOf(buffers, s)) > 0 })
	if at < 0 {
		return false
	}
	reader, ok := after[at].(*kir.For)
	if !ok || !l.isLike(f, reader) || l.readsCopies(reader) > 1 {
		return false
	}
	for _, r := range l.readsOf(buffers, reader) {
		if !slices.ContainsFunc(copies, func(c placed) bool { return l.isSame(c, r) }) {
			return false
		}
	}
	f.Body = append(f.Body, kir.AsyncCommit{})
	reader.Body = append(append(kir.Block{kir.AsyncWait{Pending: int(turns) - 1}}, reader.Body...), kir.AsyncCommit{})
	return true
}

// readsCopies returns how many buffers s reads that asynchronous copies write.
func (l *lowering) readsCopies(s kir.Statement) int {
	copied, read := map[kir.BufferID]bool{}, map[kir.BufferID]bool{}
	l.b.Kernel().Body.Walk(func(s kir.Statement) {
		if c, ok := s.(kir.AsyncCopy); ok {
			copied[c.Dst.Buffer] = true
		}
	})
	for _, r := range l.readsOf(copied, s) {
		read[r.Buffer] = true
	}
	return len(read)
}

// A placed access is one and the loops around it, from a given one on.
type placed struct {
	kir.Access
	loops []*kir.For
}

// copiesIn returns what the asynchronous copies in f write, and whether it does nothing else.
func (l *lowering) copiesIn(f *kir.For) (copies []placed, isOnly bool) {
	isOnly = true
	l.within(f, nil, func(s kir.Statement, loops []*kir.For) {
		c, ok := s.(kir.AsyncCopy)
		if isOnly = isOnly && ok; ok {
			copies = append(copies, placed{c.Dst, loops})
		}
	})
	return copies, isOnly
}

// readsOf returns where s reads buffers.
func (l *lowering) readsOf(buffers map[kir.BufferID]bool, s kir.Statement) (reads []placed) {
	l.within(s, nil, func(s kir.Statement, loops []*kir.For) {
		eachAccess(l.b.Kernel(), s, func(a *kir.Access, _ bool) {
			if buffers[a.Buffer] {
				reads = append(reads, placed{*a, loops})
			}
		})
	})
	return reads
}

// within calls yield for the statements in s that are no loops or conditions, with the loops around them.
func (l *lowering) within(s kir.Statement, loops []*kir.For, yield func(kir.Statement, []*kir.For)) {
	switch s := s.(type) {
	case *kir.For:
		loops = append(slices.Clip(loops), s)
		for _, x := range s.Body {
			l.within(x, loops, yield)
		}
	case *kir.If:
		for _, x := range append(slices.Clip(s.Then), s.Else...) {
			l.within(x, loops, yield)
		}
	default:
		yield(s, loops)
	}
}

// isLike reports whether two loops have the same iterations.
func (l *lowering) isLike(f, g *kir.For) bool {
	return f.Start == g.Start && f.Stop == g.Stop && f.Step == g.Step
}

// isSame reports whether a thread accesses the same elements by a and b in the same iterations.
func (l *lowering) isSame(a, b placed) bool {
	if a.Buffer != b.Buffer || a.Width != b.Width || len(a.loops) != len(b.loops) || !slices.EqualFunc(a.loops, b.loops, l.isLike) {
		return false
	}
	with := map[scalar.ID]scalar.ID{}
	for i, f := range a.loops {
		with[l.symbolOf(f)] = l.symbolOf(b.loops[i])
	}
	return replaced(l.t, with)(a.Index) == b.Index
}

func (l *lowering) symbolOf(f *kir.For) scalar.ID { return l.b.Kernel().Symbols[f.Symbol].Expr }
