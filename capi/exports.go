// Command capi is built with -buildmode=c-shared into the one binary of the
// project: the C library that nvfuser_go.h describes and the CPython extension
// module nvfuser_go._C.
//
// It translates between C and Go and holds no logic of its own; it is tested
// from C (tests/c) and from Python (tests/python). Exported functions take C
// types only. The preamble includes the hand-written header, so the compiler
// rejects an export that differs from its declaration there.
package main

/*
#include "nvfuser_go.h"

typedef const char *static_text;
*/
import "C"

import "nvfuser_go/internal/version"

// versionText lives in C memory for the life of the process: C callers keep
// the pointer.
var versionText = C.static_text(C.CString(version.String))

//export nvf_version
func nvf_version() C.static_text { return versionText }

func main() {}
