package cudadrv

import (
	"fmt"
	"strconv"
)

// A Driver compiles, loads and launches kernels. Any number of goroutines may
// call it.
type Driver interface {
	// Devices returns how many devices there are. It is an Unavailable where
	// there is no driver, and 0 where there is one and no device.
	Devices() (int, error)

	// Properties returns what is known of a device, counted from 0 as torch does.
	Properties(device int) (Properties, error)

	// Compiler returns which compiler Compile uses, or an Unavailable.
	Compiler() (Compiler, error)

	// CompilerID returns what tells that compiler from any other, in all processes
	// and wherever its file is. It need not open it, so Compile may come to use
	// another one, whose identity this returns from then on.
	CompilerID() (string, error)

	// Compile makes machine code of CUDA text. It needs no device. The error is a
	// CompileError if the text is not taken.
	Compile(source string, o CompileOptions) (Compiled, error)

	// Load puts the kernel of that name into the context of the device that torch
	// uses. Loading inside the capture of a CUDA graph is allowed.
	Load(device int, cubin []byte, kernel string, o LoadOptions) (Function, error)

	// Launch starts l on a stream of its device, 0 being the default one. It does
	// not wait. The grid must not be empty.
	Launch(l *LaunchBlock, v CallValues, stream uintptr) error

	// Bench returns a place for measurements on a device. It waits for what was
	// given to the stream after before; a stream that is captured is Unsupported.
	Bench(device int, after uintptr) (Bench, error)
}

// Properties are what schedulers and launches ask of a device. Sizes are bytes.
type Properties struct {
	Name         string
	Major, Minor int // compute capability
	Processors   int

	Memory int64
	L2     int64

	SharedPerBlock      int // without asking for more
	SharedPerBlockOptIn int // at most, with LoadOptions.DynamicShared
	SharedPerProcessor  int
	SharedReserved      int // of each block, by the driver

	RegistersPerProcessor int // of 32 bits
	ThreadsPerBlock       int // at most
	ThreadsPerProcessor   int // at most
	WarpSize              int

	MemoryClock   int // kHz
	MemoryBus     int // bits
	DriverVersion int // major*1000 + minor*10
}

// Arch returns the architecture to compile for.
func (p Properties) Arch() string { return Arch(p.Major, p.Minor) }

// Arch returns the name of the architecture of a compute capability as
// CompileOptions.Arch wants it: "sm_90a". From 9.0 on there are instructions
// that only code for that very architecture has, hence the letter.
func Arch(major, minor int) string {
	name := "sm_" + strconv.Itoa(major*10+minor)
	if major >= 9 {
		name += "a"
	}
	return name
}

// A Compiler is NVRTC as it was found.
type Compiler struct {
	Major, Minor int
	Path         string
}

func (c Compiler) String() string { return fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor) }

// CompileOptions are all that machine code depends on beside the text and the
// compiler.
type CompileOptions struct {
	Arch         string // as Arch returns it
	DisableFMA   bool   // a*b + c is rounded twice
	LineInfo     bool   // for profilers
	MaxRegisters int    // of a thread; 0: the compiler's choice
}

// Flags returns the options as NVRTC takes them, always in one order.
func (o CompileOptions) Flags() []string {
	flags := []string{"--gpu-architecture=" + o.Arch, "--std=c++17", "--device-as-default-execution-space",
		"--fmad=" + strconv.FormatBool(!o.DisableFMA), "--ptxas-options=-v"}
	if o.LineInfo {
		flags = append(flags, "--generate-line-info")
	}
	if o.MaxRegisters > 0 {
		flags = append(flags, "--maxrregcount="+strconv.Itoa(o.MaxRegisters))
	}
	return flags
}

// Compiled is machine code of one text.
type Compiled struct {
	Cubin []byte
	Log   string // warnings and what ptxas says of each kernel
}

// LoadOptions are attributes of a function.
type LoadOptions struct {
	DynamicShared int          // bytes that launches may ask for at most
	Cluster       LargeCluster // that launches have; zero: of PortableCluster blocks or fewer, or none
}

// PortableCluster is how many blocks a cluster has at most whose function does not opt in to
// more.
const PortableCluster = 8

// A LargeCluster is one of more than PortableCluster blocks along x. Whether a device has room
// for any depends on what is left of its processors: it is asked when the function is loaded.
type LargeCluster struct {
	Blocks, Threads int // of the cluster, of each block
	Shared          int // bytes of dynamic shared memory of each block
}

// A Function is a kernel on a device. It is never unloaded: that would wait for
// all work of the device, and graphs that were captured may still launch it.
type Function struct {
	Handle, Context uintptr // CUfunction, CUcontext
	Device          int
	Name            string
	Registers       int // of a thread
	LocalBytes      int // of a thread, spilled registers among them
	SharedBytes     int // static, of a block
	MaxThreads      int // of a block, as its registers allow
	CodeBytes       int // instructions; 0: it is not known
	Clusters        int // of LoadOptions.Cluster that the device holds at once; 0: none, or it was not asked
}
