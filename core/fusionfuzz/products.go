package fusionfuzz

import (
	"math"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// Products say of which products of a case the order of the factors matters more than by
// rounding: a partial product that is infinite or 0 in one order meets in another what makes
// a finite number of it, or NaN. A kernel may multiply in any order, as torch does on a GPU.
type products struct {
	c      *Case
	values []*core.Array // of all tensors of the case, once they are known
	failed bool
	drawn  map[core.ValID]bool // what is computed from numbers drawn at random
}

// ranges are the logarithms to base 2 of the least and greatest powers of two that are normal
// numbers of a type.
var ranges = map[dtype.Type][2]float64{
	dtype.Float8E4M3FN: {-6, 8}, dtype.Float8E5M2: {-14, 15}, dtype.Half: {-14, 15}, dtype.BFloat16: {-126, 127},
	dtype.Float: {-126, 127}, dtype.ComplexFloat: {-126, 127}, dtype.Double: {-1022, 1023}, dtype.ComplexDouble: {-1022, 1023},
}

// mayLeaveRange reports whether e is a product, and some of its factors have one that its
// type has not in full precision. What is drawn at random is not known.
func (p *products) mayLeaveRange(e *core.Expr) bool {
	if e.Op != core.ProdOp && e.Op != core.CumprodOp {
		return false
	}
	if p.values == nil && !p.failed {
		p.evaluate()
	}
	within, isKnown := ranges[p.c.Fusion.Val(e.Out[0]).DType]
	if p.failed || !isKnown || p.drawn[e.Args[0].Tensor] {
		return true
	}
	least, most, factors := 0.0, 0.0, p.values[e.Args[0].Tensor]
	for i := range factors.Len() {
		x := factors.At(int64(i))
		size := math.Abs(x.Re)
		switch {
		case factors.Type.IsComplex():
			size = math.Hypot(x.Re, x.Im)
		case factors.Type == dtype.UInt64:
			size = float64(uint64(x.I))
		case !factors.Type.IsFloat():
			size = math.Abs(float64(x.I))
		}
		if x := math.Log2(size); !math.IsInf(x, 0) && !math.IsNaN(x) { // 0, infinities and NaN make what they make in any order
			least, most = least+min(x, 0), most+max(x, 0)
		}
	}
	return least <= within[0] || most >= within[1]
}

func (p *products) evaluate() {
	f := p.c.Fusion
	arrays, scalars, _ := Arguments(p.c.Inputs)
	if len(arrays) < len(f.Inputs()) {
		p.failed = true
		return
	}
	var err error
	p.values, err = f.EvalAll(arrays, scalars, core.RandomState{})
	p.failed = err != nil
	p.drawn = map[core.ValID]bool{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for _, v := range e.Out {
			p.drawn[v] = e.Op.Class == core.Random || slices.ContainsFunc(f.TensorArgs(e), func(from core.ValID) bool { return p.drawn[from] })
		}
	}
}
