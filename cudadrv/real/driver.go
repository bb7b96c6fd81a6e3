//go:build cgo

package real

/*
#include <cuda.h>
#include <stdlib.h>
#include "launch.h"
#include "library.h"
*/
import "C"

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"nvfuser_go/cudadrv"
)

// A Driver is the driver of this machine. All values are the same one.
type Driver struct{}

var _ cudadrv.Driver = Driver{}

// leastDriver is the oldest driver that has every function that is called, as
// its API version: cuLaunchKernelEx came with CUDA 11.8.
const leastDriver = 11080

// started opens libcuda and starts CUDA, once; it returns libcuda's path.
var started = sync.OnceValues(func() (string, error) {
	library, path, tried := find(driverPlaces())
	if library == nil {
		return "", &cudadrv.Unavailable{Library: "the CUDA driver, libcuda.so.1,", Tried: tried,
			Install: "install NVIDIA's driver, in a container with the NVIDIA container toolkit, or name the file in " + driverVariable}
	}
	if code := C.library_start_driver(library); code != 0 {
		return path, callError("cuInit", int(code))
	}
	if v := cu.Version(); v < leastDriver {
		return path, &cudadrv.Unsupported{What: fmt.Sprintf("the CUDA driver %s is for CUDA %d.%d, and %d.%d is the least that will do: install a newer driver",
			path, v/1000, v%1000/10, leastDriver/1000, leastDriver%1000/10)}
	}
	return path, nil
})

// LibraryPath returns the file of libcuda, or why there is none.
func (Driver) LibraryPath() (string, error) {
	path, err := started()
	if path != "" {
		err = nil
	}
	return path, err
}

// Devices returns how many devices there are.
func (Driver) Devices() (int, error) {
	if _, err := started(); err != nil {
		// CUDA starts only where there is a device.
		if e, ok := errors.AsType[*cudadrv.CallError](err); ok && e.Code == C.CUDA_ERROR_NO_DEVICE {
			return 0, nil
		}
		return 0, err
	}
	n, err := cu.NumDevices()
	return n, failure("cuDeviceGetCount", err)
}

// Properties asks the driver each time.
func (Driver) Properties(device int) (cudadrv.Properties, error) {
	var p cudadrv.Properties
	if _, err := started(); err != nil {
		return p, err
	}
	d, err := cu.GetDevice(device)
	if err != nil {
		return p, failure("cuDeviceGet", err)
	}
	if p.Name, err = d.Name(); err != nil {
		return p, failure("cuDeviceGetName", err)
	}
	if p.Memory, err = d.TotalMem(); err != nil {
		return p, failure("cuDeviceTotalMem", err)
	}
	var l2 int
	for _, a := range []struct {
		of cu.DeviceAttribute
		to *int
	}{
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &p.Major},
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &p.Minor},
		{C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &p.Processors},
		{C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &p.SharedPerBlock},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &p.SharedPerBlockOptIn},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &p.SharedPerProcessor},
		{C.CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &p.SharedReserved},
		{C.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &p.RegistersPerProcessor},
		{C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &p.ThreadsPerBlock},
		{C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &p.ThreadsPerProcessor},
		{C.CU_DEVICE_ATTRIBUTE_WARP_SIZE, &p.WarpSize},
		{C.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &p.MemoryClock},
		{C.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &p.MemoryBus},
	} {
		if *a.to, err = d.Attribute(a.of); err != nil {
			return p, failure("cuDeviceGetAttribute", err)
		}
	}
	p.L2, p.DriverVersion = int64(l2), cu.Version()
	return p, nil
}

// Compiler opens NVRTC if it is not open.
func (Driver) Compiler() (cudadrv.Compiler, error) {
	c, err := theCompiler()
	if err != nil {
		return cudadrv.Compiler{}, err
	}
	return c.Compiler, nil
}

// CompilerID does not open NVRTC if its file says which build it is.
func (Driver) CompilerID() (string, error) { return compilerID() }

// Compile compiles on the calling goroutine.
func (Driver) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	c, err := theCompiler()
	if err != nil {
		return cudadrv.Compiled{}, err
	}
	return c.compile(source, o)
}

// Load loads on the calling goroutine.
func (Driver) Load(device int, cubin []byte, kernel string, o cudadrv.LoadOptions) (cudadrv.Function, error) {
	f := cudadrv.Function{Device: device, Name: kernel}
	if _, err := started(); err != nil {
		return f, err
	}
	if len(cubin) == 0 {
		return f, fmt.Errorf("kernel %s has no machine code", kernel)
	}
	context, err := contextOf(device)
	if err != nil {
		return f, err
	}
	name := C.CString(kernel)
	defer C.free(unsafe.Pointer(name))
	wants := C.struct_launch_wants{dynamic_shared: C.int(o.DynamicShared), cluster: C.int(o.Cluster.Blocks), threads: C.int(o.Cluster.Threads), cluster_shared: C.int(o.Cluster.Shared)}
	var out C.struct_launch_function
	var failed *C.char
	if code := C.launch_load(C.uintptr_t(context), unsafe.Pointer(&cubin[0]), name, &wants, &out, &failed); code != 0 {
		return f, callError(C.GoString(failed), int(code))
	}
	f.Handle, f.Context = uintptr(out.function), context
	f.Registers, f.LocalBytes, f.SharedBytes, f.MaxThreads = int(out.registers), int(out.local_bytes), int(out.shared_bytes), int(out.max_threads)
	f.Clusters = int(out.clusters)
	f.CodeBytes = codeBytes(cubin, kernel)
	return f, nil
}

// codeBytes returns how many bytes of instructions a kernel has; 0 if that cannot be seen.
func codeBytes(cubin []byte, kernel string) int {
	file, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		return 0
	}
	if s := file.Section(".text." + kernel); s != nil {
		return int(s.Size)
	}
	return 0
}

// contexts holds the context of each device that was used, by number.
var contexts = struct {
	sync.Mutex
	of map[int]uintptr
}{of: map[int]uintptr{}}

func contextOf(device int) (uintptr, error) {
	contexts.Lock()
	defer contexts.Unlock()
	if c, ok := contexts.of[device]; ok {
		return c, nil
	}
	var context C.uintptr_t
	var failed *C.char
	if code := C.launch_context(C.int(device), &context, &failed); code != 0 {
		return 0, callError(C.GoString(failed), int(code))
	}
	contexts.of[device] = uintptr(context)
	return uintptr(context), nil
}

// Occupancy returns how many blocks of a function fit a processor at once.
func (Driver) Occupancy(f cudadrv.Function, threads, shared int) (int, error) {
	var blocks C.int
	if code := C.launch_occupancy(C.uintptr_t(f.Context), C.uintptr_t(f.Handle), C.int(threads), C.uint64_t(shared), &blocks); code != 0 {
		return 0, callError("cuOccupancyMaxActiveBlocksPerMultiprocessor", int(code))
	}
	return int(blocks), nil
}

// callError returns the error of a call of the driver.
func callError(call string, code int) error {
	if code == C.LIBRARY_MISSING {
		return &cudadrv.Unsupported{What: fmt.Sprintf("the CUDA driver has no function %s: install a newer one", call)}
	}
	var name, text *C.char
	C.launch_error(C.int(code), &name, &text)
	return &cudadrv.CallError{Call: call, Code: code, Name: C.GoString(name), Text: C.GoString(text)}
}

// failure returns the error of a call through gorgonia.org/cu, whose errors are
// numbers of a type that it does not export.
func failure(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return callError(call, int(v.Int()))
	}
	return fmt.Errorf("%s: %w", call, err)
}
