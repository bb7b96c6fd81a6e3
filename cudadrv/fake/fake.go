// Package fake is a driver without a device, for tests: it compiles nothing and
// writes down loads and launches, byte for byte, and what is measured.
//
// Its central type is [Driver]. What it compiles is the text itself, so that a
// test sees which text a function was loaded from. It refuses what a real
// driver does: a device that is not there, more shared memory, threads or bytes
// of parameters than there may be, a block that [cudadrv.LaunchBlock.Check] refuses.
package fake

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"nvfuser_go/cudadrv"
)

// H100 is what an H100 says of itself.
var H100 = cudadrv.Properties{
	Name: "NVIDIA H100 80GB HBM3", Major: 9, Minor: 0, Processors: 132,
	Memory: 85_000_000_000, L2: 50 << 20,
	SharedPerBlock: 48 << 10, SharedPerBlockOptIn: 227 << 10, SharedPerProcessor: 228 << 10, SharedReserved: 1 << 10,
	RegistersPerProcessor: 64 << 10, ThreadsPerBlock: 1024, ThreadsPerProcessor: 2048, WarpSize: 32,
	MemoryClock: 2_619_000, MemoryBus: 5120, DriverVersion: 13000,
}

// A Driver is a driver with the given devices. Its zero value has none. Set the
// fields before the first call.
type Driver struct {
	Present []cudadrv.Properties
	// Fail, if set, is asked before each call by its name, such as "Load", and
	// returns the error that the call shall fail with.
	Fail      func(call string) error
	CodeBytes int // of every function
	// Clusters, if set, is how many a device holds at once; else each has processors of its own.
	Clusters func(cudadrv.LargeCluster) int
	// Microseconds, if set, is how long a bench finds work to take in a round; else it is 10.
	Microseconds func(round int, before, timed []cudadrv.Work) float64

	mu       sync.Mutex
	compiles []Compile
	loads    []Load
	launches []Launch

	timings               []Timing
	copies                []Copy
	given, held, mostHeld int64 // bytes of benches
}

var _ cudadrv.Driver = (*Driver)(nil)

// A Compile is one call of Compile.
type Compile struct {
	Source  string
	Options cudadrv.CompileOptions
}

// A Load is one call of Load. Its function's handle is its index from 1 on.
type Load struct {
	Device  int
	Cubin   []byte
	Kernel  string
	Options cudadrv.LoadOptions
}

// A Launch is one call of Launch, its arguments as the device would get them.
type Launch struct {
	Block     cudadrv.LaunchBlock
	Arguments []byte
	Stream    uintptr
}

// Compiles returns the calls of Compile so far.
func (d *Driver) Compiles() []Compile { return copied(d, &d.compiles) }

// Loads returns the calls of Load so far.
func (d *Driver) Loads() []Load { return copied(d, &d.loads) }

// Launches returns the calls of Launch so far that were not refused.
func (d *Driver) Launches() []Launch { return copied(d, &d.launches) }

func copied[T any](d *Driver, list *[]T) []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(*list)
}

func (d *Driver) failure(call string) error {
	if d.Fail == nil {
		return nil
	}
	return d.Fail(call)
}

// Devices returns how many are present.
func (d *Driver) Devices() (int, error) { return len(d.Present), d.failure("Devices") }

// Properties returns those of a device that is present.
func (d *Driver) Properties(device int) (cudadrv.Properties, error) {
	if err := d.failure("Properties"); err != nil {
		return cudadrv.Properties{}, err
	}
	if device < 0 || device >= len(d.Present) {
		return cudadrv.Properties{}, &cudadrv.CallError{Call: "cuDeviceGet", Code: 101, Name: "CUDA_ERROR_INVALID_DEVICE", Text: "invalid device ordinal"}
	}
	return d.Present[device], nil
}

// Compiler returns version 0.0.
func (d *Driver) Compiler() (cudadrv.Compiler, error) {
	return cudadrv.Compiler{Path: "fake"}, d.failure("Compiler")
}

// CompilerID is that of the one compiler there is.
func (d *Driver) CompilerID() (string, error) { return "fake", d.failure("CompilerID") }

// Compile returns the text as machine code.
func (d *Driver) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	if err := d.failure("Compile"); err != nil {
		return cudadrv.Compiled{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compiles = append(d.compiles, Compile{source, o})
	return cudadrv.Compiled{Cubin: []byte(source)}, nil
}

// Load returns a function of one register, if the cubin mentions the kernel.
func (d *Driver) Load(device int, cubin []byte, kernel string, o cudadrv.LoadOptions) (cudadrv.Function, error) {
	if err := d.failure("Load"); err != nil {
		return cudadrv.Function{}, err
	}
	p, err := d.Properties(device)
	if err != nil {
		return cudadrv.Function{}, err
	}
	if !strings.Contains(string(cubin), kernel) {
		return cudadrv.Function{}, &cudadrv.CallError{Call: "cuModuleGetFunction", Code: 500, Name: "CUDA_ERROR_NOT_FOUND", Text: "named symbol not found"}
	}
	if o.DynamicShared > p.SharedPerBlockOptIn {
		return cudadrv.Function{}, invalid("cuFuncSetAttribute")
	}
	clusters := 0
	if c := o.Cluster; c.Blocks > 0 {
		if clusters = p.Processors / c.Blocks; d.Clusters != nil {
			clusters = d.Clusters(c)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads = append(d.loads, Load{device, slices.Clone(cubin), kernel, o})
	return cudadrv.Function{Handle: uintptr(len(d.loads)), Context: uintptr(device + 1), Device: device, Name: kernel,
		Registers: 1, MaxThreads: p.ThreadsPerBlock, CodeBytes: d.CodeBytes, Clusters: clusters}, nil
}

// Launch writes the launch down.
func (d *Driver) Launch(l *cudadrv.LaunchBlock, v cudadrv.CallValues, stream uintptr) error {
	if err := d.failure("Launch"); err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return err
	}
	arguments := make([]byte, len(l.Arguments))
	if err := l.Fill(arguments, v); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	handle := l.Function.Handle
	if handle == 0 || handle > uintptr(len(d.loads)) {
		return fmt.Errorf("launch of function %d, and %d were loaded", handle, len(d.loads))
	}
	load := d.loads[handle-1]
	allowed := max(load.Options.DynamicShared, d.Present[load.Device].SharedPerBlock)
	threads := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
	if c := l.LargeCluster(); c != (cudadrv.LargeCluster{}) && (c != load.Options.Cluster || l.Function.Clusters == 0) {
		return invalid("cuLaunchKernelEx")
	}
	if int(l.Shared) > allowed || threads > uint64(l.Function.MaxThreads) || l.Grid[1] > 65535 || l.Grid[2] > 65535 {
		return invalid("cuLaunchKernelEx")
	}
	recorded := *l
	recorded.Arguments, recorded.Patches = slices.Clone(l.Arguments), slices.Clone(l.Patches)
	d.launches = append(d.launches, Launch{recorded, arguments, stream})
	return nil
}

func invalid(call string) error {
	return &cudadrv.CallError{Call: call, Code: 1, Name: "CUDA_ERROR_INVALID_VALUE", Text: "invalid argument"}
}
