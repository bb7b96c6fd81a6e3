package kir

import (
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Integers are the integer arguments of a kernel in one launch. What depends on
// them alone, the host computes by it: sizes of the launch and of workspaces.
type Integers struct {
	k     *Kernel
	value map[SymbolID]int64
}

// Integers returns the integers of a launch; of gives that of each IndexScalar,
// by its place among the arguments.
//
// Errors: those of of.
func (k *Kernel) Integers(of func(i int, a *Argument) (int64, error)) (*Integers, error) {
	x := &Integers{k, map[SymbolID]int64{}}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != IndexScalar {
			continue
		}
		n, err := of(i, a)
		if err != nil {
			return nil, err
		}
		x.value[a.Symbol] = n
	}
	return x, nil
}

// Of returns the integer that symbol s is, and whether it is one.
func (x *Integers) Of(s SymbolID) (int64, bool) {
	n, ok := x.value[s]
	return n, ok
}

// Eval returns the value of an expression of the kernel's integers. It adds to
// the kernel's table: two calls must not be at one time.
//
// Errors: a symbol that is no integer argument, and what has no value.
func (x *Integers) Eval(id scalar.ID) (int64, error) {
	t := x.k.Scalars
	v, err := t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
		n, ok := x.value[SymbolID(t.Tag(s).Val)]
		if !ok {
			return scalar.Value{}, fmt.Errorf("kernel %s: %s is not known on the host", x.k.Name, x.k.Expr(s))
		}
		return scalar.Value{Type: t.Type(s), I: n}, nil
	}, core.EvalOpaque, nil)
	return v.I, err
}

// Number returns what the host passes for an argument that depends on the
// integers alone: an IndexScalar or a Divisor. It reports false for others.
//
// Errors: those of [Integers.Eval] and [NewDivider].
func (x *Integers) Number(a *Argument) (v scalar.Value, ok bool, err error) {
	switch a.Kind {
	case IndexScalar:
		return scalar.Value{Type: dtype.Index, I: x.value[a.Symbol]}, true, nil
	case Divisor:
		n, err := x.Eval(a.Expr)
		if err != nil {
			return v, true, err
		}
		d, err := NewDivider(n)
		return scalar.Value{Type: dtype.Int, I: int64(d)}, true, err
	}
	return v, false, nil
}

// Launched returns the sizes of the launch: of the grid and of a block, and the
// bytes of a block's shared memory.
//
// Errors: those of [Integers.Eval].
func (x *Integers) Launched() (grid, block [3]int64, shared int64, err error) {
	at := func(id scalar.ID) (n int64) {
		if err == nil {
			n, err = x.Eval(id)
		}
		return n
	}
	for d := range 3 {
		grid[d], block[d] = at(x.k.Launch.Grid[d]), at(x.k.Launch.Block[d])
	}
	return grid, block, at(x.k.Launch.Shared), err
}
