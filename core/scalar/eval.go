package scalar

import (
	"errors"
	"fmt"

	"nvfuser_go/core/dtype"
)

// A Binder returns the value of a symbol, as it was declared.
type Binder func(symbol ID) (Value, error)

// An Opaque computes an operation that this package does not know.
type Opaque func(op Op, dt dtype.Type, args []Value) (Value, error)

// ErrDivisionByZero is the error of a division whose divisor is 0.
var ErrDivisionByZero = errors.New("division by zero")

// Eval returns the value of id. Integers wrap; only the chosen operand of a
// Select is computed. opaque may be nil if id has no opaque operation.
//
// memo, if not nil, holds the values of expressions that were computed before
// with the same bindings, and receives those computed now.
//
// It returns an error that wraps [ErrDivisionByZero], one that names the symbol
// if the value that bind returns has another type or contradicts the facts of
// the symbol, and the errors of bind and opaque.
func (t *Table) Eval(id ID, bind Binder, opaque Opaque, memo map[ID]Value) (Value, error) {
	if memo == nil {
		memo = map[ID]Value{}
	}
	var args []Value
	stack := []ID{id}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if _, ok := memo[top]; ok {
			stack = stack[:len(stack)-1]
			continue
		}
		n := len(stack)
		for _, a := range t.needs(top, memo) {
			if _, ok := memo[a]; !ok {
				stack = append(stack, a)
			}
		}
		if len(stack) > n {
			continue
		}
		v, err := t.evalNode(top, bind, opaque, memo, &args)
		if err != nil {
			return Value{}, err
		}
		memo[top] = v
		stack = stack[:len(stack)-1]
	}
	return memo[id], nil
}

// needs returns the operands that must be computed before id, as far as is
// known now.
func (t *Table) needs(id ID, memo map[ID]Value) []ID {
	args := t.Args(id)
	if t.Op(id) != Select {
		return args
	}
	c, ok := memo[args[0]]
	switch {
	case !ok:
		return args[:1]
	case c.I != 0:
		return args[1:2]
	}
	return args[2:]
}

// evalNode computes id from the values of its operands; args is scratch.
func (t *Table) evalNode(id ID, bind Binder, opaque Opaque, memo map[ID]Value, args *[]Value) (Value, error) {
	op, dt := t.Op(id), t.Type(id)
	switch {
	case op == Const:
		v, _ := t.ConstValue(id)
		return v, nil
	case op == Symbol:
		return t.bound(id, bind)
	case op == Select:
		ids := t.Args(id)
		if memo[ids[0]].I != 0 {
			return memo[ids[1]], nil
		}
		return memo[ids[2]], nil
	case op >= FirstOpaque:
		*args = (*args)[:0]
		for _, a := range t.Args(id) {
			*args = append(*args, memo[a])
		}
		if opaque == nil {
			return Value{}, fmt.Errorf("operation %d has no evaluation", op)
		}
		return opaque(op, dt, *args)
	}
	ids := t.Args(id)
	operand := t.Type(ids[0])
	r := memo[ids[0]].I
	for _, a := range ids[1:] {
		var err error
		if r, err = arithmetic(op, operand, r, memo[a].I); err != nil {
			return Value{}, fmt.Errorf("%w in %s", err, t.String(id))
		}
	}
	return Value{Type: dt, I: r}, nil
}

func (t *Table) bound(id ID, bind Binder) (Value, error) {
	v, err := bind(t.Declared(id))
	if err != nil {
		return Value{}, err
	}
	dt := t.Type(id)
	if v.Type != dt && !(reasoned(v.Type) && reasoned(dt)) {
		return Value{}, fmt.Errorf("the value of %s is a %v, not a %v", t.String(id), v.Type, dt)
	}
	v.Type = dt
	if f := t.facts[id]; reasoned(dt) && !f.Hold(v.I) {
		return Value{}, fmt.Errorf("the value of %s is %d, which is not a multiple of %d between %d and %d",
			t.String(id), v.I, f.Divisor, f.Lo, f.Hi)
	}
	return v, nil
}

// arithmetic computes an operation on integers of type dt, or on Bools for Eq.
func arithmetic(op Op, dt dtype.Type, a, b int64) (int64, error) {
	if dt == dtype.UInt64 {
		r, err := arithmeticUnsigned(op, uint64(a), uint64(b))
		return int64(r), err
	}
	switch op {
	case Add:
		return wrap(dt, a+b), nil
	case Mul:
		return wrap(dt, a*b), nil
	case Min:
		return min(a, b), nil
	case Max:
		return max(a, b), nil
	case Lt:
		return truth(a < b), nil
	case Le:
		return truth(a <= b), nil
	case Eq:
		return truth(a == b), nil
	}
	if b == 0 {
		return 0, ErrDivisionByZero
	}
	switch op { // the least integer divided by -1 wraps, as Go defines it
	case FloorDiv:
		return wrap(dt, floorDiv(a, b)), nil
	case Mod:
		return floorMod(a, b), nil
	case TruncDiv:
		return wrap(dt, a/b), nil
	case Rem:
		return a % b, nil
	}
	panic(fmt.Sprintf("scalar: operation %d is not arithmetic", op))
}

func arithmeticUnsigned(op Op, a, b uint64) (uint64, error) {
	switch op {
	case Add:
		return a + b, nil
	case Mul:
		return a * b, nil
	case Min:
		return min(a, b), nil
	case Max:
		return max(a, b), nil
	case Lt:
		return uint64(truth(a < b)), nil
	case Le:
		return uint64(truth(a <= b)), nil
	case Eq:
		return uint64(truth(a == b)), nil
	}
	if b == 0 {
		return 0, ErrDivisionByZero
	}
	switch op {
	case FloorDiv, TruncDiv:
		return a / b, nil
	case Mod, Rem:
		return a % b, nil
	}
	panic(fmt.Sprintf("scalar: operation %d is not arithmetic", op))
}

// wrap returns n modulo the range of dt.
func wrap(dt dtype.Type, n int64) int64 {
	if dt == dtype.Int32 {
		return int64(int32(n))
	}
	return n
}
