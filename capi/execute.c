/* The type Executor. */
#include "extension.h"

static PyTypeObject *executor_type;
static PyObject *prepare_hook, *seed_hook;

typedef struct {
  PyObject_HEAD
  nvf_executor handle;
  FusionObject *fusion;
  int is_large;
} ExecutorObject;

#define SELF ((ExecutorObject *)self)

/* Work below which a run holds the lock of the interpreter and stays on its
 * thread, in operations on elements: some 20 us, when releasing the lock and
 * waking another thread would cost as much again. */
enum { SMALL_WORK = 1 << 15, SLICE_MS = 50 };

/* Operations from which a fusion is large: making a plan takes 2 us for each, and
 * the lock of the interpreter is released meanwhile. */
enum { LARGE = 256 };

PyObject *set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  if (!check_count("set_hooks", nargs, 2, 2) || find_torch()) return NULL;
  PyObject *old_prepare = prepare_hook, *old_seed = seed_hook;
  Py_INCREF(args[0]);
  Py_INCREF(args[1]);
  prepare_hook = args[0];
  seed_hook = args[1];
  Py_XDECREF(old_prepare);
  Py_XDECREF(old_seed);
  Py_RETURN_NONE;
}

/* Takes over the handle, also on failure. */
static PyObject *new_executor(nvf_executor handle, FusionObject *fusion, int is_large) {
  ExecutorObject *self = PyObject_New(ExecutorObject, executor_type);
  if (!self) {
    nvf_executor_destroy(handle);
    return NULL;
  }
  Py_INCREF((PyObject *)fusion);
  self->handle = handle;
  self->fusion = fusion;
  self->is_large = is_large;
  return (PyObject *)self;
}

PyObject *make_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  nvf_executor handle;
  if (!alive() || !check_count("executor", nargs, 1, 2)) return NULL;
  long candidate = nargs == 2 && args[1] != Py_None ? PyLong_AsLong(args[1]) : -1;
  if (candidate == -1 && PyErr_Occurred()) return NULL;
  if (candidate < -1 || candidate > INT32_MAX) return PyErr_Format(PyExc_ValueError, "executor(): candidate is %ld; it is counted from 0", candidate);
  if (!PyObject_TypeCheck(args[0], fusion_type)) return PyErr_Format(PyExc_TypeError, "executor() takes a Fusion, got %R", args[0]);
  FusionObject *fusion = (FusionObject *)args[0];
  int64_t num_exprs;
  if (!fact_of(fusion, NVFI_NUM_EXPRS, 0, &num_exprs)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nvfi_freeze(fusion->handle, &error);
  if (status == NVF_OK) status = nvf_executor_create(fusion->handle, &handle, &error);
  Py_END_ALLOW_THREADS;
  if (!check(status, &error)) return NULL;
  if (candidate >= 0 && !check(nvf_executor_simulate(handle, (int32_t)candidate, &error), &error)) {
    nvf_executor_destroy(handle);
    return NULL;
  }
  return new_executor(handle, fusion, candidate >= 0 || num_exprs >= LARGE);
}

PyObject *make_scheduled_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  nvf_executor handle;
  int64_t launch[6];
  if (!alive() || !check_count("scheduled_executor", nargs, 7, 7)) return NULL;
  if (!PyObject_TypeCheck(args[0], fusion_type)) return PyErr_Format(PyExc_TypeError, "scheduled_executor() takes a Fusion, got %R", args[0]);
  static const char *const names[] = {"bdimx", "bdimy", "bdimz", "gdimx", "gdimy", "gdimz"};
  for (int i = 0; i < 6; i++)
    if (as_int64(args[i + 1], "LaunchParams", names[i], &launch[i])) return NULL;
  FusionObject *fusion = (FusionObject *)args[0];
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nvf_executor_create_scheduled(fusion->handle, launch, &handle, &error);
  Py_END_ALLOW_THREADS;
  return check(status, &error) ? new_executor(handle, fusion, 1) : NULL;
}

static void executor_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (!nvf_forked()) nvf_executor_destroy(SELF->handle);
  Py_DECREF((PyObject *)SELF->fusion);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- A run ---- */

/* What a run holds. */
typedef struct {
  Inputs in;
  nvf_plan plan;
  const nvf_plan_description *description;
  PyObject *outputs; /* list of tensors */
  void **memories, *few_memories[16];
  uint64_t seed;
} Run;

/* Has the package turn the inputs into plain tensors and numbers. Returns a new
 * reference to their list. */
static PyObject *prepared(PyObject *inputs, int *to_numpy) {
  if (!prepare_hook) {
    inputs_refuse(inputs);
    return NULL;
  }
  PyObject *pair = PyObject_CallFunctionObjArgs(prepare_hook, inputs, NULL);
  if (!pair) return NULL;
  PyObject *list = NULL;
  if (PyTuple_Check(pair) && PyTuple_Size(pair) == 2 && (*to_numpy = PyObject_IsTrue(PyTuple_GetItem(pair, 1))) >= 0) {
    list = PyTuple_GetItem(pair, 0);
    Py_INCREF(list);
  } else if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "prepare() must return a list and a bool, got %R", pair);
  Py_DECREF(pair);
  return list;
}

/* Reads the inputs into run->in, which needs inputs_end in any case. */
static int read_inputs(Run *run, PyObject *inputs, int *to_numpy) {
  int status = inputs_read(&run->in, inputs);
  if (status != 0) return status > 0;
  PyObject *plain = prepared(inputs, to_numpy);
  if (!plain) return 0;
  inputs_end(&run->in);
  status = inputs_read(&run->in, plain);
  if (status == 0) inputs_refuse(plain);
  Py_DECREF(plain);
  return status > 0;
}

static int find_plan(ExecutorObject *self, Run *run, int32_t device) {
  nvf_error error = {0};
  int status;
  PyThreadState *state = self->is_large ? PyEval_SaveThread() : NULL;
  status = nvf_prepare(self->handle, run->in.inputs, run->in.count, device, &run->plan, &run->description, &error);
  if (state) PyEval_RestoreThread(state);
  return check(status, &error);
}

/* Whether no output is written into an input that was read as a copy. */
static int check_written(const Run *run) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; run->in.resolved && PyDict_Next(run->in.resolved, &at, &key, &value);) {
    Py_ssize_t position = PyLong_AsSsize_t(key);
    if (!run->description->written[position]) continue;
    PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
                 "execute(): input %zd is a conjugate or negative view, and the fusion writes an output into it; pass x.resolve_conj().resolve_neg()",
                 position);
    return 0;
  }
  return 1;
}

static int allocate_outputs(Run *run) {
  int32_t n = run->description->num_outputs;
  if (n > (int32_t)(sizeof run->few_memories / sizeof *run->few_memories)) {
    run->memories = PyMem_Malloc((size_t)n * sizeof *run->memories);
    if (!run->memories) return PyErr_NoMemory(), 0;
  }
  run->outputs = PyList_New(n);
  for (int32_t i = 0; run->outputs && i < n; i++) {
    const nvf_output *output = &run->description->outputs[i];
    PyObject *tensor;
    run->memories[i] = NULL;
    if (output->same_as < 0) tensor = new_tensor(output, i, &run->memories[i]);
    else if ((tensor = PyList_GetItem(run->outputs, output->same_as))) Py_INCREF(tensor);
    if (!tensor || PyList_SetItem(run->outputs, i, tensor)) return 0;
  }
  return run->outputs != NULL;
}

static int draw_seed(Run *run) {
  if (!run->description->needs_seed) return 1;
  PyObject *number = seed_hook ? PyObject_CallNoArgs(seed_hook) : PyLong_FromLong(0);
  if (number) run->seed = PyLong_AsUnsignedLongLongMask(number);
  Py_XDECREF(number);
  return !PyErr_Occurred();
}

/* Runs on another thread and looks for signals meanwhile: an exception of a
 * signal handler, such as KeyboardInterrupt, ends the run. */
static int run_aside(Run *run) {
  nvf_error error = {0};
  nvfi_job job;
  PyObject *type = NULL, *value, *traceback;
  int status = nvfi_start(run->plan, run->in.inputs, run->in.count, run->memories, run->description->num_outputs, run->seed, &job, &error);
  if (!check(status, &error)) return 0;
  for (;;) {
    int ended;
    Py_BEGIN_ALLOW_THREADS;
    ended = nvfi_wait(job, SLICE_MS, &status, &error);
    Py_END_ALLOW_THREADS;
    if (ended) break;
    if (type || !PyErr_CheckSignals()) continue;
    PyErr_Fetch(&type, &value, &traceback);
    nvfi_stop(job);
  }
  if (!type) return check(status, &error);
  nvf_error_clear(&error);
  PyErr_Restore(type, value, traceback);
  return 0;
}

static int run_plan(Run *run) {
  nvf_error error = {0};
  if (run->description->work >= SMALL_WORK) return run_aside(run);
  return check(nvf_run(run->plan, run->in.inputs, run->in.count, run->memories, run->description->num_outputs, run->seed, &error), &error);
}

static int mark_inputs(Run *run) {
  for (int32_t i = 0; i < run->in.count; i++)
    if (run->description->written[i] && mark_written(PyTuple_GetItem(run->in.objects, i))) return 0;
  return 1;
}

static int to_arrays(PyObject *list) {
  for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
    PyObject *array = PyObject_CallMethod(PyList_GetItem(list, i), "numpy", NULL);
    if (!array || PyList_SetItem(list, i, array)) return 0;
  }
  return 1;
}

/* execute(inputs, device=-1) */
static PyObject *execute(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int64_t device = NVF_ANY_DEVICE;
  int to_numpy = 0, ok = 0;
  Run run; /* large, and not cleared */
  if (!alive() || !check_count("execute", nargs, 1, 2)) return NULL;
  if (nargs == 2 && as_int64(args[1], "execute", "device", &device)) return NULL;
  if (device < NVF_CPU_DEVICE || device > INT32_MAX) return PyErr_Format(PyExc_ValueError, "execute(): device is %lld", (long long)device);
  if (!PyList_Check(args[0]) && !PyTuple_Check(args[0]))
    return PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "execute(): inputs must be a list, got %R", args[0]);
  run.plan = 0;
  run.outputs = NULL;
  run.memories = run.few_memories;
  run.seed = 0;
  if (read_inputs(&run, args[0], &to_numpy) && find_plan(SELF, &run, (int32_t)device))
    ok = check_written(&run) && allocate_outputs(&run) && draw_seed(&run) && run_plan(&run) && mark_inputs(&run) &&
         (!to_numpy || to_arrays(run.outputs));
  if (run.plan) nvf_plan_release(run.plan);
  inputs_end(&run.in);
  if (run.memories != run.few_memories) PyMem_Free(run.memories);
  if (!ok) Py_CLEAR(run.outputs);
  return run.outputs;
}

/* Reads inputs, which may be None, and calls `ask` without the lock of the
 * interpreter: it may compile. Returns whether it went well. */
static int with_inputs(PyObject *self, PyObject *inputs, const char *function, int (*ask)(nvf_executor, const Inputs *, void *, nvf_error *), void *about) {
  nvf_error error = {0};
  int to_numpy = 0, ok = 0, status;
  Run run; /* large, and not cleared */
  Inputs none = {.count = -1};
  if (inputs != Py_None && !PyList_Check(inputs) && !PyTuple_Check(inputs)) {
    PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "%s(): inputs must be a list, got %R", function, inputs);
    return 0;
  }
  if (inputs == Py_None || read_inputs(&run, inputs, &to_numpy)) {
    Py_BEGIN_ALLOW_THREADS;
    status = ask(SELF->handle, inputs == Py_None ? &none : &run.in, about, &error);
    Py_END_ALLOW_THREADS;
    ok = check(status, &error);
  }
  if (inputs != Py_None) inputs_end(&run.in);
  return ok;
}

typedef struct {
  const char *request;
  char *text;
} Shown;

static int ask_text(nvf_executor executor, const Inputs *in, void *about, nvf_error *error) {
  Shown *shown = about;
  return nvfi_show(executor, in->inputs, in->count, shown->request, &shown->text, error);
}

static int ask_first(nvf_executor executor, const Inputs *in, void *about, nvf_error *error) {
  return nvfi_first_shown(executor, in->inputs, in->count, about, error);
}

/* show(inputs, request) */
static PyObject *executor_show(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  Shown shown = {0};
  if (!alive() || !check_count("show", nargs, 2, 2)) return NULL;
  if (!PyUnicode_Check(args[1])) return PyErr_Format(PyExc_TypeError, "show(): request must be a str, got %R", args[1]);
  if (!(shown.request = PyUnicode_AsUTF8AndSize(args[1], NULL)) || !with_inputs(self, args[0], "show", ask_text, &shown)) return NULL;
  PyObject *text = PyUnicode_FromString(shown.text);
  nvf_free(shown.text);
  return text;
}

/* first_shown(inputs) */
static PyObject *executor_first_shown(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int32_t first = 0;
  if (!alive() || !check_count("first_shown", nargs, 1, 1) || !with_inputs(self, args[0], "first_shown", ask_first, &first)) return NULL;
  return PyBool_FromLong(first);
}

/* prepare(inputs): makes the plan for inputs, or raises. */
static PyObject *prepare_plan(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int ignored = 0;
  Run run;
  if (!alive() || !check_count("prepare", nargs, 1, 1)) return NULL;
  if (!PyList_Check(args[0])) return PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "prepare(): inputs must be a list, got %R", args[0]);
  run.plan = 0;
  int ok = read_inputs(&run, args[0], &ignored) && find_plan(SELF, &run, NVF_ANY_DEVICE);
  if (run.plan) nvf_plan_release(run.plan);
  inputs_end(&run.in);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* ask_scheduler(fusion, request, name, inputs, params) */
PyObject *ask_scheduler(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  int64_t request;
  int to_numpy = 0, status, ok = 0;
  char *text = NULL;
  Run run; /* large, and not cleared */
  if (!alive() || !check_count("ask_scheduler", nargs, 5, 5) || as_int64(args[1], "ask_scheduler", "request", &request)) return NULL;
  if (!PyObject_TypeCheck(args[0], fusion_type) || !PyUnicode_Check(args[2]) || !PyList_Check(args[3]) || !PyUnicode_Check(args[4]))
    return PyErr_Format(PyExc_TypeError, "ask_scheduler() takes a Fusion, an int, a str, a list and a str");
  const char *name = PyUnicode_AsUTF8AndSize(args[2], NULL), *params = PyUnicode_AsUTF8AndSize(args[4], NULL);
  nvf_fusion fusion = ((FusionObject *)args[0])->handle;
  if (!name || !params) return NULL;
  if (read_inputs(&run, args[3], &to_numpy)) {
    Py_BEGIN_ALLOW_THREADS;
    status = nvfi_scheduler(fusion, (int32_t)request, name, params, run.in.inputs, run.in.count, &text, &error);
    Py_END_ALLOW_THREADS;
    ok = check(status, &error);
  }
  inputs_end(&run.in);
  PyObject *result = ok ? PyUnicode_FromString(text) : NULL;
  if (ok) nvf_free(text);
  return result;
}

static PyObject *executor_fusion(PyObject *self, void *closure) {
  (void)closure;
  Py_INCREF((PyObject *)SELF->fusion);
  return (PyObject *)SELF->fusion;
}

static PyMethodDef methods[] = {
    {"execute", FAST(execute),
     PyDoc_STR("execute(inputs, device=-1) -> list[torch.Tensor]\n\n"
               "Runs the fusion. device: the index of a CUDA device, -1 for the one of the inputs, -2 for the CPU.")},
    {"show", FAST(executor_show),
     PyDoc_STR("show(inputs, request) -> str\n\n"
               "A stage of the fusion for inputs like these, None: for the last ones that were executed. request is the name of a stage\n"
               "and its arguments, on lines of their own. Raises InvalidArgument, and Unsupported if there is no kernel.")},
    {"first_shown", FAST(executor_first_shown),
     PyDoc_STR("first_shown(inputs) -> bool\n\nWhether this is asked for the first time for inputs like these.")},
    {"prepare", FAST(prepare_plan), PyDoc_STR("prepare(inputs)\n\nMakes the plan for inputs of this description, or raises.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"fusion", executor_fusion, NULL, PyDoc_STR("The Fusion that is run."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int add_executor_type(PyObject *module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, executor_dealloc},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_tp_doc, (void *)PyDoc_STR("Runs a complete fusion.")},
      {0, NULL},
  };
  PyType_Spec spec = {.name = "nvfuser_go.Executor",
                      .basicsize = sizeof(ExecutorObject),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      .slots = slots};
  executor_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return executor_type ? PyModule_AddType(module, executor_type) : -1;
}
