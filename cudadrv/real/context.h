/* The context of a thread, for the length of a call. */
#ifndef NVFUSER_GO_CONTEXT_H
#define NVFUSER_GO_CONTEXT_H

#include <stdint.h>

/* Makes a context current. *pushed tells whether it has to be popped again; a thread
 * without a context gets this one for good, as the CUDA runtime does it. */
int context_enter(uintptr_t context, int *pushed);

/* Undoes it, and returns code. */
int context_leave(int pushed, int code);

#endif
