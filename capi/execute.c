/* The type Executor. */
#include "extension.h"

static PyTypeObject *executor_type;
static PyObject *prepare_hook, *draw_hook;

typedef struct {
  PyObject_HEAD
  nvf_executor handle;
  FusionObject *fusion;
  PyObject *aliased; /* what the hook for inputs is told: those that are written to, or NULL */
  int is_large;
  uint64_t last_use; /* counted over all executors; 0: none */
  nvfi_plan *recent; /* the plan that was found last, or NULL; owned */
  int32_t recent_device, recent_random;
} ExecutorObject;

#define SELF ((ExecutorObject *)self)

/* Operations from which a fusion is large: making a plan takes 2 us for each, and
 * the lock of the interpreter is released meanwhile. */
enum { LARGE = 256 };

PyObject *set_hooks(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  if (!check_count("set_hooks", nargs, 3, 3) || find_torch()) return NULL;
  PyObject *old_prepare = prepare_hook, *old_draw = draw_hook;
  Py_INCREF(args[0]);
  Py_INCREF(args[1]);
  prepare_hook = args[0];
  draw_hook = args[1];
  Py_XDECREF(old_prepare);
  Py_XDECREF(old_draw);
  set_prepare_call(args[2]);
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
  self->aliased = NULL;
  self->is_large = is_large;
  self->last_use = 0;
  self->recent = NULL;
  return (PyObject *)self;
}

PyObject *make_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  nvf_executor handle;
  if (!alive() || !check_count("executor", nargs, 1, 6)) return NULL;
  long candidate = nargs >= 2 && args[1] != Py_None ? PyLong_AsLong(args[1]) : -1;
  if (candidate == -1 && PyErr_Occurred()) return NULL;
  if (candidate < -1 || candidate > INT32_MAX) return PyErr_Format(PyExc_ValueError, "executor(): candidate is %ld; it is counted from 0", candidate);
  if (!PyObject_TypeCheck(args[0], fusion_type)) return PyErr_Format(PyExc_TypeError, "executor() takes a Fusion, got %R", args[0]);
  int serial = nargs >= 4 ? PyObject_IsTrue(args[3]) : 0, apart = nargs >= 5 ? PyObject_IsTrue(args[4]) : 0;
  int exact = nargs >= 6 ? PyObject_IsTrue(args[5]) : 0;
  if (serial < 0 || apart < 0 || exact < 0) return NULL;
  FusionObject *fusion = (FusionObject *)args[0];
  int64_t num_exprs;
  if (!fact_of(fusion, NVFI_NUM_EXPRS, 0, &num_exprs)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nvfi_freeze(fusion->handle, &error);
  if (status == NVF_OK) status = nvf_executor_create(fusion->handle, &handle, &error);
  Py_END_ALLOW_THREADS;
  if (!check(status, &error)) return NULL;
  if ((candidate >= 0 && !check(nvf_executor_simulate(handle, (int32_t)candidate, &error), &error)) ||
      !check(nvfi_plan_so(handle, serial, apart, exact, &error), &error)) {
    nvf_executor_destroy(handle);
    return NULL;
  }
  PyObject *self = new_executor(handle, fusion, candidate >= 0 || num_exprs >= LARGE);
  if (self && nargs >= 3) Py_INCREF(SELF->aliased = args[2]);
  return self;
}

PyObject *make_scheduled_executor(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  nvf_executor handle;
  int64_t launch[6];
  if (!alive() || !check_count("scheduled_executor", nargs, 7, 8)) return NULL;
  if (!PyObject_TypeCheck(args[0], fusion_type)) return PyErr_Format(PyExc_TypeError, "scheduled_executor() takes a Fusion, got %R", args[0]);
  static const char *const names[] = {"bdimx", "bdimy", "bdimz", "gdimx", "gdimy", "gdimz"};
  for (int i = 0; i < 6; i++)
    if (as_int64(args[i + 1], "LaunchParams", names[i], &launch[i])) return NULL;
  int exact = nargs == 8 ? PyObject_IsTrue(args[7]) : 0;
  if (exact < 0) return NULL;
  FusionObject *fusion = (FusionObject *)args[0];
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nvf_executor_create_scheduled(fusion->handle, launch, &handle, &error);
  Py_END_ALLOW_THREADS;
  if (!check(status, &error)) return NULL;
  if (exact && !check(nvfi_plan_so(handle, 0, 0, exact, &error), &error)) {
    nvf_executor_destroy(handle);
    return NULL;
  }
  return new_executor(handle, fusion, 1);
}

static void executor_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (!nvf_forked()) {
    if (SELF->recent) plan_release(SELF->recent);
    nvf_executor_destroy(SELF->handle);
    clean_plans();
  }
  Py_DECREF((PyObject *)SELF->fusion);
  Py_XDECREF(SELF->aliased);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- A run ---- */

/* Has the package turn the inputs into plain tensors and numbers. Returns a new
 * reference to their list. */
static PyObject *prepared(PyObject *inputs, PyObject *aliased, int *to_numpy) {
  if (!prepare_hook) {
    inputs_refuse(inputs);
    return NULL;
  }
  PyObject *pair = PyObject_CallFunctionObjArgs(prepare_hook, inputs, aliased, NULL);
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

/* Reads the inputs into run->in, which needs inputs_end in any case. aliased may be NULL. */
static int read_inputs(Run *run, PyObject *inputs, PyObject *aliased, int *to_numpy) {
  int status = inputs_read(&run->in, inputs);
  if (status != 0) return status > 0;
  PyObject *plain = prepared(inputs, aliased, to_numpy);
  if (!plain) return 0;
  inputs_end(&run->in);
  status = inputs_read(&run->in, plain);
  if (status == 0) inputs_refuse(plain);
  Py_DECREF(plain);
  return status > 0;
}

/* Whether making a plan is quick: a small one for the CPU. */
static int is_quick(const ExecutorObject *self, const Inputs *in, int32_t device) {
  int tensors = 0;
  if (self->is_large) return 0;
  for (int32_t i = 0; i < in->count; i++) {
    if (in->inputs[i].kind != NVF_KIND_TENSOR) continue;
    if (in->inputs[i].device_type != NVF_CPU) return 0;
    tensors++;
  }
  return tensors || device == NVF_CPU_DEVICE;
}

static int make_plan(ExecutorObject *self, Run *run, int32_t device, int32_t random) {
  nvf_error error = {0};
  nvfi_job job;
  const Inputs *in = &run->in;
  clean_plans();
  if (!is_quick(self, in, device)) {
    if (!check(nvfi_start_make(self->handle, in->inputs, in->count, device, random, &job, &error), &error) || !wait_for(job, 0)) return 0;
  }
  return check(nvfi_make(self->handle, in->inputs, in->count, device, random, &run->plan, &error), &error);
}

static int has_tensors(const Inputs *in) {
  for (int32_t i = 0; i < in->count; i++)
    if (in->inputs[i].kind == NVF_KIND_TENSOR) return 1;
  return 0;
}

/* random: whether seed and offset are addresses. */
static int find_plan(ExecutorObject *self, Run *run, int32_t device, int32_t random) {
  nvf_error error = {0};
  const Inputs *in = &run->in;
  /* The driver may have a device that torch does not know. */
  if (device == NVF_ANY_DEVICE && !has_tensors(in)) {
    int devices = num_devices();
    if (devices < 0) return 0;
    if (devices == 0) device = NVF_CPU_DEVICE;
  }
  if (self->recent && self->recent_device == device && self->recent_random == random && plan_agrees(self->recent, in->inputs, in->count)) {
    run->plan = self->recent;
    plan_hold(run->plan);
    return 1;
  }
  if (!check(nvfi_find(self->handle, in->inputs, in->count, device, random, &run->plan, &error), &error)) return 0;
  if (!run->plan && !make_plan(self, run, device, random)) return 0;
  nvfi_plan *old = self->recent;
  self->recent = run->plan;
  self->recent_device = device;
  self->recent_random = random;
  plan_hold(run->plan);
  if (old) plan_release(old);
  return 1;
}

/* Whether no output is written into an input that was read as a copy. */
static int check_written(const Run *run) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; run->in.resolved && PyDict_Next(run->in.resolved, &at, &key, &value);) {
    Py_ssize_t position = PyLong_AsSsize_t(key);
    if (!run->plan->description.written[position]) continue;
    PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
                 "execute(): input %zd is a conjugate or negative view, and the fusion writes an output into it; pass x.resolve_conj().resolve_neg()",
                 position);
    return 0;
  }
  return 1;
}

/* The address of item i of drawn, a tensor on the device of the plan; 0 with an exception if it is none. */
static uint64_t drawn_address(PyObject *drawn, Py_ssize_t i, int32_t device) {
  int32_t index;
  void *memory;
  if (memory_of(PyTuple_GetItem(drawn, i), &index, &memory) && index == device && memory) return (uintptr_t)memory;
  if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "draw() must return two ints, or two tensors on the device, got %R", drawn);
  return 0;
}

/* Takes seed and offset of the random generator, if the outputs depend on them. In
 * the capture of a CUDA graph they are numbers in memory, for which there is
 * another plan. */
static int draw(ExecutorObject *self, Run *run, int32_t device) {
  const nvf_plan_description *d = &run->plan->description;
  if (!d->needs_seed || !draw_hook) return 1;
  PyObject *drawn = PyObject_CallFunction(draw_hook, "iK", d->device_type == NVF_CUDA ? (int)d->device_index : -1, (unsigned long long)d->draws);
  if (!drawn) return 0;
  run->random = drawn;
  if (!PyTuple_Check(drawn) || PyTuple_Size(drawn) != 2) {
    PyErr_Format(PyExc_TypeError, "draw() must return a tuple of two, got %R", drawn);
    return 0;
  }
  if (PyLong_Check(PyTuple_GetItem(drawn, 0))) {
    run->seed = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(drawn, 0));
    run->offset = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(drawn, 1));
    return !PyErr_Occurred();
  }
  run->seed = drawn_address(drawn, 0, d->device_index);
  run->offset = run->seed ? drawn_address(drawn, 1, d->device_index) : 0;
  if (!run->offset) return 0;
  plan_release(run->plan);
  run->plan = NULL;
  return find_plan(self, run, device, 1);
}

/* Tells autograd of the inputs that were written to, also by a run that failed. */
static int mark_inputs(Run *run) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  for (int32_t i = 0; i < run->in.count; i++)
    if (run->plan->description.written[i] && mark_written(run->in.objects[i])) {
      if (!type) return 0;
      PyErr_Clear();
    }
  PyErr_Restore(type, value, traceback);
  return 1;
}

static int to_arrays(PyObject *list) {
  for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
    PyObject *array = PyObject_CallMethod(PyList_GetItem(list, i), "numpy", NULL);
    if (!array || PyList_SetItem(list, i, array)) return 0;
  }
  return 1;
}

PyObject *run_executor(PyObject *self, PyObject *inputs, int32_t device) {
  static uint64_t uses;
  int to_numpy = 0;
  PyObject *outputs = NULL;
  Run run; /* large, and not cleared */
  if (!alive() || PyErr_CheckSignals()) return NULL; /* see signals.c */
  run_enter();
  run_begin(&run);
  int found = read_inputs(&run, inputs, SELF->aliased, &to_numpy) && find_plan(SELF, &run, device, 0);
  if (found) SELF->last_use = ++uses; /* not before: another thread may ask meanwhile what was executed last */
  if (found && check_written(&run) && draw(SELF, &run, device)) {
    outputs = run_plan(&run);
    if (((outputs || run.may_have_written) && !mark_inputs(&run)) || (outputs && to_numpy && !to_arrays(outputs))) Py_CLEAR(outputs);
  }
  run_end(&run);
  run_leave();
  return outputs;
}

int is_executor(PyObject *object) { return PyObject_TypeCheck(object, executor_type); }

/* execute(inputs, device=-1) */
static PyObject *execute(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int64_t device = NVF_ANY_DEVICE;
  if (!check_count("execute", nargs, 1, 2) || (nargs == 2 && as_int64(args[1], "execute", "device", &device))) return NULL;
  if (device < NVF_CPU_DEVICE || device > INT32_MAX) return PyErr_Format(PyExc_ValueError, "execute(): device is %lld", (long long)device);
  return run_executor(self, args[0], (int32_t)device);
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
  if (inputs == Py_None || read_inputs(&run, inputs, NULL, &to_numpy)) {
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

typedef struct {
  int32_t measures;
  uint64_t stream;
  char *text;
} Explained;

static int ask_explained(nvf_executor executor, const Inputs *in, void *about, nvf_error *error) {
  Explained *explained = about;
  return nvfi_explain(executor, in->inputs, in->count, explained->measures, explained->stream, &explained->text, error);
}

static int ask_first(nvf_executor executor, const Inputs *in, void *about, nvf_error *error) {
  return nvfi_first_shown(executor, in->inputs, in->count, about, error);
}

static int ask_compiled(nvf_executor executor, const Inputs *in, void *about, nvf_error *error) {
  return nvfi_is_compiled(executor, in->inputs, in->count, about, error);
}

/* is_compiled(inputs) */
static PyObject *executor_is_compiled(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int32_t is = 0;
  if (!alive() || !check_count("is_compiled", nargs, 1, 1)) return NULL;
  if (!PyList_Check(args[0]))
    return PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "is_compiled(): inputs must be a list, got %R", args[0]);
  return with_inputs(self, args[0], "is_compiled", ask_compiled, &is) ? PyBool_FromLong(is) : NULL;
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

/* explain(inputs, stream) */
static PyObject *executor_explain(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  Explained explained = {0};
  if (!alive() || !check_count("explain", nargs, 2, 2)) return NULL;
  if (!PyList_Check(args[0])) return PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "explain(): inputs must be a list, got %R", args[0]);
  if (args[1] != Py_None) {
    explained.measures = 1;
    explained.stream = PyLong_AsUnsignedLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
  }
  if (!with_inputs(self, args[0], "explain", ask_explained, &explained)) return NULL;
  PyObject *text = PyUnicode_FromString(explained.text);
  nvf_free(explained.text);
  return text;
}

/* first_shown(inputs) */
static PyObject *executor_first_shown(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int32_t first = 0;
  if (!alive() || !check_count("first_shown", nargs, 1, 1) || !with_inputs(self, args[0], "first_shown", ask_first, &first)) return NULL;
  return PyBool_FromLong(first);
}

/* Makes or finds the plan for inputs: 1, 0 if there is none and none is made, or -1
 * with an exception. */
static int with_plan(PyObject *self, const char *function, PyObject *const *args, Py_ssize_t nargs, int make) {
  nvf_error error = {0};
  int ignored = 0, status = -1;
  int32_t has = 0;
  Run run; /* large, and not cleared */
  if (!alive() || !check_count(function, nargs, 1, 1)) return -1;
  if (!PyList_Check(args[0])) {
    PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError, "%s(): inputs must be a list, got %R", function, args[0]);
    return -1;
  }
  run_begin(&run);
  if (read_inputs(&run, args[0], NULL, &ignored)) {
    if (make) status = find_plan(SELF, &run, NVF_ANY_DEVICE, 0) ? 1 : -1;
    else if (check(nvfi_has_plan(SELF->handle, run.in.inputs, run.in.count, NVF_ANY_DEVICE, &has, &error), &error)) status = has;
  }
  run_end(&run);
  return status;
}

static PyObject *prepare_plan(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (with_plan(self, "prepare", args, nargs, 1) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject *has_plan(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int has = with_plan(self, "has_plan", args, nargs, 0);
  return has < 0 ? NULL : PyBool_FromLong(has);
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
  if (read_inputs(&run, args[3], NULL, &to_numpy)) {
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
    {"explain", FAST(executor_explain),
     PyDoc_STR("explain(inputs, stream) -> str\n\n"
               "Who computes what for inputs like these, as JSON. If stream is not None, kernels of a CUDA device are timed on copies of the\n"
               "inputs, after what the stream was given.")},
    {"first_shown", FAST(executor_first_shown),
     PyDoc_STR("first_shown(inputs) -> bool\n\nWhether this is asked for the first time for inputs like these.")},
    {"prepare", FAST(prepare_plan), PyDoc_STR("prepare(inputs)\n\nMakes the plan for inputs of this description, or raises.")},
    {"is_compiled", FAST(executor_is_compiled),
     PyDoc_STR("is_compiled(inputs) -> bool\n\n"
               "Whether a call with inputs of this description compiles nothing. Raises what execute() raises for inputs that do not fit.")},
    {"has_plan", FAST(has_plan), PyDoc_STR("has_plan(inputs) -> bool\n\nWhether this executor holds the plan for inputs of this description.")},
    {NULL, NULL, 0, NULL},
};

static PyObject *executor_last_use(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(SELF->last_use);
}

static PyGetSetDef attributes[] = {
    {"last_use", executor_last_use, NULL, PyDoc_STR("The number of the last execute(), counted over all executors; 0 if there was none."), NULL},
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
