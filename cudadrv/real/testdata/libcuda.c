/* A libcuda for tests. It writes down what it is asked for, as lines of the file
 * CUDADRV_RECORD; the call that the file CUDADRV_RECORD.fail names fails with the
 * code in it, or, with a second number, once that many were made since the file was
 * another. There are two devices, and their contexts are 0x1000 and 0x1001. They
 * have nonsense for properties, or with CUDADRV_HOPPER those of an H100. */
#include <cuda.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Thread_local CUcontext stack[8];
static _Thread_local int depth;

/* Appends a line, and returns the code that the call shall fail with. */
static int note(const char *call, const char *format, ...) {
  static char known[64];
  static int made;
  char path[4096], failing[64] = "";
  int code = 0, after = 0;
  snprintf(path, sizeof path, "%s.fail", getenv("CUDADRV_RECORD"));
  FILE *f = fopen(path, "r");
  if (f) {
    if (fscanf(f, "%63s %d %d", failing, &code, &after) < 2) code = 0;
    fclose(f);
  }
  if (strcmp(known, failing)) {
    strcpy(known, failing);
    made = 0;
  }
  if (after > 0 && !strcmp(call, failing) && made++ < after) code = 0;
  if (!(f = fopen(getenv("CUDADRV_RECORD"), "a"))) abort();
  fputs(call, f);
  va_list more;
  va_start(more, format);
  vfprintf(f, format, more);
  va_end(more);
  fputs("\n", f);
  fclose(f);
  return strcmp(call, failing) ? 0 : code;
}

CUresult cuInit(unsigned flags) { return note("cuInit", "(%u)", flags); }
CUresult cuDriverGetVersion(int *version) {
  const char *wanted = getenv("CUDADRV_VERSION");
  return *version = wanted ? atoi(wanted) : 13000, 0;
}
CUresult cuDeviceGetCount(int *count) { return *count = 2, note("cuDeviceGetCount", ""); }
CUresult cuDeviceGet(CUdevice *d, int ordinal) {
  if (ordinal < 0 || ordinal > 1) return CUDA_ERROR_INVALID_DEVICE;
  return *d = ordinal, note("cuDeviceGet", "(%d)", ordinal);
}
CUresult cuDeviceGetName(char *name, int size, CUdevice d) { return snprintf(name, (size_t)size, "Device %d", d), 0; }
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice d) { return *bytes = (size_t)80 << 30, (void)d, 0; }
static int hopper(CUdevice_attribute a) {
  switch ((int)a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 << 10;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 << 10;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1 << 10;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 1 << 16;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
  }
  return 0;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
  return *value = getenv("CUDADRV_HOPPER") ? hopper(a) : 1000 + (int)a, (void)d, 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
  return *c = (CUcontext)(0x1000ull + (unsigned)d), note("cuDevicePrimaryCtxRetain", "(%d)", d);
}
CUresult cuCtxGetCurrent(CUcontext *c) { return *c = depth ? stack[depth - 1] : NULL, 0; }
CUresult cuCtxSetCurrent(CUcontext c) { return depth = 1, stack[0] = c, note("cuCtxSetCurrent", "(%p)", (void *)c); }
CUresult cuCtxPushCurrent(CUcontext c) { return stack[depth++] = c, note("cuCtxPushCurrent", "(%p)", (void *)c); }
CUresult cuCtxPopCurrent(CUcontext *c) { return *c = stack[--depth], note("cuCtxPopCurrent", ""); }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  static _Thread_local CUstreamCaptureMode was;
  CUstreamCaptureMode old = was;
  note("cuThreadExchangeStreamCaptureMode", "(%d)", *mode);
  was = *mode, *mode = old;
  return 0;
}
CUresult cuModuleLoadData(CUmodule *m, const void *image) {
  return *m = (CUmodule)0x2000, note("cuModuleLoadData", "(%s)", *(const char *)image == 0x7f ? "ELF" : (const char *)image);
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  return *f = (CUfunction)0x3000, note("cuModuleGetFunction", "(%p, %s)", (void *)m, name);
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream s) {
  return note("cuMemsetD8Async", "(%#llx, %u, %zu, %p)", at, value, bytes, (void *)s);
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  *status = s == (CUstream)0x88 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return note("cuStreamIsCapturing", "(%p)", (void *)s);
}
CUresult cuStreamGetId(CUstream s, unsigned long long *id) { return *id = (uintptr_t)s, note("cuStreamGetId", "(%p)", (void *)s); }
CUresult cuStreamCreate(CUstream *s, unsigned flags) { return *s = (CUstream)0x4000, note("cuStreamCreate", "(%u)", flags); }
CUresult cuStreamSynchronize(CUstream s) { return note("cuStreamSynchronize", "(%p)", (void *)s); }
CUresult cuStreamDestroy(CUstream s) { return note("cuStreamDestroy", "(%p)", (void *)s); }
CUresult cuMemAlloc(CUdeviceptr *at, size_t bytes) {
  static CUdeviceptr next = 0x10000;
  nanosleep(&(struct timespec){0, 1000000}, NULL); /* so that another thread comes meanwhile */
  return *at = __atomic_fetch_add(&next, 0x100000, __ATOMIC_RELAXED), note("cuMemAlloc", "(%zu)", bytes);
}
CUresult cuMemFree(CUdeviceptr at) { return note("cuMemFree", "(%#llx)", at); }
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return note("cuMemcpyDtoDAsync", "(%#llx, %#llx, %zu, %p)", to, from, bytes, (void *)s);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  return note("cuMemcpyHtoDAsync", "(%#llx, %s, %zu, %p)", to, (const char *)from, bytes, (void *)s);
}
static uintptr_t events;
CUresult cuEventCreate(CUevent *e, unsigned flags) { return *e = (CUevent)(0x5000 + events++), note("cuEventCreate", "(%u)", flags); }
CUresult cuEventRecord(CUevent e, CUstream s) { return note("cuEventRecord", "(%p, %p)", (void *)e, (void *)s); }
CUresult cuEventElapsedTime(float *ms, CUevent first, CUevent last) {
  *ms = (float)((uintptr_t)last - (uintptr_t)first) / 8;
  return note("cuEventElapsedTime", "(%p, %p)", (void *)first, (void *)last);
}
CUresult cuEventDestroy(CUevent e) { return note("cuEventDestroy", "(%p)", (void *)e); }
CUresult cuModuleUnload(CUmodule m) { return note("cuModuleUnload", "(%p)", (void *)m); }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
  return note("cuFuncSetAttribute", "(%p, %d, %d)", (void *)f, a, value);
}
static void config(const CUlaunchConfig *c) {
  note("config", " grid %u %u %u block %u %u %u shared %u stream %p", c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
       c->blockDimZ, c->sharedMemBytes, (void *)c->hStream);
  for (unsigned i = 0; i < c->numAttrs; i++)
    note("attribute", " %d: %u %u %u", (int)c->attrs[i].id, c->attrs[i].value.clusterDim.x, c->attrs[i].value.clusterDim.y, c->attrs[i].value.clusterDim.z);
}
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) {
  *n = 1;
  config(c);
  return note("cuOccupancyMaxActiveClusters", "(%p)", (void *)f);
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction f) {
  return *value = getenv("CUDADRV_HOPPER") ? a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 32 : 100 + (int)a, (void)f, 0;
}
CUresult cuGetErrorName(CUresult code, const char **name) { return *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL, code == 2 ? 0 : 1; }
CUresult cuGetErrorString(CUresult code, const char **name) { return *name = code == 2 ? "out of memory" : NULL, code == 2 ? 0 : 1; }

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra) {
  config(c);
  char bytes[3 * 112 + 1] = "";
  for (int i = 0; parameters && i < 112; i++) snprintf(bytes + 3 * i, 4, " %02x", ((unsigned char *)parameters[0])[i]);
  return note("cuLaunchKernelEx", "(%p, %p)%s", (void *)f, (void *)extra, bytes);
}

/* Eleven arguments: the ones on the stack must come through a trampoline. */
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s,
                        void **parameters, void **extra) {
  return note("cuLaunchKernel", "(%p %u %u %u %u %u %u %u %p %p %p)", (void *)f, gx, gy, gz, bx, by, bz, shared, (void *)s, (void *)parameters, (void *)extra);
}
/* A float argument is in a vector register. */
CUresult cuTexRefSetMipmapLevelBias(CUtexref t, float bias) { return note("cuTexRefSetMipmapLevelBias", "(%p, %g)", (void *)t, (double)bias); }
