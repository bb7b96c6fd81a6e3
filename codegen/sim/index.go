package sim

import (
	"fmt"
	"math"
	"math/bits"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// What makes a number useless, as bits. An operation passes on what its
// operands have; a report is made where it has an effect, once: what follows
// is taken to be defined.
const (
	undefined  = 1 << iota // it comes from memory that nothing wrote
	overflowed             // an index that the kernel's index type does not hold
	divided                // an index divided by zero
)

// An indexNode is an index expression, compiled.
type indexNode struct {
	id       scalar.ID
	op       scalar.Op
	t        dtype.Type // of the result
	operands dtype.Type // of the operands
	args     []int32    // nodes
	symbol   kir.SymbolID
	constant int64
	shift    int  // of a division by 1<<shift; -1 if it is none
	uniform  bool // one number for all threads of the block
	checked  bool // it may not fit in the index type
	divides  bool // by divider
	divider  kir.Divider
	deps     []kir.SymbolID
}

// An indexValue is the value of a node in one block: u if the node is uniform,
// else one number per thread. It was computed at the given time under the mask
// that was at depth.
type indexValue struct {
	v       []int64
	u       int64
	taint   []uint8 // per thread, if tainted
	tainted bool
	flaw    uint8 // taint of u
	time    uint64
	mask    uint64
	depth   int
}

func (x *indexValue) at(n *indexNode, lane int32) int64 {
	if n.uniform {
		return x.u
	}
	return x.v[lane]
}

func (x *indexValue) flawAt(n *indexNode, lane int32) uint8 {
	switch {
	case n.uniform:
		return x.flaw
	case x.tainted:
		return x.taint[lane]
	}
	return 0
}

// node compiles an index expression and returns its number. Every expression
// below it is compiled first.
func (p *program) node(id scalar.ID) (int32, error) {
	if n, ok := p.nodeOf[id]; ok {
		return n, nil
	}
	t := p.k.Scalars
	n := indexNode{id: id, op: t.Op(id), t: t.Type(id), shift: -1, uniform: true}
	if !n.t.IsInt() && !n.t.IsBool() {
		return 0, fmt.Errorf("index expression %s is a %v", p.k.Expr(id), n.t)
	}
	switch {
	case n.op == scalar.Const:
		n.constant, _ = t.ConstInt(id)
	case n.op == scalar.Symbol:
		n.symbol = kir.SymbolID(t.Tag(id).Val)
		if s, ok := p.nodeOfSymbol[n.symbol]; ok {
			p.nodeOf[id] = s
			return s, nil
		}
		n.deps = []kir.SymbolID{n.symbol}
		n.uniform = p.uniformSymbol[n.symbol]
		p.nodeOfSymbol[n.symbol] = int32(len(p.nodes))
	default:
		n.operands = t.Type(t.Args(id)[len(t.Args(id))-1])
		for _, a := range t.Args(id) {
			k, err := p.node(a)
			if err != nil {
				return 0, err
			}
			n.args = append(n.args, k)
			n.uniform = n.uniform && p.nodes[k].uniform
			n.deps = union(n.deps, p.nodes[k].deps)
		}
		if d, ok := t.ConstInt(t.Args(id)[len(n.args)-1]); ok && d > 0 && d&(d-1) == 0 {
			n.shift = bits.TrailingZeros64(uint64(d))
		}
	}
	if n.op == scalar.FloorDiv || n.op == scalar.Mod {
		args := t.Args(id)
		n.divider, n.divides = p.dividers[args[1]]
		n.divides = n.divides && t.Facts(args[0]).Lo >= 0
	}
	n.checked = n.t == dtype.Index && !p.fits(id)
	p.nodeOf[id] = int32(len(p.nodes))
	p.nodes = append(p.nodes, n)
	return p.nodeOf[id], nil
}

func union(a, b []kir.SymbolID) []kir.SymbolID {
	for _, s := range b {
		known := false
		for _, x := range a {
			known = known || x == s
		}
		if !known {
			a = append(a, s)
		}
	}
	return a
}

// fits reports whether the facts show that id and every partial sum or product
// of its operands, from the left, fits in the kernel's index type.
func (p *program) fits(id scalar.ID) bool {
	t := p.k.Scalars
	f := t.Facts(id)
	lo, hi := float64(f.Lo), float64(f.Hi)
	if op := t.Op(id); op == scalar.Add || op == scalar.Mul {
		for i, a := range t.Args(id) {
			g := t.Facts(a)
			l, h := float64(g.Lo), float64(g.Hi)
			switch {
			case i == 0:
				lo, hi = l, h
			case op == scalar.Add:
				lo, hi = lo+l, hi+h
			default:
				w, x, y, z := lo*l, lo*h, hi*l, hi*h
				lo, hi = min(w, x, y, z), max(w, x, y, z)
			}
			if !p.inRange(lo) || !p.inRange(hi) {
				return false
			}
		}
	}
	return p.inRange(lo) && p.inRange(hi)
}

// inRange allows for the rounding of float64.
func (p *program) inRange(x float64) bool {
	if p.k.Index == dtype.Int32 {
		return math.MinInt32 <= x && x <= math.MaxInt32
	}
	return -0x1p62 <= x && x <= 0x1p62
}

// wrapped returns n as the kernel's index type holds it, and a taint if that is
// another number.
func (p *program) wrapped(n int64) (int64, uint8) {
	if p.k.Index == dtype.Int32 && n != int64(int32(n)) {
		return int64(int32(n)), overflowed
	}
	return n, 0
}

// index returns the value of a node for the active threads.
func (b *block) index(node int32) *indexValue {
	n, x := &b.p.nodes[node], &b.values[node]
	if n.op == scalar.Symbol || b.current(n, x) {
		return x
	}
	var args [3]*indexValue
	operands := args[:0]
	for _, a := range n.args {
		operands = append(operands, b.index(a))
	}
	x.time, x.depth, x.mask, x.tainted = b.time, len(b.masks)-1, b.masks[len(b.masks)-1].id, false
	if n.uniform {
		x.u, x.flaw = b.p.evaluate(n, operands, 0)
		return x
	}
	if x.v == nil {
		x.v = make([]int64, b.m.threads)
	}
	if !n.checked && b.fast(n, x, operands) {
		return x
	}
	if x.taint == nil {
		x.taint = make([]uint8, b.m.threads)
	}
	for _, l := range b.lanes {
		x.v[l], x.taint[l] = b.p.evaluate(n, operands, l)
		x.tainted = x.tainted || x.taint[l] != 0
	}
	return x
}

// current reports whether x was computed from the values that the symbols of n
// have now, for all threads that are active now.
func (b *block) current(n *indexNode, x *indexValue) bool {
	if x.time == 0 || !n.uniform && (x.depth >= len(b.masks) || b.masks[x.depth].id != x.mask) {
		return false
	}
	for _, s := range n.deps {
		if b.bound[s] > x.time {
			return false
		}
	}
	return true
}

// fast computes the usual operations where nothing can be wrong with an
// operand.
func (b *block) fast(n *indexNode, x *indexValue, args []*indexValue) bool {
	for i, a := range args {
		if a.tainted || b.p.nodes[n.args[i]].uniform && a.flaw != 0 {
			return false
		}
	}
	first, last := args[0], args[len(args)-1]
	lastUniform := b.p.nodes[n.args[len(args)-1]].uniform
	if n.op == scalar.Mul && len(args) == 2 && !lastUniform && b.p.nodes[n.args[0]].uniform {
		first, last, lastUniform = last, first, true
	}
	switch {
	case n.op == scalar.Add && n.t == dtype.Index:
		b.sum(n, x, args)
	case n.op == scalar.Mul && n.t == dtype.Index && len(args) == 2 && lastUniform:
		for _, l := range b.lanes {
			x.v[l] = first.v[l] * last.u
		}
	case n.op == scalar.FloorDiv && n.shift >= 0:
		for _, l := range b.lanes {
			x.v[l] = first.v[l] >> n.shift
		}
	case n.op == scalar.Mod && n.shift >= 0:
		for _, l := range b.lanes {
			x.v[l] = first.v[l] & (1<<n.shift - 1)
		}
	case n.op == scalar.Lt && n.operands == dtype.Index && lastUniform:
		for _, l := range b.lanes {
			x.v[l] = truth(first.v[l] < last.u)
		}
	default:
		return false
	}
	return true
}

func (b *block) sum(n *indexNode, x *indexValue, args []*indexValue) {
	var u int64
	for i, a := range args {
		if b.p.nodes[n.args[i]].uniform {
			u += a.u
		}
	}
	started := false
	for i, a := range args {
		switch {
		case b.p.nodes[n.args[i]].uniform:
		case !started:
			started = true
			for _, l := range b.lanes {
				x.v[l] = u + a.v[l]
			}
		default:
			for _, l := range b.lanes {
				x.v[l] += a.v[l]
			}
		}
	}
}

// evaluate computes a node from its operands for one thread.
func (p *program) evaluate(n *indexNode, args []*indexValue, lane int32) (int64, uint8) {
	at := func(i int) (int64, uint8) {
		a := &p.nodes[n.args[i]]
		return args[i].at(a, lane), args[i].flawAt(a, lane)
	}
	switch {
	case n.op == scalar.Const:
		if n.t == dtype.Index {
			return p.wrapped(n.constant)
		}
		return n.constant, 0
	case n.op == scalar.Select:
		c, taint := at(0)
		chosen := 1
		if c == 0 {
			chosen = 2
		}
		r, more := at(chosen)
		return r, taint | more
	case n.op >= scalar.FirstOpaque:
		return p.evaluateOpaque(n, args, lane)
	}
	r, taint := at(0)
	for i := 1; i < len(args); i++ {
		b, more := at(i)
		taint |= more
		r, more = p.arithmetic(n, r, b)
		taint |= more
	}
	return r, taint
}

func (p *program) evaluateOpaque(n *indexNode, args []*indexValue, lane int32) (int64, uint8) {
	var taint uint8
	operands := make([]scalar.Value, len(args))
	for i, a := range args {
		arg := &p.nodes[n.args[i]]
		operands[i] = scalar.Value{Type: arg.t, I: a.at(arg, lane)}
		taint |= a.flawAt(arg, lane)
	}
	v, err := core.EvalOpaque(n.op, n.t, operands)
	if err != nil {
		taint |= undefined
	}
	return v.I, taint
}

// arithmetic computes one operation as the device does: an Index in the
// kernel's index type, other integers in their own.
func (p *program) arithmetic(n *indexNode, a, b int64) (int64, uint8) {
	unsigned := n.operands == dtype.UInt64
	less := a < b
	if unsigned {
		less = uint64(a) < uint64(b)
	}
	switch n.op {
	case scalar.Add:
		r := a + b
		if n.t == dtype.Index && (a < 0) == (b < 0) && (r < 0) != (a < 0) {
			return r, overflowed
		}
		return p.result(n, r)
	case scalar.Mul:
		hi, lo := bits.Mul64(uint64(a), uint64(b))
		if a < 0 { // from the unsigned to the signed product
			hi -= uint64(b)
		}
		if b < 0 {
			hi -= uint64(a)
		}
		if n.t == dtype.Index && int64(hi) != int64(lo)>>63 {
			return int64(lo), overflowed
		}
		return p.result(n, int64(lo))
	case scalar.Min, scalar.Max:
		if less == (n.op == scalar.Min) {
			return a, 0
		}
		return b, 0
	case scalar.Xor:
		return a ^ b, 0
	case scalar.Lt:
		return truth(less), 0
	case scalar.Le:
		return truth(less || a == b), 0
	case scalar.Eq:
		return truth(a == b), 0
	}
	if b == 0 {
		return 0, divided
	}
	if n.divides {
		if q := n.divider.Quotient(a); n.op == scalar.FloorDiv {
			return p.result(n, q)
		} else {
			return p.result(n, a-q*b)
		}
	}
	return p.result(n, quotient(n.op, unsigned, a, b))
}

func quotient(op scalar.Op, unsigned bool, a, b int64) int64 {
	if unsigned {
		if op == scalar.FloorDiv || op == scalar.TruncDiv {
			return int64(uint64(a) / uint64(b))
		}
		return int64(uint64(a) % uint64(b))
	}
	q, r := a/b, a%b
	if (op == scalar.FloorDiv || op == scalar.Mod) && r != 0 && (r < 0) != (b < 0) {
		q, r = q-1, r+b
	}
	if op == scalar.FloorDiv || op == scalar.TruncDiv {
		return q
	}
	return r
}

func (p *program) result(n *indexNode, r int64) (int64, uint8) {
	switch n.t {
	case dtype.Index:
		return p.wrapped(r)
	case dtype.Int32:
		return int64(int32(r)), 0
	}
	return r, 0
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
