package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// mostTested are the iterations before those that make no tests, and after them, at most: where blocks of a cluster
// have parts of a row in one piece half of all are tested, and an RMS norm of 1117 x 60032 float32 takes 148.7 / 147.0 us on an
// H200 with those apart, 139.9 / 133.3 else.
const mostTested = 2

// peel is a pass. Of a loop that is not written out, whose number of iterations is known, some index tests may fail
// in the first or the last iterations alone: rows have so many elements at least ([schedule.Scheduled.PromiseLeast]).
// Those iterations are loops of their own then, if the others make no tests at all: a compiler keeps a load under a
// condition behind others, and registers for the conditions.
func (l *lowering) peel() error {
	k := l.b.Kernel()
	p := peeling{l, emptyEnds(k)}
	k.Body = p.peeled(k.Body)
	return nil
}

type peeling struct {
	*lowering
	emptyEnds map[*kir.For]bool // loops that close a group that no wait counts
}

func (l *peeling) peeled(b kir.Block) (out kir.Block) {
	for _, s := range b {
		switch s := s.(type) {
		case *kir.If:
			s.Then, s.Else = l.peeled(s.Then), l.peeled(s.Else)
		case *kir.For:
			if pieces := l.pieces(s); len(pieces) > 0 {
				out = append(out, pieces...)
				continue
			}
			s.Body = l.peeled(s.Body)
		}
		out = append(out, s)
	}
	return out
}

// pieces returns loops that do together what f does, if it has some iterations without tests.
func (l *peeling) pieces(f *kir.For) (pieces kir.Block) {
	n, isConst := l.t.ConstInt(f.Stop)
	if !isConst || n < 2 || f.Unroll == kir.UnrollFull || f.Start != l.t.Int(0) || f.Step != l.t.Int(1) || !l.canPeel(f) {
		return nil
	}
	from, to := int64(0), n
	conditions := conditionsIn(f)
	for _, test := range l.testsOf(conditions) {
		switch first, end := l.sure(test, l.symbolOf(f), n); {
		case first == 0 && end < n && (to == n || end > to):
			to = end
		case 0 < first && first < n && (from == 0 || first < from):
			from = first
		}
	}
	if to-from == n || from > mostTested || n-to > mostTested || !l.hold(conditions, l.symbolOf(f), from, to) {
		return nil
	}
	bounds := slices.Compact([]int64{0, from, to, n})
	for i, begin := range bounds[:len(bounds)-1] {
		if p := l.pieceOf(f, begin, bounds[i+1]); len(p.Body) > 0 {
			pieces = append(pieces, p)
		}
	}
	return pieces
}

// canPeel reports whether f may be copied, and moves vectors: others are loaded one by one, and it is instructions
// that bound.
func (l *lowering) canPeel(f *kir.For) bool {
	can, moves := true, false
	f.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.Move, kir.AsyncCopy:
			moves = true
		case kir.Declare:
			can = can && l.b.Kernel().Buffers[s.Buffer].Space == kir.Local
		case *kir.For, *kir.If, kir.Assign, kir.Opaque, kir.AsyncCommit, kir.AsyncWait:
		default:
			can = false
		}
	})
	return can && moves
}

// conditionsIn returns those of what is in f.
func conditionsIn(f *kir.For) (conditions []scalar.ID) {
	f.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case *kir.If:
			conditions = append(conditions, s.Cond)
		case kir.Move:
			if s.Guarded {
				conditions = append(conditions, s.Guard)
			}
		case kir.AsyncCopy:
			if s.Guard != scalar.None {
				conditions = append(conditions, s.Guard)
			}
		}
	})
	return conditions
}

// testsOf returns the tests that conditions are made of, each of one index.
func (l *lowering) testsOf(conditions []scalar.ID) (tests []scalar.ID) {
	for _, cond := range conditions {
		switch l.t.Op(cond) {
		case scalar.Select: // a && b, a || b
			tests = append(tests, l.testsOf(l.t.Args(cond))...)
		case scalar.Lt, scalar.Le:
			tests = append(tests, cond)
		}
	}
	return tests
}

// hold reports whether conditions hold for sure in iterations of the loop with the symbol, from one to before another, which
// are some.
func (l *lowering) hold(conditions []scalar.ID, symbol scalar.ID, from, to int64) bool {
	for i := from; i < to; i++ {
		for _, cond := range conditions {
			if !l.holdsAt(cond, symbol, i) {
				return false
			}
		}
	}
	return from < to
}

// holdsAt reports whether a condition holds for sure in iteration i of the loop with the symbol.
func (l *lowering) holdsAt(cond, symbol scalar.ID, i int64) bool {
	at := l.t.Int(i)
	return isTrue(l.t, l.t.Substitute(cond, func(id scalar.ID) (scalar.ID, bool) { return at, id == symbol }))
}

// sure returns the iterations of a loop of n with the symbol, from first to before end, in which a test holds whatever
// else is: those from the first on, or up to the last one. There are none if first is end.
func (l *lowering) sure(test, symbol scalar.ID, n int64) (first, end int64) {
	holds := func(i int64) bool { return l.holdsAt(test, symbol, i) }
	for end < n && holds(end) {
		end++
	}
	if end > 0 {
		return 0, end
	}
	for first = n; first > 0 && holds(first-1); {
		first--
	}
	return first, n
}

// pieceOf returns a copy of f with those of its iterations from begin to before end. The last one closes no group of
// copies that no wait counts: one that reads copies closes it for the waits of later iterations ([lowering.landInTurn]).
func (l *peeling) pieceOf(f *kir.For, begin, end int64) *kir.For {
	c := copied{lowering: l.lowering, symbols: map[scalar.ID]scalar.ID{}, buffers: map[kir.BufferID]kir.BufferID{}}
	loop := c.loop(f, scalar.Range(begin, end-1))
	loop.Start, loop.Stop = l.t.Int(begin), l.t.Int(end)
	if n, _ := l.t.ConstInt(f.Stop); begin == n-1 && l.emptyEnds[f] {
		loop.Body = loop.Body[:len(loop.Body)-1]
	}
	return loop
}

// copied makes copies of statements, with loops and registers of their own.
type copied struct {
	*lowering
	symbols map[scalar.ID]scalar.ID
	buffers map[kir.BufferID]kir.BufferID
}

func (c *copied) loop(f *kir.For, facts scalar.Facts) *kir.For {
	own := c.b.Symbol(c.loopName(), kir.LoopIndex, 0, dtype.Index, facts)
	out := *f
	out.Start, out.Stop, out.Step = c.expr(f.Start), c.expr(f.Stop), c.expr(f.Step)
	c.symbols[c.symbolOf(f)] = own
	if facts.Lo == facts.Hi {
		c.symbols[c.symbolOf(f)] = c.t.Int(facts.Lo)
	}
	out.Symbol, out.Body = kir.SymbolID(c.t.Tag(own).Val), c.block(f.Body)
	return &out
}

func (c *copied) block(b kir.Block) (out kir.Block) {
	for _, s := range b {
		switch s := s.(type) {
		case *kir.For:
			out = append(out, c.loop(s, c.t.Facts(c.symbolOf(s))))
		case *kir.If:
			cond := c.expr(s.Cond)
			switch is, isConst := c.t.ConstInt(cond); {
			case isConst && is != 0:
				out = append(out, c.block(s.Then)...)
			case isConst:
				out = append(out, c.block(s.Else)...)
			default:
				out = append(out, &kir.If{Cond: cond, Then: c.block(s.Then), Else: c.block(s.Else)})
			}
		case kir.Declare:
			k := c.b.Kernel()
			k.Buffers = append(k.Buffers, k.Buffers[s.Buffer])
			c.buffers[s.Buffer] = kir.BufferID(len(k.Buffers) - 1)
			out = append(out, kir.Declare{Buffer: c.buffers[s.Buffer]})
		case kir.Assign:
			s.Dst, s.Value = c.access(s.Dst), c.value(s.Value)
			out = append(out, s)
		case kir.Move:
			s.Dst, s.Src, s.Last = c.access(s.Dst), c.access(s.Src), c.expr(s.Last)
			if s.Guarded {
				s.Guard = c.expr(s.Guard)
				if isTrue(c.t, s.Guard) {
					s.Guarded, s.Guard = false, scalar.None
				}
			}
			out = append(out, s)
		case kir.AsyncCopy:
			s.Dst, s.Src, s.Last, s.Guard = c.access(s.Dst), c.access(s.Src), c.expr(s.Last), c.expr(s.Guard)
			if s.Guard != scalar.None && isTrue(c.t, s.Guard) {
				s.Guard = scalar.None
			}
			out = append(out, s)
		case kir.Opaque:
			out = append(out, kir.Opaque{Buffer: c.buffer(s.Buffer)})
		default:
			out = append(out, s)
		}
	}
	return out
}

// isTrue reports whether cond is known to hold.
func isTrue(t *scalar.Table, cond scalar.ID) bool {
	is, isConst := t.ConstInt(cond)
	return isConst && is != 0
}

func (c *copied) buffer(id kir.BufferID) kir.BufferID {
	if own, ok := c.buffers[id]; ok {
		return own
	}
	return id
}

func (c *copied) expr(x scalar.ID) scalar.ID { return replaced(c.t, c.symbols)(x) }

func (c *copied) access(a kir.Access) kir.Access {
	a.Buffer = c.buffer(a.Buffer)
	return replacedIn(a, c.expr)
}

func (c *copied) value(id kir.ValueID) kir.ValueID {
	v := c.b.Kernel().Values[id]
	v.Args = slices.Clone(v.Args)
	for i, a := range v.Args {
		v.Args[i] = c.value(a)
	}
	switch {
	case v.Kind == kir.Load:
		v.Access = c.access(v.Access)
	case v.Kind == kir.Random && v.Stream < 0:
		v.Seed, v.Offset = c.value(v.Seed), c.value(v.Offset)
	}
	if v.Kind == kir.IndexValue || v.Kind == kir.Random || v.Kind == kir.Shuffle {
		v.Index = c.expr(v.Index)
	}
	return c.b.Value(v)
}
