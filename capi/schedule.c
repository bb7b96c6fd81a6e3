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

/* ---- Graphs ---- */

static int two_axes(const char *function, PyObject *const *args, Py_ssize_t nargs, Arguments *a, uint64_t *graph, nvf_value *axes) {
  int64_t handle;
  arguments_begin(a, function);
  if (!alive() || !check_count(function, nargs, 3, 3) || as_int64(args[0], function, "graph", &handle)) return 0;
  *graph = (uint64_t)handle;
  return !convert(a, args[1], 0, &axes[0]) && !convert(a, args[2], 1, &axes[1]);
}

/* graph(fusion, mode) */
PyObject *make_graph(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  nvfi_graph graph;
  if (!alive() || !check_count("graph", nargs, 2, 2)) return NULL;
  if (!PyObject_TypeCheck(args[0], fusion_type) || !PyUnicode_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "graph() takes a Fusion and a str, got %R and %R", args[0], args[1]);
  const char *mode = PyUnicode_AsUTF8AndSize(args[1], NULL);
  if (!mode) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS;
  status = nvfi_graph_create(((FusionObject *)args[0])->handle, mode, &graph, &error);
  Py_END_ALLOW_THREADS;
  return check(status, &error) ? PyLong_FromLongLong((long long)graph) : NULL;
}

PyObject *graph_mapped(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  Arguments a;
  nvf_value axes[2];
  uint64_t graph;
  int32_t mapped = 0;
  int ok = two_axes("graph_mapped", args, nargs, &a, &graph, axes) && check(nvfi_graph_mapped(graph, &axes[0], &axes[1], &mapped, &error), &error);
  arguments_end(&a);
  return ok ? PyBool_FromLong(mapped) : NULL;
}

PyObject *graph_join(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  nvf_error error = {0};
  Arguments a;
  nvf_value axes[2];
  uint64_t graph;
  int ok = two_axes("graph_join", args, nargs, &a, &graph, axes) && check(nvfi_graph_join(graph, &axes[0], &axes[1], &error), &error);
  arguments_end(&a);
  if (!ok) return NULL;
  Py_RETURN_NONE;
}

PyObject *graph_release(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  int64_t graph;
  if (!check_count("graph_release", nargs, 1, 1) || as_int64(args[0], "graph_release", "graph", &graph)) return NULL;
  if (!nvf_forked()) nvfi_graph_destroy((nvfi_graph)graph);
  Py_RETURN_NONE;
}

PyObject *schedulers(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)args;
  nvf_error error = {0};
  char *text = NULL;
  if (!alive() || !check_count("schedulers", nargs, 0, 0) || !check(nvfi_schedulers(&text, &error), &error)) return NULL;
  PyObject *names = PyUnicode_FromString(text), *list = names ? PyUnicode_Splitlines(names, 0) : NULL;
  Py_XDECREF(names);
  nvf_free(text);
  return list;
}
