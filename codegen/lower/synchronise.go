package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// synchronise is a pass. It gives each shared buffer a place of its own, and
// puts a barrier before whatever touches a buffer of shared or global memory
// that other threads may have touched since the last one.
func (l *lowering) synchronise() error {
	k := l.b.Kernel()
	end := l.t.Int(0)
	for i := range k.Buffers {
		if b := &k.Buffers[i]; b.Space == kir.Shared {
			b.Offset = end
			bytes := l.t.Mul(b.Size, l.t.Int(int64(b.DType.Size())))
			end = l.t.Add(end, l.t.Mul(l.t.CeilDiv(bytes, l.t.Int(16)), l.t.Int(16)))
		}
	}
	k.Launch.Shared = end
	threads := l.t.Mul(l.t.Mul(k.Launch.Block[0], k.Launch.Block[1]), k.Launch.Block[2])
	if n, ok := l.t.ConstInt(threads); ok && n == 1 {
		return nil
	}
	s := &barriers{k: k, pending: map[kir.BufferID]use{}, loaded: make([]bool, len(k.Buffers))}
	walk(k.Body, func(x kir.Statement) {
		eachAccess(k, x, func(a *kir.Access, write bool) { s.loaded[a.Buffer] = s.loaded[a.Buffer] || !write })
	})
	s.block(&k.Body)
	return nil
}

// A use is what happened to a buffer since the last barrier.
type use uint8

const (
	read use = 1 << iota
	written
)

// barriers places barriers in one walk over the statements. A condition is one
// statement: barriers are put before it, never inside, unless it is a loop.
type barriers struct {
	k       *kir.Kernel
	pending map[kir.BufferID]use
	loaded  []bool // by buffer; what nothing loads is written by one thread an element
}

func (s *barriers) block(b *kir.Block) {
	for i := 0; i < len(*b); i++ {
		if f, ok := (*b)[i].(*kir.For); ok {
			s.block(&f.Body)
			s.block(&f.Body) // again, after itself
			continue
		}
		if f, ok := (*b)[i].(*kir.If); ok && s.hasLoopOrBarrier(f) {
			saved := clone(s.pending)
			s.block(&f.Then)
			then := s.pending
			s.pending = saved
			s.block(&f.Else)
			for id, u := range then {
				s.pending[id] |= u
			}
			continue
		}
		if bar, ok := (*b)[i].(kir.Barrier); ok && bar.Scope != kir.WarpScope {
			clear(s.pending)
			continue
		}
		uses := s.uses((*b)[i])
		for id, u := range uses {
			if p := s.pending[id]; p&written != 0 || u&written != 0 && p != 0 {
				*b = slices.Insert(*b, i, kir.Statement(kir.Barrier{Scope: kir.BlockScope}))
				i++
				clear(s.pending)
				break
			}
		}
		for id, u := range uses {
			s.pending[id] |= u
		}
	}
}

func clone(m map[kir.BufferID]use) map[kir.BufferID]use {
	out := map[kir.BufferID]use{}
	for id, u := range m {
		out[id] = u
	}
	return out
}

// hasLoopOrBarrier reports whether f is a condition that all threads of a block
// share and that has more in it than one element's work.
func (s *barriers) hasLoopOrBarrier(f *kir.If) bool {
	found := false
	walk(append(slices.Clone(f.Then), f.Else...), func(x kir.Statement) {
		switch x.(type) {
		case *kir.For, kir.Barrier:
			found = true
		}
	})
	return found
}

// uses returns what a statement does to shared and global buffers that are
// written in the kernel.
func (s *barriers) uses(x kir.Statement) map[kir.BufferID]use {
	uses := map[kir.BufferID]use{}
	walk(kir.Block{x}, func(x kir.Statement) {
		eachAccess(s.k, x, func(a *kir.Access, write bool) {
			if b := &s.k.Buffers[a.Buffer]; b.Space == kir.Local || b.ReadOnly || b.Space == kir.Global && !s.loaded[a.Buffer] {
				return
			}
			if write {
				uses[a.Buffer] |= written
			} else {
				uses[a.Buffer] |= read
			}
		})
	})
	return uses
}

// walk calls yield for each statement, those around others first.
func walk(b kir.Block, yield func(kir.Statement)) {
	for _, s := range b {
		yield(s)
		switch s := s.(type) {
		case *kir.For:
			walk(s.Body, yield)
		case *kir.If:
			walk(s.Then, yield)
			walk(s.Else, yield)
		}
	}
}

// eachAccess calls yield for the accesses of a statement itself.
func eachAccess(k *kir.Kernel, s kir.Statement, yield func(a *kir.Access, write bool)) {
	switch s := s.(type) {
	case kir.Assign:
		eachLoad(k, s.Value, yield)
		yield(&s.Dst, true)
	case kir.Move:
		yield(&s.Src, false)
		yield(&s.Dst, true)
	case kir.AsyncCopy:
		yield(&s.Src, false)
		yield(&s.Dst, true)
	case kir.AtomicAdd:
		eachLoad(k, s.Value, yield)
		yield(&s.Dst, true)
	case kir.Let:
		eachLoad(k, s.Value, yield)
	}
}

func eachLoad(k *kir.Kernel, id kir.ValueID, yield func(*kir.Access, bool)) {
	v := &k.Values[id]
	if v.Kind == kir.Load {
		yield(&v.Access, false)
	}
	for _, a := range v.Args {
		eachLoad(k, a, yield)
	}
	if v.Kind == kir.Random && v.Stream < 0 {
		eachLoad(k, v.Seed, yield)
		eachLoad(k, v.Offset, yield)
	}
}

// eachExpr calls yield for the index expressions of a kernel.
func eachExpr(k *kir.Kernel, yield func(scalar.ID)) {
	access := func(a *kir.Access, _ bool) {
		yield(a.Index)
		for _, c := range a.Coords {
			yield(c)
		}
	}
	var values func(id kir.ValueID)
	values = func(id kir.ValueID) {
		v := &k.Values[id]
		if v.Kind == kir.IndexValue || v.Kind == kir.Random || v.Kind == kir.Shuffle && v.Mode == kir.ShuffleAt {
			yield(v.Index)
		}
		for _, a := range v.Args {
			values(a)
		}
	}
	for _, id := range slices.Concat(k.Launch.Grid[:], k.Launch.Block[:], []scalar.ID{k.Launch.Shared}) {
		yield(id)
	}
	walk(k.Body, func(s kir.Statement) {
		eachAccess(k, s, access)
		switch s := s.(type) {
		case kir.Assign:
			values(s.Value)
		case kir.AtomicAdd:
			values(s.Value)
		case kir.Let:
			values(s.Value)
		case kir.AsyncCopy:
			if s.Guard != scalar.None {
				yield(s.Guard)
			}
		case *kir.For:
			yield(s.Start)
			yield(s.Stop)
			yield(s.Step)
		case *kir.If:
			yield(s.Cond)
		}
	})
}
