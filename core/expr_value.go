package core

import "nvfuser_go/core/dtype"

// EvalExpr evaluates one expression of the fusion: in holds the arrays of its
// tensor operands. Like the binding it is used by one goroutine.
func (b *Binding) EvalExpr(e *Expr, random RandomState, in map[ValID]*Array) ([]*Array, error) {
	c := &Evaluation{Binding: b, Expr: e, Random: random, arrays: make([]*Array, len(b.f.vals))}
	for v, a := range in {
		c.arrays[v] = a
	}
	if err := c.run(); err != nil {
		return nil, err
	}
	out := make([]*Array, len(e.Out))
	for k, v := range e.Out {
		out[k] = c.arrays[v]
	}
	return out, nil
}

// RandomValue returns element i, in row-major order, of the result of op,
// [UniformOp] or [NormalOp], with parameters a and b in double precision.
func RandomValue(op *OpInfo, t dtype.Type, a, b float64, seed, offset uint64, i int64) float64 {
	if op == UniformOp {
		return uniformValue(t, a, b, seed, offset, i)
	}
	return normalValue(t, a, b, seed, offset, i)
}

// Renormalisation is the factor by which embedding_fwd multiplies a row to bring
// its norm of the given type down to maxNorm.
func Renormalisation(row []float64, maxNorm, normType float64) float64 {
	return renormalisation(row, maxNorm, normType)
}
