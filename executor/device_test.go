package executor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

func h100s(n int) *fake.Driver {
	d := &fake.Driver{}
	for range n {
		d.Present = append(d.Present, fake.H100)
	}
	return d
}

// onDevice describes a tensor of float32 on a device, at an address that nobody
// reads.
func onDevice(device int, address uintptr, sizes, strides []int64) executor.Input {
	return executor.Input{Tensor: true, DType: dtype.Float, Device: executor.Device{Type: executor.CUDA, Index: device},
		Data: unsafe.Add(unsafe.Pointer(nil), address), Sizes: sizes, Strides: strides}
}

func parsed(t testing.TB, text string) *core.Fusion {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return f
}

func TestDeviceRelu(t *testing.T) {
	driver := h100s(2)
	e, err := executor.NewCache(4, driver).Executor(parsed(t, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = relu %0\noutput %1\n"))
	require.NoError(t, err)
	plan, err := e.Plan([]executor.Input{onDevice(1, 0x1000, []int64{1000, 512}, []int64{512, 1})})
	requireNoError(t, err)
	d := plan.Device
	require.Equal(t, 1, d.Device)
	require.Len(t, d.Launches, 1)
	require.Empty(t, d.Workspaces)
	require.NoError(t, driver.Launch(&d.Launches[0], cudadrv.CallValues{Inputs: []uintptr{0x1000}, Outputs: []uintptr{0x2000}}, 5))
	got := driver.Launches()[0]
	require.Equal(t, [3]uint32{1000, 1, 1}, got.Block.Grid)
	require.Equal(t, [3]uint32{128, 1, 1}, got.Block.Block)
	require.Equal(t, []byte{
		0, 2, 0, 0, 0xe8, 3, 0, 0, // sizes, the inner one first
		0, 0x10, 0, 0, 0, 0, 0, 0,
		0, 0x20, 0, 0, 0, 0, 0, 0,
	}, got.Arguments)
	require.Equal(t, uintptr(5), got.Stream)
	require.Equal(t, "sm_90a", driver.Compiles()[0].Options.Arch)
	require.Contains(t, driver.Compiles()[0].Source, "__global__")
}
