package numerics

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fast is a float32 function and the float64 function that defines it.
type fast struct {
	name    string
	f       func(float32) float32
	exact   func(float64) float64
	low, up float32 // where a benchmark draws from
}

var fasts = []fast{
	{"Exp32", Exp32, math.Exp, -20, 20},
	{"Sigmoid32", Sigmoid32, Sigmoid, -10, 10},
	{"Tanh32", Tanh32, math.Tanh, -5, 5},
	{"Erf32", Erf32, math.Erf, -4, 4},
	{"Log32", Log32, math.Log, 0, 100},
	{"Sin32", Sin32, math.Sin, -20, 20},
	{"Cos32", Cos32, math.Cos, -20, 20},
}

// ulp32 returns the distance of consecutive float32 numbers at y.
func ulp32(y float64) float64 {
	if y == 0 {
		return 0x1p-149
	}
	_, e := math.Frexp(y)
	return math.Ldexp(1, max(e, -125)-24)
}

// TestFastError visits float32 numbers of every exponent and sign.
func TestFastError(t *testing.T) {
	step := uint32(4093)
	if testing.Short() {
		step = 65521
	}
	for _, fn := range fasts {
		worst, at := 0.0, float32(0)
		for i := uint64(0); i < 1<<32; i += uint64(step) {
			x := math.Float32frombits(uint32(i))
			got, want := float64(fn.f(x)), fn.exact(float64(x))
			if float64(float32(want)) == got || got != got && want != want {
				continue
			}
			if e := math.Abs(got-want) / ulp32(want); !(e <= worst) {
				worst, at = e, x
			}
		}
		require.LessOrEqual(t, worst, 0.51, "%s(%g)", fn.name, at)
	}
}

// TestFastNearOnes visits the neighbours of arguments where something cancels.
func TestFastNearOnes(t *testing.T) {
	for _, fn := range fasts {
		for _, center := range []float64{0.5, 0.625, 1, math.Pi / 2, math.Pi, 3 * math.Pi / 2, 355, 1e5 * math.Pi, 411774 * math.Pi, 0x1p19, 4, 88.72, -87.33, -103.97} {
			x := math.Float32frombits(math.Float32bits(float32(center)) - 2000)
			for range 4000 {
				for _, x := range []float32{x, -x} {
					got, want := fn.f(x), fn.exact(float64(x))
					if float32(want) != got && got == got {
						require.LessOrEqual(t, math.Abs(float64(got)-want), 0.51*ulp32(want), "%s(%g)", fn.name, x)
					}
					require.Equal(t, want != want, got != got, "%s(%g)", fn.name, x)
				}
				x = math.Nextafter32(x, float32(inf))
			}
		}
	}
}

func TestFastSpecialValues(t *testing.T) {
	zero := math.Copysign(0, -1)
	for _, fn := range fasts {
		for _, x := range []float64{0, zero, inf, -inf, nan, math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149} {
			want, got := fn.exact(x), fn.f(float32(x))
			if want != want {
				require.True(t, got != got, "%s(%g) = %g", fn.name, x, got)
				continue
			}
			require.Equal(t, float32(want), got, "%s(%g)", fn.name, x)
			require.Equal(t, math.Signbit(want), math.Signbit(float64(got)), "sign of %s(%g)", fn.name, x)
		}
	}
}

func BenchmarkFast(b *testing.B) {
	const n = 4096
	src, dst := make([]float32, n), make([]float32, n)
	for _, fn := range fasts {
		for i := range src {
			// Low-discrepancy, so that no branch is predicted by habit.
			_, u := math.Modf(float64(i) * 0.6180339887498949)
			src[i] = fn.low + float32(u)*(fn.up-fn.low)
		}
		perElement := func(b *testing.B, f func(float32) float32) {
			for b.Loop() {
				for i, x := range src {
					dst[i] = f(x)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		}
		b.Run(fn.name, func(b *testing.B) { perElement(b, fn.f) })
		b.Run(fn.name+"/math", func(b *testing.B) {
			perElement(b, func(x float32) float32 { return float32(fn.exact(float64(x))) })
		})
	}
}
