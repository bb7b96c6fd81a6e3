package core

import (
	"math"
	"sort"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
)

// UniformBitsOp draws whole numbers from an interval: what [UniformOp] draws, before it is
// brought to its own. It is no row of the table: schedules make it, callers cannot.
var UniformBitsOp = func() *OpInfo {
	i := random("uniform_bits", "minval", "maxval", uniformBits, "",
		"Random whole numbers, uniform over [minval, maxval), whose length is a power of two up to 2^32: the lowest bits of the word of the element.")
	i.Infer = func(f *Fusion, _ *OpInfo, args []Arg) (Inference, error) {
		return f.made(args[5].DType(), args[2].Scalars), nil
	}
	i.op = ^Op(3)
	return &i
}()

func uniformBits(_ dtype.Type, lo, hi float64, seed, offset uint64, i int64) float64 {
	return lo + float64(philox.Word(seed, offset, i)&uint32(hi-lo-1))
}

// CompareBits lets comparisons of uniform numbers of Float with constants, where nothing
// else reads the numbers, be comparisons of the bits that they are made of: two
// conversions less, on a device that draws faster than it converts.
//
// The numbers are a function of the bits that nowhere decreases or nowhere increases, and
// so is whether the comparison is true: there is one number of bits from which on it
// is, or is not.
func (f *Fusion) CompareBits() error {
	if err := f.checkBuilding(); err != nil {
		return err
	}
	for _, id := range f.Order() {
		e := &f.exprs[id]
		switch e.Op {
		case LtOp, LeOp, GtOp, GeOp:
		default:
			continue
		}
		for k, a := range e.Args {
			if a.Kind != TensorArg || e.Args[1-k].Kind != ScalarArg || !f.isReadOnce(a.Tensor) || f.exprs[f.vals[a.Tensor].Def].Op != UniformOp {
				continue
			}
			c, isConstant := f.scalars.ConstValue(e.Args[1-k].Scalar)
			if !isConstant || c.Type.IsComplex() {
				continue
			}
			if begins, from, ok := f.switches(e, k, ConvertScalar(dtype.Float, c)); ok {
				f.drawBits(&f.vals[a.Tensor])
				e.Op = GeOp
				if begins {
					e.Op = LtOp
				}
				e.Args = []Arg{a, ScalarOf(f.scalars.Int(from))}
			}
			break
		}
	}
	return nil
}

// isReadOnce reports whether x is a Float that is computed, is read once and is no output.
func (f *Fusion) isReadOnce(x ValID) bool {
	v := &f.vals[x]
	if v.Def == NoExpr || v.Uses != 1 || v.DType != dtype.Float {
		return false
	}
	for _, o := range f.outputs {
		if o.Val == x {
			return false
		}
	}
	return true
}

// bitsOfFloat is how many bits a uniform number of Float is made of.
const bitsOfFloat = 24

// drawBits makes x, a uniform number, the bits of one.
func (f *Fusion) drawBits(x *Val) {
	number := func(n float64) Arg { return ScalarOf(f.scalars.Value(scalar.Value{Type: dtype.Double, Re: n})) }
	e := &f.exprs[x.Def]
	args := append([]Arg{number(0), number(1 << bitsOfFloat)}, e.Args[2:]...)
	args[5] = DTypeOf(dtype.Int32)
	e.Op, e.Args, x.DType = UniformBitsOp, args, dtype.Int32
}

// switches returns whether e, which compares the uniform number that is operand k with c, is
// true of those of the smallest bits, and from which bits on it is not what it is of these.
// It is not ok where the interval of the numbers is not known or not finite.
func (f *Fusion) switches(e *Expr, k int, c scalar.Value) (begins bool, from int64, ok bool) {
	interval := f.exprs[f.vals[e.Args[k].Tensor].Def].Args[:2]
	lo, isLo := f.scalars.ConstValue(interval[0].Scalar)
	hi, isHi := f.scalars.ConstValue(interval[1].Scalar)
	if !isLo || !isHi || lo.Type.IsComplex() || hi.Type.IsComplex() {
		return false, 0, false
	}
	low, high := ConvertScalar(dtype.Double, lo).Re, ConvertScalar(dtype.Double, hi).Re
	if math.IsNaN(high-low) || math.IsInf(high-low, 0) {
		return false, 0, false
	}
	isTrue := func(bits int) bool {
		x := scalar.Value{Type: dtype.Float, Re: between(dtype.Float, low, high, math.Ldexp(float64(bits), -bitsOfFloat))}
		operands := []scalar.Value{x, c}
		if k == 1 {
			operands = []scalar.Value{c, x}
		}
		y, err := EvalScalar(e.Op, dtype.Bool, operands)
		return err == nil && y.I != 0
	}
	begins = isTrue(0)
	return begins, int64(sort.Search(1<<bitsOfFloat, func(bits int) bool { return isTrue(bits) != begins })), true
}
