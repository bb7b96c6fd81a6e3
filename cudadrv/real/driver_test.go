//go:build cgo

package real

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"nvfuser_go/cudadrv"
)

// recordVariable names the file that the libcuda of testdata writes.
const recordVariable = "CUDADRV_RECORD"

// TestMain puts the libcuda of testdata in the place of the machine's, and NVRTC
// of the environment that the project's tests run in.
func TestMain(m *testing.M) {
	flag.Parse()
	folder, err := os.MkdirTemp("", "cudadrv")
	if err != nil {
		panic(err)
	}
	if !*gpu && os.Getenv(driverVariable) == "" { // a child of these tests says which
		library := filepath.Join(folder, "libcuda.so")
		flags := append(strings.Fields(os.Getenv("CGO_CFLAGS")), "-shared", "-fPIC", "-fvisibility=default", "-o", library, "testdata/libcuda.c")
		for i := range flags {
			flags[i] = strings.Trim(flags[i], "'")
		}
		if out, err := exec.Command("cc", flags...).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v\n%s", err, out))
		}
		os.Setenv(driverVariable, library)
		os.Setenv(recordVariable, filepath.Join(folder, "record"))
	}
	if paths, _ := filepath.Glob("../../.venv/lib/python*/site-packages/nvidia"); len(paths) > 0 && os.Getenv(compilerVariable) == "" {
		if found := compilersIn(paths[0], ""); len(found) > 0 {
			path, _ := filepath.Abs(found[0])
			os.Setenv(compilerVariable, path)
		}
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// TestNothingIsLinked shows that a program with this package loads anywhere.
func TestNothingIsLinked(t *testing.T) {
	path, err := os.Executable()
	require.NoError(t, err)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.NotEmpty(t, libraries)
	for _, l := range libraries {
		require.NotRegexp(t, "cuda|nvrtc", l)
	}
}

// TestSymbols compares symbols.h with what the object files refer to.
func TestSymbols(t *testing.T) {
	text, err := os.ReadFile("symbols.h")
	require.NoError(t, err)
	listed := map[string]bool{}
	last := ""
	for _, m := range regexp.MustCompile(`(?m)^SYMBOL\((\w+)\)$`).FindAllStringSubmatch(string(text), -1) {
		require.Less(t, last, m[1], "the list is sorted")
		last = m[1]
		listed[last] = true
	}
	used := map[string]bool{}
	defined := map[string]bool{"cuInit": true}
	for _, pkg := range []string{"gorgonia.org/cu", "nvfuser_go/cudadrv/real"} {
		archive, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", pkg).Output()
		require.NoError(t, err)
		names, _ := exec.Command("nm", strings.TrimSpace(string(archive))).Output() // it complains of Go's own files
		for _, m := range regexp.MustCompile(`(?m) ([UT]) (cu[A-Z]\w+)$`).FindAllStringSubmatch(string(names), -1) {
			if m[1] == "T" && pkg == "gorgonia.org/cu" {
				defined[m[2]] = true
			} else if m[1] == "U" {
				used[m[2]] = true
			}
		}
	}
	require.Greater(t, len(used), 100)
	for name := range used {
		require.True(t, listed[name] || defined[name], "%s is missing in symbols.h", name)
	}
	for name := range listed {
		require.True(t, used[name] && !defined[name], "%s of symbols.h is not used", name)
	}
}

// child runs one test in a process of its own, with one more setting.
func child(t *testing.T, test string, setting string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^"+test+"$")
	c.Env = append(os.Environ(), "CUDADRV_CHILD=1", setting)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS")
}

func TestNoDriver(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		child(t, "TestNoDriver", driverVariable+"=/no/libcuda.so.1")
		return
	}
	d := Driver{}
	_, err := d.Devices()
	var u *cudadrv.Unavailable
	require.ErrorAs(t, err, &u)
	require.Equal(t, []cudadrv.Attempt{{Path: "/no/libcuda.so.1", Problem: "there is no such file"}}, u.Tried)
	require.ErrorContains(t, err, "install NVIDIA's driver")
	_, err = d.Properties(0)
	require.ErrorAs(t, err, &u)
	_, err = d.Load(0, []byte("x"), "k", cudadrv.LoadOptions{})
	require.ErrorAs(t, err, &u)
	require.ErrorAs(t, d.Launch(&cudadrv.LaunchBlock{}, cudadrv.CallValues{}, 0), &u)
	// A call past the guard is an error of the function that is missing.
	_, err = cu.NumDevices()
	require.ErrorContains(t, failure("cuDeviceGetCount", err), "no function cuDeviceGetCount")
}

func TestDriverThatDoesNotStart(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		for _, code := range []string{"2", "100"} {
			child(t, "TestDriverThatDoesNotStart", "CUDADRV_CODE="+code)
		}
		return
	}
	code := os.Getenv("CUDADRV_CODE")
	file := os.Getenv(recordVariable) + ".fail"
	require.NoError(t, os.WriteFile(file, []byte("cuInit "+code), 0o600))
	defer os.Remove(file) // which the parent reads too
	n, err := Driver{}.Devices()
	require.Zero(t, n)
	if code == "100" { // CUDA_ERROR_NO_DEVICE
		require.NoError(t, err)
	} else {
		require.EqualError(t, err, "cuInit: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	}
	_, err = Driver{}.Properties(0)
	require.ErrorContains(t, err, "cuInit")
	path, err := Driver{}.LibraryPath()
	require.NoError(t, err, "it is there")
	require.Equal(t, os.Getenv(driverVariable), path)
}

func TestOldDriver(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		child(t, "TestOldDriver", "CUDADRV_VERSION=11060")
		return
	}
	_, err := Driver{}.Devices()
	var u *cudadrv.Unsupported
	require.ErrorAs(t, err, &u)
	require.ErrorContains(t, err, "is for CUDA 11.6, and 11.8 is the least that will do")
}

func TestNoCompiler(t *testing.T) {
	if os.Getenv("CUDADRV_CHILD") == "" {
		child(t, "TestNoCompiler", compilerVariable+"=/no/libnvrtc.so")
		return
	}
	_, err := Driver{}.Compile("", cudadrv.CompileOptions{Arch: "sm_90a"})
	var u *cudadrv.Unavailable
	require.ErrorAs(t, err, &u)
	require.ErrorContains(t, err, "/no/libnvrtc.so: there is no such file")
}

func TestNotALibrary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	library, _, tried := find([]place{{path: "libnosuch.so", loaded: true}, {path: file}})
	require.Nil(t, library)
	require.Len(t, tried, 2)
	require.Contains(t, tried[0].Path, "as loaded")
	require.Equal(t, file, tried[1].Path)
	require.NotEmpty(t, tried[1].Problem)
}

func TestCompilerPlaces(t *testing.T) {
	t.Setenv(compilerVariable, "")
	t.Setenv("CUDA_HOME", "/toolkit")
	site := t.TempDir()
	touch := func(path string) string {
		path = filepath.Join(site, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	old, recent := touch("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"), touch("nvidia/cu13/lib/libnvrtc.so.13")
	require.Equal(t, []string{recent, old}, compilersIn(filepath.Join(site, "nvidia"), ""))

	first := func(mapped ...string) string { return compilerPlaces(mapped)[0].path }
	require.Equal(t, recent, first("/lib/libc.so.6", filepath.Join(site, "torch/lib/libtorch_cpu.so")), "torch's packages")
	require.Equal(t, recent, first(filepath.Join(site, "nvfuser_go/_C.abi3.so")), "beside us")
	require.Equal(t, recent, first(filepath.Join(site, "nvidia/cu13/lib/libcudart.so.13")), "beside the runtime")
	places := compilerPlaces([]string{filepath.Join(site, "nvidia/cuda_runtime/lib/libcudart.so.12"), filepath.Join(site, "torch/lib/libtorch_cpu.so")})
	require.Equal(t, filepath.Join(site, "nvidia/cuda_runtime/lib/libnvrtc.so.12"), places[0].path)
	require.Equal(t, old, places[1].path, "of the version of the runtime")
	require.Equal(t, place{"libnvrtc.so.13", true}, compilerPlaces(nil)[0])
	require.Contains(t, compilerPlaces(nil), place{path: "/toolkit/lib64/libnvrtc.so"})
	require.NotEmpty(t, loadedFiles())
}

func TestProperties(t *testing.T) {
	d := Driver{}
	n, err := d.Devices()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	path, err := d.LibraryPath()
	require.NoError(t, err)
	require.Equal(t, os.Getenv(driverVariable), path)
	p, err := d.Properties(1)
	require.NoError(t, err)
	require.Equal(t, cudadrv.Properties{Name: "Device 1", Major: 1075, Minor: 1076, Processors: 1016, Memory: 80 << 30, L2: 1038,
		SharedPerBlock: 1008, SharedPerBlockOptIn: 1097, SharedPerProcessor: 1081, SharedReserved: 1111, RegistersPerProcessor: 1082,
		ThreadsPerBlock: 1001, ThreadsPerProcessor: 1039, WarpSize: 1010, MemoryClock: 1036, MemoryBus: 1037, DriverVersion: 13000}, p)
	_, err = d.Properties(2)
	var e *cudadrv.CallError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "cuDeviceGet", e.Call)
	require.Equal(t, 101, e.Code)
}

func TestLoad(t *testing.T) {
	d := Driver{}
	r := newRecording(t, "", 0)
	_, err := contextOf(1)
	require.NoError(t, err)
	r.clear("", 0)
	f, err := d.Load(1, []byte("cubin\x00"), "k", cudadrv.LoadOptions{DynamicShared: 5000})
	require.NoError(t, err)
	require.Equal(t, cudadrv.Function{Handle: 0x3000, Context: 0x1001, Device: 1, Name: "k", Registers: 104, LocalBytes: 103, SharedBytes: 101, MaxThreads: 100}, f)
	const opening = "cuCtxPushCurrent(0x1001)\ncuThreadExchangeStreamCaptureMode(2)\ncuModuleLoadData(cubin)\ncuModuleGetFunction(0x2000, k)\n"
	const closing = "cuThreadExchangeStreamCaptureMode(0)\ncuCtxPopCurrent\n"
	require.Equal(t, opening+"cuFuncSetAttribute(0x3000, 8, 5000)\n"+closing, r.text())

	const asking = "cuFuncSetAttribute(0x3000, 14, 1)\nconfig grid 16 1 1 block 256 1 1 shared 5000 stream (nil)\nattribute 4: 16 1 1\ncuOccupancyMaxActiveClusters(0x3000)\n"
	large := cudadrv.LoadOptions{DynamicShared: 5000, Cluster: cudadrv.LargeCluster{Blocks: 16, Threads: 256, Shared: 5000}}
	for code, clusters := range map[int]int{0: 1, 912: 0} { // 912: no cluster of so many blocks
		r.clear("cuOccupancyMaxActiveClusters", code)
		f, err = d.Load(1, []byte("cubin\x00"), "k", large)
		require.NoError(t, err)
		require.Equal(t, clusters, f.Clusters)
		require.Equal(t, opening+"cuFuncSetAttribute(0x3000, 8, 5000)\n"+asking+closing, r.text())
	}
	r.clear("cuOccupancyMaxActiveClusters", 2)
	_, err = d.Load(1, []byte("cubin\x00"), "k", large)
	require.EqualError(t, err, "cuOccupancyMaxActiveClusters: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	require.Equal(t, opening+"cuFuncSetAttribute(0x3000, 8, 5000)\n"+asking+"cuModuleUnload(0x2000)\n"+closing, r.text())

	r.clear("cuModuleGetFunction", 2)
	_, err = d.Load(1, []byte("cubin\x00"), "k", cudadrv.LoadOptions{})
	require.EqualError(t, err, "cuModuleGetFunction: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	require.Equal(t, opening+"cuModuleUnload(0x2000)\n"+closing, r.text())
	_, err = d.Load(1, nil, "k", cudadrv.LoadOptions{})
	require.ErrorContains(t, err, "no machine code")
}

func TestLaunch(t *testing.T) {
	block := &cudadrv.LaunchBlock{Function: cudadrv.Function{Handle: 0x3000, Context: 0x1001},
		Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Shared: 7, Arguments: bytes.Repeat([]byte{0xAA}, 112),
		Patches: []cudadrv.Patch{{Offset: 0, Size: 8, Value: cudadrv.OutputPointer}, {Offset: 8, Size: 8, Value: cudadrv.InputPointer, Index: 1, Add: 0xFF},
			{Offset: 16, Size: 2, Value: cudadrv.ScalarWord, Index: 1}, {Offset: 24, Size: 8, Value: cudadrv.RandomSeed}, {Offset: 32, Size: 8, Value: cudadrv.RandomOffset},
			{Offset: 40, Size: 8, Value: cudadrv.RandomSeed, Add: 3 << 32}, {Offset: 40, Size: 4, Value: cudadrv.RandomSeed, Add: 0xFFFFFFFF}}}
	values := cudadrv.CallValues{Inputs: []uintptr{1, 0x0102030405060708}, Outputs: []uintptr{9}, Workspaces: []uintptr{10}, Seed: 11, Offset: 12, Scalars: []uint64{13, 0x0e0f}}
	expected := make([]byte, 112)
	require.NoError(t, block.Fill(expected, values))
	launch := fmt.Sprintf("config grid 1 2 3 block 4 5 6 shared 7 stream 0x77\ncuLaunchKernelEx(0x3000, (nil)) % x\n", expected)

	r := newRecording(t, "", 0)
	require.NoError(t, Driver{}.Launch(block, values, 0x77))
	require.Equal(t, "cuCtxSetCurrent(0x1001)\n"+launch, r.text(), "a thread without a context gets it for good")
	r.clear("", 0)
	require.NoError(t, Driver{}.Launch(block, values, 0x77))
	require.Equal(t, launch, r.text())
	r.clear("", 0)
	r.setContext(0x9999)
	require.NoError(t, Driver{}.Launch(block, values, 0x77))
	require.Equal(t, "cuCtxPushCurrent(0x1001)\n"+launch+"cuCtxPopCurrent\n", r.text())
	require.Equal(t, uintptr(0x9999), r.context())

	r.clear("cuLaunchKernelEx", 2)
	require.EqualError(t, Driver{}.Launch(block, values, 0x77), "cuLaunchKernelEx: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	require.Equal(t, uintptr(0x9999), r.context())
	r.clear("cuLaunchKernelEx", 3)
	require.EqualError(t, Driver{}.Launch(block, values, 0x77), "cuLaunchKernelEx: unknown error (3): no description")

	r.clear("", 0)
	r.setContext(0x1001)
	block.Cluster, block.Cooperative = [3]uint32{2, 1, 1}, true
	block.Arguments, block.Patches = nil, nil
	require.NoError(t, Driver{}.Launch(block, values, 0))
	require.Contains(t, r.text(), "attribute 4: 2 1 1\nattribute 2: 1")
	require.NotContains(t, r.text(), "attribute 6")
	require.Contains(t, r.text(), "cuLaunchKernelEx(0x3000, (nil))\n", "no parameters")

	r.clear("", 0)
	block.Early = true
	require.NoError(t, Driver{}.Launch(block, values, 0))
	require.Contains(t, r.text(), "attribute 4: 2 1 1\nattribute 2: 1 ")
	require.Contains(t, r.text(), "\nattribute 6: 1 ")

	block.Patches = []cudadrv.Patch{{Size: 8}}
	require.Error(t, Driver{}.Launch(block, values, 0))
	block.Arguments, block.Patches = make([]byte, 8), []cudadrv.Patch{{Size: 8, Index: 2}}
	require.ErrorContains(t, Driver{}.Launch(block, values, 0), "wants input 2, and the call brings 2")
	l, err := NewLaunch(block, cudadrv.ValueCounts{Inputs: 3})
	require.NoError(t, err)
	defer l.Free()
	require.ErrorContains(t, l.Start([]uint64{1}, 0), "1 values for a launch of 5")
}

// TestTrampolines passes arguments in every kind of place.
func TestTrampolines(t *testing.T) {
	r := newRecording(t, "", 0)
	f := cu.Function{}
	*(*uintptr)(unsafe.Pointer(&f)) = 0x3000
	for range 2 { // bound, and bound already
		r.clear("", 0)
		require.NoError(t, f.Launch(1, 2, 3, 4, 5, 6, 7, cu.Stream{}, nil))
		require.Regexp(t, `^cuLaunchKernel\(0x3000 1 2 3 4 5 6 7 \(nil\) `, r.text())
		r.clear("", 0)
		require.NoError(t, cu.TexRef{}.SetMipmapLevelBias(2.5))
		require.Equal(t, "cuTexRefSetMipmapLevelBias((nil), 2.5)\n", r.text())
	}
	err := failure("cuCtxSynchronize", cu.Synchronize()) // which the test's library lacks
	var u *cudadrv.Unsupported
	require.ErrorAs(t, err, &u)
	require.EqualError(t, failure("call", errors.New("text")), "call: text")
}
