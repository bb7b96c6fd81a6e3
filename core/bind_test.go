package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An Index is an Int in memory, and callers have no other tensor to give.
func TestBindTakesIntsForIndex(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1}, Contiguity: []Tri{Yes}, DType: dtype.Index})
	require.NoError(t, err)
	y, err := f.Apply(SetOp, TensorOf(x))
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(y[0], NoVal))
	_, err = f.Bind([]InputValue{{Tensor: true, DType: dtype.Int, Sizes: []int64{3}}})
	require.NoError(t, err)
	_, err = f.Bind([]InputValue{{Tensor: true, DType: dtype.Int32, Sizes: []int64{3}}})
	require.ErrorContains(t, err, "input 0 (tv0) has dtype Int32, but the definition says Index")
}

// An output needs memory, of which torch counts the bytes in 64 bits; an
// expanded dimension takes none of it.
func TestBindCountsBytesOfOutputs(t *testing.T) {
	build := func(shape ...Given) *Fusion {
		f := NewFusion()
		n, err := f.DefineScalar(dtype.Int)
		require.NoError(t, err)
		for i := range shape {
			if shape[i].Kind == GivenNone {
				shape[i] = givenVal(n)
			}
		}
		f.SetLocation(Location{File: "model.py", Line: 7})
		v, err := f.Call(Lookup("full"), []Given{givenList(shape...), givenFloat(1), givenDType(dtype.Double)}, nil)
		require.NoError(t, err)
		require.NoError(t, f.AddOutput(v[0], NoVal))
		return f
	}
	bind := func(f *Fusion, n int64) error {
		_, err := f.Bind([]InputValue{{Scalar: scalar.Value{Type: dtype.Int, I: n}}})
		return err
	}
	f := build(Given{})
	require.EqualError(t, bind(f, 1<<60), "full(): output 0 of shape [1152921504606846976] and dtype Double has more than 2^63-1 bytes (defined at model.py:7)")
	require.NoError(t, bind(f, 1<<60-1))
	require.ErrorContains(t, bind(build(Given{}, givenInt(1<<60)), 1), "output 0 of shape [1, 1152921504606846976]")
	require.ErrorContains(t, bind(build(givenInt(0), Given{}), 1<<60), "bytes", "its strides do not fit either")

	f = NewFusion()
	n, err := f.DefineScalar(dtype.Int)
	require.NoError(t, err)
	one, err := f.Call(Lookup("full"), []Given{givenList(givenInt(1)), givenFloat(1), givenDType(dtype.Double)}, nil)
	require.NoError(t, err)
	v, err := f.Call(Lookup("broadcast_in_dim"), []Given{givenVal(one[0]), givenList(givenVal(n), givenInt(1)), givenList(givenInt(1))}, nil)
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v[0], NoVal))
	require.NoError(t, bind(f, 1<<62))
}
