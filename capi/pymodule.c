/* The CPython extension module nvfuser_go._C. */
#include "weak_python.h"

#include "nvfuser_go.h"

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

/* METH_FASTCALL functions have another type than PyCFunction; the detour over
 * void (*)(void) is the conversion that gcc accepts without a warning. */
#define FAST(name) (PyCFunction)(void (*)(void))(name), METH_FASTCALL

static PyMethodDef functions[] = {
    {"version", FAST(version), PyDoc_STR("version() -> str\n\nThe version of the library, such as \"0.1.0\".")},
    {"forked", FAST(forked),
     PyDoc_STR("forked() -> bool\n\nWhether this process was forked after the library was loaded.")},
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

PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&definition); }
