package scalar

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
)

// opView is the request for AsIndex in the memo; no node has it.
const opView = Op(^uint16(0))

// unify returns the operands of op with one integer type, and that type. An Int
// next to an Index becomes an Index.
func (t *Table) unify(op Op, a, b ID) (ID, ID, dtype.Type) {
	da, db := t.Type(a), t.Type(b)
	if da != db {
		if !interchangeable(da) || !interchangeable(db) {
			panic(fmt.Sprintf("scalar: operation %d on %v and %v", op, da, db))
		}
		return t.AsIndex(a), t.AsIndex(b), dtype.Index
	}
	if !da.IsInt() {
		panic(fmt.Sprintf("scalar: operation %d on %v", op, da))
	}
	return a, b, da
}

// AsIndex returns the Int id as an Index: the same expression, with every Int
// operand seen as an Index as well, so that an extent is one ID whichever of
// the two types it was computed in. An Index is returned as it is.
//
// An Int wraps and an Index does not: where a sum, product or quotient of the
// Int wraps, its view has the value that did not fit. A condition is not seen
// otherwise than it was.
func (t *Table) AsIndex(id ID) ID {
	if t.Type(id) == dtype.Index {
		return id
	}
	if t.Type(id) != dtype.Int {
		panic(fmt.Sprintf("scalar: an expression of type %v is no Index", t.Type(id)))
	}
	if r, ok := t.memo[request{opView, id, None}]; ok {
		return r
	}
	t.postorder(id, func(id ID) bool {
		_, done := t.memo[request{opView, id, None}]
		return done || t.Type(id) != dtype.Int
	}, func(id ID) {
		t.remember(request{opView, id, None}, t.view(id))
	})
	return t.memo[request{opView, id, None}]
}

// view returns the Int id as an Index, when its Int operands have views.
func (t *Table) view(id ID) ID {
	switch op := t.Op(id); {
	case op == Const:
		n, _ := t.ConstInt(id)
		return t.Int(n)
	case op == Symbol:
		return t.symbol(dtype.Index, t.Tag(id), id, t.facts[id])
	case op >= FirstOpaque:
		return t.intern(op, dtype.Index, t.Args(id)...)
	default:
		args := slices.Clone(t.Args(id))
		for i, a := range args {
			if t.Type(a) == dtype.Int {
				args[i] = t.memo[request{opView, a, None}]
			}
		}
		return t.Apply(op, dtype.Index, args...)
	}
}

func (t *Table) remember(r request, id ID) {
	if t.memo == nil {
		t.memo = map[request]ID{}
	}
	t.memo[r] = id
}

// Apply returns op applied to args, simplified if op is one of this package:
// then dt only tells an Int result that is wanted as an Index. Any other op is
// opaque, and its result has type dt.
func (t *Table) Apply(op Op, dt dtype.Type, args ...ID) ID {
	if op >= FirstOpaque {
		return t.intern(op, dt, args...)
	}
	id := t.apply(op, args)
	if dt == dtype.Index && t.Type(id) == dtype.Int {
		return t.AsIndex(id)
	}
	return id
}

func (t *Table) apply(op Op, args []ID) ID {
	switch {
	case op == Add && len(args) >= 2:
		return t.addAll(args)
	case op == Select && len(args) == 3:
		return t.Select(args[0], args[1], args[2])
	case len(args) == 2, len(args) > 2 && (op == Mul || op == Min || op == Max || op == Xor):
		id := args[0]
		for _, a := range args[1:] {
			id = t.binary(op, id, a)
		}
		return id
	}
	panic(fmt.Sprintf("scalar: operation %d on %d operands", op, len(args)))
}

func (t *Table) binary(op Op, a, b ID) ID {
	switch op {
	case Mul:
		return t.Mul(a, b)
	case Min, Max:
		return t.extremum(op, a, b)
	case Xor:
		return t.Xor(a, b)
	case FloorDiv, Mod, TruncDiv, Rem:
		return t.division(op, a, b)
	case Lt, Le, Eq:
		return t.comparison(op, a, b)
	}
	panic(fmt.Sprintf("scalar: operation %d on 2 operands", op))
}

// addAll adds all args at once, without a node for each partial sum.
func (t *Table) addAll(args []ID) ID {
	dt := t.Type(args[0])
	for _, a := range args {
		if _, _, d := t.unify(Add, args[0], a); d == dtype.Index {
			dt = d
		}
	}
	parts := make([]part, len(args))
	for i, a := range args {
		if t.Type(a) != dt {
			a = t.AsIndex(a)
		}
		parts[i] = part{a, 1}
	}
	return t.linear(dt, parts...)
}

// postorder calls visit once for every expression that id reads and id itself,
// operands first, except those for which skip holds. It does not recurse: an
// expression may be as deep as the table is long.
func (t *Table) postorder(id ID, skip func(ID) bool, visit func(ID)) {
	seen := map[ID]bool{} // true once visited
	stack := []ID{id}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		if visited, entered := seen[id]; visited {
			stack = stack[:len(stack)-1]
			continue
		} else if entered {
			stack = stack[:len(stack)-1]
			seen[id] = true
			visit(id)
			continue
		}
		if skip != nil && skip(id) {
			stack = stack[:len(stack)-1]
			seen[id] = true
			continue
		}
		seen[id] = false
		for _, a := range slices.Backward(t.Args(id)) {
			if !seen[a] {
				stack = append(stack, a)
			}
		}
	}
}

// Symbols calls yield once for each symbol that id reads, as it was declared,
// in ascending order.
func (t *Table) Symbols(id ID, yield func(ID)) {
	var found []ID
	t.postorder(id, nil, func(id ID) {
		if t.Op(id) == Symbol {
			found = append(found, t.Declared(id))
		}
	})
	slices.Sort(found)
	for _, id := range slices.Compact(found) {
		yield(id)
	}
}

// Substitute returns id with each symbol for which with returns true replaced,
// simplified again. with is called with symbols as they were declared, once for
// each; its result must have the type of the symbol, Int and Index being
// interchangeable, and satisfy its facts. An Index for an Int makes the
// operations on it those of an Index.
func (t *Table) Substitute(id ID, with func(symbol ID) (ID, bool)) ID {
	replaced := map[ID]ID{}
	return t.copyFrom(t, id, func(s ID) ID {
		r, ok := replaced[s]
		if !ok {
			r = s
			if id, ok := with(s); ok {
				r = id
			}
			replaced[s] = r
		}
		return r
	})
}

// Replace returns id with by in the place of old, any expression in it, simplified again. The two
// have one type.
func (t *Table) Replace(id, old, by ID) ID {
	copied := map[ID]ID{}
	t.postorder(id, nil, func(id ID) {
		args := t.Args(id)
		switch {
		case id == old:
			copied[id] = by
		case !slices.ContainsFunc(args, func(a ID) bool { return copied[a] != a }):
			copied[id] = id
		default:
			args = slices.Clone(args)
			for i, a := range args {
				args[i] = copied[a]
			}
			copied[id] = t.Apply(t.Op(id), t.Type(id), args...)
		}
	})
	return copied[id]
}

// Import returns a copy of the expression id of another table. symbol returns
// the expression of t that stands for a symbol of from; it is called with
// symbols as they were declared.
func (t *Table) Import(from *Table, id ID, symbol func(ID) ID) ID {
	return t.copyFrom(from, id, symbol)
}

func (t *Table) copyFrom(from *Table, id ID, symbol func(ID) ID) ID {
	copied := map[ID]ID{}
	from.postorder(id, nil, func(id ID) {
		op, dt := from.Op(id), from.Type(id)
		switch op {
		case Const:
			v, _ := from.ConstValue(id)
			copied[id] = t.Value(v)
		case Symbol:
			r := symbol(from.Declared(id))
			if got := t.Type(r); got != dt {
				if !interchangeable(got) || !interchangeable(dt) {
					panic(fmt.Sprintf("scalar: a symbol of type %v becomes a %v", dt, got))
				}
				if dt == dtype.Index {
					r = t.AsIndex(r)
				}
			}
			copied[id] = r
		default:
			args := slices.Clone(from.Args(id))
			for i, a := range args {
				args[i] = copied[a]
			}
			copied[id] = t.Apply(op, dt, args...)
		}
	})
	return copied[id]
}
