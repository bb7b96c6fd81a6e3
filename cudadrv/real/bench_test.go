//go:build cgo

package real

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

func TestBench(t *testing.T) {
	r := newRecording(t, "", 0)
	d := Driver{}
	_, err := contextOf(1)
	require.NoError(t, err)
	r.setContext(0x9999)
	b, err := d.Bench(1, 0x77)
	require.NoError(t, err)
	in := func(calls ...string) string {
		return "cuCtxPushCurrent(0x1001)\n" + strings.Join(calls, "\n") + "\ncuCtxPopCurrent\n"
	}
	require.Equal(t, in("cuStreamIsCapturing(0x77)", "cuStreamSynchronize(0x77)", "cuStreamCreate(1)"), r.text())

	r.clear("", 0)
	at, err := b.Memory(1000)
	require.NoError(t, err)
	require.Equal(t, uintptr(0x10000), at)
	require.Equal(t, in("cuThreadExchangeStreamCaptureMode(2)", "cuMemAlloc(1000)", "cuThreadExchangeStreamCaptureMode(0)"), r.text())

	r.clear("", 0)
	require.NoError(t, b.Copy(at, 0x99, 50))
	require.NoError(t, b.Write(at, []byte("host\x00")))
	require.NoError(t, b.Write(at, nil))
	require.Equal(t, in("cuMemcpyDtoDAsync(0x10000, 0x99, 50, 0x4000)")+in("cuMemcpyHtoDAsync(0x10000, host, 5, 0x4000)", "cuStreamSynchronize(0x4000)"), r.text())

	r.clear("", 0)
	launch := &cudadrv.LaunchBlock{Function: cudadrv.Function{Handle: 0x3000, Context: 0x1001}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	zero, run := cudadrv.Work{Zero: at, Bytes: 8}, cudadrv.Work{Launch: launch}
	us, err := b.Time(2, []cudadrv.Work{zero}, []cudadrv.Work{run, run})
	require.NoError(t, err)
	require.Equal(t, []float64{125, 125}, us, "the events of a round are neighbours")
	calls := regexp.MustCompile(`(?m)^cu(MemsetD8|EventRecord|Launch|StreamSync|EventElapsed|EventDestroy)`).FindAllString(r.text(), -1)
	round := []string{"cuMemsetD8", "cuEventRecord", "cuLaunch", "cuLaunch", "cuEventRecord"}
	require.Equal(t, append(append(round, round...), "cuStreamSync", "cuEventElapsed", "cuEventElapsed", "cuEventDestroy", "cuEventDestroy", "cuEventDestroy", "cuEventDestroy"), calls)
	require.Equal(t, uintptr(0x9999), r.context())

	for _, call := range []string{"cuEventCreate", "cuEventRecord", "cuLaunchKernelEx", "cuMemsetD8Async", "cuEventElapsedTime", "cuStreamSynchronize"} {
		r.clear(call, 2)
		_, err = b.Time(2, []cudadrv.Work{zero}, []cudadrv.Work{run})
		require.ErrorContains(t, err, "CUDA_ERROR_OUT_OF_MEMORY", call)
		require.Equal(t, uintptr(0x9999), r.context(), call)
	}
	_, err = b.Time(1, nil, []cudadrv.Work{{Launch: &cudadrv.LaunchBlock{}}})
	require.ErrorContains(t, err, "no threads")

	r.clear("cuMemAlloc", 2)
	_, err = b.Memory(1)
	require.EqualError(t, err, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	r.clear("", 0)
	require.NoError(t, b.Close())
	require.Equal(t, in("cuStreamSynchronize(0x4000)")+in("cuThreadExchangeStreamCaptureMode(2)", "cuMemFree(0x10000)", "cuThreadExchangeStreamCaptureMode(0)")+in("cuStreamDestroy(0x4000)"), r.text())

	_, err = d.Bench(1, 0x88)
	var u *cudadrv.Unsupported
	require.ErrorAs(t, err, &u)
	require.ErrorContains(t, err, "captured")
	r.clear("cuStreamSynchronize", 2)
	_, err = d.Bench(1, 0)
	require.ErrorContains(t, err, "cuStreamSynchronize: CUDA_ERROR_OUT_OF_MEMORY")
	require.Equal(t, uintptr(0x9999), r.context())
}
