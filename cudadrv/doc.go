// Package cudadrv is what the rest of the program knows of CUDA: which devices
// there are, machine code from CUDA text, functions on a device, launches. It
// has no C in it; package real talks to the libraries, package fake writes down
// what it is asked for.
//
// Its central type is [Driver]. The data flow of a kernel:
//
//	text -> Compile -> Compiled.Cubin -> Load -> Function
//	                                               |
//	parameter structure, grid, block, patches -> LaunchBlock -> Launch
//
// A [LaunchBlock] is made once for a plan. It holds the bytes of the kernel's
// parameter structure with all that does not change between calls, and a
// [Patch] for each place that does: pointers, and seed and offset of random
// numbers. A launch copies the bytes, writes [CallValues] at the patches, and
// gives the copy to the driver; the block itself never changes, so any number
// of threads may launch it.
//
// Invariants: Compile needs no device and no driver, Load needs no compiler;
// errors are [Unavailable], [Unsupported], [CompileError] or [CallError]; nothing is
// loaded or started before the first call.
//
// It does not cache or choose an architecture's best schedule, and but for the
// measurements of a [Bench] neither allocates memory nor waits for a device.
package cudadrv
