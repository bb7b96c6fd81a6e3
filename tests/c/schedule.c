/* Schedules a fusion by hand through nvfuser_go.h, without Python, and runs it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvfuser_go.h"

static int failures;

static void expect(int condition, const char *what, int line) {
  if (condition) return;
  fprintf(stderr, "schedule.c:%d: failed: %s\n", line, what);
  failures++;
}

#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)

#define REFUSED(call, kind, words)                                                                    \
  do {                                                                                                \
    nvf_error error = {0};                                                                            \
    expect((call) == (kind) && error.text && strstr(error.text, words), error.text ? error.text : #call, __LINE__); \
    nvf_error_clear(&error);                                                                          \
  } while (0)

static nvf_value integer(int64_t n) { return (nvf_value){.kind = NVF_KIND_INT, .integer = n}; }
static nvf_value name(const char *text) { return (nvf_value){.kind = NVF_KIND_NAME, .text = text}; }

/* A call with arguments by position; the first result, if there is one. */
static nvf_value call(nvf_fusion fusion, const char *primitive, const nvf_value *args, int32_t n) {
  nvf_value results[NVF_MAX_RESULTS] = {{0}};
  int32_t count = 0;
  nvf_error error = {0};
  int status = nvf_schedule(fusion, primitive, args, n, NULL, 0, results, &count, NULL, &error);
  expect(status == NVF_OK, error.text ? error.text : primitive, __LINE__);
  nvf_error_clear(&error);
  return results[0];
}

#define CALL(fusion, primitive, ...) \
  call(fusion, primitive, (nvf_value[]){__VA_ARGS__}, (int32_t)(sizeof((nvf_value[]){__VA_ARGS__}) / sizeof(nvf_value)))

static const char text[] = "%0 = tensor f32 [-1, 8] contiguity=[yes, yes]\n%1 = relu %0\n%2 = sum %1 dims=[1] keepdim=false dtype=f32\noutput %2\n";

static void run(nvf_executor executor, int64_t rows) {
  int64_t sizes[] = {rows, 8}, strides[] = {8, 1};
  float in[64], out[8] = {0};
  for (int i = 0; i < 64; i++) in[i] = (float)(i % 5 - 2);
  nvf_input input = {.kind = NVF_KIND_TENSOR, .dtype = NVF_FLOAT, .device_type = NVF_CPU, .rank = 2, .sizes = sizes, .strides = strides, .data = in};
  nvf_plan plan = 0;
  const nvf_plan_description *description = NULL;
  nvf_error error = {0};
  int status = nvf_prepare(executor, &input, 1, NVF_ANY_DEVICE, &plan, &description, &error);
  expect(status == NVF_OK, error.text ? error.text : "nvf_prepare", __LINE__);
  void *memories[] = {out};
  EXPECT(nvf_run(plan, &input, 1, memories, 1, 0, &error) == NVF_OK);
  for (int64_t r = 0; r < rows; r++) {
    float want = 0;
    for (int c = 0; c < 8; c++) want += in[r * 8 + c] > 0 ? in[r * 8 + c] : 0;
    EXPECT(out[r] == want);
  }
  nvf_plan_release(plan);
}

int main(void) {
  nvf_fusion fusion = 0;
  EXPECT(nvf_fusion_parse(text, (int64_t)strlen(text), &fusion, NULL) == NVF_OK);
  nvf_value relu = {.kind = NVF_KIND_TENSOR, .id = 1, .fusion = fusion}, x = {.kind = NVF_KIND_TENSOR, .id = 0, .fusion = fusion};
  nvf_value results[NVF_MAX_RESULTS];
  int32_t count = 0;
  char *lines = NULL;

  EXPECT(strstr(nvf_primitive_table(), "\"name\":\"rfactor\"") != NULL);
  REFUSED(nvf_schedule(fusion, "halve", NULL, 0, NULL, 0, results, &count, &lines, &error), NVF_INVALID_ARGUMENT, "no schedule primitive halve");
  EXPECT(nvf_schedule_text(fusion, &lines, NULL) == NVF_OK && strstr(lines, "tv2 global") != NULL);
  nvf_free(lines);

  /* The parts of the tensor are found by the calls on it: values are numbered as the fusion is defined. */
  nvf_value cache = CALL(fusion, "cache_after", x);
  EXPECT(cache.kind == NVF_KIND_TENSOR && cache.fusion == fusion && cache.id > 2);
  nvf_value sum = {0};
  for (uint32_t id = 1; id < cache.id && sum.kind == NVF_KIND_NONE; id++) { /* the reduction is the tensor that rfactor takes */
    nvf_value split[] = {{.kind = NVF_KIND_TENSOR, .id = id, .fusion = fusion}, integer(1), integer(4)};
    nvf_value factored[] = {split[0], {.kind = NVF_KIND_LIST, .integer = 1, .items = &split[1]}};
    if (nvf_schedule(fusion, "split", split, 3, NULL, 0, results, &count, NULL, NULL) != NVF_OK) continue;
    if (nvf_schedule(fusion, "rfactor", factored, 2, NULL, 0, results, &count, NULL, NULL) == NVF_OK && count == 1) sum = split[0];
  }
  EXPECT(sum.kind == NVF_KIND_TENSOR);
  nvf_value partial = results[0];
  CALL(fusion, "split", partial, integer(0), integer(2));
  EXPECT(nvf_schedule(fusion, "transform_like", &partial, 1, NULL, 0, results, &count, &lines, NULL) == NVF_OK && count == 0 && lines == NULL);
  CALL(fusion, "parallelize", partial, integer(0), name("grid_x"));
  CALL(fusion, "parallelize", partial, integer(1), name("block_y"));
  CALL(fusion, "parallelize", partial, integer(3), name("block_x"));
  CALL(fusion, "parallelize_like", partial);
  call(fusion, "inline_most", NULL, 0);

  REFUSED(nvf_schedule(fusion, "split", (nvf_value[]){sum, integer(0), integer(2)}, 3, NULL, 0, results, &count, NULL, &error),
          NVF_INVALID_ARGUMENT, "parallelized");
  REFUSED(nvf_schedule(fusion, "split", (nvf_value[]){relu, name("x"), integer(2)}, 3, NULL, 0, results, &count, NULL, &error), NVF_INVALID_TYPE,
          "axis must be an int, got x");
  REFUSED(nvf_schedule(fusion, "set_memory_type", (nvf_value[]){relu, name("tensor")}, 2, NULL, 0, results, &count, NULL, &error),
          NVF_UNSUPPORTED, "no meaning");
  REFUSED(nvf_call(fusion, nvf_op("neg"), &relu, 1, NULL, 0, NULL, results, &count, &error), NVF_INVALID_ARGUMENT, "being scheduled");
  REFUSED(nvf_add_output(fusion, &relu, NULL, &error), NVF_INVALID_ARGUMENT, "being scheduled");
  REFUSED(nvf_schedule(fusion, "inline_most", NULL, -1, NULL, 0, results, &count, NULL, &error), NVF_INVALID_ARGUMENT, "negative");
  nvf_value stale = {.kind = NVF_KIND_TENSOR, .id = 1000, .fusion = fusion}, axis = {.kind = NVF_KIND_AXIS, .id = 1000, .fusion = fusion};
  REFUSED(nvf_schedule(fusion, "merge", (nvf_value[]){stale, integer(0)}, 2, NULL, 0, results, &count, NULL, &error), NVF_INVALID_ARGUMENT, "is value 1000");
  REFUSED(nvf_schedule(fusion, "merge", (nvf_value[]){axis}, 1, NULL, 0, results, &count, NULL, &error), NVF_INVALID_ARGUMENT, "is axis 1000");

  nvf_executor executor = 0;
  EXPECT(nvf_executor_create_scheduled(fusion, NULL, &executor, NULL) == NVF_OK);
  run(executor, 5);
  run(executor, 8);
  nvf_executor_destroy(executor);

  /* The script makes the same schedule of a fusion of the same text. */
  char *script = NULL, *schedule = NULL, *again_text = NULL;
  nvf_fusion again = 0;
  EXPECT(nvf_schedule_script(fusion, &script, NULL) == NVF_OK && strstr(script, "inline_most()") != NULL);
  EXPECT(nvf_fusion_parse(text, (int64_t)strlen(text), &again, NULL) == NVF_OK);
  nvf_error error = {0};
  int status = nvf_schedule_run(again, script, (int64_t)strlen(script), &error);
  expect(status == NVF_OK, error.text ? error.text : script, __LINE__);
  EXPECT(nvf_schedule_text(fusion, &schedule, NULL) == NVF_OK && nvf_schedule_text(again, &again_text, NULL) == NVF_OK);
  EXPECT(strcmp(schedule, again_text) == 0);
  nvf_free(script);
  nvf_free(schedule);
  nvf_free(again_text);
  REFUSED(nvf_schedule_run(again, "\nhalve()", 8, &error), NVF_INVALID_ARGUMENT, "line 2: there is no primitive halve");
  REFUSED(nvf_schedule_run(again, NULL, 8, &error), NVF_INVALID_ARGUMENT, "length");
  int64_t launch[] = {-1, 7, -1, -1, -1, -1};
  EXPECT(nvf_executor_create_scheduled(again, launch, &executor, NULL) == NVF_OK);
  int64_t sizes[] = {4, 8}, strides[] = {8, 1};
  float data[32] = {0};
  nvf_input input = {.kind = NVF_KIND_TENSOR, .dtype = NVF_FLOAT, .device_type = NVF_CPU, .rank = 2, .sizes = sizes, .strides = strides, .data = data};
  nvf_plan plan;
  const nvf_plan_description *description;
  REFUSED(nvf_prepare(executor, &input, 1, NVF_ANY_DEVICE, &plan, &description, &error), NVF_INVALID_ARGUMENT, "bdimy is 7, but the schedule makes it 2");
  nvf_executor_destroy(executor);

  nvf_fusion_destroy(again);
  nvf_fusion_destroy(fusion);
  REFUSED(nvf_schedule(fusion, "inline_most", NULL, 0, NULL, 0, results, &count, NULL, &error), NVF_FAILED, "not the handle of a fusion");
  if (failures == 0) puts("schedule: ok");
  return failures != 0;
}
