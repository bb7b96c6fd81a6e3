package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// eachAccess calls yield for the accesses of a statement itself.
func eachAccess(k *kir.Kernel, s kir.Statement, yield func(a *kir.Access, write bool)) {
	switch s := s.(type) {
	case kir.Assign:
		eachLoad(k, s.Value, yield)
		yield(&s.Dst, true)
	case kir.Send:
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

// bodyExprs calls yield for the index expressions that threads compute, and for
// the coordinates of accesses.
func bodyExprs(k *kir.Kernel, yield func(scalar.ID)) {
	k.Body.Walk(func(s kir.Statement) {
		statementExprs(k, s, yield)
		eachAccess(k, s, func(a *kir.Access, _ bool) {
			for _, c := range a.Coords {
				yield(c)
			}
		})
	})
}

// statementExprs calls yield for the index expressions that a statement itself
// computes.
func statementExprs(k *kir.Kernel, s kir.Statement, yield func(scalar.ID)) {
	eachAccess(k, s, func(a *kir.Access, _ bool) { yield(a.Index) })
	switch s := s.(type) {
	case kir.Assign:
		valueExprs(k, s.Value, yield)
	case kir.Send:
		valueExprs(k, s.Value, yield)
		yield(s.Rank)
	case kir.AtomicAdd:
		valueExprs(k, s.Value, yield)
	case kir.Let:
		valueExprs(k, s.Value, yield)
	case kir.Move:
		if s.Cache == kir.CacheEvictLastIf {
			yield(s.Last)
		}
		if s.Guarded {
			yield(s.Guard)
		}
	case kir.AsyncCopy:
		if s.Guard != scalar.None {
			yield(s.Guard)
		}
		if s.Cache == kir.CacheEvictLastIf {
			yield(s.Last)
		}
	case *kir.For:
		yield(s.Start)
		yield(s.Stop)
		yield(s.Step)
	case *kir.If:
		yield(s.Cond)
	}
}

// valueExprs calls yield for the index expressions of a value, accesses aside.
func valueExprs(k *kir.Kernel, id kir.ValueID, yield func(scalar.ID)) {
	v := &k.Values[id]
	if v.Kind == kir.IndexValue || v.Kind == kir.Random || v.Kind == kir.Shuffle && v.Mode == kir.ShuffleAt {
		yield(v.Index)
	}
	for _, a := range v.Args {
		valueExprs(k, a, yield)
	}
}
