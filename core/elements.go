package core

import "nvfuser_go/core/dtype"

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
// with parameters a and b, in type t; see [UniformOp] and [NormalOp].
func (i *OpInfo) RandomElement(t dtype.Type, a, b float64, seed, offset uint64, index int64) float64 {
	if i == NormalOp {
		return normalValue(t, a, b, seed, offset, index)
	}
	return uniformValue(t, a, b, seed, offset, index)
}
