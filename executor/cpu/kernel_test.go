package cpu

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// specials are values of every kind that a type can hold.
func specials(t dtype.Type) []scalar.Value {
	var all []scalar.Value
	add := func(v scalar.Value) { all = append(all, core.ConvertScalar(t, v)) }
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, -2.5, 3, 1e-40, 3e38, math.Inf(1), math.Inf(-1), math.NaN(), 65504, 1e300} {
		add(scalar.Value{Type: dtype.Double, Re: x})
	}
	for _, n := range []int64{0, 1, -1, 7, 1<<31 - 1, -1 << 31, 1<<62 + 3, -1 << 63, 1<<24 + 1, 1<<53 + 1} {
		add(scalar.Value{Type: dtype.Int, I: n})
	}
	add(scalar.Value{Type: dtype.ComplexDouble, Re: 1, Im: math.NaN()})
	add(scalar.Value{Type: dtype.ComplexDouble, Re: -0.5, Im: 2})
	return all
}

// testTypes are the types that elements are computed in.
var testTypes = []dtype.Type{dtype.Bool, dtype.Int32, dtype.Int, dtype.UInt64, dtype.Index, dtype.Half, dtype.BFloat16, dtype.Float, dtype.Double,
	dtype.Float8E4M3FN, dtype.Float8E5M2, dtype.Float8E8M0FNU, dtype.ComplexFloat, dtype.ComplexDouble}

// fill returns the values as a tile holds them.
func tileOf(values []scalar.Value) unsafe.Pointer {
	d := domainOf(values[0].Type)
	tile := make([]complex128, len(values))
	p := unsafe.Pointer(&tile[0])
	for i, v := range values {
		d.put(unsafe.Add(p, i*domainSize[d]), v)
	}
	return p
}

// checkKernel compares a kernel with core.EvalScalar for operands that advance
// and operands that do not.
func checkKernel(t *testing.T, op *core.OpInfo, k kernel, result dtype.Type, operands [][]scalar.Value) {
	t.Helper()
	n := len(operands[0])
	for steps := range 1 << len(operands) {
		src, step := make([]unsafe.Pointer, len(operands)), make([]int, len(operands))
		for i, o := range operands {
			src[i], step[i] = tileOf(o), steps>>i&1
		}
		out := make([]complex128, n)
		to := domainOf(result)
		k(unsafe.Pointer(&out[0]), src, step, n)
		for i := range n {
			args := make([]scalar.Value, len(operands))
			for j, o := range operands {
				args[j] = o[i*step[j]]
			}
			want, err := core.EvalScalar(op, result, args)
			require.NoError(t, err)
			got := to.get(unsafe.Pointer(&out[0]), i, result)
			require.Equal(t, bitsOf(want), bitsOf(got), "%s %v -> %v, steps %v", op.Name, args, result, step)
		}
	}
}

// bitsOf is v with NaNs made one.
func bitsOf(v scalar.Value) string {
	part := func(x float64) string {
		if math.IsNaN(x) {
			return "NaN"
		}
		return fmt.Sprintf("%x", math.Float64bits(x))
	}
	return fmt.Sprint(v.Type, v.I, part(v.Re), part(v.Im))
}

// TestKernels compares the loops of every elementwise row, the quick ones and
// those over the row's function, with the row's meaning.
func TestKernels(t *testing.T) {
	compared := 0
	for _, op := range core.Ops() {
		if op.Class != core.Elementwise || op == core.CastOp {
			continue
		}
		arity := len(op.Params())
		for _, compute := range testTypes {
			types := make([]dtype.Type, arity)
			args := make([]core.Arg, arity)
			f := core.NewFusion()
			for i := range types {
				types[i] = compute
				if i < op.Promote.Skip {
					types[i] = dtype.Bool
				}
				v, err := f.DefineTensor(core.TensorDescription{Shape: []int64{-1}, Contiguity: []core.Tri{core.Yes}, DType: types[i]})
				require.NoError(t, err)
				args[i] = core.TensorOf(v)
			}
			out, err := f.Append(op, args) // an error: not a compute type of the op
			if err != nil {
				continue
			}
			result := f.Val(out[0]).DType
			operands := make([][]scalar.Value, arity)
			base := specials(compute)
			for i := range operands {
				for k := range len(base) * len(base) {
					v := base[k/len(base)]
					if i == arity-1 && arity > 1 {
						v = base[k%len(base)]
					}
					operands[i] = append(operands[i], core.ConvertScalar(types[i], v))
				}
			}
			k := rowKernel(op, types, compute, result)
			require.NotNil(t, k, "%s on %v", op.Name, compute)
			checkKernel(t, op, k, result, operands)
			if q := quickKernel(op, types, compute, result); q != nil {
				checkKernel(t, op, q, result, operands)
				compared++
			}
		}
	}
	require.Greater(t, compared, 60)
}

func TestCasts(t *testing.T) {
	quick := 0
	for _, from := range testTypes {
		for _, to := range testTypes {
			operands := [][]scalar.Value{specials(from)}
			checkKernel(t, core.CastOp, anyKernel(core.CastOp.Meaning.Any, []dtype.Type{from}, to), to, operands)
			if k := castKernel(from, to); k != nil {
				checkKernel(t, core.CastOp, k, to, operands)
				quick++
			}
		}
	}
	require.Greater(t, quick, 60)
}

// TestMovers stores and loads every type with and without steps.
func TestMovers(t *testing.T) {
	for _, d := range testTypes {
		values := specials(d)
		for range 5 {
			values = append(values, values...)
		}
		for _, steps := range [][2]int{{1, 1}, {2, 1}, {1, 3}, {3, 2}} {
			n, size := len(values), domainSize[domainOf(d)]
			memory := make([]complex128, n*steps[0])
			storers[d](unsafe.Pointer(&memory[0]), steps[0], tileOf(values), 1, n)
			tile := make([]complex128, n*steps[1])
			loaders[d](unsafe.Pointer(&tile[0]), steps[1], unsafe.Pointer(&memory[0]), steps[0], n)
			for i, v := range values {
				got := domainOf(d).get(unsafe.Add(unsafe.Pointer(&tile[0]), i*steps[1]*size), 0, d)
				require.Equal(t, bitsOf(v), bitsOf(got), "%v, steps %v", v, steps)
			}
		}
	}
}

// TestEveryOp requires a way to compute every row that an expression may have.
func TestEveryOp(t *testing.T) {
	for _, op := range core.Ops() {
		switch op.Class {
		case core.Elementwise, core.View, core.Reduction, core.Scan, core.Composite, core.Query:
			continue
		}
		_, opaque := opaqueOps[op]
		require.True(t, opaque || isGenerator(op), op.Name)
	}
}
