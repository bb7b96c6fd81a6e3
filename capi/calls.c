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

/* What is kept of a call with its plan is a list, as its last item comes later, from
 * whichever thread is first: the callable; by argument, the view that is made here of
 * it, sizes, strides and offset, or None; and how torch is called without a frame of
 * Python (torch_direct.py), None if it is not, True if nobody has asked yet. */
enum { CALLABLE, VIEWS, DIRECT, KEPT };

static PyObject *none(void) {
  Py_INCREF(Py_None);
  return Py_None;
}

/* Whether the view of an argument is made here: it is of the type of the memory. */
static int is_seen_here(const nvfi_plan *plan, const nvfi_argument *a) {
  if (!torch.reinterpret || (a->from < 0 && !plan->like)) return 0;
  return (a->from < 0 ? plan->like[~a->from].dtype : plan->memories[a->from].dtype) == a->dtype;
}

/* The view of an argument. here: as it is made here, None if it is not; else as the
 * callable must know it, None if it is made here, or there is none. */
static PyObject *view_of(const nvfi_plan *plan, const nvfi_argument *a, int here) {
  if (a->kind != NVFI_VIEW || is_seen_here(plan, a) != here) return none();
  PyObject *dtype = torch_dtype(a->dtype), *sizes = dtype ? tuple_of(a->sizes, a->rank) : NULL, *strides = sizes ? tuple_of(a->strides, a->rank) : NULL;
  PyObject *view = NULL;
  if (strides && here) view = Py_BuildValue("(OOL)", sizes, strides, (long long)a->offset);
  else if (strides) view = Py_BuildValue("(OOOL)", dtype, sizes, strides, (long long)a->offset);
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  return view;
}

static PyObject *views_of(const nvfi_plan *plan, const nvfi_call *call, int here) {
  PyObject *views = PyTuple_New(call->num_arguments);
  for (int32_t i = 0; views && i < call->num_arguments; i++) {
    PyObject *view = view_of(plan, &call->arguments[i], here);
    if (!view || PyTuple_SetItem(views, i, view)) Py_CLEAR(views);
  }
  return views;
}

/* Whether all arguments of a call are made here, as a direct call needs them. */
static int may_be_direct(const nvfi_plan *plan, const nvfi_call *call) {
  for (int32_t i = 0; i < call->num_arguments; i++)
    if (call->arguments[i].kind == NVFI_VIEW && !is_seen_here(plan, &call->arguments[i])) return 0;
  return torch.reinterpret != NULL;
}

PyObject *new_call(const nvfi_plan *plan, int32_t number, PyObject *device) {
  const nvfi_call *call = &plan->calls[number];
  if (!prepare_call_hook) return PyErr_Format(PyExc_RuntimeError, "execute(): there is no hook for calls of torch");
  PyObject *here = views_of(plan, call, 1), *there = here ? views_of(plan, call, 0) : NULL;
  PyObject *callable = there ? PyObject_CallFunction(prepare_call_hook, "sOO", call->spec, there, device) : NULL;
  PyObject *kept = callable ? Py_BuildValue("[OOO]", callable, here, may_be_direct(plan, call) ? Py_True : Py_None) : NULL;
  Py_XDECREF(callable);
  Py_XDECREF(there);
  Py_XDECREF(here);
  return kept;
}

/* ---- Arguments ---- */

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

/* The tensor seen by sizes, strides and an offset; takes over its reference, which may be NULL. */
static PyObject *seen(PyObject *tensor, PyObject *sizes, PyObject *strides, PyObject *offset) {
  PyObject *view = tensor ? PyObject_CallFunctionObjArgs(torch.reinterpret, tensor, sizes, strides, offset, NULL) : NULL;
  Py_XDECREF(tensor);
  return view;
}

static PyObject *argument_of(Run *run, const nvfi_argument *a, PyObject *view) {
  if (a->kind == NVFI_NUMBER) return number(a, run->words + a->from);
  PyObject *tensor = tensor_of(run, a->from);
  return view == Py_None ? tensor : seen(tensor, PyTuple_GetItem(view, 0), PyTuple_GetItem(view, 1), PyTuple_GetItem(view, 2));
}

static PyObject *arguments_of(Run *run, const nvfi_call *call, PyObject *kept) {
  PyObject *views = PyList_GetItem(kept, VIEWS), *arguments = PyTuple_New(call->num_arguments);
  for (int32_t i = 0; arguments && i < call->num_arguments; i++) {
    PyObject *argument = argument_of(run, &call->arguments[i], PyTuple_GetItem(views, i));
    if (!argument || PyTuple_SetItem(arguments, i, argument)) Py_CLEAR(arguments);
  }
  return arguments;
}

/* ---- Results ---- */

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

/* ---- Direct calls ---- */

/* An argument of a direct call: the position of one of the call's; that with sizes and
 * strides, from where that begins; or a constant, in a tuple of one. */
static PyObject *direct_argument(Run *run, const nvfi_call *call, PyObject *kept, PyObject *item) {
  int is_view = !PyLong_Check(item);
  if (is_view && PyTuple_Size(item) == 1) {
    PyObject *constant = PyTuple_GetItem(item, 0);
    Py_XINCREF(constant);
    return constant;
  }
  Py_ssize_t position = PyLong_AsSsize_t(is_view ? PyTuple_GetItem(item, 0) : item);
  if (position < 0 || position >= call->num_arguments) return PyErr_Format(PyExc_SystemError, "a direct call for %s() takes argument %zd", call->name, position);
  PyObject *view = PyTuple_GetItem(PyList_GetItem(kept, VIEWS), position);
  if (!is_view) return argument_of(run, &call->arguments[position], view);
  PyObject *offset = view == Py_None ? PyLong_FromLong(0) : PyTuple_GetItem(view, 2);
  PyObject *tensor = seen(tensor_of(run, call->arguments[position].from), PyTuple_GetItem(item, 1), PyTuple_GetItem(item, 2), offset);
  if (view == Py_None) Py_DECREF(offset);
  return tensor;
}

/* Whether the elements of a tensor lie one after another. */
static int is_dense(const nvf_input *tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->sizes[i] != 1 && tensor->strides[i] != stride) return 0;
    stride *= tensor->sizes[i];
  }
  return 1;
}

static int64_t num_elements(const int64_t *sizes, int32_t rank) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= sizes[i];
  return n;
}

/* Takes a tensor as a result of a direct call. as: the sizes and strides by which it is
 * seen, or None. 1; 0 if it is not as asked; -1 with an exception. */
static int take_tensor(Run *run, const nvfi_result *r, PyObject *tensor, PyObject *as) {
  nvf_input read;
  int status = tensor_read(&run->in, tensor, &read);
  if (status == 1 && as != Py_None) {
    status = is_dense(&read) && num_elements(read.sizes, read.rank) == num_elements(r->sizes, r->rank);
    read.rank = r->rank;
    read.sizes = r->sizes;
    read.strides = r->strides;
  }
  if (status == 1) status = is_result(&run->plan->description, r, &read);
  if (status != 1) return status;
  Py_INCREF(tensor);
  if (as != Py_None) {
    PyObject *zero = PyLong_FromLong(0);
    tensor = seen(tensor, PyTuple_GetItem(as, 0), PyTuple_GetItem(as, 1), zero);
    Py_DECREF(zero);
    if (!tensor) return -1;
  }
  run_put(run, r->memory, tensor, read.data);
  return 1;
}

/* Takes what a direct call gave, a tuple or the one result that is read, all or nothing;
 * as take_tensor. views: how each result is seen. */
static int take_direct(Run *run, const nvfi_call *call, PyObject *given, PyObject *views) {
  int is_tuple = PyTuple_Check(given), status = 1, taken = 0, i = 0;
  if (is_tuple && PyTuple_Size(given) < call->num_results) return 0;
  for (; status == 1 && i < call->num_results; i++) {
    const nvfi_result *r = &call->results[i];
    if (r->memory < 0) continue;
    if (!is_tuple && taken++) status = 0;
    else status = take_tensor(run, r, is_tuple ? PyTuple_GetItem(given, i) : given, PyTuple_GetItem(views, i));
  }
  while (status != 1 && i-- > 0)
    if (call->results[i].memory >= 0) Py_CLEAR(run->tensors[call->results[i].memory]);
  return status;
}

/* direct: a function, its arguments, how results are seen, and the exceptions of torch.
 * As take_direct; torch's own exceptions are left to the callable, which words them. */
static int call_direct(Run *run, const nvfi_call *call, PyObject *kept, PyObject *direct) {
  PyObject *items = PyTuple_GetItem(direct, 1);
  Py_ssize_t count = PyTuple_Size(items);
  PyObject *arguments = PyTuple_New(count);
  for (Py_ssize_t i = 0; arguments && i < count; i++) {
    PyObject *argument = direct_argument(run, call, kept, PyTuple_GetItem(items, i));
    if (!argument || PyTuple_SetItem(arguments, i, argument)) Py_CLEAR(arguments);
  }
  if (!arguments) return -1;
  PyObject *result = PyObject_Call(PyTuple_GetItem(direct, 0), arguments, NULL);
  Py_DECREF(arguments);
  if (result) {
    int status = take_direct(run, call, result, PyTuple_GetItem(direct, 2));
    Py_DECREF(result);
    return status;
  }
  if ((torch.out_of_memory && PyErr_ExceptionMatches(torch.out_of_memory)) || !PyErr_ExceptionMatches(PyTuple_GetItem(direct, 3))) return -1;
  PyErr_Clear();
  return 0;
}

/* How torch is called directly, which the callable is asked for once: a new reference. */
static PyObject *direct_of(Run *run, const nvfi_call *call, PyObject *kept) {
  PyObject *direct = PyList_GetItem(kept, DIRECT);
  Py_INCREF(direct);
  if (direct != Py_True) return direct;
  Py_DECREF(direct);
  PyObject *arguments = arguments_of(run, call, kept);
  PyObject *ask = arguments ? PyObject_GetAttrString(PyList_GetItem(kept, CALLABLE), "direct") : NULL;
  if (arguments && !ask && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    direct = none();
  } else
    direct = ask ? PyObject_Call(ask, arguments, NULL) : NULL;
  Py_XDECREF(ask);
  Py_XDECREF(arguments);
  if (!direct) return NULL;
  Py_INCREF(direct);
  if (!PyList_SetItem(kept, DIRECT, direct)) return direct;
  Py_DECREF(direct);
  return NULL;
}

/* ---- Calls ---- */

enum { MODES_ARE_OFF = 1, HAD_GRADIENTS = 2, HAD_AUTOCAST = 4 };

static int set_gradients(int on) {
  PyObject *done = PyObject_CallFunctionObjArgs(torch.set_grad_enabled, on ? Py_True : Py_False, NULL);
  Py_XDECREF(done);
  return done != NULL;
}

static int set_autocast(const Run *run, int on) {
  PyObject *done = PyObject_CallFunctionObjArgs(torch.set_autocast_enabled, torch_kind(run->plan->description.device_type), on ? Py_True : Py_False, NULL);
  Py_XDECREF(done);
  return done != NULL;
}

/* Whether a mode of torch is on; -1 with an exception. */
static int mode_is_on(PyObject *answer) {
  int is = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return is;
}

/* What torch records of operations and into which types it casts their operands is the
 * program's business, and no part of what a fusion says. */
static int turn_modes_off(Run *run) {
  if (run->modes) return 1;
  int gradients = mode_is_on(PyObject_CallNoArgs(torch.is_grad_enabled));
  int autocast = gradients < 0 ? -1 : mode_is_on(PyObject_CallFunctionObjArgs(torch.is_autocast_enabled, torch_kind(run->plan->description.device_type), NULL));
  if (autocast < 0) return 0;
  run->modes = MODES_ARE_OFF;
  if (gradients && !set_gradients(0)) return 0;
  run->modes |= gradients ? HAD_GRADIENTS : 0;
  if (autocast && !set_autocast(run, 0)) return 0;
  run->modes |= autocast ? HAD_AUTOCAST : 0;
  return 1;
}

int calls_end(Run *run) {
  PyObject *type, *value, *traceback;
  int ok = 1, modes = run->modes;
  run->modes = 0;
  if (!(modes & (HAD_GRADIENTS | HAD_AUTOCAST))) return 1;
  PyErr_Fetch(&type, &value, &traceback);
  if (modes & HAD_GRADIENTS) ok = set_gradients(1);
  if (modes & HAD_AUTOCAST) ok = set_autocast(run, 1) && ok;
  if (type) PyErr_Restore(type, value, traceback); /* in place of what those raised */
  return ok;
}

static int call_callable(Run *run, const nvfi_call *call, PyObject *kept) {
  PyObject *arguments = arguments_of(run, call, kept);
  PyObject *results = arguments ? PyObject_Call(PyList_GetItem(kept, CALLABLE), arguments, NULL) : NULL;
  Py_XDECREF(arguments);
  int ok = results && take(run, call, results);
  Py_XDECREF(results);
  return ok;
}

int call_torch(Run *run, int32_t number) {
  const nvfi_call *call = &run->plan->calls[number];
  PyObject *kept = kept_call(run->plan, number), *direct = kept && turn_modes_off(run) ? direct_of(run, call, kept) : NULL;
  if (!direct) return 0;
  Py_ssize_t used = run->in.used;
  int status = direct == Py_None ? 0 : call_direct(run, call, kept, direct), is_by_callable = !status;
  if (is_by_callable) status = call_callable(run, call, kept) ? 1 : -1;
  /* What torch did not do, or gave otherwise, it will not do the next time. */
  if (is_by_callable && status > 0 && direct != Py_None && PyList_SetItem(kept, DIRECT, none())) status = -1;
  Py_DECREF(direct);
  run->in.used = used; /* results need not be read again */
  return status > 0;
}
