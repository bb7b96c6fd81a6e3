//go:build cgo

package real

/*
#include <stdlib.h>
#include "nvrtc.h"
#include "signals.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/cudadrv"
)

// A compiler is NVRTC once it is open. It is never closed.
type compiler struct {
	cudadrv.Compiler
	id        string
	functions C.struct_nvrtc
}

var (
	places      = sync.OnceValue(func() []place { return compilerPlaces(loadedFiles()) })
	theCompiler = sync.OnceValues(openCompiler)
	isOpen      atomic.Bool // theCompiler has returned

	// likelyID is the identity of the compiler that will probably be opened; empty if
	// that cannot be told.
	likelyID = sync.OnceValue(func() string { return likelyBuild(places()) })
)

// compilerID is Driver.CompilerID. Opening NVRTC takes 5 to 10 ms, as long as all
// else of a process's first kernel whose machine code is on disk.
func compilerID() (string, error) {
	if !isOpen.Load() {
		if id := likelyID(); id != "" {
			return id, nil
		}
	}
	c, err := theCompiler()
	if err != nil {
		return "", err
	}
	return c.id, nil
}

func openCompiler() (*compiler, error) {
	defer isOpen.Store(true)
	library, path, tried := find(places())
	if library == nil {
		return nil, &cudadrv.Unavailable{Library: "NVRTC, the compiler of kernels,", Tried: tried,
			Install: "install a build of torch for CUDA, or nvidia-cuda-nvrtc, or name the file in " + compilerVariable}
	}
	c := &compiler{Compiler: cudadrv.Compiler{Path: path}}
	if lacks := C.nvrtc_bind(library, &c.functions); lacks != nil {
		return nil, &cudadrv.Unsupported{What: fmt.Sprintf("%s has no function %s: a newer NVRTC is needed", path, C.GoString(lacks))}
	}
	C.signals_keep(library)
	var major, minor C.int
	if code := C.nvrtc_version(&c.functions, &major, &minor); code != 0 {
		return nil, c.failure("nvrtcVersion", code)
	}
	c.Major, c.Minor = int(major), int(minor)
	c.id = cmp.Or(buildOf(path), c.String())
	return c, nil
}

func (c *compiler) failure(call string, code C.int) error {
	name := C.GoString(C.nvrtc_error(&c.functions, code))
	return &cudadrv.CallError{Call: call, Code: int(code), Name: name, Text: c.String() + " of " + c.Path}
}

// compile is Driver.Compile.
func (c *compiler) compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	if !c.supports(o.Arch) {
		return cudadrv.Compiled{}, &cudadrv.Unsupported{What: fmt.Sprintf("%v (%s) does not know the architecture %s of the device", c.Compiler, c.Path, o.Arch)}
	}
	text := C.CString(source)
	defer C.free(unsafe.Pointer(text))
	flags := o.Flags()
	if c.Major >= 13 { // kernels have no textures and call nothing of the runtime: 5 ms less of 40
		flags = append(flags, "--minimal")
	}
	options := make([]*C.char, len(flags))
	for i, f := range flags {
		options[i] = C.CString(f)
		defer C.free(unsafe.Pointer(options[i]))
	}
	var out C.struct_nvrtc_result
	C.nvrtc_compile(&c.functions, text, C.int(len(options)), &options[0], &out)
	defer C.free(unsafe.Pointer(out.log))
	defer C.free(unsafe.Pointer(out.cubin))
	log := ""
	if out.log != nil {
		log = C.GoString(out.log)
	}
	switch {
	case out.code == C.NVRTC_COMPILATION:
		return cudadrv.Compiled{}, &cudadrv.CompileError{Source: source, Flags: flags, Log: log}
	case out.code != 0:
		return cudadrv.Compiled{}, c.failure(C.GoString(out.failed), out.code)
	}
	return cudadrv.Compiled{Cubin: C.GoBytes(unsafe.Pointer(out.cubin), C.int(out.cubin_size)), Log: log}, nil
}

// supports reports whether the compiler knows an architecture such as "sm_90a".
func (c *compiler) supports(arch string) bool {
	number, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af"))
	return err == nil && C.nvrtc_supports(&c.functions, C.int(number)) != 0
}
