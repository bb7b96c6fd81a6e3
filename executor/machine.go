package executor

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor/calibration"
	"nvfuser_go/schedulers/model"
	"nvfuser_go/schedulers/scheduler"
)

// A machine is the CUDA devices that the executors of a cache make plans for, and
// the functions that were loaded there. Any number of goroutines may use it. A nil
// machine has no devices.
type machine struct {
	driver  cudadrv.Driver
	loading singleflight.Group

	findModel func(cudadrv.Properties) (model.Machine, error)

	lock      sync.Mutex
	devices   map[int]cudadrv.Properties
	models    map[int]model.Machine
	functions map[functionKey]*list.Element // of loaded
	recent    *list.List                    // used last first
}

// maxFunctions bounds the functions that are found again. One that is forgotten
// stays on the device, since plans may launch it.
const maxFunctions = 4096

// A functionKey is all that a function depends on.
type functionKey struct {
	device       int
	text         [sha256.Size]byte
	name         string
	registers    int // at most, of a thread; 0: any number
	sharedMemory int // that it opts in to; 0: it need not
	cluster      cudadrv.LargeCluster
}

type loaded struct {
	key      functionKey
	function cudadrv.Function
}

func newMachine(driver cudadrv.Driver) *machine {
	if driver == nil {
		return nil
	}
	return &machine{driver: driver, findModel: calibration.Models("", ""), devices: map[int]cudadrv.Properties{}, models: map[int]model.Machine{}, functions: map[functionKey]*list.Element{}, recent: list.New()}
}

// properties returns those of a device.
//
// Errors: Unsupported if the device is not there or cannot be used.
func (m *machine) properties(device int) (cudadrv.Properties, error) {
	if m == nil {
		return cudadrv.Properties{}, &core.Unsupported{What: "execute(): this executor computes on the CPU only", Refusals: []core.Refusal{{By: "executor", Rule: "device",
			Sentence: fmt.Sprintf("the run is on cuda:%d, and there is no CUDA driver", device)}}}
	}
	m.lock.Lock()
	p, ok := m.devices[device]
	m.lock.Unlock()
	if ok {
		return p, nil
	}
	n, err := m.driver.Devices()
	if err != nil {
		return p, ofDriver(err)
	}
	if device < 0 || device >= n {
		return p, core.InvalidArgumentf("execute(): there is no device cuda:%d; this machine has %d CUDA devices", device, n)
	}
	if p, err = m.driver.Properties(device); err != nil {
		return p, ofDriver(err)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.devices[device] = p
	return p, nil
}

// modelOf returns how long kernels take on a device with the given properties.
//
// Errors: those of what finds it.
func (m *machine) modelOf(device int, p cudadrv.Properties) (model.Machine, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if x, ok := m.models[device]; ok {
		return x, nil
	}
	x, err := m.findModel(p)
	if err == nil {
		m.models[device] = x
	}
	return x, err
}

// target is a device as schedulers see it.
func (a *assembly) target() scheduler.Device {
	p, l := &a.properties, limits(a.properties)
	return scheduler.Device{Processors: p.Processors, Threads: p.ThreadsPerBlock, Warp: p.WarpSize, Cluster: int(l.Cluster), Portable: cudadrv.PortableCluster, Shared: int(l.Shared), Cache: p.L2, Model: a.model}
}

// limits is what a launch on a device may have. Sizes of the grid are those of
// every device of compute capability 3.0 and more: CUDA C++ Programming Guide
// 12.9, section 17.2.
func limits(p cudadrv.Properties) kir.Limits {
	l := kir.Hopper
	l.Threads, l.Shared = int64(p.ThreadsPerBlock), int64(max(p.SharedPerBlockOptIn, p.SharedPerBlock))
	switch {
	case p.Major < 9:
		l.Cluster = 1
	case p.Major > 9: // more was not tried there
		l.Cluster = cudadrv.PortableCluster
	}
	return l
}

// function compiles text for a device and loads its kernel called name for the launch l.
// It does so once for equal kernels. With onlyKept it compiles nothing.
//
// Errors: Unsupported; [Bug] if the compiler refuses the text; those of the driver;
// errNotKept.
func (m *machine) function(device int, text, name string, l *cudadrv.LaunchBlock, onlyKept bool) (f cudadrv.Function, key functionKey, err error) {
	p, err := m.properties(device)
	if err != nil {
		return f, key, err
	}
	key = keyOfFunction(p, device, sha256.Sum256([]byte(text)), name, l)
	threads := l.Threads()
	code := func(o cudadrv.CompileOptions) (cudadrv.Compiled, error) { return m.driver.Compile(text, o) }
	if onlyKept {
		k, _ := m.driver.(cudadrv.Keeper)
		code = keptCode(k, key.text)
	}
	f, err = m.loadOnce(p, key, code)
	if err == nil && threads > int64(f.MaxThreads) {
		key.registers = max(p.RegistersPerProcessor/int(threads)/8*8, 8) // registers are given out by 8
		f, err = m.loadOnce(p, key, code)
	}
	if err == nil && threads > int64(f.MaxThreads) {
		return f, key, tooLarge(fmt.Sprintf("a block has %d threads of %d registers, and the device launches at most %d of them", threads, f.Registers, f.MaxThreads))
	}
	if err == nil && l.LargeCluster().Blocks > 0 && f.Clusters == 0 {
		return f, key, tooLarge(fmt.Sprintf("a cluster has %d blocks of %d threads and %d bytes of shared memory, and the device has no room for it", l.LargeCluster().Blocks, threads, l.Shared))
	}
	return f, key, err
}

// keyOfFunction returns the key of a function that may have any number of registers, and that
// is launched as l.
func keyOfFunction(p cudadrv.Properties, device int, text [sha256.Size]byte, name string, l *cudadrv.LaunchBlock) functionKey {
	key := functionKey{device: device, text: text, name: name, cluster: l.LargeCluster()}
	if int64(l.Shared) > int64(p.SharedPerBlock) {
		key.sharedMemory = int(l.Shared)
	}
	return key
}

// errNotKept is the error of code that is looked for, and not compiled.
var errNotKept = errors.New("the machine code is not kept")

// keptFunction returns the function of key, if that is loaded or its code is kept.
func (m *machine) keptFunction(p cudadrv.Properties, key functionKey, k cudadrv.Keeper) (cudadrv.Function, error) {
	return m.loadOnce(p, key, keptCode(k, key.text))
}

// keptCode returns what finds the machine code of a text; k may be nil.
func keptCode(k cudadrv.Keeper, text [sha256.Size]byte) func(cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	return func(o cudadrv.CompileOptions) (c cudadrv.Compiled, err error) {
		ok := false
		if k != nil {
			c, ok = k.KeptCode(text, o)
		}
		if !ok {
			return c, errNotKept
		}
		return c, nil
	}
}

// loadOnce returns the function of key, whose machine code is what code returns.
func (m *machine) loadOnce(p cudadrv.Properties, key functionKey, code func(cudadrv.CompileOptions) (cudadrv.Compiled, error)) (cudadrv.Function, error) {
	for {
		if f, ok := m.find(key); ok {
			return f, nil
		}
		own := false
		f, err, _ := m.loading.Do(fmt.Sprintf("%+v", key), func() (any, error) {
			own = true
			if f, ok := m.find(key); ok { // loaded since the caller looked
				return f, nil
			}
			c, err := code(cudadrv.CompileOptions{Arch: p.Arch(), MaxRegisters: key.registers})
			if err != nil {
				return cudadrv.Function{}, err
			}
			f, err := m.driver.Load(key.device, c.Cubin, key.name, cudadrv.LoadOptions{DynamicShared: key.sharedMemory, Cluster: key.cluster})
			if err == nil {
				m.keep(key, f)
			}
			return f, err
		})
		if own || !errors.Is(err, errNotKept) { // else who was waited for had no text
			return f.(cudadrv.Function), ofDriver(err) // an error of its own for each of those that waited
		}
	}
}

func (m *machine) find(key functionKey) (cudadrv.Function, bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	x, ok := m.functions[key]
	if !ok {
		return cudadrv.Function{}, false
	}
	m.recent.MoveToFront(x)
	return x.Value.(loaded).function, true
}

func (m *machine) keep(key functionKey, f cudadrv.Function) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.functions[key] = m.recent.PushFront(loaded{key, f})
	if m.recent.Len() > maxFunctions {
		delete(m.functions, m.recent.Remove(m.recent.Back()).(loaded).key)
	}
}

// ofDriver returns what an error of the driver is to the user: what is missing or
// too old is Unsupported, a text that does not compile a Bug.
func ofDriver(err error) error {
	var (
		missing *cudadrv.Unavailable
		tooOld  *cudadrv.Unsupported
		failed  *cudadrv.CompileError
	)
	switch {
	case errors.As(err, &missing), errors.As(err, &tooOld):
		return &core.Unsupported{What: "execute(): this machine cannot compute on a CUDA device", Refusals: []core.Refusal{{By: "cuda", Rule: "driver", Sentence: err.Error()}}}
	case errors.As(err, &failed):
		return &Bug{What: failed.Error(), text: failed.Reproducer()}
	}
	return err
}

// What and the rule of the errors of tooLarge.
const (
	tooLargeWhat = "execute(): the device cannot launch this kernel"
	launchRule   = "launch"
)

// isTooLarge reports whether err is one of tooLarge.
func isTooLarge(err error) bool {
	var refused *core.Unsupported
	return errors.As(err, &refused) && slices.ContainsFunc(refused.Refusals, func(r core.Refusal) bool { return r.By == "cuda" && r.Rule == launchRule })
}

// tooLarge is the error of a launch that exceeds what a device has.
func tooLarge(sentence string) error {
	return &core.Unsupported{What: tooLargeWhat, Refusals: []core.Refusal{{By: "cuda", Rule: launchRule, Sentence: sentence}}}
}
