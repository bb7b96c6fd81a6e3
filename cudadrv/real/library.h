/* The two libraries of CUDA, opened at run time. */
#ifndef NVFUSER_GO_LIBRARY_H
#define NVFUSER_GO_LIBRARY_H

/* Opens a library, only if it is loaded already where loaded is not 0. Returns
 * its handle, or NULL and the loader's words in problem, cut to size bytes. */
void *library_open(const char *path, int loaded, char *problem, unsigned long size);

/* The file that an open library came from, cut to size bytes; empty if the
 * loader does not say. */
void library_path(void *library, char *path, unsigned long size);

/* The names of the libraries in the process, a line each, as they were loaded by;
 * free() takes it. */
char *library_names(void);

/* Gives libcuda to the trampolines and starts CUDA: cuInit(0). Once, before any
 * other function of libcuda is called. Returns a CUresult. */
int library_start_driver(void *library);

/* An error code that no function of the driver returns: the driver lacks the
 * function. */
enum { LIBRARY_MISSING = 34 }; /* CUDA_ERROR_STUB_LIBRARY */

#endif
