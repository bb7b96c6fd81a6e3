package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"strings"

	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/real"
)

// driver is the machine's.
var driver real.Driver

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
