package kir

import (
	"math/bits"

	"nvfuser_go/core/scalar"
)

// A granule is a power of two g such that something is the same for all threads
// of each aligned group of g threads, numbered x first. The granule of what the
// whole block shares is [blockGranule].
type granule uint32

const (
	threadGranule granule = 1
	warpGranule   granule = 32
	blockGranule  granule = 1 << 30
)

// uniformity finds granules. Its results are right if loops are structured and
// every symbol is bound once, which Verify checks as it goes.
type uniformity struct {
	k       *Kernel
	t       *scalar.Table // of k, or an extension
	symbols []granule     // 0: not bound yet
	exprs   map[scalar.ID]granule
	values  map[ValueID]granule
	thread  scalar.ID // the number of the thread in its block
	x       scalar.ID // its index along x, scalar.None if unused
}

func newUniformity(k *Kernel, t *scalar.Table) *uniformity {
	u := &uniformity{k: k, t: t, symbols: make([]granule, len(k.Symbols)), exprs: map[scalar.ID]granule{}, values: map[ValueID]granule{}}
	u.thread, u.x = t.Int(0), scalar.None
	rows := t.Int(1) // threads per step of the dimension
	for dim := range 3 {
		for i, s := range k.Symbols {
			if s.Kind == ThreadIdx && s.Dim == dim {
				u.thread = t.Add(u.thread, t.Mul(s.Expr, rows))
				u.symbols[i] = u.dividing(rows)
				if dim == 0 {
					u.x, u.symbols[i] = s.Expr, threadGranule
				}
			}
		}
		rows = t.Mul(rows, k.Launch.Block[dim])
	}
	for i, s := range k.Symbols {
		if s.Kind == Parameter || s.Kind == BlockIdx || s.Kind == ClusterIdx {
			u.symbols[i] = blockGranule
		}
	}
	return u
}

// dividing returns the largest granule that divides the positive number of
// threads n.
func (u *uniformity) dividing(n scalar.ID) granule {
	d := u.t.Facts(n).Divisor
	if d <= 0 {
		return threadGranule
	}
	return granule(1) << min(bits.TrailingZeros64(uint64(d)), bits.TrailingZeros32(uint32(blockGranule)))
}

// aligned returns the largest granule over which id counts the threads, from a
// multiple of it.
func (u *uniformity) aligned(id scalar.ID) granule {
	switch id {
	case u.thread:
		return blockGranule
	case u.x:
		return u.dividing(u.k.Launch.Block[0])
	}
	return threadGranule
}

// expr returns the granule of an expression.
func (u *uniformity) expr(id scalar.ID) granule {
	if g, ok := u.exprs[id]; ok {
		return g
	}
	g := blockGranule
	args := u.t.Args(id)
	switch op := u.t.Op(id); op {
	case scalar.Const:
	case scalar.Symbol:
		if s := u.t.Tag(id).Val; int(s) < len(u.symbols) && u.symbols[s] != 0 {
			g = u.symbols[s]
		} else {
			g = threadGranule
		}
		return g // not kept: the symbol may be bound later
	case scalar.FloorDiv, scalar.Lt, scalar.Le:
		// Of thread/32, thread < 32 and 31 < thread none changes within a warp:
		// find where the value does.
		of, bound := args[0], args[1]
		if op != scalar.FloorDiv && u.aligned(of) == threadGranule {
			of, bound = args[1], args[0]
		}
		if (op == scalar.Lt && of == args[1]) || (op == scalar.Le && of == args[0]) {
			bound = u.t.Add(bound, u.t.Int(1))
		}
		if aligned := u.aligned(of); aligned > threadGranule {
			g = min(aligned, u.dividing(bound), u.expr(bound))
			break
		}
		g = min(u.expr(args[0]), u.expr(args[1]))
	default:
		for _, a := range args {
			g = min(g, u.expr(a))
		}
	}
	u.exprs[id] = g
	return g
}

// value returns the granule of a value. Threads that load one element of
// memory which others see get one value, as a write in between would be a race.
func (u *uniformity) value(id ValueID) granule {
	if g, ok := u.values[id]; ok {
		return g
	}
	v := &u.k.Values[id]
	g := blockGranule
	switch v.Kind {
	case IndexValue:
		g = u.expr(v.Index)
	case Load:
		if g = u.expr(v.Access.Index); u.k.Buffers[v.Access.Buffer].Space == Local {
			g = threadGranule
		}
	case Shuffle:
		g = threadGranule
	case Random:
		g = u.expr(v.Index)
		if v.Stream < 0 {
			g = min(g, u.value(v.Seed), u.value(v.Offset))
		}
	}
	for _, a := range v.Args {
		g = min(g, u.value(a))
	}
	u.values[id] = g
	return g
}
