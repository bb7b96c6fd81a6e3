//go:build cgo

// Package real is the driver that has a device: libcuda and NVRTC behind
// [cudadrv.Driver]. It is the only package beside capi with C in it.
//
// Its central type is [Driver]. Nothing is linked with either library. Functions
// of libcuda are trampolines (trampolines.S, with the names in symbols.h) that
// look the real one up when they are first called; NVRTC's are a table of
// pointers (nvrtc.h). Both libraries are opened, and CUDA is started, at the
// first use and not at import, so a program loads and fusions of CPU tensors run
// on a machine with neither.
//
// What package gorgonia.org/cu has of the driver is called there. What it lacks,
// and what must happen on one thread because a context belongs to a thread, is
// in launch.c: loading, and the launch.
//
// Invariants: a context that the caller's thread has is the same after any call;
// nothing waits for the device; no module is unloaded once a kernel of it may
// have run; a [Launch] is in C memory and never changes.
//
// It does not cache machine code, count references, or survive a fork: a child
// process must not call it, which capi sees to.
package real
