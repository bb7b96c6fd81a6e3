package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
)

// RandomValues sets dst to the elements from i on, in row-major order, of the
// result of op, [UniformOp] or [NormalOp], with parameters a and b in double
// precision. They are those of [OpInfo.RandomElement].
func RandomValues(dst []float64, op *OpInfo, t dtype.Type, a, b float64, seed, offset uint64, i int64) {
	if op == UniformOp {
		philox.Uniforms(dst, t, seed, offset, i)
		for k, u := range dst {
			dst[k] = between(t, a, b, u)
		}
		return
	}
	philox.Normals(dst, t, seed, offset, i)
	for k, n := range dst {
		dst[k] = deviated(t, a, b, n)
	}
}

// Renormalisation is the factor by which embedding_fwd multiplies a row to bring
// its norm of the given type down to maxNorm.
func Renormalisation(row []float64, maxNorm, normType float64) float64 {
	return renormalisation(row, maxNorm, normType)
}
