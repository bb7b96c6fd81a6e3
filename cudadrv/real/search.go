//go:build cgo

package real

/*
#cgo CFLAGS: -std=c11
#cgo LDFLAGS: -L${SRCDIR}/link -Wl,--as-needed -ldl
#include <stdlib.h>
#include "library.h"
*/
import "C"

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"nvfuser_go/cudadrv"
)

// Variables that name a library; if one is set nothing else is tried.
const (
	driverVariable   = "NVFUSER_GO_LIBCUDA"
	compilerVariable = "NVFUSER_GO_LIBNVRTC"
)

// A place is where a library may be.
type place struct {
	path   string // a file, or a name for the loader
	loaded bool   // only if it is in the process already
}

// find opens the first of the places that can be opened.
func find(places []place) (library unsafe.Pointer, path string, tried []cudadrv.Attempt) {
	for _, p := range places {
		if filepath.IsAbs(p.path) {
			if _, err := os.Stat(p.path); err != nil {
				tried = append(tried, cudadrv.Attempt{Path: p.path, Problem: "there is no such file"})
				continue
			}
		}
		library, problem := open(p)
		if library != nil {
			return library, pathOf(library, p.path), tried
		}
		where := p.path
		if p.loaded {
			where += " (as loaded by another library)"
		}
		tried = append(tried, cudadrv.Attempt{Path: where, Problem: problem})
	}
	return nil, "", tried
}

func open(p place) (library unsafe.Pointer, problem string) {
	name := C.CString(p.path)
	defer C.free(unsafe.Pointer(name))
	var words [512]C.char
	loaded := C.int(0)
	if p.loaded {
		loaded = 1
	}
	if library = C.library_open(name, loaded, &words[0], C.ulong(len(words))); library == nil {
		problem = strings.TrimPrefix(C.GoString(&words[0]), p.path+": ")
	}
	return library, problem
}

// pathOf returns the file of an open library, or else the given name.
func pathOf(library unsafe.Pointer, name string) string {
	var path [4096]C.char
	C.library_path(library, &path[0], C.ulong(len(path)))
	return cmp.Or(C.GoString(&path[0]), name)
}

// environment returns a variable as it is now: Go's copy is from the start of
// the library, and Python may have set it since.
func environment(name string) string {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.GoString(C.getenv(text))
}

// driverPlaces returns where libcuda may be: torch's copy is the loader's.
func driverPlaces() []place {
	if named := environment(driverVariable); named != "" {
		return []place{{path: named}}
	}
	const name = "libcuda.so.1"
	places := []place{{name, true}, {name, false}}
	for _, folder := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"} {
		places = append(places, place{path: filepath.Join(folder, name)})
	}
	return places
}

// compilerPlaces returns where NVRTC may be, best first: the one that belongs to
// the CUDA that torch has loaded, those of the packages beside torch and beside
// this library, the loader's, the system's.
func compilerPlaces(loaded []string) []place {
	if named := environment(compilerVariable); named != "" {
		return []place{{path: named}}
	}
	var places []place
	add := func(paths ...string) {
		for _, path := range paths {
			if p := (place{path: path}); !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
	}
	for _, file := range loaded {
		if version, ok := strings.CutPrefix(filepath.Base(file), "libcudart.so."); ok {
			folder := folderOf(file)
			major, _, _ := strings.Cut(version, ".")
			add(filepath.Join(folder, "libnvrtc.so."+major))
			add(compilersIn(filepath.Join(folder, "..", ".."), major)...)
		}
	}
	for _, file := range loaded {
		switch filepath.Base(file) {
		case "libtorch_cpu.so", "libc10.so": // site-packages/torch/lib
			add(compilersIn(filepath.Join(folderOf(file), "..", "..", "nvidia"), "")...)
		case "_C.abi3.so": // site-packages/nvfuser_go
			add(compilersIn(filepath.Join(folderOf(file), "..", "nvidia"), "")...)
		}
	}
	for _, major := range []string{"13", "12"} {
		places = append(places, place{"libnvrtc.so." + major, true})
	}
	add("libnvrtc.so.13", "libnvrtc.so.12")
	for _, root := range []string{environment("CUDA_HOME"), environment("CUDA_PATH"), "/usr/local/cuda"} {
		if root != "" {
			add(filepath.Join(root, "lib64", "libnvrtc.so"))
		}
	}
	return places
}

// folderOf returns where a file is, links followed: what its library was loaded by
// may lead through some, and then ".." is not the folder that is named before it.
func folderOf(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return filepath.Dir(file)
}

// compilersIn returns the libraries in the folders */lib below a folder, the
// newest first; only those of one major version unless major is empty.
func compilersIn(folder, major string) []string {
	found, _ := filepath.Glob(filepath.Join(filepath.Clean(folder), "*", "lib", "libnvrtc.so."+cmp.Or(major, "[0-9]*")))
	number := func(path string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(path), "."))
		return n
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	return found
}

// loadedFiles returns the absolute paths of the libraries in the process, sorted.
func loadedFiles() []string {
	text := C.library_names()
	defer C.free(unsafe.Pointer(text))
	var files []string
	for name := range strings.Lines(C.GoString(text)) {
		if filepath.IsAbs(name) {
			files = append(files, strings.TrimSuffix(name, "\n"))
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
