/* Scheduling by hand: calls of primitives by name. */
#include "extension.h"

#include <string.h>

enum { FEW = 8 }; /* arguments on the stack */

/* What a call gives in Python: a tensor or a tuple of tensors, a list of lines, or
 * None. */
static PyObject *outcome(FusionObject *fusion, const nvf_value *results, int32_t n, const char *refusals) {
  if (n == 1) return wrap_value(fusion, &results[0]);
  if (n == 0 && !refusals) Py_RETURN_NONE;
  if (n == 0) {
    PyObject *text = PyUnicode_FromString(refusals);
    PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
    Py_XDECREF(text);
    return lines;
  }
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; i++) {
    PyObject *item = wrap_value(fusion, &results[i]);
    if (!item || PyTuple_SetItem(tuple, i, item)) Py_CLEAR(tuple);
  }
  return tuple;
}

/* schedule(name, *args, **kwargs) */
PyObject *schedule_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  (void)module;
  if (!alive()) return NULL;
  if (nargs < 1 || !PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "schedule() takes the name of a primitive first");
  const char *name = PyUnicode_AsUTF8AndSize(args[0], NULL);
  if (!name) return NULL;
  args++, nargs--;
  Py_ssize_t num_keywords = names ? PyTuple_Size(names) : 0, n = nargs + num_keywords;
  nvf_value few[FEW], *values = few;
  const char *few_keywords[FEW], **keywords = few_keywords;
  if (n > FEW) {
    values = PyMem_Malloc((size_t)n * (sizeof *values + sizeof *keywords));
    if (!values) return PyErr_NoMemory();
    keywords = (const char **)(values + n);
  }
  PyObject *result = NULL;
  Arguments a;
  arguments_begin(&a, name);
  a.names = 1;
  for (Py_ssize_t i = 0; i < n; i++)
    if (convert(&a, args[i], i, &values[i])) goto done;
  for (Py_ssize_t i = 0; i < num_keywords; i++)
    if (!(keywords[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL))) goto done;
  if (!a.fusion && !(a.fusion = current_fusion(name))) goto done;
  nvf_error error = {0};
  nvf_value results[NVF_MAX_RESULTS];
  int32_t count = 0;
  char *refusals = NULL;
  int status;
  FusionObject *fusion = a.fusion;
  /* Inlining a large fusion takes a while. What values points to is kept by a. */
  Py_BEGIN_ALLOW_THREADS;
  status = nvf_schedule(fusion->handle, name, values, (int32_t)nargs, keywords, (int32_t)num_keywords, results, &count, &refusals, &error);
  Py_END_ALLOW_THREADS;
  if (check(status, &error)) result = outcome(fusion, results, count, refusals);
  nvf_free(refusals);
done:
  if (values != few) PyMem_Free(values);
  arguments_end(&a);
  return result;
}

PyObject *primitive_table(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  return check_count("primitive_table", nargs, 0, 0) ? PyUnicode_FromString(nvf_primitive_table()) : NULL;
}
