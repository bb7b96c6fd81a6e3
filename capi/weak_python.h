/* weak_python.h: includes Python.h with every symbol of CPython declared weak.
 *
 * One file is both the C library and the extension module. With ordinary
 * declarations it would not load into a program without Python, whose loader
 * would look for PyErr_SetString and find none. Weak symbols that nobody
 * defines are null, and nothing calls them there: only PyInit__C and what it
 * registers use CPython, and only CPython calls these.
 *
 * Python.h declares its symbols through two macros, and leaves them alone when
 * they exist. So there is no list of symbols to keep; a test reads the symbol
 * table of the built file.
 */
#ifndef NVFUSER_GO_WEAK_PYTHON_H
#define NVFUSER_GO_WEAK_PYTHON_H

#define PyAPI_FUNC(type) __attribute__((weak, visibility("default"))) type
#define PyAPI_DATA(type) extern __attribute__((weak, visibility("default"))) type

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* CPython 3.11 and later */
#include <Python.h> /* Not found? Build with make build, or set the flags: eval "$(make -s env)" */

#endif
