/* Builds and runs fusions through nvfuser_go.h, without Python: a softmax
 * against a plain loop, the text form, errors, stale handles, threads. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvfuser_go.h"

static _Atomic int failures;

static void expect(int condition, const char *what, int line) {
  if (condition) return;
  fprintf(stderr, "fusion.c:%d: failed: %s\n", line, what);
  failures++;
}

#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)

/* Whether *error has the given status and its text contains the words; clears it. */
static int is_error(nvf_error *error, int status, const char *words) {
  int ok = error->status == status && error->text != NULL && strstr(error->text, words) != NULL;
  if (!ok) fprintf(stderr, "fusion.c: status %d, text: %s\n", (int)error->status, error->text ? error->text : "none");
  nvf_error_clear(error);
  return ok && error->text == NULL && error->status == NVF_OK;
}

#define REFUSED(call, status, words)                                                                                          \
  do {                                                                                                                        \
    nvf_error error = {0};                                                                                                    \
    expect((call) == (status) && is_error(&error, status, words), #call, __LINE__);                                           \
  } while (0)

static nvf_value integer(int64_t n) { return (nvf_value){.kind = NVF_KIND_INT, .integer = n}; }
static nvf_value boolean(int b) { return (nvf_value){.kind = NVF_KIND_BOOL, .integer = b}; }

static nvf_value define(nvf_fusion fusion, const int64_t *shape, int32_t rank) {
  static const int8_t contiguity[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  nvf_tensor type = {.dtype = NVF_FLOAT, .rank = rank, .shape = shape, .contiguity = contiguity};
  nvf_value tensor = {0};
  EXPECT(nvf_define_tensor(fusion, &type, &tensor, NULL) == NVF_OK);
  return tensor;
}

/* The one result of an operation on two values, the second of kind NONE for one. */
static nvf_value call(nvf_fusion fusion, const char *name, nvf_value x, nvf_value y) {
  nvf_value args[] = {x, y}, results[NVF_MAX_RESULTS] = {{0}};
  int32_t count = 0;
  int32_t status = nvf_call(fusion, nvf_op(name), args, y.kind == NVF_KIND_NONE ? 1 : 2, NULL, 0, NULL, results, &count, NULL);
  EXPECT(status == NVF_OK && count == 1);
  return results[0];
}

/* A reduction of the last dimension, which is kept. */
static nvf_value reduce(nvf_fusion fusion, const char *name, nvf_value x) {
  nvf_value last = integer(-1);
  nvf_value args[] = {x, {.kind = NVF_KIND_LIST, .integer = 1, .items = &last}, boolean(1)}, results[NVF_MAX_RESULTS];
  const char *const keywords[] = {"dims", "keepdim"};
  nvf_location location = {"softmax.c", 12};
  int32_t count = 0;
  EXPECT(nvf_call(fusion, nvf_op(name), args, 1, keywords, 2, &location, results, &count, NULL) == NVF_OK && count == 1);
  return results[0];
}

static nvf_fusion softmax(void) {
  static const int64_t shape[] = {-1, -1};
  nvf_value none = {0};
  nvf_fusion fusion = 0;
  EXPECT(nvf_fusion_create(&fusion, NULL) == NVF_OK && fusion != 0);
  nvf_value x = define(fusion, shape, 2);
  EXPECT(x.kind == NVF_KIND_TENSOR && x.fusion == fusion);
  nvf_value e = call(fusion, "exp", call(fusion, "sub", x, reduce(fusion, "max", x)), none);
  nvf_value y = call(fusion, "div", e, reduce(fusion, "sum", e));
  EXPECT(nvf_add_output(fusion, &y, NULL, NULL) == NVF_OK);
  return fusion;
}

static nvf_input matrix(float *data, const int64_t *sizes, const int64_t *strides) {
  return (nvf_input){
      .kind = NVF_KIND_TENSOR, .dtype = NVF_FLOAT, .device_type = NVF_CPU, .rank = 2, .sizes = sizes, .strides = strides, .data = data};
}

/* Runs a softmax of rows x columns and compares it with a loop. */
static void run_softmax(nvf_executor executor, int64_t rows, int64_t columns) {
  int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
  size_t n = (size_t)(rows * columns);
  float *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out);
  for (size_t i = 0; i < n; i++) in[i] = (float)((i * 7919) % 1000) / 100 - 5;
  nvf_input input = matrix(in, sizes, strides);
  nvf_plan plan = 0;
  const nvf_plan_description *description = NULL;
  nvf_error error = {0};
  EXPECT(nvf_prepare(executor, &input, 1, NVF_ANY_DEVICE, &plan, &description, &error) == NVF_OK);
  const nvf_output *output = description->outputs;
  EXPECT(description->num_outputs == 1 && !description->needs_seed && !description->written[0]);
  EXPECT(output->dtype == NVF_FLOAT && output->rank == 2 && output->device_type == NVF_CPU && output->num_bytes == 4 * output->sizes[0] * output->sizes[1] && output->same_as == -1);
  EXPECT(output->sizes[0] == rows && output->sizes[1] == columns && output->strides[0] == columns && output->strides[1] == 1);
  void *memories[] = {out};
  EXPECT(nvf_run(plan, &input, 1, memories, 1, 0, &error) == NVF_OK);
  for (int64_t r = 0; r < rows; r++) {
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < columns; c++) most = fmax(most, in[r * columns + c]);
    for (int64_t c = 0; c < columns; c++) sum += exp(in[r * columns + c] - most);
    for (int64_t c = 0; c < columns; c++) {
      double want = exp(in[r * columns + c] - most) / sum;
      if (!(fabs(out[r * columns + c] - want) <= 1e-6)) {
        EXPECT(!"an element is wrong");
        r = rows;
        break;
      }
    }
  }
  nvf_plan_release(plan);
  free(in);
  free(out);
}

static void test_softmax(void) {
  nvf_fusion fusion = softmax();
  nvf_executor executor = 0;
  EXPECT(nvf_executor_create(fusion, &executor, NULL) == NVF_OK);
  nvf_fusion_destroy(fusion); /* the executor has a copy */
  run_softmax(executor, 3, 5);
  run_softmax(executor, 200, 1000);
  run_softmax(executor, 0, 4);
  nvf_executor_destroy(executor);
}

static void test_text(void) {
  nvf_fusion fusion = softmax(), again = 0;
  char *text = NULL, *same = NULL;
  EXPECT(nvf_fusion_text(fusion, &text, NULL) == NVF_OK);
  EXPECT(strstr(text, "exp") != NULL);
  EXPECT(nvf_fusion_parse(text, (int64_t)strlen(text), &again, NULL) == NVF_OK);
  EXPECT(nvf_fusion_text(again, &same, NULL) == NVF_OK && strcmp(text, same) == 0);
  REFUSED(nvf_fusion_parse("%0 = tensor", 11, &again, &error), NVF_INVALID_ARGUMENT, "line 1");
  REFUSED(nvf_fusion_parse(NULL, -1, &again, &error), NVF_INVALID_ARGUMENT, "length");
  REFUSED(nvf_fusion_parse(NULL, 1, &again, &error), NVF_INVALID_ARGUMENT, "text is NULL");
  nvf_free(text);
  nvf_free(same);
  nvf_free(NULL);
  nvf_fusion_destroy(fusion);
  nvf_fusion_destroy(again);
}

static void test_errors(void) {
  static const int64_t shape[] = {-1, 4}, wrong[] = {-2};
  static const int8_t contiguity[] = {1, 1};
  nvf_fusion fusion = 0, other = 0;
  nvf_fusion_create(&fusion, NULL);
  nvf_fusion_create(&other, NULL);
  nvf_value x = define(fusion, shape, 2), y = define(other, shape, 2), results[NVF_MAX_RESULTS], scalar;
  int32_t count = 77, add = nvf_op("add");
  EXPECT(nvf_op("nosuch") == -1 && nvf_op(NULL) == -1);

  nvf_value text[] = {x, {.kind = NVF_KIND_OTHER, .text = "a string"}};
  REFUSED(nvf_call(fusion, add, text, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_TYPE,
          "add(): y must be a tensor, a scalar or a number, got a string");
  nvf_value both[] = {x, y};
  REFUSED(nvf_call(fusion, add, both, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "another fusion");
  nvf_value unknown[] = {x, {.kind = NVF_KIND_TENSOR, .fusion = fusion, .id = 1000}};
  REFUSED(nvf_call(fusion, add, unknown, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "y is value 1000");
  nvf_value kind[] = {x, {.kind = 1234}};
  REFUSED(nvf_call(fusion, add, kind, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_TYPE, "y must be");
  nvf_value dtype[] = {x, {.kind = NVF_KIND_DTYPE, .integer = 99}};
  REFUSED(nvf_call(fusion, nvf_op("cast"), dtype, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_TYPE, "99");
  nvf_value list[] = {x, {.kind = NVF_KIND_LIST, .integer = -5}};
  REFUSED(nvf_call(fusion, add, list, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "-5");
  REFUSED(nvf_call(fusion, 30000, text, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "30000");
  REFUSED(nvf_call(fusion, -1, text, 2, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "-1");
  REFUSED(nvf_call(fusion, add, text, -1, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "negative");
  EXPECT(nvf_call(fusion, add, text, 2, NULL, 0, NULL, results, &count, NULL) == NVF_INVALID_TYPE); /* error may be NULL */
  EXPECT(count == 77);

  nvf_tensor type = {.dtype = NVF_FLOAT, .rank = 1, .shape = wrong, .contiguity = contiguity};
  REFUSED(nvf_define_tensor(fusion, &type, &x, &error), NVF_INVALID_ARGUMENT, "The value -2 at index 0");
  type = (nvf_tensor){.dtype = NVF_FLOAT, .rank = 1000, .shape = shape, .contiguity = contiguity};
  REFUSED(nvf_define_tensor(fusion, &type, &x, &error), NVF_INVALID_ARGUMENT, "1000 dimensions");
  type = (nvf_tensor){.dtype = 99, .rank = 2, .shape = shape, .contiguity = contiguity};
  REFUSED(nvf_define_tensor(fusion, &type, &x, &error), NVF_INVALID_TYPE, "dtype");
  REFUSED(nvf_define_scalar(fusion, NVF_NULL, &scalar, &error), NVF_INVALID_TYPE, "dtype");
  REFUSED(nvf_define_scalar(fusion, -3, &scalar, &error), NVF_INVALID_TYPE, "dtype");
  nvf_value big = integer(INT64_C(1) << 40);
  REFUSED(nvf_define_constant(fusion, &big, NVF_INT32, &scalar, &error), NVF_INVALID_ARGUMENT, "1099511627776");
  EXPECT(nvf_define_constant(fusion, &big, NVF_NULL, &scalar, NULL) == NVF_OK && scalar.kind == NVF_KIND_SCALAR);
  REFUSED(nvf_add_output(fusion, &scalar, NULL, &error), NVF_INVALID_ARGUMENT, "scalar");
  REFUSED(nvf_add_output(fusion, &y, NULL, &error), NVF_INVALID_ARGUMENT, "another fusion");
  nvf_fusion_destroy(fusion);
  nvf_fusion_destroy(other);
}

static void test_inputs(void) {
  nvf_fusion fusion = softmax();
  nvf_executor executor = 0;
  EXPECT(nvf_executor_create(fusion, &executor, NULL) == NVF_OK);
  float memory[6] = {0};
  int64_t sizes[] = {2, 3}, strides[] = {3, 1}, negative[] = {-2, 3};
  nvf_input good = matrix(memory, sizes, strides), bad;
  nvf_plan plan = 0;
  const nvf_plan_description *description = NULL;
#define PREPARE(input, count, device) nvf_prepare(executor, input, count, device, &plan, &description, &error)
  REFUSED(PREPARE(NULL, 0, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "has 1 input, got 0");
  REFUSED(PREPARE(NULL, -1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "negative");
  bad = good, bad.rank = 1;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "1 dimension,");
  bad = good, bad.rank = -1;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "-1 dimensions");
  bad = good, bad.dtype = NVF_DOUBLE;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_TYPE, "Double");
  bad = good, bad.dtype = 77;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_TYPE, "77");
  bad = good, bad.data = NULL;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "no memory");
  bad = good, bad.sizes = negative;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "-2");
  bad = good, bad.strides = negative;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_ARGUMENT, "stride");
  bad = good, bad.device_type = NVF_CUDA;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_UNSUPPORTED, "CUDA device");
  bad = good, bad.device_type = 8;
  REFUSED(PREPARE(&bad, 1, NVF_ANY_DEVICE), NVF_INVALID_TYPE, "kind 8");
  nvf_input number = {.kind = NVF_KIND_INT, .integer = 3};
  REFUSED(PREPARE(&number, 1, NVF_ANY_DEVICE), NVF_INVALID_TYPE, "must be a tensor");
  number.kind = NVF_KIND_DTYPE;
  REFUSED(PREPARE(&number, 1, NVF_ANY_DEVICE), NVF_INVALID_TYPE, "must be a tensor or a number");

  nvf_error error = {0};
  bad = good, bad.device_type = NVF_CUDA;
  EXPECT(PREPARE(&bad, 1, NVF_ANY_DEVICE) == NVF_UNSUPPORTED && error.num_refusals == 1);
  EXPECT(error.refusals != NULL && strstr(error.refusals[0].sentence, "libcuda") != NULL && error.refusals[0].by[0] != 0);
  nvf_error_clear(&error);
  EXPECT(PREPARE(&good, 1, NVF_ANY_DEVICE) == NVF_OK);
  REFUSED(nvf_run(plan, &good, 1, NULL, 0, 0, &error), NVF_INVALID_ARGUMENT, "1 input and 1 output, got 1 and 0");
  void *nowhere[] = {NULL};
  REFUSED(nvf_run(plan, &good, 1, nowhere, 1, 0, &error), NVF_INVALID_ARGUMENT, "output 0 has no memory");
  sizes[0] = 1; /* not what the plan was made for */
  void *memories[] = {memory};
  REFUSED(nvf_run(plan, &good, 1, memories, 1, 0, &error), NVF_INVALID_ARGUMENT, "not those that the plan was prepared for");
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
  nvf_fusion_destroy(fusion);
}

static void test_written_input(void) {
  static const int64_t shape[] = {-1, -1};
  nvf_fusion fusion = 0;
  nvf_fusion_create(&fusion, NULL);
  nvf_value x = define(fusion, shape, 2), y = call(fusion, "add", x, integer(1));
  EXPECT(nvf_add_output(fusion, &y, &x, NULL) == NVF_OK);
  REFUSED(nvf_add_output(fusion, &y, &x, &error), NVF_INVALID_ARGUMENT, "alias_input");
  nvf_executor executor = 0;
  EXPECT(nvf_executor_create(fusion, &executor, NULL) == NVF_OK);
  float memory[] = {1, 2, 3, 4};
  int64_t sizes[] = {2, 2}, strides[] = {2, 1};
  nvf_input input = matrix(memory, sizes, strides);
  nvf_plan plan = 0;
  const nvf_plan_description *description = NULL;
  EXPECT(nvf_prepare(executor, &input, 1, NVF_CPU_DEVICE, &plan, &description, NULL) == NVF_OK);
  EXPECT(description->num_outputs == 0 && description->written[0] == 1);
  EXPECT(nvf_run(plan, &input, 1, NULL, 0, 0, NULL) == NVF_OK);
  EXPECT(memory[0] == 2 && memory[3] == 5);
  nvf_plan_release(plan);
  nvf_executor_destroy(executor);
  nvf_fusion_destroy(fusion);
}

static void test_stale_handles(void) {
  nvf_fusion fusion = softmax(), next = 0, made = 0;
  nvf_executor executor = 0;
  nvf_plan plan = 0;
  const nvf_plan_description *description = NULL;
  char *text = NULL;
  nvf_value x = {.kind = NVF_KIND_TENSOR, .fusion = fusion}, results[NVF_MAX_RESULTS];
  int32_t count = 0;
  EXPECT(nvf_executor_create(fusion, &executor, NULL) == NVF_OK);
  nvf_fusion_destroy(fusion);
  nvf_fusion_destroy(fusion); /* is ignored */
  nvf_fusion_create(&next, NULL); /* may take the place of the old one */
  EXPECT(next != fusion);
  uint64_t stale[] = {fusion, 0, UINT64_MAX, executor, 123456789};
  for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
    REFUSED(nvf_fusion_text(stale[i], &text, &error), NVF_FAILED, "not the handle of a fusion");
    REFUSED(nvf_call(stale[i], nvf_op("exp"), &x, 1, NULL, 0, NULL, results, &count, &error), NVF_FAILED, "not the handle");
    REFUSED(nvf_executor_create(stale[i], &made, &error), NVF_FAILED, "not the handle");
    REFUSED(nvf_run(stale[i], NULL, 0, NULL, 0, 0, &error), NVF_FAILED, "not the handle of a plan");
    nvf_plan_release(stale[i]);
    if (stale[i] == executor) continue;
    nvf_executor_destroy(stale[i]);
    REFUSED(nvf_prepare(stale[i], NULL, 0, -1, &plan, &description, &error), NVF_FAILED, "not the handle of an executor");
    REFUSED(nvf_executor_simulate(stale[i], 0, &error), NVF_FAILED, "not the handle of an executor");
  }
  REFUSED(nvf_call(next, nvf_op("exp"), &x, 1, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "another fusion");
  nvf_executor_destroy(next); /* a handle of another kind is ignored too */
  EXPECT(nvf_fusion_text(next, &text, NULL) == NVF_OK);
  nvf_free(text);
  nvf_executor_destroy(executor);
  nvf_fusion_destroy(next);
}

/* ---- Threads ---- */

enum { THREADS = 8, ROUNDS = 30 };
static nvf_executor shared_executor;
static nvf_fusion shared_fusion;

static void *work(void *argument) {
  int64_t k = (int64_t)(intptr_t)argument;
  static const int64_t shape[] = {-1, -1};
  for (int i = 0; i < ROUNDS; i++) {
    run_softmax(shared_executor, 1 + k % 3, 40);
    nvf_value x = define(shared_fusion, shape, 2);
    nvf_value y = call(shared_fusion, "mul", x, x);
    EXPECT(nvf_add_output(shared_fusion, &y, NULL, NULL) == NVF_OK);
    nvf_fusion own = softmax();
    nvf_executor executor = 0;
    EXPECT(nvf_executor_create(own, &executor, NULL) == NVF_OK);
    nvf_fusion_destroy(own);
    run_softmax(executor, k + 1, i + 1);
    nvf_executor_destroy(executor);
  }
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[THREADS];
  nvf_fusion fusion = softmax();
  EXPECT(nvf_executor_create(fusion, &shared_executor, NULL) == NVF_OK);
  nvf_fusion_create(&shared_fusion, NULL);
  for (intptr_t k = 0; k < THREADS; k++) EXPECT(pthread_create(&threads[k], NULL, work, (void *)k) == 0);
  for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
  char *text = NULL;
  EXPECT(nvf_fusion_text(shared_fusion, &text, NULL) == NVF_OK);
  int outputs = 0;
  for (const char *at = text; (at = strstr(at, "output ")) != NULL; at++) outputs++;
  EXPECT(outputs == THREADS * ROUNDS);
  nvf_free(text);
  nvf_executor_destroy(shared_executor);
  nvf_fusion_destroy(shared_fusion);
  nvf_fusion_destroy(fusion);
}

int main(void) {
  test_softmax();
  test_text();
  test_errors();
  test_inputs();
  test_written_input();
  test_stale_handles();
  test_threads();
  return failures != 0;
}
