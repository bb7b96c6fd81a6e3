package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
)

// ElementType returns the type of the result of the elementwise op on single
// elements of the given types, one per operand. They must be as an [Expr] has
// them: of the compute type, promoted already. The type of a cast's result is
// its own choice; it is [dtype.Null] here.
func (i *OpInfo) ElementType(operands ...dtype.Type) (dtype.Type, error) {
	want := 0
	for _, p := range i.Params() {
		if p.Kind == Operand {
			want++
		}
	}
	if i.Class != Elementwise || len(operands) != want || want == 0 {
		return dtype.Null, invalidType("%s(): is not an operation on %d elements", i.Name, len(operands))
	}
	compute := operands[len(operands)-1]
	for k, t := range operands {
		if t != i.operandCompute(k, compute) {
			return dtype.Null, invalidType("%s(): %s is %v and must be %v", i.Name, i.Params()[k].Name, t, i.operandCompute(k, compute))
		}
	}
	rest := operands[i.Promote.Skip:]
	if t, err := i.Promote.computeType(i, rest, make([]int, len(rest))); err != nil || t != compute || !t.Computes() || !accepts(i.Promote.Accept, t) {
		return dtype.Null, invalidType("%s(): does not compute in %v", i.Name, compute)
	}
	if i == CastOp {
		return dtype.Null, nil
	}
	return i.Promote.resultType(compute), nil
}

// RandomElement returns element index of the tensor that the random op i makes
// with parameters a and b, in type t; see [UniformOp], [UniformBitsOp] and [NormalOp].
func (i *OpInfo) RandomElement(t dtype.Type, a, b float64, seed, offset uint64, index int64) float64 {
	switch i {
	case NormalOp:
		return normalValue(t, a, b, seed, offset, index)
	case UniformBitsOp:
		return uniformBits(t, a, b, seed, offset, index)
	}
	return uniformValue(t, a, b, seed, offset, index)
}

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
