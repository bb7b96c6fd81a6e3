/* The type Fusion. */
#include "extension.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

PyTypeObject *fusion_type;

#define SELF ((FusionObject *)self)
#define IGNORED PyObject *Py_UNUSED(ignored)

static PyObject *type_error(void) { return invalid_type ? invalid_type : PyExc_TypeError; }

/* Takes over the fusion of handle. */
static PyObject *new_fusion(PyTypeObject *type, nvf_fusion handle) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  PyObject *self = allocate(type, 0);
  if (self) SELF->handle = handle;
  else nvf_fusion_destroy(handle);
  return self;
}

static PyObject *fusion_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  nvf_error error = {0};
  nvf_fusion handle;
  if (PyTuple_Size(args) > 0 || (keywords && PyDict_Size(keywords) > 0)) {
    PyErr_SetString(PyExc_TypeError, "Fusion() takes no arguments");
    return NULL;
  }
  if (!alive() || !check(nvf_fusion_create(&handle, &error), &error)) return NULL;
  return new_fusion(type, handle);
}

static void fusion_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (SELF->weak_references) PyObject_ClearWeakRefs(self);
  if (!nvf_forked()) nvf_fusion_destroy(SELF->handle);
  PyMem_Free(SELF->wrappers);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

/* ---- Definition ---- */

/* The items of a list or tuple as a new tuple. */
static PyObject *items_of(PyObject *object, const char *argument) {
  if (PyList_Check(object) || PyTuple_Check(object)) return PySequence_Tuple(object);
  PyErr_Format(type_error(), "define_tensor(): %s must be a list, got %R", argument, object);
  return NULL;
}

/* Reads a list of ints into memory to be freed, and its length. */
static int64_t *read_ints(PyObject *object, const char *argument, Py_ssize_t *count) {
  PyObject *items = items_of(object, argument);
  if (!items) return NULL;
  *count = PyTuple_Size(items);
  int64_t *ints = PyMem_Calloc((size_t)*count + 1, sizeof *ints);
  if (!ints) PyErr_NoMemory();
  for (Py_ssize_t i = 0; ints && i < *count; i++) {
    char name[60];
    PyOS_snprintf(name, sizeof name, "%s[%zd]", argument, i);
    if (as_int64(PyTuple_GetItem(items, i), "define_tensor", name, &ints[i])) {
      PyMem_Free(ints);
      ints = NULL;
    }
  }
  Py_DECREF(items);
  return ints;
}

static int8_t *read_contiguity(PyObject *object, Py_ssize_t *count) {
  PyObject *items = items_of(object, "contiguity");
  if (!items) return NULL;
  *count = PyTuple_Size(items);
  int8_t *flags = PyMem_Calloc((size_t)*count + 1, 1);
  if (!flags) PyErr_NoMemory();
  for (Py_ssize_t i = 0; flags && i < *count; i++) {
    PyObject *item = PyTuple_GetItem(items, i);
    if (item == Py_None || PyBool_Check(item)) {
      flags[i] = item == Py_None ? -1 : item == Py_True;
      continue;
    }
    PyErr_Format(type_error(), "define_tensor(): contiguity[%zd] must be True, False or None, got %R", i, item);
    PyMem_Free(flags);
    flags = NULL;
  }
  Py_DECREF(items);
  return flags;
}

static PyObject *define(FusionObject *self, int64_t dtype, Py_ssize_t rank, const int64_t *shape, Py_ssize_t num_contiguity,
                        const int8_t *contiguity, Py_ssize_t num_order, const int64_t *order, int is_cpu) {
  if (num_contiguity != rank)
    return PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
                        "Length of contiguity argument (%zd) must match that of shape argument (%zd)", num_contiguity, rank);
  if (order && num_order != rank)
    return PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
                        "define_tensor(): length of stride_order (%zd) must match that of shape (%zd)", num_order, rank);
  nvf_tensor type = {
      .dtype = dtype < 0 || dtype > 255 ? 255 : (int32_t)dtype,
      .rank = rank > INT32_MAX ? INT32_MAX : (int32_t)rank,
      .shape = shape,
      .contiguity = contiguity,
      .stride_order = order,
      .is_cpu = is_cpu,
  };
  nvf_error error = {0};
  nvf_value tensor;
  return check(nvf_define_tensor(self->handle, &type, &tensor, &error), &error) ? wrap_value(self, &tensor) : NULL;
}

static PyObject *fusion_define_tensor(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  Py_ssize_t rank = 0, num_contiguity = 0, num_order = 0;
  int64_t dtype;
  if (!alive() || !check_count("define_tensor", nargs, 5, 5) || as_int64(args[2], "define_tensor", "dtype", &dtype)) return NULL;
  int is_cpu = PyObject_IsTrue(args[3]);
  if (is_cpu < 0) return NULL;
  PyObject *result = NULL;
  int64_t *order = NULL, *shape = read_ints(args[0], "shape", &rank);
  int8_t *contiguity = shape ? read_contiguity(args[1], &num_contiguity) : NULL;
  if (contiguity && args[4] != Py_None) order = read_ints(args[4], "stride_order", &num_order);
  if (contiguity && !PyErr_Occurred())
    result = define(SELF, dtype, rank, shape, num_contiguity, contiguity, num_order, order, is_cpu);
  PyMem_Free(shape);
  PyMem_Free(contiguity);
  PyMem_Free(order);
  return result;
}

static PyObject *fusion_define_scalar(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  nvf_error error = {0};
  nvf_value scalar;
  int64_t dtype;
  if (!alive() || !check_count("define_scalar", nargs, 1, 1) || as_int64(args[0], "define_scalar", "dtype", &dtype)) return NULL;
  if (dtype < 0 || dtype > 255) dtype = 255;
  return check(nvf_define_scalar(SELF->handle, (int32_t)dtype, &scalar, &error), &error) ? wrap_value(SELF, &scalar) : NULL;
}

static PyObject *fusion_constant(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  nvf_error error = {0};
  nvf_value number, scalar;
  int64_t dtype;
  if (!alive() || !check_count("constant", nargs, 1, 2)) return NULL;
  if (nargs < 2) dtype = 0;
  else if (as_int64(args[1], "constant", "dtype", &dtype)) return NULL;
  if (dtype == -1) dtype = 0;
  if (dtype < 0 || dtype > 255) dtype = 255;
  Arguments a;
  arguments_begin(&a, "define_scalar");
  PyObject *result = NULL;
  if (!convert(&a, args[0], 0, &number) &&
      check(nvf_define_constant(SELF->handle, &number, (int32_t)dtype, &scalar, &error), &error))
    result = wrap_value(SELF, &scalar);
  arguments_end(&a);
  return result;
}

static PyObject *fusion_add_output(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  nvf_error error = {0};
  nvf_value output, alias;
  if (!alive() || !check_count("add_output", nargs, 1, 2)) return NULL;
  int has_alias = nargs == 2 && args[1] != Py_None, ok = 0;
  Arguments a;
  arguments_begin(&a, "add_output");
  if (!convert(&a, args[0], 0, &output) && (!has_alias || !convert(&a, args[1], 1, &alias)))
    ok = check(nvf_add_output(SELF->handle, &output, has_alias ? &alias : NULL, &error), &error);
  arguments_end(&a);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

/* ---- Contents ---- */

static PyObject *fusion_inputs(PyObject *self, IGNORED) { return list_of(SELF, NVFI_INPUTS, 0, NULL); }
static PyObject *fusion_vals(PyObject *self, IGNORED) { return list_of(SELF, NVFI_VALS, 0, NULL); }
static PyObject *fusion_exprs(PyObject *self, IGNORED) { return list_of(SELF, NVFI_EXPRS, 0, expr_type); }

static PyObject *fusion_outputs(PyObject *self, IGNORED) {
  PyObject *flat = list_of(SELF, NVFI_OUTPUTS, 0, NULL);
  if (!flat) return NULL;
  Py_ssize_t n = PyList_Size(flat) / 2;
  PyObject *pairs = PyList_New(n);
  for (Py_ssize_t i = 0; pairs && i < n; i++) {
    PyObject *pair = PyTuple_Pack(2, PyList_GetItem(flat, 2 * i), PyList_GetItem(flat, 2 * i + 1));
    if (!pair || PyList_SetItem(pairs, i, pair)) Py_CLEAR(pairs);
  }
  Py_DECREF(flat);
  return pairs;
}

/* A text about all of the fusion. */
static PyObject *whole_text(PyObject *self, int (*get)(nvf_fusion, char **, nvf_error *)) {
  nvf_error error = {0};
  char *text;
  if (!alive() || !check(get(SELF->handle, &text, &error), &error)) return NULL;
  PyObject *result = PyUnicode_FromString(text);
  nvf_free(text);
  return result;
}

static PyObject *fusion_text(PyObject *self, IGNORED) { return whole_text(self, nvf_fusion_text); }
static PyObject *fusion_script(PyObject *self, IGNORED) { return whole_text(self, nvf_schedule_script); }
static PyObject *fusion_reproducer(PyObject *self, IGNORED) { return text_of(SELF, NVFI_REPRODUCER, 0, NULL); }
static PyObject *fusion_schedule_text(PyObject *self, IGNORED) { return whole_text(self, nvf_schedule_text); }

static PyObject *fusion_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (!check_count("python", nargs, 1, 1)) return NULL;
  if (!PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "python(): name must be a str, got %R", args[0]);
  const char *name = PyUnicode_AsUTF8AndSize(args[0], NULL);
  return name ? text_of(SELF, NVFI_PYTHON, 0, name) : NULL;
}

static PyObject *fusion_math(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (!check_count("math", nargs, 1, 1)) return NULL;
  int from_outputs_only = PyObject_IsTrue(args[0]);
  return from_outputs_only < 0 ? NULL : text_of(SELF, NVFI_MATH, (uint32_t)from_outputs_only, NULL);
}

static PyObject *fusion_stage(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  if (!check_count("stage", nargs, 1, 1)) return NULL;
  if (!PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "stage(): name must be a str, got %R", args[0]);
  const char *name = PyUnicode_AsUTF8AndSize(args[0], NULL);
  return name ? text_of(SELF, NVFI_STAGE, 0, name) : NULL;
}

static PyObject *fusion_kernel(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  int64_t index_type;
  if (!check_count("kernel", nargs, 1, 1) || as_int64(args[0], "kernel", "index_type", &index_type)) return NULL;
  return text_of(SELF, NVFI_KERNEL, (uint32_t)index_type, NULL);
}

static PyObject *none_if(int ok) {
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

static PyObject *fusion_freeze(PyObject *self, IGNORED) {
  nvf_error error = {0};
  return none_if(alive() && check(nvfi_freeze(SELF->handle, &error), &error));
}

static PyObject *fusion_verify(PyObject *self, IGNORED) {
  nvf_error error = {0};
  return none_if(alive() && check(nvfi_verify(SELF->handle, &error), &error));
}

static PyObject *fusion_index_checks(PyObject *self, IGNORED) {
  nvf_error error = {0};
  nvf_fusion handle;
  char *text;
  if (!alive() || !check(nvfi_index_checks(SELF->handle, &handle, &text, &error), &error)) return NULL;
  PyObject *checked = new_fusion(fusion_type, handle), *pair = checked ? Py_BuildValue("Ns", checked, text) : NULL;
  nvf_free(text);
  return pair;
}

static PyObject *fusion_provoke(PyObject *self, IGNORED) {
  nvf_error error = {0};
  return none_if(alive() && check(nvfi_provoke(SELF->handle, &error), &error));
}

static PyObject *fusion_run_script(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  nvf_error error = {0};
  Py_ssize_t length;
  if (!alive() || !check_count("run_script", nargs, 1, 1)) return NULL;
  if (!PyUnicode_Check(args[0])) return PyErr_Format(type_error(), "run_script(): script must be a str, got %R", args[0]);
  const char *script = PyUnicode_AsUTF8AndSize(args[0], &length);
  return script ? none_if(check(nvf_schedule_run(SELF->handle, script, length, &error), &error)) : NULL;
}

static PyObject *fusion_frozen(PyObject *self, void *closure) {
  (void)closure;
  int64_t frozen;
  return fact_of(SELF, NVFI_FROZEN, 0, &frozen) ? PyBool_FromLong(frozen != 0) : NULL;
}

static PyObject *fusion_parse(PyObject *class, PyObject *const *args, Py_ssize_t nargs) {
  nvf_error error = {0};
  nvf_fusion handle;
  Py_ssize_t length;
  if (!alive() || !check_count("parse", nargs, 1, 1)) return NULL;
  if (!PyUnicode_Check(args[0])) return PyErr_Format(type_error(), "parse(): text must be a str, got %R", args[0]);
  const char *text = PyUnicode_AsUTF8AndSize(args[0], &length);
  if (!text || !check(nvf_fusion_parse(text, length, &handle, &error), &error)) return NULL;
  return new_fusion((PyTypeObject *)class, handle);
}

/* Equal text: the same program. */
static PyObject *fusion_compare(PyObject *self, PyObject *other, int op) {
  if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(other, fusion_type)) Py_RETURN_NOTIMPLEMENTED;
  if (self == other) return PyBool_FromLong(op == Py_EQ);
  PyObject *x = fusion_text(self, NULL), *y = x ? fusion_text(other, NULL) : NULL;
  PyObject *result = y ? PyObject_RichCompare(x, y, op) : NULL;
  Py_XDECREF(x);
  Py_XDECREF(y);
  return result;
}

/* Of the text, as equality is; of a frozen fusion only, whose text stays. */
static Py_hash_t fusion_hash(PyObject *self) {
  int64_t frozen;
  if (!fact_of(SELF, NVFI_FROZEN, 0, &frozen)) return -1;
  if (!frozen) {
    PyErr_SetString(type_error(), "a Fusion has a hash when it is complete: it is still being defined");
    return -1;
  }
  PyObject *text = fusion_text(self, NULL);
  if (!text) return -1;
  Py_hash_t hash = PyObject_Hash(text);
  Py_DECREF(text);
  return hash;
}

static PyMethodDef methods[] = {
    {"define_tensor", FAST(fusion_define_tensor),
     PyDoc_STR("define_tensor(shape, contiguity, dtype, is_cpu, stride_order) -> TensorView\n\n"
               "Adds an input tensor. contiguity is a list in memory order; dtype the number of a DataType;\n"
               "stride_order a list or None for row-major.")},
    {"define_scalar", FAST(fusion_define_scalar),
     PyDoc_STR("define_scalar(dtype) -> Scalar\n\nAdds an input scalar. dtype is the number of a DataType.")},
    {"constant", FAST(fusion_constant),
     PyDoc_STR("constant(value, dtype=-1) -> Scalar\n\nA number as a scalar of the DataType of that number; -1: of its Python type.")},
    {"add_output", FAST(fusion_add_output),
     PyDoc_STR("add_output(output, alias_input=None)\n\nMakes a tensor a result, written into the memory of alias_input if there is one.")},
    {"inputs", fusion_inputs, METH_NOARGS, PyDoc_STR("inputs() -> list[Val]\n\nThe inputs in order.")},
    {"outputs", fusion_outputs, METH_NOARGS,
     PyDoc_STR("outputs() -> list[tuple[TensorView, TensorView | None]]\n\nThe outputs in order, each with the input that it is written into.")},
    {"vals", fusion_vals, METH_NOARGS, PyDoc_STR("vals() -> list[Val]\n\nAll values in order of definition.")},
    {"exprs", fusion_exprs, METH_NOARGS,
     PyDoc_STR("exprs() -> list[Expr]\n\nThe operations that the outputs need, each after those that it reads.")},
    {"text", fusion_text, METH_NOARGS,
     PyDoc_STR("text() -> str\n\nThe text form, which parse() reads; equal for fusions of the same operations.")},
    {"python", FAST(fusion_python), PyDoc_STR("python(name) -> str\n\nThe fusion as the source of a Python function.")},
    {"math", FAST(fusion_math), PyDoc_STR("math(from_outputs_only) -> str\n\nThe fusion as a list of equations.")},
    {"stage", FAST(fusion_stage), PyDoc_STR("stage(name) -> str\n\nThe fusion as a stage shows it that needs no inputs.")},
    {"kernel", FAST(fusion_kernel),
     PyDoc_STR("kernel(index_type) -> str\n\nThe CUDA kernel of the fusion; index_type is the number of a DataType, that of Null to choose it.")},
    {"script", fusion_script, METH_NOARGS, PyDoc_STR("script() -> str\n\nThe calls of schedule primitives made so far, one a line.")},
    {"reproducer", fusion_reproducer, METH_NOARGS,
     PyDoc_STR("reproducer() -> str\n\nThe script with the names that tensors have when the fusion is defined again from its text or source.")},
    {"run_script", FAST(fusion_run_script),
     PyDoc_STR("run_script(script)\n\nMakes the calls of a script, all or none. Raises what they raise, with the line.")},
    {"schedule_text", fusion_schedule_text, METH_NOARGS,
     PyDoc_STR("schedule_text() -> str\n\nLoops, memory and position of each tensor as they are scheduled now.")},
    {"freeze", fusion_freeze, METH_NOARGS, PyDoc_STR("freeze()\n\nEnds the definition.")},
    {"index_checks", fusion_index_checks, METH_NOARGS,
     PyDoc_STR("index_checks() -> tuple[Fusion, str]\n\n"
               "The fusion with three more outputs for each operation that a tensor tells positions: the smallest and the largest,\n"
               "and the size of the dimension; and a line of text for each of those operations, whose fields tabs separate.")},
    {"verify", fusion_verify, METH_NOARGS, PyDoc_STR("verify()\n\nRaises FusionError if the fusion breaks an invariant.")},
    {"parse", FAST(fusion_parse) | METH_CLASS,
     PyDoc_STR("parse(text) -> Fusion\n\nThe fusion of a text form. Raises InvalidArgument naming the line.")},
    {"_provoke", fusion_provoke, METH_NOARGS, PyDoc_STR("_provoke()\n\nFails inside Go, to test what happens then.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"frozen", fusion_frozen, NULL, PyDoc_STR("Whether the definition has ended."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FusionObject, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

int add_fusion_type(PyObject *module) {
  PyType_Slot slots[] = {
      {Py_tp_new, fusion_new},
      {Py_tp_dealloc, fusion_dealloc},
      {Py_tp_richcompare, fusion_compare},
      {Py_tp_hash, fusion_hash},
      {Py_tp_methods, methods},
      {Py_tp_getset, attributes},
      {Py_tp_members, members},
      {Py_tp_doc, (void *)PyDoc_STR("Fusion()\n--\n\nA program of tensor operations: inputs, operations, outputs.")},
      {0, NULL},
  };
  PyType_Spec spec = {
      .name = "nvfuser_go.Fusion", .basicsize = sizeof(FusionObject), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
  fusion_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return fusion_type ? PyModule_AddType(module, fusion_type) : -1;
}
