package philox

import (
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// The vectors are those of the reference implementation of the paper.
func TestKnownAnswers(t *testing.T) {
	const ones = math.MaxUint64
	require.Equal(t, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, Block(0, 0, 0))
	require.Equal(t, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}, Block(ones, ones, ones))
	// The digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
	require.Equal(t, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		Block(0x299f31d0_a4093822, 0x85a308d3_243f6a88, 0x03707344_13198a2e))
}

// TestKeys computes blocks with them.
func TestKeys(t *testing.T) {
	added := Keys(0)
	for _, seed := range []uint64{0, 1, 0x299f31d0_a4093822, 0xfffffffe_fffffffd, math.MaxUint64} {
		keys := Keys(seed)
		a, b, c, d := uint32(7), uint32(8), uint32(9), uint32(10)
		for i := range rounds {
			require.Equal(t, uint32(seed)+added[2*i], keys[2*i])
			require.Equal(t, uint32(seed>>32)+added[2*i+1], keys[2*i+1])
			x, y := uint64(multiplier0)*uint64(a), uint64(multiplier1)*uint64(c)
			a, b, c, d = uint32(y>>32)^b^keys[2*i], uint32(y), uint32(x>>32)^d^keys[2*i+1], uint32(x)
		}
		require.Equal(t, Block(seed, 8<<32|7, 10<<32|9), [4]uint32{a, b, c, d})
	}
}

var types = []dtype.Type{dtype.Float, dtype.Half, dtype.BFloat16, dtype.Double, dtype.Float8E4M3FN, dtype.Float8E5M2}

// TestUniformWords spells the definition out for a few elements.
func TestUniformWords(t *testing.T) {
	const seed, offset = 0x1234_5678_9abc, 0x3_0000_0008
	for index := range int64(9) {
		w := Block(seed, offset/4, uint64(index/4))[index%4]
		require.Equal(t, float64(w&0xffffff)/0x1p24, Uniform(dtype.Float, seed, offset, index))
		require.Equal(t, float64(w&0x7ff)/0x1p11, Uniform(dtype.Half, seed, offset, index))
		require.Equal(t, float64(w&0xff)/0x1p8, Uniform(dtype.BFloat16, seed, offset, index))
		require.Equal(t, float64(w&0xf)/0x1p4, Uniform(dtype.Float8E4M3FN, seed, offset, index))
		require.Equal(t, float64(w&0x7)/0x1p3, Uniform(dtype.Float8E5M2, seed, offset, index))
		b := Block(seed, offset/4, uint64(index/2))
		lo, hi := b[2*(index%2)], b[2*(index%2)+1]
		require.Equal(t, float64((uint64(hi)<<32|uint64(lo))&(1<<53-1))/0x1p53, Uniform(dtype.Double, seed, offset, index))
	}
}

// TestNormalWords spells the definition out, with the angle reduced by the
// library.
func TestNormalWords(t *testing.T) {
	const seed, offset = 77, 12
	require64 := func(want, got float64) {
		t.Helper()
		require.InDelta(t, want, got, 1e-14)
	}
	for pair := range int64(6) {
		b := Block(seed, offset/4, uint64(pair/2))
		n := 2 * (pair % 2)
		u := float32(math.FMA(float64(float32(b[n])), 0x1p-32, 0x1p-33))
		v := float32(b[n+1]) / 0x1p32
		radius, angle := math.Sqrt(-2*math.Log(float64(u))), 2*math.Pi*float64(v)
		require64(dtype.Round(dtype.Float, radius*math.Cos(angle)), Normal(dtype.Float, seed, offset, 2*pair))
		require64(dtype.Round(dtype.Float, radius*math.Sin(angle)), Normal(dtype.Float, seed, offset, 2*pair+1))
		require64(dtype.Round(dtype.BFloat16, radius*math.Cos(angle)), Normal(dtype.BFloat16, seed, offset, 2*pair))

		b = Block(seed, offset/4, uint64(pair))
		wide := float64((uint64(b[1])<<32|uint64(b[0]))>>11+1) / 0x1p53
		turn := float64((uint64(b[3])<<32|uint64(b[2]))>>11) / 0x1p53
		radius, angle = math.Sqrt(-2*math.Log(wide)), 2*math.Pi*turn
		require64(radius*math.Cos(angle), Normal(dtype.Double, seed, offset, 2*pair))
		require64(radius*math.Sin(angle), Normal(dtype.Double, seed, offset, 2*pair+1))
	}
}

// TestRuns compares runs of elements, from every place in a block, with single
// elements.
func TestRuns(t *testing.T) {
	const seed, offset = 5, 0x2_0000_0004
	for _, typ := range types {
		for first := range int64(9) {
			for n := range 11 {
				uniforms, normals := make([]float64, n), make([]float64, n)
				Uniforms(uniforms, typ, seed, offset, first)
				Normals(normals, typ, seed, offset, first)
				for k := range n {
					require.Equal(t, Uniform(typ, seed, offset, first+int64(k)), uniforms[k])
					require.Equal(t, Normal(typ, seed, offset, first+int64(k)), normals[k])
				}
			}
		}
	}
}

// TestNormalArguments looks at the ends of the ranges: a logarithm of 0 would be
// an infinity.
func TestNormalArguments(t *testing.T) {
	u, v := arguments32(0, 0)
	require.Equal(t, [2]float64{0x1p-33, 0}, [2]float64{u, v})
	u, v = arguments32(math.MaxUint32, math.MaxUint32)
	require.Equal(t, [2]float64{1, 1}, [2]float64{u, v})
	u, v = arguments32(0x0100_0001, 0x0100_0001) // 25 bits: ties to even
	require.Equal(t, [2]float64{0x1p-8, 0x1p-8}, [2]float64{u, v})
	u, v = arguments32(0x0100_0003, 3)
	require.Equal(t, [2]float64{0x1.000004p-8, 0x1.8p-31}, [2]float64{u, v})
	u, v = arguments64(0, 0)
	require.Equal(t, [2]float64{0x1p-53, 0}, [2]float64{u, v})
	u, v = arguments64(math.MaxUint64, math.MaxUint64)
	require.Equal(t, [2]float64{1, 1 - 0x1p-53}, [2]float64{u, v})
}

func TestSincosTurns(t *testing.T) {
	for i := range 4001 {
		v := float64(i) / 4000
		s, c := sincosTurns(v)
		require.InDelta(t, math.Sin(2*math.Pi*v), s, 1e-15, v)
		require.InDelta(t, math.Cos(2*math.Pi*v), c, 1e-15, v)
	}
	for quarter, want := range [][2]float64{{0, 1}, {1, 0}, {0, -1}, {-1, 0}, {0, 1}} {
		s, c := sincosTurns(float64(quarter) / 4)
		require.Equal(t, want, [2]float64{s + 0, c + 0}, quarter)
	}
}

const samples = 1 << 16

// distance returns the largest distance between the empirical distribution of x
// and the given one (Kolmogorov and Smirnov). Random samples exceed
// 1.95/sqrt(len(x)) once in a thousand times.
func distance(x []float64, distribution func(float64) float64) float64 {
	sort.Float64s(x)
	d := 0.0
	for i, v := range x {
		p := distribution(v)
		d = max(d, math.Abs(p-float64(i)/float64(len(x))), math.Abs(p-float64(i+1)/float64(len(x))))
	}
	return d
}

// moments returns the first four central moments, the mean for the first.
func moments(x []float64) (m [5]float64) {
	for _, v := range x {
		m[1] += v / float64(len(x))
	}
	for _, v := range x {
		for k := 2; k <= 4; k++ {
			m[k] += math.Pow(v-m[1], float64(k)) / float64(len(x))
		}
	}
	return m
}

// correlation returns that of consecutive elements.
func correlation(x []float64) float64 {
	m := moments(x)
	sum := 0.0
	for i := range len(x) - 1 {
		sum += (x[i] - m[1]) * (x[i+1] - m[1])
	}
	return sum / float64(len(x)-1) / m[2]
}

func draw(f func(dtype.Type, uint64, uint64, int64) float64, typ dtype.Type, seed uint64) []float64 {
	x := make([]float64, samples)
	for i := range x {
		x[i] = f(typ, seed, 40, int64(i))
	}
	return x
}

func TestUniformStatistics(t *testing.T) {
	for _, typ := range types {
		for seed := range uint64(3) {
			x := draw(Uniform, typ, seed)
			for _, v := range x {
				require.True(t, 0 <= v && v < 1 && v == dtype.Round(typ, v), "%s %g", typ, v)
			}
			step := 0.0 // between values
			if typ != dtype.Double {
				step = math.Ldexp(1, -precision(typ))
			}
			require.InDelta(t, 0, correlation(x), 5/math.Sqrt(samples), typ)
			m := moments(x)
			require.InDelta(t, 0.5-step/2, m[1], 5*math.Sqrt(1./12/samples), "mean of %s", typ)
			require.InDelta(t, (1-step*step)/12, m[2], 5*math.Sqrt(1./180/samples), "variance of %s", typ)
			require.Less(t, distance(x, func(v float64) float64 { return v }), 1.95/math.Sqrt(samples)+step, typ)
		}
	}
}

func TestNormalStatistics(t *testing.T) {
	normal := func(v float64) float64 { return math.Erfc(-v/math.Sqrt2) / 2 }
	for _, typ := range types {
		for seed := range uint64(3) {
			x := draw(Normal, typ, seed)
			for _, v := range x {
				require.Equal(t, v, dtype.Round(typ, v), typ)
			}
			require.InDelta(t, 0, correlation(x), 5/math.Sqrt(samples), typ)
			m := moments(x)
			require.InDelta(t, 0, m[1], 5/math.Sqrt(samples), "mean of %s", typ)
			if typ.Size() > 1 { // the float8 are too coarse for the rest
				require.InDelta(t, 1, m[2], 5*math.Sqrt(2./samples), "variance of %s", typ)
				require.InDelta(t, 0, m[3], 5*math.Sqrt(6./samples), "third moment of %s", typ)
				require.InDelta(t, 3, m[4], 5*math.Sqrt(96./samples), "fourth moment of %s", typ)
			}
			if typ == dtype.Float || typ == dtype.Double {
				require.Less(t, distance(x, normal), 1.95/math.Sqrt(samples), typ)
			}
		}
	}
}

// TestStreamsDiffer looks for values shared by seeds, offsets and subsequences
// next to each other.
func TestStreamsDiffer(t *testing.T) {
	seen := map[[4]uint32]bool{}
	for a := range uint64(10) {
		for b := range uint64(10) {
			for c := range uint64(10) {
				seen[Block(a, b, c)] = true
				seen[Block(a<<32, b<<32, c<<32)] = true
			}
		}
	}
	require.Len(t, seen, 1999) // (0, 0, 0) is in both
}

func TestNoRandom(t *testing.T) {
	for _, typ := range []dtype.Type{dtype.Int, dtype.Bool, dtype.ComplexFloat, dtype.Float8E8M0FNU, dtype.Null} {
		require.Panics(t, func() { Uniform(typ, 0, 0, 0) }, typ)
		require.Panics(t, func() { Normal(typ, 0, 0, 0) }, typ)
	}
}

func BenchmarkUniform(b *testing.B) {
	for i := int64(0); b.Loop(); i++ {
		Uniform(dtype.Float, 1, 0, i)
	}
}

func BenchmarkNormal(b *testing.B) {
	for i := int64(0); b.Loop(); i++ {
		Normal(dtype.Float, 1, 0, i)
	}
}
