package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"nvfuser_go/internal/version"
)

// caught turns a recovered panic into an error. describe says what was called
// and on what, and may itself panic on a damaged fusion.
func caught(panicked any, describe func() string) error {
	return bugReport(fmt.Sprint(panicked), safely(describe), debug.Stack())
}

// bugReport is an error of one line that names a file with everything needed to
// look into it: what was called, the fusion, the version, the Go stack.
func bugReport(what, call string, stack []byte) error {
	what, more, _ := strings.Cut(what, "\n")
	report := fmt.Sprintf("nvfuser_go %s: internal error: %s\n\n%s\n\n%s%s", version.String, what, call, more, stack)
	path, err := writeReproducer(report)
	if err != nil {
		return internalError(fmt.Sprintf("this is a bug in nvfuser_go: %s (no reproducer: %v)", what, err))
	}
	return internalError(fmt.Sprintf("this is a bug in nvfuser_go: %s (please report it with the file %s)", what, path))
}

func safely(describe func() string) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("(no description: %v)", r)
		}
	}()
	return describe()
}

// writeReproducer writes report to a new file whose name appears only when it
// is complete.
func writeReproducer(report string) (string, error) {
	folder := environment("NVFUSER_GO_REPRO_DIR")
	if folder == "" {
		folder = os.TempDir()
	} else if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(folder, ".nvfuser_go_repro_*.txt")
	if err != nil {
		return "", err
	}
	hidden := file.Name()
	_, err = file.WriteString(report)
	if e := file.Close(); err == nil {
		err = e
	}
	visible := strings.Replace(hidden, "/.nvfuser", "/nvfuser", 1)
	if err == nil {
		err = os.Rename(hidden, visible)
	}
	if err != nil {
		_ = os.Remove(hidden)
		return "", err
	}
	return visible, nil
}

// environment reads a variable as C sees it: Go copied its own when the library
// was loaded, and Python sets them later.
func environment(name string) string {
	text := C.CString(name)
	defer C.free(unsafePointer(text))
	return C.GoString(C.getenv(text))
}
