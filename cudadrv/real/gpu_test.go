//go:build cgo

package real

import (
	"flag"
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"nvfuser_go/cudadrv"
)

var gpu = flag.Bool("gpu", false, "use the machine's driver and run kernels on its first device, instead of the libcuda of testdata")

// TestGPU compiles, loads and launches on a device, and leaves other contexts as
// they were.
func TestGPU(t *testing.T) {
	if !*gpu {
		t.Skip("-gpu is not set")
	}
	d := Driver{}
	path, err := d.LibraryPath()
	require.NoError(t, err)
	n, err := d.Devices()
	require.NoError(t, err)
	require.Positive(t, n)
	p, err := d.Properties(0)
	require.NoError(t, err)
	c, err := d.Compiler()
	require.NoError(t, err)
	t.Logf("%s; %v, %s; %+v", path, c, c.Path, p)

	const source = `struct P { const float* x; float* y; unsigned long long seed; int n; };
extern "C" __global__ void scale(__grid_constant__ const P p) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < p.n ? p.x[i] : 0.f;
  __syncthreads();
  if (i < p.n) p.y[i] = tile[threadIdx.x] * p.seed;
}`
	begin := time.Now()
	code, err := d.Compile(source, cudadrv.CompileOptions{Arch: p.Arch()})
	require.NoError(t, err)
	compiled := time.Now()
	const shared = 100 << 10 // more than without asking
	f, err := d.Load(0, code.Cubin, "scale", cudadrv.LoadOptions{DynamicShared: shared})
	require.NoError(t, err)
	t.Logf("compile %v, load %v, %+v", compiled.Sub(begin), time.Since(compiled), f)
	blocks, err := d.Occupancy(f, 256, shared)
	require.NoError(t, err)
	require.Equal(t, p.SharedPerProcessor/(shared+p.SharedReserved), blocks)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context, err := cu.CurrentContext()
	require.NoError(t, err)
	require.Zero(t, *(*uintptr)(unsafe.Pointer(&context)), "loading leaves no context behind")
	const count = 1000
	l := &cudadrv.LaunchBlock{Function: f, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, Shared: shared, Arguments: make([]byte, 32),
		Patches: []cudadrv.Patch{{Offset: 0, Size: 8, Value: cudadrv.InputPointer}, {Offset: 8, Size: 8, Value: cudadrv.OutputPointer}, {Offset: 16, Size: 8, Value: cudadrv.RandomSeed}}}
	*(*int32)(unsafe.Pointer(&l.Arguments[24])) = count
	// A launch makes the context current on a thread that has none; an empty one
	// does so before there is memory.
	*(*int32)(unsafe.Pointer(&l.Arguments[24])) = 0
	require.NoError(t, d.Launch(l, cudadrv.CallValues{Inputs: []uintptr{0}, Outputs: []uintptr{0}}, 0))
	*(*int32)(unsafe.Pointer(&l.Arguments[24])) = count

	x, err := cu.MemAlloc(4 * count)
	require.NoError(t, err)
	y, err := cu.MemAlloc(4 * count)
	require.NoError(t, err)
	host := make([]float32, count)
	for i := range host {
		host[i] = float32(i) + 0.5
	}
	require.NoError(t, cu.MemcpyHtoD(x, unsafe.Pointer(&host[0]), 4*count))
	v := cudadrv.CallValues{Inputs: []uintptr{uintptr(x)}, Outputs: []uintptr{uintptr(y)}, Seed: 3}
	require.NoError(t, d.Launch(l, v, 0))
	result := make([]float32, count)
	require.NoError(t, cu.MemcpyDtoH(unsafe.Pointer(&result[0]), y, 4*count))
	for i := range result {
		require.Equal(t, 3*(float32(i)+0.5), result[i])
	}

	prepared, err := NewLaunch(l, cudadrv.ValueCounts{Inputs: 1, Outputs: 1})
	require.NoError(t, err)
	defer prepared.Free()
	best := math.Inf(1)
	for range 20 {
		begin := time.Now()
		for range 100 {
			require.NoError(t, prepared.Start([]uint64{uint64(x), uint64(y), 3, 0}, 0))
		}
		best = min(best, float64(time.Since(begin).Microseconds())/100)
		require.NoError(t, cu.Synchronize())
	}
	t.Logf("a launch takes %.2f us", best)

	tooMany := *l
	tooMany.Block = [3]uint32{2048, 1, 1}
	require.ErrorContains(t, d.Launch(&tooMany, v, 0), "CUDA_ERROR_INVALID_VALUE")
	require.NoError(t, d.Launch(l, v, 0), "the next one works")
	_, err = d.Load(0, code.Cubin, "nosuch", cudadrv.LoadOptions{})
	require.ErrorContains(t, err, "CUDA_ERROR_NOT_FOUND")
	_, err = d.Load(0, []byte("not machine code"), "scale", cudadrv.LoadOptions{})
	require.ErrorContains(t, err, "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE")
	_, err = d.Load(0, code.Cubin, "scale", cudadrv.LoadOptions{DynamicShared: 1 << 20})
	require.ErrorContains(t, err, "cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE")
	_, err = d.Properties(n)
	require.ErrorContains(t, err, "CUDA_ERROR_INVALID_DEVICE")
	require.NoError(t, cu.Synchronize())
}
