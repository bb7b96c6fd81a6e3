package cuda_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var features = []feature{
	{name: "vectors", note: "Vector accesses of 16 bytes, a narrow type, an unrolled loop over registers.", kernel: vectors,
		arguments: func() []any {
			return []any{1504, memoryOf(counted(dtype.BFloat16, 1504, sample)), room(dtype.BFloat16, 1504)}
		},
		outputs: map[int][]scalar.Value{2: counted(dtype.BFloat16, 1504, func(i int) float64 { return sample(i) / (1 + math.Exp(-sample(i))) })}},
	{name: "moves", note: "Moves of 2, 4 and 8 bytes between global, shared and local memory; Bools that are moved are bytes.", kernel: moves,
		arguments: func() []any {
			return []any{memoryOf(counted(dtype.Half, 64, sample)), room(dtype.Half, 64), memoryOf(counted(dtype.Bool, 64, func(i int) float64 { return float64(i % 3) })), room(dtype.Bool, 64)}
		},
		outputs: map[int][]scalar.Value{
			1: counted(dtype.Half, 64, func(i int) float64 { return sample(i/4*4 + [4]int{2, 3, 0, 3}[i%4]) }),
			3: counted(dtype.Bool, 64, func(i int) float64 {
				if i%4 == 0 {
					return float64(1 - min(1, i%3))
				}
				return float64(i % 3)
			})}},
	{name: "policies", note: "Loads and stores by policies of the second cache: of what is constant, and of what is not.", kernel: policies,
		arguments: func() []any {
			return []any{memoryOf(counted(dtype.Float, 384, sample)), memoryOf(counted(dtype.Float, 384, func(i int) float64 { return sample(i / 2) })), room(dtype.Float, 384)}
		},
		outputs: map[int][]scalar.Value{1: counted(dtype.Float, 384, sample),
			2: counted(dtype.Float, 384, func(i int) float64 { return sample(i) + sample(i/2) })}},
	{name: "copy_policies", note: "Asynchronous copies by policies of the second cache, with guards and without.", kernel: copyPolicies,
		arguments: func() []any { return []any{memoryOf(counted(dtype.Float, 576, sample)), room(dtype.Float, 576)} },
		outputs: map[int][]scalar.Value{1: counted(dtype.Float, 576, func(i int) float64 {
			if i/32%2 == 1 && i%32 >= 16 {
				return 0
			}
			return sample(i)
		})}},
	{name: "ticket", note: "A reduction over warps, block and grid; the last block to arrive combines.", kernel: ticket,
		arguments: func() []any {
			return []any{1000, memoryOf(counted(dtype.Float, 1000, sample)), room(dtype.Float, 1), room(dtype.Float, 8), room(dtype.Int, 1)}
		},
		outputs: map[int][]scalar.Value{2: counted(dtype.Float, 1, func(int) float64 { return sampleSum(0, 1000) }), 4: counted(dtype.Int, 1, func(int) float64 { return 0 })}},
	{name: "grid_barrier", note: "A barrier of the grid.", kernel: gridBarrier,
		arguments: func() []any {
			return []any{memoryOf(counted(dtype.Float, 96, sample)), room(dtype.Float, 96), room(dtype.Int, 1)}
		},
		outputs: map[int][]scalar.Value{0: counted(dtype.Float, 96, func(i int) float64 { return 2 * sample(i) }), 1: counted(dtype.Float, 96, func(i int) float64 { return 2 * sample(95-i) })}},
	{name: "pipeline", note: "Asynchronous copies, with a guard, waited for.", kernel: pipeline,
		arguments: func() []any {
			return []any{5, memoryOf(counted(dtype.Float, 5*256, sample)), room(dtype.Float, 64)}
		},
		outputs: map[int][]scalar.Value{2: counted(dtype.Float, 64, func(i int) float64 {
			s := 0.0
			for tile := range 5 {
				at := tile*256 + 4*(63-i)
				s += sampleSum(at, at+4)
			}
			return s
		})}},
	{name: "indices", note: "Index expressions: signs, parentheses, choices, names, 64 bits.", kernel: indices,
		arguments: func() []any { return []any{40, 50, room(dtype.Int, 320)} },
		outputs: map[int][]scalar.Value{2: counted(dtype.Int, 320, func(at int) float64 {
			i, column := int64(at/8), at%8
			moved := i*3 - 50
			floor := int64(math.Floor(float64(moved) / 7))
			choice := int64(1 << 40)
			if moved < 0 || 9 <= i && i < 12 {
				choice = -moved
			}
			return float64([8]int64{floor, moved - 7*floor, i / 7, i % 7 * (i - 2), min(max(moved, -5), 40), choice, -1 - i, -2 * moved}[column])
		})}},
	{name: "scalars", note: "Numbers from the host and constants.", kernel: scalars,
		arguments: func() []any {
			return []any{room(dtype.Float, 3), room(dtype.ComplexFloat, 3), room(dtype.Int, 3), scalar.Value{Type: dtype.Float, Re: 2.5},
				scalar.Value{Type: dtype.Half, Re: 0.25}, scalar.Value{Type: dtype.Bool, I: 1}, scalar.Value{Type: dtype.ComplexFloat, Re: 2, Im: 1},
				scalar.Value{Type: dtype.Int, I: 5}}
		},
		outputs: map[int][]scalar.Value{0: counted(dtype.Float, 3, func(int) float64 { return 2.75 }),
			1: {{Type: dtype.ComplexFloat, Re: 5.5, Im: 4}, {Type: dtype.ComplexFloat, Re: 5.5, Im: 4}, {Type: dtype.ComplexFloat, Re: 5.5, Im: 4}},
			2: {{Type: dtype.Int, I: math.MinInt64}, {Type: dtype.Int, I: math.MaxInt64 - 4}, {Type: dtype.Int, I: math.MaxInt64 - 9}}}},
	{name: "sharing", note: "Values that are read twice have names; a value rounded by a cast stays rounded.", kernel: sharing,
		arguments: func() []any {
			return []any{memoryOf(counted(dtype.Float, 32, func(i int) float64 { return sample(i) / 8 })), room(dtype.Float, 32), room(dtype.Half, 32)}
		},
		outputs: map[int][]scalar.Value{2: counted(dtype.Half, 32, func(i int) float64 { return sample(i) * sample(i) / 64 })}},
	{name: "naming", note: "Names that C++ does not take.", kernel: naming,
		arguments: func() []any { return []any{room(dtype.Float, 4), room(dtype.Float, 4), room(dtype.Float, 4)} },
		outputs:   map[int][]scalar.Value{2: counted(dtype.Float, 4, func(int) float64 { return 1 })}},
	{name: "atomics", note: "Atomic additions of each type.", kernel: atomics,
		arguments: func() []any {
			return []any{room(dtype.Int32, 1), room(dtype.Int, 1), room(dtype.UInt64, 1), room(dtype.Float, 1), room(dtype.Double, 1), room(dtype.Half, 1), room(dtype.BFloat16, 1)}
		},
		outputs: map[int][]scalar.Value{0: {{Type: dtype.Int32, I: 96}}, 1: {{Type: dtype.Int, I: 96}}, 2: {{Type: dtype.UInt64, I: 96}}, 3: {{Type: dtype.Float, Re: 16}},
			4: {{Type: dtype.Double, Re: 16}}, 5: {{Type: dtype.Half, Re: 16}}, 6: {{Type: dtype.BFloat16, Re: 16}}}},
	{name: "shuffles", note: "Shuffles of each mode, and of types that have none of their own.", kernel: shuffles,
		arguments: func() []any {
			return []any{memoryOf(counted(dtype.Half, 32, sample)), room(dtype.Half, 32), room(dtype.Bool, 32), room(dtype.ComplexFloat, 32)}
		},
		outputs: map[int][]scalar.Value{
			1: counted(dtype.Half, 32, func(i int) float64 {
				if i%8+3 < 8 {
					return sample(i + 3)
				}
				return sample(i)
			}),
			2: counted(dtype.Bool, 32, func(i int) float64 { return max(min(sample(i^1), 1), 0) })}},
	{name: "warp_maxima", note: "The largest element of a warp.", kernel: warpMaxima,
		arguments: func() []any {
			return []any{warpElements(), room(dtype.Float, 32*len(warpLargest)), room(dtype.Float, 32*len(warpLargest))}
		},
		outputs: map[int][]scalar.Value{
			1: counted(dtype.Float, 32*len(warpLargest), func(i int) float64 { return warpLargest[i/32] }),
			2: counted(dtype.Float, 32*len(warpLargest), func(i int) float64 { return 1 / warpLargest[i/32] })}},
	{name: "clusters", note: "A barrier of a cluster.", kernel: clusters, arch: 90,
		arguments: func() []any { return []any{room(dtype.Int32, 4), room(dtype.Int32, 4)} },
		outputs:   map[int][]scalar.Value{1: counted(dtype.Int32, 4, func(i int) float64 { return float64(i ^ 1) })}},
	{name: "peers", note: "Stores in the shared memory of another block of a cluster.", kernel: peers, arch: 90,
		arguments: func() []any { return []any{memoryOf(counted(dtype.Float, 64, sample)), room(dtype.Float, 64)} },
		outputs:   map[int][]scalar.Value{1: counted(dtype.Float, 64, func(i int) float64 { return sample(i/32*32 + (i+24)%32) })}},
	{name: "arrivals", note: "Stores in the shared memory of another block of a cluster, which counts them.", kernel: arrivals, arch: 90,
		arguments: func() []any { return []any{memoryOf(counted(dtype.Float, 64, sample)), room(dtype.Double, 64)} },
		outputs:   map[int][]scalar.Value{1: counted(dtype.Double, 64, func(i int) float64 { return 2 * sample(i/32*32+(i+24)%32) })}},
	{name: "choices", note: "Vectors of one of three tensors: one load from an address that is chosen; two loads where memory is of two kinds.", kernel: choices,
		arguments: func() []any {
			of := func(k int) any {
				return memoryOf(counted(dtype.Float, 128, func(i int) float64 { return sample(i + k) }))
			}
			return []any{of(0), of(1), of(2), room(dtype.Float, 256)}
		},
		outputs: map[int][]scalar.Value{3: counted(dtype.Float, 256, func(i int) float64 {
			switch t := i % 128 / 4; {
			case t < 9:
				return sample(i % 128)
			case t < 20:
				return sample(i%128 + 1)
			}
			return sample(i%128 + 2)
		})}},
	{name: "branches", note: "Conditions with either side empty, values of the thread in expressions.", kernel: branches,
		arguments: func() []any { return []any{room(dtype.Int32, 40)} },
		outputs: map[int][]scalar.Value{0: counted(dtype.Int32, 40, func(i int) float64 {
			switch {
			case i < 10:
				return 1
			case i < 20 || i > 30:
				return 2
			}
			return 7
		})}},
}

func TestGolden(t *testing.T) {
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			k := f.kernel()
			require.NoError(t, k.Verify())
			body, needs, err := cuda.Body(k, cuda.Options{Arch: 90})
			require.NoError(t, err)
			text := "// " + f.note + "\n// Uses: " + strings.Join(needs, ", ") + ".\n\n" + body
			file := filepath.Join("testdata", f.name+".cu")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), text)
		})
	}
	files, err := filepath.Glob("testdata/*.cu")
	require.NoError(t, err)
	require.Len(t, files, len(features), "files without a feature")
}

// TestFeaturesRun runs the kernels on the CPU, in two orders of threads.
func TestFeaturesRun(t *testing.T) {
	var kernels []*kir.Kernel
	for _, f := range features {
		kernels = append(kernels, f.kernel())
	}
	s, err := cuda.PrintAll(kernels, cuda.Options{Arch: 90})
	require.NoError(t, err)
	s.Text += layoutChecks(kernels, s.Kernels, !*onGPU)
	p := buildText(t, s)
	for i, f := range features {
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s reversed %v", f.name, reverse), func(t *testing.T) {
				arguments := f.arguments()
				l := launchOf(t, kernels[i], arguments...)
				l.Kernel, l.Reverse = s.Kernels[i].Name, reverse
				require.NoError(t, p.Run(l))
				for at, want := range f.outputs {
					for j, w := range want {
						require.Empty(t, differs(w, load(w.Type, arguments[at].([]byte), j), 1), "argument %d, element %d", at, j)
					}
				}
			})
		}
	}
}

// TestFeaturesCompile compiles the kernels with NVRTC: none spills.
func TestFeaturesCompile(t *testing.T) {
	for _, arch := range []struct {
		name string
		sm   int
	}{{"sm_80", 80}, {"sm_90a", 90}} {
		var kernels []*kir.Kernel
		for _, f := range features {
			if f.arch <= arch.sm {
				kernels = append(kernels, f.kernel())
			}
		}
		s, err := cuda.PrintAll(kernels, cuda.Options{Arch: arch.sm})
		require.NoError(t, err)
		c := cuda.Compile(t, nvrtc.Compiler{}, arch.name, []string{s.Text + layoutChecks(kernels, s.Kernels, false)})[0]
		require.True(t, c.OK, "%s", c.Log)
		require.Empty(t, c.Log)
		for _, function := range s.Kernels {
			name := function.Name
			f := c.Functions[name]
			require.Zero(t, f.SpillStores+f.SpillLoads+f.Stack, name)
			t.Logf("%s %s: %d registers", arch.name, name, f.Registers)
		}
	}
}

// layoutChecks asks the compiler whether structures are as cuda.Layout says.
// NVRTC has no offsetof; the two compilers lay structures out alike.
func layoutChecks(kernels []*kir.Kernel, functions []cuda.Function, offsets bool) string {
	var b strings.Builder
	for i, k := range kernels {
		layout := cuda.Layout(k)
		structure := functions[i].Parameters
		fmt.Fprintf(&b, "static_assert(sizeof(%s) == %d);\n", structure, layout.Size)
		for j, name := range cuda.FieldNames(k) {
			fmt.Fprintf(&b, "static_assert(sizeof(%s::%s) == %d);\n", structure, name, layout.Fields[j].Size)
			if offsets {
				fmt.Fprintf(&b, "static_assert(offsetof(%s, %s) == %d);\n", structure, name, layout.Fields[j].Offset)
			}
		}
	}
	return b.String()
}

// TestPrintIsPure prints the same kernels in several goroutines.
func TestPrintIsPure(t *testing.T) {
	var kernels []*kir.Kernel
	for _, f := range features {
		kernels = append(kernels, f.kernel())
	}
	want, err := cuda.PrintAll(kernels, cuda.Options{Arch: 90})
	require.NoError(t, err)
	texts := make([]string, 8)
	var group sync.WaitGroup
	for i := range texts {
		group.Go(func() {
			s, err := cuda.PrintAll(kernels, cuda.Options{Arch: 90})
			if err == nil {
				texts[i] = s.Text
			}
		})
	}
	group.Wait()
	for _, text := range texts {
		require.Equal(t, want.Text, text)
	}
}

// TestUnsupported shows that what CUDA or the architecture lacks is an error.
func TestUnsupported(t *testing.T) {
	_, err := cuda.Print(clusters(), cuda.Options{Arch: 80})
	require.ErrorContains(t, err, "clusters before compute capability 9.0")
	b := kir.NewBuilder("k", dtype.Int32)
	one := b.T.Int(1)
	to := b.Global("to", dtype.Float8E5M2, one)
	b.Add(kir.AtomicAdd{Dst: b.At(to, b.T.Int(0)), Value: b.Float(dtype.Float8E5M2, 1), Old: kir.NoSymbol})
	_, err = cuda.Print(b.Kernel(), cuda.Options{Arch: 90})
	require.ErrorContains(t, err, "kernel k cannot be written in CUDA: an atomic addition to elements of Float8_e5m2")
	_, err = cuda.PrintAll([]*kir.Kernel{branches(), branches()}, cuda.Options{})
	require.ErrorContains(t, err, "two kernels called branches")
}
