/* nvfuser_go.h: the C interface of nvfuser_go.
 *
 * The functions live in the file nvfuser_go/_C.abi3.so of the Python package.
 * That file is also the CPython extension module, but it depends on libc only
 * and loads into a program that has no Python in it. Link it by name,
 *
 *     cc program.c -I DIR/include -L DIR -l:_C.abi3.so -Wl,-rpath,DIR
 *
 * or open it with dlopen. It starts a Go runtime in the process and cannot be
 * unloaded.
 *
 * Use: create a fusion, define its inputs, call operations by name, add
 * outputs; make an executor of it; for each run ask for the plan of the inputs,
 * allocate what its outputs describe, run it (on a CUDA device: launch it),
 * release it. tests/c/fusion.c and tests/c/launch.c in the repository are whole
 * programs.
 *
 * Errors: a function that returns int returns NVF_OK or the kind of the error,
 * and describes the error in *error if error is not NULL. Its other results are
 * then as before. Clear an error with nvf_error_clear before using it again.
 *
 * Handles are numbers. One that was destroyed, or never given out, is an error
 * and never touches memory.
 *
 * Threads: every function may be called from any thread, several at a time.
 * Calls that build the same fusion wait for each other; an executor and a plan
 * may run several times at once.
 *
 * Fork: the Go runtime does not survive fork(). In a child process only
 * nvf_forked may be called, unless the child calls exec first.
 */
#ifndef NVFUSER_GO_H
#define NVFUSER_GO_H

#include <stdint.h>

/* Marks what the library shows; the rest is compiled with hidden visibility. */
#define NVF_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the library, such as "0.1.0". The text is static: it
 * is valid until the process ends and must not be freed. */
NVF_API const char *nvf_version(void);

/* Returns 1 in a process that was forked after the library was loaded, else 0.
 * It is safe there: it does not enter the Go runtime. */
NVF_API int nvf_forked(void);

/* Frees a text or a list that the library returned. NULL is ignored. */
NVF_API void nvf_free(void *memory);

/* ---- Errors ---- */

enum nvf_status {
  NVF_OK = 0,
  NVF_INVALID_ARGUMENT = 1, /* a value breaks a rule; the text names both */
  NVF_INVALID_TYPE = 2,     /* an argument or a tensor of the wrong type */
  NVF_UNSUPPORTED = 3,      /* the program is right and this build cannot run it */
  NVF_FAILED = 4,           /* anything else: a stale handle, no memory */
  NVF_INTERNAL = 5          /* a bug in the library; the text names a reproducer file */
};

/* Why one way of running a program was not possible. */
typedef struct nvf_refusal {
  char *by;       /* the executor, scheduler or pass that refuses */
  char *rule;     /* short name of the rule */
  char *tensor;   /* the tensor in the user's terms, or "" */
  char *sentence; /* what was found */
} nvf_refusal;

/* An error. Set it to zero before the first use. */
typedef struct nvf_error {
  int32_t status;       /* of enum nvf_status */
  int32_t num_refusals; /* of NVF_UNSUPPORTED */
  char *text;           /* UTF-8, NULL if there is no error */
  nvf_refusal *refusals;
} nvf_error;

/* Frees the texts of *error and sets it to zero. */
NVF_API void nvf_error_clear(nvf_error *error);

/* ---- Element types ---- */

enum nvf_dtype {
  NVF_NULL = 0, /* no type: "decide from the operands" */
  NVF_BOOL = 1, /* one byte, 0 or 1 */
  NVF_INT32 = 2,
  NVF_INT = 3, /* 64 bits */
  NVF_UINT64 = 4,
  NVF_INDEX = 5, /* an extent or position; 64 bits in memory */
  NVF_HALF = 6,
  NVF_BFLOAT16 = 7,
  NVF_FLOAT = 8,
  NVF_DOUBLE = 9,
  NVF_FLOAT8_E4M3FN = 10,
  NVF_FLOAT8_E5M2 = 11,
  NVF_FLOAT8_E8M0FNU = 12,
  NVF_FLOAT4_E2M1FN = 13,
  NVF_FLOAT4_E2M1FN_X2 = 14,
  NVF_COMPLEX_FLOAT = 15,
  NVF_COMPLEX_DOUBLE = 16
};

/* ---- Values ---- */

typedef uint64_t nvf_fusion; /* handle; 0 is never one */

enum nvf_kind {
  NVF_KIND_NONE = 0,    /* absent; for an optional argument: its default */
  NVF_KIND_TENSOR = 1,  /* fusion, id */
  NVF_KIND_SCALAR = 2,  /* fusion, id */
  NVF_KIND_BOOL = 3,    /* integer: 0 or 1 */
  NVF_KIND_INT = 4,     /* integer */
  NVF_KIND_UINT = 5,    /* integer: the bits of a number of 2^63 or more */
  NVF_KIND_FLOAT = 6,   /* real */
  NVF_KIND_COMPLEX = 7, /* real, imag */
  NVF_KIND_DTYPE = 8,   /* integer: of enum nvf_dtype */
  NVF_KIND_LIST = 9,    /* items, integer: their number */
  NVF_KIND_OTHER = 10,  /* nothing that an operation takes; text: its type, for the error */
  NVF_KIND_NAME = 11,   /* text: a member of an enumeration, such as "grid_x" */
  NVF_KIND_AXIS = 12    /* fusion, id: of an axis */
};

/* A list has at most this many items. */
enum { NVF_MAX_ITEMS = 1 << 20 };

/* An argument or a result of an operation. kind tells which fields count. */
typedef struct nvf_value {
  int32_t kind; /* of enum nvf_kind */
  uint32_t id;  /* of a value of fusion */
  nvf_fusion fusion;
  int64_t integer;
  double real, imag;
  const struct nvf_value *items;
  const char *text;
} nvf_value;

/* A line of the caller's program, for errors that show only at run time. */
typedef struct nvf_location {
  const char *file; /* NULL: unknown */
  int32_t line;
} nvf_location;

/* ---- Fusions ---- */

/* Makes an empty fusion. */
NVF_API int nvf_fusion_create(nvf_fusion *fusion, nvf_error *error);

/* Makes a fusion from its text form, `length` bytes of it. */
NVF_API int nvf_fusion_parse(const char *text, int64_t length, nvf_fusion *fusion, nvf_error *error);

/* Forgets a fusion. Its executors stay. A stale handle is ignored. */
NVF_API void nvf_fusion_destroy(nvf_fusion fusion);

/* Gives the text form of a fusion: it parses back to a fusion of the same text,
 * and fusions that mean the same by the same operations have the same text.
 * Free *text with nvf_free. */
NVF_API int nvf_fusion_text(nvf_fusion fusion, char **text, nvf_error *error);

/* An input tensor. */
typedef struct nvf_tensor {
  int32_t dtype;
  int32_t rank;
  const int64_t *shape;        /* -1 known at run time, 1 a broadcast, otherwise the size */
  const int8_t *contiguity;    /* in memory order, outermost first: 1 contiguous with what is inside, 0 not, -1 broadcast */
  const int64_t *stride_order; /* rank of each dimension's stride, 0 the smallest; NULL: row-major */
  int32_t is_cpu;              /* 1: of rank 0, in host memory and passed by value */
} nvf_tensor;

NVF_API int nvf_define_tensor(nvf_fusion fusion, const nvf_tensor *type, nvf_value *tensor, nvf_error *error);

/* Adds an input scalar of an element type of enum nvf_dtype. */
NVF_API int nvf_define_scalar(nvf_fusion fusion, int32_t dtype, nvf_value *scalar, nvf_error *error);

/* Gives a number as a scalar of dtype; NVF_NULL: Bool, Int, Double or
 * ComplexDouble by its kind. Numbers may also be passed to operations as they
 * are. */
NVF_API int nvf_define_constant(nvf_fusion fusion, const nvf_value *number, int32_t dtype, nvf_value *scalar,
                                nvf_error *error);

/* Makes a tensor an output. alias, if not NULL, is the input tensor whose
 * memory receives it; the output is then not among those of a plan. */
NVF_API int nvf_add_output(nvf_fusion fusion, const nvf_value *tensor, const nvf_value *alias, nvf_error *error);

/* ---- Operations ---- */

/* The number of results of any operation is at most this. */
enum { NVF_MAX_RESULTS = 64 };

/* Returns the number of the operation called `name` in this process, or -1.
 * docs/ops.md of the repository lists names and parameters. */
NVF_API int32_t nvf_op(const char *name);

/* Returns the table of operations as a JSON array of objects, sorted by name.
 * The text is static, like that of nvf_version. Keys:
 *
 *   name, group, class   texts; class is elementwise, reduction, view, ...
 *   doc                  what it computes
 *   signatures           overloads as Python shows them, such as "(arg, dim, keepdim=False)"
 *   overloads            the same as lists of parameters: name; kind: operand,
 *                        tensor, tensors, number, extent, shape, integer,
 *                        integers, dim, dims, flag, flags or dtype; optional;
 *                        default (text, "" if there is none); keyword_only
 *   accept               classes of element types taken, a sum of 1 bool,
 *                        2 integer, 4 floating, 8 complex; 0: not limited so
 *   compute, result      of elementwise operations, how the operand types give
 *                        the type computed in (common, float, keep, bool,
 *                        integer) and that of the result (compute, bool, real,
 *                        complex)
 *   skip                 leading operands that promotion leaves out
 *   torch                the same in torch: a Python expression over the
 *                        parameter names, operands promoted
 *   domain               of each operand, the interval lo, hi (texts) of inputs
 *                        that it is defined for; empty: all
 *   ulp                  error bound in units in the last place of binary32
 */
NVF_API const char *nvf_op_table(void);

/* Adds the operation `op` to a fusion. args are num_positional values followed
 * by num_keywords values, whose parameters are named by keywords (NULL if there
 * are none). location may be NULL. The results are tensors and scalars; results
 * has room for NVF_MAX_RESULTS, and *num_results are there. */
NVF_API int nvf_call(nvf_fusion fusion, int32_t op, const nvf_value *args, int32_t num_positional,
                     const char *const *keywords, int32_t num_keywords, const nvf_location *location,
                     nvf_value *results, int32_t *num_results, nvf_error *error);

/* ---- Scheduling by hand ---- */

/* Makes a call of the schedule primitive called `name`, such as "split", on the
 * schedule of a fusion. The first call, also one that fails, completes the
 * fusion: operations and outputs are then refused. args are as for nvf_call; the
 * tensor of a method comes first, a dict is a list of lists of a key and a
 * value. The results, in order, are new tensors. *refusals, if the pointer is not
 * NULL, is a text with a line for each tensor that could not follow, NULL if all
 * did; free it with nvf_free. A call that fails changes nothing. */
NVF_API int nvf_schedule(nvf_fusion fusion, const char *name, const nvf_value *args, int32_t num_positional,
                         const char *const *keywords, int32_t num_keywords, nvf_value *results, int32_t *num_results,
                         char **refusals, nvf_error *error);

/* Makes the calls of a script, `length` bytes of text with one call a line, as
 * nvf_schedule_script gives it: all of them or, on an error, none. */
NVF_API int nvf_schedule_run(nvf_fusion fusion, const char *script, int64_t length, nvf_error *error);

/* Gives the calls made so far as a script. Free *script with nvf_free. */
NVF_API int nvf_schedule_script(nvf_fusion fusion, char **script, nvf_error *error);

/* Gives the loops, memory and position of each tensor as the schedule has them
 * now. Free *text with nvf_free. */
NVF_API int nvf_schedule_text(nvf_fusion fusion, char **text, nvf_error *error);

/* Returns the table of primitives as a JSON array of objects. The text is static.
 * Keys: name; method, whether it is called on a tensor; returns: nothing, tensor,
 * tensors or refusals; does, a text; signature, as Python shows it; parameters:
 * objects of name, kind (what is taken, in words), optional, default (text). */
NVF_API const char *nvf_primitive_table(void);

/* ---- Execution ---- */

typedef uint64_t nvf_executor; /* handle; 0 is never one */
typedef uint64_t nvf_plan;     /* handle; 0 is never one */

/* What runs a fusion. It has a copy of the fusion: what is added to it later
 * does not count. Executors of equal fusions share their programs. */
NVF_API int nvf_executor_create(nvf_fusion fusion, nvf_executor *executor, nvf_error *error);

/* Lets the plans that are prepared from now on compute by GPU kernels, which are
 * simulated on the CPU and checked: some thousand times slower. A fusion that no
 * scheduler takes is then refused. candidate, from 0, chooses among the schedules
 * that there are for a kernel, counted around; 0 is the one that should be the
 * fastest. */
NVF_API int nvf_executor_simulate(nvf_executor executor, int32_t candidate, nvf_error *error);

/* What runs a fusion by its schedule as it is now, in the simulator of
 * nvf_executor_simulate; later calls of nvf_schedule do not count. launch, if not
 * NULL, are numbers of threads along x, y, z and of blocks along x, y, z that every
 * launch must have; -1: any. */
NVF_API int nvf_executor_create_scheduled(nvf_fusion fusion, const int64_t *launch, nvf_executor *executor, nvf_error *error);

/* Forgets an executor. Its plans stay. A stale handle is ignored. */
NVF_API void nvf_executor_destroy(nvf_executor executor);

/* Kinds of device, numbered as in DLPack. */
enum nvf_device { NVF_CPU = 1, NVF_CUDA = 2 };

/* What a run gives for an input of the fusion. */
typedef struct nvf_input {
  int32_t kind;          /* NVF_KIND_TENSOR, or that of a number, which has the fields of an nvf_value */
  int32_t dtype;         /* of a tensor, of enum nvf_dtype */
  int32_t device_type;   /* of a tensor, of enum nvf_device */
  int32_t device_index;
  int32_t rank;
  const int64_t *sizes;
  const int64_t *strides; /* in elements, not negative */
  void *data;             /* the first element */
  int64_t integer;
  double real, imag;
} nvf_input;

/* A tensor that a run fills, also if it is an input or a view of one. Its memory spans
 * from the first element to the one with the largest indices. */
typedef struct nvf_output {
  int32_t dtype;
  int32_t device_type;
  int32_t device_index;
  int32_t rank;
  const int64_t *sizes;
  const int64_t *strides; /* in elements; 0 where all positions share memory */
  int64_t num_bytes;      /* of its memory */
  int32_t same_as;        /* the earlier output that is the same tensor, or -1; then it has no memory of its own */
} nvf_output;

/* Memory that a run needs besides its outputs. */
typedef struct nvf_workspace {
  int64_t num_bytes;
  int32_t zeroed; /* it must hold zeros: nvf_launch sets it to zero first, or brings it */
} nvf_workspace;

typedef struct nvf_plan_description {
  int32_t num_outputs; /* without those written into an input */
  int32_t needs_seed;  /* the outputs depend on the seed of the run */
  int64_t work;        /* estimate: operations on elements */
  const nvf_output *outputs;
  const int8_t *written; /* of each input: whether an output is written into its memory */
  int32_t device_type;   /* where it runs: NVF_CPU by nvf_run, NVF_CUDA by nvf_launch */
  int32_t device_index;
  int32_t num_workspaces; /* of a plan for a CUDA device */
  const nvf_workspace *workspaces;
  uint64_t draws; /* by which a run on a CUDA device moves the offset of a random generator */
  int32_t num_calls; /* of torch: a plan that has some is run from Python, and nvf_run and nvf_launch refuse it */
} nvf_plan_description;

/* Values of `device` below, besides the index of a CUDA device. */
enum { NVF_ANY_DEVICE = -1, NVF_CPU_DEVICE = -2 };

/* Checks the inputs against the definition and gives the plan to run them.
 * device tells where to run if no tensor does, and must be where tensors are. *description lives until the plan
 * is released. */
NVF_API int nvf_prepare(nvf_executor executor, const nvf_input *inputs, int32_t num_inputs, int32_t device, nvf_plan *plan,
                        const nvf_plan_description **description, nvf_error *error);

/* Runs a plan for the CPU on the inputs that it was prepared for; only their data may lie
 * elsewhere. outputs are the memories to fill, one for each of the description. On an error their
 * contents are undefined. */
NVF_API int nvf_run(nvf_plan plan, const nvf_input *inputs, int32_t num_inputs, void *const *outputs, int32_t num_outputs,
                    uint64_t seed, nvf_error *error);

/* Launches a plan for a CUDA device on a stream of it, a CUstream or cudaStream_t;
 * NULL is the default one. It does not wait: all memory must stay until the stream
 * has come so far. inputs and outputs are as for nvf_run, at addresses of the
 * device: of inputs with the alignment, up to 16 bytes, of those that the plan was
 * prepared for, of outputs at multiples of 16 bytes. workspaces are the memories
 * that the description asks for, at multiples of 256 bytes. Those that are zeroed may be NULL:
 * the library then has them lie in memory that it keeps for the stream, 64 KiB for each of up
 * to 128 streams, where it need not set them to zero each time. Only a stream that is captured
 * for a graph, the default one of a thread, and any stream before CUDA 12, need them brought.
 * seed and offset are the state of the random generator. On an error the contents of
 * outputs and of inputs that are written to are undefined. */
NVF_API int nvf_launch(nvf_plan plan, const nvf_input *inputs, int32_t num_inputs, void *const *outputs, int32_t num_outputs,
                       void *const *workspaces, int32_t num_workspaces, uint64_t seed, uint64_t offset, void *stream, nvf_error *error);

/* Forgets a plan. A stale handle is ignored, and runs of other threads end well. */
NVF_API void nvf_plan_release(nvf_plan plan);

#ifdef __cplusplus
}
#endif

#endif
