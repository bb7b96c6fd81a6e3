#include "launch.h"

#include <cuda.h>
#include <string.h>

#include "context.h"

int launch_context(int device, uintptr_t *context, const char **failed) {
  CUdevice d;
  *failed = "cuDeviceGet";
  int code = cuDeviceGet(&d, device);
  if (code) return code;
  *failed = "cuDevicePrimaryCtxRetain";
  return cuDevicePrimaryCtxRetain((CUcontext *)context, d); /* the same representation */
}

/* Opts in to a large cluster, and asks how many run at once. */
static int opt_in(CUfunction f, const struct launch_wants *wants, int *clusters, const char **failed) {
  *failed = "cuFuncSetAttribute";
  int code = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  if (code) return code;
  CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  a.value.clusterDim.x = wants->cluster;
  a.value.clusterDim.y = a.value.clusterDim.z = 1;
  CUlaunchConfig config = {.gridDimX = wants->cluster,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = wants->threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = wants->cluster_shared,
                           .attrs = &a,
                           .numAttrs = 1};
  *failed = "cuOccupancyMaxActiveClusters";
  code = cuOccupancyMaxActiveClusters(clusters, f, &config);
  if (code != CUDA_ERROR_INVALID_CLUSTER_SIZE) return code;
  *clusters = 0;
  return 0;
}

/* Loads in a context that is current. */
static int load(CUmodule *module, const void *cubin, const char *kernel, const struct launch_wants *wants,
                struct launch_function *out, const char **failed) {
  CUfunction f;
  *failed = "cuModuleLoadData";
  int code = cuModuleLoadData(module, cubin);
  if (code) return code;
  *failed = "cuModuleGetFunction";
  code = cuModuleGetFunction(&f, *module, kernel);
  if (!code && wants->dynamic_shared > 0) {
    *failed = "cuFuncSetAttribute";
    code = cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, wants->dynamic_shared);
  }
  out->clusters = 0;
  if (!code && wants->cluster > 0) code = opt_in(f, wants, &out->clusters, failed);
  const struct {
    CUfunction_attribute attribute;
    int *to;
  } wanted[] = {{CU_FUNC_ATTRIBUTE_NUM_REGS, &out->registers},
                {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &out->local_bytes},
                {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &out->shared_bytes},
                {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->max_threads}};
  for (unsigned i = 0; !code && i < sizeof wanted / sizeof *wanted; i++) {
    *failed = "cuFuncGetAttribute";
    code = cuFuncGetAttribute(wanted[i].to, wanted[i].attribute, f);
  }
  out->function = (uintptr_t)f;
  if (code) cuModuleUnload(*module); /* nothing of it runs */
  return code;
}

int launch_load(uintptr_t context, const void *cubin, const char *kernel, const struct launch_wants *wants,
                struct launch_function *out, const char **failed) {
  *failed = "cuCtxPushCurrent";
  int code = cuCtxPushCurrent((CUcontext)context);
  if (code) return code;
  /* Loading allocates, which a capture in the default mode forbids. */
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  *failed = "cuThreadExchangeStreamCaptureMode";
  code = cuThreadExchangeStreamCaptureMode(&mode);
  if (!code) {
    CUmodule module;
    code = load(&module, cubin, kernel, wants, out, failed);
    cuThreadExchangeStreamCaptureMode(&mode);
  }
  CUcontext ours;
  cuCtxPopCurrent(&ours);
  return code;
}

int launch_occupancy(uintptr_t context, uintptr_t function, int threads, uint64_t shared, int *blocks) {
  int code = cuCtxPushCurrent((CUcontext)context);
  if (code) return code;
  code = cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (CUfunction)function, threads, shared);
  CUcontext ours;
  cuCtxPopCurrent(&ours);
  return code;
}

/* Launches in a context that is current. */
static int start(const struct launch *l, const uint64_t *values, uintptr_t stream) {
  _Alignas(16) uint8_t arguments[LAUNCH_MAX_ARGUMENTS];
  memcpy(arguments, l->arguments, l->arguments_size);
  for (uint32_t i = 0; i < l->patches_count; i++) {
    const struct launch_patch *p = &l->patches[i];
    uint64_t value = values[p->value] + p->add;
    memcpy(arguments + p->offset, &value, p->size);
  }
  void *parameters[] = {arguments};
  CUlaunchAttribute attributes[3];
  unsigned count = 0;
  if (l->cluster[0]) {
    CUlaunchAttribute *a = &attributes[count++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.clusterDim.x = l->cluster[0];
    a->value.clusterDim.y = l->cluster[1];
    a->value.clusterDim.z = l->cluster[2];
  }
  if (l->cooperative) {
    CUlaunchAttribute *a = &attributes[count++];
    a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    a->value.cooperative = 1;
  }
  if (l->early) {
    CUlaunchAttribute *a = &attributes[count++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config = {.gridDimX = l->grid[0],
                           .gridDimY = l->grid[1],
                           .gridDimZ = l->grid[2],
                           .blockDimX = l->block[0],
                           .blockDimY = l->block[1],
                           .blockDimZ = l->block[2],
                           .sharedMemBytes = l->shared,
                           .hStream = (CUstream)stream,
                           .attrs = attributes,
                           .numAttrs = count};
  return cuLaunchKernelEx(&config, (CUfunction)l->function, l->arguments_size ? parameters : NULL, NULL);
}

int context_enter(uintptr_t context, int *pushed) {
  CUcontext current = NULL;
  *pushed = 0;
  int code = cuCtxGetCurrent(&current);
  if (code || current == (CUcontext)context) return code;
  if (!current) return cuCtxSetCurrent((CUcontext)context);
  code = cuCtxPushCurrent((CUcontext)context);
  *pushed = !code;
  return code;
}

int context_leave(int pushed, int code) {
  CUcontext ours;
  if (pushed) cuCtxPopCurrent(&ours);
  return code;
}

int launch_kernel(const struct launch *l, const uint64_t *values, uintptr_t stream) {
  int pushed, code = context_enter(l->context, &pushed);
  return code ? code : context_leave(pushed, start(l, values, stream));
}

int launch_zero(uintptr_t context, uint64_t address, uint64_t bytes, uintptr_t stream) {
  int pushed, code = context_enter(context, &pushed);
  return code ? code : context_leave(pushed, cuMemsetD8Async(address, 0, bytes, (CUstream)stream));
}

void launch_error(int code, const char **name, const char **text) {
  *name = *text = NULL;
  if (cuGetErrorName((CUresult)code, name) || !*name) *name = "unknown error";
  if (cuGetErrorString((CUresult)code, text) || !*text) *text = "no description";
}
