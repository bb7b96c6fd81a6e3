package cuda_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// randomKernel draws element i of a stream of the run, or with explicit numbers
// for stream < 0. The parameters are arguments unless they are constants.
func randomKernel(name string, op *core.OpInfo, t dtype.Type, stream int, constants bool) *kir.Kernel {
	b := kir.NewBuilder(name, dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 1<<24))
	y := b.Global("y", t, n)
	k := b.Kernel()
	argument := func(name string, kind kir.ParameterKind) {
		k.Arguments = append(k.Arguments, kir.Argument{Name: name, Kind: kind})
	}
	v := kir.Value{Kind: kir.Random, DType: t, Op: op, Stream: stream}
	if constants {
		v.Args = []kir.ValueID{b.Float(dtype.Double, 0), b.Float(dtype.Double, 1)}
	} else {
		v.Args = []kir.ValueID{b.Scalar("low", dtype.Double), b.Scalar("high", dtype.Double)}
	}
	if stream < 0 {
		v.Seed, v.Offset = b.Scalar("seed", dtype.Int), b.Scalar("offset", dtype.Int)
	} else {
		argument("seed", kir.RandomSeed)
		argument("offset", kir.RandomOffset)
	}
	i := b.T.Add(b.T.Mul(b.BlockIndex(0, b.T.CeilDiv(n, b.T.Int(64))), b.T.Int(64)), b.Thread(0, 64))
	v.Index = i
	b.If(b.T.Lt(i, n), func() { b.Store(b.Value(v), y, i) }, nil)
	return k
}

// TestRandom draws numbers on the CPU: uniform ones are those of the definition
// bit for bit, normal ones to a few units of float.
func TestRandom(t *testing.T) {
	const n = 5000
	type draw struct {
		op         *core.OpInfo
		t          dtype.Type
		a, b       float64
		seed, from uint64 // with the stream
	}
	var kernels []*kir.Kernel
	var launches []*hostshim.Launch
	var draws []draw
	for _, dt := range []dtype.Type{dtype.Float, dtype.Double, dtype.Half, dtype.BFloat16} {
		for _, op := range []*core.OpInfo{core.UniformOp, core.NormalOp} {
			for i, parameters := range [][2]float64{{0, 1}, {0, 1}, {-3, 5.7}, {1, 1 + 0x1p-20}, {5, 5}, {-0x1p-30, 0}, {-1, -0.999}} {
				d := draw{op, dt, parameters[0], parameters[1], 0x123456789abcdef, 1<<33 + 12}
				stream := i%3 - 1
				k := randomKernel(fmt.Sprintf("%s_%s_%d", op.Name, dt.Text(), i), op, dt, stream, i == 1)
				require.NoError(t, k.Verify())
				arguments := []any{n, make([]byte, n*dt.Size())}
				if i != 1 {
					arguments = append(arguments, scalar.Value{Type: dtype.Double, Re: d.a}, scalar.Value{Type: dtype.Double, Re: d.b})
				}
				if stream < 0 {
					arguments = append(arguments, scalar.Value{Type: dtype.Int, I: int64(d.seed)}, scalar.Value{Type: dtype.Int, I: int64(d.from)})
				} else {
					arguments = append(arguments, int(d.seed), int(d.from))
					d.from += 4 * uint64(stream)
				}
				kernels, launches, draws = append(kernels, k), append(launches, launchOf(t, k, arguments...)), append(draws, d)
			}
		}
	}
	require.NoError(t, build(t, kernels...).Run(launches...))
	for j, d := range draws {
		for i := range n {
			want := d.op.RandomElement(d.t, d.a, d.b, d.seed, d.from, int64(i))
			got := load(d.t, launches[j].Buffers[0].Bytes, i).Re
			if d.op == core.UniformOp {
				require.Equal(t, want, got, "%s element %d", kernels[j].Name, i)
				continue
			}
			bound := 16 * math.Abs(d.b) * 0x1p-24 // of sqrt(-2 ln u) up to 6 and its factors
			unit := map[dtype.Type]float64{dtype.Float: 0x1p-24, dtype.Double: 0x1p-53, dtype.Half: 0x1p-11, dtype.BFloat16: 0x1p-8}[d.t]
			if d.t == dtype.Double {
				bound = 64 * math.Abs(d.b) * 0x1p-53
			}
			bound += 2 * unit * (math.Abs(want) + math.Abs(d.b))
			require.InDelta(t, want, got, bound, "%s element %d", kernels[j].Name, i)
		}
	}
}

func TestRandomOfOtherTypes(t *testing.T) {
	k := randomKernel("r", core.UniformOp, dtype.Float8E4M3FN, 0, true)
	_, err := cuda.Print(k, cuda.Options{Arch: 90})
	require.ErrorContains(t, err, "random numbers of Float8_e4m3fn")
}

// TestRandomInMemory: the text differs in where seed and offset are alone.
func TestRandomInMemory(t *testing.T) {
	k := randomKernel("r", core.NormalOp, dtype.Half, 1, false)
	byValue, err := cuda.Print(k, cuda.Options{Arch: 90})
	require.NoError(t, err)
	inMemory, err := cuda.Print(k, cuda.Options{Arch: 90, RandomInMemory: true})
	require.NoError(t, err)
	want := strings.NewReplacer("PhiloxKeys seed;", "KeysInMemory seed;", "unsigned long long offset;", "const unsigned long long* offset;",
		"p.seed", "philoxKeys(__ldg(p.seed.seed))", "p.offset", "__ldg(p.offset)").Replace(byValue.KernelText())
	require.Equal(t, want, inMemory.KernelText())
	require.NotEqual(t, byValue.Text, inMemory.Text)
	require.Equal(t, 2, strings.Count(inMemory.KernelText(), "__ldg(p."))
}
