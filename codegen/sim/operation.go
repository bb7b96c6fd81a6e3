package sim

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// operation returns the step that computes out from args by the row's function,
// with the rounding of [core.EvalScalar]; nil if the row has none for the type.
func operation(op *core.OpInfo, out *lanes, args []*lanes) step {
	switch op {
	case core.CastOp:
		return cast(out, args[0])
	case core.WhereOp:
		return where(out, args)
	}
	f := fastOperation(op, out, args)
	if f == nil {
		f = boxed(op, out, args)
	}
	return func(b *block) {
		b.merge(out, args...)
		f(b)
	}
}

// where takes the taint of the operand that it chooses alone.
func where(out *lanes, args []*lanes) step {
	cond, x, y := args[0], args[1], args[2]
	return func(b *block) {
		out.tainted = false
		for _, l := range b.lanes {
			from := y
			if cond.i[l] != 0 {
				from = x
			}
			out.copyElement(int(l), from, int(l))
			t := cond.flawAt(l) | from.flawAt(l)
			out.taint[l] = t
			out.tainted = out.tainted || t != 0
		}
	}
}

func cast(out, x *lanes) step {
	from, to := domainOf(x.t), domainOf(out.t)
	convert := func(b *block) {
		for _, l := range b.lanes {
			out.set(int(l), core.ConvertScalar(out.t, x.get(int(l))))
		}
	}
	switch {
	case from == singles && to == doubles:
		convert = func(b *block) {
			for _, l := range b.lanes {
				out.d[l] = dtype.Round(out.t, float64(x.f[l]))
			}
		}
	case from == doubles && to == singles:
		convert = func(b *block) {
			for _, l := range b.lanes {
				out.f[l] = float32(x.d[l])
			}
		}
	}
	return func(b *block) {
		b.merge(out, x)
		convert(b)
	}
}

// boxed computes element by element with EvalScalar.
func boxed(op *core.OpInfo, out *lanes, args []*lanes) step {
	operands := make([]scalar.Value, len(args))
	return func(b *block) {
		for _, l := range b.lanes {
			for i, a := range args {
				operands[i] = a.get(int(l))
			}
			v, err := core.EvalScalar(op, out.t, operands)
			if err != nil {
				panic(err) // excluded by the kernel's Verify
			}
			out.set(int(l), v)
		}
	}
}

// fastOperation returns a loop over typed elements, nil if there is none for
// the row and the type.
func fastOperation(op *core.OpInfo, out *lanes, args []*lanes) step {
	m := &op.Meaning
	if m.Any != nil {
		return nil
	}
	last := args[len(args)-1]
	if op.Promote.Result == core.ToBool {
		switch {
		case last.t == dtype.Float:
			return test(out, &m.FloatTest, args, func(x *lanes, l int32) float64 { return float64(x.f[l]) })
		case last.t.Class() == dtype.ClassInt:
			return test(out, &m.IntTest, args, func(x *lanes, l int32) int64 { return x.i[l] })
		}
		return nil
	}
	switch {
	case last.t == dtype.Float && out.t == dtype.Float:
		if f := direct(&m.Float32, out.f, slicesOf(args, func(x *lanes) []float32 { return x.f })); f != nil {
			return f
		}
		return singlesByDouble(&m.Float, out.f, slicesOf(args, func(x *lanes) []float32 { return x.f }))
	case last.t == dtype.Double && out.t == dtype.Double:
		return direct(&m.Float, out.d, slicesOf(args, func(x *lanes) []float64 { return x.d }))
	case last.t.Class() == dtype.ClassInt && last.t != dtype.Int32 && out.t == last.t:
		return direct(&m.Int, out.i, slicesOf(args, func(x *lanes) []int64 { return x.i }))
	}
	return nil
}

func slicesOf[T any](args []*lanes, of func(*lanes) []T) [][]T {
	out := make([][]T, len(args))
	for i, a := range args {
		out[i] = of(a)
	}
	return out
}

// direct returns the loop of a kernel function whose results need no rounding.
func direct[T any](k *core.Kernel[T], out []T, args [][]T) step {
	switch {
	case len(args) == 1 && k.F1 != nil:
		f, x := k.F1, args[0]
		return func(b *block) {
			for _, l := range b.lanes {
				out[l] = f(x[l])
			}
		}
	case len(args) == 2 && k.F2 != nil:
		f, x, y := k.F2, args[0], args[1]
		return func(b *block) {
			for _, l := range b.lanes {
				out[l] = f(x[l], y[l])
			}
		}
	case len(args) == 3 && k.F3 != nil:
		f, x, y, z := k.F3, args[0], args[1], args[2]
		return func(b *block) {
			for _, l := range b.lanes {
				out[l] = f(x[l], y[l], z[l])
			}
		}
	}
	return nil
}

// singlesByDouble is direct for a Float operation defined on float64.
func singlesByDouble(k *core.Kernel[float64], out []float32, args [][]float32) step {
	switch {
	case len(args) == 1 && k.F1 != nil:
		f, x := k.F1, args[0]
		return func(b *block) {
			for _, l := range b.lanes {
				out[l] = float32(f(float64(x[l])))
			}
		}
	case len(args) == 2 && k.F2 != nil:
		f, x, y := k.F2, args[0], args[1]
		return func(b *block) {
			for _, l := range b.lanes {
				out[l] = float32(f(float64(x[l]), float64(y[l])))
			}
		}
	}
	return nil
}

func test[T any](out *lanes, k *core.Test[T], args []*lanes, at func(*lanes, int32) T) step {
	switch {
	case len(args) == 1 && k.T1 != nil:
		return func(b *block) {
			for _, l := range b.lanes {
				out.i[l] = truth(k.T1(at(args[0], l)))
			}
		}
	case len(args) == 2 && k.T2 != nil:
		return func(b *block) {
			for _, l := range b.lanes {
				out.i[l] = truth(k.T2(at(args[0], l), at(args[1], l)))
			}
		}
	}
	return nil
}
