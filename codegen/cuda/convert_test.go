package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

var narrow = []dtype.Type{dtype.Half, dtype.BFloat16, dtype.Float8E4M3FN, dtype.Float8E5M2, dtype.Float8E8M0FNU}

// codes returns every element of a type of at most 16 bits.
func codes(t dtype.Type) []scalar.Value {
	all := make([]scalar.Value, 1<<t.Bits())
	for i := range all {
		all[i] = load(t, []byte{byte(i), byte(i >> 8)}, 0)
	}
	return all
}

// ties returns the numbers halfway between those of a type, and what is next to
// them in the type from. The largest number has one that would follow it.
func ties(t, from dtype.Type) []float64 {
	var values, all []float64
	for _, v := range codes(t) {
		if v.Re-v.Re == 0 {
			values = append(values, v.Re)
		}
	}
	slices.Sort(values)
	n := len(values)
	values = append([]float64{2*values[0] - values[1]}, append(values, 2*values[n-1]-values[n-2])...)
	for i, x := range values[1:] {
		middle := values[i]/2 + x/2
		all = append(all, middle)
		for _, side := range []float64{math.Inf(-1), math.Inf(1)} {
			if from == dtype.Double {
				all = append(all, math.Nextafter(middle, side), middle+math.Copysign(middle*0x1p-40, side))
			} else {
				all = append(all, float64(math.Nextafter32(float32(middle), float32(side))))
			}
		}
	}
	return all
}

// TestConversions runs every element of the narrow types to Float and back, and
// what lies between them, from each wider type.
func TestConversions(t *testing.T) {
	cuda.Slow(t)
	const random = 1 << 18
	r := rand.New(rand.NewPCG(3, 4))
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	var inputs [][]scalar.Value
	add := func(to dtype.Type, in []scalar.Value) {
		k := cuda.CastKernel(in[0].Type, to)
		memory := make([]byte, len(in)*in[0].Type.Size())
		for i, v := range in {
			store(memory, i, v)
		}
		kernels = append(kernels, k)
		launches = append(launches, launchOf(t, k, len(in), memory, make([]byte, len(in)*to.Size())))
		inputs = append(inputs, in)
	}
	for _, n := range narrow {
		add(dtype.Float, codes(n))
		for _, from := range []dtype.Type{dtype.Float, dtype.Double} {
			var in []scalar.Value
			for _, x := range ties(n, from) {
				in = append(in, scalar.Value{Type: from, Re: dtype.Round(from, x)})
			}
			for range random {
				x := float64(math.Float32frombits(r.Uint32()))
				if from == dtype.Double {
					x *= 1 + r.Float64()*0x1p-22
				}
				in = append(in, scalar.Value{Type: from, Re: x})
			}
			add(n, in)
		}
		for _, from := range []dtype.Type{dtype.Int, dtype.UInt64, dtype.Int32} {
			in := []scalar.Value{{Type: from, I: dtype.WrapInt(from, 1<<40+1<<31+1)}}
			for range random / 16 {
				n := int64(r.Uint64() >> r.IntN(64))
				if r.IntN(2) == 0 { // a tie, or next to one
					n = n&^(1<<max(0, 55-r.IntN(40))-1) + int64(r.IntN(3)-1)
				}
				in = append(in, scalar.Value{Type: from, I: dtype.WrapInt(from, n)})
			}
			add(n, in)
		}
		for _, to := range narrow {
			if to != n {
				add(to, codes(n))
			}
		}
	}
	require.NoError(t, build(t, kernels...).Run(launches...))
	elements := 0
	for i, in := range inputs {
		to := kernels[i].Buffers[1].DType
		out := launches[i].Buffers[1].Bytes
		wrong := 0
		for j, v := range in {
			want, got := core.ConvertScalar(to, v), load(to, out, j)
			if problem := differs(want, got, 0); problem != "" && wrong < 5 {
				wrong++
				t.Errorf("%s: of %x (%v): %s", kernels[i].Name, v.Re, v, problem)
			}
		}
		elements += len(in)
	}
	t.Logf("%d conversions of %d elements", len(inputs), elements)
}
