#include "bench.h"

#include <cuda.h>

#include "context.h"

/* Runs a call in a context. */
#define IN(context, call)                             \
  int pushed, code = context_enter((context), &pushed); \
  return code ? code : context_leave(pushed, (call))

static int make_stream(CUstream after, uintptr_t *stream, int *captured, const char **failed) {
  CUstreamCaptureStatus status;
  *failed = "cuStreamIsCapturing";
  int code = cuStreamIsCapturing(after, &status);
  *captured = code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || (!code && status != CU_STREAM_CAPTURE_STATUS_NONE);
  if (code || *captured) return *captured ? 0 : code;
  *failed = "cuStreamSynchronize";
  if ((code = cuStreamSynchronize(after))) return code;
  *failed = "cuStreamCreate";
  return cuStreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING);
}

int bench_open(uintptr_t context, uintptr_t after, uintptr_t *stream, int *captured, const char **failed) {
  *failed = "cuCtxPushCurrent";
  *captured = 0;
  IN(context, make_stream((CUstream)after, stream, captured, failed));
}

/* Allocates, or frees if address is given; neither touches what a stream is captured for. */
static int allocate(uint64_t bytes, CUdeviceptr *address) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  int code = cuThreadExchangeStreamCaptureMode(&mode);
  if (code) return code;
  code = *address ? cuMemFree(*address) : cuMemAlloc(address, bytes);
  cuThreadExchangeStreamCaptureMode(&mode);
  return code;
}

int bench_memory(uintptr_t context, uint64_t bytes, uint64_t *address) {
  CUdeviceptr made = 0;
  int pushed, code = context_enter(context, &pushed);
  if (code) return code;
  code = context_leave(pushed, allocate(bytes, &made));
  *address = made;
  return code;
}

int bench_free(uintptr_t context, uint64_t address) {
  CUdeviceptr at = address;
  IN(context, allocate(0, &at));
}

int bench_copy(uintptr_t context, uintptr_t stream, uint64_t to, uint64_t from, uint64_t bytes) {
  IN(context, cuMemcpyDtoDAsync(to, from, bytes, (CUstream)stream));
}

static int write_now(CUstream stream, uint64_t to, const void *from, uint64_t bytes) {
  int code = cuMemcpyHtoDAsync(to, from, bytes, stream);
  return code ? code : cuStreamSynchronize(stream);
}

int bench_write(uintptr_t context, uintptr_t stream, uint64_t to, const void *from, uint64_t bytes) {
  IN(context, write_now((CUstream)stream, to, from, bytes));
}

static int mark(CUstream stream, uintptr_t *event) {
  int code = cuEventCreate((CUevent *)event, CU_EVENT_DEFAULT);
  return code ? code : cuEventRecord((CUevent)*event, stream);
}

int bench_mark(uintptr_t context, uintptr_t stream, uintptr_t *event) {
  IN(context, mark((CUstream)stream, event));
}

static int between(CUevent first, CUevent last, double *us) {
  float ms = 0;
  int code = cuEventElapsedTime(&ms, first, last);
  *us = 1000. * (double)ms;
  return code;
}

int bench_between(uintptr_t context, uintptr_t first, uintptr_t last, double *us) {
  IN(context, between((CUevent)first, (CUevent)last, us));
}

int bench_forget(uintptr_t context, uintptr_t event) { IN(context, cuEventDestroy((CUevent)event)); }

int bench_wait(uintptr_t context, uintptr_t stream) { IN(context, cuStreamSynchronize((CUstream)stream)); }

int bench_close(uintptr_t context, uintptr_t stream) { IN(context, cuStreamDestroy((CUstream)stream)); }
