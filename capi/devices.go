package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/cudadrv/real"
	"nvfuser_go/executor/calibration"
	"nvfuser_go/schedulers/model"
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

// cubinFolder is the folder of compiled kernels, plans and calibrations, or empty.
func cubinFolder() string { return cubins.Folder(environment) }

// models tells how long kernels take on a device.
var models = sync.OnceValue(func() func(cudadrv.Properties) (model.Machine, error) {
	return calibration.Models(environment(calibration.Variable), cubinFolder())
})

//export nvfi_calibrate
func nvfi_calibrate(device C.int32_t, to C.const_text, text **C.char, e *C.nvf_error) C.int {
	return guard(e, func() string { return "calibrate\n" }, func() error {
		path := C.GoString(to)
		if path == "" {
			path = environment(calibration.Variable)
		}
		path, m, err := calibration.Run(cubins.NewDriver(driver, cubinStore(), real.ProgramID(), 1), int(device), path, cubinFolder())
		if err == nil {
			*text = cText(path + "\n" + m.Text())
		}
		return err
	})
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
		m, err := models()(p)
		line(fmt.Sprintf("times of device %d", i), fmt.Sprintf("%.2f TB/s of a copy, %.1f us of a launch (%s)", m.Copy/1e6, m.Launch, calibration.Source(p, m)), err)
	}
	return b.String()
}

func deviceText(p cudadrv.Properties) string {
	return fmt.Sprintf("%s: %s, %d processors, %d GiB, driver for CUDA %d.%d", p.Name, p.Arch(), p.Processors, p.Memory>>30, p.DriverVersion/1000, p.DriverVersion%1000/10)
}
