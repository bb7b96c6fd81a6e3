package kir

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

const maxVectorBytes = 16

// block checks statements in order. What they bind and declare ends with it.
// agree is the granule of whether they are executed.
func (v *verifier) block(block Block, agree granule) {
	var symbols []SymbolID
	var buffers []BufferID
	for _, s := range block {
		v.at = s
		switch s := s.(type) {
		case Declare:
			v.declared[s.Buffer]++
			if v.live[s.Buffer] = v.k.Buffers[s.Buffer].Space != Global; v.live[s.Buffer] {
				buffers = append(buffers, s.Buffer)
			}
		case Let:
			v.let(s.Symbol, s.Value, agree)
			symbols = append(symbols, s.Symbol)
		case AtomicAdd:
			if v.atomic(&s, agree); s.Old != NoSymbol {
				symbols = append(symbols, s.Old)
			}
		case Hoist:
			if h := &v.k.Symbols[s.Symbol]; h.Kind != HoistedIndex || h.Expr != s.Expr {
				v.problem("%s is not the name of the expression", h.Name)
			}
			v.bound[s.Symbol]++
			v.reads(s.Expr)
		case *For:
			v.loop(s, agree)
		case *If:
			v.condition(s.Cond)
			inside := min(agree, v.uniform.expr(s.Cond))
			v.block(s.Then, inside)
			v.block(s.Else, inside)
		default:
			v.leaf(s, agree)
		}
	}
	for _, s := range symbols {
		v.scope[s] = false
	}
	for _, b := range buffers {
		v.live[b] = false
	}
}

// leaf checks a statement without blocks that binds nothing.
func (v *verifier) leaf(s Statement, agree granule) {
	switch s := s.(type) {
	case Assign:
		v.store(&s.Dst, s.Value, agree)
	case Send:
		v.store(&s.Dst, s.Value, agree)
		v.index(s.Rank)
		if v.space(&s.Dst) != Shared || v.k.Launch.Cluster[0] < 2 {
			v.problem("a block sends to the Shared memory of another one of its cluster, which is along x")
		}
		if n := v.k.Buffers[s.Dst.Buffer].DType.Size(); s.Counted && n != 4 && n != 8 {
			v.problem("elements of 4 or 8 bytes are counted, not of %d", n)
		}
		if s.Counted {
			v.arrivals(s.Arrivals)
		}
	case Expect:
		v.arrivals(s.Arrivals)
		if s.Bytes < 1 || s.Bytes >= 1<<20 {
			v.problem("%d bytes cannot be expected", s.Bytes)
		}
	case Arrived:
		v.arrivals(s.Arrivals)
		v.barrier(&Barrier{Scope: ClusterScope}, agree)
	case Move:
		v.sides(&s.Dst, &s.Src, s.Unaligned || s.Src.Step > 1)
		if s.Unaligned {
			v.unaligned(&s)
		}
		if s.Src.Step > 1 {
			v.gathered(&s)
		}
		if local := v.space(&s.Dst) == Local; local == (v.space(&s.Src) == Local) {
			v.problem("one side of a move must be Local")
		}
		v.cache(s.Cache, s.Last)
		if s.Cache == CacheEvictLastIf && v.space(&s.Src) != Global {
			v.problem("a load from Global is evicted last on a condition")
		}
		if s.Guarded {
			v.condition(s.Guard)
			if v.space(&s.Src) != Global || !s.Cache.IsPlain() {
				v.problem("a guarded move is from Global, without a hint for caches but evict last")
			}
		}
	case AsyncCopy:
		v.sides(&s.Dst, &s.Src, false)
		if v.space(&s.Dst) != Shared || v.space(&s.Src) != Global {
			v.problem("an asynchronous copy is from Global to Shared")
		}
		if n := s.Dst.Width * v.k.Buffers[s.Dst.Buffer].DType.Size(); n != 4 && n != 8 && n != 16 {
			v.problem("an asynchronous copy is of 4, 8 or 16 bytes, not %d", n)
		}
		if s.Guard != scalar.None {
			v.condition(s.Guard)
		}
		if v.cache(s.Cache, s.Last); s.Cache == CacheStreaming {
			v.problem("an asynchronous copy is not a streaming one")
		}
	case Opaque:
		if b := &v.k.Buffers[s.Buffer]; !v.live[s.Buffer] || b.Space != Local || !b.Registers {
			v.problem("%s is not in registers here", b.Name)
		}
	case UnderWay:
		if b := &v.k.Buffers[s.Buffer]; b.Space != Global {
			v.problem("%s is not in global memory", b.Name)
		}
	case AsyncCommit, Fence:
	case AsyncWait:
		if s.Pending < 0 {
			v.problem("%d groups cannot be pending", s.Pending)
		}
	case Barrier:
		v.barrier(&s, agree)
	case ClusterStart:
		v.barrier(&Barrier{Scope: ClusterScope}, agree)
	default:
		v.problem("%T is not a statement", s)
	}
}

// arrivals checks a word that counts what arrives.
func (v *verifier) arrivals(id BufferID) {
	b := &v.k.Buffers[id]
	if n, ok := v.t.ConstInt(b.Size); !v.live[id] || b.Space != Shared || b.DType != dtype.Int || !ok || n != 1 {
		v.problem("%s is no word of Shared memory here", b.Name)
	}
}

// store checks that a value may be stored as an element.
func (v *verifier) store(dst *Access, value ValueID, agree granule) {
	v.value(value, agree)
	v.write(dst, 1)
	if got, want := v.k.Values[value].DType, v.k.Buffers[dst.Buffer].DType; got != want {
		v.problem("a %v is stored in a buffer of %v", got, want)
	}
}

func (v *verifier) space(a *Access) Space { return v.k.Buffers[a.Buffer].Space }

func (v *verifier) sides(dst, src *Access, unaligned bool) {
	v.access(src, maxVectorBytes, unaligned)
	v.write(dst, maxVectorBytes)
	if v.k.Buffers[dst.Buffer].DType != v.k.Buffers[src.Buffer].DType || dst.Width != src.Width {
		v.problem("both sides must have one type and one width")
	}
}

func (v *verifier) unaligned(s *Move) {
	size := v.k.Buffers[s.Src.Buffer].DType.Size()
	if v.space(&s.Src) != Global || size > 2 || s.Src.Width*size < 4 || s.Guarded || !s.Cache.IsPlain() {
		v.problem("an unaligned move is of words from Global with elements of 1 or 2 bytes, without a guard or a hint for caches but evict last")
	}
}

// gathered checks a move of elements that are not next to each other.
func (v *verifier) gathered(s *Move) {
	b := &v.k.Buffers[s.Src.Buffer]
	g, ok := GatheredBy(b, s.Src.Width, s.Src.Step)
	if !ok || b.Space != Global || !b.ReadOnly || s.Unaligned || s.Guarded || s.Cache != CacheDefault {
		v.problem("a move in steps of %d elements is from Global that nothing writes, of elements that are known to be in the first steps of vectors", s.Src.Step)
		return
	}
	if !v.multiple(s.Src.Index, g.Vector/b.DType.Size()) {
		v.problem("the address of %d elements of %s may not be past a multiple of %d bytes by as much as the first one is", s.Src.Width, b.Name, g.Vector)
	}
}

func (v *verifier) barrier(s *Barrier, agree granule) {
	need := blockGranule
	if s.Scope == WarpScope {
		need = warpGranule
	}
	if agree < need {
		v.problem("some threads of the %v may not reach the barrier", s.Scope)
	}
	if s.Scope == GroupScope && !v.k.HasGroups() {
		v.problem("the threads with the same index along z must be of whole warps, and of at most %d groups", maxGroups)
	}
	if s.Scope != GridScope {
		return
	}
	if !v.k.Launch.Cooperative {
		v.problem("a grid barrier needs a cooperative launch")
	}
	v.write(&s.Semaphore, 1)
	b := &v.k.Buffers[s.Semaphore.Buffer]
	if b.Space != Global || !b.Zeroed || !b.DType.IsInt() || b.DType.Size() != 8 {
		v.problem("the semaphore must be a zeroed Global word of 64 bits")
	}
	if v.uniform.expr(s.Semaphore.Index) < blockGranule {
		v.problem("the threads of a block may take several semaphores")
	}
}

func (v *verifier) bind(id SymbolID, kind SymbolKind, t dtype.Type, g granule) {
	s := &v.k.Symbols[id]
	if s.Kind != kind {
		v.problem("%s is not a symbol that it can bind", s.Name)
	}
	if got := v.t.Type(s.Expr); got != t {
		v.problem("%s is a %v and is bound to a %v", s.Name, got, t)
	}
	v.bound[id]++
	v.scope[id] = true
	v.uniform.symbols[id] = g
}

func (v *verifier) let(id SymbolID, value ValueID, agree granule) {
	v.value(value, agree)
	want := dtype.Index
	switch t := v.k.Values[value].DType; {
	case t.IsBool():
		want = dtype.Bool
	case !t.IsInt():
		v.problem("a symbol cannot be a %v", t)
	}
	v.bind(id, LetIndex, want, v.uniform.value(value))
}

func (v *verifier) atomic(s *AtomicAdd, agree granule) {
	v.value(s.Value, agree)
	v.write(&s.Dst, 1)
	b := &v.k.Buffers[s.Dst.Buffer]
	if b.Space == Local {
		v.problem("an atomic on a Local buffer")
	}
	if t := v.k.Values[s.Value].DType; t != b.DType || t.IsBool() || t.IsComplex() {
		v.problem("a %v is added to a buffer of %v", t, b.DType)
	}
	if s.Old == NoSymbol {
		return
	}
	if !b.DType.IsInt() {
		v.problem("a symbol cannot be a %v", b.DType)
	}
	v.bind(s.Old, LetIndex, dtype.Index, threadGranule)
}

func (v *verifier) loop(s *For, agree granule) {
	v.index(s.Start, s.Stop, s.Step)
	if v.t.Facts(s.Step).Lo < 1 {
		v.problem("the step %s may not be positive", v.k.Expr(s.Step))
	}
	if s.Unroll == UnrollFull {
		v.unrolled[s.Symbol] = true
		for _, id := range []scalar.ID{s.Start, s.Stop, s.Step} {
			if _, ok := v.t.ConstInt(id); !ok {
				v.problem("the bound %s of an unrolled loop is not constant", v.k.Expr(id))
			}
		}
	}
	step := min(v.uniform.expr(s.Start), v.uniform.expr(s.Step))
	v.bind(s.Symbol, LoopIndex, dtype.Index, step)
	v.block(s.Body, min(agree, step, v.uniform.expr(s.Stop)))
	v.scope[s.Symbol] = false
}

// access checks an access of at most the given bytes, or of one element.
func (v *verifier) access(a *Access, maxBytes int, unaligned bool) {
	b := &v.k.Buffers[a.Buffer]
	if !v.live[a.Buffer] {
		v.problem("buffer %s is not declared here", b.Name)
	}
	v.index(a.Index)
	v.index(a.Coords...)
	if len(a.Coords) != len(b.Stride) {
		v.problem("%d coordinates for the %d axes of %s", len(a.Coords), len(b.Stride), b.Name)
		return
	}
	if want := linear(v.t, a.Coords, b.Stride); want != a.Index {
		v.problem("the index of %s is %s, but its coordinates give %s", b.Name, v.k.Expr(a.Index), v.format(want))
	}
	switch bytes := a.Width * b.DType.Size(); {
	case a.Width < 1 || a.Width&(a.Width-1) != 0 || a.Width > 1 && bytes > maxBytes || a.Step > 1 && !unaligned:
		v.problem("%d elements of %s cannot be accessed at once", a.Width, b.Name)
	case a.Width > 1 && !unaligned && (bytes > b.Align || !v.multiple(a.Index, a.Width)):
		v.problem("the address of %d elements of %s may not be a multiple of %d bytes", a.Width, b.Name, bytes)
	}
	if b.Registers {
		for _, s := range v.symbolsOf(a.Index) {
			if !v.unrolled[s] {
				v.problem("%s is in registers and indexed by %s, which is not unrolled", b.Name, v.k.Symbols[s].Name)
			}
		}
	}
}

// format writes an expression of the verifier's table.
func (v *verifier) format(id scalar.ID) string {
	k := *v.k
	k.Scalars = v.t
	return k.Expr(id)
}

func (v *verifier) write(a *Access, maxBytes int) {
	v.access(a, maxBytes, false)
	if b := &v.k.Buffers[a.Buffer]; b.ReadOnly {
		v.problem("%s is read-only", b.Name)
	}
}

// value checks a value and those below it where a statement reads it. Types do
// not depend on where: they are checked once.
func (v *verifier) value(id ValueID, agree granule) {
	v.walk++
	var visit func(id ValueID)
	visit = func(id ValueID) {
		if v.visited[id] == v.walk {
			return
		}
		v.visited[id] = v.walk
		x := &v.k.Values[id]
		for _, a := range x.Args {
			visit(a)
		}
		switch x.Kind {
		case IndexValue:
			v.indexValue(x)
		case Load:
			v.access(&x.Access, 0, false)
		case Shuffle:
			if agree < warpGranule {
				v.problem("some lanes of a warp may not reach the shuffle")
			}
			if x.Mode == ShuffleAt {
				v.index(x.Index)
			}
		case Random:
			v.index(x.Index)
			if x.Stream < 0 {
				visit(x.Seed)
				visit(x.Offset)
			}
		}
		if !v.checked[id] {
			v.checked[id] = true
			v.types(id, x)
		}
	}
	visit(id)
}

// indexValue checks an expression that becomes an element.
func (v *verifier) indexValue(x *Value) {
	if v.t.Type(x.Index).IsBool() {
		v.condition(x.Index)
		return
	}
	v.index(x.Index)
}

// types checks the type of a value.
func (v *verifier) types(id ValueID, x *Value) {
	if !x.DType.Computes() {
		v.problem("value %d is a %v, which no thread computes with", id, x.DType)
		return
	}
	want := x.DType
	switch x.Kind {
	case Constant:
		want = x.Const.Type
	case HostScalar:
		if a := &v.k.Arguments[x.Int]; a.Kind == ValueScalar {
			want = a.DType
		} else {
			v.problem("argument %s is no number", a.Name)
		}
	case Load:
		if want = v.k.Buffers[x.Access.Buffer].DType; x.Access.Width != 1 {
			v.problem("value %d loads %d elements", id, x.Access.Width)
		}
	case Operation:
		want = v.operation(x)
	case Shuffle:
		want = v.k.Values[x.Args[0]].DType
		if x.Mode == WarpMaximum && (want != dtype.Float || x.Width != 32) {
			v.problem("the maximum of %d lanes of a %v", x.Width, want)
		}
		w := x.Width
		if w < 2 || w > 32 || w&(w-1) != 0 || x.Mode != ShuffleAt && (x.Int < 0 || x.Int >= int64(w)) {
			v.problem("a shuffle by %d in groups of %d lanes", x.Int, w)
		}
	case Random:
		v.random(x)
	case Order:
		of := v.k.Values[x.Args[0]].DType
		if want, _ = OrderType(of); of.IsComplex() {
			v.problem("elements of %v have no order", of)
		}
	}
	if want != dtype.Null && want != x.DType {
		v.problem("value %d is a %v and declared as a %v", id, want, x.DType)
	}
}

// operation returns the type of an operation, Null if it is not known.
func (v *verifier) operation(x *Value) dtype.Type {
	types := make([]dtype.Type, len(x.Args))
	for i, a := range x.Args {
		types[i] = v.k.Values[a].DType
	}
	if x.Approximate && (x.DType != dtype.Float || len(types) == 0 || types[len(types)-1] != dtype.Float || x.Op.Approx.CUDA == "") {
		v.problem("%s of %v has no approximation", x.Op.Name, types)
	}
	t, err := x.Op.ElementType(types...)
	if err != nil {
		v.problem("%v", err)
	}
	return t
}

func (v *verifier) random(x *Value) {
	if x.Op.Class != core.Random || x.DType.IsFloat() == (x.Op == core.UniformBitsOp) || !x.DType.IsFloat() && x.DType != dtype.Int32 {
		v.problem("%s() does not draw a %v", x.Op.Name, x.DType)
	}
	for _, a := range x.Args {
		if t := v.k.Values[a].DType; t != dtype.Double {
			v.problem("a parameter of %s() is a %v, not a Double", x.Op.Name, t)
		}
	}
	if x.Stream < 0 && (!v.k.Values[x.Seed].DType.IsInt() || !v.k.Values[x.Offset].DType.IsInt()) {
		v.problem("seed and offset of %s() must be integers", x.Op.Name)
	}
}
