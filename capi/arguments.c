/* Python objects as the tagged values that Go reads.
 *
 * Conversion may run Python code (__index__ of a user's class), which may change
 * the lists being converted, delete fusions and call operations. So lists are
 * read from a snapshot, the fusion of the first value is held, and nothing is
 * kept in static variables meanwhile. */
#include "extension.h"

#include <string.h>

/* Memory of one list or text, or an object to release, in a chain. */
struct block {
  struct block *next;
  PyObject *object;
  nvf_value items[];
};

/* Deeper lists are no argument of any operation; a list may contain itself. */
enum { MAX_DEPTH = 4 };

enum { MAX_DTYPES = 64 };
static PyObject *dtype_members[MAX_DTYPES], *torch_dtypes[MAX_DTYPES];
static Py_ssize_t num_dtypes;

static PyObject *type_error(void) { return invalid_type ? invalid_type : PyExc_TypeError; }
static PyObject *value_error(void) { return invalid_argument ? invalid_argument : PyExc_ValueError; }

/* ---- Element types ---- */

PyObject *set_dtypes(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  if (!check_count("set_dtypes", nargs, 2, 2)) return NULL;
  for (int k = 0; k < 2; k++)
    if (!PyTuple_Check(args[k]) || PyTuple_Size(args[k]) != PyTuple_Size(args[0]) || PyTuple_Size(args[k]) > MAX_DTYPES)
      return PyErr_Format(PyExc_TypeError, "set_dtypes() takes two tuples of one length, of at most %d", MAX_DTYPES);
  num_dtypes = PyTuple_Size(args[0]);
  for (Py_ssize_t i = 0; i < num_dtypes; i++) {
    PyObject *member = PyTuple_GetItem(args[0], i), *torch = PyTuple_GetItem(args[1], i);
    Py_INCREF(member);
    Py_INCREF(torch);
    dtype_members[i] = member; /* what was there stays alive: registration happens once */
    torch_dtypes[i] = torch;
  }
  Py_RETURN_NONE;
}

PyObject *dtype_member(int64_t dtype) {
  if (dtype < 0 || dtype >= num_dtypes) return PyLong_FromLongLong(dtype);
  Py_INCREF(dtype_members[dtype]);
  return dtype_members[dtype];
}

PyObject *torch_dtype(int64_t dtype) {
  if (dtype >= 0 && dtype < num_dtypes && torch_dtypes[dtype] != Py_None) return torch_dtypes[dtype];
  PyErr_Format(type_error(), "torch has no dtype for element type %lld", (long long)dtype);
  return NULL;
}

static int index_in(PyObject *const *list, PyObject *object) {
  for (Py_ssize_t i = 0; i < num_dtypes; i++)
    if (list[i] == object && object != Py_None) return (int)i;
  return -1;
}

int dtype_of_torch(PyObject *torch) { return index_in(torch_dtypes, torch); }

/* ---- Memory ---- */

void arguments_begin(Arguments *a, const char *function) { *a = (Arguments){.function = function, .noun = "argument", .first = 1}; }

void arguments_end(Arguments *a) {
  while (a->blocks) {
    struct block *block = a->blocks;
    a->blocks = block->next;
    PyObject *object = block->object;
    PyMem_Free(block);
    Py_XDECREF(object);
  }
  Py_CLEAR(a->fusion);
}

/* Takes over the reference to object, also on failure. */
static struct block *new_block(Arguments *a, PyObject *object, size_t items) {
  struct block *block = NULL;
  if (items <= (PY_SSIZE_T_MAX - sizeof *block) / sizeof(nvf_value)) block = PyMem_Malloc(sizeof *block + items * sizeof(nvf_value));
  if (!block) {
    Py_XDECREF(object);
    return (struct block *)PyErr_NoMemory();
  }
  block->next = a->blocks;
  block->object = object;
  a->blocks = block;
  return block;
}

/* ---- Numbers ---- */

/* The text of an int may have too many digits for Python to print. */
static int out_of_range(const char *function, const char *argument, PyObject *number) {
  PyObject *text = PyObject_Str(number);
  if (!text) {
    PyErr_Clear();
    text = PyUnicode_FromString("an int of thousands of digits");
  }
  if (text) PyErr_Format(value_error(), "%s(): %s is %U, which does not fit in 64 bits", function, argument, text);
  Py_XDECREF(text);
  return -1;
}

int as_int64(PyObject *object, const char *function, const char *argument, int64_t *out) {
  PyObject *number = !PyBool_Check(object) && PyIndex_Check(object) ? PyNumber_Index(object) : NULL;
  if (!number) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear();
    PyErr_Format(type_error(), "%s(): %s must be an int, got %R", function, argument, object);
    return -1;
  }
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) out_of_range(function, argument, number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

static int convert_int(Arguments *a, PyObject *object, Py_ssize_t position, nvf_value *out) {
  int overflow;
  out->kind = NVF_KIND_INT;
  out->integer = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (!overflow) return out->integer == -1 && PyErr_Occurred() ? -1 : 0;
  if (overflow > 0) {
    out->kind = NVF_KIND_UINT;
    out->integer = (int64_t)PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
  }
  char argument[40];
  PyOS_snprintf(argument, sizeof argument, "%s %zd", a->noun, position + a->first);
  return out_of_range(a->function, argument, object);
}

/* ---- Other objects ---- */

static int module_is(PyTypeObject *type, const char *module) {
  PyObject *name = PyObject_GetAttrString((PyObject *)type, "__module__");
  int same = name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, module) == 0;
  Py_XDECREF(name);
  PyErr_Clear();
  return same;
}

static int is_named(PyTypeObject *type, const char *module, const char *name) {
  PyObject *own = PyType_GetName(type);
  int same = own && PyUnicode_CompareWithASCIIString(own, name) == 0;
  Py_XDECREF(own);
  PyErr_Clear();
  return same && module_is(type, module);
}

/* Whether the object's type or a base of it is module.name. */
static int derives_from(PyObject *object, const char *module, const char *name) {
  PyObject *order = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__mro__");
  int found = 0;
  for (Py_ssize_t i = 0; order && !found && i < PyTuple_Size(order); i++)
    found = is_named((PyTypeObject *)PyTuple_GetItem(order, i), module, name);
  Py_XDECREF(order);
  PyErr_Clear();
  return found;
}

static int is_plain_other(PyObject *object) {
  return PyUnicode_Check(object) || PyBytes_Check(object) || object == Py_None || PyList_Check(object) || PyTuple_Check(object) ||
         PyDict_Check(object);
}

int is_never_operand(PyObject *object) { return is_plain_other(object) || foreign_advice(object) != NULL; }

const char *foreign_advice(PyObject *object) {
  if (is_plain_other(object)) return NULL;
  if (derives_from(object, "torch", "Tensor"))
    return "a torch.Tensor: define it as an input with fd.from_pytorch(tensor), and pass the tensor to fd.execute";
  if (derives_from(object, "numpy", "ndarray"))
    return "a numpy.ndarray: define it as an input with fd.define_tensor, and pass the array to fd.execute";
  return NULL;
}

static int has_slot(PyObject *object, int slot) { return PyType_GetSlot(Py_TYPE(object), slot) != NULL; }

/* numpy's bool, which __index__ does not describe. */
static int is_numpy_bool(PyObject *object) {
  return is_named(Py_TYPE(object), "numpy", "bool") || is_named(Py_TYPE(object), "numpy", "bool_");
}

int is_operand(PyObject *object) {
  if (is_val(object) || PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object)) return 1;
  if (foreign_advice(object)) return 0;
  return has_slot(object, Py_nb_index) || has_slot(object, Py_nb_float) || is_numpy_bool(object);
}

/* The text is kept in a block, as other threads may run while Go reads it. */
static int convert_name(Arguments *a, PyObject *object, nvf_value *out) {
  Py_INCREF(object);
  struct block *block = new_block(a, object, 0);
  if (!block || !(out->text = PyUnicode_AsUTF8AndSize(object, NULL))) return -1;
  out->kind = NVF_KIND_NAME;
  return 0;
}

static int convert_other(Arguments *a, PyObject *object, nvf_value *out) {
  const char *advice = foreign_advice(object);
  struct block *block = new_block(a, advice ? NULL : PyType_GetQualName(Py_TYPE(object)), 0);
  if (!block) return -1;
  if (!advice) advice = block->object ? PyUnicode_AsUTF8AndSize(block->object, NULL) : NULL;
  if (!advice) return -1;
  out->kind = NVF_KIND_OTHER;
  out->text = advice;
  return 0;
}

/* Numbers of other packages, by the methods that Python converts them with. An
 * object whose method says TypeError is not a number (an array of several
 * elements). */
static int convert_number_like(Arguments *a, PyObject *object, Py_ssize_t position, nvf_value *out) {
  if (is_numpy_bool(object)) {
    int truth = PyObject_IsTrue(object);
    out->kind = NVF_KIND_BOOL;
    out->integer = truth;
    return truth < 0 ? -1 : 0;
  }
  if (has_slot(object, Py_nb_index)) {
    PyObject *number = PyNumber_Index(object);
    if (number) {
      int status = convert_int(a, number, position, out);
      Py_DECREF(number);
      return status;
    }
  } else if (derives_from(object, "numpy", "complexfloating")) {
    PyObject *number = PyObject_CallMethod(object, "__complex__", NULL);
    if (number && PyComplex_Check(number)) {
      out->kind = NVF_KIND_COMPLEX;
      out->real = PyComplex_RealAsDouble(number);
      out->imag = PyComplex_ImagAsDouble(number);
      Py_DECREF(number);
      return PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(number);
  } else if (has_slot(object, Py_nb_float)) {
    PyObject *number = PyNumber_Float(object);
    if (number) {
      out->kind = NVF_KIND_FLOAT;
      out->real = PyFloat_AsDouble(number);
      Py_DECREF(number);
      return PyErr_Occurred() ? -1 : 0;
    }
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear();
  }
  return convert_other(a, object, out);
}

/* ---- Any object ---- */

static int convert_at(Arguments *a, PyObject *object, Py_ssize_t position, int depth, nvf_value *out);

static int convert_list(Arguments *a, PyObject *object, Py_ssize_t position, int depth, nvf_value *out) {
  if (depth == MAX_DEPTH) {
    out->kind = NVF_KIND_OTHER;
    out->text = "a list nested too deeply";
    return 0;
  }
  PyObject *snapshot = PySequence_Tuple(object);
  if (!snapshot) return -1;
  Py_ssize_t n = PyTuple_Size(snapshot);
  if (n > NVF_MAX_ITEMS) {
    Py_DECREF(snapshot);
    PyErr_Format(value_error(), "%s(): %s %zd has a list of %zd items; at most %d are supported", a->function, a->noun,
                 position + a->first, n, NVF_MAX_ITEMS);
    return -1;
  }
  struct block *block = new_block(a, snapshot, (size_t)n);
  if (!block) return -1;
  for (Py_ssize_t i = 0; i < n; i++)
    if (convert_at(a, PyTuple_GetItem(snapshot, i), position, depth + 1, &block->items[i])) return -1;
  out->kind = NVF_KIND_LIST;
  out->integer = n;
  out->items = block->items;
  return 0;
}

static int convert_at(Arguments *a, PyObject *object, Py_ssize_t position, int depth, nvf_value *out) {
  *out = (nvf_value){0};
  if (is_val(object)) {
    PartObject *val = (PartObject *)object;
    if (!a->fusion) {
      Py_INCREF((PyObject *)val->fusion);
      a->fusion = val->fusion;
    }
    out->kind = Py_TYPE(object) == tensor_view_type ? NVF_KIND_TENSOR : NVF_KIND_SCALAR;
    out->id = val->id;
    out->fusion = val->fusion->handle;
    return 0;
  }
  if (Py_TYPE(object) == iter_domain_type) {
    PartObject *axis = (PartObject *)object;
    if (!a->fusion) {
      Py_INCREF((PyObject *)axis->fusion);
      a->fusion = axis->fusion;
    }
    out->kind = NVF_KIND_AXIS;
    out->id = axis->id;
    out->fusion = axis->fusion->handle;
    return 0;
  }
  if (object == Py_None) return 0;
  if (PyBool_Check(object)) {
    out->kind = NVF_KIND_BOOL;
    out->integer = object == Py_True;
    return 0;
  }
  int dtype = index_in(dtype_members, object);
  if (dtype >= 0) {
    out->kind = NVF_KIND_DTYPE;
    out->integer = dtype;
    return 0;
  }
  if (PyLong_Check(object)) return convert_int(a, object, position, out);
  if (PyFloat_Check(object)) {
    out->kind = NVF_KIND_FLOAT;
    out->real = PyFloat_AsDouble(object);
    return 0;
  }
  if (PyComplex_Check(object)) {
    out->kind = NVF_KIND_COMPLEX;
    out->real = PyComplex_RealAsDouble(object);
    out->imag = PyComplex_ImagAsDouble(object);
    return 0;
  }
  if (PyList_Check(object) || PyTuple_Check(object)) return convert_list(a, object, position, depth, out);
  dtype = dtype_of_torch(object);
  if (dtype >= 0) {
    out->kind = NVF_KIND_DTYPE;
    out->integer = dtype;
    return 0;
  }
  if (a->names && PyUnicode_Check(object)) return convert_name(a, object, out);
  if (PyUnicode_Check(object) || foreign_advice(object)) return convert_other(a, object, out);
  return convert_number_like(a, object, position, out);
}

int convert(Arguments *a, PyObject *object, Py_ssize_t position, nvf_value *out) {
  return convert_at(a, object, position, 0, out);
}
