package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// An array that no memory holds is an error and not a crash.
func TestEvalRefusesLargeArrays(t *testing.T) {
	for _, name := range []string{"full", "expand"} {
		p := newViewProgram(t, true)
		var v ValID
		if name == "full" {
			v = p.call("full", []any{p.index(1 << 30), p.index(1 << 20)}, 0.0, dtype.Float)
		} else {
			v = p.call("expand", p.call("broadcast", p.float(), []bool{true}), []any{p.index(1 << 50)})
		}
		_, err := p.run(v)
		require.ErrorContains(t, err, name+"(): the result has shape [")
		require.ErrorContains(t, err, "at most 2^31 elements can be evaluated")
		var mistake *InvalidArgument
		require.ErrorAs(t, err, &mistake)
	}
}

// The size of a result, unlike a product on the way to it, fits in 64 bits.
func TestSizesAreExact(t *testing.T) {
	f := NewFusion()
	x, err := f.DefineTensor(TensorDescription{Shape: []int64{-1, -1, -1}, Contiguity: []Tri{Yes, Yes, Yes}, DType: dtype.Float})
	require.NoError(t, err)
	in := InputValue{Tensor: true, DType: dtype.Float, Sizes: []int64{1 << 40, 1 << 40, 0}}
	flat, err := f.Call(Lookup("reshape"), []Given{givenVal(x), {Kind: GivenList, List: []Given{givenInt(-1)}}}, nil)
	require.NoError(t, err)
	size := f.Shape(flat[0])[0]
	b, err := f.Bind([]InputValue{in})
	require.NoError(t, err)
	n, err := b.Int(size)
	require.NoError(t, err)
	require.EqualValues(t, 0, n)
	in.Sizes[2] = 1
	b, err = f.Bind([]InputValue{in})
	require.NoError(t, err, "nothing reads the reshape")
	_, err = b.Int(size)
	require.EqualError(t, err, "the size i0*i1*i2 does not fit in 64 bits")
	require.NoError(t, f.AddOutput(flat[0], NoVal))
	_, err = f.Bind([]InputValue{in})
	require.ErrorContains(t, err, "reshape(): the size i0*i1*i2 does not fit in 64 bits")
}
