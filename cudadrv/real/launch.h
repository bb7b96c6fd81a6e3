/* Loading and launching: what must happen on one thread, in C. Functions return
 * a CUresult, 0 if all is well; on an error failed, where there is one, is the
 * name of the call. */
#ifndef NVFUSER_GO_LAUNCH_H
#define NVFUSER_GO_LAUNCH_H

#include <stdint.h>

enum { LAUNCH_MAX_ARGUMENTS = 4096 }; /* cudadrv.MaxArguments */

/* A part of the parameter structure that a call fills in. */
struct launch_patch {
  uint64_t add;    /* to the value */
  uint32_t offset; /* in the structure */
  uint16_t size;   /* 1 to 8: the first bytes of the value */
  uint16_t value;  /* index into the values of the call */
};

/* A launch as data. It lies in C memory and does not change once it is made, so
 * threads share it without a lock. Patches and arguments follow it. */
struct launch {
  uintptr_t function, context; /* CUfunction, CUcontext */
  uint32_t grid[3], block[3], cluster[3]; /* cluster[0] is 0: none */
  uint32_t shared;
  int32_t cooperative, early;
  uint32_t arguments_size, patches_count;
  const struct launch_patch *patches;
  const uint8_t *arguments;
};

/* The attributes of a function that was loaded. */
struct launch_function {
  uintptr_t function;
  int registers, local_bytes, shared_bytes, max_threads;
  int clusters; /* of those asked about that run at once */
};

/* What launches of a function ask for. */
struct launch_wants {
  int dynamic_shared; /* bytes at most; 0: it need not opt in */
  int cluster;        /* blocks along x, of more than may be without opting in; 0: no such cluster */
  int threads;        /* of a block of that cluster */
  int cluster_shared; /* dynamic bytes of it */
};

/* The context that torch uses on a device. It stays retained. */
int launch_context(int device, uintptr_t *context, const char **failed);

/* Loads a kernel into a context. It leaves the thread's context as it was, and
 * may be called while a stream is captured. */
int launch_load(uintptr_t context, const void *cubin, const char *kernel, const struct launch_wants *wants,
                struct launch_function *out, const char **failed);

/* How many blocks of a function fit a processor at once. */
int launch_occupancy(uintptr_t context, uintptr_t function, int threads, uint64_t shared, int *blocks);

/* Launches on a stream; values are those that the patches name. It allocates
 * nothing, may block while the device's queue is full (so hold no lock that a
 * callback in the queue may want), and leaves another context that is current
 * as it was. A thread without a context gets this one for good, as the CUDA
 * runtime does it. */
int launch_kernel(const struct launch *l, const uint64_t *values, uintptr_t stream);

/* Sets bytes of the device to zero, in the order of the stream; as launch_kernel. */
int launch_zero(uintptr_t context, uint64_t address, uint64_t bytes, uintptr_t stream);

/* The name and the words of a CUresult; never NULL. */
void launch_error(int code, const char **name, const char **text);

#endif
