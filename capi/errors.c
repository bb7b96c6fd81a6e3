/* Exceptions of the extension module. */
#include "extension.h"

PyObject *fusion_error, *invalid_argument, *invalid_type, *unsupported;

int check_count(const char *function, Py_ssize_t nargs, Py_ssize_t least, Py_ssize_t most) {
  if (nargs >= least && nargs <= most) return 1;
  if (most == 0)
    PyErr_Format(PyExc_TypeError, "%s() takes no arguments (%zd given)", function, nargs);
  else if (least == most)
    PyErr_Format(PyExc_TypeError, "%s() takes %zd argument%s (%zd given)", function, most, most == 1 ? "" : "s", nargs);
  else
    PyErr_Format(PyExc_TypeError, "%s() takes from %zd to %zd arguments (%zd given)", function, least, most, nargs);
  return 0;
}

PyObject *set_exceptions(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module;
  PyObject **const globals[] = {&fusion_error, &invalid_argument, &invalid_type, &unsupported};
  if (!check_count("set_exceptions", nargs, 4, 4)) return NULL;
  for (int i = 0; i < 4; i++)
    if (!PyExceptionClass_Check(args[i])) return PyErr_Format(PyExc_TypeError, "set_exceptions() takes exception classes, got %R", args[i]);
  for (int i = 0; i < 4; i++) {
    PyObject *old = *globals[i];
    Py_INCREF(args[i]);
    *globals[i] = args[i];
    Py_XDECREF(old);
  }
  Py_RETURN_NONE;
}

static PyObject *or_builtin(PyObject *registered, PyObject *builtin) { return registered ? registered : builtin; }

int alive(void) {
  if (!nvf_forked()) return 1;
  PyErr_SetString(or_builtin(fusion_error, PyExc_RuntimeError),
                  "nvfuser_go cannot be used in a process that was forked after it was imported: start worker processes "
                  "with the 'spawn' method, such as multiprocessing.get_context(\"spawn\")");
  return 0;
}

/* A list of (by, rule, tensor, sentence). */
static PyObject *refusals(const nvf_error *error) {
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < error->num_refusals; i++) {
    const nvf_refusal *r = &error->refusals[i];
    PyObject *item = Py_BuildValue("(ssss)", r->by, r->rule, r->tensor, r->sentence);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject *raise_error(nvf_error *error) {
  PyObject *class = or_builtin(fusion_error, PyExc_RuntimeError);
  switch (error->status) {
  case NVF_INVALID_ARGUMENT: class = or_builtin(invalid_argument, PyExc_ValueError); break;
  case NVF_INVALID_TYPE: class = or_builtin(invalid_type, PyExc_TypeError); break;
  case NVF_UNSUPPORTED: class = or_builtin(unsupported, PyExc_NotImplementedError); break;
  default: break;
  }
  PyObject *text = PyUnicode_FromString(error->text ? error->text : "unknown error");
  PyObject *list = text && error->status == NVF_UNSUPPORTED ? refusals(error) : NULL; /* NULL ends the arguments */
  PyObject *exception = text && !PyErr_Occurred() ? PyObject_CallFunctionObjArgs(class, text, list, NULL) : NULL;
  if (exception) PyErr_SetObject(class, exception);
  Py_XDECREF(exception);
  Py_XDECREF(list);
  Py_XDECREF(text);
  nvf_error_clear(error);
  return NULL;
}

int check(int status, nvf_error *error) {
  if (status == NVF_OK) return 1;
  raise_error(error);
  return 0;
}
