/* Timing work of a device: a stream of its own and memory that nobody else sees.
 * Functions return a CUresult, 0 if all is well, and leave the thread's context as it was. */
#ifndef NVFUSER_GO_BENCH_H
#define NVFUSER_GO_BENCH_H

#include <stdint.h>

/* Makes a stream, and waits for what the stream after was given. *captured tells that
 * after is being captured into a graph: then nothing is made. On an error failed is the
 * name of the call. */
int bench_open(uintptr_t context, uintptr_t after, uintptr_t *stream, int *captured, const char **failed);

/* Gives and takes back memory. They may be called while another stream is captured. */
int bench_memory(uintptr_t context, uint64_t bytes, uint64_t *address);
int bench_free(uintptr_t context, uint64_t address);

/* Copies on the device, and from the host; the latter has read all when it returns. */
int bench_copy(uintptr_t context, uintptr_t stream, uint64_t to, uint64_t from, uint64_t bytes);
int bench_write(uintptr_t context, uintptr_t stream, uint64_t to, const void *from, uint64_t bytes);

/* Makes an event that happens when all that the stream was given is done. */
int bench_mark(uintptr_t context, uintptr_t stream, uintptr_t *event);

/* The us between two events, which have happened. */
int bench_between(uintptr_t context, uintptr_t first, uintptr_t last, double *us);
int bench_forget(uintptr_t context, uintptr_t event);

int bench_wait(uintptr_t context, uintptr_t stream);
int bench_close(uintptr_t context, uintptr_t stream);

#endif
