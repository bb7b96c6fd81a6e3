/* A fusion on a CUDA device through nvfuser_go.h, with the libcuda of
 * cudadrv/real/testdata in the place of the machine's, which writes down what it
 * is asked for: prepare, launch, what arrives there, errors, plans that are
 * evicted while they run. NVRTC is the real one. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvfuser_go.h"

static _Atomic int failures;

static void expect(int condition, const char *what, int line) {
  if (condition) return;
  fprintf(stderr, "launch.c:%d: failed: %s\n", line, what);
  failures++;
}

#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)

#define REFUSED(call, wanted, words)                                                                                          \
  do {                                                                                                                        \
    nvf_error error = {0};                                                                                                    \
    expect((call) == (wanted) && error.text && strstr(error.text, words), #call, __LINE__);                                   \
    if (failures) fprintf(stderr, "  %s\n", error.text ? error.text : "no error");                                            \
    nvf_error_clear(&error);                                                                                                  \
  } while (0)

#define SUCCEEDS(call)                                                                                                        \
  do {                                                                                                                        \
    nvf_error error = {0};                                                                                                    \
    int status = (call);                                                                                                      \
    if (status != NVF_OK) fprintf(stderr, "launch.c:%d: %s\n", __LINE__, error.text ? error.text : "no text");                \
    failures += status != NVF_OK;                                                                                             \
    nvf_error_clear(&error);                                                                                                  \
  } while (0)

/* ---- The recording ---- */

/* What the fake libcuda was asked for since the last call of this. */
static const char *recorded(void) {
  static char text[1 << 16];
  FILE *f = fopen(getenv("CUDADRV_RECORD"), "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  f = fopen(getenv("CUDADRV_RECORD"), "w");
  if (f) fclose(f);
  return text;
}

/* Lets a call of the driver fail with a code; NULL: none. */
static void fail(const char *call, int code) {
  char path[4096];
  snprintf(path, sizeof path, "%s.fail", getenv("CUDADRV_RECORD"));
  FILE *f = fopen(path, "w");
  if (!f) abort();
  fprintf(f, "%s %d\n", call ? call : "none", code);
  fclose(f);
}

/* Whether the address is among the bytes of the parameters that were launched. */
static int passes(const char *text, uintptr_t address) {
  char bytes[3 * 8 + 1] = "";
  for (int i = 0; i < 8; i++) snprintf(bytes + 3 * i, 4, " %02x", (unsigned)(address >> 8 * i & 255));
  const char *launched = strstr(text, "cuLaunchKernelEx(");
  return launched && strstr(launched, bytes);
}

/* ---- The fusion ---- */

static const char text[] =
    "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
    "$1 = scalar f64\n"
    "%2 = mul %0, $1\n"
    "output %2\n";

static nvf_executor executor_of(const char *source) {
  nvf_fusion fusion = 0;
  nvf_executor executor = 0;
  SUCCEEDS(nvf_fusion_parse(source, (int64_t)strlen(source), &fusion, &error));
  SUCCEEDS(nvf_executor_create(fusion, &executor, &error));
  nvf_fusion_destroy(fusion);
  return executor;
}

static nvf_executor executor_of_relu(void) {
  return executor_of("%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = relu %0\noutput %1\n");
}

typedef struct {
  int64_t sizes[2], strides[2];
  nvf_input input;
} Matrix;

static void matrix(Matrix *m, int64_t rows, int64_t columns, uintptr_t address) {
  *m = (Matrix){.sizes = {rows, columns}, .strides = {columns, 1}};
  m->input = (nvf_input){.kind = NVF_KIND_TENSOR,
                         .dtype = NVF_FLOAT,
                         .device_type = NVF_CUDA,
                         .rank = 2,
                         .sizes = m->sizes,
                         .strides = m->strides,
                         .data = (void *)address};
}

static void test_launch(void) {
  nvf_executor executor = executor_of_relu();
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 64, 48, 0x700000010000);
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  if (!d) return;
  EXPECT(d->device_type == NVF_CUDA && d->device_index == 0 && d->num_outputs == 1 && !d->needs_seed && !d->num_workspaces);
  EXPECT(d->outputs[0].device_type == NVF_CUDA && d->outputs[0].num_bytes == 64 * 48 * 4 && d->outputs[0].sizes[1] == 48);
  EXPECT(strstr(recorded(), "cuModuleLoadData"));
  void *output = (void *)0x700000020000, *stream = (void *)0x51;
  x.input.data = (void *)0x700000030000; /* elsewhere, aligned the same */
  SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, stream, &error));
  const char *launched = recorded();
  EXPECT(passes(launched, 0x700000030000) && passes(launched, (uintptr_t)output));
  EXPECT(strstr(launched, "stream 0x51") && strstr(launched, "cuCtxSetCurrent(0x1000)"));
  SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error));
  EXPECT(!strstr(recorded(), "cuCtxSetCurrent")); /* it is current now */

  nvf_plan again = 0;
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &again, &d, &error));
  EXPECT(again != plan && !strstr(recorded(), "cuModule"));
  nvf_plan_release(again);
  REFUSED(nvf_launch(again, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_FAILED, "not the handle of a plan");

  REFUSED(nvf_run(plan, &x.input, 1, &output, 1, 0, &error), NVF_INVALID_ARGUMENT, "the plan is for cuda:0");
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, &output, 1, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "0 workspaces");
  void *nothing = NULL;
  REFUSED(nvf_launch(plan, &x.input, 1, &nothing, 1, NULL, 0, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "output 0 has no memory");
  void *narrow = (void *)0x700000020008;
  REFUSED(nvf_launch(plan, &x.input, 1, &narrow, 1, NULL, 0, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "no multiple of 16");
  x.input.data = (void *)0x700000030002;
  REFUSED(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &again, &d, &error), NVF_INVALID_ARGUMENT, "multiples of 4 bytes");
  x.input.data = (void *)0x700000030004;
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "aligned");
  x.input.data = (void *)0x700000030000;
  x.input.device_index = 1;
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "prepared for");
  x.input.device_index = 0;
  EXPECT(!strstr(recorded(), "cuLaunchKernelEx"));

  fail("cuLaunchKernelEx", 2);
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_FAILED, "out of memory");
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_FAILED, "threads and 0 bytes of dynamic shared memory");
  fail(NULL, 0);
  recorded();
  nvf_executor_destroy(executor); /* the plan lives on */
  SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error));
  EXPECT(strstr(recorded(), "cuLaunchKernelEx"));
  nvf_plan_release(plan);
}

static int count(const char *text, const char *what) {
  int n = 0;
  while ((text = strstr(text, what))) n++, text++;
  return n;
}

/* Of several launches one fails: those after it do not take place, the caller is told
 * which one it was, and the next call makes all of them. */
static void test_later_launch(void) {
  nvf_executor executor = executor_of(
      "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
      "%1 = exp %0\n"
      "%2 = segment_set %1\n"
      "%3 = sin %2\n"
      "%4 = segment_set %3\n"
      "%5 = cos %4\n"
      "%6 = segment_set %5\n"
      "%7 = neg %6\n"
      "output %7\n"
      "output %3\n");
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 64, 48, 0x700000010000);
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  EXPECT(d && d->num_outputs == 2 && d->num_workspaces == 1 && !d->num_calls);
  void *outputs[2] = {(void *)0x700000020000, (void *)0x700000030000}, *workspace = (void *)0x700000040000;
  recorded();
  for (int after = 3; after > 0; after--) {
    nvf_error error = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s.fail", getenv("CUDADRV_RECORD"));
    FILE *f = fopen(path, "w");
    if (!f) abort();
    fprintf(f, "cuLaunchKernelEx 719 %d\n", after);
    fclose(f);
    EXPECT(nvf_launch(plan, &x.input, 1, outputs, 2, &workspace, 1, 0, 0, NULL, &error) == NVF_FAILED);
    EXPECT(error.text && strstr(error.text, "719"));
    nvf_error_clear(&error);
    EXPECT(count(recorded(), "cuLaunchKernelEx(") == after + 1);
    fail(NULL, 0);
    SUCCEEDS(nvf_launch(plan, &x.input, 1, outputs, 2, &workspace, 1, 0, 0, NULL, &error));
    const char *launched = recorded();
    EXPECT(count(launched, "cuLaunchKernelEx(") == 4);
  }
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
}

/* Torch is called from Python alone. */
static void test_calls(void) {
  nvf_executor executor = executor_of(
      "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
      "%1 = relu %0\n"
      "%2 = matmul %1, %1\n"
      "%3 = sin %2\n"
      "output %3\n");
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 64, 64, 0x700000010000);
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  EXPECT(d && d->num_calls == 1 && d->num_workspaces == 2 && d->num_outputs == 1);
  void *output = (void *)0x700000020000, *workspaces[2] = {(void *)0x700000030000, (void *)0x700000040000};
  recorded();
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, workspaces, 2, 0, 0, NULL, &error), NVF_UNSUPPORTED, "from Python alone");
  EXPECT(!strstr(recorded(), "cuLaunchKernelEx"));
  nvf_plan_release(plan);

  SUCCEEDS(nvf_executor_simulate(executor, 0, &error));
  float memory[16] = {0}, result[16];
  x.input.data = memory;
  x.input.device_type = NVF_CPU;
  x.sizes[0] = x.sizes[1] = x.strides[0] = 4;
  output = result;
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  EXPECT(d && d->num_calls == 1 && d->device_type == NVF_CPU);
  REFUSED(nvf_run(plan, &x.input, 1, &output, 1, 0, &error), NVF_UNSUPPORTED, "matmul() is computed by torch");
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
}

/* A second device has its own context, and the caller's stays. */
static void test_devices(void) {
  nvf_executor executor = executor_of_relu();
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 4, 4, 0x700000010000);
  x.input.device_index = 1;
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  EXPECT(d && d->device_index == 1 && d->outputs[0].device_index == 1);
  recorded();
  void *output = (void *)0x700000020000;
  SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error));
  const char *launched = recorded();
  EXPECT(strstr(launched, "cuCtxPushCurrent(0x1001)") && strstr(launched, "cuCtxPopCurrent"));
  nvf_plan_release(plan);
  x.input.device_index = 2;
  REFUSED(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error), NVF_INVALID_ARGUMENT, "cuda:2");
  nvf_executor_destroy(executor);
}

/* A scalar that no size depends on is a word of the call, not of the plan. */
static void test_scalars(void) {
  nvf_executor executor = executor_of(text);
  Matrix x;
  matrix(&x, 8, 8, 0x700000010000);
  nvf_input inputs[2] = {x.input, {.kind = NVF_KIND_FLOAT}};
  for (int i = 0; i < 3; i++) {
    nvf_plan plan = 0;
    const nvf_plan_description *d = NULL;
    inputs[1].real = 0.5 + i;
    SUCCEEDS(nvf_prepare(executor, inputs, 2, NVF_ANY_DEVICE, &plan, &d, &error));
    EXPECT((strstr(recorded(), "cuModuleLoadData") != NULL) == (i == 0));
    void *output = (void *)0x700000020000;
    SUCCEEDS(nvf_launch(plan, inputs, 2, &output, 1, NULL, 0, 0, 0, NULL, &error));
    double as_double = inputs[1].real;
    float as_float = (float)as_double;
    uint64_t wide = 0, narrow = 0;
    memcpy(&wide, &as_double, 8);
    memcpy(&narrow, &as_float, 4);
    const char *launched = recorded();
    char bytes[16];
    snprintf(bytes, sizeof bytes, " %02x %02x %02x %02x", (unsigned)(narrow & 255), (unsigned)(narrow >> 8 & 255), (unsigned)(narrow >> 16 & 255),
             (unsigned)(narrow >> 24 & 255));
    EXPECT(passes(launched, wide) || strstr(launched, bytes));
    nvf_plan_release(plan);
  }
  nvf_executor_destroy(executor);
}

/* Blocks that reduce together need memory of the run, part of it zeroed, in the
 * order of the stream. */
static void test_workspaces(void) {
  nvf_executor executor = executor_of(
      "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
      "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n"
      "output %1\n");
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 1, 1 << 24, 0x700000010000);
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  if (!d || d->num_workspaces < 1 || d->num_workspaces > 8) {
    EXPECT(!"workspaces");
    return;
  }
  void *workspaces[8], *output = (void *)0x700010000000;
  int zeroed = 0;
  for (int i = 0; i < d->num_workspaces; i++) {
    workspaces[i] = (void *)(0x700020000000 + 0x100000 * (uintptr_t)i);
    zeroed += d->workspaces[i].zeroed;
    EXPECT(d->workspaces[i].num_bytes > 0);
  }
  EXPECT(zeroed > 0 && zeroed < d->num_workspaces);
  recorded();
  SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, workspaces, d->num_workspaces, 0, 0, (void *)0x51, &error));
  const char *launched = recorded(), *set = launched;
  for (int i = 0; i < d->num_workspaces; i++) {
    char want[128];
    snprintf(want, sizeof want, "cuMemsetD8Async(%#llx, 0, %lld, 0x51)", (unsigned long long)(uintptr_t)workspaces[i], (long long)d->workspaces[i].num_bytes);
    EXPECT((strstr(launched, want) != NULL) == d->workspaces[i].zeroed && passes(launched, (uintptr_t)workspaces[i]));
    if (strstr(set, want)) set = strstr(set, want);
  }
  EXPECT(strstr(set, "cuLaunchKernelEx"));
  fail("cuMemsetD8Async", 2);
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, workspaces, d->num_workspaces, 0, 0, NULL, &error), NVF_FAILED, "could not be set to zero");
  EXPECT(!strstr(recorded(), "cuLaunchKernelEx"));
  fail(NULL, 0);
  workspaces[0] = (void *)0x700020000080;
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, workspaces, d->num_workspaces, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "no multiple of 256");
  workspaces[0] = NULL;
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, workspaces, d->num_workspaces, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "workspace 0 has no memory");
  REFUSED(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error), NVF_INVALID_ARGUMENT, "workspace");
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
}

/* ---- Counters that are kept for streams ---- */

/* A plan of a matrix, whose blocks take tickets or meet at a barrier. */
typedef struct {
  nvf_executor executor;
  nvf_plan plan;
  const nvf_plan_description *d;
  Matrix x;
  void *workspaces[8];
} Sum;

static void of_text(Sum *s, const char *source, int64_t rows, int64_t columns) {
  *s = (Sum){.executor = executor_of(source)};
  matrix(&s->x, rows, columns, 0x700000010000);
  SUCCEEDS(nvf_prepare(s->executor, &s->x.input, 1, NVF_ANY_DEVICE, &s->plan, &s->d, &error));
  if (!s->d || s->d->num_workspaces > 8) abort();
  for (int i = 0; i < s->d->num_workspaces; i++)
    if (!s->d->workspaces[i].zeroed) s->workspaces[i] = (void *)(0x700020000000 + 0x100000 * (uintptr_t)i);
}

static void sum_begin(Sum *s, int64_t size) {
  of_text(s,
          "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
          "%1 = sum %0 dims=[1] keepdim=false dtype=f32\n"
          "output %1\n",
          1, size);
}

/* Its columns without their sums, in one kernel. */
static void centered_begin(Sum *s) {
  of_text(s,
          "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
          "%1 = sum %0 dims=[0] keepdim=false dtype=f32\n"
          "%2 = broadcast %1 is_broadcast_dim=[true, false]\n"
          "%3 = sub %0, %2\n"
          "output %3\n",
          12544, 256);
}

static int sum_launch(const Sum *s, uintptr_t stream, nvf_error *error) {
  void *output = (void *)0x700010000000;
  return nvf_launch(s->plan, &s->x.input, 1, &output, 1, s->workspaces, s->d->num_workspaces, 0, 0, (void *)stream, error);
}

static void sum_end(Sum *s) {
  nvf_plan_release(s->plan);
  nvf_executor_destroy(s->executor);
}

/* The address that was set to zero, of what was recorded; 0: none, or several. */
static uintptr_t set_to_zero(const char *text, uintptr_t stream) {
  char want[64];
  unsigned long long at = 0;
  const char *found = strstr(text, "cuMemsetD8Async(");
  if (!found || count(text, "cuMemsetD8Async(") != 1) return 0;
  snprintf(want, sizeof want, ", 0, 65536, %#llx)", (unsigned long long)stream);
  sscanf(found, "cuMemsetD8Async(%llx", &at);
  return strstr(found, want) ? (uintptr_t)at : 0;
}

/* The first launch on a stream makes what later ones use, of this plan and of others. */
static void test_counters(void) {
  Sum s, other, centered;
  sum_begin(&s, 1 << 24);
  sum_begin(&other, 1 << 23);
  centered_begin(&centered);
  recorded();
  uintptr_t first = 0;
  for (uintptr_t stream = 0x1001; stream < 0x1003; stream++) {
    SUCCEEDS(sum_launch(&s, stream, &error));
    const char *launched = recorded();
    uintptr_t at = set_to_zero(launched, stream);
    EXPECT(at && at != first && passes(launched, at + 1024) && count(launched, "cuMemAlloc(65536)") == 1);
    EXPECT(strstr(launched, "cuMemAlloc") < strstr(launched, "cuMemsetD8Async") && strstr(launched, "cuMemsetD8Async") < strstr(launched, "cuLaunchKernelEx"));
    EXPECT(strstr(launched, "cuThreadExchangeStreamCaptureMode(2)\ncuMemAlloc(65536)\ncuThreadExchangeStreamCaptureMode(0)"));
    for (int i = 0; i < 3; i++) {
      SUCCEEDS(sum_launch(i == 1 ? &other : &s, stream, &error));
      launched = recorded();
      EXPECT(!strstr(launched, "cuMemset") && !strstr(launched, "cuMemAlloc") && passes(launched, at + 1024));
    }
    /* Barriers leave their words so that no ticket can be taken there. */
    SUCCEEDS(sum_launch(&centered, stream, &error));
    launched = recorded();
    EXPECT(!strstr(launched, "cuMemset") && passes(launched, at) && strstr(launched, "attribute 2: 1"));
    first = at;
  }
  /* What the caller brings is set to zero each time. */
  for (int i = 0; i < s.d->num_workspaces; i++)
    if (s.d->workspaces[i].zeroed) s.workspaces[i] = (void *)0x700030000000;
  SUCCEEDS(sum_launch(&s, 0x1001, &error));
  const char *launched = recorded();
  EXPECT(strstr(launched, "cuMemsetD8Async(0x700030000000, 0, 8, 0x1001)") && passes(launched, 0x700030000000));
  sum_end(&centered);
  sum_end(&other);
  sum_end(&s);
}

/* Streams for which nothing is kept, and drivers that fail. */
static void test_no_counters(void) {
  Sum s;
  sum_begin(&s, 1 << 24);
  enum { CAPTURED = 0x88, OF_THREAD = 2 }; /* of the fake libcuda; CU_STREAM_PER_THREAD */
  recorded();
  for (int i = 0; i < 2; i++) {
    REFUSED(sum_launch(&s, i ? CAPTURED : OF_THREAD, &error), NVF_INVALID_ARGUMENT, "captured for a graph");
    const char *launched = recorded();
    EXPECT(!strstr(launched, "cuMem") && !strstr(launched, "cuLaunch"));
  }
  const char *const tells[] = {"cuStreamIsCapturing", "cuStreamGetId"};
  for (int i = 0; i < 2; i++) {
    fail(tells[i], 801);
    REFUSED(sum_launch(&s, 0x1003, &error), NVF_INVALID_ARGUMENT, "has no memory");
    EXPECT(!strstr(recorded(), "cuMem"));
  }
  fail(NULL, 0);
  SUCCEEDS(sum_launch(&s, 0x1003, &error)); /* it was not held against the stream */
  EXPECT(set_to_zero(recorded(), 0x1003));

  /* Without memory it is not tried again. */
  const char *const makes[] = {"cuMemAlloc", "cuMemsetD8Async"};
  for (uintptr_t i = 0; i < 2; i++) {
    fail(makes[i], 2);
    REFUSED(sum_launch(&s, 0x1004 + i, &error), NVF_INVALID_ARGUMENT, "or no memory");
    fail(NULL, 0);
    recorded();
    REFUSED(sum_launch(&s, 0x1004 + i, &error), NVF_INVALID_ARGUMENT, "or no memory");
    EXPECT(!strstr(recorded(), "cuMem"));
  }

  /* A launch that fails leaves them as they were. */
  fail("cuLaunchKernelEx", 2);
  REFUSED(sum_launch(&s, 0x1003, &error), NVF_FAILED, "could not be launched");
  fail(NULL, 0);
  recorded();
  SUCCEEDS(sum_launch(&s, 0x1003, &error));
  EXPECT(!strstr(recorded(), "cuMemset"));
  sum_end(&s);
}

/* Threads that begin on streams at one time: each stream is given memory once, and launches
 * on it find that set to zero. */
static Sum of_threads;
static pthread_barrier_t together;

static void *launch_on_streams(void *argument) {
  (void)argument;
  for (uintptr_t i = 0; i < 400; i++) {
    if (i < 40) pthread_barrier_wait(&together);
    SUCCEEDS(sum_launch(&of_threads, 0x2000 + i % 40, &error));
  }
  return NULL;
}

static void test_threads_of_streams(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  static char all[1 << 22];
  sum_begin(&of_threads, 1 << 24);
  recorded();
  if (pthread_barrier_init(&together, NULL, THREADS)) abort();
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, launch_on_streams, NULL)) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  FILE *f = fopen(getenv("CUDADRV_RECORD"), "r");
  all[f ? fread(all, 1, sizeof all - 1, f) : 0] = 0;
  if (f) fclose(f);
  EXPECT(count(all, "cuMemAlloc(") == 40 && count(all, "cuMemsetD8Async(") == 40 && count(all, "cuLaunchKernelEx(") == 1600);
  recorded();

  /* There is an end to it. */
  int kept = 0;
  for (uintptr_t i = 0; i < 200; i++) {
    nvf_error error = {0};
    kept += sum_launch(&of_threads, 0x3000 + 7 * i, &error) == NVF_OK;
    nvf_error_clear(&error);
  }
  EXPECT(kept > 0 && kept < 128 - 40);
  recorded();
  SUCCEEDS(sum_launch(&of_threads, 0x2000, &error));
  EXPECT(!strstr(recorded(), "cuMem"));
  sum_end(&of_threads);
}

/* An output in an input, and the state of a random generator. */
static void test_random_in_place(void) {
  nvf_executor executor = executor_of(
      "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
      "%1 = uniform minval=0:f64 maxval=1:f64 shape=[%0.0, %0.1] dtype=f32\n"
      "%2 = add %0, %1\n"
      "output %2 alias %0\n");
  nvf_plan plan = 0;
  const nvf_plan_description *d = NULL;
  Matrix x;
  matrix(&x, 16, 16, 0x700000010000);
  SUCCEEDS(nvf_prepare(executor, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
  if (!d) return;
  EXPECT(d->num_outputs == 0 && d->written[0] && d->needs_seed && d->draws > 0 && d->draws % 4 == 0);
  recorded();
  SUCCEEDS(nvf_launch(plan, &x.input, 1, NULL, 0, NULL, 0, 0x1122334455667788, 0x99aabbccddeeff00, NULL, &error));
  const char *launched = recorded();
  EXPECT(passes(launched, 0x700000010000) && passes(launched, 0x1122334455667788) && passes(launched, 0x99aabbccddeeff00));
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
}

/* More shapes than an executor keeps, on several threads: plans are evicted while
 * others launch them. */
static nvf_executor shared;

static void *cycle(void *argument) {
  for (int64_t i = 0; i < 400; i++) {
    nvf_plan plan = 0;
    const nvf_plan_description *d = NULL;
    Matrix x;
    matrix(&x, 1 + (i + *(const int64_t *)argument) % 300, 8, 0x700000010000);
    void *output = (void *)0x700000020000;
    SUCCEEDS(nvf_prepare(shared, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
    EXPECT(d && d->outputs[0].sizes[0] == x.sizes[0] && d->outputs[0].num_bytes == x.sizes[0] * 32);
    SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error));
    nvf_plan_release(plan);
  }
  return NULL;
}

static void test_threads(void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int64_t offsets[THREADS];
  shared = executor_of_relu();
  for (int i = 0; i < THREADS; i++) {
    offsets[i] = 75 * i;
    if (pthread_create(&threads[i], NULL, cycle, &offsets[i])) abort();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  nvf_executor_destroy(shared);
}

/* A plan that one thread releases while others launch it. The executor is gone, so
 * that nothing else holds it. */
static _Atomic nvf_plan released;
static Matrix of_released;

static void *launch_until_gone(void *argument) {
  (void)argument;
  void *output = (void *)0x700000020000;
  for (;;) {
    nvf_error error = {0};
    int status = nvf_launch(released, &of_released.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error);
    EXPECT(status == NVF_OK || (status == NVF_FAILED && strstr(error.text, "not the handle of a plan")));
    nvf_error_clear(&error);
    if (status != NVF_OK) return NULL;
  }
}

static void test_release(void) {
  enum { THREADS = 4, PLANS = 200 };
  matrix(&of_released, 64, 48, 0x700000010000);
  for (int k = 0; k < PLANS; k++) {
    nvf_executor executor = executor_of_relu();
    pthread_t threads[THREADS];
    nvf_plan plan = 0;
    const nvf_plan_description *d = NULL;
    SUCCEEDS(nvf_prepare(executor, &of_released.input, 1, NVF_ANY_DEVICE, &plan, &d, &error));
    nvf_executor_destroy(executor);
    released = plan;
    for (int i = 0; i < THREADS; i++)
      if (pthread_create(&threads[i], NULL, launch_until_gone, NULL)) abort();
    struct timespec little = {0, 1000 * (k % 100)};
    nanosleep(&little, NULL);
    nvf_plan_release(plan);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
}

/* An executor that is destroyed while others make plans of it, and run those that
 * they have. */
static _Atomic nvf_executor destroyed;

static void *prepare_until_gone(void *argument) {
  Matrix x;
  void *output = (void *)0x700000020000;
  for (int64_t i = *(const int64_t *)argument;; i++) {
    nvf_error error = {0};
    nvf_plan plan = 0;
    const nvf_plan_description *d = NULL;
    matrix(&x, 1 + i % 7, 48, 0x700000010000);
    int status = nvf_prepare(destroyed, &x.input, 1, NVF_ANY_DEVICE, &plan, &d, &error);
    EXPECT(status == NVF_OK || (status == NVF_FAILED && strstr(error.text, "not the handle of an executor")));
    nvf_error_clear(&error);
    if (status != NVF_OK) return NULL;
    EXPECT(d->outputs[0].sizes[0] == x.sizes[0]);
    SUCCEEDS(nvf_launch(plan, &x.input, 1, &output, 1, NULL, 0, 0, 0, NULL, &error));
    nvf_plan_release(plan);
  }
}

static void test_destroy(void) {
  enum { THREADS = 4, EXECUTORS = 100 };
  for (int k = 0; k < EXECUTORS; k++) {
    pthread_t threads[THREADS];
    int64_t first[THREADS];
    destroyed = executor_of_relu();
    for (int i = 0; i < THREADS; i++) {
      first[i] = 2 * i;
      if (pthread_create(&threads[i], NULL, prepare_until_gone, &first[i])) abort();
    }
    struct timespec little = {0, 1000 * (k % 100)};
    nanosleep(&little, NULL);
    nvf_executor_destroy(destroyed);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
}

int main(void) {
  if (!getenv("CUDADRV_RECORD")) {
    fprintf(stderr, "launch.c: run by make test-c, which sets the driver\n");
    return 1;
  }
  fail(NULL, 0);
  recorded(); /* of an earlier run */
  test_launch();
  test_devices();
  test_scalars();
  test_workspaces();
  test_counters();
  test_no_counters();
  test_calls();
  test_later_launch();
  test_random_in_place();
  test_threads();
  test_threads_of_streams();
  test_release();
  test_destroy();
  printf(failures ? "launch: %d failures\n" : "launch: ok\n", (int)failures);
  return failures != 0;
}
