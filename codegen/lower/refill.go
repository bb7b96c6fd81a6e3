package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// refill is a pass. The iterations of a loop that each fill shared memory by asynchronous copies, which land in
// turn and which each thread reads again itself, leave memory idle while they fold, and wait, and fill it
// while nothing is stored. So the last loop that reads what was copied copies that of the next iteration as it frees it:
//
//	for r < n                              for i < m { copy of 0; commit }
//	    for i < m { copy; commit }         for r < n
//	    for i < m { wait; read; commit }       for i < m { wait; read; commit }
//	    fold                                   fold
//	    for i < m { read; store }              for i < m { read; copy of r + 1; commit; store }
//
// The groups that a wait counts are as many: m before the first loop that reads, and one more in each of its iterations.
func (l *lowering) refill() error {
	k := l.b.Kernel()
	k.Body = l.refilled(k.Body)
	return nil
}

func (l *lowering) refilled(b kir.Block) (out kir.Block) {
	for _, s := range b {
		switch s := s.(type) {
		case *kir.If:
			s.Then, s.Else = l.refilled(s.Then), l.refilled(s.Else)
		case *kir.For:
			if r := l.refilling(s); r != nil {
				out = append(out, r.first()...)
				r.next()
				if a := r.lead(); a != nil {
					out = append(out, a.first()...)
					a.next()
				}
			} else {
				s.Body = l.refilled(s.Body)
			}
		}
		out = append(out, s)
	}
	return out
}

// A refilling is a loop whose iterations may copy what the next one begins with.
type refilling struct {
	*lowering
	loop, fill, last *kir.For // fill: of copies; last: that reads what they wrote
	declared         kir.Block
	buffers          map[kir.BufferID]bool
}

// refilling returns what is known of the copies in f; nil: they stay.
func (l *lowering) refilling(f *kir.For) *refilling {
	r := &refilling{lowering: l, loop: f, buffers: map[kir.BufferID]bool{}}
	for len(r.declared) < len(f.Body) {
		if _, ok := f.Body[len(r.declared)].(kir.Declare); !ok {
			break
		}
		r.declared = append(r.declared, f.Body[len(r.declared)])
	}
	at, isLoop := len(r.declared), false
	if at == len(f.Body) {
		return nil
	}
	if r.fill, isLoop = f.Body[at].(*kir.For); !isLoop || f.Unroll == kir.UnrollFull {
		return nil
	}
	copies, ok := r.copies()
	if !ok || !r.isFree(f.Body[at+1:]) || !r.findLast(f.Body[at+1:], copies) {
		return nil
	}
	return r
}

// copies returns what the copies of the loop that fills write, if that is all that it does, and closes a group.
func (r *refilling) copies() ([]placed, bool) {
	end := len(r.fill.Body) - 1
	if end < 1 {
		return nil, false
	}
	if _, ok := r.fill.Body[end].(kir.AsyncCommit); !ok {
		return nil, false
	}
	alone := *r.fill
	alone.Body = r.fill.Body[:end]
	copies, isOnly := r.copiesIn(&alone)
	for i := range copies {
		copies[i].loops = append([]*kir.For{r.fill}, copies[i].loops[1:]...)
		r.buffers[copies[i].Buffer] = true
	}
	for _, s := range r.declared {
		isOnly = isOnly && r.buffers[s.(kir.Declare).Buffer]
	}
	return copies, isOnly && len(copies) > 0
}

// isFree reports whether the copies depend on nothing that after, which is in the loop too, computes, and read what nobody writes.
func (r *refilling) isFree(after kir.Block) bool {
	k, isFree := r.b.Kernel(), true
	inside := map[scalar.ID]bool{r.symbolOf(r.loop): true, r.symbolOf(r.fill): true}
	r.fill.Body.Walk(func(s kir.Statement) {
		if f, ok := s.(*kir.For); ok {
			inside[r.symbolOf(f)] = true
		}
	})
	check := func(x scalar.ID) {
		if x == scalar.None {
			return
		}
		r.t.Symbols(x, func(id scalar.ID) {
			kind := k.Symbols[r.t.Tag(id).Val].Kind
			isFree = isFree && (inside[id] || kind != kir.LoopIndex && kind != kir.LetIndex)
		})
	}
	r.fill.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.AsyncCopy:
			isFree = isFree && k.Buffers[s.Src.Buffer].ReadOnly
			for _, x := range []scalar.ID{s.Dst.Index, s.Src.Index, s.Guard, s.Last} {
				check(x)
			}
		case *kir.If:
			check(s.Cond)
		}
	})
	waits, commits := 0, 0
	after.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.AsyncCopy:
			isFree = false
		case kir.AsyncWait:
			waits++
		case kir.AsyncCommit:
			commits++
		case kir.Declare:
			isFree = isFree && !r.buffers[s.Buffer]
		}
	})
	return isFree && waits == 1 && commits == 1
}

// findLast finds the last loop that reads what was copied, after another one, which waits for it. All
// that do read it as it was copied, so that no other thread does.
func (r *refilling) findLast(after kir.Block, copies []placed) bool {
	readers := 0
	for _, s := range after {
		reads := r.readsOf(r.buffers, s)
		if len(reads) == 0 {
			continue
		}
		f, ok := s.(*kir.For)
		if !ok || !r.isLike(r.fill, f) {
			return false
		}
		for _, x := range reads {
			if !slices.ContainsFunc(copies, func(c placed) bool { return r.isSame(c, x) }) {
				return false
			}
		}
		readers, r.last = readers+1, f
	}
	return readers > 1
}

// first takes the copies out of the loop, and returns those of its first iteration.
func (r *refilling) first() kir.Block {
	r.loop.Body = r.loop.Body[len(r.declared)+1:]
	c := copied{lowering: r.lowering, symbols: map[scalar.ID]scalar.ID{r.symbolOf(r.loop): r.loop.Start}, buffers: map[kir.BufferID]kir.BufferID{}}
	fill := kir.Block{c.loop(r.fill, r.t.Facts(r.symbolOf(r.fill)))}
	if cond := r.t.Lt(r.loop.Start, r.loop.Stop); !isTrue(r.t, cond) {
		fill = kir.Block{&kir.If{Cond: cond, Then: fill}}
	}
	return append(r.declared, fill...)
}

// next lets the last loop copy what the next iteration reads, where it has read that of this one.
func (r *refilling) next() {
	i := r.t.Add(r.symbolOf(r.loop), r.loop.Step)
	c := copied{lowering: r.lowering, symbols: map[scalar.ID]scalar.ID{r.symbolOf(r.loop): i, r.symbolOf(r.fill): r.symbolOf(r.last)}, buffers: map[kir.BufferID]kir.BufferID{}}
	at := 0
	for k, s := range r.last.Body {
		if len(r.readsOf(r.buffers, s)) > 0 {
			at = k + 1
		}
	}
	copies := c.block(r.fill.Body[:len(r.fill.Body)-1])
	r.last.Body = slices.Insert(r.last.Body, at, kir.Statement(&kir.If{Cond: r.t.Lt(i, r.loop.Stop), Then: copies}), kir.Statement(kir.AsyncCommit{}))
}
