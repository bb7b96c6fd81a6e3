package lower

import (
	"errors"
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Arguments are the values that the host passes, made when they are first used.
type arguments struct {
	l *lowering
	// same has, for an extent, the constant or older extent that it must equal.
	same     map[scalar.ID]scalar.ID
	sizes    map[scalar.ID]index // of the fusion's integer expressions
	integers map[kir.HostValue]index
	scalars  map[hostScalar]kir.ValueID
	random   bool // the seed and the offset of the run are arguments
}

type hostScalar struct {
	kir.HostValue
	t dtype.Type
}

func newArguments(l *lowering) arguments {
	a := arguments{l: l, same: map[scalar.ID]scalar.ID{}, sizes: map[scalar.ID]index{}, integers: map[kir.HostValue]index{}, scalars: map[hostScalar]kir.ValueID{}}
	a.equate()
	return a
}

// equate finds extents that must be equal, because the operations put their axes
// in one class; the host checks that they are.
func (a *arguments) equate() {
	l, first := a.l, map[core.AxisID]scalar.ID{}
	table := l.f.Scalars()
	for _, v := range l.s.Tensors() {
		d := &l.f.Val(v).Domain
		for _, x := range slices.Concat(d.Root, d.Logical) {
			if l.isBroadcast(x) {
				continue
			}
			class, e := l.m.Exact(x), l.f.Axis(x).Extent
			old, ok := first[class]
			_, isConst := table.ConstInt(e)
			switch {
			case !ok:
				first[class] = e
			case old == e:
			case table.Op(e) == scalar.Symbol:
				a.join(e, old)
			case table.Op(old) == scalar.Symbol && isConst:
				a.join(old, e)
				first[class] = e
			}
		}
	}
}

// root returns what symbol e is known to equal.
func (a *arguments) root(e scalar.ID) scalar.ID {
	for {
		next, ok := a.same[e]
		if !ok {
			return e
		}
		e = next
	}
}

// join makes symbol e stand for other, which is a symbol or a constant.
func (a *arguments) join(e, other scalar.ID) {
	table := a.l.f.Scalars()
	e, other = a.root(e), a.root(other)
	if table.Op(e) != scalar.Symbol {
		e, other = other, e
	}
	simple := table.Op(other) == scalar.Symbol || table.Op(other) == scalar.Const
	if e != other && table.Op(e) == scalar.Symbol && simple {
		if table.Op(other) == scalar.Symbol && e < other {
			e, other = other, e
		}
		a.same[e] = other
	}
}

// extent returns the extent of an axis.
func (l *lowering) extent(a core.AxisID) index { return l.size(l.f.Axis(a).Extent) }

// size returns an integer expression of the fusion as one of the kernel.
func (l *lowering) size(e scalar.ID) index {
	a := &l.arguments
	if id, ok := a.sizes[e]; ok {
		return id
	}
	table := l.f.Scalars()
	var id index
	if a.isArithmetic(e, map[scalar.ID]bool{}) {
		id = l.t.AsIndex(l.t.Import(table, e, a.symbol))
		if table.Op(e) == scalar.Add && l.isMultiple(e, l.t.Facts(id).Divisor) {
			id = l.bound(e)
		}
	} else {
		id = a.integer(kir.HostValue{Tensor: core.NoVal, Scalar: e, Stride: -1}, fmt.Sprintf("n%d", len(a.integers)))
	}
	a.sizes[e] = id
	return id
}

// isMultiple reports whether e is promised to be a multiple of more than a number.
func (l *lowering) isMultiple(e scalar.ID, of int64) bool {
	if _, isConst := l.f.Scalars().ConstInt(e); isConst || l.options.Promise == nil {
		return false
	}
	return l.options.Promise(kir.HostValue{Tensor: core.NoVal, Scalar: e, Stride: -1}).Divisor > of
}

// bound is size for what is compared alone: of the whole of it is known of which numbers
// it is a multiple.
func (l *lowering) bound(e scalar.ID) index {
	if n, isConst := l.f.Scalars().ConstInt(e); isConst {
		return l.t.Int(n)
	}
	h := kir.HostValue{Tensor: core.NoVal, Scalar: e, Stride: -1}
	return l.arguments.integerOf(h, fmt.Sprintf("n%d", len(l.arguments.integers)), scalar.Unknown()) // it may be negative
}

// isArithmetic reports whether all of e is integer arithmetic, which kernels
// do; else the host passes its value.
func (a *arguments) isArithmetic(e scalar.ID, seen map[scalar.ID]bool) bool {
	table := a.l.f.Scalars()
	if seen[e] {
		return true
	}
	seen[e] = true
	t := table.Type(e)
	if table.Op(e) >= scalar.FirstOpaque || t != dtype.Index && t != dtype.Int && !t.IsBool() || t.IsBool() && table.Op(e) == scalar.Symbol {
		return false
	}
	return !slices.ContainsFunc(table.Args(e), func(x scalar.ID) bool { return !a.isArithmetic(x, seen) })
}

// symbol returns the argument for a symbol of the fusion.
func (a *arguments) symbol(s scalar.ID) index {
	l, table := a.l, a.l.f.Scalars()
	s = a.root(s)
	if n, ok := table.ConstInt(s); ok {
		return l.t.Int(n)
	}
	if n := a.exactly(s); n > 0 {
		return l.t.Int(n)
	}
	tag := table.Tag(s)
	name := l.f.Name(core.ValID(tag.Val))
	if tag.Dim >= 0 {
		name = fmt.Sprintf("%s_n%d", name, tag.Dim)
	}
	return a.integer(kir.HostValue{Tensor: core.NoVal, Scalar: s, Stride: -1}, name)
}

// exactly returns the number of elements of all axes of an extent, if that was promised; else 0.
func (a *arguments) exactly(s scalar.ID) int64 { return a.promised(a.root(s), a.l.s.Exactly) }

// constant returns the value of a scalar of the fusion that is the same for all sizes that
// the schedule allows: a division by a power of two is a multiplication then, and one by
// another number has no branch for what it may be.
func (a *arguments) constant(e scalar.ID) (scalar.Value, bool) {
	table := a.l.f.Scalars()
	if v, ok := table.ConstValue(e); ok {
		return v, true
	}
	v, err := table.Eval(e, func(s scalar.ID) (scalar.Value, error) {
		if v, ok := table.ConstValue(a.root(s)); ok {
			return v, nil
		}
		if n := a.exactly(s); n > 0 && !a.l.s.HasArguments() {
			return scalar.Value{Type: table.Type(s), I: n}, nil
		}
		return scalar.Value{}, errVaries
	}, core.EvalOpaque, nil)
	return v, err == nil
}

// errVaries is the error of a scalar that is not the same for all sizes.
var errVaries = errors.New("it is not the same for all sizes")

// promised returns the largest number that the schedule was promised of e, or of what is
// always equal.
func (a *arguments) promised(e scalar.ID, number func(scalar.ID) int64) int64 {
	n := number(e)
	for x := range a.same {
		if a.root(x) == e {
			n = max(n, number(x))
		}
	}
	return n
}

// integer returns an integer argument.
func (a *arguments) integer(h kir.HostValue, name string) index {
	if id, ok := a.integers[h]; ok {
		return id
	}
	facts := scalar.Unknown()
	if h.Scalar != scalar.None {
		facts = a.l.f.Scalars().Facts(h.Scalar)
		facts.Lo = max(facts.Lo, a.promised(h.Scalar, a.l.s.Least))
		if most := a.promised(h.Scalar, a.l.s.Most); most > 0 {
			facts.Hi = min(facts.Hi, most)
		}
	}
	if h.Stride >= 0 {
		facts.Lo = 0
	}
	return a.integerOf(h, name, facts)
}

// integerOf is integer for one of which facts are known without the promises of the host.
func (a *arguments) integerOf(h kir.HostValue, name string, facts scalar.Facts) index {
	if id, ok := a.integers[h]; ok {
		return id
	}
	l := a.l
	if l.options.Promise != nil {
		p := l.options.Promise(h)
		if c := l.options.Conditions; c != nil {
			c.promises = append(c.promises, promise{h, p})
		}
		facts = scalar.Facts{Lo: max(facts.Lo, p.Lo), Hi: min(facts.Hi, p.Hi), Divisor: max(facts.Divisor, p.Divisor)}
		if h.Stride >= 0 && p.Lo == p.Hi {
			a.integers[h] = l.t.Int(p.Lo)
			return a.integers[h]
		}
	}
	id := l.b.Integer(name, facts)
	k := l.b.Kernel()
	k.Arguments[len(k.Arguments)-1].Host = h
	a.integers[h] = id
	return id
}

// number returns a scalar of the fusion as an element of type t: a constant, or
// an argument that the host converts.
func (l *lowering) number(e scalar.ID, t dtype.Type) kir.ValueID {
	if v, ok := l.arguments.constant(e); ok {
		return l.b.Const(core.ConvertScalar(t, v))
	}
	h := kir.HostValue{Tensor: core.NoVal, Scalar: e, Stride: -1}
	name := fmt.Sprintf("s%d", len(l.arguments.scalars))
	if l.f.Scalars().Op(e) == scalar.Symbol && l.f.Scalars().Tag(e).Dim < 0 {
		name = l.f.Name(core.ValID(l.f.Scalars().Tag(e).Val))
	}
	return l.hostScalar(h, t, name)
}

func (l *lowering) hostScalar(h kir.HostValue, t dtype.Type, name string) kir.ValueID {
	key := hostScalar{h, t}
	if v, ok := l.arguments.scalars[key]; ok {
		return v
	}
	v := l.b.Scalar(name, t)
	k := l.b.Kernel()
	k.Arguments[len(k.Arguments)-1].Host = h
	l.arguments.scalars[key] = v
	return v
}

// needsRandom adds the seed and the offset of the run.
func (a *arguments) needsRandom(b *kir.Builder) {
	if a.random {
		return
	}
	a.random = true
	k := b.Kernel()
	k.Arguments = append(k.Arguments, kir.Argument{Name: "seed", Kind: kir.RandomSeed}, kir.Argument{Name: "offset", Kind: kir.RandomOffset})
}
