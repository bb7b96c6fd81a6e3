package lower

import (
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// canDrop reports whether a statement may run at points that have no element as
// well, without its index tests:
//
//   - it computes an element of a register array that has room for every point
//     of the loops, so that nothing of an element is overwritten;
//   - what it reads is in registers, at indices that the facts show to be inside;
//   - its operation neither fails on an undefined value nor takes long.
//
// What is undefined there stays in elements that no other point reads: who reads
// global memory, or reduces, keeps its tests.
func (c *context) canDrop(e *core.Expr, s *kir.If) bool {
	k := c.b.Kernel()
	if c.tensor.storage.compact || len(s.Then) != 1 || len(s.Else) > 0 || mayFail(e, c.f.Val(e.Out[0])) {
		return false
	}
	assign, ok := s.Then[0].(kir.Assign)
	if !ok {
		return false
	}
	drop := true
	eachAccess(k, assign, func(a *kir.Access, write bool) {
		b := &k.Buffers[a.Buffer]
		drop = drop && b.Space == kir.Local && len(a.Coords) == len(b.Shape)
		for i, x := range a.Coords {
			n, isConst := c.t.ConstInt(b.Shape[i])
			f := c.t.Facts(x)
			plain := !write || c.t.Op(x) == scalar.Symbol || c.t.Op(x) == scalar.Const
			drop = drop && isConst && plain && f.Lo >= 0 && f.Hi < n
		}
	})
	return drop
}

// mayFail reports whether an operation is none on single elements, or one of
// integers that a value of 0 makes fail.
func mayFail(e *core.Expr, result *core.Val) bool {
	if e.Op.Class != core.Elementwise && e.Op.Class != core.View || e.Op == core.ReshapeOp {
		return true
	}
	divides := []*core.OpInfo{core.DivOp, core.FmodOp, core.ModOp, core.RemainderOp, core.GcdOp}
	return slices.Contains(divides, e.Op) && !result.DType.IsFloat() && !result.DType.IsComplex()
}
