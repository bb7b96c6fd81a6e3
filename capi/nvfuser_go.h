/* nvfuser_go.h: the C interface of nvfuser_go.
 *
 * The functions live in the file nvfuser_go/_C.abi3.so of the Python package.
 * That file is also the CPython extension module, but it depends on libc only
 * and loads into a program that has no Python in it. Link it by name,
 *
 *     cc program.c -I DIR/include -L DIR -l:_C.abi3.so -Wl,-rpath,DIR
 *
 * or open it with dlopen. It starts a Go runtime in the process and cannot be
 * unloaded.
 *
 * Threads: every function may be called from any thread, several at a time.
 *
 * Fork: the Go runtime does not survive fork(). In a child process only
 * nvf_forked may be called, unless the child calls exec first.
 */
#ifndef NVFUSER_GO_H
#define NVFUSER_GO_H

/* Marks what the library shows; the rest is compiled with hidden visibility. */
#define NVF_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the library, such as "0.1.0". The text is static: it
 * is valid until the process ends and must not be freed. */
NVF_API const char *nvf_version(void);

/* Returns 1 in a process that was forked after the library was loaded, else 0.
 * It is safe there: it does not enter the Go runtime. */
NVF_API int nvf_forked(void);

#ifdef __cplusplus
}
#endif

#endif
