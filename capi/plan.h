/* plan.h: a plan in C memory, which is all that a call needs once it was found. */
#ifndef NVFUSER_GO_PLAN_H
#define NVFUSER_GO_PLAN_H

#include "internal.h"

struct launch; /* of ../cudadrv/real/launch.h */

/* It does not change once it was found, but for the last three fields. The table
 * of its executor counts as a reference, and so does each call that found it, so
 * that neither eviction nor the end of an executor frees a plan that runs. */
struct nvfi_plan {
  nvf_plan_description description;
  uint64_t self;         /* handle of the Go object */
  int32_t num_inputs;
  const nvf_input *like; /* inputs of its kind, without data; the strides of each lie behind its sizes. NULL: where inputs lie matters */
  const int8_t *alignments; /* of the data of each; of a number: whether any other of its kind will do */
  int32_t runs_with_gpu; /* whether a tensor among the inputs is on the device, so that torch has started it */

  /* On a CUDA device. A call brings words: addresses of inputs, of outputs, of
   * workspaces, seed, offset, scalars. */
  int32_t num_launches;
  int32_t num_words, workspaces_at, random_at, scalars_at, num_scalars;
  const struct launch *const *launches;
  const int32_t *places;  /* by output of the description: where its address goes among the words */
  int32_t num_hidden;
  const int32_t *hidden;  /* pairs: a place among the words, and the input whose address goes there too */
  uintptr_t context;      /* of the launches */

  int64_t references;
  void *objects;          /* of the extension module, or NULL */
  struct nvfi_plan *next; /* among those that wait for the extension module to free its objects */
};

/* Whether calls with inputs, of which the strides of each lie behind its sizes,
 * have the same plan as the last ones: told without Go, and not of all that have. */
int plan_agrees(const nvfi_plan *plan, const nvf_input *inputs, int32_t num_inputs);

/* Fills the words of inputs, outputs, seed and offset; outputs are by position in
 * the description, workspaces likewise. */
void plan_fill(const nvfi_plan *plan, const nvf_input *inputs, void *const *outputs, void *const *workspaces, uint64_t seed, uint64_t offset,
               uint64_t *words);

/* Launches on a stream. Returns a CUresult; on an error *failed is the number of
 * the launch, or -1 if a workspace could not be set to zero. It may block, and
 * enters neither Go nor Python. */
int plan_launch(const nvfi_plan *plan, const uint64_t *words, uintptr_t stream, int32_t *failed);

/* Takes a reference. */
void plan_hold(nvfi_plan *plan);

/* Gives a reference back. */
void plan_release(nvfi_plan *plan);

/* Frees the memory of a plan that nothing refers to, or leaves it for plan_exhume. */
void plan_bury(nvfi_plan *plan);

/* Takes the plans whose objects the extension module has to free; linked by next. */
nvfi_plan *plan_exhume(void);

#endif
