/* Calls of torch between launches. The package makes a callable of what the plan
 * says of a call; it is made once, and kept with the plan. */
#include "extension.h"

#include <string.h>

static PyObject *prepare_call_hook;

void set_prepare_call(PyObject *hook) {
  PyObject *old = prepare_call_hook;
  Py_INCREF(hook);
  prepare_call_hook = hook;
  Py_XDECREF(old);
}

/* What the callable must know of an argument: None, or how a tensor is seen. */
static PyObject *view_of(const nvfi_argument *a) {
  if (a->kind != NVFI_VIEW) {
    Py_INCREF(Py_None);
    return Py_None;
  }
  PyObject *dtype = torch_dtype(a->dtype), *sizes = dtype ? tuple_of(a->sizes, a->rank) : NULL, *strides = sizes ? tuple_of(a->strides, a->rank) : NULL;
  PyObject *view = strides ? Py_BuildValue("(OOOL)", dtype, sizes, strides, (long long)a->offset) : NULL;
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  return view;
}

PyObject *new_callable(const nvfi_call *call, PyObject *device) {
  if (!prepare_call_hook) return PyErr_Format(PyExc_RuntimeError, "execute(): there is no hook for calls of torch");
  PyObject *views = PyTuple_New(call->num_arguments);
  for (int32_t i = 0; views && i < call->num_arguments; i++) {
    PyObject *view = view_of(&call->arguments[i]);
    if (!view || PyTuple_SetItem(views, i, view)) Py_CLEAR(views);
  }
  PyObject *callable = views ? PyObject_CallFunction(prepare_call_hook, "sOO", call->spec, views, device) : NULL;
  Py_XDECREF(views);
  return callable;
}

static PyObject *number(const nvfi_argument *a, const uint64_t *words) {
  double parts[2];
  switch (a->dtype) {
  case NVF_BOOL: return PyBool_FromLong(words[0] & 1);
  case NVF_INT: return PyLong_FromLongLong((int64_t)words[0]);
  case NVF_UINT64: return PyLong_FromUnsignedLongLong(words[0]);
  case NVF_DOUBLE: memcpy(parts, words, sizeof *parts); return PyFloat_FromDouble(*parts);
  case NVF_COMPLEX_DOUBLE: memcpy(parts, words, sizeof parts); return PyComplex_FromDoubles(parts[0], parts[1]);
  }
  return PyErr_Format(PyExc_SystemError, "a number of dtype %d", (int)a->dtype);
}

/* The tensor that an input was read from: not the one that was given, if that was a
 * conjugate or negative view. */
static PyObject *input_of(Run *run, int32_t position) {
  PyObject *tensor = run->in.objects[position];
  if (run->in.resolved) {
    PyObject *key = PyLong_FromLong(position), *plain = key ? PyDict_GetItemWithError(run->in.resolved, key) : NULL;
    Py_XDECREF(key);
    if (plain) tensor = plain;
    else if (PyErr_Occurred()) return NULL;
  }
  Py_INCREF(tensor);
  return tensor;
}

PyObject *tensor_of(Run *run, int32_t from) {
  if (from < 0) return input_of(run, ~from);
  PyObject *tensor = run->tensors[from];
  if (!tensor) return PyErr_Format(PyExc_SystemError, "memory %d of a run is used and is not there", (int)from);
  Py_INCREF(tensor);
  return tensor;
}

static PyObject *argument_of(Run *run, const nvfi_argument *a) {
  return a->kind == NVFI_NUMBER ? number(a, run->words + a->from) : tensor_of(run, a->from);
}

/* Whether a tensor that was read is as a result must be. */
static int is_result(const nvf_plan_description *d, const nvfi_result *r, const nvf_input *tensor) {
  if (tensor->dtype != r->dtype || tensor->device_type != d->device_type || tensor->rank != r->rank) return 0;
  if (d->device_type == NVF_CUDA && (tensor->device_index != d->device_index || (uintptr_t)tensor->data % 16)) return 0;
  int is_empty = 0;
  for (int32_t i = 0; i < r->rank; i++) {
    if (tensor->sizes[i] != r->sizes[i]) return 0;
    is_empty |= r->sizes[i] == 0;
  }
  for (int32_t i = 0; i < r->rank; i++)
    if (!is_empty && r->sizes[i] > 1 && tensor->strides[i] != r->strides[i]) return 0;
  return is_empty || tensor->data != NULL;
}

static int take(Run *run, const nvfi_call *call, PyObject *results) {
  if (!PyTuple_Check(results) || PyTuple_Size(results) != call->num_results) {
    PyErr_Format(PyExc_SystemError, "the call for %s() must return a tuple of %d, got %R", call->name, (int)call->num_results, results);
    return 0;
  }
  for (int32_t i = 0; i < call->num_results; i++) {
    const nvfi_result *r = &call->results[i];
    if (r->memory < 0) continue;
    PyObject *tensor = PyTuple_GetItem(results, i);
    nvf_input read;
    int status = tensor_read(&run->in, tensor, &read);
    if (status < 0) return 0;
    if (!status || !is_result(&run->plan->description, r, &read)) {
      PyErr_Format(fusion_error ? fusion_error : PyExc_RuntimeError,
                   "execute(): torch gave for %s(), as result %d, a %R that is not the tensor that was asked for; fusions do not run under "
                   "FakeTensorMode or another mode that replaces tensors",
                   call->name, (int)i, (PyObject *)Py_TYPE(tensor));
      return 0;
    }
    Py_INCREF(tensor);
    run_put(run, r->memory, tensor, read.data);
  }
  return 1;
}

int call_torch(Run *run, int32_t number) {
  const nvfi_call *call = &run->plan->calls[number];
  PyObject *callable = callable_of(run->plan, number), *arguments = callable ? PyTuple_New(call->num_arguments) : NULL;
  for (int32_t i = 0; arguments && i < call->num_arguments; i++) {
    PyObject *argument = argument_of(run, &call->arguments[i]);
    if (!argument || PyTuple_SetItem(arguments, i, argument)) Py_CLEAR(arguments);
  }
  PyObject *results = arguments ? PyObject_Call(callable, arguments, NULL) : NULL;
  Py_XDECREF(arguments);
  int ok = results && take(run, call, results);
  Py_XDECREF(results);
  return ok;
}
