/* internal.h: what the extension module asks of Go beyond nvfuser_go.h. These
 * functions are not shown by the library. Errors are reported as there. */
#ifndef NVFUSER_GO_INTERNAL_H
#define NVFUSER_GO_INTERNAL_H

#include "nvfuser_go.h"

/* One row of the op table; texts live as long as the process. */
typedef struct nvfi_op {
  const char *name;
  const char *doc; /* of the Python function, with its signature */
} nvfi_op;

const nvfi_op *nvfi_ops(int32_t *count);

/* Whether the op at `op` returns a list in Python, even of one or no value. */
int nvfi_returns_list(int32_t op);

/* x // y: floor division, which no single row is. */
int nvfi_floor_divide(nvf_fusion fusion, const nvf_value *operands, const nvf_location *location, nvf_value *result,
                      nvf_error *error);

/* Lists of values, and of the ids of axes and expressions. */
enum nvfi_list {
  NVFI_INPUTS,
  NVFI_OUTPUTS, /* each followed by its alias, which may be absent */
  NVFI_VALS,
  NVFI_EXPRS,         /* ids, those that the outputs need, in order of execution */
  NVFI_VAL_DEF,       /* ids, of the expression that defines the value: at most one */
  NVFI_VAL_USES,      /* ids of expressions */
  NVFI_EXPR_INPUTS,   /* tensors and scalars */
  NVFI_EXPR_OUTPUTS,  /* tensors */
  NVFI_VAL_ROOT,      /* ids of axes */
  NVFI_VAL_LOGICAL,   /* ids of axes */
  NVFI_VAL_LOOP,      /* ids of axes */
  NVFI_AXIS_EXTENT,   /* one scalar */
  NVFI_AXIS_DEF,      /* of what makes the axis: nothing, or 0 split, 1 merge, 2 resize, and whether the factor is inner */
  NVFI_AXIS_SOURCES,  /* ids of the axes that it is made from */
  NVFI_AXIS_RESULTS,  /* ids of the axes that are made with it */
  NVFI_AXIS_FACTOR    /* one scalar, of a split */
};

/* Ids come as NVF_KIND_INT. Free *items with nvf_free. */
int nvfi_list(nvf_fusion fusion, int32_t what, uint32_t id, nvf_value **items, int64_t *count, nvf_error *error);

enum nvfi_text {
  NVFI_PYTHON,  /* the program as a Python function called `name` */
  NVFI_MATH,    /* expressions, all of them or, if id is 1, those that the outputs need */
  NVFI_VAL,     /* a value, an expression, an axis, the axes of a tensor */
  NVFI_EXPR,
  NVFI_AXIS,
  NVFI_DOMAIN,
  NVFI_EXPR_NAME, /* of its operation */
  NVFI_REPRODUCER, /* the script of the schedule, with the names of a fusion that is parsed from the text */
  NVFI_STAGE, /* a stage of the definition, called `name` */
  NVFI_KERNEL /* the kernel of the fusion by its schedule, if it has one; id: the dtype of its indices, or NVF_NULL to choose it */
};

/* name may be NULL. Free *text with nvf_free. */
int nvfi_text(nvf_fusion fusion, int32_t what, uint32_t id, const char *name, char **text, nvf_error *error);

enum nvfi_fact {
  NVFI_FROZEN,
  NVFI_NUM_EXPRS,
  NVFI_RANK,
  NVFI_DTYPE,
  NVFI_IS_SYMBOLIC,
  NVFI_HAS_ROOT,
  NVFI_IS_REDUCTION, /* of an axis */
  NVFI_TRUTH         /* of a scalar: 0, 1, or -1 if it is known only at run time */
};

int nvfi_fact(nvf_fusion fusion, int32_t what, uint32_t id, int64_t *value, nvf_error *error);

int nvfi_freeze(nvf_fusion fusion, nvf_error *error);
int nvfi_verify(nvf_fusion fusion, nvf_error *error);

/* A complete fusion that has three more outputs than this one for each operation that
 * a tensor tells positions; *text has a line for each, with fields between tabs:
 * operation, the argument that lists positions, its tensor, 1 if that is unsigned or 0,
 * the argument that is indexed, the dimension, and the line of the program. Outputs are
 * the smallest and the largest position, and the size of the dimension. Free *text with
 * nvf_free. */
int nvfi_index_checks(nvf_fusion fusion, nvf_fusion *checked, char **text, nvf_error *error);

/* The stages that a fusion can be shown in: a line each, with fields between
 * tabs: name, what it shows, what arguments it takes, and 1 if it needs no inputs,
 * else 0. The text is static. */
const char *nvfi_stages(void);

/* What there is of CUDA: the driver, the compiler, the devices, or where they
 * were looked for, and the folder of compiled kernels; a line each, what and value with a tab between. It starts the
 * driver, and makes no context. Free *text with nvf_free. */
int nvfi_cuda(char **text, nvf_error *error);

/* Shows a stage of the fusion for inputs: request is the name of a stage, and the
 * arguments that it takes, on lines of their own. A negative num_inputs stands
 * for the inputs that were prepared last. Free *text with nvf_free. */
int nvfi_show(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, const char *request, char **text, nvf_error *error);

/* Explains who computes what for inputs, as JSON: what the stage explain gives, and as "text" the
 * same for reading. With measures it times kernels of a CUDA device on copies of the inputs, after
 * what the stream was given. Free *text with nvf_free. */
int nvfi_explain(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t measures, uint64_t stream, char **text, nvf_error *error);

/* Measures a CUDA device and writes what it found to a file, "": to where plans of later processes
 * look for it. *text, to be freed with nvf_free, is the file and on the lines after it what is in it. */
int nvfi_calibrate(int32_t device, const char *to, char **text, nvf_error *error);

/* Tells whether this is the first call of it for the executor's fusion and this
 * kind of inputs. */
int nvfi_first_shown(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t *first, nvf_error *error);

/* Whether a call with inputs like these compiles nothing, into *is. */
int nvfi_is_compiled(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t *is, nvf_error *error);

/* How later plans are made: with serial their kernels one after another instead of side by
 * side, with apart so that no kernel starts before the one before it has ended, with exact
 * so that no operation is approximated. */
int nvfi_plan_so(nvf_executor executor, int32_t serial, int32_t apart, int32_t exact, nvf_error *error);

/* A plan, in plan.h. */
typedef struct nvfi_plan nvfi_plan;

/* Looks for a plan that was made before, with the arguments of nvf_prepare. *plan
 * is NULL if there is none; else it is to be given back with plan_release. With
 * random_in_memory the seed and the offset of a call on a CUDA device are the
 * addresses of 64 bits there, which are read when the kernel runs. */
int nvfi_find(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t device, int32_t random_in_memory, nvfi_plan **plan,
              nvf_error *error);

/* Whether nvfi_find would find a plan, into *has. What was prepared last stays that. */
int nvfi_has_plan(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t device, int32_t *has, nvf_error *error);

/* As nvfi_find, and makes the plan if there is none. */
int nvfi_make(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t device, int32_t random_in_memory, nvfi_plan **plan,
              nvf_error *error);

/* Frees the plan with this handle, which nothing refers to any more; for plan_release. */
void nvfi_forget(uint64_t plan);

/* Makes the launches of a phase of a plan for the CPU, on inputs for which it was
 * found and the words of plan.h. */
int nvfi_run_phase(nvfi_plan *plan, int32_t phase, const nvf_input *inputs, const uint64_t *words, nvf_error *error);

/* Fills the words of scalars that a call of a plan with such brings. */
int nvfi_scalars(nvfi_plan *plan, const nvf_input *inputs, uint64_t *words, nvf_error *error);

/* Describes the error that plan_launch has returned. */
int nvfi_launch_error(nvfi_plan *plan, int32_t code, int32_t failed, nvf_error *error);

/* Work on another thread, for callers that have something else to do meanwhile. */
typedef uint64_t nvfi_job;

/* Begins nvfi_run_phase. What the arguments point to must stay until nvfi_wait has
 * returned 1, which ends the job. */
int nvfi_start_run_phase(nvfi_plan *plan, int32_t phase, const nvf_input *inputs, const uint64_t *words, nvfi_job *job, nvf_error *error);

/* Begins to make a plan, which nvfi_make then finds. The arguments are copied. */
int nvfi_start_make(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t device, int32_t random_in_memory, nvfi_job *job,
                    nvf_error *error);

/* Waits for the end of a job, at most the given time; returns whether it has
 * ended, and then gives its status and error. */
int nvfi_wait(nvfi_job job, int32_t milliseconds, int *status, nvf_error *error);

/* Asks a run to end soon, with an error. */
void nvfi_stop(nvfi_job job);

/* Ends a job without its result. A plan is made to the end: it is found later. */
void nvfi_abandon(nvfi_job job);

/* What the scheduler called `name` says to a fusion and inputs; NVFI_SCHEDULE
 * gives the fusion its schedule. *text, to be freed with nvf_free: why it refuses,
 * a line for each reason, "" if it does not; the parameters that it chooses, as
 * JSON; "". params are such parameters, or NULL for the first choice.
 * NVFI_TORCH_CALLS gives, of no scheduler, what torch would be called with for each
 * expression, as JSON. */
enum nvfi_scheduler_request { NVFI_CAN_SCHEDULE, NVFI_HEURISTICS, NVFI_SCHEDULE, NVFI_TORCH_CALLS };
int nvfi_scheduler(nvf_fusion fusion, int32_t request, const char *name, const char *params, const nvf_input *inputs,
                   int32_t num_inputs, char **text, nvf_error *error);

/* Names of the schedulers, a line each. Free *text with nvf_free. */
int nvfi_schedulers(char **text, nvf_error *error);

/* Which axes of a fusion, as it is scheduled now, are mapped in the sense of mode,
 * such as "exact". */
typedef uint64_t nvfi_graph;
int nvfi_graph_create(nvf_fusion fusion, const char *mode, nvfi_graph *graph, nvf_error *error);
void nvfi_graph_destroy(nvfi_graph graph);
int nvfi_graph_mapped(nvfi_graph graph, const nvf_value *a, const nvf_value *b, int32_t *mapped, nvf_error *error);
int nvfi_graph_join(nvfi_graph graph, const nvf_value *a, const nvf_value *b, nvf_error *error);

/* Panics, for the test of what happens then. */
int nvfi_provoke(nvf_fusion fusion, nvf_error *error);

#endif
