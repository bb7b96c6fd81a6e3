package cpu

import (
	"fmt"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A kernel computes n elements of dst from those of the operands. Operand k
// advances by step[k], 0 or 1, elements. dst may be an operand of step 1.
type kernel func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int)

// kernelOf returns the kernel of an elementwise op: the loop written for it, if
// there is one, else a loop over the row's function. types are those of the
// operands.
func kernelOf(op *core.OpInfo, types []dtype.Type, compute, result dtype.Type) (kernel, error) {
	if k := quickKernel(op, types, compute, result); k != nil {
		return k, nil
	}
	if k := rowKernel(op, types, compute, result); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("op %s has no meaning for %v", op.Name, compute)
}

// rowKernel returns the loop over the row's function for the compute type, as
// [core.EvalScalar] chooses it.
func rowKernel(op *core.OpInfo, types []dtype.Type, compute, result dtype.Type) kernel {
	m, n := &op.Meaning, len(types)
	if m.Any != nil {
		return anyKernel(m.Any, types, result)
	}
	if op.Promote.Result == core.ToBool {
		return testKernel(m, compute, n)
	}
	switch compute.Class() {
	case dtype.ClassBool:
		return boolKernel(&m.Bool, n)
	case dtype.ClassUInt:
		if k := loopKernel(&m.UInt, n, id[uint64], id[uint64]); k != nil {
			return k
		}
		return loopKernel(&m.Int, n, id[int64], id[int64])
	case dtype.ClassInt:
		if result == dtype.Int32 {
			return loopKernel(&m.Int, n, id[int64], func(x int64) int64 { return int64(int32(x)) })
		}
		return loopKernel(&m.Int, n, id[int64], id[int64])
	case dtype.ClassFloat:
		if compute == dtype.Float {
			if k := loopKernel(&m.Float32, n, id[float32], id[float32]); k != nil {
				return k
			}
		}
		if compute == dtype.Double {
			return loopKernel(&m.Float, n, id[float64], id[float64])
		}
		return loopKernel(&m.Float, n, func(x float32) float64 { return float64(x) }, rounding(result))
	case dtype.ClassComplex:
		return complexKernel(m, n, result)
	}
	return nil
}

func id[T any](x T) T { return x }

// rounding returns the rounding to a type of domain inFloat32.
func rounding(t dtype.Type) func(float64) float32 {
	if t == dtype.Float {
		return func(x float64) float32 { return float32(x) }
	}
	return func(x float64) float32 { return float32(dtype.Round(t, x)) }
}

func complexKernel(m *core.Meaning, n int, result dtype.Type) kernel {
	switch result {
	case dtype.ComplexDouble:
		return loopKernel(&m.Complex, n, id[complex128], id[complex128])
	case dtype.ComplexFloat:
		return loopKernel(&m.Complex, n, id[complex128], func(x complex128) complex128 { return complex128(complex64(x)) })
	case dtype.Double:
		return loopKernel(&m.Complex, n, id[complex128], func(x complex128) float64 { return real(x) })
	}
	round := rounding(result)
	return loopKernel(&m.Complex, n, id[complex128], func(x complex128) float32 { return round(real(x)) })
}

// loopKernel returns a loop over the function of n operands of k: operands of S
// are converted by in, results to D by out. It is nil if k has none.
func loopKernel[T, S, D any](k *core.Kernel[T], n int, in func(S) T, out func(T) D) kernel {
	switch f1, f2, f3 := k.F1, k.F2, k.F3; {
	case n == 1 && f1 != nil:
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			d, a := elements[D](dst, n), operandOf[S](src, step, 0, n)
			for i := range d {
				d[i] = out(f1(in(a[i*step[0]])))
			}
		}
	case n == 2 && f2 != nil:
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			d, a, b := elements[D](dst, n), operandOf[S](src, step, 0, n), operandOf[S](src, step, 1, n)
			for i := range d {
				d[i] = out(f2(in(a[i*step[0]]), in(b[i*step[1]])))
			}
		}
	case n == 3 && f3 != nil:
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			d, a, b, c := elements[D](dst, n), operandOf[S](src, step, 0, n), operandOf[S](src, step, 1, n), operandOf[S](src, step, 2, n)
			for i := range d {
				d[i] = out(f3(in(a[i*step[0]]), in(b[i*step[1]]), in(c[i*step[2]])))
			}
		}
	}
	return nil
}

// operandOf is operand k of a kernel over n elements.
func operandOf[T any](src []unsafe.Pointer, step []int, k, n int) []T {
	if step[k] == 0 {
		n = min(n, 1)
	}
	return elements[T](src[k], n)
}

func toBool(x uint8) bool { return x != 0 }

func fromBool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func boolKernel(k *core.Kernel[bool], n int) kernel { return loopKernel(k, n, toBool, fromBool) }

// testKernel returns the loop of an op with a Bool result.
func testKernel(m *core.Meaning, compute dtype.Type, n int) kernel {
	switch compute.Class() {
	case dtype.ClassBool:
		return testLoop(&m.BoolTest, n, toBool)
	case dtype.ClassUInt:
		return testLoop(&m.UIntTest, n, id[uint64])
	case dtype.ClassInt:
		return testLoop(&m.IntTest, n, id[int64])
	case dtype.ClassFloat:
		if compute == dtype.Double {
			return testLoop(&m.FloatTest, n, id[float64])
		}
		return testLoop(&m.FloatTest, n, func(x float32) float64 { return float64(x) })
	case dtype.ClassComplex:
		return testLoop(&m.ComplexTest, n, id[complex128])
	}
	return nil
}

func testLoop[T, S any](t *core.Test[T], n int, in func(S) T) kernel {
	switch t1, t2 := t.T1, t.T2; {
	case n == 1 && t1 != nil:
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			d, a := elements[uint8](dst, n), operandOf[S](src, step, 0, n)
			for i := range d {
				d[i] = fromBool(t1(in(a[i*step[0]])))
			}
		}
	case n == 2 && t2 != nil:
		return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
			d, a, b := elements[uint8](dst, n), operandOf[S](src, step, 0, n), operandOf[S](src, step, 1, n)
			for i := range d {
				d[i] = fromBool(t2(in(a[i*step[0]]), in(b[i*step[1]])))
			}
		}
	}
	return nil
}

// anyKernel returns the loop of an op whose operands are of mixed domains.
func anyKernel(f func(dtype.Type, []scalar.Value) scalar.Value, types []dtype.Type, result dtype.Type) kernel {
	domains := make([]domain, len(types))
	for k, t := range types {
		domains[k] = domainOf(t)
	}
	to := domainOf(result)
	return func(dst unsafe.Pointer, src []unsafe.Pointer, step []int, n int) {
		args := make([]scalar.Value, len(types))
		for i := range n {
			for k, t := range types {
				args[k] = domains[k].get(src[k], i*step[k], t)
			}
			to.put(unsafe.Add(dst, i*domainSize[to]), f(result, args))
		}
	}
}
