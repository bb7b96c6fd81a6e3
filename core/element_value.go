package core

import "nvfuser_go/core/dtype"

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
