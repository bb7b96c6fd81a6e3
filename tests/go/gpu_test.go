package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/cudadrv/real"
)

// A gpu is the machine's first device. What it runs waits for the device.
type gpu struct {
	driver     cudadrv.Driver
	properties cudadrv.Properties
	context    cu.CUContext
	// margin is how many bytes stand around each piece of memory, to show that
	// nobody writes there. compute-sanitizer sees more where there are none.
	margin int
}

// fence is what margins and memory that is undefined hold.
const fence = 0xA5

// newGPU puts the calling test on one thread, which has the context of the
// device.
func newGPU(t *testing.T) *gpu {
	t.Helper()
	g := &gpu{driver: real.Driver{}, margin: 256}
	if *sanitized {
		g.margin = 0
	}
	if *cubinFolder != "" {
		require.NoError(t, os.MkdirAll(*cubinFolder, 0o700))
		g.driver = cubins.NewDriver(real.Driver{}, cubins.NewStore(*cubinFolder, 1<<32, func(problem string) { t.Log(problem) }), real.ProgramID(), runtime.GOMAXPROCS(0))
	}
	var err error
	g.properties, err = g.driver.Properties(0)
	require.NoError(t, err)
	code, err := g.driver.Compile(`extern "C" __global__ void nothing() {}`, cudadrv.CompileOptions{Arch: g.properties.Arch()})
	require.NoError(t, err)
	f, err := g.driver.Load(0, code.Cubin, "nothing", cudadrv.LoadOptions{})
	require.NoError(t, err)
	*(*uintptr)(unsafe.Pointer(&g.context)) = f.Context
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, cu.SetCurrentContext(g.context))
	return g
}

// inParallel calls f with the numbers below n on all processors, each time on a
// thread with the context of the device, until the device is lost.
func (g *gpu) inParallel(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var gone atomic.Bool
	inParallel(n, func(i int) {
		if gone.Load() {
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cu.SetCurrentContext(g.context)
		if err == nil {
			err = f(i)
		}
		if err != nil && !(lost(err) && gone.Swap(true)) {
			t.Error(err)
		}
	})
}

// A deviceMemory is a copy of host memory between margins.
type deviceMemory struct {
	g     *gpu
	block cu.DevicePtr
	host  []byte
}

// vectorBytes are those of the vectors in which what is a few elements apart is read ([kir.Gathered]). No memory of a
// device ends within one, but memcheck knows sizes exactly.
const vectorBytes = 16

// copyIn allocates memory for a copy of host, or for something else where that is
// undefined, of a multiple of so many bytes.
func (g *gpu) copyIn(host []byte, undefined bool, multiple int) (*deviceMemory, error) {
	m := &deviceMemory{g: g, host: host}
	var err error
	if m.block, err = cu.MemAlloc(int64(max((len(host)+multiple-1)/multiple*multiple+2*g.margin, 1))); err != nil {
		return nil, fmt.Errorf("cuMemAlloc of %d bytes: %w", len(host), err)
	}
	content := host
	if undefined {
		content = bytes.Repeat([]byte{fence}, len(host))
	}
	if g.margin > 0 {
		edge := bytes.Repeat([]byte{fence}, g.margin)
		content = slices.Concat(edge, content, edge)
	} else if undefined {
		return m, nil // so that initcheck sees what reads it
	}
	if len(content) > 0 {
		err = cu.MemcpyHtoD(m.block, unsafe.Pointer(&content[0]), int64(len(content)))
	}
	return m, err
}

func (m *deviceMemory) address() uintptr { return uintptr(m.block) + uintptr(m.g.margin) }

// copyOut brings the contents back and frees the memory.
func (m *deviceMemory) copyOut() error {
	defer cu.MemFree(m.block)
	if len(m.host) == 0 {
		return nil
	}
	content := make([]byte, len(m.host)+2*m.g.margin)
	if err := cu.MemcpyDtoH(unsafe.Pointer(&content[0]), m.block, int64(len(content))); err != nil {
		return err
	}
	copy(m.host, content[m.g.margin:])
	for _, edge := range [][]byte{content[:m.g.margin], content[len(content)-m.g.margin:]} {
		if bytes.Count(edge, []byte{fence}) != len(edge) {
			return fmt.Errorf("a thread wrote beyond %d bytes", len(m.host))
		}
	}
	return nil
}

// run launches a kernel that was loaded as f, waits, and updates the buffers of
// l. undefined says which of them hold nothing yet, gathered which are read with what is between their elements.
func (g *gpu) run(f cudadrv.Function, l *hostshim.Launch, undefined, gathered []bool) error {
	if slices.Contains(l.Grid[:], 0) {
		return nil
	}
	block := &cudadrv.LaunchBlock{Function: f, Shared: uint32(l.Shared), Cooperative: l.Cooperative, Arguments: l.Parameters}
	for d := range 3 { // the cluster is in the kernel's text
		block.Grid[d], block.Block[d] = uint32(l.Grid[d]), uint32(l.Block[d])
	}
	var values cudadrv.CallValues
	var memories []*deviceMemory
	for i, b := range l.Buffers {
		block.Patches = append(block.Patches, cudadrv.Patch{Offset: b.Parameter, Size: 8, Value: cudadrv.InputPointer, Index: i})
		if first := l.First(i); first != i { // the same memory
			values.Inputs = append(values.Inputs, values.Inputs[first])
			memories = append(memories, nil)
			continue
		}
		multiple := 1
		if gathered[i] {
			multiple = vectorBytes
		}
		m, err := g.copyIn(b.Bytes, undefined[i], multiple)
		if err != nil {
			return err
		}
		values.Inputs, memories = append(values.Inputs, m.address()), append(memories, m)
	}
	if err := g.driver.Launch(block, values, 0); err != nil {
		return err
	}
	if err := cu.Synchronize(); err != nil {
		return &deviceLost{err}
	}
	for i, m := range memories {
		if m == nil {
			continue
		}
		if err := m.copyOut(); err != nil {
			return fmt.Errorf("buffer %d: %w", i, err)
		}
	}
	return nil
}

// A deviceLost is an error of a kernel, after which its process can do nothing
// more on the device.
type deviceLost struct{ error }

func lost(err error) bool {
	_, is := errors.AsType[*deviceLost](err)
	return is
}

// TestPlantedFaults runs a kernel that reads what nobody wrote, races in shared
// memory and writes beyond its memory, to see that compute-sanitizer around the
// program reports each.
func TestPlantedFaults(t *testing.T) {
	if !*onGPU || !*sanitized {
		t.Skip("-gpu and -sanitized are not set")
	}
	g := newGPU(t)
	const threads = 64
	code, err := g.driver.Compile(`struct P { int* x; int* y; };
extern "C" __global__ void planted(__grid_constant__ const P p) {
  __shared__ int one;
  one = threadIdx.x;
  p.y[threadIdx.x + (threadIdx.x == 0 ? blockDim.x : 0)] = p.x[threadIdx.x] + one;
}`, cudadrv.CompileOptions{Arch: g.properties.Arch()})
	require.NoError(t, err)
	f, err := g.driver.Load(0, code.Cubin, "planted", cudadrv.LoadOptions{})
	require.NoError(t, err)
	l := &hostshim.Launch{Kernel: "planted", Grid: [3]int64{1, 1, 1}, Block: [3]int64{threads, 1, 1}, Parameters: make([]byte, 16),
		Buffers: []hostshim.Buffer{{Parameter: 0, Bytes: make([]byte, 4*threads)}, {Parameter: 8, Bytes: make([]byte, 4*threads)}}}
	err = g.run(f, l, []bool{true, true}, []bool{false, false})
	t.Log(err) // which memcheck makes of it
}
