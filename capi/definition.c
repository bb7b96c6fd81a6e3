/* The type Definition, the base of the package's FusionDefinition: its execute() is
 * on the way of every call, and takes the usual one without running Python. */
#include "extension.h"

typedef struct {
  PyObject_HEAD
  PyObject *cache;    /* the attribute fec, or NULL */
  PyObject *executor; /* what execute(inputs) calls without more ado, or NULL */
} DefinitionObject;

#define SELF ((DefinitionObject *)self)

static int is_empty(PyObject *list) {
  return (PyList_CheckExact(list) && PyList_Size(list) == 0) || (PyTuple_CheckExact(list) && PyTuple_Size(list) == 0);
}

/* Whether a keyword asks for no more than the executor does: a default, or the
 * number of a device. */
static int is_plain(PyObject *name, PyObject *value, int32_t *device) {
  if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
    int overflow;
    long long number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : -1;
    if (number >= 0 && number < 256) *device = (int32_t)number;
    return value == Py_None || *device >= 0;
  }
  if (PyUnicode_CompareWithASCIIString(name, "save_repro_inputs") == 0) return value == Py_False;
  return is_empty(value) &&
         (PyUnicode_CompareWithASCIIString(name, "_enable_options") == 0 || PyUnicode_CompareWithASCIIString(name, "_disable_options") == 0);
}

static int are_plain(PyObject *names, PyObject *const *values, int32_t *device) {
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++)
    if (!is_plain(PyTuple_GetItem(names, i), values[i], device)) return 0;
  return 1;
}

static PyObject *definition_execute(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  int32_t device = NVF_ANY_DEVICE;
  if (SELF->executor && nargs == 1 && are_plain(names, args + 1, &device)) {
    PyObject *executor = SELF->executor; /* another thread may set another one */
    Py_INCREF(executor);
    PyObject *outputs = run_executor(executor, args[0], device);
    Py_DECREF(executor);
    return outputs;
  }
  PyObject *execute = PyObject_GetAttrString(self, "_execute"), *positional = execute ? PyTuple_New(nargs) : NULL;
  PyObject *keywords = positional && names ? PyDict_New() : NULL, *outputs = NULL;
  int ok = positional && (keywords || !names);
  for (Py_ssize_t i = 0; ok && i < nargs; i++) {
    Py_INCREF(args[i]);
    ok = !PyTuple_SetItem(positional, i, args[i]);
  }
  for (Py_ssize_t i = 0; ok && names && i < PyTuple_Size(names); i++) ok = !PyDict_SetItem(keywords, PyTuple_GetItem(names, i), args[nargs + i]);
  if (ok) outputs = PyObject_Call(execute, positional, keywords);
  Py_XDECREF(keywords);
  Py_XDECREF(positional);
  Py_XDECREF(execute);
  return outputs;
}

static PyObject *get_cache(PyObject *self, void *closure) {
  (void)closure;
  if (!SELF->cache) return PyErr_Format(PyExc_AttributeError, "the fusion has no attribute 'fec' before it is executed");
  Py_INCREF(SELF->cache);
  return SELF->cache;
}

static int set_cache(PyObject *self, PyObject *value, void *closure) {
  (void)closure;
  PyObject *old = SELF->cache, *executor = SELF->executor;
  Py_XINCREF(value);
  SELF->cache = value;
  SELF->executor = NULL;
  Py_XDECREF(old);
  Py_XDECREF(executor);
  return 0;
}

static PyObject *use_executor(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (!check_count("_use", nargs, 1, 1)) return NULL;
  if (!is_executor(args[0])) return PyErr_Format(PyExc_TypeError, "_use() takes an Executor, got %R", args[0]);
  PyObject *old = SELF->executor;
  Py_INCREF(args[0]);
  SELF->executor = args[0];
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

static int definition_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(SELF->cache);
  return 0;
}

static int definition_clear(PyObject *self) {
  Py_CLEAR(SELF->cache);
  Py_CLEAR(SELF->executor);
  return 0;
}

static void definition_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  definition_clear(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"execute", AS_FUNCTION(definition_execute), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("execute($self, inputs, *, device=None, save_repro_inputs=False, _enable_options=(), _disable_options=())\n--\n\n"
               "Runs the fusion and returns its outputs as tensors.\n"
               "\n"
               "inputs: a tensor or number for each input, in order of definition; nested lists are flattened. Tensors are torch\n"
               "tensors, numpy arrays or objects with __dlpack__. If all tensors are numpy arrays, the outputs are too.\n"
               "An output that is an input, or a view of one or of another output, shares its memory; ops.set() makes a copy.\n"
               "device: where to run; tensors must be there. save_repro_inputs: remember the description of the inputs for\n"
               "last_repro_script(). _enable_options and _disable_options: names as in NVFUSER_ENABLE and NVFUSER_DISABLE, for\n"
               "this call; \"simulate\" schedules and lowers GPU kernels and runs them on CPU tensors in a simulator, ten to a\n"
               "thousand times slower, which reports what a GPU would leave undefined. \"simulate(K)\" takes schedule number K of\n"
               "those that there are for a kernel, counted around; 0, the default, should be the fastest.\n"
               "\n"
               "Raises MissingDefinition without a definition, InvalidType or InvalidArgument for inputs that do not fit it,\n"
               "Unsupported if this build cannot run it.")},
    {"_use", FAST(use_executor), PyDoc_STR("_use(executor)\n\nLets execute(inputs) call executor.execute(inputs), until fec is set.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"fec", get_cache, set_cache, PyDoc_STR("The FusionExecutorCache, once there is one."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int add_definition_type(PyObject *module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, definition_dealloc},
      {Py_tp_traverse, definition_traverse},
      {Py_tp_clear, definition_clear},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_tp_doc, (void *)PyDoc_STR("The base of FusionDefinition.")},
      {0, NULL},
  };
  PyType_Spec spec = {.name = "nvfuser_go._C.Definition",
                      .basicsize = sizeof(DefinitionObject),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                      .slots = slots};
  PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
  return type ? PyModule_AddType(module, type) : -1;
}
