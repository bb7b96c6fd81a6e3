package core

import (
	endian "encoding/binary"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
	"nvfuser_go/core/scalar"
)

var streamParams = []Param{
	{Name: "rng_seed", Kind: Extent, Optional: true, KeyOnly: true},
	{Name: "rng_offset", Kind: Extent, Optional: true, KeyOnly: true},
}

// random fills a row for a random op with two numbers before shape.
func random(name, first, second string, value func(t dtype.Type, a, b float64, seed, offset uint64, i int64) float64, torch, doc string) OpInfo {
	params := append([]Param{{Name: first, Kind: Number}, {Name: second, Kind: Number}, {Name: "shape", Kind: Shape}}, streamParams...)
	params = append(params, Param{Name: "dtype", Kind: Dtype, Optional: true, KeyOnly: true, Default: Given{Kind: GivenDType, Num: scalar.Value{I: int64(dtype.Float)}}})
	return OpInfo{Name: name, Group: groupRandom, Class: Random, Signatures: signature(params...),
		Infer: inferRandom, Torch: torch,
		Eval: func(c *Evaluation) error { return evalRandom(c, value) },
		Doc: doc + " Element i in row-major order depends on seed, offset, i and dtype alone. " +
			"rng_seed and rng_offset are given together; without them each run draws new numbers. dtype is Double, Float, Half or BFloat16."}
}

// UniformOp draws from an interval.
var UniformOp = def(random("uniform", "minval", "maxval", uniformValue,
	"minval + (maxval - minval) * torch.rand(shape, dtype=dtype)",
	"Random numbers of the sizes of shape, uniform over [minval, maxval): minval + u*(maxval-minval) in double precision, rounded once, "+
		"where u is uniform over [0, 1) in dtype; the largest number below maxval where rounding would reach it."))

// NormalOp draws from a normal distribution.
var NormalOp = def(random("normal", "mean", "std", normalValue,
	"mean + std * torch.randn(shape, dtype=dtype)",
	"Random numbers of the sizes of shape, normally distributed: mean + std*n in double precision, rounded once, where n has mean 0 and deviation 1."))

func inferRandom(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	t := args[5].DType()
	if t != dtype.Double && t != dtype.Float && t != dtype.Half && t != dtype.BFloat16 {
		return Inference{}, invalidType("%s(): dtype is %v; random numbers are of Double, Float, Half or BFloat16", op.Name, t)
	}
	if (args[3].Kind == NoArg) != (args[4].Kind == NoArg) {
		return Inference{}, invalidArgument("%s(): rng_seed and rng_offset must be given together, or neither", op.Name)
	}
	for i := range 2 {
		if err := f.checkValue(op, op.Params()[i].Name, args[i].Scalar, t); err != nil {
			return Inference{}, err
		}
	}
	return f.made(t, args[2].Scalars), nil
}

func evalRandom(c *Evaluation, value func(t dtype.Type, a, b float64, seed, offset uint64, i int64) float64) error {
	t := c.Expr.Args[5].DType()
	a, err := c.ScalarAt(0, dtype.Double)
	if err != nil {
		return err
	}
	b, err := c.ScalarAt(1, dtype.Double)
	if err != nil {
		return err
	}
	seed, offset := c.Random.Seed, c.Random.Offset+4*uint64(c.Expr.Stream)
	if c.Has(3) {
		s, err := c.ScalarAt(3, dtype.Index)
		if err != nil {
			return err
		}
		o, err := c.ScalarAt(4, dtype.Index)
		if err != nil {
			return err
		}
		seed, offset = uint64(s.I), uint64(o.I)
	}
	return c.fill(func(i int64) scalar.Value {
		x := value(t, a.Re, b.Re, seed, offset, i)
		return scalar.Value{Type: t, Re: x, I: int64(x)}
	})
}

func uniformValue(t dtype.Type, lo, hi float64, seed, offset uint64, i int64) float64 {
	return between(t, lo, hi, philox.Uniform(t, seed, offset, i))
}

// between maps u of [0, 1) to [lo, hi).
func between(t dtype.Type, lo, hi, u float64) float64 {
	x := dtype.Round(t, lo+u*(hi-lo))
	if lo < hi && x >= hi {
		return below(t, hi)
	}
	return x
}

func normalValue(t dtype.Type, mean, std float64, seed, offset uint64, i int64) float64 {
	return deviated(t, mean, std, philox.Normal(t, seed, offset, i))
}

// deviated maps n, of mean 0 and deviation 1, to mean and std.
func deviated(t dtype.Type, mean, std, n float64) float64 { return dtype.Round(t, mean+std*n) }

// below returns the largest number of the IEEE type t that is less than x, which
// is not the least one.
func below(t dtype.Type, x float64) float64 {
	y := dtype.Round(t, x)
	if y < x {
		return y
	}
	var b [8]byte
	dtype.StoreFloat(t, b[:], y)
	code := endian.LittleEndian.Uint64(b[:])
	switch {
	case y > 0:
		code--
	case y < 0:
		code++
	default:
		code = 1<<(8*t.Size()-1) | 1
	}
	endian.LittleEndian.PutUint64(b[:], code)
	return dtype.LoadFloat(t, b[:])
}

// likeParams are those of rand_like and randn_like.
var likeParams = []Param{{Name: "arg", Kind: TensorIn}, {Name: "rng_seed", Kind: Extent, Optional: true}, {Name: "rng_offset", Kind: Extent, Optional: true}}

// RandLikeOp is uniform over [0, 1).
var RandLikeOp = def(OpInfo{Name: "rand_like", Group: groupRandom, Class: Composite, Signatures: signature(likeParams...),
	Expand: func(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) { return expandLike(f, UniformOp, args) },
	Torch:  "torch.rand_like(arg)",
	Doc:    "Random numbers of the shape and dtype of arg, uniform over [0, 1); see uniform. arg is Double, Float, Half or BFloat16."})

// RandnLikeOp is normal with mean 0 and deviation 1.
var RandnLikeOp = def(OpInfo{Name: "randn_like", Group: groupRandom, Class: Composite, Signatures: signature(likeParams...),
	Expand: func(f *Fusion, _ *OpInfo, args []Arg) ([]ValID, error) { return expandLike(f, NormalOp, args) },
	Torch:  "torch.randn_like(arg)",
	Doc:    "Random numbers of the shape and dtype of arg, normally distributed with mean 0 and deviation 1; see normal. arg is Double, Float, Half or BFloat16."})

func expandLike(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	number := func(x float64) Arg {
		return ScalarOf(f.scalars.Value(scalar.Value{Type: dtype.Double, Re: x}))
	}
	v := args[0].Tensor
	return f.Apply(op, number(0), number(1), ScalarsOf(f.Shape(v)...), args[1], args[2], DTypeOf(f.vals[v].DType))
}
