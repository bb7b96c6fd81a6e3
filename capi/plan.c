/* Plans in C memory: counting, and what a run submits to a CUDA device. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "../cudadrv/real/counters.h"
#include "../cudadrv/real/launch.h"

/* The class of an address: 0 for none, else one more than the logarithm of its
 * alignment, up to 16 bytes. */
static int alignment(const void *data) {
  if (!data) return 0;
  int zeros = __builtin_ctzll((uintptr_t)data);
  return 1 + (zeros < 4 ? zeros : 4);
}

static int is_like(const nvf_input *a, int8_t alignment_or_any, const nvf_input *b) {
  if (a->kind != b->kind) return 0;
  if (a->kind != NVF_KIND_TENSOR) return alignment_or_any || (a->integer == b->integer && !memcmp(&a->real, &b->real, 2 * sizeof a->real));
  if (a->dtype != b->dtype || a->device_type != b->device_type || a->device_index != b->device_index || a->rank != b->rank) return 0;
  for (int32_t i = 0; i < 2 * a->rank; i++)
    if (a->sizes[i] != b->sizes[i]) return 0;
  return alignment_or_any == alignment(b->data);
}

int plan_agrees(const nvfi_plan *plan, const nvf_input *inputs, int32_t num_inputs) {
  if (!plan->like || num_inputs != plan->num_inputs) return 0;
  for (int32_t i = 0; i < num_inputs; i++)
    if (!is_like(&plan->like[i], plan->alignments[i], &inputs[i])) return 0;
  return 1;
}

void plan_begin(const nvfi_plan *plan, const nvf_input *inputs, uint64_t seed, uint64_t offset, uint64_t *words) {
  for (int32_t i = 0; i < plan->num_inputs; i++)
    words[i] = inputs[i].kind == NVF_KIND_TENSOR && inputs[i].device_type == plan->description.device_type ? (uintptr_t)inputs[i].data : 0;
  for (int32_t i = 0; i < plan->num_hidden; i++) words[plan->hidden[2 * i]] = words[plan->hidden[2 * i + 1]];
  words[plan->random_at] = seed;
  words[plan->random_at + 1] = offset;
}

int plan_borrow(const nvfi_plan *plan, const nvfi_phase *phase, uintptr_t stream, uint64_t *words) {
  uint64_t first = phase->counters ? counters_of(plan->context, stream) : 0;
  for (int32_t i = 0; first && i < phase->num_zeroed; i++) words[plan->places[phase->zeroed[i]]] = first + (uint64_t)phase->counters[i];
  return first != 0;
}

int plan_launch(const nvfi_plan *plan, const nvfi_phase *phase, int borrowed, const uint64_t *words, uintptr_t stream, int32_t *failed) {
  *failed = -1;
  for (int32_t i = 0; !borrowed && i < phase->num_zeroed; i++) {
    int32_t memory = phase->zeroed[i];
    int code = launch_zero(plan->context, words[plan->places[memory]], (uint64_t)plan->memories[memory].num_bytes, stream);
    if (code) return code;
  }
  for (int32_t i = phase->first_launch; i < phase->first_launch + phase->num_launches; i++) {
    int code = launch_kernel(plan->launches[i], words, stream);
    *failed = i;
    if (code) return code;
  }
  return 0;
}

void plan_hold(nvfi_plan *plan) { __atomic_add_fetch(&plan->references, 1, __ATOMIC_RELAXED); }

void plan_release(nvfi_plan *plan) {
  if (__atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL) == 0) nvfi_forget(plan->self);
}

static nvfi_plan *buried;

void plan_bury(nvfi_plan *plan) {
  if (!plan->objects) {
    free(plan);
    return;
  }
  plan->next = __atomic_load_n(&buried, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&buried, &plan->next, plan, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
}

nvfi_plan *plan_exhume(void) {
  return __atomic_load_n(&buried, __ATOMIC_RELAXED) ? __atomic_exchange_n(&buried, NULL, __ATOMIC_ACQUIRE) : NULL;
}
