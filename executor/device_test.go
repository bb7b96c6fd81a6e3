package executor_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
	"nvfuser_go/internal/golden"
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

// vector is a dense one of n elements of float32.
func vector(address uintptr, n int64) executor.Input {
	return onDevice(0, address, []int64{n}, []int64{1})
}

func number(x float64) executor.Input {
	return executor.Input{Scalar: scalar.Value{Type: dtype.Double, Re: x}}
}

// hostScalar is a tensor of the CPU without dimensions.
func hostScalar(x *float32) executor.Input {
	return executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(x), Sizes: []int64{}, Strides: []int64{}}
}

func parsed(t testing.TB, text string) *core.Fusion {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return f
}

func deviceExecutor(t testing.TB, driver cudadrv.Driver, text string) *executor.Executor {
	t.Helper()
	e, err := executor.NewCache(4, driver).Executor(parsed(t, text))
	require.NoError(t, err)
	return e
}

const (
	reluText = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = relu %0
output %1
`
	scaledText = `%0 = tensor f32 [-1] contiguity=[yes]
$0 = scalar f64
%1 = mul %0, $0
output %1
`
	updateText = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = add %0, %1
output %2 alias %0
`
)

// TestDeviceReluBytes: the parameters of one launch, byte for byte.
func TestDeviceReluBytes(t *testing.T) {
	driver := h100s(2)
	e := deviceExecutor(t, driver, reluText)
	plan, err := e.Plan([]executor.Input{onDevice(1, 0x1000, []int64{1000}, []int64{1})})
	requireNoError(t, err)
	d := plan.Device
	require.Equal(t, 1, d.Device)
	require.Len(t, d.Launches, 1)
	require.Empty(t, d.Workspaces)
	require.NoError(t, driver.Launch(&d.Launches[0], cudadrv.CallValues{Inputs: []uintptr{0x1000}, Outputs: []uintptr{0x2000}}, 5))
	got := driver.Launches()[0]
	require.Equal(t, []byte{
		0xe8, 3, 0, 0, 0, 0, 0, 0, // the size, and nothing
		0, 0x10, 0, 0, 0, 0, 0, 0,
		0, 0x20, 0, 0, 0, 0, 0, 0,
	}, got.Arguments)
	require.Equal(t, uintptr(5), got.Stream)
	require.Zero(t, got.Block.Cluster)
	require.Equal(t, "sm_90a", driver.Compiles()[0].Options.Arch)
}

// TestDevicePrograms shows the programs of plans.
func TestDevicePrograms(t *testing.T) {
	x := float32(1.5)
	cases := map[string][]executor.Input{
		"relu":             {vector(0x1000, 1000)},
		"strides":          {onDevice(0, 0x1000, []int64{30, 40}, []int64{1, 30}), onDevice(0, 0x1004, []int64{30, 40}, []int64{50, 1})},
		"scalar":           {vector(0x1000, 1000), number(0.5)},
		"host tensor":      {vector(0x1000, 1000), hostScalar(&x)},
		"random":           {vector(0x1000, 1000)},
		"in place":         {vector(0x1000, 1000), vector(0x8000, 1000)},
		"in place, shared": {vector(0x1000, 1000), vector(0x1010, 1000)},
		"input returned":   {onDevice(0, 0x1000, []int64{30, 40}, []int64{1, 30})},
		"two kernels":      {vector(0x1000, 1000), vector(0x8000, 77)},
		"no elements":      {vector(0, 0)},
		"64 bits":          {onDevice(0, 0x1000, []int64{3 << 30}, []int64{1})},
	}
	golden.Run(t, "testdata/device/*.txtar", "fusion", func(t *testing.T, in, section string) string {
		inputs, ok := cases[section]
		require.True(t, ok, section)
		plan, err := deviceExecutor(t, h100s(1), in).Plan(inputs)
		requireNoError(t, err)
		return plan.Device.String()
	})
}

// TestDeviceCopyOfIndices returns an input of indices, which callers describe as
// integers.
func TestDeviceCopyOfIndices(t *testing.T) {
	x := vector(0x1000, 1000)
	x.DType = dtype.Int
	plan, err := deviceExecutor(t, h100s(1), "%0 = tensor index [-1] contiguity=[yes]\noutput %0\n").Plan([]executor.Input{x})
	requireNoError(t, err)
	require.Len(t, plan.Device.Launches, 1)
	require.Equal(t, dtype.Index, plan.Outputs[0].DType)
}
