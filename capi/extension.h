/* extension.h: what the C files of the extension module share.
 *
 * The module has process-wide state, as the Go runtime does: one interpreter
 * uses it. Everything here runs with the GIL held. */
#ifndef NVFUSER_GO_EXTENSION_H
#define NVFUSER_GO_EXTENSION_H

#include "weak_python.h"

#include "internal.h"
#include "nvfuser_go.h"
#include "plan.h"

/* METH_FASTCALL functions have another type than PyCFunction; the detour over
 * void (*)(void) is the conversion that gcc accepts without a warning. */
#define AS_FUNCTION(name) (PyCFunction)(void (*)(void))(name)
#define FAST(name) AS_FUNCTION(name), METH_FASTCALL

/* ---- errors.c ---- */

/* The exceptions by status; Python's own until the package registers its. */
extern PyObject *fusion_error, *invalid_argument, *invalid_type, *unsupported;

PyObject *set_exceptions(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* Whether the library may be used here: not after fork. Else an exception is set. */
int alive(void);

/* Sets the exception that *error describes and clears it. Returns NULL. */
PyObject *raise_error(nvf_error *error);

/* Whether status is NVF_OK; else the exception is set. */
int check(int status, nvf_error *error);

/* Whether a function that takes from `least` to `most` arguments got that many. */
int check_count(const char *function, Py_ssize_t nargs, Py_ssize_t least, Py_ssize_t most);

/* ---- values.c ---- */

/* A fusion. wrappers[id] is the Python object of value id while one exists, so
 * that a value has one identity; the objects own the fusion, not the reverse. */
typedef struct {
  PyObject_HEAD
  nvf_fusion handle;
  PyObject **wrappers;
  uint32_t capacity;
  PyObject *weak_references;
} FusionObject;

/* A value, an expression or an axis of a fusion; also a tensor's domain, whose
 * id is the tensor's. */
typedef struct {
  PyObject_HEAD
  FusionObject *fusion;
  uint32_t id;
} PartObject;

extern PyTypeObject *fusion_type, *statement_type, *val_type, *scalar_type, *tensor_view_type, *expr_type, *iter_domain_type,
    *tensor_domain_type;

int add_fusion_type(PyObject *module);
int add_val_types(PyObject *module);
int add_part_types(PyObject *module);

/* Returns a new reference to the object of a value of fusion: NULL with an
 * exception on failure. An absent value gives None. */
PyObject *wrap_value(FusionObject *fusion, const nvf_value *value);
PyObject *wrap_part(PyTypeObject *type, FusionObject *fusion, uint32_t id);

/* A list of what nvfi_list gives: values, or parts of the given type. */
PyObject *list_of(FusionObject *fusion, int what, uint32_t id, PyTypeObject *type);
PyObject *text_of(FusionObject *fusion, int what, uint32_t id, const char *name);
int fact_of(FusionObject *fusion, int what, uint32_t id, int64_t *fact);

void part_dealloc(PyObject *self);
int is_val(PyObject *object);

/* ---- operators.c ---- */

/* The slots of Val. */
extern PyType_Slot operator_slots[];
extern const int num_operator_slots;
void find_operators(void);

/* ---- arguments.c ---- */

/* Arguments of a call as Go reads them, and what they keep alive. */
typedef struct {
  const char *function; /* for error texts */
  const char *noun;     /* what an argument is called there, before its number */
  int first;            /* the number of the first one */
  int names;            /* whether text is the name of a member of an enumeration */
  FusionObject *fusion; /* of the first value among the arguments, or NULL; owned */
  struct block *blocks; /* memory of lists and texts, and snapshots of lists */
} Arguments;

void arguments_begin(Arguments *a, const char *function);
void arguments_end(Arguments *a);

/* Converts object. position is from 0, for error texts. Returns 0, or -1 with an
 * exception. May run Python code. */
int convert(Arguments *a, PyObject *object, Py_ssize_t position, nvf_value *out);

/* Whether object is a bool, a number or a Val, which operators take. */
int is_operand(PyObject *object);

/* Advice for an object that is never an operand, or NULL: torch tensors, arrays. */
const char *foreign_advice(PyObject *object);

/* Whether object is of a type that no operator of its class could make one of:
 * text, None, lists, tensors, arrays. */
int is_never_operand(PyObject *object);

/* An int64 argument; bools are refused. */
int as_int64(PyObject *object, const char *function, const char *argument, int64_t *out);

PyObject *set_dtypes(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* The object that stands for a dtype: new reference. */
PyObject *dtype_member(int64_t dtype);
PyObject *torch_dtype(int64_t dtype); /* borrowed; NULL with an exception if there is none */
int dtype_of_torch(PyObject *torch_dtype); /* -1 if there is none */

/* ---- operations.c ---- */

int add_operations(PyObject *module);

/* Calls operation `op` on the operands' fusion. */
PyObject *call_operation(int32_t op, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *floor_divide(PyObject *x, PyObject *y);
const char *operation_name(int32_t op);

/* New reference to the innermost fusion of this thread, or NULL with an exception
 * that names the function. */
FusionObject *current_fusion(const char *function);

PyObject *push_fusion(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *pop_fusion(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* ---- schedule.c ---- */

PyObject *schedule_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *primitive_table(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *schedulers(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *make_graph(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *graph_mapped(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *graph_join(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *graph_release(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* ---- tensors.c ---- */

/* Inputs of a run as Go reads them. Sizes and strides are copies: while the lock
 * of the interpreter is released, another thread may change the tensors. */
typedef struct {
  nvf_input *inputs, few_inputs[16];
  PyObject **objects, *few_objects[16]; /* what was given; owned */
  int32_t count, held;
  PyObject *resolved; /* dict of tensors made in place of inputs, by position; owned, or NULL */
  int64_t extents[256];
  Py_ssize_t used;
  struct extents *more;
} Inputs;

/* Reads the items of list. Returns 1; 0 if one is neither a number nor a plain
 * tensor that can be read, with no exception; -1 with an exception. */
int inputs_read(Inputs *in, PyObject *list);
void inputs_end(Inputs *in);

/* Sets the exception that says which input cannot be read. */
void inputs_refuse(PyObject *list);

/* What is used of torch. */
typedef struct {
  PyTypeObject *tensor, *parameter;
  PyObject *empty_strided, *device, *uint8;
  PyObject *cpu, *cuda; /* types of devices, as str */
  PyObject *is_grad_enabled, *set_grad_enabled, *is_autocast_enabled, *set_autocast_enabled;
  /* Where torch has it, else NULL. */
  PyObject *reinterpret; /* a view by sizes, strides and an offset that nobody else knows of: 0.2 us, as_strided 1.2 */
  PyObject *increment_version, *empty_strided_cuda, *current_device, *current_stream, *device_count, *out_of_memory;
  int num_devices; /* of CUDA; -1 before it was asked for */
} Torch;
extern Torch torch;

/* Takes what is needed from torch, which is imported. */
int find_torch(void);

/* The type of devices as torch names it: borrowed. */
PyObject *torch_kind(int32_t device_type);

/* The attribute of module at a path of names. */
PyObject *lookup(PyObject *module, const char *path);

/* The memory of a tensor that torch has made, and the number of its device; 0 if it
 * is none that can be read, perhaps with an exception. */
int memory_of(PyObject *tensor, int32_t *device_index, void **memory);

/* The stream of a CUDA device that torch works on, on this thread. */
int current_stream(int32_t device_index, uintptr_t *stream);

/* Reads a tensor that torch has made, into memory of in. 1; 0 if it is none whose
 * memory can be read; -1 with an exception. */
int tensor_read(Inputs *in, PyObject *tensor, nvf_input *out);

/* ---- run.c: its type ---- */

/* A run of a plan. */
typedef struct {
  Inputs in;
  nvfi_plan *plan;
  PyObject *random;   /* what draw() returned, which has the memory of seed and offset in a capture, or NULL */
  PyObject **tensors; /* by memory: owned, or NULL */
  uint64_t *words;
  PyObject *few_tensors[16];
  uint64_t few_words[96];
  int32_t num_tensors, has_stream, may_have_written, modes;
  uintptr_t stream;
  uint64_t seed, offset;
} Run;

/* ---- outputs.c ---- */

/* Makes memory of a run: a new tensor and its address. NULL with an exception on
 * failure. */
PyObject *new_memory(nvfi_plan *plan, int32_t number, void **memory);

/* Makes the output of that number, which is a view: NULL with an exception on failure. */
PyObject *view_for(Run *run, int32_t output);

/* What new_call made for a call of torch: borrowed. NULL with an exception on failure. */
PyObject *kept_call(nvfi_plan *plan, int32_t call);

/* A new tuple of ints. */
PyObject *tuple_of(const int64_t *values, int32_t n);

/* How many CUDA devices torch has; -1 with an exception. */
int num_devices(void);

/* Frees what plans that are gone have left of Python's. */
void clean_plans(void);

/* Tells autograd that a tensor was written to. */
int mark_written(PyObject *tensor);

/* ---- run.c ---- */

void run_begin(Run *run); /* all but in */
void run_end(Run *run);

/* Runs the plan on the inputs that it was found for: a new list of outputs. */
PyObject *run_plan(Run *run);

/* Makes a tensor, whose reference is taken over, the memory of that number. */
void run_put(Run *run, int32_t memory, PyObject *tensor, void *address);

/* Waits for the end of a job. A signal ends one that is a run, and leaves others to
 * themselves. 0 with an exception on failure. */
int wait_for(nvfi_job job, int is_run);

/* ---- calls.c ---- */

/* Takes the hook that makes callables of calls of torch. */
void set_prepare_call(PyObject *hook);

/* What is kept of a call with its plan, for tensors on a device of torch. */
PyObject *new_call(const nvfi_plan *plan, int32_t number, PyObject *device);

/* The tensor of a memory, or of an input by the complement of its position. NULL with an
 * exception on failure. */
PyObject *tensor_of(Run *run, int32_t from);

/* Calls torch, and takes its results. 0 with an exception on failure. From the first
 * call of a run to calls_end, autograd and autocast are off on this thread. */
int call_torch(Run *run, int32_t number);
int calls_end(Run *run);

/* ---- execute.c ---- */

int add_executor_type(PyObject *module);
int is_executor(PyObject *object);

/* Executes: a new list of outputs. device is as for nvf_prepare. */
PyObject *run_executor(PyObject *executor, PyObject *inputs, int32_t device);

/* ---- definition.c ---- */

int add_definition_type(PyObject *module);

/* Around each run; it does not return in other threads once the interpreter ends. */
void run_enter(void);
void run_leave(void);

/* leave(): the interpreter is about to end. */
PyObject *leave_interpreter(PyObject *module, PyObject *none);

PyObject *set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *make_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *ask_scheduler(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *make_scheduled_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* ---- location.c ---- */

/* The line of Python that runs now. The text lives until the next call. */
void current_location(nvf_location *location);

#endif
