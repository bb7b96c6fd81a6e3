/* The CPython extension module nvfuser_go._C. */
#include "extension.h"

static PyObject *version(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  if (nargs != 0) return PyErr_Format(PyExc_TypeError, "version() takes no arguments (%zd given)", nargs);
  return PyUnicode_FromString(nvf_version());
}

static PyObject *forked(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  if (nargs != 0) return PyErr_Format(PyExc_TypeError, "forked() takes no arguments (%zd given)", nargs);
  return PyBool_FromLong(nvf_forked());
}

static PyObject *op_table(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  if (nargs != 0) return PyErr_Format(PyExc_TypeError, "op_table() takes no arguments (%zd given)", nargs);
  return PyUnicode_FromString(nvf_op_table());
}

static PyObject *stages(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  if (nargs != 0) return PyErr_Format(PyExc_TypeError, "stages() takes no arguments (%zd given)", nargs);
  return PyUnicode_FromString(nvfi_stages());
}

static PyObject *cuda(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  nvf_error error = {0};
  char *text = NULL;
  int status;
  if (!alive() || !check_count("cuda", nargs, 0, 0)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = nvfi_cuda(&text, &error);
  Py_END_ALLOW_THREADS;
  if (!check(status, &error)) return NULL;
  PyObject *result = PyUnicode_FromString(text);
  nvf_free(text);
  return result;
}

static PyObject *calibrate(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  char *text = NULL;
  const char *to;
  long long device;
  int status;
  if (!alive() || !check_count("calibrate", nargs, 2, 2)) return NULL;
  device = PyLong_AsLongLong(args[0]);
  if (PyErr_Occurred()) return NULL;
  if (device < 0 || device > INT32_MAX) return PyErr_Format(PyExc_ValueError, "calibrate(): device is %lld", device);
  if (!PyUnicode_Check(args[1])) return PyErr_Format(PyExc_TypeError, "calibrate(): to must be a str, got %R", args[1]);
  if (!(to = PyUnicode_AsUTF8AndSize(args[1], NULL))) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = nvfi_calibrate((int32_t)device, to, &text, &error);
  Py_END_ALLOW_THREADS;
  PyObject *result = check(status, &error) ? PyUnicode_FromString(text) : NULL;
  nvf_free(text);
  return result;
}

static PyMethodDef functions[] = {
    {"version", FAST(version), PyDoc_STR("version() -> str\n\nThe version of the library, such as \"0.1.0\".")},
    {"forked", FAST(forked),
     PyDoc_STR("forked() -> bool\n\nWhether this process was forked after the library was loaded.")},
    {"op_table", FAST(op_table),
     PyDoc_STR("op_table() -> str\n\nThe table of operations as JSON; nvf_op_table in nvfuser_go.h describes the keys.")},
    {"stages", FAST(stages),
     PyDoc_STR("stages() -> str\n\n"
               "The stages that a fusion can be shown in: a line each, with fields between tabs: name, what it shows, its arguments,\n"
               "and 1 if it needs no inputs, else 0.")},
    {"cuda", FAST(cuda),
     PyDoc_STR("cuda() -> str\n\n"
               "What there is of CUDA: the driver, the compiler of kernels and the devices, or where they were looked for; a line each,\n"
               "what and value with a tab between. Starts the driver and makes no context.")},
    {"calibrate", FAST(calibrate),
     PyDoc_STR("calibrate(device, to) -> str\n\n"
               "Measures a CUDA device and writes what it found to a file, \"\": to where later processes look for it. Gives the path of the\n"
               "file, and on the lines after it what is in it.")},
    {"primitive_table", FAST(primitive_table),
     PyDoc_STR("primitive_table() -> str\n\nThe table of schedule primitives as JSON; nvf_primitive_table in nvfuser_go.h describes the keys.")},
    {"schedule", AS_FUNCTION(schedule_call), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("schedule(name, *args, **kwargs)\n\nCalls the schedule primitive called name on the fusion of the tensors among the arguments, or else on the\n"
               "current one. Members of enumerations are given by name, dicts as lists of pairs. Gives the new tensors, or the list of\n"
               "reasons why tensors could not follow, or None.")},
    {"set_exceptions", FAST(set_exceptions),
     PyDoc_STR("set_exceptions(FusionError, InvalidArgument, InvalidType, Unsupported)\n\n"
               "Registers the exceptions to raise. Unsupported is called with a second argument, a list of (by, rule, tensor, sentence).")},
    {"set_dtypes", FAST(set_dtypes),
     PyDoc_STR("set_dtypes(members, torch_dtypes)\n\n"
               "Registers the members of DataType by number, and the torch.dtype or None for each.")},
    {"leave", leave_interpreter, METH_NOARGS, PyDoc_STR("leave()\n\nWaits, for two seconds at most, for runs of other threads, which begin none any more.")},
    {"set_hooks", FAST(set_hooks),
     PyDoc_STR("set_hooks(prepare, draw, prepare_call)\n\n"
               "Registers what execute() calls. prepare(inputs[, aliased]) -> (list, to_numpy) is called once with all inputs when\n"
               "they are no list, or one is neither a number nor a plain tensor that can be read; it returns a list of those, and\n"
               "whether the outputs are to be numpy arrays, or raises naming the input. draw(device, draws) -> (int, int) gives seed and offset\n"
               "of a run that draws random numbers, and moves the offset of that device's generator by draws; -1 is the CPU. Where\n"
               "they are not known yet, it gives two tensors of one Int on the device that will hold them. prepare_call(spec, views,\n"
               "device) makes the callable of a call of torch; see nvfuser_go.torch_calls.\n"
               "Takes what else is needed from torch, which must be imported.")},
    {"executor", FAST(make_executor),
     PyDoc_STR("executor(fusion, candidate=None, aliased=None, serial=False, apart=False, exact=False) -> Executor\n\nCompletes the fusion and gives what runs it: simulated GPU kernels by one of\n"
               "the schedules that there are for them, counted around from 0, if candidate is given. Equal fusions share their\n"
               "programs. aliased is handed on to the hook prepare. With serial kernels are compiled one after another;\n"
               "with apart none starts before the one before it has ended, with exact no operation is approximated.")},
    {"schedulers", FAST(schedulers), PyDoc_STR("schedulers() -> list[str]\n\nThe names of the schedulers, in order of preference.")},
    {"ask_scheduler", FAST(ask_scheduler),
     PyDoc_STR("ask_scheduler(fusion, request, name, inputs, params) -> str\n\n"
               "request 0: why the scheduler refuses, a line for each reason; 1: the parameters it chooses, as JSON; 2: schedules the\n"
               "fusion by params, or by what it chooses if that is \"\"; 3: what torch would be called with for each expression, as JSON.")},
    {"graph", FAST(make_graph),
     PyDoc_STR("graph(fusion, mode) -> int\n\nA handle of the graph of mode of the axes as they are scheduled now; graph_release() ends it.")},
    {"graph_mapped", FAST(graph_mapped), PyDoc_STR("graph_mapped(graph, a, b) -> bool\n\nWhether two axes are mapped.")},
    {"graph_join", FAST(graph_join), PyDoc_STR("graph_join(graph, a, b)\n\nMaps two axes.")},
    {"graph_release", FAST(graph_release), PyDoc_STR("graph_release(graph)\n\nForgets a graph.")},
    {"scheduled_executor", FAST(make_scheduled_executor),
     PyDoc_STR("scheduled_executor(fusion, bdimx, bdimy, bdimz, gdimx, gdimy, gdimz, exact=False) -> Executor\n\n"
               "Completes the fusion and gives what runs it by its schedule as it is now, in the simulator. The numbers are what every\n"
               "launch must have; -1: any. With exact no operation is computed by an approximation.")},
    {"push_fusion", FAST(push_fusion),
     PyDoc_STR("push_fusion(fusion)\n\nMakes fusion the one that this thread's operations without operands of a fusion act on.")},
    {"pop_fusion", FAST(pop_fusion), PyDoc_STR("pop_fusion(fusion)\n\nUndoes the last push_fusion(fusion) of this thread.")},
    {NULL, NULL, 0, NULL},
};

/* A size of -1 says that the module has process-wide state: there is one Go
 * runtime, whatever the number of interpreters. */
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "nvfuser_go._C",
    .m_doc = PyDoc_STR("The compiled core of nvfuser_go. Use the package nvfuser_go instead."),
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__C(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  find_operators();
  if (add_fusion_type(module) || add_val_types(module) || add_part_types(module) || add_executor_type(module) || add_definition_type(module) || add_operations(module)) Py_CLEAR(module);
  return module;
}
