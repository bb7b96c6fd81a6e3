/* export_types.h: const pointers under names that cgo can spell, so that a Go
 * function agrees with its declaration in nvfuser_go.h and internal.h. */
#ifndef NVFUSER_GO_EXPORT_TYPES_H
#define NVFUSER_GO_EXPORT_TYPES_H

#include <stdlib.h>
#include <string.h>

#include "../cudadrv/real/counters.h"
#include "internal.h"
#include "nvfuser_go.h"
#include "plan.h"

typedef const char *const_text;
typedef const char *const *const_texts;
typedef const nvf_value *const_values;
typedef const nvf_tensor *const_tensor;
typedef const nvf_location *const_location;
typedef const nvf_input *const_inputs;
typedef const struct launch *const *const_launches;
typedef const int32_t *const_places;
typedef const uint64_t *const_words;
typedef const nvfi_phase *const_phases;
typedef const nvfi_call *const_calls;
typedef const nvfi_argument *const_arguments;
typedef const nvfi_result *const_results;
typedef const nvf_output *const_outputs;
typedef const nvf_workspace *const_workspaces;
typedef const nvf_plan_description *const_description;
typedef void *const *const_memories;
typedef const int64_t *const_integers;
typedef const nvfi_op *const_ops;

#endif
