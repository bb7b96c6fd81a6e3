package core

import (
	"math"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

// Ops that compute 1 + f(x) at once: more exactly where f(x) is near -1, as no
// digits cancel, and in fewer instructions. They are no rows of the table:
// schedules make them, callers cannot. [OpInfo.PlusOne] leads to them. Their
// approximations are 0 below the normal numbers, where the sums that they stand for
// have lost all digits.
var (
	erfPlusOne = plusOne("erf_plus_one", func(a float64) float64 { return math.Erfc(-a) },
		"erfPlusOne($0)", "erfc(-$0)", "1 + erf(x).", ^Op(1)).rated(costExp+costDivide+10, 36, Interval{-4, 4}).
		approximated("approximateErfPlusOne($0)", approxErf)
	tanhPlusOne = plusOne("tanh_plus_one", func(a float64) float64 { return 2 * numerics.Sigmoid(2*a) },
		"2.0f * sigmoid(2.0f * $0)", "2.0 * sigmoid(2.0 * $0)", "1 + tanh(x).", ^Op(2)).rated(costExp+costDivide+2, 5, Interval{-20, 20}).
		approximated("approximateTanhPlusOne($0)", approxExp+approxDivide)
)

func plusOne(name string, f func(float64) float64, cuda, double, doc string, op Op) OpInfo {
	i := unary(name, floatingReal, Meaning{Float: Kernel[float64]{F1: f}}, Spelling{F32: cuda, F64: double}, "", doc)
	i.op = op
	return i
}

// CombinePlusOne lets additions of 1 to the result of an op with a PlusOne, which
// nothing else reads, compute that.
func (f *Fusion) CombinePlusOne() error {
	if err := f.checkBuilding(); err != nil {
		return err
	}
	for _, id := range f.Order() {
		e := &f.exprs[id]
		if e.Op != AddOp || f.vals[e.Out[0]].DType != dtype.Float {
			continue
		}
		for k, a := range e.Args {
			if a.Kind != TensorArg || e.Args[1-k].Kind != ScalarArg || !f.isNumberOne(e.Args[1-k].Scalar) {
				continue
			}
			if !f.isReadOnce(a.Tensor) || f.exprs[f.vals[a.Tensor].Def].Op.PlusOne == nil {
				continue
			}
			of := f.exprs[f.vals[a.Tensor].Def]
			f.moveUse(a.Tensor, of.Args[0].Tensor)
			e.Op, e.Args = of.Op.PlusOne, of.Args
			break
		}
	}
	return nil
}

func (f *Fusion) isNumberOne(s scalar.ID) bool {
	c, ok := f.scalars.ConstValue(s)
	return ok && !c.Type.IsComplex() && (c.Type.IsFloat() && c.Re == 1 || !c.Type.IsFloat() && c.I == 1)
}
