#include "counters.h"

#include <cuda.h>
#include <pthread.h>

#include "context.h"

enum { PLACES = 2 * COUNTERS_MAX_STREAMS, NO_MEMORY = 1 };

/* What a stream has. It is written once, the address last: 0 before, NO_MEMORY if there
 * was none. */
static struct kept {
  uintptr_t context;
  unsigned long long stream;
  CUdeviceptr address;
} table[PLACES];

static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static int count; /* of streams; under the lock */

/* The place of a stream, or the free one where it would be: half of all are free. */
static struct kept *find(uintptr_t context, unsigned long long stream, CUdeviceptr *address) {
  for (unsigned i = (unsigned)stream % PLACES;; i = (i + 1) % PLACES) {
    struct kept *k = &table[i];
    *address = __atomic_load_n(&k->address, __ATOMIC_ACQUIRE);
    if (!*address || (k->context == context && k->stream == stream)) return k;
  }
}

/* Allocating is nothing that a capture by another thread must hear of. */
static int allocate(CUdeviceptr *address) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  int code = cuThreadExchangeStreamCaptureMode(&mode);
  if (code) return code;
  code = cuMemAlloc(address, COUNTERS_BYTES);
  cuThreadExchangeStreamCaptureMode(&mode);
  return code;
}

/* Makes those of a stream, which are zero before what is submitted from now on. What cannot
 * be set to zero is left: who needs it sees the error, which is one of the device. */
static CUdeviceptr make(CUstream stream) {
  CUdeviceptr address;
  return allocate(&address) || cuMemsetD8Async(address, 0, COUNTERS_BYTES, stream) ? NO_MEMORY : address;
}

static CUdeviceptr add(uintptr_t context, unsigned long long number, CUstream stream) {
  CUdeviceptr address;
  pthread_mutex_lock(&adding);
  struct kept *k = find(context, number, &address); /* another thread may have been faster */
  if (!address && count < COUNTERS_MAX_STREAMS) {
    address = make(stream);
    k->context = context;
    k->stream = number;
    __atomic_store_n(&k->address, address, __ATOMIC_RELEASE);
    count++;
  }
  pthread_mutex_unlock(&adding);
  return address;
}

/* In a context that is current. */
static CUdeviceptr counters(uintptr_t context, CUstream stream) {
  CUstreamCaptureStatus status;
  unsigned long long number;
  if (stream == CU_STREAM_PER_THREAD) return 0; /* one handle, and perhaps one number, for a stream of each thread */
  if (cuStreamIsCapturing(stream, &status) || status != CU_STREAM_CAPTURE_STATUS_NONE || cuStreamGetId(stream, &number)) return 0;
  CUdeviceptr address;
  find(context, number, &address);
  if (!address) address = add(context, number, stream);
  return address == NO_MEMORY ? 0 : address;
}

uint64_t counters_of(uintptr_t context, uintptr_t stream) {
  int pushed;
  if (context_enter(context, &pushed)) return 0;
  CUdeviceptr address = counters(context, (CUstream)stream);
  context_leave(pushed, 0);
  return address;
}
