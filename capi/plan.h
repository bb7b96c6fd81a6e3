/* plan.h: a plan in C memory, which is all that a call needs once it was found. */
#ifndef NVFUSER_GO_PLAN_H
#define NVFUSER_GO_PLAN_H

#include "internal.h"

struct launch; /* of ../cudadrv/real/launch.h */

/* Memories of a run, besides its inputs, are numbered: the outputs of the
 * description, then the workspaces. */

/* What a call of torch takes: a tensor as it is, a view of one, or a number. */
enum nvfi_argument_kind { NVFI_WHOLE, NVFI_VIEW, NVFI_NUMBER };
typedef struct nvfi_argument {
  int32_t kind;
  int32_t from;  /* the memory; or the complement of an input's position; or a number's first word */
  int32_t dtype; /* of a number: Bool, Int, UInt64, Double or ComplexDouble, the last of two words */
  int32_t rank;
  const int64_t *sizes, *strides; /* of a view */
  int64_t offset;                 /* of a view: in elements, from the first one of the tensor */
} nvfi_argument;

typedef struct nvfi_result {
  int32_t memory; /* that it becomes; -1: nobody reads it */
  int32_t dtype, rank;
  const int64_t *sizes, *strides;
} nvfi_result;

typedef struct nvfi_call {
  const char *name; /* of the operation */
  const char *spec; /* for the package, which makes a callable of it */
  int32_t num_arguments, num_results;
  const nvfi_argument *arguments;
  const nvfi_result *results;
} nvfi_call;

/* A part of a run, in this order: memory is allocated, launches are made, torch is
 * called, memory is given back. */
typedef struct nvfi_phase {
  int32_t num_allocated, num_zeroed, num_released;
  const int32_t *allocated; /* memories */
  const int32_t *zeroed;    /* the last of them: the launches find them set to zero, and leave them so */
  const int32_t *counters;  /* where those may lie in what counters_of() gives; NULL: there is no room, or none is needed */
  const int32_t *released;  /* memories */
  int32_t first_launch, num_launches;
  int32_t call; /* -1: none */
} nvfi_phase;

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

  /* What a run does. It brings words: addresses of inputs, of outputs, of
   * workspaces, seed, offset, scalars. */
  int32_t num_phases, num_calls, num_launches;
  const nvfi_phase *phases;
  const nvfi_call *calls;
  const nvf_output *memories; /* the outputs of the description are the first of them; NVF_NULL as the dtype: bytes */
  const nvfi_argument *views; /* by output of the description: how it is seen that is another view of a memory; NULL if none is */
  const int32_t *places;      /* by memory: where its address goes among the words */
  int32_t num_hidden;
  const int32_t *hidden; /* pairs: a place among the words, and the input whose address goes there too */
  int32_t num_words, random_at, scalars_at, num_scalars;

  /* On a CUDA device. */
  const struct launch *const *launches;
  uintptr_t context; /* of the launches */

  int64_t references;
  void *objects;          /* of the extension module, or NULL */
  struct nvfi_plan *next; /* among those that wait for the extension module to free its objects */
};

/* Whether calls with inputs, of which the strides of each lie behind its sizes,
 * have the same plan as the last ones: told without Go, and not of all that have. */
int plan_agrees(const nvfi_plan *plan, const nvf_input *inputs, int32_t num_inputs);

/* Fills the words of inputs, seed and offset. */
void plan_begin(const nvfi_plan *plan, const nvf_input *inputs, uint64_t seed, uint64_t offset, uint64_t *words);

/* Has the zeroed memories of a phase lie in the counters of the stream, which hold zeros
 * (../cudadrv/real/counters.h), and returns whether it does; else the caller has to bring
 * them. It may block, and enters neither Go nor Python. */
int plan_borrow(const nvfi_plan *plan, const nvfi_phase *phase, uintptr_t stream, uint64_t *words);

/* Sets memories to zero, unless they were borrowed, and launches, as the phase says, on a
 * stream. Returns a CUresult; on an error *failed is the number of the launch, or -1 if
 * memory could not be set to zero. It may block, and enters neither Go nor Python. */
int plan_launch(const nvfi_plan *plan, const nvfi_phase *phase, int borrowed, const uint64_t *words, uintptr_t stream, int32_t *failed);

/* Takes a reference. */
void plan_hold(nvfi_plan *plan);

/* Gives a reference back. */
void plan_release(nvfi_plan *plan);

/* Frees the memory of a plan that nothing refers to, or leaves it for plan_exhume. */
void plan_bury(nvfi_plan *plan);

/* Takes the plans whose objects the extension module has to free; linked by next. */
nvfi_plan *plan_exhume(void);

#endif
