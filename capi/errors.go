package main

/*
#include "export_types.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// A plainError is a FusionError that is neither of the kinds of package core.
type plainError string

func (e plainError) Error() string { return string(e) }

func failure(format string, args ...any) error { return plainError(fmt.Sprintf(format, args...)) }

// An internalError is a bug of ours; its text is one line.
type internalError string

func (e internalError) Error() string { return string(e) }

// report describes err in *e, which may be nil, and returns its status: NVF_OK
// for nil.
func report(e *C.nvf_error, err error) C.int {
	if err == nil {
		return C.NVF_OK
	}
	var (
		argument    *core.InvalidArgument
		kind        *core.InvalidType
		unsupported *core.Unsupported
		internal    internalError
	)
	if bug := (*executor.Bug)(nil); errors.As(err, &bug) {
		err = bugReport(fmt.Sprint(bug.What), bug.Reproducer, bug.Stack)
	}
	status := C.int(C.NVF_FAILED)
	switch {
	case errors.As(err, &argument):
		status = C.NVF_INVALID_ARGUMENT
	case errors.As(err, &kind):
		status = C.NVF_INVALID_TYPE
	case errors.As(err, &unsupported):
		status = C.NVF_UNSUPPORTED
	case errors.As(err, &internal):
		status = C.NVF_INTERNAL
	}
	if e == nil {
		return status
	}
	*e = C.nvf_error{status: C.int32_t(status), text: cText(err.Error())}
	if unsupported != nil && len(unsupported.Refusals) > 0 {
		n := len(unsupported.Refusals)
		e.refusals = (*C.nvf_refusal)(C.calloc(C.size_t(n), C.sizeof_nvf_refusal))
		e.num_refusals = C.int32_t(n)
		for i, r := range unsupported.Refusals {
			unsafe.Slice(e.refusals, n)[i] = C.nvf_refusal{cText(r.By), cText(r.Rule), cText(r.Tensor), cText(r.Sentence)}
		}
	}
	return status
}

// cText copies s to C memory as UTF-8 without NUL bytes.
func cText(s string) *C.char {
	return C.CString(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"))
}

//export nvf_error_clear
func nvf_error_clear(e *C.nvf_error) {
	if e == nil {
		return
	}
	for _, r := range unsafe.Slice(e.refusals, int(e.num_refusals)) {
		for _, text := range []*C.char{r.by, r.rule, r.tensor, r.sentence} {
			C.free(unsafe.Pointer(text))
		}
	}
	C.free(unsafe.Pointer(e.refusals))
	C.free(unsafe.Pointer(e.text))
	*e = C.nvf_error{}
}

//export nvf_free
func nvf_free(memory unsafe.Pointer) { C.free(memory) }
