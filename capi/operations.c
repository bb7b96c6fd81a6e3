/* The module nvfuser_go.ops: one function for each row of the op table. */
#include "extension.h"

#include <string.h>

/* Python shows the owner of a built-in function only if it is not a module. So
 * the function of each operation is owned by a module object of its own, which
 * carries the number of the operation. */
static struct PyModuleDef owner = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "nvfuser_go.ops",
    .m_size = sizeof(int32_t),
};

static const nvfi_op *rows;
static int32_t num_rows;

/* ---- The current fusion of a thread ---- */

/* The list of fusions being defined, innermost last: borrowed; NULL if there is
 * none and create is 0, or with an exception. */
static PyObject *current_fusions(int create) {
  static PyObject *key;
  PyObject *thread = PyThreadState_GetDict();
  if (!thread) return NULL;
  if (!key && !(key = PyUnicode_InternFromString("nvfuser_go.current_fusions"))) return NULL;
  PyObject *list = PyDict_GetItemWithError(thread, key);
  if (list || PyErr_Occurred() || !create) return list;
  if (!(list = PyList_New(0))) return NULL;
  int failed = PyDict_SetItem(thread, key, list);
  Py_DECREF(list); /* the dict has it */
  return failed ? NULL : list;
}

static int check_fusion(const char *function, PyObject *const *args, Py_ssize_t nargs) {
  if (!check_count(function, nargs, 1, 1)) return 0;
  if (PyObject_TypeCheck(args[0], fusion_type)) return 1;
  PyErr_Format(PyExc_TypeError, "%s() takes a Fusion, got %R", function, args[0]);
  return 0;
}

PyObject *push_fusion(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  if (!check_fusion("push_fusion", args, nargs)) return NULL;
  PyObject *list = current_fusions(1);
  if (!list || PyList_Append(list, args[0])) return NULL;
  Py_RETURN_NONE;
}

/* Removes the innermost entry of the fusion: generators may leave their `with`
 * blocks in any order. */
PyObject *pop_fusion(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  if (!check_fusion("pop_fusion", args, nargs)) return NULL;
  PyObject *list = current_fusions(0);
  if (PyErr_Occurred()) return NULL;
  for (Py_ssize_t i = list ? PyList_Size(list) : 0; i-- > 0;)
    if (PyList_GetItem(list, i) == args[0]) {
      if (PySequence_DelItem(list, i)) return NULL;
      break;
    }
  Py_RETURN_NONE;
}

FusionObject *current_fusion(const char *operation) {
  PyObject *list = current_fusions(0);
  Py_ssize_t n = list ? PyList_Size(list) : 0;
  if (n == 0) {
    if (!PyErr_Occurred())
      PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
                   "%s(): no operand belongs to a fusion and none is being defined: call it inside `with FusionDefinition() as fd:`",
                   operation);
    return NULL;
  }
  PyObject *fusion = PyList_GetItem(list, n - 1);
  Py_INCREF(fusion);
  return (FusionObject *)fusion;
}

/* ---- Calls ---- */

enum { FEW = 8 }; /* arguments on the stack */

typedef struct {
  nvf_value few_values[FEW], *values;
  const char *few_keywords[FEW], **keywords;
  void *memory;
} Call;

static int allocate(Call *call, Py_ssize_t n) {
  call->values = call->few_values;
  call->keywords = call->few_keywords;
  call->memory = NULL;
  if (n <= FEW) return 0;
  if (n > INT32_MAX) return PyErr_NoMemory(), -1;
  call->memory = PyMem_Malloc((size_t)n * (sizeof(nvf_value) + sizeof(char *)));
  if (!call->memory) return PyErr_NoMemory(), -1;
  call->values = call->memory;
  call->keywords = (const char **)(call->values + n);
  return 0;
}

static PyObject *results_of(int32_t op, FusionObject *fusion, const nvf_value *results, int32_t n) {
  if (nvfi_returns_list(op)) {
    PyObject *list = PyList_New(n);
    for (int32_t i = 0; list && i < n; i++) {
      PyObject *item = wrap_value(fusion, &results[i]);
      if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    return list;
  }
  if (n == 1) return wrap_value(fusion, &results[0]);
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; i++) {
    PyObject *item = wrap_value(fusion, &results[i]);
    if (!item || PyTuple_SetItem(tuple, i, item)) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *call_operation(int32_t op, const char *name, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  Py_ssize_t num_keywords = names ? PyTuple_Size(names) : 0;
  PyObject *result = NULL;
  Arguments a;
  Call call;
  if (PyErr_CheckSignals()) return NULL; /* see signals.c */
  arguments_begin(&a, name);
  if (allocate(&call, nargs + num_keywords)) return NULL;
  for (Py_ssize_t i = 0; i < nargs + num_keywords; i++)
    if (convert(&a, args[i], i, &call.values[i])) goto done;
  for (Py_ssize_t i = 0; i < num_keywords; i++)
    if (!(call.keywords[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL))) goto done;
  if (!a.fusion && !(a.fusion = current_fusion(name))) goto done;
  nvf_error error = {0};
  nvf_location location;
  nvf_value results[NVF_MAX_RESULTS];
  int32_t n = 0;
  current_location(&location); /* last: no Python code runs until Go has read the text */
  if (check(nvf_call(a.fusion->handle, op, call.values, (int32_t)nargs, call.keywords, (int32_t)num_keywords, &location, results, &n,
                     &error), &error))
    result = results_of(op, a.fusion, results, n);
done:
  PyMem_Free(call.memory);
  arguments_end(&a);
  return result;
}

PyObject *floor_divide(PyObject *x, PyObject *y) {
  Arguments a;
  nvf_value operands[2], result;
  nvf_location location;
  nvf_error error = {0};
  PyObject *made = NULL;
  if (!alive()) return NULL;
  arguments_begin(&a, "floor_divide");
  if (!convert(&a, x, 0, &operands[0]) && !convert(&a, y, 1, &operands[1])) {
    current_location(&location);
    if (check(nvfi_floor_divide(a.fusion->handle, operands, &location, &result, &error), &error)) made = wrap_value(a.fusion, &result);
  }
  arguments_end(&a);
  return made;
}

static PyObject *operation(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  if (!alive()) return NULL;
  int32_t op = *(int32_t *)PyModule_GetState(self);
  return call_operation(op, rows[op].name, args, nargs, names);
}

/* ---- The module ---- */

int add_operations(PyObject *module) {
  static PyMethodDef *methods; /* functions refer to them as long as they live */
  rows = nvfi_ops(&num_rows);
  if (!methods && !(methods = PyMem_Calloc((size_t)num_rows, sizeof *methods))) return PyErr_NoMemory(), -1;
  PyObject *ops = PyModule_New("nvfuser_go.ops");
  PyObject *module_name = PyUnicode_FromString("nvfuser_go.ops");
  int failed = !ops || !module_name || PyModule_SetDocString(ops, "The operations of a fusion.");
  for (int32_t i = 0; !failed && i < num_rows; i++) {
    methods[i] = (PyMethodDef){rows[i].name, AS_FUNCTION(operation), METH_FASTCALL | METH_KEYWORDS, rows[i].doc};
    PyObject *self = PyModule_Create(&owner);
    if (self) *(int32_t *)PyModule_GetState(self) = i;
    PyObject *function = self ? PyCFunction_NewEx(&methods[i], self, module_name) : NULL;
    failed = !function || PyObject_SetAttrString(ops, rows[i].name, function);
    Py_XDECREF(function);
    Py_XDECREF(self);
  }
  failed = failed || PyObject_SetAttrString(module, "ops", ops);
  Py_XDECREF(module_name);
  Py_XDECREF(ops);
  return failed ? -1 : 0;
}
