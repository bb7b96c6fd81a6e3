package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/cudadrv/real"
)

// driver is the machine's.
var driver real.Driver

// maxCubins is how many bytes of compiled kernels and plans are kept on disk: some
// ten thousand kernels.
const maxCubins = 512 << 20

// cubinStore is where compiled kernels and plans are kept; nil where there is no place.
var cubinStore = sync.OnceValue(func() *cubins.Store {
	folder := cubinFolder()
	if folder == "" {
		return nil
	}
	return cubins.NewStore(folder, maxCubins, func(problem string) { fmt.Fprintln(os.Stderr, "nvfuser_go:", problem) })
})

// cubinFolder is the folder that the user names, or ours among the user's caches,
// or empty.
func cubinFolder() string {
	folder := environment("NVFUSER_GO_CACHE_DIR")
	if folder == "" {
		caches := environment("XDG_CACHE_HOME")
		if !filepath.IsAbs(caches) { // as its specification says
			home := environment("HOME")
			if home == "" {
				return ""
			}
			caches = filepath.Join(home, ".cache")
		}
		folder = filepath.Join(caches, "nvfuser_go")
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	return absolute
}

func cubinsText() string {
	store := cubinStore()
	if store == nil {
		return "none: neither NVFUSER_GO_CACHE_DIR nor HOME is set"
	}
	u := store.Usage()
	return fmt.Sprintf("%s: %d kernels, %d plans, %.1f MiB of at most %d", store.Folder(), u.Kernels, u.Plans, float64(u.Bytes)/(1<<20), maxCubins>>20)
}

//export nvfi_cuda
func nvfi_cuda(text **C.char, e *C.nvf_error) C.int {
	return guard(e, func() string { return "devices\n" }, func() error {
		*text = cText(cudaText())
		return nil
	})
}

var onOneLine = strings.NewReplacer(":\n  ", ": ", "\n  ", "; ", "\n", " ")

// cudaText says what there is of CUDA: a line each, what and value with a tab
// between.
func cudaText() string {
	var b strings.Builder
	line := func(what, value string, err error) {
		if err != nil {
			value = onOneLine.Replace(err.Error())
		}
		fmt.Fprintf(&b, "%s\t%s\n", what, value)
	}
	path, err := driver.LibraryPath()
	line("CUDA driver", path, err)
	compiler, err := driver.Compiler()
	line("NVRTC", fmt.Sprintf("%d.%d (%s)", compiler.Major, compiler.Minor, compiler.Path), err)
	line("kernel cache", cubinsText(), nil)
	if path == "" {
		return b.String()
	}
	n, err := driver.Devices()
	line("CUDA devices", fmt.Sprint(n), err)
	for i := range n {
		p, err := driver.Properties(i)
		line(fmt.Sprintf("device %d", i), deviceText(p), err)
	}
	return b.String()
}

func deviceText(p cudadrv.Properties) string {
	return fmt.Sprintf("%s: %s, %d processors, %d GiB, driver for CUDA %d.%d", p.Name, p.Arch(), p.Processors, p.Memory>>30, p.DriverVersion/1000, p.DriverVersion%1000/10)
}
