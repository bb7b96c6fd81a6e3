package scalar

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"nvfuser_go/core/dtype"
)

// A Binder returns the value of a symbol, as it was declared.
type Binder func(symbol ID) (Value, error)

// An Opaque computes an operation that this package does not know.
type Opaque func(op Op, dt dtype.Type, args []Value) (Value, error)

// ErrDivisionByZero is the error of a division whose divisor is 0.
var ErrDivisionByZero = errors.New("division by zero")

// ErrOverflow is the error of an Index that does not fit in 64 bits.
var ErrOverflow = errors.New("overflow of 64 bits")

// An EvalError is the error of an expression that has no value. It wraps
// [ErrDivisionByZero] or [ErrOverflow].
type EvalError struct {
	Expr ID
	Err  error
	text string
}

func (e *EvalError) Error() string { return e.Err.Error() + " in " + e.text }

func (e *EvalError) Unwrap() error { return e.Err }

// Eval returns the value of id. Integers wrap, but for those of type Index,
// which are computed as they are: the value of id must fit in 64 bits, and so
// must an operand of an opaque operation, but nothing else. Only the chosen
// operand of a Select is computed. opaque may be nil if id has no opaque
// operation.
//
// memo, if not nil, holds the values of expressions that were computed before
// with the same bindings, and receives those computed now.
//
// It returns an [*EvalError], an error that names the symbol if the value that
// bind returns has another type or contradicts the facts of the symbol, and the
// errors of bind and opaque.
func (t *Table) Eval(id ID, bind Binder, opaque Opaque, memo map[ID]Value) (Value, error) {
	if memo == nil {
		memo = map[ID]Value{}
	}
	e := evaluation{t: t, bind: bind, opaque: opaque, memo: memo}
	return e.value(id)
}

// An evaluation computes expressions for one set of bindings.
type evaluation struct {
	t      *Table
	bind   Binder
	opaque Opaque
	memo   map[ID]Value
	wide   map[ID]*big.Int // values that do not fit in a Value
	args   []Value         // scratch
}

// maxWide bounds an intermediate value, in bits, so that an expression cannot
// use up the memory. 65 sizes have no larger product.
const maxWide = 1 << 12

func (e *evaluation) value(id ID) (Value, error) {
	stack := []ID{id}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if e.known(top) {
			stack = stack[:len(stack)-1]
			continue
		}
		n := len(stack)
		for _, a := range e.needs(top) {
			if !e.known(a) {
				stack = append(stack, a)
			}
		}
		if len(stack) > n {
			continue
		}
		if err := e.compute(top); err != nil {
			return Value{}, err
		}
		stack = stack[:len(stack)-1]
	}
	return e.narrow(id)
}

func (e *evaluation) known(id ID) bool {
	_, ok := e.memo[id]
	return ok || e.wide[id] != nil
}

// narrow returns the value of id, which is known, if it fits.
func (e *evaluation) narrow(id ID) (Value, error) {
	if v, ok := e.memo[id]; ok {
		return v, nil
	}
	return Value{}, e.failed(id, ErrOverflow)
}

func (e *evaluation) failed(id ID, err error) error {
	return &EvalError{Expr: id, Err: err, text: e.t.String(id)}
}

// needs returns the operands that must be computed before id, as far as is
// known now.
func (e *evaluation) needs(id ID) []ID {
	args := e.t.Args(id)
	if e.t.Op(id) != Select {
		return args
	}
	c, ok := e.memo[args[0]]
	switch {
	case !ok:
		return args[:1]
	case c.I != 0:
		return args[1:2]
	}
	return args[2:]
}

// compute computes id from the values of its operands.
func (e *evaluation) compute(id ID) error {
	t := e.t
	var v Value
	var err error
	switch op := t.Op(id); {
	case op == Const:
		v, _ = t.ConstValue(id)
	case op == Symbol:
		v, err = t.bound(id, e.bind)
	case op == Select:
		chosen := e.needs(id)[0]
		if n := e.wide[chosen]; n != nil {
			return e.keep(id, n)
		}
		v = e.memo[chosen]
	case op >= FirstOpaque:
		if v, err = e.computeOpaque(id); err != nil {
			return err
		}
	default:
		v = Value{Type: t.Type(id)}
		v.I, err = e.arithmetic(id)
		if errors.Is(err, ErrOverflow) {
			return e.computeWide(id)
		} else if err != nil {
			return e.failed(id, err)
		}
	}
	if err == nil {
		e.memo[id] = v
	}
	return err
}

func (e *evaluation) computeOpaque(id ID) (Value, error) {
	e.args = e.args[:0]
	for _, a := range e.t.Args(id) {
		v, err := e.narrow(a)
		if err != nil {
			return v, err
		}
		e.args = append(e.args, v)
	}
	if e.opaque == nil {
		return Value{}, fmt.Errorf("operation %d has no evaluation", e.t.Op(id))
	}
	return e.opaque(e.t.Op(id), e.t.Type(id), e.args)
}

// arithmetic returns the value of id, or ErrOverflow if it or an operand is
// wide.
func (e *evaluation) arithmetic(id ID) (int64, error) {
	ids := e.t.Args(id)
	var r int64
	for i, a := range ids {
		v, ok := e.memo[a]
		if !ok {
			return 0, ErrOverflow
		}
		if i == 0 {
			r = v.I
			continue
		}
		var err error
		if r, err = arithmetic(e.t.Op(id), e.t.Type(ids[0]), r, v.I); err != nil {
			return 0, err
		}
	}
	return r, nil
}

// computeWide is compute for operands or a result that may be wide.
func (e *evaluation) computeWide(id ID) error {
	r := new(big.Int)
	for i, a := range e.t.Args(id) {
		n := e.wide[a]
		if n == nil {
			n = big.NewInt(e.memo[a].I)
		}
		if i == 0 {
			r.Set(n)
		} else if err := arithmeticWide(e.t.Op(id), r, n); err != nil {
			return e.failed(id, err)
		}
		if r.BitLen() > maxWide {
			return e.failed(id, ErrOverflow)
		}
	}
	return e.keep(id, r)
}

func (e *evaluation) keep(id ID, n *big.Int) error {
	if n.IsInt64() {
		e.memo[id] = Value{Type: e.t.Type(id), I: n.Int64()}
		return nil
	}
	if e.wide == nil {
		e.wide = map[ID]*big.Int{}
	}
	e.wide[id] = n
	return nil
}

// arithmeticWide sets a to the result of an operation on a and b.
func arithmeticWide(op Op, a, b *big.Int) error {
	order := a.Cmp(b)
	switch op {
	case Add:
		a.Add(a, b)
	case Mul:
		a.Mul(a, b)
	case Min, Max:
		if (order > 0) == (op == Min) {
			a.Set(b)
		}
	case Xor:
		a.Xor(a, b)
	case Lt:
		a.SetInt64(truth(order < 0))
	case Le:
		a.SetInt64(truth(order <= 0))
	case Eq:
		a.SetInt64(truth(order == 0))
	default:
		if b.Sign() == 0 {
			return ErrDivisionByZero
		}
		q, r := new(big.Int).QuoRem(a, b, new(big.Int))
		if floors := op == FloorDiv || op == Mod; floors && r.Sign()*b.Sign() < 0 {
			q.Sub(q, big.NewInt(1))
			r.Add(r, b)
		}
		if op == Mod || op == Rem {
			q = r
		}
		a.Set(q)
	}
	return nil
}

func (t *Table) bound(id ID, bind Binder) (Value, error) {
	v, err := bind(t.Declared(id))
	if err != nil {
		return Value{}, err
	}
	dt := t.Type(id)
	if v.Type != dt && !(interchangeable(v.Type) && interchangeable(dt)) {
		return Value{}, fmt.Errorf("the value of %s is a %v, not a %v", t.String(id), v.Type, dt)
	}
	v.Type = dt
	if f := t.facts[id]; interchangeable(dt) && !f.Hold(v.I) {
		return Value{}, fmt.Errorf("the value of %s is %d, which is not a multiple of %d between %d and %d",
			t.String(id), v.I, f.Divisor, f.Lo, f.Hi)
	}
	return v, nil
}

// arithmetic computes an operation on integers of type dt, or on Bools for Eq.
// That an Index does not fit is ErrOverflow.
func arithmetic(op Op, dt dtype.Type, a, b int64) (int64, error) {
	if dt == dtype.UInt64 {
		r, err := arithmeticUnsigned(op, uint64(a), uint64(b))
		return int64(r), err
	}
	if dt == dtype.Index && !fits(op, a, b) {
		return 0, ErrOverflow
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
	case Xor:
		return a ^ b, nil
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

// fits reports whether the result of an operation on integers does.
func fits(op Op, a, b int64) bool {
	fits := true
	switch op {
	case Add:
		_, fits = addExact(a, b)
	case Mul:
		_, fits = mulExact(a, b)
	case FloorDiv, TruncDiv:
		fits = a != math.MinInt64 || b != -1
	}
	return fits
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
	case Xor:
		return a ^ b, nil
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
