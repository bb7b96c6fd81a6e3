package sim

import (
	"fmt"
	"math"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A step computes a value for the active threads.
type step func(b *block)

// values compiles the values that a statement reads: the steps to take before
// it has its effect, and where they leave the given values.
func (p *program) values(at *statement, roots ...kir.ValueID) ([]step, []*lanes, error) {
	var order []kir.ValueID
	seen := map[kir.ValueID]bool{}
	var visit func(id kir.ValueID)
	visit = func(id kir.ValueID) {
		if seen[id] {
			return
		}
		seen[id] = true
		v := &p.k.Values[id]
		for _, a := range v.Args {
			visit(a)
		}
		if v.Kind == kir.Random && v.Stream < 0 {
			visit(v.Seed)
			visit(v.Offset)
		}
		order = append(order, id)
	}
	for _, id := range roots {
		visit(id)
	}
	slices.Sort(order)
	var steps []step
	where := map[kir.ValueID]*lanes{}
	p.usedTemporaries = [4]int{}
	for _, id := range order {
		s, out, err := p.value(at, &p.k.Values[id], where)
		if err != nil {
			return nil, nil, err
		}
		where[id] = out
		if s != nil {
			steps = append(steps, s)
		}
	}
	out := make([]*lanes, len(roots))
	for i, id := range roots {
		out[i] = where[id]
	}
	return steps, out, nil
}

// temporary returns room for a value of the statement being compiled.
// Statements share it: none begins before another has ended.
func (p *program) temporary(t dtype.Type) *lanes {
	d := domainOf(t)
	k := p.usedTemporaries[d]
	p.usedTemporaries[d]++
	if k == len(p.temporaries[d]) {
		p.temporaries[d] = append(p.temporaries[d], makeLanes(t, p.threads))
	}
	shared := *p.temporaries[d][k]
	shared.t = t
	return &shared
}

// constant returns room that holds v for every thread.
func (p *program) constant(v scalar.Value) *lanes {
	x := makeLanes(v.Type, p.threads)
	for l := range p.threads {
		x.set(l, v)
	}
	return x
}

func (p *program) value(at *statement, v *kir.Value, where map[kir.ValueID]*lanes) (step, *lanes, error) {
	args := make([]*lanes, len(v.Args))
	for i, a := range v.Args {
		args[i] = where[a]
	}
	switch v.Kind {
	case kir.Constant:
		return nil, p.constant(v.Const), nil
	case kir.HostScalar:
		return nil, p.constant(core.ConvertScalar(v.DType, p.arguments[v.Int].Number)), nil
	case kir.IndexValue:
		n, err := p.node(v.Index)
		if err != nil {
			return nil, nil, err
		}
		out := p.temporary(v.DType)
		return func(b *block) { b.fromIndex(out, n) }, out, nil
	case kir.Load:
		a, err := p.access(at, &v.Access, reads)
		if err != nil {
			return nil, nil, err
		}
		out := p.temporary(v.DType)
		if a.buffer.Space == kir.Local {
			return func(b *block) { b.loadLocal(a, out) }, out, nil
		}
		return func(b *block) { b.load(a, out) }, out, nil
	case kir.Shuffle:
		s := shuffle{at: at, mode: v.Mode, lane: int32(v.Int), width: int32(v.Width)}
		if v.Mode == kir.ShuffleAt {
			n, err := p.node(v.Index)
			if err != nil {
				return nil, nil, err
			}
			s.index = n
		}
		out := p.temporary(v.DType)
		return func(b *block) { b.shuffle(&s, out, args[0]) }, out, nil
	case kir.Random:
		return p.random(v, args, where)
	case kir.Order:
		out := p.temporary(v.DType)
		return func(b *block) {
			b.merge(out, args[0])
			for _, l := range b.lanes {
				out.i[l] = kir.OrderOf(args[0].get(int(l)))
			}
		}, out, nil
	}
	out := p.temporary(v.DType)
	f := operation(v.Op, out, args)
	if f == nil {
		return nil, nil, fmt.Errorf("%s() has no meaning for %v", v.Op.Name, v.DType)
	}
	return f, out, nil
}

// fromIndex sets out to the value of a node.
func (b *block) fromIndex(out *lanes, node int32) {
	n, x := &b.p.nodes[node], b.index(node)
	out.tainted = n.uniform && x.flaw != 0 || !n.uniform && x.tainted
	for _, l := range b.lanes {
		if i := x.at(n, l); out.t == n.t {
			out.i[l] = i
		} else {
			out.set(int(l), core.ConvertScalar(out.t, scalar.Value{Type: n.t, I: i}))
		}
		if out.tainted {
			out.taint[l] = x.flawAt(n, l)
		}
	}
}

func (p *program) random(v *kir.Value, args []*lanes, where map[kir.ValueID]*lanes) (step, *lanes, error) {
	n, err := p.node(v.Index)
	if err != nil {
		return nil, nil, err
	}
	out := p.temporary(v.DType)
	operands := args
	seed, offset := p.constant(scalar.Value{Type: dtype.UInt64, I: int64(p.seed)}),
		p.constant(scalar.Value{Type: dtype.UInt64, I: int64(p.offset) + 4*int64(v.Stream)})
	if v.Stream < 0 {
		seed, offset = where[v.Seed], where[v.Offset]
		operands = append(slices.Clone(args), seed, offset)
	}
	return func(b *block) {
		x := b.index(n)
		b.merge(out, operands...)
		for _, l := range b.lanes {
			drawn := v.Op.RandomElement(v.DType, args[0].get(int(l)).Re, args[1].get(int(l)).Re,
				uint64(seed.i[l]), uint64(offset.i[l]), x.at(&b.p.nodes[n], l))
			out.set(int(l), scalar.Value{Re: drawn, I: int64(drawn)})
			b.taintAlso(out, l, x.flawAt(&b.p.nodes[n], l))
		}
	}, out, nil
}

// taintAlso adds to the taint of one element.
func (b *block) taintAlso(x *lanes, lane int32, taint uint8) {
	if taint == 0 {
		return
	}
	if !x.tainted {
		clear(x.taint)
		x.tainted = true
	}
	x.taint[lane] |= taint
}

// A shuffle is a Value of that kind, compiled.
type shuffle struct {
	at          *statement
	mode        kir.ShuffleMode
	lane, width int32
	index       int32 // node of ShuffleAt
}

func (b *block) shuffle(s *shuffle, out, from *lanes) {
	active := b.masks[len(b.masks)-1].warps
	for w, bits := range active {
		if bits != 0 && bits != b.m.warpLanes(w) {
			b.found(Finding{Kind: DivergentBarrier, Thread: w * 32, Detail: "some lanes of the warp do not take part in the shuffle"}, s.at)
		}
	}
	if s.mode == kir.WarpMaximum {
		b.warpMaximum(s, out, from)
		return
	}
	var x *indexValue
	if s.mode == kir.ShuffleAt {
		x = b.index(s.index)
	}
	out.tainted = false
	for _, l := range b.lanes {
		var taint uint8
		group := l &^ (s.width - 1)
		source := l
		switch s.mode {
		case kir.ShuffleXor:
			source = l ^ s.lane
		case kir.ShuffleDown:
			if l-group+s.lane < s.width {
				source = l + s.lane
			}
		case kir.ShuffleUp:
			if l-group >= s.lane {
				source = l - s.lane
			}
		default:
			n := &b.p.nodes[s.index]
			source = group + int32(x.at(n, l))&(s.width-1)
			taint = x.flawAt(n, l)
		}
		if active[source>>5]>>(source&31)&1 == 0 {
			b.found(Finding{Kind: InactiveLane, Thread: int(l), Detail: fmt.Sprintf("lane %d, which does not take part, is read", source&31)}, s.at)
			source = l
		}
		out.copyElement(int(l), from, int(source))
		taint |= from.flawAt(source)
		out.taint[l] = taint
		out.tainted = out.tainted || taint != 0
	}
}

// warpMaximum sets out to the largest element that the lanes of a warp have in from.
func (b *block) warpMaximum(s *shuffle, out, from *lanes) {
	out.tainted = false
	for first := 0; first < len(b.lanes); {
		w, largest, taint, last := b.lanes[first]>>5, math.Inf(-1), uint8(0), first
		for ; last < len(b.lanes) && b.lanes[last]>>5 == w; last++ {
			x := from.get(int(b.lanes[last])).Re
			if math.IsNaN(x) || x > largest || x == 0 && largest == 0 && !math.Signbit(x) {
				largest = x
			}
			taint |= from.flawAt(b.lanes[last])
		}
		if last-first < 32 {
			b.found(Finding{Kind: InactiveLane, Thread: int(b.lanes[first]), Detail: fmt.Sprintf("the maximum of 32 lanes is taken, and %d are there", last-first)}, s.at)
		}
		for ; first < last; first++ {
			l := b.lanes[first]
			out.set(int(l), scalar.Value{Type: out.t, Re: largest})
			out.taint[l] = taint
			out.tainted = out.tainted || taint != 0
		}
	}
}
