package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An IndexCheck says what three outputs of a fusion tell of an expression: the smallest and
// the largest of the positions that its index lists, and the size of the dimension that they
// are of. All are Int and without dimensions; of no positions the smallest is the greatest
// number and the largest the least.
type IndexCheck struct {
	Op       *OpInfo // that the program called
	Param    string  // the argument that is the index
	Tensor   string  // its name
	Unsigned bool    // its elements are, and those that an Int does not hold appear as negative
	Of       string  // the argument that is indexed
	Dim      int     // of that
	Where    Location
}

// indexed returns which arguments of e are the tensor that lists positions and the one that it
// indexes, and the dimension of that; ok: there are such.
func (e *Expr) indexed() (index, of, dim int, ok bool) {
	switch e.Op {
	case IndexSelectOp, TakeAlongAxisOp, GatherOp:
		return 1, 0, int(e.Args[2].Int), true
	case ScatterOp:
		return 1, 0, int(e.Args[3].Int), true
	case EmbeddingFwdOp:
		return 0, 1, 0, true
	case IndexPutAccumulateOp:
		return 1, 0, 0, true
	}
	return 0, 0, 0, false
}

// WithIndexChecks returns a copy of f, frozen, with more outputs behind those of f: three for
// each check.
func (f *Fusion) WithIndexChecks() (*Fusion, []IndexCheck, error) {
	g := f.Clone()
	var checks []IndexCheck
	for _, id := range f.Order() {
		e := f.Expr(id)
		index, of, dim, ok := e.indexed()
		if !ok {
			continue
		}
		v := f.withoutBroadcasts(e.Args[index].Tensor)
		if err := g.addBounds(v, g.Shape(e.Args[of].Tensor)[dim]); err != nil {
			return nil, nil, err
		}
		params := e.Op.Params()
		checks = append(checks, IndexCheck{Op: e.Called, Param: params[index].Name, Tensor: f.Name(v), Unsigned: f.Val(v).DType == dtype.UInt64,
			Of: params[of].Name, Dim: dim, Where: e.Where})
	}
	g.Freeze()
	return g, checks, nil
}

// withoutBroadcasts returns the tensor that v has the elements of, without dimensions that
// were added or taken away.
func (f *Fusion) withoutBroadcasts(v ValID) ValID {
	for d := f.vals[v].Def; d != NoExpr && (f.exprs[d].Op == BroadcastOp || f.exprs[d].Op == SqueezeOp); d = f.vals[v].Def {
		v = f.exprs[d].Args[0].Tensor
	}
	return v
}

// addBounds makes the bounds of the elements of v, and a size, outputs.
func (f *Fusion) addBounds(v ValID, size scalar.ID) error {
	positions, err := f.Cast(v, dtype.Int)
	if err != nil {
		return err
	}
	var dims []int64
	for i := range f.Rank(v) {
		dims = append(dims, int64(i))
	}
	for _, op := range []*OpInfo{MinOp, MaxOp} {
		bound := positions
		if len(dims) > 0 {
			if bound, err = f.apply1(op, TensorOf(positions), IntsOf(dims...), BoolOf(false), DTypeOf(dtype.Null)); err != nil {
				return err
			}
		} else if bound, err = f.apply1(SetOp, TensorOf(positions)); err != nil {
			return err
		}
		if err := f.AddOutput(bound, NoVal); err != nil {
			return err
		}
	}
	shown, err := f.apply1(FullOp, ScalarsOf(), ScalarOf(size), DTypeOf(dtype.Int))
	if err != nil {
		return err
	}
	return f.AddOutput(shown, NoVal)
}
