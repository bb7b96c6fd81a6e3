package hostshim_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
)

// TestMistakes shows what ends a program with an error. Each kernel has one
// pointer to 64 ints.
func TestMistakes(t *testing.T) {
	const head = "struct %_Parameters {\n  int* y;\n};\n\nextern \"C\" __global__ void __launch_bounds__(64) %(const __grid_constant__ %_Parameters p) {\n  const int tx = threadIdx.x;\n"
	const memory = "#include <stdio.h>\n" // any text may stand before the kernels
	mistakes := []struct{ name, body, problem string }{
		{"beyond", "p.y[64 + tx] = 1;", "a thread wrote beyond the buffer at byte 0 of the parameters"},
		{"before", "p.y[tx - 1] = 1;", "a thread wrote beyond the buffer"},
		{"shared", "host::blockMemory()[64 + tx] = 1;", "a thread of the block wrote beyond its shared memory"},
		{"divergent", "if (tx < 32) __syncthreads();", "threads wait at a barrier or a shuffle that others do not reach; 32 of 64 threads have ended"},
		{"lanes", "if (tx % 2) __syncwarp();", "threads wait at a barrier or a shuffle that others do not reach"},
		{"mixed", "if (tx % 2) __syncwarp(); else p.y[tx] = __shfl_xor_sync(0xffffffff, tx, 2);", "others at a barrier of another kind or a shuffle"},
		{"waiting", "while (tx >= 0) host::pause();", "threads wait for memory that no thread changes"},
		{"overflow", "p.y[tx] = 0x7fffffff + tx;", "signed integer overflow"},
		{"shift", "p.y[tx] = 1 << (tx + 1);", "shift exponent"},
		{"misaligned", "*(uint4*)(p.y + tx) = uint4{};", "misaligned address"},
		{"copy", "host::copyAsync(host::blockMemory(), p.y + tx, 16, 16);", "block (0, 0, 0), thread (1, 0, 0): an asynchronous copy is misaligned"},
	}
	s := cuda.Source{Text: memory}
	for _, m := range mistakes {
		s.Text += strings.ReplaceAll(head, "%", m.name) + "  " + m.body + "\n}\n\n"
		s.Kernels = append(s.Kernels, cuda.Function{Name: m.name, Parameters: m.name + "_Parameters"})
	}
	p, err := hostshim.Build(t.TempDir(), s)
	require.NoError(t, err)
	for _, m := range mistakes {
		l := &hostshim.Launch{Kernel: m.name, Grid: [3]int64{1, 1, 1}, Block: [3]int64{64, 1, 1}, Shared: 64,
			Parameters: make([]byte, 8), Buffers: []hostshim.Buffer{{Bytes: make([]byte, 256)}}}
		require.ErrorContains(t, p.Run(l), m.problem, m.name)
	}
	require.ErrorContains(t, p.Run(&hostshim.Launch{Kernel: "none", Grid: [3]int64{1, 1, 1}, Block: [3]int64{1, 1, 1}}), "there is no such kernel")
}

// TestOrders shows that a missing barrier, and a missing wait, change what a
// kernel computes in one of the orders of threads.
func TestOrders(t *testing.T) {
	s := cuda.Source{Text: `
struct race_Parameters {
  int* y;
};

extern "C" __global__ void __launch_bounds__(64) race(const __grid_constant__ race_Parameters p) {
  int* const s = (int*)host::blockMemory();
  s[threadIdx.x] = threadIdx.x;
  p.y[threadIdx.x] = s[63 - threadIdx.x];
}

struct early_Parameters {
  int* y;
};

extern "C" __global__ void __launch_bounds__(64) early(const __grid_constant__ early_Parameters p) {
  int* const s = (int*)host::blockMemory();
  host::copyAsync(s + threadIdx.x, p.y + threadIdx.x, 4, 4);
  host::commitAsync();
  p.y[threadIdx.x] = s[threadIdx.x] + 1;
}

struct blocks_Parameters {
  int* y;
};

extern "C" __global__ void __launch_bounds__(64) blocks(const __grid_constant__ blocks_Parameters p) {
  if (threadIdx.x == 0) p.y[0] = blockIdx.x;
}
`, Kernels: []cuda.Function{{Name: "race", Parameters: "race_Parameters"}, {Name: "early", Parameters: "early_Parameters"}, {Name: "blocks", Parameters: "blocks_Parameters"}}}
	p, err := hostshim.Build(t.TempDir(), s)
	require.NoError(t, err)
	run := func(kernel string, reverse bool) []int32 {
		l := &hostshim.Launch{Kernel: kernel, Grid: [3]int64{3, 1, 1}, Block: [3]int64{64, 1, 1}, Shared: 256, Reverse: reverse,
			Parameters: make([]byte, 8), Buffers: []hostshim.Buffer{{Bytes: make([]byte, 256)}}}
		require.NoError(t, p.Run(l))
		out := make([]int32, 64)
		for i := range out {
			out[i] = int32(binary.LittleEndian.Uint32(l.Buffers[0].Bytes[4*i:]))
		}
		return out
	}
	require.NotEqual(t, run("race", false), run("race", true))
	require.NotEqual(t, int32(1), run("early", false)[5])
	require.Equal(t, int32(2), run("blocks", false)[0])
	require.Equal(t, int32(0), run("blocks", true)[0])
}
