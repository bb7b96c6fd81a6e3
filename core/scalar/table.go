package scalar

import (
	"fmt"
	"math"
	"slices"

	"nvfuser_go/core/dtype"
)

// A Table interns expressions. The operands of an expression have smaller IDs
// than the expression itself.
//
// The methods that return an ID may append to the table and need exclusive
// access; the others, and [Table.Clone], only read it and may run at the same
// time.
type Table struct {
	nodes   []node
	facts   []Facts // of nodes
	args    []ID    // operands of all nodes
	values  []Value // of constants
	symbols []symbol
	slots   []uint32 // open addressing: ID+1 by hash of the node, 0 = free

	memo  map[request]ID // results of the operations with costly rules; only a cache
	depth int            // of rules that apply rules

	terms scratch[term] // of sums
	ids   scratch[ID]   // of factors
}

type node struct {
	op    Op
	dt    dtype.Type
	first uint32 // in args; for Const and Symbol the index in values and symbols
	count uint32 // of operands
}

// A symbol of type Int is seen as a node of its own where an Index is wanted:
// its view, with the same tag. declared is the node that [Table.Symbol] made.
type symbol struct {
	tag      Tag
	declared ID
}

type request struct {
	op   Op
	a, b ID
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{} }

// Clone returns a table in which every ID of t keeps its meaning. The two may
// then be used and extended independently.
func (t *Table) Clone() *Table {
	return &Table{
		nodes:   slices.Clip(t.nodes),
		facts:   slices.Clip(t.facts),
		args:    slices.Clip(t.args),
		values:  slices.Clip(t.values),
		symbols: slices.Clip(t.symbols),
		slots:   slices.Clone(t.slots),
	}
}

// Len returns the number of expressions: IDs are 0 to Len()-1.
func (t *Table) Len() int { return len(t.nodes) }

// Op returns the operation of id.
func (t *Table) Op(id ID) Op { return t.nodes[id].op }

// Type returns the type of the value of id.
func (t *Table) Type(id ID) dtype.Type { return t.nodes[id].dt }

// Args returns the operands of id. The caller must not modify the slice.
// [Add], [Mul], [Min] and [Max] have two or more operands, each other
// operation as many as its comment names.
func (t *Table) Args(id ID) []ID {
	n := &t.nodes[id]
	end := n.first + n.count
	if n.count == 0 {
		return nil
	}
	return t.args[n.first:end:end]
}

// Tag returns what the symbol id stands for.
func (t *Table) Tag(id ID) Tag { return t.symbolOf(id).tag }

// Declared returns the node that [Table.Symbol] returned for the tag of the
// symbol id: id itself unless id is the view of an Int symbol as an Index.
func (t *Table) Declared(id ID) ID { return t.symbolOf(id).declared }

func (t *Table) symbolOf(id ID) *symbol {
	n := &t.nodes[id]
	if n.op != Symbol {
		panic(fmt.Sprintf("scalar: expression %d is not a symbol", id))
	}
	return &t.symbols[n.first]
}

// Facts returns what is known of id: nothing, unless it is an Index, a Bool, a
// constant or a symbol.
func (t *Table) Facts(id ID) Facts { return t.facts[id] }

// ConstValue returns the value of id if it is a constant.
func (t *Table) ConstValue(id ID) (Value, bool) {
	n := &t.nodes[id]
	if n.op != Const {
		return Value{}, false
	}
	return t.values[n.first], true
}

// ConstInt returns the value of id if it is a constant of an integer type or
// Bool; that of a UInt64 is its bits.
func (t *Table) ConstInt(id ID) (int64, bool) {
	n := &t.nodes[id]
	if n.op != Const || !n.dt.IsInt() && !n.dt.IsBool() {
		return 0, false
	}
	return t.values[n.first].I, true
}

// Value returns the constant v. Floating parts are compared by their bits, so
// that a NaN is one constant and -0.0 differs from 0.0.
func (t *Table) Value(v Value) ID {
	switch {
	case v.Type.IsInt():
		v = Value{Type: v.Type, I: wrap(v.Type, v.I)}
	case v.Type.IsBool():
		v = Value{Type: v.Type, I: truth(v.I != 0)}
	case v.Type.IsFloat():
		v = Value{Type: v.Type, Re: v.Re}
	case v.Type.IsComplex():
		v = Value{Type: v.Type, Re: v.Re, Im: v.Im}
	}
	re, im := math.Float64bits(v.Re), math.Float64bits(v.Im)
	h := mix(mix(mix(mix(uint64(Const), uint64(v.Type)), uint64(v.I)), re), im)
	id, slot := t.find(h, func(n *node) bool {
		if n.op != Const {
			return false
		}
		w := &t.values[n.first]
		return w.Type == v.Type && w.I == v.I && math.Float64bits(w.Re) == re && math.Float64bits(w.Im) == im
	})
	if id != None {
		return id
	}
	facts := Unknown()
	if v.Type == dtype.Int32 || interchangeable(v.Type) || v.Type.IsBool() {
		facts = exactly(v.I)
	}
	t.values = append(t.values, v)
	return t.add(slot, h, node{op: Const, dt: v.Type, first: uint32(len(t.values) - 1)}, facts)
}

// Int returns the constant n of type Index.
func (t *Table) Int(n int64) ID { return t.integer(dtype.Index, n) }

func (t *Table) integer(dt dtype.Type, n int64) ID { return t.Value(Value{Type: dt, I: n}) }

// Bool returns the constant b.
func (t *Table) Bool(b bool) ID { return t.integer(dtype.Bool, truth(b)) }

// Symbol returns the symbol of tag, and makes it at the first call. A later
// call returns the same ID whatever its facts; its type must be the same, but
// for an Int symbol asked for as an Index, which is its view.
func (t *Table) Symbol(dt dtype.Type, tag Tag, facts Facts) ID {
	id := t.symbol(dt, tag, None, facts)
	if t.Type(id) == dt {
		return id
	}
	if dt == dtype.Index && t.Type(id) == dtype.Int {
		return t.AsIndex(id)
	}
	panic(fmt.Sprintf("scalar: symbol %+v is declared as %v and as %v", tag, t.Type(id), dt))
}

// symbol interns the symbol of tag, or the view of the one called declared.
func (t *Table) symbol(dt dtype.Type, tag Tag, declared ID, facts Facts) ID {
	view := declared != None
	h := mix(mix(uint64(Symbol), uint64(tag.Val)<<32|uint64(uint32(tag.Dim))), uint64(truth(view)))
	id, slot := t.find(h, func(n *node) bool {
		if n.op != Symbol {
			return false
		}
		s := &t.symbols[n.first]
		return s.tag == tag && (t.nodes[s.declared].first != n.first) == view
	})
	if id != None {
		return id
	}
	switch {
	case dt.IsBool():
		facts = Facts{0, 1, 1}
	case interchangeable(dt):
		facts = facts.normal()
	default:
		facts = Unknown()
	}
	if !view {
		declared = ID(len(t.nodes))
	}
	t.symbols = append(t.symbols, symbol{tag, declared})
	return t.add(slot, h, node{op: Symbol, dt: dt, first: uint32(len(t.symbols) - 1)}, facts)
}

// intern returns the node of op and args as they are, or the constant that it
// is. args is copied.
func (t *Table) intern(op Op, dt dtype.Type, args ...ID) ID {
	id := t.node(op, dt, args)
	if op < FirstOpaque && !slices.ContainsFunc(args, func(a ID) bool { return t.Op(a) != Const && !t.beyond(a) }) {
		if v, err := t.Eval(id, nil, nil, nil); err == nil {
			return t.Value(v)
		}
	}
	return id
}

func (t *Table) node(op Op, dt dtype.Type, args []ID) ID {
	h := mix(uint64(op), uint64(dt))
	for _, a := range args {
		h = mix(h, uint64(a))
	}
	id, slot := t.find(h, func(n *node) bool {
		return n.op == op && n.dt == dt && n.op > Symbol && slices.Equal(t.args[n.first:n.first+n.count], args)
	})
	if id != None {
		return id
	}
	facts := t.derive(op, dt, args, func(a ID) Facts { return t.facts[a] })
	if n, ok := facts.constant(); ok && dt == dtype.Index && !t.mayTrap(op, args) {
		return t.Int(n)
	}
	first := len(t.args)
	t.args = append(t.args, args...)
	return t.add(slot, h, node{op: op, dt: dt, first: uint32(first), count: uint32(len(args))}, facts)
}

// mayTrap reports whether op is a division whose divisor may be 0: it stays an
// expression, so that its evaluation can fail.
func (t *Table) mayTrap(op Op, args []ID) bool {
	switch op {
	case FloorDiv, Mod, TruncDiv, Rem:
		f := t.facts[args[1]]
		return f.Lo <= 0 && f.Hi >= 0
	}
	return false
}

// find returns the node with hash h that satisfies same, or None and the slot
// where it belongs.
func (t *Table) find(h uint64, same func(*node) bool) (ID, int) {
	if 2*(len(t.nodes)+1) > len(t.slots) {
		t.grow()
	}
	mask := len(t.slots) - 1
	for i := int(h>>1) & mask; ; i = (i + 1) & mask {
		id := t.slots[i]
		if id == 0 {
			return None, i
		}
		if same(&t.nodes[id-1]) {
			return ID(id - 1), i
		}
	}
}

func (t *Table) add(slot int, h uint64, n node, facts Facts) ID {
	id := ID(len(t.nodes))
	t.nodes = append(t.nodes, n)
	t.facts = append(t.facts, facts)
	t.slots[slot] = uint32(id) + 1
	return id
}

// grow doubles the slots. It hashes the nodes again, which keeps the nodes
// small.
func (t *Table) grow() {
	t.slots = make([]uint32, max(64, 2*len(t.slots)))
	mask := len(t.slots) - 1
	for id := range t.nodes {
		i := int(t.hash(&t.nodes[id], ID(id))>>1) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(id) + 1
	}
}

func (t *Table) hash(n *node, id ID) uint64 {
	switch n.op {
	case Const:
		v := &t.values[n.first]
		h := mix(mix(uint64(Const), uint64(v.Type)), uint64(v.I))
		return mix(mix(h, math.Float64bits(v.Re)), math.Float64bits(v.Im))
	case Symbol:
		s := &t.symbols[n.first]
		h := mix(uint64(Symbol), uint64(s.tag.Val)<<32|uint64(uint32(s.tag.Dim)))
		return mix(h, uint64(truth(s.declared != id)))
	}
	h := mix(uint64(n.op), uint64(n.dt))
	for _, a := range t.args[n.first : n.first+n.count] {
		h = mix(h, uint64(a))
	}
	return h
}

// mix folds x into the hash h: the finaliser of splitmix64, which spreads every
// input bit over the word.
func mix(h, x uint64) uint64 {
	h = (h + x + 0x9e3779b97f4a7c15)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
